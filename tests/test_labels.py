"""How published values are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.labels import ROOT, cut_text, date_text, number_text, range_text, set_text

INF = float("inf")
numbers = st.floats(allow_nan=False, allow_infinity=False)


def test_the_root_is_a_star() -> None:
    assert ROOT == "*"


@pytest.mark.parametrize(
    ("lo", "hi", "text"),
    [
        (20, 36, "[20, 36]"),
        (20, 20, "20"),
        (-0.0, 0.0, "0"),
        (-3, 0.5, "[-3, 0.5]"),
        (0.1, 0.30000000000000004, "[0.1, 0.30000000000000004]"),
    ],
)
def test_a_tight_range(lo: float, hi: float, text: str) -> None:
    assert range_text(lo, hi) == text


@pytest.mark.parametrize(
    ("lo", "hi", "text"),
    [
        (20, 40, "[20, 40)"),
        (-INF, 20, "(-inf, 20)"),
        (40, INF, "[40, inf)"),
        (-INF, INF, "(-inf, inf)"),
        (0.5, 1, "[0.5, 1)"),
    ],
)
def test_a_cut(lo: float, hi: float, text: str) -> None:
    assert cut_text(lo, hi) == text


def test_dates() -> None:
    day = 86400.0
    assert range_text(0, 31 * day, date_text) == "[1970-01-01, 1970-02-01]"
    assert range_text(day, day, date_text) == "1970-01-02"
    assert cut_text(-INF, 3600, date_text) == "(-inf, 1970-01-01T01:00:00)"


def test_a_set() -> None:
    assert set_text(["b", "a"]) == "{b, a}"
    assert set_text(["a"]) == "a"
    assert set_text(["a", None]) == "{a, ?}"
    assert set_text([None]) is None
    assert set_text(iter(["a", "b"])) == "{a, b}"


@given(numbers, numbers)
def test_ranges_that_differ_are_written_differently(one: float, other: float) -> None:
    lo, hi = sorted((one, other))
    text = range_text(lo, hi)
    if lo == hi:
        assert float(text) == lo
    else:
        left, right = text.strip("[]").split(", ")
        assert (float(left), float(right)) == (lo, hi)
        assert cut_text(lo, hi) == f"[{number_text(lo)}, {number_text(hi)})"
