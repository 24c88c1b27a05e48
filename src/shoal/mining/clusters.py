"""Clusters whose spans meet requirements (Friedman, Wolff, Schuster, section 5.2).

The edges of a minimal spanning tree are deleted, longest first. Each deletion divides a cluster in two, and the centroids of
the two parts replace that of the cluster. The spans of all people are found again, since new centroids also move other borders.
A deletion that makes a requirement fail is undone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.engines import Engine
from shoal.errors import DataError
from shoal.kernels.combinations import sort_combinations
from shoal.mining.cluster_model import Center, ClusterModel, Located, measure_labels, refuse_missing_numbers
from shoal.mining.model_columns import ModelColumn, locate_columns
from shoal.progress import Progress

DIGITS = 4  # of a center, relative to the width of the column: more would tell more about single records
WIDTH_DIGITS = 2
DAY = 86_400.0  # in seconds, the unit of dates
Test = Callable[[ClusterModel], bool]


@dataclass(frozen=True)
class ClusterTable:
    """The distinct records of a table, and their numbers.

    ``values`` and ``labels`` have the located value and the text of every code, by column. ``combination`` is the distinct
    record of every record, ``codes`` the codes of the distinct records, ``records`` how many records are equal to each.
    ``person`` is the person of every record if people have several, -1 if unknown.
    """

    columns: Mapping[str, ModelColumn]
    values: Mapping[str, Sequence[Any]]
    labels: Mapping[str, Sequence[str | None]]
    combination: Int32Array
    codes: Int32Array
    records: Int64Array
    missing: tuple[str, ...]
    person: Int32Array | None = None

    @classmethod
    def of(cls, columns: Mapping[str, ModelColumn], engine: Engine, missing: tuple[str, ...]) -> ClusterTable:
        """Read the columns of a table; `DataError` if a number is missing."""
        values, codes = locate_columns(columns, engine)
        labels: dict[str, list[str | None]] = {}
        for name, column in columns.items():
            refuse_missing_numbers(name, column, bool((codes[name] == len(values[name]) - 1).any()))
            labels[name] = [*(column.write_value(v) for v in engine.distinct(name, column.reading).values), None]
        chosen = [codes[name] for name in columns]
        combination, order, start = sort_combinations(chosen, len(chosen[0]))
        table = np.stack([c[order[start]] for c in chosen], axis=1).astype(np.int32)
        records = np.diff(start, append=len(chosen[0])).astype(np.int64)
        return cls(columns, values, labels, combination, table, records, missing)

    @cached_property
    def weights(self) -> FloatArray:
        """The weight of every distinct record in a mean: its number of records; every person together has the weight 1."""
        if self.person is None:
            return self.records.astype(np.float64)
        count = np.bincount(self.person[self.person >= 0])
        each = np.where(self.person >= 0, 1 / np.maximum(count, 1)[np.maximum(self.person, 0)], 1.0)
        return np.bincount(self.combination, each, minlength=len(self.records)).astype(np.float64)

    def count_members(self, cluster: Int64Array, count: int) -> Int64Array:
        """The number of records, or of different people, in every cluster; ``cluster`` is that of every distinct record."""
        if self.person is None:
            return np.bincount(cluster, self.records, minlength=count).astype(np.int64)
        pairs = np.unique(np.stack([cluster[self.combination], self.person]), axis=1)
        return np.bincount(pairs[0, pairs[1] >= 0], minlength=count).astype(np.int64)

    def find_widths(self, least: int) -> dict[str, float]:
        """The width of the values of every column of numbers, rounded up; 1 if all numbers are equal.

        A private column is measured without its ``least - 1`` smallest and largest records: the width is published, and it
        must not show the values of single records. If nothing is left, the width is a power of ten.
        """
        found = {}
        for j, (name, column) in enumerate(self.columns.items()):
            if column.has_numbers:
                numbers = self._list_numbers(name, j)
                whole = float(numbers.max()) - float(numbers.min())
                width = whole if column.public else measure_inner_width(numbers, self.records, least)
                found[name] = round_up(width) if width > 0 or whole <= 0 else 10.0 ** math.ceil(math.log10(whole))
        return found

    def find_center(
        self, members: BoolArray, width: Mapping[str, float], distance: str, least: int = 1
    ) -> dict[str, Center]:
        """The centroid of some records: the mean of numbers, and the medoid of categories; ties: the first category.

        A private category that fewer than ``least`` of the records have is not published: the center is then missing.
        """
        found: dict[str, Center] = {}
        weight = self.weights[members]
        for j, (name, column) in enumerate(self.columns.items()):
            if column.has_numbers:
                mean = float(np.average(self._list_numbers(name, j)[members], weights=weight))
                found[name] = round_center(mean, width[name], column.quasi.kind)
                continue
            present, number = np.unique(self.codes[members, j], return_inverse=True)
            table = measure_categories([self.values[name][c] for c in present.tolist()], distance)
            count = np.bincount(number, weight)
            total = np.where(column.public | (count >= least), table @ count, np.inf)
            found[name] = self.labels[name][int(present[int(np.argmin(total))])] if np.isfinite(total).any() else None
        return found

    def build_spanning_tree(self, width: Mapping[str, float], distance: str) -> SpanningTree:
        """The minimal spanning tree of the distinct records."""
        numbers, categories, tables = [], [], []
        for j, (name, column) in enumerate(self.columns.items()):
            if column.has_numbers:
                numbers.append(self._list_numbers(name, j) / width[name])
            else:
                categories.append(self.codes[:, j])
                tables.append(measure_categories(self.values[name], distance))
        rows = len(self.codes)
        points = kernels.spanning_tree.Points(
            np.ascontiguousarray(np.stack(numbers, axis=1) if numbers else np.zeros((rows, 0))),
            np.ascontiguousarray(np.stack(categories, axis=1) if categories else np.zeros((rows, 0), np.int32)),
            np.concatenate([t.ravel() for t in tables]) if tables else np.zeros(0),
            np.cumsum([0, *(t.size for t in tables)], dtype=np.int64)[: len(tables)],
            np.array([len(t) for t in tables], np.int64),
            distance == "mixed",
        )
        parent, length, order = np.empty(rows, np.int64), np.empty(rows), np.empty(rows, np.int64)
        kernels.spanning_tree.build_spanning_tree(points, parent, length, order)
        return SpanningTree.of(parent, length, order)

    def _list_numbers(self, name: str, j: int) -> FloatArray:
        numbers: FloatArray = np.array(self.values[name], np.float64)[self.codes[:, j]]
        return numbers


@dataclass(frozen=True)
class SpanningTree:
    """A spanning tree: point p is joined to ``parent[p]`` by an edge of ``length[p]``; the root has none.

    The points below p are those with ``first[p] <= place < last[p]``, where ``place`` is their place in a walk of the tree.
    """

    parent: Int64Array
    length: FloatArray
    place: Int64Array
    last: Int64Array

    @classmethod
    def of(cls, parent: Int64Array, length: FloatArray, order: Int64Array) -> SpanningTree:
        """The tree with the places of its points; parents come before their children in ``order``."""
        size = np.ones(len(parent), np.int64)
        for p in order[:0:-1].tolist():
            size[parent[p]] += size[p]
        place, used = np.zeros(len(parent), np.int64), np.ones(len(parent), np.int64)
        for p in order[1:].tolist():
            above = parent[p]
            place[p] = place[above] + used[above]
            used[above] += size[p]
        return cls(parent, length, place, place + size)

    def list_edges(self) -> list[int]:
        """The lower points of all edges, longest first; ties: the lower number."""
        points = np.flatnonzero(self.parent >= 0)
        ordered: list[int] = points[np.lexsort((points, -self.length[points]))].tolist()
        return ordered

    def is_below(self, p: int) -> BoolArray:
        """Whether each point is p or below it."""
        return np.asarray((self.place >= self.place[p]) & (self.place < self.last[p]))


def grow_clusters(
    table: ClusterTable,
    meets: Test,
    *,
    distance: str,
    least_members: int,
    max_clusters: int | None,
    max_refusals: int,
    progress: Progress,
) -> ClusterModel | None:
    """Divide the table into clusters that meet a test, longest edge first; None if not even one cluster meets it.

    Parameters
    ----------
    table : the records
    meets : whether the spans of all people meet the requirements
    distance : ``squared`` or ``mixed``
    least_members : the least number of records (of people, if they have several records) of a centroid: of those that make it,
        and of those that are nearest to it
    max_clusters : end with this many clusters
    max_refusals : end after this many refused deletions in a row
    """
    width = table.find_widths(least_members)
    part = np.zeros(len(table.codes), np.int64)

    def find_center(members: BoolArray) -> dict[str, Center]:
        return table.find_center(members, width, distance, least_members)

    centers = [find_center(np.ones(len(part), bool))]

    def build(found: Sequence[Mapping[str, Center]]) -> tuple[ClusterModel, int]:
        """The model, and the members of its smallest cluster."""
        count = len(found)
        model = ClusterModel(table.columns, width, tuple(found), (0,) * count, distance, table.missing)
        codes = [table.codes[:, j] for j in range(table.codes.shape[1])]
        nearest = model.build_cells(table.values).find_nearest(codes)
        records = np.bincount(nearest, table.records, minlength=count).astype(np.int64)
        return replace(model, records=tuple(records.tolist())), int(table.count_members(nearest, count).min())

    model, _ = build(centers)
    if not meets(model):
        return None
    tree = table.build_spanning_tree(width, distance)
    edges, refused = tree.list_edges(), 0
    for done, p in enumerate(edges):
        if refused >= max_refusals or len(centers) == max_clusters:
            break
        progress("clustering", done, len(edges))
        cluster = int(part[p])
        below = (part == cluster) & tree.is_below(p)
        rest = (part == cluster) & ~below
        sizes = table.count_members(np.where(below, 0, np.where(rest, 1, 2)), 3)[:2]
        refused += 1
        if sizes.min() < least_members:
            continue
        tried = [*centers, find_center(below)]
        tried[cluster] = find_center(rest)
        found, smallest = build(tried)
        if smallest < least_members or not meets(found):
            continue
        centers, model, refused = tried, found, 0
        part[below] = len(centers) - 1
    progress("clustering", len(edges), len(edges))
    return model


def measure_categories(values: Sequence[Located], distance: str) -> FloatArray:
    """The distances of all pairs of categories."""
    return np.array([[measure_labels(a, b, distance) for b in values] for a in values], np.float64)


def measure_inner_width(numbers: FloatArray, records: Int64Array, least: int) -> float:
    """The width of numbers without the ``least - 1`` smallest and largest records; 0 if nothing is left."""
    order = np.argsort(numbers, kind="stable")
    total = np.cumsum(records[order])
    low = np.searchsorted(total, least)
    high = np.searchsorted(total, int(total[-1]) - least, side="right")
    return float(numbers[order[high]] - numbers[order[low]]) if low < high < len(order) else 0.0


def round_up(width: float) -> float:
    """A width rounded up to two digits, so that it does not show the largest and the smallest value; 1 for no width."""
    if width <= 0:
        return 1.0
    if not math.isfinite(width):
        raise DataError("the numbers of a column differ by more than a number can hold. Remove the extreme values.")
    step = 10.0 ** (math.floor(math.log10(width)) - WIDTH_DIGITS + 1)
    return float(f"{math.ceil(width / step - 1e-9) * step:.{WIDTH_DIGITS}g}")


def round_center(mean: float, width: float, kind: str) -> float:
    """A coordinate of a centroid, rounded to a ten-thousandth of the width, dates to days."""
    if kind == "date":
        return round(mean / DAY) * DAY
    return round(mean, DIGITS - math.floor(math.log10(width)))
