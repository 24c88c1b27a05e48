"""What all methods share: suppression as a fixed point, parameters by name, and a release that follows the records alone."""

from __future__ import annotations

import math
from collections import Counter
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.encoding.codes import Codes
from shoal.encoding.published_table import read_published_groups
from shoal.engines import open_data
from shoal.pipeline.method import GroupingMethod, list_constructor_parameters, make_method
from shoal.progress import Progress
from shoal.recoding import Placement
from shoal.recoding.grouping import Grouping
from shoal.requirements import select_passing_groups
from shoal.tables import Mondrian
from tests.reference.each import Each
from tests.support.cases import list_rows
from tests.support.outcomes import Outcome, counted

NAMES = ("a", "b", "c")


def as_multiset(frame: pd.DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(list_rows(frame))


# ---- suppression


def passes(group: pd.DataFrame, everyone: pd.DataFrame, requirement: object) -> bool:
    """One requirement on one group, from its definition."""
    if isinstance(requirement, shoal.KAnonymity):
        return len(group) >= requirement.k
    counts = Counter(group[requirement.of])
    if isinstance(requirement, shoal.LDiversity):
        if requirement.kind == "distinct":
            return len(counts) >= requirement.l
        entropy = -sum(n / len(group) * math.log(n / len(group)) for n in counts.values())
        return entropy >= math.log(requirement.l) - 1e-9
    base = Counter(everyone[requirement.of])
    gap = sum(abs(counts[v] / len(group) - n / len(everyone)) for v, n in base.items())
    return gap / 2 <= requirement.t + 1e-9


def left_over(raw: pd.DataFrame, policy: shoal.Policy) -> pd.DataFrame:
    """Leave out the records of groups that fail, one requirement after the other, until none fails."""
    frame, size = raw.fillna("(missing)"), -1
    while size != len(frame):
        size = len(frame)
        for requirement in policy.require:
            groups = [group for _, group in frame.groupby(list(requirement.on or policy.quasi))]
            frame = frame.loc[sorted(i for g in groups if passes(g, frame, requirement) for i in g.index)]
    return raw.loc[frame.index]


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    cell = st.one_of(st.sampled_from(["x", "y"]), st.sampled_from(["x", "y", "z", None]))
    record = st.tuples(cell, cell, cell, st.sampled_from(["flu", "cold", "gout", None]))
    least = draw(st.sampled_from([15, 6, 1]))
    return pd.DataFrame(draw(st.lists(record, min_size=least, max_size=30)), columns=[*NAMES, "ill"])


@st.composite
def requirements(draw: st.DrawFn) -> list[object]:
    some = st.one_of(st.none(), st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    kinds = [
        st.builds(shoal.KAnonymity, st.integers(1, 6), on=some),
        st.builds(shoal.KAnonymity, st.integers(1, 6), on=some),
        st.builds(shoal.LDiversity, st.integers(1, 3), of=st.just("ill"), on=some),
        st.builds(shoal.LDiversity, st.just(1.7), of=st.just("ill"), kind=st.just("entropy"), on=some),
        st.builds(shoal.TCloseness, st.sampled_from([0.2, 0.4]), of=st.just("ill"), on=some),
    ]
    return draw(st.lists(st.one_of(kinds), min_size=1, max_size=4))


def policy_of(require: list[object], suppress: float = 1.0) -> shoal.Policy:
    return shoal.Policy(quasi=dict.fromkeys(NAMES, "categorical"), sensitive="ill", require=require, suppress=suppress)


@given(frame=tables(), require=requirements())
def test_settle_is_the_plain_loop(frame: pd.DataFrame, require: list[object]) -> None:
    policy = policy_of(require)
    groups, labels = read_published_groups(open_data(frame), policy)
    kept = select_passing_groups(groups, policy.require)
    found = {tuple(labels[n][c] for n, c in zip(NAMES, codes, strict=True)) for codes in groups.quasi[kept]}
    assert found == set(list_rows(left_over(frame, policy)[list(NAMES)]))


@given(frame=tables(), require=requirements())
@counted
def test_suppression_ends_where_everything_holds(frame: pd.DataFrame, require: list[object]) -> Outcome:
    policy = policy_of(require)
    expected = left_over(frame, policy)
    try:
        release = Each(policy).release(frame)
    except shoal.PolicyError:  # more records asked for than there are
        assert max(r.least for r in policy.require) > len(frame)
        return "too few records"
    except shoal.RequirementNotMet:
        assert expected.empty
        return "not met"
    assert list_rows(release.frame) == list_rows(expected)  # in the order they came
    assert release.certificate.holds and release.certificate.suppressed == len(frame) - len(expected)
    assert shoal.check(release.frame, policy).holds
    assert release.measures["suppressed"] == len(frame) - len(expected)
    return None


def test_suppression_goes_on_where_one_set_takes_from_another() -> None:
    """b = q has two records until a = 3 goes, whose group is too small."""
    frame = pd.DataFrame({"a": [1, 1, 2, 2, 3], "b": list("ppqqr"), "c": ["x", "x", "x", "y", "y"], "ill": "flu"})
    alone = policy_of([shoal.KAnonymity(2, on=["a"])])
    assert len(Each(alone).release(frame).frame) == 4
    chain = policy_of([shoal.KAnonymity(2, on=["c"]), shoal.KAnonymity(2, on=["a"])])
    assert list_rows(Each(chain).release(frame).frame) == [("1", "p", "x", "flu")] * 2
    assert Each(chain).release(frame).certificate.suppressed == 3


TWO_ALONE = pd.DataFrame({"a": [*"pppqqqss", "r", "t"], "b": "x", "c": "x", "ill": "flu"})


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_records_are_suppressed_within_the_allowance(share: float) -> None:
    method = Each(policy_of([shoal.KAnonymity(2)], suppress=share))
    assert method.release(TWO_ALONE).certificate.suppressed == 2


@pytest.mark.parametrize("share", [0.0, 0.19])
def test_the_allowance_is_respected(share: float) -> None:
    method = Each(policy_of([shoal.KAnonymity(2)], suppress=share))
    with pytest.raises(shoal.RequirementNotMet) as caught:
        method.release(TWO_ALONE)
    text = str(caught.value)
    assert "k-anonymity (k = 2)" in text and "2 of 10 records would have to be suppressed" in text
    assert f"the policy allows {int(share * 10)}" in text and "raise 'suppress'" in text


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7, 0.29, 0.57])
def test_the_allowance_is_not_lost_to_rounding(share: float) -> None:
    """0.29 x 100 is 28.999… in the machine; the policy says 29."""
    alone = round(share * 100)
    frame = pd.DataFrame({"a": [*range(alone), *([-1] * (100 - alone))], "b": "x", "c": "x", "ill": "flu"})
    assert Each(policy_of([shoal.KAnonymity(2)], suppress=share)).release(frame).certificate.suppressed == alone


