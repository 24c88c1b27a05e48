"""A `Cut` as SQL: for every field an expression for the interval of a value, then the labels of the intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shoal.arrays import FloatArray
from shoal.recoding.cut import Cut, FieldCut
from shoal.recoding.field import Field
from shoal.sql.field_values import Keys, write_case
from shoal.sql.published_columns import Published, cast_column, write_constant


def publish_cut(recoding: Cut, values: str, prefix: str) -> Published:
    """The tables and expressions of a cut; ``values`` is the table with the value of every field, v1, v2, …"""
    fields = recoding.fields
    intervals = [
        f"{write_case(field, f'v{j}', find(cut), _list_points(field, cut))} AS {letter}{j}"
        for letter, find in _list_intervals(recoding).items()
        for j, (field, cut) in enumerate(zip(fields, recoding.cuts, strict=True), start=1)
    ]
    placed = f"{prefix}_placed"
    tables = [(placed, f"SELECT *, {', '.join(intervals)} FROM {values}")]
    conditions = [f"i{j} IS NOT NULL" for j in range(1, len(fields) + 1)]
    source = placed
    if recoding.suppressed is not None and len(recoding.suppressed):
        suppressed = f"{prefix}_suppressed"
        names = ", ".join(f"x{j}" for j in range(1, len(fields) + 1))
        rows = ", ".join(f"({', '.join(map(str, row))})" for row in recoding.suppressed.tolist())
        tables.append((suppressed, f"SELECT * FROM (VALUES {rows}) AS combinations({names})"))
        for letter in _list_intervals(recoding):
            table = f"{prefix}_{letter}"
            equal = " AND ".join(f"{letter}{j} = {table}.x{j}" for j in range(1, len(fields) + 1))
            source += f" LEFT JOIN {suppressed} AS {table} ON {equal}"
            conditions.append(f"{table}.x1 IS NULL")
    return Published(tables, _write_labels(recoding), source, " AND ".join(conditions))


def _list_intervals(recoding: Cut) -> dict[str, Callable[[FieldCut], Keys]]:
    """The intervals of a value that the query needs, by the letter of their columns.

    A combination is suppressed by its published intervals i1, i2, … or by those of the cut itself, w1, w2, …, which differ
    only where published ranges do.
    """
    ranges = any(cut.low is not None for cut in recoding.cuts)
    suppresses = recoding.suppressed is not None and len(recoding.suppressed) > 0
    return {"i": _find_interval, **({"w": _find_unrounded} if ranges and suppresses else {})}


def _list_points(field: Field, cut: FieldCut) -> Sequence[float]:
    """The numbers at which the interval of a value can change; those of a tree follow from its labels."""
    if field.taxonomy is not None:
        return ()
    arrays = (cut.begin, cut.end, cut.low, cut.high)
    return [float(end) for ends in arrays if ends is not None for end in ends]


def _find_interval(cut: FieldCut) -> Keys:
    """The interval of every position; None outside of all intervals."""

    def find(positions: FloatArray) -> list[int | None]:
        interval, outside = cut.locate(positions)
        return [None if out else int(i) for i, out in zip(interval, outside | np.isnan(positions), strict=True)]

    return find


def _find_unrounded(cut: FieldCut) -> Keys:
    """The interval of every position in the cut itself; None for values that are not in the recoding."""

    def find(positions: FloatArray) -> list[int | None]:
        interval = cut.locate_unrounded(positions, cut.locate(positions)[0])
        return [None if unknown else int(i) for i, unknown in zip(interval, np.isnan(positions), strict=True)]

    return find


def _write_labels(recoding: Cut) -> list[tuple[str, str]]:
    """The name and the expression of every published column."""
    most = max((len(cut.labels) for cut in recoding.cuts), default=0) + 1
    limits = np.array([len(cut.labels) for cut in recoding.cuts])
    written = recoding.write(np.minimum(np.arange(most)[:, None], limits[None, :]).astype(np.int32))
    number = {field.name: j for j, field in enumerate(recoding.fields, start=1)}
    found: list[tuple[str, str]] = []
    for source, column in written:
        j = number[source]
        labels: list[Any] = [None if i < 0 else column.values[i] for i in column.index[: limits[j - 1] + 1]]
        whens = " ".join(
            f"WHEN i{j} = {i} THEN {write_constant(label)}" for i, label in enumerate(labels) if label is not None
        )
        text = f"CASE {whens} ELSE NULL END" if whens else "CAST(NULL AS TEXT)"
        found.append((column.name, cast_column(text, column)))
    return found
