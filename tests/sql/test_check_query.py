"""The query of `shoal check --print-sql` counts what `shoal.check` counts, in DuckDB, PostgreSQL and Spark.

The queries for Snowflake and BigQuery count the same in DuckDB when sqlglot translates them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.sql import DIALECTS, check_query
from tests.support.cases import ILLNESS, Case, cases
from tests.support.postgres import require_server
from tests.support.spark import require_spark
from tests.support.ways import list_requirements

duckdb = pytest.importorskip("duckdb")
sqlglot = pytest.importorskip("sqlglot")

COLUMNS = ("number", "requirement", "groups", "failing_groups", "failing_records", "undecided_values", "holds")
EVERY = [
    *list_requirements("illness"),
    shoal.TCloseness(0.3, of="illness", distance="hierarchical", taxonomy=ILLNESS),
    shoal.TCloseness(0.2, of="illness", distance="ordered", order=["gout", "cold", "flu"]),
    shoal.AlphaKAnonymity(0.5, 3, of="illness", values=["gout", "flu"]),
    shoal.LDiversity(3, of="illness", kind="recursive", c=0.7),
    shoal.DeltaDisclosure(0.5, of="illness"),
]
Rows = list[tuple[Any, ...]]
Run = Callable[[pa.Table, shoal.Policy], Rows]


def in_duckdb(table: pa.Table, policy: shoal.Policy, **options: Any) -> Rows:
    with duckdb.connect() as connection:
        connection.register("published", table)
        found = connection.execute(check_query(policy, dialect="duckdb", table="published", **options))
        assert tuple(column[0] for column in found.description) == COLUMNS
        return found.fetchall()


def in_postgres(table: pa.Table, policy: shoal.Policy, **options: Any) -> Rows:
    server = require_server()
    server.upload(table, 'odd "name"')
    return server.rows(check_query(policy, dialect="postgres", table='"odd ""name"""', **options))


def in_spark(table: pa.Table, policy: shoal.Policy) -> Rows:
    spark = require_spark()
    spark.createDataFrame(table).coalesce(1).createOrReplaceTempView("published")
    return sorted(tuple(row) for row in spark.sql(check_query(policy, dialect="spark", table="published")).collect())


def translated_back(dialect: str) -> Run:
    """Run the query of a dialect in DuckDB, for tables without NaN, which every dialect tests in its own way."""

    def run(table: pa.Table, policy: shoal.Policy) -> Rows:
        query = check_query(policy, dialect=dialect, table="published")
        (text,) = sqlglot.transpile(query, read=dialect, write="duckdb")
        with duckdb.connect() as connection:
            connection.execute("CREATE MACRO to_variant(value) AS value")  # of Snowflake
            connection.register("published", table)
            return connection.execute(text).fetchall()

    return run


databases = pytest.mark.parametrize("run", [in_duckdb, in_postgres], ids=["duckdb", "postgres"])


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    empty = [i for i, column in enumerate(table.columns) if pa.types.is_null(column.type)]
    for i in empty:  # a column without a value has no type
        table = table.set_column(i, table.column_names[i], table.column(i).cast(pa.string()))
    return table


def assert_counted(rows: Rows, certificate: shoal.Certificate) -> None:
    """The rows say what the findings say."""
    found = [(*row[1:5], row[6]) for row in rows]
    findings = certificate.findings
    assert found == [(f.text, f.groups, f.failing_groups, f.failing_records, f.holds) for f in findings]
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    assert {row[5] for row in rows} <= {0}


def visits(people: int, *, seed: int, missing: bool = False) -> pd.DataFrame:
    """A table in which people have several records, some records have no person, and values are missing."""
    rng = np.random.default_rng(seed)
    rows = people * 3
    frame = pd.DataFrame(
        {
            "person": [f"p{i}" for i in rng.integers(0, people, rows)],
            "age": rng.integers(20, 23, rows),
            'it\'s a "city"': rng.choice(["Oulu", "Rome"], rows),
            "illness": rng.choice(["flu", "cold", "gout"], rows, p=[0.5, 0.3, 0.2]),
        }
    )
    if missing:
        for column in ("person", 'it\'s a "city"', "illness"):
            frame.loc[rng.random(rows) < 0.15, column] = None
    return frame


def visit_policy(require: Sequence[Any], **more: Any) -> shoal.Policy:
    quasi = {"age": "numeric", 'it\'s a "city"': "categorical"}
    return shoal.Policy(quasi=quasi, sensitive="illness", require=require, **more)


@databases
@settings(max_examples=25)
@given(case=cases())
def test_counts_what_check_counts(run: Run, case: Case) -> None:
    assert_counted(run(to_arrow(case.frame), case.policy), shoal.check(to_arrow(case.frame), case.policy))


