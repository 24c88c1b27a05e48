"""The columns of a query in PostgreSQL: their types in Arrow, and how their values are read and released.

Types without an equivalent in Arrow that have one text per value (uuid, enum, inet…) are read and released as texts. Types
whose values cannot be grouped (json, arrays…) raise an error where the policy uses the column.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from shoal.engines.sql import quote_name
from shoal.errors import DataError

UTC = "UTC"
ARROW_TYPES = {  # by the number of the type in every PostgreSQL
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", UTC),
}
NUMERIC = 1700
TEXTS = (25, 1042, 1043, 19, 705)  # text, char(n), varchar(n), name, and literals without a type
AS_TEXT = ("uuid", "inet", "cidr", "macaddr", "macaddr8", "interval", "timetz", "bit", "varbit", "citext", "money")
RANGES = ("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange")
SQL_TYPES = {
    pa.bool_(): "boolean",
    pa.binary(): "bytea",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
}
MOST_DIGITS, LONG_DIGITS = 38, 76  # of decimals in Arrow


@dataclass(frozen=True)
class DatabaseColumn:
    """A column of a query: its name, its type in Arrow (None: values cannot be grouped), and its type in the database."""

    name: str
    arrow: pa.DataType | None
    kind: str
    is_text: bool = False

    @property
    def read(self) -> str:
        """The expression that reads the column from the source. Texts are compared byte by byte; NaN is a missing value."""
        raw = quote_name(self.name)
        if self.arrow is None:
            return "NULL::text"
        if self.is_text:
            return f'{raw}::text COLLATE "C"'
        return f"nullif({raw}, 'NaN'::numeric)" if self.kind == "numeric" else raw


def describe_columns(connection: Any, query: str) -> list[DatabaseColumn]:
    """Return the columns of a query, without running it over the records."""
    description = connection.execute(f"SELECT * FROM {query} described LIMIT 0").description
    numbers = sorted({column.type_code for column in description})
    found = connection.execute(
        "SELECT oid, typname, typtype::text FROM pg_catalog.pg_type WHERE oid = ANY(%s)", [numbers]
    ).fetchall()
    kinds = {number: (name, family) for number, name, family in found}
    return [_describe(column, *kinds.get(column.type_code, ("unknown", "b"))) for column in description]


def _describe(column: Any, kind: str, family: str) -> DatabaseColumn:
    number = column.type_code
    if number in TEXTS:
        return DatabaseColumn(column.name, pa.string(), kind, is_text=True)
    if number in ARROW_TYPES:
        return DatabaseColumn(column.name, ARROW_TYPES[number], kind)
    if number == NUMERIC:
        return DatabaseColumn(column.name, _decimal_type(column.precision, column.scale), kind)
    if family == "e" or kind in (*AS_TEXT, *RANGES):
        return DatabaseColumn(column.name, pa.string(), kind, is_text=True)
    return DatabaseColumn(column.name, None, kind)


def _decimal_type(precision: int | None, scale: int | None) -> pa.DataType:
    """The type of a numeric column; without declared digits they follow from the values, see `build_array`."""
    if precision is None or scale is None or scale < 0 or precision > LONG_DIGITS or scale > precision:
        return pa.decimal256(LONG_DIGITS, 0)
    return pa.decimal128(precision, scale) if precision <= MOST_DIGITS else pa.decimal256(precision, scale)


def read_types(description: Sequence[Any]) -> list[pa.DataType]:
    """Return the types in Arrow of the columns of a result."""
    return [
        _decimal_type(c.precision, c.scale) if c.type_code == NUMERIC else ARROW_TYPES.get(c.type_code, pa.string())
        for c in description
    ]


def build_array(values: Sequence[Any], kind: pa.DataType, column: str) -> pa.Array:
    """Return fetched values as an array."""
    if pa.types.is_decimal(kind):
        return _build_decimals(values, kind, column)
    if pa.types.is_string(kind):
        return pa.array([None if v is None else v if isinstance(v, str) else str(v) for v in values], kind)
    if pa.types.is_timestamp(kind) and kind.tz:
        times = [None if v is None else v.astimezone(datetime.UTC).replace(tzinfo=None) for v in values]
        return pa.array(times, pa.timestamp("us")).cast(pa.int64()).cast(kind)
    return pa.array(values, kind)


def _build_decimals(values: Sequence[Any], kind: pa.DataType, column: str) -> pa.Array:
    """Return numbers of type numeric; NaN is missing. Without declared digits, the largest scale of the values is used."""
    numbers = [None if v is None or v.is_nan() else v for v in values]
    present = [v for v in numbers if v is not None]
    if any(v.is_infinite() for v in present):
        raise DataError(f"column {column!r} holds infinite numbers. Correct these values, or leave them empty.")
    if kind != pa.decimal256(LONG_DIGITS, 0):
        return pa.array(numbers, kind)
    scale = max((_scale(v) for v in present), default=0)
    digits = max((max(v.adjusted() + 1, 0) for v in present), default=0) + scale
    if digits > LONG_DIGITS:
        raise DataError(
            f"column {column!r} holds numbers with more than {LONG_DIGITS} digits. Round them in a view, or convert them to "
            "text."
        )
    wide = pa.decimal128(MOST_DIGITS, scale) if digits <= MOST_DIGITS else pa.decimal256(LONG_DIGITS, scale)
    return pa.array(numbers, wide)


def _scale(number: Decimal) -> int:
    exponent = number.normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def sql_type(kind: pa.DataType) -> str:
    """Return the type in the database for the values of an Arrow array."""
    if pa.types.is_dictionary(kind):
        return sql_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal(kind) or pa.types.is_uint64(kind):
        return "numeric"
    if pa.types.is_time(kind):
        return "time"
    if pa.types.is_unsigned_integer(kind):
        return "bigint"
    return SQL_TYPES.get(kind, "text")
