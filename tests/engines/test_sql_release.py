"""The query of a release in SQL, run in SQLite: published values by codes and by groups give the same rows."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines import Counts, GroupColumn, Plan, UnchangedColumn
from shoal.engines.sql import Keys, build_counts, quote_name, select_keys
from shoal.engines.sql.code_labels import NO_RECORD, find_code_labels
from shoal.engines.sql.raw_cells import CellBound, RawCells
from shoal.engines.sql.release_query import KeyedRecords, ReleaseQuery
from shoal.engines.sql.session import SqlSession

COLUMNS = ("age", "sex", "ill")
VALUES = ("x", None, "y'z", "u")  # their codes are their places
SIZES = [len(VALUES)] * 3
CODES = np.arange(len(VALUES), dtype=np.int32)
codes = st.integers(0, len(VALUES) - 1)
records = st.lists(st.tuples(codes, codes, codes), min_size=1, max_size=30)
labels = st.lists(st.integers(-1, 2), min_size=len(VALUES), max_size=len(VALUES))

needs_null_safe_equality = pytest.mark.skipif(
    sqlite3.sqlite_version_info < (3, 39), reason="SQLite lacks IS NOT DISTINCT FROM"
)


class Sqlite(SqlSession):
    """Tables in an SQLite database in memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self._names = connection, 0

    def new_name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}_{self._names}"

    def new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="shoal-"))

    def fetch_arrow(self, sql: str) -> pa.Table:
        cursor = self.connection.execute(sql)
        rows = cursor.fetchall()
        return pa.table({column[0]: [row[i] for row in rows] for i, column in enumerate(cursor.description)})

    def create_table(self, prefix: str, table: pa.Table) -> str:
        name = self.new_name(prefix)
        self.connection.execute(f"CREATE TABLE {name} ({', '.join(map(quote_name, table.column_names))})")
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        self.connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * table.num_columns)})", rows)
        return name

    def store_query(self, prefix: str, sql: str) -> str:
        name = self.new_name(prefix)
        self.connection.execute(f"CREATE TABLE {name} AS {sql}")
        return name

    def drop(self, *names: str) -> None:
        for name in names:
            self.connection.execute(f"DROP TABLE {name}")


def count(given: list[tuple[int, ...]], quasi: int) -> tuple[Keys, list[Any], Counts]:
    keys = Keys.of(COLUMNS, SIZES, divide="/")
    cells = Counter(given)
    packed = keys.pack_codes({name: np.array([cell[i] for cell in cells], np.int32) for i, name in enumerate(COLUMNS)})
    words, counts = build_counts(keys, list(packed.values()), np.array(list(cells.values()), np.int64), quasi)
    return keys, words, counts


def list_cells(counts: Counts) -> list[tuple[int, ...]]:
    """The codes of every cell."""
    combination = np.repeat(np.arange(len(counts.quasi)), np.diff(counts.start))
    return [tuple(row) for row in np.hstack([counts.quasi[combination], counts.sensitive]).tolist()]


def plan_cut(counts: Counts, cut: list[list[int]], suppressed: set[tuple[int, ...]]) -> Plan:
    """Publish the value ``cut[i][code]`` for the code of column i; cells with suppressed values go to no group."""
    published = [tuple(cut[i][code] for i, code in enumerate(cell)) for cell in list_cells(counts)]
    groups = sorted(set(published) - suppressed)
    group = np.array([groups.index(p) if p not in suppressed else -1 for p in published], np.int32)
    columns: list[Any] = []
    for i, name in enumerate(COLUMNS):
        index = np.array([g[i] for g in groups], np.int32)
        columns.append(GroupColumn(name, np.array(["a", "b", "c"], object), index))
    columns.append(UnchangedColumn("number"))
    return Plan(counts, np.arange(len(counts.size)), group, counts.size, tuple(columns))


