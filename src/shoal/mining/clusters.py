"""Clusters whose spans meet requirements (Friedman, Wolff, Schuster, section 5.2).

The edges of a minimal spanning tree are deleted, longest first. Each deletion divides a cluster in two, and the centroids of
the two parts replace that of the cluster. The spans of all people are found again, since new centroids also move other borders.
A deletion that makes a requirement fail is undone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.engines import Engine
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
    """

    columns: Mapping[str, ModelColumn]
    values: Mapping[str, Sequence[Any]]
    labels: Mapping[str, Sequence[str | None]]
    combination: Int32Array
    codes: Int32Array
    records: Int64Array
    missing: tuple[str, ...]

    @classmethod
    def of(cls, columns: Mapping[str, ModelColumn], engine: Engine, missing: tuple[str, ...]) -> ClusterTable:
        """Read the columns of a table; `DataError` if a number is missing."""
        values, codes = locate_columns(columns, engine)
        labels: dict[str, list[str | None]] = {}
        for name, column in columns.items():
            refuse_missing_numbers(name, column, bool((codes[name] == len(values[name]) - 1).any()))
            labels[name] = [*map(str, engine.distinct(name, column.reading).values), None]
        chosen = [codes[name] for name in columns]
        combination, order, start = sort_combinations(chosen, len(chosen[0]))
        table = np.stack([c[order[start]] for c in chosen], axis=1).astype(np.int32)
        records = np.diff(start, append=len(chosen[0])).astype(np.int64)
        return cls(columns, values, labels, combination, table, records, missing)

    def find_widths(self) -> dict[str, float]:
        """The width of the values of every column of numbers, rounded up; 1 if all numbers are equal."""
        found = {}
        for j, (name, column) in enumerate(self.columns.items()):
            if column.has_numbers:
                numbers = self._list_numbers(name, j)
                found[name] = round_up(float(numbers.max() - numbers.min()))
        return found

    def find_center(self, members: BoolArray, width: Mapping[str, float], distance: str) -> dict[str, Center]:
        """The centroid of some records: the mean of numbers, and the medoid of categories; ties: the first category."""
        found: dict[str, Center] = {}
        weight = self.records[members]
        for j, (name, column) in enumerate(self.columns.items()):
            if column.has_numbers:
                mean = float(np.average(self._list_numbers(name, j)[members], weights=weight))
                found[name] = round_center(mean, width[name], column.quasi.kind)
                continue
            present, number = np.unique(self.codes[members, j], return_inverse=True)
            table = measure_categories([self.values[name][c] for c in present.tolist()], distance)
            medoid = present[int(np.argmin(table @ np.bincount(number, weight)))]
            found[name] = self.labels[name][int(medoid)]
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
    least_members : the least number of records of a centroid: of those that make it, and of those that are nearest to it
    max_clusters : end with this many clusters
    max_refusals : end after this many refused deletions in a row
    """
    width = table.find_widths()
    part = np.zeros(len(table.codes), np.int64)
    centers = [table.find_center(np.ones(len(part), bool), width, distance)]

    def build(found: Sequence[Mapping[str, Center]]) -> ClusterModel:
        model = ClusterModel(table.columns, width, tuple(found), (0,) * len(found), distance, table.missing)
        return count_records(model, table)

    model = build(centers)
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
        sizes = (int(table.records[below].sum()), int(table.records[rest].sum()))
        refused += 1
        if min(sizes) < least_members:
            continue
        tried = [*centers, table.find_center(below, width, distance)]
        tried[cluster] = table.find_center(rest, width, distance)
        found = build(tried)
        if min(found.records) < least_members or not meets(found):
            continue
        centers, model, refused = tried, found, 0
        part[below] = len(centers) - 1
    progress("clustering", len(edges), len(edges))
    return model


def count_records(model: ClusterModel, table: ClusterTable) -> ClusterModel:
    """The model with the number of records that are nearest to every centroid."""
    nearest = model.build_cells(table.values).find_nearest([table.codes[:, j] for j in range(table.codes.shape[1])])
    records = np.bincount(nearest, table.records, minlength=len(model.centers)).astype(np.int64)
    return ClusterModel(
        model.columns, model.width, model.centers, tuple(records.tolist()), model.distance, model.missing
    )


def measure_categories(values: Sequence[Located], distance: str) -> FloatArray:
    """The distances of all pairs of categories."""
    return np.array([[measure_labels(a, b, distance) for b in values] for a in values], np.float64)


def round_up(width: float) -> float:
    """A width rounded up to two digits, so that it does not show the largest and the smallest value; 1 for no width."""
    if width <= 0:
        return 1.0
    step = 10.0 ** (math.floor(math.log10(width)) - WIDTH_DIGITS + 1)
    return float(f"{math.ceil(width / step - 1e-9) * step:.{WIDTH_DIGITS}g}")


def round_center(mean: float, width: float, kind: str) -> float:
    """A coordinate of a centroid, rounded to a ten-thousandth of the width, dates to days."""
    if kind == "date":
        return round(mean / DAY) * DAY
    return round(mean, DIGITS - math.floor(math.log10(width)))
