"""The data that the Spark engine opens: DataFrames of Spark, frames and files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.engines import column_values, frames, table_files
from shoal.engines.protocol import Detected, Format, detect_format, detect_kind
from shoal.engines.spark.session import Session, explain_error
from shoal.engines.sql.table import SqlTable, number_columns
from shoal.errors import DataError, EngineError

ARROW_TYPES = {  # by the names of Spark's types; timestamps are instants, which Shoal reads and publishes in UTC
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
NESTED = {"array": pa.list_(pa.null()), "map": pa.map_(pa.string(), pa.null())}
TEXTS = ("string", "char", "varchar", "void", "interval", "time")  # types that are read as text


@dataclass(frozen=True)
class Source:
    """An opened table, and how it is released.

    ``is_folder``: the release is a folder of files. ``partition_columns``: the columns by whose values they are in folders.
    """

    table: SqlTable
    detected: Detected = field(default_factory=Detected)
    is_folder: bool = True
    partition_columns: tuple[str, ...] = ()


def is_dataframe(data: Any) -> bool:
    """Whether data are a DataFrame of Spark, by the name of its type."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.") for kind in type(data).__mro__
    )


def open_source(data: Any, session: Session) -> Source:
    """Open a DataFrame of Spark, a frame, or the path of a file or folder."""
    if is_dataframe(data):
        return open_dataframe(data, session)
    if isinstance(data, (str, Path)):
        return _open_path(Path(data), session)
    frame = frames.open_frame(data)
    arrays = {name: frames.to_arrow(frame.get_column(name)) for name in frame.columns}
    return open_arrow(pa.table(arrays), session, Detected(session.resources.conventions), "csv")


def open_dataframe(data: Any, session: Session) -> Source:
    """Open a DataFrame of the user's session."""
    with explain_error():
        fields = [(f.name, f.dataType.simpleString()) for f in data.schema.fields]
    types = {name: to_arrow_type(kind) for name, kind in fields}
    refuse_ambiguous_names([name for name, _ in fields])
    view = session.share_view("source", _number(data, [kind for _, kind in fields]))
    table = SqlTable.of(view, types, _count_rows(session, view))
    detected = Detected(session.resources.conventions, _note_instants(types, session))
    return Source(table, detected, partition_columns=_find_partition_columns(data, table.names))


def _number(data: Any, kinds: Sequence[str]) -> Any:
    """Name the columns by their numbers; types that Arrow or Parquet do not have become text."""
    numbers = number_columns(len(kinds))
    selected = [
        f"CAST({name} AS STRING) AS {name}" if _is_text(kind) else name
        for name, kind in zip(numbers, kinds, strict=True)
    ]
    with explain_error():
        return data.toDF(*numbers).selectExpr(*selected) if numbers else data


def _is_text(kind: str) -> bool:
    return kind != "string" and _base(kind) in TEXTS


def _base(kind: str) -> str:
    """The name of a type without its parameters: ``char`` for ``char(3)``, ``string`` for ``string collate UNICODE``."""
    return re.split(r"[(< ]", kind, maxsplit=1)[0]


def to_arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type for a type of Spark."""
    if kind.startswith("decimal("):
        precision, scale = map(int, kind[len("decimal(") : -1].split(","))
        return pa.decimal128(precision, scale)
    if _base(kind) in TEXTS:
        return pa.string()
    return ARROW_TYPES.get(kind) or NESTED.get(_base(kind)) or pa.struct([])


def refuse_ambiguous_names(names: Sequence[str]) -> None:
    """Raise an error for names that Spark does not distinguish, or cannot store."""
    frames.refuse_duplicate_names(names)
    seen: dict[str, str] = {}
    for column in names:
        other = seen.setdefault(column.lower(), column)
        if other != column:
            raise EngineError(
                f"Spark does not distinguish the columns {other!r} and {column!r}, which differ only by case. Rename one of "
                "them."
            )
        if not column:
            raise EngineError("Spark cannot store a column without a name. Rename the column.")


def _count_rows(session: Session, view: str) -> int:
    return int(session.fetch_row(f"SELECT count(*) AS n FROM {view}")[0])


def _note_instants(types: Mapping[str, pa.DataType], session: Session) -> tuple[str, ...]:
    """A note on columns whose times the user sees in another time zone than UTC."""
    with explain_error():
        zone = session.user.conf.get("spark.sql.session.timeZone", "UTC")
    columns = [name for name, kind in types.items() if kind == ARROW_TYPES["timestamp"]]
    if not columns or zone in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00"):
        return ()
    listed = ", ".join(map(repr, columns))
    return (
        f"Columns with instants ({listed}) are read and published in UTC. The time zone of the Spark session is {zone}. "
        "Convert a column to TIMESTAMP_NTZ or DATE to publish its local times.",
    )


def _find_partition_columns(data: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns by whose values the files of a DataFrame are in folders, such as ``year=2024``."""
    with explain_error():
        files = data.inputFiles()
    if not files:
        return ()
    folders = [unquote(part).partition("=")[0] for part in urlparse(files[0]).path.split("/")[:-1] if "=" in part]
    return tuple(name for name in folders if name in names)


