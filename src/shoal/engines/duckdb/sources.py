"""What the DuckDB engine reads: Parquet files, given so or made from what was given."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.engines import frames, table_files
from shoal.engines.duckdb.session import OFFLINE, Session, explain_error
from shoal.engines.protocol import Format, format_of
from shoal.engines.resources import DATABASES
from shoal.errors import DataError, EngineError, list_some
from shoal.formats.numbers import EXACT

ENDINGS = (".csv", ".tsv", ".gz", ".parquet", ".pq")  # of the files that a folder may hold
BATCH = 1 << 18  # records that are looked at together
MADE = ".made.parquet"  # what a file ends in that was made of a CSV file
CHANGED = "the source changed while it was read; nothing was released; run again when nobody writes to it"
TEXTS = ("UUID", "INTERVAL", "TIME WITH TIME ZONE", "BIT", "BIGNUM", "VARINT")
STORED = {
    "HUGEINT": "DECIMAL(38, 0)",
    "UHUGEINT": "DECIMAL(38, 0)",
    **dict.fromkeys(TEXTS, "VARCHAR"),
}  # as Parquet holds them


@dataclass(frozen=True)
class Source:
    """Parquet files that together are one table.

    ``types`` has the Arrow types; ``partitions`` are the columns that the folders' names tell (``year=2024``), which no file
    holds. ``stamps`` says how the user's own files looked when they
    were opened. ``root``: the folder that it came in, and is released as. ``own``: the files are ours.
    """

    files: tuple[Path, ...]
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    rows: int
    format: Format
    partitions: tuple[str, ...] = ()
    stamps: tuple[tuple[int, ...], ...] = ()
    root: Path | None = None
    own: bool = False
    parted: Mapping[Path, Mapping[str, str | None]] = field(default_factory=dict, repr=False)

    @property
    def sql(self) -> str:
        """The table in DuckDB's words."""
        if not self.partitions:
            return scan(self.files)
        together: dict[tuple[str | None, ...], list[Path]] = {}
        for file in self.files:
            together.setdefault(tuple(self.parted[file].values()), []).append(file)
        queries = []
        for (
            values,
            listed,
        ) in together.items():  # DuckDB would look for partitions in all of the path, ours are below the root
            pairs = zip(self.partitions, values, strict=True)
            explain_error = ", ".join(f"{'NULL' if v is None else text(v)}::VARCHAR AS {name(n)}" for n, v in pairs)
            queries.append(f"SELECT *, {explain_error} FROM {scan(listed)}")
        return f"({' UNION ALL BY NAME '.join(queries)})"

    def refuse_miscounted(self, rows: int) -> None:
        """An error where DuckDB did not read as many rows as the files hold."""
        if rows != self.rows:
            self.refuse_changed()
            raise RuntimeError(f"DuckDB read {rows} rows from files that hold {self.rows}; nothing was released")

    def refuse_changed(self) -> None:
        """An error where the user's files are not what they were when they were opened."""
        if self.stamps and self.stamps != _stamps(self.files):
            raise DataError(CHANGED)

    def batches(self, columns: Sequence[str], size: int = BATCH) -> Iterator[Mapping[str, pa.Array]]:
        """The columns as they stand, some records at a time."""
        held = [column for column in columns if column not in self.partitions]
        for path in self.files:
            try:
                for batch in _batches(path, held, size, own=self.own):
                    found = dict(zip(batch.schema.names, batch.columns, strict=True))
                    for column in self.partitions:
                        found[column] = pa.repeat(pa.scalar(self.parted[path][column], pa.string()), batch.num_rows)
                    yield {column: self.typed(column, found[column]) for column in columns}
            except (pa.ArrowException, OSError):
                self.refuse_changed()
                raise

    def typed(self, column: str, array: Any) -> Any:
        """Values as they are when the file is read into memory: DuckDB knows moments without their zones."""
        kind = self.types[column]
        if isinstance(array.type, pa.BaseExtensionType):
            return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
        zoned = pa.types.is_timestamp(array.type) and pa.types.is_timestamp(kind) and kind.tz
        return array.cast(pa.timestamp(array.type.unit, kind.tz)) if zoned and array.type.tz != kind.tz else array


