"""The search of top-down specialization: from the root of every attribute, value after value, while the requirements hold.

Fung, Wang, Yu: Top-down specialization for information and privacy preservation (ICDE 2005).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal import threads
from shoal.arrays import BoolArray, FloatArray, Int32Array
from shoal.encoding.codes import Codes
from shoal.formats.numbers import format_count
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import AttributeCut
from shoal.recoding.search_path import Refusal, SearchPath, Step
from shoal.specialization.attribute_sets import SuppressionAllowance, list_attribute_sets
from shoal.specialization.refined_groups import RefinedGroups
from shoal.specialization.trees import SCORE_TOLERANCE, SpecializationTrees, count_classes

SAME = 1e-9  # a smaller difference of the information kept is rounding
NO_REQUIREMENT = (
    "no requirement covers this attribute; name it in a requirement, or under 'keep' to publish it unchanged"
)


@dataclass(frozen=True)
class Stop:
    """The step of a path that is released: its cuts, the group of every combination (None: not known), what it keeps.

    ``kept`` is what the search compares, ``kept_of_all`` the information kept, where suppressed records keep nothing.
    """

    cuts: tuple[AttributeCut, ...]
    rows: Int32Array | None
    path: SearchPath
    kept: float
    kept_of_all: float
    suppressed: int


@dataclass
class Search:
    """The current cut, the groups of every attribute set, and the gain of every value.

    Arrays are indexed by value number. A value is ``alive`` as long as it may be specialized at this or a later step;
    ``refused_now`` has the values that are refused at this step only, ``reasons`` the reason of every refusal. ``slots[j]`` has
    the slot of every code of attribute j; see `kernels.specialize`. A ``thrifty`` search ``spends``
    further records of the allowance only when no value can be specialized without; the others are ``postponed``.
    ``suppressed_now`` are the suppressed records of the current table, ``suppressed`` those after the selected step.
    """

    codes: Codes
    policy: Policy
    by: str
    split: str
    workers: threads.Workers
    values: SpecializationTrees
    groups: list[RefinedGroups]
    allowance: SuppressionAllowance
    cut: list[list[int]]
    slots: list[Int32Array]
    attribute: Int32Array
    fan_out: Int32Array
    gain: FloatArray
    alive: BoolArray
    reasons: dict[int, str] = field(default_factory=dict)
    refused_now: set[int] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    ncp: float = 1.0
    information: float = 0.0
    suppressed: int = 0
    thrifty: bool = False
    spends: bool = True
    suppressed_now: int = 0
    postponed: set[int] = field(default_factory=set)
    opening: bool = False
    origin: tuple[dict[tuple[str, ...], int], dict[str, float]] = field(default_factory=lambda: ({}, {}))

    @classmethod
    def start(
        cls,
        codes: Codes,
        policy: Policy,
        by: str,
        split: str,
        objective: str,
        workers: threads.Workers,
        *,
        thrifty: bool = False,
        cuts: Sequence[AttributeCut] | None = None,
        suppressed: int = 0,
    ) -> Search:
        """Return the search before the first step: every attribute at its root.

        Or every attribute at the nodes of its cut; ``suppressed`` are the records that these cuts suppress.
        """
        sets = list_attribute_sets(policy)
        has_target = policy.target is not None
        values = SpecializationTrees(codes.attributes, count_classes(codes, policy.target), has_target, objective)
        roots = [values.add_root(j) for j in range(len(codes.attributes))]
        search = cls(
            codes,
            policy,
            by,
            split,
            workers,
            values,
            workers.each(lambda s: RefinedGroups.of_set(codes, s, values), sets),
            SuppressionAllowance.of(policy, codes),
            [[x] for x in roots],
            [values.slots(x) for x in roots],
            np.zeros(0, np.int32),
            np.zeros(0, np.int32),
            np.zeros(0),
            np.zeros(0, bool),
            thrifty=thrifty,
            spends=not thrifty,
            opening=cuts is not None,
        )
        search._append_values(range(len(roots)))
        for x in set(roots).difference(*(s.columns for s in sets)):
            search.alive[x] = False
            search.reasons[x] = NO_REQUIREMENT
        for groups in search.groups:
            groups.start(search)
        search._update()
        if cuts is not None:
            search._open_to(cuts, suppressed)
        search.origin = (search._smallest(), search._measures())
        return search

    def run(
        self,
        progress: Progress,
        *,
        stop_at: int | None = None,
        max_steps: int | None = None,
        deadline: float | None = None,
        chooses: bool = False,
    ) -> Stop:
        """Specialize value after value until no valid value or no step is left.

        Return the table to release: after the step ``stop_at``, the one that keeps most if it ``chooses``, or the last.
        """
        chosen, at, figures = self.build_cuts() if stop_at == 0 or chooses else None, 0, self.figures
        stop_reason = "no remaining value can be specialized"
        while (best := self.select_next()) is not None:
            if max_steps is not None and len(self.steps) >= max_steps:
                stop_reason = f"the limit max_steps = {max_steps} was reached"
                break
            if deadline is not None and time.monotonic() >= deadline:
                stop_reason = "the limit of 'seconds' was reached"
                break
            self.specialize(best)
            done = len(self.steps)
            if done == stop_at or (chooses and self.figures[0] >= figures[0] - SAME):
                chosen, at, figures = self.build_cuts(), done, self.figures
            progress("specializing", done, done + int(self.alive.sum()))
        steps = len(self.steps)
        progress("specializing", steps, steps)
        if chosen is None or at == steps:
            return Stop(self.build_cuts(), self.assign_rows(), self.build_path(steps, stop_reason), *self.figures)
        return Stop(chosen, None, self.build_path(at, stop_reason), *figures)

    def select_next(self) -> int | None:
        """Return the value to specialize next, or None, and set the number of suppressed records after that step."""
        while (x := self._find_best()) is not None or self._spend():
            if x is None:
                continue
            self.suppressed = self._count_failing(x)
            if not self.allowance.needs_repeats or (self.suppressed == 0 and not self._may_lack_people(x)):
                break
            cuts = [self.values.build_cut(j, cut, x) for j, cut in enumerate(self.cut)]
            values, codes = self.values, self.codes.quasi[:, self.values.attribute[x]]
            changed = np.flatnonzero((codes >= values.lo[x]) & (codes <= values.hi[x]))
            self.suppressed = self.allowance.count_suppressed(self.codes, cuts, changed)
            if self.allowance.allows(self.suppressed, self.codes.records):
                if self.spends or self.suppressed <= self.suppressed_now:
                    break
                self.postponed.add(x)
            else:
                self._refuse(x, self.suppressed)
        return x

    def _spend(self) -> bool:
        """Let a thrifty search suppress more records at this step; return whether this is new."""
        is_new, self.spends = not self.spends, True
        self.postponed.clear()
        return is_new

    def _may_lack_people(self, x: int) -> bool:
        """Whether a group may have too few people after the specialization of a value."""
        if not self.allowance.counts_people:
            return False
        sets = [(int(groups.smallest_after[x]), groups.attribute_set.require) for groups in self.groups]
        return self.policy.knows_history or not all(self.allowance.is_large_enough(*of_set) for of_set in sets)

    def specialize(self, x: int) -> None:
        """Specialize a value, and append the step to the path."""
        values, j = self.values, self.values.attribute[x]
        gain, loss = values.gain[x], float(self._compute_losses()[x])
        children = values.expand(x)
        self.cut[j].remove(x)
        self.cut[j].extend(children)
        self.slots[j][values.lo[x] : values.hi[x] + 1] = np.concatenate([values.slots(c) for c in children])
        self._append_values(children)
        self.alive[x] = False
        self.refused_now.clear()
        self.postponed.clear()
        self.suppressed_now, self.spends = self.suppressed, not self.thrifty
        tasks = [task for groups in self._groups_with(j) for task in groups.plan_specialization(x, self)]
        self.workers.each(lambda task: task(), tasks)
        self._update()
        share = values.records[x] / self.codes.records
        self.ncp -= share * values.loss_reduction(x, "ncp") / len(self.codes.attributes)
        self.information += share * gain
        score = float(_compute_scores(np.array([gain]), np.array([loss]), self.by)[0])
        name, label = self.codes.attributes[j].name, values.label(x)
        smallest, measures = self._smallest(), self._measures()
        self.steps.append(Step(name, label, values.child_labels(x), gain, loss, score, smallest, measures))

    @property
    def figures(self) -> tuple[float, float, int]:
        """What the table keeps (see `Stop`), and its suppressed records; with a target, information about it is compared."""
        share = 1 - self.suppressed_now / self.codes.records
        kept_of_all = (1 - self.ncp) * share
        return self.information * share if self.values.has_target else kept_of_all, kept_of_all, self.suppressed_now

    def build_cuts(self) -> tuple[AttributeCut, ...]:
        """Return the current cut of every attribute."""
        return tuple(self.values.build_cut(j, cut) for j, cut in enumerate(self.cut))

    def assign_rows(self) -> Int32Array | None:
        """Return the group of every combination, if some attribute set has all attributes."""
        for groups in self.groups:
            if len(groups.attribute_set.columns) == len(self.codes.attributes):
                return groups.assign_rows()
        return None

    def build_path(self, chosen: int, stop_reason: str) -> SearchPath:
        """Return the path: the steps, and the values that were refused at its end."""
        for x in self._list_invalid():
            self._refuse(x, self._count_failing(x))
        refusals = []
        for j, cut in enumerate(self.cut):
            for x in sorted((x for x in cut if x in self.reasons), key=lambda x: self.values.lo[x]):
                name, label = self.codes.attributes[j].name, self.values.label(x)
                refusals.append(Refusal(name, label, self.values.child_labels(x), self.reasons[x]))
        return SearchPath("specialize", tuple(self.steps), chosen, *self.origin, tuple(refusals), stop_reason)

    def _open_to(self, cuts: Sequence[AttributeCut], suppressed: int) -> None:
        """Specialize all values above the nodes of these cuts, also values that are not useful; the path begins after that."""
        values = self.values
        for j, cut in enumerate(cuts):
            assert cut.node is not None  # noqa: S101
            nodes, waiting = set(cut.node.tolist()), list(self.cut[j])
            while waiting:
                x = waiting.pop()
                if values.node[x] not in nodes and values.records[x]:
                    self.specialize(x)
                    waiting += values.expand(x)
        self.opening = False
        self.alive &= np.array(values.is_useful, bool)
        self.suppressed = self.suppressed_now = suppressed
        self.steps.clear()
        self._update()

    def _append_values(self, created: range) -> None:
        """Append the figures of values that were just created."""
        values = self.values
        self.attribute = np.append(self.attribute, np.array(values.attribute[created.start :], np.int32))
        self.fan_out = np.append(self.fan_out, np.array(values.fan_out[created.start :], np.int32))
        self.gain = np.append(self.gain, values.gain[created.start :])
        useful = values.fan_out if self.opening else values.is_useful
        self.alive = np.append(self.alive, np.array(useful[created.start :], bool))
        reason = (
            "all records with this value are of one class"
            if values.has_target
            else f"specializing it would not reduce {values.objective}"
        )
        self.reasons |= {x: reason for x in created if values.fan_out[x] and not values.is_useful[x]}

    def _update(self) -> None:
        """Update the look-ahead summaries; move invalid splits if ``split`` is ``valid``; refuse invalid values if final."""
        for groups in self.groups:
            groups.summarize(self)
        if self.split == "valid":
            moved = [self._move_split(x) for x in self._list_invalid()]
            for groups in self.groups if any(moved) else ():
                groups.summarize(self)
        if self.allowance.is_refusal_final:
            for x in self._list_invalid():
                self._refuse(x, self._count_failing(x))

    def _move_split(self, x: int) -> bool:
        """Move the split of an interval to the best valid position; return whether there is one."""
        values, codes = self.values, self.values.splittable_codes(x)
        if codes is None:
            return False
        j, invalid = values.attribute[x], np.zeros(codes[1] - codes[0], bool)
        for groups in self._groups_with(j):
            groups.mark_invalid_splits(x, codes, self, invalid)
        if not values.change_split(x, invalid):
            return False
        self.gain[x] = values.gain[x]
        self.slots[j][values.lo[x] : values.hi[x] + 1] = values.slots(x)
        for groups in self._groups_with(j):
            groups.update_slots(x, self)
        return True

    def _groups_with(self, j: int) -> list[RefinedGroups]:
        """Return the groups of the attribute sets that contain attribute j."""
        return [groups for groups in self.groups if j in groups.attribute_set.columns]

    def _find_valid(self, most: int) -> BoolArray:
        """Return which values may be specialized if ``most`` records are suppressed, as far as failing records decide it."""
        valid = np.ones(len(self.alive), bool)
        if not self.allowance.counts_all_failing:
            return valid
        for groups in self.groups:
            valid &= (groups.failing_after <= most) & (groups.failing_after < self.codes.records)
        return valid

    def _list_invalid(self) -> list[int]:
        invalid: list[int] = np.flatnonzero(self.alive & ~self._find_valid(self.allowance.records)).tolist()
        return invalid

    def _count_failing(self, x: int) -> int:
        """Return the largest number of failing records of an attribute set after the specialization of a value."""
        return max(int(groups.failing_after[x]) for groups in self.groups)

    def _refuse(self, x: int, failing: int) -> None:
        """Refuse a value at this step, or at all later steps too if the refusal is final."""
        required = "; ".join(str(groups.attribute_set) for groups in self.groups if groups.failing_after[x] > 0)
        most = f"; at most {self.allowance.records:,} may be suppressed" if self.allowance.records else ""
        self.reasons[x] = f"{format_count(failing, 'record')} would be in groups that fail {required}{most}"
        if self.allowance.is_refusal_final:
            self.alive[x] = False
        else:
            self.refused_now.add(x)

    def _find_best(self) -> int | None:
        """Return the valid value with the highest score; ties: the earlier attribute, then the earlier value."""
        possible = self.alive & self._find_valid(self.allowance.records if self.spends else self.suppressed_now)
        left_out = self.refused_now | self.postponed
        valid = [x for x in np.flatnonzero(possible).tolist() if x not in left_out]
        if not valid:
            return None
        free = [x for x in valid if self.values.is_free[x]]
        if free:
            return min(free, key=lambda x: (self.values.attribute[x], self.values.lo[x]))
        score = _compute_scores(self.gain[valid], self._compute_losses()[valid], self.by)
        best = np.array(valid)[score * (1 + SCORE_TOLERANCE) >= score.max()]
        return int(min(best, key=lambda x: (self.values.attribute[x], self.values.lo[x])))

    def _compute_losses(self) -> FloatArray:
        """Return the anonymity loss of every value: the reduction of the smallest group, as the mean over its sets."""
        loss, sets = np.zeros(len(self.attribute)), np.zeros(len(self.attribute))
        for groups in self.groups:
            contained = groups.position[self.attribute] >= 0
            loss[contained] += groups.smallest - groups.smallest_after[contained]
            sets[contained] += 1
        return np.maximum(loss / np.maximum(sets, 1), 0.0)

    def _smallest(self) -> dict[tuple[str, ...], int]:
        return {groups.attribute_set.names: int(groups.smallest) for groups in self.groups}

    def _measures(self) -> dict[str, float]:
        measures = {"ncp": max(self.ncp, 0.0), "suppressed": float(self.suppressed)}
        return {**measures, "information": self.information} if self.values.has_target else measures


def _compute_scores(gain: FloatArray, loss: FloatArray, by: str) -> FloatArray:
    """Return the gain per unit of anonymity loss; the gain alone if there is no loss."""
    return gain if by == "gain" else gain / np.where(loss > 0, loss, 1.0)
