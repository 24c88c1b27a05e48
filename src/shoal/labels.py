"""How published values are written and read, in one place.

A tight range is ``[20, 36]``, a cut ``[20, 40)``, a set ``{a, b}``, the root ``*``; a single value stands plain. Labels of
other tools are understood too: ``20-40``, ``>=90``, ``<18``, ``4790*``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite

from shoal.engines import date_text, moment_of, number_of, number_text
from shoal.taxonomy import ROOT, cut_text, range_text

__all__ = [
    "ROOT",
    "cut_text",
    "date_text",
    "masked",
    "number_text",
    "range_text",
    "read_range",
    "read_set",
    "set_text",
]

BRACKETS = re.compile(r"[\[(]\s*(?P<lo>.*?)\s*[,;]\s*(?P<hi>.*?)\s*[\])]")
OPEN = re.compile(r"(?P<sign>>=|<=|>|<|≥|≤)\s*(?P<end>.+)|(?P<from>.+?)\s*\+")
DASHES = re.compile(
    r"(?P<lo>[-+]?[\d.]+(?:e[-+]?\d+)?)\s*(?:-|–|\.\.)\s*(?P<hi>[-+]?[\d.]+(?:e[-+]?\d+)?)", re.IGNORECASE
)
PERIOD = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d{2}))?")
DAY = 86400.0
MOST_STEPS = 100_000  # in reading one set


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
    parse = moment_of if dates else number_of
    single = parse(text)
    if single is not None:
        return (single, single) if isfinite(single) else None
    if dates and (period := PERIOD.fullmatch(text)):
        return _period(int(period["year"]), int(period["month"] or 0))
    if found := BRACKETS.fullmatch(text) or (None if dates else DASHES.fullmatch(text)):
        lo, hi = _end(found["lo"], parse), _end(found["hi"], parse)
        return (lo, hi) if lo is not None and hi is not None and lo <= hi else None
    if found := OPEN.fullmatch(text):
        end = parse(found["end"] or found["from"])
        if end is None:
            return None
        return (float("-inf"), end) if (found["sign"] or ">")[0] in "<≤" else (end, float("inf"))
    return None


def _end(text: str, parse: Callable[[str], float | None]) -> float | None:
    return float(text) if text.lower() in ("inf", "-inf", "+inf") else parse(text)


def _period(year: int, month: int) -> tuple[float, float] | None:
    """A month, or a year where the month is 0: from its first moment to the last day."""
    if month > 12:
        return None
    first = moment_of(f"{year:04d}-{month or 1:02d}-01")
    after = (year + (month in (0, 12)), 1 if month in (0, 12) else month + 1)
    last = moment_of(f"{after[0]:04d}-{after[1]:02d}-01")
    return None if first is None or last is None else (first, last - DAY)


def read_set(label: str, known: Sequence[str | None]) -> list[str | None] | None:
    """The values of a set such as ``{a, b}``, which may hold commas themselves; None where it is no set of known values.

    Where a set can be read in several ways, the one with most values is meant: a single value stands without braces. A
    missing value is written ``?``.

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
    commas = [*re.finditer(r",\s*", text)]
    stops = [(m.start(), m.end()) for m in commas] + [(len(text), len(text))]  # where a name may end, the next begin

    def options(begin: int) -> Iterator[tuple[int, str | None]]:
        for stop, following in stops:
            if stop > begin or begin == len(text):
                yield from ((following, v) for v in names.get(text[begin:stop], ()) if v not in chosen)

    # Names are tried from the shortest on, and taken back where the rest cannot be read.
    chosen: list[str | None] = []
    ways = [options(0)]
    for _ in range(MOST_STEPS):
        step = next(ways[-1], None)
        if step is None:
            ways.pop()
            if not ways:
                return None
            chosen.pop()
            continue
        chosen.append(step[1])
        if step[0] == len(text):
            return chosen
        ways.append(options(step[0]))
    return None


def masked(label: str, known: Sequence[str | None]) -> list[int]:
    """The places of the known values that a masked label such as ``4790*`` may stand for.

    >>> masked("47*", ["479", "478", "4790", None])
    [0, 1]
    """
    if "*" not in label:
        return []
    exact = re.compile("".join("." if sign == "*" else re.escape(sign) for sign in label), re.DOTALL)
    places = [i for i, value in enumerate(known) if value is not None and exact.fullmatch(value)]
    if places or not label.endswith("*"):
        return places
    return [i for i, value in enumerate(known) if value is not None and value.startswith(label.rstrip("*"))]
