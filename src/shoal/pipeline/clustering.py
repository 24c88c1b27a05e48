"""Records as the kernels of clusters take them, where leftovers go, and merging until every cluster meets the requirement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.policy import Policy
from shoal.requirements import TableDistribution, lower_requirements


@dataclass(frozen=True)
class ClusteringInput:
    """Counted cells as the kernels of clusters take them.

    ``label[c]`` says which row of ``sensitive`` a cell's confidential codes are: the columns that count, one of them behind the
    other in a histogram that begins at ``offset``. ``keyed_rank`` has the place of every cell in keyed order, by which ties are
    broken. ``loss_tables`` is the weights and `codes.Codes.heights`.
    """

    rows: Int32Array
    count: Int64Array
    label: Int32Array
    sensitive: Int32Array
    offset: Int64Array
    limits: tuple[NDArray[Any], ...]
    loss_tables: tuple[FloatArray, Int32Array, FloatArray]
    k: int
    keyed_rank: Int32Array

    @classmethod
    def of(
        cls,
        codes: Codes,
        policy: Policy,
        weights: FloatArray,
        *,
        beside: Int32Array | None = None,
        layout: TableDistribution | None = None,
    ) -> ClusteringInput:
        """The records of a table.

        ``beside`` has codes of one more column that matters, by cell, behind the others; ``layout`` is the table that groups
        are compared with, where that is not the whole.
        """
        limits = lower_requirements(policy.require, layout or codes.distribution)
        cells = len(codes.counts.size)
        domains = [len(s.labels) for s in codes.sensitive]
        columns = codes.counts.sensitive.reshape(cells, len(domains))
        if beside is not None:
            columns = np.column_stack([columns, beside])
            domains.append(int(beside.max(initial=0)) + 1)
        label, secret = np.zeros(cells, np.int32), np.zeros((1, 0), np.int32)
        if domains:
            secret, inverse = np.unique(columns, axis=0, return_inverse=True)
            label = inverse.reshape(-1).astype(np.int32)
        return cls(
            np.ascontiguousarray(codes.quasi[codes.combination]),
            codes.counts.size.astype(np.int64),
            label,
            np.ascontiguousarray(secret, np.int32),
            np.concatenate(([0], np.cumsum(domains))).astype(np.int64),
            limits.arrays(),
            (weights, codes.height_tables.ints, codes.height_tables.floats),
            limits.least,
            codes.keyed_rank,
        )

    @property
    def total(self) -> int:
        """The number of records."""
        return int(self.count.sum())

    def select_cells(self, cells: Int64Array) -> ClusteringInput:
        """Some of the cells alone."""
        return replace(
            self,
            rows=self.rows[cells],
            count=self.count[cells],
            label=self.label[cells],
            keyed_rank=self.keyed_rank[cells],
        )

    def place_leftovers(self, cell: Int32Array, group: Int32Array, left: Int64Array, rng: np.random.Generator) -> None:
        """Send leftover records, in random order, to the clusters whose information loss grows least and that still hold."""
        groups = int(group.max(initial=-1)) + 1
        chance = rng.random(len(left))
        kernels.cluster_merging.place(
            left.copy(), chance, self.rows, cell, group, groups, self.values, self.loss_tables
        )

    def failing(self, cell: Int32Array, group: Int32Array) -> BoolArray:
        """Which groups do not meet the requirement."""
        groups = int(group.max(initial=-1)) + 1
        return np.asarray(kernels.cluster_merging.failing(cell, group, groups, self.values), bool)

    def merge(self, cell: Int32Array, group: Int32Array) -> None:
        """Merge groups that fail with those that cost least until all meet the requirement, or one is left."""
        groups = int(group.max(initial=-1)) + 1
        kernels.cluster_merging.merge(self.rows, cell, group, groups, self.values, self.loss_tables)

    @property
    def values(self) -> tuple[Any, ...]:
        """The confidential values and the limits on them, as kernels take them."""
        return self.label, self.sensitive, self.offset, self.limits


def suppress_or_merge(records: ClusteringInput, policy: Policy, cell: Int32Array, group: Int32Array) -> Int32Array:
    """The groups once all meet the requirement: those that fail are suppressed if the policy allows it, or else merged.

    Records in no group (-1) count as groups of their own that fail. Where a requirement compares groups with the whole
    table nothing is suppressed, since that would change what is asked of the others.
    """
    group = group.copy()
    lost = np.flatnonzero(group < 0)
    group[lost] = group.max(initial=-1) + 1 + np.arange(len(lost), dtype=np.int32)
    fails = records.failing(cell, group)
    if not fails.any():
        return group
    out = fails[group]
    relative = any(r.relative for r in policy.require)
    if not relative and int(out.sum()) <= policy.most_suppressed(len(cell)) and not out.all():
        return np.where(out, -1, group).astype(np.int32)
    records.merge(cell, group)
    return group


def meet_requirements(
    codes: Codes, policy: Policy, cell: Int32Array, group: Int32Array, weights: FloatArray
) -> Int32Array:
    """The groups of any method, told record by record, once all of them meet the requirement; see `suppress_or_merge`."""
    return suppress_or_merge(ClusteringInput.of(codes, policy, weights), policy, cell, group)
