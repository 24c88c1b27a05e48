"""The engine for Ibis tables outside PostgreSQL: the database counts the records, by Ibis expressions; DuckDB recodes them.

`distinct`, `summarize` and `count` group the records in the database. Python gets the raw values of a column, or the
combinations of raw values of some columns, each with its number of records, and encodes them. Nothing is created in the
database, so a read-only connection is enough.

A release needs the records themselves: `apply` copies the columns that it needs to a file, in batches. DuckDB counts the
copy again, so that a source that changed meanwhile is noticed, and recodes it. A table with more combinations than memory
allows is copied before it is counted, and searched in partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import Int32Array, Int64Array, UInt64Array
from shoal.engines import fingerprint
from shoal.engines.databases.ibis_copy import CopyEngine, copy_columns, copy_table, refuse_target
from shoal.engines.databases.ibis_source import COUNT, IbisSource
from shoal.engines.protocol import (
    NOT_COUNTED,
    UNKNOWN,
    ColumnSummary,
    Counts,
    Detected,
    Dictionary,
    Distinct,
    Engine,
    Format,
    Partitioning,
    Plan,
    Reading,
    Schema,
    TargetTable,
)
from shoal.engines.resources import Resources
from shoal.engines.sql.coded_columns import CodedColumn, unify_raw_values
from shoal.engines.sql.keys import Keys, build_counts
from shoal.engines.sql.raw_cells import RawCells
from shoal.engines.sql.table import CHANGED
from shoal.errors import DataError, EngineError
from shoal.formats.conventions import Conventions

BYTEWISE = (  # databases that compare texts byte by byte by default; MySQL and SQL Server ignore case and trailing spaces
    *("athena", "bigquery", "clickhouse", "databricks", "datafusion", "druid", "duckdb", "exasol", "flink", "impala"),
    *("materialize", "oracle", "polars", "pyspark", "risingwave", "snowflake", "sqlite", "trino"),
)


class RawValues(NamedTuple):
    """The raw values of a column, NULL among them, and the number of records of each."""

    values: pa.Array
    records: Int64Array


class CountedThere(NamedTuple):
    """The handle of counts of the database: the table, the counted columns, and the counts before anything is derived."""

    source: IbisSource
    quasi: tuple[str, ...]
    sensitive: tuple[str, ...]
    counts: Counts


@dataclass(frozen=True)
class IbisEngine(Engine):
    """An Ibis table, with the codes of the encoded columns."""

    name: ClassVar[str] = "ibis"
    takes_limits: ClassVar[bool] = True
    takes_table: ClassVar[bool] = True

    source: IbisSource
    resources: Resources
    codings: Mapping[str, CodedColumn] = field(default_factory=dict, repr=False)
    dictionaries: Mapping[str, Dictionary] = field(default_factory=dict, repr=False)
    carry: tuple[str, ...] | None = None
    detected: Detected = UNKNOWN
    format: Format = "parquet"
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, data: Any, resources: Resources) -> Engine:
        """Open an Ibis table. A database that may treat different texts as equal cannot count them: its table is copied."""
        source = IbisSource.open(data.get_backend(), data)
        if source.backend.name not in BYTEWISE:
            return copy_table(source, resources)
        return cls(source, resources, detected=Detected(resources.conventions))

    def schema(self) -> Schema:
        """Return the column names and the number of records."""
        return Schema(self.source.names, self.source.rows)

    def holds_truth_values(self, column: str) -> bool:
        """Return whether the type of a column is that of truth values."""
        return bool(pa.types.is_boolean(self.source.types[column]))

    def summarize(self, column: str) -> ColumnSummary:
        """Return a summary of the raw values of a column, counted in the database."""
        return self._summarize_values(column)[0]

    def count_once(self, column: str) -> int:
        """Return the number of raw values of a column that occur once, counted in the database."""
        return self._summarize_values(column)[1]

    def _summarize_values(self, column: str) -> tuple[ColumnSummary, int]:
        if ("summary", column) not in self._cache:
            self._cache["summary", column] = self.source.summarize(column)
        cached: tuple[ColumnSummary, int] = self._cache["summary", column]
        return cached

    def distinct(self, column: str, reading: Reading) -> Distinct:
        """Return the distinct values of one column."""
        return self._read_column(column, reading)[0]

    def _raw_values(self, column: str) -> RawValues:
        if ("raw", column) not in self._cache:
            batches = list(self.source.group([column]))
            number = self.source.columns[column]
            values = [chunk for batch in batches for chunk in batch[number].chunks]
            counts = [batch[COUNT].to_numpy() for batch in batches]
            raw = pa.concat_arrays([pa.array([], self.source.types[column]), *values])
            records = np.concatenate([np.zeros(0, np.int64), *counts]).astype(np.int64)
            self.source.refuse_miscounted(int(records.sum()))
            self._cache["raw", column] = RawValues(raw, records)
        cached: RawValues = self._cache["raw", column]
        return cached

    def _read_column(self, column: str, reading: Reading) -> tuple[Distinct, Int32Array]:
        """Return the distinct values, and the index of every raw value among them, in the order of the raw values."""
        if (column, reading) not in self._cache:
            raw, records = self._raw_values(column)
            distinct, index, _ = unify_raw_values(raw, records, column, reading, self.detected.conventions)
            self._cache[column, reading] = distinct, index
        cached: tuple[Distinct, Int32Array] = self._cache[column, reading]
        return cached

    def encode(self, dictionaries: Mapping[str, Dictionary], *, carry: Sequence[str] | None = None) -> Self:
        """Return the same data with codes for the named columns."""
        self.source.refuse_unsupported(carry or ())
        codings = dict(self.codings)
        for column, dictionary in dictionaries.items():
            _, index = self._read_column(column, dictionary.reading)
            codings[column] = CodedColumn.of(self._raw_values(column).values, index, dictionary, None)
        return replace(
            self,
            codings=codings,
            dictionaries={**self.dictionaries, **dictionaries},
            carry=None if carry is None else tuple(dict.fromkeys(carry)),
            _cache={},
        )

    def partition(self, quasi: Sequence[str], sensitive: Sequence[str] = (), *, least: int = 1) -> Partitioning:
        """Split the table into partitions where it has more cells than the memory limit allows at once."""
        if self._count_cells(quasi, sensitive) is None:
            return self._copy().partition(quasi, sensitive, least=least)
        return Partitioning.whole()

    def count(self, quasi: Sequence[str], sensitive: Sequence[str] = (), *, partition: int | None = None) -> Counts:
        """Count the cells of encoded columns, sorted by their codes."""
        counts = self._count_cells(quasi, sensitive)
        return self._copy().count(quasi, sensitive, partition=partition) if counts is None else counts

    def _count_cells(self, quasi: Sequence[str], sensitive: Sequence[str]) -> Counts | None:
        """Count the cells in the database; None where memory does not allow to fetch them."""
        columns = tuple(quasi), tuple(sensitive)
        if columns not in self._cache:
            keys = Keys.of((*quasi, *sensitive), [self.codings[column].size for column in (*quasi, *sensitive)])
            cells, counts = self._fetch_cells(keys), None
            if cells is not None:
                words = [cells[word].to_numpy() for word in keys.names]
                _, counts = build_counts(keys, words, cells[COUNT].to_numpy(), len(quasi))
                counts = replace(counts, handle=CountedThere(self.source, *columns, counts))
            self._cache[columns] = counts
        cached: Counts | None = self._cache[columns]
        return cached

    def _fetch_cells(self, keys: Keys) -> pa.Table | None:
        """Fetch the combinations of raw values, and encode them batch by batch; None where there are too many cells."""
        names = {column: self.source.columns[column] for column in keys.columns}
        types = [(word, pa.int64()) for word in (*keys.names, COUNT)]
        cells, waiting = pa.schema(types).empty_table(), list[pa.Table]()
        most = self.resources.max_combinations
        for batch in self.source.group(list(names)):
            raw = RawCells.of(batch, names)
            codes = {column: self._find_codes(column, raw.values[column]) for column in names}
            waiting.append(raw.count(keys, codes))
            if len(cells) + sum(map(len, waiting)) > most:
                cells, waiting = _add_cells(keys, [cells, *waiting]), []
            if len(cells) > most:
                return None
        cells = _add_cells(keys, [cells, *waiting])
        self.source.refuse_miscounted(int(cells[COUNT].to_numpy().sum()))
        return cells

    def _find_codes(self, column: str, values: pa.Array) -> Int32Array:
        """Return the codes of raw values; an error where a value was not there when the column was encoded."""
        coding = self.codings[column]
        index = pc.index_in(_unify_zeros(values), value_set=_unify_zeros(coding.raw))
        if index.null_count:
            raise DataError(CHANGED)
        codes: Int32Array = coding.codes[index.to_numpy()]
        return codes

    def _copy(self) -> CopyEngine:
        """Return a copy of the columns that are needed, with the same codes; it is made on first use."""
        if "copy" not in self._cache:
            columns = list(dict.fromkeys((*self.codings, *(self.carry or ()))))
            copied = copy_columns(self.source, columns, self.resources)
            used = {column: self.dictionaries[column] for column in self.codings}
            for column, dictionary in used.items():
                _refuse_changed(dictionary.distinct, copied.distinct(column, dictionary.reading))
            self._cache["copy"] = copied.encode(used, carry=self.carry)
        cached: CopyEngine = self._cache["copy"]
        return cached

    def apply(self, plans: Iterable[Plan]) -> CopyEngine:
        """Return the released data: DuckDB recodes a copy of the records."""
        if self.carry is None:
            raise EngineError("this table was encoded only to be counted. To release it, encode it with carry.")
        copied = self._copy()
        return copied.apply(self._count_again(plan, copied) for plan in plans)

    def _count_again(self, plan: Plan, copied: CopyEngine) -> Plan:
        """Return the plan for the cells of the copy, which must be those that the database counted."""
        handle = plan.counts.handle
        if not isinstance(handle, CountedThere):
            return plan  # the copy was counted
        if handle.source is not self.source:
            raise EngineError(NOT_COUNTED)
        counts = copied.count(handle.quasi, handle.sensitive)
        names = ("quasi", "start", "sensitive", "size")
        if not all(np.array_equal(getattr(counts, name), getattr(handle.counts, name)) for name in names):
            raise DataError(CHANGED)
        return replace(plan, counts=replace(plan.counts, handle=counts.handle))

    def without(self, columns: Sequence[str]) -> Self:
        """Return the same rows without some columns."""
        hidden = self.source.hide(columns)
        return replace(self, source=hidden, codings={}, dictionaries={}, carry=None, _cache={})

    def fingerprint(self) -> str:
        """Return a digest of the rows as a multiset; the database groups equal rows."""
        if "fingerprint" not in self._cache:
            self._cache["fingerprint"] = fingerprint.digest_rows(self.source.names, self._hash_batches())
        return str(self._cache["fingerprint"])

    def _hash_batches(self) -> Iterator[UInt64Array]:
        names, rows = self.source.columns, 0
        for batch in self.source.group(list(names)):
            columns = {name: batch[number] for name, number in names.items()}
            records = batch[COUNT].to_numpy()
            rows += int(records.sum())
            yield np.repeat(fingerprint.hash_rows(columns, batch.num_rows), records)
        self.source.refuse_miscounted(rows)

    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Raise an error: only released rows are written, and `apply` returns them as a `CopyEngine`."""
        raise EngineError("the table of a database is not written to a file. Release it, and write the release.")

    def reopen(self, path: Path, written: Conventions | None = None) -> Engine:
        """Open a file that this engine wrote, with the engine for such files."""
        from shoal.engines import open_data

        return open_data(path, Resources(conventions=written or Conventions(), temp=self.resources.temp))

    def refuse_unwritable(self, target: TargetTable) -> None:
        """Raise an error: Shoal writes no table in this database."""
        raise refuse_target(target.name, self.source.backend.name)

    def frame(self) -> Any:
        """Return the Ibis table."""
        return self.source.given


def _unify_zeros(values: pa.Array) -> pa.Array:
    """Return numbers with 0.0 for -0.0, which databases do not distinguish."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _add_cells(keys: Keys, tables: Sequence[pa.Table]) -> pa.Table:
    """Return cells of several tables; cells with the same key are one."""
    whole = pa.concat_tables(tables)
    return whole.group_by(keys.names).aggregate([(COUNT, "sum")]).rename_columns([*keys.names, COUNT])


def _refuse_changed(before: Distinct, after: Distinct) -> None:
    same = np.array_equal(before.values, after.values) and np.array_equal(before.counts, after.counts)
    if not same or before.missing != after.missing:
        raise DataError(CHANGED)
