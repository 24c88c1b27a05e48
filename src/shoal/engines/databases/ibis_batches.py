"""The results of Ibis expressions in batches: the database computes them, and only one batch at a time is in memory.

Ibis itself reads a result of SQLite as a whole, and calls functions of DuckDB that newer versions no longer have. Therefore the
results of these two are read from their cursors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.engines.duckdb.session import explain_error as explain_duckdb_error
from shoal.errors import DataError, EngineError, ShoalError

BATCH = 1 << 16  # rows that are fetched at a time
TRUTH = {0: False, 1: True, None: None}


@contextmanager
def explain_error(backend: Any) -> Iterator[None]:
    """Turn errors of Ibis and of the database into Shoal's errors, without the data and passwords that they may quote."""
    try:
        with explain_duckdb_error() if backend.name == "duckdb" else nullcontext():
            yield
    except ShoalError:
        raise
    except Exception as error:  # every database has errors of its own
        if os.environ.get("SHOAL_DEBUG"):
            raise
        raise EngineError(
            f"a query of the Ibis table failed in {backend.name!r} with {type(error).__name__}. Check the connection, the "
            "table, and the right to read it. Set SHOAL_DEBUG=1 to see the message of the database, which may quote data."
        ) from None


def register_objects(backend: Any, table: Any) -> None:
    """Let Ibis create the temporary tables and functions of an expression with frames or Python functions.

    Ibis does so where it fetches a result itself.
    """
    import ibis.expr.operations as ops

    if backend.name in CURSORS and table.op().find((ops.InMemoryTable, ops.ScalarUDF, ops.AggUDF)):
        with explain_error(backend):
            backend.to_pyarrow(table.limit(0))


def read_batches(backend: Any, expression: Any, names: dict[str, str], size: int = BATCH) -> Iterator[pa.Table]:
    """Yield the result of a table expression; ``names`` are the user's names of its columns, for error texts."""
    schema = pa.schema([(name, kind.to_pyarrow()) for name, kind in expression.schema().items()])
    batches = CURSORS.get(backend.name, _fetch_any)(backend, expression, size)
    with closing(batches):
        while True:
            with explain_error(backend):
                batch = next(batches, None)
            if batch is None:
                return
            arrays = [_convert(a, f.type, names.get(f.name, f.name)) for f, a in zip(schema, batch, strict=True)]
            yield pa.table(arrays, schema=schema)


Batches = Generator[Sequence[Any], None, None]  # the columns of a batch: arrays, or Python values


def _fetch_any(backend: Any, expression: Any, size: int) -> Batches:
    with backend.to_pyarrow_batches(expression, chunk_size=size) as reader:
        for batch in reader:
            yield batch.columns


def _fetch_duckdb(backend: Any, expression: Any, size: int) -> Batches:
    relation = backend.con.sql(str(backend.compile(expression)))  # `execute` would hold the whole result
    read: Callable[[int], Any] = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    with read(size) as reader:
        for batch in reader:
            yield batch.columns


def _fetch_sqlite(backend: Any, expression: Any, size: int) -> Batches:
    with closing(backend.raw_sql(str(backend.compile(expression)))) as cursor:
        while rows := cursor.fetchmany(size):
            yield list(zip(*rows, strict=True))


CURSORS: dict[str, Callable[[Any, Any, int], Batches]] = {"duckdb": _fetch_duckdb, "sqlite": _fetch_sqlite}


def _convert(values: Any, kind: pa.DataType, column: str) -> pa.Array:
    """Return values as an array of the type that Ibis declares."""
    try:
        if isinstance(values, pa.Array):
            return _cast(values, kind)
        return _build_array(values, kind)
    except (pa.ArrowException, InvalidOperation, TypeError, ValueError, OverflowError, KeyError):
        raise DataError(
            f"column {column!r} is declared as {kind} in the database, but holds values of another type. Correct these values, "
            "or convert the column with Ibis, as table.mutate(…cast('string'))."
        ) from None


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType):
        array = pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
    return array if array.type == kind else array.cast(kind)


def _build_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values of SQLite, which stores dates and times as texts, and truth values and decimals as numbers."""
    if pa.types.is_boolean(kind):
        return pa.array([TRUTH[value] for value in values], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else Decimal(str(value)) for value in values], kind)
    if pa.types.is_date(kind):
        return _parse_dates(pa.array(values, pa.string()), kind)
    if pa.types.is_timestamp(kind):
        return _parse_times(pa.array(values, pa.string()), kind)
    if pa.types.is_time(kind):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)


def _parse_dates(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:  # with a time, which must be midnight
        return texts.cast(pa.timestamp("us")).cast(kind)


def _parse_times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return times; those without a time zone are in UTC where the column has a time zone."""
    if kind.tz is None:
        return texts.cast(kind)
    zoned = pc.match_substring_regex(texts, r"(Z|[+-]\d\d:?\d\d)$")
    return pc.if_else(zoned, texts, pc.binary_join_element_wise(texts, "+00:00", "")).cast(kind)