def _open_path(path: Path, session: Session) -> Source:
    """Open a Parquet file or a folder of Parquet files with Spark; other files are read by the readers of all engines."""
    if not path.exists():
        raise DataError(f"there is no file {str(path)!r}. Check the path.")
    path, given = path.absolute(), session.resources.conventions
    if path.is_dir():
        return open_parquet(path, session)
    if detect_kind(path) == "parquet":
        names = table_files.read_parquet_schema(path).names
        refuse_ambiguous_names(names)
    table, detected = table_files.read_table(path, given, numeric=session.resources.numeric)
    return open_arrow(table, session, detected, detect_format(path))


def open_parquet(path: Path, session: Session) -> Source:
    """Open a folder of Parquet files; names of folders such as ``year=2024`` are columns of text."""
    if not any(file.suffix.lower() in (".parquet", ".pq") for file in path.rglob("*")):
        raise DataError(
            f"the folder {str(path)!r} holds no Parquet file. The engine 'spark' reads folders of Parquet files. Use "
            "engine='duckdb', or pass a DataFrame of Spark."
        )
    with explain_error():
        data = session.spark.read.parquet(path.as_uri())
    return open_dataframe(data, session)


def open_arrow(table: pa.Table, session: Session, detected: Detected, format: Format) -> Source:
    """Open an Arrow table of the driver: it is written to the scratch folder as one file. The release is one file, too."""
    refuse_ambiguous_names(table.column_names)
    arrays = {name: _to_storable(name, table[name]) for name in table.column_names}
    types = {name: array.type for name, array in arrays.items()}
    numbers = number_columns(len(types))
    frame = _write_and_read(pa.table(list(arrays.values()), names=numbers), session)
    found = SqlTable.of(session.name_view("source", frame), types, len(table), format)
    return Source(found, detected, is_folder=False)


def _write_and_read(table: pa.Table, session: Session) -> Any:
    path = session.new_path("given")
    with explain_error():
        if session.scratch.folder is None or not table.column_names:
            return session.spark.createDataFrame(table)
        pq.write_table(table, session.scratch.folder / path.rpartition("/")[2])
        return session.spark.read.parquet(path)


def _to_storable(column: str, array: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with a type that Spark has: nanoseconds are dropped if they are zero, times of day become text."""
    array = table_files.make_storable(frames.decode_dictionary(array))
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return _to_microseconds(column, array)
    if pa.types.is_null(kind) or pa.types.is_large_string(kind):
        return array.cast(pa.string())
    if pa.types.is_time(kind) or pa.types.is_float16(kind) or pa.types.is_uint64(kind):
        texts = [column_values.format_values(chunk, column) for chunk in array.chunks]
        return pa.chunked_array(texts, pa.large_string()).cast(pa.string() if pa.types.is_time(kind) else _wider(kind))
    if pa.types.is_unsigned_integer(kind):
        return array.cast(pa.int64())
    if pa.types.is_large_binary(kind):
        return array.cast(pa.binary())
    if pa.types.is_duration(kind) or (pa.types.is_decimal(kind) and kind.precision > 38):
        raise DataError(
            f"column {column!r} holds {kind} values, which Spark cannot store. Convert the column to text or numbers, or drop "
            "it from the table."
        )
    return array


def _wider(kind: pa.DataType) -> pa.DataType:
    return pa.float32() if pa.types.is_float16(kind) else pa.decimal128(20, 0)


def _to_microseconds(column: str, array: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = array.type
    zone = getattr(kind, "tz", None)
    try:
        return array.cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        raise DataError(
            f"column {column!r} holds times with nanoseconds or outside the range of Spark. Convert the column to microseconds."
        ) from None
