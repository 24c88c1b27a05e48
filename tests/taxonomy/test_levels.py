"""Levels to keep or to skip, in balanced and unbalanced trees, by level and by height."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import PolicyError
from shoal.taxonomy import Taxonomy
from tests.support.strategies import Tree, trees

EDUCATION = {
    "ANY": {
        "School": {"Junior": {"Early": ["1st", "2nd"]}, "Senior": {"Late": ["11th", "12th"]}},
        "University": {"Grad": {"Higher": ["Master", "Doctor"]}, "Under": {"First": ["Bachelor"]}},
    }
}
UNEVEN = {
    "ANY": ["none", {"Office": ["clerk", "manager"]}, {"Field": {"Sea": ["sailor"], "Land": {"Soil": ["farmer"]}}}]
}


def ways(tree: Taxonomy) -> list[tuple[str | None, ...]]:
    """The way from the root to every node."""
    found: list[tuple[str | None, ...]] = []
    for node, label in enumerate(tree.label):
        found.append((*(found[tree.parent[node]] if node else ()), label))
    return found


def test_skip_and_keep_in_a_balanced_tree() -> None:
    tree = Taxonomy.from_nested(EDUCATION)
    two = {"Junior": ["1st", "2nd"], "Senior": ["11th", "12th"], "Grad": ["Master", "Doctor"], "Under": ["Bachelor"]}
    assert tree.levels(skip=[1, 3]).to_nested() == tree.levels(keep=[2]).to_nested() == {"ANY": two}
    assert tree.levels(keep=[2], by="height") == tree.levels(keep=[2])
    assert tree.levels(keep=[1], by="height") == tree.levels(keep=[3])
    assert tree.levels(skip=[]) == tree == tree.levels(keep=[1, 2, 3])
    assert tree.levels(keep=[]).height.tolist() == [1] + [0] * 7


def test_leaves_remain_if_an_unbalanced_tree_loses_a_level() -> None:
    tree = Taxonomy.from_nested(UNEVEN)
    assert tree.levels(skip=[1]).to_nested() == {
        "ANY": ["none", "clerk", "manager", {"Sea": ["sailor"]}, {"Land": {"Soil": ["farmer"]}}]
    }
    assert tree.levels(skip=[1], by="height").to_nested() == {
        "ANY": ["none", "clerk", "manager", {"Field": ["sailor", {"Land": ["farmer"]}]}]
    }
    assert tree.leaves == tree.levels(keep=[]).leaves


@given(made=trees(), data=st.data(), by=st.sampled_from(["level", "height"]), missing=st.booleans())
def test_against_the_paths_of_all_nodes(made: Tree, data: st.DataObject, by: Any, missing: bool) -> None:
    tree = Taxonomy.from_nested(made.nested)
    tree = tree.with_missing() if missing else tree
    number = tree.level if by == "level" else tree.height
    inner = [n for n in range(1, len(tree.label)) if tree.height[n] > 0]
    there = sorted({int(number[n]) for n in inner})
    skip = data.draw(st.sets(st.sampled_from(there))) if there else set()
    out = {tree.label[n] for n in inner if number[n] in skip}
    less = tree.levels(skip=skip, by=by)
    assert ways(less) == [tuple(v for v in way if v not in out) for way in ways(tree) if way[-1] not in out]
    assert less == tree.levels(keep=set(there) - skip, by=by)
    assert less.leaves == tree.leaves
    assert [less.lo[0], less.hi[0]] == [0, tree.size - 1]
    for node in range(1, len(less.label)):
        assert less.lo[less.parent[node]] <= less.lo[node] <= less.hi[node] <= less.hi[less.parent[node]]
        assert less.level[node] == less.level[less.parent[node]] + 1
        assert less.height[less.parent[node]] > less.height[node]


def test_levels_of_a_derived_tree() -> None:
    made = Taxonomy.balanced(dict.fromkeys("abcd", 1), fanout=2)
    assert made.levels(skip=[1]).derived
    with pytest.raises(PolicyError, match="no inner level 5; choose from 1"):
        made.levels(keep=[1, 5])
    with pytest.raises(PolicyError, match="no inner level 1: it has only a root and leaves; remove 'skip'"):
        Taxonomy.balanced({"a": 1, "b": 1}, fanout=2).levels(skip=[1])
    assert np.array_equal(Taxonomy.flat([]).levels(skip=[1]).hi, [-1])


@pytest.mark.parametrize(
    ("given_levels", "text"),
    [
        ({"skip": [4]}, "no inner level 4; choose from 1, 2, 3"),
        ({"skip": [0]}, "no inner level 0"),
        ({"keep": [1, 9, 7]}, "no inner level 7, 9;"),
        ({"skip": [0], "by": "height"}, "no inner height 0; choose from 1, 2, 3"),
        ({}, "one of the two"),
        ({"keep": [1], "skip": [2]}, "one of the two"),
        ({"keep": [1], "by": "depth"}, "'level', 'height'"),
    ],
    ids=str,
)
def test_levels_that_are_refused(given_levels: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError, match=text):
        Taxonomy.from_nested(EDUCATION).levels(**given_levels)
    with pytest.raises(PolicyError, match="only a root and leaves"):
        Taxonomy.from_nested(["a", "b"]).levels(skip=[1])
