"""Columns from the Python values of cells, as Excel and statistics packages give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa

from shoal.errors import DataError
from shoal.formats.numbers import EXACT, format_number

MIDNIGHT = time()


def build_column(values: Sequence[Any], name: str, *, decimal: str = ".") -> pa.Array:
    """Build a column of whole numbers, numbers, dates, times or texts; cells of several types become texts.

    ``decimal`` is the decimal separator of numbers in a column of texts.

    >>> build_column([36.0, 40, None], "age").to_pylist(), build_column([36.0, 1.5, "?"], "age").to_pylist()
    ([36, 40, None], ['36', '1.5', '?'])
    """
    values = [None if _is_missing(value) else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds == {int}:
            return pa.array(values, pa.int64())
        if kinds and kinds <= {int, float}:
            is_whole = all(v is None or (float(v).is_integer() and abs(v) < EXACT) for v in values)
            return pa.array([v if v is None else int(v) if is_whole else float(v) for v in values])
        if kinds and kinds <= {date, datetime}:
            moments = [None if v is None else _to_moment(v) for v in values]
            if all(moment is None or moment.time() == MIDNIGHT for moment in moments):
                return pa.array([None if moment is None else moment.date() for moment in moments], pa.date32())
            return pa.array(moments, pa.timestamp("us"))
        if kinds in ({bool}, {time}):
            return pa.array(values)
        texts = [None if v is None else _format_cell(v, decimal) for v in values]
        return pa.array(texts, pa.string()).dictionary_encode()
    except (pa.ArrowException, OverflowError, UnicodeError):
        raise DataError(
            f"column {name!r} holds values that cannot be read, such as very large numbers. Convert the column to text."
        ) from None


def replace_by_labels(values: Sequence[Any], labels: Mapping[Any, str]) -> list[Any]:
    """Replace values by their labels; values without a label stay, as texts."""
    if not labels:
        return list(values)
    return [None if v is None else str(labels[v]) if v in labels else _format_cell(v, ".") for v in values]


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or value != value  # NaN


def _to_moment(value: date) -> datetime:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else datetime.combine(value, MIDNIGHT)


def _format_cell(value: Any, decimal: str) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return format_number(value).replace(".", decimal)
    if isinstance(value, datetime):
        return (value.date() if value.time() == MIDNIGHT else value.replace(tzinfo=None)).isoformat()
    return value.isoformat() if isinstance(value, (date, time)) else str(value)
