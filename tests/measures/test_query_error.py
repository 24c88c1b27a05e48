"""The error of COUNT queries: answers on generalized, bucketed and randomized releases against their definitions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.measures import Interval, Workload, query_error, random_workload
from shoal.measures.unbiased_answers import solve_one, solve_several, sum_supersets
from shoal.pipeline.method import GroupingMethod
from shoal.recoding.group_labels import STYLES
from tests.reference import queries as reference
from tests.reference.selection import become
from tests.support.cases import Case, cases, lists_of
from tests.support.ways import list_methods

AGES, JOBS, ILLS = (20, 23, 30, 31, 47, None), ("clerk", "miner", "nurse", None), ("flu", "gout", "cold")
QUASI: dict[str, Any] = {"age": "numeric", "job": "categorical"}
POLICY = shoal.Policy(quasi=QUASI, sensitive=["ill"], require=[shoal.KAnonymity(1)])
VALUES = {"age": AGES, "job": JOBS, "ill": ILLS}
PEOPLE = pd.DataFrame(
    {
        "age": [21, 22, 25, 25, 38, 39, 41, 47, 52, 52, 58, 60],
        "job": [
            "clerk",
            "clerk",
            "nurse",
            "miner",
            "nurse",
            "clerk",
            "miner",
            "miner",
            "nurse",
            "clerk",
            "clerk",
            "nurse",
        ],
        "sex": ["F", "M"] * 6,
        "ill": ["flu", "gout", "flu", "cold"] * 3,
        "ward": ["A", "B", "B"] * 4,
    }
)


@st.composite
def tables(draw: st.DrawFn, most: int = 14) -> pd.DataFrame:
    rows = draw(st.integers(1, most))
    columns = {name: draw(lists_of(values, rows)) for name, values in VALUES.items()}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


@st.composite
def asked(draw: st.DrawFn, names: tuple[str, ...] = ("age", "job", "ill")) -> dict[str, list[Any]]:
    chosen = draw(st.lists(st.sampled_from(names), unique=True))
    return {n: draw(st.lists(st.sampled_from(VALUES[n]), min_size=1, unique=True)) for n in chosen}


def records_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A release has texts; the ages are whole numbers."""
    listed = table.astype(object).to_dict("records")
    return [{n: None if pd.isna(v) else int(v) if n == "age" else v for n, v in row.items()} for row in listed]  # type: ignore[misc]


def sets_of(query: dict[str, list[Any]]) -> dict[str, set[Any]]:
    return {name: set(values) for name, values in query.items()}


@given(tables(), st.lists(asked(), min_size=1, max_size=80))
def test_answers_on_the_original(table: pd.DataFrame, queries: list[dict[str, list[Any]]]) -> None:
    found = query_error(table, table, queries, policy=POLICY)
    right = [reference.count(records_of(table), sets_of(query)) for query in queries]
    assert found.answers.tolist() == right and found.estimate.tolist() == right
    assert found.attributes.tolist() == [len(query.keys() - {"ill"}) for query in queries]


@given(tables(), st.data())
def test_equation_12(table: pd.DataFrame, data: st.DataObject) -> None:
    """Every record gets a group; a label is a range of ages or ``*``, and a set of jobs, a job or ``*``."""
    group = data.draw(lists_of((0, 1, 2), len(table)))
    records = records_of(table)
    domain = {name: {record[name] for record in records} for name in QUASI}
    boxes: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    for number, record in zip(group, records, strict=True):
        members = [r for g, r in zip(group, records, strict=True) if g == number]
        ages, jobs = {r["age"] for r in members}, {r["job"] for r in members}
        if len(ages) == 1:
            age, box = next(iter(ages)), ages
        elif None in ages:
            age, box = "*", domain["age"]
        else:
            age, box = f"[{min(ages)}, {max(ages)}]", {a for a in domain["age"] if a and min(ages) <= a <= max(ages)}
        job = next(iter(jobs)) if len(jobs) == 1 else "{" + ", ".join(j or "?" for j in sorted(jobs, key=str)) + "}"
        labels.append({"age": age, "job": job, "ill": record["ill"]})
        boxes.append({"age": box, "job": jobs, "ill": {record["ill"]}})
    released = pd.DataFrame(labels, dtype=object)
    queries = data.draw(st.lists(asked(), min_size=1, max_size=5))
    found = query_error(table, released, queries, policy=POLICY)
    right = [float(reference.equation_12(boxes, sets_of(query))) for query in queries]
    assert found.estimate.tolist() == pytest.approx(right)


