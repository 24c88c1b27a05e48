"""Ibis tables outside PostgreSQL: their database counts them, DuckDB recodes a copy, and the release is that of memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.engines import Resources, open_data
from shoal.engines.databases import ibis_batches, ibis_engine
from shoal.engines.databases.ibis_copy import CopyEngine
from shoal.engines.databases.ibis_engine import IbisEngine
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.protocol import AS_PUBLISHED, TargetTable
from tests.support.ibis_backends import BACKENDS, DATABASES, place_table, quote

ibis = pytest.importorskip("ibis", reason="ibis is not installed: pip install 'shoal[ibis]'")
duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore:::ibis")  # Ibis calls functions of pandas and DuckDB by their old names

each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_database = pytest.mark.parametrize("backend", DATABASES)
SEED = 2**80 + 12345
ODD = 'n "r0" *'  # a name with quotes, and names that the engine uses


def make_people(rows: int = 240) -> pa.Table:
    """Records with missing values, several per person, and columns of every common type."""
    draw = np.random.default_rng(7)

    def column(values: list[Any], kind: pa.DataType, missing: float = 0.1) -> pa.Array:
        picked = [values[i] for i in draw.integers(0, len(values), rows)]
        return pa.array([None if draw.random() < missing else v for v in picked], kind)

    return pa.table(
        {
            "person": column([f"p{i:03d}" for i in range(rows // 2)], pa.string(), missing=0),
            "age": column([*range(20, 32)], pa.int64()),
            ODD: column(["f", "m", "x", "", "É"], pa.string()),
            "born": column([date(1985, 5, 30), date(1990, 1, 1), date(2001, 12, 31)], pa.date32()),
            "r0": column([True, False], pa.bool_()),
            "ill": column(["flu", "cold", "gout"], pa.string()),
            "n": column([-0.5, 0.0, -0.0, 0.1, 3.0], pa.float64()),
            "seen": column([datetime(2024, 1, 1), datetime(2024, 1, 2, 3, 4, 5, 600000)], pa.timestamp("us")),
        }
    )


PEOPLE = make_people()
QUASI = {"age": "numeric", ODD: "categorical", "born": {"date": ["day", "month", "year"]}, "r0": "categorical"}
POLICY = shoal.Policy(
    identifiers=["person"],
    quasi=QUASI,
    sensitive=["ill"],
    keep=["n", "seen"],
    require=[shoal.KAnonymity(4), shoal.LDiversity(2, of="ill")],
    suppress=0.5,
)
BY_PERSON = POLICY.model_copy(
    update={"identifiers": (), "unit": shoal.Policy(quasi={"x": "numeric"}, unit="person").unit}
)
SIMPLE = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], require=[shoal.KAnonymity(2)], suppress=0.5)
DIVERSE = SIMPLE.model_copy(update={"require": (shoal.LDiversity(2, of="ill"),)})


def rows_of(table: pa.Table) -> list[str]:
    """The rows in no order; engines write 0 for -0.0."""
    rows = (row.values() for row in table.to_pylist())
    return sorted(str([v + 0.0 if isinstance(v, float) else v for v in row]) for row in rows)


def assert_same(found: shoal.Release, memory: shoal.Release) -> None:
    assert isinstance(found.frame, ibis.Table)
    assert rows_of(found.frame.to_pyarrow()) == rows_of(memory.frame)
    assert found.certificate == memory.certificate  # with the fingerprint
    assert repr(dict(found.measures)) == repr(dict(memory.measures))
    assert found.recoding.to_json() == memory.recoding.to_json()


WAYS = [
    ("mondrian", {}),
    ("tds", {}),
    ("optimal", {}),
    ("mdav", {}),  # divides cells
]


@each_database
@pytest.mark.parametrize(("method", "parameters"), WAYS, ids=str)
def test_the_release_is_that_of_memory(backend: str, method: str, parameters: dict[str, Any]) -> None:
    found, memory = (
        shoal.anonymize(data, POLICY, method=method, seed=SEED, **parameters)
        for data in (place_table(PEOPLE, backend), PEOPLE)
    )
    assert_same(found, memory)


def test_a_table_of_polars() -> None:
    """A backend without SQL, by the functions that Ibis has for every backend."""
    found, memory = (
        shoal.anonymize(data, POLICY, method="mdav", seed=SEED) for data in (place_table(PEOPLE, "polars"), PEOPLE)
    )
    assert_same(found, memory)


@each_database
def test_several_records_of_a_person(backend: str) -> None:
    found, memory = (shoal.anonymize(data, BY_PERSON, seed=SEED) for data in (place_table(PEOPLE, backend), PEOPLE))
    assert "240 records of 110 people" in str(memory.certificate)
    assert_same(found, memory)


@each_database
def test_a_randomizing_method(backend: str) -> None:
    table = PEOPLE.select(["age", ODD, "ill"])
    policy = shoal.Policy(quasi={"age": "numeric", ODD: "categorical"}, sensitive=["ill"], require=[])
    found, memory = (
        shoal.anonymize(data, policy, method="random", attributes=1, seed=3)
        for data in (place_table(table, backend), table)
    )
    assert_same(found, memory)


@each_backend
def test_a_check_is_that_of_memory(backend: str) -> None:
    placed = place_table(PEOPLE, backend)
    for policy in (POLICY, BY_PERSON):
        assert shoal.check(placed, policy) == shoal.check(PEOPLE, policy)


@each_database
def test_partitions_are_searched_in_a_copy(backend: str) -> None:
    limits = {"combinations": 60, "seed": SEED}
    found = shoal.anonymize(place_table(PEOPLE, backend), POLICY, **limits)
    expected = shoal.anonymize(PEOPLE, POLICY, engine="duckdb", **limits)
    assert found.recoding.to_json() == expected.recoding.to_json()
    assert found.certificate == expected.certificate and found.certificate.parts > 1
    assert rows_of(found.frame.to_pyarrow()) == rows_of(expected.frame.to_arrow_table())


@each_backend
def test_empty_tables_and_columns(backend: str) -> None:
    table = PEOPLE.set_column(1, "age", pa.nulls(len(PEOPLE), pa.int64()))
    assert shoal.check(place_table(table, backend), POLICY) == shoal.check(table, POLICY)
    opened = open_data(place_table(PEOPLE.slice(0, 0), backend))
    assert opened.schema().rows == 0 and len(opened.distinct("ill", AS_PUBLISHED).values) == 0
    assert opened.summarize("ill").values == 0 and opened.fingerprint() == open_data(PEOPLE.slice(0, 0)).fingerprint()


@each_backend
def test_summaries_are_counted_in_the_database(backend: str) -> None:
    opened, memory = open_data(place_table(PEOPLE, backend)), open_data(PEOPLE)
    assert opened.schema() == memory.schema() and opened.name == "ibis"
    for column in PEOPLE.column_names:
        one, other = opened.summarize(column), memory.summarize(column)
        zeros = column == "n"  # 0.0 and -0.0 are two values of Arrow
        assert (one.values + zeros, one.records) == (other.values, other.records)
        assert opened.count_once(column) == memory.count_once(column)
        assert (one.example == "0") == (other.example == "0")
    assert opened.holds_truth_values("r0") and not opened.holds_truth_values("age")
    assert opened.fingerprint() == memory.fingerprint()


# Pushdown


class Fetched:
    """The results that were fetched: their columns, and their numbers of rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results: list[tuple[int, int]] = []
        monkeypatch.setattr("shoal.engines.databases.ibis_source.read_batches", self.read)

    def read(self, backend: Any, expression: Any, names: dict[str, str]) -> Iterator[pa.Table]:
        rows = 0
        for batch in ibis_batches.read_batches(backend, expression, names):
            rows += batch.num_rows
            yield batch
        self.results.append((len(expression.columns), rows))


