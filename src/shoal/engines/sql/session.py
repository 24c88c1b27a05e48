"""The session of an SQL engine: it runs queries, stores their results, and knows the dialect of its database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.engines.resources import Resources
from shoal.engines.sql.keys import Lookup, look_up


class SqlSession(ABC):
    """A connection to a database, with the temporary tables of one run and the facts of the dialect that the base needs.

    `SqlEngine` writes its queries in standard SQL. It names columns by their numbers (``r0``, ``k0``, ``c0``…), so no query
    quotes a name of the user, and no helper column can have the name of a user's column.
    """

    resources: Resources
    database: str
    """The name of the database in error texts."""
    divide: str = "/"
    """The operator of integer division."""

    @abstractmethod
    def new_name(self, prefix: str) -> str:
        """Return a name that no table of the database has."""

    @abstractmethod
    def new_folder(self) -> Path:
        """Return a new folder of this machine for the recodings of partitions; it is removed with the session."""

    @abstractmethod
    def fetch_arrow(self, sql: str) -> pa.Table:
        """Return a query result: counted cells, dictionaries or figures, never all records."""

    def fetch_row(self, sql: str) -> tuple[Any, ...]:
        """Return the only row of a query result."""
        (row,) = self.fetch_arrow(sql).to_pylist()
        return tuple(row.values())

    @abstractmethod
    def create_table(self, prefix: str, table: pa.Table) -> str:
        """Create a temporary table from an Arrow table, and return its name."""

    @abstractmethod
    def store_query(self, prefix: str, sql: str) -> str:
        """Compute a query once, store its result in a temporary table, and return its name."""

    @abstractmethod
    def drop(self, *names: str) -> None:
        """Drop tables of this session that are no longer needed."""

    def look_up(self, value: str, table: str, alias: str, column: str) -> Lookup:
        """Look up a value in a table of values; see `keys.look_up`. A database may need another join to hash the values."""
        return look_up(value, table, alias, column)

    def is_nan(self, expression: str) -> str:
        """Return the SQL condition that a floating-point number is NaN."""
        return f"{expression} = CAST('NaN' AS DOUBLE PRECISION)"
