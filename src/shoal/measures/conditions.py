"""Conditions of COUNT queries on one column, and the values that they are tested on.

A condition is true, false or unknown for a value, as in SQL: a comparison with a missing value is unknown, and its negation
too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, FloatArray
from shoal.engines.protocol import ReadingKind
from shoal.errors import DataError, list_some
from shoal.formats.dates import format_date, parse_date
from shoal.formats.numbers import format_number, parse_number, read_numbers

KINDS = {"number": "numbers", "date": "dates", "text": "texts"}
# fmt: off
RESERVED = frozenset((
    "all", "and", "any", "between", "by", "case", "date", "end", "from", "group", "having", "in", "interval", "is",
    "join", "limit", "not", "null", "on", "or", "order", "select", "set", "table", "time", "union", "where", "with",
))
# fmt: on


@dataclass(frozen=True)
class Domain:
    """Values of a column, by code: numbers and dates (in seconds since 1970-01-01; NaN is missing), or texts (None is missing).

    ``missing`` are the texts that mean a missing value, ``normalize`` maps the spellings of a text to one text.
    """

    name: str
    kind: ReadingKind
    values: NDArray[Any]
    missing: tuple[str, ...] = ("",)
    normalize: Callable[[str], str] | None = field(default=None, compare=False)

    @cached_property
    def is_missing(self) -> BoolArray:
        """Whether each value is missing."""
        if self.kind != "text":
            return np.asarray(np.isnan(self.values), bool)
        return np.array([value is None for value in self.values], bool)

    @cached_property
    def codes(self) -> dict[Any, int]:
        """The code of every value; None is missing."""
        listed = self.values.tolist()
        return {
            None if is_missing else v: i for i, (v, is_missing) in enumerate(zip(listed, self.is_missing, strict=True))
        }

    @cached_property
    def numbers(self) -> FloatArray | None:
        """The value of every number or date, NaN for missing; None if a text is neither."""
        if self.kind != "text":
            return np.asarray(self.values, np.float64)
        texts = [str(value) for value in self.values[~self.is_missing]]
        parsed: Any = read_numbers(texts)
        if parsed is None:
            parsed = [parse_date(text) for text in texts]
        if not texts or None in parsed:
            return None
        numbers = np.full(len(self.values), np.nan)
        numbers[~self.is_missing] = parsed
        return numbers

    @cached_property
    def moments(self) -> FloatArray:
        """The time of every text that is a date, NaN for other texts."""
        parsed = [None if value is None else parse_date(value) for value in self.values]
        return np.array([np.nan if moment is None else moment for moment in parsed], np.float64)

    def match(self, given: Any) -> BoolArray:
        """Whether each value is the given value; a value that does not occur matches nothing."""
        found = np.zeros(len(self.values), bool)
        value = self._read(given)
        if value in self.codes:
            found[self.codes[value]] = True
        elif value is not None and self.kind == "text" and _is_date(given):
            found = self.moments == parse_date(str(given))
        elif _is_number(given) and self.kind == "text" and self.numbers is not None:
            found = self.numbers == float(given)
        return found

    @cached_property
    def _tested(self) -> dict[tuple[type, Any], bool]:
        """Whether given values occur; the queries of a workload often list the same values."""
        return {}

    def has(self, given: Any) -> bool:
        """Whether the given value occurs."""
        key = type(given), given
        if key not in self._tested:
            self._tested[key] = bool(self.match(given).any())
        return self._tested[key]

    def list_numbers(self) -> FloatArray:
        """The value of every number or date; `DataError` if the column holds other texts."""
        if self.numbers is None:
            raise DataError(
                f"a query asks for a range of column {self.name!r}, which holds texts. List the values instead: "
                f"{quote_column(self.name)} IN (…)."
            )
        return self.numbers

    def read_end(self, given: Any) -> float:
        """The end of a range as a number."""
        if self.kind == "number" or _is_number(given):
            value = self._parse(given, parse_number, "number")
        elif self.kind == "date":
            value = self._parse(given, parse_date, "date")
        else:
            number = parse_number(str(given))
            value = self._parse(given, parse_date, "text") if number is None else number
        return value

    def _read(self, given: Any) -> Any:
        """The value that a user gives, as this column holds it; None if it is missing."""
        if _is_missing(given) or (isinstance(given, str) and given.strip() in self.missing):
            return None
        if self.kind == "text":
            text = format_number(float(given)) if _is_number(given) else str(given)
            normal = text if self.normalize is None else self.normalize(text)
            return normal if normal or self.normalize is None else None
        return self._parse(given, parse_number if self.kind == "number" else parse_date, self.kind)

    def _parse(self, given: Any, parse: Callable[[str], float | None], kind: ReadingKind) -> float:
        value = float(given) if _is_number(given) and kind == "number" else parse(str(given))
        if value is None:
            raise DataError(
                f"a query asks for {given!r} in column {self.name!r}, which holds {KINDS[self.kind]}. Correct the value."
            )
        return value


class Truth(NamedTuple):
    """For which values a condition is true, and for which it is false; it is unknown for the others."""

    true: BoolArray
    false: BoolArray


@dataclass(frozen=True)
class Values:
    """The value is one of a list; None is a missing value."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        _refuse_too_large(self.values)

    def test(self, domain: Domain) -> Truth:
        """Test the values of a column."""
        codes = domain.codes
        true = np.zeros(len(domain.values), bool)
        true[[codes[value] for value in self.values if value in codes]] = True
        for value in self.values:
            if value not in codes:  # a text for a number, a spelling, or a value that does not occur
                true |= domain.match(value)
        return Truth(true, ~true & ~domain.is_missing)

    def find_absent(self, domain: Domain) -> bool:
        """Whether a value of the list does not occur in a column."""
        return any(value not in domain.codes and not domain.has(value) for value in self.values)

    def to_sql(self, column: str) -> str:
        """The condition as SQL."""
        known = [format_literal(v) for v in self.values if not _is_missing(v)]
        texts = [f"{column} = {known[0]}" if len(known) == 1 else f"{column} IN ({', '.join(known)})"] if known else []
        texts += [f"{column} IS NULL"] if len(known) < len(self.values) else []
        return texts[0] if len(texts) == 1 else f"({' OR '.join(texts)})"


