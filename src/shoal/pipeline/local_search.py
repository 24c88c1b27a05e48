"""A local search for any grouping: records change their groups while the requirement holds and the information loss falls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import numpy as np

from shoal import kernels, threads
from shoal.arrays import Int32Array, Int64Array
from shoal.pipeline.clustering import ClusteringInput
from shoal.progress import CountProgress

PIECE = 4096  # up to this many groups are searched together; more are divided into neighbourhoods
ROUNDS = 40
LEAST_GAIN = 1e-3  # the search ends after a round with a smaller relative decrease of the loss


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
    def relative_gain(self) -> float:
        """The decrease of the loss, relative to the loss before."""
        return max(0.0, (self.before - self.after) / self.before) if self.before > 0 else 0.0


def improve_groups(
    records: ClusteringInput, cell: Int32Array, group: Int32Array, most: int, report: CountProgress
) -> Improvement:
    """Lower the information loss of the groups; each group still meets the requirement.

    Nothing is changed if a group does not meet the requirement on its own. ``cell`` and ``group`` are given by record. No group
    grows beyond ``most`` records. The result does not depend on the number of threads. ``report`` is called with the number of
    records searched.
    """
    group = group.copy()
    groups = int(group.max(initial=-1)) + 1
    before = _total_loss(records, cell, group, groups)
    if records.find_failing(
        cell, group
    ).any():  # these pass only merged with identically labelled groups: no record may move
        return Improvement(group, before, before, all_groups_pass=False)
    by_group = np.argsort(group, kind="stable")
    by_group = by_group[group[by_group] >= 0]
    start = np.searchsorted(group[by_group], np.arange(groups + 1))
    neighbourhoods = _divide_groups(records, cell, by_group, start)
    partitions = [np.concatenate([by_group[start[g] : start[g + 1]] for g in near]) for near in neighbourhoods]
    done, lock = np.zeros(len(partitions), np.int64), Lock()

    def improve_partition(at: int) -> Int32Array:
        records_here = partitions[at]
        numbers, own = np.unique(group[records_here], return_inverse=True)

        def report_share(part: float) -> None:
            with lock:
                done[at] = int(part * len(records_here))
                report(int(done.sum()))

        return _run_rounds(records, cell[records_here], own.astype(np.int32), len(numbers), most, report_share)

    numbered = 0
    for records_here, improved in zip(partitions, threads.each(improve_partition, range(len(partitions))), strict=True):
        group[records_here] = improved + numbered
        numbered += int(improved.max(initial=-1)) + 1
    after = _total_loss(records, cell, group, numbered)
    return Improvement(group, before, after)


def _run_rounds(
    records: ClusteringInput,
    cell: Int32Array,
    group: Int32Array,
    groups: int,
    most: int,
    report_share: Callable[[float], None],
) -> Int32Array:
    """Run rounds of the local search until the gain is small. For the progress, each round counts as half of the rest."""
    group = group.copy()
    size = np.bincount(group, minlength=groups)
    capacity = groups + int((size // max(records.k, 1)).sum())
    search = kernels.local_search
    model, state, clock = search.prepare(records.rows, cell, group, groups, capacity, records.loss_tables)
    loss = _total_loss(records, cell, group, groups)
    record_checked, group_checked = np.full(len(cell), -1, np.int64), np.full(capacity, -1, np.int64)
    for done in range(ROUNDS):
        groups, gain = search.run_round(
            groups, records.k, most, model, state, records.values, record_checked, group_checked, clock
        )
        loss -= gain
        if gain <= LEAST_GAIN * loss:
            break
        report_share(1 - 0.5 ** (done + 1))
    report_share(1.0)
    return np.unique(group, return_inverse=True)[1].astype(np.int32)


def _divide_groups(
    records: ClusteringInput, cell: Int32Array, by_group: Int64Array, start: Int64Array
) -> list[Int32Array]:
    """Divide the groups into neighbourhoods, by one record of each."""
    groups = np.flatnonzero(np.diff(start)).astype(np.int32)
    if len(groups) <= PIECE:
        return [groups] if len(groups) else []
    rows = np.zeros((len(start) - 1, records.rows.shape[1]), np.int32)
    rows[groups] = records.rows[cell[by_group[start[groups]]]]
    label = np.zeros(len(rows), np.int32)
    rank = np.arange(len(rows), dtype=np.int32)
    in_tree_order = kernels.neighbours.build_forest(rows, groups, rank, label, 1, records.loss_tables).order
    return np.array_split(in_tree_order, -(-len(in_tree_order) // PIECE))


def _total_loss(records: ClusteringInput, cell: Int32Array, group: Int32Array, groups: int) -> float:
    """The information loss of the boxes (Total-IL)."""
    return float(kernels.cluster_merging.total_loss(records.rows, cell, group, groups, records.loss_tables))
