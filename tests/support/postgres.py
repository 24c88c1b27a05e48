"""A real PostgreSQL server for tests: from Debian's packages, in a temporary folder, on a loopback port, without fsync.

The server asks for passwords (SCRAM). `server` starts it once per test process, at its first use, and stops it at the end.
"""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

USERS = ("postgres", "nobody")  # the server refuses to run as root
FOLDERS = "/usr/lib/postgresql/*/bin"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "32MB",
    "log_statement": "all",
    "max_connections": "60",
}
ADMIN = "steward"


@dataclass(frozen=True)
class Server:
    """A running server: where it listens, and the password of all its roles."""

    port: int
    folder: Path
    password: str = field(repr=False)

    def url(self, *, user: str = ADMIN, database: str = "postgres") -> str:
        """The connection string, without a password."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that a client needs."""
        return {"PGPASSWORD": self.password}

    @contextmanager
    def connect(self, *, database: str = "postgres") -> Iterator[Any]:
        """Open a connection of the superuser."""
        import psycopg

        with psycopg.connect(self.url(database=database), password=self.password, autocommit=True) as connection:
            yield connection

    def run(self, *statements: str, database: str = "postgres") -> None:
        """Execute statements."""
        with self.connect(database=database) as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, query: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.connect(database=database) as connection:
            return connection.execute(query).fetchall()

    def log(self) -> str:
        """Everything that the server logged, with every statement."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def ibis(self, *, database: str = "postgres") -> Any:
        """An Ibis connection of the superuser."""
        import ibis

        return ibis.postgres.connect(
            host="127.0.0.1", port=self.port, user=ADMIN, password=self.password, database=database
        )

    def upload(self, table: pa.Table, name: str = "given", *, database: str = "postgres") -> str:
        """Create a table with the rows of an Arrow table, and return its name."""
        with self.connect(database=database) as connection:
            columns = ", ".join(f"{_quote(c)} {_sql_type(table.schema.field(c).type)}" for c in table.column_names)
            connection.execute(f"DROP TABLE IF EXISTS {_quote(name)}")
            connection.execute(f"CREATE TABLE {_quote(name)} ({columns})")
            with connection.cursor().copy(f"COPY {_quote(name)} FROM STDIN") as copy:
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    copy.write_row(row)
        return name


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _sql_type(kind.value_type)
    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_floating(kind):
        return "double precision"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    return "text"


def explain_absence() -> str | None:
    """Why there is no server here; None where one can be started."""
    for module in ("psycopg", "ibis"):
        if find_spec(module) is None:
            return f"{module} is not installed: pip install 'shoal[ibis]'"
    if os.name != "posix" or _find_programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql), see `make test-engines`"
    if os.geteuid() == 0 and (_find_user() is None or shutil.which("setpriv") is None):
        return f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}, or no program setpriv"
    return None


@functools.cache
def _find_programs() -> Path | None:
    found = sorted(Path("/").glob(f"{FOLDERS[1:]}/initdb"), key=lambda path: path.parent.parent.name.zfill(4))
    beside = shutil.which("initdb")
    return found[-1].parent if found else Path(beside).parent if beside else None


def _find_user() -> Any:
    import pwd

    users = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next((users[name] for name in USERS if name in users), None)


@functools.cache
def start() -> Server:
    """Start the server of this process."""
    programs = _find_programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="shoal-postgres-"))
    prefix = _become_unprivileged()
    data, password = folder / "data", secrets.token_hex(12)
    (folder / "password").write_text(password)
    for path in (folder, folder / "password"):
        _give_away(path)

    def run(program: str, *arguments: str) -> None:
        command = [*prefix, str(programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, f"{program} failed: {done.stdout}{done.stderr}"

    secret = ["--auth=scram-sha-256", f"--pwfile={folder / 'password'}"]
    run(
        "initdb", f"--pgdata={data}", f"--username={ADMIN}", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", *secret
    )
    port = _find_port()
    settings = {**SETTINGS, "port": str(port), "unix_socket_directories": str(folder)}
    with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    with (folder / "log").open("wb") as log:  # a killed test process takes the server with it
        dies_with_us = ["setpriv", "--pdeathsig=QUIT", *prefix[1:]] if shutil.which("setpriv") else []
        command = [*dies_with_us, str(programs / "postgres"), "-D", str(data)]
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    atexit.register(_stop, process, folder)
    ready = [str(programs / "pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={port}"]
    while subprocess.run(ready, check=False).returncode:
        assert process.poll() is None, (folder / "log").read_text(errors="replace")
    return Server(port, folder, password)


def _become_unprivileged() -> list[str]:
    """The words before a command that run it as another user, if this user is root."""
    if os.geteuid() != 0:
        return []
    user = _find_user()
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _give_away(path: Path) -> None:
    if os.geteuid() == 0:
        user = _find_user()
        os.chown(path, user.pw_uid, user.pw_gid)


def _find_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _stop(process: subprocess.Popen[bytes], folder: Path) -> None:
    process.send_signal(signal.SIGQUIT)  # an immediate shutdown
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def require_server() -> Server:
    """The server of this process; skips the test where there is none."""
    absence = explain_absence()
    if absence is not None:
        pytest.skip(absence)
    return start()
