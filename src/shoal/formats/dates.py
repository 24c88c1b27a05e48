"""Dates and moments as text, and back. A moment is a number of seconds since 1970-01-01."""

from __future__ import annotations

from datetime import datetime

import numpy as np


def parse_date(text: str) -> float | None:
    """Seconds since 1970-01-01, or None; a moment with a zone is taken as its own clock shows it."""
    text = text.strip()
    if len(text) < 10 or text[4] != "-":  # no week dates, no dates without dashes
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()


def format_date(seconds: float) -> str:
    """A moment given in seconds since 1970-01-01, without the time of day where it is midnight.

    >>> format_date(0.0), format_date(3600.0)
    ('1970-01-01', '1970-01-01T01:00:00')
    """
    moment = np.datetime64(round(float(seconds) * 1_000_000), "us")
    if moment == moment.astype("datetime64[D]"):
        return str(moment.astype("datetime64[D]"))
    return str(moment.astype("datetime64[s]")) if seconds == int(seconds) else str(moment)
