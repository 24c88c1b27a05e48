"""Every method x requirement: the release holds when recounted by plain pandas, and says no more than it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import shoal
from tests.support.cases import Case, as_rows, cases, covers, holds, recount, released, stayed, suited
from tests.support.outcomes import Outcome, counted
from tests.support.ways import each_of, evidence, list_styles, list_ways

WAYS = [
    (m, p | ({"write": "label"} if m == "mdav" else {})) for m, p in list_ways(searches=True) if evidence(m) == "table"
]
HIDDEN = [way for way in list_ways() if evidence(way[0]) != "table"]  # the table does not show the groups
LATER = [
    way for way in WAYS if way[0] in ("mondrian", "tds", "bottom-up", "optimal", "datafly", "k-optimize")
]  # these can recode later data as they did
WRITTEN = [way for way in WAYS if "set" in list_styles(way[0])]  # the others publish labels alone
KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "polars": lambda frame: pl.from_arrow(pa.Table.from_pandas(frame, preserve_index=False)),
}

all_ways, later_ways = each_of([*WAYS, *HIDDEN]), each_of(LATER)


@all_ways
@given(case=cases())
@counted
def test_release_holds_covers_and_keeps_its_rows(case: Case, method: str, parameters: dict[str, object]) -> Outcome:
    case = suited(case, method, parameters)
    release = released(case, method, parameters)
    if release is None:  # then even one group for all does not do
        alone = case.frame.assign(**dict.fromkeys(case.policy.quasi, "*"))
        assert evidence(method) != "table" or not holds(alone, case.policy)
        return "not met"
    assert_rows_kept(case, release)
    if evidence(method) == "table":
        assert_holds(case, release)
        assert_labels_cover(case, release)
    return None


def assert_holds(case: Case, release: shoal.Release) -> None:
    """The release meets its requirements when recounted, and its certificate says the same."""
    frame, certificate = release.frame, release.certificate
    assert holds(frame, case.policy)
    assert certificate.holds and certificate.publishable
    assert certificate.unassigned == ()
    assert certificate.smallest == recount(frame, list(case.policy.quasi)).min()
    assert certificate.groups == len(recount(frame, list(case.policy.quasi)))
    assert len(frame) + certificate.suppressed == len(case.frame)


def assert_rows_kept(case: Case, release: shoal.Release) -> None:
    """Released rows keep their order and their unchanged columns."""
    frame, raw = release.frame, stayed(case, release)
    assert list(frame.columns) == list(case.frame.columns)
    assert list(frame["note"]) == list(raw["note"])
    assert list(frame["illness"].fillna("")) == list(raw["illness"].fillna(""))
    assert frame["note"].dtype == case.frame["note"].dtype
    assert list(frame.index) == list(range(len(frame)))


def assert_labels_cover(case: Case, release: shoal.Release) -> None:
    """Every label covers the original value."""
    for column, quasi in case.policy.quasi.items():
        for raw, label in zip(stayed(case, release)[column], release.frame[column], strict=True):
            assert covers(label, raw, quasi), (column, raw, label)


@all_ways
@given(case=cases(), seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(list(KINDS)))
@counted
def test_row_order_index_and_kind_of_frame_do_not_matter(
    case: Case, method: str, parameters: dict[str, object], seed: int, kind: str
) -> Outcome:
    """Each example has other rows first and one kind of frame; every method is tested with every kind."""
    case = suited(case, method, parameters)
    first = released(case, method, parameters)
    order = np.random.default_rng(seed).permutation(len(case.frame))
    shuffled = case.frame.iloc[order].set_axis(np.full(len(order), 7), axis=0)
    second = released(Case(KINDS[kind](shuffled), case.policy), method, parameters)
    assert (first is None) == (second is None)
    if first is None or second is None:
        return "not met"
    assert type(second.frame) is type(KINDS[kind](case.frame))
    rows = second.frame if kind == "pandas" else second.frame.to_pandas()
    assert as_rows(rows) == as_rows(first.frame)
    assert first.certificate.fingerprint == second.certificate.fingerprint
    return None


@each_of(WRITTEN)
@given(case=cases(), write=st.sampled_from(["lo-hi", "midpoint", "set"]))
@counted
def test_every_way_of_writing_is_checked(case: Case, method: str, parameters: dict[str, object], write: str) -> Outcome:
    case = suited(case, method, parameters)
    release = released(case, method, {**parameters, "write": write})
    if release is None:
        return "not met"
    assert release.certificate.holds
    columns = [c for c in release.frame.columns if c not in case.policy.unchanged_columns]
    assert recount(release.frame, columns).min() == release.certificate.smallest
    return None


@later_ways
@given(case=cases())
@counted
def test_recoding_reproduces_the_release(case: Case, method: str, parameters: dict[str, object]) -> Outcome:
    case = suited(case, method, parameters)
    release = released(case, method, parameters)
    if release is None:
        return "not met"
    if release.recoding.kind in ("boxes", "cut"):
        again = release.recoding.apply(case.frame)
        assert as_rows(again) == as_rows(release.frame)
    else:  # equal records may be in different groups, so a record gets the label of some group that holds its values
        again = release.recoding.apply(stayed(case, release))
        for column, quasi in case.policy.quasi.items():
            for raw, label in zip(stayed(case, release)[column], again[column], strict=True):
                assert covers(label, raw, quasi), (column, raw, label)
    assert list(again["note"]) == list(release.frame["note"])
    return None


@given(case=cases())
def test_check_counts_like_pandas(case: Case) -> None:
    certificate = shoal.check(case.frame, case.policy)
    assert certificate.holds == holds(case.frame, case.policy)
    normal = case.frame.copy()
    if "score" in normal:
        normal["score"] = normal["score"].astype(float) + 0.0
    assert certificate.smallest == recount(normal, list(case.policy.quasi)).min()
