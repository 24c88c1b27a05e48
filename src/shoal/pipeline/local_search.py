"""A polish for any grouping: records change their groups while the requirement holds and the information loss falls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import numpy as np

from shoal import kernels, threads
from shoal.arrays import Int32Array, Int64Array
from shoal.pipeline.clustering import ClusteringInput

PIECE = 4096  # groups up to this many are polished together; more are parted into neighbourhoods
ROUNDS = 40
ENOUGH = 1e-3  # a round that lowers the loss by a smaller part is the last

Tell = Callable[[int], None]


@dataclass(frozen=True)
class Improvement:
    """The group of every record (-1: none), and the information loss (Total-IL) of the boxes before and after.

    ``apart`` says whether every group meets the requirement on its own; where not, nothing was changed.
    """

    group: Int32Array
    before: float
    after: float
    apart: bool = True

    @property
    def gained(self) -> float:
        """The part of the loss that is gone."""
        return max(0.0, (self.before - self.after) / self.before) if self.before > 0 else 0.0


def improve_groups(records: ClusteringInput, cell: Int32Array, group: Int32Array, most: int, tell: Tell) -> Improvement:
    """Groups whose information loss is no larger, each of which still meets the requirement.

    Where a group does not meet it on its own nothing is changed.
    ``cell`` and ``group`` tell of every record. No group grows beyond ``most`` records. Deterministic: the same for any number
    of threads. ``tell`` hears how many records have been polished.
    """
    group = group.copy()
    groups = int(group.max(initial=-1)) + 1
    before = _loss(records, cell, group, groups)
    if records.failing(cell, group).any():  # they rely on others that look the same, which must not change then
        return Improvement(group, before, before, apart=False)
    order = np.argsort(group, kind="stable")
    order = order[group[order] >= 0]
    edge = np.searchsorted(group[order], np.arange(groups + 1))
    parts = [np.concatenate([order[edge[g] : edge[g + 1]] for g in near]) for near in _near(records, cell, order, edge)]
    done, turn = np.zeros(len(parts), np.int64), Lock()

    def one(at: int) -> Int32Array:
        mine = parts[at]
        names, own = np.unique(group[mine], return_inverse=True)

        def so_far(part: float) -> None:
            with turn:
                done[at] = int(part * len(mine))
                tell(int(done.sum()))

        return _rounds(records, cell[mine], own.astype(np.int32), len(names), most, so_far)

    first = 0
    for mine, found in zip(parts, threads.each(one, range(len(parts))), strict=True):
        group[mine] = found + first
        first += int(found.max(initial=-1)) + 1
    after = _loss(records, cell, group, first)
    return Improvement(group, before, after)


def _rounds(
    records: ClusteringInput,
    cell: Int32Array,
    group: Int32Array,
    groups: int,
    most: int,
    so_far: Callable[[float], None],
) -> Int32Array:
    """Rounds of the local search until they bring little; each is thought to leave half of the way."""
    group = group.copy()
    size = np.bincount(group, minlength=groups)
    room = groups + int((size // max(records.k, 1)).sum())
    polish = kernels.local_search
    model, state, clock = polish.prepare(records.rows, cell, group, groups, room, records.loss_tables)
    loss = _loss(records, cell, group, groups)
    seen, tried = np.full(len(cell), -1, np.int64), np.full(room, -1, np.int64)
    for turn in range(ROUNDS):
        groups, gain = polish.improve(groups, records.k, most, model, state, records.values, seen, tried, clock)
        loss -= gain
        if gain <= ENOUGH * loss:
            break
        so_far(1 - 0.5 ** (turn + 1))
    so_far(1.0)
    return np.unique(group, return_inverse=True)[1].astype(np.int32)


def _near(records: ClusteringInput, cell: Int32Array, order: Int64Array, edge: Int64Array) -> list[Int32Array]:
    """Groups parted into neighbourhoods, by one record of each."""
    groups = np.flatnonzero(np.diff(edge)).astype(np.int32)
    if len(groups) <= PIECE:
        return [groups] if len(groups) else []
    rows = np.zeros((len(edge) - 1, records.rows.shape[1]), np.int32)
    rows[groups] = records.rows[cell[order[edge[groups]]]]
    weight, ints, floats = records.loss_tables
    label = np.zeros(len(rows), np.int32)
    turn = np.arange(len(rows), dtype=np.int32)
    line = kernels.neighbours.plant(rows, groups, turn, label, 1, weight, ints, floats)[0]
    return np.array_split(line, -(-len(line) // PIECE))


def _loss(records: ClusteringInput, cell: Int32Array, group: Int32Array, groups: int) -> float:
    """Total-IL."""
    return float(kernels.cluster_merging.loss(records.rows, cell, group, groups, records.loss_tables))
