"""Where the data live. The only room that imports a frame library, and only when it is used: loading them takes time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal.engines.base import (
    AS_SEEN,
    Column,
    Counts,
    Dictionary,
    Distinct,
    Engine,
    Format,
    Kept,
    Plan,
    Reading,
    Schema,
    Written,
    format_of,
)
from shoal.engines.text import date_text, moment_of, number_of, number_text

if TYPE_CHECKING:
    from shoal.engines.memory import MemoryEngine

__all__ = [
    "AS_SEEN",
    "Column",
    "Counts",
    "Dictionary",
    "Distinct",
    "Engine",
    "Format",
    "Kept",
    "Plan",
    "Reading",
    "Schema",
    "Written",
    "date_text",
    "format_of",
    "frame_of",
    "moment_of",
    "number_of",
    "number_text",
    "open_data",
]


def open_data(data: Any) -> MemoryEngine:
    """The engine for what the user passed: a frame, or the path of a file."""
    from shoal.engines.memory import MemoryEngine

    return data if isinstance(data, MemoryEngine) else MemoryEngine.open(data)


def frame_of(columns: Mapping[str, Column], kind: str | None = None) -> Any:
    """A frame of the asked-for library, made from columns; see `frames.frame_of`."""
    from shoal.engines import frames

    return frames.frame_of(columns, kind)
