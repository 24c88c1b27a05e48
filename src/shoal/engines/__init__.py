"""Where the data live. The only room that imports a frame library."""

from __future__ import annotations

from typing import Any

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
)
from shoal.engines.files import format_of
from shoal.engines.frames import frame_of
from shoal.engines.memory import MemoryEngine
from shoal.engines.values import date_text, moment_of, number_of, number_text

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
    return data if isinstance(data, MemoryEngine) else MemoryEngine.open(data)
