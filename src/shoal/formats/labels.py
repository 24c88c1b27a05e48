"""Format and parse published labels.

A tight range is ``[20, 36]``, a half-open interval ``[20, 40)``, a set ``{a, b}``, a branch ``{clerk … nurse}``, a run of nodes
``1966 – 1983``, the root ``*``; a single value is written as itself. Labels of other tools are parsed too: ``20-40``, ``>=90``,
``<18``, ``4790*``.
Labels may be untrusted input, so parsing takes time linear in their length and uses no regular expression that backtracks.
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
RUN_SEPARATORS = (
    " – ",
    " -- ",
)  # between the ends of a run; the first is written, the second is for encodings without it
SEPARATORS = ("–", "..", "-")  # between two numbers
MOST_MARKS = 5  # dashes or points in a range of two numbers: in the separator and in the numbers
DAY = 86400.0
# The work to parse a set is bounded: at most STEPS comparisons of a character per character of the label, and SPARE more for
# short labels. A dictionary lookup counts as LOOKUP comparisons.
STEPS, SPARE, LOOKUP = 30, 100_000, 10


def format_range(lo: float, hi: float, text: Callable[[float], str] = format_number) -> str:
    """Format a tight range: both ends are values of records.

    >>> format_range(20, 36), format_range(20, 20)
    ('[20, 36]', '20')
    """
    return text(lo) if lo == hi else f"[{text(lo)}, {text(hi)}]"


def format_ends(lo: str | None, hi: str | None) -> str | None:
    """Format a range from the texts of its ends, which two columns publish; without ends the result is the root.

    >>> format_ends("20", "36"), format_ends("20", "20"), format_ends(None, None)
    ('[20, 36]', '20', '*')
    """
    if lo is None and hi is None:
        return ROOT
    return lo if lo == hi else f"[{lo}, {hi}]"


def format_branch(first: Any, last: Any) -> str:
    """Format a branch of neighbouring values by its first and last value.

    >>> format_branch(20.0, 36.0), format_branch("clerk", "nurse")
    ('[20, 36]', '{clerk … nurse}')
    """
    return f"{{{first} … {last}}}" if isinstance(first, str) else format_range(first, last)


def format_interval(lo: float, hi: float, text: Callable[[float], str] = format_number) -> str:
    """Format a half-open interval, without its upper end; an infinite end is open.

    >>> format_interval(20, 40), format_interval(float("-inf"), 20), format_interval(40, float("inf"))
    ('[20, 40)', '(-inf, 20)', '[40, inf)')
    """
    left = "(-inf" if lo == float("-inf") else f"[{text(lo)}"
    return f"{left}, {'inf' if hi == float('inf') else text(hi)})"


def format_run(first: str, last: str) -> str:
    """Format a run of nodes of an ordered taxonomy.

    >>> format_run("1966", "1983")
    '1966 – 1983'
    """
    return f"{first}{RUN_SEPARATORS[0]}{last}"


def join_intervals(first: str, last: str) -> str:
    """Join intervals or numbers, given as texts, from the first to the last.

    >>> join_intervals("[20, 25)", "[35, 40)"), join_intervals("38", "[40, 70]"), join_intervals("(-inf, 18)", "[18, 30)")
    ('[20, 40)', '[38, 70]', '(-inf, 30)')
    """
    low = first.partition(", ")[0] if first[0] in "[(" else f"[{first}"
    high = last.partition(", ")[2] if last[0] in "[(" else f"{last}]"
    return f"{low}, {high}"


def read_run(label: str) -> tuple[str, str] | None:
    """Parse the first and the last node of a run; None for other labels.

    >>> read_run("1966 – 1983"), read_run("1966 -- 1983"), read_run("20-40")
    (('1966', '1983'), ('1966', '1983'), None)
    """
    for separator in RUN_SEPARATORS:
        first, found, last = label.partition(separator)
        if found:
            return first, last
    return None


def format_set(values: Iterable[str | None]) -> str | None:
    """Format a set of values; a set of one value is the value itself.

    >>> format_set(["b", "a"]), format_set(["a"])
    ('{b, a}', 'a')
    """
    listed = list(values)
    if len(listed) == 1:
        return listed[0]
    return "{" + ", ".join("?" if v is None else v for v in listed) + "}"


def read_range(label: str, *, dates: bool = False) -> tuple[float, float] | None:
    """Parse the two ends of a range of numbers (or dates, in seconds since 1970-01-01); an open end is infinite.

    >>> read_range("[20, 40)"), read_range("20-40"), read_range("36"), read_range(">=90"), read_range("young")
    ((20.0, 40.0), (20.0, 40.0), (36.0, 36.0), (90.0, inf), None)
    """
    text = label.strip()
    parse = parse_date if dates else parse_number
    single = parse(text)
    if single is not None:
        return (single, single) if isfinite(single) else None
    if dates and (period := PERIOD.fullmatch(text)):
        return _period_ends(int(period["year"]), int(period["month"] or 0))
    ends = _split_brackets(text)
    if ends is not None:
        lo, hi = (_parse_end(end, parse) for end in ends)
        return (lo, hi) if lo is not None and hi is not None and lo <= hi else None
    return _parse_open_range(text, parse) or (None if dates else _parse_dashed_range(text))


def read_ranges(label: str, *, dates: bool = False) -> tuple[float, float] | None:
    """Parse the smallest and the largest end of a range, or of all members of a set such as ``{20, 36}``.

    >>> read_ranges("{20, 36, 28}"), read_ranges("[20, 36]"), read_ranges("{20, young}")
    ((20.0, 36.0), (20.0, 36.0), None)
    """
    members = label[1:-1].split(",") if label.startswith("{") and label.endswith("}") else [label]
    ends = [read_range(member, dates=dates) for member in members]
    valid = [end for end in ends if end is not None]
    if len(valid) < len(ends):
        return None
    return min(lo for lo, _ in valid), max(hi for _, hi in valid)


def is_half_open(label: str) -> bool:
    """Whether a range excludes its upper end, as ``[20, 40)``."""
    return label.strip().endswith(")")


def read_branch(label: str) -> tuple[str, str] | None:
    """Parse the first and the last value of a branch such as ``{clerk … nurse}``; None for other labels.

    >>> read_branch("{clerk … nurse}"), read_branch("{clerk, nurse}")
    (('clerk', 'nurse'), None)
    """
    first, separator, last = label[1:-1].partition(" … ")
    return (first, last) if separator and label.startswith("{") and label.endswith("}") else None


def _split_brackets(text: str) -> tuple[str, str] | None:
    """Split a text in brackets at the first comma or semicolon."""
    if text[:1] not in ("[", "(") or text[-1:] not in ("]", ")"):
        return None
    place = min((place for place in map(text.find, ",;") if place > 0), default=None)
    return None if place is None else (text[1:place].strip(), text[place + 1 : -1].strip())


def _parse_open_range(text: str, parse: Callable[[str], float | None]) -> tuple[float, float] | None:
    """Parse a range with one end, such as ``>=90`` or ``90+``."""
    sign = next((sign for sign in SIGNS if text.startswith(sign)), None)
    if sign is None and not text.endswith("+"):
        return None
    end = parse(text[:-1].strip() if sign is None else text[len(sign) :].strip())
    if end is None or not isfinite(end):
        return None
    return (float("-inf"), end) if sign and SIGNS[sign] == "<" else (end, float("inf"))


def _parse_dashed_range(text: str) -> tuple[float, float] | None:
    """Parse two numbers with a separator. The number of attempts is bounded, and each takes linear time."""
    for separator in SEPARATORS:
        place = text.rfind(separator) if text.count(separator[0]) <= MOST_MARKS else -1
        while place > 0:
            lo, hi = parse_number(text[:place]), parse_number(text[place + len(separator) :])
            if lo is not None and hi is not None and isfinite(lo) and isfinite(hi):
                return (lo, hi) if lo <= hi else None
            place = text.rfind(separator, 0, place + len(separator) - 1)
    return None


def _parse_end(text: str, parse: Callable[[str], float | None]) -> float | None:
    return float(text) if text.lower() in ("inf", "-inf", "+inf") else parse(text)


def _period_ends(year: int, month: int) -> tuple[float, float] | None:
    """The first and the last day of a month, or of a year if the month is 0."""
    if month > 12:
        return None
    first = parse_date(f"{year:04d}-{month or 1:02d}-01")
    after = (year + (month in (0, 12)), 1 if month in (0, 12) else month + 1)
    last = parse_date(f"{after[0]:04d}-{after[1]:02d}-01")
    return None if first is None or last is None else (first, last - DAY)


def read_set(label: str, known: Sequence[str | None]) -> list[str | None] | None:
    """Parse the values of a set such as ``{a, b}``; None if the label is not a set of known values.

    Values may contain commas. If a label can be parsed in several ways, the result has the most values, because a single value
    has no braces. A missing value is written ``?``. The work is bounded by the length of the label; None beyond the bound.

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
    inside = max((name.count(",") for name in names), default=0)  # commas that one name may contain
    if text.count(",") > sum(name.count(",") + 1 for name in names):
        return None  # more commas than in a set of all known values
    # A name may end at every comma; the next name begins after the comma.
    commas = [*re.finditer(r",\s*", text)]
    ends = [*(comma.start() for comma in commas), len(text)]
    begins = [0, *(comma.end() for comma in commas)]
    left = STEPS * len(text) + SPARE

    def options(first: int) -> Iterator[tuple[int, str | None]]:
        """The names that begin at a position, the shortest first, each with the position after it."""
        nonlocal left
        for last in range(first, min(first + inside + 1, len(ends))):
            left -= ends[last] - begins[first] + LOOKUP
            if left < 0:
                return
            name = text[begins[first] : ends[last]]
            yield from ((last + 1, v) for v in names.get(name, ()) if v not in chosen)

    # Backtracking: try the shortest name first and drop it if the rest cannot be parsed.
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


def match_mask(label: str, known: Sequence[str | None]) -> list[int]:
    """The positions of the known values that a masked label such as ``4790*`` covers.

    >>> match_mask("47*", ["479", "478", "4790", None])
    [0, 1]
    """
    if "*" not in label:
        return []
    fixed = [(i, char) for i, char in enumerate(label) if char != "*"]
    as_long = [(code, value) for code, value in enumerate(known) if value is not None and len(value) == len(label)]
    codes = [code for code, value in as_long if all(value[i] == char for i, char in fixed)]
    if codes or not label.endswith("*"):
        return codes
    return [i for i, value in enumerate(known) if value is not None and value.startswith(label.rstrip("*"))]
