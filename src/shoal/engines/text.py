"""The texts of single numbers and moments, and back; no frame library is needed to load it."""

from __future__ import annotations

from datetime import datetime

import numpy as np

EXACT = 2.0**53


def number_of(text: str) -> float | None:
    """The number that a text is, or None."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def moment_of(text: str) -> float | None:
    """Seconds since 1970-01-01, or None; a moment with a zone is taken as its own clock shows it."""
    text = text.strip()
    if len(text) < 10 or text[4] != "-":  # no week dates, no dates without dashes
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()


def number_text(value: float) -> str:
    """A number as short as it can be written without loss.

    >>> number_text(36.0), number_text(0.1), number_text(-0.0)
    ('36', '0.1', '0')
    """
    value = float(value)
    if value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    import pyarrow as pa  # so that the text is the one that `values.texts` writes

    return str(pa.scalar(value).cast(pa.string()).as_py())


def date_text(seconds: float) -> str:
    """A moment given in seconds since 1970-01-01, without the time of day where it is midnight.

    >>> date_text(0.0), date_text(3600.0)
    ('1970-01-01', '1970-01-01T01:00:00')
    """
    moment = np.datetime64(round(float(seconds) * 1_000_000), "us")
    if moment == moment.astype("datetime64[D]"):
        return str(moment.astype("datetime64[D]"))
    return str(moment.astype("datetime64[s]")) if seconds == int(seconds) else str(moment)
