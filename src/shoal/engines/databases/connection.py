"""Connections to PostgreSQL: from a connection string without a password, and errors without data or passwords.

The password comes from where libpq finds it: the environment variable PGPASSWORD, the file ~/.pgpass, or a service file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shoal.engines.database_urls import refuse_password
from shoal.errors import DataError, EngineError

LOST = (
    "the connection to the database was lost. Nothing was released, and no table was changed. Check the server, and run "
    "again."
)
OWN = {"application_name": "shoal", "client_encoding": "UTF8"}
SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "row_security": "off",  # a policy on rows raises an error instead of hiding records
    "client_min_messages": "warning",
    "jit": "off",  # compiling a query takes longer than most of these queries
}
LOST_STATES = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04")  # the server ended the session
PLAIN_STATES = ("42501", "42P01", "3F000", "42P07", "25006", "0LP01")  # messages that quote names, never data
EXPLAINED = {
    "53100": "the disk of the database server is full. Free disk space, or set temp_tablespaces to another disk.",
    "53200": "the database server has too little memory for a query. Lower work_mem, or run again later.",
    "53400": "a limit of the database server is too small for a query, such as temp_file_limit. Raise the limit.",
    "57014": "the database server cancelled a query, as by statement_timeout. Raise the limit for this role, and run again.",
    "55P03": "another session holds a lock on the table. Run again when it is finished.",
    "40P01": "the database server ended a deadlock with another session. Run again.",
    "22P05": "the encoding of the database cannot store a published label. Use a database with the encoding UTF8.",
    "22008": "a column holds dates or times that cannot be read. Dates lie between the years 1 and 9999.",
}
HELP = "Set SHOAL_DEBUG=1 to see the message of the server, which may quote data, and report the error."


def import_psycopg() -> Any:
    """Return the module psycopg."""
    try:
        import psycopg
    except ImportError:
        raise EngineError("psycopg is not installed. Install it with: pip install 'shoal[ibis]'") from None
    return psycopg


def connect(url: str) -> Any:
    """Open a connection by a connection string without a password."""
    refuse_password(url)
    return _open(lambda psycopg: psycopg.connect(url, autocommit=True, **OWN))


def connect_again(connection: Any) -> Any:
    """Open another connection to the same database, because a run needs transactions of its own.

    The role and the search path of the given connection, which its session may have changed, are kept.
    """
    info = connection.info
    known = {**info.get_parameters(), **OWN}
    if info.password:
        known["password"] = info.password
    with explain_error():
        path, role = connection.execute("SELECT current_setting('search_path'), current_setting('role')").fetchone()
    again = _open(lambda psycopg: psycopg.connect(autocommit=True, **known))
    try:
        with explain_error():
            again.execute("SELECT set_config('search_path', %s, false), set_config('role', %s, false)", [path, role])
    except BaseException:
        again.close()
        raise
    return again


def _open(connect: Any) -> Any:
    psycopg = import_psycopg()
    try:
        connection = connect(psycopg)
    except psycopg.ProgrammingError:  # its text quotes the connection string
        raise DataError(
            "cannot read the connection string of the database. Write it as postgresql://USER@HOST:PORT/DATABASE, or as "
            "'postgresql:///?service=NAME'."
        ) from None
    except psycopg.Error as error:
        raise DataError(
            f"cannot connect to the database: {_hide_password(_first_line(error))}. Check the host, the port, the name of the "
            "database, the role and its password (PGPASSWORD, ~/.pgpass or a service file)."
        ) from None
    try:
        with explain_error():
            encoding = connection.info.parameter_status("server_encoding")
            if encoding == "SQL_ASCII":
                raise EngineError(
                    "the database has the encoding SQL_ASCII, so its texts cannot be read reliably. Use a database with the "
                    "encoding UTF8."
                )
            connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in SETTINGS.items()))
    except BaseException:
        connection.close()
        raise
    return connection


def _first_line(error: Exception) -> str:
    """The most telling line of an error of libpq, which may list several addresses."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".:") if lines else type(error).__name__


def _hide_password(text: str) -> str:
    password = os.environ.get("PGPASSWORD")
    return text.replace(password, "***") if password else text


@contextmanager
def explain_error() -> Iterator[None]:
    """Turn errors of psycopg into Shoal's errors, without the data that they quote."""
    psycopg = import_psycopg()
    try:
        yield
    except psycopg.Error as error:
        if os.environ.get("SHOAL_DEBUG"):
            raise
        raise _translate_error(error, psycopg) from None


def _translate_error(error: Any, psycopg: Any) -> Exception:
    state = error.sqlstate
    if state in LOST_STATES or (state is None and isinstance(error, psycopg.OperationalError)):
        return ConnectionLost(LOST)
    if state is not None and state.startswith("08"):
        return ConnectionLost(LOST)
    if state in EXPLAINED:
        return EngineError(EXPLAINED[state])
    if state in PLAIN_STATES:
        text = error.diag.message_primary
        if "row-level security" in text or "row security" in text:
            return EngineError(
                "the table has row-level security, so this role would see only some of its records. Use a role that sees all "
                "records (BYPASSRLS, or the owner of the table)."
            )
        return EngineError(f"the database refuses a statement: {text}. Check the table and the rights of the role.")
    if state is None and isinstance(error, psycopg.DataError):
        return DataError(EXPLAINED["22008"])
    return EngineError(f"PostgreSQL failed with the error {state or type(error).__name__}. {HELP}")


class ConnectionLost(EngineError):
    """The server or the network ended the connection."""
