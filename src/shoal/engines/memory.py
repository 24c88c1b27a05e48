"""The engine for what fits in memory: pandas, polars and pyarrow frames, CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from shoal import kernels
from shoal.arrays import Int32Array, Int64Array, UInt64Array
from shoal.engines import column_values, fingerprint, frames, table_files
from shoal.engines.protocol import (
    Counts,
    Dictionary,
    Distinct,
    Format,
    GroupColumn,
    KeptColumn,
    KeyedOrder,
    Partitioning,
    Plan,
    Reading,
    Schema,
    format_of,
)
from shoal.errors import PolicyError, list_choices

LIMIT = 2**63
MANY = 50_000  # records from which threads pay


@dataclass(frozen=True)
class MemoryEngine:
    """A frame in memory, with the codes of the columns that were encoded."""

    data: nw.DataFrame[Any]
    from_file: bool = False
    format: Format = "csv"
    codes: Mapping[str, Int32Array] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    _seen: dict[tuple[str, Reading], column_values.CodedValues] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, data: Any) -> MemoryEngine:
        """A frame, or the path of a CSV or Parquet file."""
        if isinstance(data, (str, Path)):
            path = Path(data)
            return cls(
                nw.from_native(table_files.read_table(path), eager_only=True), from_file=True, format=format_of(path)
            )
        return cls(frames.open_frame(data))

    def schema(self) -> Schema:
        """Names and number of records."""
        return Schema(tuple(self.data.columns), len(self.data))

    def distinct(self, column: str, reading: Reading) -> Distinct:
        """The distinct values of one column; the work is kept for `encode`."""
        return self._coded(column, reading).distinct

    def prepare(self, readings: Mapping[str, Reading]) -> None:
        """Settle several columns at once, on several cores where it pays."""
        if len(self.data) > MANY:
            with ThreadPoolExecutor() as pool:
                list(pool.map(self._coded, readings.keys(), readings.values()))

    def _coded(self, column: str, reading: Reading) -> column_values.CodedValues:
        if column not in self.data.columns:
            raise PolicyError(f"column {column!r} is not in the table; {list_choices(column, self.data.columns)}")
        if (column, reading) not in self._seen:
            self._seen[column, reading] = column_values.read(
                frames.to_arrow(self.data.get_column(column)), column, reading
            )
        return self._seen[column, reading]

    def encode(self, dictionaries: Mapping[str, Dictionary], *, carry: Sequence[str] | None = None) -> MemoryEngine:
        """The same data with codes beside the named columns; all other columns are at hand anyway."""
        codes, sizes = dict(self.codes), dict(self.sizes)
        for column, dictionary in dictionaries.items():
            coded = self._coded(column, dictionary.reading)
            target = np.append(dictionary.codes, np.int32(dictionary.missing)).astype(np.int32)
            self._seen.pop((column, dictionary.reading), None)  # large, and not needed any more
            codes[column] = target[coded.index]
            sizes[column] = int(target.max(initial=0)) + 1
        return replace(self, codes=codes, sizes=sizes, _seen={})

    def partition(self, quasi: Sequence[str], secret: Sequence[str] = (), *, least: int = 1) -> Partitioning:
        """What fits in memory is worked on whole."""
        return Partitioning.whole()

    def count(self, quasi: Sequence[str], secret: Sequence[str] = (), *, part: int | None = None) -> Counts:
        """Counted cells over columns that were encoded, sorted by their codes."""
        names = [*quasi, *secret]
        keys = np.zeros(len(self.data), np.uint64)
        row = np.empty(len(keys), np.int32)
        bound, packed = 1, True
        for name in names:
            if bound * self.sizes[name] >= LIMIT:  # make the keys dense before they overflow
                bound = len(kernels.order.number_keys(keys, kernels.order.argsort(keys), row))
                keys, packed = row.astype(np.uint64), False
            kernels.order.append_digit(keys, self.codes[name], self.sizes[name])
            bound *= self.sizes[name]
        order = kernels.order.argsort(keys)
        begin = kernels.order.number_keys(keys, order, row)
        weight = np.diff(begin, append=len(keys)).astype(np.int64)
        first = order[begin]
        del order, begin
        if packed:
            cell = kernels.order.unpack(keys[first], np.array([self.sizes[n] for n in names], np.uint64))
        else:
            cell = np.stack([self.codes[n][first] for n in names], axis=1)
        del keys, first
        m = len(quasi)
        if not secret:
            return Counts(cell, np.arange(len(cell) + 1, dtype=np.int64), cell[:, m:], weight, row)
        fresh = np.ones(len(cell), bool)
        fresh[1:] = (cell[1:, :m] != cell[:-1, :m]).any(axis=1)
        start = np.append(np.flatnonzero(fresh), len(cell)).astype(np.int64)
        return Counts(cell[start[:-1], :m], start, np.ascontiguousarray(cell[:, m:]), weight, row)

    def batches(self, columns: Sequence[str], *, part: int | None = None) -> Iterator[Mapping[str, Any]]:
        """The columns as they stand, ``part`` records at a time, as Arrow arrays by name."""
        size = len(self.data) if part is None else part
        arrays = {name: frames.to_arrow(self.data.get_column(name)) for name in columns}
        for begin in range(0, len(self.data), max(size, 1)):
            yield {name: array.slice(begin, size) for name, array in arrays.items()}

    def apply(self, plans: Iterable[Plan]) -> MemoryEngine:
        """The released data: kept columns with their own values, written ones by group, left-out records gone."""
        (plan,) = plans
        group = self._groups(plan)
        present = group >= 0
        data = nw.maybe_reset_index(self._only([c.name for c in plan.columns if isinstance(c, KeptColumn)]))
        if not present.all():
            data = nw.maybe_reset_index(data.filter(present.tolist())) if data.columns else data
            group = group[present]
        if data.columns and not self.from_file:  # the frame of a file has neither categories nor metadata
            data = frames.drop_unused(data)
        made = {
            c.name: _written(c, group, plain=not self.from_file) for c in plan.columns if isinstance(c, GroupColumn)
        }
        kind = nw.get_native_namespace(self.data).__name__
        beside = nw.from_native(frames.native(pa.table(made), kind), eager_only=True)
        parts = [p for p in (data, beside) if p.columns]
        released = MemoryEngine(nw.concat(parts, how="horizontal"), self.from_file, self.format)
        return replace(released, data=released._only([c.name for c in plan.columns]))

    def _only(self, columns: Sequence[str]) -> nw.DataFrame[Any]:
        """Some columns, each by its very name: a library may take a name such as ``*`` in a list for a pattern."""
        listed = [self.data.get_column(name).to_frame() for name in columns]
        return nw.concat(listed, how="horizontal") if listed else self.data[:, :0]

    def _groups(self, plan: Plan) -> Int32Array:
        """The group of every record."""
        row = plan.counts.row
        assert row is not None  # noqa: S101  counts come from this engine
        entries = np.bincount(plan.cell, minlength=len(plan.counts.size))
        first = np.concatenate(([0], np.cumsum(entries)[:-1]))
        group = plan.group[first[row]] if len(row) else plan.group[:0]
        divided = np.flatnonzero(entries > 1)
        if len(divided):
            rows = np.flatnonzero(entries[row] > 1)
            ordered = rows[np.lexsort((self._dealt(plan.order, rows, row[rows]), row[rows]))]
            inside = np.isin(plan.cell, divided)
            group[ordered] = np.repeat(plan.group[inside], plan.count[inside])
        return group.astype(np.int32, copy=False)

    def _dealt(self, order: KeyedOrder, rows: Int64Array, cell: Int32Array) -> UInt64Array:
        """The keyed hashes of some records."""
        chosen = pa.array(rows)
        columns = {name: _taken(frames.to_arrow(self.data.get_column(name)), chosen) for name in order.columns}
        return order.hash.mix(order.cells[cell], fingerprint.keyed_hashes(order.hash, columns, len(rows)))

    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Write the rows in the order of their hashes, which tells nothing of the order they came in.

        Rows of equal texts are written as equal bytes.
        """
        table = pa.table({name: table_files.normalize(column) for name, column in self._columns().items()})
        first = kernels.order.argsort(fingerprint.moment_hashes(self._columns(), len(table)))
        order = first[kernels.order.argsort(self._row_hashes(self.data.columns)[first])]
        ordered = table.take(pa.array(order)).combine_chunks()
        return table_files.write_table(ordered, path, format, escape_formulas=escape_formulas)

    def reopen(self, path: Path) -> MemoryEngine:
        """A file that was written."""
        return MemoryEngine.open(path)

    def fingerprint(self) -> str:
        """A digest of the rows as a multiset."""
        return fingerprint.fingerprint(self.data.columns, [self._row_hashes(self.data.columns)])

    def frame(self) -> Any:
        """The kind of frame that came in; for a file, the richest one installed."""
        if not self.from_file:
            return self.data.to_native()
        return frames.native(pa.table({name: frames.plain(column) for name, column in self._columns().items()}), None)

    def _columns(self) -> dict[str, pa.ChunkedArray]:
        return {name: frames.to_arrow(self.data.get_column(name)) for name in self.data.columns}

    def _row_hashes(self, columns: Sequence[str]) -> UInt64Array:
        listed = {name: frames.to_arrow(self.data.get_column(name)) for name in columns}
        return fingerprint.row_hashes(listed, len(self.data))


def _taken(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    """Some records of a column, in this order."""
    if pa.types.is_string_view(column.type):  # Arrow cannot reorder these
        column = column.cast(pa.large_string())
    return column.take(rows)


def _written(column: GroupColumn, group: Int32Array, *, plain: bool) -> pa.Array:
    place = column.index[group]
    kind = pa.string() if column.values.dtype == object else None
    dictionary = pa.array(column.values, kind)
    coded = pa.DictionaryArray.from_arrays(pa.array(place, mask=place < 0), dictionary)
    return coded.cast(dictionary.type) if plain or kind is None else coded
