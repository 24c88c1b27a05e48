"""What SQL engines share, run in SQLite: another database than the one of the built-in engine gives the same result."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines import Counts, Plan
from shoal.engines.protocol import KEY_LIMIT
from shoal.engines.sql import (
    CellGroups,
    CodeTally,
    Keys,
    Region,
    build_counts,
    join_divided_cells,
    join_whole_cells,
    number_records,
    partition_expression,
    quote_name,
    quote_text,
    select_keys,
    split_cells,
    take_keys,
    tally_query,
)

COLUMNS = ('a "b"', "sex", "ill")
WIDE = 2**31  # codes of a column, so that three columns need two words
VALUES = ("x", None, "y'z")  # their codes are their places
Record = tuple[int, int, int]
records = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=30)
sizes = st.sampled_from([(3, 3, 3), (WIDE, WIDE, 3), (3, WIDE, WIDE)])

pytestmark = pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 39), reason="SQLite lacks IS NOT DISTINCT FROM")


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as made:
        yield made


def create(connection: sqlite3.Connection, name: str, columns: dict[str, Sequence[Any]]) -> str:
    """Replace a table."""
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"CREATE TABLE {name} ({', '.join(map(quote_name, columns))})")
    rows = zip(*(np.asarray(c).tolist() if isinstance(c, np.ndarray) else c for c in columns.values()), strict=True)
    connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
    return name


def stage(connection: sqlite3.Connection, given: list[Record], sizes: Sequence[int]) -> Keys:
    """Stage the keys of records, with the number of each record as ``c0``."""
    keys = Keys.of(COLUMNS, sizes, divide="/")
    values = {name: [VALUES[record[i]] for record in given] for i, name in enumerate(COLUMNS)}
    source = create(connection, "source", {**values, "number": range(len(given))})
    codes = create(connection, "codes", {"raw": VALUES, "code": range(3)})
    query = select_keys(keys, source, dict.fromkeys(COLUMNS, codes), ["s.number"])
    connection.execute("DROP TABLE IF EXISTS staged")
    connection.execute(f"CREATE TABLE staged AS {query}")
    return keys


def count(connection: sqlite3.Connection, keys: Keys, quasi: int) -> tuple[list[Any], Counts]:
    rows = connection.execute(f"SELECT {keys.name_list}, count(*) FROM staged GROUP BY {keys.name_list}").fetchall()
    *words, size = np.array(rows, np.int64).T.copy()
    return build_counts(keys, words, size, quasi)


@given(records, sizes, st.integers(0, 3))
def test_cells_are_counted(connection: sqlite3.Connection, given: list[Record], sizes: Any, quasi: int) -> None:
    keys = stage(connection, given, sizes)
    assert len(keys.names) == (1 if max(sizes) == 3 else 2)
    words, counts = count(connection, keys, quasi)
    cells = sorted(Counter(given).items())
    assert [tuple(row) for row in counts.quasi.tolist()] == sorted({cell[:quasi] for cell, _ in cells})
    assert counts.sensitive.tolist() == [list(cell[quasi:]) for cell, _ in cells]
    assert counts.size.tolist() == [records for _, records in cells]
    combination = np.repeat(np.arange(len(counts.quasi)), np.diff(counts.start))
    assert [tuple(row) for row in counts.quasi[combination].tolist()] == [cell[:quasi] for cell, _ in cells]
    extracted = ", ".join(keys.code(i) for i in range(3))
    listed = connection.execute(f"SELECT {extracted} FROM staged ORDER BY c0").fetchall()
    assert listed == given
    assert all(len(word) == len(cells) for word in words)


def test_a_value_without_a_code_has_no_key(connection: sqlite3.Connection) -> None:
    keys = Keys.of(("a",), [3], divide="/")
    create(connection, "source", {"a": ["x", "new", None]})
    create(connection, "codes", {"raw": ["x", None], "code": [0, 2]})
    assert connection.execute(select_keys(keys, "source", {"a": "codes"})).fetchall() == [(0,), (None,), (2,)]


@given(st.lists(st.integers(1, 2**40), max_size=12))
def test_words_stay_below_the_limit(sizes: list[int]) -> None:
    keys = Keys.of([str(i) for i in range(len(sizes))], sizes)
    assert keys.sizes == sizes
    assert all(np.prod([1, *word], dtype=object) < KEY_LIMIT for word in keys.word_sizes)
    with pytest.raises(IndexError):
        keys.code(len(sizes))


@given(records, sizes, st.integers(1, 6), st.integers(1, 4))
def test_partitions_are_a_split_of_the_records(
    connection: sqlite3.Connection, given: list[Record], sizes: Any, most: int, least: int
) -> None:
    keys = stage(connection, given, sizes)
    cells = f"(SELECT {keys.name_list}, count(*) AS records FROM staged GROUP BY {keys.name_list})"

    def tally(column: int, region: Region) -> CodeTally:
        rows = connection.execute(tally_query(keys, cells, column, region)).fetchall()
        return CodeTally(*np.array(rows, np.int64).reshape(-1, 3).T)

    partitioning = split_cells(tally, keys.sizes, most, least)
    query = f"SELECT {partition_expression(keys, partitioning)} FROM staged ORDER BY c0"
    found = [number for (number,) in connection.execute(query)]
    assert set(found) == set(range(partitioning.partitions))
    assert partitioning.partitions == 1 or min(Counter(found).values()) >= least
    assert len({(record, number) for record, number in zip(given, found, strict=True)}) == len(set(given))
    if least == 1:
        largest = max(len({r for r, n in zip(given, found, strict=True) if n == part}) for part in set(found))
        assert largest <= most


@given(records, sizes, st.data())
def test_records_go_to_groups_by_quota(
    connection: sqlite3.Connection, given: list[Record], sizes: Any, data: st.DataObject
) -> None:
    """Cells are divided among groups, or suppressed; the records of a cell are taken in the order of their numbers."""
    keys = stage(connection, given, sizes)
    words, counts = count(connection, keys, 3)
    entries = []
    for cell, size in enumerate(counts.size.tolist()):
        first = data.draw(st.integers(1, size))
        groups = data.draw(st.lists(st.integers(-1, 2), min_size=2, max_size=2, unique=True))
        entries += [(cell, groups[0], first), *([(cell, groups[1], size - first)] if first < size else [])]
    cell, group, quota = np.array(entries, np.int64).T
    tables = CellGroups.of(Plan(counts, cell, group.astype(np.int32), quota, ()), np.array([10, 11, 12]))
    named = dict(zip(keys.names, words, strict=True))
    whole = create(connection, "whole", {**take_keys(named, tables.cell), "g": tables.group})
    quotas = create(
        connection,
        "quotas",
        {**take_keys(named, tables.quota_cell), "o": tables.quota_ordinal, "g": tables.quota_group},
    )
    hashes = create(connection, "hashes", {**take_keys(named, tables.divided), "h": np.zeros(len(tables.divided))})
    connection.create_function("mix", 2, lambda first, second: 1_000 * first + second)  # keeps the order of c0
    numbered = number_records(keys, "staged", hashes=hashes, joins="", record="s.c0", mix="mix", hash_type="BIGINT")
    query = join_divided_cells(keys, numbered, quotas, ["c0"])
    found = connection.execute(f"{join_whole_cells(keys, 'staged', whole, ['c0'])} UNION ALL {query}").fetchall()
    expected = []
    for number, code in enumerate(sorted(set(given))):
        waiting = iter([place for place, record in enumerate(given) if record == code])
        for _, group_of, records_of in (entry for entry in entries if entry[0] == number):
            expected += [(group_of + 10, place) for place in islice(waiting, records_of) if group_of >= 0]
    assert sorted(found) == sorted(expected)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_texts_and_names_are_quoted(connection: sqlite3.Connection, text: str) -> None:
    cursor = connection.execute(f"SELECT {quote_text(text)} AS {quote_name(text)}")
    assert cursor.fetchall() == [(text,)]
    assert cursor.description[0][0] == text
