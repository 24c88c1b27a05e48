"""`ClusterModel`: centroids as they are published. Every record belongs to the nearest centroid; ties: the lowest index."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from shoal.arrays import FloatArray, Int64Array
from shoal.engines import Engine
from shoal.errors import DataError
from shoal.formats.checked_json import member, refuse_unknown, require
from shoal.formats.dates import format_date, parse_date
from shoal.formats.numbers import format_count, format_number
from shoal.mining.model_columns import ModelColumn, locate_columns, read_column
from shoal.mining.read_cells import ReadCells
from shoal.spans import CentroidCells, CentroidColumn, FreeColumn

FORMAT, VERSION = "shoal-clusters", 1
DISTANCES = ("squared", "mixed")
MOST_RECORDS = 2**53

Center = float | str | None  # the mean of a number or date; a category; None is a missing category
Located = float | frozenset[str] | None


@dataclass(frozen=True)
class ClusterModel:
    """Centroids over some columns.

    ``centers`` has the value of every column for each centroid, ``records`` the number of records that are nearest to it.
    ``width`` is the width of the values of each column of numbers, which divides their differences. ``distance`` is
    ``squared`` (the sum of squares) or ``mixed`` (the sum of absolute differences).
    """

    columns: Mapping[str, ModelColumn]
    width: Mapping[str, float]
    centers: tuple[Mapping[str, Center], ...]
    records: tuple[int, ...]
    distance: str = "squared"
    missing: tuple[str, ...] = ()

    def build_cells(self, values: Mapping[str, Sequence[Any]]) -> CentroidCells:
        """The centroids over located values, by column; see `ModelColumn.locate`."""
        columns = [self._build_column(name, values[name]) for name in self.columns]
        return CentroidCells(tuple(columns), name_clusters(len(self.centers)), self.distance == "mixed")

    def read(self, engine: Engine) -> ReadCells:
        """The model over the values of a table; `DataError` if a number is missing."""
        values, codes = locate_columns(self.columns, engine)
        chosen = [codes[name] for name in self.columns]
        for name, code in zip(self.columns, chosen, strict=True):
            refuse_missing_numbers(name, self.columns[name], bool((code == len(values[name]) - 1).any()))
        cells = self.build_cells(values)
        cell = cells.find_nearest(chosen)
        fits = np.array_equal(np.bincount(cell, minlength=len(self.centers)), np.array(self.records))
        return ReadCells(
            tuple(self.columns), cell, len(self.centers), partial(cells.find_spans, chosen), "clusters", fits
        )

    def find_nearest(self, engine: Engine) -> Int64Array:
        """The nearest centroid of every record of a table."""
        return self.read(engine).cell

    def export_text(self) -> str:
        """The centroids as text, one line each."""
        lines = []
        for i, (center, records) in enumerate(zip(self.centers, self.records, strict=True)):
            values = ", ".join(f"{name} {self.format_value(name, value)}" for name, value in center.items())
            lines.append(f"cluster {i} ({format_count(records, 'record')}): {values}")
        return "\n".join(lines)

    def format_value(self, name: str, value: Center) -> str:
        """A coordinate of a centroid as text."""
        if value is None:
            return "missing"
        if isinstance(value, str):
            return value
        return format_date(value) if self.columns[name].quasi.kind == "date" else format_number(value)

    def to_dict(self) -> dict[str, Any]:
        """The centroids as plain values, for JSON."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "distance": self.distance,
            "missing": list(self.missing),
            "columns": {
                name: column.to_dict() | ({"width": self.width[name]} if name in self.width else {})
                for name, column in self.columns.items()
            },
            "clusters": [
                {"records": records, "center": {name: self._write(name, value) for name, value in center.items()}}
                for center, records in zip(self.centers, self.records, strict=True)
            ],
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> ClusterModel:
        """Read centroids from the content of their JSON file."""
        refuse_unknown(found, ("format", "version", "distance", "missing", "columns", "clusters"))
        require(found.get("format") == FORMAT, f"'format' must be {FORMAT!r}")
        require(found.get("version") == VERSION, f"'version' must be {VERSION}")
        distance = member(found, "distance", str)
        require(distance in DISTANCES, f"'distance' must be one of {', '.join(DISTANCES)}")
        missing = tuple(member(found, "missing", list))
        require(all(isinstance(m, str) for m in missing), "'missing' must be a list of texts")
        columns, width = {}, {}
        for name, body in member(found, "columns", dict).items():
            require(isinstance(body, Mapping), f"column {name!r} must be a mapping")
            columns[name] = read_column(name, {key: v for key, v in body.items() if key != "width"}, missing)
            if columns[name].has_numbers:
                width[name] = _read_number(body.get("width"), f"the width of column {name!r}")
                require(width[name] > 0, f"the width of column {name!r} must be above 0")
        clusters = member(found, "clusters", list)
        require(bool(clusters), "'clusters' must not be empty")
        centers, records = [], []
        for i, body in enumerate(clusters):
            require(isinstance(body, Mapping), f"cluster {i} must be a mapping")
            refuse_unknown(body, ("records", "center"))
            count = member(body, "records", int)
            require(0 <= count < MOST_RECORDS, f"'records' of cluster {i} must be at least 0")
            center = member(body, "center", dict)
            require(set(center) == set(columns), f"the center of cluster {i} must have a value for every column")
            centers.append({name: _read_center(columns[name], center[name], i) for name in columns})
            records.append(count)
        return cls(columns, width, tuple(centers), tuple(records), distance, missing)

    def _write(self, name: str, value: Center) -> Any:
        return self.format_value(name, value) if self.columns[name].quasi.kind == "date" else value

    def _build_column(self, name: str, values: Sequence[Any]) -> CentroidColumn:
        column = self.columns[name]
        center = [c[name] for c in self.centers]
        if column.has_numbers:
            numbers = np.array([math.nan if v is None else v for v in values], np.float64)
            numbers = np.where(
                np.isnan(numbers), np.array(center, np.float64)[0], numbers
            )  # a missing value is refused
            return number_column(name, numbers, np.array(center, np.float64), self.width[name], self.distance)
        located = column.locate_labels([None if c is None else str(c) for c in center])
        terms = np.array([[measure_labels(v, c, self.distance) for c in located] for v in values])
        return CentroidColumn(name, terms.reshape(len(values), len(center)))


