"""Split a group of combinations in two by distant seeds, once or repeatedly (Xu, Wang, Pei, Wang, Shi, Fu, KDD 2006, top-down).

A group is a segment of ``order``, which lists combinations in ascending rank; its halves keep that order. ``table`` is
`interface.MergeTable`, ``halves`` are `interface.Halves`, and ``cells`` `interface.CombinationCells`, or None if the
requirements depend on the size of groups alone: then the compiler leaves out the branches for sensitive values.

D is the weighted loss of a box, summed over the attributes; the loss of a group is records x D. Halves are subsets, so a split
never raises the loss. Ties go to the smaller rank.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.boxes import interval_loss, weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import LEAST_IMPROVEMENT, NONE64, ONE64, ZERO64
from shoal.kernels.limits import holds, shortfall

SEED_SEARCHES = 3  # how often the furthest combination is sought


@inner
def count_values(u, sign, cells, histogram):
    """Add the sensitive values of a combination to a histogram, or subtract them."""
    start, sensitive, offset, records = cells.start, cells.sensitive, cells.offset, cells.records
    for c in range(start[u], start[u + 1]):
        for s in range(sensitive.shape[1]):
            histogram[offset[s] + sensitive[c, s]] += sign * records[c]


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


@inner
def loss_with(u, h, halves, table):
    """D of a half with one more combination."""
    rows, weight, ints, floats = table.rows, table.loss_tables.weight, table.loss_tables.ints, table.loss_tables.floats
    low, high, loss = halves.low, halves.high, halves.loss
    total = 0.0
    for j in range(rows.shape[1]):
        x = rows[u, j]
        if low[h, j] <= x <= high[h, j]:
            total += loss[h, j]
        else:
            total += weight[j] * interval_loss(j, min(low[h, j], x), max(high[h, j], x), ints, floats)
    return total


@inner
def start_half(u, h, halves, table, cells):
    """Set a half to a single combination."""
    halves.total[h] = 0.0
    for j in range(table.rows.shape[1]):
        x = table.rows[u, j]
        halves.low[h, j] = halves.high[h, j] = x
        halves.loss[h, j] = weighted_loss(j, x, x, table.loss_tables)
        halves.total[h] += halves.loss[h, j]
    halves.records[h] = table.records[u]
    if cells is not None:
        histogram = halves.histogram[h]
        for c in range(histogram.shape[0]):
            histogram[c] = 0
        count_values(u, ONE64, cells, histogram)


@inner
def extend_half(u, h, total, halves, table, cells):
    """Add a combination to a half; ``total`` is D of the half with it."""
    low, high, loss = halves.low, halves.high, halves.loss
    for j in range(table.rows.shape[1]):
        x = table.rows[u, j]
        if x < low[h, j] or x > high[h, j]:
            low[h, j], high[h, j] = min(low[h, j], x), max(high[h, j], x)
            loss[h, j] = weighted_loss(j, low[h, j], high[h, j], table.loss_tables)
    halves.records[h] += table.records[u]
    halves.total[h] = total
    if cells is not None:
        count_values(u, ONE64, cells, halves.histogram[h])


@inner
def half_passes(h, halves, table, cells):
    """Whether a half meets the requirement."""
    if cells is None:
        return halves.records[h] >= table.least
    else:  # noqa: RET505 - the compiler leaves out one of the two
        return holds(halves.records[h], halves.histogram[h], table.limits)


@inner
def may_move(u, h, halves, table, cells):
    """Whether a failing half ``h`` may take a combination: the other half still passes, and ``h`` comes closer to passing."""
    other, added, trial = 1 - h, table.records[u], halves.trial
    for c in range(trial.shape[0]):
        trial[c] = halves.histogram[other, c]
    count_values(u, NONE64, cells, trial)
    if not holds(halves.records[other] - added, trial, table.limits):
        return False
    for c in range(trial.shape[0]):
        trial[c] = halves.histogram[h, c]
    count_values(u, ONE64, cells, trial)
    if halves.records[h] < table.least or holds(halves.records[h] + added, trial, table.limits):
        return True
    now = shortfall(halves.records[h], halves.histogram[h], table.limits)
    return shortfall(halves.records[h] + added, trial, table.limits) < now - LEAST_IMPROVEMENT


@inner
def fill_half(h, order, begin, end, halves, table, cells):
    """Move combinations to a failing half, each time the one that costs it least, until it passes; return whether it does."""
    side, records = halves.side, table.records
    while not half_passes(h, halves, table, cells):
        best, found, least = np.inf, NONE64, 0.0
        size, most, current = halves.records[h], halves.records[1 - h] - table.least, halves.total[h]
        for p in range(begin, end):
            u = order[p]
            if side[p - begin] == h or records[u] > most:
                continue
            total = loss_with(u, h, halves, table)
            cost = (size + records[u]) * total - size * current
            if cost < best:
                if cells is not None:
                    if not may_move(u, h, halves, table, cells):
                        continue
                best, found, least = cost, p, total
        if found < 0:
            return False
        u = order[found]
        side[found - begin] = h
        halves.records[1 - h] -= records[u]
        if cells is not None:
            count_values(u, NONE64, cells, halves.histogram[1 - h])
        extend_half(u, h, least, halves, table, cells)
    return True


@inner
def join_seeds(order, begin, end, first, second, halves, table, cells):
    """Add all combinations but the seeds, each to the half whose loss grows less; ties: the half with fewer records."""
    side, records, size, current = halves.side, table.records, halves.records, halves.total
    for p in range(begin, end):
        if p == first or p == second:
            continue
        u = order[p]
        one, other = loss_with(u, ZERO64, halves, table), loss_with(u, ONE64, halves, table)
        growth_one = (size[0] + records[u]) * one - size[0] * current[0]
        growth_other = (size[1] + records[u]) * other - size[1] * current[1]
        h = ZERO64 if growth_one < growth_other or (growth_one == growth_other and size[0] <= size[1]) else ONE64
        side[p - begin] = h
        extend_half(u, h, one if h == 0 else other, halves, table, cells)


@inner
def split_segment(order, begin, end, halves, table, cells):
    """Split a segment in two that meet the requirement, and return the start of the second; ``end`` if there is no split.

    Two distant seeds attract the other combinations: each joins the half whose loss grows less. A half that fails takes
    combinations from the other half, as long as that one passes.
    """
    side, spare = halves.side, halves.spare
    records = ZERO64
    for p in range(begin, end):
        records += table.records[order[p]]
    if end - begin < 2 or records < 2 * table.least:
        return end
    first, second = begin, begin
    for _ in range(SEED_SEARCHES):
        first, second = second, find_furthest_place(order[second], order, begin, end, table)
    start_half(order[first], ZERO64, halves, table, cells)
    start_half(order[second], ONE64, halves, table, cells)
    side[first - begin], side[second - begin] = 0, 1
    join_seeds(order, begin, end, first, second, halves, table, cells)
    passes = half_passes(ZERO64, halves, table, cells), half_passes(ONE64, halves, table, cells)
    if not (passes[0] or passes[1]):
        return end
    for h in range(2):
        if not passes[h] and not fill_half(h, order, begin, end, halves, table, cells):
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
def split_all(order, stack, halves, table, cells, group):
    """Split the whole table repeatedly until no group can be split; write the group of every combination.

    ``order`` lists the combinations in ascending rank, and is reordered. ``stack`` has room for one more segment than there
    are combinations.
    """
    stack[0, 0], stack[0, 1] = 0, order.shape[0]
    high, groups = 1, 0
    while high > 0:
        high -= 1
        begin, end = stack[high, 0], stack[high, 1]
        middle = split_segment(order, begin, end, halves, table, cells)
        if middle < end:
            stack[high, 0], stack[high, 1] = middle, end
            stack[high + 1, 0], stack[high + 1, 1] = begin, middle
            high += 2
            continue
        for p in range(begin, end):
            group[order[p]] = groups
        groups += 1