def _batches(path: Path, columns: list[str], size: int, *, own: bool) -> Iterator[pa.RecordBatch]:
    """Some records at a time; never across row groups, whose dictionaries would be held together."""
    with pq.ParquetFile(path, read_dictionary=table_files.texts_of(path, own=own)) as file:
        for group in range(file.num_row_groups):
            yield from file.iter_batches(size, row_groups=[group], columns=columns)


def scan(listed: Sequence[Path]) -> str:
    """Parquet files that are one table, in SQL: exactly these files, in whatever folder they are."""
    union = ", union_by_name = true" if len(listed) > 1 else ""
    return f"read_parquet([{', '.join(map(_pattern, listed))}], hive_partitioning = false{union})"


def _pattern(file: Path) -> str:
    """A file as DuckDB reads it, in SQL: every path is a glob pattern there, and this one matches this file only."""
    path = file.absolute().as_posix()
    plain = re.sub(r"[*?[]", r"[\g<0>]", path)
    if plain != path and "\\" in path and os.sep == "/":  # no pattern of DuckDB's matches a backslash
        raise EngineError(
            f"DuckDB cannot read {path!r}, whose path holds a backslash and also one of the characters * ? [; rename the file "
            "or its folder"
        )
    return text(plain)


def text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """A name in SQL."""
    return '"' + value.replace('"', '""') + '"'


def normalized(column: str, kind: pa.DataType) -> str:
    """A column ``s."name"`` as it is released, in SQL; see `files.normalize`."""
    raw, explain_error = f"s.{name(column)}", _kind(kind)
    if explain_error == "float":
        return f"CASE WHEN isnan({raw}) THEN NULL WHEN {raw} = 0 THEN 0 ELSE {raw} END"
    return f"nullif({raw}, '')" if explain_error in ("text", "bytes") else raw


def source_of(data: Any, home: Session) -> Source:
    """What the user passed, as Parquet files: their own, or files made of it in the home."""
    duckdb = home.duckdb
    if isinstance(data, (str, Path)):
        path = Path(data)
        if not path.exists():
            raise DataError(f"there is no file {str(path)!r}")
        path = path.absolute()  # libraries take a name such as 's3:x' for an address on the network
        if path.suffix.lower() in DATABASES:
            try:
                with explain_error():
                    database = duckdb.connect(str(path), read_only=True, config=OFFLINE)
            except EngineError as error:
                raise DataError(f"cannot open {path.name!r} as a DuckDB database: {error}") from None
            return _relation(_only_table(database), home)
        return _folder(path, home, str(data)) if path.is_dir() else _files([path], home, None)
    if isinstance(data, duckdb.DuckDBPyConnection):
        return _relation(_only_table(data), home)
    if isinstance(data, duckdb.DuckDBPyRelation):
        return _relation(data, home)
    frame = frames.open_frame(data)
    file = home.place("given").with_suffix(".parquet")
    listed = {n: table_files.storable(frames.to_arrow(frame.get_column(n))) for n in frame.columns}
    for column, array in listed.items():
        _refuse_unwritable(column, array)
    with table_files.writing(file):
        pq.write_table(pa.table(listed), file)
    return parquet([file], "csv", own=True)


def _refuse_unwritable(column: str, array: pa.ChunkedArray) -> None:
    try:
        pq.write_table(pa.table({column: array.slice(0, 0)}), pa.BufferOutputStream())
    except pa.ArrowNotImplementedError:
        raise DataError(
            f"column {column!r} holds {array.type} values, which Parquet cannot hold; turn it into text or numbers, leave it "
            "out of the table, or use engine='memory'"
        ) from None


