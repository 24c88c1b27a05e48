"""Every method with every example of its parameters: the release holds when recounted, and says no more than it may.

An example is released once, and all properties are checked on that release. A second release, of other rows first in another
kind of frame, must be the same. A third one has another way of writing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

import shoal
from tests.support.cases import KINDS, Case, as_rows, cases, covers, holds, raws_of, recount, released, suited
from tests.support.engines import to_pandas
from tests.support.outcomes import Outcome, counted
from tests.support.ways import AVERAGES, each_of, evidence, list_hidden, list_labelled, list_styles

APPLIED = ("boxes", "cut")  # recodings that send equal records to the same group
Parameters = dict[str, Any]


@each_of(list_labelled())
@given(case=cases(), seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(list(KINDS)), data=st.data())
@counted
def test_release_holds_covers_keeps_its_rows_and_repeats(
    case: Case, seed: int, kind: str, data: st.DataObject, method: str, parameters: Parameters
) -> Outcome:
    case = suited(case, method, parameters)
    release = released(case.of_kind("pyarrow"), method, parameters)
    assert_repeated(case, method, parameters, release, seed, kind)
    if release is None:  # then even one group for all does not do
        alone = case.frame.assign(**dict.fromkeys(case.policy.quasi, "*"))
        assert not holds(alone, case.policy)
        return "not met"
    frame = to_pandas(release.frame)
    assert_rows_kept(case, frame)
    assert_holds(case, release.certificate, frame)
    assert_labels_cover(case, frame)
    assert_recoding_reproduces(case, release, frame)
    styles = [style for style in list_styles(method) if style != "label" and style not in AVERAGES]
    if styles:  # the others publish labels alone
        assert_written(case, method, parameters, data.draw(st.sampled_from(styles)))
    return None


@each_of(list_hidden())
@given(case=cases(), seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(list(KINDS)))
@counted
def test_release_that_hides_its_groups_keeps_its_rows_and_repeats(
    case: Case, seed: int, kind: str, method: str, parameters: Parameters
) -> Outcome:
    case = suited(case, method, parameters)
    release = released(case.of_kind("pyarrow"), method, parameters)
    assert_repeated(case, method, parameters, release, seed, kind)
    if release is None:
        return "not met"
    assert release.certificate.evidence == evidence(method)
    assert_rows_kept(case, to_pandas(release.frame))
    return None


def assert_rows_kept(case: Case, frame: pd.DataFrame) -> None:
    """Released rows keep their order and their unchanged columns."""
    raw = raws_of(case, frame)
    assert list(frame.columns) == list(case.frame.columns)
    assert list(frame["note"]) == list(raw["note"])
    assert list(frame["illness"].fillna("")) == list(raw["illness"].fillna(""))


def assert_holds(case: Case, certificate: shoal.Certificate, frame: pd.DataFrame) -> None:
    """The release meets its requirements when recounted, and its certificate says the same."""
    assert holds(frame, case.policy)
    assert certificate.holds and certificate.publishable
    assert certificate.unassigned == ()
    sizes = recount(frame, list(case.policy.quasi))
    assert certificate.smallest == sizes.min()
    assert certificate.groups == len(sizes)
    assert len(frame) + certificate.suppressed == len(case.frame)


def assert_labels_cover(case: Case, frame: pd.DataFrame) -> None:
    """Every label covers the original value."""
    raws = raws_of(case, frame)
    for column, quasi in case.policy.quasi.items():
        for raw, label in zip(raws[column], frame[column], strict=True):
            assert covers(label, raw, quasi), (column, raw, label)


def assert_repeated(
    case: Case, method: str, parameters: Parameters, first: shoal.Release | None, seed: int, kind: str
) -> None:
    """The order of the rows, the index and the kind of frame do not matter; every method is tested with every kind."""
    order = np.random.default_rng(seed).permutation(len(case.frame))
    shuffled = case.frame.iloc[order].set_axis(np.full(len(order), 7), axis=0)
    second = released(Case(shuffled, case.policy).of_kind(kind), method, parameters)
    assert (first is None) == (second is None)
    if first is None or second is None:
        return
    assert type(second.frame) is type(KINDS[kind](case.frame))
    frame = to_pandas(second.frame)
    assert as_rows(frame) == as_rows(to_pandas(first.frame))
    assert first.certificate.fingerprint == second.certificate.fingerprint
    if kind == "pandas":
        assert frame["note"].dtype == case.frame["note"].dtype
        assert list(frame.index) == list(range(len(frame)))


def assert_written(case: Case, method: str, parameters: Parameters, write: str) -> None:
    """The values of another way of writing are counted as they are published."""
    release = released(case.of_kind("pyarrow"), method, {**parameters, "write": write})
    if release is None:  # for example because midpoints of different groups are equal
        event(f"not met with {write}")
        return
    assert release.certificate.holds
    frame = to_pandas(release.frame)
    columns = [c for c in frame.columns if c not in case.policy.unchanged_columns]
    assert recount(frame, columns).min() == release.certificate.smallest


def assert_recoding_reproduces(case: Case, release: shoal.Release, frame: pd.DataFrame) -> None:
    """A recoding sends the records to their groups again."""
    if release.recoding.kind in APPLIED:
        again = to_pandas(release.recoding.apply(case.of_kind("pyarrow").frame))
        assert as_rows(again) == as_rows(frame)
    else:  # equal records may be in different groups, so a record gets the label of some group that holds its values
        raws = raws_of(case, frame)
        again = to_pandas(release.recoding.apply(KINDS["pyarrow"](raws)))
        for column, quasi in case.policy.quasi.items():
            for raw, label in zip(raws[column], again[column], strict=True):
                assert covers(label, raw, quasi), (column, raw, label)
    assert list(again["note"]) == list(frame["note"])


def test_a_later_value_is_not_the_excluded_end_of_its_label() -> None:
    frame = pa.table({"score": [-0.5, 0.0, 3.0], "note": ["a", "b", "c"]})
    policy = shoal.Policy(quasi={"score": "numeric"}, keep=["note"], require=[shoal.KAnonymity(1)])
    release = shoal.anonymize(frame, policy, method="mondrian", cut="median", relaxed=True, ends="cut")
    later = release.recoding.apply(frame.slice(1, 1))
    assert later["score"].to_pylist() == ["[0, 3)"]


@given(case=cases())
def test_check_counts_like_pandas(case: Case) -> None:
    certificate = shoal.check(case.frame, case.policy)
    assert certificate.holds == holds(case.frame, case.policy)
    normal = case.frame.copy()
    if "score" in normal:
        normal["score"] = normal["score"].astype(float) + 0.0
    assert certificate.smallest == recount(normal, list(case.policy.quasi)).min()
