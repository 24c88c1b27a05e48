"""Conversion between Arrow and the frames of pandas, polars and pyarrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from shoal.engines.protocol import Column
from shoal.errors import DataError, EngineError, list_choices, list_some
from shoal.formats.surrogates import find_surrogates

KINDS = ("pandas", "polars", "pyarrow")
NUMBERS = (int, float, Decimal, np.number)


def build_frame(columns: Mapping[str, Column], kind: str | None = None) -> Any:
    """Build a frame of a library (default: the first installed of pandas, polars and pyarrow).

    >>> build_frame({"age": Column(np.array([41, 57])), "sex": Column(np.array([1, -1]), ("F", "M"))}, "pyarrow").to_pylist()
    [{'age': 41, 'sex': 'M'}, {'age': 57, 'sex': None}]
    """
    return to_native(pa.table({name: _build_array(column) for name, column in columns.items()}), kind)


def _build_array(column: Column) -> pa.Array:
    values = column.values
    if column.categories is None:
        is_missing = (
            np.isnan(values) if values.dtype.kind == "f" else np.isnat(values) if values.dtype.kind == "M" else None
        )
        return pa.array(values, mask=is_missing)
    index = pa.array(np.asarray(values, np.int32), mask=np.asarray(values) < 0)
    return pa.DictionaryArray.from_arrays(index, pa.array(column.categories, pa.string())).cast(pa.string())


def to_native(table: pa.Table, kind: str | None) -> Any:
    """Convert an Arrow table to a frame of a library."""
    if kind is None:
        kind = next(k for k in KINDS if find_spec(k))
    if kind not in KINDS:
        raise EngineError(f"unknown kind of frame {kind!r}; {list_choices(kind, KINDS)}")
    if kind == "pyarrow":
        return table
    if not find_spec(kind):
        raise EngineError(f"{kind} is not installed. Install it with: pip install {kind}")
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    return table.to_pandas(date_as_object=False)


def decode_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without its dictionary, which may contain values that no record has."""
    return column.cast(_value_type(column.type)) if pa.types.is_dictionary(column.type) else column


def drop_unused(data: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return a frame without unused categories and without the metadata of the source."""
    frame = data.to_native()
    if isinstance(frame, pa.Table):
        frame = pa.table([_drop_unused_values(column) for column in frame.columns], names=frame.column_names)
    elif nw.get_native_namespace(data).__name__ == "polars":
        import polars

        frame = polars.DataFrame({column.name: _drop_unused_in_polars(column) for column in frame.get_columns()})
    else:
        frame = frame.set_axis(list(frame.columns), axis=1).reset_index(drop=True)
        frame.attrs = {}
        for index, name in enumerate(frame.columns):
            frame.isetitem(index, _drop_unused_in_pandas(frame[name]))
    return nw.from_native(frame, eager_only=True)


def _drop_unused_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose dictionary contains only the values of its records, in the same order."""
    if not pa.types.is_dictionary(column.type):
        return column
    try:
        whole = column.unify_dictionaries().combine_chunks()
        codes = whole.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        present = np.unique(codes[codes >= 0])
        indices = pa.array(np.searchsorted(present, codes), mask=codes < 0).cast(column.type.index_type)
        values = whole.dictionary.take(pa.array(present))
        return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered)])
    except pa.ArrowNotImplementedError:  # Arrow cannot unify these values; counting them raises an error later
        return column


def _drop_unused_in_polars(column: Any) -> Any:
    import polars

    if isinstance(column.dtype, polars.Enum):
        present = set(column.unique().cast(polars.String))
        return column.cast(polars.String).cast(polars.Enum([c for c in column.dtype.categories if c in present]))
    if isinstance(column.dtype, polars.Categorical):  # all columns of one `Categories` share its values
        unshared = (
            polars.Categorical(polars.Categories.random()) if hasattr(polars, "Categories") else polars.Categorical
        )
        return column.cast(polars.String).cast(unshared)
    return column


def _drop_unused_in_pandas(column: Any) -> Any:
    import pandas

    if isinstance(column.dtype, pandas.CategoricalDtype):
        column = column.cat.remove_unused_categories()
        return column.cat.rename_categories(column.cat.categories.rename(None))
    if isinstance(column.dtype, pandas.ArrowDtype) and pa.types.is_dictionary(column.dtype.pyarrow_dtype):
        used = _drop_unused_values(column.array.__arrow_array__())
        return pandas.Series(pandas.arrays.ArrowExtensionArray(used), name=column.name)
    return column


