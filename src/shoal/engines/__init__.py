"""Where the data live. The only room that imports a frame library, and only when it is used: loading them takes time."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shoal.engines.protocol import (
    AS_PUBLISHED,
    Column,
    Counts,
    Dictionary,
    Distinct,
    Engine,
    Format,
    GroupColumn,
    KeptColumn,
    KeyedOrder,
    Partitioning,
    Plan,
    Reading,
    Schema,
    digest_of,
    format_of,
)
from shoal.engines.resources import DATABASES, EngineName, Resources, machine_memory, resources_of

__all__ = [
    "AS_PUBLISHED",
    "Column",
    "Counts",
    "Dictionary",
    "Distinct",
    "Engine",
    "Format",
    "GroupColumn",
    "KeptColumn",
    "KeyedOrder",
    "Partitioning",
    "Plan",
    "Reading",
    "Resources",
    "Schema",
    "digest_of",
    "format_of",
    "frame_of",
    "open_data",
    "resources_of",
]


def open_data(data: Any, resources: Resources | None = None) -> Engine:
    """The engine for what the user passed: a frame, the path of a file or folder, a DuckDB connection or relation.

    The choice between engines is the user's only for files; they are read into memory unless a limit is set, or they are
    much too large for it. What DuckDB holds stays there.
    """
    if type(data).__module__.startswith(__name__):  # an engine already; to ask a relation for its attributes may run it
        engine: Engine = data
        return engine
    wanted, data = resources or Resources(), _table_of(data)
    if (wanted.engine or _suited(data, wanted)) == "memory":
        from shoal.engines.memory import MemoryEngine

        return MemoryEngine.open(data)
    from shoal.engines.duckdb import DuckEngine

    return DuckEngine.open(data, wanted)


def _table_of(data: Any) -> Any:
    """The table of a release, where its folder was passed."""
    if isinstance(data, (str, Path)) and (Path(data) / "certificate.json").is_file():
        return next(iter(sorted(Path(data).glob("table.*"))), data)
    return data


def _suited(data: Any, wanted: Resources) -> EngineName:
    if wanted.memory or wanted.combinations or type(data).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        return "duckdb"
    if isinstance(data, (str, Path)):
        from shoal.engines.table_files import size_in_memory

        path = Path(data)
        if path.is_dir() or path.suffix.lower() in DATABASES:
            return "duckdb"
        if path.is_file() and find_spec("duckdb") and size_in_memory(path) > machine_memory() // 2:
            return "duckdb"
    return "memory"


def frame_of(columns: Mapping[str, Column], kind: str | None = None) -> Any:
    """A frame of the asked-for library, made from columns; see `frames.frame_of`."""
    from shoal.engines import frames

    return frames.frame_of(columns, kind)
