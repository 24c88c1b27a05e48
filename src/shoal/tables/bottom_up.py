"""Bottom-up generalization (Wang, Yu, Chakraborty: Bottom-up generalization, ICDM 2004): specialization the other way round.

Everything begins as it is. At each step the children of one value are closed into it, those that lose least information for
the anonymity they bring, until the requirement holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Unpack

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, list_choices
from shoal.pipeline.method import CommonParameters, Method
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import AttributeCut, Grouping
from shoal.recoding.search_path import SearchPath, Step
from shoal.tables.attribute_sets import AttributeSet, Combinations, SuppressionAllowance, attribute_sets
from shoal.tables.specialization_trees import SAME, SpecializationTrees, class_counts

ANONYMITY = ("records", "smallest")


class BottomUpGeneralization(Method):
    """Close values from the bottom up, the cheapest first, until the requirement holds.

    Parameters
    ----------
    policy : the policy; every quasi-identifier needs a tree, given or made (numbers: ``widths``, ``boundaries`` or
        ``balanced``). With a target a closed value costs the information it told of it, without one certainty (NCP)
    anonymity : what closing a value brings: ``records`` counts those that leave a group which fails, ``smallest`` the rise of
        the smallest group, as in the paper; the latter stays at one record until the last unique record is gone
    common : ``write``, ``improve`` and ``max_size``, as for every method; see `Method`

    Of values that bring anonymity the one with the least information lost for each unit of it is closed, of values that bring
    none the one that loses least. A quasi-identifier that no requirement looks at is not released (``*``). Ties: the earlier
    attribute in the policy, then the earlier value.

    ``path_`` has every step.

    Guarantee
    ---------
    Every group meets every requirement, up to the records that the policy allows to suppress. Deterministic. Only the end
    of the path may be released.

    References
    ----------
    Wang, Yu, Chakraborty: Bottom-up generalization: a data mining solution to privacy protection. ICDM 2004.
    """

    name: ClassVar[str] = "bottom-up"
    cuts: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "closes values from the bottom up, those that lose least for the anonymity they bring first"
    )

    path_: SearchPath

    def __init__(self, policy: Policy, *, anonymity: str = "records", **common: Unpack[CommonParameters]) -> None:
        super().__init__(policy, **common)
        self.anonymity = anonymity

    def extra_columns(self) -> tuple[str, ...]:
        """The target, whose classes are counted."""
        return (self.policy.target,) if self.policy.target is not None else ()

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The cut; ``rng`` is not used."""
        if self.anonymity not in ANONYMITY:
            raise PolicyError(f"anonymity is counted by {self.anonymity!r}; {list_choices(self.anonymity, ANONYMITY)}")
        for attribute in codes.attributes:
            if attribute.taxonomy is None:
                made = (
                    "'widths', 'boundaries' or 'balanced'"
                    if attribute.kind == "numeric"
                    else "'date: [day, month, year]'"
                )
                raise PolicyError(f"bottom-up needs a tree for {attribute.name!r}: give it {made}, or use tds")
        climb = _Climb.of(codes, self.policy, self.anonymity)
        records = codes.records
        while not climb.holds():
            climb.close(climb.best())
            progress("closing", records - min(max(c.failing for c in climb.crowds), records), records)
        self.path_ = climb.path()
        return Grouping.from_cuts(codes, climb.slices(), self.path_)


@dataclass(frozen=True)
class _Union:
    """What closing a value would make of some groups: the groups, the union each goes to, and those unions' figures."""

    groups: Int64Array
    number: Int32Array
    one: Int64Array
    size: Int64Array
    ok: BoolArray

    @property
    def failing(self) -> int:
        """The records in unions that fail."""
        return int(self.size[~self.ok].sum())