def test_everything_suppressed_is_no_release() -> None:
    frame = pd.DataFrame({"a": list("pqr"), "b": "x", "c": "x", "ill": "flu"})
    with pytest.raises(shoal.RequirementNotMet, match="3 of 3 records"):
        Each(policy_of([shoal.KAnonymity(2)])).release(frame)


def test_an_unreachable_requirement_reports_the_best_value() -> None:
    frame = pd.DataFrame({"age": [1, 2, 3, 4], "ill": ["flu", "flu", "flu", "cold"]})
    policy = shoal.Policy(quasi={"age": "numeric"}, sensitive="ill", require=[shoal.LDiversity(3, of="ill")])
    with pytest.raises(shoal.RequirementNotMet, match=r"l-diversity \(l = 3, of = ill\) cannot be met.*reaches 2"):
        shoal.anonymize(frame, policy)


def test_a_requirement_that_needs_suppression_is_refused_for_the_method_alone() -> None:
    """Without some records with flu the requirement holds: the lattice methods find this release, others do not try."""
    frame = pd.DataFrame({"age": [1] * 8 + [2] * 4, "ill": ["flu"] * 10 + ["cold"] * 2})
    entropy = shoal.LDiversity(1.9, of="ill", kind="entropy")

    def policy(suppress: float) -> shoal.Policy:
        return shoal.Policy(quasi={"age": "numeric"}, sensitive="ill", require=[entropy], suppress=suppress)

    for method in ("mondrian", "tds", "kmember"):
        text = (
            rf"{method} cannot meet l-diversity .*begins with groups of all records.*'optimal': .* suppress 9 records\."
        )
        with pytest.raises(shoal.RequirementNotMet, match=text):
            shoal.anonymize(frame, policy(0.8), method=method)
    assert shoal.anonymize(frame, policy(0.8), method="optimal", seed=1).certificate.suppressed == 8
    for method in ("mondrian", "optimal"):  # all records are released: nothing can meet it
        with pytest.raises(shoal.RequirementNotMet, match=r"l-diversity .*\) cannot be met: the whole table"):
            shoal.anonymize(frame, policy(0.0), method=method)


