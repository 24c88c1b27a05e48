"""Every counting method x every engine: the same rows, the same certificate, the same measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shoal
from shoal.engines import ENGINES, Dictionary, GroupColumn, HiddenColumn, Plan, Reading, open_data
from shoal.engines.resources import Resources
from shoal.tables import METHODS
from tests.support.cases import Case, averaged, cases, suited
from tests.support.engines import SLOW, each_server_engine, place
from tests.support.outcomes import Outcome, assert_enough_tested, counted, outcomes_of
from tests.support.ways import list_engines, list_ways

duckdb = pytest.importorskip("duckdb")

WAYS = list_ways()
OTHERS = [name for name in list_engines() if name != "memory"]
STYLES = ("lo-hi", "midpoint", "set", "mean")

ways = pytest.mark.parametrize(("method", "parameters"), WAYS, ids=str)
divided = pytest.mark.parametrize(
    ("method", "parameters"), [("mondrian", {"cut": "median", "relaxed": True}), ("kmember", {}), ("mdav", {})], ids=str
)


def few(test: Any) -> Any:
    """Fewer examples than usual: each takes DuckDB a tenth of a second."""
    return settings(max_examples=max(settings.default.max_examples // 3, 5))(test)


def fewest(test: Any) -> Any:
    """Three examples, in tests of all ways: together these are many."""
    return settings(max_examples=max(settings.default.max_examples // 4, 3))(test)


def anonymized(data: Any, policy: shoal.Policy, method: str, parameters: dict[str, Any], engine: str) -> Any:
    """A release, or the text of the error where nothing meets the requirement."""
    try:
        return shoal.anonymize(place(arrow_of(data), engine), policy, method=method, engine=engine, **parameters)
    except shoal.RequirementNotMet as error:
        return str(error)


def arrow_of(frame: Any) -> pa.Table:
    if isinstance(frame, list):
        return pa.Table.from_pylist(frame)
    if isinstance(frame, duckdb.DuckDBPyRelation):
        return frame.to_arrow_table()
    if type(frame).__module__.startswith("ibis."):
        return frame.to_pyarrow()
    if hasattr(frame, "toArrow"):  # a DataFrame of Spark
        return frame.toArrow()
    return frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)


def rows_of(release: shoal.Release) -> list[tuple[str, ...]]:
    """The rows in no order."""
    rows = zip(*(column.to_pylist() for column in arrow_of(release.frame).columns), strict=True)
    return sorted(tuple("" if v is None else str(v) for v in row) for row in rows)


def assert_same(memory: Any, duck: Any) -> Outcome:
    """Both releases say the same, or both engines fail for the same reason."""
    if isinstance(memory, str) or isinstance(duck, str):
        assert memory == duck
        return "not met"
    assert [*duck.engine.schema().names] == [*memory.engine.schema().names]
    assert rows_of(duck) == rows_of(memory)
    assert duck.certificate == memory.certificate
    assert repr(dict(duck.measures)) == repr(dict(memory.measures))
    assert repr(duck.measures.columns) == repr(memory.measures.columns)
    assert duck.recoding.to_json() == memory.recoding.to_json()
    assert duck.dropped == memory.dropped
    return None


@pytest.mark.parametrize("engine", OTHERS)
@ways
@fewest
@given(case=cases())
@counted
def test_every_engine_gives_the_same_release(
    case: Case, method: str, parameters: dict[str, Any], engine: str
) -> Outcome:
    """The unique column ``note`` is kept, so equal multisets of rows are equal row for row."""
    case = suited(case, method, parameters)
    return assert_same(*(anonymized(case.frame, case.policy, method, parameters, e) for e in ("memory", engine)))


@pytest.mark.engines
@each_server_engine
@ways
def test_every_engine_with_a_server_gives_the_same_release(
    method: str, parameters: dict[str, Any], engine: str
) -> None:
    """Few tables for engines that take seconds even for a small one; most for the first example of a method."""
    is_first = parameters == METHODS.find(method).examples[0]
    tables = (3 if is_first else 1) if engine in SLOW else (6 if is_first else 3)

    @settings(max_examples=tables, suppress_health_check=list(HealthCheck))
    @given(case=cases())
    @counted
    def compare(case: Case) -> Outcome:
        case = suited(case, method, parameters)
        return assert_same(*(anonymized(case.frame, case.policy, method, parameters, e) for e in ("memory", engine)))

    compare()
    if is_first:
        assert_enough_tested(outcomes_of(compare) or Counter())


def test_duckdb_releases_a_relation() -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)])
    release = anonymized(pd.DataFrame({"age": [1, 1, 2, 2]}), policy, "mondrian", {}, "duckdb")
    assert isinstance(release.frame, duckdb.DuckDBPyRelation)


@pytest.mark.parametrize("write", STYLES)
@few
@given(case=cases(), data=st.data())
@counted
def test_every_way_of_writing(case: Case, data: st.DataObject, write: str) -> Outcome:
    names = ("mondrian", "kmember") if write == "mean" else ("mondrian", "tds", "kmember")
    method, parameters = data.draw(st.sampled_from([way for way in WAYS if way[0] in names]))
    case, parameters = suited(case, method, parameters), {**parameters, "write": write}
    case = averaged(case) if write == "mean" else case
    return assert_same(*(anonymized(case.frame, case.policy, method, parameters, e) for e in ("memory", "duckdb")))


def alike(values: list[int], keys: list[int]) -> pd.DataFrame:
    """Many equal records, told apart by a key alone."""
    ward = [None if v == 2 else f"w{v % 2}" for v in values]
    return pd.DataFrame({"age": [20 + v // 2 for v in values], "ward": ward, "id": keys, "seen": keys})


@st.composite
def keyed(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(4, 40))
    values = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    keys = draw(st.lists(st.integers(-(2**40), 2**40), min_size=rows, max_size=rows, unique=True))
    return alike(values, keys)


@divided
@few
@given(frame=keyed(), k=st.integers(2, 4))
@counted
def test_a_key_sends_the_same_record_to_the_same_group(
    frame: pd.DataFrame, k: int, method: str, parameters: dict[str, Any]
) -> Outcome:
    """The key is dropped; a copy of it is kept here, so that rows can be matched."""
    policy = shoal.Policy(quasi={"age": "numeric"}, key="id", keep=["ward", "seen"], require=[shoal.KAnonymity(k)])
    memory, duck = (anonymized(frame, policy, method, parameters, e) for e in ("memory", "duckdb"))
    if assert_same(memory, duck):
        return "not met"
    assert "id" not in duck.frame.columns
    return None


@divided
@few
@given(frame=keyed(), k=st.integers(2, 4), order=st.randoms(use_true_random=False), key=st.booleans())
@counted
def test_equal_records_are_divided_alike_in_any_order(
    frame: pd.DataFrame, k: int, order: Any, key: bool, method: str, parameters: dict[str, Any]
) -> Outcome:
    given = {"key": "id"} if key else {"identifiers": ["id"]}
    policy = shoal.Policy(quasi={"age": "numeric"}, keep=["ward"], require=[shoal.KAnonymity(k)], **given)
    shuffled = frame.iloc[order.sample(range(len(frame)), len(frame))]
    memory = anonymized(frame, policy, method, parameters, "memory")
    outcome = assert_same(memory, anonymized(frame, policy, method, parameters, "duckdb"))
    again = anonymized(shuffled, policy, method, parameters, "duckdb")
    assert again == memory if outcome else again.certificate == memory.certificate
    return outcome


@few
@given(case=cases())
@counted
def test_check_and_measure_are_the_same(case: Case) -> Outcome:
    assert shoal.check(case.frame, case.policy, engine="duckdb") == shoal.check(case.frame, case.policy)
    release = anonymized(case.frame, case.policy, "mondrian", {}, "duckdb")
    if isinstance(release, str):
        return "not met"
    assert shoal.check(release.frame, case.policy).fingerprint == release.certificate.fingerprint
    memory = shoal.measure(case.frame, arrow_of(release.frame), case.policy)
    duck = shoal.measure(case.frame, release.frame, case.policy, engine="duckdb")
    assert repr(dict(duck)) == repr(dict(memory))
    assert repr(duck.columns) == repr(memory.columns)
    return None


# In parts


def parted(case: Case, combinations: int, **parameters: Any) -> Any:
    try:
        return shoal.anonymize(
            case.frame, case.policy, engine="duckdb", combinations=combinations, **{"method": "mondrian", **parameters}
        )
    except shoal.RequirementNotMet as error:
        return str(error)


def unions_pass(policy: shoal.Policy) -> bool:
    return all(r.monotone and not r.relative for r in policy.require)


@few
@given(
    case=cases(least=8, most=60),
    combinations=st.integers(1, 12),
    method=st.sampled_from(["mondrian", "tds", "kmember", "knn"]),
)
@counted
def test_what_is_searched_in_parts_holds_and_is_measured_truly(case: Case, combinations: int, method: str) -> Outcome:
    case = suited(case, method)
    if not unions_pass(case.policy):
        return "unions may fail"
    release = parted(case, combinations, method=method)
    if isinstance(release, str):
        return "not met"
    assert release.certificate.holds
    frame = arrow_of(release.frame)
    assert shoal.check(frame, case.policy).holds
    measured = shoal.measure(case.frame, frame, case.policy)
    for name, value in measured.items():
        assert release.measures[name] == pytest.approx(value, nan_ok=True), name
    again = parted(case, combinations, method=method)
    assert again.certificate == release.certificate
    assert rows_of(again) == rows_of(release)
    return None


def tables() -> Iterator[tuple[str, shoal.Policy]]:
    for asked in (
        shoal.TCloseness(0.5, of="ill"),
        shoal.LDiversity(2, of="ill", kind="recursive", c=0.2),
        shoal.BetaLikeness(5.0, of="ill"),
        shoal.DeltaDisclosure(5.0, of="ill"),
    ):
        if not asked.monotone or asked.relative:
            yield asked.name, shoal.Policy(quasi={"age": "numeric"}, sensitive=["ill"], require=[asked])


@pytest.mark.parametrize("policy", [p for _, p in tables()], ids=[n for n, _ in tables()])
def test_relative_requirements_cannot_be_searched_in_partitions(policy: shoal.Policy) -> None:
    frame = pd.DataFrame({"age": np.arange(40), "ill": ["flu", "cold"] * 20})
    with pytest.raises(shoal.PolicyError, match=r"in partitions: .* Allow more memory .* or more combinations"):
        shoal.anonymize(frame, policy, engine="duckdb", combinations=10)


def test_synthetic_records_cannot_be_searched_in_partitions() -> None:
    frame = pd.DataFrame({"age": np.arange(40)})
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)])
    with pytest.raises(
        shoal.PolicyError,
        match=r"condensation cannot search a table in partitions\. Allow more memory .* or more combinations",
    ):
        shoal.anonymize(frame, policy, method="condensation", seed=1, engine="duckdb", combinations=10)


PEOPLE = ["Bo", "al", "bo ", None, "Di", "Al", "cy", "?"]


@pytest.mark.parametrize("left_out", [None, "z"], ids=["all", "one suppressed"])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_hidden_column_is_read_again_as_it_was_encoded(engine: str, left_out: str | None) -> None:
    """The records of one group may be suppressed; then a person is no longer there."""
    frame = pa.table({"q": [*"xxyyzzxz"], "who": PEOPLE})
    reading = Reading("text", ("", "?"), normalized=True)
    source = open_data(frame) if engine == "memory" else ENGINES.find(engine).open(frame, Resources())
    dictionaries = {}
    for column, read in {"q": Reading(), "who": reading}.items():
        distinct = source.distinct(column, read)
        codes = np.arange(len(distinct.values), dtype=np.int32)
        dictionaries[column] = Dictionary(read, distinct, codes, len(codes))
    encoded = source.encode(dictionaries, carry=())
    counts = encoded.count(["q"], ["who"])
    labels = dictionaries["q"].distinct.values
    of_cell = np.repeat(counts.quasi[:, 0], np.diff(counts.start))
    group = np.where(labels[of_cell] == left_out, -1, of_cell).astype(np.int32)
    published = GroupColumn("q", np.array(labels, object), np.arange(len(labels), dtype=np.int32))
    plan = Plan(counts, np.arange(len(group)), group, counts.size, (published, HiddenColumn("who")))
    released = encoded.apply([plan])
    kept = [who for q, who in zip(*(frame[c].to_pylist() for c in ("q", "who")), strict=True) if q != left_out]
    normal = [str(who).strip().lower() for who in kept if who not in (None, "?")]
    found = released.distinct("who", reading)
    assert dict(zip(found.values, found.counts.tolist(), strict=True)) == Counter(normal)
    assert found.missing == len(kept) - len(normal)
    again = {
        "q": Dictionary(
            Reading(), released.distinct("q", Reading()), np.arange(3 - (left_out is not None), dtype=np.int32), 3
        ),
        "who": Dictionary(reading, found, np.arange(len(found.values), dtype=np.int32), len(found.values)),
    }
    people = released.encode(again).count(["q"], ["who"])
    assert people.size.sum() == len(kept) and len(people.size) == len(
        {(q, str(w)) for q, w in pairs_of(frame, left_out)}
    )
    assert released.without(["who"]).schema().names == ("q",)
    if engine == "duckdb":  # its files hold the codes of the column
        with pytest.raises(shoal.ShoalError, match=r"'who' is hidden\. It can be read only"):
            released.distinct("who", Reading())


def pairs_of(frame: pa.Table, left_out: str | None) -> list[tuple[str, str | None]]:
    """The groups and the normalized names of the records that are not left out."""
    rows = zip(frame["q"].to_pylist(), frame["who"].to_pylist(), strict=True)
    names = ((q, None if who in (None, "?") else who.strip().lower()) for q, who in rows)
    return [(q, who) for q, who in names if q != left_out]
