"""Engines that hold tables. Only this package imports frame libraries, and only on use, since loading them takes time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shoal.engines.database_urls import is_database_url, refuse_password
from shoal.engines.protocol import (
    AS_PUBLISHED,
    Column,
    Counts,
    Detected,
    Dictionary,
    Distinct,
    Engine,
    Format,
    GroupColumn,
    HiddenColumn,
    KeyedOrder,
    Partitioning,
    Plan,
    Reading,
    Schema,
    TargetTable,
    UnchangedColumn,
    WrittenTable,
    detect_format,
    digest_file,
    explain_no_database,
)
from shoal.engines.resources import ENGINES, Resources, parse_resources, read_machine_memory
from shoal.errors import DataError, PolicyError
from shoal.formats.conventions import Conventions
from shoal.formats.surrogates import is_utf8

__all__ = [
    "AS_PUBLISHED",
    "ENGINES",
    "Column",
    "Conventions",
    "Counts",
    "Detected",
    "Dictionary",
    "Distinct",
    "Engine",
    "Format",
    "GroupColumn",
    "HiddenColumn",
    "KeyedOrder",
    "Partitioning",
    "Plan",
    "Reading",
    "Resources",
    "Schema",
    "TargetTable",
    "UnchangedColumn",
    "WrittenTable",
    "build_frame",
    "detect_format",
    "digest_file",
    "open_data",
    "parse_resources",
]

LIMITED = "duckdb"  # the built-in engine that takes limits
CERTIFICATE = "certificate.json"  # in the folder of a release; says how its table is written


def open_data(data: Any, resources: Resources | None = None) -> Engine:
    """Return the engine for a frame, the path of a file or folder, a DuckDB relation, a database, or data of a plug-in.

    Without an ``engine`` in ``resources``, single files are read into memory, except where a limit is set or the file needs
    more than half of the machine's memory. DuckDB reads folders, databases, connections and relations. Engines of other
    packages are asked for any other data (`Engine.accepts`). A connection string is for the engine ``ibis``.
    """
    if issubclass(type(data), Engine):  # by its type, since reading attributes of a relation could execute it
        engine: Engine = data
        return engine
    if is_database_url(data):
        refuse_password(data)
    elif isinstance(data, (str, Path)) and not is_utf8(Path(data)):
        raise DataError(f"cannot read {str(data)!r}: the path is not valid UTF-8. Rename the file or its folder.")
    given, data = resources or Resources(), _find_table(data)
    given = replace(given, conventions=_read_release_conventions(data) or given.conventions)
    chosen = ENGINES.find(given.engine) if given.engine else _choose_engine(data, given)
    if given.limits and not chosen.takes_limits:
        name = given.limits[0]
        raise PolicyError(
            f"{name} is a limit of the engine {LIMITED!r}; the engine {chosen.name!r} takes no limits. Use engine={LIMITED!r}, "
            f"or remove {name}."
        )
    if given.table is not None and not chosen.takes_table:
        raise PolicyError(
            f"table={given.table!r} (--table) names a table of a database, but the data are for the engine {chosen.name!r}. "
            "Give the connection string of a database, such as postgresql://USER@HOST/DATABASE, or remove table."
        )
    if given.target is not None and not chosen.takes_table:
        raise explain_no_database(given.target, chosen.name)
    return chosen.open(data, given)


def _find_table(data: Any) -> Any:
    """Return the path of the table where ``data`` is the folder of a release."""
    if is_database_url(data):
        return data
    if isinstance(data, (str, Path)) and (Path(data) / CERTIFICATE).is_file():
        return next(iter(sorted(Path(data).glob("table.*"))), data)
    return data


def _read_release_conventions(data: Any) -> Conventions | None:
    """Return how Shoal wrote the table of a release, which may differ from its source; None for other data."""
    is_path = isinstance(data, (str, Path)) and not is_database_url(data)
    certificate = Path(data).parent / CERTIFICATE if is_path else None
    if certificate is None or not certificate.is_file():
        return None
    try:
        content = json.loads(certificate.read_text(encoding="utf-8"))
        is_table = content["file"] == Path(data).name
        return Conventions(**content.get("read", {})) if is_table else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):  # not a certificate of Shoal
        return None


def _choose_engine(data: Any, resources: Resources) -> type[Engine]:
    """Return the engine for data where the user names none."""
    if is_database_url(data):
        return ENGINES.find("ibis")
    usual = ENGINES.find(LIMITED if resources.limits else "memory")
    if ENGINES.find("memory").accepts(data):
        return ENGINES.find(LIMITED) if _is_too_large(data) else usual
    return next(
        (engine for engine in ENGINES if engine.accepts(data)), usual
    )  # if no engine accepts, opening raises the error


def _is_too_large(data: Any) -> bool:
    """Whether data are a file that needs more than half of the machine's memory, and DuckDB is installed."""
    if not isinstance(data, (str, Path)) or not Path(data).is_file() or not find_spec("duckdb"):
        return False
    from shoal.engines.table_files import estimate_size_in_memory

    return estimate_size_in_memory(Path(data)) > read_machine_memory() // 2


def build_frame(columns: Mapping[str, Column], kind: str | None = None) -> Any:
    """Build a frame from columns; see `frames.build_frame`."""
    from shoal.engines import frames

    return frames.build_frame(columns, kind)
