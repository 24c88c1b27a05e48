"""Clusters of records after the search: assign the leftover records, merge clusters until all meet the requirement.

A cluster is a linked list of records: ``head`` and ``tail`` by cluster, ``following`` by record; ``cell`` is the cell of every
record. ``values`` are `interface.SensitiveLabels`, ``loss_tables`` `interface.LossArrays`.

D is the weighted loss of a cluster's box, summed over the attributes.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.boxes import weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import LARGEST_CODE, NONE64
from shoal.kernels.limits import holds


@inner
def build_chains(group, groups):
    """The linked list of every cluster, records in their order."""
    head, tail = np.full(groups, -1, np.int64), np.full(groups, -1, np.int64)
    following = np.full(group.shape[0], -1, np.int64)
    for i in range(group.shape[0]):
        g = group[i]
        if g >= 0:
            if head[g] < 0:
                head[g] = i
            else:
                following[tail[g]] = i
            tail[g] = i
    return head, tail, following


@inner
def bound_clusters(rows, cell, group, groups):
    """The box and the number of records of every cluster."""
    m = rows.shape[1]
    lo, hi = np.full((groups, m), LARGEST_CODE, np.int32), np.full((groups, m), -1, np.int32)
    size = np.zeros(groups, np.int64)
    for i in range(group.shape[0]):
        g = group[i]
        if g >= 0:
            size[g] += 1
            for j in range(m):
                lo[g, j], hi[g, j] = min(lo[g, j], rows[cell[i], j]), max(hi[g, j], rows[cell[i], j])
    return lo, hi, size


@inner
def box_loss(g, lo, hi, loss_tables):
    """D of a cluster's box."""
    total = 0.0
    for j in range(lo.shape[1]):
        total += weighted_loss(j, lo[g, j], hi[g, j], loss_tables)
    return total


@entry
def total_loss(rows, cell, group, groups, loss_tables):
    """The information loss of all clusters: the sum of records x D."""
    lo, hi, size = bound_clusters(rows, cell, group, groups)
    total = 0.0
    for g in range(groups):
        if size[g] > 0:
            total += size[g] * box_loss(g, lo, hi, loss_tables)
    return total


@inner
def count_sensitive(first, following, cell, values, histogram):
    """Add the sensitive values of a linked list of records to a histogram."""
    label, sensitive, offset = values.label, values.sensitive, values.offset
    while first >= 0:
        for s in range(sensitive.shape[1]):
            histogram[offset[s] + sensitive[label[cell[first]], s]] += 1
        first = following[first]


@entry
def assign_leftovers(left, chance, rows, cell, group, groups, values, loss_tables):
    """Assign leftover records in random order, each to the cluster with the least increase of loss that still passes.

    ``left`` lists the records; their entries in ``group`` are set. A record that fits into no cluster keeps -1.
    """
    label, sensitive, offset, limits = values.label, values.sensitive, values.offset, values.limits
    m = rows.shape[1]
    lo, hi, size = bound_clusters(rows, cell, group, groups)
    head, tail, following = build_chains(group, groups)
    current = np.empty(groups)
    for g in range(groups):
        current[g] = box_loss(g, lo, hi, loss_tables)
    histogram = np.zeros(offset[-1], np.int64)
    for step in range(left.shape[0]):
        at = np.int64(chance[step] * (left.shape[0] - step))
        i = left[at]
        for p in range(at, left.shape[0] - step - 1):
            left[p] = left[p + 1]
        best, cheapest = np.inf, NONE64
        for g in range(groups):
            total = 0.0
            for j in range(m):
                x = rows[cell[i], j]
                total += weighted_loss(j, min(lo[g, j], x), max(hi[g, j], x), loss_tables)
            increase = (size[g] + 1) * total - size[g] * current[g]
            if increase < best:
                if histogram.shape[0] > 0:
                    histogram[:] = 0
                    count_sensitive(head[g], following, cell, values, histogram)
                    for s in range(sensitive.shape[1]):
                        histogram[offset[s] + sensitive[label[cell[i]], s]] += 1
                    if not holds(size[g] + 1, histogram, limits):
                        continue
                best, cheapest = increase, g
        if cheapest >= 0:
            group[i] = cheapest
            following[tail[cheapest]] = i
            tail[cheapest] = i
            size[cheapest] += 1
            for j in range(m):
                x = rows[cell[i], j]
                lo[cheapest, j], hi[cheapest, j] = min(lo[cheapest, j], x), max(hi[cheapest, j], x)
            current[cheapest] = box_loss(cheapest, lo, hi, loss_tables)


@entry
def find_failing(cell, group, groups, values):
    """For every cluster, whether it fails the requirement."""
    offset, limits = values.offset, values.limits
    head, _, following = build_chains(group, groups)
    size = np.zeros(groups, np.int64)
    for i in range(group.shape[0]):
        if group[i] >= 0:
            size[group[i]] += 1
    histogram = np.zeros(offset[-1], np.int64)
    out = np.zeros(groups, np.bool_)
    for g in range(groups):
        if size[g] > 0:
            histogram[:] = 0
            count_sensitive(head[g], following, cell, values, histogram)
            out[g] = not holds(size[g], histogram, limits)
    return out


@entry
def merge_failing(rows, cell, group, groups, values, loss_tables):
    """Merge the first failing cluster with the cheapest partner, repeatedly, until all clusters pass.

    Partners whose union with the cluster passes have priority. The union keeps the lower number. ``group`` is changed in place.
    """
    offset, limits = values.offset, values.limits
    m = rows.shape[1]
    lo, hi, size = bound_clusters(rows, cell, group, groups)
    head, tail, following = build_chains(group, groups)
    bad = find_failing(cell, group, groups, values)
    current = np.empty(groups)
    for g in range(groups):
        if size[g] > 0:
            current[g] = box_loss(g, lo, hi, loss_tables)
    own, histogram = np.zeros(offset[-1], np.int64), np.zeros(offset[-1], np.int64)
    at = 0
    while at < groups:
        if size[at] == 0 or not bad[at]:
            at += 1
            continue
        own[:] = 0
        count_sensitive(head[at], following, cell, values, own)
        best, cheapest, best_any, cheapest_of_all = np.inf, NONE64, np.inf, NONE64
        for g in range(groups):
            if g == at or size[g] == 0:
                continue
            total = 0.0
            for j in range(m):
                total += weighted_loss(j, min(lo[g, j], lo[at, j]), max(hi[g, j], hi[at, j]), loss_tables)
            increase = (size[at] + size[g]) * total - size[at] * current[at] - size[g] * current[g]
            if increase < best_any:
                best_any, cheapest_of_all = increase, g
            if increase < best:
                for c in range(own.shape[0]):
                    histogram[c] = own[c]
                count_sensitive(head[g], following, cell, values, histogram)
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
        for j in range(m):
            lo[kept, j], hi[kept, j] = min(lo[kept, j], lo[removed, j]), max(hi[kept, j], hi[removed, j])
        current[kept] = box_loss(kept, lo, hi, loss_tables)
        histogram[:] = 0
        count_sensitive(head[kept], following, cell, values, histogram)
        bad[kept] = not holds(size[kept], histogram, limits)
        at = kept  # the union may have a lower number than the current cluster
