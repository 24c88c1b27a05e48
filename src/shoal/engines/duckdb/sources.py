"""The source of the DuckDB engine: the user's Parquet files, or Parquet files converted from the user's data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.engines import frames, table_files
from shoal.engines.duckdb.session import OFFLINE, Session, explain_error
from shoal.engines.protocol import Detected, Format, TextFormat, detect_format, detect_kind
from shoal.engines.resources import DATABASES
from shoal.engines.sql import quote_name, quote_text
from shoal.engines.sql.table import CHANGED, SqlTable, number_columns
from shoal.errors import DataError, EngineError, list_some
from shoal.formats.conventions import Conventions
from shoal.formats.numbers import EXACT
from shoal.formats.surrogates import is_utf8

TABLE_SUFFIXES = (".csv", ".tsv", ".gz", ".parquet", ".pq")  # of the files in a folder
BATCH = 1 << 18  # records per batch
DIGITS = 38  # the largest precision of DuckDB's decimals
TEXTS = ("UUID", "INTERVAL", "TIME WITH TIME ZONE", "BIT", "BIGNUM", "VARINT")
STORED = {  # types for Parquet
    "HUGEINT": "DECIMAL(38, 0)",
    "UHUGEINT": "DECIMAL(38, 0)",
    **dict.fromkeys(TEXTS, "VARCHAR"),
}


@dataclass(frozen=True)
class Source(SqlTable):
    """Parquet files that together are one table.

    ``partition_columns`` are the columns whose values are in folder names (``year=2024``), not
    in files; ``partition_values`` are their values for each file. ``stamps`` are inode, size and modification time of the
    user's files when they were opened. ``root`` is the folder of the source, which is released as a folder. ``own``: Shoal
    wrote the files. ``hidden`` columns are in the files and not in the table. ``detected``: how the user's files are written.
    """

    files: tuple[Path, ...] = ()
    partition_columns: tuple[str, ...] = ()
    stamps: tuple[tuple[int, ...], ...] = ()
    root: Path | None = None
    own: bool = False
    partition_values: Mapping[Path, Mapping[str, str | None]] = field(default_factory=dict, repr=False)
    hidden: tuple[str, ...] = ()
    detected: Detected = field(default_factory=Detected, repr=False)

    def hide(self, columns: Sequence[str]) -> Self:
        """The same table without some columns."""
        return replace(super().hide(columns), hidden=(*self.hidden, *columns))

    @contextmanager
    def explain_failure(self) -> Iterator[None]:
        """Where a query on the source fails, first report that the user's files changed."""
        try:
            yield
        except EngineError:
            self.refuse_changed()
            raise

    def refuse_unsupported(self, column: str) -> None:
        """Raise an error for a column that DuckDB cannot group, or cannot store without a loss."""
        super().refuse_unsupported(column)
        kind = self.types[column]
        if (pa.types.is_decimal(kind) and kind.precision > DIGITS) or pa.types.is_duration(kind):
            raise DataError(
                f"column {column!r} holds {kind} values, which DuckDB cannot store unchanged. Convert the column to text or "
                "numbers, or leave it out of the policy."
            )

    def refuse_miscounted(self, rows: int) -> None:
        """Raise an error where DuckDB did not read as many rows as the files hold."""
        if rows != self.rows:
            self.refuse_changed()
            raise RuntimeError(f"DuckDB read {rows} rows from files that hold {self.rows} rows. Nothing was released.")

    def refuse_changed(self) -> None:
        """Raise an error where the user's files changed after they were opened."""
        if self.stamps and self.stamps != _file_stamps(self.files):
            raise DataError(CHANGED)

    def batches(self, columns: Sequence[str], size: int = BATCH) -> Iterator[Mapping[str, pa.Array]]:
        """Yield the unchanged columns, at most ``size`` records at a time."""
        stored = [column for column in columns if column not in self.partition_columns]
        for path in self.files:
            try:
                for batch in _read_batches(path, stored, size, own=self.own):
                    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
                    for column in self.partition_columns:
                        value = pa.scalar(self.partition_values[path][column], pa.string())
                        arrays[column] = pa.repeat(value, batch.num_rows)
                    yield {column: self.restore_type(column, arrays[column]) for column in columns}
            except (pa.ArrowException, OSError):
                self.refuse_changed()
                raise

    def restore_type(self, column: str, array: Any) -> Any:
        """Return values with the type of the source file: DuckDB drops the time zones of timestamps."""
        if isinstance(array.type, pa.BaseExtensionType):
            return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
        return super().restore_type(column, array)


