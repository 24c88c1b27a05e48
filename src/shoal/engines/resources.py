"""What a run may use: which engine, how much memory, where it may put what does not fit."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shoal.errors import PolicyError, list_choices

EngineName = Literal["memory", "duckdb"]
ENGINES: tuple[EngineName, ...] = ("memory", "duckdb")
DATABASES = (".duckdb", ".ddb", ".db")  # what DuckDB keeps its own tables in

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
LEAST = 200 * 10**6  # bytes below which no table can be sorted and written
SHARE = 0.6  # of the machine's memory, where nothing is said
CELL = 180  # bytes that a search holds for each counted combination, at its peak


@dataclass(frozen=True)
class Resources:
    """Limits of a run; see `resources_of`."""

    engine: EngineName | None = None
    memory: int | None = None
    combinations: int | None = None
    temp: Path | None = None

    @property
    def budget(self) -> int:
        """The memory that may be used, in bytes."""
        return self.memory or int(SHARE * machine_memory())

    @property
    def most(self) -> int:
        """How many counted combinations may be held at once: half of the memory is theirs, half the engine's."""
        return self.combinations or max(self.budget // 2 // CELL, 1)


def resources_of(
    engine: str | None = None,
    memory: str | int | None = None,
    combinations: int | None = None,
    temp: str | Path | None = None,
) -> Resources:
    """Limits as users give them.

    Parameters
    ----------
    engine : ``memory`` or ``duckdb``; by what the data are unless said
    memory : at most so much, as ``"4GB"``, ``"500MiB"`` or bytes; goes with ``duckdb``
    combinations : at most so many distinct combinations are held at once; more are worked on in parts
    temp : a folder for what does not fit into memory; the system's unless said

    Examples
    --------
    >>> resources_of(memory="2GB").memory
    2000000000
    """
    if engine is not None and engine not in ENGINES:
        raise PolicyError(f"unknown engine {engine!r}; {list_choices(engine, ENGINES)}")
    if combinations is not None and (type(combinations) is not int or combinations < 1):
        raise PolicyError(f"combinations must be a whole number of at least 1, not {combinations!r}")
    for name, value in (("memory", memory), ("combinations", combinations)):
        if value is not None and engine == "memory":
            raise PolicyError(f"{name} is a limit of the engine 'duckdb'; the engine 'memory' holds the whole table")
    size = None if memory is None else _bytes(memory)
    return Resources(engine, size, combinations, None if temp is None else Path(temp))


def _bytes(given: str | int) -> int:
    size = given if type(given) is int else 0
    if isinstance(given, str):
        found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([a-z]*)", given.strip().lower())
        unit = UNITS.get(found[2] or "b") if found else None
        if found is None or unit is None:
            raise PolicyError(f"memory is a size such as '4GB' or '500MB', not {given!r}")
        size = int(float(found[1]) * unit)
    if size < LEAST:
        raise PolicyError(f"memory must be at least {LEAST // 10**6}MB, not {given!r}")
    return size


def machine_memory() -> int:
    """The memory of this machine, or of the container it runs in."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else ""
    return min(found, int(text)) if text.isdigit() else found
