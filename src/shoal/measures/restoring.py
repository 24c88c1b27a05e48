"""Restore the labels of a released table that was written like its input."""

from __future__ import annotations

from collections.abc import Callable

from shoal.engines import Engine
from shoal.formats.dates import DateFormat
from shoal.formats.numbers import NumberFormat


def choose_restoring(released: Engine, kind: str) -> Callable[[str], str]:
    """A function that restores the labels of a table that was written like its input."""
    conventions = released.detected.conventions
    if kind == "numeric" and conventions.decimal is not None:
        return NumberFormat(conventions.decimal).restore
    if kind == "date" and conventions.dates is not None:
        return DateFormat(conventions.dates).restore
    return str
