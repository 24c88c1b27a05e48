"""Groups written as one value: means and medians of numbers and dates, modes of categories."""

from __future__ import annotations

import json
from collections import Counter
from statistics import fmean, median

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.recoding import Assignment
from tests.reference.each import Each
from tests.support.cases import Case, averaged, cases, list_rows, recount, without_rounding
from tests.support.outcomes import Outcome, counted

JOB = {"ANY": {"Office": ["clerk", "manager"], "Field": {"Land": ["farmer", "miner"], "Sea": ["sailor"]}}}
WRITTEN = {
    "mean": [(24.0, "f", "clerk"), (45.8, "x", "sailor"), (None, None, None), (None, None, None)],  # one decimal
    "median": [(22.0, "f", "clerk"), (45.75, "x", "sailor"), (None, None, None), (None, None, None)],
}
styles = pytest.mark.parametrize("write", ["mean", "median"])
ways = pytest.mark.parametrize(
    ("method", "parameters"),
    [("mondrian", {}), ("mondrian", {"cut": "median", "relaxed": True}), ("mdav", {}), ("kmember", {}), ("knn", {})],
)


@styles
@pytest.mark.parametrize("tree", [True, False])
def test_groups_are_written_as_one_value(write: str, tree: bool) -> None:
    """Four groups told apart by their ward: a plain one, one of two ages, one all missing, one with holes."""
    frame = pd.DataFrame(
        {
            "ward": list("1112222333444"),
            "age": [20, 22, 30, 41, 50.5, 41, 50.5, None, None, None, 20, None, None],
            "sex": ["m", "f", "f", "x", "x", "x", "x", None, None, None, "f", None, None],
            "job": ["manager", "clerk", "farmer", *["sailor"] * 4, None, None, None, "farmer", None, None],
        }
    )
    quasi = {"ward": "categorical", "age": "numeric", "sex": "categorical", "job": {"taxonomy": JOB}}
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(3)])
    release = Each(policy, by="ward", tree=tree, write=write).release(frame)
    assert list_rows(release.frame) == [(ward, *WRITTEN[write][int(ward) - 1]) for ward in frame["ward"]]


@styles
def test_equal_records_count_as_often_as_they_are(write: str) -> None:
    frame = pd.DataFrame({"ward": ["a"] * 6, "age": [1, 1, 1, 1, 2, 9], "sex": list("mmfffm")})
    policy = shoal.Policy(
        quasi={"ward": "categorical", "age": "numeric", "sex": "categorical"}, require=[shoal.KAnonymity(3)]
    )
    release = Each(policy, by="ward", write=write).release(frame)
    assert set(release.frame["age"]) == {2.0 if write == "mean" else 1.0}  # 2.5, to the even number
    assert release.frame["sex"].nunique() == 1


@styles
@pytest.mark.parametrize(
    ("days", "shown"),
    [
        (["2001-01-01", "2001-01-02", "2001-01-09"], {"mean": "2001-01-04", "median": "2001-01-02"}),
        (["2001-01-01", "2001-01-02", None], {"mean": None, "median": None}),
        (
            ["2001-01-01T00:00:00", "2001-01-01T00:00:01", "2001-01-01T12:00:00"],
            {"mean": "2001-01-01T04:00:00", "median": "2001-01-01T00:00:01"},
        ),
    ],
)
def test_dates_stay_as_fine_as_they_are(write: str, days: list[str | None], shown: dict[str, str | None]) -> None:
    quasi = {"born": {"kind": "date", "round": "none"}, "ward": "numeric"}
    policy = shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(3)])
    release = Each(policy, by="ward", write=write).release(pd.DataFrame({"born": days, "ward": [1, 1, 1]}))
    assert [None if pd.isna(v) else v for v in release.frame["born"]] == [shown[write]] * 3


def expected(column: pd.Series, values: list[object], quasi: shoal.policy.QuasiIdentifier, write: str) -> object:
    """What a group of raw values is to show, by plain loops; for categories all that would do."""
    known = [None if pd.isna(v) else v for v in values]
    if quasi.kind == "numeric" and quasi.tree_builder is None:
        if None in known:
            return None
        known_to = [p for p in range(7) if all(round(float(v), p) == v for v in column.dropna())]
        places = known_to[0]  # the decimals of the column
        return pytest.approx(round(fmean(known), places) if write == "mean" else float(median(known)), abs=1e-9)
    often = Counter(known).most_common()
    most = {v for v, n in often if n == often[0][1]}
    return {None} if None in most else most


