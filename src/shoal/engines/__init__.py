"""Engines that hold tables. Only this package imports frame libraries, and only on use, since loading them takes time."""

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
    KeyedOrder,
    Partitioning,
    Plan,
    Reading,
    Schema,
    UnchangedColumn,
    detect_format,
    digest_file,
)
from shoal.engines.resources import DATABASES, EngineName, Resources, parse_resources, read_machine_memory
from shoal.errors import DataError, is_utf8

__all__ = [
    "AS_PUBLISHED",
    "Column",
    "Counts",
    "Dictionary",
    "Distinct",
    "Engine",
    "Format",
    "GroupColumn",
    "KeyedOrder",
    "Partitioning",
    "Plan",
    "Reading",
    "Resources",
    "Schema",
    "UnchangedColumn",
    "build_frame",
    "detect_format",
    "digest_file",
    "open_data",
    "parse_resources",
]


def open_data(data: Any, resources: Resources | None = None) -> Engine:
    """Return the engine for a frame, the path of a file or folder, or a DuckDB connection or relation.

    Without an ``engine`` in ``resources``, single files are read into memory, except where a limit is set or the file needs
    more than half of the machine's memory. DuckDB reads folders, databases, connections and relations.
    """
    if type(data).__module__.startswith(__name__):  # an engine; reading attributes of a relation could execute it
        engine: Engine = data
        return engine
    if isinstance(data, (str, Path)) and not is_utf8(Path(data)):
        raise DataError(f"cannot read {str(data)!r}: the path is not valid UTF-8. Rename the file or its folder.")
    limits, data = resources or Resources(), _find_table(data)
    if (limits.engine or _choose_engine(data, limits)) == "memory":
        from shoal.engines.memory import MemoryEngine

        return MemoryEngine.open(data)
    from shoal.engines.duckdb import DuckEngine

    return DuckEngine.open(data, limits)


def _find_table(data: Any) -> Any:
    """Return the path of the table where ``data`` is the folder of a release."""
    if isinstance(data, (str, Path)) and (Path(data) / "certificate.json").is_file():
        return next(iter(sorted(Path(data).glob("table.*"))), data)
    return data


def _choose_engine(data: Any, limits: Resources) -> EngineName:
    if limits.memory or limits.combinations or type(data).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        return "duckdb"
    if isinstance(data, (str, Path)):
        from shoal.engines.table_files import estimate_size_in_memory

        path = Path(data)
        if path.is_dir() or path.suffix.lower() in DATABASES:
            return "duckdb"
        if path.is_file() and find_spec("duckdb") and estimate_size_in_memory(path) > read_machine_memory() // 2:
            return "duckdb"
    return "memory"


def build_frame(columns: Mapping[str, Column], kind: str | None = None) -> Any:
    """Build a frame from columns; see `frames.build_frame`."""
    from shoal.engines import frames

    return frames.build_frame(columns, kind)