@dataclass(frozen=True)
class Interval:
    """The value is a number or date between two ends; None is an open end.

    ``closed`` says which ends belong to the interval: ``both``, ``left``, ``right`` or ``neither``.
    """

    low: Any = None
    high: Any = None
    closed: Literal["both", "left", "right", "neither"] = "both"

    def __post_init__(self) -> None:
        if self.closed not in ("both", "left", "right", "neither"):
            raise DataError(f"closed={self.closed!r} is no choice; use 'both', 'left', 'right' or 'neither'.")
        _refuse_too_large((self.low, self.high))

    def test(self, domain: Domain) -> Truth:
        """Test the values of a column."""
        numbers = domain.list_numbers()
        ends = [None if end is None else domain.read_end(end) for end in (self.low, self.high)]
        true = ~domain.is_missing
        if ends[0] is not None:
            true &= numbers >= ends[0] if self.closed in ("both", "left") else numbers > ends[0]
        if ends[1] is not None:
            true &= numbers <= ends[1] if self.closed in ("both", "right") else numbers < ends[1]
        return Truth(true, ~true & ~domain.is_missing)

    def to_sql(self, column: str) -> str:
        """The condition as SQL."""
        low, high = (None if end is None else format_literal(end) for end in (self.low, self.high))
        if low is not None and high is not None and self.closed == "both":
            return f"{column} BETWEEN {low} AND {high}"
        signs = (">=" if self.closed in ("both", "left") else ">", "<=" if self.closed in ("both", "right") else "<")
        texts = [f"{column} {sign} {end}" for sign, end in zip(signs, (low, high), strict=True) if end is not None]
        return " AND ".join(texts) or f"{column} IS NOT NULL"


@dataclass(frozen=True)
class Missing:
    """The value is missing."""

    def test(self, domain: Domain) -> Truth:
        """Test the values of a column."""
        return Truth(domain.is_missing, ~domain.is_missing)

    def to_sql(self, column: str) -> str:
        """The condition as SQL."""
        return f"{column} IS NULL"


@dataclass(frozen=True)
class Not:
    """Another condition is false."""

    condition: Condition

    def test(self, domain: Domain) -> Truth:
        """Test the values of a column."""
        true, false = self.condition.test(domain)
        return Truth(false, true)

    def to_sql(self, column: str) -> str:
        """The condition as SQL."""
        return f"NOT ({self.condition.to_sql(column)})"


@dataclass(frozen=True)
class Every:
    """All conditions are true."""

    conditions: tuple[Condition, ...]

    def test(self, domain: Domain) -> Truth:
        """Test the values of a column."""
        truths = [condition.test(domain) for condition in self.conditions]
        return Truth(np.logical_and.reduce([t.true for t in truths]), np.logical_or.reduce([t.false for t in truths]))

    def to_sql(self, column: str) -> str:
        """The condition as SQL."""
        return f"({' AND '.join(condition.to_sql(column) for condition in self.conditions)})"


