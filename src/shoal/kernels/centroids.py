"""Which centroids can be the nearest to a row, if some of its columns may have any value within bounds.

A distance is a sum over columns. The columns with known values, and those with few possible values, add a constant for each
centroid. A free column adds the square of the difference, or its absolute value. Ties: the lowest index; distances that differ
by less than a tolerance, relative to the smallest distance, are equal.

One free column: the distances are lines (squares cancel) or bends of two lines, so the nearest centroid changes at few places.
Several free columns: a centroid can be the nearest if a system of linear inequalities has a solution, which the simplex method
decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import NONE64, ONE64, ZERO64

PIVOTS = np.int64(10_000)  # a system needs a few; rounding could make more


class FreeColumns(NamedTuple):
    """The columns that may have any value from ``low`` to ``high``: the coordinate of every centroid [column, centroid].

    ``scale`` are the weights of their differences; ``absolute``: differences are not squared (one column only).
    """

    center: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    scale: NDArray[Any]
    absolute: bool


class CentroidScratch(NamedTuple):
    """Work arrays: distances and places by centroid, and the dictionary of the simplex method with its bounds and names."""

    total: NDArray[Any]
    places: NDArray[Any]
    table: NDArray[Any]
    bound: NDArray[Any]
    basic: NDArray[Any]
    free: NDArray[Any]
    goal: NDArray[Any]
    point: NDArray[Any]


@inner
def find_nearest(total, tolerance):
    """The lowest index of the smallest distance."""
    least = total[0]
    for i in range(total.shape[0]):
        if total[i] < least:
            least = total[i]
    limit = least * (1 + tolerance)
    for i in range(total.shape[0]):
        if total[i] <= limit:
            return np.int64(i)
    return ZERO64


@inner
def add_difference(free, m, i, value):
    """The part of one free column in the distance to a centroid."""
    gap = (value - free.center[m, i]) * free.scale[m]
    return abs(gap) if free.absolute else gap * gap


@inner
def mark_nearest(constant, free, point, scratch, tolerance, reach):
    """Mark the centroid that is nearest at one point of the free columns."""
    total = scratch.total
    for i in range(constant.shape[0]):
        total[i] = constant[i]
        for m in range(point.shape[0]):
            total[i] += add_difference(free, m, i, point[m])
    reach[find_nearest(total, tolerance)] = True


@inner
def list_places(constant, free, scratch):
    """The places within the bounds at which two distances can be equal, and the bends; ascending. Return their number."""
    places, count = scratch.places, ZERO64
    low, high, s = free.low[0], free.high[0], free.scale[0]
    places[0] = low
    places[1] = high
    count += 2
    for i in range(constant.shape[0]):
        a = free.center[0, i]
        if free.absolute and low < a < high:
            places[count] = a
            count += 1
        for j in range(i):
            b = free.center[0, j]
            if a == b:
                continue
            if free.absolute:
                gap = (constant[j] - constant[i]) / s
                place = (a + b + gap) / 2 if b > a else (a + b - gap) / 2
            else:
                place = (a + b) / 2 + (constant[i] - constant[j]) / (2 * s * s * (a - b))
            if low < place < high:
                places[count] = place
                count += 1
    places[:count].sort()
    return count


@inner
def reach_along_line(constant, free, scratch, tolerance, reach):
    """Mark the centroids that are nearest somewhere, for one free column: at every place, and between two."""
    count = list_places(constant, free, scratch)
    point = scratch.point
    for p in range(count):
        point[0] = scratch.places[p]
        mark_nearest(constant, free, point, scratch, tolerance, reach)
        if p + 1 < count:
            point[0] = (scratch.places[p] + scratch.places[p + 1]) / 2
            mark_nearest(constant, free, point, scratch, tolerance, reach)


@inner
def find_unit(constant, free):
    """A distance that some centroid has at most, whatever the values of the free columns are; 1 if this is 0."""
    least = np.inf
    for i in range(constant.shape[0]):
        total = constant[i]
        for m in range(free.low.shape[0]):
            total += max(add_difference(free, m, i, free.low[m]), add_difference(free, m, i, free.high[m]))
        least = min(least, total)
    return least if least > 0.0 else 1.0


@inner
def is_behind(constant, free, i, tolerance):
    """Whether some centroid is nearer than centroid i for all values of the free columns, by more than a tolerance."""
    for j in range(constant.shape[0]):
        if j == i:
            continue
        best = constant[j] - constant[i]
        for m in range(free.low.shape[0]):
            a, b = free.center[m, i], free.center[m, j]
            square = free.scale[m] * free.scale[m]
            value = free.high[m] if a > b else free.low[m]
            best += square * (2 * value * (a - b) + b * b - a * a)
        if best < -tolerance or (j < i and best <= tolerance):
            return True
    return False


@inner
def fill_system(constant, free, i, unit, tolerance, scratch):
    """Write the inequalities of centroid i, divided by ``unit``, as a dictionary: basic variables, bounds, free variables.

    The variables are the free columns above their low ends, and a slack that all inequalities share. Return how far the slack
    must rise, so that every inequality holds.
    """
    table, bound, basic, names, goal = scratch.table, scratch.bound, scratch.basic, scratch.free, scratch.goal
    width = np.int64(free.low.shape[0])
    row, deepest = ZERO64, 0.0
    for j in range(constant.shape[0]):
        if j == i:
            continue
        right = (constant[j] - constant[i]) / unit
        for m in range(width):
            a, b = free.center[m, i], free.center[m, j]
            square = free.scale[m] * free.scale[m] / unit
            table[row, m] = 2 * square * (b - a)
            right += square * (b * b - a * a) - table[row, m] * free.low[m]
        table[row, width] = 1.0
        bound[row] = right - (2 * tolerance if j < i else 0.0) + tolerance / 2
        deepest = min(deepest, bound[row])
        basic[row] = width + 1 + row
        row += 1
    for r in range(row):
        bound[r] -= deepest
    for m in range(width):
        for c in range(width + 1):
            table[row, c] = 0.0
        table[row, m] = 1.0
        bound[row] = free.high[m] - free.low[m]
        basic[row] = width + 1 + row
        row += 1
    for c in range(width + 1):
        names[c] = c
        goal[c] = 0.0
    goal[width] = 1.0
    return -deepest


@inner
def choose_column(goal, names):
    """The free variable with the lowest name that raises the goal (Bland's rule), or -1."""
    chosen = NONE64
    for c in range(goal.shape[0]):
        if goal[c] > 1e-12 and (chosen < 0 or names[c] < names[chosen]):
            chosen = np.int64(c)
    return chosen


@inner
def choose_row(table, bound, basic, column, rows):
    """The row that limits a free variable first; ties: the basic variable with the lowest name; or -1."""
    chosen, least = NONE64, 0.0
    for r in range(rows):
        if table[r, column] <= 1e-12:
            continue
        ratio = bound[r] / table[r, column]
        if chosen < 0 or ratio < least or (ratio == least and basic[r] < basic[chosen]):
            chosen, least = np.int64(r), ratio
    return chosen


@inner
def exchange(table, bound, basic, names, goal, row, column, rows):
    """Exchange a basic and a free variable; return the rise of the goal."""
    width = goal.shape[0]
    pivot = table[row, column]
    for c in range(width):
        table[row, c] /= pivot
    table[row, column] = 1.0 / pivot
    bound[row] /= pivot
    for r in range(rows):
        factor = table[r, column]
        if r == row or factor == 0.0:
            continue
        for c in range(width):
            table[r, c] -= factor * table[row, c]
        table[r, column] = -factor / pivot
        bound[r] = max(bound[r] - factor * bound[row], 0.0)
    factor = goal[column]
    for c in range(width):
        goal[c] -= factor * table[row, c]
    goal[column] = -factor / pivot
    swapped = basic[row]
    basic[row] = names[column]
    names[column] = swapped
    return factor * bound[row]


@inner
def can_be_nearest(constant, free, i, unit, tolerance, scratch):
    """Whether some values of the free columns make centroid i the nearest."""
    needed = fill_system(constant, free, i, unit, tolerance, scratch)
    rows = constant.shape[0] - 1 + free.low.shape[0]
    width = free.low.shape[0] + 1
    names, goal = scratch.free[:width], scratch.goal[:width]
    table, bound, basic = scratch.table, scratch.bound, scratch.basic
    reached, rounds = 0.0, ZERO64
    while reached < needed and rounds < PIVOTS:
        column = choose_column(goal, names)
        if column < 0:
            return False
        row = choose_row(table, bound, basic, column, rows)
        if row < 0:
            return True
        reached += exchange(table, bound, basic, names, goal, row, column, rows)
        rounds += ONE64
    return reached >= needed


@inner
def reach_in_box(constant, free, scratch, tolerance, reach):
    """Mark the centroids that are nearest somewhere, for several free columns."""
    width = free.low.shape[0]
    for m in range(width):
        scratch.point[m] = (free.low[m] + free.high[m]) / 2
    mark_nearest(constant, free, scratch.point, scratch, tolerance, reach)
    unit = find_unit(constant, free)
    for i in range(constant.shape[0]):
        if not reach[i] and not is_behind(constant, free, np.int64(i), tolerance * unit):
            reach[i] = can_be_nearest(constant, free, np.int64(i), unit, tolerance, scratch)


@entry
def find_reachable(base, extra, free, begin, end, tolerance, scratch, reach):
    """Mark the centroids that can be the nearest to the rows ``begin`` to ``end``.

    ``base`` are the constants of the known columns [row, centroid], ``extra`` those of the columns with few possible values
    [combination of values, centroid]. ``reach`` [row, centroid] is the result.
    """
    centroids, width = base.shape[1], free.low.shape[0]
    constant = np.empty(centroids)
    for n in range(begin, end):
        for e in range(extra.shape[0]):
            for i in range(centroids):
                constant[i] = base[n, i] + extra[e, i]
            if width == 0:
                reach[n, find_nearest(constant, tolerance)] = True
            elif width == 1:
                reach_along_line(constant, free, scratch, tolerance, reach[n])
            else:
                reach_in_box(constant, free, scratch, tolerance, reach[n])
