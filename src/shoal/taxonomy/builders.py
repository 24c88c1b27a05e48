"""Tree builders: rules that derive a taxonomy from the values of a column, and place values of later data in it.

For a mask, the parts of a date and intervals of numbers, the path from a leaf to the root follows from the value alone. For a
balanced tree, only the order of the leaves does: a new value is placed between its neighbours.
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
from shoal.formats.labels import format_interval
from shoal.formats.numbers import format_number
from shoal.taxonomy.tree import Taxonomy

LONGEST = 100  # characters of a value that is masked
PARTS = ("day", "week", "month", "quarter", "year", "decade")
SIDES = ("right", "left")


class TreeBuilder(ABC):
    """A rule that builds a taxonomy. ``word`` is its key in policies and recodings."""

    word: ClassVar[str]

    @abstractmethod
    def path(self, value: Any) -> list[str]:
        """The leaf of a value and those nodes above it that follow from the value alone, without the root."""

    @abstractmethod
    def key(self, leaf: str) -> Any:
        """The sort key of a leaf."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `parse_tree_builder` reads them."""

    def tree(self, paths: Sequence[Sequence[str]], counts: Sequence[int], *, column: str) -> Taxonomy:
        """Build the taxonomy from the paths of the values of a column and their record counts."""
        rows = {path[0]: path for path in paths}
        ordered = [rows[leaf] for leaf in sorted(rows, key=self.key)]
        return Taxonomy.from_paths(ordered, made=True) if ordered else Taxonomy.flat([])


