"""Local recoding by peeling: against a slow twin round by round, boxes that do not overlap, labels that can be sharpened."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal import threads
from shoal.encoding.attributes import OBJECTIVES
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.kernels import boxes, downcoding
from shoal.kernels.interface import DowncodingRoom
from shoal.measures.downcoding import count_downcoded
from shoal.tables.lattice import MOST_NODES, Lattice, list_levels, thin_levels
from shoal.tables.peel import Peeling
from tests.reference import peel as reference
from tests.reference.requirements import passes
from tests.support.cases import Case, cases, holds, recount, released, suited
from tests.support.outcomes import Outcome, counted

Given = dict[str, Any]


def encoded(case: Case) -> Codes:
    return encode_and_count(open_data(case.frame), case.policy)[0]


def twin_of(
    codes: Codes, policy: shoal.Policy, step: float, objective: str, weights: list[float], spread: float
) -> reference.Twin:
    """The twin, with one record per row of the table."""
    cell = np.repeat(np.arange(len(codes.counts.size)), codes.counts.size)
    rows = [tuple(row) for row in codes.quasi[codes.combination[cell]].tolist()]
    names = [s.name for s in codes.sensitive]
    labels = [[codes.sensitive[s].labels[c] for c in codes.counts.sensitive[cell, s]] for s in range(len(names))]

    def fits(group: Any) -> bool:
        for requirement in policy.require:
            if requirement.of is None:
                if len(group) < requirement.k:
                    return False
            else:
                column = labels[names.index(requirement.of)]
                if not passes(requirement, [column[i] for i in group], column):
                    return False
        return True

    exact = all(r.size_only for r in policy.require)
    least = max((r.least for r in policy.require), default=1)
    return reference.Twin(codes.attributes, rows, fits, exact, least, step, objective, weights, spread)


def run_both(
    case: Case, step: float, objective: str, weights: list[float], spread: float = np.inf
) -> tuple[Peeling, reference.Twin]:
    """The rounds of the method and of its twin."""
    codes = encoded(case)
    twin = twin_of(codes, case.policy, step, objective, weights, spread)
    scale = np.array(weights) / (max(weights) or 1.0)
    with threads.workers() as workers:
        lattice = Lattice.of(codes, case.policy, scale, objective, workers)
        peeling = Peeling(lattice, step, spread=spread)
        group = peeling.run(np.full(len(codes.quasi), -1, np.int32), lambda *_: None)
    left = twin.run()
    found = [(tuple(lattice.node[r.node].tolist()), r.groups, r.records) for r in peeling.rounds]
    assert found == [(node, len(groups), sum(map(len, groups))) for node, groups in twin.rounds]
    of_record = np.repeat(group[codes.combination], codes.counts.size).tolist()
    slow = [group for _, groups in twin.rounds for group in groups]
    assert {frozenset(g) for g in slow} == {
        frozenset(i for i, h in enumerate(of_record) if h == g) for g in set(of_record) if g >= 0
    }
    assert left == [i for i, g in enumerate(of_record) if g < 0]
    return peeling, twin


@given(
    data=st.data(),
    case=cases(least=2, most=30),
    step=st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.0]),
    objective=st.sampled_from(OBJECTIVES),
    spread=st.sampled_from([np.inf, 0.0, 0.2]),
)
@counted
def test_same_rounds_as_the_slow_twin(
    data: st.DataObject, case: Case, step: float, objective: str, spread: float
) -> Outcome:
    assume(len(case.policy.quasi) <= 4)
    weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=7, max_size=7))[
        : len(case.policy.quasi)
    ]
    peeling, _ = run_both(case, step, objective, weights, spread)
    return None if peeling.rounds else "no round"


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    "more", [(), (shoal.LDiversity(2, of="diagnosis"),), (shoal.TCloseness(0.7, of="diagnosis"),)], ids=str
)
def test_same_rounds_on_the_hospital_table(objective: str, more: tuple[Any, ...]) -> None:
    frame = shoal.datasets.hospital(150, seed=4, kind="pandas")
    policy = shoal.datasets.hospital_policy(3)
    quasi = {name: policy.quasi[name] for name in ("sex", "zip", "job") if name in policy.quasi}
    policy = policy.model_copy(update={"quasi": quasi, "require": (*policy.require, *more)})
    peeling, _ = run_both(Case(frame, policy), 0.05, objective, [1.0] * len(quasi))
    assert len(peeling.rounds) > 2


def test_a_dense_region_stays_exact() -> None:
    """The answer by hand: 5 equal records keep their values; the others lose the less of two attributes."""
    frame = pd.DataFrame({"x": ["a"] * 5 + ["b", "b", "b"], "y": ["p"] * 5 + ["q", "r", "s"]})
    policy = shoal.Policy(quasi={"x": "categorical", "y": "categorical"}, require=[shoal.KAnonymity(3)])
    release = shoal.anonymize(frame, policy, method="peel")
    assert sorted(map(tuple, release.frame.to_numpy().tolist())) == [("a", "p")] * 5 + [("b", "*")] * 3
    assert release.measures["ncp"] == 3 / 16


def test_leftovers_join_the_cheapest_group() -> None:
    frame = pd.DataFrame({"x": [1, 1, 1, 2, 9, 9, 9]})
    policy = shoal.Policy(quasi={"x": "numeric"}, require=[shoal.KAnonymity(3)], suppress=0.5)
    release = shoal.anonymize(frame, policy, method="peel")
    assert sorted(release.frame["x"]) == ["9"] * 3 + ["[1, 2]"] * 4
    spent = shoal.anonymize(frame, policy, method="peel", spend=True)
    assert sorted(spent.frame["x"]) == ["1"] * 3 + ["9"] * 3
    assert spent.measures["suppressed"] == 1


def test_relative_requirements_are_compared_with_the_whole_source() -> None:
    frame = shoal.datasets.hospital(400, seed=2, kind="pandas")
    policy = shoal.datasets.hospital_policy(4)
    policy = policy.model_copy(update={"require": (*policy.require, shoal.TCloseness(0.4, of="diagnosis"))})
    release = shoal.anonymize(frame, policy, method="peel")
    assert holds(release.frame, policy)
    assert release.measures["suppressed"] == 0


def test_a_smaller_step_and_more_tries_keep_more() -> None:
    frame, policy = shoal.datasets.hospital(1000, seed=1), shoal.datasets.hospital_policy(5)

    def ncp(**given: Any) -> float:
        return shoal.anonymize(frame, policy, method="peel", **given).measures["ncp"]

    assert ncp() <= ncp(tries=1) < ncp(tries=1, step=0.5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"step": 2}, "step must be a share between 0 and 1"),
        ({"step": "much"}, "step"),
        ({"tries": 5}, "tries must be a whole number from 1 to 4"),
        ({"exclusive": "yes"}, "exclusive must be true or false"),
        ({"exclusive": True, "improve": True}, "exclusive=True and improve=True exclude each other"),
        ({"exclusive": True, "spend": True}, "exclusive=True and spend=True exclude each other"),
        ({"objective": "cm"}, "objective"),
    ],
)
def test_wrong_parameters(given: Given, text: str) -> None:
    frame = pd.DataFrame({"x": [1, 1, 1]})
    policy = shoal.Policy(quasi={"x": "numeric"}, require=[shoal.KAnonymity(3)])
    with pytest.raises(shoal.PolicyError, match=text):
        shoal.anonymize(frame, policy, method="peel", **given)


# Boxes that do not overlap


def boxes_of(case: Case, release: shoal.Release) -> list[list[set[int]]]:
    """The codes that the label of every group covers, by attribute."""
    lo, hi = release.recoding.lo, release.recoding.hi
    positions = [a.position for a in encoded(case).attributes]
    return [
        [
            {c for c, x in enumerate(position) if lo[g, j] <= x <= hi[g, j] or lo[g, j] == -np.inf}
            for j, position in enumerate(positions)
        ]
        for g in range(len(lo))
    ]


@given(case=cases(least=4, most=40))
@counted
def test_exclusive_boxes_do_not_overlap(case: Case) -> Outcome:
    case = suited(case, "peel", {"exclusive": True})
    release = released(case, "peel", {"exclusive": True})
    if release is None:
        return "not met"
    assert holds(release.frame, case.policy)
    found = boxes_of(case, release)
    for one, other in combinations(found, 2):
        assert any(not (a & b) for a, b in zip(one, other, strict=True))
    assert release.measures["downcoded"] == 0
    return None if len(found) > 1 else "one group"


def test_exclusive_keeps_groups_of_a_large_table() -> None:
    frame, policy = shoal.datasets.hospital(600, seed=3, kind="pandas"), shoal.datasets.hospital_policy(4)
    release = shoal.anonymize(frame, policy, method="peel", exclusive=True)
    assert release.measures["classes"] > 10
    assert (
        recount(
            release.frame.to_pandas() if hasattr(release.frame, "to_pandas") else release.frame, list(policy.quasi)
        ).min()
        >= 4
    )


def test_exclusive_is_refused_in_partitions() -> None:
    """A label such as * covers values of other partitions."""
    chance = np.random.default_rng(0)
    frame = pd.DataFrame({"age": chance.integers(0, 80, 200).astype(float), "cat": chance.choice(list("uvwx"), 200)})
    frame.loc[chance.random(200) < 0.1, "age"] = None
    policy = shoal.Policy(quasi={"age": "numeric", "cat": "categorical"}, require=[shoal.KAnonymity(3)])
    with pytest.raises(shoal.PolicyError, match="exclusive=True is not possible for a table that is searched in part"):
        shoal.anonymize(frame, policy, method="peel", exclusive=True, engine="duckdb", combinations=100)


def test_spend_without_an_allowance_changes_nothing() -> None:
    frame, policy = shoal.datasets.hospital(400, seed=3, kind="pandas"), shoal.datasets.hospital_policy(5)
    policy = policy.model_copy(update={"require": (*policy.require, shoal.BetaLikeness(4, of="diagnosis"))})
    plain, spent = (shoal.anonymize(frame, policy, method="peel", seed=1, spend=spend).frame for spend in (False, True))
    assert plain.equals(spent)


# Labels that can be sharpened


def plain_downcoded(lo: np.ndarray, hi: np.ndarray, rank: np.ndarray) -> list[bool]:
    """By all points of every box."""
    found = []
    for g in range(len(lo)):
        points = set(product(*(range(a, b + 1) for a, b in zip(lo[g], hi[g], strict=True))))
        for h in range(len(lo)):
            if rank[h] < rank[g]:
                points -= set(product(*(range(a, b + 1) for a, b in zip(lo[h], hi[h], strict=True))))
        wide = [j for j in range(lo.shape[1]) if lo[g, j] < hi[g, j]]
        found.append(bool(points) and any(len({p[j] for p in points}) == 1 for j in wide))
    return found


@given(data=st.data(), groups=st.integers(1, 12), m=st.integers(1, 3))
@counted
def test_downcoded_groups_are_those_of_the_definition(data: st.DataObject, groups: int, m: int) -> Outcome:
    ends = data.draw(st.lists(st.integers(0, 4), min_size=2 * groups * m, max_size=2 * groups * m))
    ends = np.sort(np.array(ends, np.int32).reshape(groups, m, 2), axis=2)
    rank = np.sort(np.array(data.draw(st.lists(st.integers(0, 4), min_size=groups, max_size=groups)), np.int64))
    lo, hi = np.ascontiguousarray(ends[:, :, 0]), np.ascontiguousarray(ends[:, :, 1])
    found = np.zeros(len(lo), np.bool_)
    downcoding.find_downcoded(lo, hi, rank, DowncodingRoom.of(*lo.shape), found)
    assert found.tolist() == plain_downcoded(lo, hi, rank)
    return None if found.any() else "none"


def test_a_label_that_can_be_sharpened() -> None:
    """Group 0 has the ages 1 and 2, group 1 the ages 1 to 3 of the same sex. Without group 0 only the age 3 is left."""
    frame = pd.DataFrame({"age": [1, 2, 1, 3, 3], "sex": ["f"] * 5})
    policy = shoal.Policy(quasi={"age": "numeric", "sex": "categorical"}, require=[shoal.KAnonymity(2)])
    codes = encoded(Case(frame, policy))
    lo, hi = np.array([[0, 0], [0, 0]], np.int32), np.array([[1, 0], [2, 0]], np.int32)
    size = np.array([2, 3])
    assert count_downcoded(codes, lo, hi, size, np.array([0, 1], np.int32)) == 3
    assert count_downcoded(codes, lo, hi, size, np.array([1, 0], np.int32)) == 0
    assert count_downcoded(codes, lo, hi, size, np.array([0, 0], np.int32)) == 0


@given(case=cases(least=3, most=40))
@counted
def test_no_label_can_be_sharpened_without_leftovers(case: Case) -> Outcome:
    """The records of a later round are in no box of an earlier round, and both ends of a label are values of records."""
    codes = encoded(case)
    with threads.workers() as workers:
        lattice = Lattice.of(codes, case.policy, np.ones(len(codes.attributes)), "ncp", workers)
        peeling = Peeling(lattice, 0.01)
        group = peeling.run(np.full(len(codes.quasi), -1, np.int32), lambda *_: None)
    groups = int(group.max(initial=-1)) + 1
    lo, hi = boxes.bound_groups(codes.quasi, np.arange(len(group)), group, groups)
    size = np.bincount(group[group >= 0], codes.size[group >= 0], minlength=groups).astype(np.int64)
    rank = np.repeat(np.arange(len(peeling.rounds)), [r.groups for r in peeling.rounds]).astype(np.int32)
    assert count_downcoded(codes, lo, hi, size, rank) == 0
    return None if len(peeling.rounds) > 1 else "one round"


def test_the_measure_is_not_published() -> None:
    frame, policy = shoal.datasets.hospital(300, seed=1), shoal.datasets.hospital_policy(5)
    release = shoal.anonymize(frame, policy, method="peel")
    assert 0 <= release.measures["downcoded"] < 1
    assert "downcoded" not in release.measures.public()
    assert "downcoded" not in shoal.anonymize(frame, policy).measures


# The lattice


def test_a_large_lattice_gets_fewer_levels() -> None:
    columns = {f"c{i}": np.arange(40) % (i + 2) for i in range(16)}
    policy = shoal.Policy(quasi=dict.fromkeys(columns, "categorical"), require=[shoal.KAnonymity(2)])
    codes = encoded(Case(pd.DataFrame(columns), policy))
    with threads.workers() as workers:
        lattice = Lattice.of(codes, policy, np.ones(16), "ncp", workers)
    assert 1 < lattice.size <= MOST_NODES
    assert holds(shoal.anonymize(pd.DataFrame(columns), policy, method="peel").frame, policy)


@given(case=cases(least=2, most=20), most=st.integers(2, 60))
def test_thinned_levels_keep_values_and_root(case: Case, most: int) -> None:
    codes = encoded(case)
    levels = [
        list_levels(a, np.bincount(codes.quasi[:, j], codes.size, minlength=a.size).astype(np.int64), "ncp")
        for j, a in enumerate(codes.attributes)
    ]
    thinned, chains = thin_levels(levels, most)
    assert int(np.prod([len(thinned[chain[0]]) for chain in chains])) <= max(most, 2)
    assert sorted(j for chain in chains for j in chain) == list(range(len(levels)))
    for few, every in zip(thinned, levels, strict=True):
        assert few[0] is every[0] and few[-1] is every[-1]


@given(case=cases(least=2, most=25))
def test_levels_are_nested(case: Case) -> None:
    codes = encoded(case)
    for j, attribute in enumerate(codes.attributes):
        records = np.bincount(codes.quasi[:, j], codes.size, minlength=attribute.size).astype(np.int64)
        levels = list_levels(attribute, records, "ncp")
        assert len(set(levels[-1].value.tolist())) == 1
        for fine, coarse in pairwise(levels):
            assert coarse.values < fine.values
            for value in range(fine.values):
                assert len(set(coarse.value[fine.value == value].tolist())) == 1
            assert (coarse.loss >= fine.loss - 1e-12).all()