@databases
@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("people", [3, 15])
def test_every_requirement(run: Run, unit: str | None, missing: bool, people: int) -> None:
    table = to_arrow(visits(people, seed=people, missing=missing))
    on = [replace(r, on=("age",)) for r in EVERY[:4]]
    policy = visit_policy([r for r in (*EVERY, *on) if r.least <= len(table)], unit=unit)
    certificate = shoal.check(table, policy)
    assert_counted(run(table, policy), certificate)
    assert people == 3 or len({f.holds for f in certificate.findings}) == 2


@pytest.mark.engines
@pytest.mark.parametrize("unit", [None, "person"])
def test_every_requirement_in_spark(unit: str | None) -> None:
    """One query with all requirements: Spark needs seconds to plan it."""
    table = to_arrow(visits(15, seed=15, missing=True))
    policy = visit_policy([*EVERY, replace(EVERY[0], on=("age",))], unit=unit)
    assert_counted(in_spark(table, policy), shoal.check(table, policy))


translated = pytest.mark.parametrize("dialect", ["snowflake", "bigquery"])


@translated
@pytest.mark.parametrize("unit", [None, "person"])
def test_every_requirement_translated_back(dialect: str, unit: str | None) -> None:
    table = to_arrow(visits(15, seed=15, missing=True))
    policy = visit_policy([*EVERY, *(replace(r, on=("age",)) for r in EVERY[:4])], unit=unit)
    assert_counted(translated_back(dialect)(table, policy), shoal.check(table, policy))


@translated
@settings(max_examples=8)
@given(case=cases())
def test_tables_translated_back(dialect: str, case: Case) -> None:
    table = to_arrow(case.frame)
    assert_counted(translated_back(dialect)(table, case.policy), shoal.check(table, case.policy))


@settings(max_examples=15)
@given(case=cases(least=8), style=st.sampled_from(["label", "lo-hi"]))
def test_counts_the_groups_of_a_release(case: Case, style: str) -> None:
    policy = case.policy.model_copy(update={"require": (shoal.KAnonymity(2),), "suppress": 1.0})
    table = to_arrow(shoal.anonymize(case.frame, policy, write=style, seed=1).frame)
    if not len(table):
        return
    strict = policy.model_copy(update={"require": (shoal.KAnonymity(4), *(replace(r, on=None) for r in EVERY[:3]))})
    certificate = shoal.check(table, strict) if len(table) >= 4 else None
    if certificate is not None:
        assert_counted(in_duckdb(table, strict, columns=table.column_names), certificate)


@databases
def test_missing_values_are_one_value(run: Run) -> None:
    """An empty text, a null and a number that is no number are the same missing value; the text NaN is a value."""
    table = pa.table(
        {
            "city": ["", None, "NaN", "NaN", "", None, " ", " "],
            "score": pa.array([float("nan"), None, 0.0, -0.0, 1.5, 1.5, None, float("nan")], pa.float64()),
            "illness": ["?", None, "", "flu", "?", "?", None, ""],
        }
    )
    policy = shoal.Policy(
        quasi={"city": "categorical", "score": "numeric"},
        sensitive="illness",
        missing=["", "?"],
        require=[shoal.KAnonymity(2), shoal.KAnonymity(3, on=["city"]), shoal.LDiversity(2, of="illness")],
    )
    certificate = shoal.check(table, policy)
    assert [f.groups for f in certificate.findings] == [4, 3, 4]
    assert_counted(run(table, policy), certificate)


@databases
def test_spellings_are_one_value_where_the_policy_normalizes(run: Run) -> None:
    table = pa.table(
        {
            "age": [1, 1, 1, 1, 2, 2, 2, 2],
            "illness": ["Flu", " flu ", "FLU", "flu", "n/a", "", None, "gout"],
            "person": ["Ann", " ann", "ANN", "7", "-1", "N/A", None, "1.5"],
        }
    )
    policy = shoal.Policy(
        quasi={"age": "numeric"},
        sensitive="illness",
        normalize="illness",
        missing=["", "N/A"],
        unit="person",
        require=[
            shoal.LDiversity(2, of="illness"),
            shoal.KAnonymity(3),
            shoal.ConfidenceBound(0.9, of="illness", values=["Gout"]),
        ],
    )
    assert_counted(run(table, policy), shoal.check(table, policy))


@databases
@pytest.mark.parametrize("name", ["Åsa", "01", "1e3", "ann\t", "x\u200b"])
def test_a_text_that_sql_cannot_normalize_is_undecided(run: Run, name: str) -> None:
    """Nobody is counted twice in silence: SQL does not know that 01 and 1 are one person."""
    table = pa.table({"age": [1, 1, 1], "person": ["1", "b", name]})
    policy = shoal.Policy(quasi={"age": "numeric"}, unit="person", require=[shoal.KAnonymity(1)])
    assert [(row[5], row[6]) for row in run(table, policy)] == [(1, False)]


