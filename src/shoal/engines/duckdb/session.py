"""A DuckDB session: a connection with resource limits, and a temporary folder that is removed at the end."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.resources import Resources
from shoal.engines.sql.session import SqlSession
from shoal.errors import EngineError
from shoal.formats.surrogates import is_utf8
from shoal.threads import CORES
from shoal.work_folder import WorkFolder

if TYPE_CHECKING:
    import duckdb


THREAD_MEMORY = 150 * 10**6  # bytes that one thread of DuckDB needs to sort and write
OFFLINE = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
_kept_sessions: list[
    Session
] = []  # the user holds relations of these sessions, so they stay open until the program ends


class Session(SqlSession):
    """A DuckDB connection that is separate from the user's connections, and a folder (mode 700) for temporary files.

    The folder holds raw data. It is removed with the session, at the latest when the program ends; see `WorkFolder` for
    programs that are killed.
    """

    database = "DuckDB"
    divide = "//"

    def __init__(self, resources: Resources) -> None:
        self.duckdb = _import_duckdb()
        self.resources = resources
        parent = resources.temp_folder
        if not is_utf8(parent):
            raise EngineError(
                f"the path {str(parent)!r} of the temporary folder is not valid UTF-8. Set temp (--temp) to another folder."
            )
        self.connection: duckdb.DuckDBPyConnection = self.duckdb.connect(config=OFFLINE)
        work = resources.open_work_folder()
        self.folder = work.path
        self.close = weakref.finalize(self, _close, self.connection, work, os.getpid())
        self._numbers = itertools.count()
        self._hash_functions: dict[KeyedHash, str] = {}
        self._kept: set[Path] = set()
        self._protected: list[tuple[weakref.ref[Any], frozenset[Path]]] = []
        spill = str(self.folder / "spill").replace("'", "''")
        memory = max(resources.budget // 2, 10**8)
        self.threads = max(min(CORES, memory // THREAD_MEMORY), 1)
        self.run(f"SET memory_limit = '{memory}B'; SET temp_directory = '{spill}'; SET threads = {self.threads}")
        self.run("SET preserve_insertion_order = false; SET TimeZone = 'UTC'; SET enable_progress_bar = false")

    def new_name(self, prefix: str) -> str:
        """Return a name that no table of this session has."""
        return f"{prefix}_{next(self._numbers)}"

    def new_path(self, prefix: str) -> Path:
        """Return an unused path in the temporary folder."""
        return self.folder / self.new_name(prefix)

    def new_folder(self) -> Path:
        """Return a new folder in the temporary folder."""
        folder = self.new_path("parts")
        folder.mkdir(mode=0o700)
        return folder

    def run(self, sql: str) -> None:
        """Execute a statement."""
        with explain_error():
            self.connection.execute(sql)

    def fetch_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a small query result."""
        with explain_error():
            return self.connection.execute(sql).fetchall()

    def fetch_row(self, sql: str) -> tuple[Any, ...]:
        """Return the only row of a query result."""
        (row,) = self.fetch_rows(sql)
        return row

    def count_rows(self, table: str) -> int:
        """Return the number of rows of an SQL expression for a table."""
        return int(self.fetch_row(f"SELECT count(*) FROM {table}")[0])

    def fetch_arrow(self, sql: str) -> pa.Table:
        """Return a query result as an Arrow table."""
        with explain_error():
            return self.connection.sql(sql).to_arrow_table()

    def create_table(self, prefix: str, table: pa.Table) -> str:
        """Create a temporary table from an Arrow table, and return its name."""
        with explain_error():
            self.connection.register("given", table)
            name = self.store_query(prefix, "SELECT * FROM given")
            self.connection.unregister("given")
        return name

    def store_query(self, prefix: str, sql: str) -> str:
        """Store the result of a query in a temporary table, and return its name."""
        name = self.new_name(prefix)
        self.run(f"CREATE TEMP TABLE {name} AS {sql}")
        return name

    def create_mix(self, keyed: KeyedHash) -> str:
        """Create the SQL function that computes `KeyedHash.mix`, and return its name; there is one for every key."""
        if keyed not in self._hash_functions:

            def mix(first: Any, second: Any) -> Any:
                return pa.array(keyed.mix(first.to_numpy(), second.to_numpy()), pa.uint64())

            name = self.new_name("mix")
            with explain_error():
                create: Any = self.connection.create_function
                create(name, mix, ["UBIGINT", "UBIGINT"], "UBIGINT", type="arrow")
            self._hash_functions[keyed] = name
        return self._hash_functions[keyed]

    def is_nan(self, expression: str) -> str:
        """Return the SQL condition that a floating-point number is NaN."""
        return f"isnan({expression})"

    def drop(self, *names: str) -> None:
        """Drop tables."""
        for name in names:
            self.run(f"DROP TABLE IF EXISTS {name}")

    def protect(self, owner: object, files: Sequence[Path]) -> None:
        """Exclude files from the removal by `keep_until_exit` while the owner exists."""
        self._protected.append((weakref.ref(owner), frozenset(files)))

    def keep_until_exit(self, kept: Sequence[Path]) -> None:
        """Keep the session open until the program ends, because the user holds a relation over these files.

        The other Parquet files of the session are removed, protected files with their owner.
        """
        if not self._kept:
            _kept_sessions.append(self)
        self._kept.update(kept)
        for file in self.folder.rglob("*.parquet"):
            if file in self._kept:
                continue
            owners = (reference() for reference, files in self._protected if file in files)
            owner = next((owner for owner in owners if owner is not None), None)
            if owner is None:
                file.unlink()
            else:
                weakref.finalize(owner, _remove_file, file, os.getpid()).atexit = False


