"""Balanced trees: every leaf once and in order, heights as promised, weights as even as they can be."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import DataError, PolicyError
from shoal.taxonomy import Taxonomy
from shoal.taxonomy.balancing import divide_evenly, join_neighbours

weights = st.lists(st.one_of(st.integers(0, 5), st.sampled_from([1, 40, 1000])), min_size=1, max_size=9)
texts = st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.integers(0, 50), min_size=1, max_size=30)
floats = st.one_of(st.integers(-50, 50), st.integers(-500, 500).map(lambda n: n / 4))
counted = st.one_of(texts, st.dictionaries(floats, st.integers(0, 50), min_size=1, max_size=30))


def sums(found: list[int], of: list[int]) -> list[int]:
    return [sum(of[a:b]) for a, b in pairwise(found)]


@given(of=weights, data=st.data())
def test_no_division_has_a_lighter_heaviest_part(of: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(of)))
    found = divide_evenly(of, parts)
    assert (found[0], found[-1], len(found)) == (0, len(of), parts + 1)
    assert all(a < b for a, b in pairwise(found))
    others = [[0, *inner, len(of)] for inner in combinations(range(1, len(of)), parts - 1)]
    assert max(sums(found, of)) == min(max(sums(other, of)) for other in others)


@given(of=weights, data=st.data())
def test_no_two_neighbours_can_be_made_more_even(of: list[int], data: st.DataObject) -> None:
    found = divide_evenly(of, data.draw(st.integers(1, len(of))))
    for begin, middle, end in zip(found, found[1:], found[2:], strict=False):
        gaps = {p: abs(sum(of[begin:p]) - sum(of[p:end])) for p in range(begin + 1, end)}
        assert gaps[middle] == min(gaps.values())


@given(of=st.lists(st.integers(0, 100), min_size=1, max_size=60), fanout=st.integers(2, 6))
def test_every_level_joins_whole_branches_of_the_one_below(of: list[int], fanout: int) -> None:
    below = len(of)
    fine = [(code, code) for code in range(len(of))]
    for runs in join_neighbours(of, fanout):
        assert len(runs) == -(-below // fanout)
        assert [runs[0][0], runs[-1][1]] == [0, len(of) - 1]
        assert all(a[1] + 1 == b[0] for a, b in pairwise(runs))
        assert {first for first, _ in runs} <= {first for first, _ in fine}
        below, fine = len(runs), runs
    assert below <= fanout


@given(frequencies=counted, fanout=st.integers(2, 6))
def test_every_value_is_a_leaf_once_in_its_order(frequencies: dict[Any, int], fanout: int) -> None:
    tree = Taxonomy.balanced(frequencies, fanout=fanout)
    numeric = not isinstance(next(iter(frequencies)), str)
    assert [float(str(leaf)) if numeric else leaf for leaf in tree.leaves] == sorted(frequencies)
    assert tree.derived
    assert len(tree.below[0]) <= max(fanout, 1)
    most = next(h for h in range(99) if fanout**h >= len(frequencies))
    assert 1 <= tree.height[0] <= max(most, 1)
    assert all(len(below) != 1 for below in tree.below[1:])


@given(frequencies=counted, fanout=st.integers(2, 6))
def test_labels_differ_and_name_first_and_last_value(frequencies: dict[Any, int], fanout: int) -> None:
    tree = Taxonomy.balanced(frequencies, fanout=fanout)
    assert len(set(tree.label)) == len(tree.label)
    numeric = not isinstance(next(iter(frequencies)), str)
    for node in range(1, len(tree.label)):
        first, last = tree.leaves[tree.lo[node]], tree.leaves[tree.hi[node]]
        if tree.height[node] > 0:
            assert tree.label[node] == (f"[{first}, {last}]" if numeric else f"{{{first} … {last}}}")


def test_a_frequent_value_is_single_and_rare_values_are_joined() -> None:
    tree = Taxonomy.balanced({"a": 1, "b": 1, "c": 90, "d": 1, "e": 1, "f": 1}, fanout=2)
    left, right = [{"{a … b}": ["a", "b"]}, "c"], ["d", "e", "f"]
    assert tree.to_nested() == {"*": {"{a … c}": left, "{d … f}": right}}


def test_small_trees() -> None:
    assert Taxonomy.balanced({}) == Taxonomy.flat([])
    assert Taxonomy.balanced({"a": 3}).to_nested() == {"*": ["a"]}
    assert Taxonomy.balanced({"b": 3, "a": 1}).to_nested() == {"*": ["a", "b"]}
    assert Taxonomy.balanced({1.5: 0, -2: 0}, fanout=2).to_nested() == {"*": ["-2", "1.5"]}


@pytest.mark.parametrize("fanout", [1, 0, -3, 2.5, True, None])
def test_a_fanout_below_two_is_refused(fanout: Any) -> None:
    with pytest.raises(PolicyError, match="whole number of at least 2"):
        Taxonomy.balanced({"a": 1}, fanout=fanout)


@pytest.mark.parametrize("count", [-1, 0.5, float("nan"), float("inf")])
def test_frequencies_are_counts(count: float) -> None:
    with pytest.raises(DataError, match="frequencies must be whole numbers"):
        Taxonomy.balanced({"a": count})  # type: ignore[dict-item]
