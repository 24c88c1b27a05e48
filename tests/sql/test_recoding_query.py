"""A recoding as SQL publishes the original table as `recoding.apply` does, in DuckDB and in PostgreSQL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.recoding import Boxes, Cut
from shoal.sql import DIALECTS, recoding_query
from tests.recoding.test_rounding import SUPPRESSED
from tests.support.cases import Case, averaged, cases, suited
from tests.support.postgres import require_server
from tests.support.ways import AVERAGES, list_styles

duckdb = pytest.importorskip("duckdb")
sqlglot = pytest.importorskip("sqlglot")

METHODS = ("mondrian", "tds", "bottom-up", "optimal", "datafly")
Run = Callable[[pa.Table, Any], pa.Table]


def in_duckdb(table: pa.Table, recoding: Any) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("patients", table)
        return connection.sql(recoding_query(recoding, dialect="duckdb")).to_arrow_table()


def in_postgres(table: pa.Table, recoding: Any) -> pa.Table:
    server = require_server()
    name = server.upload(table, "patients")
    with server.connect() as connection:
        found = connection.execute(recoding_query(recoding, dialect="postgres", table=name))
        rows, names = found.fetchall(), [column.name for column in found.description]
    return pa.table({n: pa.array([row[i] for row in rows]) for i, n in enumerate(names)})


databases = pytest.mark.parametrize("run", [in_duckdb, in_postgres], ids=["duckdb", "postgres"])


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for i, column in enumerate(table.columns):
        if pa.types.is_null(column.type):  # a column without a value has no type
            table = table.set_column(i, table.column_names[i], column.cast(pa.string()))
    return table


def count_rows(table: pa.Table) -> Counter[tuple[str, ...]]:
    """The rows in no order, with the columns sorted by name; numbers are equal if their values are."""
    names = sorted(table.column_names)
    columns = [table.column(name).to_pylist() for name in names]

    def text(value: Any) -> str:
        return "" if value is None else str(float(value) + 0.0) if isinstance(value, (int, float)) else str(value)

    return Counter((*names, *map(text, row)) for row in zip(*columns, strict=True))


@databases
@settings(max_examples=12)
@given(
    case=cases(secrets=False),
    method=st.sampled_from(METHODS),
    data=st.data(),
)
def test_publishes_what_the_recoding_publishes(run: Run, case: Case, method: str, data: st.DataObject) -> None:
    case, style = suited(case, method), data.draw(st.sampled_from(list_styles(method)))
    case = averaged(case) if style in AVERAGES else case
    table = to_arrow(case.frame)
    try:
        release = shoal.anonymize(table, case.policy, method=method, write=style, seed=3)
    except shoal.RequirementNotMet:
        return
    if isinstance(release.recoding, (Cut, Boxes)):
        found = count_rows(run(table, release.recoding))
        assert found == count_rows(release.recoding.apply(table))
        assert found == count_rows(release.frame)  # records that were suppressed stay suppressed


@databases
@pytest.mark.parametrize(("columns", "quasi", "k"), SUPPRESSED, ids=["inside one range", "outside every box"])
def test_suppressed_records_stay_suppressed(
    run: Run, columns: dict[str, list[float]], quasi: dict[str, object], k: int
) -> None:
    table = pa.table(columns)
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(k)], suppress=1.0)
    release = shoal.anonymize(table, policy, method="tds", seed=3)
    assert count_rows(run(table, release.recoding)) == count_rows(release.frame)


@databases
@pytest.mark.parametrize("method", ["mondrian", "tds"])
def test_publishes_a_hospital(run: Run, method: str) -> None:
    patients = shoal.datasets.hospital(600, seed=2, kind="pyarrow")
    release = shoal.anonymize(patients, shoal.datasets.hospital_policy(5), method=method, seed=1)
    assert count_rows(run(patients, release.recoding)) == count_rows(pa.table(release.recoding.apply(patients)))


@databases
@pytest.mark.parametrize("method", ["mondrian", "tds"])
def test_a_record_outside_every_box_is_left_out(run: Run, method: str) -> None:
    """A label that is not true of a record is not published."""
    frame = pd.DataFrame({"age": [20, 21, 22, 30, 31, 32], "city": ["Oulu", "Rome"] * 3, "note": list("abcdef")})
    policy = shoal.Policy(quasi={"age": "numeric", "city": "categorical"}, keep="note", require=[shoal.KAnonymity(3)])
    release = shoal.anonymize(frame, policy.model_copy(update={"accept": {"note": "a test"}}), method=method, seed=1)
    later = pd.DataFrame({"age": [21, 90, None, 21], "city": ["Oulu", "Oulu", "Oulu", "Kemi"], "note": list("wxyz")})
    true = [i for i in range(len(later)) if is_placed(release.recoding, later.iloc[[i]])]
    assert 0 in true
    assert 3 not in true
    assert count_rows(run(to_arrow(later), release.recoding)) == count_rows(
        to_arrow(release.recoding.apply(later.iloc[true]))
    )


def is_placed(recoding: Any, row: pd.DataFrame) -> bool:
    try:
        return len(recoding.apply(row)) == 1
    except shoal.DataError:
        return False


@databases
def test_texts_for_missing_values_are_missing(run: Run) -> None:
    frame = pd.DataFrame({"age": [20, -9, 20, -9, 30, 30], "city": ["Oulu", " ? ", "Oulu", "?", "?", ""]})
    policy = shoal.Policy(
        quasi={"age": "numeric", "city": "categorical"}, missing=["?", "-9"], require=[shoal.KAnonymity(2)]
    )
    release = shoal.anonymize(frame, policy, method="mondrian", seed=1)
    table = to_arrow(frame)
    assert count_rows(run(table, release.recoding)) == count_rows(to_arrow(release.recoding.apply(frame)))


def test_creates_a_view() -> None:
    patients = shoal.datasets.hospital(200, seed=2, kind="pyarrow")
    release = shoal.anonymize(patients, shoal.datasets.hospital_policy(5), method="tds", seed=1)
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA ward")
        connection.execute("CREATE TABLE ward.patients AS SELECT * FROM patients")
        text = recoding_query(release.recoding, dialect="duckdb", table="ward.patients", view='ward."shoal_values"')
        connection.execute(text)
        found = connection.sql('SELECT * FROM ward."shoal_values"').to_arrow_table()
    assert count_rows(found) == count_rows(pa.table(release.recoding.apply(patients)))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("method", ["mondrian", "tds"])
def test_every_dialect_parses(dialect: str, method: str) -> None:
    frame = pd.DataFrame({'a"b': [20.5, 21.0, 22.0, 30.0] * 2, "zip": ["01", "it's", "b\\c", None] * 2})
    policy = shoal.Policy(quasi={'a"b': "numeric", "zip": {"mask": "right"}}, require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(frame, policy, method=method, seed=1)
    tree = sqlglot.parse_one(recoding_query(release.recoding, dialect=dialect, view="v"), read=dialect)
    assert isinstance(tree, sqlglot.exp.Create)
    assert all(name.args.get("quoted") for name in tree.find_all(sqlglot.exp.Identifier))
    assert {"it's", "b\\c"} <= {text.this for text in tree.find_all(sqlglot.exp.Literal)}


def test_other_recodings_are_refused() -> None:
    patients = shoal.datasets.hospital(200, seed=2, kind="pyarrow")
    release = shoal.anonymize(patients, shoal.datasets.hospital_policy(5), method="kmember", seed=1)
    with pytest.raises(shoal.PolicyError, match="kind 'assignment' cannot be written as SQL"):
        recoding_query(release.recoding, dialect="duckdb")


def test_a_tree_that_is_too_deep_is_refused() -> None:
    frame = pd.DataFrame({"age": [20.0, 21.0], "note": ["a", "b"]})
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(1)])
    found = shoal.anonymize(frame[["age"]], policy, method="mondrian", seed=1).recoding
    levels = 400
    chain: dict[str, Any] = {"field": [], "at": [], "left": [], "right": [], "group": []}
    for level in range(levels):  # every split has a leaf on its left
        pairs = ((0, -1), (float(level), 0.0), (2 * level + 1, -1), (2 * level + 2, -1), (-1, 0))
        for values, pair in zip(chain.values(), pairs, strict=True):
            values.extend(pair)
    content = {**chain, "field": [*chain["field"], -1], "at": [*chain["at"], 0.0], "group": [*chain["group"], 0]}
    content |= {"left": [*chain["left"], -1], "right": [*chain["right"], -1]}
    deep = {**json.loads(found.to_json()), "tree": content}
    with pytest.raises(shoal.PolicyError, match="more than 300 levels"):
        recoding_query(Boxes.from_dict(deep), dialect="duckdb")