def parquet(
    listed: Sequence[Path],
    format: Format,
    *,
    root: Path | None = None,
    stamped: bool = False,
    own: bool = False,
) -> Source:
    """Parquet files as one table; those of a folder ``root`` may be parted by their folders' names."""
    stamps = _stamps(listed) if stamped else ()
    folders = {path: _partition(path, root) for path in listed} if root else {}
    parted = tuple(next(iter(folders.values()), {}))
    schemas = {path: table_files.parquet_schema(path) for path in listed}
    first = schemas[listed[0]]
    names = [*first.names, *parted]
    for path, schema in schemas.items():
        _refuse_different(_short(path, root), [*schema.names, *folders.get(path, {})], _short(listed[0], root), names)
        _refuse_mixed((path, schema), (listed[0], first), root)
    _refuse_alike(names)
    types = {n: _told(n, list(schemas.values())) for n in first.names} | dict.fromkeys(parted, pa.string())
    rows = sum(pq.read_metadata(path).num_rows for path in listed)
    return Source(tuple(listed), tuple(names), types, rows, format, parted, stamps, root, own, folders)


def _folder(path: Path, home: Session, name: str) -> Source:
    """All CSV or all Parquet files under a folder, those that are hidden or empty left out; errors call it by ``name``."""
    found = [file for file in _walked(path, set()) if file.stat().st_size]
    if not found:
        raise DataError(f"the folder {name!r} holds no CSV or Parquet file")
    other = [str(file.relative_to(path)) for file in found if file.suffix.lower() not in ENDINGS]
    if other:
        raise DataError(
            f"the folder {name!r} holds files that are no CSV or Parquet: {list_some(other)}; move them away"
        )
    formats = {format_of(file) for file in found}
    if len(formats) > 1:
        raise DataError(f"the folder {name!r} holds CSV and Parquet files; keep one kind in it")
    return _files(found, home, path)


