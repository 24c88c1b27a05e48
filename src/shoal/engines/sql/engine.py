"""The base of the engines that run SQL: DuckDB, Spark, and databases such as PostgreSQL.

`distinct` groups columns in the database and converts the distinct values in Python, as the engine in memory does. `encode`
creates a table of codes for every column. `count` joins these tables and groups the records by their *keys*: all codes packed
into 64-bit words. `apply` joins the keys with the groups of all plans, in one query. Python gets dictionaries and counted
cells; no record leaves the database.

A subclass opens data, stores released rows (`_store_release`), numbers the records of divided cells (`_number_records`), and
writes, opens and fingerprints tables.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from shoal.arrays import Int32Array, Int64Array
from shoal.engines import column_values
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
    TextFormat,
)
from shoal.engines.sql.coded_columns import CodedColumn, unify_raw_values
from shoal.engines.sql.counted_cells import CountedCells, FetchedCells
from shoal.engines.sql.keys import Keys, build_counts, select_keys
from shoal.engines.sql.partition_tree import CodeTally, Region, split_cells, tally_query
from shoal.engines.sql.raw_cells import FEW, CellBound, RawCells
from shoal.engines.sql.release_query import DividedRecords, KeyedRecords, ReleaseQuery
from shoal.engines.sql.session import SqlSession
from shoal.engines.sql.table import CHANGED, SqlTable
from shoal.errors import DataError, EngineError


@dataclass(frozen=True)
class SqlEngine(Engine):
    """A table in a database, with the codes of the encoded columns.

    ``hidden`` has the dictionaries of hidden columns, of which the table holds codes instead of values. ``detected`` says how
    the user's source is written, and ``styles`` has the formats of numbers and dates that were detected in its columns.
    ``summaries`` are the summaries of columns, and their numbers of values that occur once, as far as they were asked for.
    ``bound`` limits the number of cells of a released table; if they are few, ``raw_cells`` are fetched in one query.
    """

    keeps_cells: ClassVar[bool] = True
    """Whether the counted cells of a small table are kept in memory, instead of a table of the database."""

    session: SqlSession
    table: SqlTable
    codings: Mapping[str, CodedColumn] = field(default_factory=dict)
    carry: tuple[str, ...] | None = None
    dictionaries: Mapping[str, Dictionary] = field(default_factory=dict, repr=False)
    hidden: Mapping[str, Dictionary] = field(default_factory=dict, repr=False)
    detected: Detected = UNKNOWN
    styles: dict[str, TextFormat] = field(default_factory=dict, repr=False)
    summaries: dict[str, tuple[ColumnSummary, int]] = field(default_factory=dict, repr=False)
    bound: CellBound | None = None
    raw_cells: RawCells | None = field(default=None, repr=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @abstractmethod
    def _store_release(self, query: str, release: ReleaseQuery) -> Self:
        """Compute the released rows once and store them; return an engine for them.

        ``query`` has the columns ``r0``, ``r1``… in the order of ``release.columns``. The order of the stored rows must depend
        on ``release.visible`` columns alone. ``release.list_types`` has the Arrow types.
        """

    @abstractmethod
    def _number_records(self, divided: DividedRecords) -> str:
        """Return the SQL expression for the records of divided cells with their number in the keyed order, from 1, as ``o``.

        The other columns are those of ``divided.sql``. The order of the records of a cell is that of `KeyedHash.number_equal`
        for ``mix(h, record)``, where ``h`` is the hash of the cell and ``record`` the hash of the columns of the order
        (`fingerprint.hash_rows_with_key`).
        """

    @property
    def format(self) -> Format:
        """The format of the source."""
        return self.table.format

    def schema(self) -> Schema:
        """Return the column names and the number of records."""
        return Schema(self.table.names, self.table.rows)

    def holds_truth_values(self, column: str) -> bool:
        """Return whether the type of a column is that of truth values."""
        return bool(pa.types.is_boolean(self.table.types[column]))

    def summarize(self, column: str) -> ColumnSummary:
        """Return a summary of the raw values of a column, counted in the database."""
        return self._summarize_values(column)[0]

    def count_once(self, column: str) -> int:
        """Return the number of raw values of a column that occur once, counted in the database."""
        return self._summarize_values(column)[1]

    def _summarize_values(self, column: str) -> tuple[ColumnSummary, int]:
        """Count the raw values of a column, and those that occur once, in one query."""
        if column not in self.summaries:
            raw = self.table.find(column)
            self.table.refuse_unsupported(column)
            example = f"min({raw})" if column_values.is_text(self.table.types[column]) else "'0'"
            counted = f"SELECT {raw}, count(*) AS n FROM {self.table.sql} s WHERE {raw} IS NOT NULL GROUP BY {raw}"
            values, records, once, text = self.session.fetch_row(
                "SELECT count(*) AS v, CAST(coalesce(sum(n), 0) AS BIGINT) AS n, count(CASE WHEN n = 1 THEN 1 END) AS o, "
                f"{example} AS e FROM ({counted}) c"
            )
            self.summaries[column] = ColumnSummary(values, records, str(text or "")), int(once)
        return self.summaries[column]

    def distinct(self, column: str, reading: Reading) -> Distinct:
        """Return the distinct values of one column."""
        return self._read_column(column, reading)[0]

    def prepare(self, readings: Mapping[str, Reading]) -> None:
        """Group several columns in one query, so that the source is read once."""
        wanted = [column for column in readings if ("raw", column) not in self._cache]
        if len(wanted) > 1:
            group = self._group_cells if self._has_few_cells(wanted) else self._group_columns
            group(wanted)

    def _has_few_cells(self, columns: Sequence[str]) -> bool:
        return self.bound is not None and self.bound.of(columns) <= min(FEW, self.session.resources.max_combinations)

    def _find_groupable(self, columns: Sequence[str]) -> dict[str, str]:
        """Return the SQL names of columns; raise an error for a column that cannot be grouped."""
        names = {column: self.table.find(column) for column in columns}
        for column in columns:
            self.table.refuse_unsupported(column)
        return names

    def _group_cells(self, columns: Sequence[str]) -> None:
        """Fetch the combinations of raw values of columns, each with its number of records."""
        names = self._find_groupable(columns)
        raw = ", ".join(names.values())
        found = self.session.fetch_arrow(f"SELECT {raw}, count(*) AS n FROM {self.table.sql} s GROUP BY {raw}")
        self._cache["raw cells"] = cells = RawCells.of(found, names)
        for column in columns:
            self._cache["raw", column] = cells.values[column], cells.count_values(column)

    def _group_columns(self, columns: Sequence[str]) -> None:
        """Fetch the raw values of columns, each with its number of records."""
        names = self._find_groupable(columns)
        if len(names) == 1:
            ((column, name),) = names.items()
            found = self.session.fetch_arrow(
                f"SELECT {name}, count(*) AS records FROM {self.table.sql} s GROUP BY {name}"
            )
            self._cache["raw", column] = _combine(found[name]), found["records"].to_numpy().astype(np.int64, copy=False)
            return
        flags = ", ".join(f"grouping({name}) AS f{i}" for i, name in enumerate(names.values()))
        sets = ", ".join(f"({name})" for name in names.values())
        raw = ", ".join(names.values())
        found = self.session.fetch_arrow(
            f"SELECT {raw}, {flags}, count(*) AS records FROM {self.table.sql} s GROUP BY GROUPING SETS ({sets})"
        )
        for i, (column, name) in enumerate(names.items()):
            rows = np.flatnonzero(found[f"f{i}"].to_numpy() == 0)
            values = _combine(found[name].take(pa.array(rows)))
            self._cache["raw", column] = values, found["records"].to_numpy()[rows].astype(np.int64)

    def _raw_values(self, column: str) -> tuple[pa.Array, Int64Array]:
        """Return the raw values of a column, and the number of records of each."""
        if ("raw", column) not in self._cache:
            self._group_columns([column])
        values, records = self._cache["raw", column]
        self.table.refuse_miscounted(int(records.sum()))
        return values, records

    def _read_column(self, column: str, reading: Reading) -> tuple[Distinct, Int32Array]:
        """Return the distinct values, and the index of every raw value among them, in the order of the raw values."""
        if (column, reading) not in self._cache:
            read = self._decode_column if column in self.hidden else self._unify_column
            self._cache[column, reading] = read(column, reading, *self._raw_values(column))
        cached: tuple[Distinct, Int32Array] = self._cache[column, reading]
        return cached

    def _unify_column(
        self, column: str, reading: Reading, values: pa.Array, records: Int64Array
    ) -> tuple[Distinct, Int32Array]:
        raw = self.table.restore_type(column, values)
        distinct, index, style = unify_raw_values(raw, records, column, reading, self.detected.conventions)
        if style is not None:
            self.styles[column] = style
        return distinct, index

    def _decode_column(
        self, column: str, reading: Reading, codes: pa.Array, records: Int64Array
    ) -> tuple[Distinct, Int32Array]:
        dictionary = self.hidden[column]
        if reading != dictionary.reading:
            raise EngineError(f"the column {column!r} is hidden. It can be read only as it was encoded.")
        coded = column_values.decode_values(dictionary, codes.to_numpy(zero_copy_only=False), records)
        return coded.distinct, coded.index

    def encode(self, dictionaries: Mapping[str, Dictionary], *, carry: Sequence[str] | None = None) -> Self:
        """Return the same data with codes for the named columns."""
        codings = dict(self.codings)
        for column in carry or ():
            self.table.find(column)
            self.table.refuse_unsupported(column)
        for column, dictionary in dictionaries.items():
            _, index = self._read_column(column, dictionary.reading)
            codings[column] = CodedColumn.of(self._raw_values(column)[0], index, dictionary, self.hidden.get(column))
        return replace(
            self,
            codings=codings,
            carry=None if carry is None else tuple(dict.fromkeys(carry)),
            dictionaries={**self.dictionaries, **dictionaries},
            raw_cells=self._cache.get("raw cells"),
            _cache={},
        )

    def partition(self, quasi: Sequence[str], sensitive: Sequence[str] = (), *, least: int = 1) -> Partitioning:
        """Split the table into partitions where it has more cells than the memory limit allows at once."""
        return self._count_cells(quasi, sensitive, least).partitioning

    def count(self, quasi: Sequence[str], sensitive: Sequence[str] = (), *, partition: int | None = None) -> Counts:
        """Count the cells of encoded columns, sorted by their codes."""
        cells = self._count_cells(quasi, sensitive)
        number = None if cells.partitioning.partitions == 1 else partition
        if number is None and cells.partitioning.partitions > 1 and self.carry is not None:
            raise EngineError("the table is too large to be counted at once. Count its partitions one by one.")
        table = self.session.fetch_arrow(cells.select(number)) if cells.whole is None else cells.whole
        if any(table[word].null_count for word in cells.keys.names):
            raise DataError(CHANGED)
        words = [table[word].to_numpy() for word in cells.keys.names]
        words, counts = build_counts(cells.keys, words, table["n"].to_numpy(), len(quasi))
        return replace(counts, handle=FetchedCells(self.session, cells, words, number))

    def _count_cells(self, quasi: Sequence[str], sensitive: Sequence[str], least: int = 1) -> CountedCells:
        """Count the cells in the database. Few cells are fetched; many are stored there and split into partitions."""
        cache_key = ("cells", tuple(quasi), tuple(sensitive))
        if cache_key not in self._cache:
            self._cache[cache_key] = self._query_cells((*quasi, *sensitive), len(quasi), least)
        cached: CountedCells = self._cache[cache_key]
        return cached

    def _query_cells(self, columns: Sequence[str], quasi: int, least: int) -> CountedCells:
        keys, most = self._keys(columns), self.session.resources.max_combinations
        if self.raw_cells is not None and self.raw_cells.index.keys() >= set(columns):
            codes = {column: self.codings[column].codes for column in columns}
            return CountedCells(keys, "", Partitioning.whole(), self.raw_cells.count(keys, codes))
        query = f"SELECT {keys.name_list}, count(*) AS n FROM ({self._encode_query(keys)}) e GROUP BY {keys.name_list}"
        if self.keeps_cells and self.table.rows <= most:
            whole = self.session.fetch_arrow(query)
            self.table.refuse_miscounted(int(whole["n"].to_numpy().sum()))
            return CountedCells(keys, "", Partitioning.whole(), whole)
        cells = self.session.store_query("cells", query)
        count, records = self.session.fetch_row(
            f"SELECT count(*) AS cells, CAST(coalesce(sum(n), 0) AS BIGINT) AS records FROM {cells}"
        )
        self.table.refuse_miscounted(records)
        if count <= most:
            return CountedCells(keys, cells, Partitioning.whole())

        def tally(column: int, region: Region) -> CodeTally:
            listed = f"(SELECT {keys.name_list}, n AS records FROM {cells}) l"
            rows = self.session.fetch_arrow(tally_query(keys, listed, column, region))
            return CodeTally(*(rows[name].to_numpy() for name in CodeTally._fields))

        split = split_cells(tally, keys.sizes[:quasi], most, least)
        if split.partitions > 1:  # their recodings are written to a folder
            split = replace(split, folder=self.session.new_folder(), owner=self.session)
        return CountedCells(keys, cells, split)

    def _keys(self, columns: Sequence[str]) -> Keys:
        return Keys.of(columns, [self.codings[c].size for c in columns], divide=self.session.divide)

    def _encode_query(self, keys: Keys, carry: Sequence[str] = (), release: ReleaseQuery | None = None) -> str:
        """Return the query for every record with its key, which is NULL for a value without a code.

        For a release, the query has also the published values that depend on one code.
        """
        tables, added = {}, {}
        for place, column in enumerate(keys.columns):
            coding = self.codings[column]
            values = None if release is None else release.list_code_values(place, coding.raw, coding.codes)
            if values is not None:
                tables[column] = self.session.create_table("codes", values)
                added[column] = values.column_names[2:]
            elif not coding.is_stored:
                tables[column] = coding.table(self.session)
        carried = [self._normalize_column(column) for column in carry]
        return select_keys(
            keys, self.table.sql, tables, carried, added=added, quote=self.table.find, look_up=self.session.look_up
        )

    def _normalize_column(self, column: str) -> str:
        """Return the SQL expression for a column of ``s`` as it is released: NaN and empty texts are missing values."""
        raw, kind = f"s.{self.table.find(column)}", self.table.types[column]
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_floating(kind):
            return f"CASE WHEN {self.session.is_nan(raw)} THEN NULL WHEN {raw} = 0 THEN 0 ELSE {raw} END"
        is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        return f"nullif({raw}, '')" if column_values.is_text(kind) or is_bytes else raw

    def apply(self, plans: Iterable[Plan]) -> Self:
        """Return the released data: all plans are applied in one query, which is computed and stored once."""
        if self.carry is None:
            raise EngineError("this table was encoded only to be counted. To release it, encode it with carry.")
        release, counted = self._start_release(self.carry), None
        for plan in plans:
            counted = plan.counts.handle
            if not isinstance(counted, FetchedCells) or counted.session is not self.session:
                raise EngineError(NOT_COUNTED)
            release.add(plan, counted.cells.keys, counted.words, is_whole=counted.partition is None)
            self._place_records(counted, release)
        if counted is None:
            raise EngineError(NOT_COUNTED)
        query = release.select(self._select_records(counted, release), self._number_records)
        released = self._store_release(query, release)
        if released.table.rows != release.records:
            raise DataError(CHANGED)
        self.session.drop(*release.tables)
        sizes = {column: summary.values + 1 for column, (summary, _) in self.summaries.items()}  # with missing values
        sizes |= {column: len(coding.raw) for column, coding in self.codings.items()}
        return replace(
            released,
            hidden={name: self.dictionaries[name] for name in release.coded},
            bound=release.bound_cells(sizes),
        )

    def _start_release(self, carry: tuple[str, ...]) -> ReleaseQuery:
        """Return an object that collects the plans of a release; ``carry`` are the columns that the records carry."""
        return ReleaseQuery(self.session, carry)

    def _place_records(self, counted: FetchedCells, release: ReleaseQuery) -> None:
        """Assign the records of a partition to their groups, before the next plan is requested (default: after all plans)."""

    def _select_records(self, counted: FetchedCells, release: ReleaseQuery) -> KeyedRecords:
        """Return the records with their keys, the carried columns, and the values and codes of some columns of the keys.

        The codes are released; the keyed order is that of the values, as in every engine.
        """
        keys, carried = counted.cells.keys, (*release.carried, *release.coded)
        records = KeyedRecords(keys, carried, f"({self._encode_query(keys, carried, release)})")
        return records.add_codes(release.coded)

    def without(self, columns: Sequence[str]) -> Self:
        """Return the same rows without some columns."""
        return replace(
            self, table=self.table.hide(columns), codings={}, carry=None, dictionaries={}, raw_cells=None, _cache={}
        )


def _combine(column: pa.ChunkedArray) -> pa.Array:
    """Return a column of a query result as one array."""
    values = column.combine_chunks()
    return values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