@contextmanager
def explain_error() -> Iterator[None]:
    """Turn DuckDB's errors into Shoal's errors, without the data that they quote."""
    duckdb = _import_duckdb()
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        if os.environ.get("SHOAL_DEBUG"):
            raise
        raise _translate_error(error, duckdb) from None
    except RuntimeError as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


def _translate_error(error: Exception, duckdb: Any) -> EngineError:
    text = str(error)
    if "No space left" in text or "max_temp_directory_size" in text or "failed to offload" in text:
        return EngineError(
            "the disk is full: DuckDB cannot write its temporary files. Free disk space, or set temp to a folder on another "
            "disk."
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return OutOfMemory(
            "the memory limit is too small for this table. Raise memory, or lower combinations, so that the table is searched "
            "in smaller partitions."
        )
    message = next((words for name, words in ERROR_TEXTS.items() if isinstance(error, getattr(duckdb, name))), None)
    return EngineError(message or f"DuckDB failed with {type(error).__name__}. {HELP}")


class OutOfMemory(EngineError):
    """The memory limit is too small for a query."""


ERROR_TEXTS = {  # these replace DuckDB's messages, which quote the data
    "CatalogException": "a table that the data come from no longer exists. Open the data again.",
    "ConnectionException": "the database is closed, or open elsewhere with other settings. Pass the open connection.",
    "PermissionException": "the connection may not write files, which Shoal needs. Pass the path of the data instead.",
    "IOException": "DuckDB cannot read or write a file. Check that it exists, is complete and has the format of its suffix.",
    "ConversionException": "a value cannot be converted to the type of its column in the relation. Correct the query.",
    "OutOfRangeException": "a number is too large for the type of its column in the relation. Correct the query.",
    "InvalidInputException": "DuckDB cannot compute a column of the relation. Correct the query.",
}
HELP = "Set SHOAL_DEBUG=1 to see DuckDB's message, which may quote data, and report the error."


def _import_duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise EngineError("duckdb is not installed. Install it with: pip install duckdb") from None
    return duckdb


def _remove_file(file: Path, process: int) -> None:
    if os.getpid() == process:  # not in a forked child process
        with suppress(OSError):
            file.unlink()


def _close(connection: Any, work: WorkFolder, owner: int) -> None:
    if os.getpid() != owner:  # a forked child process
        return
    with suppress(Exception, KeyboardInterrupt):
        connection.close()
    work.remove()
