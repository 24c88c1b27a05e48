"""The engine for tables that fit in memory: pandas, polars and pyarrow frames, and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal import kernels, threads
from shoal.arrays import Int32Array, Int64Array, UInt64Array
from shoal.engines import column_values, fingerprint, frames, table_files
from shoal.engines.protocol import (
    KEY_LIMIT,
    NOT_COUNTED,
    SUFFIXES,
    UNKNOWN,
    ColumnSummary,
    Counts,
    Detected,
    Dictionary,
    Distinct,
    Engine,
    Format,
    GroupColumn,
    HiddenColumn,
    KeyedOrder,
    Plan,
    Reading,
    Schema,
    TextFormat,
    UnchangedColumn,
    detect_format,
)
from shoal.engines.resources import Resources
from shoal.errors import EngineError, PolicyError, explain_unknown_column
from shoal.formats.conventions import Conventions

LIBRARIES = (*frames.KINDS, "narwhals")  # of frames that are held in memory
PARALLEL_MINIMUM = 50_000  # records; smaller tables are read by one thread


@dataclass(frozen=True)
class MemoryEngine(Engine):
    """A frame in memory, with the codes of the encoded columns.

    ``styles`` has the formats of numbers and dates that were detected in columns of the source; released tables share it.
    """

    name: ClassVar[str] = "memory"

    data: nw.DataFrame[Any]
    from_file: bool = False
    format: Format = "csv"
    codes: Mapping[str, Int32Array] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    dictionaries: Mapping[str, Dictionary] = field(default_factory=dict, repr=False)
    detected: Detected = UNKNOWN
    styles: dict[str, TextFormat] = field(default_factory=dict, repr=False)
    _cache: dict[tuple[str, Reading], column_values.EncodedValues] = field(default_factory=dict, repr=False)

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """Whether data are the path of a file that Shoal reads, or a frame of a known library."""
        if isinstance(data, (str, Path)):
            return Path(data).suffix.lower() in SUFFIXES and not Path(data).is_dir()
        return any(kind.__module__.partition(".")[0] in LIBRARIES for kind in type(data).__mro__)

    @classmethod
    def open(cls, data: Any, resources: Resources | None = None) -> MemoryEngine:
        """Open a frame, or the path of a file."""
        resources = resources or Resources()
        if isinstance(data, (str, Path)):
            return cls._open_file(Path(data), resources)
        return cls(frames.open_frame(data), detected=Detected(resources.conventions))

    @classmethod
    def _open_file(
        cls, path: Path, resources: Resources, styles: Mapping[str, TextFormat] | None = None
    ) -> MemoryEngine:
        table, detected = table_files.read_table(path, resources.conventions, numeric=resources.numeric, formats=styles)
        data = nw.from_native(table, eager_only=True)
        return cls(data, from_file=True, format=detect_format(path), detected=detected)

    def schema(self) -> Schema:
        """Return the column names and the number of records."""
        return Schema(tuple(self.data.columns), len(self.data))

    def distinct(self, column: str, reading: Reading) -> Distinct:
        """Return the distinct values of one column, and cache the codes for `encode`."""
        return self._read_column(column, reading).distinct

    def summarize(self, column: str) -> ColumnSummary:
        """Return a summary of the raw values of a column, without their order."""
        array = frames.to_arrow(self.data.get_column(column))
        try:
            values = pc.count_distinct(array).as_py()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            return super().summarize(column)
        text = frames.decode_dictionary(array) if pa.types.is_dictionary(array.type) else array
        example = text.drop_null().slice(0, 1) if column_values.is_text(text.type) else text[:0]
        return ColumnSummary(values, len(array) - array.null_count, str(example[0]) if len(example) else "0")

    def count_once(self, column: str) -> int:
        """Return the number of raw values of a column that occur once, without their order."""
        array = frames.to_arrow(self.data.get_column(column))
        try:
            counts = pc.value_counts(array.drop_null()).field("counts")
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            return super().count_once(column)
        return int(pc.sum(pc.equal(counts, 1)).as_py() or 0)

    def holds_truth_values(self, column: str) -> bool:
        """Return whether a column has truth values; a column of Python objects may have missing values, too."""
        series = self.data.get_column(column)
        if series.dtype == nw.Object:
            return bool(pa.types.is_boolean(frames.to_arrow(series).type))
        return bool(series.dtype == nw.Boolean)

    def prepare(self, readings: Mapping[str, Reading]) -> None:
        """Read several columns at once; large tables on several cores."""
        if len(self.data) > PARALLEL_MINIMUM:
            threads.each(lambda item: self._read_column(*item), readings.items())

    def _read_column(self, column: str, reading: Reading) -> column_values.EncodedValues:
        if column not in self.data.columns:
            raise PolicyError(explain_unknown_column(column, self.data.columns))
        if (column, reading) not in self._cache:
            array = frames.to_arrow(self.data.get_column(column))
            read = column_values.read_values(array, column, reading, self.detected.conventions)
            if read.style is not None:
                self.styles[column] = read.style
            self._cache[column, reading] = read
        return self._cache[column, reading]

    def encode(self, dictionaries: Mapping[str, Dictionary], *, carry: Sequence[str] | None = None) -> MemoryEngine:
        """Return the same data with codes for the named columns; ``carry`` is not needed, since all columns are in memory."""
        codes, sizes = dict(self.codes), dict(self.sizes)
        for column, dictionary in dictionaries.items():
            coded = self._read_column(column, dictionary.reading)
            target = np.append(dictionary.codes, np.int32(dictionary.missing)).astype(np.int32)
            self._cache.pop((column, dictionary.reading), None)  # large, and no longer needed
            codes[column] = target[coded.index]
            sizes[column] = int(target.max(initial=0)) + 1
        return replace(self, codes=codes, sizes=sizes, dictionaries={**self.dictionaries, **dictionaries}, _cache={})

    def count(self, quasi: Sequence[str], sensitive: Sequence[str] = (), *, partition: int | None = None) -> Counts:
        """Count the cells of encoded columns, sorted by their codes."""
        names = [*quasi, *sensitive]
        keys = np.zeros(len(self.data), np.uint64)
        row = np.empty(len(keys), np.int32)
        bound, packed = 1, True
        for name in names:
            if bound * self.sizes[name] >= KEY_LIMIT:  # make the keys dense before they overflow
                bound = len(kernels.order.number_keys(keys, kernels.order.argsort(keys), row))
                keys, packed = row.astype(np.uint64), False
            kernels.order.append_digit(keys, self.codes[name], self.sizes[name])
            bound *= self.sizes[name]
        order = kernels.order.argsort(keys)
        begin = kernels.order.number_keys(keys, order, row)
        size = np.diff(begin, append=len(keys)).astype(np.int64)
        first = order[begin]
        del order, begin
        if packed:
            cell = kernels.order.unpack(keys[first], np.array([self.sizes[n] for n in names], np.uint64))
        else:
            cell = np.stack([self.codes[n][first] for n in names], axis=1)
        del keys, first
        m = len(quasi)
        if not sensitive:
            return Counts(cell, np.arange(len(cell) + 1, dtype=np.int64), cell[:, m:], size, row)
        is_first = np.ones(len(cell), bool)
        is_first[1:] = (cell[1:, :m] != cell[:-1, :m]).any(axis=1)
        start = np.append(np.flatnonzero(is_first), len(cell)).astype(np.int64)
        return Counts(cell[start[:-1], :m], start, np.ascontiguousarray(cell[:, m:]), size, row)

    def apply(self, plans: Iterable[Plan]) -> MemoryEngine:
        """Return the released data: some columns unchanged, the others by group, without the suppressed records."""
        (plan,) = plans
        group = self._assign_groups(plan)
        present = group >= 0
        data = nw.maybe_reset_index(
            self._select_columns([c.name for c in plan.columns if isinstance(c, UnchangedColumn)])
        )
        if not present.all():
            data = nw.maybe_reset_index(data.filter(present.tolist())) if data.columns else data
            group = group[present]
        if plan.by_group:
            group = np.sort(group)
        if data.columns and not self.from_file:  # a frame read from a file has neither categories nor metadata
            data = frames.drop_unused(data)
        labels = {
            c.name: _build_group_column(c, group, plain=not self.from_file)
            for c in plan.columns
            if isinstance(c, GroupColumn)
        }
        kind = nw.get_native_namespace(self.data).__name__
        labelled = nw.from_native(frames.to_native(pa.table(labels), kind), eager_only=True)
        frames_used = [f for f in (data, labelled) if f.columns]
        released = self._with_rows(nw.concat(frames_used, how="horizontal"))
        hidden = [c.name for c in plan.columns if isinstance(c, HiddenColumn) and c.name in self.codes]
        read = {
            (name, self.dictionaries[name].reading): column_values.decode_values(
                self.dictionaries[name], self.codes[name][present]
            )
            for name in hidden
        }
        return replace(released, data=released._select_columns([c.name for c in plan.columns]), _cache=read)

    def without(self, columns: Sequence[str]) -> MemoryEngine:
        """Return the same rows without some columns."""
        kept = [name for name in self.data.columns if name not in columns]
        return self._with_rows(self._select_columns(kept))

    def _with_rows(self, data: nw.DataFrame[Any]) -> MemoryEngine:
        """Return another table from the same source, without codes."""
        return type(self)(data, self.from_file, self.format, detected=self.detected, styles=self.styles)

    def _select_columns(self, columns: Sequence[str]) -> nw.DataFrame[Any]:
        """Select columns one by one: in a list of names, a library may read a name such as ``*`` as a pattern."""
        selected = [self.data.get_column(name).to_frame() for name in columns]
        return nw.concat(selected, how="horizontal") if selected else self.data[:, :0]

    def _assign_groups(self, plan: Plan) -> Int32Array:
        """Return the group of every record."""
        row = list_record_cells(plan.counts)
        entries = np.bincount(plan.cell, minlength=len(plan.counts.size))
        first = np.concatenate(([0], np.cumsum(entries)[:-1]))
        group = plan.group[first[row]] if len(row) else plan.group[:0]
        divided = np.flatnonzero(entries > 1)
        if len(divided):
            rows = np.flatnonzero(entries[row] > 1)
            ordered = rows[np.lexsort((self._hash_records(plan.order, rows, row[rows]), row[rows]))]
            inside = np.isin(plan.cell, divided)
            group[ordered] = np.repeat(plan.group[inside], plan.count[inside])
        return group.astype(np.int32, copy=False)

    def _hash_records(self, order: KeyedOrder, rows: Int64Array, cell: Int32Array) -> UInt64Array:
        """Return the keyed hashes of the records ``rows``."""
        chosen = pa.array(rows)
        columns = {name: _take_rows(frames.to_arrow(self.data.get_column(name)), chosen) for name in order.columns}
        hashes = order.hash.mix(order.cells[cell], fingerprint.hash_rows_with_key(order.hash, columns, len(rows)))
        return order.hash.number_equal(cell, hashes)

    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Write the rows in the order of their hashes, which is independent of their order in the source.

        Rows with equal texts are written as equal bytes.
        """
        return table_files.write_table(self._order_rows(), path, format, escape_formulas=escape_formulas)

    def write_like_input(self, path: Path, *, escape_formulas: bool = True) -> tuple[int, Conventions]:
        """Write a CSV file in the conventions of the source."""
        written, formats = table_files.describe_output(self.detected, self.styles, self.data.columns)
        changed = table_files.write_table(
            self._order_rows(), path, "csv", escape_formulas=escape_formulas, written=written, formats=formats
        )
        return changed, written

    def _order_rows(self) -> pa.Table:
        """Return the rows in the order in which they are written."""
        table = pa.table({name: table_files.normalize(column) for name, column in self._arrow_columns().items()})
        first = kernels.order.argsort(fingerprint.hash_timestamps(self._arrow_columns(), len(table)))
        order = first[kernels.order.argsort(self._hash_rows(self.data.columns)[first])]
        return table.take(pa.array(order)).combine_chunks()

    def reopen(self, path: Path, written: Conventions | None = None) -> MemoryEngine:
        """Open a file that this engine wrote."""
        if written is None:
            return MemoryEngine.open(path)
        _, formats = table_files.describe_output(self.detected, self.styles, self.data.columns)
        return MemoryEngine._open_file(path, Resources(conventions=written), formats)

    def fingerprint(self) -> str:
        """Return a digest of the rows as a multiset."""
        return fingerprint.digest_rows(self.data.columns, [self._hash_rows(self.data.columns)])

    def frame(self) -> Any:
        """Return a frame of the library of the input; for a file, see `frames.build_frame` for the default."""
        if not self.from_file:
            return self.data.to_native()
        return frames.to_native(
            pa.table({name: frames.decode_dictionary(column) for name, column in self._arrow_columns().items()}), None
        )

    def _arrow_columns(self) -> dict[str, pa.ChunkedArray]:
        return {name: frames.to_arrow(self.data.get_column(name)) for name in self.data.columns}

    def _hash_rows(self, columns: Sequence[str]) -> UInt64Array:
        listed = {name: frames.to_arrow(self.data.get_column(name)) for name in columns}
        return fingerprint.hash_rows(listed, len(self.data))


def list_record_cells(counts: Counts) -> Int32Array:
    """Return the cell of every record; the counts come from the engine in memory."""
    if not isinstance(counts.handle, np.ndarray):
        raise EngineError(NOT_COUNTED)
    return counts.handle


def _take_rows(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    """Return the records ``rows`` of a column, in this order."""
    if pa.types.is_string_view(column.type):  # Arrow cannot reorder string views
        column = column.cast(pa.large_string())
    return column.take(rows)


def _build_group_column(column: GroupColumn, group: Int32Array, *, plain: bool) -> pa.Array:
    index = column.index[group]
    kind = pa.string() if column.values.dtype == object else None
    dictionary = pa.array(column.values, kind)
    encoded = pa.DictionaryArray.from_arrays(pa.array(index, mask=index < 0), dictionary)
    return encoded.cast(dictionary.type) if plain or kind is None else encoded