def _read_batches(path: Path, columns: list[str], size: int, *, own: bool) -> Iterator[pa.RecordBatch]:
    """Yield batches that do not span row groups, so that only one dictionary is in memory at a time."""
    with pq.ParquetFile(path, read_dictionary=table_files.list_dictionary_columns(path, own=own)) as file:
        for group in range(file.num_row_groups):
            yield from file.iter_batches(size, row_groups=[group], columns=columns)


def scan_files(files: Sequence[Path]) -> str:
    """Return the SQL expression for Parquet files as one table, without the names of their folders."""
    union = ", union_by_name = true" if len(files) > 1 else ""
    return f"read_parquet([{', '.join(map(_quote_pattern, files))}], hive_partitioning = false{union})"


def _quote_pattern(file: Path) -> str:
    """Return a glob pattern that matches only this file: DuckDB reads every path as a pattern."""
    path = file.absolute().as_posix()
    pattern = re.sub(r"[*?[]", r"[\g<0>]", path)
    if pattern != path and "\\" in path and os.sep == "/":  # no pattern of DuckDB's matches a backslash
        raise EngineError(
            f"DuckDB cannot read {path!r}: the path has a backslash and one of the characters * ? [. Rename the file or its "
            "folder."
        )
    return quote_text(pattern)


def _select_columns(table: str, names: Sequence[str]) -> str:
    """Return the SQL expression for columns of a table, under the names of `SqlTable`."""
    numbered = (
        f"{quote_name(name)} AS {number}" for name, number in zip(names, number_columns(len(names)), strict=True)
    )
    return f"(SELECT {', '.join(numbered)} FROM {table})"


def _scan_folders(files: Mapping[Path, Mapping[str, str | None]]) -> str:
    """Return the SQL expression for Parquet files with the columns of their folder names."""
    folders: dict[tuple[tuple[str, str | None], ...], list[Path]] = {}
    for file, values in files.items():
        folders.setdefault(tuple(values.items()), []).append(file)
    queries = []
    for pairs, some in folders.items():  # DuckDB would also read folder names above the root
        columns = ", ".join(f"{'NULL' if v is None else quote_text(v)}::VARCHAR AS {quote_name(n)}" for n, v in pairs)
        queries.append(f"SELECT *, {columns} FROM {scan_files(some)}")
    return f"({' UNION ALL BY NAME '.join(queries)})"


def open_source(data: Any, session: Session) -> Source:
    """Open the user's data as Parquet files: the user's own files, or files converted in the session's folder."""
    duckdb, given = session.duckdb, Detected(session.resources.conventions)
    if isinstance(data, (str, Path)):
        path = Path(data)
        if not path.exists():
            raise DataError(f"there is no file {str(path)!r}. Check the path.")
        path = path.absolute()  # libraries read a name such as 's3:x' as a network address
        if path.suffix.lower() in DATABASES:
            try:
                with explain_error():
                    database = duckdb.connect(str(path), read_only=True, config=OFFLINE)
            except EngineError as error:
                raise DataError(f"cannot open {path.name!r} as a DuckDB database: {error}") from None
            return replace(_open_relation(_only_table(database), session), detected=given)
        return _open_folder(path, session, str(data)) if path.is_dir() else open_files([path], session)
    if isinstance(data, duckdb.DuckDBPyConnection):
        return replace(_open_relation(_only_table(data), session), detected=given)
    if isinstance(data, duckdb.DuckDBPyRelation):
        return replace(_open_relation(data, session), detected=given)
    frame = frames.open_frame(data)
    file = session.new_path("given").with_suffix(".parquet")
    arrays = {n: table_files.make_storable(frames.to_arrow(frame.get_column(n))) for n in frame.columns}
    for column, array in arrays.items():
        _refuse_unwritable(column, array)
    with table_files.explain_write_errors(file):
        pq.write_table(pa.table(arrays), file)
    return replace(open_parquet([file], "csv", own=True), detected=given)


def _refuse_unwritable(column: str, array: pa.ChunkedArray) -> None:
    try:
        pq.write_table(pa.table({column: array.slice(0, 0)}), pa.BufferOutputStream())
    except pa.ArrowNotImplementedError:
        raise DataError(
            f"column {column!r} holds {array.type} values, which Parquet cannot store. Convert the column to text or numbers, "
            "drop it from the table, or use engine='memory'."
        ) from None


