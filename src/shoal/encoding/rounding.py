"""Rounded ends: the ends of published ranges are moved outward, so that they are not the exact values of people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from shoal.arrays import BoolArray, FloatArray
from shoal.formats.labels import DAY

UNITS = {"minute": "m", "hour": "h", "day": "D", "week": "W", "month": "M", "quarter": "M", "year": "Y", "decade": "Y"}
MONTHS_OR_YEARS = {"quarter": 3, "decade": 10}  # units that have several months or years
MONDAY = -3  # the first day of the week of 1970-01-01, in days
DIGITS = 3  # significant digits of the width of a range
MOSTLY = 0.9  # the share of the different times with one time of day that makes a column of dates
MOST_STEPS = 2.0**50  # a number with more steps has no further digits
LEAST_WIDTH = 1e-290  # narrower ranges are not rounded
LAST_SECOND = 253_402_300_799.0  # 9999-12-31T23:59:59


class Rounding(ABC):
    """How the ends of ranges are rounded. Infinite ends stay as they are."""

    @abstractmethod
    def outward(
        self, low: FloatArray, high: FloatArray, closed: BoolArray | bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """The rounded ends: none above ``low``, none below ``high``; ``closed`` ranges include their upper end."""

    @abstractmethod
    def nearest(self, values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Averages of ranges from ``low`` to ``high``, rounded to the nearest step (ties: the lower step)."""

    @property
    def by_value(self) -> bool:
        """Whether each end is rounded by itself, so that a search can count the width of the published ranges."""
        return True


