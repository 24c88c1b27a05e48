"""Bottom-up generalization (Wang, Yu, Chakraborty: Bottom-up generalization, ICDM 2004).

Every attribute starts at its leaves. Each step generalizes the children of one value to this value, lowest information loss per
anonymity gain first, until the requirements hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal import kernels, threads
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, list_choices
from shoal.pipeline.method import NOT_AVERAGED, CommonParameters, GroupingMethod, Need
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import AttributeCut, Grouping
from shoal.recoding.search_path import SearchPath, Step
from shoal.specialization.attribute_sets import AttributeSet, SetCombinations, SuppressionAllowance, list_attribute_sets
from shoal.specialization.search import Search
from shoal.specialization.trees import SCORE_TOLERANCE, SpecializationTrees, count_classes
from shoal.tables.top_down import note_obstacles

ANONYMITY = ("records", "smallest")


class BottomUpGeneralization(GroupingMethod):
    """Generalize values bottom-up, lowest information loss per anonymity gain first, until the requirements hold.

    Parameters
    ----------
    policy : the policy; every quasi-identifier needs a taxonomy, or for numbers ``widths``, ``boundaries`` or ``balanced``.
        With a target the loss of a value is its information gain about the target, without one the increase of the objective
    anonymity : the anonymity gain of a value: ``records`` counts the records that leave failing groups, ``smallest`` is the
        increase of the smallest group, as in the paper; the latter is 0 as long as some record is unique. Default:
        ``records`` with a target, ``smallest`` without one
    reopen : specialize values again at the end, as long as the requirements hold: an early step may no longer be needed after
        later ones. ``False`` is the method of the paper
    common : ``write``, ``objective``, ``improve`` and others, as for every method; see `GroupingMethod`

    Among the values with an anonymity gain the search takes the one with the lowest loss per gain; if no value has a gain, the
    one with the lowest loss. A quasi-identifier that no requirement covers is published as ``*``. Ties: the earlier attribute
    in the policy, then the earlier value.

    ``path_`` has every step, and the values that were specialized again.

    Guarantee
    ---------
    Every group meets every requirement, except for the records that the policy allows to suppress. Deterministic. Only the
    end of the path may be released.

    References
    ----------
    Wang, Yu, Chakraborty: Bottom-up generalization: a data mining solution to privacy protection. ICDM 2004.
    """

    name: ClassVar[str] = "bottom-up"
    cuts: ClassVar[bool] = True
    counts_people: ClassVar[bool] = True
    summary: ClassVar[str] = "generalizes values bottom-up, lowest information loss per anonymity gain first"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {},
        {"anonymity": "smallest"},
        {"anonymity": "records"},
        {"reopen": False},
    )
    styles: ClassVar[Sequence[str]] = NOT_AVERAGED

    path_: SearchPath

    def __init__(
        self,
        policy: Policy,
        *,
        anonymity: str | None = None,
        reopen: bool = True,
        **common: Unpack[CommonParameters],
    ) -> None:
        super().__init__(policy, **common)
        self.anonymity = anonymity
        self.reopen = reopen
        self._notes: tuple[str, ...] = ()

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """A tree for every quasi-identifier."""
        return frozenset({"trees"})

    def notes(self) -> tuple[str, ...]:
        """Return the note on records that prevent a more informative release."""
        return self._notes

    def extra_columns(self) -> tuple[str, ...]:
        """Return the target, whose classes the method counts."""
        return (self.policy.target,) if self.policy.target is not None else ()

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """Return the cut of the table; ``rng`` is not used."""
        anonymity = (
            ("smallest" if self.policy.target is None else "records") if self.anonymity is None else self.anonymity
        )
        if anonymity not in ANONYMITY:
            raise PolicyError(f"Parameter 'anonymity' cannot be {anonymity!r}; {list_choices(anonymity, ANONYMITY)}.")
        for attribute in codes.attributes:
            if attribute.taxonomy is None:
                is_numeric = attribute.kind == "numeric"
                remedy = "'widths', 'boundaries' or 'balanced'" if is_numeric else "'date: [day, month, year]'"
                raise PolicyError(
                    f"Method 'bottom-up' needs a taxonomy for {attribute.name!r}. Declare {remedy} for this column, or use "
                    "method 'tds'."
                )
        search = _Search.start(codes, self.policy, anonymity, self.objective)
        records = codes.records
        while not search.holds() and search.ready:
            search.generalize(search.select_next())
            progress("generalizing", records - min(search.count_failing(), records), records)
        if not (self.reopen and search.steps and search.holds()):
            self.path_ = search.build_path()
            return Grouping.from_cuts(codes, search.build_cuts(), self.path_)
        with threads.workers(len(codes.quasi)) as workers:
            again = Search.start(
                codes,
                self.policy,
                "score",
                "best",
                self.objective,
                workers,
                thrifty=True,
                cuts=search.build_cuts(),
                suppressed=int(search.steps[-1].measures["suppressed"]),
            )
            found = again.run(progress, chooses=True)
            self._notes = note_obstacles(codes, self.policy, self.objective, workers, found.kept_of_all, progress)
        self.path_ = replace(search.build_path(), reopened=found.path[: found.path.chosen])
        return Grouping.from_cuts(codes, found.cuts, self.path_, found.rows)


@dataclass(frozen=True)
class _Merge:
    """The merge of groups by the generalization of a value.

    ``groups`` are the groups that merge, ``number`` the merged group of each; by merged group: its first group
    (``representative``), its records (``size``) and whether it ``passes``.
    """

    groups: Int64Array
    number: Int32Array
    representative: Int64Array
    size: Int64Array
    passes: BoolArray

    @property
    def failing(self) -> int:
        """The records in merged groups that fail."""
        return int(self.size[~self.passes].sum())


@dataclass
class _MergedGroups:
    """The groups of one attribute set, which merge when values are generalized.

    The combinations of group g are a linked list from ``first[g]`` by ``following`` to ``last[g]``.
    """

    attribute_set: AttributeSet
    combinations: SetCombinations
    node: Int32Array
    size: Int64Array
    passes: BoolArray
    first: Int64Array
    last: Int64Array
    following: Int64Array

    @classmethod
    def of_set(cls, codes: Codes, attribute_set: AttributeSet, leaf: list[Int32Array]) -> _MergedGroups:
        """Return one group for every combination; ``leaf`` has the value of every code of every attribute."""
        combinations = SetCombinations.of_set(codes, attribute_set)
        pairs = zip(combinations.columns, attribute_set.columns, strict=True)
        node = np.stack([leaf[j][combinations.quasi[:, a]] for a, j in pairs], axis=1).astype(np.int32)
        own = np.arange(len(node), dtype=np.int64)
        size, following = combinations.size.copy(), np.full(len(own), -1, np.int64)
        groups = cls(attribute_set, combinations, node, size, np.ones(len(own), bool), own, own.copy(), following)
        groups.passes = groups._find_passing(own, np.arange(len(own), dtype=np.int32), combinations.size)
        return groups

    @property
    def failing(self) -> int:
        """The records in groups that fail."""
        return int(self.size[~self.passes].sum())

    @property
    def smallest(self) -> int:
        """The records of the smallest group."""
        return int(self.size.min())

    def plan_merge(self, a: int, v: int, parent: Int32Array) -> _Merge:
        """Return the merge by the generalization of the children of value v of the set's attribute a."""
        groups = np.flatnonzero(parent[self.node[:, a]] == v)
        number, representative = kernels.generalize.merge(self.node, groups, a)
        size = np.bincount(number, self.size[groups], minlength=len(representative)).astype(np.int64)
        return _Merge(groups, number, representative, size, self._find_passing(groups, number, size))

    def smallest_after(self, merge: _Merge) -> int:
        """Return the records of the smallest group after a merge."""
        others = np.ones(len(self.size), bool)
        others[merge.groups] = False
        most = np.iinfo(np.int64).max
        return int(min(self.size[others].min(initial=most), merge.size.min(initial=most)))

    def apply_merge(self, a: int, v: int, merge: _Merge) -> None:
        """Merge groups."""
        order = np.argsort(merge.number, kind="stable")
        groups, number = merge.groups[order], merge.number[order]
        same = number[1:] == number[:-1]
        self.following[self.last[groups[:-1][same]]] = self.first[groups[1:][same]]
        ends = np.append(~same, True)[: len(number)]
        self.last[groups[np.append(True, ~same)[: len(number)]]] = self.last[groups[ends]]
        kept = merge.representative
        self.size[kept], self.passes[kept], self.node[kept, a] = merge.size, merge.passes, v
        remains = np.ones(len(self.size), bool)
        remains[merge.groups] = False
        remains[kept] = True
        self.node, self.size, self.passes = self.node[remains], self.size[remains], self.passes[remains]
        self.first, self.last = self.first[remains], self.last[remains]

    def _find_passing(self, groups: Int64Array, number: Int32Array, size: Int64Array) -> BoolArray:
        limits = self.combinations.limits
        if self.combinations.size_only:
            return size >= limits.least
        order = np.argsort(number, kind="stable")
        start = np.searchsorted(number[order], np.arange(len(size) + 1))
        return np.asarray(
            kernels.generalize.find_passing(
                groups[order], start, size, self.first, self.following, self.combinations.cells, limits.arrays()
            )
        )


