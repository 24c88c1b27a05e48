"""Makers of trees: rules that give every value its way up, so that later values find theirs too.

A mask, the parts of a date and intervals of numbers know the way of a value from the value alone. A balanced tree knows the
order of its leaves, and a later value stands between its neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import inf, isfinite
from typing import Any, ClassVar

import numpy as np

from shoal.errors import DataError, PolicyError, list_choices
from shoal.formats.labels import cut_text
from shoal.formats.numbers import format_number
from shoal.taxonomy.tree import Taxonomy

LONGEST = 100  # characters of a value that can be masked
PARTS = ("day", "week", "month", "quarter", "year", "decade")
SIDES = ("right", "left")


class TreeBuilder(ABC):
    """A rule that makes a tree. ``word`` is the key by which policies and recodings name it."""

    word: ClassVar[str]

    @abstractmethod
    def path(self, value: Any) -> list[str]:
        """The leaf of a value and, as far as the value alone tells them, the nodes above it, without the root."""

    @abstractmethod
    def key(self, leaf: str) -> Any:
        """By what leaves are sorted."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `parse_tree_builder` reads them."""

    def tree(self, paths: Sequence[Sequence[str]], counts: Sequence[int], *, column: str) -> Taxonomy:
        """The tree over the paths of the values of a column, each with how often it occurs."""
        rows = {path[0]: path for path in paths}
        ordered = [rows[leaf] for leaf in sorted(rows, key=self.key)]
        return Taxonomy.from_paths(ordered, made=True) if ordered else Taxonomy.flat([])