@dataclass
class _Crowd:
    """The groups by one set of identifiers, merged as values are closed.

    The combinations of group g are ``first[g]`` and those that come behind it in ``following``, up to ``last[g]``.
    """

    of: AttributeSet
    rows: Combinations
    node: Int32Array
    size: Int64Array
    ok: BoolArray
    first: Int64Array
    last: Int64Array
    following: Int64Array

    @classmethod
    def of_set(cls, codes: Codes, of: AttributeSet, leaf: list[Int32Array]) -> _Crowd:
        """Every combination a group of its own; ``leaf`` has the value of every code of every attribute."""
        rows = Combinations.of(codes, of)
        node = np.stack(
            [leaf[j][rows.quasi[:, a]] for a, j in zip(rows.columns, of.columns, strict=True)], axis=1
        ).astype(np.int32)
        own = np.arange(len(node), dtype=np.int64)
        size, following = rows.weight.copy(), np.full(len(own), -1, np.int64)
        crowd = cls(of, rows, node, size, np.ones(len(own), bool), own, own.copy(), following)
        crowd.ok = crowd._passing(own, np.arange(len(own), dtype=np.int32), rows.weight)
        return crowd

    @property
    def failing(self) -> int:
        """The records in groups that fail."""
        return int(self.size[~self.ok].sum())

    @property
    def smallest(self) -> int:
        """The records of the smallest group."""
        return int(self.size.min())

    def union(self, a: int, v: int, parent: Int32Array) -> _Union:
        """What closing value v of our attribute a would make of the groups below it."""
        groups = np.flatnonzero(parent[self.node[:, a]] == v)
        number, one = kernels.generalize.merge(self.node, groups, a)
        size = np.bincount(number, self.size[groups], minlength=len(one)).astype(np.int64)
        return _Union(groups, number, one, size, self._passing(groups, number, size))

    def smallest_with(self, union: _Union) -> int:
        """The records of the smallest group, once these are merged."""
        others = np.ones(len(self.size), bool)
        others[union.groups] = False
        most = np.iinfo(np.int64).max
        return int(min(self.size[others].min(initial=most), union.size.min(initial=most)))

    def close(self, a: int, v: int, union: _Union) -> None:
        """Merge groups as a union says."""
        order = np.argsort(union.number, kind="stable")
        groups, number = union.groups[order], union.number[order]
        same = number[1:] == number[:-1]
        self.following[self.last[groups[:-1][same]]] = self.first[groups[1:][same]]
        ends = np.append(~same, True)[: len(number)]
        self.last[groups[np.append(True, ~same)[: len(number)]]] = self.last[groups[ends]]
        self.size[union.one], self.ok[union.one], self.node[union.one, a] = union.size, union.ok, v
        stays = np.ones(len(self.size), bool)
        stays[union.groups] = False
        stays[union.one] = True
        self.node, self.size, self.ok = self.node[stays], self.size[stays], self.ok[stays]
        self.first, self.last = self.first[stays], self.last[stays]

    def _passing(self, groups: Int64Array, number: Int32Array, size: Int64Array) -> BoolArray:
        rows = self.rows
        if rows.plain:
            return size >= rows.limits.least
        order = np.argsort(number, kind="stable")
        start = np.searchsorted(number[order], np.arange(len(size) + 1))
        return np.asarray(
            kernels.generalize.passing(
                groups[order], start, size, self.first, self.following, rows.cells, rows.limits.arrays()
            )
        )


