"""The minimal spanning tree of points with numbers and categories: Prim's algorithm, in O(n²) time and O(n) memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import NONE64, ZERO64


class Points(NamedTuple):
    """Points: scaled numbers [point, column], and codes of categories [point, column].

    The distance of the categories a and b of column j is ``tables[start[j] + a * size[j] + b]``. ``absolute``: differences of
    numbers are not squared.
    """

    numbers: NDArray[Any]
    categories: NDArray[Any]
    tables: NDArray[Any]
    start: NDArray[Any]
    size: NDArray[Any]
    absolute: bool


@inner
def measure_distance(points, a, b):
    """The distance of two points: the sum over the columns."""
    total = 0.0
    for j in range(points.numbers.shape[1]):
        gap = points.numbers[a, j] - points.numbers[b, j]
        total += abs(gap) if points.absolute else gap * gap
    for j in range(points.categories.shape[1]):
        at = points.start[j] + points.categories[a, j] * points.size[j] + points.categories[b, j]
        total += points.tables[at]
    return total


@entry
def build_spanning_tree(points, parent, length, order):
    """Fill the parent of every point, the length of the edge to it, and the order in which the points join the tree.

    Point 0 is the root. Ties: the point with the lowest number joins first, to the parent that was found first.
    """
    count = parent.shape[0]
    joined = np.zeros(count, np.bool_)
    for p in range(count):
        parent[p] = NONE64
        length[p] = np.inf
    last = ZERO64
    length[0] = 0.0
    for step in range(count):
        joined[last] = True
        order[step] = last
        nearest, least = NONE64, np.inf
        for p in range(count):
            if joined[p]:
                continue
            distance = measure_distance(points, last, p)
            if distance < length[p]:
                length[p] = distance
                parent[p] = last
            if length[p] < least:
                least = length[p]
                nearest = np.int64(p)
        last = nearest