@given(tables(), st.data())
def test_equation_13(table: pd.DataFrame, data: st.DataObject) -> None:
    number = pd.Series(data.draw(lists_of((1, 2, 10), len(table))))
    counts = table.assign(bucket=number).groupby(["bucket", "ill"]).size().rename("count").reset_index()
    quasi = table[["age", "job"]].assign(bucket=number)
    release = SimpleNamespace(
        policy=POLICY, frame=quasi, sensitive=counts.sample(frac=1, random_state=1), method="anatomy"
    )
    queries = data.draw(st.lists(asked(), min_size=1, max_size=5))
    found = query_error(table, release, queries)
    buckets = [records_of(table[number == n]) for n in number.unique()]
    right = [float(reference.equation_13(buckets, "ill", sets_of(query))) for query in queries]
    assert found.estimate.tolist() == pytest.approx(right)
    assert list(found.estimates) == ["estimate"] and found.method == "anatomy"


def test_a_permuted_table_is_read_as_it_is() -> None:
    release = SimpleNamespace(policy=POLICY, frame=PEOPLE[["age", "job", "ill"]], sensitive=None, method="anatomy")
    assert query_error(PEOPLE, release, [{"age": 25, "ill": "flu"}]).estimate.tolist() == [1]


@settings(max_examples=12)
@given(st.integers(1, 3), st.integers(0, 2**32 - 1), st.data())
def test_unbiased_counts_of_a_release(replaced: int, seed: int, data: st.DataObject) -> None:
    table = data.draw(tables(most=30))
    table = table.assign(sex=data.draw(lists_of("FM", len(table))))
    quasi = {**QUASI, "sex": "categorical"}
    policy = shoal.Policy(quasi=quasi, sensitive=["ill"])
    release = shoal.anonymize(table, policy, method="random", attributes=replaced, seed=seed)
    queries = data.draw(st.lists(asked(), min_size=1, max_size=4))
    queries = [{**query, **({"sex": ["F"]} if i % 2 else {})} for i, query in enumerate(queries)]
    found = query_error(table, release, queries)
    published, records = records_of(release.frame), records_of(table)
    assert found.estimates["raw"].tolist() == [reference.count(published, sets_of(query)) for query in queries]
    for query, value in zip(queries, found.estimates["unbiased"], strict=True):
        sets = sets_of(query)
        if sum(name in quasi for name in query) > 3 - replaced:
            assert np.isnan(value)
            continue
        shares = {n: Fraction(reference.count(records, {n: sets[n]}), len(records)) for n in quasi if n in sets}
        right = reference.unbiased(published, shares, sets, list(quasi), replaced, 3)
        assert value == pytest.approx(float(right))
        if replaced == 1:
            one = reference.unbiased_one(published, shares, sets, dict.fromkeys(quasi, Fraction(1, 3)))
            assert one == right


@pytest.mark.parametrize("probabilities", [(0.5, 0.2, 0.3), (0.6, 0.4, 0.0)])
def test_unbiased_counts_with_given_probabilities(probabilities: tuple[float, ...]) -> None:
    policy = shoal.Policy(quasi={**QUASI, "sex": "categorical"}, sensitive=["ill"])
    release = shoal.anonymize(PEOPLE, policy, method="random", attributes=1, p=list(probabilities), seed=5)
    query = {"age": [21, 25, 52, 58], "job": ["clerk", "nurse"], "ill": ["flu", "gout"]}
    whole = {"age": [25], "job": ["clerk"], "sex": ["F"]}
    found = query_error(PEOPLE, release, [query, whole]).estimates["unbiased"]
    if probabilities[2] == 0:
        assert np.isnan(found).all(), "one of the two attributes is always replaced"
        return
    sets, records = sets_of(query), records_of(PEOPLE)
    shares = {name: Fraction(reference.count(records, {name: sets[name]}), 12) for name in QUASI}
    exact = {n: Fraction(str(p)) for n, p in zip(policy.quasi, probabilities, strict=True)}
    right = reference.unbiased_one(records_of(release.frame), shares, sets, exact)
    assert found[0] == pytest.approx(float(right)) and np.isnan(found[1])


