"""Counted property tests fail where too few of their examples are tested."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.outcomes import Outcome, assert_enough_tested, counted


@pytest.mark.parametrize(
    "outcomes", [{}, {"not met": 9}, {"tested": 1, "not met": 10}, {"tested": 4, "a": 20, "b": 17}]
)
def test_a_small_share_of_tested_examples_fails(outcomes: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match=rf"only {outcomes.get('tested', 0)} of {sum(outcomes.values())} examples"):
        assert_enough_tested(Counter(outcomes))


@pytest.mark.parametrize("outcomes", [{"tested": 1}, {"tested": 1, "not met": 9}, {"tested": 4, "a": 20, "b": 16}])
def test_a_tenth_is_enough(outcomes: dict[str, int]) -> None:
    assert_enough_tested(Counter(outcomes))


none_tested = pytest.mark.xfail(raises=AssertionError, reason="the check after the test fails, as it must", strict=True)


@pytest.mark.parametrize(
    "least", [0, pytest.param(10, marks=none_tested)]
)  # examples of the first do not help the second
@given(number=st.integers(0, 9))
@counted
def test_every_parameter_needs_tested_examples(number: int, least: int) -> Outcome:
    return "too small" if number < least else None
