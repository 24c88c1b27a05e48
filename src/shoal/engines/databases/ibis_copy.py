"""The copy of columns of an Ibis table on this machine, which DuckDB recodes; memory holds one batch at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.engines import table_files
from shoal.engines.databases.ibis_source import IbisSource
from shoal.engines.duckdb import DuckEngine
from shoal.engines.protocol import Detected, Plan, TargetTable, WrittenTable
from shoal.engines.resources import Resources
from shoal.errors import EngineError, PolicyError
from shoal.work_folder import WorkFolder


def refuse_target(name: str, backend: str) -> PolicyError:
    """The error for a table that is to be written in a database where Shoal writes none."""
    return PolicyError(
        f"the released table cannot be written to the database table {name!r}: Shoal writes tables in PostgreSQL, but this "
        f"Ibis table is in {backend!r}. Remove table (--out-table), write the release to files, and load them there."
    )


@dataclass(frozen=True)
class CopyEngine(DuckEngine):
    """A copy of an Ibis table, or its released rows, in files that DuckDB reads; its frame is an Ibis table.

    ``backend`` is the name of the database of the Ibis table, and ``folder`` holds the files of the copy.
    """

    name: ClassVar[str] = "ibis"

    backend: str = field(default="", kw_only=True)
    folder: WorkFolder | None = field(default=None, kw_only=True, repr=False)

    @classmethod
    def of(cls, engine: DuckEngine, backend: str, folder: WorkFolder | None = None) -> Self:
        """The same table."""
        own = {f.name: getattr(engine, f.name) for f in fields(DuckEngine)}
        return cls(**own, backend=backend, folder=folder)

    def apply(self, plans: Iterable[Plan]) -> CopyEngine:
        """Return the released data; see `DuckEngine.apply`."""
        return CopyEngine.of(super().apply(plans), self.backend)

    def without(self, columns: Sequence[str]) -> CopyEngine:
        """Return the same rows, in the same order, without some columns."""
        return CopyEngine.of(super().without(columns), self.backend, self.folder)

    def refuse_unwritable(self, target: TargetTable) -> None:
        """Raise an error: Shoal writes no table in this database."""
        raise refuse_target(target.name, self.backend)

    def write_table(self, target: TargetTable) -> WrittenTable:
        """Raise an error: Shoal writes no table in this database."""
        raise refuse_target(target.name, self.backend)

    def frame(self) -> Any:
        """Return an Ibis table of DuckDB over the files."""
        import ibis

        relation = super().frame()
        schema = ibis.Schema.from_pyarrow(relation.limit(0).to_arrow_table().schema)
        connection = ibis.duckdb.connect()
        connection.raw_sql("SET TimeZone = 'UTC'")
        return connection.sql(relation.sql_query(), schema=schema)


def copy_table(source: IbisSource, resources: Resources) -> CopyEngine:
    """Copy all columns that can be grouped, for a database that cannot count them exactly; a note says so."""
    columns = [name for name in source.names if name not in source.unsupported]
    note = (
        f"The Ibis table is in {source.backend.name!r}, which may treat different texts as equal. Therefore all records were "
        "copied to a temporary file on this machine, and counted there."
    )
    detected = Detected(resources.conventions, (note,))
    return replace(copy_columns(source, columns, resources), detected=detected)


def copy_columns(source: IbisSource, columns: Sequence[str], resources: Resources) -> CopyEngine:
    """Copy columns of all records to a file, in batches, and open it."""
    parent = (resources.temp or Path(tempfile.gettempdir())).absolute()
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = WorkFolder(parent)
    except OSError as error:
        raise EngineError(
            f"cannot write temporary files to {str(parent)!r}: {error.strerror or error}. Set temp (--temp) to a folder in "
            "which you can write."
        ) from None
    path, rows = folder.path / "copied.parquet", 0
    schema = pa.schema([(column, source.types[column]) for column in columns])
    with table_files.explain_write_errors(path), pq.ParquetWriter(path, schema) as writer:
        for batch in source.stream(columns):
            rows += batch.num_rows
            writer.write_table(batch)
    source.refuse_miscounted(rows)
    return CopyEngine.of(DuckEngine.open(path, resources), source.backend.name, folder)
