"""Clusters of records after the search: assign the leftover records, merge clusters until all meet the requirement.

``clusters`` are `interface.RecordClusters`, which change in place: a cluster is a linked list of records. ``values`` are
`interface.SensitiveLabels`, ``loss_tables`` `interface.LossArrays`.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.boxes import weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import NONE64
from shoal.kernels.limits import holds


@inner
def count_sensitive(first, clusters, values, histogram):
    """Add the sensitive values of a linked list of records to a histogram."""
    cell, following = clusters.cell, clusters.following
    label, sensitive, offset = values.label, values.sensitive, values.offset
    while first >= 0:
        for s in range(sensitive.shape[1]):
            histogram[offset[s] + sensitive[label[cell[first]], s]] += 1
        first = following[first]


@inner
def passes_with(i, g, clusters, values):
    """Whether a cluster meets the requirement with one more record."""
    histogram, label, sensitive, offset = clusters.histogram, values.label, values.sensitive, values.offset
    for c in range(histogram.shape[0]):
        histogram[c] = 0
    count_sensitive(clusters.head[g], clusters, values, histogram)
    for s in range(sensitive.shape[1]):
        histogram[offset[s] + sensitive[label[clusters.cell[i]], s]] += 1
    return holds(clusters.size[g] + 1, histogram, values.limits)


@entry
def assign_leftovers(left, chance, rows, clusters, values, loss_tables):
    """Assign leftover records in random order, each to the cluster with the least increase of loss that still passes.

    ``left`` lists the records; their entries in ``group`` are set. A record that fits into no cluster keeps -1. ``values`` are
    None if all clusters pass with one more record.
    """
    low, high, size, loss, tail = clusters.low, clusters.high, clusters.size, clusters.loss, clusters.tail
    m = rows.shape[1]
    for step in range(left.shape[0]):
        at = np.int64(chance[step] * (left.shape[0] - step))
        i = left[at]
        for p in range(at, left.shape[0] - step - 1):
            left[p] = left[p + 1]
        cell = clusters.cell[i]
        best, cheapest, loss_with = np.inf, NONE64, 0.0
        for g in range(size.shape[0]):
            total = 0.0
            for j in range(m):
                x = rows[cell, j]
                total += weighted_loss(j, min(low[g, j], x), max(high[g, j], x), loss_tables)
            increase = (size[g] + 1) * total - size[g] * loss[g]
            if increase < best:
                if values is not None:
                    if not passes_with(i, g, clusters, values):
                        continue
                best, cheapest, loss_with = increase, g, total
        if cheapest >= 0:
            clusters.group[i] = cheapest
            clusters.following[tail[cheapest]] = i
            tail[cheapest] = i
            size[cheapest] += 1
            loss[cheapest] = loss_with
            for j in range(m):
                x = rows[cell, j]
                low[cheapest, j], high[cheapest, j] = min(low[cheapest, j], x), max(high[cheapest, j], x)


@entry
def find_failing(order, start, cell, values, histogram, failing):
    """Write for every cluster whether it fails the requirement. Cluster g has the records ``order[start[g]:start[g + 1]]``."""
    label, sensitive, offset = values.label, values.sensitive, values.offset
    for g in range(failing.shape[0]):
        failing[g] = False
        if start[g] < start[g + 1]:
            for c in range(histogram.shape[0]):
                histogram[c] = 0
            for p in range(start[g], start[g + 1]):
                for s in range(sensitive.shape[1]):
                    histogram[offset[s] + sensitive[label[cell[order[p]]], s]] += 1
            failing[g] = not holds(start[g + 1] - start[g], histogram, values.limits)


@entry
def merge_failing(rows, clusters, failing, values, loss_tables):
    """Merge the first failing cluster with the cheapest partner, repeatedly, until all clusters pass.

    Partners whose union with the cluster passes have priority. The union keeps the lower number.
    """
    head, tail, size, following = clusters.head, clusters.tail, clusters.size, clusters.following
    low, high, loss, group = clusters.low, clusters.high, clusters.loss, clusters.group
    own, histogram, limits = clusters.own, clusters.histogram, values.limits
    m, groups = rows.shape[1], size.shape[0]
    at = 0
    while at < groups:
        if size[at] == 0 or not failing[at]:
            at += 1
            continue
        for c in range(own.shape[0]):
            own[c] = 0
        count_sensitive(head[at], clusters, values, own)
        best, cheapest, best_any, cheapest_of_all = np.inf, NONE64, np.inf, NONE64
        for g in range(groups):
            if g == at or size[g] == 0:
                continue
            total = 0.0
            for j in range(m):
                total += weighted_loss(j, min(low[g, j], low[at, j]), max(high[g, j], high[at, j]), loss_tables)
            increase = (size[at] + size[g]) * total - size[at] * loss[at] - size[g] * loss[g]
            if increase < best_any:
                best_any, cheapest_of_all = increase, g
            if increase < best:
                for c in range(own.shape[0]):
                    histogram[c] = own[c]
                count_sensitive(head[g], clusters, values, histogram)
                if holds(size[at] + size[g], histogram, limits):
                    best, cheapest = increase, g
        if cheapest < 0:
            cheapest = cheapest_of_all
        if cheapest < 0:
            return
        kept, removed = min(at, cheapest), max(at, cheapest)
        i = head[removed]
        while i >= 0:
            group[i] = kept
            i = following[i]
        following[tail[kept]] = head[removed]
        tail[kept] = tail[removed]
        size[kept] += size[removed]
        size[removed] = 0
        loss[kept] = 0.0
        for j in range(m):
            low[kept, j], high[kept, j] = min(low[kept, j], low[removed, j]), max(high[kept, j], high[removed, j])
            loss[kept] += weighted_loss(j, low[kept, j], high[kept, j], loss_tables)
        for c in range(histogram.shape[0]):
            histogram[c] = 0
        count_sensitive(head[kept], clusters, values, histogram)
        failing[kept] = not holds(size[kept], histogram, limits)
        at = kept  # the union may have a lower number than the current cluster