@dataclass(frozen=True)
class Step(Rounding):
    """Multiples of a decimal number.

    >>> low, high = Step(0.1).outward(np.array([0.3, 1.25]), np.array([0.3, 1.31]))
    >>> low.tolist(), high.tolist()
    ([0.3, 1.2], [0.3, 1.4])
    """

    size: float

    def outward(
        self, low: FloatArray, high: FloatArray, closed: BoolArray | bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """The next multiples below and above."""
        return 0.0 - self._round_up(-low), self._round_up(high)

    def _round_up(self, values: FloatArray) -> FloatArray:
        finite = np.where(np.isfinite(values), values, 0.0)
        is_coarse = (
            np.abs(finite) < MOST_STEPS * self.size
        )  # finer steps than the digits of the number do not change it
        place = np.rint(np.where(is_coarse, finite, 0.0) / self.size)
        place += self._value(place) < finite  # quotients are not exact: 0.3 is a multiple of 0.1
        rounded = np.maximum(self._value(place) + 0.0, finite)
        return np.where(is_coarse & np.isfinite(values), rounded, values)

    def _value(self, places: FloatArray) -> FloatArray:
        exponent = Decimal(repr(self.size)).as_tuple().exponent
        decimals = max(-exponent, 0) if isinstance(exponent, int) else 0
        return np.asarray(np.round(places * self.size, decimals), np.float64)

    def nearest(self, values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """The nearest multiples."""
        is_coarse = np.abs(values) < MOST_STEPS * self.size
        place = np.ceil(np.where(is_coarse, values, 0.0) / self.size - 0.5)
        return np.where(is_coarse, self._value(place) + 0.0, values)


@dataclass(frozen=True)
class SignificantDigits(Rounding):
    """Three significant digits of the width of each range.

    A range without a width has the smaller one of its number and the width of all values.
    """

    span: float

    def outward(
        self, low: FloatArray, high: FloatArray, closed: BoolArray | bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """The next multiples of the unit of the third digit of each width."""
        low, high = low.copy(), high.copy()
        for step, at in self._steps(low, high):
            low[at], high[at] = step.outward(low[at], high[at])
        return low, high

    def nearest(self, values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """The nearest multiples of the unit of the third digit of each width."""
        values = values.copy()
        for step, at in self._steps(low, high):
            values[at] = step.nearest(values[at], low[at], high[at])
        return values

    def _steps(self, low: FloatArray, high: FloatArray) -> Iterator[tuple[Step, BoolArray]]:
        """The steps of ranges, and the ranges that have each."""
        finite = np.isfinite(low) & np.isfinite(high) & (low <= high)
        first, last = np.where(finite, low, 0.0), np.where(finite, high, 0.0)
        single = np.where(last == 0, self.span, np.minimum(np.abs(last), self.span))
        width = np.where(last > first, last - first, single)
        exponent = np.floor(np.log10(np.maximum(width, LEAST_WIDTH))).astype(int) - (DIGITS - 1)
        for power in np.unique(exponent[finite]).tolist():
            yield Step(float(f"1e{power}")), finite & (exponent == power)

    @property
    def by_value(self) -> bool:
        """No: the unit depends on both ends."""
        return False


@dataclass(frozen=True)
class CalendarUnit(Rounding):
    """Units of the calendar, from ``minute`` to ``decade``; weeks begin on Mondays.

    In a column of ``days`` the upper end of a closed range is the last day of a unit, otherwise the first moment of a unit.
    """

    unit: str
    days: bool

    def outward(
        self, low: FloatArray, high: FloatArray, closed: BoolArray | bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """The begin of the unit of ``low``, and the end of the unit of ``high``."""
        after = self._begin(high, 1)
        moment = np.where(self._begin(high, 0) == high, high, after)
        is_day = np.logical_and(closed, self.days and UNITS[self.unit] in "DWMY")
        end = np.where(is_day & np.isfinite(high), after - DAY, moment)
        return self._begin(low, 0), np.where(np.isfinite(high), np.clip(end, high, np.maximum(high, LAST_SECOND)), end)

    def nearest(self, values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """The nearer of the begin of the unit and of the next unit."""
        begin, after = self._begin(values, 0), self._begin(values, 1)
        return np.where(values - begin <= after - values, begin, after)

    def _begin(self, values: FloatArray, units: int) -> FloatArray:
        """The first moment of the unit of each value, or of a later unit, in seconds since 1970-01-01."""
        finite = np.isfinite(values)
        seconds = np.floor(np.where(finite, values, 0.0)).astype("datetime64[s]")
        if self.unit == "week":
            days = np.floor(np.where(finite, values, 0.0) / DAY)
            found = (((days - MONDAY) // 7 + units) * 7 + MONDAY) * DAY
        else:
            several = MONTHS_OR_YEARS.get(self.unit, 1)
            number = seconds.astype(f"datetime64[{UNITS[self.unit]}]").astype(np.int64)
            number = (number // several + units) * several  # 1970 is the first year of a decade
            begin = number.astype(f"datetime64[{UNITS[self.unit]}]").astype("datetime64[s]")
            found = begin.astype(np.int64).astype(np.float64)
        return np.where(finite, found, values)


def default_rounding(values: FloatArray, *, dates: bool, span: float) -> Rounding | None:
    """The rounding of a column for which the policy has none; None for whole numbers and for short decimals.

    Dates (90 % of the values have one time of day) are rounded to months, times to hours, and decimals with more than three
    significant digits to three significant digits of the width of the range.
    """
    if dates:
        _, times = np.unique(values % DAY, return_counts=True)
        if times.max(initial=0) >= MOSTLY * len(
            values
        ):  # one time of day, such as midnight: dates, apart from a few rows
            return CalendarUnit("month", not (values % DAY).any())
        return CalendarUnit("hour", False)
    if not len(values) or not (values % 1).any() or span <= 0:
        return None
    is_short = all(float(f"{value:.{DIGITS}g}") == value for value in values.tolist())
    return None if is_short else SignificantDigits(span)


def parse_rounding(given: str | float, *, days: bool) -> Rounding | None:
    """The rounding that a policy names: a step, a unit of the calendar, or ``none``."""
    if given == "none":
        return None
    return CalendarUnit(given, days) if isinstance(given, str) else Step(float(given))