@dataclass(frozen=True)
class Mask(TreeBuilder):
    """Codes with more and more of them masked, from the right or from the left.

    >>> Mask("right").path("479")
    ['479', '47*', '4**']
    """

    side: str

    word: ClassVar[str] = "mask"

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise PolicyError(f"a mask covers one side; {list_choices(self.side, SIDES)}")

    def path(self, value: Any) -> list[str]:
        """The code itself, then with one more character masked each time; one that is too long has itself alone."""
        text = str(value)
        size = len(text) if len(text) <= LONGEST else 0
        if self.side == "right":
            return [text[: len(text) - i] + "*" * i for i in range(max(size, 1))]
        return ["*" * i + text[i:] for i in range(max(size, 1))]

    def key(self, leaf: str) -> tuple[int, str]:
        """Shorter codes first, then by the end that is masked last."""
        return len(leaf), leaf[::-1] if self.side == "left" else leaf

    def tree(self, paths: Sequence[Sequence[str]], counts: Sequence[int], *, column: str) -> Taxonomy:
        """The tree over these codes; a table that was masked before has none."""
        long = sum(len(path[0]) > LONGEST for path in paths)
        if long:
            raise DataError(
                f"column {column!r} holds {long} values of more than {LONGEST} characters, too long to mask"
            )
        try:
            return super().tree(paths, counts, column=column)
        except DataError as error:
            raise DataError(f"column {column!r} holds values that are masked already: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """As a policy says it."""
        return {self.word: self.side}


@dataclass(frozen=True)
class DateParts(TreeBuilder):
    """Dates, given in seconds since 1970-01-01, in coarser and coarser parts.

    >>> DateParts(("day", "month", "year", "decade")).path(486259200.0)
    ['1985-05-30', '1985-05', '1985', '1980s']
    """

    parts: tuple[str, ...]

    word: ClassVar[str] = "date"

    def __post_init__(self) -> None:
        places = [PARTS.index(p) for p in self.parts if p in PARTS]
        if len(places) < len(self.parts) or not places or places != sorted(set(places)):
            raise PolicyError(f"'date' lists parts from fine to coarse, out of {', '.join(PARTS)}")
        if "week" in self.parts and {"month", "quarter"} & set(self.parts):
            raise PolicyError("weeks do not nest in months or quarters; leave one of them out of 'date'")

    def path(self, value: Any) -> list[str]:
        """The finest part first. Years and decades above weeks are those of the week, so that they nest."""
        day = np.datetime64(int(float(value) // 86400), "D")
        text = str(day)
        if not 1 <= int(text[:-6]) <= 9999:
            raise DataError(f"the date {text} has a year beyond 1 to 9999; mend it or leave it empty")
        year, month = text[:-6], text[:-3]
        iso = day.astype(object).isocalendar()
        write = {
            "day": text,
            "week": f"{iso[0]}-W{iso[1]:02d}",
            "month": month,
            "quarter": f"{year}-Q{(int(month[-2:]) + 2) // 3}",
            # a week may reach into the next year, so that the year of weeks is told from the calendar's
            "year": f"{iso[0]}-W*" if "week" in self.parts else year,
            "decade": f"{iso[0] // 10 * 10}s-W*" if "week" in self.parts else f"{int(year) // 10 * 10}s",
        }
        return [write[part] for part in self.parts]

    def key(self, leaf: str) -> str:
        """By the text, which begins with the year."""
        return leaf

    def to_dict(self) -> dict[str, Any]:
        """As a policy says it."""
        return {self.word: list(self.parts)}


class Intervals(TreeBuilder):
    """Numbers under intervals that nest, from fine to coarse; the leaf is the number itself."""

    @abstractmethod
    def above(self, value: float) -> list[str]:
        """The intervals that hold a number."""

    def path(self, value: Any) -> list[str]:
        """The number, then its intervals."""
        return [format_number(value), *self.above(float(value))]

    def key(self, leaf: str) -> float:
        """By value."""
        return float(leaf)


@dataclass(frozen=True)
class Widths(Intervals):
    """Intervals of fixed widths that begin at ``origin`` and its multiples; each width is a multiple of the one before.

    Ends are counted exactly, as decimals: 0.3 lies in [0.3, 0.4), whatever 0.1 is as a binary number.

    >>> Widths((5, 10, 20)).path(23)
    ['23', '[20, 25)', '[20, 30)', '[20, 40)']
    """

    widths: tuple[float, ...]
    origin: float = 0.0

    word: ClassVar[str] = "widths"

    def __post_init__(self) -> None:
        if not self.widths or not all(isfinite(w) and w > 0 for w in self.widths):
            raise PolicyError(f"'widths' lists positive numbers from fine to coarse, not {_listed(self.widths)}")
        if not isfinite(self.origin):
            raise PolicyError(f"'origin' is a number at which an interval begins, not {self.origin}")
        for fine, coarse in pairwise(self.widths):
            times = _exact(coarse) / _exact(fine)
            if times.denominator > 1 or times < 2:
                raise PolicyError(
                    f"'widths' must nest: {format_number(coarse)} is no multiple of {format_number(fine)}, the width before it"
                )

    @cached_property
    def _steps(self) -> tuple[Fraction, Fraction, list[int]]:
        """The origin, the finest width, and how often it goes into each width."""
        finest = _exact(self.widths[0])
        return _exact(self.origin), finest, [int(_exact(w) / finest) for w in self.widths]

    def above(self, value: float) -> list[str]:
        """The interval of each width."""
        origin, finest, steps = self._steps
        place = (_exact(value) - origin) // finest
        begins = [(place // n * n, n) for n in steps]
        return [cut_text(float(origin + b * finest), float(origin + (b + n) * finest)) for b, n in begins]

    def to_dict(self) -> dict[str, Any]:
        """As a policy says it."""
        return {self.word: list(self.widths), "origin": self.origin}


@dataclass(frozen=True)
class Boundaries(Intervals):
    """Intervals between given boundaries, open below the first and above the last; each list is part of the one before.

    >>> Boundaries(((18, 30, 65), (18, 65))).path(23), Boundaries(((18,),)).path(70)
    (['23', '[18, 30)', '[18, 65)'], ['70', '[18, inf)'])
    """

    levels: tuple[tuple[float, ...], ...]

    word: ClassVar[str] = "boundaries"

    def __post_init__(self) -> None:
        for ends in self.levels or ((),):
            if not ends or not all(map(isfinite, ends)) or any(a >= b for a, b in pairwise(ends)):
                raise PolicyError(f"'boundaries' lists numbers in ascending order, not {_listed(ends)}")
        for fine, coarse in pairwise(self.levels):
            if not set(coarse) < set(fine):
                raise PolicyError(
                    f"'boundaries' must nest: {_listed(coarse)} is no smaller part of {_listed(fine)}, the list before it"
                )

    def above(self, value: float) -> list[str]:
        """The interval of each list."""
        found = []
        for ends in self.levels:
            place = bisect_right(ends, value)
            found.append(cut_text(ends[place - 1] if place else -inf, ends[place] if place < len(ends) else inf))
        return found

    def to_dict(self) -> dict[str, Any]:
        """As a policy says it."""
        return {self.word: [list(ends) for ends in self.levels]}


@dataclass(frozen=True)
class Balanced(TreeBuilder):
    """A balanced tree over the values that occur (see `Taxonomy.balanced`), which are numbers or texts.

    >>> Balanced(2, numeric=True).path(20.0), Balanced(2).path("clerk")
    (['20'], ['clerk'])
    """

    fanout: int
    numeric: bool = False

    word: ClassVar[str] = "balanced"

    def __post_init__(self) -> None:
        if isinstance(self.fanout, bool) or not isinstance(self.fanout, int) or self.fanout < 2:
            raise PolicyError(f"'balanced' is a fanout, a whole number from 2 up, not {self.fanout!r}")

    def path(self, value: Any) -> list[str]:
        """The value alone: what stands above it depends on the others."""
        return [format_number(value) if self.numeric else str(value)]

    def key(self, leaf: str) -> Any:
        """By value, or by letters."""
        return float(leaf) if self.numeric else leaf

    def tree(self, paths: Sequence[Sequence[str]], counts: Sequence[int], *, column: str) -> Taxonomy:
        """The tree over these values."""
        pairs = zip(paths, counts, strict=True)
        return Taxonomy.balanced({self.key(path[0]): int(count) for path, count in pairs}, fanout=self.fanout)

    def to_dict(self) -> dict[str, Any]:
        """As a policy says it, and the kind of the values."""
        return {self.word: self.fanout, "numeric": self.numeric}


_READ: dict[str, Callable[[Mapping[str, Any]], TreeBuilder]] = {
    Mask.word: lambda found: Mask(found["mask"]),
    DateParts.word: lambda found: DateParts(tuple(found["date"])),
    Widths.word: lambda found: Widths(tuple(found["widths"]), found["origin"]),
    Boundaries.word: lambda found: Boundaries(tuple(map(tuple, found["boundaries"]))),
    Balanced.word: lambda found: Balanced(found["balanced"], found["numeric"]),
}
WORDS = tuple(_READ)


def parse_tree_builder(found: Mapping[str, Any]) -> TreeBuilder | None:
    """The maker that plain values name by its word; None where they name none.

    >>> parse_tree_builder({"mask": "right"}), parse_tree_builder({})
    (Mask(side='right'), None)
    """
    return next((read(found) for word, read in _READ.items() if found.get(word) is not None), None)


def _exact(number: float) -> Fraction:
    """A number as the decimal by which it is written."""
    return Fraction(repr(float(number)))


def _listed(numbers: Sequence[float]) -> str:
    return f"[{', '.join(map(format_number, numbers))}]"
