"""MDAV and optimal univariate microaggregation, slow and obvious: lists of records, everything recomputed.

A point is a tuple of numbers (infinity where missing) and codes. ``distance(x, y)`` is the squared distance of two points,
``centroid(points)`` the one that is no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import inf, isinf

Point = tuple[float, ...]


def mdav(
    points: Sequence[Point],
    k: int,
    distance: Callable[[Point, Point], float],
    centroid: Callable[[Sequence[Point]], Point],
) -> list[list[int]]:
    """The groups as lists of places; ties go to the earlier place."""
    rest = list(range(len(points)))

    def furthest(point: Point) -> int:
        return max(rest, key=lambda i: (distance(points[i], point), -i))

    def leave(group: list[int]) -> None:
        for i in group:
            rest.remove(i)

    def nearest(i: int) -> list[int]:
        found = sorted(rest, key=lambda j: (distance(points[j], points[i]), j))[: k - 1]
        leave(found)
        return found

    groups = []
    while len(rest) >= 3 * k:
        r = furthest(centroid([points[i] for i in rest]))
        leave([r])
        s = furthest(points[r])
        leave([s])
        groups += [[r, *nearest(r)], [s, *nearest(s)]]
    if len(rest) >= 2 * k:
        r = furthest(centroid([points[i] for i in rest]))
        leave([r])
        groups.append([r, *nearest(r)])
    return [*groups, rest]


def mean(values: Sequence[float], grid: float) -> float:
    """The mean of the values that are there, each rounded to a multiple of 1 / grid."""
    known = [v for v in values if not isinf(v)]
    return float(sum(round(v * grid) for v in known)) / len(known) / grid if known else inf


def mode(codes: Sequence[int], missing: int) -> int:
    """The most frequent code; the earlier one of several, the missing one where there is no other."""
    known = [c for c in codes if c != missing]
    return min(set(known), key=lambda c: (-known.count(c), c)) if known else missing


def partitions(records: int, k: int) -> Iterator[list[int]]:
    """All ways to cut a row of records into runs of k or more."""
    if records == 0:
        yield []
    for size in range(k, records + 1):
        yield from ([size, *others] for others in partitions(records - size, k))


def squares(values: Sequence[int]) -> Fraction:
    """The sum of squared differences from the mean."""
    middle = Fraction(sum(values), len(values))
    return sum((v - middle) ** 2 for v in values)


def least_squares(values: Sequence[int], k: int) -> Fraction:
    """The least sum of squares within runs of k or more ascending values, by trying all."""
    ordered = sorted(values)

    def cost(sizes: Sequence[int]) -> Fraction:
        ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        return sum(squares(ordered[a:b]) for a, b in pairwise(ends))

    return min(cost(sizes) for sizes in partitions(len(values), k))
