"""Split a group of combinations in two by distant seeds, once or repeatedly (Xu, Wang, Pei, Wang, Shi, Fu, KDD 2006, top-down).

A group is a segment of ``order``, which lists combinations in ascending rank; its halves keep that order. ``table`` is
`interface.MergeTable`. D is the weighted loss of a box, summed over the attributes; the loss of a group is records x D.
Halves are subsets, so a split never raises the loss. Ties go to the smaller rank.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.boxes import interval_loss, weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import LEAST_IMPROVEMENT, NONE64, ONE64, ZERO64
from shoal.kernels.limits import holds, shortfall

SEED_SEARCHES = 3  # how often the furthest combination is sought


class Halves(NamedTuple):
    """The two halves of a split: box and weighted losses by half and attribute, records, D and histogram by half."""

    low: NDArray[Any]
    high: NDArray[Any]
    loss: NDArray[Any]
    records: NDArray[Any]
    total: NDArray[Any]
    histogram: NDArray[Any]


class SplitScratch(NamedTuple):
    """Work arrays of a split: the halves, the half of every place of the segment, places, a histogram to try with."""

    halves: Halves
    side: NDArray[Any]
    spare: NDArray[Any]
    trial: NDArray[Any]


@inner
def allocate_split(table):
    """Allocate the work arrays of `split_segment`."""
    n, m = table.rows.shape
    width = table.cells.width
    halves = Halves(
        np.empty((2, m), np.int32),
        np.empty((2, m), np.int32),
        np.empty((2, m), np.float64),
        np.zeros(2, np.int64),
        np.zeros(2, np.float64),
        np.zeros((2, width), np.int64),
    )
    return SplitScratch(halves, np.empty(n, np.int8), np.empty(n, np.int32), np.zeros(width, np.int64))


@inner
def count_values(u, sign, cells, histogram):
    """Add the sensitive values of a combination to a histogram, or subtract them."""
    if histogram.shape[0] > 0:
        for c in range(cells.start[u], cells.start[u + 1]):
            for s in range(cells.sensitive.shape[1]):
                histogram[cells.offset[s] + cells.sensitive[c, s]] += sign * cells.records[c]


@inner
def find_furthest_place(seed, order, begin, end, table):
    """The place of the combination furthest from another one."""
    rows, weight, ints, floats = table.rows, table.loss_tables.weight, table.loss_tables.ints, table.loss_tables.floats
    best, found = -1.0, begin
    for p in range(begin, end):
        u = order[p]
        if u == seed:
            continue
        total = 0.0
        for j in range(rows.shape[1]):
            x, y = rows[u, j], rows[seed, j]
            total += weight[j] * interval_loss(j, min(x, y), max(x, y), ints, floats)
        if total > best:
            best, found = total, p
    return found


@inner(forceinline=True)
def loss_with(u, h, rows, low, high, loss, weight, ints, floats):
    """D of a half with one more combination. It takes arrays one by one: passing named tuples is slower."""
    total = 0.0
    for j in range(rows.shape[1]):
        x = rows[u, j]
        if low[h, j] <= x <= high[h, j]:
            total += loss[h, j]
        else:
            total += weight[j] * interval_loss(j, min(low[h, j], x), max(high[h, j], x), ints, floats)
    return total


@inner
def start_half(u, h, halves, table):
    """Set a half to a single combination."""
    halves.total[h] = 0.0
    for j in range(table.rows.shape[1]):
        x = table.rows[u, j]
        halves.low[h, j] = halves.high[h, j] = x
        halves.loss[h, j] = weighted_loss(j, x, x, table.loss_tables)
        halves.total[h] += halves.loss[h, j]
    halves.records[h] = table.records[u]
    halves.histogram[h, :] = 0
    count_values(u, ONE64, table.cells, halves.histogram[h])


@inner
def extend_half(u, h, total, halves, table):
    """Add a combination to a half; ``total`` is D of the half with it."""
    for j in range(table.rows.shape[1]):
        x = table.rows[u, j]
        if x < halves.low[h, j] or x > halves.high[h, j]:
            halves.low[h, j], halves.high[h, j] = min(halves.low[h, j], x), max(halves.high[h, j], x)
            halves.loss[h, j] = weighted_loss(j, halves.low[h, j], halves.high[h, j], table.loss_tables)
    halves.records[h] += table.records[u]
    halves.total[h] = total
    count_values(u, ONE64, table.cells, halves.histogram[h])


@inner
def may_move(u, h, halves, trial, table):
    """Whether a failing half ``h`` may take a combination: the other half still passes, and ``h`` comes closer to passing."""
    other, added = 1 - h, table.records[u]
    for c in range(trial.shape[0]):
        trial[c] = halves.histogram[other, c]
    count_values(u, NONE64, table.cells, trial)
    if not holds(halves.records[other] - added, trial, table.limits):
        return False
    for c in range(trial.shape[0]):
        trial[c] = halves.histogram[h, c]
    count_values(u, ONE64, table.cells, trial)
    if halves.records[h] < table.least or holds(halves.records[h] + added, trial, table.limits):
        return True
    now = shortfall(halves.records[h], halves.histogram[h], table.limits)
    return shortfall(halves.records[h] + added, trial, table.limits) < now - LEAST_IMPROVEMENT


@inner
def fill_half(h, order, begin, end, scratch, table):
    """Move combinations to a failing half, each time the one that costs it least, until it passes; return whether it does."""
    halves, side, trial = scratch.halves, scratch.side, scratch.trial
    rows, records = table.rows, table.records
    low, high, loss = halves.low, halves.high, halves.loss
    weight, ints, floats = table.loss_tables.weight, table.loss_tables.ints, table.loss_tables.floats
    while not holds(halves.records[h], halves.histogram[h], table.limits):
        best, found, least = np.inf, -1, 0.0
        size, most, current = halves.records[h], halves.records[1 - h] - table.least, halves.total[h]
        for p in range(begin, end):
            u = order[p]
            if side[p - begin] == h or records[u] > most:
                continue
            total = loss_with(u, h, rows, low, high, loss, weight, ints, floats)
            cost = (size + records[u]) * total - size * current
            if cost < best and (trial.shape[0] == 0 or may_move(u, h, halves, trial, table)):
                best, found, least = cost, p, total
        if found < 0:
            return False
        u = order[found]
        side[found - begin] = h
        halves.records[1 - h] -= records[u]
        count_values(u, NONE64, table.cells, halves.histogram[1 - h])
        extend_half(u, h, least, halves, table)
    return True


@inner
def join_seeds(order, begin, end, first, second, scratch, table):
    """Add all combinations but the seeds, each to the half whose loss grows less; ties: the half with fewer records."""
    halves, side, rows, records = scratch.halves, scratch.side, table.rows, table.records
    low, high, loss, size, current = halves.low, halves.high, halves.loss, halves.records, halves.total
    weight, ints, floats = table.loss_tables.weight, table.loss_tables.ints, table.loss_tables.floats
    for p in range(begin, end):
        if p in (first, second):
            continue
        u = order[p]
        one = loss_with(u, ZERO64, rows, low, high, loss, weight, ints, floats)
        other = loss_with(u, ONE64, rows, low, high, loss, weight, ints, floats)
        growth_one = (size[0] + records[u]) * one - size[0] * current[0]
        growth_other = (size[1] + records[u]) * other - size[1] * current[1]
        h = 0 if growth_one < growth_other or (growth_one == growth_other and size[0] <= size[1]) else 1
        side[p - begin] = h
        extend_half(u, h, one if h == 0 else other, halves, table)


@inner
def split_segment(order, begin, end, scratch, table):
    """Split a segment in two that meet the requirement, and return the start of the second; ``end`` if there is no split.

    Two distant seeds attract the other combinations: each joins the half whose loss grows less. A half that fails takes
    combinations from the other half, as long as that one passes.
    """
    halves, side, spare = scratch.halves, scratch.side, scratch.spare
    records = 0
    for p in range(begin, end):
        records += table.records[order[p]]
    if end - begin < 2 or records < 2 * table.least:
        return end
    first, second = begin, find_furthest_place(order[begin], order, begin, end, table)
    for _ in range(SEED_SEARCHES - 1):
        first, second = second, find_furthest_place(order[second], order, begin, end, table)
    start_half(order[first], ZERO64, halves, table)
    start_half(order[second], ONE64, halves, table)
    side[first - begin], side[second - begin] = 0, 1
    join_seeds(order, begin, end, first, second, scratch, table)
    passes_one = holds(halves.records[0], halves.histogram[0], table.limits)
    passes_other = holds(halves.records[1], halves.histogram[1], table.limits)
    if not (passes_one or passes_other):
        return end
    if not passes_one and not fill_half(ZERO64, order, begin, end, scratch, table):
        return end
    if not passes_other and not fill_half(ONE64, order, begin, end, scratch, table):
        return end
    left, held = begin, 0
    for p in range(begin, end):
        u = order[p]
        if side[p - begin] == 0:
            order[left] = u
            left += 1
        else:
            spare[held] = u
            held += 1
    for i in range(held):
        order[left + i] = spare[i]
    return left


@entry
def split_all(table, by_rank):
    """Split the whole table repeatedly until no group can be split; return the group of every combination.

    ``by_rank`` lists the combinations in ascending rank.
    """
    n = table.rows.shape[0]
    order = by_rank.astype(np.int32)
    group = np.empty(n, np.int32)
    scratch = allocate_split(table)
    stack = np.empty((n + 1, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, n
    high, groups = 1, 0
    while high > 0:
        high -= 1
        begin, end = stack[high]
        middle = split_segment(order, begin, end, scratch, table)
        if middle < end:
            stack[high, 0], stack[high, 1] = middle, end
            stack[high + 1, 0], stack[high + 1, 1] = begin, middle
            high += 2
            continue
        for p in range(begin, end):
            group[order[p]] = groups
        groups += 1
    return number_by_rank(group, by_rank)


@inner
def number_by_rank(owner, by_rank):
    """Number the groups consecutively by their smallest ranks; ``owner`` has a number of the group of every combination."""
    number, group = np.full(owner.shape[0], -1, np.int32), np.empty(owner.shape[0], np.int32)
    groups = 0
    for u in by_rank:
        if number[owner[u]] < 0:
            number[owner[u]] = groups
            groups += 1
        group[u] = number[owner[u]]
    return group
