"""The search for the coarsest inputs with which a model keeps a share of its accuracy, under the requirements of a policy.

Top-down specialization on the predictions of the model grows the trees of values. From the finest cut of these trees, values
are generalized again, one after another: most information loss per lost accuracy first, and those that cost no accuracy before
all others. Then neighbouring intervals are joined. If the last cut fails a requirement, specialization under the requirements
searches once more, within cuts of that path: columns that do not matter to the model then no longer divide the groups.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

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
BY = ("gain", "score")  # the orders of that search, see `Search`
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
        if found.total < least - 1e-9 * max(1.0, abs(least)):  # values with one predicted class were not specialized
            generalization = Generalization.start(finest, inputs, is_full=True)
            found = generalization.run(least, progress)
        if meets(found.cuts):
            return found
        reached = []
        required = policy.model_copy(update={"require": (*policy.require, every)})
        for share, by in product(LIMITS, BY):
            limit = generalization.list_cuts(round(share * len(generalization.path)))
            search = Search.start(codes, required, by, "best", "ncp", workers)
            follow(search, limit)
            again = Generalization.start(search, inputs)
            reached.append(again.run(least, progress, None if is_closed else meets))
    enough = [f for f in reached if f.total >= least]
    return max(enough, key=lambda f: sum(f.losses)) if enough else max(reached, key=lambda f: f.total)


def follow(search: Search, limit: Sequence[AttributeCut]) -> None:
    """Specialize value after value, but none that lies within an interval of the limit."""
    values, seen = search.values, 0
    number = [cut.table(a.size) for cut, a in zip(limit, values.attributes, strict=True)]

    def stop_at_limit(begin: int) -> int:
        for x in range(begin, len(values.lo)):
            interval = number[values.attribute[x]]
            if interval[values.lo[x]] == interval[values.hi[x]]:
                search.alive[x] = False
        return len(values.lo)

    seen = stop_at_limit(seen)
    while (x := search.select_next()) is not None:
        search.specialize(x)
        seen = stop_at_limit(seen)


def specialize_fully(values: SpecializationTrees, cut: Iterable[int]) -> set[int]:
    """The values without children below a cut; intervals are split in the middle, so that their trees are balanced."""
    waiting, found = list(cut), set()
    while waiting:
        x = waiting.pop()
        if not values.fan_out[x]:
            found.add(x)
            continue
        codes = values.splittable_codes(x)
        if codes is not None and values.first[x] < 0:
            invalid = np.ones(codes[1] - codes[0], bool)
            invalid[len(invalid) // 2] = False
            values.change_split(x, invalid)
        waiting += values.expand(x)
    return found


@dataclass
class Generalization:
    """The current cut of the trees, generalized step by step, with the inputs of every record and their contributions.

    ``inner`` are the values above the cut, which can be generalized to; ``path`` those to which the cut was generalized, in
    order. ``parts`` has the two neighbours that a joined interval consists of. ``now`` are the codes that the model gets [record, attribute], ``keys`` their keys.
    """

    values: SpecializationTrees
    inputs: ReplacedInputs
    cut: set[int]
    inner: set[int]
    representative: list[int]
    loss: list[float]
    begin: tuple[frozenset[int], frozenset[int]]
    path: list[int] = field(default_factory=list)
    parts: dict[int, tuple[int, int]] = field(default_factory=dict)
    scored: ReplacedInputs = field(init=False)
    now: Int32Array = field(init=False)
    keys: UInt64Array = field(init=False)
    contribution: FloatArray = field(init=False)
    total: float = field(init=False)

    @classmethod
    def start(cls, search: Search, inputs: ReplacedInputs, *, is_full: bool = False) -> Generalization:
        """The cut of a finished search; with ``is_full``, all values are specialized further, down to single codes."""
        values = search.values
        cut = {x for of_attribute in search.cut for x in of_attribute}
        if is_full:
            cut = specialize_fully(values, cut)
        numbers = range(len(values.lo))
        representative = [inputs.find_representative(values.attribute[x], values.lo[x], values.hi[x]) for x in numbers]
        records = max(search.codes.records, 1)
        loss = [values.loss(x, "ncp") * values.records[x] / records for x in numbers]
        inner = {x for x in numbers if values.first[x] >= 0}
        begin = (frozenset(cut), frozenset(inner))
        return cls(values, inputs, cut, inner, representative, loss, begin)

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

    def list_cuts(self, steps: int) -> tuple[AttributeCut, ...]:
        """The cuts after some steps of the path."""
        self._replay(steps)
        return self.build_cuts()

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
        """Generalize to values of the trees, then join neighbouring intervals, as long as something can be done."""
        self._try_all(sorted(self.inner), least, progress, allowed)
        while self._try_all(self._list_joins(), least, progress, allowed):
            pass

    def _try_all(self, waiting: list[int], least: float, progress: Progress, allowed: Allowed | None) -> bool:
        """Generalize to some values, best first; return whether there was any step."""
        steps, everything = 0, len(waiting)
        while waiting:
            self._predict_together(waiting)
            heap = [(-self._rate(x), -1, x) for x in waiting]
            heapq.heapify(heap)
            refused, before = [], steps
            while heap:
                score, rated_at, x = heapq.heappop(heap)
                if not self._is_possible(x):
                    continue
                if rated_at != steps and (now := -self._rate(x)) > score:  # rated before the last step, and worse since
                    heapq.heappush(heap, (now, steps, x))
                    continue
                if self._generalize(x, least, allowed):
                    steps += 1
                else:
                    refused.append(x)
                progress("generalizing inputs", everything - len(heap), everything)
            waiting = [x for x in refused if self._is_possible(x)] if steps > before else []
        return steps > 0

    def _is_possible(self, x: int) -> bool:
        """Whether a value is above the cut, or its neighbours are still in the cut."""
        return self.cut.issuperset(self.parts[x]) if x in self.parts else x in self.inner

    def _list_joins(self) -> list[int]:
        """All pairs of neighbouring intervals of the cut as values; a missing value is not joined."""
        values, found = self.values, []
        for j, attribute in enumerate(values.attributes):
            if attribute.taxonomy is not None:
                continue
            own = sorted((x for x in self.cut if values.attribute[x] == j), key=lambda x: values.lo[x])
            for one, other in pairwise(x for x in own if values.lo[x] != attribute.missing):
                x = values.add_interval(j, values.lo[one], values.hi[other])
                self.parts[x] = (one, other)
                self.representative.append(self.inputs.find_representative(j, values.lo[x], values.hi[x]))
                self.loss.append(values.loss(x, "ncp") * values.records[x] / max(len(self.inputs.codes), 1))
                found.append(x)
        return found

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
        before = None if allowed is None else (set(self.cut), set(self.inner))
        self._remove_below(x)
        if allowed is not None and before is not None and not allowed(self.build_cuts()):
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
            if y in self.cut:
                self.cut.remove(y)
            else:
                self.inner.discard(y)
                waiting += self._list_below(y)
        self.cut.add(x)

    def _list_below(self, x: int) -> Sequence[int]:
        return self.parts[x] if x in self.parts else self.values.expand(x)

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
                waiting += self._list_below(y)
        return float(self.loss[x]) - below

    def _sum_losses(self) -> tuple[float, ...]:
        found = np.zeros(len(self.values.attributes))
        for x in self.cut:
            found[self.values.attribute[x]] += self.loss[x]
        return tuple(found.tolist())
