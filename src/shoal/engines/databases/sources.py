"""The source of the database engine: a table or view by its name, or the query of an Ibis table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from shoal.engines.databases.columns import DatabaseColumn
from shoal.engines.databases.session import Session
from shoal.engines.sql import quote_name
from shoal.engines.sql.table import SqlTable, number_columns
from shoal.errors import DataError, EngineError, PolicyError, list_choices

LONGEST_NAME = 63  # bytes; PostgreSQL cuts longer names off
TABLES = "'r', 'v', 'm', 'p', 'f'"  # tables, views, materialized views, partitioned and foreign tables


class TableName(NamedTuple):
    """The name of a table, and its schema if the user names one; a part without quotes may be in lower case in the database."""

    schema: str | None
    table: str
    quoted: bool = False

    @property
    def sql(self) -> str:
        """The name as an SQL identifier."""
        return ".".join(quote_name(part) for part in (self.schema, self.table) if part is not None)


@dataclass(frozen=True)
class DatabaseTable(SqlTable):
    """A table in PostgreSQL; ``unsupported`` has the database types of columns that cannot be grouped."""

    unsupported: Mapping[str, str] = field(default_factory=dict)

    def refuse_unsupported(self, column: str) -> None:
        """Raise an error for a column that cannot be grouped."""
        if column in self.unsupported:
            raise DataError(
                f"column {column!r} holds {self.unsupported[column]} values, which cannot be grouped. Convert the column to "
                "text or numbers in a view, or leave it out of the policy."
            )
        super().refuse_unsupported(column)


def parse_table_name(text: str) -> TableName:
    """Read the name of a table as in SQL: ``patients``, ``clinic.patients``, ``clinic."Odd.Name"``.

    >>> parse_table_name('clinic."Odd.Name"')
    TableName(schema='clinic', table='Odd.Name', quoted=True)
    """
    parts: list[tuple[str, bool]] = []
    rest = text.strip()
    while rest or not parts:
        quoted = rest.startswith('"')
        end = _find_quote(rest) if quoted else rest.find(".") % (len(rest) + 1)
        part = rest[1:end].replace('""', '"') if quoted else rest[:end].strip()
        ended = end < len(rest) if quoted else '"' not in part
        rest = rest[end + quoted :]
        if not part or not ended or (rest and not rest.startswith(".")) or rest == ".":
            raise _explain_name(text)
        parts.append((part, quoted))
        rest = rest[1:]
    if len(parts) > 2:
        raise _explain_name(text)
    schema = parts[0][0] if len(parts) == 2 else None
    return TableName(schema, *parts[-1])


def _find_quote(text: str) -> int:
    """The place of the quote that ends a quoted name; the end of the text if there is none."""
    place = 1
    while (place := text.find('"', place)) >= 0:
        if text[place + 1 : place + 2] != '"':
            return place
        place += 2
    return len(text)


def _explain_name(text: str) -> PolicyError:
    return PolicyError(
        f"{text!r} is not the name of a table. Write TABLE or SCHEMA.TABLE; put a name with dots or quotes in double quotes, "
        'as clinic."Odd.Name".'
    )


def find_table(session: Session, text: str | None) -> TableName:
    """Return the full name of the table that the user names; an error lists the tables of the database."""
    if text is None:
        raise PolicyError(
            f"the connection string names a database with several tables. Name the table (table=, --table); "
            f"{list_choices('', _list_tables(session, None))}."
        )
    name = parse_table_name(text)
    for schema, table in _spellings(name):
        query = (
            "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = "
            f"c.relnamespace WHERE c.relkind IN ({TABLES}) AND c.relname = %s AND "
            + ("n.nspname = %s" if schema else "pg_catalog.pg_table_is_visible(c.oid)")
        )
        found = session.fetch_rows(query, [table, schema] if schema else [table])
        if found:
            return TableName(found[0][0], found[0][1], quoted=True)
    raise DataError(f"the database has no table {text!r}; {list_choices(text, _list_tables(session, name.schema))}.")


def _spellings(name: TableName) -> list[tuple[str | None, str]]:
    """The name as written, then in lower case, as SQL reads a name without quotes."""
    lower = None if name.schema is None else name.schema.lower()
    exact = (name.schema, name.table)
    return [exact] if name.quoted else [exact, (lower, name.table.lower())]


def _list_tables(session: Session, schema: str | None) -> list[str]:
    """The tables that the role may read, in the schema or on the search path."""
    rows = session.fetch_rows(
        f"SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = "
        f"c.relnamespace WHERE c.relkind IN ({TABLES}) AND n.nspname <> ALL(ARRAY['pg_catalog', 'information_schema']) "
        "AND n.nspname !~ '^pg_(toast|temp)' AND has_schema_privilege(n.oid, 'USAGE') "
        "AND (%s::text IS NULL OR n.nspname = %s) ORDER BY 1, 2",
        [schema, schema],
    )
    return [table if own == "public" else f"{own}.{table}" for own, table in rows]


def select_table(session: Session, name: TableName) -> str:
    """Return the query for the columns of a table that the role may read; an error names the missing right."""
    ((role, allowed),) = session.fetch_rows(
        "SELECT current_user::text, has_schema_privilege(%s::text, 'USAGE')", [name.schema]
    )
    if not allowed:
        raise _explain_right(f"use the schema {name.schema!r}", "USAGE ON SCHEMA", quote_name(name.schema or ""), role)
    rows = session.fetch_rows(
        "SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT "
        "a.attisdropped AND has_column_privilege(a.attrelid, a.attnum, 'SELECT') ORDER BY a.attnum",
        [name.sql],
    )
    if not rows:
        raise _explain_right(f"read the table {name.table!r}", "SELECT ON", name.sql, role)
    columns = ", ".join(quote_name(column) for (column,) in rows)
    return f"SELECT {columns} FROM {name.sql}"


def _explain_right(act: str, right: str, thing: str, role: str) -> EngineError:
    return EngineError(
        f"the role {role!r} may not {act}. Nothing was read. Ask the administrator for: GRANT {right} {thing} TO "
        f"{quote_name(role)};"
    )


def open_query(session: Session, query: str) -> DatabaseTable:
    """Open the rows of a query as a table, with its columns numbered."""
    columns = session.describe(f"({query})")
    _refuse_names(columns)
    numbers = number_columns(len(columns))
    listed = ", ".join(f"{column.read} AS {number}" for column, number in zip(columns, numbers, strict=True))
    names = [column.name for column in columns]
    types = {column.name: column.arrow or pa.null() for column in columns}
    unsupported = {column.name: column.kind for column in columns if column.arrow is None}
    rows = session.count_rows(f"({query}) given")
    sql = f"(SELECT {listed} FROM ({query}) given)"
    return DatabaseTable(sql, dict(zip(names, numbers, strict=True)), types, rows, unsupported=unsupported)


def _refuse_names(columns: Sequence[DatabaseColumn]) -> None:
    names = [column.name for column in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"the query has two columns with the name {twice!r}. Rename one of them.")
