"""Local recoding by merging and splitting: against the slow twin, record for record, by hand, and against Mondrian."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal.datasets import papers
from shoal.encoding.attributes import OBJECTIVES
from shoal.encoding.codes import Codes
from shoal.engines.keyed_hash import KeyedHash
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.method import Method
from shoal.recoding.grouping import Grouping
from tests.reference.agglomerative import agglomerative
from tests.reference.kmember import Clusters
from tests.support.cases import Case, cases, holds
from tests.support.outcomes import Outcome, counted
from tests.tables.test_kmember import coded, crowded, decided, on_a_line, table_of

DIRECTIONS = ["both", "bottom-up", "top-down"]
with_twin = pytest.mark.parametrize("direction", DIRECTIONS[1:])
Given = dict[str, Any]
directions = pytest.mark.parametrize("direction", DIRECTIONS)
seeds = st.integers(0, 2**32 - 1)


def made(policy: shoal.Policy, **way: Any) -> Method:
    return shoal.tables.Agglomerative(policy, **way)


def check_against_twin(frame: pd.DataFrame, policy: shoal.Policy, seed: int, direction: str, **way: Any) -> Clusters:
    """The same groups and suppressed records, in the order of the codes and in keyed order."""
    method = made(policy, direction=direction, **way)
    codes = coded(method, frame)
    table = table_of(codes, policy, way)
    keyed = replace(codes, hash=KeyedHash.of(seed))
    turns = np.repeat(keyed.keyed_rank, keyed.counts.size).tolist()
    for known, asked in ((codes, table), (keyed, replace(table, turns=turns))):
        slow = agglomerative(asked, direction)
        groups, suppressed = decided(method, known, seed)
        assert groups == slow.groups(table.records)
        assert suppressed == sorted(table.records[i] for i in slow.suppressed)
    return slow


@st.composite
def weighted(draw: st.DrawFn, case: Case) -> Given:
    """An objective, and weights of some attributes."""
    weight = st.sampled_from([0.0, 0.25, 1 / 3, 1.0, 1.0, 3.0])
    way: Given = {"objective": draw(st.sampled_from(OBJECTIVES))}
    if draw(st.booleans()):
        way["weights"] = {name: draw(weight) for name in case.policy.quasi if draw(st.booleans())}
    return way


@with_twin
@given(data=st.data(), case=cases(least=2, most=40), seed=seeds)
@counted
def test_same_groups_as_the_slow_twin(data: st.DataObject, case: Case, seed: int, direction: str) -> Outcome:
    way = data.draw(weighted(case))
    try:
        shoal.anonymize(case.frame, case.policy, method="agglomerative", seed=seed, direction=direction, **way)
    except shoal.RequirementNotMet:
        assert not holds(case.frame.assign(**dict.fromkeys(case.policy.quasi, "*")), case.policy)
        return "not met"
    check_against_twin(case.frame, case.policy, seed, direction, **way)
    return None


@with_twin
@given(data=st.data(), case=crowded(), seed=seeds)
def test_same_groups_with_many_ties_and_two_sensitive_columns(
    data: st.DataObject, case: Case, seed: int, direction: str
) -> None:
    assume(holds(case.frame.assign(x="*", y="*"), case.policy))
    check_against_twin(case.frame, case.policy, seed, direction, **data.draw(weighted(case)))


@pytest.mark.parametrize("k", [2, 5, 20])
@with_twin
def test_same_groups_of_many_records(direction: str, k: int) -> None:
    """Enough groups for a tree of several levels that is rebuilt, with numbers of many values."""
    frame = shoal.datasets.hospital(150, seed=5, kind="pandas")
    check_against_twin(frame, shoal.datasets.hospital_policy(k), 11, direction, weights={"birth": 2.5, "zip": 1 / 3})


# Answers by hand. Equal values stay together, and so do their records.


def grouped(values: list[int], k: int, direction: str) -> list[list[int]]:
    """The groups of numbers between 0 and 100, by their values."""
    frame, _ = on_a_line(values, shoal.KAnonymity(k))
    quasi = {"x": {"kind": "numeric", "bounds": [0, 100]}}
    policy = shoal.Policy(quasi=quasi, identifiers="name", require=[shoal.KAnonymity(k)])
    check_against_twin(frame, policy, 3, direction)
    groups, _ = decided(made(policy, direction=direction), codes := coded(made(policy), frame), 3)
    position = codes.attributes[0].position
    return [[int(position[x]) for (x,), _ in group] for group in groups]


def test_cells_that_pass_stay_as_they_are() -> None:
    """4 costs 4 x 1 with the three 5s, 2 x 2 with 2 alone; of equal increases the earlier group is taken."""
    assert grouped([2, 4, 5, 5, 5, 50, 50], 2, "bottom-up") == [[2, 4], [5, 5, 5], [50, 50]]


def test_a_small_group_joins_the_group_that_it_costs_least() -> None:
    """9 costs 4 x 1 with the three 10s, and 3 x 9 with the 0s."""
    assert grouped([0, 0, 9, 10, 10, 10], 2, "bottom-up") == [[0, 0], [9, 10, 10, 10]]


def test_a_union_that_is_large_enough_is_split() -> None:
    """42 joins 40 and 41. The cheapest partner of 99 is that group, and the four records are split again."""
    assert grouped([0, 1, 40, 41, 42, 99], 2, "bottom-up") == [[0, 1], [40, 41], [42, 99]]


def test_top_down_by_hand() -> None:
    """The seeds are the ends. A half that is too small takes the record that costs it least: 4 goes to 90."""
    assert grouped([0, 1, 2, 88, 89, 90], 2, "top-down") == [[0, 1, 2], [88, 89, 90]]
    assert grouped([0, 1, 2, 3, 4, 90], 2, "top-down") == [[0, 1], [2, 3], [4, 90]]


# Never worse than Mondrian.


def loss_of(codes: Codes, policy: shoal.Policy, grouping: Grouping) -> float:
    """The information loss by which the clustering methods decide."""
    records = ClusteringInput.of(codes, policy, np.ones(len(codes.attributes)))
    placement = grouping.placement
    cell, group = (np.repeat(a, placement.count).astype(np.int32) for a in (placement.cell, placement.group))
    assert group.min() >= 0
    return records.total_loss(cell, group)


def tables() -> dict[str, tuple[pd.DataFrame, shoal.Policy]]:
    hospital = shoal.datasets.hospital(600, seed=1, kind="pandas")
    found = {"hospital": (hospital, shoal.datasets.hospital_policy(2))}
    try:
        adult = shoal.datasets.adult("train", drop_missing=True, kind="pandas").sample(800, random_state=1)
    except shoal.ShoalError:
        return found
    trees = shoal.datasets.adult_taxonomies()
    names = ("age", "workclass", "education-num", "marital-status", "occupation", "race", "sex", "native-country")
    quasi = {name: {"taxonomy": trees[name]} if name in trees else "numeric" for name in names}
    return {**found, "adult": (adult, shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(2)]))}


def assert_not_worse_than_mondrian(frame: pd.DataFrame, policy: shoal.Policy) -> None:
    codes = replace(coded(made(policy), frame), hash=KeyedHash.of(1))
    ours, mondrian = (
        loss_of(codes, policy, method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None))
        for method in (made(policy), shoal.tables.Mondrian(policy))
    )
    assert ours <= mondrian + 1e-9


@pytest.mark.parametrize("k", [2, 5, 10, 25, 100])
def test_not_worse_than_mondrian(k: int) -> None:
    for frame, policy in tables().values():
        assert_not_worse_than_mondrian(frame, policy.model_copy(update={"require": (shoal.KAnonymity(k),)}))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", ["mortgage", "incomes", "borrowers", "customers", "patients"])
def test_not_worse_than_mondrian_on_the_tables_of_papers(name: str, k: int) -> None:
    assert_not_worse_than_mondrian(getattr(papers, name)(kind="pandas"), getattr(papers, f"{name}_policy")(k))


# What must hold for every result.


@directions
@given(data=st.data(), case=cases(most=30), seed=seeds)
@counted
def test_requirements_hold_when_recounted(data: st.DataObject, case: Case, seed: int, direction: str) -> Outcome:
    way = data.draw(weighted(case))
    part = data.draw(st.sampled_from([None, 6, 12]))
    try:
        release = shoal.anonymize(
            case.frame, case.policy, method="agglomerative", seed=seed, direction=direction, part=part, **way
        )
    except shoal.RequirementNotMet:  # then even one group for all does not do
        assert not holds(case.frame.assign(**dict.fromkeys(case.policy.quasi, "*")), case.policy)
        return "not met"
    assert holds(release.frame, case.policy)
    assert len(case.frame) - len(release.frame) <= int(case.policy.suppress * len(case.frame) + 1e-9)
    return None


@given(case=cases(secrets=False, least=6), seed=seeds)
def test_both_is_the_better_direction(case: Case, seed: int) -> None:
    codes = replace(coded(made(case.policy), case.frame), hash=KeyedHash.of(seed))
    methods = [*(made(case.policy, direction=d) for d in DIRECTIONS), shoal.tables.Mondrian(case.policy)]
    both, *others = (
        loss_of(codes, case.policy, m.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None))
        for m in methods
    )
    assert both == pytest.approx(min(others))


def test_large_tables_are_searched_in_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, policy = shoal.datasets.hospital(400, seed=2, kind="pandas"), shoal.datasets.hospital_policy(5)

    def release(part: int | None) -> pd.DataFrame:
        way = {"direction": "bottom-up", "part": part}
        return shoal.anonymize(frame, policy, method="agglomerative", seed=1, **way).frame

    whole, in_parts = release(400), release(100)
    assert not whole.equals(in_parts)
    pd.testing.assert_frame_equal(release(None), whole)
    monkeypatch.setattr("shoal.tables.agglomerative.MOST_COMBINATIONS", 50)
    monkeypatch.setattr("shoal.tables.agglomerative.PART", 100)
    pd.testing.assert_frame_equal(release(None), in_parts)


@pytest.mark.parametrize("part", [None, 60])
def test_progress_ends_with_all_records(part: int | None) -> None:
    frame = shoal.datasets.hospital(300, seed=2, kind="pandas")
    method = made(shoal.datasets.hospital_policy(7), part=part)
    told: list[tuple[int, int]] = []
    method.decide(
        coded(method, frame),
        rng=np.random.default_rng(0),
        progress=lambda stage, done, total: told.append((done, total)) if stage == "clustering" else None,
    )
    assert (min(told), max(told)) == ((0, 300), (300, 300))


@directions
def test_fewer_records_than_k(direction: str) -> None:
    frame, policy = on_a_line([1, 2, 3], shoal.KAnonymity(4))
    with pytest.raises(shoal.PolicyError, match="at least 4 records, but the table has 3"):
        shoal.anonymize(frame, policy, method="agglomerative", direction=direction)


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ({"direction": "up"}, "'both', 'bottom-up', 'top-down'"),
        ({"direction": None}, "'both', 'bottom-up', 'top-down'"),
        ({"weights": {"x": -1}}, "weight"),
        ({"part": 0}, "part"),
        ({"part": 2.5}, "part"),
    ],
    ids=str,
)
def test_parameters_that_are_refused(way: Given, text: str) -> None:
    frame, policy = on_a_line([1, 2, 3], shoal.KAnonymity(2))
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.anonymize(frame, policy, method="agglomerative", **way)
