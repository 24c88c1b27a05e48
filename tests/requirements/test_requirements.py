"""Requirements against their definitions, group by group, and the kernel against both."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

import shoal
from shoal import kernels
from shoal.encoding.codes import encode_and_count
from shoal.encoding.published_table import read_published_groups
from shoal.engines import open_data
from shoal.requirements import Requirement, combine_limits, compute_distribution, describe
from shoal.requirements.groups import Groups
from tests.reference.requirements import earth_movers_distance, ground_distance, passes, value_of

VALUES = ["3", "5", "10", "20", None]  # in ascending order as numbers, not as texts

sizes = st.integers(1, 6)
REQUIREMENTS = st.one_of(
    st.builds(shoal.KAnonymity, sizes),
    st.builds(shoal.LDiversity, sizes, of=st.just("s")),
    st.builds(shoal.LDiversity, st.sampled_from([1, 1.5, 2, 2.3, 3, 4]), of=st.just("s"), kind=st.just("entropy")),
    st.builds(
        shoal.LDiversity,
        sizes,
        of=st.just("s"),
        kind=st.just("recursive"),
        c=st.sampled_from([0.3, 0.5, 1, 1.1, 2, 3.7]),
    ),
    st.builds(shoal.TCloseness, st.sampled_from([0, 0.1, 0.25, 0.5, 1]), of=st.just("s")),
    st.builds(
        shoal.TCloseness,
        st.sampled_from([0, 0.1, 0.25, 0.5, 1]),
        of=st.just("s"),
        distance=st.just("hierarchical"),
        taxonomy=st.sampled_from(
            [{"ANY": {"Small": {"Odd": ["3", "5"]}, "Large": ["20", "10"]}}, ["20", "3", "5", "10"]]
        ),
    ),
    st.builds(shoal.ConfidenceBound, st.sampled_from([0.3, 0.5, 0.75, 1]), of=st.just("s")),
    st.builds(shoal.AlphaKAnonymity, st.sampled_from([0.3, 0.5, 0.75, 1]), sizes, of=st.just("s")),
    st.builds(
        shoal.BetaLikeness,
        st.sampled_from([0.1, 0.5, 1, 3]),
        of=st.just("s"),
        kind=st.sampled_from(["basic", "enhanced"]),
    ),
    st.builds(shoal.DeltaDisclosure, st.sampled_from([0.2, 0.5, 1, 2]), of=st.just("s")),
)
ORDERED = st.builds(
    shoal.TCloseness, st.sampled_from([0, 0.1, 0.25, 0.5, 1]), of=st.just("s"), distance=st.just("ordered")
)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    values = draw(st.one_of(st.just(VALUES), st.lists(st.sampled_from(VALUES), min_size=1, unique=True)))
    record = st.tuples(st.sampled_from(["p", "q", "r"]), st.sampled_from(["x", "y", None]), st.sampled_from(values))
    least = draw(st.sampled_from([12, 6, 1]))
    return pd.DataFrame(draw(st.lists(record, min_size=least, max_size=40)), columns=["a", "b", "s"], dtype=object)


def groups_of(frame: pd.DataFrame) -> Groups:
    quasi = {"a": "categorical", "b": "categorical"}
    require = [shoal.KAnonymity(1), shoal.LDiversity(1, of="s")]
    return read_published_groups(open_data(frame), shoal.Policy(quasi=quasi, sensitive="s", require=require))[0]


def sensitive_values_of(frame: pd.DataFrame) -> list[list[str | None]]:
    """The sensitive values of every group, in the order of the labels; a missing label comes last."""
    by_label: dict[tuple[str, str], list[str | None]] = {}
    for a, b, s in frame.itertuples(index=False, name=None):
        by_label.setdefault((a, b if isinstance(b, str) else "~"), []).append(s if isinstance(s, str) else None)
    return [by_label[label] for label in labels_of(frame)]


def agree(frame: pd.DataFrame, requirement: Requirement) -> None:
    groups = groups_of(frame)
    verdict = requirement.test(groups)
    members = sensitive_values_of(frame)
    everyone = [s for group in members for s in group]
    expected = [value_of(requirement, group, everyone) for group in members]
    assert verdict.value.tolist() == pytest.approx(expected)
    assert verdict.ok.tolist() == [passes(requirement, group, everyone) for group in members]
    grows = isinstance(requirement, shoal.KAnonymity) or getattr(requirement, "kind", "") in ("distinct", "entropy")
    if not isinstance(requirement, shoal.AlphaKAnonymity):  # its worst group may be one that is too small
        assert verdict.reached == pytest.approx(min(expected) if grows else max(expected))


@given(frame=tables(), requirement=REQUIREMENTS)
def test_the_test_is_the_definition(frame: pd.DataFrame, requirement: Requirement) -> None:
    agree(frame, requirement)


@given(frame=tables(), requirement=ORDERED)
def test_the_ordered_distance_is_scipys_and_the_linear_programs(
    frame: pd.DataFrame, requirement: shoal.TCloseness
) -> None:
    members = sensitive_values_of(frame)
    everyone = [s for group in members for s in group]
    order = sorted(set(everyone), key=lambda v: math.inf if v is None else float(v))
    place = {v: i / max(len(order) - 1, 1) for i, v in enumerate(order)}
    table_share = np.array([everyone.count(v) / len(everyone) for v in order])
    reached = requirement.test(groups_of(frame)).value
    for group, value in zip(members, reached, strict=True):
        assert value == pytest.approx(wasserstein_distance([place[v] for v in group], [place[v] for v in everyone]))
        share = np.array([group.count(v) / len(group) for v in order])
        assert value == pytest.approx(earth_movers_distance(share, table_share, ground_distance(requirement, order)))


@given(frame=tables(), requirement=ORDERED)
@example(
    frame=pd.DataFrame({"a": ["p", "q", "q"], "b": ["x", "x", None], "s": ["3", "5", "20"]}),
    requirement=shoal.TCloseness(0.25, of="s", distance="ordered"),
)
def test_the_ordered_distance_is_the_definition(frame: pd.DataFrame, requirement: Requirement) -> None:
    """Neighbours are 1/(values - 1) apart, and the values are those that the table has."""
    agree(frame, requirement)


@given(frame=tables(), requirements=st.lists(st.one_of(REQUIREMENTS, ORDERED), min_size=1, max_size=3))
def test_the_kernel_agrees_with_the_test(frame: pd.DataFrame, requirements: list[Requirement]) -> None:
    groups = groups_of(frame)
    distribution = compute_distribution(groups)
    limits = combine_limits(requirements, distribution)
    expected = np.all([r.test(groups).ok for r in requirements], axis=0)
    group, code, records = groups.histogram("s")
    for g, size in enumerate(groups.size):
        histogram = np.zeros(len(distribution.shares), np.int64)
        np.add.at(histogram, code[group == g], records[group == g])
        assert kernels.limits.holds(size, histogram, limits.arrays()) == expected[g]
        assert size >= limits.least or not expected[g]


@given(
    frame=tables(),
    requirement=st.one_of(REQUIREMENTS, ORDERED),
    kept=st.sets(st.sampled_from(["p", "q", "r"]), min_size=1),
)
def test_groups_that_pass_in_a_part_pass_relaxed_in_the_table(
    frame: pd.DataFrame, requirement: Requirement, kept: set[str]
) -> None:
    part = frame[frame["a"].isin(kept)]
    relaxed = requirement.relax(1 - len(part) / len(frame))
    if relaxed is None or part.empty:
        assert part.empty or requirement.relative
        return
    in_part = dict(zip(labels_of(part), requirement.test(groups_of(part)).ok.tolist(), strict=True))
    in_table = dict(zip(labels_of(frame), relaxed.test(groups_of(frame)).ok.tolist(), strict=True))
    assert all(in_table[label] for label, ok in in_part.items() if ok)


def labels_of(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """The labels of the groups, in order; a missing label comes last."""
    return sorted({(a, b if isinstance(b, str) else "~") for a, b in zip(frame["a"], frame["b"], strict=True)})


@given(frame=tables(), requirement=st.one_of(REQUIREMENTS, ORDERED))
def test_a_union_of_groups_that_pass_passes(frame: pd.DataFrame, requirement: Requirement) -> None:
    assert requirement.monotone
    groups = groups_of(frame)
    if requirement.test(groups).ok.all():
        for names in (("a",), ("b",)):
            assert requirement.test(groups.project(names)[0]).ok.all()


@given(frame=tables(), names=st.sampled_from([("a",), ("b",), ("b", "a"), ("a", "b"), None]))
def test_project_is_a_group_by(frame: pd.DataFrame, names: tuple[str, ...] | None) -> None:
    groups = groups_of(frame)
    merged, place = groups.project(names)
    assert merged.names == (names or ("a", "b"))
    filled = frame.fillna("~")
    expected = filled.groupby(list(names or ("a", "b"))).size()
    assert merged.size.tolist() == expected.tolist()
    assert merged.records == len(frame) == groups.records
    tally = filled.groupby([*(names or ("a", "b")), "s"]).size()
    assert sorted(merged.histogram("s")[2]) == sorted(tally)
    columns = [groups.names.index(n) for n in merged.names]
    assert (merged.quasi[place] == groups.quasi[:, columns]).all()
    assert np.bincount(place, groups.size).tolist() == merged.size.tolist()


def test_keep_returns_the_marked_groups() -> None:
    groups = groups_of(pd.DataFrame({"a": list("ppqqq"), "b": ["x"] * 5, "s": ["3", "5", "3", "3", "5"]}))
    rest = groups.keep(np.array([False, True]))
    assert rest.size.tolist() == [3] and rest.histogram("s")[2].tolist() == [2, 1]


# ---- worked examples


def salaries() -> pd.DataFrame:
    """Li, Li, Venkatasubramanian: t-closeness, section 4.3: nine salaries from 3k to 11k in three groups."""
    return pd.DataFrame({"group": list("aaabbbccc"), "salary": [3, 4, 5, 6, 8, 11, 7, 9, 10]})


@pytest.mark.parametrize(("t", "holds"), [(0.376, True), (0.374, False), (0.34, False)])
def test_the_salaries_of_the_t_closeness_paper(t: float, holds: bool) -> None:
    requirement = shoal.TCloseness(t, of="salary", distance="ordered")
    policy = shoal.Policy(quasi={"group": "categorical"}, sensitive="salary", require=[requirement])
    finding = shoal.check(salaries(), policy).findings[0]
    assert finding.reached == pytest.approx(0.375) and finding.worst == {"group": "a"}
    assert finding.holds is holds


def test_the_second_group_of_the_t_closeness_paper() -> None:
    frame = salaries()
    requirement = shoal.TCloseness(1, of="salary", distance="ordered")
    policy = shoal.Policy(quasi={"group": "categorical"}, sensitive="salary", require=[requirement])
    groups = read_published_groups(open_data(frame), policy)[0]
    assert requirement.test(groups).value[1] == pytest.approx(1 / 6)


def test_entropy_of_two_even_values_is_two() -> None:
    frame = pd.DataFrame({"a": ["p"] * 4, "s": ["x", "x", "y", "y"]})
    for l, holds in ((2, True), (2.01, False), (1.9, True)):  # noqa: E741
        requirement = shoal.LDiversity(l, of="s", kind="entropy")
        policy = shoal.Policy(quasi={"a": "categorical"}, sensitive="s", require=[requirement])
        certificate = shoal.check(frame, policy)
        assert certificate.holds is holds and certificate.findings[0].reached == pytest.approx(2)


def test_recursive_compares_strictly() -> None:
    """(c, l) with counts 3, 2, 1 and l = 2: 3 < c x 3."""
    frame = pd.DataFrame({"a": ["p"] * 6, "s": list("xxxyyz")})
    for c, holds in ((1, False), (1.001, True), (0.999, False)):
        requirement = shoal.LDiversity(2, of="s", kind="recursive", c=c)
        policy = shoal.Policy(quasi={"a": "categorical"}, sensitive="s", require=[requirement])
        assert shoal.check(frame, policy).holds is holds


def test_a_missing_quasi_identifier_does_not_help_to_pass() -> None:
    frame = pd.DataFrame({"a": ["p", "p", None], "s": ["x", "y", "x"]})
    policy = shoal.Policy(quasi={"a": "categorical"}, sensitive="s", require=[shoal.KAnonymity(2)])
    certificate = shoal.check(frame, policy)
    assert not certificate.holds and certificate.smallest == 1 and certificate.findings[0].worst == {"a": None}
    assert certificate.findings[0].failing_groups == certificate.findings[0].failing_records == 1


def test_every_set_of_attributes_is_tested_on_its_own() -> None:
    frame = pd.DataFrame({"a": list("ppqq"), "b": list("xyyy")})
    require = [shoal.KAnonymity(1), shoal.KAnonymity(2, on=["a"]), shoal.KAnonymity(2, on="b")]
    policy = shoal.Policy(quasi={"a": "categorical", "b": "categorical"}, require=require)
    certificate = shoal.check(frame, policy)
    assert [f.holds for f in certificate.findings] == [True, True, False]
    assert [f.reached for f in certificate.findings] == [1, 2, 1]
    assert [f.on for f in certificate.findings] == [["a", "b"], ["a"], ["b"]]
    assert certificate.findings[2].worst == {"b": "x"} and certificate.findings[2].worst_size == 1


def test_a_certificate_is_valid_json_whatever_was_reached() -> None:
    """A group without an l-th value has an infinite ratio, which JSON cannot represent as a number."""
    frame = pd.DataFrame({"a": ["p", "p"], "s": ["x", "x"]})
    requirement = shoal.LDiversity(2, of="s", kind="recursive", c=2)
    policy = shoal.Policy(quasi={"a": "categorical"}, sensitive="s", require=[requirement])
    certificate = shoal.check(frame, policy)
    assert not certificate.holds and math.isinf(certificate.findings[0].reached)
    json.loads(certificate.to_json(), parse_constant=pytest.fail)


# ---- parameters


@pytest.mark.parametrize("k", [0, -1, 2.5, "x", "", None, True, "--5", "²", "1e3", float("nan"), [5]])
def test_k_is_a_whole_number_of_at_least_one(k: object) -> None:
    with pytest.raises(shoal.PolicyError, match="k must be"):
        shoal.KAnonymity(k)  # type: ignore[arg-type]


def test_numbers_may_be_written_as_text() -> None:
    assert shoal.KAnonymity("10").k == 10  # type: ignore[arg-type]
    assert shoal.KAnonymity(np.int64(10)).k == 10  # type: ignore[arg-type]
    assert shoal.LDiversity("2.5", of="s", kind="entropy").l == 2.5  # type: ignore[arg-type]
    assert shoal.LDiversity("2", of="s", kind="recursive", c="0.5").c == 0.5  # type: ignore[arg-type]
    assert shoal.TCloseness("0.2", of="s").t == 0.2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"l": 0}, "l must be at least 1"),
        ({"l": 2.5}, "l must be a whole number"),
        ({"l": 0.5, "kind": "entropy"}, "l must be at least 1"),
        ({"l": "x", "kind": "entropy"}, "l must be a number"),
        ({"l": math.inf, "kind": "entropy"}, "l must be a finite number"),
        ({"l": 2, "kind": "recursive"}, "recursive l-diversity needs c"),
        ({"l": 2, "c": 3}, "only recursive l-diversity has c"),
        ({"l": 2, "kind": "recursive", "c": 0}, "c must be above 0"),
        ({"l": 2, "kind": "recursive", "c": "x"}, "c must be a number"),
        ({"l": 2, "kind": "entropie"}, "did you mean 'entropy'"),
        ({"l": 2, "kind": 3}, "choose from 'distinct', 'entropy', 'recursive'"),
        ({"l": 2, "on": []}, "at least one quasi-identifier"),
        ({"l": 2, "on": ["a", "a"]}, "names a quasi-identifier twice"),
        ({"l": 2, "on": 5}, "on"),
    ],
)
def test_wrong_parameters_of_l_diversity_are_named(given: dict[str, object], text: str) -> None:
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.LDiversity(of="s", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"t": -0.1}, "between 0 and 1"),
        ({"t": 1.1}, "between 0 and 1"),
        ({"t": "x"}, "t must be a number"),
        ({"t": True}, "t must be a finite number"),
        ({"t": 0.1, "distance": "orderd"}, "did you mean 'ordered'"),
        ({"t": 0.1, "distance": 5}, "choose from 'equal', 'ordered'"),
    ],
)
def test_wrong_parameters_of_t_closeness_are_named(given: dict[str, object], text: str) -> None:
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.TCloseness(of="s", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (shoal.KAnonymity(5), "k-anonymity (k = 5)"),
        (shoal.KAnonymity(5, on="zip"), "k-anonymity (k = 5) on zip"),
        (shoal.LDiversity(3, of="s", kind="entropy"), "l-diversity (l = 3, of = s, kind = entropy)"),
        (shoal.TCloseness(0.2, of="s", on=["zip", "age"]), "t-closeness (t = 0.2, of = s) on zip, age"),
    ],
)
def test_a_requirement_in_words(requirement: Requirement, text: str) -> None:
    assert describe(requirement) == text


@pytest.mark.parametrize(
    ("requirement", "least"),
    [
        (shoal.KAnonymity(5), 5),
        (shoal.LDiversity(3, of="s"), 3),
        (shoal.LDiversity(2.5, of="s", kind="entropy"), 3),
        (shoal.TCloseness(0.2, of="s"), 1),
    ],
)
def test_no_smaller_group_can_pass(requirement: Requirement, least: int) -> None:
    assert requirement.least == least


def test_requirements_combine() -> None:
    both = shoal.KAnonymity(5) & shoal.LDiversity(3, of="s")
    three = both & shoal.TCloseness(0.5, of="s")
    assert list(three) == [shoal.KAnonymity(5), shoal.LDiversity(3, of="s"), shoal.TCloseness(0.5, of="s")]
    for given_ in (three, [three], [both, shoal.TCloseness(0.5, of="s")]):
        assert shoal.Policy(quasi={"a": "numeric"}, sensitive="s", require=given_).require == tuple(three)
    alone = shoal.Policy(quasi={"a": "numeric"}, require=shoal.KAnonymity(5))
    assert alone.require == (shoal.KAnonymity(5),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: shoal.TCloseness(1.5, of="s"), "between 0 and 1"),
        (lambda: shoal.TCloseness(0.5, of="s", distance="hierarchical"), "needs 'taxonomy'"),
        (lambda: shoal.TCloseness(0.5, of="s", taxonomy=["a"]), "needs 'taxonomy'"),
        (lambda: shoal.ConfidenceBound(0, of="s"), "above 0 and at most 1"),
        (lambda: shoal.AlphaKAnonymity(1.2, 3, of="s"), "above 0 and at most 1"),
        (lambda: shoal.AlphaKAnonymity(0.5, 0, of="s"), "k must be at least 1"),
        (lambda: shoal.BetaLikeness(0, of="s"), "above 0"),
        (lambda: shoal.BetaLikeness(1, of="s", kind="strong"), "'basic', 'enhanced'"),
        (lambda: shoal.DeltaDisclosure(-1, of="s"), "above 0"),
    ],
)
def test_invalid_parameters_are_refused(make: object, message: str) -> None:
    with pytest.raises(shoal.PolicyError, match=message):
        make()


def test_every_requirement_can_be_written_in_a_policy_file() -> None:
    text = """
