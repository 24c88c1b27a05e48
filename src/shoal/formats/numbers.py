"""Format and parse numbers, also with a decimal comma and separators of thousands; format counts with their units."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

EXACT = 2.0**53  # integers below 2^53 are exact in floating point
PLAIN = range(-6, 10)  # decimal exponents that are written without "e", as Arrow does
LIKE = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}  # characters that are used for a separator of thousands
SEPARATORS = {".": ", '", ",": ". '"}  # of thousands, by the decimal separator


def parse_number(text: str) -> float | None:
    """Parse a number; None if the text is not a number."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def parse_percentage(text: str) -> float | None:
    """Parse a number with a percent sign as a share; None for other texts.

    >>> parse_percentage("5%"), parse_percentage("12.5 %"), parse_percentage("5")
    (0.05, 0.125, None)
    """
    number = parse_number(text.strip()[:-1]) if text.strip().endswith("%") else None
    return None if number is None else number / 100


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written: the decimal separator, and the possible separators of thousands.

    >>> NumberFormat(",", ".").to_plain("1.234,5"), NumberFormat(",", ".").to_plain("1.23")
    ('1234.5', None)
    """

    decimal: str = "."
    thousands: str = ""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        marks = re.escape("".join(LIKE.get(char, char) for char in self.thousands))
        groups = rf"[1-9][0-9]{{0,2}}(?P<mark>[{marks}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*|" if marks else ""
        fraction = rf"(?:{re.escape(self.decimal)}(?P<fraction>[0-9]*))?"
        return re.compile(rf"(?P<sign>[+-]?)(?P<whole>{groups}[0-9]*){fraction}(?P<power>[eE][+-]?[0-9]+)?")

    def to_plain(self, text: str) -> str | None:
        """Return the number as Python writes it; None if the text is not a number in this format."""
        text = text.strip()
        if parse_number(text) is not None and (self.decimal == "." or "." not in text):
            return text
        match = self._pattern.fullmatch(text)
        if match is None or not (match["whole"] or match["fraction"]):
            return None
        whole = re.sub("[^0-9]", "", match["whole"]) or "0"
        fraction = f".{match['fraction']}" if match["fraction"] else ""
        return f"{match['sign']}{whole}{fraction}{match['power'] or ''}"

    def render(self, text: str) -> str:
        """Return a published text with the decimal separator of this format, if the text is a number."""
        return text.replace(".", self.decimal) if parse_number(text) is not None else text

    def restore(self, text: str) -> str:
        """Return the published text that `render` changed."""
        plain = text.replace(self.decimal, ".")
        return plain if parse_number(plain) is not None and "." not in text else text


def list_number_formats(decimal: str | None, thousands: str | None) -> list[NumberFormat]:
    """The possible formats of numbers, where a user names both separators, one of them, or none.

    >>> [f.decimal for f in list_number_formats(None, None)], list_number_formats(",", ".")
    (['.', ','], [NumberFormat(decimal=',', thousands='.')])
    """
    decimals = [decimal] if decimal else [char for char in SEPARATORS if char != thousands]
    return [NumberFormat(char, thousands or SEPARATORS[char]) for char in decimals]


def read_numbers(texts: Sequence[str]) -> list[float] | None:
    """Return the numbers of texts that are all numbers in one format, first with a decimal point, then with a comma.

    The order of sensitive values depends only on the values, so that the audit of a released file finds the same order.

    >>> read_numbers(["987,5", "1.234,5"]), read_numbers(["987", "1e3"]), read_numbers(["987", "flu"])
    ([987.5, 1234.5], [987.0, 1000.0], None)
    """
    with suppress(ValueError):
        return [float(text) for text in texts]
    for style in list_number_formats(None, None):
        plain = list(takewhile(lambda text: text is not None, map(style.to_plain, texts)))
        if len(plain) == len(texts):
            return [float(text) for text in plain if text is not None]
    return None


def format_number(value: float) -> str:
    """The shortest text that parses to the same number, in the notation of Arrow.

    >>> format_number(36.0), format_number(0.1), format_number(-0.0), format_number(2.5e10 + 0.5)
    ('36', '0.1', '0', '2.50000000005e+10')
    """
    value = float(value)
    if value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    if not math.isfinite(value):
        return str(value)
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    significant = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(significant) - len(fraction) - 1  # of the first significant digit
    digits, sign = significant.rstrip("0"), "-" if value < 0 else ""
    if exponent not in PLAIN:
        return f"{sign}{_with_point(digits, 1)}e{exponent:+d}"
    return sign + _with_point("0" * -exponent + digits, max(exponent + 1, 1))


def format_count(count: float, noun: str, plural: str | None = None) -> str:
    """A count with its unit; the plural ends in s unless ``plural`` is given.

    >>> format_count(1, "record"), format_count(1500, "record"), format_count(2, "leaf", "leaves")
    ('1 record', '1,500 records', '2 leaves')
    """
    return f"{count:,.0f} {noun if count == 1 else plural or noun + 's'}"


def _with_point(digits: str, whole: int) -> str:
    """Insert a decimal point after the first ``whole`` digits."""
    digits = digits.ljust(whole, "0")
    return digits if len(digits) == whole else f"{digits[:whole]}.{digits[whole:]}"