@dataclass
class _Search:
    """The current cut, the groups of every attribute set, and the values whose children may be generalized next (``ready``).

    Arrays are indexed by value number. ``missing`` counts the children of a value that are not yet in the cut. ``gain`` is the
    anonymity gain of a value when it was last computed; since then the gain has grown by at most ``slack``, so most values need
    not be computed again.
    """

    codes: Codes
    policy: Policy
    anonymity: str
    values: SpecializationTrees
    parent: Int32Array
    missing: Int32Array
    ready: set[int]
    cut: list[set[int]]
    groups: list[_MergedGroups]
    allowance: SuppressionAllowance
    ncp: float
    information: float
    gain: FloatArray
    slack: FloatArray
    steps: list[Step] = field(default_factory=list)
    origin: tuple[dict[tuple[str, ...], int], dict[str, float]] = field(default_factory=lambda: ({}, {}))

    @classmethod
    def start(cls, codes: Codes, policy: Policy, anonymity: str, objective: str) -> _Search:
        """Return the search before the first step: every attribute at its leaves, or at its root if no requirement covers it.

        The root of attribute j has number j.
        """
        has_target = policy.target is not None
        values = SpecializationTrees(codes.attributes, count_classes(codes, policy.target), has_target, objective)
        parent = _expand_all(values)
        sets = list_attribute_sets(policy)
        covered = {j for s in sets for j in s.columns}
        fan_out = np.array(values.fan_out, np.int32)
        leaves = np.flatnonzero(fan_out == 0).tolist()
        cut: list[set[int]] = [set() if j in covered else {j} for j in range(len(codes.attributes))]
        leaf = [np.zeros(a.size, np.int32) for a in codes.attributes]
        for x in leaves:
            leaf[values.attribute[x]][values.lo[x]] = x
            if values.attribute[x] in covered:
                cut[values.attribute[x]].add(x)
        inner = [x for x in np.flatnonzero(fan_out).tolist() if values.attribute[x] in covered]
        information = sum(values.gain[x] * values.records[x] for x in inner) / codes.records
        is_child = parent[leaves] >= 0
        missing = fan_out - np.bincount(parent[leaves][is_child], minlength=len(fan_out)).astype(np.int32)
        search = cls(
            codes,
            policy,
            anonymity,
            values,
            parent,
            missing,
            {x for x in inner if missing[x] == 0},
            cut,
            [_MergedGroups.of_set(codes, s, leaf) for s in sets],
            SuppressionAllowance.of(policy, codes),
            1 - len(covered) / len(codes.attributes),
            information,
            np.zeros(len(fan_out)),
            np.full(len(fan_out), np.inf),
        )
        search.origin = (search._smallest(), search._measures())
        return search

    def holds(self) -> bool:
        """Whether the current table meets the requirements; sets the suppressed records of the last step."""
        failing, allowance = self.count_failing(), self.allowance
        direct = not allowance.counts_people and (failing == 0 or not allowance.needs_repeats)
        if direct and allowance.allows(failing, self.codes.records):
            return True
        if not allowance.needs_repeats or (failing > allowance.records and allowance.counts_all_failing):
            return False
        suppressed = allowance.count_suppressed(self.codes, self.build_cuts())
        if self.steps and allowance.allows(suppressed, self.codes.records):
            last = self.steps[-1]
            self.steps[-1] = replace(last, measures={**last.measures, "suppressed": float(suppressed)})
        return allowance.allows(suppressed, self.codes.records)

    def count_failing(self) -> int:
        """Return the largest number of failing records of an attribute set."""
        return max(groups.failing for groups in self.groups)

    def select_next(self) -> int:
        """Return the value with the lowest loss per anonymity gain; ties: the earlier attribute, then the earlier value."""
        values = self.values
        ready = sorted(self.ready, key=lambda x: (values.attribute[x], values.lo[x], values.node[x]))
        most = self._bound_gains(ready)
        loss = np.array([self.values.gain[x] for x in ready])
        lowest = loss / np.maximum(most, 1e-300)  # lower bound of the score
        score, has_gain, best = np.full(len(ready), np.inf), np.zeros(len(ready), bool), np.inf
        for n in np.argsort(lowest, kind="stable").tolist():
            if lowest[n] > best * (1 + SCORE_TOLERANCE):
                break
            if self.slack[ready[n]] > 0 and most[n] > 0:
                self.gain[ready[n]] = self._compute_gain(self._plan_merges(ready[n]))
                self.slack[ready[n]] = 0
            gain = float(self.gain[ready[n]]) if most[n] > 0 else 0.0
            score[n], has_gain[n] = (loss[n] / gain, True) if gain > 0 else (loss[n], False)
            best = min(best, score[n]) if gain > 0 else best
        score[has_gain != has_gain.any()] = np.inf
        return ready[int(np.argmax(score * (1 - SCORE_TOLERANCE) <= score.min()))]

    def generalize(self, v: int) -> None:
        """Generalize the children of a value to the value, and append the step to the path."""
        values, j = self.values, self.values.attribute[v]
        merges = self._plan_merges(v)
        gain = self._compute_gain(merges)
        for groups, a, merge in merges:
            self._raise_slack(groups, a, merge)
            groups.apply_merge(a, v, merge)
        children = values.expand(v)
        self.cut[j].difference_update(children)
        self.cut[j].add(v)
        self.ready.discard(v)
        if self.parent[v] >= 0:
            self.missing[self.parent[v]] -= 1
            if self.missing[self.parent[v]] == 0:
                self.ready.add(int(self.parent[v]))
        share = values.records[v] / self.codes.records
        self.ncp += share * values.loss_reduction(v, "ncp") / len(self.codes.attributes)
        self.information -= share * values.gain[v]
        loss = values.gain[v]
        score = loss / gain if gain > 0 else loss
        name, label = self.codes.attributes[j].name, values.label(v)
        smallest, measures = self._smallest(), self._measures()
        self.steps.append(Step(name, label, values.child_labels(v), gain, loss, score, smallest, measures))

    def build_cuts(self) -> tuple[AttributeCut, ...]:
        """Return the current cut of every attribute."""
        return tuple(self.values.build_cut(j, sorted(cut)) for j, cut in enumerate(self.cut))

    def build_path(self) -> SearchPath:
        """Return the path of all steps."""
        return SearchPath("generalize", tuple(self.steps), len(self.steps), *self.origin, (), "every requirement holds")

    def _groups_with(self, v: int) -> list[tuple[_MergedGroups, int]]:
        """Return the groups of the attribute sets that contain a value's attribute, and its position in each set."""
        j = self.values.attribute[v]
        pairs = [(groups, groups.attribute_set.columns) for groups in self.groups]
        return [(groups, columns.index(j)) for groups, columns in pairs if j in columns]

    def _plan_merges(self, v: int) -> list[tuple[_MergedGroups, int, _Merge]]:
        """Return the merge in every attribute set by the generalization of a value's children."""
        return [(groups, a, groups.plan_merge(a, v, self.parent)) for groups, a in self._groups_with(v)]

    def _compute_gain(self, merges: list[tuple[_MergedGroups, int, _Merge]]) -> float:
        """Return the anonymity gain of a value, as the mean over the attribute sets that contain its attribute."""
        gains = []
        for groups, _, merge in merges:
            if self.anonymity == "records":
                before = int(groups.size[merge.groups][~groups.passes[merge.groups]].sum())
                gains.append(before - merge.failing)
            else:
                gains.append(groups.smallest_after(merge) - groups.smallest)
        return max(float(np.mean(gains)), 0.0) if gains else 0.0

    def _raise_slack(self, groups: _MergedGroups, a: int, merge: _Merge) -> None:
        """Raise the slack of the values whose gain can grow by a merge.

        Values of the same attribute concern other groups, so their gain does not change. Gains of other attributes change only
        through merges with one of these groups that failed before and pass now. With requirements on the size of groups alone,
        a merge that failed has fewer records than required.
        """
        combinations = groups.combinations
        each = (
            float(combinations.limits.least - 1) if combinations.size_only and self.anonymity == "records" else np.inf
        )
        for b in range(groups.node.shape[1]):
            if b != a:
                parents, many = np.unique(self.parent[groups.node[merge.groups, b]], return_counts=True)
                self.slack[parents[parents >= 0]] += each * many[parents >= 0] + 1

    def _bound_gains(self, ready: list[int]) -> FloatArray:
        """Return an upper bound of the anonymity gain of each value.

        The bound is the number of failing records below the value, or for ``smallest`` all records if every smallest group is
        below the value, else 0.
        """
        marked = np.zeros(len(self.parent), bool)
        marked[ready] = True
        total = np.zeros(len(self.parent))
        for groups in self.groups:
            passes = groups.passes if self.anonymity == "records" else groups.size > groups.smallest
            below = kernels.generalize.count_failing_below(groups.node, groups.size, passes, self.parent, marked)
            is_all = below == groups.size[~passes].sum()
            total += below if self.anonymity == "records" else is_all * self.codes.records
        sets = np.array([max(len(self._groups_with(x)), 1) for x in ready])
        most = total[ready] / sets
        if self.anonymity == "smallest":
            self.slack[ready] = np.inf  # any merge can change the smallest group
            return np.asarray(most)
        return np.asarray(np.minimum(most, self.gain[ready] + self.slack[ready]))

    def _smallest(self) -> dict[tuple[str, ...], int]:
        return {groups.attribute_set.names: groups.smallest for groups in self.groups}

    def _measures(self) -> dict[str, float]:
        measures = {"ncp": self.ncp, "suppressed": float(self.count_failing())}
        return {**measures, "information": max(self.information, 0.0)} if self.values.has_target else measures


def _expand_all(values: SpecializationTrees) -> Int32Array:
    """Create all values of all attributes; return the parent of each, -1 for a root."""
    waiting = [values.add_root(j) for j in range(len(values.attributes))]
    parent = dict.fromkeys(waiting, -1)
    while waiting:
        x = waiting.pop()
        children = values.expand(x)
        parent |= dict.fromkeys(children, x)
        waiting += children
    return np.array([parent[x] for x in range(len(parent))], np.int32)
