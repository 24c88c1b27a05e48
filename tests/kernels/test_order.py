"""Radix sort and keys agree with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import kernels
from tests.support.kernels import compile_inner


@pytest.mark.parametrize("entries", [0, 1, 200])
def test_entries_by_group_are_those_of_a_stable_sort(entries: int) -> None:
    group = np.random.default_rng(entries).integers(-1, 9, entries).astype(np.int32)
    order, start = kernels.order.sort_by_group(group, 10)
    slow = [p for g in range(10) for p in range(entries) if group[p] == g]
    assert order.tolist() == slow
    assert np.diff(start).tolist() == [int((group == g).sum()) for g in range(10)]


def test_groups_in_another_order_keep_their_entries() -> None:
    start = np.array([0, 2, 2, 5, 6])
    order = np.array([2, 0, 3, 1], np.int32)
    entries, begin = kernels.order.reorder_groups(start, order)
    assert entries.tolist() == [2, 3, 4, 0, 1, 5]
    assert begin.tolist() == [0, 3, 5, 6, 6]


def test_totals_leave_out_what_lies_in_no_group() -> None:
    group, weight = np.array([1, -1, 1, 3], np.int32), np.array([5, 7, 1, 2])
    assert kernels.order.sum_by_group(group, weight, 5).tolist() == [0, 6, 0, 2, 0]


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 9)), max_size=50))
def test_pairs_are_sorted_by_their_keys(pairs: list[tuple[int, int]]) -> None:
    keys, values = np.array([k for k, _ in pairs], np.uint64), np.array([v for _, v in pairs], np.int64)
    found = kernels.order.sort_pairs(keys, values)
    assert list(zip(*(part.tolist() for part in found), strict=True)) == sorted(pairs, key=lambda pair: pair[0])


@pytest.mark.parametrize("n", [0, 1, 47, 48, 49, 96, 97, 500])
@pytest.mark.parametrize("distinct", [3, 1000])
def test_items_are_sorted_in_stable_order(n: int, distinct: int) -> None:
    rng = np.random.default_rng(n)
    key = rng.integers(0, distinct, 600)
    items = rng.permutation(600)
    expected = np.concatenate((items[:n][np.argsort(key[items[:n]], kind="stable")], items[n:]))
    compile_inner(kernels.order.sort_items)(items, n, key)
    assert items.tolist() == expected.tolist()