@databases
@pytest.mark.parametrize("more", [{"distance": "ordered", "order": ["low", "high"]}, {"distance": "ordered"}])
def test_an_order_of_numbers_or_texts(run: Run, more: dict[str, Any]) -> None:
    values = ["high", "low", None, "low"] if "order" in more else ["10", "9", "1e1", None]
    table = pa.table({"age": [1, 1, 1, 1, 2, 2, 2, 2], "income": values + values[::-1][:2] + ["low", "9"][:1] * 2})
    table = table if "order" in more else table.set_column(1, "income", pa.array([*values, "9", "9", "100", "-2.5"]))
    require = [shoal.TCloseness(t, of="income", **more) for t in (0.0, 0.1, 0.2, 0.3)]
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive="income", require=require)
    assert_counted(run(table, policy), shoal.check(table, policy))


@databases
@pytest.mark.parametrize("values", [["low", "middle"], ["1,5", "2"]])
def test_a_value_without_a_place_is_undecided(run: Run, values: list[str]) -> None:
    more = {"order": ["low", "high"]} if values[0] == "low" else {}
    table = pa.table({"age": [1, 1], "income": values})
    require = [shoal.TCloseness(1.0, of="income", distance="ordered", **more)]
    rows = run(table, shoal.Policy(quasi={"age": "numeric"}, sensitive="income", require=require))
    assert [row[6] for row in rows] == [False]
    assert rows[0][5] > 0


@databases
def test_a_value_outside_the_tree_is_undecided(run: Run) -> None:
    table = pa.table({"age": [1, 1], "illness": ["flu", "measles"]})
    require = [shoal.TCloseness(1.0, of="illness", distance="hierarchical", taxonomy=ILLNESS)]
    rows = run(table, shoal.Policy(quasi={"age": "numeric"}, sensitive="illness", require=require))
    assert [(row[5], row[6]) for row in rows] == [(1, False)]


@databases
def test_an_empty_table_does_not_hold(run: Run) -> None:
    table = pa.table({"age": pa.array([], pa.int64()), "illness": pa.array([], pa.string())})
    rows = run(table, shoal.Policy(quasi={"age": "numeric"}, sensitive="illness", require=EVERY))
    assert {(row[2:5], row[6]) for row in rows} == {((0, 0, 0), False)}


def test_records_are_counted_on_request() -> None:
    table = to_arrow(visits(15, seed=1))
    policy = visit_policy([shoal.KAnonymity(12)], unit="person")
    published = table.drop_columns(["person"])
    rows = in_duckdb(published, policy, records=True)
    finding = shoal.check(published, policy, records=True).findings[0]
    assert rows[0][2:5] == (finding.groups, finding.failing_groups, finding.failing_records)


@pytest.mark.parametrize("name", ["shoal_cells", "shoal_source", "shoal_r1", "shoal__cells", "q1"])
def test_the_name_of_the_table_can_be_any(name: str) -> None:
    policy = shoal.Policy(quasi={"q1": "numeric", "records": "numeric"}, require=[shoal.KAnonymity(2)])
    with duckdb.connect() as connection:
        connection.register(name, pa.table({"q1": [1, 1, 2], "records": [1, 1, 5]}))
        assert connection.execute(check_query(policy, dialect="duckdb", table=name)).fetchall()[0][2:5] == (2, 1, 1)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_parses_and_all_names_are_quoted(dialect: str) -> None:
    policy = visit_policy(EVERY, unit="person", normalize="illness", missing=["?", "it's", "back\\slash"])
    tree = sqlglot.parse_one(check_query(policy, dialect=dialect, table="ward.release"), read=dialect)
    assert all(name.args.get("quoted") for name in tree.find_all(sqlglot.exp.Identifier))
    literals = {text.this for text in tree.find_all(sqlglot.exp.Literal) if text.is_string}
    assert {"it's", "back\\slash"} <= literals
    assert {'it\'s a "city"', "ward", "release"} <= {name.this for name in tree.find_all(sqlglot.exp.Identifier)}


@pytest.mark.parametrize(
    ("policy", "options", "text"),
    [
        ({"require": [shoal.Posterior(0.5)]}, {}, r"posterior \(most = 0.5\) cannot be counted by an SQL query"),
        ({"unit": {"column": "id", "knows": "history"}}, {}, r"k-anonymity \(k = 2\) cannot be counted .* history"),
        ({"require": []}, {}, "the policy has no requirement"),
        ({"quasi": {}}, {}, "the policy has no quasi-identifier"),
        ({}, {"dialect": "postgre"}, "unknown SQL dialect 'postgre'.*did you mean 'postgres'"),
        ({}, {"table": "a.b.c.d"}, "'a.b.c.d' is no name of a table"),
        ({}, {"table": 'a"b'}, "is no name of a table"),
    ],
)
def test_what_cannot_be_counted_is_named(policy: dict[str, Any], options: dict[str, Any], text: str) -> None:
    given = {"quasi": {"age": "numeric"}, "require": [shoal.KAnonymity(2)], **policy}
    with pytest.raises(shoal.PolicyError, match=text):
        check_query(given, **{"dialect": "duckdb", **options})
