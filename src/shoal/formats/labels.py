"""Text of published labels: writing and reading in one place.

A tight range is ``[20, 36]``, a cut ``[20, 40)``, a set ``{a, b}``, a branch ``{clerk … nurse}``, the root ``*``; a single
value is written as itself. Labels of other tools are read too: ``20-40``, ``>=90``, ``<18``, ``4790*``. A label may come from
anybody, so reading takes time linear in its length: plain string operations, no regular expression that backtracks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from typing import Any

from shoal.formats.dates import parse_date
from shoal.formats.numbers import format_number, parse_number

ROOT = "*"
PERIOD = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d{2}))?")
SIGNS = {">=": ">", "≥": ">", ">": ">", "<=": "<", "≤": "<", "<": "<"}  # the longer sign first
SEPARATORS = ("–", "..", "-")  # between two numbers
MOST_MARKS = 5  # dashes or points in a range of two numbers: the separator, and those of the numbers themselves
DAY = 86400.0
STEPS = 30  # characters compared in reading a set, for each of its own, at most
SPARE = 100_000  # more of them, so that short sets can be tried in many ways
LOOK = 10  # characters that one look into a dictionary counts for


def range_text(lo: float, hi: float, text: Callable[[float], str] = format_number) -> str:
    """A tight range, both ends taken by records.

    >>> range_text(20, 36), range_text(20, 20)
    ('[20, 36]', '20')
    """
    return text(lo) if lo == hi else f"[{text(lo)}, {text(hi)}]"


def ends_text(lo: str | None, hi: str | None) -> str | None:
    """A range by the texts of its ends, as two published columns have them; without ends it is the root.

    >>> ends_text("20", "36"), ends_text("20", "20"), ends_text(None, None)
    ('[20, 36]', '20', '*')
    """
    if lo is None and hi is None:
        return ROOT
    return lo if lo == hi else f"[{lo}, {hi}]"


def branch_text(first: Any, last: Any) -> str:
    """A branch of neighbouring values, by the first and the last of them.

    >>> branch_text(20.0, 36.0), branch_text("clerk", "nurse")
    ('[20, 36]', '{clerk … nurse}')
    """
    return f"{{{first} … {last}}}" if isinstance(first, str) else range_text(first, last)


def cut_text(lo: float, hi: float, text: Callable[[float], str] = format_number) -> str:
    """An interval of a cut, without its upper end; an end at infinity is open.

    >>> cut_text(20, 40), cut_text(float("-inf"), 20), cut_text(40, float("inf"))
    ('[20, 40)', '(-inf, 20)', '[40, inf)')
    """
    left = "(-inf" if lo == float("-inf") else f"[{text(lo)}"
    return f"{left}, {'inf' if hi == float('inf') else text(hi)})"


def set_text(values: Iterable[str | None]) -> str | None:
    """A set of values; a single one stands plain.

    >>> set_text(["b", "a"]), set_text(["a"])
    ('{b, a}', 'a')
    """
    listed = list(values)
    if len(listed) == 1:
        return listed[0]
    return "{" + ", ".join("?" if v is None else v for v in listed) + "}"


def read_range(label: str, *, dates: bool = False) -> tuple[float, float] | None:
    """The two ends that a label of numbers (or dates, in seconds since 1970-01-01) names; an open end is infinite.

    >>> read_range("[20, 40)"), read_range("20-40"), read_range("36"), read_range(">=90"), read_range("young")
    ((20.0, 40.0), (20.0, 40.0), (36.0, 36.0), (90.0, inf), None)
    """
    text = label.strip()
    parse = parse_date if dates else parse_number
    single = parse(text)
    if single is not None:
        return (single, single) if isfinite(single) else None
    if dates and (period := PERIOD.fullmatch(text)):
        return _period(int(period["year"]), int(period["month"] or 0))
    ends = _in_brackets(text)
    if ends is not None:
        lo, hi = (_end(end, parse) for end in ends)
        return (lo, hi) if lo is not None and hi is not None and lo <= hi else None
    return _open_range(text, parse) or (None if dates else _dashed_range(text))


def read_ranges(label: str, *, dates: bool = False) -> tuple[float, float] | None:
    """The smallest and the largest end of a range, or of all members of a set such as ``{20, 36}``.

    >>> read_ranges("{20, 36, 28}"), read_ranges("[20, 36]"), read_ranges("{20, young}")
    ((20.0, 36.0), (20.0, 36.0), None)
    """
    members = label[1:-1].split(",") if label.startswith("{") and label.endswith("}") else [label]
    ends = [read_range(member, dates=dates) for member in members]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends):
        return None
    return min(lo for lo, _ in known), max(hi for _, hi in known)


def is_half_open(label: str) -> bool:
    """Whether a range is written without its upper end, as ``[20, 40)``."""
    return label.strip().endswith(")")


def read_branch(label: str) -> tuple[str, str] | None:
    """The first and the last value of a branch such as ``{clerk … nurse}``; None for other labels.

    >>> read_branch("{clerk … nurse}"), read_branch("{clerk, nurse}")
    (('clerk', 'nurse'), None)
    """
    first, sign, last = label[1:-1].partition(" … ")
    return (first, last) if sign and label.startswith("{") and label.endswith("}") else None


def _in_brackets(text: str) -> tuple[str, str] | None:
    """The two texts in brackets, separated by the first comma or semicolon."""
    if text[:1] not in ("[", "(") or text[-1:] not in ("]", ")"):
        return None
    place = min((place for place in map(text.find, ",;") if place > 0), default=None)
    return None if place is None else (text[1:place].strip(), text[place + 1 : -1].strip())


def _open_range(text: str, parse: Callable[[str], float | None]) -> tuple[float, float] | None:
    """A range with one end, such as ``>=90`` or ``90+``."""
    sign = next((sign for sign in SIGNS if text.startswith(sign)), None)
    if sign is None and not text.endswith("+"):
        return None
    end = parse(text[:-1].strip() if sign is None else text[len(sign) :].strip())
    if end is None or not isfinite(end):
        return None
    return (float("-inf"), end) if sign and SIGNS[sign] == "<" else (end, float("inf"))


def _dashed_range(text: str) -> tuple[float, float] | None:
    """Two numbers with a separator between them. The number of attempts is bounded, and each takes linear time."""
    for separator in SEPARATORS:
        place = text.rfind(separator) if text.count(separator[0]) <= MOST_MARKS else -1
        while place > 0:
            lo, hi = parse_number(text[:place]), parse_number(text[place + len(separator) :])
            if lo is not None and hi is not None and isfinite(lo) and isfinite(hi):
                return (lo, hi) if lo <= hi else None
            place = text.rfind(separator, 0, place + len(separator) - 1)
    return None


def _end(text: str, parse: Callable[[str], float | None]) -> float | None:
    return float(text) if text.lower() in ("inf", "-inf", "+inf") else parse(text)


def _period(year: int, month: int) -> tuple[float, float] | None:
    """A month, or a year where the month is 0: from its first moment to the last day."""
    if month > 12:
        return None
    first = parse_date(f"{year:04d}-{month or 1:02d}-01")
    after = (year + (month in (0, 12)), 1 if month in (0, 12) else month + 1)
    last = parse_date(f"{after[0]:04d}-{after[1]:02d}-01")
    return None if first is None or last is None else (first, last - DAY)


def read_set(label: str, known: Sequence[str | None]) -> list[str | None] | None:
    """The values of a set such as ``{a, b}``, which may hold commas themselves; None where it is no set of known values.

    Where a set can be read in several ways, the one with most values is meant: a single value stands without braces. A
    missing value is written ``?``. The work is bounded by the length of the label; None where that does not suffice.

    >>> read_set("{a, b, c}", ["a", "b, c"]), read_set("{a, b}", ["a", "b", "a, b"])
    (['a', 'b, c'], ['a', 'b'])
    """
    text = label.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    text = text[1:-1].strip()
    names: dict[str, list[str | None]] = {}
    for value in known:
        names.setdefault("?" if value is None else value, []).append(value)
    inside = max((name.count(",") for name in names), default=0)  # commas that one name may hold
    if text.count(",") > sum(name.count(",") + 1 for name in names):
        return None  # more commas than all known values have together, and none occurs twice
    # A name may end at a comma, and the next one begins behind it.
    commas = [*re.finditer(r",\s*", text)]
    ends = [*(comma.start() for comma in commas), len(text)]
    begins = [0, *(comma.end() for comma in commas)]
    left = STEPS * len(text) + SPARE

    def options(first: int) -> Iterator[tuple[int, str | None]]:
        """The names that begin at a place, the shortest first, each with the place behind it."""
        nonlocal left
        for last in range(first, min(first + inside + 1, len(ends))):
            left -= ends[last] - begins[first] + LOOK
            if left < 0:
                return
            name = text[begins[first] : ends[last]]
            yield from ((last + 1, v) for v in names.get(name, ()) if v not in chosen)

    # Names are tried from the shortest on, and taken back where the rest cannot be read.
    chosen: dict[str | None, None] = {}
    ways = [options(0)]
    while ways and left >= 0:
        step = next(ways[-1], None)
        if step is None:
            ways.pop()
            if chosen:
                chosen.popitem()
            continue
        chosen[step[1]] = None
        if step[0] == len(ends):
            return list(chosen)
        ways.append(options(step[0]))
    return None


def masked(label: str, known: Sequence[str | None]) -> list[int]:
    """The places of the known values that a masked label such as ``4790*`` may stand for.

    >>> masked("47*", ["479", "478", "4790", None])
    [0, 1]
    """
    if "*" not in label:
        return []
    fixed = [(i, sign) for i, sign in enumerate(label) if sign != "*"]
    alike = [(place, value) for place, value in enumerate(known) if value is not None and len(value) == len(label)]
    places = [place for place, value in alike if all(value[i] == sign for i, sign in fixed)]
    if places or not label.endswith("*"):
        return places
    return [i for i, value in enumerate(known) if value is not None and value.startswith(label.rstrip("*"))]
