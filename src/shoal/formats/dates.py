"""Format and parse dates and times, as seconds since 1970-01-01."""

from __future__ import annotations

from datetime import datetime

import numpy as np


def parse_date(text: str) -> float | None:
    """Parse an ISO date or time to seconds since 1970-01-01; None if invalid. A time zone is ignored: local time counts."""
    text = text.strip()
    if len(text) < 10 or text[4] != "-":  # week dates and dates without dashes are not accepted
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()


def format_date(seconds: float) -> str:
    """Format seconds since 1970-01-01 as a date, with the time of day if it is not midnight.

    >>> format_date(0.0), format_date(3600.0)
    ('1970-01-01', '1970-01-01T01:00:00')
    """
    moment = np.datetime64(round(float(seconds) * 1_000_000), "us")
    if moment == moment.astype("datetime64[D]"):
        return str(moment.astype("datetime64[D]"))
    return str(moment.astype("datetime64[s]")) if seconds == int(seconds) else str(moment)