quasi: {a: numeric}
sensitive: [s]
require:
  - alpha-k-anonymity: {alpha: 0.5, k: 3, of: s, values: [flu]}
  - beta-likeness: {beta: 2, of: s, kind: enhanced}
  - delta-disclosure: {delta: 1.5, of: s}
  - confidence-bound: {c: 0.8, of: s}
  - t-closeness: {t: 0.2, of: s, distance: hierarchical, taxonomy: {ANY: {A: [flu, cold], B: [gout]}}}
"""
    policy = shoal.Policy.parse(text)
    assert shoal.Policy.parse(policy.to_yaml()) == policy
    assert next(r.name for r in policy.require) == "alpha-k-anonymity"


def test_an_unreachable_requirement_is_refused_with_the_reachable_value() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "s": ["flu", "flu", "flu", "cold"]})
    for requirement, reached in (
        (shoal.LDiversity(3, of="s"), "reaches 2 distinct values"),
        (shoal.ConfidenceBound(0.5, of="s"), "reaches a share of 0.75"),
        (shoal.BetaLikeness(0.1, of="s", kind="enhanced"), None),
    ):
        policy = shoal.Policy(quasi={"a": "numeric"}, sensitive="s", require=[shoal.KAnonymity(2), requirement])
        if reached is None:
            assert list(shoal.anonymize(frame, policy).frame["a"]) == ["[1, 4]"] * 4
        else:
            with pytest.raises(shoal.RequirementNotMet, match=reached):
                shoal.anonymize(frame, policy)


def test_the_worst_group_is_one_that_fails() -> None:
    frame = pd.DataFrame({"q": [1] * 10 + [2] * 10, "s": list("a" * 10 + "aaaaaaaabc")})
    policy = shoal.Policy(
        quasi={"q": "numeric"}, sensitive="s", require=[shoal.BetaLikeness(2, of="s", kind="enhanced")]
    )
    finding = shoal.check(frame, policy).findings[0]
    assert not finding.holds and finding.worst == {"q": "1"} and finding.reached == pytest.approx(1 / 9)


def test_the_whole_table_passes_delta_disclosure_with_a_rare_value() -> None:
    frame = pd.DataFrame({"q": [1] * 100_000, "s": ["b"] + ["a"] * 99_999})
    policy = shoal.Policy(quasi={"q": "numeric"}, sensitive="s", require=[shoal.DeltaDisclosure(0.001, of="s")])
    assert shoal.check(frame, policy).holds


@pytest.mark.parametrize(("ill", "reached"), [(["1", "3", "1", "3", "2"], 0.0), (["1", "1", "1", "3", "2"], 0.25)])
def test_a_suppressed_value_does_not_count_in_an_ordered_distance(ill: list[str], reached: float) -> None:
    """The test after suppression equals the test of the published table, which does not have the value."""
    frame = pd.DataFrame({"a": list("xxyyz"), "ill": ill})
    closeness = shoal.TCloseness(0.5, of="ill", distance="ordered")
    policy = shoal.Policy(quasi={"a": "categorical"}, sensitive="ill", require=closeness)
    whole = encode_and_count(open_data(frame), policy)[0].raw_groups
    alone = encode_and_count(open_data(frame[frame.a != "z"]), policy)[0].raw_groups
    assert closeness.test(whole.keep(whole.size > 1)).value.tolist() == [reached] * 2
    assert closeness.test(alone).value.tolist() == [reached] * 2
