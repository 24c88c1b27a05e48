"""Boxes of codes: the loss of an interval, the box of every group, the box that contains a record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import (
    FLAT,
    FLOATS,
    HEAD,
    KIND,
    LARGEST_CODE,
    LEAVES,
    MISSING,
    NODES,
    NUMBER,
    RANGED,
    SIZE,
    LossArrays,
)

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

SMALLEST_GAP = 1e-300  # a value beside a box is outside, also where its gap over the span is too small for a float


@inner(error_model="numpy", forceinline=True)
def lowest_node(a, lo, hi, ints):
    """The lowest node that covers the codes ``lo`` to ``hi`` of attribute ``a``, which has a tree."""
    node = ints[ints[HEAD * a + LEAVES] + lo]
    nodes = ints[HEAD * a + NODES]
    while ints[nodes + 2 * node] < hi:
        node = ints[nodes + 2 * node + 1]
    return node


@inner(error_model="numpy", forceinline=True)
def run_ends(a, lo, hi, ints):
    """The first and the last code of the shortest run of nodes that covers the codes ``lo`` to ``hi`` of attribute ``a``."""
    size = ints[HEAD * a + SIZE]
    first = ints[HEAD * a + LEAVES] + size
    return ints[first + lo], ints[first + size + hi]


@inner(error_model="numpy")
def widen_to_label(j, low, high, ints, first_code):
    """The first and last code that the label of an interval covers: those under its node or its run, or a range of numbers."""
    if ints[HEAD * j + KIND] == NUMBER:
        if low < high and high == ints[HEAD * j + MISSING]:
            return np.int32(0), np.int32(ints[HEAD * j + SIZE] - 1)
        return np.int32(low), np.int32(high)
    at = ints[HEAD * j + NODES] + 2 * lowest_node(j, low, high, ints)
    if ints[HEAD * j + KIND] == RANGED and high != ints[HEAD * j + MISSING]:
        first, last = run_ends(j, low, high, ints)
        if last - first < ints[at] - first_code[at]:
            return first, last
    return first_code[at], ints[at]


@inner(error_model="numpy", forceinline=True)
def interval_loss(a, lo, hi, ints, floats):
    """The normalized certainty penalty (NCP) of the codes ``lo`` to ``hi`` of attribute ``a``.

    Numbers: the width of the published range over the width of all values; the range of a single number has a width only if
    its ends are rounded. A tree: the source values under the lowest node that covers the interval, over all source values; for
    an ordered tree those of the shortest run of nodes, if these are fewer. Without a tree: the number of codes in the interval
    over the number of all codes. The penalty of a single source value is 0, that of an interval of numbers with missing values
    is 1.

    All attributes share two arrays (see `encoding.attributes.LossTables`): passing one array per attribute is slower.
    """
    head = HEAD * a
    if ints[head + KIND] == NUMBER:
        if hi == ints[head + MISSING]:
            return 0.0 if lo == hi else 1.0
        return (floats[ints[head + FLOATS] + hi] - floats[ints[head + LEAVES] + lo]) / floats[a]
    if ints[head + KIND] == FLAT:
        return 0.0 if lo == hi else (hi - lo + 1) / ints[head + SIZE]
    if ints[head + KIND] == RANGED and lo < hi and hi != ints[head + MISSING]:
        first, last = run_ends(a, lo, hi, ints)
        ends = ints[head + FLOATS] - 2 * ints[head + SIZE]
        # A run is inside its node or contains it, so the shorter one also has fewer source values.
        run = (floats[ends + ints[head + SIZE] + last] - floats[ends + first]) / floats[a]
        return min(run, floats[ints[head + FLOATS] + lowest_node(a, lo, hi, ints)])
    return floats[ints[head + FLOATS] + lowest_node(a, lo, hi, ints)]


@entry(error_model="numpy")
def weighted_loss(a, lo, hi, loss_tables):
    """The loss of an interval times the attribute weight (`interface.LossArrays`). Not inlined, for rare calls."""
    return loss_tables.weight[a] * interval_loss(a, lo, hi, loss_tables.ints, loss_tables.floats)


def sum_losses(lo: Ints, hi: Ints, loss_tables: LossArrays) -> Floats:
    """The weighted loss of every box, summed over the attributes; boxes without records have loss 0."""
    out = np.zeros(len(lo))
    add_losses(lo, hi, loss_tables, out)
    return out


@entry
def add_losses(lo, hi, loss_tables, out):
    """See `sum_losses`; ``out`` is all zero."""
    for g in range(lo.shape[0]):
        for j in range(lo.shape[1]):
            if lo[g, j] <= hi[g, j]:
                out[g] += weighted_loss(j, np.int64(lo[g, j]), np.int64(hi[g, j]), loss_tables)


def bound_groups(quasi: Ints, cell: NDArray[np.integer], group: Ints, groups: int) -> tuple[Ints, Ints]:
    """The smallest and largest code of every group in every attribute."""
    lo, hi = _make_empty_boxes(groups, quasi.shape[1])
    extend_groups(quasi, np.ascontiguousarray(cell, np.int64), np.ascontiguousarray(group, np.int32), lo, hi)
    return lo, hi


def _make_empty_boxes(count: int, width: int) -> tuple[Ints, Ints]:
    return np.full((count, width), LARGEST_CODE, np.int32), np.full((count, width), -1, np.int32)


@entry
def extend_groups(quasi, cell, group, lo, hi):
    """See `bound_groups`."""
    for p in range(cell.shape[0]):
        g = group[p]
        if g >= 0:
            for j in range(quasi.shape[1]):
                x = quasi[cell[p], j]
                if x < lo[g, j]:
                    lo[g, j] = x
                if x > hi[g, j]:
                    hi[g, j] = x


def bound_segments(rows: NDArray[np.integer], segment: Longs, m: int) -> tuple[Ints, Ints]:
    """The smallest and largest code of every segment of rows in each of the first ``m`` columns."""
    lo, hi = _make_empty_boxes(len(segment), m)
    extend_segments(rows, segment, lo, hi)
    return lo, hi


@entry
def extend_segments(rows, segment, lo, hi):
    """See `bound_segments`."""
    for g in range(segment.shape[0]):
        for i in range(segment[g, 0], segment[g, 1]):
            for j in range(lo.shape[1]):
                x = np.int32(rows[i, j])
                if x < lo[g, j]:
                    lo[g, j] = x
                if x > hi[g, j]:
                    hi[g, j] = x


def descend(quasi: Ints, attribute: Ints, at: Ints, left: Ints, right: Ints, group: Ints) -> Ints:
    """The group of every combination according to a tree of cuts; codes up to ``at`` go left."""
    out = np.empty(len(quasi), np.int32)
    write_leaves(quasi, attribute, at, left, right, group, out)
    return out


@entry
def write_leaves(quasi, attribute, at, left, right, group, out):
    """See `descend`."""
    for u in range(quasi.shape[0]):
        node = np.int64(0)
        while attribute[node] >= 0:
            node = left[node] if quasi[u, attribute[node]] <= at[node] else right[node]
        out[u] = group[node]


def is_inside(points: Floats, group: Ints, lo: Floats, hi: Floats) -> NDArray[np.bool_]:
    """For every point, whether the box of its group contains it."""
    low, high = lo[group], hi[group]
    return np.all(((low <= points) & (points <= high)) | (low == -np.inf), axis=1)


def find_nearest_box(
    points: Floats, categorical: NDArray[np.bool_], span: Floats, lo: Floats, hi: Floats
) -> tuple[Ints, Floats]:
    """The box nearest to every point and its distance, summed over the attributes. Ties: the earlier box.

    Points and boxes are positions: plus infinity is a missing value, NaN an unknown category. A box from minus to plus
    infinity contains every value. The distance of a number is its gap to the box over ``span``; any other mismatch counts 1.
    """
    best, shortest = np.zeros(len(points), np.int32), np.full(len(points), np.inf)
    search_boxes(points, categorical, span, lo, hi, best, shortest)
    return best, shortest


@entry
def search_boxes(points, categorical, span, lo, hi, best, shortest):
    """See `find_nearest_box`."""
    for p in range(points.shape[0]):
        for g in range(lo.shape[0]):
            distance = 0.0
            for j in range(points.shape[1]):
                x, low, high = points[p, j], lo[g, j], hi[g, j]
                if low <= x <= high or low == -np.inf:
                    continue
                if categorical[j] or np.isnan(x) or np.isinf(x) or np.isinf(low):
                    distance += 1.0
                elif x < low:
                    distance += max((low - x) / span[j], SMALLEST_GAP)
                else:
                    distance += max((x - high) / span[j], SMALLEST_GAP)
                if distance >= shortest[p]:
                    break
            if distance < shortest[p]:
                shortest[p] = distance
                best[p] = g
                if distance == 0.0:
                    break


@entry
def bound_intervals(codes, rows, first, last, size, lo, hi):
    """Write the boxes around the given rows: per attribute the first and last code of the interval with the row's code.

    ``first`` and ``last`` hold the interval ends by code, attributes concatenated; ``size`` is the number of codes of each.
    """
    for r in range(rows.shape[0]):
        begin = 0
        for j in range(size.shape[0]):
            lo[r, j], hi[r, j] = first[begin + codes[rows[r], j]], last[begin + codes[rows[r], j]]
            begin += size[j]