@given(records, st.tuples(labels, labels, labels), st.integers(0, 3), st.data())
@needs_null_safe_equality
def test_values_by_codes_and_by_groups_are_the_same_rows(
    given: list[tuple[int, ...]], cut: Any, quasi: int, data: st.DataObject
) -> None:
    keys, words, counts = count(given, quasi)
    published = sorted({tuple(cut[i][code] for i, code in enumerate(record)) for record in given})
    suppressed = data.draw(st.sets(st.sampled_from(published)))
    plan = plan_cut(counts, list(cut), suppressed)
    values = {f"r{i}": [VALUES[record[i]] for record in given] for i in range(3)}
    found = []
    for is_whole in (True, False):
        with closing(sqlite3.connect(":memory:")) as connection:
            session = Sqlite(connection)
            source = session.create_table("source", pa.table({**values, "number": list(range(len(given)))}))
            query, tables, added = ReleaseQuery(session, ("number",)), {}, {}
            query.add(plan, keys, words, is_whole=is_whole)
            for place, name in enumerate(COLUMNS):
                raw = pa.array(VALUES)
                table = query.list_code_values(place, raw, CODES)
                added[name] = [] if table is None else table.column_names[2:]
                tables[name] = session.create_table(
                    "codes", pa.table({"raw": raw, "code": CODES}) if table is None else table
                )
            selected = select_keys(
                keys, source, tables, ["s.number"], added=added, quote=lambda name: f"r{COLUMNS.index(name)}"
            )
            sql = query.select(KeyedRecords(keys, ("number",), f"({selected})"), lambda divided: "")
            released = session.fetch_arrow(f"SELECT * FROM {session.store_query('released', sql)} ORDER BY r3")
            found.append([tuple(row.values()) for row in released.to_pylist()])
            session.drop(*query.tables)
            assert is_whole == all(len(names) == 1 for names in added.values())
    expected = []
    for number, record in enumerate(given):
        published_codes = tuple(cut[i][code] for i, code in enumerate(record))
        if published_codes not in suppressed:
            expected.append((*(None if code < 0 else "abc"[code] for code in published_codes), number))
    assert found == [expected, expected]


@given(records, st.lists(st.integers(-1, 1), min_size=64, max_size=64), st.integers(0, 3))
def test_a_value_by_code_is_found_if_it_depends_on_one_column(
    given: list[tuple[int, ...]], index: list[int], quasi: int
) -> None:
    """Every cell is a group with any value: by brute force, a column decides the value or no column does."""
    keys, words, counts = count(given, quasi)
    cells, each = list_cells(counts), np.arange(len(counts.size))
    column = GroupColumn("sex", np.array(["a", "b"], object), np.array(index[: len(each)], np.int32))
    found = find_code_labels(Plan(counts, each, each.astype(np.int32), counts.size, (column,)), keys, words)
    places = [i for i in range(3) if len({(c[i], index[n]) for n, c in enumerate(cells)}) == len({c[i] for c in cells})]
    if not places:
        assert found is None
        return
    assert found is not None and found[0].column == (1 if 1 in places else places[0])
    by_code = {cell[found[0].column]: index[number] for number, cell in enumerate(cells)}
    assert found[0].index.tolist() == [by_code.get(code, NO_RECORD) for code in range(len(VALUES))]


def test_a_plan_that_divides_a_cell_has_no_values_by_code() -> None:
    keys, words, counts = count([(0, 0, 0), (0, 0, 0), (1, 0, 0)], 3)
    column = GroupColumn("sex", np.array(["a"], object), np.zeros(2, np.int32))
    divided = Plan(
        counts, np.array([0, 0]), np.array([0, 1], np.int32), np.array([1, 1]), (column,)
    )  # cell 1 is not listed
    assert find_code_labels(divided, keys, words) is None


@given(records, st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_cells_are_counted_from_combinations_of_raw_values(given: list[tuple[int, ...]], code: list[int]) -> None:
    combinations = Counter(given)
    columns = {f"r{i}": [VALUES[combination[i]] for combination in combinations] for i in range(3)}
    table = pa.table({**columns, "n": list(combinations.values())})
    cells = RawCells.of(table, dict(zip(COLUMNS, columns, strict=True)))
    for i, name in enumerate(COLUMNS):
        counted = dict(zip(cells.values[name].to_pylist(), cells.count_values(name).tolist(), strict=True))
        assert counted == Counter(VALUES[record[i]] for record in given)
    keys = Keys.of(("sex", "ill"), [4, 4])
    of_value = dict(zip(VALUES, code, strict=True))
    coded = {name: np.array([of_value[v] for v in cells.values[name].to_pylist()], np.int32) for name in COLUMNS}
    found = cells.count(keys, coded)
    expected = Counter(code[record[1]] * 4 + code[record[2]] for record in given)
    assert dict(zip(found["k0"].to_pylist(), found["n"].to_pylist(), strict=True)) == expected


def test_the_bound_of_cells_is_that_of_groups_and_of_columns_that_differ_within_groups() -> None:
    bound = CellBound(10, 1_000, {"age": 1, "ill": 7})
    assert bound.of(["age"]) == 10
    assert bound.of(["age", "ill"]) == 70
    assert bound.of(["age", "unknown"]) == 1_000