@dataclass
class _Climb:
    """The cut as it is, the groups by every set of identifiers, and which values may be closed next.

    Arrays are by the numbers of the values; ``above`` counts the children of each that are not yet in the cut. Closing a value
    was last seen to bring ``brings``, and brings at most ``slack`` more by now: so most values need not be tried again.
    """

    codes: Codes
    policy: Policy
    anonymity: str
    values: SpecializationTrees
    parent: Int32Array
    above: Int32Array
    ready: set[int]
    cut: list[set[int]]
    crowds: list[_Crowd]
    allowance: SuppressionAllowance
    ncp: float
    information: float
    brings: FloatArray
    slack: FloatArray
    steps: list[Step] = field(default_factory=list)
    origin: tuple[dict[tuple[str, ...], int], dict[str, float]] = field(default_factory=lambda: ({}, {}))

    @classmethod
    def of(cls, codes: Codes, policy: Policy, anonymity: str) -> _Climb:
        """Everything as it is; but what no requirement looks at is not released. Roots are numbered as the attributes."""
        values = SpecializationTrees(codes.attributes, class_counts(codes, policy.target), policy.target is not None)
        parent = _opened(values)
        sets = attribute_sets(policy)
        held = {j for s in sets for j in s.columns}
        fan = np.array(values.fan, np.int32)
        leaves = np.flatnonzero(fan == 0).tolist()
        cut: list[set[int]] = [set() if j in held else {j} for j in range(len(codes.attributes))]
        leaf = [np.zeros(a.size, np.int32) for a in codes.attributes]
        for x in leaves:
            leaf[values.attribute[x]][values.lo[x]] = x
            if values.attribute[x] in held:
                cut[values.attribute[x]].add(x)
        inner = [x for x in np.flatnonzero(fan).tolist() if values.attribute[x] in held]
        told = sum(values.gain[x] * values.records[x] for x in inner) / codes.records
        above = fan - np.bincount(parent[leaves][parent[leaves] >= 0], minlength=len(fan)).astype(np.int32)
        climb = cls(
            codes,
            policy,
            anonymity,
            values,
            parent,
            above,
            {x for x in inner if above[x] == 0},
            cut,
            [_Crowd.of_set(codes, s, leaf) for s in sets],
            SuppressionAllowance.of(policy, codes),
            1 - len(held) / len(codes.attributes),
            told,
            np.zeros(len(fan)),
            np.full(len(fan), np.inf),
        )
        climb.origin = (climb._smallest(), climb._measures())
        return climb

    def holds(self) -> bool:
        """Whether the table may be released as it is."""
        failing, allowance = max(crowd.failing for crowd in self.crowds), self.allowance
        if failing == 0 or (not allowance.settled and allowance.enough(failing, self.codes.records)):
            return True
        if not allowance.settled or (failing > allowance.records and allowance.sure):
            return False
        lost = allowance.lost(self.codes, self.slices())
        if self.steps and allowance.enough(lost, self.codes.records):
            last = self.steps[-1]
            self.steps[-1] = replace(last, measures={**last.measures, "suppressed": float(lost)})
        return allowance.enough(lost, self.codes.records)

    def best(self) -> int:
        """The value to close next: the least information lost for each unit of anonymity; of equals the first."""
        values = self.values
        ready = sorted(self.ready, key=lambda x: (values.attribute[x], values.lo[x], values.node[x]))
        most = self._most(ready)
        loss = np.array([self.values.gain[x] for x in ready])
        lowest = loss / np.maximum(most, 1e-300)  # of what the score can be
        score, brings, best = np.full(len(ready), np.inf), np.zeros(len(ready), bool), np.inf
        for n in np.argsort(lowest, kind="stable").tolist():
            if lowest[n] > best * (1 + SAME):
                break
            if self.slack[ready[n]] > 0 and most[n] > 0:
                self.brings[ready[n]] = self._brings(self._unions(ready[n]))
                self.slack[ready[n]] = 0
            gain = float(self.brings[ready[n]]) if most[n] > 0 else 0.0
            score[n], brings[n] = (loss[n] / gain, True) if gain > 0 else (loss[n], False)
            best = min(best, score[n]) if gain > 0 else best
        score[brings != brings.any()] = np.inf
        return ready[int(np.argmax(score * (1 - SAME) <= score.min()))]

    def close(self, v: int) -> None:
        """Close a value, and say what that was."""
        values, j = self.values, self.values.attribute[v]
        unions = self._unions(v)
        gain = self._brings(unions)
        for crowd, a, union in unions:
            self._loosen(crowd, a, union)
            crowd.close(a, v, union)
        children = values.open(v)
        self.cut[j].difference_update(children)
        self.cut[j].add(v)
        self.ready.discard(v)
        if self.parent[v] >= 0:
            self.above[self.parent[v]] -= 1
            if self.above[self.parent[v]] == 0:
                self.ready.add(int(self.parent[v]))
        part = values.records[v] / self.codes.records
        self.ncp += part * values.fall(v) / len(self.codes.attributes)
        self.information -= part * values.gain[v]
        loss = values.gain[v]
        score = loss / gain if gain > 0 else loss
        name, label = self.codes.attributes[j].name, values.label(v)
        smallest, measures = self._smallest(), self._measures()
        self.steps.append(Step(name, label, values.children(v), gain, loss, score, smallest, measures))

    def slices(self) -> tuple[AttributeCut, ...]:
        """The cut as it is."""
        return tuple(self.values.slices(j, sorted(cut)) for j, cut in enumerate(self.cut))

    def path(self) -> SearchPath:
        """The steps that led here."""
        return SearchPath("close", tuple(self.steps), len(self.steps), *self.origin, (), "every requirement holds")

    def _sets(self, v: int) -> list[tuple[_Crowd, int]]:
        """The sets that hold a value's attribute, and its place in each."""
        j = self.values.attribute[v]
        return [(crowd, crowd.of.columns.index(j)) for crowd in self.crowds if j in crowd.of.columns]

    def _unions(self, v: int) -> list[tuple[_Crowd, int, _Union]]:
        """What closing a value would make of the groups by every set."""
        return [(crowd, a, crowd.union(a, v, self.parent)) for crowd, a in self._sets(v)]

    def _brings(self, unions: list[tuple[_Crowd, int, _Union]]) -> float:
        """The anonymity that closing a value brings, as the mean over the sets that hold its attribute."""
        found = []
        for crowd, _, union in unions:
            if self.anonymity == "records":
                before = int(crowd.size[union.groups][~crowd.ok[union.groups]].sum())
                found.append(before - union.failing)
            else:
                found.append(crowd.smallest_with(union) - crowd.smallest)
        return max(float(np.mean(found)), 0.0) if found else 0.0

    def _loosen(self, crowd: _Crowd, a: int, union: _Union) -> None:
        """Note by how much other values may bring more than is known of them, once these groups are merged.

        Values of the same attribute have other groups, so nothing changes for them. Of others only unions with one of these
        groups can change, from failing to passing, and where the size alone counts each has fewer records than is asked.
        """
        each = float(crowd.rows.limits.least - 1) if crowd.rows.plain and self.anonymity == "records" else np.inf
        for b in range(crowd.node.shape[1]):
            if b != a:
                above, many = np.unique(self.parent[crowd.node[union.groups, b]], return_counts=True)
                self.slack[above[above >= 0]] += each * many[above >= 0] + 1

    def _most(self, ready: list[int]) -> FloatArray:
        """What closing each value brings at most: all below it that fails, or a rise of what is smallest nowhere else."""
        marked = np.zeros(len(self.parent), bool)
        marked[ready] = True
        total = np.zeros(len(self.parent))
        for crowd in self.crowds:
            ok = crowd.ok if self.anonymity == "records" else crowd.size > crowd.smallest
            below = kernels.generalize.failing_below(crowd.node, crowd.size, ok, self.parent, marked)
            total += below if self.anonymity == "records" else (below == crowd.size[~ok].sum()) * self.codes.records
        sets = np.array([max(len(self._sets(x)), 1) for x in ready])
        most = total[ready] / sets
        if self.anonymity == "smallest":
            self.slack[ready] = np.inf  # the smallest group is one of all
            return np.asarray(most)
        return np.asarray(np.minimum(most, self.brings[ready] + self.slack[ready]))

    def _smallest(self) -> dict[tuple[str, ...], int]:
        return {crowd.of.names: crowd.smallest for crowd in self.crowds}

    def _measures(self) -> dict[str, float]:
        found = {"ncp": self.ncp, "suppressed": float(max(crowd.failing for crowd in self.crowds))}
        return {**found, "information": max(self.information, 0.0)} if self.values.informed else found


def _opened(values: SpecializationTrees) -> Int32Array:
    """Make all values of all attributes; the parent of each, -1 for the topmost."""
    waiting = [values.root(j) for j in range(len(values.attributes))]
    parent = dict.fromkeys(waiting, -1)
    while waiting:
        x = waiting.pop()
        below = values.open(x)
        parent |= dict.fromkeys(below, x)
        waiting += below
    return np.array([parent[x] for x in range(len(parent))], np.int32)
