"""Workloads of COUNT queries: drawn at random, given as mappings, and read from SQL text."""

from __future__ import annotations

import re
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.measures import Interval, Query, Workload, query_error, random_workload
from shoal.measures.conditions import Domain, Every, Missing, Not, Some, Values
from tests.support.case_files import check_lines

PEOPLE = pd.DataFrame(
    {
        "age": [21, 22, None, 25, 38, 39],
        "hours-per-week": [40, 40, 20, 38.5, None, 60],
        "born": ["2001-02-03", "2000-02-03", "1999-12-31", "1999-12-31", None, "1990-01-01"],
        "order": ["a", "O'Hara", 'say "x"', "a", None, "b"],
        "ill": ["flu", "gout", "flu", None, "cold", "flu"],
        "wage": [100, 250, 250, 3000, 100, 250],
    }
)
POLICY = shoal.Policy(
    quasi={"age": "numeric", "hours-per-week": "numeric", "born": "date", "order": "categorical"},
    sensitive=["ill", "wage"],
    require=[shoal.KAnonymity(1)],
)


def answer(*queries: Any) -> list[int]:
    given = queries[0] if len(queries) == 1 and isinstance(queries[0], str) else queries
    return query_error(PEOPLE, PEOPLE, given, policy=POLICY).answers.tolist()


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ({"age": 21}, 1),
        ({"age": [21, 22, 99]}, 2),
        ({"age": "21"}, 1),
        ({"age": [None, 25]}, 2),
        ({"age": float("nan")}, 1),
        ({"age": np.array([21, 38])}, 2),
        ({"age": {21, 38}}, 2),
        ({"age": {None, 38, "21", 22.0}}, 4),
        ({"age": np.array(21)}, 1),
        ({"born": np.array(["1999-12-31"], "datetime64[ns]")}, 2),
        ({"born": np.datetime64("1999-12-31")}, 2),
        ({"age": range(21, 25)}, 2),
        ({"age": range(21, 40, 2)}, 3),
        ({"hours-per-week": range(38, 40)}, 1),
        ({"age": Interval(22, 38)}, 3),
        ({"age": Interval(22, 38, "neither")}, 1),
        ({"age": Interval(22, 38, "right")}, 2),
        ({"age": Interval(None, 22)}, 2),
        ({"age": Interval()}, 5),
        ({"born": "1999-12-31"}, 2),
        ({"born": date(1999, 12, 31)}, 2),
        ({"born": pd.Timestamp("1999-12-31")}, 2),
        ({"born": Interval("1999-01-01", date(2000, 12, 31))}, 3),
        ({"order": ["a", None]}, 3),
        ({"order": "A"}, 0),
        ({"ill": "flu", "wage": 250}, 2),
        ({"wage": "250"}, 3),
        ({"wage": Interval(200, None)}, 4),
        ({"wage": 250.0}, 3),
        ({"age": Not(Values((21,)))}, 4),
        ({}, 6),
    ],
)
def test_conditions_of_mappings(given: dict[str, Any], right: int) -> None:
    assert answer(given) == [right]
    assert answer(Query(given)) == [right]


def test_conditions_of_sql() -> None:
    def check(where: str, right: int) -> None:
        assert answer(f"SELECT COUNT(*) AS n FROM people WHERE {where}") == [right]
        (query,) = Workload.parse(f"select count(*) from people where {where};")
        assert answer(str(query)) == [right], "the text of a query is the query"

    check_lines(Path(__file__).with_name("sql_conditions.jsonl"), check)


def test_several_statements(tmp_path: Path) -> None:
    text = "-- how many?\nSELECT COUNT(*) FROM a AS x;\nSELECT COUNT(*) FROM b.c WHERE age = 21; -- the last one"
    (tmp_path / "queries.sql").write_text(text, encoding="utf-8")
    assert answer(text) == [6, 1]
    assert query_error(PEOPLE, PEOPLE, tmp_path / "queries.sql", policy=POLICY).answers.tolist() == [6, 1]
    assert str(Workload.parse(text)) == "SELECT COUNT(*) FROM t;\nSELECT COUNT(*) FROM t WHERE age = 21;\n"


def test_other_sql_is_refused() -> None:
    def check(text: str, quoted: str) -> None:
        with pytest.raises(shoal.DataError, match=re.escape(quoted)) as raised:
            Workload.parse(text)
        if "NULL" not in quoted:
            assert "Possible are: SELECT COUNT(*) FROM … WHERE …" in str(raised.value)

    check_lines(Path(__file__).with_name("sql_errors.jsonl"), check)


def test_errors_of_the_parser_are_in_our_words() -> None:
    with pytest.raises(shoal.DataError) as raised:
        Workload.parse("SELECT COUNT(*)\nFROM t WHERE (age = ")
    assert "line 2 has an error at 'SELECT COUNT(*)\nFROM t WHERE (age ='" in str(raised.value)
    assert not re.search("sqlglot|class|Col:|\\x1b", str(raised.value))
    with pytest.raises(shoal.DataError, match=r"cannot answer 'age = 1e400': the number is too large"):
        Workload.parse("SELECT COUNT(*) FROM t WHERE age = 1e400")