class Lavish(GroupingMethod):
    """Suppresses all but the first combination itself."""

    name: ClassVar[str] = "lavish"
    summary: ClassVar[str] = "suppresses all but one combination"

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        group = np.where(np.arange(len(codes.quasi)) == 0, 0, -1).astype(np.int32)
        return Grouping(Placement.whole(codes.counts, group), codes.quasi[:1].copy(), codes.quasi[:1].copy())


def test_records_that_a_method_suppresses_count_against_the_allowance() -> None:
    frame = pd.DataFrame({"a": list("ppqq"), "b": "x", "c": "x", "ill": "flu"})
    with pytest.raises(shoal.RequirementNotMet, match="2 of 4 records"):
        Lavish(policy_of([shoal.KAnonymity(2)], suppress=0.25)).release(frame)
    assert Lavish(policy_of([shoal.KAnonymity(2)], suppress=0.5)).release(frame).certificate.suppressed == 2


class Veil(GroupingMethod):
    """Publishes the root for all records, but makes one group per combination."""

    name: ClassVar[str] = "veil"
    summary: ClassVar[str] = "publishes nothing"

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        group = np.arange(len(codes.quasi), dtype=np.int32)
        lo = np.zeros_like(codes.quasi)
        hi = np.tile(np.array([a.size - 1 for a in codes.attributes], np.int32), (len(lo), 1))
        return Grouping(Placement.whole(codes.counts, group), lo, hi)


def test_groups_that_are_published_alike_are_one_group() -> None:
    """Groups with equal published values are merged, so no record has to be suppressed."""
    frame = pd.DataFrame({"a": list("pqrs"), "b": list("xyxy"), "c": list("xxyy"), "ill": "flu"})
    release = Veil(policy_of([shoal.KAnonymity(4)], suppress=0.0)).release(frame)
    assert list_rows(release.frame) == [("*", "*", "*", "flu")] * 4
    assert release.certificate.groups == 1


# ---- parameters


FRAME = pd.DataFrame(
    {"name": list("ABCDEFGH"), "age": [1, 2, 3, 4, 5, 6, 7, 8], "ill": list("xyxyxyxy"), "note": range(8)}
)
POLICY = shoal.Policy(quasi={"age": "numeric"}, sensitive="ill", require=[shoal.KAnonymity(2)])


def test_an_unknown_method_lists_the_methods() -> None:
    with pytest.raises(shoal.PolicyError, match=r"unknown method 'mondrain'.*'mondrian'.*did you mean 'mondrian'"):
        shoal.anonymize(FRAME, POLICY, method="mondrain")


def test_an_unknown_parameter_lists_the_parameters() -> None:
    with pytest.raises(shoal.PolicyError, match=r"mondrian has no parameter 'cuts'.*'write'.*did you mean 'cut'"):
        shoal.anonymize(FRAME, POLICY, cuts="gain")
    with pytest.raises(shoal.PolicyError, match="has no parameter 'policy'"):
        make_method(Mondrian, POLICY, {"policy": POLICY})


@pytest.mark.parametrize("given", [{"cut": "medium"}, {"cut": 5}, {"cut": None}, {"write": "box"}, {"write": None}])
def test_a_wrong_value_lists_the_right_ones(given: dict[str, object]) -> None:
    with pytest.raises(shoal.PolicyError, match=r"choose from '(gain|label)'"):
        shoal.anonymize(FRAME, POLICY, **given)


@pytest.mark.parametrize("relaxed", ["no", "maybe", 2])
def test_a_switch_is_on_or_off(relaxed: object) -> None:
    """'no' is not a way to say yes."""
    with pytest.raises(shoal.PolicyError, match="relaxed"):
        shoal.anonymize(FRAME, POLICY, cut="median", relaxed=relaxed)