@given(st.integers(1, 3), lists_of(tuple(product((0, 1), repeat=3)), 9), st.data())
def test_expected_counts_give_the_true_count(replaced: int, rows: list[Any], data: st.DataObject) -> None:
    """The counts that are expected by the definition of the operator are solved exactly."""
    width = data.draw(st.integers(0, 3 - replaced))
    probabilities = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)] if replaced == 1 else [Fraction(1, 3)] * 3
    shares = [{v: Fraction(sum(r[j] == v for r in rows), len(rows)) for v in (0, 1)} for j in range(3)]
    expected = np.zeros((1, 2**width))
    for row, other in product(rows, product((0, 1), repeat=3)):
        chance = become(row, other, shares, probabilities, replaced)
        expected[0, sum((other[i] == 1) << i for i in range(width))] += float(chance)
    counts = sum_supersets(expected, width)
    given_shares = np.array([[float(shares[i][1]) for i in range(width)]]).reshape(1, width)
    true = sum(all(row[i] == 1 for i in range(width)) for row in rows)
    if replaced == 1:
        chosen = np.array([[float(p) for p in probabilities[:width]]]).reshape(1, width)
        assert solve_one(counts, given_shares, chosen) == pytest.approx([true])
    else:
        assert solve_several(counts, given_shares, 3, replaced) == pytest.approx([true])


