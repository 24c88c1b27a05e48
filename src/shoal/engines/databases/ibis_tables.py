"""Ibis tables: recognized by their type, without importing Ibis, and compiled to SQL."""

from __future__ import annotations

from typing import Any

from shoal.engines.databases.ibis_copy import refuse_target
from shoal.engines.databases.ibis_engine import IbisEngine
from shoal.engines.databases.session import Session
from shoal.engines.protocol import Engine
from shoal.engines.resources import Resources
from shoal.engines.sql import quote_name
from shoal.engines.sql.table import SqlTable
from shoal.errors import DataError, EngineError, PolicyError

MODULE = "ibis.expr.types.relations"


def is_ibis_table(data: Any) -> bool:
    """Whether data are an Ibis table expression."""
    return any(kind.__module__ == MODULE and kind.__name__ == "Table" for kind in type(data).__mro__)


def find_connection(table: Any) -> Any:
    """Return the connection of an Ibis table in PostgreSQL; None for a table in another database."""
    backend = _find_backend(table)
    return backend.con if backend.name == "postgres" else None


def _find_backend(table: Any) -> Any:
    errors = _import_ibis().common.exceptions
    try:
        return table.get_backend()
    except errors.IbisError:
        raise DataError(
            "the Ibis table belongs to no database, or to several. Pass a table of one connection, such as "
            "ibis.postgres.connect(…).table(name)."
        ) from None


def open_elsewhere(table: Any, resources: Resources) -> Engine:
    """Open an Ibis table that is not in PostgreSQL; the database counts it, and no table is written there."""
    backend = _find_backend(table)
    if resources.target is not None:
        raise refuse_target(resources.target.name, backend.name)
    if resources.table is not None:
        raise PolicyError(
            f"table={resources.table!r} names a table of a database, but the data are an Ibis table, in {backend.name!r}. "
            "Remove table."
        )
    return IbisEngine.open(table, resources)


def compile_query(table: Any) -> str:
    """Return the SQL text of an Ibis table."""
    return str(_import_ibis().to_sql(table))


def open_released(session: Session, table: SqlTable) -> Any:
    """Return the released rows as an Ibis table: a temporary view, on the connection of the session."""
    view = session.new_name("view")
    columns = ", ".join(f"{number} AS {quote_name(name)}" for name, number in table.columns.items())
    session.run(f"CREATE TEMP VIEW {view} AS SELECT {columns} FROM {table.sql} s")
    session.commit()
    backend = _import_ibis().postgres.from_connection(session.connection)
    backend.shoal_session = session  # keeps the connection open
    return backend.table(view)


def _import_ibis() -> Any:
    try:
        import ibis
    except ImportError:
        raise EngineError("ibis is not installed. Install it with: pip install 'shoal[ibis]'") from None
    return ibis