def test_relaxed_goes_with_the_median() -> None:
    with pytest.raises(shoal.PolicyError, match="cut='median'"):
        shoal.anonymize(FRAME, POLICY, relaxed=True)


def test_parameters_are_known_by_name_and_kept() -> None:
    assert list(list_constructor_parameters(Mondrian)) == [
        "policy",
        "write",
        "ends",
        "objective",
        "improve",
        "max_size",
        "seconds",
        "cut",
        "relaxed",
        "weights",
    ]
    release = shoal.anonymize(FRAME, POLICY, cut="median", write="set")
    assert release.method == "mondrian"
    common = {"write": "set", "ends": None, "objective": "ncp", "improve": False, "max_size": None, "seconds": None}
    assert dict(release.parameters) == {**common, "cut": "median", "relaxed": False, "weights": None}
    assert list_rows(release.frame) == list_rows(Mondrian(POLICY, cut="median", write="set").release(FRAME).frame)


def test_progress_is_reported_to_the_end() -> None:
    told: dict[str, tuple[int, int]] = {}
    shoal.anonymize(FRAME, POLICY, progress=lambda stage, done, total: told.update({stage: (done, total)}))
    assert set(told) >= {"reading", "cutting", "checking"}
    assert {stage: done for stage, (done, _) in told.items()} == {stage: total for stage, (_, total) in told.items()}


# ---- determinism


