"""Resource limits of a run: the engine, the memory, and the folder for temporary files."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from shoal.engines.protocol import Engine, TargetTable
from shoal.errors import EngineError, PolicyError
from shoal.formats.conventions import Conventions
from shoal.registry import Registry
from shoal.work_folder import WorkFolder

ENGINES: Registry[type[Engine]] = Registry(
    "shoal.engines",
    "engine",
    {
        "memory": "shoal.engines.memory:MemoryEngine",
        "duckdb": "shoal.engines.duckdb:DuckEngine",
        "spark": "shoal.engines.spark:SparkEngine",
        "ibis": "shoal.engines.databases:DatabaseEngine",
    },
    base=Engine,
)
DATABASES = (".duckdb", ".ddb", ".db")  # suffixes of DuckDB database files

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
LEAST = 200 * 10**6  # bytes; sorting and writing a table needs at least this much memory
SHARE = 0.6  # of the machine's memory, the default limit
ASSUMED = 4 * 2**30  # bytes, the memory of a machine whose operating system does not report it
CELL = 180  # peak bytes that a search needs for each counted combination


@dataclass(frozen=True)
class Resources:
    """Limits of a run (see `parse_resources`), and how its source is read.

    ``conventions`` are those that the user names. ``numeric`` are the columns that are numbers or dates in the policy; they
    keep their numbers where a file has value labels. ``table`` is the name of the table in a database, and
    ``target`` the table that will be written there, which an engine refuses before it reads anything.
    """

    engine: str | None = None
    memory: int | None = None
    combinations: int | None = None
    temp: Path | None = None
    conventions: Conventions = field(default_factory=Conventions)
    numeric: tuple[str, ...] = ()
    table: str | None = None
    target: TargetTable | None = None

    @property
    def limits(self) -> list[str]:
        """The names of the limits that the user sets; only some engines respect them (`Engine.takes_limits`)."""
        return [name for name in ("memory", "combinations") if getattr(self, name) is not None]

    @property
    def budget(self) -> int:
        """The memory limit in bytes."""
        return self.memory or int(SHARE * read_machine_memory())

    @property
    def max_combinations(self) -> int:
        """The largest number of counted combinations in memory: they get half of the memory, the engine the other half."""
        return self.combinations or max(self.budget // 2 // CELL, 1)

    @property
    def temp_folder(self) -> Path:
        """The folder for temporary files, as an absolute path: programs may change their current folder."""
        return (self.temp or Path(tempfile.gettempdir())).absolute()

    def open_work_folder(self) -> WorkFolder:
        """Create a private folder in the folder for temporary files, which is created if there is none."""
        parent = self.temp_folder
        try:
            parent.mkdir(parents=True, exist_ok=True)
            return WorkFolder(parent)
        except OSError as error:
            raise EngineError(
                f"cannot write temporary files to {str(parent)!r}: {error.strerror or error}. Set temp (--temp) to a folder in "
                "which you can write."
            ) from None


def parse_resources(
    engine: str | None = None,
    memory: str | int | None = None,
    combinations: int | None = None,
    temp: str | Path | None = None,
    table: str | None = None,
) -> Resources:
    """Validate the limits that a user gives.

    Parameters
    ----------
    engine : ``memory``, ``duckdb`` or an engine of another package (default: chosen by the kind and size of the data)
    memory : the memory limit, as ``"4GB"``, ``"500MiB"`` or a number of bytes; only for engines that take limits
    combinations : the largest number of distinct combinations in memory; a table with more is searched in partitions
    temp : a folder for temporary files (default: the system's temporary folder)
    table : the name of the table in a database

    Examples
    --------
    >>> parse_resources(memory="2GB").memory
    2000000000
    """
    if engine is not None:
        ENGINES.find(engine)
    if combinations is not None and (type(combinations) is not int or combinations < 1):
        raise PolicyError(f"combinations must be a whole number of at least 1, not {combinations!r}.")
    size = None if memory is None else _parse_size(memory)
    return Resources(engine, size, combinations, None if temp is None else Path(temp), table=table)


def _parse_size(memory: str | int) -> int:
    size = memory if type(memory) is int else 0
    if isinstance(memory, str):
        match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([a-z]*)", memory.strip().lower())
        unit = UNITS.get(match[2] or "b") if match else None
        if match is None or unit is None:
            raise PolicyError(f"memory is a size such as '4GB' or '500MB', not {memory!r}.")
        size = int(float(match[1]) * unit)
    if size < LEAST:
        remedy = " Write a unit, such as 4GB." if str(memory).strip().isdigit() else ""
        raise PolicyError(f"memory must be at least {LEAST // 10**6}MB, not {memory!r}.{remedy}")
    return size


def read_machine_memory() -> int:
    """Return the memory of this machine or of its container, in bytes."""
    physical = _read_physical_memory()
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else ""
    return min(physical, int(text)) if text.isdigit() else physical


def _read_physical_memory() -> int:
    """The memory of this machine; `ASSUMED` if the operating system does not report it."""
    if hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if hasattr(ctypes, "windll"):
        status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
        if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
            return int(status.total_physical)
    return ASSUMED


class _MemoryStatus(ctypes.Structure):
    """The structure MEMORYSTATUSEX of Windows."""

    _fields_: ClassVar = [
        ("length", ctypes.c_uint32),
        ("memory_load", ctypes.c_uint32),
        ("total_physical", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 6),
    ]
