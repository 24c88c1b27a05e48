"""Released tables in PostgreSQL: written under a temporary name, read back, then renamed, in one transaction.

Other sessions see the table only after the transaction. If the connection is lost before, nothing stays.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from shoal.engines.databases.range_types import RangeColumn, convert_labels
from shoal.engines.databases.session import Session
from shoal.engines.databases.sources import LONGEST_NAME, DatabaseTable, TableName, open_query, parse_table_name
from shoal.engines.protocol import Engine, TargetTable, WrittenTable
from shoal.engines.sql import quote_name, quote_text
from shoal.engines.sql.table import SqlTable
from shoal.errors import EngineError, PolicyError

MARK = "Released by Shoal."  # the comment of a table that may be overwritten
PURPOSE = b"shoal row order"


class Target(NamedTuple):
    """The full name of the table to create, and whether it replaces a table."""

    name: TableName
    replaces: bool


def hash_of_row(columns: Sequence[str], key: str | None = None) -> str:
    """Return the SQL expression for a hash of the content of a row; ``key`` is an expression for bytes in front."""
    content = f"convert_to(ROW({', '.join(columns)})::text, 'UTF8')"
    return f"sha256({content if key is None else f'{key} || {content}'})"


def find_target(session: Session, target: TargetTable) -> Target:
    """Return the table to create; raise an error if the role may not create it, or may not replace a table of this name."""
    name = parse_table_name(target.name)
    _refuse_long(name.table, f"the table {name.table!r}")
    ((role, schema, found, allowed),) = session.fetch_rows(
        "SELECT current_user::text, n.nspname::text, n.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'CREATE'), false) "
        "FROM (SELECT coalesce(%s, current_schema()::text) AS asked) a LEFT JOIN pg_catalog.pg_namespace n "
        "ON n.nspname = asked",
        [name.schema],
    )
    if not found:
        missing = "its search path has no schema" if name.schema is None else f"there is no schema {name.schema!r}"
        raise EngineError(
            f"the role {role!r} cannot create the table {target.name!r}: {missing}. Nothing was read. Name a schema in which "
            "the role may create tables, as SCHEMA.TABLE."
        )
    if not allowed:
        raise EngineError(
            f"the role {role!r} may not create tables in the schema {schema!r}, so {target.name!r} cannot be written. Nothing "
            f"was read. Ask the administrator for: GRANT CREATE ON SCHEMA {quote_name(schema)} TO {quote_name(role)};"
        )
    full = TableName(schema, name.table, quoted=True)
    return Target(full, _find_replaced(session, full, target, role))


def _find_replaced(session: Session, name: TableName, target: TargetTable, role: str) -> bool:
    """Whether a table of this name is replaced; `EngineError` if it must not be."""
    rows = session.fetch_rows(
        "SELECT c.relkind::text, coalesce(obj_description(c.oid, 'pg_class'), ''), pg_has_role(c.relowner, 'USAGE') "
        "FROM pg_catalog.pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relname = %s",
        [quote_name(name.schema or ""), name.table],
    )
    if not rows:
        return False
    kind, comment, owned = rows[0]
    if kind != "r" or not comment.startswith(MARK):
        raise EngineError(
            f"{target.name!r} exists in the database and is not a table that Shoal released, so it is not overwritten. Choose "
            "another name."
        )
    if not target.overwrite:
        raise EngineError(
            f"the table {target.name!r} already exists in the database. Choose another name, or overwrite the release "
            "(overwrite=True, --force)."
        )
    if not owned:
        raise EngineError(
            f"the role {role!r} does not own the table {target.name!r}, so it cannot replace it. Use the role that wrote it."
        )
    return True


def _refuse_long(name: str, what: str) -> None:
    if len(name.encode()) > LONGEST_NAME:
        raise PolicyError(
            f"{what} has a name of more than {LONGEST_NAME} bytes, which PostgreSQL would cut off. Use a shorter name."
        )


class PendingTable(WrittenTable):
    """A table in an open transaction, under a temporary name."""

    def __init__(
        self,
        session: Session,
        target: Target,
        temporary: TableName,
        table: SqlTable,
        ranges: Mapping[str, RangeColumn],
    ) -> None:
        self.session, self.target, self.temporary, self.table = session, target, temporary, table
        self.ranges = ranges
        self.name = target.name.sql
        self.engine: Engine

    @classmethod
    def write(cls, session: Session, table: SqlTable, target: TargetTable) -> PendingTable:
        """Write the rows in the order of a keyed hash. The key is in a temporary table, not in any SQL text."""
        for column in table.names:
            _refuse_long(column, f"the column {column!r}")
            table.refuse_unsupported(column)
        found = find_target(session, target)
        temporary = TableName(found.name.schema, f"shoal_{secrets.token_hex(8)}", quoted=True)
        key = session.create_table("order", pa.table({"key": pa.array([target.hash.derive_key(PURPOSE)], pa.binary())}))
        pending = cls(session, found, temporary, table, convert_labels(session, table, target.ranges))
        try:
            session.begin(snapshot=False)
            order = hash_of_row([f"s.{number}" for number in table.columns.values()], f"(SELECT key FROM {key})")
            session.run(f"CREATE TABLE {temporary.sql} AS {pending._select()} ORDER BY {order}")
            session.drop(key)
            session.run(f"COMMENT ON TABLE {temporary.sql} IS {quote_text(MARK)}")
        except BaseException:
            pending.abort()
            raise
        return pending

    def _select(self) -> str:
        """Return the query for the released rows as they are written."""
        columns, joins = [], []
        for number, name in enumerate(self.table.names):
            raw = f"s.{self.table.find(name)}"
            if name in self.ranges:
                ranges = self.ranges[name]
                joins.append(f"LEFT JOIN {ranges.table} m{number} ON {raw} = m{number}.label")
                raw = f"m{number}.range::{ranges.kind}"
            elif pa.types.is_string(self.table.types[name]):
                raw = f'{raw} COLLATE "default"'
            columns.append(f"{raw} AS {quote_name(name)}")
        return f"SELECT {', '.join(columns)} FROM {self.table.sql} s {' '.join(joins)}"

    def open(self) -> DatabaseTable:
        """Open the written table with the labels and types of the released rows."""
        columns, joins = [], []
        for number, name in enumerate(self.table.names):
            raw = f"w.{quote_name(name)}"
            if name in self.ranges:
                ranges = self.ranges[name]
                joins.append(f"LEFT JOIN {ranges.table} m{number} ON {raw} = m{number}.range::{ranges.kind}")
                raw = f"m{number}.label"
            columns.append(f"{raw} AS {quote_name(name)}")
        query = f"SELECT {', '.join(columns)} FROM {self.temporary.sql} w {' '.join(joins)}"
        return replace(open_query(self.session, query), types=dict(self.table.types))

    def open_plainly(self) -> DatabaseTable:
        """Open the written table as recipients do."""
        columns = ", ".join(map(quote_name, self.table.names))
        return open_query(self.session, f"SELECT {columns} FROM {self.temporary.sql}")

    def commit(self) -> None:
        """Rename the table in place of an earlier one, and end the transaction."""
        if self.target.replaces:
            self.session.run(f"DROP TABLE {self.target.name.sql}")
        self.session.run(f"ALTER TABLE {self.temporary.sql} RENAME TO {quote_name(self.target.name.table)}")
        self.session.commit()

    def abort(self) -> None:
        """Undo the transaction, if it is still open."""
        with suppress(EngineError):
            self.session.rollback()