def test_many_queries_and_threads_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """More queries than one block, more rows than one thread; and blocks of one query."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {"age": rng.integers(0, 5000, 8000), "job": rng.choice(["a", "b"], 8000), "ill": rng.choice(["x", "y"], 8000)}
    )
    queries = [
        {"age": Interval(int(low), int(low) + 900), "job": "a", "ill": "x"} for low in rng.integers(0, 4000, 150)
    ]
    right = [
        int(
            ((table.age >= q["age"].low) & (table.age <= q["age"].high) & (table.job == "a") & (table.ill == "x")).sum()
        )
        for q in queries
    ]  # type: ignore[union-attr]
    assert query_error(table, table, queries, policy=POLICY).answers.tolist() == right
    monkeypatch.setattr("shoal.measures.query_answers.MOST_SHARES", 1)
    assert query_error(table, table, queries, policy=POLICY).estimate.tolist() == right


@pytest.mark.parametrize("method", list_methods(GroupingMethod))
def test_every_grouping_method(method: str) -> None:
    age = {"kind": "numeric", "balanced": 3} if method == "bottom-up" else "numeric"
    quasi = {"age": age, "job": "categorical", "sex": "categorical"}
    policy = shoal.Policy(quasi=quasi, sensitive=["ill"], target="ward", require=[shoal.LDiversity(2, of="ill")])
    table = pd.concat([PEOPLE] * 2, ignore_index=True)
    release = shoal.anonymize(table, policy, method=method, seed=1)
    workload = random_workload(table, policy, attributes=[1, 2], queries=10)
    found = query_error(table, release, [*workload, {"ward": "A"}, {}])
    assert (found.answers > 0).all() and np.isfinite(found.estimate).all()
    assert found.answers.tolist()[-2:] == [8, 24]
    assert found.estimate.tolist()[-2:] == [int((release.frame["ward"] == "A").sum()), len(release.frame)]
    jobs = [{"job": job} for job in ("clerk", "nurse", "miner")]
    assert query_error(table, release, jobs).estimate.sum() == pytest.approx(len(release.frame))


@pytest.mark.parametrize("style", STYLES)
def test_every_style(style: str) -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], require=[shoal.KAnonymity(4)])
    frame = shoal.anonymize(PEOPLE, policy, write=style).frame
    queries = [{"age": Interval(20, 40)}, {"age": Interval(None, 10)}, {"age": [21, 41]}]
    found = query_error(PEOPLE, frame, queries, policy=policy)
    assert found.answers.tolist() == [6, 0, 2] and found.estimate[1] == 0
    if style in ("mean", "median", "midpoint"):
        ages = frame["age"].astype(float)
        assert found.estimate.tolist() == [ages.between(20, 40).sum(), 0, ages.isin([21, 41]).sum()]
        return
    columns = (
        frame["age"]
        if style != "lo-hi"
        else [f"[{lo:g}, {hi:g}]" for lo, hi in zip(frame["age_lo"], frame["age_hi"], strict=True)]
    )
    boxes = []
    for label in columns:
        ends = [int(text) for text in label.strip("[]{}").split(", ")]
        inside = ends if label.startswith("{") else [a for a in PEOPLE["age"] if ends[0] <= a <= ends[-1]]
        boxes.append({"age": set(inside)})
    right = [float(reference.equation_12(boxes, {"age": ages})) for ages in (set(range(20, 41)), set(), {21, 41})]
    assert found.estimate.tolist() == pytest.approx(right)


@settings(max_examples=40)
@given(cases(secrets=False, most=25))
def test_odd_tables_against_themselves(case: Case) -> None:
    """Trees, dates, masks, intervals and missing values: the original as its own release has no error."""
    sensitive = [n for n in case.policy.sensitive if n in case.frame]
    policy = case.policy.model_copy(update={"require": (), "unit": None})
    workload = random_workload(case.frame, policy, attributes=range(1, len(policy.quasi) + 1), queries=3)
    found = query_error(case.frame, case.frame, workload, policy=policy)
    assert sensitive is not None and (found.answers > 0).all()
    assert found.estimate.tolist() == found.answers.tolist() and found.mean == 0


def test_taxonomies_and_labels_of_other_tools() -> None:
    tree = {"ANY": {"Office": ["clerk", "manager"], "Field": ["miner", "nurse"]}}
    policy = shoal.Policy(quasi={"age": "numeric", "job": {"taxonomy": tree}}, sensitive=["ill"])
    released = PEOPLE.assign(job=["Field"] * 6 + ["*"] * 6, age=["20-40"] * 4 + [">=39"] * 4 + ["*"] * 4)
    found = query_error(PEOPLE, released, [{"job": "nurse"}, {"job": "clerk"}, {"age": 21}, {"age": 60}], policy=policy)
    # 'Field' covers miner and nurse; nobody is a manager, so '*' covers three jobs
    assert found.estimate.tolist() == pytest.approx([6 / 2 + 6 / 3, 6 / 3, 4 / 5 + 4 / 10, 4 / 6 + 4 / 10])


def test_suppressed_and_blank_values() -> None:
    released = PEOPLE.astype(object).iloc[:10].copy()
    released.loc[0, "age"] = None  # no age is missing in the original, so this one is suppressed
    found = query_error(PEOPLE, released, [{"age": 21}], policy=POLICY)
    assert found.suppressed == 2 and found.estimate.tolist() == pytest.approx([1 / 10])
    assert "2 records are suppressed" in str(found)


def test_a_leaf_that_covers_several_values_has_no_unbiased_answer() -> None:
    policy = shoal.Policy(
        quasi={"age": {"widths": [10]}, "job": "categorical", "sex": "categorical"}, sensitive=["ill"]
    )
    release = shoal.anonymize(PEOPLE, policy, method="random", attributes=1, seed=1)
    found = query_error(PEOPLE, release, [{"age": [25, 38]}, {"age": range(20, 30)}])
    assert np.isnan(found.estimates["unbiased"][0]) and found.estimates["unbiased"][1] == pytest.approx(
        found.estimates["raw"][1] * 1.5 - 0.5 * 4
    )


def test_the_summary_of_a_steward() -> None:
    release = shoal.anonymize(PEOPLE, POLICY.model_copy(update={"require": ()}), method="random", attributes=1, seed=2)
    queries = [{"ill": "flu"}, {"age": range(20, 40), "ill": "flu"}, {"age": 25, "job": "nurse"}, {"age": 99}]
    found = query_error(PEOPLE, release, queries)
    assert found.answers.tolist() == [6, 3, 1, 0] and found.attributes.tolist() == [0, 1, 2, 1]
    assert [(part.attributes, part.queries) for part in found.summary()] == [(0, 1), (1, 1), (2, 1), (None, 3)]
    assert [part.queries for part in found.summary("unbiased")] == [1, 1, 0, 2]
    assert found.mean == pytest.approx(np.nanmean(found.error)) and found.median == pytest.approx(
        np.nanmedian(found.error)
    )
    assert np.isnan(found.error[3])
    text = str(found)
    assert text.startswith("4 queries on random: relative error of the answers\nquasi-identifiers  queries  raw mean")
    assert "note: 1 query has the true answer 0, so no relative error" in text
    assert "note: 1 query has no unbiased answer" in text
    assert found.absent == 1 and "note: 1 query lists a value that does not occur in the original column" in text
    assert repr(found).startswith("QueryErrors(random: 4 queries, mean error: raw ")
    frame = found.frame()
    assert list(frame) == ["query", "attributes", "answer", "raw", "raw error", "unbiased", "unbiased error"]
    assert frame["query"][0] == "SELECT COUNT(*) FROM t WHERE ill = 'flu'"
    with pytest.raises(
        shoal.PolicyError, match=r"was not read as 'row'; choose from 'raw', 'unbiased' \(did you mean 'raw'\?\)"
    ):
        found.summary("row")


@pytest.mark.parametrize("style", ["label", "lo-hi"])
def test_groups_of_missing_numbers(style: str) -> None:
    """Ten missing ages are a group of their own, in every style."""
    table = pd.DataFrame({"age": [None] * 10 + list(range(20, 40)), "ill": ["a"] * 10 + ["b"] * 20})
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], require=[shoal.KAnonymity(5)])
    queries = [{"age": None}, {"age": Interval(20, 29)}, {"age": None, "ill": "a"}, {"age": Interval()}]
    found = query_error(table, shoal.anonymize(table, policy, write=style), queries)
    assert found.estimate.tolist() == found.answers.tolist() == [10, 10, 10, 20]
    mixed = pd.DataFrame({"age": [None] * 3 + [21, 22, 30, 31, 32, 33, 34], "ill": ["a"] * 10})
    found = query_error(mixed, shoal.anonymize(mixed, policy, write=style), [{"age": None}])
    assert found.estimate.tolist() == pytest.approx([5 / 8]), "missing and other values in one group: any of 8 values"


def test_saved_tables_of_a_bucketed_release(tmp_path: Any) -> None:
    policy = POLICY.model_copy(update={"require": (shoal.LDiversity(2, of="ill"),)})
    release = shoal.anonymize(PEOPLE, policy, method="anatomy", seed=1)
    release.save(tmp_path / "out")
    queries = [{"age": range(20, 40), "ill": "flu"}, {"job": "nurse", "ill": ["cold", "gout"]}, {"ill": "flu"}]
    right = query_error(PEOPLE, release, queries)
    second = tmp_path / "out" / "sensitive.csv"
    for table, other in ((tmp_path / "out" / "table.csv", second), (release.frame, release.sensitive)):
        found = query_error(PEOPLE, table, queries, policy=policy, sensitive=other)
        assert found.estimate.tolist() == pytest.approx(right.estimate.tolist()) and found.method == "table"
    with pytest.raises(shoal.DataError, match=r"no column 'ill', .* but buckets\. .*: query_error\(…, sensitive=…\)"):
        query_error(PEOPLE, release.frame, queries, policy=policy)
    with pytest.raises(shoal.DataError, match="the two tables of the release have different buckets"):
        query_error(PEOPLE, release.frame.assign(bucket=99), queries, policy=policy, sensitive=second)
    for more in ({"policy": policy}, {"sensitive": second}):
        with pytest.raises(shoal.PolicyError, match="the release has its own policy and tables"):
            query_error(PEOPLE, release, queries, **more)


def test_values_that_do_not_occur_and_odd_texts() -> None:
    queries = [
        {"age": [21, 99]},
        "SELECT COUNT(*) FROM t WHERE NOT (age = 99 OR age = 21)",
        {"job": "\ud800", "age": 98},
        {"age": Interval(98, 99)},
        {"age": "21"},
        {"job": "Clerk"},
    ]
    asked = [query for q in queries for query in (Workload.parse(q) if isinstance(q, str) else [q])]
    found = query_error(PEOPLE, PEOPLE, asked, policy=POLICY)
    assert found.absent == 4 and found.answers.tolist() == [1, 11, 0, 0, 1, 0]
    assert "4 queries list a value that does not occur in the original column; such a value matches" in found.notes[1]
    assert found.frame()["query"][2] == r"SELECT COUNT(*) FROM t WHERE job = '\ud800' AND age = 98"


def test_bad_input() -> None:
    table = PEOPLE[["age", "job", "ill"]]
    with pytest.raises(shoal.PolicyError, match="a table without a policy"):
        query_error(table, table, [{"age": 3}])
    with pytest.raises(shoal.DataError, match=r"query 2 asks for column 'agee', .* \(did you mean 'age'\?\)"):
        query_error(table, table, [{"age": 3}, {"agee": 3}], policy=POLICY)
    with pytest.raises(shoal.DataError, match=r"query 1 asks for column 'AGE', .* \(did you mean 'age'\?\)"):
        query_error(table, table, "SELECT COUNT(*) FROM t WHERE AGE = 3", policy=POLICY)
    with pytest.raises(shoal.DataError, match="query 1 asks for column 'ward', which is not in the release"):
        query_error(PEOPLE, table, [{"ward": "A"}], policy=POLICY)
    with pytest.raises(
        shoal.DataError, match=r"asks for 'old' in column 'age', which holds numbers\. Correct the value"
    ):
        query_error(table, table, [{"age": "old"}], policy=POLICY)
    with pytest.raises(shoal.DataError, match="range of column 'job', which holds texts"):
        query_error(table, table, [{"job": Interval("a", "c")}], policy=POLICY)
    with pytest.raises(shoal.DataError, match="column 'age' of the release holds labels that cannot be read: 'young'"):
        query_error(table, table.assign(age="young"), [{"age": 21}], policy=POLICY)
    with pytest.raises(shoal.DataError, match="has no column 'ill', which a query asks for"):
        query_error(table, table.drop(columns="ill"), [{"ill": "flu"}], policy=POLICY)
    kept = SimpleNamespace(policy=POLICY, frame=table.assign(bucket=1), sensitive=table[["ill"]], method="anatomy")
    with pytest.raises(shoal.DataError, match="table of sensitive values has no column 'bucket'"):
        query_error(table, kept, [{"ill": "flu"}])


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "duckdb", "csv"])
def test_other_tables(kind: str, tmp_path: Any) -> None:
    release = shoal.anonymize(PEOPLE, POLICY.model_copy(update={"require": (shoal.KAnonymity(3),)}), seed=1)
    queries = Workload([{"age": range(20, 40), "job": ["clerk", "nurse"], "ill": "flu"}, {"job": "nurse"}])
    right = query_error(PEOPLE, release, queries)
    if kind == "csv":
        PEOPLE.to_csv(tmp_path / "people.csv", index=False)
        release.save(tmp_path / "out")
        found = query_error(tmp_path / "people.csv", tmp_path / "out", queries, policy=POLICY)
    elif kind == "duckdb":
        import duckdb

        found = query_error(duckdb.from_df(PEOPLE), duckdb.from_df(release.frame), queries, policy=POLICY)
    else:
        import polars as pl

        frames = [pl.from_pandas(frame) for frame in (PEOPLE, release.frame)]
        frames = frames if kind == "polars" else [frame.to_arrow() for frame in frames]
        found = query_error(*frames, queries, policy=POLICY)
    assert found.answers.tolist() == right.answers.tolist() and found.estimate.tolist() == right.estimate.tolist()
