"""Labels of anonypy: ``20-36`` for numbers, ``a,b,c`` for sets of categories, a single value as itself."""

from __future__ import annotations

from datetime import date
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal

WORDS = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters=',{}*"'), min_size=1, max_size=5)
NUMBERS = st.one_of(st.integers(-1000, 1000), st.floats(-50, 50).map(lambda value: round(value, 2) + 0.0))


def write_range(values: list[Any]) -> str:
    """The label of numbers, as anonypy writes it."""
    lo, hi = min(values), max(values)
    return str(hi) if lo == hi else f"{lo}-{hi}"


def write_list(values: list[str]) -> str:
    """The label of categories, as anonypy writes it."""
    return ",".join(dict.fromkeys(values))


def measure(values: list[Any], labels: list[str], kind: Any) -> dict[str, dict[str, float]]:
    policy = shoal.Policy(quasi={"x": kind}, require=shoal.KAnonymity(1))
    return dict(shoal.measure(pd.DataFrame({"x": values}), pd.DataFrame({"x": labels}), policy).columns["x"])  # type: ignore[arg-type]


def split(values: list[Any], size: int) -> list[list[Any]]:
    return [values[i : i + size] for i in range(0, len(values), size)]


@given(values=st.lists(NUMBERS, min_size=2, max_size=20), size=st.integers(1, 6))
def test_a_range_covers_its_group(values: list[Any], size: int) -> None:
    groups = split(values, size)
    labels = [write_range(group) for group in groups for _ in group]
    brackets = [f"[{min(group)}, {max(group)}]" for group in groups for _ in group]
    assert measure(values, labels, "numeric") == pytest.approx(measure(values, brackets, "numeric"))


@given(values=st.lists(WORDS, min_size=2, max_size=20), size=st.integers(1, 6))
def test_a_set_covers_its_group(values: list[str], size: int) -> None:
    groups = split(values, size)
    labels = [write_list(group) for group in groups for _ in group]
    braces = [f"{{{', '.join(dict.fromkeys(group))}}}" for group in groups for _ in group]
    assert measure(values, labels, "categorical") == pytest.approx(measure(values, braces, "categorical"))


@given(
    values=st.lists(st.dates(date(1900, 1, 1), date(2100, 1, 1)).map(str), min_size=2, max_size=12, unique=True),
    size=st.integers(1, 4),
)
def test_a_set_of_dates_covers_its_group(values: list[str], size: int) -> None:
    groups = split(values, size)
    labels = [write_list(group) for group in groups for _ in group]
    brackets = [f"[{min(group)}, {max(group)}]" for group in groups for _ in group]
    assert measure(values, labels, "date") == pytest.approx(measure(values, brackets, "date"))


def ncp(values: list[Any], label: str, kind: Any = "categorical") -> float:
    return measure(values, [label] * len(values), kind)["ncp"]


def test_a_value_is_never_read_as_a_set_or_a_range() -> None:
    assert ncp(["a,b", "a", "b", "c"], "a,b") == 0
    assert ncp(["20-36", "20", "36", "28"], "20-36") == 0
    assert ncp(["2020-01-02", "2020-01-05"], "2020-01-02", "date") == 0
    assert ncp([-5, 3], "-5", "numeric") == 0
    assert ncp(["a, b", "c", "d"], "a, b,c") == pytest.approx(ncp(["x", "c", "d"], "x,c"))


def test_negative_numbers_and_codes() -> None:
    assert ncp([-10, -5, 0, 10], "-10--5", "numeric") == 0.25
    assert ncp([-10, -5, 0, 10], "-10-10", "numeric") == 1
    assert ncp(["47901", "47902", "47905", "50000"], "47901-47905") == pytest.approx(ncp(list("abcd"), "a,b,c"))
    assert ncp(["a", None, "b", "c"], "nan,a") == pytest.approx(ncp(list("abcd"), "a,b"))


@pytest.mark.parametrize(("values", "kind"), [([1, 234], "numeric"), (["a", "b"], "categorical")])
def test_other_texts_are_refused(values: list[Any], kind: str) -> None:
    for label in ("a,z", "1,235", "a-b", ",", "a,"):
        with pytest.raises(shoal.DataError, match="cannot be read"):
            ncp(values, label, kind)
