"""How published values are written."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from shoal.formats.dates import format_date
from shoal.formats.labels import ROOT, format_interval, format_range, format_set, match_mask, read_range, read_set
from shoal.formats.numbers import format_number
from tests.support.case_files import check_lines

INF = float("inf")
numbers = st.floats(allow_nan=False, allow_infinity=False)


def test_the_root_is_a_star() -> None:
    assert ROOT == "*"


def test_a_tight_range() -> None:
    def check(lo: float, hi: float, text: str) -> None:
        assert format_range(lo, hi) == text

    check_lines(Path(__file__).with_name("tight_ranges.jsonl"), check)


def test_a_cut() -> None:
    def check(lo: float | str, hi: float | str, text: str) -> None:
        ends = (float(end) if isinstance(end, str) else end for end in (lo, hi))  # -inf and inf are texts
        assert format_interval(*ends) == text

    check_lines(Path(__file__).with_name("cuts.jsonl"), check)


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


def test_a_range_is_read() -> None:
    def check(label: str, ends: list[float | str] | None) -> None:
        assert read_range(label) == (None if ends is None else (float(ends[0]), float(ends[1])))

    check_lines(Path(__file__).with_name("ranges.jsonl"), check)


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
