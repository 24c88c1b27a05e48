"""The engine for tables in PostgreSQL: the database counts, joins and recodes the records; Python gets dictionaries and cells.

The source is read in one snapshot: `encode` copies the columns that are needed to a temporary table, so that no transaction and
no lock lasts longer than the reading. Temporary tables belong to Shoal's own connection and end with it. `write_table` copies
the released rows to a table for recipients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.arrays import UInt64Array
from shoal.engines import fingerprint, frames, table_files
from shoal.engines.database_urls import is_database_url
from shoal.engines.databases.connection import connect, connect_again
from shoal.engines.databases.divided_cells import number_records
from shoal.engines.databases.ibis_tables import (
    compile_query,
    find_connection,
    is_ibis_table,
    open_elsewhere,
    open_released,
)
from shoal.engines.databases.output import PendingTable, find_target, hash_of_row
from shoal.engines.databases.session import Session
from shoal.engines.databases.sources import DatabaseTable, find_table, open_query, select_table
from shoal.engines.protocol import Detected, Dictionary, Engine, Format, TargetTable, WrittenTable
from shoal.engines.resources import Resources
from shoal.engines.sql.engine import SqlEngine
from shoal.engines.sql.release_query import DividedRecords, ReleaseQuery
from shoal.errors import DataError
from shoal.formats.conventions import Conventions


@dataclass(frozen=True)
class DatabaseEngine(SqlEngine):
    """A table in PostgreSQL; ``ibis`` is the Ibis module where the user gave an Ibis table."""

    name: ClassVar[str] = "ibis"
    takes_limits: ClassVar[bool] = True
    takes_table: ClassVar[bool] = True

    session: Session
    table: DatabaseTable
    ibis: bool = field(default=False, kw_only=True)

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """Whether data are a connection string of PostgreSQL or an Ibis table."""
        return is_database_url(data) or is_ibis_table(data)

    @classmethod
    def open(cls, data: Any, resources: Resources) -> Engine:
        """Open a table by a connection string and the name of the table, or by an Ibis table.

        DuckDB opens the tables of Ibis that are not in PostgreSQL.
        """
        if is_ibis_table(data):
            connection = find_connection(data)
            if connection is None:
                return open_elsewhere(data, resources)
            session = Session(connect_again(connection), resources)
        elif is_database_url(data):
            session = Session(connect(data), resources)
        else:
            raise DataError(
                f"the engine 'ibis' opens an Ibis table, or a connection string such as postgresql://USER@HOST/DATABASE, not a "
                f"{type(data).__name__}. Remove the engine, or load the data into the database."
            )
        try:
            if resources.target is not None:
                find_target(session, resources.target)
            given = is_ibis_table(data)
            query = compile_query(data) if given else select_table(session, find_table(session, resources.table))
            return cls(session, open_query(session, query), detected=Detected(resources.conventions), ibis=given)
        except BaseException:
            session.close()
            raise

    def encode(self, dictionaries: Mapping[str, Dictionary], *, carry: Sequence[str] | None = None) -> Self:
        """Return the same data with codes for the named columns; for a release, copy the columns that it needs."""
        self.session.begin()  # the source is read again where a run is repeated
        encoded = super().encode(dictionaries, carry=carry)
        return encoded if carry is None else encoded._stage()

    def _stage(self) -> Self:
        """Return the same data in a temporary table, and end the transaction that reads the source."""
        needed = dict.fromkeys(self.table.find(column) for column in (*self.codings, *(self.carry or ())))
        staged = self.session.store_query("staged", f"SELECT {', '.join(needed)} FROM {self.table.sql} s")
        self.table.refuse_miscounted(self.session.count_rows(staged))
        self.session.commit()
        return replace(self, table=replace(self.table, sql=staged), _cache={})

    def _store_release(self, query: str, release: ReleaseQuery) -> Self:
        """Store the released rows in a temporary table."""
        name = self.session.store_query("released", query)
        types = release.list_types(self.table.types)
        table = DatabaseTable.of(name, types, self.session.count_rows(name), self.table.format)
        return type(self)(self.session, table, detected=self.detected, styles=self.styles, ibis=self.ibis)

    def _number_records(self, divided: DividedRecords) -> str:
        return number_records(self.session, self.table, divided)

    def fingerprint(self) -> str:
        """Return a digest of the rows as a multiset."""
        if "fingerprint" not in self._cache:
            self._cache["fingerprint"] = fingerprint.digest_rows(self.table.names, self._hash_batches())
        return str(self._cache["fingerprint"])

    def _hash_batches(self) -> Iterator[UInt64Array]:
        for batch in self._batches(ordered=False):
            yield fingerprint.hash_rows(batch, len(next(iter(batch.values()))) if batch else 0)

    def _batches(self, *, ordered: bool) -> Iterator[dict[str, pa.ChunkedArray]]:
        """Yield the columns by their names, in batches; ``ordered``: in an order that depends on the content alone."""
        for column in self.table.names:
            self.table.refuse_unsupported(column)
        numbers = list(self.table.columns.values())
        order = f" ORDER BY {hash_of_row(numbers)}" if ordered else ""
        for batch in self.session.fetch_batches(f"SELECT {', '.join(numbers)} FROM {self.table.sql} s{order}"):
            arrays = zip(self.table.columns.items(), batch.columns, strict=True)
            yield {name: self.table.restore_type(name, array) for (name, _), array in arrays}

    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Stream the rows to a file, in an order that depends only on their content."""
        with table_files.explain_write_errors(path):
            return self._write_csv(path, escape_formulas) if format == "csv" else self._write_parquet(path)

    def _write_csv(self, path: Path, escape_formulas: bool) -> int:
        batches = ({name: a.combine_chunks() for name, a in batch.items()} for batch in self._batches(ordered=True))
        return table_files.write_csv_batches(batches, path, self.table.names, escape_formulas=escape_formulas)

    def _write_parquet(self, path: Path) -> int:
        schema = pa.schema([(name, self._stored_type(name)) for name in self.table.names])
        with pq.ParquetWriter(path, schema) as writer:
            for batch in self._batches(ordered=True):
                writer.write_table(pa.table({name: a.cast(schema.field(name).type) for name, a in batch.items()}))
        return 0

    def _stored_type(self, column: str) -> pa.DataType:
        """The type of a column in a file; numbers without declared digits get the digits that their values need."""
        kind = self.table.types[column]
        if not pa.types.is_decimal(kind) or kind.scale:
            return kind
        raw = self.table.find(column)
        ((digits,),) = self.session.fetch_rows(f"SELECT max(scale(trim_scale({raw}))) FROM {self.table.sql} s")
        return pa.decimal256(kind.precision, digits or 0) if kind.precision > 38 else kind

    def reopen(self, path: Path, written: Conventions | None = None) -> Engine:
        """Open a file that this engine wrote, with the engine for such files."""
        from shoal.engines import open_data

        return open_data(path, Resources(conventions=written or Conventions(), temp=self.session.resources.temp))

    def refuse_unwritable(self, target: TargetTable) -> None:
        """Raise an error if the role may not create the table, or a table of this name must not be replaced."""
        find_target(self.session, target)

    def write_table(self, target: TargetTable) -> WrittenTable:
        """Write the rows to a new table under a temporary name, and read it back; see `PendingTable`."""
        self.session.commit()
        pending = PendingTable.write(self.session, self.table, target)
        try:
            pending.engine = replace(self, table=pending.open(), _cache={})
            if pending.ranges:
                pending.fingerprint = replace(self, table=pending.open_plainly(), _cache={}).fingerprint()
        except BaseException:
            pending.abort()
            raise
        return pending

    def frame(self) -> Any:
        """Return an Ibis table where the user gave one; otherwise a frame, as for a file."""
        if self.ibis:
            return open_released(self.session, self.table)
        batches = [pa.table(batch) for batch in self._batches(ordered=True)]
        if not batches:
            empty = {name: pa.array([], self.table.types[name]) for name in self.table.names}
            return frames.to_native(pa.table(empty), None)
        return frames.to_native(pa.concat_tables(batches, promote_options="permissive"), None)
