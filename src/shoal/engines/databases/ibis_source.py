"""An Ibis table as a source: its columns, and the expressions that the database computes for an engine.

The columns are named ``r0``, ``r1``… in all expressions, so no name of the user can be that of another column. Nothing is
created in the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa

from shoal.engines import column_values
from shoal.engines.databases.ibis_batches import explain_error, read_batches, register_objects
from shoal.engines.protocol import ColumnSummary
from shoal.engines.sql.table import CHANGED, number_columns
from shoal.errors import DataError, PolicyError, explain_unknown_column

COUNT = "n"  # the number of records, in a grouped result


@dataclass(frozen=True)
class IbisSource:
    """A table of an Ibis backend.

    ``rows`` is its number of records. ``columns`` has the names in ``expression`` by the user's names, and ``types`` the Arrow
    types of the columns. ``unsupported`` has the types of columns that cannot be grouped.
    """

    backend: Any = field(repr=False)
    given: Any = field(repr=False)
    expression: Any = field(repr=False)
    columns: Mapping[str, str]
    types: Mapping[str, pa.DataType]
    unsupported: Mapping[str, str]
    rows: int

    @classmethod
    def open(cls, backend: Any, table: Any) -> Self:
        """Describe a table, and count its records."""
        register_objects(backend, table)
        with explain_error(backend):
            kinds = dict(table.schema().items())
            unsupported = {name: str(kind) for name, kind in kinds.items() if not _is_supported(kind)}
            types = {name: pa.null() if name in unsupported else kind.to_pyarrow() for name, kind in kinds.items()}
            columns = dict(zip(kinds, number_columns(len(kinds)), strict=True))
            read = {number: _select_exactly(backend, table[name]) for name, number in columns.items()}
            expression = table.select(**read)
        source = cls(backend, table, expression, columns, types, unsupported, 0)
        (rows,) = source._fetch_row(expression.aggregate(**{COUNT: expression.count()}))
        return replace(source, rows=rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    def hide(self, columns: Sequence[str]) -> Self:
        """The same table without some columns."""
        kept = {name: number for name, number in self.columns.items() if name not in columns}
        return replace(self, given=self.given.select(*kept), columns=kept)

    def refuse_unsupported(self, columns: Sequence[str]) -> None:
        """Raise an error for a column that does not exist or cannot be grouped."""
        for column in columns:
            if column not in self.columns:
                raise PolicyError(explain_unknown_column(column, self.names))
            if column in self.unsupported:
                raise DataError(
                    f"column {column!r} holds {self.unsupported[column]} values, which cannot be grouped. Convert the column "
                    "to text or numbers, or leave it out of the policy."
                )

    def group(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the combinations of raw values of columns, each with its number of records as `COUNT`, in batches."""
        self.refuse_unsupported(columns)
        yield from self._read(self._count_by(self.expression, columns))

    def stream(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the records in batches, with some columns by the user's names."""
        self.refuse_unsupported(columns)
        for batch in self._read(self.expression.select(*(self.columns[column] for column in columns))):
            yield batch.rename_columns(list(columns))

    def summarize(self, column: str) -> tuple[ColumnSummary, int]:
        """Return a summary of the raw values of a column, and the number of values that occur once."""
        self.refuse_unsupported([column])
        raw = self.columns[column]
        counted = self._count_by(self.expression.filter(self.expression[raw].notnull()), [column])
        figures = {"v": counted.count(), "n": counted[COUNT].sum(), "o": (counted[COUNT] == 1).sum()}
        is_text = column_values.is_text(self.types[column])
        if is_text:
            figures["e"] = counted[raw].min()
        values, records, once, *example = self._fetch_row(counted.aggregate(**figures))
        text = str(example[0] or "") if is_text else "0"
        return ColumnSummary(int(values), int(records or 0), text), int(once or 0)

    def refuse_miscounted(self, rows: int) -> None:
        """Raise an error where a query did not read as many rows as the table had."""
        if rows != self.rows:
            raise DataError(CHANGED)

    def _count_by(self, expression: Any, columns: Sequence[str]) -> Any:
        keys = [self.columns[column] for column in columns]
        return expression.group_by(keys).aggregate(**{COUNT: expression.count()})

    def _read(self, expression: Any) -> Iterator[pa.Table]:
        return read_batches(self.backend, expression, {number: name for name, number in self.columns.items()})

    def _fetch_row(self, expression: Any) -> tuple[Any, ...]:
        (row,) = [row for batch in self._read(expression) for row in batch.to_pylist()]
        return tuple(row.values())


def _is_supported(kind: Any) -> bool:
    try:
        arrow = kind.to_pyarrow()
    except Exception:  # types that Arrow does not have
        return False
    return not (pa.types.is_nested(arrow) or pa.types.is_null(arrow) or pa.types.is_duration(arrow))


def _select_exactly(backend: Any, column: Any) -> Any:
    """Return a column that the database compares byte by byte, whatever the collation of the column."""
    kind = column.type()
    if kind.is_json() or kind.is_uuid() or kind.is_inet() or kind.is_macaddr():
        column = column.cast("string")
    elif not kind.is_string():
        return column
    if backend.name == "sqlite":
        return column + ""  # the result of an operator has no collation
    return _encode_and_decode(column) if backend.name == "duckdb" else column


def _encode_and_decode(column: Any) -> Any:
    """Return texts of DuckDB without their collation."""
    import ibis

    def convert(value: Any) -> Any: ...  # DuckDB's own functions have no body here

    encode = ibis.udf.scalar.builtin(name="encode", signature=(("string",), "binary"))(convert)
    decode = ibis.udf.scalar.builtin(name="decode", signature=(("binary",), "string"))(convert)
    return decode(encode(column))
