"""Clusters of records once they stand: where leftovers go, and which clusters are merged until all meet the requirement.

A cluster is a chain of records: ``head`` and ``tail`` by cluster, ``following`` by record; ``cell`` says what a record is.
``values`` are the labels of the cells, their confidential codes, where these lie in a histogram, and the limits; ``geometry``
the weights of the attributes and their arrays.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.boxes import weighted_loss
from shoal.kernels.limits import holds


@njit(cache=True, nogil=True)
def chains(group, groups):
    """The chain of every cluster, records in their order."""
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


@njit(cache=True, nogil=True)
def around_all(rows, cell, group, groups):
    """The box of every cluster, and its records."""
    m = rows.shape[1]
    lo, hi = np.full((groups, m), np.iinfo(np.int32).max, np.int32), np.full((groups, m), -1, np.int32)
    size = np.zeros(groups, np.int64)
    for i in range(group.shape[0]):
        g = group[i]
        if g >= 0:
            size[g] += 1
            for j in range(m):
                lo[g, j], hi[g, j] = min(lo[g, j], rows[cell[i], j]), max(hi[g, j], rows[cell[i], j])
    return lo, hi, size


@njit(cache=True, nogil=True)
def spread(g, lo, hi, weight, ints, floats):
    """D of a cluster's box."""
    total = 0.0
    for j in range(lo.shape[1]):
        total += weighted_loss(j, lo[g, j], hi[g, j], weight, ints, floats)
    return total


@njit(cache=True, nogil=True)
def loss(rows, cell, group, groups, geometry):
    """The information loss of all clusters: records x D, summed."""
    weight, ints, floats = geometry
    lo, hi, size = around_all(rows, cell, group, groups)
    total = 0.0
    for g in range(groups):
        if size[g] > 0:
            total += size[g] * spread(g, lo, hi, weight, ints, floats)
    return total


@njit(cache=True, nogil=True)
def tally(first, following, cell, label, secret, offset, histogram):
    """Add the confidential values of a chain."""
    while first >= 0:
        for s in range(secret.shape[1]):
            histogram[offset[s] + secret[label[cell[first]], s]] += 1
        first = following[first]


@njit(cache=True, nogil=True)
def place(left, chance, rows, cell, group, groups, values, geometry):
    """Leftover records, drawn by chance, each to the cluster whose information loss grows least and that still holds.

    ``left`` lists the records; their entries of ``group`` are set. One that fits nowhere keeps -1.
    """
    label, secret, offset, limits = values
    weight, ints, floats = geometry
    m = rows.shape[1]
    lo, hi, size = around_all(rows, cell, group, groups)
    head, tail, following = chains(group, groups)
    width = np.empty(groups)
    for g in range(groups):
        width[g] = spread(g, lo, hi, weight, ints, floats)
    histogram = np.zeros(offset[-1], np.int64)
    for step in range(left.shape[0]):
        at = np.int64(chance[step] * (left.shape[0] - step))
        i = left[at]
        for p in range(at, left.shape[0] - step - 1):
            left[p] = left[p + 1]
        best, found = np.inf, -1
        for g in range(groups):
            total = 0.0
            for j in range(m):
                x = rows[cell[i], j]
                total += weighted_loss(j, min(lo[g, j], x), max(hi[g, j], x), weight, ints, floats)
            rise = (size[g] + 1) * total - size[g] * width[g]
            if rise < best:
                if histogram.shape[0] > 0:
                    histogram[:] = 0
                    tally(head[g], following, cell, label, secret, offset, histogram)
                    for s in range(secret.shape[1]):
                        histogram[offset[s] + secret[label[cell[i]], s]] += 1
                    if not holds(size[g] + 1, histogram, limits):
                        continue
                best, found = rise, g
        if found >= 0:
            group[i] = found
            following[tail[found]] = i
            tail[found] = i
            size[found] += 1
            for j in range(m):
                x = rows[cell[i], j]
                lo[found, j], hi[found, j] = min(lo[found, j], x), max(hi[found, j], x)
            width[found] = spread(found, lo, hi, weight, ints, floats)


@njit(cache=True, nogil=True)
def failing(cell, group, groups, values):
    """Which clusters do not meet the requirement."""
    label, secret, offset, limits = values
    head, _, following = chains(group, groups)
    size = np.zeros(groups, np.int64)
    for i in range(group.shape[0]):
        if group[i] >= 0:
            size[group[i]] += 1
    histogram = np.zeros(offset[-1], np.int64)
    out = np.zeros(groups, np.bool_)
    for g in range(groups):
        if size[g] > 0:
            histogram[:] = 0
            tally(head[g], following, cell, label, secret, offset, histogram)
            out[g] = not holds(size[g], histogram, limits)
    return out


@njit(cache=True, nogil=True)
def merge(rows, cell, group, groups, values, geometry):
    """Merge the first cluster that fails with the one that costs least, those first whose union holds, until all hold.

    The union bears the lower number. ``group`` is changed in place.
    """
    label, secret, offset, limits = values
    weight, ints, floats = geometry
    m = rows.shape[1]
    lo, hi, size = around_all(rows, cell, group, groups)
    head, tail, following = chains(group, groups)
    bad = failing(cell, group, groups, values)
    width = np.empty(groups)
    for g in range(groups):
        if size[g] > 0:
            width[g] = spread(g, lo, hi, weight, ints, floats)
    own, histogram = np.zeros(offset[-1], np.int64), np.zeros(offset[-1], np.int64)
    at = 0
    while at < groups:
        if size[at] == 0 or not bad[at]:
            at += 1
            continue
        own[:] = 0
        tally(head[at], following, cell, label, secret, offset, own)
        best, found, best_any, any_found = np.inf, -1, np.inf, -1
        for g in range(groups):
            if g == at or size[g] == 0:
                continue
            total = 0.0
            for j in range(m):
                total += weighted_loss(j, min(lo[g, j], lo[at, j]), max(hi[g, j], hi[at, j]), weight, ints, floats)
            rise = (size[at] + size[g]) * total - size[at] * width[at] - size[g] * width[g]
            if rise < best_any:
                best_any, any_found = rise, g
            if rise < best:
                histogram[:] = own
                tally(head[g], following, cell, label, secret, offset, histogram)
                if holds(size[at] + size[g], histogram, limits):
                    best, found = rise, g
        if found < 0:
            found = any_found
        if found < 0:
            return
        one, other = min(at, found), max(at, found)
        i = head[other]
        while i >= 0:
            group[i] = one
            i = following[i]
        following[tail[one]] = head[other]
        tail[one] = tail[other]
        size[one] += size[other]
        size[other] = 0
        for j in range(m):
            lo[one, j], hi[one, j] = min(lo[one, j], lo[other, j]), max(hi[one, j], hi[other, j])
        width[one] = spread(one, lo, hi, weight, ints, floats)
        histogram[:] = 0
        tally(head[one], following, cell, label, secret, offset, histogram)
        bad[one] = not holds(size[one], histogram, limits)
        at = one  # the union may come before where we stood
