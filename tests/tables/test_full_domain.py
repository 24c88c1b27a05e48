"""Full-domain generalization: the optimum against brute force, levels, the lattice after the search, and bad input."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.tables.lattice_objective import OBJECTIVES
from tests.reference.full_domain import Tree, Twin
from tests.support.cases import lists_of
from tests.support.outcomes import Outcome, counted

TREES: dict[str, list[Any]] = {
    "job": [
        {"ANY": {"Office": ["clerk", "manager"], "Field": {"Land": ["farmer", "miner"], "Sea": {"Ship": ["sailor"]}}}},
        {"ANY": {"Work": {"Desk": ["clerk", "manager"], "Hand": ["farmer", "miner", "sailor"]}}},
        {"ANY": ["clerk", "manager", "farmer", "miner", "sailor"]},
    ],
    "city": [
        {"ANY": {"North": {"Far": ["Oulu"]}, "South": ["Rome", "Bari"]}},
        {"ANY": {"Cold": ["Oulu"], "Warm": ["Rome", "Bari", "Nice"]}},
    ],
    "sex": [{"ANY": ["f", "m"]}],
}
VALUES = {"job": ["clerk", "manager", "farmer", "miner", "sailor"], "city": ["Oulu", "Rome", "Bari"], "sex": ["f", "m"]}
ILL = [
    shoal.LDiversity(2, of="ill"),
    shoal.LDiversity(2, of="ill", kind="entropy"),
    shoal.LDiversity(2, of="ill", kind="recursive", c=3.0),
    shoal.TCloseness(0.4, of="ill"),
    shoal.AlphaKAnonymity(0.6, k=2, of="ill") if hasattr(shoal, "AlphaKAnonymity") else shoal.TCloseness(0.2, of="ill"),
]


def draw_table(draw: st.DrawFn) -> tuple[pd.DataFrame, shoal.Policy]:
    rows = draw(st.integers(2, 26))
    names = draw(st.lists(st.sampled_from(list(TREES)), min_size=1, max_size=3, unique=True))
    frame = pd.DataFrame({name: draw(lists_of(VALUES[name], rows)) for name in names})
    frame["ill"] = draw(lists_of(["flu", "cold", "gout"], rows))
    frame["grade"] = draw(lists_of(["low", "high"], rows))
    require: list[Any] = [shoal.KAnonymity(draw(st.integers(1, min(4, rows))))]
    some = st.lists(st.sampled_from(names), min_size=1, unique=True)
    more = draw(st.sampled_from(["none", "k", "ill", "ill on"]))
    if more == "k":
        require = [shoal.KAnonymity(r.k, on=draw(some)) for r in (*require, shoal.KAnonymity(min(3, rows)))]
    elif more != "none":
        asked = draw(st.sampled_from(ILL))
        require.insert(
            draw(st.integers(0, 1)), type(asked)(**{**vars(asked), "on": draw(some) if more == "ill on" else None})
        )
    policy = shoal.Policy(
        quasi={name: {"taxonomy": draw(st.sampled_from(TREES[name]))} for name in names},
        sensitive=["ill"],
        target="grade",
        require=require,
        suppress=draw(st.sampled_from([0.0, 0.1, 0.3])),
    )
    return frame, policy


tables = st.composite(draw_table)


def twin_of(frame: pd.DataFrame, policy: shoal.Policy) -> Twin:
    names = list(policy.quasi)
    return Twin(
        [tuple(row) for row in frame[names].to_numpy().tolist()],
        [Tree.of(policy.quasi[name].taxonomy.to_nested()) for name in names],
        names,
        policy.require,
        policy.suppress,
        list(frame["ill"]),
        list(frame["grade"]),
    )


@pytest.mark.parametrize("objective", list(OBJECTIVES))
@given(table=tables())
@counted
def test_the_optimum_equals_brute_force(table: tuple[pd.DataFrame, shoal.Policy], objective: str) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy).best(objective)
    method = shoal.tables.FullDomain(policy, objective=objective)
    try:
        release = method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert twin is None
        return "not met"
    assert twin is not None
    node, value = twin
    assert release.measures[objective] == pytest.approx(value)
    assert tuple(method.lattice_.chosen.values()) == node
    assert method.lattice_.find(method.lattice_.chosen).loss == pytest.approx(value)
    return None


@given(table=tables(), objective=st.sampled_from(list(OBJECTIVES)))
@counted
def test_incognito_finds_all_minimal_nodes(table: tuple[pd.DataFrame, shoal.Policy], objective: str) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy)
    method = shoal.tables.Incognito(policy, objective=objective)
    try:
        release = method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert not twin.minimal()
        return "not met"
    minimal = [tuple(node.values()) for node in method.minimal_]
    assert minimal == twin.minimal()
    node, value = twin.best(objective, minimal)
    assert release.measures[objective] == pytest.approx(value)
    assert tuple(method.lattice_.chosen.values()) == node
    return None


@given(table=tables(), objective=st.sampled_from(list(OBJECTIVES)))
@counted
def test_samarati_finds_the_least_height(table: tuple[pd.DataFrame, shoal.Policy], objective: str) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy)
    method = shoal.tables.Samarati(policy, objective=objective)
    try:
        release = method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert not twin.anonymous()
        return "not met"
    nodes = list(twin.anonymous())
    lowest = [node for node in nodes if sum(node) == min(map(sum, nodes))]
    node, value = twin.best(objective, lowest)
    assert release.measures[objective] == pytest.approx(value)
    assert tuple(method.lattice_.chosen.values()) == node
    return None


@given(table=tables())
@counted
def test_datafly_generalizes_the_widest_attribute(table: tuple[pd.DataFrame, shoal.Policy]) -> Outcome:
    frame, policy = table
    twin = twin_of(frame, policy)
    anonymous, node = twin.anonymous(), next(twin.nodes())
    while node not in anonymous:
        labels = [{t.ancestor(row[j], node[j]) for row in twin.rows} for j, t in enumerate(twin.trees)]
        raised = [j for j, tree in enumerate(twin.trees) if node[j] < tree.height]
        if not raised:
            break
        widest = max(raised, key=lambda j: (len(labels[j]), -j))
        node = tuple(level + (j == widest) for j, level in enumerate(node))
    method = shoal.tables.Datafly(policy)
    try:
        method.release(frame, seed=1)
    except shoal.RequirementNotMet:
        assert node not in anonymous
        return "not met"
    assert tuple(method.lattice_.chosen.values()) == node
    return None
