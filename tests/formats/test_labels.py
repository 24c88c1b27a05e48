"""How published values are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.formats.dates import format_date
from shoal.formats.labels import ROOT, format_interval, format_range, format_set, match_mask, read_range, read_set
from shoal.formats.numbers import format_number

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
    assert format_range(lo, hi) == text


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
    assert format_interval(lo, hi) == text


def test_dates() -> None:
    day = 86400.0
    assert format_range(0, 31 * day, format_date) == "[1970-01-01, 1970-02-01]"
    assert format_range(day, day, format_date) == "1970-01-02"
    assert format_interval(-INF, 3600, format_date) == "(-inf, 1970-01-01T01:00:00)"


def test_a_set() -> None:
    assert format_set(["b", "a"]) == "{b, a}"
    assert format_set(["a"]) == "a"
    assert format_set(["a", None]) == "{a, ?}"
    assert format_set([None]) is None
    assert format_set(iter(["a", "b"])) == "{a, b}"


@given(numbers, numbers)
def test_ranges_that_differ_are_written_differently(one: float, other: float) -> None:
    lo, hi = sorted((one, other))
    text = format_range(lo, hi)
    if lo == hi:
        assert float(text) == lo
    else:
        left, right = text.strip("[]").split(", ")
        assert (float(left), float(right)) == (lo, hi)
        assert format_interval(lo, hi) == f"[{format_number(lo)}, {format_number(hi)})"


@pytest.mark.parametrize(
    ("label", "ends"),
    [
        ("36", (36, 36)),
        (" [20, 36] ", (20, 36)),
        ("( 20 ;36 ]", (20, 36)),
        ("(-inf, 20)", (-INF, 20)),
        ("[40, INF)", (40, INF)),
        ("20-40", (20, 40)),
        ("20 – 40", (20, 40)),
        ("1.5..2.5", (1.5, 2.5)),
        ("1...5", (1, 5)),
        ("-20--5", (-20, -5)),
        ("-1e-3--1E-4", (-1e-3, -1e-4)),
        ("1e-5-2", (1e-5, 2)),
        (">=90", (90, INF)),
        ("> 90", (90, INF)),
        ("≤18", (-INF, 18)),
        ("<18", (-INF, 18)),
        ("90+", (90, INF)),
        ("90 +", (90, INF)),
        *(
            (label, None)
            for label in ("", "[", "]", "[]", "[,]", "[1,]", "(1 2)", "[2, 1]", "40-20", "1-2-3", "+", ">")
        ),
        *(
            (label, None)
            for label in ("young", "nan", "inf", "[nan, 1]", ">=nan", ">inf", "inf-inf", "1_0-2_0", "-", "..")
        ),
    ],
)
def test_a_range_is_read(label: str, ends: tuple[float, float] | None) -> None:
    assert read_range(label) == ends


@given(numbers, numbers, st.sampled_from(["[{}, {}]", "({};{})", "{}-{}", "{} – {}", "{} .. {}"]))
def test_a_range_is_read_as_it_is_written(one: float, other: float, form: str) -> None:
    lo, hi = sorted((one, other))
    assert read_range(form.format(lo, hi)) == (lo, hi)


def test_a_set_is_read() -> None:
    known = ["a", "b", "a, b", "b, c, d", None, "?", "x,y", "x, y"]
    assert read_set("{a, b}", known) == ["a", "b"]
    assert read_set(" { a,b } ", known) == ["a", "b"]
    assert read_set("{a, b, c, d}", known) == ["a", "b, c, d"]
    assert read_set("{b, a, b}", known) == ["b", "a, b"]
    assert read_set("{x,y, x, y}", known) == ["x,y", "x, y"]
    assert read_set("{?, ?}", known) == [None, "?"]
    for label in ("{}", "{a", "a}", "{a, a}", "{c}", "{a,, b}", "{,}", "a, b"):
        assert read_set(label, known) is None, label


words = st.text("ab,? ", min_size=1, max_size=5).filter(lambda word: word == word.strip() and word not in ("?", ","))


@given(st.lists(words, min_size=2, max_size=12, unique=True), st.data())
def test_a_set_is_read_as_values_that_are_written_alike(known: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(known), min_size=2, unique=True))
    label = format_set(chosen)
    assert label is not None
    found = read_set(label, known)
    assert found is not None and len(found) >= 2
    assert "".join(str(format_set(found)).split()) == "".join(label.split())


def test_a_large_set_is_read() -> None:
    known = [f"value {i}, or so" for i in range(20_000)]
    assert read_set(str(format_set(known)), known) == known


def test_a_mask_is_read() -> None:
    known = ["479", "478", "4790", None, "a.c", "abc"]
    assert match_mask("47*", known) == [0, 1]
    assert match_mask("***", known) == [0, 1, 4, 5]
    assert match_mask("*7*", known) == [0, 1]
    assert match_mask("a.*", known) == [4]
    assert match_mask("4*****", known) == [0, 1, 2]
    assert match_mask("479", known) == []
    assert match_mask("*8", known) == []