def _walked(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """The files below a folder in the order of their names; hidden ones are none of the table's."""
    if folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or (path.name.startswith("_") and "=" not in path.name):
            continue
        if path.is_dir():
            yield from _walked(path, seen)
        elif path.is_file():
            yield path


def _files(listed: Sequence[Path], home: Session, root: Path | None) -> Source:
    if format_of(listed[0]) == "parquet":
        return parquet(listed, "parquet", root=root, stamped=True)
    made, before = [], _stamps(listed)
    for file in listed:  # a CSV file is read once, by the reader that reads it into memory too
        target = (
            home.place("csv").with_suffix(".parquet") if root is None else home.folder / "csv" / file.relative_to(root)
        )
        target = target.with_name(target.name + MADE)
        target.parent.mkdir(parents=True, exist_ok=True)
        table_files.csv_to_parquet(file, target)
        made.append(target)
    if before != _stamps(listed):
        raise DataError(CHANGED)
    return parquet(made, "csv", root=None if root is None else home.folder / "csv", own=True)


def _relation(relation: Any, home: Session) -> Source:
    """A relation as it is now; whatever happens to its tables later does not matter."""
    with explain_error():
        _refuse_alike(relation.columns)
        shown = [_storable(n, str(kind)) for n, kind in zip(relation.columns, relation.types, strict=True)]
        relation = relation.project(", ".join(shown))
        schema = relation.limit(0).to_arrow_table().schema
        file = home.place("relation").with_suffix(".parquet")
        relation.write_parquet(str(file))
    source = parquet([file], "parquet", own=True)
    zones = {f.name: f.type for f in schema if pa.types.is_timestamp(f.type) and f.type.tz}
    return replace(source, types={**source.types, **zones})


def _storable(column: str, kind: str) -> str:
    """A column of a relation as Parquet can hold it, in SQL."""
    stored = "VARCHAR" if kind.startswith("ENUM") else STORED.get(kind)
    return f"{name(column)}::{stored} AS {name(column)}" if stored else name(column)


def _only_table(connection: Any) -> Any:
    """The table of a connection that has only one."""
    with explain_error():
        found = connection.sql("SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL").fetchall()
    if len(found) != 1:
        named = list_some([n for _, n in found]) if found else "none"
        raise DataError(f"the database has {len(found)} tables ({named}); pass one of them, as connection.table(name)")
    return connection.table(".".join(map(name, found[0])))


def _partition(path: Path, root: Path) -> dict[str, str | None]:
    """What the folders' names tell of a file: ``year=2024``."""
    pairs = [part.partition("=") for part in path.relative_to(root).parts[:-1] if "=" in part]
    found = {unquote(key): unquote(value) for key, _, value in pairs}
    return {key: None if value == "__HIVE_DEFAULT_PARTITION__" else value for key, value in found.items()}


def _short(path: Path, root: Path | None) -> str:
    return (str(path.relative_to(root)) if root else path.name).removesuffix(MADE)


def _refuse_different(file: str, names: Sequence[str], first: str, wanted: Sequence[str]) -> None:
    frames.refuse_duplicate_names(names)
    absent, more = [n for n in wanted if n not in names], [n for n in names if n not in wanted]
    for columns, one, other in ((absent, file, first), (more, first, file)):
        if columns:
            raise DataError(
                f"the file {one!r} lacks columns that {other!r} has: {list_some(columns)}; all files of a folder must have the "
                "same columns"
            )


def _refuse_mixed(file: tuple[Path, pa.Schema], first: tuple[Path, pa.Schema], root: Path | None) -> None:
    """Columns whose values are of one kind in a file and of another in the first."""
    path = file[0]
    for column in first[1].names:
        here, there = file[1].field(column).type, first[1].field(column).type
        kinds = {_kind(here), _kind(there)} - {"null"}
        exact = kinds == {"whole", "float"} and _exact(path, column) and _exact(first[0], column)
        if len(kinds) > 1 and not exact:
            raise DataError(
                f"column {column!r} holds {here} values in the file {_short(path, root)!r} and {there} values in the first; "
                "write it alike in all files"
            )


def _told(column: str, schemas: Sequence[pa.Schema]) -> pa.DataType:
    """The type of a column by the first file that holds a value of it."""
    kinds = [schema.field(column).type for schema in schemas]
    return next((kind for kind in kinds if not pa.types.is_null(kind)), kinds[0])


def _kind(given: pa.DataType) -> str:
    kind = given.value_type if pa.types.is_dictionary(given) else given
    if pa.types.is_integer(kind):
        return "whole"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    if pa.types.is_timestamp(kind):
        return f"moment {kind.tz}"
    return str(kind)


def _exact(path: Path, column: str) -> bool:
    """Whether the whole numbers of a column are small enough to be told apart beside floating ones."""
    if not pa.types.is_integer(pq.read_schema(path).field(column).type):
        return True  # the other file has the whole numbers
    found = pq.read_metadata(path)
    place = [found.schema.column(i).path for i in range(found.num_columns)].index(column)
    parts = [found.row_group(i).column(place).statistics for i in range(found.num_row_groups)]
    return all(s is not None and s.has_min_max and max(abs(s.min), abs(s.max)) < EXACT for s in parts)


def _refuse_alike(names: Sequence[str]) -> None:
    """Names that DuckDB cannot tell apart, or cannot write."""
    seen: dict[bytes, str] = {}
    for given in names:
        other = seen.setdefault(given.encode().lower(), given)  # it folds no other letters than ASCII's
        if other is not given and other != given:
            raise EngineError(
                f"DuckDB does not tell the columns {other!r} and {given!r} apart; rename one, or use engine='memory'"
            )
        if not given:
            raise EngineError("DuckDB cannot hold a column without a name; rename it, or use engine='memory'")
    frames.refuse_duplicate_names(names)


def _stamps(listed: Sequence[Path]) -> tuple[tuple[int, ...], ...]:
    try:
        found = [path.stat() for path in listed]
    except OSError as error:
        raise DataError(f"the source changed while it was read: {error.strerror}") from None
    return tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in found)


__all__ = ["BATCH", "CHANGED", "Source", "name", "normalized", "parquet", "scan", "source_of", "text"]
