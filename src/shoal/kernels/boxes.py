"""Boxes: the loss of an interval, the box of each group, the box a record falls into."""

from __future__ import annotations

import numpy as np
from numba import njit

NUMBER, TREE, FLAT = 0, 1, 2
KIND, SIZE, MISSING, LEAVES, NODES, FLOATS, HEAD = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
)  # where attribute a's facts lie: ints[HEAD * a + …]


@njit(cache=True, nogil=True, forceinline=True)
def lowest_node(a, lo, hi, ints):
    """The lowest node over the codes ``lo`` to ``hi`` of attribute ``a``, which has a tree."""
    node = ints[ints[HEAD * a + LEAVES] + lo]
    nodes = ints[HEAD * a + NODES]
    while ints[nodes + 2 * node] < hi:
        node = ints[nodes + 2 * node + 1]
    return node


@njit(cache=True, nogil=True, forceinline=True)
def interval_loss(a, lo, hi, ints, floats):
    """The normalized certainty penalty of the codes ``lo`` to ``hi`` of attribute ``a``.

    Numbers: the width of the values over the width of all. A tree: the leaves under the lowest node over the interval,
    over all leaves. No tree: the codes spanned over all codes. One code costs nothing; numbers with missing cost 1.

    All attributes lie in two arrays (see `codes.Geometry`): a handful of arrays here would cost more than the search.
    """
    if lo == hi:
        return 0.0
    head = HEAD * a
    if ints[head + KIND] == NUMBER:
        if hi == ints[head + MISSING]:
            return 1.0
        first = ints[head + FLOATS]
        return (floats[first + hi] - floats[first + lo]) / floats[a]
    if ints[head + KIND] == FLAT:
        return (hi - lo + 1) / ints[head + SIZE]
    return floats[ints[head + FLOATS] + lowest_node(a, lo, hi, ints)]


@njit(cache=True, nogil=True)
def weighted_loss(a, lo, hi, weight, ints, floats):
    """The loss of an interval times the weight of its attribute, for loops that seldom need it: compiled once, not inlined."""
    return weight[a] * interval_loss(a, lo, hi, ints, floats)


@njit(cache=True, nogil=True)
def bounds(quasi, cell, group, groups):
    """The smallest and largest code of every group in every attribute."""
    m = quasi.shape[1]
    lo = np.full((groups, m), np.iinfo(np.int32).max, np.int32)
    hi = np.full((groups, m), -1, np.int32)
    for p in range(cell.shape[0]):
        g = group[p]
        if g >= 0:
            for j in range(m):
                x = quasi[cell[p], j]
                lo[g, j] = min(lo[g, j], x)
                hi[g, j] = max(hi[g, j], x)
    return lo, hi


@njit(cache=True, nogil=True)
def of_segments(rows, segment, m):
    """The smallest and largest code of every segment of rows in each of the first ``m`` columns."""
    lo = np.full((segment.shape[0], m), np.iinfo(np.int32).max, np.int32)
    hi = np.full((segment.shape[0], m), -1, np.int32)
    for g in range(segment.shape[0]):
        for i in range(segment[g, 0], segment[g, 1]):
            for j in range(m):
                x = np.int32(rows[i, j])
                lo[g, j] = min(lo[g, j], x)
                hi[g, j] = max(hi[g, j], x)
    return lo, hi


@njit(cache=True, nogil=True)
def descend(quasi, attribute, at, left, right, group):
    """The group of every combination by a tree of cuts: codes up to ``at`` go left."""
    out = np.empty(quasi.shape[0], np.int32)
    for u in range(quasi.shape[0]):
        node = 0
        while attribute[node] >= 0:
            node = left[node] if quasi[u, attribute[node]] <= at[node] else right[node]
        out[u] = group[node]
    return out


@njit(cache=True, nogil=True)
def inside(points, group, lo, hi):
    """Whether every point lies in the box of its group."""
    out = np.ones(points.shape[0], np.bool_)
    for p in range(points.shape[0]):
        for j in range(points.shape[1]):
            low = lo[group[p], j]
            if not (low <= points[p, j] <= hi[group[p], j] or low == -np.inf):
                out[p] = False
    return out


@njit(cache=True, nogil=True)
def nearest(points, categorical, span, lo, hi):
    """The box nearest to each point and its distance, summed over attributes; the earlier box where several are.

    Points and boxes are positions: plus infinity where missing, NaN where a category is unknown. A box from minus to plus
    infinity holds everything. Numbers are as far as their gap over ``span``, all else is 1 away.
    """
    best = np.zeros(points.shape[0], np.int32)
    least = np.full(points.shape[0], np.inf)
    for p in range(points.shape[0]):
        for g in range(lo.shape[0]):
            far = 0.0
            for j in range(points.shape[1]):
                x, low, high = points[p, j], lo[g, j], hi[g, j]
                if low <= x <= high or low == -np.inf:
                    continue
                if categorical[j] or np.isnan(x) or np.isinf(x) or np.isinf(low):
                    far += 1.0
                elif x < low:
                    far += (low - x) / span[j]
                else:
                    far += (x - high) / span[j]
                if far >= least[p]:
                    break
            if far < least[p]:
                least[p] = far
                best[p] = g
                if far == 0.0:
                    break
    return best, least


@njit(cache=True, nogil=True)
def around(codes, rows, first, last, size, lo, hi):
    """Boxes around some rows: for every attribute the first and the last code of the interval that the row's lies in.

    ``first`` and ``last`` have these by code, one attribute behind the other; ``size`` is how many codes each has.
    """
    for r in range(rows.shape[0]):
        begin = 0
        for j in range(size.shape[0]):
            lo[r, j], hi[r, j] = first[begin + codes[rows[r], j]], last[begin + codes[rows[r], j]]
            begin += size[j]
