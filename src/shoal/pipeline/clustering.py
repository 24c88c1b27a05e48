"""The input of the clustering kernels; assignment of leftover records; merging until all clusters meet the requirement."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.kernels.interface import LossArrays, RecordClusters, RuleArrays, SensitiveLabels
from shoal.policy import Policy
from shoal.requirements import TableDistribution, combine_limits


@dataclass(frozen=True)
class ClusteringInput:
    """Counted cells in the form that the clustering kernels take.

    ``label[c]`` is the row of ``sensitive`` with the sensitive codes of cell c. The columns of ``sensitive`` are those that the
    requirements name; column s begins at ``offset[s]`` in a histogram. ``keyed_rank`` is the place of every cell in keyed
    order, which breaks ties. ``loss_tables`` holds the attribute weights and the losses of the objective.
    """

    rows: Int32Array
    count: Int64Array
    label: Int32Array
    sensitive: Int32Array
    offset: Int64Array
    limits: RuleArrays
    loss_tables: LossArrays
    k: int
    keyed_rank: Int32Array

    @classmethod
    def of(
        cls,
        codes: Codes,
        policy: Policy,
        weights: FloatArray,
        objective: str = "ncp",
        *,
        extra_column: Int32Array | None = None,
        distribution: TableDistribution | None = None,
    ) -> ClusteringInput:
        """The cells of a table, with the losses of an objective.

        ``extra_column`` holds the codes of one more column, by cell, appended to the sensitive columns; ``distribution`` is the
        distribution that groups are compared with (default: the whole table's).
        """
        limits = combine_limits(policy.require, distribution or codes.distribution)
        tables = codes.loss_tables(objective)
        cells = len(codes.counts.size)
        domains = [len(s.labels) for s in codes.sensitive]
        columns = codes.counts.sensitive.reshape(cells, len(domains))
        if extra_column is not None:
            columns = np.column_stack([columns, extra_column])
            domains.append(int(extra_column.max(initial=0)) + 1)
        label, sensitive = np.zeros(cells, np.int32), np.zeros((1, 0), np.int32)
        if domains:
            sensitive, inverse = np.unique(columns, axis=0, return_inverse=True)
            label = inverse.reshape(-1).astype(np.int32)
        return cls(
            np.ascontiguousarray(codes.quasi[codes.combination]),
            codes.counts.size.astype(np.int64),
            label,
            np.ascontiguousarray(sensitive, np.int32),
            np.concatenate(([0], np.cumsum(domains))).astype(np.int64),
            limits.arrays(),
            LossArrays(weights, tables.ints, tables.floats),
            limits.least,
            codes.keyed_rank,
        )

    @property
    def total(self) -> int:
        """The number of records."""
        return int(self.count.sum())

    def select_cells(self, cells: Int64Array) -> ClusteringInput:
        """The input restricted to some of the cells."""
        return replace(
            self,
            rows=self.rows[cells],
            count=self.count[cells],
            label=self.label[cells],
            keyed_rank=self.keyed_rank[cells],
        )

    def place_leftovers(self, cell: Int32Array, group: Int32Array, left: Int64Array, rng: np.random.Generator) -> None:
        """Assign leftover records, in random order, to the cluster with the least increase of loss that still passes."""
        chance = rng.random(len(left))
        if len(left):
            values = self.values if self.tests_values else None
            kernels.cluster_merging.assign_leftovers(
                left.astype(np.int64), chance, self.rows, self._link_records(cell, group), values, self.loss_tables
            )

    def find_failing(self, cell: Int32Array, group: Int32Array) -> BoolArray:
        """For every group, whether it fails the requirement."""
        groups = int(group.max(initial=-1)) + 1
        if not self.tests_values:
            size = np.bincount(group[group >= 0], minlength=groups)
            return np.asarray((size > 0) & (size < self.limits.parameter[:, 0].max(initial=0.0)), bool)
        failing = np.empty(groups, bool)
        order, start = kernels.order.sort_by_group(group, groups)
        histogram = np.zeros(int(self.offset[-1]), np.int64)
        kernels.cluster_merging.find_failing(order, start, cell, self.values, histogram, failing)
        return failing

    def merge_failing(self, cell: Int32Array, group: Int32Array) -> None:
        """Merge failing groups with the cheapest partners until all groups pass, or one is left."""
        kernels.cluster_merging.merge_failing(
            self.rows, self._link_records(cell, group), self.find_failing(cell, group), self.values, self.loss_tables
        )

    def total_loss(self, cell: Int32Array, group: Int32Array) -> float:
        """The information loss of all groups (Total-IL): the sum of records x D, from the first group to the last."""
        groups = int(group.max(initial=-1)) + 1
        low, high = kernels.boxes.bound_groups(self.rows, cell.astype(np.int64), group, groups)
        size = np.bincount(group[group >= 0], minlength=groups)
        return float(np.cumsum(size * kernels.boxes.sum_losses(low, high, self.loss_tables))[-1]) if groups else 0.0

    def _link_records(self, cell: Int32Array, group: Int32Array) -> RecordClusters:
        """The groups as linked lists of records, records in their order; kernels change ``group`` in place."""
        groups, width = int(group.max(initial=-1)) + 1, int(self.offset[-1])
        order, start = kernels.order.sort_by_group(group, groups)
        size, some = np.diff(start), np.flatnonzero(np.diff(start))
        head, tail, following = (np.full(n, -1, np.int64) for n in (groups, groups, len(group)))
        head[some], tail[some] = order[start[some]], order[start[some + 1] - 1]
        following[order[:-1]] = order[1:]
        following[tail[some]] = -1
        low, high = kernels.boxes.bound_groups(self.rows, cell.astype(np.int64), group, groups)
        loss = kernels.boxes.sum_losses(low, high, self.loss_tables)
        own, histogram = np.zeros(width, np.int64), np.zeros(width, np.int64)
        return RecordClusters(cell, group, following, head, tail, size, low, high, loss, own, histogram)

    @property
    def tests_values(self) -> bool:
        """Whether the requirements may depend on sensitive values; otherwise on the size of groups alone."""
        return bool(self.offset[-1] > 0)

    @property
    def values(self) -> SensitiveLabels:
        """The labels, the sensitive codes, their offsets and the limits, as kernels take them."""
        return SensitiveLabels(self.label, self.sensitive, self.offset, self.limits)


def suppress_or_merge(records: ClusteringInput, policy: Policy, cell: Int32Array, group: Int32Array) -> Int32Array:
    """Suppress the failing groups if the policy allows it, otherwise merge them until all groups meet the requirement.

    A record in no group (-1) counts as a failing group of its own. If a requirement compares groups with the whole table,
    nothing is suppressed, since that would change the condition for the other groups.
    """
    group = group.copy()
    ungrouped = np.flatnonzero(group < 0)
    group[ungrouped] = group.max(initial=-1) + 1 + np.arange(len(ungrouped), dtype=np.int32)
    fails = records.find_failing(cell, group)
    if not fails.any():
        return group
    failing = fails[group]
    relative = any(r.relative for r in policy.require)
    if not relative and int(failing.sum()) <= policy.most_suppressed(len(cell)) and not failing.all():
        return np.where(failing, -1, group).astype(np.int32)
    records.merge_failing(cell, group)
    return group


def meet_requirements(
    codes: Codes, policy: Policy, cell: Int32Array, group: Int32Array, weights: FloatArray, objective: str = "ncp"
) -> Int32Array:
    """`suppress_or_merge` for the groups of any method, given record by record."""
    return suppress_or_merge(ClusteringInput.of(codes, policy, weights, objective), policy, cell, group)
