"""The search of a lattice of levels for the node with the best objective: exact, with bounds, tags and rolled-up counts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import Int64Array
from shoal.encoding.codes import Codes
from shoal.kernels.interface import ANONYMOUS, ASKS, FAILS, FINISHED, NO_ROOM, UNSEEN
from shoal.policy import Policy
from shoal.progress import Progress, ignore_progress
from shoal.recoding.grouping import AttributeCut
from shoal.recoding.publishing import LabelRules
from shoal.specialization.attribute_sets import list_attribute_sets
from shoal.tables.lattice_arrays import build_log, build_place, build_rules, build_space, build_stack
from shoal.tables.lattice_groups import CheckedNode, check_groups
from shoal.tables.lattice_objective import LatticeObjective
from shoal.tables.levels import AttributeLevels

Node = tuple[int, ...]  # the level of every attribute, in the order of the policy

MOST_STATES = 2**24  # nodes; larger lattices have no array of states
BLOCK_NODES = 10_000  # of the lattice of a block
WORK = 2_000_000  # rows counted between two looks at the clock
BUDGET = 500_000_000  # rows counted, where a lattice has no array of states and no time limit is given


@dataclass(frozen=True)
class LevelLattice:
    """The lattice of a table: the levels of every attribute, in the order of the policy, and the objective."""

    codes: Codes
    policy: Policy
    objective: LatticeObjective
    attributes: tuple[AttributeLevels, ...]

    @classmethod
    def of(cls, codes: Codes, policy: Policy, objective: LatticeObjective) -> LevelLattice:
        """The lattice of a table, with the losses of the labels as they are published without suppression."""
        rules = LabelRules(policy, "label", None)
        attributes = []
        for j, attribute in enumerate(codes.attributes):
            attributes.append(AttributeLevels.of(attribute, codes.count_codes(j), rules, objective.figure))
        return cls(codes, policy, objective, tuple(attributes))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(a.attribute.name for a in self.attributes)

    @property
    def top(self) -> Node:
        """The node with the root of every attribute."""
        return tuple(a.height for a in self.attributes)

    @cached_property
    def size(self) -> int:
        """The number of nodes."""
        return prod(height + 1 for height in self.top)

    @cached_property
    def base(self) -> Node:
        """The lowest level of every attribute that was counted: 0, unless values are merged."""
        merged = self.codes.merged
        if merged is None:
            return (0,) * len(self.attributes)
        return tuple(a.find_base(first) for a, first in zip(self.attributes, merged.first, strict=True))

    @cached_property
    def different(self) -> tuple[Int64Array, ...]:
        """The counted levels of every attribute that differ from the level below."""
        return tuple(a.list_different(base) for a, base in zip(self.attributes, self.base, strict=True))

    @cached_property
    def uncovered(self) -> tuple[int, ...]:
        """The attributes that no requirement covers."""
        covered = {j for s in list_attribute_sets(self.policy) for j in s.columns}
        return tuple(j for j in range(len(self.attributes)) if j not in covered)

    @cached_property
    def limit(self) -> int:
        """The most records that may be suppressed; a release keeps at least one record."""
        return min(self.policy.most_suppressed(self.codes.records), self.codes.records - 1)

    @cached_property
    def inherits(self) -> bool:
        """Whether every node that is finer than a failing node fails."""
        require, unit = self.policy.require, self.policy.unit is not None
        if self.limit == 0 and not self.policy.knows_history:
            return all(r.monotone and (r.upward_closed or not unit) for r in require)
        return all(r.upward_closed for r in require) and not self.policy.knows_history

    def cuts(self, node: Node) -> tuple[AttributeCut, ...]:
        """The cuts of a node."""
        return tuple(a.levels[level].cut for a, level in zip(self.attributes, node, strict=True))

    def check(self, node: Node) -> CheckedNode:
        """Check a node by the groups of the requirements, as the release is checked."""
        levels = [a.levels[level] for a, level in zip(self.attributes, node, strict=True)]
        return check_groups(self.codes, self.policy, self.objective, levels, [a.lost for a in self.attributes])


@dataclass
class LatticeSearch:
    """The state of a search; nodes are checked once, and the best is kept.

    ``fixed`` has the level of attributes that have only one. Attributes that no requirement covers have their root. ``swept``:
    the whole lattice is searched; ``finished``: all nodes are decided.
    """

    lattice: LevelLattice
    fixed: Mapping[int, int] = field(default_factory=dict)
    finished: bool = False
    swept: bool = False
    block_score: float = -np.inf

    def __post_init__(self) -> None:
        lattice = self.lattice
        sizes = [int(a.levels[0].value.max(initial=0)) for a in lattice.attributes]
        self.order = sorted(range(len(sizes)), key=lambda j: (-sizes[j], j))  # wide attributes shrink tables first
        self.fixed = {**{j: lattice.top[j] for j in lattice.uncovered}, **self.fixed}
        self.space = build_space(lattice, self.order, self.fixed)
        self.rules = build_rules(lattice, self.order)
        self.stack = build_stack(lattice, self.order, self.space, self.rules)
        self.place = build_place(self.space)
        states = prod(len(d) for d in lattice.different)
        self.log = build_log(len(self.order), states if states <= MOST_STATES else 0)

    @property
    def _tests(self) -> tuple[bool | None, bool | None, bool | None]:
        """What the kernels test: sizes first, values, several sets of attributes. They leave out code for None."""
        rules = self.rules
        tests_values = rules.tests_values or len(rules.relaxed.term) > 0
        return rules.sizes_first or None, tests_values or None, len(rules.least_of_set) > 0 or None

    @property
    def checked(self) -> int:
        """The number of checked nodes."""
        return int(self.log.counts[0])

    @property
    def best(self) -> Node | None:
        """The best node so far, or None."""
        return None if self.place.best[0] == np.inf else self.to_node(self.place.best_level)

    @property
    def best_measure(self) -> float:
        """The objective of the best node."""
        return self.lattice.objective.measure(float(self.place.best[0]), len(self.order))

    def to_node(self, level: Int64Array) -> Node:
        """The node of levels in the order of the search."""
        node = [0] * len(self.order)
        for d, j in enumerate(self.order):
            node[j] = self.fixed.get(j, int(self.lattice.different[j][level[d]]))
        return tuple(node)

    def to_levels(self, node: Node) -> Int64Array:
        """The levels of a node in the order of the search; equal levels have the number of the lowest."""
        different = self.lattice.different
        return np.array([np.searchsorted(different[j], node[j], side="right") - 1 for j in self.order], np.int64)

    @property
    def states(self) -> int:
        """The number of different nodes."""
        return prod(int(t - b) + 1 for b, t in zip(self.space.low, self.space.top, strict=True))

    def check(self, node: Node) -> CheckedNode:
        """Check a node, or return its earlier result."""
        return self.check_levels(self.to_levels(node))

    def check_levels(self, level: Int64Array) -> CheckedNode:
        """Check the node with these levels, in the order of the search."""
        before = self._find(level)
        if before is not None:
            return before
        kernels.lattice_sweep.move_to(level, self.space, self.stack, self.place)
        most, check = np.int64(self.lattice.codes.records), kernels.lattice_sweep.check_node
        while (done := check(most, self.space, self.rules, self.stack, self.place, self.log, *self._tests)) == NO_ROOM:
            self._grow()
        if done == ASKS:
            self._decide()
        return self._result(self.checked - 1)

    def _find(self, level: Int64Array) -> CheckedNode | None:
        """The result of an earlier check of a node, if any; a tagged node fails by at least one record."""
        if len(self.log.state):
            state = self.log.state[int((level * self.space.stride).sum())]
            if state == UNSEEN:
                return None
        rows = np.flatnonzero((self.log.level[: self.checked] == level).all(axis=1))
        if len(rows):
            return self._result(int(rows[0]))
        return CheckedNode(False, self.lattice.limit + 1, np.inf) if len(self.log.state) else None

    def _result(self, at: int) -> CheckedNode:
        log = self.log
        return CheckedNode(log.outcome[at] == ANONYMOUS, int(log.suppressed[at]), float(log.value[at]))

    def _decide(self) -> None:
        """Check the current node by its groups, where the kernel cannot decide."""
        found = self.lattice.check(self.to_node(self.place.level))
        holds = found.holds and found.suppressed <= self.lattice.limit
        if not holds and self.rules.inherits:
            kernels.lattice_sweep.tag_finer(self.place.level, self.space, self.place, self.log)
        state = ANONYMOUS if holds else FAILS
        value = found.score if holds else np.inf
        kernels.lattice_sweep.record(
            np.int64(state), np.int64(found.suppressed), value, self.space, self.place, self.log
        )

    def descend(self, deadline: float | None = None, level: Int64Array | None = None, last: int = -1) -> None:
        """Find a good node: from the root, lower one attribute after another, largest decrease of the loss first.

        ``level`` is another begin of the search, ``last`` an attribute that is lowered only if no other can be.
        """
        space, m = self.space, len(self.order)
        level = space.top.copy() if level is None else level
        if not self.check_levels(level).holds:
            return
        moves = True
        while moves and not is_over(deadline):
            moves = False
            drop = [
                (j == last, space.score[space.first[j] + level[j] - 1] - space.score[space.first[j] + level[j]], j)
                for j in range(m)
                if level[j] > space.low[j]
            ]
            for *_, j in sorted(drop):
                level[j] -= 1
                if self.check_levels(level).holds:
                    moves = True
                    break
                level[j] += 1

    def climb(self, deadline: float | None) -> None:
        """Improve the best node of a large lattice: raise one attribute and descend again, until nothing is gained."""
        gains = not len(self.log.state)
        while gains:
            before = float(self.place.best[0])
            for j in range(len(self.order)):
                level = self.place.best_level.copy()
                level[j] += 1
                if level[j] <= self.space.top[j] and not is_over(deadline):
                    self.descend(deadline, level, j)
            gains = float(self.place.best[0]) < before and not is_over(deadline)

    def sweep(self, progress: Progress, deadline: float | None) -> None:
        """Visit all nodes that can be better, until the deadline."""
        space, place = self.space, self.place
        self.swept, place.depth[0] = True, 0
        place.choice[0] = kernels.lattice_sweep.find_highest(np.int64(0), space, place)
        budget = None if deadline is not None or len(self.log.state) else int(self.stack.clock[1]) + BUDGET
        while True:
            done = kernels.lattice_sweep.sweep(
                space, self.rules, self.stack, place, self.log, np.int64(WORK), *self._tests
            )
            if done == FINISHED:
                self.finished = True
                break
            if done == NO_ROOM:
                self._grow()
            elif done == ASKS:
                self._decide()
                kernels.lattice_sweep.leave_step(np.int64(len(space.attribute)), place)
            first = int(space.blocks[0]) if space.is_block[0] else int(space.top[0]) + 1
            progress("searching", first - 1 - int(place.choice[0]), first)
            if is_over(deadline):
                break
            if budget is not None and self.stack.clock[1] > budget:
                break

    def bound(self) -> float:
        """The best measure that an unvisited node can have; the measure of the best node after a finished search."""
        return self.lattice.objective.measure(self.bound_score(), len(self.order))

    def bound_score(self) -> float:
        """The least score that an unvisited node can have, or the score of the best node."""
        place, steps = self.place, len(self.space.attribute)
        if self.finished:
            return float(place.best[0])
        least = np.inf if self.swept else float(place.bound[0])
        for d in range(min(int(place.depth[0]), steps - 1) + 1 if self.swept else 0):
            left = int(place.choice[d]) - (d < place.depth[0])  # the next choice of the step
            if left >= kernels.lattice_sweep.find_lowest(np.int64(d), self.space, place):
                least = min(least, float(place.bound[d]))
        if place.depth[0] == steps:
            least = min(least, float(place.bound[steps]))
        objective = self.lattice.objective
        if not objective.sums_attributes:
            least = float(kernels.roll_up.bound_table(np.int64(0), self.rules, self.stack))
        return min(max(least, self.block_score), float(place.best[0]))

    def bound_blocks(self, deadline: float | None) -> None:
        """Bound the objective of a large lattice: the sum of the best scores of blocks of attributes.

        A node is not better in a block than the best node with the roots of all other attributes, which suppresses no more.
        """
        lattice = self.lattice
        bounded = all((a.levels[i].loss <= a.lost).all() for a in lattice.attributes for i in range(a.height + 1))
        if len(self.log.state) or not (lattice.inherits and lattice.objective.sums_attributes and bounded):
            return
        score, tops = lattice.objective.score_attribute, dict(enumerate(lattice.top))
        root = {j: score(a.mean(a.height)) for j, a in enumerate(lattice.attributes)}
        total = sum(score(lattice.attributes[j].least(level, lattice.limit)) for j, level in self.fixed.items())
        free = [j for j in self.order if j not in self.fixed]

        def bound_block(block: Sequence[int]) -> float:
            others = {j: top for j, top in tops.items() if j not in block}
            search = LatticeSearch(lattice, others)
            search.descend(deadline)
            search.sweep(ignore_progress, deadline)
            return search.bound_score() - sum(root[j] for j in others)

        blocks = split_blocks(free, [len(different) for different in lattice.different])
        self.block_score = total + sum(threads.each(bound_block, blocks, lattice.codes.records))

    def _grow(self) -> None:
        """Double the arrays that are full."""
        log, stack = self.log, self.stack
        if log.counts[0] == len(log.outcome):
            self.log = log = replace(
                log,
                level=_double(log.level),
                outcome=_double(log.outcome),
                suppressed=_double(log.suppressed),
                value=_double(log.value),
            )
        elif not len(log.state) and log.counts[1] == len(log.failed):
            self.log = replace(log, failed=_double(log.failed))
        else:
            self.stack = replace(
                stack,
                key=_double(stack.key),
                row=_double(stack.row),
                size=_double(stack.size),
                histogram=_double(stack.histogram),
            )


def split_blocks(attributes: Sequence[int], levels: Sequence[int]) -> list[list[int]]:
    """Split attributes into blocks whose lattices are small."""
    blocks: list[list[int]] = [[]]
    nodes = 1
    for j in attributes:
        if nodes * levels[j] > BLOCK_NODES and blocks[-1]:
            blocks.append([])
            nodes = 1
        blocks[-1].append(j)
        nodes *= levels[j]
    return blocks


def is_over(deadline: float | None) -> bool:
    """Whether the time limit of a search is over."""
    return deadline is not None and time.monotonic() > deadline


def _double(values: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([values, np.zeros_like(values)])
