"""Measures of small tables, computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from tests.reference.each import Each
from tests.support.case_files import check_lines
from tests.support.cases import Case, cases
from tests.support.outcomes import Outcome, counted

JOBS = {"ANY": {"Office": ["clerk", "manager"], "Field": ["farmer"]}}
FRAME = pd.DataFrame(
    {"age": [20, 30, 40, 60], "job": ["clerk", "manager", "farmer", "farmer"], "class": ["Y", "N", "Y", "Y"]}
)
POLICY = shoal.Policy(
    quasi={"age": "numeric", "job": {"taxonomy": JOBS}}, target="class", require=[shoal.KAnonymity(2)]
)
# Two groups of two: [20, 30] Office, and [40, 60] farmer.
RELEASED = pd.DataFrame(
    {"age": ["[20, 30]"] * 2 + ["[40, 60]"] * 2, "job": ["Office"] * 2 + ["farmer"] * 2, "class": FRAME["class"]}
)


def measure(suppressed: int = 0) -> shoal.measures.Measures:
    more = pd.DataFrame({"age": [20], "job": ["clerk"], "class": ["Y"]})
    return shoal.measure(pd.concat([FRAME, *[more] * suppressed]), RELEASED, POLICY)


def test_two_groups_by_hand() -> None:
    found = measure()
    # age: 10/40 and 20/40; job: 2 of 3 leaves and a leaf
    assert found["ncp"] == pytest.approx((2 * (1 / 4 + 2 / 3) + 2 * (1 / 2 + 0)) / (4 * 2))
    # Office has height 1 of 2
    assert found["il"] == pytest.approx(2 * (1 / 4 + 1 / 2) + 2 * (1 / 2 + 0))
    # age: 3/8; job: a mean of (2/3 + 1/3) / 2 leaves, scaled from [1/3, 1] to [0, 1]
    age, job = 3 / 8, (1 / 2 - 1 / 3) / (1 - 1 / 3)
    assert found["loss"] == pytest.approx(math.sqrt((1 + age) * (1 + job)) - 1)
    assert found["loss_mean"] == pytest.approx((age + job) / 2)
    assert found["dm"] == 2**2 + 2**2
    assert found["cm"] == 1 / 4  # one N among two
    assert (found["classes"], found["smallest"], found["average"]) == (2, 2, 2)
    assert (found["risk_max"], found["risk_mean"]) == (1 / 2, 2 / 4)
    assert (found["records"], found["suppressed"]) == (4, 0)


def test_a_suppressed_record_counts_as_fully_generalized() -> None:
    found = measure(suppressed=1)
    age, job = (2 / 4 + 2 / 2 + 1) / 5, (2 * 2 / 3 + 0 + 1) / 5
    assert found["ncp"] == pytest.approx((age + job) / 2)
    assert found["il"] == pytest.approx(2.5 + 2)
    scaled = ((2 * 2 / 3 + 2 * 1 / 3 + 1) / 5 - 1 / 3) / (2 / 3)
    assert found["loss"] == pytest.approx(math.sqrt((1 + age) * (1 + scaled)) - 1)
    assert found["dm"] == 8 + 1 * 5
    assert found["cm"] == pytest.approx((1 + 1) / 5)  # the class of a suppressed record cannot be predicted
    assert (found["records"], found["suppressed"], found["classes"], found["average"]) == (4, 1, 2, 2)
    assert (found["risk_max"], found["risk_mean"]) == (1 / 2, 2 / 4)


def test_each_attribute_by_itself() -> None:
    columns = measure().columns
    assert columns["age"]["ncp"] == pytest.approx(3 / 8) and columns["job"]["ncp"] == pytest.approx(1 / 3)
    assert (columns["age"]["distinct"], columns["age"]["distinct_original"]) == (2, 4)


def test_precision_entropy_and_risk_by_hand() -> None:
    found = measure()
    # heights: age 3/8 of its width; job: Office at 1 of 2 for half of the records
    assert found["precision"] == pytest.approx(1 - (3 / 8 + 1 / 4) / 2)
    # age: one of two values of four is ln 2 of ln 4; job: clerk or manager is ln 2, of the entropy of (1, 1, 2)/4
    assert found["entropy"] == pytest.approx((math.log(2) / math.log(4) + 0.5 * math.log(2) / (1.5 * math.log(2))) / 2)
    assert (found["risk_above"], found["uniques"]) == (1.0, 0)
    assert shoal.measure(FRAME, RELEASED, POLICY, threshold=0.5)["risk_above"] == 0
    assert found["cm_sum"] == 1


def test_diversity_by_hand() -> None:
    """Definition 10 of the k-member paper: a group with one value discloses the value of all its records."""
    original = pd.DataFrame({"age": [1, 1, 2, 2, 3], "ill": ["flu", "flu", "HIV", "HIV", "flu"]})
    policy = shoal.Policy(
        quasi={"age": "numeric"}, sensitive="ill", truly_sensitive={"ill": ["HIV"]}, require=[shoal.KAnonymity(1)]
    )
    found = shoal.measure(original, original, policy)
    assert (found["ed"], found["sd"], found["certain"], found["uniques"]) == (5, 2, 5, 1)
    mixed = original.assign(age="*")
    found = shoal.measure(original, mixed, policy)
    assert (found["ed"], found["sd"], found["certain"]) == (0, 0, 0)
    assert "sd" not in shoal.measure(original, mixed, policy.model_copy(update={"truly_sensitive": {}}))


def test_labels_of_numbers() -> None:
    def check(label: str | None, loss: float) -> None:
        original = pd.DataFrame({"age": [20, 30, 40, 60]})
        policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(1)])
        released = pd.DataFrame({"age": [label] * 4}, dtype=object)
        assert shoal.measure(original, released, policy)["ncp"] == pytest.approx(loss)

    check_lines(Path(__file__).with_name("number_labels.jsonl"), check)


@pytest.mark.parametrize(
    ("label", "loss"),
    [("Office", 2 / 3), ("clerk", 0), ("{clerk, farmer}", 2 / 3), ("ANY", 1), ("*", 1), (None, 0), ("{clerk}", 0)],
)
def test_labels_of_categories(label: str | None, loss: float) -> None:
    policy = shoal.Policy(quasi={"job": {"taxonomy": JOBS}}, require=[shoal.KAnonymity(1)])
    released = pd.DataFrame({"job": [label] * 4}, dtype=object)
    assert shoal.measure(FRAME, released, policy)["ncp"] == pytest.approx(loss)


@pytest.mark.parametrize(
    ("label", "loss"), [("4790*", 2 / 4), ("479**", 3 / 4), ("47901", 0), ("4*", 1), ("47*", 3 / 4)]
)
def test_labels_of_masks(label: str, loss: float) -> None:
    original = pd.DataFrame({"zip": ["47901", "47902", "47911", "48000"]})
    for quasi in ("categorical", {"mask": "right"}):
        policy = shoal.Policy(quasi={"zip": quasi}, require=[shoal.KAnonymity(1)])
        released = pd.DataFrame({"zip": [label] * 4})
        assert shoal.measure(original, released, policy)["ncp"] == pytest.approx(loss)


def test_labels_of_dates() -> None:
    original = pd.DataFrame({"birth": ["1985-01-01", "1985-07-02", "1986-01-01", "1987-01-01"]})
    policy = shoal.Policy(quasi={"birth": {"kind": "date", "round": "none"}}, require=[shoal.KAnonymity(1)])
    for label, days in (
        ("1985-07-02", 0),
        ("1985", 364),
        ("1985-07", 30),
        ("[1985-01-01, 1986-01-01]", 365),
        ("*", 730),
    ):
        released = pd.DataFrame({"birth": [label] * 4})
        assert shoal.measure(original, released, policy)["ncp"] == pytest.approx(days / 730)


def test_labels_that_cannot_be_read_are_named() -> None:
    policy = shoal.Policy(quasi={"age": "numeric", "job": {"taxonomy": JOBS}}, require=[shoal.KAnonymity(1)])
    with pytest.raises(shoal.DataError, match=r"'age'.*'young'.*ranges such as"):
        shoal.measure(FRAME, RELEASED.assign(age="young"), policy)
    with pytest.raises(shoal.DataError, match=r"'job'.*'pilot'"):
        shoal.measure(FRAME, RELEASED.assign(job="pilot"), policy)
    with pytest.raises(shoal.DataError, match="4 records more"):
        shoal.measure(FRAME, pd.concat([RELEASED, RELEASED]), policy)


@given(case=cases(), write=st.sampled_from(["label", "lo-hi", "set"]))
@counted
def test_the_measures_of_a_release_follow_from_its_published_table(case: Case, write: str) -> Outcome:
    try:
        release = shoal.anonymize(case.frame, case.policy, write=write)
    except shoal.RequirementNotMet:
        return "not met"
    found = shoal.measure(case.frame, release.frame, case.policy)
    if write == "lo-hi" and case.frame.isna().any(axis=None):
        return "ambiguous"  # a missing value and a box that holds one look alike there
    known = dict(release.measures)
    for figure in ("isolated_ends", "unique_ends"):  # need to know which record is which
        known.pop(figure)
    assert found == pytest.approx(known)
    return None


def test_an_original_table_and_a_fully_generalized_table() -> None:
    policy = POLICY.model_copy(update={"require": (shoal.KAnonymity(1),)})
    raw = shoal.anonymize(FRAME, policy).measures
    assert raw["ncp"] == raw["il"] == raw["loss"] == raw["loss_mean"] == 0
    assert raw["dm"] == raw["classes"] == 4 and raw["smallest"] == raw["risk_max"] == raw["risk_mean"] == 1
    assert raw["cm"] == 0
    policy = POLICY.model_copy(update={"require": (shoal.KAnonymity(4),)})
    stars = shoal.anonymize(FRAME, policy).measures
    assert stars["ncp"] == stars["loss"] == stars["loss_mean"] == pytest.approx(1)
    assert stars["il"] == 4 * 2 and stars["dm"] == 16 and stars["classes"] == 1
    assert stars["risk_max"] == stars["risk_mean"] == 1 / 4 and stars["cm"] == 1 / 4


def test_a_box_with_missing_and_other_numbers_is_the_root() -> None:
    frame = pd.DataFrame({"age": [20, 30, None, None]})
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(4)])
    release = shoal.anonymize(frame, policy)
    assert list(release.frame["age"]) == ["*"] * 4
    assert release.measures["ncp"] == 1 and release.measures["il"] == 4
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)])
    assert shoal.anonymize(frame, policy).measures["ncp"] == pytest.approx(2 * 1 / 4)  # [20, 30] twice, missing twice


def test_losses_are_relative_to_the_bounds() -> None:
    frame = pd.DataFrame({"age": [20, 30, 40, 60]})
    policy = shoal.Policy(quasi={"age": {"bounds": [0, 100]}}, require=[shoal.KAnonymity(4)])
    assert shoal.anonymize(frame, policy).measures["ncp"] == pytest.approx(0.4)


def test_categories_without_a_tree_are_a_root_and_leaves() -> None:
    frame = pd.DataFrame({"sex": ["f", "f", "m", "x"]})
    release = shoal.anonymize(frame, shoal.Policy(quasi={"sex": "categorical"}, require=[shoal.KAnonymity(2)]))
    assert list(release.frame["sex"]) == ["f", "f", "*", "*"]
    assert release.measures["ncp"] == pytest.approx(2 * 1 / 4) and release.measures["il"] == 2
    sets = shoal.anonymize(frame, release.policy, write="set")
    assert list(sets.frame["sex"]) == ["f", "f", "{m, x}", "{m, x}"]
    assert sets.measures["ncp"] == pytest.approx(2 * (2 / 3) / 4)


def test_leaves_that_no_record_has_count_in_a_tree() -> None:
    tree = {"ANY": {"Office": ["clerk", "manager"], "Field": ["farmer", "miner"]}}
    frame = pd.DataFrame({"job": ["clerk", "manager"]})
    policy = shoal.Policy(quasi={"job": {"taxonomy": tree}}, require=[shoal.KAnonymity(2)])
    found = shoal.anonymize(frame, policy).measures
    assert found["ncp"] == 2 / 4 and found["il"] == pytest.approx(2 * 1 / 2)
    assert found["loss"] == pytest.approx((2 / 4 - 1 / 4) / (3 / 4))


def test_midpoints_that_meet_are_one_class() -> None:
    """Risk and discernibility count the published groups; the loss counts the box of each original group."""
    frame = pd.DataFrame({"ward": [1, 1, 2, 2], "age": [20, 40, 29, 31]})
    policy = shoal.Policy(quasi={"ward": "numeric", "age": "numeric"}, require=[shoal.KAnonymity(2)])
    found = Each(policy, by="ward", write="midpoint").release(frame).measures
    assert (found["classes"], found["dm"]) == (2, 8)
    alone = Each(policy.model_copy(update={"quasi": {"age": policy.quasi["age"]}}), write="midpoint")
    with pytest.raises(shoal.RequirementNotMet):
        alone.release(frame)


def test_a_suppressed_record_is_a_classification_error() -> None:
    frame = pd.DataFrame({"age": [1, 1, 1, 9], "class": ["Y", "Y", "N", "N"]})
    policy = shoal.Policy(quasi={"age": "numeric"}, target="class", require=[shoal.KAnonymity(2)], suppress=0.25)
    found = Each(policy).release(frame).measures
    assert found["cm"] == (1 + 1) / 4 and found["suppressed"] == 1 and found["dm"] == 9 + 1 * 4


def test_missing_classes_are_a_class() -> None:
    frame = pd.DataFrame({"age": [1, 1, 1, 1], "class": ["Y", None, None, None]})
    policy = shoal.Policy(quasi={"age": "numeric"}, target="class", require=[shoal.KAnonymity(2)])
    assert shoal.anonymize(frame, policy).measures["cm"] == 1 / 4


@given(case=cases())
@counted
def test_figures_of_groups_are_those_of_the_table(case: Case) -> Outcome:
    try:
        release = shoal.anonymize(case.frame, case.policy)
    except shoal.RequirementNotMet:
        return "not met"
    size = release.frame.groupby(list(case.policy.quasi), dropna=False).size()
    found = release.measures
    assert (found["classes"], found["smallest"]) == (len(size), size.min())
    assert found["dm"] == (size**2).sum()
    assert found["risk_max"] == pytest.approx(1 / size.min())
    assert found["risk_mean"] == pytest.approx(
        (1 / release.frame.groupby(list(case.policy.quasi), dropna=False)["note"].transform("size")).mean()
    )
    assert -1e-12 <= found["ncp"] <= 1 + 1e-12 and -1e-12 <= found["loss"] <= 1 + 1e-12
    assert found["ncp"] == pytest.approx(1 - np.mean(list(release.summary().information_kept.values())))
    assert all(math.isfinite(v) for v in found.values())
    return None


def test_sets_of_values_with_commas_are_read_back() -> None:
    for values in (
        ["Smith,John", "Doe,Jane", "a", "b"],
        ["a", "b, c", "a, b", "a, b", "e", "e"],
        ["x,  y", "z", "x", "y"],
    ):
        frame = pd.DataFrame({"name": values})
        policy = shoal.Policy(quasi={"name": "categorical"}, require=[shoal.KAnonymity(2)])
        release = shoal.anonymize(frame, policy, write="set")
        size = frame["name"].nunique()
        sets = [set(frame["name"][release.frame["name"] == label]) for label in release.frame["name"]]
        assert release.measures["ncp"] == pytest.approx(np.mean([0 if len(s) == 1 else len(s) / size for s in sets]))


def test_a_set_in_braces_has_several_values() -> None:
    frame = pd.DataFrame({"a": ["a", "b", "a, b", "a, b"]})
    policy = shoal.Policy(quasi={"a": "categorical"}, require=[shoal.KAnonymity(2)])
    assert shoal.anonymize(frame, policy, write="set").measures["ncp"] == pytest.approx(2 / 3 / 2)
    with_missing = pd.DataFrame({"a": ["?", "?", None, "c"]})
    whole = shoal.Policy(quasi={"a": "categorical"}, require=[shoal.KAnonymity(4)])
    assert shoal.anonymize(with_missing, whole, write="set").measures["ncp"] == pytest.approx(1)


@pytest.mark.parametrize("label", ["nan", "inf", "-inf", "NaN"])
def test_a_label_that_is_not_a_finite_number_cannot_be_read(label: str) -> None:
    policy = shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(1)])
    with pytest.raises(shoal.DataError, match="cannot be read"):
        shoal.measure(pd.DataFrame({"age": [1, 2, 3]}), pd.DataFrame({"age": [label, "1-2", "1-2"]}), policy)


def test_a_table_measured_against_itself_lost_nothing() -> None:
    frame = pd.DataFrame({"age": ["39", "?", "40"], "dose": ["23.0", "41.50", "60"]})
    quasi = {"age": "numeric", "dose": {"widths": [5, 10]}}
    policy = shoal.Policy(quasi=quasi, missing=["?"], require=[shoal.KAnonymity(1)])
    assert shoal.measure(frame, frame, policy)["ncp"] == 0


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("20-40", 3),
        ("20-30", 2),
        ("[20,30)", 2),
        (">=20", 4),
        ("[20, 35)", 2),
        ("[20, 40)", 3),
        ("35", 0),
        ("22-24", 0),
    ],
)
def test_ranges_are_read_over_a_tree_of_numbers(label: str, values: int) -> None:
    """The source values in the range count, also if the leaves are intervals; a single value loses nothing."""
    for quasi in ({"boundaries": [20, 30, 50]}, {"widths": [10, 20]}):
        if label == "22-24" and "boundaries" in quasi:
            continue  # this range contains no leaf
        share = values / 4
        policy = shoal.Policy(quasi={"age": quasi}, require=[shoal.KAnonymity(1)])
        released = pd.DataFrame({"age": [label] * 4})
        found = shoal.measure(pd.DataFrame({"age": [21, 25, 35, 60]}), released, policy)
        assert found["ncp"] == pytest.approx(share)