@dataclass(frozen=True)
class Some:
    """At least one condition is true."""

    conditions: tuple[Condition, ...]

    def test(self, domain: Domain) -> Truth:
        """Test the values of a column."""
        truths = [condition.test(domain) for condition in self.conditions]
        return Truth(np.logical_or.reduce([t.true for t in truths]), np.logical_and.reduce([t.false for t in truths]))

    def to_sql(self, column: str) -> str:
        """The condition as SQL."""
        return f"({' OR '.join(condition.to_sql(column) for condition in self.conditions)})"


Condition = Values | Interval | Missing | Not | Every | Some


def names_absent_value(condition: Condition, domain: Domain) -> bool:
    """Whether a condition lists a value that does not occur in a column."""
    if isinstance(condition, Not):
        return names_absent_value(condition.condition, domain)
    if isinstance(condition, (Every, Some)):
        return any(names_absent_value(part, domain) for part in condition.conditions)
    return isinstance(condition, Values) and condition.find_absent(domain)


def read_condition(column: str, given: Any) -> Condition:
    """Return the condition for what a user gives: a value, a list or set of values, a range of whole numbers, or a condition.

    >>> read_condition("age", range(30, 40)), read_condition("sex", "Male")
    (Interval(low=30, high=40, closed='left'), Values(values=('Male',)))
    """
    if isinstance(given, Condition):
        return given
    if isinstance(given, range) and given.step == 1:
        _refuse_too_large((given.start, given.stop), column)
        return Interval(given.start, given.stop, "left")
    if isinstance(given, np.ndarray):
        given = _list_array(given)
    if isinstance(given, (str, bytes, date)) or not isinstance(given, Iterable):
        given = [given]
    if isinstance(given, Mapping):
        raise DataError(
            f"a query has a mapping for column {column!r}. Use a value, a list of values, a range or an Interval."
        )
    values = tuple(given)
    if not values:
        raise DataError(
            f"a query lists no values for column {column!r}. Add values, or remove the column from the query."
        )
    _refuse_too_large(values, column)
    wrong = [v for v in values if not _is_single(v)]
    if wrong:
        raise DataError(
            f"a query lists {list_some(wrong)} for column {column!r}. Each must be a single value. For a range of numbers, use "
            "range(20, 30) or Interval(20, 29)."
        )
    return Values(tuple(sorted(values, key=_rank)) if isinstance(given, (set, frozenset)) else values)


def _list_array(array: NDArray[Any]) -> list[Any]:
    """The values of an array; those of an array without dimensions are a single value."""
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]")  # a list of nanoseconds would have whole numbers
    return [array.item()] if array.ndim == 0 else list(array.tolist())


def _is_single(value: Any) -> bool:
    is_list = isinstance(value, Iterable) and not isinstance(value, str)
    return isinstance(value, Hashable) and not is_list and not isinstance(value, (complex, np.complexfloating, slice))


def _rank(value: Any) -> tuple[bool, bool, float, str]:
    """The place of a value in the list of a set: numbers first, a missing value last."""
    number = _is_number(value)
    return _is_missing(value), not number, float(value) if number else 0.0, "" if number else str(value)


def is_too_large(value: Any) -> bool:
    """Whether a value is a whole number that is larger than any number of a column."""
    return isinstance(value, int) and abs(value) > sys.float_info.max


def _refuse_too_large(values: Iterable[Any], column: str | None = None) -> None:
    if any(map(is_too_large, values)):
        where = "" if column is None else f" for column {column!r}"
        raise DataError(f"a query has a whole number of more than 308 digits{where}. Correct it, or give it as a text.")


def format_literal(value: Any) -> str:
    """A value as SQL.

    >>> format_literal(30), format_literal(2.5), format_literal("O'Hara")
    ('30', '2.5', "'O''Hara'")
    """
    if _is_number(value):
        return format_number(float(value))
    moment = parse_date(str(value)) if _is_date(value) else None
    value = value if moment is None else format_date(moment)
    return "'" + str(value).replace("'", "''") + "'"


def quote_column(name: str) -> str:
    """The name of a column as SQL.

    >>> quote_column("age"), quote_column("hours-per-week"), quote_column("order")
    ('age', '"hours-per-week"', '"order"')
    """
    plain = name.isascii() and name.isidentifier() and name.lower() not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _is_date(value: Any) -> bool:
    return isinstance(value, (date, np.datetime64))


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, (float, np.floating)) and math.isnan(value))
        or str(value) in ("NaT", "<NA>")
    )
