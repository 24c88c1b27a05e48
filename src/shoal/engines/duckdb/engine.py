"""The engine for tables larger than memory. DuckDB counts, joins and sorts the records; Python gets dictionaries and cells.

`distinct` groups one column in DuckDB and converts the distinct values in Python, as the engine in memory does. `encode`
creates a table of codes for every column. For a release, `partition` or `count` then stages, for each record, its *key* (all
codes packed into 64-bit words) and the columns that are carried along. `count` groups the keys. `apply` joins the keys with
their groups, sorts the records by their published values and writes them to a file. The audit opens this file with the same
engine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from shoal import threads
from shoal.arrays import Int32Array, UInt64Array
from shoal.engines import fingerprint, table_files
from shoal.engines.duckdb.output import ReleaseWriter, copy_visible
from shoal.engines.duckdb.partitions import StagedCells, partition_records, stage_records
from shoal.engines.duckdb.session import Session
from shoal.engines.duckdb.sources import Source, open_files, open_source
from shoal.engines.protocol import Format, Reading, digest_file
from shoal.engines.resources import DATABASES, Resources
from shoal.engines.sql import number_records, quote_name, quote_text
from shoal.engines.sql.counted_cells import CountedCells, FetchedCells
from shoal.engines.sql.engine import SqlEngine
from shoal.engines.sql.release_query import DividedRecords, KeyedRecords, ReleaseQuery
from shoal.errors import EngineError
from shoal.formats.conventions import Conventions

WORD = 2**64


@dataclass(frozen=True)
class DuckEngine(SqlEngine):
    """A table that DuckDB reads from Parquet files, with the codes of the encoded columns."""

    name: ClassVar[str] = "duckdb"
    takes_limits: ClassVar[bool] = True
    keeps_cells: ClassVar[bool] = False  # tables of DuckDB are as fast, and within the memory limit

    session: Session
    table: Source

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

    def prepare(self, readings: Mapping[str, Reading]) -> None:
        """Fetch few combinations in one query. Otherwise DuckDB groups columns one by one faster than several in one query."""
        if self._has_few_cells(list(readings)):
            super().prepare(readings)

    def _group_cells(self, columns: Sequence[str]) -> None:
        with self.table.explain_failure():
            super()._group_cells(columns)

    def _group_columns(self, columns: Sequence[str]) -> None:
        with self.table.explain_failure():
            super()._group_columns(columns)

    def _query_cells(self, columns: Sequence[str], quasi: int, least: int) -> CountedCells:
        """Count the cells; for a release, stage the records first, so that the source is read only once."""
        if self.carry is None:
            with self.table.explain_failure():
                return super()._query_cells(columns, quasi, least)
        keys = self._keys(columns)
        carried = (*self.carry, *self._list_ambiguous(columns[quasi:]))
        with self.table.explain_failure():
            staged = stage_records(self.session, self._encode_query(keys, carried), keys, carried)
        self.table.refuse_changed()
        self.table.refuse_miscounted(self.session.count_rows(staged.sql))
        return partition_records(self.session, staged, quasi, least)

    def _list_ambiguous(self, columns: Sequence[str]) -> list[str]:
        """List the columns, not carried, of which several raw values have one code. Their keyed hashes need the raw values."""
        others = [column for column in columns if column not in (self.carry or ())]
        return [column for column in others if self.codings[column].is_ambiguous]

    def _start_release(self, carry: tuple[str, ...]) -> ReleaseQuery:
        return ReleaseWriter(self.session, carry, source=self.table)

    def _place_records(self, counted: FetchedCells, release: ReleaseQuery) -> None:
        """Write the records of a partition to a file, so that its cells need not stay in memory."""
        if counted.partition is not None:
            assert isinstance(release, ReleaseWriter)  # noqa: S101  by _start_release
            release.place(self._select_records(counted, release), self._number_records)

    def _select_records(self, counted: FetchedCells, release: ReleaseQuery) -> KeyedRecords:
        """Return the staged records of a partition."""
        assert isinstance(counted.cells, StagedCells)  # noqa: S101  by _query_cells
        return counted.cells.records(counted.partition).add_codes(release.coded)

    def _number_records(self, divided: DividedRecords) -> str:
        """Number the records of divided cells, by SQL functions for the keyed hash."""
        records, session, order = divided.records, self.session, divided.order
        hashes, joins = ["0::UHUGEINT"], []
        for place, column in enumerate(order.columns):
            value, table = self._hash_values(column, divided)
            divided.tables.append(table)
            condition, found = session.look_up(f"s.{value}", table, f"h{place}", "h")
            hashes.append(f"{found}::UHUGEINT")
            joins.append(f"JOIN {table} h{place} ON {condition}")
        return number_records(
            records.keys,
            divided.sql,
            hashes=divided.hashes,
            joins=" ".join(joins),
            record=f"(({' + '.join(hashes)}) % {WORD}::UHUGEINT)::UBIGINT",
            mix=session.create_mix(order.hash),
        )

    def _hash_values(self, column: str, divided: DividedRecords) -> tuple[str, str]:
        """Create a table of the values, or codes, of a column in divided cells with the keyed hashes of the values.

        Also return the SQL name of these values or codes among the records.
        """
        records = divided.records
        is_carried = column in records.carried
        name = records.name(column) if is_carried else records.find_released(column)
        found = self.session.fetch_arrow(f"SELECT DISTINCT {name} AS raw FROM {divided.sql}")
        raw = found["raw"] if is_carried else self._decode(column, found["raw"].to_numpy())
        values = self.table.restore_type(column, raw)
        hashes = fingerprint.hash_rows_with_key(divided.order.hash, {column: values}, len(values))
        return name, self.session.create_table("hashes", found.append_column("h", pa.array(hashes)))

    def _decode(self, column: str, codes: Int32Array) -> pa.ChunkedArray:
        """Return the raw values of codes."""
        coding = self.codings[column]
        if coding.is_ambiguous:
            raise EngineError(
                f"the column {column!r} has several raw values for one code, and its records must be ordered by their raw "
                "values. Encode the table with this column in carry."
            )
        return pa.chunked_array([coding.decode(codes)])

    def _store_release(self, query: str, release: ReleaseQuery) -> DuckEngine:
        """Write the released rows to new files."""
        assert isinstance(release, ReleaseWriter)  # noqa: S101  by _start_release
        self.table.refuse_changed()
        released = release.write(query)
        self.session.protect(released, released.files)  # a release can have two tables
        return DuckEngine(self.session, released, detected=self.detected, styles=self.styles)

    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Copy the Parquet files to ``path``, or write their rows in the same order to a CSV file."""
        if format == "csv":
            rows = self.table.batches(self.table.names)
            return table_files.write_csv_batches(rows, path, self.table.names, escape_formulas=escape_formulas)
        with table_files.explain_write_errors(path):
            if self.table.hidden:
                copy_visible(self.session, self.table, path)
                return 0
            if self.table.root is None:
                shutil.copyfile(self.table.files[0], path)
                return 0
            for file in self.table.files:
                target = path / file.relative_to(self.table.root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        return 0

    def write_like_input(self, path: Path, *, escape_formulas: bool = True) -> tuple[int, Conventions]:
        """Write a CSV file in the conventions of the source."""
        names, rows = self.table.names, self.table.batches(self.table.names)
        written, formats = table_files.describe_output(self.detected, self.styles, names)
        changed = table_files.write_csv_batches(
            rows, path, names, escape_formulas=escape_formulas, written=written, formats=formats
        )
        return changed, written

    def reopen(self, path: Path, written: Conventions | None = None) -> DuckEngine:
        """Open a file or folder that this engine wrote, in the same session; return self where the bytes are the same."""
        if written is not None:
            formats = table_files.describe_output(self.detected, self.styles, self.table.names)[1]
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
            columns = list(self.table.names)
            self._cache["digests"] = sorted(map(digest_file, self.table.files)) if self.table.own else None
            self._cache["fingerprint"] = fingerprint.digest_rows(columns, self._hash_batches(columns))
        return str(self._cache["fingerprint"])

    def _hash_batches(self, columns: Sequence[str]) -> Iterator[UInt64Array]:
        """Yield the hashes of all rows in batches, computed on all cores."""

        def hashes(batch: Mapping[str, Any]) -> UInt64Array:
            arrays = {column: pa.chunked_array([array]) for column, array in batch.items()}
            return fingerprint.hash_rows(arrays, len(next(iter(batch.values()))) if batch else 0)

        batches = self.table.batches(columns)
        with threads.workers() as workers:
            while some := list(islice(batches, threads.CORES)):
                yield from workers.each(hashes, some)

    def frame(self) -> Any:
        """Return a DuckDB relation over the files."""
        self.session.keep_until_exit(self.table.files)
        cursor = self.session.connection.cursor()
        zones = {kind.tz for kind in self.table.types.values() if pa.types.is_timestamp(kind) and kind.tz}
        if len(zones) == 1:
            with suppress(self.session.duckdb.Error):  # DuckDB has no offsets as time zones, and shows these in UTC
                cursor.execute(f"SET TimeZone = {quote_text(zones.pop())}")
        names = (f"{number} AS {quote_name(name)}" for name, number in self.table.columns.items())
        return cursor.sql(f"SELECT {', '.join(names)} FROM {self.table.sql}")
