"""Groups whose labels do not overlap: merge what overlaps, then split the merged groups along their taxonomies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shoal import kernels
from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.pipeline.clustering import ClusteringInput


def separate_groups(codes: Codes, records: ClusteringInput, group: Int32Array) -> Int32Array:
    """Place the combinations in no group (-1), so that all groups meet the requirements and no two labels overlap.

    Each of these combinations is merged with the group at the least loss, and with all groups that its label then overlaps. A
    merged group is split again: by the children of the lowest node over its values, or a number at a value, if every part
    meets the requirements; the split that lowers the loss most comes first. The labels of the parts do not overlap.
    """
    table = _Cells.of(codes, records)
    published = int(group.max(initial=-1)) + 1
    left = np.flatnonzero(group < 0)
    number = group.copy()
    number[left] = published + np.arange(len(left), dtype=np.int32)
    groups = published + len(left)
    lo, hi = kernels.boxes.bound_groups(codes.quasi, np.arange(len(number)), number, groups)
    size, histogram = table.count(number, groups)
    label, parent = (np.empty_like(lo), np.empty_like(hi)), np.empty(groups, np.int64)
    kernels.lattice.merge_overlapping(
        lo, hi, *label, size, histogram, records.limits, records.loss_tables, table.first_code, parent
    )
    merged = parent[number]
    result = merged.astype(np.int32)
    following = groups
    for of_group in np.flatnonzero(np.bincount(merged, minlength=groups) > np.bincount(number, minlength=groups)):
        for part in _split(table, np.flatnonzero(merged == of_group)):
            result[part] = following
            following += 1
    return np.unique(result, return_inverse=True)[1].reshape(-1).astype(np.int32)


@dataclass(frozen=True)
class _Cells:
    """The combinations, their cells and the losses."""

    codes: Codes
    records: ClusteringInput
    first_code: Int32Array
    start: Int64Array

    @classmethod
    def of(cls, codes: Codes, records: ClusteringInput) -> _Cells:
        first_code = codes.loss_tables("ncp").first_codes(codes.attributes)
        return cls(codes, records, first_code, codes.counts.start)

    def count(self, number: Int32Array, groups: int) -> tuple[Int64Array, Int64Array]:
        """The records and the sensitive values of every group of combinations."""
        records, of_cell = self.records, number[self.codes.combination]
        size = kernels.order.sum_by_group(of_cell, self.codes.counts.size, groups)
        histogram = np.zeros((groups, int(records.offset[-1])), np.int64)
        for s in range(records.sensitive.shape[1]):
            code = records.offset[s] + records.sensitive[records.label, s]
            np.add.at(histogram, (of_cell, code), self.codes.counts.size)
        return size, histogram

    def passes(self, rows: Int64Array) -> bool:
        """Whether a group of combinations meets the requirements."""
        records = self.records
        histogram = np.zeros(int(records.offset[-1]), np.int64)
        if records.sensitive.shape[1]:
            cells = np.concatenate([np.arange(self.start[u], self.start[u + 1]) for u in rows])
            for s in range(records.sensitive.shape[1]):
                code = records.offset[s] + records.sensitive[records.label[cells], s]
                np.add.at(histogram, code, self.codes.counts.size[cells])
        return bool(kernels.limits.holds(int(self.codes.size[rows].sum()), histogram, records.limits))

    def loss(self, rows: Int64Array) -> float:
        """The loss of a group of combinations: records x the loss of its box."""
        codes = self.codes.quasi[rows]
        box = (
            kernels.boxes.weighted_loss(j, codes[:, j].min(), codes[:, j].max(), self.records.loss_tables)
            for j in range(codes.shape[1])
        )
        return float(sum(box)) * int(self.codes.size[rows].sum())


def _split(table: _Cells, rows: Int64Array) -> Iterator[Int64Array]:
    """Split a group as far as possible; yield its parts."""
    waiting = [rows]
    while waiting:
        rows = waiting.pop()
        best, chosen = table.loss(rows) - 1e-12, None
        for j in range(table.codes.quasi.shape[1]):
            for parts in _list_splits(table, rows, j):
                loss = sum(map(table.loss, parts))
                if loss < best and all(map(table.passes, parts)):
                    best, chosen = loss, parts
        if chosen is None:
            yield rows
        else:
            waiting += chosen


def _list_splits(table: _Cells, rows: Int64Array, j: int) -> Iterator[list[Int64Array]]:
    """The splits of a group by an attribute: by the children of the lowest node, or in two halves of a number."""
    attribute, code = table.codes.attributes[j], table.codes.quasi[rows, j]
    low, high = int(code.min()), int(code.max())
    if low == high:
        return
    tree = attribute.taxonomy
    if tree is None:
        if high == attribute.missing:
            yield [rows[code == high], rows[code < high]]
            return
        order = np.argsort(code, kind="stable")
        half = np.searchsorted(np.cumsum(table.codes.size[rows][order]), table.codes.size[rows].sum() / 2)
        middle = int(code[order[half]])
        for at in {middle, middle - 1} - {high, low - 1}:
            yield [rows[code <= at], rows[code > at]]
        return
    node = tree.cover(low, high)
    below = np.flatnonzero(tree.parent == node)
    first = np.sort(tree.lo[below[below > node]])
    child = np.searchsorted(first, code, side="right")
    yield [rows[child == c] for c in np.unique(child)]
