"""The texts of single numbers, moments and formulas, and back; no frame library is needed to load it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from decimal import Context, Decimal
from functools import cached_property

import numpy as np

EXACT = 2.0**53
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"  # signs without width; at the ends of a text they are trimmed like spaces
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,4})?")
APOSTROPHE, SIGNS = "'", "=+-@\t\r"  # spreadsheets run what begins with a sign; before TAB and CR they look further
FORMULA = r"^'*[=+\-@\t\r](?s:.)"  # these two mean the same to Python and to Arrow
DECIMAL = r"^'*[ \t\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\r\n]*$"
PLAIN = 30  # digits up to which a number is written without an exponent


@dataclass(frozen=True)
class Normalizer:
    """Maps the spellings of a value to one text: trimmed, Unicode NFKC, case folded, numbers by their value.

    The words of ``missing`` become the empty text, in any spelling.

    >>> normal = Normalizer(("", "N/A"))
    >>> [normal(text) for text in ("HIV ", "hiv", "01", "1e0", "n/a", " ")]
    ['hiv', 'hiv', '1', '1', '', '']
    """

    missing: tuple[str, ...] = ("",)

    @cached_property
    def _missing(self) -> frozenset[str]:
        return frozenset(map(_normal_text, self.missing))

    def __call__(self, text: str) -> str:
        """The one text of a value."""
        found = _normal_text(text)
        return "" if found in self._missing else found


def _normal_text(text: str) -> str:
    before = None
    while text != before:  # folding and trimming can uncover more to normalize
        before = text
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip().strip(INVISIBLE)
    if NUMBER.fullmatch(text) is None:
        return text
    number = Decimal(text).normalize(Context(prec=len(text)))
    plain = abs(number.adjusted()) < PLAIN
    return "0" if not number else format(number, "f") if plain else str(number).lower()


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


def escape_formula(text: str) -> str:
    """A text as it stands in a CSV file: with an apostrophe before it where a spreadsheet program would run it as a formula.

    A formula begins with ``=``, ``+``, ``-``, ``@``, TAB or CR, is longer than one character and does not read as a number.
    Apostrophes before it belong to the text, so it gets another one, and `restore_formula` is exact.

    >>> [escape_formula(text) for text in ("=1+1", "'=1+1", "-5", "-", "a=b")]
    ["'=1+1", "''=1+1", '-5', '-', 'a=b']
    """
    return APOSTROPHE + text if _is_formula(text) else text


def restore_formula(text: str) -> str:
    """The text that stands in a CSV file: the apostrophe before a formula is gone.

    >>> [restore_formula(text) for text in ("'=1+1", "''=1+1", "'-5", "=1+1", "'tis")]
    ['=1+1', "'=1+1", "'-5", '=1+1', "'tis"]
    """
    return text[1:] if text.startswith(APOSTROPHE) and _is_formula(text) else text


def _is_formula(text: str) -> bool:
    return re.match(FORMULA, text) is not None and re.match(DECIMAL, text) is None