@pytest.mark.parametrize("given", [{}, {"cut": "median"}, {"cut": "median", "relaxed": True}], ids=str)
def test_the_order_of_the_rows_does_not_matter(given: dict[str, object]) -> None:
    """Equal records and values of equal frequency are where an order could creep in."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 6, 80),
            "sex": rng.choice(["f", "m", None], 80),
            "zip": rng.choice(["11", "12", "21"], 80),
            "ill": rng.choice(["flu", "cold"], 80),
            "note": rng.integers(0, 3, 80),
        }
    )
    quasi = {"age": "numeric", "sex": "categorical", "zip": {"mask": "right"}}
    policy = shoal.Policy(
        quasi=quasi, sensitive="ill", keep=["note"], accept={"note": "a test"}, require=[shoal.KAnonymity(4)]
    )
    first = shoal.anonymize(frame, policy, **given)
    for seed in range(4):
        again = shoal.anonymize(frame.sample(frac=1, random_state=seed), policy, **given)
        assert as_multiset(again.frame) == as_multiset(first.frame)
        assert again.certificate == first.certificate and again.measures == first.measures
        assert again.recoding.to_json() == first.recoding.to_json()


@pytest.mark.parametrize(
    "index",
    [
        range(8, 0, -1),
        [0] * 8,
        list("hgfedcba"),
        pd.MultiIndex.from_product([[1, 2], list("wxyz")]),
        pd.date_range("2020", periods=8),
    ],
    ids=["backward", "equal", "text", "pairs", "dates"],
)
def test_the_index_does_not_matter(index: object) -> None:
    release = shoal.anonymize(FRAME.set_axis(index, axis=0), POLICY)
    pd.testing.assert_frame_equal(release.frame, shoal.anonymize(FRAME, POLICY).frame)
    assert list(release.frame.index) == list(range(8))


def test_the_order_of_the_columns_does_not_matter_but_stays() -> None:
    backward = shoal.anonymize(FRAME[FRAME.columns[::-1]], POLICY)
    assert list(backward.frame.columns) == ["ill", "age"]
    pd.testing.assert_frame_equal(backward.frame[["age", "ill"]], shoal.anonymize(FRAME, POLICY).frame)


def test_the_input_is_left_as_it_was() -> None:
    frame = FRAME.copy()
    release = shoal.anonymize(frame, POLICY)
    release.frame.loc[:, "ill"] = "changed"
    pd.testing.assert_frame_equal(frame, FRAME)


# ---- roles


def test_columns_without_a_role_and_identifiers_are_dropped_and_named() -> None:
    policy = POLICY.model_copy(update={"identifiers": ("name",)})
    release = shoal.anonymize(FRAME, policy)
    assert list(release.frame.columns) == ["age", "ill"]
    assert release.dropped == ("name", "note")


TARGET = pd.DataFrame({"age": [1, 1, 2, 2, 8, 8, 9, 9], "class": list("YNYYNNNY"), "ill": list("abababab")})


def target_policy(**given: object) -> shoal.Policy:
    return shoal.Policy(**{"quasi": {"age": "numeric"}, "target": "class", "require": [shoal.KAnonymity(4)], **given})


def test_a_target_stays_as_it_is() -> None:
    release = shoal.anonymize(TARGET, target_policy())
    assert list(release.frame["class"]) == list(TARGET["class"])
    assert list(release.frame["age"]) == ["[1, 2]"] * 4 + ["[8, 9]"] * 4
    assert release.measures["cm"] == 2 / 8
    assert release.dropped == ("ill",)


@pytest.mark.parametrize("role", ["sensitive", "keep"])
def test_a_target_may_have_another_role(role: str) -> None:
    release = shoal.anonymize(TARGET, target_policy(**{role: ["class"]}))
    assert list(release.frame.columns) == ["age", "class"]
    assert list(release.frame["class"]) == list(TARGET["class"])


def test_a_target_that_is_sensitive_can_be_required_of() -> None:
    for roles in ({"sensitive": ["class"]}, {}):
        policy = target_policy(require=[shoal.KAnonymity(2), shoal.LDiversity(2, of="class")], **roles)
        release = shoal.anonymize(TARGET, policy)
        assert release.frame.groupby("age")["class"].nunique().min() == 2


def test_a_target_that_is_quasi_is_generalized() -> None:
    policy = target_policy(quasi={"age": "numeric", "class": "categorical"}, require=[shoal.KAnonymity(8)])
    release = shoal.anonymize(TARGET, policy)
    assert list_rows(release.frame) == [("[1, 9]", "*")] * 8
    assert "cm" not in release.measures


def test_a_target_that_is_quasi_cannot_be_required_of() -> None:
    """It forms the groups, so nothing can be asked of its values inside them."""
    quasi = {"age": "numeric", "class": "categorical"}
    with pytest.raises(shoal.PolicyError, match="class"):
        shoal.anonymize(TARGET, target_policy(quasi=quasi, require=[shoal.LDiversity(2, of="class")]))


def test_a_target_that_is_an_identifier_is_an_error() -> None:
    with pytest.raises(shoal.PolicyError, match="target 'class' is an identifier"):
        target_policy(identifiers=["class"])


@pytest.mark.parametrize("role", ["identifiers", "sensitive", "keep", "target"])
def test_a_column_that_is_not_in_the_table_is_named(role: str) -> None:
    given = {role: "clas" if role == "target" else ["clas"]}
    with pytest.raises(shoal.PolicyError, match=r"column 'clas' is not in the table.*did you mean 'class'"):
        shoal.anonymize(TARGET, shoal.Policy(quasi={"age": "numeric"}, require=[shoal.KAnonymity(2)], **given))


def test_an_empty_table_and_a_table_too_small_are_errors() -> None:
    with pytest.raises(shoal.DataError, match="the table is empty"):
        shoal.anonymize(FRAME.iloc[:0], POLICY)
    with pytest.raises(shoal.PolicyError, match="at least 2 records, but the table has 1"):
        shoal.anonymize(FRAME.iloc[:1], POLICY)
    with pytest.raises(shoal.PolicyError, match="no requirement"):
        shoal.anonymize(FRAME, shoal.Policy(quasi={"age": "numeric"}))
    with pytest.raises(shoal.PolicyError, match="no quasi-identifier"):
        shoal.anonymize(FRAME, shoal.Policy(require=[shoal.KAnonymity(2)]))


def test_a_column_that_would_be_taken_for_the_end_of_another_is_refused() -> None:
    """Else the check would look at the lower end of a where it means the column a_lo."""
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "a_lo": [1, 2, 3, 4]})
    policy = shoal.Policy(quasi={"a": "numeric", "a_lo": "numeric"}, require=[shoal.KAnonymity(2)])
    assert list(shoal.anonymize(frame, policy).frame["a_lo"]) == ["[1, 2]", "[1, 2]", "[3, 4]", "[3, 4]"]
    with pytest.raises(shoal.PolicyError, match="would create 'a_lo', which already exists"):
        shoal.anonymize(frame, policy, write="lo-hi")
