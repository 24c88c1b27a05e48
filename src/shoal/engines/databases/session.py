"""A session with PostgreSQL: one connection, one snapshot of the source, and temporary tables that end with the session.

The session reads in a transaction of the isolation level REPEATABLE READ, so that every query sees the same records. `commit`
ends the transaction; temporary tables stay until the connection is closed.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.engines.databases.columns import DatabaseColumn, build_array, describe_columns, read_types, sql_type
from shoal.engines.databases.connection import explain_error
from shoal.engines.resources import Resources
from shoal.engines.sql import quote_name
from shoal.engines.sql.keys import Lookup
from shoal.engines.sql.session import SqlSession
from shoal.errors import EngineError
from shoal.work_folder import WorkFolder

BATCH = 1 << 16  # records that are fetched at a time
FEW_ROWS = 1000  # the planner needs no statistics of a table with fewer rows
COPY_ROWS = 1 << 14  # records that are sent at a time


class Session(SqlSession):
    """A connection of Shoal's own. Threads may share the session; their statements run one after another."""

    database = "PostgreSQL"

    def __init__(self, connection: Any, resources: Resources) -> None:
        self.connection = connection
        self.resources = resources
        self.close = weakref.finalize(self, _close, connection, os.getpid())
        self._prefix = f"shoal_{secrets.token_hex(4)}"
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._folders: list[WorkFolder] = []
        self._refuse_missing_rights()
        self.begin()

    def _refuse_missing_rights(self) -> None:
        """Raise an error before anything is read, if the role may not create temporary tables."""
        ((role, database, allowed, read_only),) = self.fetch_rows(
            "SELECT current_user::text, current_database()::text, has_database_privilege(current_database(), 'TEMP'), "
            "pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
        )
        if read_only:
            raise EngineError(
                f"the database {database!r} is read-only for the role {role!r}, as on a replica. Shoal needs temporary tables. "
                "Nothing was read. Connect to the primary server, or set default_transaction_read_only to off for this role."
            )
        if not allowed:
            raise EngineError(
                f"the role {role!r} may not create temporary tables in the database {database!r}, which Shoal needs to count "
                f"and recode records there. Nothing was read. Ask the administrator for: GRANT TEMPORARY ON DATABASE "
                f"{quote_name(database)} TO {quote_name(role)};"
            )

    @property
    def _is_idle(self) -> bool:
        return bool(self.connection.info.transaction_status.name == "IDLE")

    def new_folder(self) -> Path:
        """Return a new folder for the recodings of partitions; it is removed with the session, or when the program ends."""
        self._folders.append(self.resources.open_work_folder())
        folder = self._folders[-1].path / "parts"
        folder.mkdir()
        return folder

    def begin(self, *, snapshot: bool = True) -> None:
        """Begin a transaction, if none is open; with ``snapshot`` it sees one state of the database."""
        if self._is_idle:
            self.run("BEGIN ISOLATION LEVEL REPEATABLE READ" if snapshot else "BEGIN")

    def commit(self) -> None:
        """End the transaction; its temporary tables stay."""
        if not self._is_idle:
            self.run("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        with self._lock, suppress(Exception):
            if not self._is_idle:
                self.connection.execute("ROLLBACK")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock, explain_error():
            yield

    def new_name(self, prefix: str) -> str:
        """Return a name that no table has: temporary tables hide other tables of the same name."""
        return f"{self._prefix}_{prefix}_{next(self._numbers)}"

    def run(self, sql: str, parameters: Sequence[Any] | None = None) -> None:
        """Execute a statement."""
        with self._locked():
            self.connection.execute(sql, parameters)

    def fetch_rows(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a small query result."""
        with self._locked():
            rows: list[tuple[Any, ...]] = self.connection.execute(sql, parameters).fetchall()
            return rows

    def fetch_arrow(self, sql: str) -> pa.Table:
        """Return a query result as an Arrow table."""
        with self._locked(), self.connection.cursor(binary=True) as cursor:
            cursor.execute(sql)
            return _build_table(cursor.description, cursor.fetchall())

    def count_rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        ((rows,),) = self.fetch_rows(f"SELECT count(*) FROM {table}")
        return int(rows)

    def describe(self, query: str) -> list[DatabaseColumn]:
        """Return the columns of a query, given as an SQL expression for a table."""
        with self._locked():
            return describe_columns(self.connection, query)

    def fetch_batches(self, sql: str, size: int = BATCH) -> Iterator[pa.Table]:
        """Yield a query result in batches. Other statements may run in between, because the server keeps the result."""
        name = self.new_name("rows")
        self.run(f"DECLARE {name} NO SCROLL CURSOR WITH HOLD FOR {sql}")
        try:
            while True:
                batch = self.fetch_arrow(f"FETCH {size} FROM {name}")
                if batch.num_rows:
                    yield batch
                if batch.num_rows < size:
                    return
        finally:
            with suppress(EngineError):
                self.run(f"CLOSE {name}")

    def create_table(self, prefix: str, table: pa.Table) -> str:
        """Create a temporary table from an Arrow table, and return its name. The rows are not part of any SQL text."""
        name = self.new_name(prefix)
        types = ", ".join(f"{quote_name(f.name)} {_collated(sql_type(f.type))}" for f in table.schema)
        with self._locked():
            self.connection.execute(f"CREATE TEMP TABLE {name} ({types})")
            with self.connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for start in range(0, table.num_rows, COPY_ROWS):
                    columns = [column.to_pylist() for column in table.slice(start, COPY_ROWS).columns]
                    for row in zip(*columns, strict=True):
                        copy.write_row(row)
            if table.num_rows > FEW_ROWS:
                self.connection.execute(f"ANALYZE {name}")
        return name

    def store_query(self, prefix: str, sql: str) -> str:
        """Compute a query once, store its result in a temporary table, and return its name."""
        name = self.new_name(prefix)
        with self._locked():
            created = self.connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
            if created.rowcount > FEW_ROWS:
                self.connection.execute(f"ANALYZE {name}")
        return name

    def look_up(self, value: str, table: str, alias: str, column: str) -> Lookup:
        """Look up a value by equality, which PostgreSQL hashes; the result for NULL is read once from the table."""
        null = f"(SELECT n.{column} FROM {table} n WHERE n.raw IS NULL)"
        return Lookup(f"{value} = {alias}.raw", f"CASE WHEN {value} IS NULL THEN {null} ELSE {alias}.{column} END")

    def drop(self, *names: str) -> None:
        """Drop temporary tables."""
        for name in names:
            self.run(f"DROP TABLE IF EXISTS pg_temp.{name}")


def _collated(kind: str) -> str:
    return 'text COLLATE "C"' if kind == "text" else kind


def _build_table(description: Sequence[Any], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(description)
    pairs = zip(description, read_types(description), columns, strict=True)
    arrays = [build_array(values, kind, column.name) for column, kind, values in pairs]
    return pa.table(arrays, names=[column.name for column in description])


def _close(connection: Any, owner: int) -> None:
    if os.getpid() != owner:  # a forked child process must not end the session of its parent
        return
    with suppress(Exception, KeyboardInterrupt):
        connection.close()
