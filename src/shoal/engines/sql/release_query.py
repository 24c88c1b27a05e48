"""The query for the released records: their groups by joins with the plans, and the published values of each group.

Where every published value depends on one code alone, the values are joined by these codes instead (`code_labels`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.arrays import Int32Array, Int64Array
from shoal.engines.protocol import GroupColumn, HiddenColumn, KeyedOrder, Plan, UnchangedColumn
from shoal.engines.sql.cell_groups import CellGroups, join_divided_cells, join_whole_cells, take_keys
from shoal.engines.sql.code_labels import NO_RECORD, CodeLabels, find_code_labels
from shoal.engines.sql.keys import Keys
from shoal.engines.sql.raw_cells import CellBound
from shoal.engines.sql.session import SqlSession

ReleasedColumn = UnchangedColumn | GroupColumn


@dataclass(frozen=True)
class KeyedRecords:
    """The records with their keys as ``k0``, ``k1``… and the carried columns as ``c0``, ``c1``…

    ``sql`` is the SQL expression for the records; ``carried`` are the user's names of the carried columns. After them come the
    codes of the columns ``coded``.
    """

    keys: Keys
    carried: tuple[str, ...]
    sql: str
    coded: tuple[str, ...] = ()

    def add_codes(self, columns: Sequence[str]) -> KeyedRecords:
        """The same records, also with the codes of some columns of the keys."""
        if not columns:
            return self
        records = replace(self, coded=(*self.coded, *columns))
        codes = ((self.keys.code(self.keys.columns.index(column)), records.find_released(column)) for column in columns)
        more = "".join(f", CAST({code} AS INTEGER) AS {name}" for code, name in codes)
        return replace(records, sql=f"(SELECT e.*{more} FROM {self.sql} e)")

    def find_released(self, column: str) -> str:
        """The SQL name of a column as it is released: with codes, if it is coded."""
        return f"c{len(self.carried) + self.coded.index(column)}" if column in self.coded else self.name(column)

    def name(self, column: str) -> str:
        """The SQL name of the values of a column."""
        return f"c{self.carried.index(column)}"

    @property
    def names(self) -> list[str]:
        """The SQL names of the carried columns and of the codes."""
        return [f"c{number}" for number in range(len(self.carried) + len(self.coded))]


@dataclass(frozen=True)
class DividedRecords:
    """The records of divided cells, which are numbered in their keyed order; see `SqlEngine._number_records`.

    ``sql`` is the SQL expression for these records. ``hashes`` is a table of the keys of divided cells with their keyed hashes
    as ``h``, as signed numbers unless `ReleaseQuery.hash_type` is another. ``tables`` takes the names of tables that are no
    longer needed when the records are released.
    """

    records: KeyedRecords
    sql: str
    order: KeyedOrder
    hashes: str
    tables: list[str] = field(default_factory=list)


NumberRecords = Callable[[DividedRecords], str]


@dataclass
class ReleaseQuery:
    """Collects the groups of every plan in tables of the database, and builds one query for all released records.

    ``carried`` are the columns whose values the records carry. ``records`` and ``groups`` are the numbers of records and of
    groups that the plans release.
    """

    hash_type: ClassVar[type[np.integer]] = np.int64  # of 64 bits; not every database has unsigned numbers

    session: SqlSession
    carried: tuple[str, ...] = ()
    columns: tuple[ReleasedColumn, ...] = ()
    records: int = 0
    groups: int = 0
    tables: list[str] = field(default_factory=list)
    _order: KeyedOrder | None = None
    _pieces: dict[str, list[str]] = field(default_factory=dict)
    _by_code: list[CodeLabels] | None = None

    def add(self, plan: Plan, keys: Keys, cells: Sequence[Int64Array], *, is_whole: bool) -> None:
        """Store the groups of a plan; ``cells`` are the keys of its cells. ``is_whole``: it is the plan of the whole table."""
        self.columns = plan.columns
        self.records += int(plan.count[plan.group >= 0].sum())
        words = dict(zip(keys.names, cells, strict=True))
        if not (is_whole and self._add_code_labels(plan, keys, words)):
            self._add_groups(plan, words)

    def _add_code_labels(self, plan: Plan, keys: Keys, words: Mapping[str, Int64Array]) -> bool:
        """Note the values by codes, and store the suppressed cells; return False where values depend on several codes."""
        found = find_code_labels(plan, keys, list(words.values()))
        if found is None:
            return False
        suppressed = plan.cell[plan.group < 0]
        if len(suppressed):
            self._create("suppressed", take_keys(words, suppressed))
        self._by_code = found
        self.groups = int(plan.group.max(initial=-1)) + 1
        return True

    def list_code_values(self, column: int, raw: pa.Array, codes: Int32Array) -> pa.Table | None:
        """Return the table of raw values and codes of a key column with the values that depend on it, as ``w0``, ``w1``…

        Codes without released records are left out. None: no published value depends on this column alone.
        """
        pairs = zip(self._group_columns, self._by_code or (), strict=False)
        found = {
            f"w{i}": (group, labels.index[codes]) for i, (group, labels) in enumerate(pairs) if labels.column == column
        }
        if not found:
            return None
        is_released = next(iter(found.values()))[1] != NO_RECORD
        values = {name: take_values(group, index[is_released]) for name, (group, index) in found.items()}
        return pa.table({"raw": raw.filter(pa.array(is_released)), "code": codes[is_released], **values})

    def _add_groups(self, plan: Plan, words: Mapping[str, Int64Array]) -> None:
        """Store the cells with their groups, and the values of the groups."""
        groups = CellGroups.of(plan, self._add_labels(plan))
        self._create("cells", take_keys(words, groups.cell), g=groups.group)
        if len(groups.divided):
            quotas = take_keys(words, groups.quota_cell)
            self._create("quotas", quotas, o=groups.quota_ordinal.astype(np.int64), g=groups.quota_group)
            hashes = plan.order.cells[groups.divided].view(self.hash_type)
            self._create("hashes", take_keys(words, groups.divided), h=hashes)
            self._order = plan.order

    def _add_labels(self, plan: Plan) -> Int64Array:
        """Store the values of the groups of a plan, and return the numbers of the groups."""
        number = self._number_groups(plan)
        labels = {f"w{i}": take_values(c, c.index[: len(number)]) for i, c in enumerate(self._group_columns)}
        self._create("labels", {"g": number}, **labels)
        return number

    def _number_groups(self, plan: Plan) -> Int64Array:
        """Return numbers for the groups of a plan, which follow those of earlier plans."""
        first, count = self.groups, int(plan.group.max(initial=-1)) + 1
        self.groups += count
        return np.arange(first, first + count)

    def _create(self, kind: str, words: Mapping[str, Any], **columns: NDArray[Any] | pa.Array) -> None:
        table = self.session.create_table(kind, pa.table({**words, **columns}))
        self.tables.append(table)
        self._pieces.setdefault(kind, []).append(table)

    @property
    def _group_columns(self) -> list[GroupColumn]:
        return [column for column in self.columns if isinstance(column, GroupColumn)]

    def _union(self, kind: str) -> str:
        """The SQL expression for the tables of all plans."""
        tables = self._pieces[kind]
        if len(tables) == 1:
            return tables[0]
        return f"({' UNION ALL '.join(f'SELECT * FROM {table}' for table in tables)}) {kind}_"

    def select(self, records: KeyedRecords, number_records: NumberRecords) -> str:
        """Return the query for the released records, with the released columns as ``r0``, ``r1``…"""
        if self._by_code is not None:
            return self._select_by_codes(records)
        grouped = self._assign_groups(records, number_records)
        labels = f" JOIN (SELECT * FROM {self._union('labels')}) l ON p.g = l.g" if self._group_columns else ""
        return f"SELECT {self._list_columns(records, 'l')} FROM ({grouped}) p{labels}"

    def _select_by_codes(self, records: KeyedRecords) -> str:
        """Return the query for the released records, which have the published values of their codes beside their keys."""
        keys = records.keys
        conditions = [
            f"p.{word} IS NOT NULL" for word in keys.names
        ]  # without codes: suppressed, or the source changed
        if "suppressed" in self._pieces:
            same = " AND ".join(f"x.{word} = p.{word}" for word in keys.names)
            conditions.append(f"NOT EXISTS (SELECT 1 FROM {self._union('suppressed')} x WHERE {same})")
        return f"SELECT {self._list_columns(records, 'p')} FROM {records.sql} p WHERE {' AND '.join(conditions)}"

    def _list_columns(self, records: KeyedRecords, labels: str) -> str:
        """List the released columns: those of groups from the table ``labels``, the others from ``p``."""
        columns, groups = [], 0
        for place, column in enumerate(self.columns):
            if isinstance(column, UnchangedColumn):
                columns.append(f"p.{records.find_released(column.name)} AS {self._name_column(place)}")
            else:
                columns.append(f"{labels}.w{groups} AS {self._name_column(place)}")
                groups += 1
        return ", ".join(columns)

    def _name_column(self, place: int) -> str:
        """Return the SQL name of a released column."""
        return f"r{place}"

    def _assign_groups(self, records: KeyedRecords, number_records: NumberRecords) -> str:
        """Return the query for the released records with their groups as ``g``, without the keys."""
        keys = records.keys
        query = join_whole_cells(keys, records.sql, self._union("cells"), records.names)
        if self._order is None:
            return query
        hashes = self._union("hashes")
        columns = ", ".join(f"s.{name}" for name in [*keys.names, *records.names])
        of_divided = f"(SELECT {columns} FROM {records.sql} s JOIN {hashes} USING ({keys.name_list}))"
        numbered = number_records(DividedRecords(records, of_divided, self._order, hashes, self.tables))
        divided = join_divided_cells(keys, numbered, self._union("quotas"), records.names)
        return f"{query} UNION ALL {divided}"

    def list_types(self, source: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The Arrow types of the released columns; ``source`` has those of the source."""
        found = {}
        for column in self.columns:
            if column.name in self.coded:
                found[column.name] = pa.int32()
            elif isinstance(column, UnchangedColumn):
                found[column.name] = source[column.name]
            else:
                found[column.name] = take_values(column, column.index[:0]).type
        return found

    def bound_cells(self, sizes: Mapping[str, int]) -> CellBound:
        """Bound the number of published combinations; ``sizes`` has the numbers of values of some unchanged columns."""
        return CellBound(self.groups, self.records, {**sizes, **{column.name: 1 for column in self._group_columns}})

    @property
    def coded(self) -> tuple[str, ...]:
        """The hidden columns that are released as codes, because the records do not carry their values."""
        hidden = (column.name for column in self.columns if isinstance(column, HiddenColumn))
        return tuple(name for name in hidden if name not in self.carried)

    @property
    def visible(self) -> list[str]:
        """The names of the released columns that are not hidden."""
        return [column.name for column in self.columns if not isinstance(column, HiddenColumn)]


def index_values(column: GroupColumn, index: Int32Array) -> pa.DictionaryArray:
    """Return published values of a column by their indices, where -1 is missing, with the dictionary of all values."""
    kind = pa.string() if column.values.dtype == object else None
    return pa.DictionaryArray.from_arrays(pa.array(index, mask=index < 0), pa.array(column.values, kind))


def take_values(column: GroupColumn, index: Int32Array) -> pa.Array:
    """Return published values of a column by their indices, where -1 is missing."""
    values = index_values(column, index)
    return values.dictionary.take(values.indices)