def open_parquet(
    files: Sequence[Path],
    format: Format,
    *,
    root: Path | None = None,
    originals: Sequence[Path] | None = None,
    stamped: bool = False,
    own: bool = False,
) -> Source:
    """Open Parquet files as one table; folder names below ``root`` may hold partition columns.

    ``originals`` are the files below ``root`` from which the Parquet files were converted (default: the same files).
    """
    stamps = _file_stamps(files) if stamped else ()
    original = dict(zip(files, originals or files, strict=True))
    shown = {path: str(o.relative_to(root)) if root else o.name for path, o in original.items()}
    folders = {path: _read_partition_values(o, root) for path, o in original.items()} if root else {}
    partition_columns = tuple(next(iter(folders.values()), {}))
    schemas = {path: table_files.read_parquet_schema(path) for path in files}
    first = schemas[files[0]]
    names = [*first.names, *partition_columns]
    for path, schema in schemas.items():
        columns = [*schema.names, *folders.get(path, {})]
        _refuse_different_names(shown[path], columns, shown[files[0]], names)
        _refuse_different_types(shown[path], (path, schema), (files[0], first))
    _refuse_ambiguous_names(names)
    types = {n: _merge_types(n, list(schemas.values())) for n in first.names}
    types |= dict.fromkeys(partition_columns, pa.string())
    rows = sum(pq.read_metadata(path).num_rows for path in files)
    listed = _scan_folders(folders) if partition_columns else scan_files(files)
    source = Source.of(_select_columns(listed, names), types, rows, format)
    return replace(
        source,
        files=tuple(files),
        partition_columns=partition_columns,
        stamps=stamps,
        root=root,
        own=own,
        partition_values=folders,
    )


def _open_folder(path: Path, session: Session, name: str) -> Source:
    """Open all CSV or all Parquet files below a folder, except hidden and empty files; errors show the folder as ``name``."""
    files = [file for file in _walk_files(path, set()) if file.stat().st_size]
    if not files:
        raise DataError(f"the folder {name!r} holds no CSV or Parquet file. Check the path.")
    other = [str(file.relative_to(path)) for file in files if file.suffix.lower() not in TABLE_SUFFIXES]
    if other:
        raise DataError(
            f"the folder {name!r} holds files that are not CSV or Parquet: {list_some(other)}. Move them to another folder."
        )
    unreadable = [str(file.relative_to(path)) for file in files if not is_utf8(file)]
    if unreadable:
        raise DataError(
            f"the folder {name!r} holds files whose paths are not valid UTF-8: {list_some(unreadable)}. Rename them."
        )
    formats = {detect_format(file) for file in files}
    if len(formats) > 1:
        raise DataError(f"the folder {name!r} holds both CSV and Parquet files. Keep files of one format in it.")
    return open_files(files, session, root=path)