@styles
@ways
@given(case=cases())
@counted
def test_every_grouping_can_be_written_so(
    case: Case, method: str, parameters: dict[str, object], write: str
) -> Outcome:
    """The records of a group are told by the labels, which are written for the same groups."""
    case = averaged(case)
    try:
        release = shoal.anonymize(case.frame, case.policy, method=method, write=write, **parameters)
    except shoal.RequirementNotMet:
        return "not met"
    frame = release.frame
    assert release.certificate.smallest == recount(frame, list(case.policy.quasi)).min()
    assert list(frame.columns) == list(case.frame.columns)
    label = shoal.anonymize(case.frame, case.policy, method=method, **{**parameters, "write": "label"})
    assert release.measures["ncp"] == label.measures["ncp"]
    return None


@styles
@given(case=cases())
@counted
def test_values_are_those_of_the_group(case: Case, write: str) -> Outcome:
    case = without_rounding(averaged(case))
    plain = {n: q for n, q in case.policy.quasi.items() if q.tree_builder is None and q.kind != "date"}
    if not plain:
        return "no numbers or categories"
    by = next(iter(plain))
    policy = case.policy.model_copy(update={"suppress": 1.0})  # groups that are too small need not stop the release
    release = Each(policy, by=by, write=write)
    try:
        frame = release.release(case.frame).frame
    except shoal.RequirementNotMet:
        return "not met"
    raw = case.frame[case.frame["note"].isin(frame["note"])].reset_index(drop=True)
    first = raw[by]
    for key in first.unique():
        mine = first.isna() if pd.isna(key) else first == key
        for name, quasi in plain.items():
            (shown,) = {None if pd.isna(v) else v for v in frame.loc[mine, name]}
            wanted = expected(case.frame[name], raw.loc[mine, name].tolist(), quasi, write)
            assert shown in wanted if isinstance(wanted, set) else shown == wanted
    return None


def test_whole_numbers_become_floats_and_rounding_stays_inside() -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(3)])
    frame = shoal.anonymize(pd.DataFrame({"age": [1, 2, 3]}), policy, write="mean").frame
    assert frame["age"].dtype == np.float64
    tenth = shoal.anonymize(pd.DataFrame({"age": [0.1] * 3}), policy, write="mean").frame
    assert tenth["age"].tolist() == [0.1] * 3  # 0.1 + 0.1 + 0.1 is more than 0.3
    polars = shoal.anonymize(pl.DataFrame({"age": [1, 2, 4]}), policy, write="median").frame
    assert polars["age"].to_list() == [2.0] * 3


@styles
def test_groups_with_equal_published_values_are_one(write: str) -> None:
    frame = pd.DataFrame({"ward": list("aaabbb"), "age": [1, 2, 3, 0, 2, 4], "job": ["clerk"] * 6})
    policy = shoal.Policy(quasi={"age": "numeric", "job": {"taxonomy": JOB}}, require=[shoal.KAnonymity(3)])
    release = shoal.anonymize(frame, policy, method="mondrian", write=write)
    assert release.certificate.groups == recount(release.frame, ["age", "job"]).size


@styles
@pytest.mark.parametrize("method", ["tds", "bottom-up"])
def test_a_cut_has_no_means(method: str, write: str) -> None:
    frame = pd.DataFrame({"job": ["clerk", "miner"] * 3})
    policy = shoal.Policy(quasi={"job": {"taxonomy": JOB}}, require=[shoal.KAnonymity(3)])
    with pytest.raises(
        shoal.PolicyError, match=rf"{method} publishes the same cut.*no group has a {write}.*'midpoint'"
    ):
        shoal.anonymize(frame, policy, method=method, write=write)


@styles
@given(case=cases(), method=st.sampled_from(["mdav", "mondrian"]))
@counted
def test_json_keeps_what_is_written(case: Case, method: str, write: str) -> Outcome:
    case = averaged(case)
    try:
        recoding = shoal.anonymize(case.frame, case.policy, method=method, write=write).recoding
    except shoal.RequirementNotMet:
        return "not met"
    again = type(recoding).from_dict(json.loads(recoding.to_json()))
    assert again.to_json() == recoding.to_json()
    pd.testing.assert_frame_equal(again.apply(case.frame, nearest=True), recoding.apply(case.frame, nearest=True))
    if method == "mdav":
        assert isinstance(recoding, Assignment)
    return None


@styles
def test_what_is_suppressed_is_not_in_any_mean(write: str) -> None:
    frame = pd.DataFrame({"ward": list("aaabbbc"), "age": [1, 2, 6, 7, 8, 9, 1000]})
    policy = shoal.Policy(quasi={"ward": "categorical", "age": "numeric"}, require=[shoal.KAnonymity(3)], suppress=0.2)
    release = Each(policy, by="ward", write=write).release(frame)
    assert release.frame["age"].tolist() == [3.0 if write == "mean" else 2.0] * 3 + [8.0] * 3
