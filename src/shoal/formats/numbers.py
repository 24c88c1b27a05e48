"""Format and parse numbers; format counts with their units."""

from __future__ import annotations

import math

EXACT = 2.0**53  # integers below 2^53 are exact in floating point
PLAIN = range(-6, 10)  # decimal exponents that are written without "e", as Arrow does


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
