"""The query for the released records: their groups by joins with the plans, and the published values of each group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.arrays import Int64Array
from shoal.engines.protocol import GroupColumn, HiddenColumn, KeyedOrder, Plan, UnchangedColumn
from shoal.engines.sql.cell_groups import CellGroups, join_whole_cells, take_keys
from shoal.engines.sql.keys import Keys
from shoal.engines.sql.session import SqlSession

ReleasedColumn = UnchangedColumn | GroupColumn


@dataclass(frozen=True)
class KeyedRecords:
    """The records with their keys as ``k0``, ``k1``… and the carried columns as ``c0``, ``c1``…

    ``sql`` is the SQL expression for the records; ``carried`` are the user's names of the carried columns. After them come the
    values, then the codes, of the columns ``coded``.
    """

    keys: Keys
    carried: tuple[str, ...]
    sql: str
    coded: tuple[str, ...] = ()

    def find_released(self, column: str) -> str:
        """The SQL name of a column as it is released: with codes, if it is coded."""
        if column in self.coded:
            return f"c{len(self.carried) + len(self.coded) + self.coded.index(column)}"
        return self.name(column)

    def name(self, column: str) -> str:
        """The SQL name of the values of a column."""
        return f"c{(*self.carried, *self.coded).index(column)}"

    @property
    def _count(self) -> int:
        return len(self.carried) + 2 * len(self.coded)

    @property
    def names(self) -> list[str]:
        """The SQL names of the carried columns."""
        return [f"c{number}" for number in range(self._count)]


@dataclass(frozen=True)
class DividedRecords:
    """The records of divided cells, which are numbered in their keyed order; see `SqlEngine._number_records`.

    ``sql`` is the SQL expression for these records. ``hashes`` is a table of the keys of divided cells with their keyed hashes
    as ``h``, as signed numbers.
    """

    records: KeyedRecords
    sql: str
    order: KeyedOrder
    hashes: str


NumberRecords = Callable[[DividedRecords], str]


@dataclass
class ReleaseQuery:
    """Collects the groups of every plan in tables of the database, and builds one query for all released records.

    ``records`` is the number of records that the plans release.
    """

    session: SqlSession
    columns: tuple[ReleasedColumn, ...] = ()
    coded: tuple[str, ...] = ()
    records: int = 0
    tables: list[str] = field(default_factory=list)
    _total: int = 0
    _order: KeyedOrder | None = None
    _pieces: dict[str, list[str]] = field(default_factory=dict)

    def add(self, plan: Plan, keys: Keys, cells: Sequence[Int64Array]) -> None:
        """Store the groups of a plan; ``cells`` are the keys of its cells."""
        count = int(plan.group.max(initial=-1)) + 1
        number = np.arange(self._total, self._total + count)
        groups = CellGroups.of(plan, number)
        words = dict(zip(keys.names, cells, strict=True))
        self.columns = plan.columns
        self._create("cells", take_keys(words, groups.cell), g=groups.group)
        if len(groups.divided):
            quotas = take_keys(words, groups.quota_cell)
            self._create("quotas", quotas, o=groups.quota_ordinal.astype(np.int64), g=groups.quota_group)
            hashes = plan.order.cells[groups.divided].view(np.int64)
            self._create("hashes", take_keys(words, groups.divided), h=hashes)
            self._order = plan.order
        labels = {f"w{i}": build_labels(column, count) for i, column in enumerate(self._group_columns)}
        self._create("labels", {"g": number}, **labels)
        self._total += count
        self.records += int(plan.count[plan.group >= 0].sum())

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
        grouped = self._assign_groups(records, number_records)
        columns, groups = [], 0
        for place, column in enumerate(self.columns):
            is_kept = isinstance(column, UnchangedColumn)
            columns.append(f"{f'p.{records.find_released(column.name)}' if is_kept else f'l.w{groups}'} AS r{place}")
            groups += not is_kept
        labels = f" JOIN (SELECT * FROM {self._union('labels')}) l ON p.g = l.g" if groups else ""
        return f"SELECT {', '.join(columns)} FROM ({grouped}) p{labels}"

    def _assign_groups(self, records: KeyedRecords, number_records: NumberRecords) -> str:
        """Return the query for the released records with their groups as ``g``, without the keys."""
        keys = records.keys
        query = join_whole_cells(keys, records.sql, self._union("cells"), records.names)
        if self._order is None:
            return query
        hashes = self._union("hashes")
        columns = ", ".join(f"s.{name}" for name in [*keys.names, *records.names])
        of_divided = f"(SELECT {columns} FROM {records.sql} s JOIN {hashes} USING ({keys.name_list}))"
        numbered = number_records(DividedRecords(records, of_divided, self._order, hashes))
        selected = ", ".join(["g", *(f"s.{name}" for name in records.names)])
        divided = (
            f"SELECT {selected} FROM {numbered} s JOIN {self._union('quotas')} USING ({keys.name_list}, o) WHERE g >= 0"
        )
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
                found[column.name] = build_labels(column, 0).type
        return found

    @property
    def visible(self) -> list[str]:
        """The names of the released columns that are not hidden."""
        return [column.name for column in self.columns if not isinstance(column, HiddenColumn)]


def build_labels(column: GroupColumn, count: int) -> pa.Array:
    """Return the published values of the first ``count`` groups."""
    kind = pa.string() if column.values.dtype == object else None
    values, index = pa.array(column.values, kind), column.index[:count]
    return values.take(pa.array(index, mask=index < 0))
