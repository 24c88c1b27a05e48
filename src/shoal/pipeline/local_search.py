"""A local search for any grouping: records change their groups while the requirement holds and the information loss falls."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.kernels.interface import (
    LARGEST_CODE,
    Division,
    GroupBoxes,
    GroupTree,
    IntervalLosses,
    LossArrays,
    MoveScratch,
    NearestGroups,
    SearchState,
    SensitiveLabels,
)
from shoal.pipeline.clustering import ClusteringInput
from shoal.progress import CountProgress

MOST_TOGETHER = 16_384  # up to this many groups are searched together
PIECE = 4096  # more groups are divided into neighbourhoods of this size, and these are searched in parallel
ROUNDS = 40
LEAST_GAIN = 1e-3  # the search ends after a round with a smaller relative decrease of the loss
LARGE_TABLE = (
    10  # times that for tables that are divided into neighbourhoods: their late rounds take long and gain little
)
CHUNK = 256  # entries or groups of one task
NEAR = 4  # groups that a group is merged with, to divide them in another way
MOST_COUNTS = 2**27  # numbers in the table of the sensitive values of all groups; a larger table is not kept


@dataclass(frozen=True)
class LossChange:
    """The information loss (Total-IL) of the boxes before and after a search."""

    before: float
    after: float

    @property
    def relative_gain(self) -> float:
        """The decrease of the loss, relative to the loss before."""
        return max(0.0, (self.before - self.after) / self.before) if self.before > 0 else 0.0

    @property
    def figures(self) -> dict[str, float]:
        """The measure of the local search."""
        return {"improved": self.relative_gain}


@dataclass(frozen=True)
class Improvement:
    """The group of every record (-1: none), and the information loss (Total-IL) of the boxes before and after.

    ``all_groups_pass``: whether every group meets the requirement on its own; otherwise nothing was changed.
    """

    group: Int32Array
    before: float
    after: float
    all_groups_pass: bool = True

    @property
    def change(self) -> LossChange:
        """The loss before and after."""
        return LossChange(self.before, self.after)

    @property
    def relative_gain(self) -> float:
        """The decrease of the loss, relative to the loss before."""
        return self.change.relative_gain


def improve_groups(
    records: ClusteringInput,
    cell: Int32Array,
    group: Int32Array,
    most: int,
    report: CountProgress,
    seconds: float | None = None,
) -> Improvement:
    """Lower the information loss of the groups; each group still meets the requirement.

    Nothing is changed if a group does not meet the requirement on its own. ``cell`` and ``group`` are given by record; ties go
    to the earlier record. No group grows beyond ``most`` records. The search ends after ``seconds``. Without this limit the
    result does not depend on the number of threads. ``report`` is called with the number of records searched.
    """
    deadline = np.inf if seconds is None else time.monotonic() + seconds
    before = records.total_loss(cell, group)
    if records.find_failing(cell, group).any():
        # these pass only merged with identically labelled groups: no record may move
        return Improvement(group.copy(), before, before, all_groups_pass=False)
    inside = np.flatnonzero(group >= 0)
    if len(inside) == 0:
        return Improvement(group.copy(), before, before)
    pieces = _divide_groups(records, cell[inside], group[inside])
    done, lock = np.zeros(len(pieces)), Lock()

    def improve_piece(at: int, pool: threads.Workers) -> Int32Array:
        here = inside[pieces[at]]

        def report_share(share: float) -> None:
            with lock:
                done[at] = share * len(here)
                report(int(done.sum()))

        numbers, own = np.unique(group[here], return_inverse=True)
        least_gain = LEAST_GAIN * (LARGE_TABLE if len(pieces) > 1 else 1)
        search = Search(records, most, pool, deadline, report_share, least_gain)
        return search.run(cell[here], own.astype(np.int32), len(numbers))

    with threads.workers(len(cell)) as pool:
        if len(pieces) == 1:
            found = [improve_piece(0, pool)]
        else:
            found = pool.each(lambda at: improve_piece(at, threads.Workers(None)), range(len(pieces)))
    improved, numbered = group.copy(), 0
    for piece, better in zip(pieces, found, strict=True):
        improved[inside[piece]] = better + numbered
        numbered += int(better.max()) + 1
    return Improvement(improved, before, records.total_loss(cell, improved))


def _divide_groups(records: ClusteringInput, cell: Int32Array, group: Int32Array) -> list[Int64Array]:
    """Divide the records of very many groups into neighbourhoods: pieces in the order of the tree of all groups."""
    numbers, own = np.unique(group, return_inverse=True)
    if len(numbers) <= MOST_TOGETHER:
        return [np.arange(len(cell))]
    search = Search(records, len(cell), threads.Workers(None), np.inf, lambda share: None)
    search.start(cell, own.astype(np.int32), len(numbers))
    order = search.build_tree(np.ones(len(numbers), bool)).group
    piece_of_group = np.empty(len(numbers), np.int64)
    piece_of_group[order] = np.arange(len(order)) // PIECE
    piece = piece_of_group[own]
    by_piece = np.argsort(piece, kind="stable")
    return np.split(by_piece, np.searchsorted(piece[by_piece], np.arange(1, int(piece.max()) + 1)))


def tabulate_losses(loss_tables: LossArrays) -> IntervalLosses:
    """The losses of all intervals of the attributes with few codes."""
    losses = IntervalLosses.allocate(loss_tables)
    kernels.group_tree.tabulate_losses(losses)
    return losses


@dataclass
class Search:
    """The rounds of a search. ``since`` is the time of the last proposals of every kind of move."""

    records: ClusteringInput
    most: int
    pool: threads.Workers
    deadline: float
    report_share: Callable[[float], None]
    least_gain: float = LEAST_GAIN
    divide: bool = False
    since: dict[str, int] = field(default_factory=dict)
    state: SearchState = field(init=False)
    losses: IntervalLosses = field(init=False)

    def run(self, cell: Int32Array, group: Int32Array, groups: int) -> Int32Array:
        """Run rounds until the gain is small: first with whole entries, then with single records.

        For the progress, each round counts as half of the rest. The groups of the result have consecutive numbers.
        """
        self.start(cell, group, max(groups, len(cell) // max(self.records.k, 1)) + 1)
        loss = float((self.state.size * self.state.total).sum())
        increase = np.zeros(len(self.losses.attribute_order))
        kernels.local_search.sum_increases(self.state, self.losses, increase)
        self.losses.attribute_order[:] = np.argsort(-increase, kind="stable")
        for done in range(ROUNDS):
            gain = self._run_round()
            loss -= gain
            if self.late:
                break
            if gain <= self.least_gain * loss:
                if self.divide:
                    break
                self.divide = True
                self.since["shift"] = 0
            self.report_share(1 - 0.5 ** (done + 1))
        self.report_share(1.0)
        return np.unique(self._place_records(cell), return_inverse=True)[1].astype(np.int32)

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self.deadline

    @property
    def values(self) -> SensitiveLabels | None:
        """The sensitive values, if the requirement depends on them."""
        return self.records.values if self.records.tests_values else None

    def _allocate_scratch(self, *trees: GroupTree) -> MoveScratch:
        """Work arrays of one task, which may search these trees."""
        nodes = max((len(tree.child) for tree in trees), default=0)
        return MoveScratch.allocate(int(self.records.offset[-1]), self.records.rows.shape[1], nodes)

    def _allocate_division(self, entries: NDArray[np.int64]) -> Division:
        """Work arrays for divisions of groups, given the numbers of their entries."""
        width = int(self.records.offset[-1])
        return Division.allocate(int(entries.max(initial=0)), self.records.rows.shape[1], width)

    def _count_entries(self) -> Int64Array:
        """The number of entries of every group, and 0 for the group -1."""
        state = self.state
        return np.bincount(state.group[: int(state.used[0])], minlength=len(state.size) + 1).astype(np.int64)

    @property
    def rules(self) -> Any:
        """The rules of the moves."""
        return kernels.local_search.Rules(max(self.records.k, 1), self.most, self.divide)

    def _run_round(self) -> float:
        gain = self._split_groups()
        for step in (self._eject, self._divide_pairs, self._shift, self._exchange):
            if self.late:
                break
            gain += step()
            self._rebuild()
        return gain

    def start(self, cell: Int32Array, group: Int32Array, capacity: int) -> None:
        """Build the state of records in groups, with room for ``capacity`` groups."""
        self.losses = tabulate_losses(self.records.loss_tables)
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        self.rank = np.zeros(len(self.records.rows), np.int64)
        self.rank[cell[first]] = np.arange(len(first))
        self._build(
            cell, np.ones(len(cell), np.int64), group, np.ones(capacity, np.int64), np.zeros(capacity, np.int64), 1
        )

    def _build(
        self,
        cell: Int32Array,
        count: Int64Array,
        group: Int32Array,
        changed: Int64Array,
        refused: Int64Array,
        clock: int,
    ) -> None:
        """Build the state from entries; those of one cell in one group are merged."""
        key = group.astype(np.int64) * len(self.rank) + self.rank[cell]
        order = np.argsort(key, kind="stable")
        begin = np.flatnonzero(np.diff(key[order], prepend=-1))
        groups, first = len(changed), order[begin]
        n, m, width = len(first), self.records.rows.shape[1], int(self.records.offset[-1])
        room = 2 * n + 2  # moves divide entries

        def extend(values: NDArray[Any], kind: Any) -> NDArray[Any]:
            entries = np.empty(room, kind)
            entries[:n] = values
            return entries

        self.state = SearchState(
            rows=self.records.rows,
            cell=extend(cell[first], np.int32),
            group=extend(group[first], np.int32),
            records=extend(np.add.reduceat(count[order], begin), np.int64),
            following=np.empty(room, np.int32),
            previous=np.empty(room, np.int32),
            head=np.full(groups, -1, np.int32),
            size=np.zeros(groups, np.int64),
            low=np.full((groups, m), LARGEST_CODE),
            next_low=np.full((groups, m), LARGEST_CODE),
            high=np.full((groups, m), -1, np.int32),
            next_high=np.full((groups, m), -1, np.int32),
            loss=np.zeros((groups, m)),
            total=np.zeros(groups),
            changed=changed,
            refused=refused,
            histogram=np.zeros((groups if groups * width <= MOST_COUNTS else 0, width), np.int32),
            used=np.array([n, clock], np.int64),
        )
        kernels.local_search.fill_state(self.state, self.values, self.losses)

    def _rebuild(self) -> None:
        """Sort the entries by group again and merge equal ones."""
        state, entries = self.state, int(self.state.used[0])
        self._build(
            state.cell[:entries],
            state.records[:entries],
            state.group[:entries],
            state.changed,
            state.refused,
            int(state.used[1]),
        )

    def _place_records(self, cell: Int32Array) -> Int32Array:
        """The group of every record: the records of a cell in their order, its groups in the order of their numbers."""
        state, entries = self.state, int(self.state.used[0])
        order = np.lexsort((state.group[:entries], state.cell[:entries]))
        placed = np.repeat(state.group[:entries][order], state.records[:entries][order])
        group = np.empty(len(cell), np.int32)
        group[np.argsort(cell, kind="stable")] = placed
        return group

    def _in_parallel(self, number: int, propose: Callable[[int, int], None]) -> None:
        """Run a kernel for parts of the entries or groups; parts after the deadline are left out."""

        def work(first: int) -> None:
            if not self.late:
                propose(first, min(first + CHUNK, number))

        self.pool.each(work, range(0, number, CHUNK))

    def build_tree(self, selected: BoolArray) -> GroupTree:
        """The tree of the selected groups."""
        state = self.state
        groups = np.flatnonzero(selected & (state.size > 0)).astype(np.int32)
        tree = GroupTree.allocate(groups, state.low.shape[1])
        boxes = GroupBoxes(state.low, state.high, state.loss, state.total, state.size)
        kernels.group_tree.build_tree(tree, boxes, self.losses)
        return tree

    def _trees(self, kind: str) -> tuple[int, GroupTree, GroupTree]:
        """The time of the last proposals of this kind, the tree of all groups, and the tree of those changed since then."""
        since = self.since.get(kind, 0)
        changed = self.state.changed > since
        self.since[kind] = int(self.state.used[1])
        return since, self.build_tree(np.ones_like(changed)), self.build_tree(changed)

    def _shift(self) -> float:
        search, entries = kernels.local_search, int(self.state.used[0])
        target, moved, gain = np.zeros(entries, np.int64), np.zeros(entries, np.int64), np.zeros(entries)
        order = self._propose("shift", search.propose_shifts, target, moved, gain)
        work = self.rules, self.state, self.losses, self.values, self._allocate_scratch()
        return float(search.apply_shifts(order, *work, target, moved))

    def _exchange(self) -> float:
        search, state, entries = kernels.local_search, self.state, int(self.state.used[0])
        partner, gain = np.zeros(entries, np.int64), np.zeros(entries)
        order = self._propose("exchange", search.propose_exchanges, partner, gain)
        work = self.rules, state, self.losses, self.values, self._allocate_scratch()
        return float(search.apply_exchanges(order, *work, partner, state.group.copy(), state.records.copy()))

    def _propose(self, kind: str, propose: Callable[..., None], *found: NDArray[Any]) -> Int64Array:
        """Find a proposal for every entry, written to ``found``; return the entries with a gain, the last of ``found``."""
        since, tree, changed = self._trees(kind)
        self._in_parallel(
            len(found[0]),
            lambda first, last: propose(
                first,
                last,
                since,
                self.rules,
                self.state,
                tree,
                changed,
                self.losses,
                self.values,
                self._allocate_scratch(tree, changed),
                *found,
            ),
        )
        return self._sort_proposals(found[-1])

    def _sort_proposals(self, gain: FloatArray) -> Int64Array:
        """The entries with a gain, largest first; ties: the earlier one in keyed order, then the earlier group."""
        found = np.flatnonzero(gain > 0.0)
        rank = self.rank[self.state.cell[found]]
        return found[np.lexsort((found, rank, -gain[found]))]

    def _list_changed(self, kind: str) -> Int32Array:
        """The groups with a loss that changed since the last proposals of this kind."""
        state, since = self.state, self.since.get(kind, 0)
        self.since[kind] = int(state.used[1])
        changed = (state.changed > since) | (state.refused > since)
        return np.flatnonzero(changed & (state.size > 0) & (state.total > 0.0)).astype(np.int32)

    def _eject(self) -> float:
        """Let entries leave a group together, or dissolve it, where that lowers the loss."""
        groups = self._list_changed("eject")
        state, losses, values, rules = self.state, self.losses, self.values, self.rules
        tree = self.build_tree(np.ones(len(state.size), bool))
        target, gain = np.full(len(state.cell), -1, np.int64), np.zeros(len(groups))
        cut, entries = np.zeros((len(groups), 3), np.int32), self._count_entries()

        def propose(first: int, last: int) -> None:
            part = slice(first, last)
            work, scratch = self._allocate_division(entries[groups[part]]), self._allocate_scratch(tree)
            kernels.regrouping.propose_ejections(
                groups[part], rules, state, tree, losses, values, work, scratch, target, gain[part], cut[part]
            )

        self._in_parallel(len(groups), propose)
        order = np.argsort(-gain, kind="stable")[: int((gain > 0.0).sum())]
        counts, moved, stamps = (np.zeros(n, np.int64) for n in (int(self.records.offset[-1]), *2 * [len(state.cell)]))
        return float(
            kernels.regrouping.apply_ejections(
                order, groups, cut, rules, state, losses, values, counts, target, moved, stamps
            )
        )

    def _split_groups(self) -> float:
        """Divide groups until no division lowers the loss."""
        gain = 0.0
        while not self.late:
            groups = self._list_changed("split")
            groups = groups[self.state.size[groups] >= 2 * self.rules.least]
            found = self._apply_divisions(np.column_stack((groups, np.full(len(groups), -1, np.int32))))
            gain += found
            if found == 0.0:
                break
        return gain

    def _divide_pairs(self) -> float:
        """Merge pairs of near groups and divide them in another way, where that lowers the loss."""
        groups = self._list_changed("pairs")
        state = self.state
        groups = groups[state.size[groups] <= self.most]
        tree = self.build_tree(state.size <= self.most)
        partner = np.full((len(groups), NEAR), -1, np.int64)
        self._in_parallel(
            len(groups),
            lambda first, last: kernels.regrouping.find_partners(
                groups[first:last],
                state,
                tree,
                self.losses,
                NearestGroups.allocate(len(tree.child), NEAR),
                partner[first:last],
            ),
        )
        pairs: Int64Array = np.column_stack((np.repeat(groups, NEAR), partner.ravel())).astype(np.int64)
        pairs = np.unique(np.sort(pairs[pairs[:, 1] >= 0], axis=1), axis=0)
        return self._apply_divisions(pairs.astype(np.int32))

    def _apply_divisions(self, pairs: NDArray[Any]) -> float:
        state, losses, values, rules = self.state, self.losses, self.values, self.rules
        gain, cut = np.zeros(len(pairs)), np.zeros((len(pairs), 3), np.int32)
        since, entries = int(state.used[1]), self._count_entries()[pairs].sum(axis=1)

        def propose(first: int, last: int) -> None:
            part = slice(first, last)
            work, scratch = self._allocate_division(entries[part]), self._allocate_scratch()
            kernels.regrouping.propose_divisions(
                pairs[part], rules, state, losses, values, work, scratch, gain[part], cut[part]
            )

        self._in_parallel(len(pairs), propose)
        order = np.argsort(-gain, kind="stable")[: int((gain > 0.0).sum())]
        free = np.flatnonzero(state.size == 0).astype(np.int32)
        return float(
            kernels.regrouping.apply_divisions(order, pairs, cut, since, rules, free, state, losses, values, gain)
        )
