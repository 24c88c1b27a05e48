"""Local suppression: the fewest starred cells by brute force, exact labels, the lower bound, importance, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.tables import starred_groups, starred_sets
from tests.reference.local_suppression import fewest_by_cells, fewest_by_groups
from tests.support.cases import holds

METHOD = "local-suppression"
NAMES = ("a", "b", "c", "d")


def policy_of(columns: Any, *require: Any, **more: Any) -> shoal.Policy:
    quasi = dict.fromkeys(columns, "categorical") if not isinstance(columns, dict) else columns
    return shoal.Policy(quasi=quasi, require=list(require), **more)


def count_stars(frame: pd.DataFrame, importance: dict[str, float] | None = None) -> float:
    return sum((importance or {}).get(c, 1.0) * (frame[c] == "*").sum() for c in frame.columns)


@st.composite
def tables(draw: st.DrawFn, most: int = 8) -> pd.DataFrame:
    rows, columns = draw(st.integers(2, most)), draw(st.integers(1, 4))
    values = st.integers(0, draw(st.integers(1, 3)))
    return pd.DataFrame(
        [[f"v{draw(values)}" for _ in range(columns)] for _ in range(rows)], columns=list(NAMES[:columns])
    )


def fewest(frame: pd.DataFrame, k: int, importance: dict[str, float] | None = None) -> float:
    weights = [(importance or {}).get(c, 1.0) for c in frame.columns]
    return fewest_by_groups(list(frame.itertuples(index=False, name=None)), weights, lambda group: len(group) >= k)


def restrict(monkey: pytest.MonkeyPatch) -> None:
    """Use the search of larger tables."""
    monkey.setattr(starred_groups, "EXACT", 0)


@given(rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=2, max_size=5), k=st.integers(1, 2))
@settings(max_examples=15)
def test_the_best_division_into_groups_has_the_fewest_stars(rows: list[tuple[int, int]], k: int) -> None:
    assert fewest_by_groups(rows, [2, 1], lambda group: len(group) >= k) == fewest_by_cells(rows, [2, 1], k)


@given(frame=tables(), k=st.integers(2, 3), weight=st.sampled_from([0.5, 1.0, 3.0]))
@settings(max_examples=40)
def test_a_small_table_has_the_fewest_stars(frame: pd.DataFrame, k: int, weight: float) -> None:
    k, importance = min(k, len(frame)), {"a": weight}
    release = shoal.anonymize(frame, policy_of(frame, shoal.KAnonymity(k)), method=METHOD, importance=importance)
    assert release.measures["starred"] == count_stars(release.frame, importance) == fewest(frame, k, importance)
    assert release.measures["starred_least"] == release.measures["starred"]


@pytest.mark.parametrize("seed", range(4))
def test_a_table_of_twelve_records_has_the_fewest_stars(seed: int) -> None:
    chance = np.random.default_rng(seed)
    frame = pd.DataFrame(chance.integers(0, 3, (12, 4)), columns=list(NAMES)).astype(str)
    release = shoal.anonymize(frame, policy_of(frame, shoal.KAnonymity(3)), method=METHOD, seed=1)
    assert count_stars(release.frame) == fewest(frame, 3)


@pytest.mark.parametrize("seed", range(12))
def test_the_search_of_large_tables_is_between_the_bound_and_one_and_a_half_times_the_fewest(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    restrict(monkeypatch)
    chance = np.random.default_rng(seed)
    frame = pd.DataFrame(chance.integers(0, 3, (9, 3)), columns=list(NAMES[:3])).astype(str)
    importance = {"a": float(chance.choice([1.0, 2.0]))}
    release = shoal.anonymize(
        frame, policy_of(frame, shoal.KAnonymity(2)), method=METHOD, importance=importance, seed=seed
    )
    best = fewest(frame, 2, importance)
    assert release.measures["starred_least"] <= best <= release.measures["starred"] <= 1.5 * best


@given(frame=tables(), k=st.integers(2, 4))
@settings(max_examples=25)
def test_the_bound_is_never_above_the_fewest(frame: pd.DataFrame, k: int) -> None:
    with pytest.MonkeyPatch.context() as monkey:
        restrict(monkey)
        k = min(k, len(frame))
        release = shoal.anonymize(frame, policy_of(frame, shoal.KAnonymity(k)), method=METHOD)
        assert release.measures["starred_least"] <= fewest(frame, k) <= release.measures["starred"]
        assert holds(release.frame, policy_of(frame, shoal.KAnonymity(k)))


def people(rows: int = 300, seed: int = 1) -> pd.DataFrame:
    chance = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": chance.integers(20, 30, rows),
            "sex": chance.choice(["f", "m", None], rows, p=[0.5, 0.4, 0.1]),
            "born": pd.Timestamp("1990-01-01") + pd.to_timedelta(chance.integers(0, 4, rows), "D"),
            "zip": chance.choice(["47906", "47907", "47301"], rows),
            "grade": chance.integers(0, 3, rows).astype(str),
            "ill": chance.choice(["flu", "cold", "gout"], rows),
        }
    )


QUASI: dict[str, Any] = {
    "age": "numeric",
    "sex": "categorical",
    "born": {"kind": "date"},
    "zip": {"mask": "right"},
    "grade": {"taxonomy": {"low": {"lower": ["0", "1"]}, "high": ["2"]}, "ordered": True},
}


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize(
    "require",
    [
        [shoal.KAnonymity(4)],
        [shoal.KAnonymity(4), shoal.LDiversity(2, of="ill", kind="entropy")],
        [shoal.KAnonymity(3), shoal.KAnonymity(20, on=["sex", "zip"])],
        [shoal.TCloseness(0.4, of="ill")],
    ],
    ids=str,
)
def test_a_cell_is_its_value_or_a_star_in_every_kind_of_column(require: list[Any], engine: str) -> None:
    frame, policy = people(), policy_of(QUASI, *require, sensitive=["ill"])
    release = shoal.anonymize(frame, policy, method=METHOD, engine=engine, seed=1)
    found = release.frame.df() if engine == "duckdb" else release.frame
    if engine == "memory":
        assert holds(found, policy)
        for column in QUASI:
            plain = found[column] != "*"
            raw = frame[column].dt.strftime("%Y-%m-%d") if column == "born" else frame[column].astype("string")
            assert list(found[column][plain].fillna("?")) == list(raw[plain].fillna("?"))
    assert release.measures["ncp"] == pytest.approx(count_stars(found[list(QUASI)]) / found[list(QUASI)].size)
    assert release.measures["starred"] == count_stars(found[list(QUASI)])
    assert release.measures["starred_least"] <= release.measures["starred"]


def test_a_star_is_a_value_of_its_own() -> None:
    """One star would do as a wildcard: (*, 2) fits two other records. As a value it is alone, so three records need it."""
    frame = pd.DataFrame({"sex": list("fffmm"), "zip": list("11222")})
    release = shoal.anonymize(frame, policy_of(frame, shoal.KAnonymity(2)), method=METHOD, seed=1)
    assert release.measures["starred"] == 3 == fewest(frame, 2)
    groups = release.frame.groupby(["sex", "zip"]).size()
    assert groups.min() >= 2 and sorted(groups) == [2, 3]


def test_a_star_that_leaves_one_value_is_counted() -> None:
    """The reader assumes that no record with a star is an x."""
    for values, share in (("xxxy", 0.5), ("xxxyz", 0.0)):
        frame = pd.DataFrame({"a": list(values)})
        release = shoal.anonymize(frame, policy_of(frame, shoal.KAnonymity(2)), method=METHOD, seed=1)
        assert release.measures["downcoded"] == share and "downcoded" not in release.measures.public()


def test_the_important_column_keeps_its_values() -> None:
    frame = pd.DataFrame({"sex": ["f", "m"] * 8, "zip": [str(i) for i in range(8)] * 2})
    policy = policy_of(frame, shoal.KAnonymity(4))
    for kept, importance in (("sex", {"sex": 9}), ("sex", "sex=9"), ("sex", None)):
        release = shoal.anonymize(frame, policy, method=METHOD, importance=importance, seed=1)
        assert not (release.frame[kept] == "*").any() and (release.frame["zip"] == "*").all()
    pairs = pd.DataFrame({"sex": ["f", "m"] * 8, "zip": [str(i // 4) for i in range(16)]})
    policy = policy_of(pairs, shoal.KAnonymity(4))
    for starred, importance in (("sex", {"zip": 5}), ("zip", {"sex": 5})):
        release = shoal.anonymize(pairs, policy, method=METHOD, importance=importance, seed=1)
        assert list(release.frame.columns[(release.frame == "*").any()]) == [starred]


def test_records_are_suppressed_only_if_no_group_takes_them() -> None:
    frame = pd.DataFrame({"a": [*"xxxxxxxxxxxxxxx", "y"], "b": [*"111111111111111", "2"]})
    kept = shoal.anonymize(frame, policy_of(frame, shoal.KAnonymity(3)), method=METHOD, seed=1)
    assert (
        kept.certificate.suppressed == 0 and kept.measures["starred"] == 6
    )  # two of the others lose their values, too
    policy = policy_of(frame, shoal.KAnonymity(3), suppress=0.1)
    gone = shoal.anonymize(frame, policy, method=METHOD, seed=1)
    assert gone.certificate.suppressed == 1 and gone.measures["starred"] == gone.measures["starred_least"] == 0


def test_many_columns_are_searched_with_some_of_the_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(2)
    frame = pd.DataFrame(chance.integers(0, 2, (60, 30)), columns=[f"c{i}" for i in range(30)]).astype(str)
    policy = policy_of(frame, shoal.KAnonymity(3))
    release = shoal.anonymize(frame, policy, method=METHOD, seed=1)
    assert holds(release.frame, policy)
    assert 0 < release.measures["starred_least"] <= release.measures["starred"] == count_stars(release.frame)
    monkeypatch.setattr(starred_sets, "MOST_ROWS", 0)
    assert shoal.anonymize(frame, policy, method=METHOD, seed=1).measures["starred_least"] == 60


def test_the_recoding_gives_later_records_the_label_with_the_fewest_stars() -> None:
    frame = pd.DataFrame({"age": [30] * 4 + [31, 32, 33], "sex": list("fffffff")})
    quasi = {"age": "numeric", "sex": "categorical"}
    release = shoal.anonymize(frame, policy_of(quasi, shoal.KAnonymity(3)), method=METHOD, seed=1)
    later = release.recoding.apply(pd.DataFrame({"age": [30, 31, 77], "sex": ["f", "f", "f"]}))
    assert later["age"].tolist() == ["30", "*", "*"] and later["sex"].tolist() == ["f", "f", "f"]


def test_people_are_counted() -> None:
    frame = people(200)
    frame["person"] = [f"p{i // 2}" for i in range(len(frame))]
    policy = policy_of(QUASI, shoal.KAnonymity(3), unit="person")
    release = shoal.anonymize(frame, policy, method=METHOD, seed=1)
    assert release.certificate.holds and "starred" not in release.measures
    columns = [frame["person"], *(release.frame[c].fillna("?") for c in QUASI)]
    table = pd.concat(columns, axis=1)
    assert table.groupby(list(QUASI))["person"].nunique().min() >= 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"write": "lo-hi"}, "publishes a value or \\*, and write='lo-hi' would replace the star. Use write='label'"),
        ({"write": "mean"}, "publishes a value or \\*, and write='mean' would replace the star"),
        ({"improve": True}, "local-suppression improves its groups itself.* Remove improve=True"),
        ({"ends": "cut"}, "local-suppression makes no cuts"),
        ({"importance": {"agee": 1}}, "importance names 'agee', which is no quasi-identifier; .*age"),
        ({"importance": {"age": -1}}, "the importance of 'age' must be at least 0, not -1"),
        ({"importance": {"age": 0}}, "the importance of 'age' must be more than 0"),
        ({"importance": "age"}, "importance must be NAME=NUMBER, once per column, separated by commas, not 'age'"),
        ({"importance": 3}, "importance must be numbers by column name, such as {'age': 2} or the text 'age=2', not 3"),
    ],
)
def test_wrong_parameters_are_refused(given: dict[str, Any], message: str) -> None:
    policy = policy_of({"age": "numeric"}, shoal.KAnonymity(3))
    with pytest.raises(shoal.PolicyError, match=message):
        shoal.anonymize(people(30), policy, method=METHOD, **given)


def test_a_rounded_column_and_an_unreachable_requirement_are_refused() -> None:
    rounded = policy_of({"age": {"kind": "numeric", "round": 5}}, shoal.KAnonymity(3))
    with pytest.raises(shoal.PolicyError, match="publishes exact values or \\*, and column 'age' has 'round'"):
        shoal.anonymize(people(30), rounded, method=METHOD)
    diverse = policy_of({"age": "numeric"}, shoal.LDiversity(4, of="ill"), sensitive=["ill"])
    with pytest.raises(shoal.RequirementNotMet, match="ill"):
        shoal.anonymize(people(30), diverse, method=METHOD)
