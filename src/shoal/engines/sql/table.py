"""A table in a database, as the SQL engines read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from shoal.engines.protocol import Format
from shoal.errors import DataError, PolicyError, explain_unknown_column

CHANGED = (
    "the source changed while it was read, and nothing was released. Run again when no program writes to the source."
)


def number_columns(count: int) -> list[str]:
    """Return the SQL names of the columns of a table."""
    return [f"r{number}" for number in range(count)]


@dataclass(frozen=True)
class SqlTable:
    """A table: the SQL expression for its rows, and its columns.

    The expression names the columns ``r0``, ``r1``…; ``columns`` has these names by the user's names, in the order of the
    table. ``types`` are the Arrow types of the values as users see them, such as the time zones of timestamps.
    """

    sql: str
    columns: Mapping[str, str]
    types: Mapping[str, pa.DataType]
    rows: int
    format: Format = "parquet"

    @classmethod
    def of(cls, sql: str, types: Mapping[str, pa.DataType], rows: int, format: Format = "parquet") -> Self:
        """A table whose columns are numbered in their order."""
        columns = dict(zip(types, number_columns(len(types)), strict=True))
        return cls(sql, columns, types, rows, format)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    def find(self, column: str) -> str:
        """Return the SQL name of a column; raise an error if there is none."""
        if column not in self.columns:
            raise PolicyError(explain_unknown_column(column, self.names))
        return self.columns[column]

    def hide(self, columns: Sequence[str]) -> Self:
        """The same table without some columns."""
        kept = {name: number for name, number in self.columns.items() if name not in columns}
        return replace(self, columns=kept, types={name: self.types[name] for name in kept})

    def refuse_miscounted(self, rows: int) -> None:
        """Raise an error where a query did not read as many rows as the table had."""
        if rows != self.rows:
            raise DataError(CHANGED)

    def refuse_unsupported(self, column: str) -> None:
        """Raise an error for a column that cannot be grouped."""
        kind = self.types[column]
        if pa.types.is_nested(kind):
            raise DataError(
                f"column {column!r} holds {kind} values, which cannot be grouped. Convert the column to text or numbers, or "
                "leave it out of the policy."
            )

    def restore_type(self, column: str, array: Any) -> Any:
        """Return values with the time zone of the column, which databases do not store."""
        kind = self.types[column]
        if pa.types.is_timestamp(kind) and kind.tz and pa.types.is_timestamp(array.type) and array.type.tz != kind.tz:
            return array.cast(pa.timestamp(array.type.unit, kind.tz))
        return array
