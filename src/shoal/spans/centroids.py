"""Spans of centroids: every person belongs to the nearest centroid, and private values may make several of them the nearest.

Friedman, Wolff and Schuster, "Providing k-anonymity in data mining", section 4.2. A private number may have any value between
the smallest and the largest of the table; a private category any value of the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal import kernels, threads
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.errors import DataError
from shoal.kernels.combinations import sort_combinations
from shoal.spans.cell_sets import CellSets, collect_cell_sets
from shoal.spans.spans import Knowledge

MOST_WORK = 4_000_000_000  # distances that are computed for private categories
TOLERANCE = 1e-11  # relative to the largest distance; smaller differences are ties


@dataclass(frozen=True)
class FreeColumn:
    """A column of numbers that may have any value from ``low`` to ``high``, with the coordinate of every centroid.

    ``scale`` is the weight of a difference.
    """

    center: FloatArray
    low: float
    high: float
    scale: float = 1.0


@dataclass(frozen=True)
class CentroidColumn:
    """A column: its part in the distance of every value to every centroid [code, centroid], and its bounds if it is free."""

    name: str
    terms: FloatArray
    free: FreeColumn | None = None


@dataclass(frozen=True)
class CentroidCells:
    """Centroids over the codes of some columns; the distance is the sum of the parts of the columns.

    ``absolute``: free columns add the absolute difference instead of its square.
    """

    columns: tuple[CentroidColumn, ...]
    names: tuple[str, ...]
    absolute: bool = False

    def find_nearest(self, codes: Sequence[Int32Array]) -> Int64Array:
        """The nearest centroid of every record; ties: the lowest index."""
        total = self._sum_terms(codes, range(len(self.columns)))
        least = total.min(axis=1, keepdims=True)
        return np.asarray((total <= least + self.tolerance).argmax(axis=1), np.int64)

    def find_spans(self, codes: Sequence[Int32Array], knowledge: Knowledge) -> CellSets:
        """The spans of all records, from the centroids that are possible for every combination of public values."""
        rows = len(codes[0]) if codes else 0
        public = [j for j, column in enumerate(self.columns) if column.name in knowledge.columns]
        combination, order, start = sort_combinations([codes[j] for j in public], rows)
        sample = order[start]
        base = self._sum_terms([c[sample] for c in codes], public, len(sample))
        reach = self.find_reachable(base, codes, [j for j in range(len(self.columns)) if j not in public])
        return collect_cell_sets(reach, combination, knowledge, self.names, "cluster")

    def find_reachable(self, base: FloatArray, codes: Sequence[Int32Array], private: Sequence[int]) -> BoolArray:
        """Which centroids can be the nearest to every row of ``base``, the parts of the public columns in the distances."""
        free = [column for j in private if (column := self.columns[j].free) is not None]
        finite = [j for j in private if self.columns[j].free is None]
        extra = self._list_extra(codes, finite, len(base))
        count, width = len(self.names), len(free)
        given = kernels.centroids.FreeColumns(
            np.array([f.center for f in free], np.float64).reshape(width, count),
            np.array([f.low for f in free], np.float64),
            np.array([f.high for f in free], np.float64),
            np.array([f.scale for f in free], np.float64),
            self.absolute,
        )
        reach = np.zeros(base.shape, np.bool_)
        half = len(base) // 2
        tolerance = self.tolerance

        def mark(part: tuple[int, int]) -> None:
            scratch = _make_scratch(count, width)
            begin, end = np.int64(part[0]), np.int64(part[1])
            kernels.centroids.find_reachable(base, extra, given, begin, end, tolerance, scratch, reach)

        threads.each(mark, [(0, half), (half, len(base))], rows=len(base))
        return reach

    @property
    def tolerance(self) -> float:
        """The difference of distances up to which they are equal."""
        return TOLERANCE * max(1.0, sum(float(np.abs(c.terms).max(initial=0.0)) for c in self.columns))

    def _sum_terms(self, codes: Sequence[Int32Array], chosen: Sequence[int], rows: int | None = None) -> FloatArray:
        total = np.zeros((len(codes[0]) if rows is None else rows, len(self.names)))
        for j in chosen:
            total += self.columns[j].terms[codes[j]]
        return total

    def _list_extra(self, codes: Sequence[Int32Array], finite: Sequence[int], rows: int) -> FloatArray:
        """The parts of every combination of private categories in the distances; those with equal parts once."""
        present = [np.unique(self.columns[j].terms[np.unique(codes[j])], axis=0) for j in finite]
        combinations = math.prod(map(len, present))
        if combinations * max(rows, 1) * len(self.names) > MOST_WORK:
            raise DataError(
                f"the private columns of the model have {combinations:,} combinations of categories, too many for the "
                f"{rows:,} combinations of public values. Fit the model with fewer private columns of categories, or group "
                "their values."
            )
        total = np.zeros((1, len(self.names)))
        for terms in present:
            total = (total[:, np.newaxis, :] + terms[np.newaxis, :, :]).reshape(-1, len(self.names))
        return np.ascontiguousarray(total)


def _make_scratch(count: int, width: int) -> kernels.centroids.CentroidScratch:
    rows = count - 1 + width
    return kernels.centroids.CentroidScratch(
        np.empty(count),
        np.empty(2 + count + count * (count - 1) // 2),
        np.empty((rows, width + 1)),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty(width + 1, np.int64),
        np.empty(width + 1),
        np.empty(width),
    )
