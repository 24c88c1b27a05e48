"""The engine for tables larger than memory. DuckDB counts, joins and sorts the records; Python gets dictionaries and cells.

`distinct` groups one column in DuckDB and converts the distinct values in Python, as the engine in memory does. `encode`
creates a table of codes for every column. For a release, `partition` or `count` then stages, for each record, its *key* (all
codes packed into 64-bit words) and the columns that are carried along. `count` groups the keys. `apply` joins the keys with
their groups, sorts the records by their published values and writes them to a file. The audit opens this file with the same
engine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from shoal import threads
from shoal.arrays import Int32Array, Int64Array, UInt64Array
from shoal.engines import column_values, fingerprint, table_files
from shoal.engines.csv_files import CsvWriter
from shoal.engines.duckdb.output import ReleaseWriter, StagedTable, copy_visible
from shoal.engines.duckdb.partitions import partition_table, scan_partition, write_partitions
from shoal.engines.duckdb.session import Session
from shoal.engines.duckdb.sources import (
    CHANGED,
    Source,
    normalize_column,
    open_files,
    open_source,
    scan_files,
)
from shoal.engines.protocol import (
    NOT_COUNTED,
    UNKNOWN,
    ColumnSummary,
    Counts,
    Detected,
    Dictionary,
    Distinct,
    Engine,
    Format,
    Partitioning,
    Plan,
    Reading,
    Schema,
    TextFormat,
    digest_file,
)
from shoal.engines.resources import DATABASES, Resources
from shoal.engines.sql import (
    CellTable,
    Keys,
    build_counts,
    partition_expression,
    quote_name,
    quote_text,
    select_keys,
)
from shoal.errors import DataError, EngineError, PolicyError, explain_unknown_column
from shoal.formats.conventions import Conventions

DIGITS = 38  # the largest precision of DuckDB's decimals


@dataclass(frozen=True)
class _Coding:
    """The codes of a column: the name of a table of raw values and codes, and the number of codes.

    There is no table where the files hold the codes.
    """

    table: str | None
    size: int


@dataclass(frozen=True)
class _CountedRecords:
    """The handle of counts: the staged records of a partition, and the keys of the counted cells in the order of the cells."""

    staged: StagedTable
    partition: int
    words: list[Int64Array]


@dataclass(frozen=True)
class DuckEngine(Engine):
    """A table that DuckDB reads from Parquet files, with the codes of the encoded columns.

    ``hidden`` has the dictionaries of hidden columns, of which the files hold codes instead of values. ``detected`` says how
    the user's source is written, and ``styles`` has the formats of numbers and dates that were detected in its columns.
    """

    name: ClassVar[str] = "duckdb"
    takes_limits: ClassVar[bool] = True

    session: Session
    source: Source
    codings: Mapping[str, _Coding] = field(default_factory=dict)
    carry: tuple[str, ...] | None = None
    dictionaries: Mapping[str, Dictionary] = field(default_factory=dict, repr=False)
    hidden: Mapping[str, Dictionary] = field(default_factory=dict, repr=False)
    detected: Detected = UNKNOWN
    styles: dict[str, TextFormat] = field(default_factory=dict, repr=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """Whether data are the path of a folder or of a DuckDB database, or a DuckDB connection or relation."""
        if isinstance(data, (str, Path)):
            return Path(data).is_dir() or Path(data).suffix.lower() in DATABASES
        return type(data).__module__.partition(".")[0] in ("duckdb", "_duckdb")

    @classmethod
    def open(cls, data: Any, resources: Resources) -> DuckEngine:
        """Open a frame, a file, a folder of files, a connection or a relation."""
        session = Session(resources)
        try:
            source = open_source(data, session)
            session.protect(source, source.files)  # the input of a run that may be repeated
            return cls(session, source, detected=source.detected)
        except BaseException:
            session.close()
            raise

    @property
    def format(self) -> Format:
        """The format of the source."""
        return self.source.format

    def schema(self) -> Schema:
        """Return the column names and the number of records."""
        return Schema(self.source.names, self.source.rows)

    def distinct(self, column: str, reading: Reading) -> Distinct:
        """Return the distinct values of one column."""
        return self._read_column(column, reading)[0]

    def holds_truth_values(self, column: str) -> bool:
        """Return whether the type of a column is that of truth values."""
        return bool(pa.types.is_boolean(self.source.types[column]))

    def summarize(self, column: str) -> ColumnSummary:
        """Return a summary of the raw values of a column, counted in DuckDB."""
        self._refuse_unsupported_type(column)
        raw = quote_name(column)
        example = f"any_value({raw})" if column_values.is_text(self.source.types[column]) else "'0'"
        query = f"SELECT count(DISTINCT {raw}), count({raw}), {example} FROM {self.source.sql}"
        values, records, text = self.session.fetch_rows(query)[0]
        return ColumnSummary(values, records, str(text or ""))

    def count_once(self, column: str) -> int:
        """Return the number of raw values of a column that occur once, counted in DuckDB."""
        self._refuse_unsupported_type(column)
        raw = quote_name(column)
        once = f"SELECT {raw} FROM {self.source.sql} WHERE {raw} IS NOT NULL GROUP BY {raw} HAVING count(*) = 1"
        return int(self.session.fetch_rows(f"SELECT count(*) FROM ({once})")[0][0])

    def _read_column(self, column: str, reading: Reading) -> tuple[Distinct, Int32Array]:
        """Return the distinct values, and the index of every raw value among them, in the order of the table of raw values."""
        if (column, reading) not in self._cache:
            table = self.session.fetch_arrow(f"SELECT raw, records FROM {self._raw_table(column)} ORDER BY id")
            records = table["records"].to_numpy()
            self.source.refuse_miscounted(int(records.sum()))
            read = self._decode_column if column in self.hidden else self._unify_column
            self._cache[column, reading] = read(column, reading, table["raw"], records)
        cached: tuple[Distinct, Int32Array] = self._cache[column, reading]
        return cached

    def _unify_column(
        self, column: str, reading: Reading, values: pa.ChunkedArray, records: Int64Array
    ) -> tuple[Distinct, Int32Array]:
        raw = self.source.restore_type(column, values.combine_chunks())
        raw = raw.chunk(0) if isinstance(raw, pa.ChunkedArray) else raw
        present = raw.is_valid().to_numpy(zero_copy_only=False)
        present_values = raw.filter(pa.array(present))
        distinct, target, style = column_values.unify_values(present_values, column, reading, self.detected.conventions)
        if style is not None:
            self.styles[column] = style
        index = np.full(len(raw), -1, np.int32)
        index[present] = target
        tally = np.bincount(index + 1, records, minlength=len(distinct) + 1).astype(np.int64)
        return Distinct(distinct, tally[1:], int(tally[0])), index

    def _decode_column(
        self, column: str, reading: Reading, codes: pa.ChunkedArray, records: Int64Array
    ) -> tuple[Distinct, Int32Array]:
        dictionary = self.hidden[column]
        if reading != dictionary.reading:
            raise EngineError(f"the column {column!r} is hidden. It can be read only as it was encoded.")
        coded = column_values.decode_values(dictionary, codes.to_numpy(), records)
        return coded.distinct, coded.index

    def _raw_table(self, column: str) -> str:
        """Return the name of the table of a column's raw values, with a number and the record count of each."""
        if column not in self.source.names:
            raise PolicyError(explain_unknown_column(column, self.source.names))
        if ("raw", column) not in self._cache:
            table, raw = self.session.new_name("raw"), quote_name(column)
            self._refuse_unsupported_type(column)
            self._run_on_source(
                f"CREATE TEMP TABLE {table} AS SELECT row_number() OVER () AS id, * FROM "
                f"(SELECT {raw} AS raw, count(*) AS records FROM {self.source.sql} GROUP BY 1)"
            )
            self._cache["raw", column] = table
        return str(self._cache["raw", column])

    def _refuse_unsupported_type(self, column: str) -> None:
        """Raise an error for a column that DuckDB cannot group, or cannot store without a loss."""
        kind = self.source.types[column]
        if pa.types.is_nested(kind):
            raise DataError(
                f"column {column!r} holds {kind} values, which cannot be grouped. Convert the column to text or numbers, or "
                "leave it out of the policy."
            )
        if (pa.types.is_decimal(kind) and kind.precision > DIGITS) or pa.types.is_duration(kind):
            raise DataError(
                f"column {column!r} holds {kind} values, which DuckDB cannot store unchanged. Convert the column to text or "
                "numbers, or leave it out of the policy."
            )

    def encode(self, dictionaries: Mapping[str, Dictionary], *, carry: Sequence[str] | None = None) -> DuckEngine:
        """Return the same data with codes for the named columns."""
        codings = dict(self.codings)
        for column, dictionary in dictionaries.items():
            _, index = self._read_column(column, dictionary.reading)
            target = np.append(dictionary.codes, np.int32(dictionary.missing)).astype(np.int32)
            code, size = target[index], int(target.max(initial=0)) + 1
            if column in self.hidden and _has_same_codes(dictionary, self.hidden[column]):
                codings[column] = _Coding(None, size)
                continue
            numbered = pa.table({"id": np.arange(1, len(code) + 1), "code": code})
            query = f"SELECT raw, code FROM {self._raw_table(column)} JOIN given USING (id)"
            table = self.session.create_table("codes", numbered, query)
            codings[column] = _Coding(table, size)
        return replace(
            self,
            codings=codings,
            carry=None if carry is None else tuple(dict.fromkeys(carry)),
            dictionaries={**self.dictionaries, **dictionaries},
            _cache={},
        )

    def partition(self, quasi: Sequence[str], sensitive: Sequence[str] = (), *, least: int = 1) -> Partitioning:
        """Split the table into partitions where it has more cells than the memory limit allows at once.

        Without ``carry`` in `encode`, partitions are ranges of the keys.
        """
        if self.carry is not None:
            return self._stage_table(quasi, sensitive, least).partitioning
        return Partitioning.without_tree(len(self._count_cells(quasi, sensitive).ends))

    def count(self, quasi: Sequence[str], sensitive: Sequence[str] = (), *, partition: int | None = None) -> Counts:
        """Count the cells of encoded columns, sorted by their codes."""
        if self.carry is None:
            cells = self._count_cells(quasi, sensitive)
            where = "true" if partition is None else cells.where(partition)
            table = self.session.fetch_arrow(f"SELECT * FROM {cells.table} WHERE {where}")
            return _build_counts(cells.keys, table, len(quasi))[1]
        staged = self._stage_table(quasi, sensitive)
        if partition is None and staged.partitioning.partitions > 1:
            raise EngineError("the table is too large to be counted at once. Count its partitions one by one.")
        number = partition or 0
        query = (
            f"SELECT {staged.keys.name_list}, count(*) AS n FROM {self._partition_records(staged, number)} GROUP BY ALL"
        )
        words, counts = _build_counts(staged.keys, self.session.fetch_arrow(query), len(quasi))
        return replace(counts, handle=_CountedRecords(staged, number, words))

    def _count_cells(self, quasi: Sequence[str], sensitive: Sequence[str]) -> CellTable:
        """Count the cells in a table of DuckDB, to be fetched in ranges of keys; a combination is in only one range."""
        cache_key = ("cells", tuple(quasi), tuple(sensitive))
        if cache_key not in self._cache:
            keys, table = self._keys((*quasi, *sensitive)), self.session.new_name("counted")
            query = f"SELECT {keys.name_list}, count(*) AS n FROM ({self._encode_query(keys)}) GROUP BY ALL"
            self._run_on_source(f"CREATE TEMP TABLE {table} AS {query}")
            first = keys.first_codes(len(quasi))
            cells, records = self.session.fetch_rows(f"SELECT count(*), coalesce(sum(n), 0)::BIGINT FROM {table}")[0]
            self.source.refuse_miscounted(records)
            most = self.session.resources.max_combinations
            ends = [None]
            if cells > most:
                shares = [i / -(-cells // most) for i in range(1, -(-cells // most))]
                cuts = self.session.fetch_rows(f"SELECT quantile_disc({first}, {shares}) FROM {table}")[0][0]
                ends = [*sorted(set(cuts)), None]
            self._cache[cache_key] = CellTable(table, keys, first, tuple(ends))
        cached: CellTable = self._cache[cache_key]
        return cached

    def _run_on_source(self, sql: str) -> None:
        """Execute a statement that reads the source; if it fails, first report a changed source."""
        try:
            self.session.run(sql)
        except EngineError:
            self.source.refuse_changed()
            raise

    def _keys(self, columns: Sequence[str]) -> Keys:
        return Keys.of(columns, [self.codings[c].size for c in columns])

    def _encode_query(self, keys: Keys, carry: Sequence[str] = ()) -> str:
        """Return the query for every record with its key, which is NULL for a value without a code."""
        tables = ((column, self.codings[column].table) for column in keys.columns)
        code_tables = {column: table for column, table in tables if table is not None}
        carried = [normalize_column(column, self.source.types[column]) for column in carry]
        return select_keys(keys, self.source.sql, code_tables, carried)

    def _stage_table(self, quasi: Sequence[str], sensitive: Sequence[str], least: int = 1) -> StagedTable:
        """Write the keys and the carried columns of all records to temporary files, once."""
        cache_key = (tuple(quasi), tuple(sensitive))
        if self.carry is None:
            raise EngineError("this table was encoded only to be counted. To release it, encode it with carry.")
        if cache_key not in self._cache:
            keys, carry = self._keys((*quasi, *sensitive)), self.carry
            for column in carry:
                self._refuse_unsupported_type(column)
            file = self.session.new_path("staged").with_suffix(".parquet")
            self._run_on_source(
                f"COPY ({self._encode_query(keys, carry)}) TO {quote_text(str(file))} (FORMAT parquet, COMPRESSION lz4_raw)"
            )
            self.source.refuse_changed()
            sql = scan_files([file])
            self.source.refuse_miscounted(self.session.fetch_rows(f"SELECT count(*) FROM {sql}")[0][0])
            partitioning = partition_table(self.session, keys, sql, len(quasi), least)
            if partitioning.partitions > 1:
                assert partitioning.folder is not None  # noqa: S101
                query = f"SELECT *, {partition_expression(keys, partitioning)} AS part FROM {sql}"
                write_partitions(self.session, query, partitioning.folder)
                file.unlink()
            self._cache[cache_key] = StagedTable(keys, carry, sql, partitioning)
        cached: StagedTable = self._cache[cache_key]
        return cached

    def _partition_records(self, staged: StagedTable, partition: int) -> str:
        if staged.partitioning.partitions == 1:
            return staged.sql
        assert staged.partitioning.folder is not None  # noqa: S101
        return scan_partition(staged.partitioning.folder, partition)

    def apply(self, plans: Iterable[Plan]) -> DuckEngine:
        """Return the released data, in new files; the rows are sorted by their published values."""
        writer = ReleaseWriter(self.session, self.source)
        for plan in plans:
            counted = plan.counts.handle
            if not isinstance(counted, _CountedRecords):
                raise EngineError(NOT_COUNTED)
            records = self._partition_records(counted.staged, counted.partition)
            writer.assign_groups(plan, counted.staged, records, counted.words)
        self.source.refuse_changed()
        released = writer.write()
        self.session.protect(released, released.files)  # a release can have two tables
        hidden = {name: self.dictionaries[name] for name in writer.coded}
        return DuckEngine(self.session, released, hidden=hidden, detected=self.detected, styles=self.styles)

    def without(self, columns: Sequence[str]) -> DuckEngine:
        """Return the same rows, in the same order, without some columns; `write` leaves them out of the files."""
        return DuckEngine(self.session, self.source.hide(columns), detected=self.detected, styles=self.styles)

    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Copy the Parquet files to ``path``, or write their rows in the same order to a CSV file."""
        if format == "csv":
            return self._write_csv(path, escape_formulas)
        with table_files.explain_write_errors(path):
            if self.source.hidden:
                copy_visible(self.session, self.source, path)
                return 0
            if self.source.root is None:
                shutil.copyfile(self.source.files[0], path)
                return 0
            for file in self.source.files:
                target = path / file.relative_to(self.source.root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        return 0

    def write_like_input(self, path: Path, *, escape_formulas: bool = True) -> tuple[int, Conventions]:
        """Write a CSV file in the conventions of the source."""
        written, formats = table_files.describe_output(self.detected, self.styles, self.source.names)
        return self._write_csv(path, escape_formulas, written, formats), written

    def _write_csv(
        self,
        path: Path,
        escape_formulas: bool,
        written: Conventions | None = None,
        formats: Mapping[str, TextFormat] | None = None,
    ) -> int:
        columns, styles = list(self.source.names), formats or {}
        header, changed = table_files.format_header(columns, escape_formulas=escape_formulas)
        schema = pa.schema([(name, pa.large_string()) for name in header])
        with table_files.explain_write_errors(path), CsvWriter(path, schema, written) as writer:
            for batch in self.source.batches(columns):
                formatted = [
                    table_files.format_csv_values(a, c, escape_formulas=escape_formulas, style=styles.get(c))
                    for c, a in batch.items()
                ]
                writer.write(pa.record_batch([texts for texts, _ in formatted], schema=schema))
                changed += sum(count for _, count in formatted)
        return changed

    def reopen(self, path: Path, written: Conventions | None = None) -> DuckEngine:
        """Open a file or folder that this engine wrote, in the same session; return self where the bytes are the same."""
        if written is not None:
            formats = table_files.describe_output(self.detected, self.styles, self.source.names)[1]
            return DuckEngine(self.session, open_files([path.absolute()], self.session, given=written, formats=formats))
        if path.is_file():
            source = open_files([path.absolute()], self.session, given=Conventions())
        else:
            source = open_source(path, self.session)
        same = sorted(map(digest_file, source.files)) == self._cache.get("digests")
        return self if same else DuckEngine(self.session, source)

    def fingerprint(self) -> str:
        """Return a digest of the rows as a multiset."""
        if "fingerprint" not in self._cache:
            columns = list(self.source.names)
            self._cache["digests"] = sorted(map(digest_file, self.source.files)) if self.source.own else None
            self._cache["fingerprint"] = fingerprint.digest_rows(columns, self._hash_batches(columns))
        return str(self._cache["fingerprint"])

    def _hash_batches(self, columns: Sequence[str]) -> Iterator[UInt64Array]:
        """Yield the hashes of all rows in batches, computed on all cores."""

        def hashes(batch: Mapping[str, Any]) -> UInt64Array:
            arrays = {column: pa.chunked_array([array]) for column, array in batch.items()}
            return fingerprint.hash_rows(arrays, len(next(iter(batch.values()))) if batch else 0)

        batches = self.source.batches(columns)
        with threads.workers() as workers:
            while some := list(islice(batches, threads.CORES)):
                yield from workers.each(hashes, some)

    def frame(self) -> Any:
        """Return a DuckDB relation over the files."""
        self.session.keep_until_exit(self.source.files)
        cursor = self.session.connection.cursor()
        zones = {kind.tz for kind in self.source.types.values() if pa.types.is_timestamp(kind) and kind.tz}
        if len(zones) == 1:
            with suppress(self.session.duckdb.Error):  # DuckDB has no offsets as time zones, and shows these in UTC
                cursor.execute(f"SET TimeZone = {quote_text(zones.pop())}")
        names = ", ".join(map(quote_name, self.source.names)) if self.source.hidden else "*"
        return cursor.sql(f"SELECT {names} FROM {self.source.sql}")


def _has_same_codes(dictionary: Dictionary, hidden: Dictionary) -> bool:
    """Whether the values of a hidden column have the same codes again: none was suppressed, so none has another place."""
    return dictionary.missing == hidden.missing and np.array_equal(dictionary.codes, hidden.codes)


def _build_counts(keys: Keys, table: pa.Table, quasi: int) -> tuple[list[Int64Array], Counts]:
    """Return the sorted keys, and the counted cells in the same order."""
    if any(table[word].null_count for word in keys.names):
        raise DataError(CHANGED)
    return build_counts(keys, [table[word].to_numpy() for word in keys.names], table["n"].to_numpy(), quasi)
