"""Top-down specialization against the examples of its paper and its slow twin, step for step."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
import shoal.recoding.search_path
from shoal import recoding
from shoal.datasets import papers
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.tables import TopDownSpecialization
from tests.reference.tds import Cut, Search, candidates, entropy, specialize
from tests.support.cases import Case, cases, holds, recount, without_rounding
from tests.support.outcomes import Outcome, counted
from tests.support.steps import adult, assert_same_steps, needs_data, published, reference, released

TOP = [
    *("capital-gain", "age", "marital-status", "education-num", "relationship"),
    *("hours-per-week", "sex", "education", "occupation"),
]
GA = ["age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country"]
ALL = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
]
EDUCATION_SEX, SEX_HOURS = ("Education", "Sex"), ("Sex", "Work_Hrs")
EVERYTHING = ("Education", "Sex", "Work_Hrs")


specialized = partial(released, TopDownSpecialization)
twin = partial(reference, specialize)


def search_of(frame: pd.DataFrame, policy: shoal.Policy) -> tuple[Search, Cut]:
    """Return the search of the twin, and the cut before the first step."""
    codes, _ = encode_and_count(open_data(frame), policy, extra=[policy.target] if policy.target else [])
    search = Search(codes, policy)
    return search, tuple((search.top(j),) for j in range(len(search.names)))


def numbers(k: int = 1, **more: object) -> shoal.Policy:
    return shoal.Policy(quasi={"x": "numeric"}, require=[shoal.KAnonymity(k)], **more)


# The examples of the paper.


def test_example_4_gain_loss_and_score_of_education() -> None:
    search, cut = search_of(papers.fung(), papers.fung_policy())
    assert search.sets.keys() == {EDUCATION_SEX, SEX_HOURS}
    found = {search.names[c.value.j]: c for c in candidates(search, cut, {EDUCATION_SEX: 34, SEX_HOURS: 34})}
    assert list(found) == list(EVERYTHING)  # Example 7: all of them are candidates
    education = found["Education"]
    assert [search.label(child) for child in education.children] == ["Secondary", "University"]
    assert [search.records(child).sum() for child in education.children] == [16, 18]
    assert entropy(search.records(education.value)) == pytest.approx(0.9597, abs=5e-5)
    assert [entropy(search.records(c)) for c in education.children] == pytest.approx([0.8960, 0.5033], abs=5e-5)
    assert education.gain == pytest.approx(0.2716, abs=5e-5)
    assert education.loss == 18
    assert education.score == pytest.approx(0.0151, abs=5e-5)


def test_example_4_where_education_is_specialized_first() -> None:
    policy = shoal.Policy(
        quasi={n: {"taxonomy": tree} for n, tree in papers.taxonomies()["fung"].items()},
        target="Class",
        require=[shoal.KAnonymity(4)],
    )
    _, path = specialized(papers.fung(), policy)
    first = path[0]
    assert (first.attribute, first.value, first.children) == ("Education", "*", ("Secondary", "University"))
    assert (first.gain, first.score) == pytest.approx((0.2716, 0.0151), abs=5e-5)
    assert first.loss == 18 and first.smallest == {EDUCATION_SEX: 16}


def test_example_5_split_of_hours() -> None:
    search, cut = search_of(papers.fung(), papers.fung_policy())
    top = cut[2][0]
    gains = search.gains(top, top.hi)
    assert len(gains) == 5 and np.argmax(gains) == 2
    left, right = search.children(top)
    assert [search.label(v) for v in (top, left, right)] == ["*", "[1, 37)", "[37, 99]"]
    assert [search.records(v).sum() for v in (left, right)] == [12, 22]
    assert [entropy(search.records(v)) for v in (left, right)] == pytest.approx([0.6500, 0.5746], abs=1e-4)
    assert search.gain(top, (left, right)) == pytest.approx(0.3584, abs=1e-4)


@pytest.mark.parametrize("by", ["score", "gain"])
def test_examples_7_to_9_hours_and_then_education(by: str) -> None:
    release, path = specialized(papers.fung(), papers.fung_policy(), by=by)
    assert dict(path.smallest) == {EDUCATION_SEX: 34, SEX_HOURS: 34}
    hours, education = path[:2]
    assert (hours.attribute, hours.children) == ("Work_Hrs", ("[1, 37)", "[37, 99]"))
    assert hours.gain == pytest.approx(0.3584, abs=1e-4) and hours.loss == 34 - 12
    assert dict(hours.smallest) == {EDUCATION_SEX: 34, SEX_HOURS: 12}
    assert (education.attribute, education.children) == ("Education", ("Secondary", "University"))
    assert education.gain == pytest.approx(0.2716, abs=5e-5) and education.loss == 34 - 16
    assert dict(education.smallest) == {EDUCATION_SEX: 16, SEX_HOURS: 12}
    scores = (0.3584 / 22, 0.0151) if by == "score" else (0.3584, 0.2716)
    assert (hours.score, education.score) == pytest.approx(scores, abs=1e-4)
    assert path.direction == "specialize" and path.chosen == len(path) == 5
    assert published(release) == {
        ("Junior Sec.", "*", "[1, 37)"): 7,
        ("11th", "*", "[1, 37)"): 5,
        ("12th", "*", "[37, 99]"): 4,
        ("Bachelors", "*", "[37, 99]"): 10,
        ("Grad School", "*", "[37, 99]"): 8,
    }


def test_example_6_by_score() -> None:
    policy = papers.fung_example6_policy()
    release, path = specialized(papers.fung_example6(), policy)
    assert [(s.attribute, s.children) for s in path] == [
        ("Sex", ("M", "F")),
        ("Work_Hrs", ("[1, 40)", "[40, 99]")),
    ]
    assert [dict(s.smallest) for s in path] == [{EVERYTHING: 14}, {EVERYTHING: 6}]
    assert published(release) == {
        ("*", "M", "[40, 99]"): 20,
        ("*", "M", "[1, 40)"): 6,
        ("*", "F", "[40, 99]"): 8,
        ("*", "F", "[1, 40)"): 6,
    }
    assert release.frame.groupby(list(EVERYTHING))["Class"].nunique().max() == 1
    assert {r.attribute for r in path.refusals} == {"Education"}


def test_example_6_by_gain_alone() -> None:
    release, path = specialized(papers.fung_example6(), papers.fung_example6_policy(), by="gain")
    assert [(s.attribute, s.children) for s in path] == [("Education", ("8th", "9th", "10th"))]
    assert published(release) == {("8th", "*", "*"): 4, ("9th", "*", "*"): 12, ("10th", "*", "*"): 24}


@pytest.mark.parametrize("table", ["fung", "fung_example6"])
@pytest.mark.parametrize("by", ["score", "gain"])
def test_same_steps_as_the_slow_twin_on_the_papers(table: str, by: str) -> None:
    frame = papers.tables()[table](kind="pandas")
    policy = papers.fung_policy() if table == "fung" else papers.fung_example6_policy()
    release, path = specialized(frame, policy, by=by)
    run = twin(frame, policy, by=by)
    assert_same_steps(path, run)
    assert published(release) == run.rows


# The twin.


@pytest.mark.parametrize("by", ["score", "gain"])
@given(case=cases(most=60).map(without_rounding))
@counted
def test_same_steps_as_the_slow_twin(case: Case, by: str) -> Outcome:
    try:
        release, path = specialized(case.frame, case.policy, by=by)
    except shoal.RequirementNotMet:
        assert not holds(case.frame.assign(**dict.fromkeys(case.policy.quasi, "*")), case.policy)
        return "not met"
    run = twin(case.frame, case.policy, by=by)
    assert_same_steps(path, run)
    assert published(release) == run.rows
    assert holds(release.frame, case.policy)
    assert path.chosen == run.chosen
    return None


@st.composite
def wide(draw: st.DrawFn) -> Case:
    """Many distinct numbers, whose splits often tie."""
    rows = draw(st.integers(1, 150))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    step = draw(st.sampled_from([1, 7, 1000]))
    frame = pd.DataFrame({"x": rng.integers(0, 60, rows) * step, "y": rng.normal(size=rows).round(3)})
    frame["z"] = rng.choice(["a", "b", "c"], rows)
    frame["c"] = np.where(rng.random(rows) < 0.7, frame["x"] > 30 * step, rng.random(rows) < 0.5).astype(str)
    if draw(st.booleans()):
        frame = frame.mask(rng.random(frame.shape) < 0.1)
    x = draw(st.sampled_from(["numeric", {"bounds": [-5, 1e5]}]))
    require = draw(
        st.sampled_from(
            [
                [shoal.KAnonymity(min(rows, 3))],
                [shoal.KAnonymity(min(rows, 9), on=["x", "z"]), shoal.KAnonymity(min(rows, 4), on=["y", "z"])],
                [shoal.KAnonymity(1)],
            ]
        )
    )
    target = draw(st.sampled_from([None, "c", "z", "x"]))
    quasi = {"x": x, "y": "numeric", "z": "categorical"}
    return Case(frame, shoal.Policy(quasi=quasi, target=target, require=require))


@pytest.mark.parametrize("by", ["score", "gain"])
@given(case=wide().map(without_rounding))
def test_same_splits_of_many_numbers(case: Case, by: str) -> None:
    release, path = specialized(case.frame, case.policy, by=by)
    run = twin(case.frame, case.policy, by=by)
    assert_same_steps(path, run)
    assert published(release) == run.rows


@given(case=cases(most=50).map(without_rounding))
@counted
def test_same_steps_with_valid_splits(case: Case) -> Outcome:
    policy = case.policy.model_copy(update={"suppress": 0.0})
    try:
        release, path = specialized(case.frame, policy, split="valid")
    except shoal.RequirementNotMet:
        return "not met"
    run = twin(case.frame, policy, split="valid")
    assert_same_steps(path, run)
    assert published(release) == run.rows
    return None


def test_an_invalid_split_is_replaced_by_a_valid_one() -> None:
    """The best split would make a group of two records; the next best split makes groups of the required size."""
    frame = pd.DataFrame({"age": [20, 20, 30, 30, 30, 40, 40, 40], "ill": list("yynnyynn")})
    policy = shoal.Policy(quasi={"age": "numeric"}, target="ill", require=[shoal.KAnonymity(3)])
    assert [s.children for s in specialized(frame, policy)[1]] == []
    assert [s.children for s in specialized(frame, policy, split="valid")[1]] == [("[20, 40)", "40")]
    with pytest.raises(shoal.PolicyError, match="suppress"):
        specialized(frame, policy.model_copy(update={"suppress": 0.1}), split="valid")


@st.composite
def overlapping(draw: st.DrawFn) -> Case:
    """Attribute sets that share an attribute, with suppression: a record suppressed for one set is missing in the others."""
    rows = draw(st.integers(4, 14))
    columns = {c: draw(st.lists(st.sampled_from("xyz"), min_size=rows, max_size=rows)) for c in ("a", "b", "c", "ill")}
    ways = [
        [shoal.KAnonymity(2, on=["a", "b"]), shoal.KAnonymity(2, on=["b", "c"])],
        [shoal.KAnonymity(3, on=["a", "b"]), shoal.KAnonymity(2, on=["b", "c"])],
        [shoal.KAnonymity(2), shoal.ConfidenceBound(0.6, of="ill", on=["a"])],
        [shoal.LDiversity(2, of="ill", on=["c", "a"]), shoal.KAnonymity(2, on=["a", "b"])],
        [shoal.KAnonymity(2, on=["a"]), shoal.KAnonymity(3, on=["b"]), shoal.TCloseness(0.4, of="ill", on=["c"])],
    ]
    policy = shoal.Policy(
        quasi=dict.fromkeys("abc", "categorical"),
        sensitive=["ill"],
        target=draw(st.sampled_from([None, "ill"])),
        require=draw(st.sampled_from(ways)),
        suppress=draw(st.sampled_from([0.1, 0.2, 0.4])),
    )
    return Case(pd.DataFrame(columns), policy)


@given(case=overlapping())
@counted
def test_same_steps_with_several_attribute_sets_and_suppression(case: Case) -> Outcome:
    if not holds(case.frame.assign(a="*", b="*", c="*"), case.policy):
        return "not met"
    release, path = specialized(case.frame, case.policy)
    run = twin(case.frame, case.policy)
    assert_same_steps(path, run)
    assert published(release) == run.rows
    return None


def test_a_suppression_for_one_attribute_set_counts_for_the_others() -> None:
    """Specializing c after a would suppress the record with a = z, and then the other with c = z: one too many."""
    frame = pd.DataFrame({"a": list("xxzx"), "b": list("xyzx"), "c": list("zxzx")})
    policy = shoal.Policy(
        quasi=dict.fromkeys("abc", "categorical"),
        require=[shoal.KAnonymity(2, on=["a", "b"]), shoal.KAnonymity(2, on=["b", "c"])],
        suppress=0.4,
    )
    release, path = specialized(frame, policy, max_steps=9)
    assert [(s.attribute, s.measures["suppressed"]) for s in path] == [("a", 1)]
    assert published(release) == {("x", "*", "*"): 3}


def test_records_are_suppressed_only_where_that_keeps_more() -> None:
    """The first path suppresses a record; the other one keeps all four, and the same share of information."""
    frame = pd.DataFrame({"a": list("xxzx"), "b": list("xyzx"), "c": list("zxzx")})
    policy = shoal.Policy(
        quasi=dict.fromkeys("abc", "categorical"),
        require=[shoal.KAnonymity(2, on=["a", "b"]), shoal.KAnonymity(2, on=["b", "c"])],
        suppress=0.4,
    )
    release, path = specialized(frame, policy)
    assert [(s.attribute, s.measures["suppressed"]) for s in path] == [("c", 0)]
    assert published(release) == {("*", "*", "z"): 2, ("*", "*", "x"): 2}


def test_a_suppression_for_one_requirement_may_meet_another() -> None:
    """Two of three records with w and a = x are too many, until the single record with (x, y) is suppressed."""
    frame = pd.DataFrame({"a": list("xxyxy"), "b": list("xyyxy"), "ill": list("wwuvv")})
    policy = shoal.Policy(
        quasi=dict.fromkeys("ab", "categorical"),
        sensitive=["ill"],
        require=[shoal.KAnonymity(2), shoal.ConfidenceBound(0.6, of="ill", on=["a"])],
        suppress=0.4,
    )
    release, path = specialized(frame, policy)
    assert [s.attribute for s in path] == ["b", "a"]
    assert published(release) == {("x", "x"): 2, ("y", "y"): 2}


@given(case=cases(most=30).map(without_rounding), n=st.integers(0, 4))
@counted
def test_a_limited_path_is_the_beginning_of_the_whole(case: Case, n: int) -> Outcome:
    try:
        release, path = specialized(case.frame, case.policy, max_steps=n)
    except shoal.RequirementNotMet:
        return "not met"
    run = twin(case.frame, case.policy, limit=n)
    assert_same_steps(path, run)
    assert published(release) == run.rows
    stopped, whole = specialized(case.frame, case.policy, stop_at=min(n, len(path)))
    assert published(stopped) == run.rows
    assert whole[:n] == path[:] and whole.chosen == len(path)
    return None


@given(case=cases(most=30), n=st.integers(0, 9))
@counted
def test_a_step_is_measured_as_its_table_would_be(case: Case, n: int) -> Outcome:
    try:
        release, path = specialized(case.frame, case.policy, max_steps=n)
    except shoal.RequirementNotMet:
        return "not met"
    measures = path[-1].measures if path else path.measures
    assert measures["suppressed"] == release.certificate.suppressed
    if not release.certificate.suppressed:  # the path's is of the cut, a release's counts who is left out as lost
        assert measures["ncp"] == pytest.approx(release.measures["ncp"])
    assert ("information" in measures) == (case.policy.target is not None)
    return None


def test_the_information_of_a_step_is_the_summed_information_gain() -> None:
    def bits(labels: pd.Series) -> float:
        return float(entropy(labels.value_counts(dropna=False).to_numpy()))

    frame, policy = papers.fung(), papers.fung_policy()
    _, path = specialized(frame, policy)
    assert path.measures["information"] == pytest.approx(0)
    for n in range(1, len(path) + 1):
        table = specialized(frame, policy, stop_at=n)[0].frame
        told = 0.0
        for name in policy.quasi:
            parts = [(len(part), bits(part)) for _, part in table.groupby(name, dropna=False)["Class"]]
            told += bits(table["Class"]) - sum(size / len(table) * inside for size, inside in parts)
        assert path[n - 1].measures["information"] == pytest.approx(told)


@given(case=cases(most=30))
@counted
def test_deciding_does_not_change_the_codes(case: Case) -> Outcome:
    codes, _ = encode_and_count(
        open_data(case.frame), case.policy, extra=[case.policy.target] if case.policy.target else []
    )
    before = [array.copy() for array in (codes.quasi, codes.size, codes.counts.sensitive, codes.counts.size)]
    if not holds(case.frame.assign(**dict.fromkeys(case.policy.quasi, "*")), case.policy):
        return "not met"
    method = TopDownSpecialization(case.policy)
    method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None)
    after = [codes.quasi, codes.size, codes.counts.sensitive, codes.counts.size]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    return None


# UCI Adult.


def adult_policy(columns: list[str], *require: object, **more: object) -> shoal.Policy:
    trees = shoal.datasets.adult_taxonomies()
    quasi = {c: {"taxonomy": trees[c]} if c in trees else "numeric" for c in columns}
    return shoal.Policy(quasi=quasi, require=list(require), **{"target": "income", **more})


SETS = {"top5": TOP[:5], "top7": TOP[:7], "top9": TOP, "ga": GA, "all": ALL}


@needs_data
@pytest.mark.parametrize("k", [10, 60, 200, 1000])
@pytest.mark.parametrize("columns", SETS)
def test_same_steps_on_adult(columns: str, k: int) -> None:
    policy = adult_policy(SETS[columns], shoal.KAnonymity(k))
    release, path = specialized(adult(), policy)
    run = twin(adult(), policy)
    assert_same_steps(path, run)
    assert published(release) == run.rows
    assert recount(release.frame, SETS[columns]).min() >= k
    assert len(path) > 2


@needs_data
@pytest.mark.parametrize("by", ["score", "gain"])
@pytest.mark.parametrize("target", ["income", None])
def test_same_steps_on_adult_with_several_attribute_sets(target: str | None, by: str) -> None:
    require = [
        shoal.KAnonymity(20, on=ALL[:6]),
        shoal.KAnonymity(80, on=ALL[4:11]),
        shoal.KAnonymity(40, on=ALL[8:]),
    ]
    policy = adult_policy(ALL, *require, target=target)
    release, path = specialized(adult(), policy, by=by)
    run = twin(adult(), policy, by=by)
    assert_same_steps(path, run)
    assert published(release) == run.rows
    assert holds(release.frame, policy)


@needs_data
@pytest.mark.parametrize(
    ("require", "more"),
    [
        ([shoal.KAnonymity(10), shoal.LDiversity(1.5, of="income", kind="entropy")], {}),
        ([shoal.KAnonymity(25), shoal.TCloseness(0.4, of="income", on=["sex", "occupation"])], {"target": None}),
        ([shoal.KAnonymity(15)], {"suppress": 0.05}),
    ],
    ids=["diversity", "closeness", "suppress"],
)
def test_same_steps_on_a_part_of_adult_with_other_requirements(require: list[object], more: dict[str, object]) -> None:
    frame = adult().head(2000)
    policy = adult_policy(TOP, *require, sensitive=["income"], **more)
    release, path = specialized(frame, policy)
    run = twin(frame, policy)
    assert_same_steps(path, run)
    assert published(release) == run.rows
    assert len(path) > 1


# Tables with little in them.


def test_one_class_gives_no_step() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "c": ["Y"] * 4})
    release, path = specialized(frame, numbers(target="c"))
    assert len(path) == 0 and path.chosen == 0
    assert published(release) == {("*",): 4}
    assert path.stop_reason


def test_without_a_target_all_valid_values_are_specialized() -> None:
    release, path = specialized(pd.DataFrame({"x": [1, 2, 3, 4]}), numbers())
    assert [(s.value, s.children) for s in path] == [
        ("*", ("[1, 3)", "[3, 4]")),
        ("[1, 3)", ("[1, 2)", "[2, 3)")),
        ("[3, 4]", ("[3, 4)", "4")),
    ]
    assert len(published(release)) == 4


@pytest.mark.parametrize("target", [None, "c"])
def test_a_constant_number_is_not_specialized(target: str | None) -> None:
    frame = pd.DataFrame({"x": [7, 7, 7], "c": ["Y", "N", "N"]})
    release, path = specialized(frame, numbers(target=target))
    assert len(path) == 0 and published(release) == {("*",): 3}


def test_one_category_is_specialized_if_its_ncp_falls() -> None:
    frame = pd.DataFrame({"x": ["a"] * 3, "c": ["Y", "N", "N"]})
    for target, gain in ((None, 1.0), ("c", 0.0)):
        policy = shoal.Policy(quasi={"x": "categorical"}, target=target, require=[shoal.KAnonymity(2)])
        release, path = specialized(frame, policy)
        assert [(s.value, s.children, s.gain, s.loss) for s in path] == [("*", ("a",), gain, 0)]
        assert published(release) == {("a",): 3}


def test_missing_numbers_are_a_child_of_the_root() -> None:
    frame = pd.DataFrame({"x": [1, 1, 5, 5, None, None], "c": ["Y", "Y", "N", "N", "M", "M"]})
    for target in (None, "c"):
        release, path = specialized(frame, numbers(2, target=target))
        assert [(s.value, s.children) for s in path] == [("*", ("[1, 5)", "5", None))]
        assert published(release) == {("[1, 5)",): 2, ("5",): 2, (None,): 2}
    release, path = specialized(frame, numbers(3, target="c"))
    assert len(path) == 0 and published(release) == {("*",): 6}


def test_one_number_beside_missing_ones() -> None:
    frame = pd.DataFrame({"x": [5, 5, None, None], "c": ["N", "N", "Y", "N"]})
    for target in (None, "c"):
        release, path = specialized(frame, numbers(2, target=target))
        run = twin(frame, numbers(2, target=target))
        assert_same_steps(path, run)
        assert len(path) == 1 and path[0].children[-1] is None and len(path[0].children) == 2
        assert published(release) == run.rows


@pytest.mark.parametrize("kind", ["numeric", "categorical", "date"])
@pytest.mark.parametrize("target", [None, "c"])
def test_a_column_without_a_value(kind: str, target: str | None) -> None:
    frame = pd.DataFrame({"x": [None, None], "c": ["Y", "N"]}, dtype=object)
    policy = shoal.Policy(quasi={"x": kind}, target=target, require=[shoal.KAnonymity(1)])
    release, path = specialized(frame, policy)
    assert_same_steps(path, twin(frame, policy))
    assert len(published(release)) == 1


def test_a_missing_class_is_a_class() -> None:
    frame = pd.DataFrame({"x": [1, 1, 2, 2], "c": ["Y", "Y", None, None]})
    _, path = specialized(frame, numbers(target="c"))
    assert [s.gain for s in path] == pytest.approx([1])


def test_an_attribute_without_requirement_is_not_specialized() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "y": list("abab"), "c": list("YNYN")})
    policy = shoal.Policy(
        quasi={"x": "numeric", "y": "categorical"}, target="c", require=[shoal.KAnonymity(1, on=["x"])]
    )
    release, path = specialized(frame, policy)
    assert set(release.frame["y"]) == {"*"} and {s.attribute for s in path} == {"x"}
    assert [list(s.smallest) for s in path] == [[("x",)]] * len(path)


def test_a_single_record() -> None:
    frame = pd.DataFrame({"x": [3], "y": ["a"], "c": ["Y"]})
    quasi = {"x": "numeric", "y": "categorical"}
    release, path = specialized(frame, shoal.Policy(quasi=quasi, target="c", require=[shoal.KAnonymity(1)]))
    assert published(release) == {("*", "*"): 1} and len(path) == 0
    release, path = specialized(frame, shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(1)]))
    assert published(release) == {("*", "a"): 1} and len(path) == 1


def test_k_above_the_number_of_records_is_an_error() -> None:
    with pytest.raises(shoal.PolicyError, match="at least 35 records"):
        specialized(papers.fung(), papers.fung_policy(35))
    with pytest.raises(shoal.RequirementNotMet):
        specialized(
            papers.fung(),
            shoal.Policy(quasi={"Sex": "categorical"}, target="Class", require=[shoal.LDiversity(3, of="Class")]),
        )


def test_a_target_that_is_a_quasi_identifier() -> None:
    frame = pd.DataFrame({"x": [1, 1, 2, 2, 3, 3], "y": list("aabbcc")})
    policy = shoal.Policy(quasi={"x": "numeric", "y": "categorical"}, target="y", require=[shoal.KAnonymity(2)])
    release, path = specialized(frame, policy)
    run = twin(frame, policy)
    assert_same_steps(path, run)
    assert published(release) == run.rows
    assert set(release.frame["y"]) == {"a", "b", "c"}


def test_refused_values_have_a_reason() -> None:
    _, path = specialized(papers.fung(), papers.fung_policy())
    left = {(r.attribute, r.value) for r in path.refusals}
    assert ("Sex", "*") in left
    assert all(r.reason for r in path.refusals)


# Parameters.


@pytest.mark.parametrize("n", range(6))
def test_stop_at_keeps_the_path_whole(n: int) -> None:
    _, whole = specialized(papers.fung(), papers.fung_policy())
    release, path = specialized(papers.fung(), papers.fung_policy(), stop_at=n)
    assert path.steps == whole.steps and path.chosen == n
    assert published(release) == twin(papers.fung(), papers.fung_policy(), limit=n).rows


@pytest.mark.parametrize("n", range(6))
def test_max_steps_ends_the_path(n: int) -> None:
    _, whole = specialized(papers.fung(), papers.fung_policy())
    release, path = specialized(papers.fung(), papers.fung_policy(), max_steps=n)
    assert path.steps == whole.steps[:n] and path.chosen == n
    assert published(release) == twin(papers.fung(), papers.fung_policy(), limit=n).rows


def test_no_time_gives_the_roots() -> None:
    release, path = specialized(papers.fung(), papers.fung_policy(), seconds=0)
    assert len(path) == 0 and path.chosen == 0
    assert published(release) == {("*", "*", "*"): 34}
    assert dict(path.smallest) == {EDUCATION_SEX: 34, SEX_HOURS: 34}


def test_every_table_of_the_path_meets_the_requirement() -> None:
    _, path = specialized(papers.fung(), papers.fung_policy())
    groups = [
        recount(specialized(papers.fung(), papers.fung_policy(), stop_at=n)[0].frame, list(EVERYTHING))
        for n in range(len(path) + 1)
    ]
    assert [len(g) for g in groups] == sorted(len(g) for g in groups)
    for step, (before, after) in zip(path, pairwise(groups), strict=True):
        assert before.sum() == after.sum() == 34
        assert all(k <= step.smallest[on] for on, k in ((EDUCATION_SEX, 4), (SEX_HOURS, 11)))


def test_by_its_short_name() -> None:
    release = shoal.anonymize(papers.fung(), papers.fung_policy(), method="tds", max_steps=1)
    assert release.recoding.kind == "cut" and release.method == "tds"
    assert published(release) == {("*", "*", "[1, 37)"): 12, ("*", "*", "[37, 99]"): 22}


@pytest.mark.parametrize(
    "given",
    [
        {"by": "scores"},
        {"by": None},
        {"stop_at": -1},
        {"stop_at": 1.5},
        {"stop_at": "all"},
        {"max_steps": -1},
        {"max_steps": 2.5},
        {"max_steps": "few"},
        {"seconds": -1},
        {"seconds": "long"},
        {"seconds": float("nan")},
    ],
    ids=str,
)
def test_unknown_values_of_parameters_are_errors(given: dict[str, object]) -> None:
    with pytest.raises(shoal.PolicyError, match=next(iter(given))):
        shoal.anonymize(papers.fung(), papers.fung_policy(), method="tds", **given)


def test_unknown_parameters_list_the_known() -> None:
    with pytest.raises(shoal.PolicyError, match=r"'stop_at'"):
        shoal.anonymize(papers.fung(), papers.fung_policy(), method="tds", stopat=3)


@pytest.mark.parametrize("write", ["label", "lo-hi", "midpoint"])
@pytest.mark.parametrize("target", ["ill", None])
def test_no_label_discloses_a_suppressed_record(target: str | None, write: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 200), "sex": rng.choice(["M", "F"], 200), "ill": "flu"})
    frame.loc[::3, "ill"] = "ok"
    frame.loc[200] = [117, "X", "hiv"]
    policy = shoal.Policy(
        quasi={"age": "numeric", "sex": "categorical"},
        sensitive=["ill"],
        target=target,
        require=[shoal.KAnonymity(5)],
        suppress=0.02,
    )
    release, _ = specialized(frame, policy, write=write)
    ages = [c for c in release.frame if c.startswith("age")]
    assert "hiv" not in set(release.frame["ill"])
    assert "117" not in release.frame[ages].to_csv(index=False)
    if write != "label":
        assert release.frame[ages].max().max() <= frame["age"][:200].max()
    again = release.recoding.apply(frame)  # who was left out is left out again
    assert again.astype(str).equals(release.frame.astype(str))
    assert (
        recoding.Cut.from_dict(json.loads(release.recoding.to_json()))
        .apply(frame)
        .astype(str)
        .equals(again.astype(str))
    )
    with pytest.raises(shoal.DataError, match="outside"):
        release.recoding.apply(frame[:1].assign(age=117))


def test_without_a_target_values_with_one_child_are_specialized() -> None:
    """All codes have the same first digits: specializations down to the first difference change no group."""
    frame = pd.DataFrame({"zip": [f"479{i:02d}" for i in range(20)] * 5})
    policy = shoal.Policy(quasi={"zip": {"mask": "right"}}, require=[shoal.KAnonymity(5)])
    release, path = specialized(frame, policy)
    assert release.measures["ncp"] == 0
    assert [(s.value, s.gain, s.loss) for s in path[:3]] == [("*", 0, 0), ("4****", 0, 0), ("47***", 0, 0)]


@pytest.mark.parametrize("method", ["tds", "bottom-up"])
def test_few_records_that_prevent_a_better_release_are_noted(method: str) -> None:
    """The note states the number of records and a share that is enough; the release with it keeps what the note says."""
    frame = pd.DataFrame({"sex": ["m", "f"] * 200, "work": ["a", "a", "b", "b"] * 100})
    frame.loc[0, "sex"], frame.loc[1, "work"] = "x", "c"
    policy = shoal.Policy(quasi=dict.fromkeys(frame, "categorical"), require=[shoal.KAnonymity(5)])
    release = shoal.anonymize(frame, policy, method=method)
    (note,) = [n for n in release.notes if "prevent" in n]
    assert note.startswith("2 records prevent a release that keeps more")
    assert "With 'suppress: 0.005' about 100% of the information is kept instead of 0%." in note
    allowed = shoal.anonymize(frame, policy.model_copy(update={"suppress": 0.005}), method=method)
    assert allowed.certificate.suppressed == 2 and allowed.measures["ncp"] == pytest.approx(2 / 400)
    assert not [n for n in allowed.notes if "prevent" in n]
