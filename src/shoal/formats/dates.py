"""Format and parse dates and times, as seconds since 1970-01-01."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np

EPOCH = datetime(1970, 1, 1)
TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}(?:[.,][0-9]{1,6})?))?(?: ?([AaPp])\.?[Mm]\.?)?")
SHAPES = {  # formats of dates that are detected, by the form of a date; dates with slashes and dashes have two
    re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}"): ("%d.%m.%Y",),
    re.compile(r"\d{4}/\d{1,2}/\d{1,2}"): ("%Y/%m/%d",),
    re.compile(r"\d{4}\.\d{1,2}\.\d{1,2}"): ("%Y.%m.%d",),
    re.compile(r"\d{1,2}/\d{1,2}/\d{4}"): ("%d/%m/%Y", "%m/%d/%Y"),
    re.compile(r"\d{1,2}-\d{1,2}-\d{4}"): ("%d-%m-%Y", "%m-%d-%Y"),
}


def parse_date(text: str) -> float | None:
    """Parse an ISO date or time to seconds since 1970-01-01; None if invalid. A time zone is ignored: local time counts."""
    text = text.strip()
    if len(text) < 10 or text[4] != "-":  # week dates and dates without dashes are not accepted
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment.replace(tzinfo=None) - EPOCH).total_seconds()


@dataclass(frozen=True)
class DateFormat:
    """How the dates of a column are written: a pattern of `datetime.strptime`. A time may follow the date.

    >>> german = DateFormat("%d.%m.%Y")
    >>> format_date(german.parse("31.12.1985")), format_date(german.parse("31.12.1985 14:30")), german.parse("1985-12-31")
    ('1985-12-31', '1985-12-31T14:30:00', None)
    """

    pattern: str

    def parse(self, text: str) -> float | None:
        """Parse a date or time to seconds since 1970-01-01; None if invalid."""
        text = text.strip()
        moment = self._parse_moment(text)
        if moment is None:
            day, separator, time = text.replace("T", " ", 1).partition(" ")
            moment, span = self._parse_moment(day), _parse_time(time.strip())
            if not separator or moment is None or span is None:
                return None
            moment += span
        return (moment - EPOCH).total_seconds()

    def _parse_moment(self, text: str) -> datetime | None:
        try:
            return datetime.strptime(text, self.pattern).replace(tzinfo=None)
        except ValueError:
            return None

    def render(self, text: str) -> str:
        """Return a published text in this format, if the text is a single date without a time and the format can hold it."""
        seconds = parse_date(text) if len(text) == 10 else None
        if seconds is None:
            return text
        written = (EPOCH + timedelta(seconds=seconds)).strftime(self.pattern)
        return written if self.restore(written) == text else text

    def restore(self, text: str) -> str:
        """Return the published text that `render` changed."""
        moment = self._parse_moment(text)
        return text if moment is None else moment.date().isoformat()


def guess_date_formats(text: str) -> list[DateFormat]:
    """The formats in which a text may be a date; empty for an ISO date and for other texts.

    >>> [f.pattern for f in guess_date_formats("31.12.1985")], len(guess_date_formats("01/02/1985"))
    (['%d.%m.%Y'], 2)
    """
    shapes = (patterns for shape, patterns in SHAPES.items() if shape.match(text.strip()))
    return [DateFormat(pattern) for pattern in next(shapes, ())]


def _parse_time(text: str) -> timedelta | None:
    """Parse a time of day, such as 14:30, 14:30:05 or 2:30 PM."""
    match = TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second, half = int(match[1]), int(match[2]), float((match[3] or "0").replace(",", ".")), match[4]
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half in "Pp")
    return timedelta(hours=hour, minutes=minute, seconds=second) if hour < 24 and minute < 60 and second < 60 else None


def format_date(seconds: float) -> str:
    """Format seconds since 1970-01-01 as a date, with the time of day if it is not midnight.

    >>> format_date(0.0), format_date(3600.0)
    ('1970-01-01', '1970-01-01T01:00:00')
    """
    moment = np.datetime64(round(Decimal(float(seconds)) * 1_000_000), "us")  # exact, also far from 1970
    if moment == moment.astype("datetime64[D]"):
        return str(moment.astype("datetime64[D]"))
    return str(moment.astype("datetime64[s]")) if seconds == int(seconds) else str(moment)
