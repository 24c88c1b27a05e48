"""The raw values of a frame, as another library such as scikit-learn gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.arrays import Int32Array, Int64Array
from shoal.engines import frames
from shoal.engines.protocol import Engine
from shoal.errors import DataError


@dataclass(frozen=True)
class RawColumns:
    """The columns of a frame in memory, with the types of its library."""

    data: nw.DataFrame[Any]

    @classmethod
    def of(cls, engine: Engine) -> RawColumns:
        """The columns of a table; `DataError` if the table is not in memory. Files become frames of an installed library."""
        data = _require_frame(engine)
        table = data.to_native()
        if isinstance(table, pa.Table):
            plain = pa.table([frames.decode_dictionary(c) for c in table.columns], names=table.column_names)
            data = nw.from_native(frames.to_native(plain, None), eager_only=True)
        return cls(data)

    @classmethod
    def typed(cls, engine: Engine) -> RawColumns:
        """The columns of a table; texts of a file that are all numbers are numbers."""
        raw = cls.of(engine)
        return raw.with_numbers() if getattr(engine, "from_file", False) else raw

    def with_numbers(self) -> RawColumns:
        """The same columns; columns of texts that are all numbers become numbers."""
        numbers = {}
        for name in self.data.columns:
            column = self.data.get_column(name)
            if column.dtype != nw.String and column.dtype != nw.Object:
                continue
            found = _read_floats(column.to_list())
            if found is not None:
                whole = all(v is not None and v.is_integer() for v in found)
                kind = nw.Int64 if whole else nw.Float64
                numbers[name] = nw.new_series(name, found, kind, backend=nw.get_native_namespace(self.data))
        return RawColumns(self.data.with_columns(*numbers.values())) if numbers else self

    def factorize(self, column: str) -> tuple[Int32Array, Int64Array]:
        """A code for every record by its raw value, and one record of every code; a missing value is the last code."""
        array = frames.to_arrow(self.data.get_column(column))
        try:
            encoded = array.combine_chunks()
            if not pa.types.is_dictionary(encoded.type):
                encoded = pc.dictionary_encode(encoded)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise DataError(f"the values of column {column!r} cannot be compared: {error}.") from error
        codes = encoded.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
        present, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        if len(present) and present[0] < 0:  # missing values come last
            inverse = np.where(inverse == 0, len(present) - 1, inverse - 1)
            first = np.roll(first, -1)
        return inverse.astype(np.int32), first.astype(np.int64)

    def list_all(self, column: str) -> list[Any]:
        """The values of all records as Python values."""
        if column not in self.data.columns:
            raise DataError(f"the table lacks the target {column!r}. Add this column, or pass the classes as y.")
        return _to_python(self.data.get_column(column))

    def list_values(self, column: str, rows: Int64Array) -> list[Any]:
        """The values of some records as Python values."""
        return _to_python(self.data.get_column(column)[rows.tolist()])

    def sample(self, rows: Mapping[str, Int64Array]) -> Any:
        """A frame of the library with the values of other records in every column; shorter columns repeat their first value."""
        length = max(map(len, rows.values()), default=0)
        padded = {name: np.append(r, np.repeat(r[:1], length - len(r))) for name, r in rows.items()}
        series = [self.data.get_column(name)[r.tolist()] for name, r in padded.items()]
        native = [s.to_native() for s in series]
        if nw.get_native_namespace(self.data).__name__ == "pandas":
            native = [s.reset_index(drop=True) for s in native]
        return nw.from_dict(
            dict(zip(padded, native, strict=True)), backend=nw.get_native_namespace(self.data)
        ).to_native()

    def put_texts(self, columns: Mapping[str, Sequence[str | None]]) -> RawColumns:
        """The same records with columns of texts."""
        library = nw.get_native_namespace(self.data)
        series = [nw.new_series(name, list(texts), nw.String, backend=library) for name, texts in columns.items()]
        return self.put(nw.from_dict({s.name: s.to_native() for s in series}, backend=library).to_native())

    def put(self, frame: Any) -> RawColumns:
        """The same records with the columns of another frame, by position; columns with these names are replaced."""
        given = nw.from_native(frame, eager_only=True)
        native, library = self.data.to_native(), nw.get_native_namespace(self.data)
        if library is not nw.get_native_namespace(given):
            columns = [nw.new_series(n, given.get_column(n).to_list(), backend=library) for n in given.columns]
            given = nw.from_dict({s.name: s.to_native() for s in columns}, backend=library)
        if library.__name__ == "pandas":  # by position, whatever the index is; an array would lose the type object
            series = {name: given.get_column(name).to_native().set_axis(native.index) for name in given.columns}
            return RawColumns(nw.from_native(native.assign(**series), eager_only=True))
        return RawColumns(self.data.with_columns(*(given.get_column(name) for name in given.columns)))

    def select(self, columns: Sequence[str]) -> Any:
        """Some columns as a frame of the library."""
        return self.data.select(*columns).to_native()


def _require_frame(engine: Engine) -> nw.DataFrame[Any]:
    """The frame of a table; `DataError` if the table is not in memory."""
    data = getattr(engine, "data", None)
    if not isinstance(data, nw.DataFrame):
        raise DataError(
            f"a model needs a table in memory, but the engine {engine.name!r} holds it elsewhere. Pass a pandas or polars "
            "frame, or the path of a file."
        )
    return data


def _read_floats(texts: Sequence[Any]) -> list[float | None] | None:
    """Texts as numbers, None for an empty text; None if a text is no number."""
    try:
        return [None if t is None or not str(t).strip() else float(t) for t in texts]
    except ValueError:
        return None


def _to_python(series: nw.Series[Any]) -> list[Any]:
    """The values of a column; the missing values of pandas that cannot be compared become None."""
    return [None if type(value).__name__ in ("NAType", "NaTType") else value for value in series.to_list()]


def with_texts(engine: Engine, column: str, texts: Sequence[str], number: NDArray[np.integer]) -> Engine:
    """A table in memory with one more column, or another content of a column: the text ``texts[number[r]]`` of record r."""
    data = _require_frame(engine)
    found = np.array(texts, object)[number].tolist()
    series = nw.new_series(column, found, nw.String, backend=nw.get_native_namespace(data))
    native = data.to_native()
    if nw.get_native_namespace(data).__name__ == "pandas":
        data = nw.from_native(native.assign(**{column: series.to_native().to_numpy()}), eager_only=True)
    else:
        data = data.with_columns(series)
    return replace(engine, data=data)  # type: ignore[type-var]
