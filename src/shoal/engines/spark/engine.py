"""The engine for Spark. Spark counts, joins and writes the records on its workers; the driver gets dictionaries and cells.

The user's DataFrame is read as it is, several times: for its number of rows, its distinct values, its cells, and its release.
Released rows are stored as Parquet files in a scratch folder, in the order of a hash of their published values. So the audit,
the written files and `frame` have the same rows, whatever happens to the source or to a worker meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from shoal.engines import table_files
from shoal.engines.protocol import Counts, Format, detect_format, digest_file
from shoal.engines.resources import Resources
from shoal.engines.spark.output import StoredRows, copy_files, count_files, partition_rows, store_rows, write_file
from shoal.engines.spark.session import Session, explain_error, find_session
from shoal.engines.spark.sources import Source, is_dataframe, open_arrow, open_parquet, open_source
from shoal.engines.spark.worker import (
    DigestFiles,
    DigestRows,
    HashEqualRecords,
    HashRecords,
    SearchPartition,
    WorkerColumns,
    read_digests,
    read_result,
)
from shoal.engines.sql.engine import SqlEngine
from shoal.engines.sql.partition_tree import partition_expression
from shoal.engines.sql.release_query import DividedRecords, ReleaseQuery
from shoal.engines.sql.table import SqlTable, number_columns
from shoal.formats.conventions import Conventions


@dataclass(frozen=True)
class SparkEngine(SqlEngine):
    """A table that Spark reads, with the codes of the encoded columns.

    ``stored`` are the files of released rows. ``is_folder`` and ``partition_columns`` are those of `Source`.
    """

    name: ClassVar[str] = "spark"
    takes_limits: ClassVar[bool] = True

    session: Session
    is_folder: bool = True
    partition_columns: tuple[str, ...] = ()
    stored: StoredRows | None = field(default=None, repr=False)

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """Whether data are a DataFrame of Spark."""
        return is_dataframe(data)

    @classmethod
    def open(cls, data: Any, resources: Resources) -> SparkEngine:
        """Open a DataFrame of Spark, a frame, a file, or a folder of Parquet files."""
        user = data.sparkSession if is_dataframe(data) else find_session()
        session = Session(user, resources)
        try:
            return cls._of(session, open_source(data, session))
        except BaseException:
            session.close()
            raise

    @classmethod
    def _of(cls, session: Session, source: Source) -> SparkEngine:
        return cls(
            session,
            source.table,
            detected=source.detected,
            is_folder=source.is_folder,
            partition_columns=source.partition_columns,
        )

    def map_partitions(
        self, search: Callable[[int, Counts], Any], quasi: Sequence[str], sensitive: Sequence[str], partitions: int
    ) -> Iterator[tuple[Counts, Any]]:
        """Count and search all partitions; the workers search several partitions at a time.

        The results are stored in the scratch folder. The driver reads the cells and the result of one partition at a time.
        """
        cells = self._count_cells(quasi, sensitive)
        if cells.partitioning.partitions == 1:
            yield from super().map_partitions(search, quasi, sensitive, partitions)
            return
        worker = SearchPartition(cells.keys, len(quasi), search)
        number = partition_expression(cells.keys, cells.partitioning)
        with explain_error():
            numbered = self.session.query(f"SELECT *, CAST({number} AS INT) AS p FROM {cells.sql}")
            by_partition = numbered.repartition(partitions, "p").groupBy("p")
            results = by_partition.applyInArrow(lambda table: worker(table), "p INT, result BINARY")
            view = self.session.store_frame("results", results)
        for partition in range(partitions):
            counts = self.count(quasi, sensitive, partition=partition)
            result = self.session.fetch_arrow(f"SELECT result FROM {view} WHERE p = {partition}")
            yield counts, read_result(result)
        self.session.drop(view)

    def _number_records(self, divided: DividedRecords) -> str:
        """Number the records of divided cells; the workers compute the keyed hashes."""
        records, order, session = divided.records, divided.order, self.session
        keys, names = records.keys, [*records.keys.names, *records.names]
        numbers = {column: records.name(column) for column in order.columns}
        columns = WorkerColumns(numbers, {column: self.table.types[column] for column in numbers})
        with explain_error():
            given = session.query(f"SELECT s.*, h FROM {divided.sql} s JOIN {divided.hashes} USING ({keys.name_list})")
            given = given.select(*names, "h")
            hashed = given.mapInArrow(HashRecords(order.hash, columns), _schema(given, names, "h_"))
        view = session.name_view("hashed", hashed)
        by = ", ".join(keys.names)
        equal = session.query(
            f"SELECT *, CAST(row_number() OVER (PARTITION BY {by}, h_ ORDER BY h_) - 1 AS BIGINT) AS e_ FROM {view}"
        )
        with explain_error():
            ordered = equal.mapInArrow(HashEqualRecords(order.hash), _schema(given, names, "m_"))
        view = session.name_view("ordered", ordered)
        return f"(SELECT *, CAST(row_number() OVER (PARTITION BY {by} ORDER BY m_) AS BIGINT) AS o FROM {view})"

    def _store_release(self, query: str, release: ReleaseQuery) -> SparkEngine:
        """Store the released rows in files."""
        types = release.list_types(self.table.types)
        frame = self.session.query(query)
        stored = store_rows(self.session, frame, types, release.visible, self._count_files(release.records))
        return self._with_rows(stored)

    def _count_files(self, records: int) -> int:
        return count_files(records) if self.is_folder else 1

    def _with_rows(self, stored: StoredRows) -> SparkEngine:
        """Return an engine for released rows of the same source."""
        with explain_error():
            frame = stored.read()
            rows = frame.count()
        view = self.session.name_view("released", frame.toDF(*number_columns(len(stored.types))))
        table = SqlTable.of(view, stored.types, rows, self.table.format)
        kept = tuple(name for name in self.partition_columns if name in stored.types)
        return SparkEngine(
            self.session,
            table,
            detected=self.detected,
            styles=self.styles,
            is_folder=self.is_folder,
            partition_columns=kept,
            stored=stored,
        )

    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Copy the files of the released rows to ``path``, or write their rows in the same order to one file."""
        if format == "csv":
            rows = self._store_visible().batches(self.table.names)
            return table_files.write_csv_batches(rows, path, self.table.names, escape_formulas=escape_formulas)
        stored = self._store_visible()
        with table_files.explain_write_errors(path):
            if not self.is_folder:
                write_file(stored, path, self.table.names)
                return 0
            if self.partition_columns:
                stored = partition_rows(stored, self.partition_columns)
            copy_files(stored, path)
        self._cache["written"] = stored
        return 0

    def write_like_input(self, path: Path, *, escape_formulas: bool = True) -> tuple[int, Conventions]:
        """Write a CSV file in the conventions of the source."""
        names, rows = self.table.names, self._store_visible().batches(self.table.names)
        written, formats = table_files.describe_output(self.detected, self.styles, names)
        changed = table_files.write_csv_batches(
            rows, path, names, escape_formulas=escape_formulas, written=written, formats=formats
        )
        return changed, written

    def _store_visible(self) -> StoredRows:
        """Return files with the columns of this table, without hidden ones; they are written on first use."""
        if self.stored is not None and tuple(self.stored.types) == self.table.names:
            return self.stored
        if "stored" not in self._cache:
            types = self.table.types
            selected = ", ".join(f"{name} AS r{i}" for i, name in enumerate(self.table.columns.values()))
            frame = self.session.query(f"SELECT {selected} FROM {self.table.sql}")
            files = self._count_files(self.table.rows)
            self._cache["stored"] = store_rows(self.session, frame, types, self.table.names, files)
        stored: StoredRows = self._cache["stored"]
        return stored

    def reopen(self, path: Path, written: Conventions | None = None) -> SparkEngine:
        """Open a file or folder that this engine wrote, in the same session; return self where the bytes are the same."""
        if path.is_dir():
            copied: StoredRows | None = self._cache.get("written")
            if copied is not None and _digest(copied.files) == _digest(sorted(path.rglob("*.parquet"))):
                return self if copied is self.stored else self._with_rows(copied)
            return SparkEngine._of(self.session, open_parquet(path, self.session))
        formats = table_files.describe_output(self.detected, self.styles, self.table.names)[1] if written else None
        table, detected = table_files.read_table(path, written or Conventions(), formats=formats)
        return SparkEngine._of(self.session, open_arrow(table, self.session, detected, detect_format(path)))

    def fingerprint(self) -> str:
        """Return a digest of the rows as a multiset: the workers digest their rows, the driver adds the digests."""
        if "fingerprint" not in self._cache:
            with explain_error():
                frame, worker = self._digest_stored() or self._digest_table()
                digests = frame.mapInArrow(worker, "n BIGINT, d0 BIGINT, d1 BIGINT, d2 BIGINT").toArrow()
            self._cache["fingerprint"] = read_digests(digests).finish(self.table.names)
        return str(self._cache["fingerprint"])

    def _digest_table(self) -> tuple[Any, DigestRows]:
        """Return a DataFrame of the rows, and the function that digests them."""
        names = ", ".join(self.table.columns.values()) or "1 AS none"
        frame = self.session.query(f"SELECT {names} FROM {self.table.sql}")
        return frame, DigestRows(WorkerColumns(dict(self.table.columns), dict(self.table.types)))

    def _digest_stored(self) -> tuple[Any, DigestFiles] | None:
        """Return a DataFrame of the paths of stored files, and the function that digests them; None if there are none."""
        paths = None if self.stored is None else self.stored.shared_files()
        if not paths:
            return None
        frame = self.session.spark.createDataFrame(pa.table({"path": paths})).repartition(len(paths))
        return frame, DigestFiles(WorkerColumns({name: name for name in self.table.names}, dict(self.table.types)))

    def without(self, columns: Sequence[str]) -> SparkEngine:
        """Return the same rows without some columns."""
        kept = tuple(name for name in self.partition_columns if name not in columns)
        return replace(super().without(columns), partition_columns=kept)

    def frame(self) -> Any:
        """Return a DataFrame of the user's session over the stored rows."""
        stored = self._store_visible()
        self.session.keep_until_exit()
        return stored.read(own=False)


def _schema(frame: Any, names: Sequence[str], added: str) -> Any:
    """The schema of some columns of a DataFrame, and a column of hashes."""
    return frame.select(*names).schema.add(added, "long")


def _digest(files: Sequence[Path]) -> list[str]:
    return sorted(map(digest_file, files))