@each_backend
def test_counting_fetches_cells_and_never_the_records(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.concat_tables([PEOPLE.select(["age", "r0", "ill"])] * 20)
    cells, fetched = len(table.group_by(table.column_names).aggregate([])), Fetched(monkeypatch)
    placed = place_table(table, backend)
    policy = SIMPLE.model_copy(update={"quasi": shoal.Policy(quasi={"age": "numeric", "r0": "categorical"}).quasi})
    certificate = shoal.check(placed, policy)
    assert certificate.records == len(table) == 4800
    assert 0 < max(rows for _, rows in fetched.results) <= cells < 120


@each_database
def test_a_release_fetches_the_needed_columns_once(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = Fetched(monkeypatch)
    shoal.anonymize(place_table(PEOPLE.drop_columns("person"), backend), SIMPLE, seed=SEED)
    assert [columns for columns, rows in fetched.results if rows == len(PEOPLE)] == [2]  # age and ill, not all seven


@each_database
def test_results_are_read_in_batches(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ibis_batches.read_batches, "__defaults__", (32,))
    opened = open_data(place_table(PEOPLE, backend))
    assert isinstance(opened, IbisEngine)
    assert [batch.num_rows for batch in opened.source.stream(["age"])] == [32] * 7 + [16]
    assert shoal.check(place_table(PEOPLE, backend), POLICY) == shoal.check(PEOPLE, POLICY)


# The database stays as it is


def describe(path: Path, backend: str) -> list[Any]:
    if backend == "sqlite":
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("SELECT type, name FROM sqlite_master").fetchall()
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        return connection.execute("SELECT 'table', table_name FROM duckdb_tables()").fetchall()


def connect_read_only(path: Path, backend: str) -> Any:
    if backend == "duckdb":
        return ibis.duckdb.connect(path, read_only=True)
    return ibis.sqlite.from_connection(sqlite3.connect(f"file:{path}?mode=ro", uri=True))


@each_database
def test_a_read_only_connection_is_enough(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    placed = place_table(PEOPLE, backend, path)
    placed.get_backend().disconnect()
    connection = connect_read_only(path, backend)
    found = shoal.anonymize(connection.table("given"), POLICY, seed=SEED)
    assert_same(found, shoal.anonymize(PEOPLE, POLICY, seed=SEED))
    connection.disconnect()
    assert describe(path, backend) == [("table", "given")]


@each_database
def test_the_session_of_the_user_stays_as_it_is(backend: str) -> None:
    placed = place_table(PEOPLE, backend)
    connection = placed.get_backend()
    connection.raw_sql("CREATE TEMP TABLE released AS SELECT 1 AS mine")
    release = shoal.anonymize(placed, POLICY, seed=SEED)
    assert release.frame.count().to_pyarrow().as_py() == release.certificate.records
    names = "sqlite_temp_master" if backend == "sqlite" else "(SELECT table_name AS name FROM duckdb_tables())"
    found = connection.con.execute(f"SELECT name FROM {names} WHERE name <> 'given'").fetchall()
    assert found == [("released",)]
    assert connection.raw_sql("SELECT mine FROM released").fetchall() == [(1,)]


def test_the_order_of_the_rows_is_not_that_of_the_source(tmp_path: Path) -> None:
    orders = []
    for number, table in enumerate((PEOPLE, PEOPLE.take(list(range(len(PEOPLE)))[::-1]))):
        release = shoal.anonymize(place_table(table, "sqlite"), POLICY, seed=SEED)
        release.save(tmp_path / f"release{number}")
        orders.append((tmp_path / f"release{number}" / "table.parquet").read_bytes())
    assert orders[0] == orders[1]


# Texts and types


@pytest.mark.parametrize(("backend", "collation"), [("sqlite", "NOCASE"), ("sqlite", "RTRIM"), ("duckdb", "NOCASE")])
def test_texts_are_compared_byte_by_byte(backend: str, collation: str) -> None:
    """A collation that ignores case would merge groups, and the certificate would be too good."""
    connection = ibis.sqlite.connect() if backend == "sqlite" else ibis.duckdb.connect()
    connection.raw_sql(f"CREATE TABLE t (age TEXT COLLATE {collation}, ill TEXT COLLATE {collation})")
    connection.raw_sql("INSERT INTO t VALUES ('a', 'x'), ('A', 'X'), ('a ', 'x'), ('a', 'x')")
    policy = shoal.Policy(quasi={"age": "categorical"}, sensitive=["ill"], require=[shoal.KAnonymity(2)])
    certificate = shoal.check(connection.table("t"), policy)
    same = shoal.check(pa.table({"age": ["a", "A", "a ", "a"], "ill": ["x", "X", "x", "x"]}), policy)
    assert certificate == same and not certificate.holds
    assert open_data(connection.table("t")).distinct("age", AS_PUBLISHED).counts.tolist() == [1, 2, 1]


def test_a_database_with_a_collation_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ibis_engine, "BYTEWISE", ())
    placed = place_table(PEOPLE, "sqlite")
    assert isinstance(open_data(placed), CopyEngine)
    found, memory = (shoal.anonymize(data, POLICY, seed=SEED) for data in (placed, PEOPLE))
    assert rows_of(found.frame.to_pyarrow()) == rows_of(memory.frame)
    certificate = shoal.check(placed, POLICY)
    assert any("is in 'sqlite', which may treat different texts as equal" in note for note in certificate.notes)


def test_types_of_duckdb() -> None:
    connection = ibis.duckdb.connect()
    connection.con.execute(
        "CREATE TABLE t AS SELECT i % 3 AS age, TIMESTAMPTZ '2020-01-01 10:00:00+02' AS zoned, "
        "'x'::ENUM ('x', 'y') AS sort, uuid() AS id, [1, 2] AS list, {'a': 1} AS record, '{\"a\": 1}'::JSON AS text, "
        "TIME '10:00:00.5' AS time, INTERVAL 1 DAY AS span, 3::HUGEINT AS wide, 'b'::BLOB AS bytes, "
        "TIMESTAMP_NS '2020-01-01 00:00:00.123456789' AS fine, 1.5::DECIMAL(9, 2) AS price FROM range(6) r(i)"
    )
    opened = open_data(connection.table("t"))
    readable = {
        "zoned": ["2020-01-01T08:00:00"],
        "sort": ["x"],
        "text": ['{"a": 1}'],
        "time": ["10:00:00.5"],
        "wide": ["3"],
        "bytes": ["b"],
        "fine": ["2020-01-01T00:00:00.123456789"],
        "price": ["1.5"],
    }
    for column, texts in readable.items():
        assert opened.distinct(column, AS_PUBLISHED).values.tolist() == texts, column
    assert len(opened.distinct("id", AS_PUBLISHED).values) == 6
    keep = shoal.Policy(quasi={"age": "numeric"}, keep=[*readable, "id"], require=[shoal.KAnonymity(2)])
    assert shoal.anonymize(connection.table("t"), keep).certificate.records == 6
    for column in ("list", "record", "span"):
        policy = shoal.Policy(quasi={"age": "numeric"}, keep=[column], require=[shoal.KAnonymity(2)])
        with pytest.raises(shoal.DataError, match=f"column '{column}' holds .*, which cannot be grouped"):
            shoal.anonymize(connection.table("t"), policy)


def fill(columns: str, *rows: tuple[Any, ...]) -> Any:
    connection = ibis.sqlite.connect()
    connection.con.execute(f"CREATE TABLE t ({columns})")
    connection.con.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
    return connection.table("t")


def test_dates_and_numbers_of_sqlite() -> None:
    table = fill(
        "born DATE, seen TIMESTAMP, zoned TIMESTAMPTZ, price DECIMAL(9, 2)",
        ("2020-01-01", "2020-01-01 10:00:00", "2020-01-01 10:00:00+02:00", 1.1),
        ("2020-01-02 00:00:00", "2020-01-01T10:00:00.5", "2020-01-01 10:00:00", 2),
    )
    opened = open_data(table)
    assert opened.distinct("born", AS_PUBLISHED).values.tolist() == ["2020-01-01", "2020-01-02"]
    assert opened.distinct("seen", AS_PUBLISHED).values.tolist() == ["2020-01-01T10:00:00", "2020-01-01T10:00:00.5"]
    assert opened.distinct("zoned", AS_PUBLISHED).values.tolist() == ["2020-01-01T08:00:00", "2020-01-01T10:00:00"]
    assert opened.distinct("price", AS_PUBLISHED).values.tolist() == ["1.1", "2"]


@pytest.mark.parametrize("kind", ["INTEGER", "REAL", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(9, 2)"])
def test_values_of_another_type_are_not_quoted(kind: str) -> None:
    """SQLite stores any value in any column."""
    table = fill(f"age {kind}, ill TEXT", ("secret", "a"))
    with pytest.raises(shoal.DataError, match=r"column 'age' is declared as .* holds values of another type") as caught:
        shoal.check(table, SIMPLE)
    assert "secret" not in str(caught.value) and caught.value.__suppress_context__


def test_frames_and_functions_of_the_user() -> None:
    """Ibis creates temporary tables for frames only where it fetches a result itself."""
    for backend in DATABASES:
        placed = place_table(PEOPLE, backend)
        names = ibis.memtable({"ill": ["flu", "cold", "gout"], "group": ["a", "a", "b"]})
        joined = placed.join(names, "ill").select("age", ill="group")
        assert shoal.check(joined, SIMPLE).records == PEOPLE.num_rows - PEOPLE["ill"].null_count


# Errors


class Changing:
    """Adds a record to a table before the number of results that is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, table: Any, statement: str) -> None:
        self.left, self.connection, self.statement = -1, table.get_backend(), statement
        monkeypatch.setattr("shoal.engines.databases.ibis_source.read_batches", self.read)

    def read(self, backend: Any, expression: Any, names: dict[str, str]) -> Iterator[pa.Table]:
        self.left -= 1
        if self.left == 0:
            self.connection.con.execute(self.statement)
        yield from ibis_batches.read_batches(backend, expression, names)


@each_database
@pytest.mark.parametrize(
    "statement",
    [
        f"INSERT INTO given ({quote('age')}) VALUES (25)",
        "UPDATE given SET age = 99 WHERE age = 25",
        "UPDATE given SET ill = CASE ill WHEN 'flu' THEN 'cold' WHEN 'cold' THEN 'flu' ELSE ill END",
    ],
    ids=["added", "another value", "other combinations"],
)
def test_a_source_that_changes_is_noticed(backend: str, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"age": [*[25] * 6, *[26] * 6], "ill": [*["flu"] * 4, *["cold"] * 2, *["flu"] * 2, *["cold"] * 4]})
    placed = place_table(table, backend)
    changing = Changing(monkeypatch, placed, "")
    shoal.anonymize(placed, DIVERSE, seed=SEED)
    results = -changing.left - 1  # the last one is the copy
    for before in (results - 1, results):  # before the combinations are counted, and before the copy
        placed = place_table(table, backend)
        changing = Changing(monkeypatch, placed, statement)
        changing.left = before
        try:
            release = shoal.anonymize(placed, DIVERSE, seed=SEED)
        except shoal.DataError as error:
            assert "the source changed while it was read" in str(error)
        else:  # all that was read is one state of the table
            assert_same(release, shoal.anonymize(placed.to_pyarrow(), DIVERSE, seed=SEED))
            assert before < results


@each_backend
def test_errors_of_the_database_quote_no_data(backend: str) -> None:
    table = place_table(pa.table({"age": ["secret"], "ill": ["a"]}), backend)
    broken = table.mutate(age=table.age.cast("int64"))
    if backend == "sqlite":  # a cast never fails there
        table.get_backend().con.execute("DROP TABLE given")
    with pytest.raises(shoal.EngineError) as caught:
        shoal.check(broken, SIMPLE)
    assert "secret" not in str(caught.value) and caught.value.__suppress_context__


@each_database
def test_tables_are_written_in_postgresql_alone(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed, fetched = place_table(PEOPLE, backend), Fetched(monkeypatch)
    target = TargetTable("open.people", KeyedHash.of(1))
    with pytest.raises(
        shoal.PolicyError, match=rf"'open.people': .* PostgreSQL, but this Ibis table is in '{backend}'"
    ):
        open_data(placed, Resources(target=target))
    with pytest.raises(shoal.PolicyError, match=f"data are an Ibis table, in '{backend}'"):
        shoal.anonymize(placed, SIMPLE, table="people")
    assert not fetched.results
    release = shoal.anonymize(placed, SIMPLE, seed=SEED)
    with pytest.raises(shoal.PolicyError, match=f"Ibis table is in '{backend}'"):
        release.save(tmp_path / "release", table="people")
    assert not (tmp_path / "release").exists()


def test_a_column_that_does_not_exist() -> None:
    with pytest.raises(shoal.PolicyError, match=r"'aged' .*did you mean 'age'"):
        open_data(place_table(PEOPLE, "sqlite")).distinct("aged", AS_PUBLISHED)


def test_only_released_rows_are_written(tmp_path: Path) -> None:
    opened = open_data(place_table(PEOPLE, "sqlite"))
    with pytest.raises(shoal.EngineError, match="Release it"):
        opened.write(tmp_path / "table.csv", "csv")
    less = opened.without(["person", "seen"])
    assert less.frame().columns == less.schema().names == ("age", ODD, "born", "r0", "ill", "n")
    assert less.fingerprint() == open_data(PEOPLE.drop_columns(["person", "seen"])).fingerprint()


def test_an_ibis_table_without_a_database() -> None:
    with pytest.raises(shoal.DataError, match="belongs to no database"):
        shoal.anonymize(ibis.table({"age": "int64", "ill": "string"}), SIMPLE)


def test_copies_are_removed(tmp_path: Path) -> None:
    release = shoal.anonymize(place_table(PEOPLE, "sqlite"), POLICY, temp=tmp_path, seed=SEED)
    release.save(tmp_path / "release")
    del release
    assert not list(tmp_path.rglob("copied.parquet"))
