"""The search for the coarsest inputs with which a model keeps a share of its accuracy, under the requirements of a policy.

Top-down specialization on the predictions of the model grows the trees of values. From the finest cut of these trees, values
are generalized again, one after another: most information loss per lost accuracy first, and those that cost no accuracy before
all others. If the last cut fails a requirement, specialization under the requirements searches once more, within cuts of that
path: columns that do not matter to the model then no longer divide the groups.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal import threads
from shoal.arrays import FloatArray, Int32Array, Int64Array, UInt64Array
from shoal.encoding.codes import Codes
from shoal.models.replaced_inputs import ReplacedInputs
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import AttributeCut
from shoal.requirements import KAnonymity
from shoal.specialization.attribute_sets import SuppressionAllowance
from shoal.specialization.search import Search
from shoal.specialization.trees import SpecializationTrees

SEARCHED = 20_000  # records on which the search rates its steps; the result is tested on all records
LIMITS = (1.0, 0.75, 0.5, 0.25, 0.0)  # shares of the path of generalizations that limit the search under requirements
BATCH = 100_000  # inputs that are predicted together
FREE = 1e9  # the score of a generalization that costs nothing, per information loss
Allowed = Callable[[Sequence[AttributeCut]], bool]


@dataclass(frozen=True)
class CoarsestInputs:
    """The cuts that were found, the sum of all contributions to the accuracy (see `Rating`), and the loss of each attribute."""

    cuts: tuple[AttributeCut, ...]
    total: float
    losses: tuple[float, ...]


def find_coarsest(
    codes: Codes, policy: Policy, inputs: ReplacedInputs, least: float, progress: Progress
) -> CoarsestInputs:
    """The coarsest cuts that meet the requirements with a total of at least ``least``; else those with the largest total.

    The target of the policy is the column with the predictions.
    """
    allowance = SuppressionAllowance.of(policy, codes)

    def meets(cuts: Sequence[AttributeCut]) -> bool:
        return allowance.count_suppressed(codes, cuts) == 0

    every = KAnonymity(1)  # covers every attribute, and is met by every cut
    free = policy.model_copy(update={"require": (every,)})
    is_closed = codes.by_person is None and all(r.monotone for r in policy.require)
    with threads.workers(len(codes.quasi)) as workers:
        finest = Search.start(codes, free, "gain", "best", "ncp", workers)
        finest.run(progress)
        generalization = Generalization.start(finest, inputs)
        found = generalization.run(least, progress)
        if meets(found.cuts):
            return found
        reached = []
        required = policy.model_copy(update={"require": (*policy.require, every)})
        for share in LIMITS:
            limit = generalization.list_nodes(round(share * len(generalization.path)))
            search = Search.start(codes, required, "gain", "best", "ncp", workers)
            follow(search, limit)
            again = Generalization.start(search, inputs)
            reached.append(again.run(least, progress, None if is_closed else meets))
    enough = [f for f in reached if f.total >= least]
    return max(enough, key=lambda f: sum(f.losses)) if enough else max(reached, key=lambda f: f.total)


def follow(search: Search, limit: set[tuple[int, int, int]]) -> None:
    """Specialize value after value, but none of the values of a limit: attribute, first and last code."""
    values, seen = search.values, 0

    def stop_at_limit(begin: int) -> int:
        for x in range(begin, len(values.lo)):
            if (values.attribute[x], values.lo[x], values.hi[x]) in limit:
                search.alive[x] = False
        return len(values.lo)

    seen = stop_at_limit(seen)
    while (x := search.select_next()) is not None:
        search.specialize(x)
        seen = stop_at_limit(seen)


@dataclass
class Generalization:
    """The current cut of the trees, generalized step by step, with the inputs of every record and their contributions.

    ``inner`` are the values above the cut, which can be generalized to; ``path`` those to which the cut was generalized, in
    order. ``now`` are the codes that the model gets [record, attribute], ``keys`` their keys.
    """

    values: SpecializationTrees
    inputs: ReplacedInputs
    cut: set[int]
    inner: set[int]
    representative: Int32Array
    loss: FloatArray
    begin: tuple[frozenset[int], frozenset[int]]
    path: list[int] = field(default_factory=list)
    scored: ReplacedInputs = field(init=False)
    now: Int32Array = field(init=False)
    keys: UInt64Array = field(init=False)
    contribution: FloatArray = field(init=False)
    total: float = field(init=False)

    @classmethod
    def start(cls, search: Search, inputs: ReplacedInputs) -> Generalization:
        """The cut of a finished search."""
        values = search.values
        numbers = range(len(values.lo))
        representative = [inputs.find_representative(values.attribute[x], values.lo[x], values.hi[x]) for x in numbers]
        records = max(search.codes.records, 1)
        loss = [values.loss(x, "ncp") * values.records[x] / records for x in numbers]
        cut = {x for of_attribute in search.cut for x in of_attribute}
        inner = {x for x in numbers if values.first[x] >= 0}
        begin = (frozenset(cut), frozenset(inner))
        return cls(values, inputs, cut, inner, np.array(representative, np.int32), np.array(loss), begin)

    def run(self, least: float, progress: Progress, allowed: Allowed | None = None) -> CoarsestInputs:
        """Generalize while the total stays at least ``least``, and the cuts stay ``allowed``."""
        records = len(self.inputs.codes)
        if records > SEARCHED:
            chosen = np.sort(np.random.default_rng(0).permutation(records)[:SEARCHED])
            self.scored = self.inputs.take(chosen)
        else:
            self.scored = self.inputs
        rating = self.inputs.rating
        enough = self.scored.rating.least_total(rating.score(least))
        self._place()
        self._follow_path(enough, progress, allowed)
        if self.scored is self.inputs:
            return CoarsestInputs(self.build_cuts(), self.total, self._sum_losses())
        return self._step_back(least)

    def list_nodes(self, steps: int) -> set[tuple[int, int, int]]:
        """Attribute, first and last code of the values of the cut after some steps of the path."""
        self._replay(steps)
        values = self.values
        return {(values.attribute[x], values.lo[x], values.hi[x]) for x in self.cut}

    def build_cuts(self) -> tuple[AttributeCut, ...]:
        """The current cut of every attribute."""
        values, cut = self.values, sorted(self.cut)
        return tuple(
            values.build_cut(j, [x for x in cut if values.attribute[x] == j]) for j in range(len(values.attributes))
        )

    def _place(self) -> None:
        """Give every record the representatives of the current cut."""
        inputs, values = self.scored, self.values
        self.now = np.empty_like(inputs.codes)
        for j, attribute in enumerate(inputs.attributes):
            table = np.zeros(attribute.size, np.int32)
            for x in self.cut:
                if values.attribute[x] == j:
                    table[values.lo[x] : values.hi[x] + 1] = self.representative[x]
            self.now[:, j] = table[inputs.codes[:, j]]
        self.keys = inputs.make_keys(self.now)
        rows = np.arange(len(self.now))
        self.contribution = inputs.rating.rate(inputs.predict(self.now, self.keys, rows))
        self.total = float(self.contribution.sum())

    def _follow_path(self, least: float, progress: Progress, allowed: Allowed | None) -> None:
        waiting, steps = sorted(self.inner), 0
        done, everything = 0, len(waiting)
        while waiting:
            self._predict_together(waiting)
            heap = [(-self._rate(x), -1, x) for x in waiting]
            heapq.heapify(heap)
            refused, before = [], steps
            while heap:
                score, rated_at, x = heapq.heappop(heap)
                if x not in self.inner:
                    continue
                if rated_at != steps and (now := -self._rate(x)) > score:  # rated before the last step, and worse since
                    heapq.heappush(heap, (now, steps, x))
                    continue
                if self._generalize(x, least, allowed):
                    steps += 1
                    done = everything - len(self.inner)
                    progress("generalizing inputs", done, everything)
                else:
                    refused.append(x)
            waiting = [x for x in refused if x in self.inner] if steps > before else []

    def _change(self, x: int) -> tuple[Int64Array, Int32Array, UInt64Array]:
        """The records whose inputs change if a value is generalized to, with their inputs and keys."""
        values, scored = self.values, self.scored
        j, to = values.attribute[x], self.representative[x]
        codes = scored.codes[:, j]
        rows = np.flatnonzero((codes >= values.lo[x]) & (codes <= values.hi[x]) & (self.now[:, j] != to))
        inputs = self.now[rows]
        words = scored.words[j]
        keys = self.keys[rows] - words[inputs[:, j]] + words[to]
        inputs[:, j] = to
        return rows, inputs, keys

    def _compare(self, rows: Int64Array, inputs: Int32Array, keys: UInt64Array) -> FloatArray:
        return self.scored.rating.rate(self.scored.predict(inputs, keys, rows), rows)

    def _rate(self, x: int) -> float:
        """The information loss of a generalization per lost accuracy; free generalizations come first."""
        rows, inputs, keys = self._change(x)
        lost = float((self.contribution[rows] - self._compare(rows, inputs, keys)).sum())
        added = self._sum_added_loss(x)
        return FREE * (1 + added) if lost <= 0 else added / lost

    def _generalize(self, x: int, least: float, allowed: Allowed | None) -> bool:
        """Generalize to a value, if the total stays large enough and the cuts are allowed."""
        rows, inputs, keys = self._change(x)
        contribution = self._compare(rows, inputs, keys)
        total = self.total + float((contribution - self.contribution[rows]).sum())
        if total < least - 1e-9 * max(1.0, abs(least)):
            return False
        before = (set(self.cut), set(self.inner))
        self._remove_below(x)
        if allowed is not None and not allowed(self.build_cuts()):
            self.cut, self.inner = before
            return False
        self.now[rows], self.keys[rows], self.contribution[rows] = inputs, keys, contribution
        self.total = total
        self.path.append(x)
        return True

    def _remove_below(self, x: int) -> None:
        """Make a value a value of the cut, in place of the values below it."""
        waiting = [x]
        while waiting:
            y = waiting.pop()
            if y in self.inner:
                self.inner.remove(y)
                waiting += self.values.expand(y)
            self.cut.discard(y)
        self.cut.add(x)

    def _replay(self, steps: int) -> None:
        """Return to the cut after some steps of the path."""
        self.cut, self.inner = set(self.begin[0]), set(self.begin[1])
        for x in self.path[:steps]:
            self._remove_below(x)

    def _step_back(self, least: float) -> CoarsestInputs:
        """The last cut of the path with a total of at least ``least`` for all records, or the first cut."""
        self.scored = self.inputs
        low, high, path = 0, len(self.path), list(self.path)
        while low < high:
            middle = (low + high + 1) // 2
            self._replay(middle)
            self._place()
            low, high = (middle, high) if self.total >= least else (low, middle - 1)
        del path[low:]
        self.path = path
        self._replay(low)
        self._place()
        return CoarsestInputs(self.build_cuts(), self.total, self._sum_losses())

    def _predict_together(self, waiting: Sequence[int]) -> None:
        """Predict the changes of many values in few calls of the model; `ReplacedInputs` keeps the predictions."""
        parts, size = [], 0
        for x in waiting:
            parts.append(self._change(x))
            size += len(parts[-1][0])
            if size > BATCH:
                self._predict_parts(parts)
                parts, size = [], 0
        if parts:
            self._predict_parts(parts)

    def _predict_parts(self, parts: list[tuple[Int64Array, Int32Array, UInt64Array]]) -> None:
        rows, inputs, keys = (np.concatenate(p) for p in zip(*parts, strict=True))
        self.scored.predict(inputs, keys, rows)

    def _sum_added_loss(self, x: int) -> float:
        below, waiting = 0.0, [x]
        while waiting:
            y = waiting.pop()
            if y in self.cut:
                below += self.loss[y]
            else:
                waiting += self.values.expand(y)
        return float(self.loss[x]) - below

    def _sum_losses(self) -> tuple[float, ...]:
        found = np.zeros(len(self.values.attributes))
        for x in self.cut:
            found[self.values.attribute[x]] += self.loss[x]
        return tuple(found.tolist())
