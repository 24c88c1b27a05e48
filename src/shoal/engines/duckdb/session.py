"""The place where the DuckDB engine works: a connection with limits, and a folder that is gone when the work is done."""

from __future__ import annotations

import itertools
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.arrays import UInt64Array
from shoal.engines.resources import Resources
from shoal.errors import EngineError
from shoal.threads import CORES
from shoal.work_folder import WorkFolder

if TYPE_CHECKING:
    import duckdb


THREAD = 150 * 10**6  # bytes that one thread of DuckDB needs to sort and to write
OFFLINE = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
_lasting: list[Session] = []  # homes whose tables were handed out: they stay until the program ends


class Session:
    """A connection of its own, so that nothing of the user's is touched, and a folder (mode 700) for what is put aside.

    The folder holds raw data. It is removed when nobody needs it any more, at the latest when the program ends; see
    `WorkFolder` for programs that are killed.
    """

    def __init__(self, resources: Resources) -> None:
        self.duckdb = _duckdb()
        self.resources = resources
        parent = (resources.temp or Path(tempfile.gettempdir())).absolute()
        self.connection: duckdb.DuckDBPyConnection = self.duckdb.connect(config=OFFLINE)
        try:
            parent.mkdir(parents=True, exist_ok=True)
            work = WorkFolder(parent)
        except OSError as error:
            raise EngineError(
                f"cannot work in {str(parent)!r}: {error.strerror or error}; name a folder with temp"
            ) from None
        self.folder = work.path
        self.close = weakref.finalize(self, _close, self.connection, work, os.getpid())
        self._numbers = itertools.count()
        spill = str(self.folder / "spill").replace("'", "''")
        memory = max(resources.budget // 2, 10**8)
        self.threads = max(min(CORES, memory // THREAD), 1)
        self.run(f"SET memory_limit = '{memory}B'; SET temp_directory = '{spill}'; SET threads = {self.threads}")
        self.run("SET preserve_insertion_order = false; SET TimeZone = 'UTC'; SET enable_progress_bar = false")

    def fresh(self, word: str) -> str:
        """A name that no table here has."""
        return f"{word}_{next(self._numbers)}"

    def place(self, name: str) -> Path:
        """A path in the folder that nothing has."""
        return self.folder / self.fresh(name)

    def run(self, sql: str) -> None:
        """Carry out a statement."""
        with explain_error():
            self.connection.execute(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The few rows that a query gives."""
        with explain_error():
            return self.connection.execute(sql).fetchall()

    def arrow(self, sql: str) -> Any:
        """What a query gives, as an Arrow table."""
        with explain_error():
            return self.connection.sql(sql).to_arrow_table()

    def put(self, word: str, table: Any) -> str:
        """A table made of an Arrow table; its name."""
        name = self.fresh(word)
        with explain_error():
            self.connection.register("given", table)
            self.connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM given")
            self.connection.unregister("given")
        return name

    def function(self, word: str, pairs: Callable[[UInt64Array, UInt64Array], UInt64Array]) -> str:
        """A function in SQL on pairs of whole numbers of 64 bits; its name."""
        import pyarrow as pa

        def of_arrays(first: Any, second: Any) -> Any:
            return pa.array(pairs(first.to_numpy(), second.to_numpy()), pa.uint64())

        name = self.fresh(word)
        with explain_error():
            make: Any = self.connection.create_function
            make(name, of_arrays, ["UBIGINT", "UBIGINT"], "UBIGINT", type="arrow")
        return name

    def drop(self, *names: str) -> None:
        """Forget tables."""
        for name in names:
            self.run(f"DROP TABLE IF EXISTS {name}")

    def last(self, kept: Sequence[Path]) -> None:
        """Stay until the program ends with these files: somebody was handed a table that is made of them."""
        _lasting.append(self)
        for file in self.folder.rglob("*.parquet"):
            if file not in kept:
                file.unlink()


@contextmanager
def explain_error() -> Iterator[None]:
    """DuckDB's errors as ours, without what they quote from the data."""
    duckdb = _duckdb()
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        if os.environ.get("SHOAL_DEBUG"):
            raise
        raise _ours(error, duckdb) from None
    except RuntimeError as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


def _ours(error: Exception, duckdb: Any) -> EngineError:
    text = str(error)
    if "No space left" in text or "max_temp_directory_size" in text or "failed to offload" in text:
        return EngineError(
            "the disk is full: DuckDB cannot put aside what does not fit into memory; make room, or name another folder with "
            "temp"
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return OutOfMemory(
            "the memory limit is too small for this table; raise memory, or lower combinations so that it is worked on in "
            "smaller parts"
        )
    said = next((words for name, words in FAULTS.items() if isinstance(error, getattr(duckdb, name))), None)
    return EngineError(said or f"DuckDB could not do it: {type(error).__name__}; {HELP}")


class OutOfMemory(EngineError):
    """The memory is too small for what was asked."""


FAULTS = {  # what went wrong, without DuckDB's own text, which quotes the data
    "CatalogException": "a table that the data come from is not there any more; open it anew",
    "ConnectionException": "the database is closed, or open elsewhere with other settings; pass that connection",
    "PermissionException": "the connection may not write files, which Shoal needs; pass the path of the data instead",
    "IOException": "DuckDB cannot read or write a file; is it there, whole, and of the kind that its name says?",
    "ConversionException": "a value does not fit the type that the relation gives its column; mend the query",
    "OutOfRangeException": "a number is too large for the type that the relation gives its column; mend the query",
    "InvalidInputException": "DuckDB cannot compute a column of the relation; mend the query",
}
HELP = "set SHOAL_DEBUG=1 to see all, and report it"


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise EngineError("duckdb is not installed; install it with: pip install 'shoal[duckdb]'") from None
    return duckdb


def _close(connection: Any, work: WorkFolder, owner: int) -> None:
    if os.getpid() != owner:  # a child that was forked
        return
    with suppress(Exception, KeyboardInterrupt):
        connection.close()
    work.remove()