@dataclass(frozen=True)
class Mask(TreeBuilder):
    """Mask codes character by character, from the right or from the left.

    >>> Mask("right").path("479")
    ['479', '47*', '4**']
    """

    side: str

    word: ClassVar[str] = "mask"

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise PolicyError(
                f"'mask' names the side that is masked first, not {self.side!r}; {list_choices(self.side, SIDES)}"
            )

    def path(self, value: Any) -> list[str]:
        """The code, then the code with one more character masked at each level; a code that is too long is not masked."""
        text = str(value)
        size = len(text) if len(text) <= LONGEST else 0
        if self.side == "right":
            return [text[: len(text) - i] + "*" * i for i in range(max(size, 1))]
        return ["*" * i + text[i:] for i in range(max(size, 1))]

    def key(self, leaf: str) -> tuple[int, str]:
        """Shorter codes first, then by the side that is masked last."""
        return len(leaf), leaf[::-1] if self.side == "left" else leaf

    def tree(self, paths: Sequence[Sequence[str]], counts: Sequence[int], *, column: str) -> Taxonomy:
        """Build the taxonomy of these codes; an error if the table was masked before."""
        long = sum(len(path[0]) > LONGEST for path in paths)
        if long:
            raise DataError(
                f"column {column!r} contains {long} values of more than {LONGEST} characters, which are too long for 'mask'. "
                "Use 'taxonomy' or 'balanced' for this column."
            )
        try:
            return super().tree(paths, counts, column=column)
        except DataError as error:
            raise DataError(f"column {column!r} contains values that are already masked: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """The parameters as in a policy."""
        return {self.word: self.side}


@dataclass(frozen=True)
class DateParts(TreeBuilder):
    """Generalize dates, as seconds since 1970-01-01, to coarser and coarser parts.

    >>> DateParts(("day", "month", "year", "decade")).path(486259200.0)
    ['1985-05-30', '1985-05', '1985', '1980s']
    """

    parts: tuple[str, ...]

    word: ClassVar[str] = "date"

    def __post_init__(self) -> None:
        places = [PARTS.index(p) for p in self.parts if p in PARTS]
        if len(places) < len(self.parts) or not places or places != sorted(set(places)):
            raise PolicyError(
                f"'date' must list calendar units from fine to coarse, not {list(self.parts)}; choose from {', '.join(PARTS)}"
            )
        if "week" in self.parts and {"month", "quarter"} & set(self.parts):
            raise PolicyError(
                "a week can belong to two months or quarters; remove 'week', or 'month' and 'quarter', from 'date'"
            )

    def path(self, value: Any) -> list[str]:
        """The parts of a date, the finest first. Years and decades above weeks are ISO years, so that weeks nest in them."""
        day = np.datetime64(int(float(value) // 86400), "D")
        text = str(day)
        if not 1 <= int(text[:-6]) <= 9999:
            raise DataError(f"the date {text} has a year outside 1 to 9999. Correct it or leave it empty.")
        year, month = text[:-6], text[:-3]
        iso = day.astype(object).isocalendar()
        labels = {
            "day": text,
            "week": f"{iso[0]}-W{iso[1]:02d}",
            "month": month,
            "quarter": f"{year}-Q{(int(month[-2:]) + 2) // 3}",
            # a week may reach into the next year, so the label of an ISO year differs from that of a calendar year
            "year": f"{iso[0]}-W*" if "week" in self.parts else year,
            "decade": f"{iso[0] // 10 * 10}s-W*" if "week" in self.parts else f"{int(year) // 10 * 10}s",
        }
        return [labels[part] for part in self.parts]

    def key(self, leaf: str) -> str:
        """The text itself, which begins with the year."""
        return leaf

    def to_dict(self) -> dict[str, Any]:
        """The parameters as in a policy."""
        return {self.word: list(self.parts)}


@dataclass(frozen=True)
class Widths(TreeBuilder):
    """Intervals of fixed widths, one of which begins at ``origin``; each width is a multiple of the width before it.

    Ends are computed exactly, as decimals: 0.3 is in [0.3, 0.4), although 0.1 has no exact binary representation.

    >>> Widths((5, 10, 20)).path(23)
    ['[20, 25)', '[20, 30)', '[20, 40)']
    """

    widths: tuple[float, ...]
    origin: float = 0.0

    word: ClassVar[str] = "widths"

    def __post_init__(self) -> None:
        if not self.widths or not all(isfinite(w) and w > 0 for w in self.widths):
            raise PolicyError(
                f"'widths' must list positive numbers from fine to coarse, not {_format_list(self.widths)}"
            )
        if not isfinite(self.origin):
            raise PolicyError(f"'origin' must be a finite number, at which an interval begins, not {self.origin}")
        for fine, coarse in pairwise(self.widths):
            times = _exact(coarse) / _exact(fine)
            if times.denominator > 1 or times < 2:
                raise PolicyError(
                    f"'widths' must nest: {format_number(coarse)} is no multiple of {format_number(fine)}, the width before "
                    f"it. Choose a multiple of {format_number(fine)}, at least twice as wide."
                )

    @cached_property
    def _steps(self) -> tuple[Fraction, Fraction, list[int]]:
        """The origin, the finest width, and every width as a multiple of the finest width."""
        finest = _exact(self.widths[0])
        return _exact(self.origin), finest, [int(_exact(w) / finest) for w in self.widths]

    def path(self, value: Any) -> list[str]:
        """The interval of each width that contains a number."""
        origin, finest, steps = self._steps
        place = (_exact(value) - origin) // finest
        begins = [(place // n * n, n) for n in steps]
        return [format_interval(float(origin + b * finest), float(origin + (b + n) * finest)) for b, n in begins]

    def key(self, leaf: str) -> float:
        """The lower end of the interval."""
        return float(leaf[1:].partition(",")[0])

    def to_dict(self) -> dict[str, Any]:
        """The parameters as in a policy."""
        return {self.word: list(self.widths), "origin": self.origin}


@dataclass(frozen=True)
class Boundaries(TreeBuilder):
    """Numbers, and intervals between boundaries, unbounded at both ends; each list is a subset of the list before it.

    >>> Boundaries(((18, 30, 65), (18, 65))).path(23), Boundaries(((18,),)).path(70)
    (['23', '[18, 30)', '[18, 65)'], ['70', '[18, inf)'])
    """

    levels: tuple[tuple[float, ...], ...]

    word: ClassVar[str] = "boundaries"

    def __post_init__(self) -> None:
        for ends in self.levels or ((),):
            if not ends or not all(map(isfinite, ends)) or any(a >= b for a, b in pairwise(ends)):
                raise PolicyError(f"'boundaries' must list numbers in ascending order, not {_format_list(ends)}")
        for fine, coarse in pairwise(self.levels):
            if not set(coarse) < set(fine):
                raise PolicyError(
                    f"'boundaries' must nest: {_format_list(coarse)} is not a proper subset of {_format_list(fine)}, the list "
                    "before it. Each list must contain fewer numbers of the list before it, and no others."
                )

    def path(self, value: Any) -> list[str]:
        """The number, then the interval of each list that contains it."""
        labels = [format_number(value)]
        for ends in self.levels:
            place = bisect_right(ends, value)
            labels.append(
                format_interval(ends[place - 1] if place else -inf, ends[place] if place < len(ends) else inf)
            )
        return labels

    def key(self, leaf: str) -> float:
        """The number."""
        return float(leaf)

    def to_dict(self) -> dict[str, Any]:
        """The parameters as in a policy."""
        return {self.word: [list(ends) for ends in self.levels]}


@dataclass(frozen=True)
class Balanced(TreeBuilder):
    """A balanced tree of the values that occur, numbers or texts (see `Taxonomy.balanced`).

    >>> Balanced(2, numeric=True).path(20.0), Balanced(2).path("clerk")
    (['20'], ['clerk'])
    """

    fanout: int
    numeric: bool = False

    word: ClassVar[str] = "balanced"

    def __post_init__(self) -> None:
        if isinstance(self.fanout, bool) or not isinstance(self.fanout, int) or self.fanout < 2:
            raise PolicyError(
                f"'balanced' is the number of children per node, a whole number of at least 2, not {self.fanout!r}"
            )

    def path(self, value: Any) -> list[str]:
        """The value alone: the nodes above it depend on the other values."""
        return [format_number(value) if self.numeric else str(value)]

    def key(self, leaf: str) -> Any:
        """The number, or the text."""
        return float(leaf) if self.numeric else leaf

    def tree(self, paths: Sequence[Sequence[str]], counts: Sequence[int], *, column: str) -> Taxonomy:
        """Build the balanced tree of these values and their record counts."""
        pairs = zip(paths, counts, strict=True)
        return Taxonomy.balanced({self.key(path[0]): int(count) for path, count in pairs}, fanout=self.fanout)

    def to_dict(self) -> dict[str, Any]:
        """The parameter as in a policy, and whether the values are numbers."""
        return {self.word: self.fanout, "numeric": self.numeric}


_READERS: dict[str, Callable[[Mapping[str, Any]], TreeBuilder]] = {
    Mask.word: lambda values: Mask(values["mask"]),
    DateParts.word: lambda values: DateParts(tuple(values["date"])),
    Widths.word: lambda values: Widths(tuple(values["widths"]), values["origin"]),
    Boundaries.word: lambda values: Boundaries(tuple(map(tuple, values["boundaries"]))),
    Balanced.word: lambda values: Balanced(values["balanced"], values["numeric"]),
}
WORDS = tuple(_READERS)


def parse_tree_builder(values: Mapping[str, Any]) -> TreeBuilder | None:
    """Create the tree builder whose word occurs in plain values; None if no word occurs.

    >>> parse_tree_builder({"mask": "right"}), parse_tree_builder({})
    (Mask(side='right'), None)
    """
    return next((read(values) for word, read in _READERS.items() if values.get(word) is not None), None)


def _exact(number: float) -> Fraction:
    """The exact value of the decimal text of a number."""
    return Fraction(repr(float(number)))


def _format_list(numbers: Sequence[float]) -> str:
    return f"[{', '.join(map(format_number, numbers))}]"