def test_deep_and_long_sql() -> None:
    many = " OR ".join(f"age = {i}" for i in range(3000))
    assert answer(f"SELECT COUNT(*) FROM t WHERE {many}") == [5]
    deep = "NOT (" * 2000 + "age = 21" + ")" * 2000
    with pytest.raises(shoal.DataError, match=r"nested too deeply|cannot be read"):
        Workload.parse(f"SELECT COUNT(*) FROM t WHERE {deep}")


def test_without_sqlglot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(shoal.EngineError, match=r"SQL queries need sqlglot\. Install it: pip install 'shoal\[sql\]'"):
        Workload.parse("SELECT COUNT(*) FROM t")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "the workload has no queries"),
        (3, "a workload is SQL text or a list of queries, not 3"),
        ([3], "a query is a mapping from columns to values, not 3"),
        ([{3: "a"}], "has the column 3. The names of columns are texts"),
        ([{"age": []}], "lists no values for column 'age'"),
        ([{"age": {"low": 3}}], "has a mapping for column 'age'"),
        (
            [{"age": slice(20, 30)}],
            "lists slice(20, 30, None) for column 'age'. Each must be a single value. For a range",
        ),
        ([{"ill": {1j, 2j}}], "for column 'ill'. Each must be a single value"),
        ([{"age": 10**400}], "a query has a whole number of more than 308 digits for column 'age'. Correct it"),
        ([{"ill": {10**5000, 1}}], "a query has a whole number of more than 308 digits for column 'ill'. Correct it"),
        ([{"age": range(10**400)}], "a query has a whole number of more than 308 digits for column 'age'. Correct it"),
        ([{"age": [[1, 2]]}], r"lists [1, 2] for column 'age'. Each must be a single value"),
    ],
)
def test_bad_workloads(given: Any, text: str) -> None:
    with pytest.raises(shoal.DataError, match=re.escape(text)):
        query_error(PEOPLE, PEOPLE, given, policy=POLICY)
    with pytest.raises(shoal.DataError, match="closed='in' is no choice"):
        Interval(1, 2, "in")  # type: ignore[arg-type]
    with pytest.raises(shoal.DataError, match=r"a whole number of more than 308 digits\. Correct it, or give it as"):
        Interval(None, -(10**400))


@pytest.mark.parametrize("day", [date(1999, 12, 31), pd.Timestamp("1999-12-31"), datetime(1999, 12, 31), "1999-12-31"])
@pytest.mark.parametrize("kind", ["text", "date", "time"])
def test_dates_in_unchanged_columns(day: Any, kind: str) -> None:
    born = PEOPLE["born"] if kind == "text" else pd.to_datetime(PEOPLE["born"])
    table = pd.DataFrame({"age": PEOPLE["age"], "born": born.dt.date if kind == "date" else born})
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["born"], require=[shoal.KAnonymity(1)])
    (query,) = workload = Workload([{"born": day}])
    for asked in (workload, [{"born": [day, None]}], str(query)):
        found = query_error(table, table, asked, policy=policy)
        assert found.answers.tolist() == found.estimate.tolist() == [3 if isinstance(asked, list) else 2]
    assert str(query) == "SELECT COUNT(*) FROM t WHERE born = '1999-12-31'"
    late = query_error(table, table, [{"born": datetime(1999, 12, 31, 8)}], policy=policy)
    assert late.answers.tolist() == [0] and late.absent == 1


def test_normalized_and_missing_texts() -> None:
    table = PEOPLE.assign(ill=["Flu ", "flu", "FLU", "?", "gout", None], order=["a", "?", "a", "b", "b", "b"])
    policy = POLICY.model_copy(update={"normalize": ("ill",), "missing": ("", "?")})
    queries = [{"ill": "fLU"}, {"ill": "?"}, {"order": "?"}, {"order": None}]
    assert query_error(table, table, queries, policy=policy).answers.tolist() == [3, 2, 1, 1]


ATOMS = st.one_of(
    st.builds(lambda v: Values(tuple(v)), st.lists(st.sampled_from([1.0, 2.0, 3.0, 9.0]), min_size=1)),
    st.builds(
        lambda a, b, c: Interval(a, b, c),
        *[st.sampled_from([None, 1, 2, 3])] * 2,
        st.sampled_from(["both", "left", "right", "neither"]),
    ),
    st.just(Missing()),
)
TREES: st.SearchStrategy[Any] = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda parts: Every(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: Some(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)


@given(TREES)
def test_conditions_agree_with_a_database(condition: Any) -> None:
    """Also where a value is missing: DuckDB answers the text of the query."""
    import duckdb

    values = np.array([1.0, 2.0, 3.0, np.nan])
    found = condition.test(Domain("x", "number", values)).true
    session = duckdb.connect()
    session.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (3), (NULL)) AS v(x)")
    rows = session.execute(str(Query({"x": condition})).replace("COUNT(*)", "x")).fetchall()
    assert sorted(str(x) for (x,) in rows) == sorted("None" if np.isnan(v) else f"{v:g}" for v in values[found])
    (parsed,) = Workload.parse(str(Query({"x": condition})))
    again = [c.test(Domain("x", "number", values)).true.tolist() for c in parsed.conditions.values()]
    assert again == [found.tolist()]


