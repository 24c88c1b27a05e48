"""Centroids that can be the nearest, slow and exact: rational numbers, no tolerance.

Friedman, Wolff, Schuster, Providing k-anonymity in data mining, section 4.2. Ties: the lowest index.

Squares of differences: the difference of two distances is linear in the private numbers. So the points that are not nearer to
another centroid than to centroid i are a polytope within the bounds, and all its corners are found by trying every choice of
inequalities. The mean of the corners is inside: if any point of the polytope is nearer to i than to j, the mean is. Absolute
differences of one number: the distances are lines between the coordinates of the centroids, so the nearest centroid changes
only where two of these lines meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

Vector = tuple[Fraction, ...]


@dataclass(frozen=True)
class Free:
    """A private number: the coordinate of every centroid, its bounds, and the weight of a difference."""

    center: Vector
    low: Fraction
    high: Fraction
    scale: Fraction = Fraction(1)


@dataclass(frozen=True)
class Inequality:
    """``normal`` times the point is at most ``limit``."""

    normal: Vector
    limit: Fraction

    def measure_room(self, point: Vector) -> Fraction:
        """How far the point is from the limit; negative if the inequality fails."""
        return self.limit - sum((n * x for n, x in zip(self.normal, point, strict=True)), Fraction(0))


def find_nearest(distances: Sequence[Fraction]) -> int:
    """The lowest index of the smallest distance."""
    return min(range(len(distances)), key=lambda i: distances[i])


def find_reachable(constants: Iterable[Vector], free: Sequence[Free], *, absolute: bool = False) -> frozenset[int]:
    """The centroids that are the nearest for some private values.

    ``constants`` has the part of the other columns in the distance to every centroid, once for each combination of private
    categories.
    """
    found: set[int] = set()
    for constant in constants:
        if not free:
            found.add(find_nearest(constant))
        elif absolute:
            (one,) = free
            found |= _reach_along_line(constant, one)
        else:
            found |= {i for i in range(len(constant)) if _can_be_nearest(i, constant, free)}
    return frozenset(found)


def _can_be_nearest(i: int, constant: Vector, free: Sequence[Free]) -> bool:
    nearer = {j: _compare_squares(i, j, constant, free) for j in range(len(constant)) if j != i}
    corners = list(_list_corners([*nearer.values(), *_list_bounds(free)], len(free)))
    if not corners:
        return False
    mean = tuple(sum(values, Fraction(0)) / len(corners) for values in zip(*corners, strict=True))
    return all(nearer[j].measure_room(mean) > 0 for j in nearer if j < i)


def _compare_squares(i: int, j: int, constant: Vector, free: Sequence[Free]) -> Inequality:
    """The points that are not nearer to j than to i: -2 x a + a² + constant of i <= -2 x b + b² + constant of j."""
    normal = tuple(2 * f.scale**2 * (f.center[j] - f.center[i]) for f in free)
    squares = sum((f.scale**2 * (f.center[j] ** 2 - f.center[i] ** 2) for f in free), Fraction(0))
    return Inequality(normal, constant[j] - constant[i] + squares)


def _list_bounds(free: Sequence[Free]) -> Iterable[Inequality]:
    for m, f in enumerate(free):
        unit = tuple(Fraction(n == m) for n in range(len(free)))
        yield Inequality(unit, f.high)
        yield Inequality(tuple(-u for u in unit), -f.low)


def _list_corners(system: Sequence[Inequality], width: int) -> Iterable[Vector]:
    for chosen in itertools.combinations(system, width):
        point = _solve(chosen)
        if point is not None and all(inequality.measure_room(point) >= 0 for inequality in system):
            yield point


def _solve(chosen: Sequence[Inequality]) -> Vector | None:
    """The only point at which all inequalities are equal, by Gauss' elimination; None if there is no such point."""
    rows = [[*inequality.normal, inequality.limit] for inequality in chosen]
    width = len(rows)
    for c in range(width):
        pivot = next((r for r in range(c, width) if rows[r][c]), None)
        if pivot is None:
            return None
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [v / rows[c][c] for v in rows[c]]
        for r in range(width):
            if r != c:
                rows[r] = [v - rows[r][c] * w for v, w in zip(rows[r], rows[c], strict=True)]
    return tuple(row[-1] for row in rows)


def _reach_along_line(constant: Vector, free: Free) -> frozenset[int]:
    def measure(i: int, x: Fraction) -> Fraction:
        return constant[i] + free.scale * abs(x - free.center[i])

    bends = sorted({free.low, free.high, *(c for c in free.center if free.low < c < free.high)})
    places = set(bends)
    for left, right in itertools.pairwise(bends):
        for i, j in itertools.combinations(range(len(constant)), 2):
            before, after = (measure(i, x) - measure(j, x) for x in (left, right))
            if before * after < 0:  # the difference is a line between two bends
                places.add(left + (right - left) * before / (before - after))
    ordered = sorted(places)
    between = [(a + b) / 2 for a, b in itertools.pairwise(ordered)]
    return frozenset(find_nearest([measure(i, x) for i in range(len(constant))]) for x in (*ordered, *between))
