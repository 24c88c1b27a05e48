"""Top-down specialization, slow and obvious: every step tries every candidate and counts all groups.

After B. C. M. Fung, K. Wang, P. S. Yu, "Top-down specialization for information and privacy preservation" (ICDE 2005),
sections 4 and 5.1. Without a target the normalized certainty penalty (NCP) replaces the entropy. The codes and the attributes
are input; groups, requirements, suppression and labels are computed here, from lists of cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, cached_property
from math import inf

import numpy as np

import shoal
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.policy import Policy
from shoal.requirements import Requirement
from tests.reference.losses import count_source_values
from tests.reference.requirements import passes

Names = tuple[str, ...]
Places = tuple[int, ...]  # the places of published values in the cuts of all attributes
Histogram = frozenset[tuple[str | None, int]]  # sensitive values with their records

TINY = 1e-12  # smaller gains count as 0
EQUAL = 1e-9  # scores that differ by less are equal


@dataclass(frozen=True)
class Value:
    """A published value: codes ``lo`` to ``hi`` of attribute ``j``, and the node of its tree (-1 for numbers)."""

    j: int
    lo: int
    hi: int
    node: int = -1
    top: bool = False

    @property
    def codes(self) -> tuple[int, int]:
        return self.lo, self.hi


Cut = tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Step:
    attribute: str
    value: tuple[int, int]
    node: int
    children: tuple[tuple[int, int], ...]
    gain: float
    loss: float
    score: float
    smallest: dict[Names, int]
    label: str | None
    labels: tuple[str | None, ...]


@dataclass(frozen=True)
class Run:
    """All steps, the values of the final cut, and the smallest groups before the first step.

    ``rows`` has the published labels of every group that is not suppressed, with its number of records.
    """

    steps: list[Step]
    cut: dict[str, list[tuple[int, int, int]]]
    smallest: dict[Names, int]
    rows: Counter[tuple[str | None, ...]]
    chosen: int


@dataclass(frozen=True)
class Candidate:
    """A value that can be specialized or generalized to, with the gain, loss and score of the step."""

    value: Value
    children: tuple[Value, ...]
    gain: float
    loss: float
    score: float
    smallest: dict[Names, int]


@dataclass(frozen=True)
class Table:
    """The records, and functions on their values and groups."""

    codes: Codes
    policy: Policy

    @cached_property
    def names(self) -> Names:
        return tuple(a.name for a in self.codes.attributes)

    @cached_property
    def sets(self) -> dict[Names, list[Requirement]]:
        """The attribute sets in the order of the requirements, each with its requirements."""
        found: dict[Names, list[Requirement]] = {}
        for requirement in self.policy.require:
            on = self.names if requirement.on is None else requirement.on
            found.setdefault(tuple(n for n in self.names if n in on), []).append(requirement)
        return found

    @cached_property
    def used(self) -> set[int]:
        """The attributes of all attribute sets."""
        return {self.names.index(n) for names in self.sets for n in names}

    # Cells: records with the same codes and sensitive values.

    @cached_property
    def rows(self) -> Int32Array:
        """The codes of every cell."""
        return np.repeat(self.codes.counts.quasi, np.diff(self.codes.counts.start), axis=0)

    @cached_property
    def records_of_cell(self) -> list[int]:
        return self.codes.counts.size.tolist()

    @cached_property
    def texts(self) -> dict[str | None, list[str | None]]:
        """The value of every cell in every sensitive column; None for requirements on the number of records."""
        columns = enumerate(self.codes.sensitive)
        texts = {c.name: [c.labels[code] for code in self.codes.counts.sensitive[:, i]] for i, c in columns}
        return {None: [None] * len(self.rows), **texts}

    @cached_property
    def classes(self) -> Int64Array | None:
        """The class of every cell, or None without a target."""
        target = self.policy.target
        if target is None:
            return None
        if target in self.names:
            return self.rows[:, self.names.index(target)].astype(np.int64)
        place = [s.name for s in self.codes.sensitive].index(target)
        return self.codes.counts.sensitive[:, place].astype(np.int64)

    @cached_property
    def frequencies(self) -> list[Int64Array]:
        """The records of every attribute by code and class."""
        kind = self.classes if self.classes is not None else np.zeros(len(self.rows), np.int64)
        found = []
        for j, attribute in enumerate(self.codes.attributes):
            table = np.zeros((attribute.size, int(kind.max()) + 1), np.int64)
            np.add.at(table, (self.rows[:, j], kind), self.records_of_cell)
            found.append(table)
        return found

    # Values.

    def numbers(self, j: int) -> int:
        """Return the number of codes of an attribute without the missing value."""
        attribute = self.codes.attributes[j]
        return attribute.size - (attribute.missing >= 0)

    def top(self, j: int) -> Value:
        attribute = self.codes.attributes[j]
        return Value(j, 0, attribute.size - 1, -1 if attribute.taxonomy is None else 0, top=True)

    def nodes(self, j: int, parent: int) -> tuple[Value, ...]:
        """Return the children of a node."""
        tree = self.codes.attributes[j].taxonomy
        below = [n for n in range(1, len(tree.label)) if tree.parent[n] == parent]
        return tuple(Value(j, int(tree.lo[n]), int(tree.hi[n]), n) for n in below)

    def ends(self, value: Value) -> tuple[float, float]:
        """Return the published ends of an interval of numbers."""
        attribute, count = self.codes.attributes[value.j], self.numbers(value.j)
        low, high = self.bounds(value.j)
        first = low if value.lo == 0 else float(attribute.position[value.lo])
        return first, high if value.hi >= count - 1 else float(attribute.position[value.hi + 1])

    def bounds(self, j: int) -> tuple[float, float]:
        bounds = self.policy.quasi[self.names[j]].bounds
        position = self.codes.attributes[j].position
        return bounds if bounds is not None else (float(position[0]), float(position[self.numbers(j) - 1]))

    def label(self, value: Value) -> str | None:
        """Return the label of a value."""
        attribute = self.codes.attributes[value.j]
        if value.top:
            return "*"
        if attribute.taxonomy is not None:
            return attribute.taxonomy.label[value.node]
        if value.lo == attribute.missing:
            return None
        low, high = self.ends(value)
        first, last = format_value(attribute.kind, low), format_value(attribute.kind, high)
        if low == high:
            return first
        return f"[{first}, {last}" + ("]" if value.hi == self.numbers(value.j) - 1 else ")")

    def final_label(self, value: Value, kept: Sequence[int]) -> str | None:
        """Return the published label of a value: after suppression an interval is tight around the remaining cells."""
        attribute = self.codes.attributes[value.j]
        codes = [code for code in self.rows[kept, value.j].tolist() if value.lo <= code <= value.hi]
        is_interval = not value.top and attribute.taxonomy is None and value.lo != attribute.missing
        if not is_interval or not codes or len(kept) == len(self.rows):
            return self.label(value)
        low, high = (format_value(attribute.kind, float(attribute.position[c])) for c in (min(codes), max(codes)))
        return low if low == high else f"[{low}, {high}]"

    # Information.

    def records(self, value: Value) -> Int64Array:
        """Return the records of a value by class."""
        return self.frequencies[value.j][value.lo : value.hi + 1].sum(axis=0)

    def penalty(self, value: Value) -> float:
        """Return the NCP of a value."""
        attribute = self.codes.attributes[value.j]
        tree = attribute.taxonomy
        if value.top:
            return 1.0
        if tree is not None:
            values = count_source_values(attribute, range(value.lo, value.hi + 1))
            is_value = value.node not in tree.parent and values == 1
            return 0.0 if is_value else values / count_source_values(attribute, range(attribute.size))
        if value.lo == attribute.missing:
            return 0.0
        (low, high), (first, last) = self.bounds(value.j), self.ends(value)
        return (last - first) / (high - low) if high > low else 0.0

    def information(self, value: Value) -> float:
        return entropy(self.records(value)) if self.classes is not None else self.penalty(value)

    def gain(self, value: Value, children: Sequence[Value]) -> float:
        """Return the information gain of a specialization, which is the information loss of a generalization."""
        size = self.records(value).sum()
        if size == 0:
            return 0.0
        after = sum(self.records(child).sum() / size * self.information(child) for child in children)
        gain = float(self.information(value) - after)
        return gain if gain >= TINY else 0.0

    def children(self, value: Value) -> tuple[Value, ...]:
        """Return the children of a value; none for a leaf."""
        if value.node >= 0:
            return self.nodes(value.j, value.node)
        attribute, count = self.codes.attributes[value.j], self.numbers(value.j)
        if value.lo == attribute.missing:
            return ()
        last = min(value.hi, count - 1)
        rest = (Value(value.j, count, count),) if value.hi == count else ()
        if value.lo < last:
            at = self.split(value, last)
            return (Value(value.j, value.lo, at), Value(value.j, at + 1, last), *rest)
        return (Value(value.j, value.lo, last), *rest) if rest else ()

    def split(self, value: Value, last: int) -> int:
        """Return the last code of the left part of the best split; ties: the first split."""
        gains = self.gains(value, last)
        best, at = -inf, value.lo
        record = np.flatnonzero(gains > np.maximum.accumulate(np.append(-inf, gains[:-1])))  # others are no better
        for place in record:
            if gains[place] > best + TINY:
                best, at = gains[place], value.lo + int(place)
        return at

    def gains(self, value: Value, last: int) -> FloatArray:
        """Return the gain of every split of an interval, in the order of the split values."""
        table = self.frequencies[value.j]
        left = np.cumsum(table[value.lo : last], axis=0)
        right = table[value.lo : last + 1].sum(axis=0) - left
        rest = table[last + 1 : value.hi + 1].sum(axis=0)
        size = self.records(value).sum()
        if self.classes is not None:
            after = left.sum(axis=1) * entropy(left) + right.sum(axis=1) * entropy(right) + rest.sum() * entropy(rest)
        else:
            (low, high), (first, end) = self.bounds(value.j), self.ends(value)
            points = self.codes.attributes[value.j].position[value.lo + 1 : last + 1]
            before, behind = (points - first) / (high - low), (end - points) / (high - low)
            after = left.sum(axis=1) * before + right.sum(axis=1) * behind
        return self.information(value) - after / size

    # Anonymity.

    def places(self, values: Sequence[Value]) -> Int64Array:
        """Return the place of every code of an attribute among the values of a cut."""
        return np.repeat(np.arange(len(values)), [v.hi - v.lo + 1 for v in values])

    def group(self, cut: Cut, names: Sequence[str], cells: Sequence[int]) -> dict[Places, list[int]]:
        """Return the cells of every group: the same published values of some attributes, as places in the cut."""
        columns = [self.places(cut[j])[self.rows[cells, j]].tolist() for j in map(self.names.index, names)]
        groups: dict[Places, list[int]] = {}
        for places, cell in zip(zip(*columns, strict=True), cells, strict=True):
            groups.setdefault(places, []).append(cell)
        return groups

    def size(self, cells: Iterable[int]) -> int:
        return sum(self.records_of_cell[cell] for cell in cells)

    def count(self, of: str | None, cells: Iterable[int]) -> Histogram:
        """Return the sensitive values of some cells, with their records."""
        counts: Counter[str | None] = Counter()
        for cell in cells:
            counts[self.texts[of][cell]] += self.records_of_cell[cell]
        return frozenset(counts.items())

    def check(self, cut: Cut) -> dict[Names, tuple[Int64Array, BoolArray]]:
        """Return for every set the sizes of its groups, and which of them meet the requirements of the set."""
        return {names: self.check_set(cut, names) for names in self.sets}

    def check_set(self, cut: Cut, names: Names) -> tuple[Int64Array, BoolArray]:
        part = names, tuple(values for name, values in zip(self.names, cut, strict=True) if name in names)
        if part in self.checked:  # cuts of other attributes do not change the groups of this set
            return self.checked[part]
        if all(isinstance(r, shoal.KAnonymity) for r in self.sets[names]):
            size = self.count_sizes(cut, names)
            ok = size >= max(r.k for r in self.sets[names])
        else:
            groups = [tuple(cells) for cells in self.group(cut, names, range(len(self.rows))).values()]
            size = np.array([self.size(cells) for cells in groups])
            ok = np.array([self.judge(names, cells) for cells in groups])
        self.checked[part] = size, ok
        return size, ok

    def judge(self, names: Names, cells: tuple[int, ...]) -> bool:
        """Whether a group of all records meets the requirements of a set; a group that stays is judged once."""
        if (names, cells) not in self.judged:
            requirements = self.sets[names]
            self.judged[names, cells] = all(
                meets(r, self.count(r.of, cells), self.everyone[r.of]) for r in requirements
            )
        return self.judged[names, cells]

    @cached_property
    def everyone(self) -> dict[str | None, Histogram]:
        """The sensitive values of the whole table."""
        return {of: self.count(of, range(len(self.rows))) for of in self.texts}

    @cached_property
    def checked(self) -> dict[tuple[Names, Cut], tuple[Int64Array, BoolArray]]:
        """A cache of the results of `check_set`."""
        return {}

    @cached_property
    def judged(self) -> dict[tuple[Names, tuple[int, ...]], bool]:
        """A cache of the results of `judge`."""
        return {}

    def kept(self, cut: Cut) -> list[int]:
        """Return the cells that remain: failing groups are suppressed until the groups of the other records all pass."""
        kept, before = list(range(len(self.rows))), -1
        while len(kept) != before:
            before = len(kept)
            for requirement in self.policy.require:
                everyone = self.count(requirement.of, kept)
                groups = self.group(cut, requirement.on or self.names, kept).values()
                passing = [g for g in groups if meets(requirement, self.count(requirement.of, g), everyone)]
                kept = [cell for cells in passing for cell in cells]
        return kept

    def holds(self, cut: Cut) -> bool:
        """Whether all groups pass, or the policy allows to suppress the failing records."""
        if self.policy.suppress == 0:
            return all(ok.all() for _, ok in self.check(cut).values())
        kept, records = self.size(self.kept(cut)), sum(self.records_of_cell)
        return kept > 0 and records - kept <= int(self.policy.suppress * records + 1e-9)

    # The sizes of groups on arrays: large tables are tested with k-anonymity alone.

    @cached_property
    def distinct(self) -> dict[Names, tuple[Int32Array, Int64Array]]:
        """The distinct combinations of codes of every set, and their records."""
        found = {}
        for names in self.sets:
            columns = [self.names.index(n) for n in names]
            rows, place = np.unique(self.rows[:, columns], axis=0, return_inverse=True)
            found[names] = rows, np.bincount(place.reshape(-1), self.records_of_cell).astype(np.int64)
        return found

    def count_sizes(self, cut: Cut, names: Names) -> Int64Array:
        rows, records = self.distinct[names]
        key = np.zeros(len(rows), np.int64)
        for column, name in enumerate(names):
            values = cut[self.names.index(name)]
            if len(values) > 1:
                key = key * len(values) + self.places(values)[rows[:, column]]
                if key.max() > 4 * len(rows):
                    key = np.unique(key, return_inverse=True)[1]
        size = np.bincount(key, records)
        return size[size > 0].astype(np.int64)

    def result(self, cut: Cut, steps: list[Step], smallest: dict[Names, int], chosen: int | None = None) -> Run:
        kept = self.kept(cut)
        labels = [[self.final_label(value, kept) for value in values] for values in cut]
        rows: Counter[tuple[str | None, ...]] = Counter()
        for places, cells in self.group(cut, self.names, kept).items():
            rows[tuple(labels[j][place] for j, place in enumerate(places))] += self.size(cells)
        values = {n: [(v.lo, v.hi, v.node) for v in cut[j]] for j, n in enumerate(self.names)}
        return Run(steps, values, smallest, rows, len(steps) if chosen is None else chosen)

    def step(self, best: Candidate) -> Step:
        value, children = best.value, best.children
        return Step(
            self.names[value.j],
            value.codes,
            value.node,
            tuple(child.codes for child in children),
            best.gain,
            best.loss,
            best.score,
            best.smallest,
            self.label(value),
            tuple(self.label(child) for child in children),
        )


@cache
def meets(requirement: Requirement, group: Histogram, everyone: Histogram) -> bool:
    """Whether a group meets a requirement; groups with the same sensitive values are tested once."""
    return passes(requirement, list_values(group), list_values(everyone))


def list_values(histogram: Histogram) -> list[str | None]:
    """Return the value of every record."""
    return [value for value, records in histogram for _ in range(records)]


def format_value(kind: str, value: float) -> str:
    """Return the text of a number, or of a date in seconds since 1970-01-01."""
    if kind == "date":
        return (datetime(1970, 1, 1) + timedelta(seconds=value)).isoformat().removesuffix("T00:00:00")
    return str(int(value)) if value == int(value) else repr(value)


def entropy(counts: Int64Array) -> FloatArray:
    """Return the entropy in bits; the last axis has the classes."""
    share = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    return -(share * np.log2(np.where(share > 0, share, 1.0))).sum(axis=-1)


def exchange(cut: Cut, out: Sequence[Value], into: Sequence[Value]) -> Cut:
    """Return a cut in which some values replace others."""
    j = into[0].j
    others = [v for v in cut[j] if v not in out]
    return (*cut[:j], tuple(sorted((*others, *into), key=lambda v: v.lo)), *cut[j + 1 :])


@dataclass(frozen=True)
class Search(Table):
    """The search of top-down specialization."""

    by: str = "score"
    where: str = "best"

    @cached_property
    def specializations(self) -> dict[Value, tuple[tuple[Value, ...], float]]:
        """A cache of children and gains, which no step changes."""
        return {}

    def specialization(self, value: Value) -> tuple[tuple[Value, ...], float]:
        if value not in self.specializations:
            children = self.children(value)
            self.specializations[value] = children, self.gain(value, children) if children else 0.0
        return self.specializations[value]

    def beneficial(self, value: Value, gain: float) -> bool:
        if self.classes is None:
            return gain > 0 or self.free(value)
        return np.count_nonzero(self.records(value)) > 1

    def free(self, value: Value) -> bool:
        """Whether a specialization changes no group: without a target, if all records have the same child."""
        children, _ = self.specialization(value)
        present = [child for child in children if self.records(child).sum() > 0]
        return self.classes is None and len(present) == 1 and self.penalty(value) > 0

    def smallest(self, cut: Cut) -> dict[Names, int]:
        """Return A of every set: the records of the smallest group that meets the requirements."""
        return {names: int(size[ok].min()) if ok.any() else 0 for names, (size, ok) in self.check(cut).items()}

    def candidate(self, cut: Cut, value: Value, now: dict[Names, int]) -> Candidate | None:
        """Return the candidate of a value; None if it cannot be specialized."""
        children, gain = self.specialization(value)
        if not children or not self.beneficial(value, gain):
            return None
        after = self.after(exchange(cut, [value], children))
        if after is None and self.where == "valid" and value.node < 0:
            children = self.split_validly(cut, value)
            gain = self.gain(value, children) if children else 0.0
            if not children or not self.beneficial(value, gain):
                return None
            after = self.after(exchange(cut, [value], children))
        if after is None:
            return None
        sets = [names for names in self.sets if self.names[value.j] in names]
        loss = max(0.0, sum(now[names] - after[names] for names in sets) / len(sets))
        score = gain / loss if loss > 0 and self.by == "score" else gain
        return Candidate(value, children, gain, loss, score, after)

    def split_validly(self, cut: Cut, value: Value) -> tuple[Value, ...]:
        """Return the children by the best valid split; none if no split is valid."""
        count = self.numbers(value.j)
        last = min(value.hi, count - 1)
        rest = (Value(value.j, count, count),) if value.hi == count else ()
        best, found = -inf, ()
        for place, gain in enumerate(self.gains(value, last) if value.lo < last else ()):
            at = value.lo + place
            children = (Value(value.j, value.lo, at), Value(value.j, at + 1, last), *rest)
            if gain > best + TINY and self.after(exchange(cut, [value], children)) is not None:
                best, found = gain, children
        return found

    def after(self, cut: Cut) -> dict[Names, int] | None:
        """Return A of every set with this cut, or None if the cut is not valid."""
        return self.smallest(cut) if self.holds(cut) else None


def candidates(search: Search, cut: Cut, now: dict[Names, int]) -> list[Candidate]:
    """Return all values that can be specialized, in the order of the attributes and their codes."""
    found = [search.candidate(cut, value, now) for j, values in enumerate(cut) if j in search.used for value in values]
    return [c for c in found if c is not None]


def specialize(
    codes: Codes, policy: Policy, *, by: str = "score", split: str = "best", limit: int | None = None
) -> Run:
    """Specialize value after value, while some value is valid and beneficial and there are fewer than ``limit`` steps.

    If records may be suppressed, a second path suppresses more records only where no other step is left. The step of both
    paths that keeps most is released.
    """
    search = Search(codes, policy, by, split)
    paths = [follow(search, limit, thrifty=False)]
    if limit is None and int(policy.suppress * sum(search.records_of_cell) + 1e-9) > 0:
        paths.append(follow(search, limit, thrifty=True))
        stops = [best_stop(search, cuts) for cuts, _ in paths]
        which = 1 if stops[1][0] > stops[0][0] + EQUAL else 0
        cuts, steps = paths[which]
        return search.result(cuts[stops[which][1]], steps, search.smallest(cuts[0]), stops[which][1])
    cuts, steps = paths[0]
    return search.result(cuts[-1], steps, search.smallest(cuts[0]))


def best_stop(search: Search, cuts: Sequence[Cut]) -> tuple[float, int]:
    """Return the most that a step keeps, and the number of this step; ties: the last."""
    kept = [keep(search, cut) for cut in cuts]
    best, at = kept[0], 0
    for i, value in enumerate(kept):
        if value >= best - EQUAL:
            best, at = value, i
    return best, at


def keep(search: Search, cut: Cut) -> float:
    """Return the information kept (or the information about the target), times the share of records kept."""
    records = sum(search.records_of_cell)
    share = search.size(search.kept(cut)) / records
    if search.classes is None:
        lost = sum(search.records(v).sum() / records * search.penalty(v) for values in cut for v in values)
        return (1 - lost / len(cut)) * share
    known = sum(
        entropy(search.records(search.top(j)))
        - sum(search.records(v).sum() / records * entropy(search.records(v)) for v in values)
        for j, values in enumerate(cut)
    )
    return float(known) * share


def follow(search: Search, limit: int | None, *, thrifty: bool, cut: Cut | None = None) -> tuple[list[Cut], list[Step]]:
    """Return the cut before and after every step, and the steps; ``cut`` is the first (default: the roots)."""
    cuts: list[Cut] = [cut or tuple((search.top(j),) for j in range(len(search.names)))]
    steps: list[Step] = []
    while limit is None or len(steps) < limit:
        cut = cuts[-1]
        found = candidates(search, cut, search.smallest(cut))
        if thrifty:
            stays = search.size(search.kept(cut))
            cheap = [c for c in found if search.size(search.kept(exchange(cut, [c.value], c.children))) >= stays]
            found = cheap or found
        best: Candidate | None = None
        for candidate in found:
            if search.free(candidate.value):
                best = candidate
                break
            if best is None or candidate.score > best.score * (1 + EQUAL):
                best = candidate
        if best is None:
            break
        cuts.append(exchange(cut, [best.value], best.children))
        steps.append(search.step(best))
    return cuts, steps
