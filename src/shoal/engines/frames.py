"""Frames of any library, in and out; and frames made from columns of our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from shoal.engines.base import Column
from shoal.errors import DataError, EngineError, choices, some

KINDS = ("pandas", "polars", "pyarrow")


def frame_of(columns: Mapping[str, Column], kind: str | None = None) -> Any:
    """A frame of the asked-for library (unless said: pandas, else polars, else pyarrow, as installed).

    >>> frame_of({"age": Column(np.array([41, 57])), "sex": Column(np.array([1, -1]), ("F", "M"))}, "pyarrow").to_pylist()
    [{'age': 41, 'sex': 'M'}, {'age': 57, 'sex': None}]
    """
    return native(pa.table({name: _array(column) for name, column in columns.items()}), kind)


def _array(column: Column) -> pa.Array:
    values = column.values
    if column.categories is None:
        gone = np.isnan(values) if values.dtype.kind == "f" else np.isnat(values) if values.dtype.kind == "M" else None
        return pa.array(values, mask=gone)
    place = pa.array(np.asarray(values, np.int32), mask=np.asarray(values) < 0)
    return pa.DictionaryArray.from_arrays(place, pa.array(column.categories, pa.string())).cast(pa.string())


def native(table: pa.Table, kind: str | None) -> Any:
    """An Arrow table as a frame of the given library."""
    if kind is None:
        kind = next(k for k in KINDS if find_spec(k))
    if kind not in KINDS:
        raise EngineError(f"unknown kind of frame {kind!r}; {choices(kind, KINDS)}")
    if kind == "pyarrow":
        return table
    if not find_spec(kind):
        raise EngineError(f"{kind} is not installed; install it with: pip install 'shoal[{kind}]'")
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    return table.to_pandas(date_as_object=False)


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without its dictionary, which may hold values that no record has."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def forgotten(data: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """A frame whose categories and dictionaries hold nothing but what its records have."""
    frame = data.to_native()
    if isinstance(frame, pa.Table):
        for place, column in enumerate(frame.columns):
            if pa.types.is_dictionary(column.type):
                fresh = plain(column).dictionary_encode().cast(column.type)
                frame = frame.set_column(place, frame.column_names[place], fresh)
    elif nw.get_native_namespace(data).__name__ == "pandas":
        listed = [n for n in frame.columns if hasattr(frame[n], "cat")]
        frame = frame.assign(**{n: frame[n].cat.remove_unused_categories() for n in listed}) if listed else frame
    return nw.from_native(frame, eager_only=True)


def opened(data: Any) -> nw.DataFrame[Any]:
    """A user's frame behind one face; anything else is an error that says what is accepted."""
    names = _names(data)
    if names is not None:
        refuse_twice(names)
        odd = [n for n in names if not isinstance(n, str)]
        if odd:
            raise DataError(f"column names must be text, not {some(odd)}; rename them")
    try:
        frame = nw.from_native(data)
    except TypeError as error:
        raise DataError(
            f"cannot read a table from {type(data).__name__}; pass a pandas, polars or pyarrow frame, "
            "or the path of a CSV or Parquet file"
        ) from error
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def refuse_twice(names: Sequence[Any]) -> None:
    """An error where a column name occurs more than once."""
    twice = [n for n, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"column names occur more than once: {some(twice)}; rename or drop them")


def _names(data: Any) -> list[Any] | None:
    if isinstance(data, pa.Table):
        return list(data.column_names)
    if type(data).__module__.startswith("pandas") and hasattr(data, "columns"):
        return list(data.columns)
    return None


def arrow(series: nw.Series[Any]) -> pa.ChunkedArray:
    """A column as Arrow; a column of Python objects of several kinds, or of a kind of its library's own, as text."""
    try:
        array = series.to_arrow() if series.dtype != nw.Object else pa.array(series.to_list())
    except UnicodeEncodeError:
        raise DataError(
            f"column {series.name!r} holds text that cannot be written (a lone surrogate); mend it"
        ) from None
    except (pa.ArrowException, OverflowError, TypeError):
        array = None
    if array is None or isinstance(array.type, pa.BaseExtensionType):
        array = pa.array([_text(v) for v in series.to_list()], pa.string())
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _text(value: Any) -> str | None:
    try:
        return None if value is None or value != value else str(value)
    except TypeError:  # pandas.NA: neither equal to itself nor not
        return None
