"""What the queries of all recodings have in common: tables, the expressions of the published columns, and the kept rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.engines import GroupColumn
from shoal.engines.sql import quote_text
from shoal.sql.columns import as_float, write_float


@dataclass(frozen=True)
class Published:
    """The tables under WITH, the published columns with their expressions, and the rows: a source and a condition.

    ``replaced`` has text for placeholders of the translated query.
    """

    tables: list[tuple[str, str]]
    columns: list[tuple[str, str]]
    source: str
    condition: str
    replaced: dict[str, str] = field(default_factory=dict)


def cast_column(text: str, column: GroupColumn) -> str:
    """The expression of a published column with its type: some databases read a literal number as a decimal."""
    return text if column.values.dtype == object else as_float(text)


def write_constant(value: Any) -> str:
    """A published value as a literal: a text, a number, or NULL."""
    if value is None:
        return "NULL"
    return quote_text(value) if isinstance(value, str) else write_float(float(value))