def name_clusters(count: int) -> tuple[str, ...]:
    """The names of clusters."""
    return tuple(str(i) for i in range(count))


def number_column(name: str, numbers: FloatArray, center: FloatArray, width: float, distance: str) -> CentroidColumn:
    """A column of numbers with the parts of their distances to the centroids; a missing value (NaN) is refused elsewhere."""
    present = numbers[~np.isnan(numbers)]
    low, high = (float(present.min()), float(present.max())) if len(present) else (0.0, 0.0)
    gaps = (np.where(np.isnan(numbers), low, numbers)[:, np.newaxis] - center[np.newaxis, :]) / width
    terms = np.abs(gaps) if distance == "mixed" else gaps**2
    return CentroidColumn(name, terms, FreeColumn(center, low, high, 1 / width))


def measure_labels(one: Located, other: Located, distance: str) -> float:
    """The distance of two categories: the share of the levels above them that differ, or its square.

    Without a taxonomy, different categories have the distance 1; so has a missing value to every other.
    """
    if one is None or other is None:
        return float(one is not other)
    assert isinstance(one, frozenset) and isinstance(other, frozenset)  # noqa: S101
    share = 1 - len(one & other) / max(len(one), len(other), 1)
    return share if distance == "mixed" else share * share


def refuse_missing_numbers(name: str, column: ModelColumn, is_missing: bool) -> None:
    """Raise `DataError` if a number is missing: it has no distance to a centroid."""
    if column.has_numbers and is_missing:
        raise DataError(
            f"column {name!r} has missing numbers, which have no distance to a centroid. Fill them, or remove these records."
        )


def _read_number(value: Any, what: str) -> float:
    require(type(value) in (int, float) and math.isfinite(value), f"{what} must be a finite number")
    return float(value)


def _read_center(column: ModelColumn, value: Any, i: int) -> Center:
    what = f"column {column.name!r} of cluster {i}"
    if column.has_numbers and column.quasi.kind == "date":
        day = parse_date(value) if isinstance(value, str) else None
        require(day is not None, f"{what} must be a date")
        return float(day)  # type: ignore[arg-type]
    if column.has_numbers:
        return _read_number(value, what)
    require(value is None or isinstance(value, str), f"{what} must be a text")
    return value  # type: ignore[no-any-return]