def open_frame(data: Any) -> nw.DataFrame[Any]:
    """Wrap a user's frame in the interface of narwhals; raise an error for any other object."""
    names = _column_names(data)
    if names is not None:
        refuse_duplicate_names(names)
        not_text = [n for n in names if not isinstance(n, str)]
        if not_text:
            raise DataError(f"column names must be text, not {list_some(not_text)}. Rename these columns.")
        broken = find_surrogates(names)
        if broken:
            raise DataError(
                f"column names must be valid Unicode, without lone surrogates, unlike {list_some(broken)}. Rename the columns."
            )
    try:
        frame = nw.from_native(data)
    except TypeError as error:
        raise DataError(
            f"cannot read a table from an object of type {type(data).__name__}. Pass a pandas, polars or pyarrow frame, "
            "or the path of a CSV or Parquet file."
        ) from error
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def refuse_duplicate_names(names: Sequence[Any]) -> None:
    """Raise an error where a column name occurs more than once."""
    duplicates = [n for n, count in Counter(names).items() if count > 1]
    if duplicates:
        raise DataError(f"column names occur more than once: {list_some(duplicates)}. Rename or drop these columns.")


def _column_names(data: Any) -> list[Any] | None:
    if isinstance(data, pa.Table):
        return list(data.column_names)
    if type(data).__module__.startswith("pandas") and hasattr(data, "columns"):
        return list(data.columns)
    return None


def to_arrow(series: nw.Series[Any]) -> pa.ChunkedArray:
    """Convert a column to Arrow. Python objects of several types, and types that only the frame library has, become text."""
    try:
        array = _convert_or_format(series)
    except UnicodeEncodeError:
        raise DataError(
            f"column {series.name!r} holds text that is not valid Unicode (a lone surrogate). Correct this text."
        ) from None
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _convert_or_format(series: nw.Series[Any]) -> pa.Array | pa.ChunkedArray:
    try:
        objects = series.dtype == nw.Object
        array = _array_of_objects(series.to_list()) if objects else series.to_arrow()
    except UnicodeEncodeError:
        raise
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        array = None
    if array is None or _is_foreign(array.type):
        return pa.array(_format_objects(series.to_list(), series.name), pa.string())
    is_view = pa.types.is_dictionary(array.type) and pa.types.is_binary_view(array.type.value_type)
    return _replace_binary_views(array) if is_view else array


def _replace_binary_views(array: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary with the same bytes in a type that Arrow can decode."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    kind = pa.dictionary(array.type.index_type, pa.large_binary(), array.type.ordered)
    encoded = [
        pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(pa.large_binary()), ordered=kind.ordered)
        for c in chunks
    ]
    return pa.chunked_array(encoded, kind)


def _is_foreign(kind: pa.DataType) -> bool:
    """Whether Arrow can store values of a type but not process them: extension types, and categories that are tuples."""
    value = _value_type(kind)
    nested = pa.types.is_dictionary(kind) and (pa.types.is_nested(value) or pa.types.is_string_view(value))
    return nested or isinstance(value, pa.BaseExtensionType)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _array_of_objects(values: list[Any]) -> pa.Array | None:
    """Convert Python objects to Arrow; None for mixed types that Arrow would convert, such as timestamps to dates."""
    try:
        values = [None if _is_missing(value) else value for value in values]
    except Exception:  # objects of a user may raise any exception; `_format_objects` reports it with the column
        return None
    kinds = {type(value) for value in values if value is not None}
    numbers = all(issubclass(kind, NUMBERS) and kind is not bool for kind in kinds)
    return pa.array(values) if numbers or len(kinds) < 2 else None


def _is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN of any type, NaT, NA."""
    try:
        return value is None or bool(value != value)
    except ValueError:  # an array, which has no truth value
        return False
    except (TypeError, ArithmeticError):  # pandas.NA, and the signaling NaN of Decimal
        return True


def _format_objects(values: list[Any], column: str) -> list[str | None]:
    try:
        return [None if _is_missing(value) else str(value) for value in values]
    except Exception as error:  # objects of a user may raise any exception
        raise DataError(
            f"column {column!r} holds objects that cannot be compared or written as text ({type(error).__name__}). Convert the "
            "column to text or numbers."
        ) from None
