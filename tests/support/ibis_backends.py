"""Ibis tables in databases that need no server: SQLite, DuckDB and Polars."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

BACKENDS = ("sqlite", "duckdb", "polars")
DATABASES = ("sqlite", "duckdb")  # those that run SQL
SQLITE_TYPES = {
    pa.int64(): "INTEGER",
    pa.float64(): "REAL",
    pa.string(): "TEXT",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
}


def place_table(table: pa.Table, backend: str, path: Path | str | None = None) -> Any:
    """Return an Ibis table with the rows of an Arrow table, in a new database (default: in memory)."""
    import ibis

    if backend == "polars":
        import polars

        return ibis.polars.connect({"given": polars.from_arrow(table).lazy()}).table("given")
    if backend == "duckdb":
        connection = ibis.duckdb.connect(path or ":memory:")
        connection.con.register("arrow", table)
        connection.con.execute("CREATE TABLE given AS SELECT * FROM arrow")
        connection.con.unregister("arrow")
        return connection.table("given")
    connection = ibis.sqlite.connect(path)
    fill_sqlite(connection.con, table)
    return connection.table("given")


def fill_sqlite(connection: Any, table: pa.Table) -> None:
    """Create the table ``given``."""
    columns = ", ".join(f"{quote(f.name)} {SQLITE_TYPES[f.type]}" for f in table.schema)
    connection.execute(f"CREATE TABLE given ({columns})")
    marks = ", ".join("?" * table.num_columns)
    rows = zip(*([_store(v) for v in column.to_pylist()] for column in table.columns), strict=True)
    connection.executemany(f"INSERT INTO given VALUES ({marks})", rows)
    connection.commit()


def _store(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date) else value


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