def _walk_files(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield the files below a folder in the order of their names, except hidden files."""
    if folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or (path.name.startswith("_") and "=" not in path.name):
            continue
        if path.is_dir():
            yield from _walk_files(path, seen)
        elif path.is_file():
            yield path


def open_files(
    files: Sequence[Path],
    session: Session,
    *,
    root: Path | None = None,
    given: Conventions | None = None,
    formats: Mapping[str, TextFormat] | None = None,
) -> Source:
    """Open files of one kind as one table; files that are not Parquet are converted with the readers of all engines.

    ``given`` replaces the conventions of the session's source. ``formats`` restores texts; see `table_files.read_table`.
    """
    given = given or session.resources.conventions
    if detect_kind(files[0]) == "parquet":
        return replace(open_parquet(files, "parquet", root=root, stamped=True), detected=Detected(given))
    targets, before, found = [], _file_stamps(files), []
    for file in files:
        target = session.new_path("csv").with_suffix(
            ".parquet"
        )  # DuckDB cannot read every name that a CSV file may have
        if detect_kind(file) == "csv":
            found.append(table_files.csv_to_parquet(file, target, given, formats))
        else:
            table, detected = table_files.read_table(file, given, numeric=session.resources.numeric)
            table_files.write_table(table, target, "parquet")
            found.append(detected)
        targets.append(target)
    if before != _file_stamps(files):
        raise DataError(CHANGED)
    notes = [note for one in found for note in one.notes]
    more = (f"The same holds for {len(notes) - 1} more of the files.",) if len(notes) > 1 and root is not None else ()
    detected = Detected(found[0].conventions, (*notes[:1], *more) if root is not None else tuple(notes))
    return replace(open_parquet(targets, "csv", root=root, originals=files, own=True), detected=detected)


def _open_relation(relation: Any, session: Session) -> Source:
    """Copy a relation to a file, so that later changes of its tables have no effect."""
    with explain_error():
        _refuse_ambiguous_names(relation.columns)
        columns = [_cast_to_storable(n, str(kind)) for n, kind in zip(relation.columns, relation.types, strict=True)]
        relation = relation.project(", ".join(columns))
        schema = relation.limit(0).to_arrow_table().schema
        file = session.new_path("relation").with_suffix(".parquet")
        relation.write_parquet(str(file))
    source = open_parquet([file], "parquet", own=True)
    zones = {f.name: f.type for f in schema if pa.types.is_timestamp(f.type) and f.type.tz}
    return replace(source, types={**source.types, **zones})


def _cast_to_storable(column: str, kind: str) -> str:
    """Return the SQL expression for a column of a relation with a type that Parquet can store."""
    stored = "VARCHAR" if kind.startswith("ENUM") else STORED.get(kind)
    return f"{quote_name(column)}::{stored} AS {quote_name(column)}" if stored else quote_name(column)


def _only_table(connection: Any) -> Any:
    """Return the only table of a connection."""
    with explain_error():
        tables = connection.sql(
            "SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL"
        ).fetchall()
    if len(tables) != 1:
        names = list_some([n for _, n in tables]) if tables else "none"
        raise DataError(f"the database has {len(tables)} tables ({names}). Pass one table, as connection.table(name).")
    return connection.table(".".join(map(quote_name, tables[0])))


def _read_partition_values(path: Path, root: Path) -> dict[str, str | None]:
    """Return the values of the partition columns in the folder names of a file, such as ``year=2024``."""
    pairs = [part.partition("=") for part in path.relative_to(root).parts[:-1] if "=" in part]
    values = {unquote(key): unquote(value) for key, _, value in pairs}
    return {key: None if value == "__HIVE_DEFAULT_PARTITION__" else value for key, value in values.items()}


def _refuse_different_names(file: str, names: Sequence[str], first: str, first_names: Sequence[str]) -> None:
    frames.refuse_duplicate_names(names)
    absent, more = [n for n in first_names if n not in names], [n for n in names if n not in first_names]
    for columns, one, other in ((absent, file, first), (more, first, file)):
        if columns:
            raise DataError(
                f"the file {one!r} lacks columns that {other!r} has: {list_some(columns)}. Give all files of a folder the "
                "same columns."
            )


def _refuse_different_types(name: str, file: tuple[Path, pa.Schema], first: tuple[Path, pa.Schema]) -> None:
    """Raise an error for a column that has one type in a file and another type in the first file."""
    path = file[0]
    for column in first[1].names:
        here, there = file[1].field(column).type, first[1].field(column).type
        kinds = {_type_family(here), _type_family(there)} - {"null"}
        exact = kinds == {"whole", "float"} and _is_exact(path, column) and _is_exact(first[0], column)
        if len(kinds) > 1 and not exact:
            raise DataError(
                f"column {column!r} holds {here} values in the file {name!r} and {there} values in the "
                "first file. Write the column with the same type in all files."
            )


def _merge_types(column: str, schemas: Sequence[pa.Schema]) -> pa.DataType:
    """Return the type of a column in the first file where it is not null."""
    kinds = [schema.field(column).type for schema in schemas]
    return next((kind for kind in kinds if not pa.types.is_null(kind)), kinds[0])


def _type_family(arrow_type: pa.DataType) -> str:
    kind = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    if pa.types.is_integer(kind):
        return "whole"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    if pa.types.is_timestamp(kind):
        return f"timestamp {kind.tz}"
    return str(kind)


def _is_exact(path: Path, column: str) -> bool:
    """Whether floating-point numbers represent all whole numbers of a column exactly."""
    if not pa.types.is_integer(pq.read_schema(path).field(column).type):
        return True  # the other file has the whole numbers
    metadata = pq.read_metadata(path)
    index = [metadata.schema.column(i).path for i in range(metadata.num_columns)].index(column)
    statistics = [metadata.row_group(i).column(index).statistics for i in range(metadata.num_row_groups)]
    return all(s is not None and s.has_min_max and max(abs(s.min), abs(s.max)) < EXACT for s in statistics)


def _refuse_ambiguous_names(names: Sequence[str]) -> None:
    """Raise an error for names that DuckDB does not distinguish, or cannot store."""
    seen: dict[bytes, str] = {}
    for column in names:
        other = seen.setdefault(column.encode().lower(), column)  # DuckDB ignores the case of ASCII letters only
        if other is not column and other != column:
            raise EngineError(
                f"DuckDB does not distinguish the columns {other!r} and {column!r}. Rename one, or use engine='memory'."
            )
        if not column:
            raise EngineError("DuckDB cannot store a column without a name. Rename the column, or use engine='memory'.")
    frames.refuse_duplicate_names(names)


def _file_stamps(files: Sequence[Path]) -> tuple[tuple[int, ...], ...]:
    try:
        stats = [path.stat() for path in files]
    except OSError as error:
        raise DataError(
            f"the source changed while it was read: {error.strerror}. Run again when no program writes to the source."
        ) from None
    return tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in stats)
