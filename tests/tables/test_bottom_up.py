"""Bottom-up generalization against its slow twin, step for step."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
import shoal.recoding.search_path
from shoal.datasets import papers
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.policy import QuasiIdentifier
from shoal.tables import BottomUpGeneralization
from tests.reference.bottom_up import generalize
from tests.support.cases import TREES, Case, cases, holds, recount, suited, without_rounding
from tests.support.outcomes import Outcome, counted
from tests.support.steps import adult, assert_same_steps, needs_data, published, reference, released

CATEGORIES = ["workclass", "education", "marital-status", "occupation", "race", "sex", "native-country"]
both = pytest.mark.parametrize("anonymity", ["records", "smallest"])


generalized = partial(released, BottomUpGeneralization)
twin = partial(reference, generalize)


def fung_policy(k: int = 4, **more: object) -> shoal.Policy:
    """Education and Sex of the table of Fung et al., the attribute set of Figure 2."""
    quasi = {name: {"taxonomy": tree} for name, tree in papers.taxonomies()["fung"].items()}
    return shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(k)], **more)


# The table of the top-down paper, from below.


@both
def test_the_lowest_solution_cut_is_reached(anonymity: str) -> None:
    """Figure 2 of Fung, Wang and Yu: {Junior Sec., 11th, 12th, Bachelors, Grad School}."""
    release, path = generalized(papers.fung(), fung_policy(target="Class"), anonymity=anonymity)
    assert {s.value for s in path} == {"Junior Sec.", "Grad School"}
    assert [s.loss for s in path] == [0, 0]  # neither joins records of different classes
    assert set(release.frame["Education"]) == {"Junior Sec.", "11th", "12th", "Bachelors", "Grad School"}
    assert set(release.frame["Sex"]) == {"M", "F"}
    assert (path.direction, path.chosen) == ("generalize", 2)


def test_gain_is_the_records_that_no_longer_fail() -> None:
    _, path = generalized(papers.fung(), fung_policy(), anonymity="records")
    steps = [(s.value, s.children, s.gain, dict(s.smallest)) for s in path]
    assert steps == [
        ("Grad School", ("Masters", "Doctorate"), 3 + 1, {("Education", "Sex"): 3}),
        ("Junior Sec.", ("9th", "10th"), 3, {("Education", "Sex"): 4}),
    ]
    assert [s.loss for s in path] == pytest.approx([2 / 7, 2 / 7])
    assert [s.score for s in path] == pytest.approx([2 / 7 / 4, 2 / 7 / 3])


def test_gain_is_the_rise_of_the_smallest_group() -> None:
    _, path = generalized(papers.fung(), fung_policy(), anonymity="smallest")
    assert [(s.value, s.gain) for s in path] == [("Grad School", 3 - 1), ("Junior Sec.", 4 - 3)]


# The twin.


@both
@given(case=cases(most=50))
@counted
def test_same_steps_as_the_slow_twin(case: Case, anonymity: str) -> Outcome:
    case = without_rounding(suited(case, "bottom-up"))
    try:
        release, path = generalized(case.frame, case.policy, anonymity=anonymity)
    except shoal.RequirementNotMet:
        assert not holds(case.frame.assign(**dict.fromkeys(case.policy.quasi, "*")), case.policy)
        return "not met"
    run = twin(case.frame, case.policy, anonymity=anonymity)
    assert_same_steps(path, run)
    assert published(release) == run.rows
    assert holds(release.frame, case.policy)
    assert path.chosen == len(path)
    return None


@st.composite
def people(draw: st.DrawFn) -> Case:
    """Categories only, with leaves of their taxonomies as values."""
    rows = draw(st.integers(1, 25))
    leaves = {n: [*shoal.Taxonomy.from_nested(tree).leaves, None] for n, tree in TREES.items()} | {
        "sex": ["f", "m", None]
    }
    frame = pd.DataFrame(
        {n: draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows)) for n, values in leaves.items()},
        dtype=object,
    )
    quasi = {"job": {"taxonomy": TREES["job"]}, "city": {"taxonomy": TREES["city"]}, "sex": "categorical"}
    sets = st.sampled_from([None, ("job", "city"), ("city", "sex"), ("sex",)])
    require = [shoal.KAnonymity(min(rows, k), on=draw(sets)) for k in draw(st.sampled_from([(2,), (3, 5), (9,)]))]
    return Case(frame, shoal.Policy(quasi=quasi, target=draw(st.sampled_from([None, "sex"])), require=require))


@both
@given(case=people())
def test_it_ends_as_soon_as_the_requirements_hold(case: Case, anonymity: str) -> None:
    """Follow the path by hand: some group fails before the last step, and none after it."""
    release, path = generalized(case.frame, case.policy, anonymity=anonymity, reopen=False)
    used = {n for r in case.policy.require for n in r.on or case.policy.quasi}
    table = case.frame.assign(**{n: "*" for n in case.policy.quasi if n not in used})
    for step in path:
        assert not holds(table, case.policy)
        column = [None if pd.isna(v) else v for v in table[step.attribute]]
        table[step.attribute] = [step.value if v in step.children else v for v in column]
    assert holds(table, case.policy)
    assert table.fillna("?").astype(str).equals(release.frame.fillna("?").astype(str))


@both
@given(case=people())
def test_no_value_of_the_release_could_be_specialized(case: Case, anonymity: str) -> None:
    """Some group fails if any published node is replaced by its children."""
    release, path = generalized(case.frame, case.policy, anonymity=anonymity)
    first, _ = generalized(case.frame, case.policy, anonymity=anonymity, reopen=False)
    assert release.measures["ncp"] <= first.measures["ncp"] + 1e-12
    assert bool(path.reopened) == (not release.frame.equals(first.frame))
    used = {n for r in case.policy.require for n in r.on or case.policy.quasi}
    for column in used if case.policy.target is None else ():
        tree = release.recoding.fields[list(case.policy.quasi).index(column)].taxonomy
        raw, labels = case.frame[column], release.frame[column]
        for label in {v for v in labels if not pd.isna(v)}:
            node = 0 if label == "*" else tree.label.index(label)
            below = {
                tree.label[n] if tree.label[n] is not None else None: (tree.lo[n], tree.hi[n])
                for n in range(1, len(tree.label))
                if tree.parent[n] == node
            }
            if not below:
                continue
            codes = [tree.leaves.index(None if pd.isna(v) else v) for v in raw]
            opened = [
                next(name for name, (lo, hi) in below.items() if lo <= code <= hi) if published == label else published
                for code, published in zip(codes, labels, strict=True)
            ]
            assert not holds(release.frame.assign(**{column: opened}), case.policy)


@given(case=cases(most=30))
@counted
def test_deciding_does_not_change_the_codes(case: Case) -> Outcome:
    case = suited(case, "bottom-up")
    codes, _ = encode_and_count(
        open_data(case.frame), case.policy, extra=[case.policy.target] if case.policy.target else []
    )
    before = [array.copy() for array in (codes.quasi, codes.size, codes.counts.sensitive, codes.counts.size)]
    if not holds(case.frame.assign(**dict.fromkeys(case.policy.quasi, "*")), case.policy):
        return "not met"
    method = BottomUpGeneralization(case.policy)
    method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None)
    after = [codes.quasi, codes.size, codes.counts.sensitive, codes.counts.size]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    return None


# UCI Adult.


def adult_policy(*require: object, **more: object) -> shoal.Policy:
    quasi: dict[str, object] = {
        c: {"taxonomy": tree} for c, tree in shoal.datasets.adult_taxonomies().items() if c in CATEGORIES
    }
    return shoal.Policy(quasi=quasi, require=list(require), **{"target": "income", **more})


@needs_data
@both
@pytest.mark.parametrize("k", [10, 100, 1000])
def test_same_steps_on_adult(k: int, anonymity: str) -> None:
    policy = adult_policy(shoal.KAnonymity(k))
    release, path = generalized(adult(), policy, anonymity=anonymity)
    run = twin(adult(), policy, anonymity=anonymity)
    assert_same_steps(path, run)
    assert published(release) == run.rows
    assert recount(release.frame, list(policy.quasi)).min() >= k


@needs_data
@pytest.mark.parametrize(
    ("require", "more"),
    [
        ([shoal.KAnonymity(20, on=["sex", "race", "education"]), shoal.KAnonymity(50, on=["sex", "occupation"])], {}),
        ([shoal.KAnonymity(10)], {"suppress": 0.05}),
        ([shoal.KAnonymity(10)], {"target": None}),
        ([shoal.KAnonymity(10), shoal.LDiversity(2, of="income")], {}),
    ],
    ids=["sets", "suppress", "no target", "diversity"],
)
def test_same_steps_on_adult_with_other_requirements(require: list[object], more: dict[str, object]) -> None:
    rows = 4000 if all(isinstance(r, shoal.KAnonymity) for r in require) else 1200  # the twin tests others one by one
    frame, policy = adult().head(rows), adult_policy(*require, **more)
    policy = policy.model_copy(
        update={"quasi": {**policy.quasi, "age": QuasiIdentifier(kind="numeric", widths=(5, 10, 20))}}
    )
    release, path = generalized(frame, policy)
    run = twin(frame, policy, anonymity="records" if policy.target else "smallest")
    assert_same_steps(path, run)
    assert published(release) == run.rows
    assert holds(release.frame, policy)
    assert path


# Tables with little in them.


@pytest.mark.parametrize("kind", ["numeric", "date"])
def test_a_number_without_a_taxonomy_is_an_error(kind: str) -> None:
    frame = pd.DataFrame({"sex": ["f", "m"], "when": ["1990", "1991"] if kind == "numeric" else ["1990-01-01"] * 2})
    policy = shoal.Policy(quasi={"sex": "categorical", "when": kind}, require=[shoal.KAnonymity(1)])
    with pytest.raises(shoal.PolicyError, match="'when'"):
        shoal.anonymize(frame, policy, method="bottom-up")


def test_a_table_that_meets_the_requirement_is_published_unchanged() -> None:
    frame = pd.DataFrame({"job": ["clerk", "clerk", "sailor", "sailor", None, None]})
    policy = shoal.Policy(quasi={"job": {"taxonomy": TREES["job"]}}, require=[shoal.KAnonymity(2)])
    release, path = generalized(frame, policy)
    assert len(path) == 0 and path.chosen == 0 and path.stop_reason
    assert published(release) == {("clerk",): 2, ("sailor",): 2, (None,): 2}
    assert dict(path.smallest) == {("job",): 2}


def test_a_missing_value_generalizes_to_the_root() -> None:
    frame = pd.DataFrame({"job": ["clerk", "clerk", "sailor", "sailor", None]})
    policy = shoal.Policy(quasi={"job": {"taxonomy": TREES["job"]}}, require=[shoal.KAnonymity(2)])
    release, path = generalized(frame, policy)
    assert path[-1].value == "*" and path[-1].children == ("Office", "Field", None)
    assert published(release) == {("*",): 5}


def test_an_attribute_without_requirement_is_its_root() -> None:
    frame = pd.DataFrame({"job": ["clerk", "sailor"], "sex": ["f", "m"]})
    policy = shoal.Policy(
        quasi={"job": {"taxonomy": TREES["job"]}, "sex": "categorical"}, require=[shoal.KAnonymity(1, on=["sex"])]
    )
    release, path = generalized(frame, policy)
    assert len(path) == 0
    assert published(release) == {("*", "f"): 1, ("*", "m"): 1}


def test_a_single_record_and_one_class() -> None:
    frame = pd.DataFrame({"sex": ["f"], "c": ["Y"]})
    policy = shoal.Policy(quasi={"sex": "categorical"}, target="c", require=[shoal.KAnonymity(1)])
    assert published(generalized(frame, policy)[0]) == {("f",): 1}
    frame = pd.DataFrame({"sex": ["f", "f", "m"], "c": ["Y"] * 3})
    policy = policy.model_copy(update={"require": (shoal.KAnonymity(2),)})
    release, path = generalized(frame, policy)
    assert published(release) == {("*",): 3}
    assert [(s.gain, s.loss, s.score) for s in path] == [(1, 0, 0)]


def test_suppression_ends_the_path_sooner() -> None:
    frame = pd.DataFrame({"job": ["clerk"] * 5 + ["manager"] * 4 + ["sailor"]})
    policy = shoal.Policy(quasi={"job": {"taxonomy": TREES["job"]}}, require=[shoal.KAnonymity(2)])
    assert set(generalized(frame, policy)[0].frame["job"]) == {"*"}
    release, path = generalized(frame, policy.model_copy(update={"suppress": 0.1}))
    assert len(path) == 0 and release.certificate.suppressed == 1
    assert published(release) == {("clerk",): 5, ("manager",): 4}


def test_a_suppression_for_one_requirement_may_meet_another() -> None:
    """Two of three records with w and a = x are too many, until the single record with (x, y) is suppressed."""
    frame = pd.DataFrame({"a": list("xxyxy"), "b": list("xyyxy"), "ill": list("wwuvv")})
    policy = shoal.Policy(
        quasi=dict.fromkeys("ab", "categorical"),
        sensitive=["ill"],
        require=[shoal.KAnonymity(2), shoal.ConfidenceBound(0.6, of="ill", on=["a"])],
        suppress=0.4,
    )
    release, path = generalized(frame, policy)
    assert len(path) == 0
    assert published(release) == {("x", "x"): 2, ("y", "y"): 2}


def test_k_above_the_number_of_records_is_an_error() -> None:
    with pytest.raises(shoal.PolicyError, match="at least 35 records"):
        generalized(papers.fung(), fung_policy(35))
    policy = shoal.Policy(quasi={"Sex": "categorical"}, target="Class", require=[shoal.LDiversity(3, of="Class")])
    with pytest.raises(shoal.RequirementNotMet):
        generalized(papers.fung(), policy)


def test_by_its_short_name() -> None:
    release = shoal.anonymize(papers.fung(), fung_policy(), method="bottom-up")
    assert release.recoding.kind == "cut" and release.method == "bottom-up"


def test_an_unknown_anonymity_lists_the_choices() -> None:
    with pytest.raises(shoal.PolicyError, match=r"'most'.*'records', 'smallest'"):
        shoal.anonymize(papers.fung(), fung_policy(), method="bottom-up", anonymity="most")
    with pytest.raises(shoal.PolicyError, match="stop_at"):
        shoal.anonymize(papers.fung(), fung_policy(), method="bottom-up", stop_at=1)
