"""The search of k-Optimize: local search for good cuts, and a best-first search of the set-enumeration tree for a proof."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, Int64Array
from shoal.kernels.interface import DECIDES, CutRoom, CutTable, SearchRules
from shoal.progress import Progress
from shoal.recoding.grouping import AttributeCut
from shoal.tables.cut_points import AttributeSlots, build_room, build_table, copy_table
from shoal.tables.lattice_groups import check_groups
from shoal.tables.lattice_search import LevelLattice, Node
from shoal.tables.levels import AttributeLevel

INFINITE = 2**62  # the cost of cuts that do not meet the requirements
ROUNDS, FEW_ROUNDS = (
    100,
    5,
)  # of the local search without a gain, from every start; few if the tree is searched to its end
LOCAL_WORK = 500_000_000  # rows that the local search reads, where no time limit is given
PROOF_WORK = 100_000_000  # rows that the proof reads
PROOF_NODES = 400  # of the set-enumeration tree
EXACT_POINTS = 20  # so many cut points are searched to the end
EXACT_CHECKED = 8  # and so many where the kernels cannot decide
CHECKS = 150  # of cuts by their groups, where the kernels cannot decide


@dataclass(frozen=True)
class Budget:
    """The end of a search: a time, or numbers of rows and of steps."""

    deadline: float | None
    work: int = INFINITE
    steps: int = INFINITE

    def is_spent(self, work: int, steps: int) -> bool:
        """Whether the search must end."""
        if self.deadline is not None:
            return time.monotonic() > self.deadline
        return work > self.work or steps > self.steps


@dataclass
class CutSearch:
    """The cuts of a table: ``best`` says for every slot whether an interval begins there, and ``cost`` is its objective.

    Costs are whole numbers: the discernibility, or the number of records outside the most frequent class of their group and of
    suppressed records. ``bound``: no cuts cost less. ``finished``: the bound is the cost.
    """

    lattice: LevelLattice
    rules: SearchRules
    cost: int = INFINITE
    bound: int = 0
    rated: int = 0
    best: BoolArray = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        lattice = self.lattice
        self.decides = self.rules.decides == DECIDES and not len(self.rules.least_of_set)
        if not self.decides:
            self.rules = replace(self.rules, tests_values=False)
        if not self.rules.tests_values:
            self.rules = replace(self.rules, limits=None)
        self.slots = tuple(
            AttributeSlots.of(a.attribute, lattice.codes.count_own_codes(j), covered=j not in lattice.uncovered)
            for j, a in enumerate(lattice.attributes)
        )
        self.table: CutTable = build_table(lattice.codes, self.slots, self.rules)
        self.room: CutRoom = build_room(self.table)
        self.best = np.zeros(int(self.table.first[-1]), bool)
        wide = np.diff(self.table.first) > 1
        self.divided = np.flatnonzero(wide)
        self.points: Int64Array = np.setdiff1d(np.arange(len(self.best)), self.table.first[:-1]).astype(np.int64)

    @property
    def finished(self) -> bool:
        """Whether the best cuts are proved to be the best."""
        return self.bound >= self.cost

    @property
    def work(self) -> int:
        """The number of rows that were read."""
        return int(self.room.work[0])

    @property
    def is_small(self) -> bool:
        """Whether the set-enumeration tree is small enough to search it to its end."""
        return len(self.points) <= (EXACT_POINTS if self.decides else EXACT_CHECKED)

    def build_cuts(self, cut: BoolArray) -> tuple[AttributeCut, ...]:
        """The cut of every attribute."""
        first = self.table.first
        return tuple(s.build_cut(cut[first[j] : first[j + 1]]) for j, s in enumerate(self.slots))

    def read_node(self, node: Node) -> BoolArray:
        """The cuts of a node of the lattice of levels, as far as they are cut points."""
        lattice = self.lattice
        levels = [a.levels[i] for a, i in zip(lattice.attributes, node, strict=True)]
        return np.concatenate([s.read_values(level.value) for s, level in zip(self.slots, levels, strict=True)])

    def rate(self, cut: BoolArray) -> int:
        """The cost of cuts; INFINITE if too many records must be suppressed. The best cuts are kept."""
        self.rated += 1
        if self.decides:
            cost, lost = kernels.cut_points.rate_cuts(cut, self.table, self.rules, self.room)
        else:
            cost, lost = self._check(cut)
        return self._keep(cut, int(cost), int(lost))

    def _keep(self, cut: BoolArray, cost: int, lost: int) -> int:
        if lost > self.lattice.limit:
            return INFINITE
        if cost < self.cost:
            self.cost, self.best = cost, cut.copy()
        return cost

    def _check(self, cut: BoolArray) -> tuple[int, int]:
        """The cost and the suppressed records of cuts by their groups, as the release is checked."""
        lattice = self.lattice
        levels = [
            AttributeLevel(c, c.table(a.attribute.size), np.zeros(a.attribute.size))
            for c, a in zip(self.build_cuts(cut), lattice.attributes, strict=True)
        ]
        found = check_groups(lattice.codes, lattice.policy, lattice.objective, levels, [0.0] * len(levels))
        if not found.holds:
            return INFINITE, lattice.codes.records
        share = lattice.objective.name == "cm"
        return round(found.score * (lattice.codes.records if share else 1)), found.suppressed

    def improve(self, start: BoolArray | None, progress: Progress, deadline: float | None) -> None:
        """Improve cuts by local search, from ``start``, from no cuts and from all cuts."""
        rng = np.random.default_rng(0)
        every = np.zeros(len(self.best), bool)
        every[self.points] = True
        starts = [c for c in (start, np.zeros(len(every), bool), every) if c is not None]
        climb = self._repeat if self.decides else self._toggle
        begin = time.monotonic()
        for number, cut in enumerate(starts):
            part = (number + 1) / len(starts)
            end = None if deadline is None else begin + (deadline - begin) * part
            steps = INFINITE if self.decides else self.rated + CHECKS // len(starts)
            climb(cut.copy(), Budget(end, round(LOCAL_WORK * part), steps), rng)
            progress("improving", number + 1, len(starts) + 1)

    def _repeat(self, cut: BoolArray, budget: Budget, rng: np.random.Generator) -> None:
        """Iterated local search: change some cuts at random and descend, until nothing is gained for many rounds."""
        cost = self._descend(cut, budget, rng)
        rounds, most = 0, FEW_ROUNDS if self.is_small else ROUNDS
        while rounds < most and len(self.divided) and not budget.is_spent(self.work, 0):
            rounds += 1
            other = self._disturb(cut, rng)
            found = self._descend(other, budget, rng)
            if found < cost:
                rounds = 0
            if found <= cost:
                cut, cost = other, found

    def _disturb(self, cut: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Remove all cuts or half of the cuts of some attributes, or change some of them."""
        other = cut.copy()
        chosen = rng.permutation(self.divided)[: rng.integers(1, 4)]
        for j in chosen:
            points = np.arange(self.table.first[j] + 1, self.table.first[j + 1])
            way, draw = rng.integers(3), rng.random(len(points))
            if way == 0:
                other[points] = False
            elif way == 1:
                other[points] ^= draw < 0.2
            else:
                other[points] &= draw < 0.5
        return other

    def _descend(self, cut: BoolArray, budget: Budget, rng: np.random.Generator) -> int:
        """Divide one attribute after another in the best way, until no attribute gains; ``cut`` changes."""
        cost, stale = self.rate(cut), 0
        while stale < len(self.divided):
            for j in rng.permutation(self.divided).tolist():
                before = cut.copy()
                found, lost = kernels.cut_points.divide_attribute(np.int64(j), cut, self.table, self.rules, self.room)
                self.rated += 1
                value = self._keep(cut, int(found), int(lost))
                stale = 0 if value < cost else stale + 1
                if value > cost:
                    cut[:] = before
                cost = min(cost, value)
                if stale >= len(self.divided) or budget.is_spent(self.work, 0):
                    return cost
        return cost

    def _toggle(self, cut: BoolArray, budget: Budget, rng: np.random.Generator) -> None:
        """Add or remove one cut after another while the cost falls, where only a check of the groups decides."""
        cost, stale = self.rate(cut), 0
        while stale < len(self.points):
            for point in rng.permutation(self.points).tolist():
                if stale >= len(self.points) or budget.is_spent(0, self.rated):
                    return
                cut[point] ^= True
                value = self.rate(cut)
                stale = 0 if value < cost else stale + 1
                if value >= cost:
                    cut[point] ^= True
                cost = min(cost, value)

    def prove(self, progress: Progress, deadline: float | None) -> None:
        """Search the set-enumeration tree, least bound first, until the best cuts are proved or the budget is spent."""
        budget = Budget(deadline, self.work + PROOF_WORK, PROOF_NODES if self.decides else self.rated + CHECKS)
        if self.is_small:
            budget = Budget(deadline)
        found, fine = np.zeros((len(self.points), 3), np.int64), copy_table(self.table)
        number = count()
        self.rate(np.zeros(len(self.best), bool))
        nodes: list[tuple[int, int, BoolArray, Int64Array]] = [
            (0, next(number), np.zeros(len(self.best), bool), self.points.copy())
        ]
        done = 0
        while nodes and nodes[0][0] < self.cost:
            bound, _, head, tail = heapq.heappop(nodes)
            length, own = kernels.cut_points.expand(
                head, tail, np.int64(len(tail)), np.int64(self.cost), self.table, fine, self.rules, self.room, found
            )
            own = max(bound, int(own))
            done += 1
            if length >= 0:
                self._add_children(
                    head, tail[:length], found[:length], own, lambda node: heapq.heappush(nodes, node), number
                )
            progress("proving", done, done + len(nodes))
            if budget.is_spent(self.work, done if self.decides else self.rated):
                break
        self.bound = min(self.cost, nodes[0][0] if nodes else self.cost)

    def _add_children(
        self,
        head: BoolArray,
        tail: Int64Array,
        found: Int64Array,
        own: int,
        push: Callable[[tuple[int, int, BoolArray, Int64Array]], None],
        number: count[int],
    ) -> None:
        """Rate the heads with one cut of the tail each, and keep the subtrees that may contain better cuts.

        The tail is reordered: cuts with a high bound come first, since they are pruned soon.
        """
        order = np.argsort(-found[:, 0], kind="stable")
        for at, t in enumerate(order.tolist()):
            other = head.copy()
            other[tail[t]] = True
            if self.decides:
                self._keep(other, int(found[t, 1]), int(found[t, 2]))
            else:
                self.rate(other)
            bound = max(own, int(found[t, 0]))
            if bound < self.cost and at + 1 < len(order):
                push((bound, next(number), other, tail[order[at + 1 :]]))