def test_random_workloads() -> None:
    table = pd.concat([PEOPLE] * 2, ignore_index=True)
    workload = random_workload(table, POLICY, attributes=range(1, 5), queries=25, seed=3)
    assert len(workload) == 100
    found = query_error(table, table, workload, policy=POLICY)
    assert (found.answers > 0).all() and found.mean == 0
    assert found.attributes.tolist() == np.repeat([1, 2, 3, 4], 25).tolist()
    assert all(len(query.conditions.keys() & {"ill", "wage"}) == 1 for query in workload)
    assert {name for query in workload for name in query.conditions} == {*POLICY.quasi, "ill", "wage"}
    conditions = [c for query in workload for name, c in query.conditions.items() if name == "age"]
    assert {len(condition.values) for condition in conditions} == {1, 2, 3, 4, 5, 6}, "a missing value is a value"  # type: ignore[union-attr]
    assert workload == random_workload(table, POLICY, attributes=range(1, 5), queries=25, seed=3)
    assert workload != random_workload(table, POLICY, attributes=range(1, 5), queries=25, seed=4)
    shuffled = table.sample(frac=1, random_state=1)
    assert workload == random_workload(shuffled, POLICY, attributes=range(1, 5), queries=25, seed=3)


def test_random_workloads_of_many_numbers_have_ranges() -> None:
    table = pd.DataFrame({"salary": np.arange(2000.0) / 2, "ill": ["flu", "gout"] * 1000})
    policy = shoal.Policy(quasi={"salary": "numeric"}, sensitive=["ill"])
    workload = random_workload(table, policy, attributes=1, queries=30)
    assert all(isinstance(query.conditions["salary"], Interval) for query in workload)
    answers = query_error(table, table, workload, policy=policy).answers
    assert answers.min() < 200 and answers.max() > 1000


def test_random_workloads_without_a_sensitive_attribute() -> None:
    policy = shoal.Policy(quasi={"age": "numeric"})
    assert random_workload(PEOPLE, policy, attributes=1, queries=2).columns == ("age",)


def test_random_workloads_have_five_attributes_or_all() -> None:
    assert random_workload(PEOPLE, POLICY, queries=2) == random_workload(PEOPLE, POLICY, attributes=4, queries=2)
    six = pd.DataFrame({name: ["a", "b"] * 5 for name in "pqrstu"})
    policy = shoal.Policy(quasi=dict.fromkeys(six, "categorical"))
    assert {len(query.conditions) for query in random_workload(six, policy, queries=3)} == {5}


def test_bad_random_workloads() -> None:
    for wrong in (5, -1, 1.5, True, "x", ["1"]):
        text = f"attributes={wrong[0] if isinstance(wrong, list) else wrong!r} is not possible: the policy has 4 quasi-"
        with pytest.raises(shoal.PolicyError, match=re.escape(text)):
            random_workload(PEOPLE, POLICY, attributes=wrong)  # type: ignore[arg-type]
    for wrong in ("x", 1.5, True, None):
        with pytest.raises(shoal.PolicyError, match=f"queries={wrong!r} is not possible. Ask for a whole number"):
            random_workload(PEOPLE, POLICY, attributes=1, queries=wrong)  # type: ignore[arg-type]
    for wrong in ("x", 1.5, -1, None):
        with pytest.raises(shoal.PolicyError, match=f"the seed must be a whole number of at least 0, not {wrong!r}"):
            random_workload(PEOPLE, POLICY, attributes=1, seed=wrong)  # type: ignore[arg-type]
    with pytest.raises(shoal.PolicyError, match="attributes lists no number"):
        random_workload(PEOPLE, POLICY, attributes=[])
    with pytest.raises(shoal.PolicyError, match="queries=0 is not possible"):
        random_workload(PEOPLE, POLICY, attributes=1, queries=0)
    with pytest.raises(shoal.DataError, match="the table is empty"):
        random_workload(PEOPLE.head(0), POLICY, attributes=1)
    wide = pd.DataFrame({f"q{j}": [f"v{i}" for i in range(40)] for j in range(30)})
    policy = shoal.Policy(quasi=dict.fromkeys(wide, "categorical"))
    with pytest.raises(
        shoal.DataError, match=r"after 100 attempts, \d of 3 queries with 30 quasi-identifiers still have the answer 0"
    ):
        random_workload(wide, policy, attributes=30, queries=3)
