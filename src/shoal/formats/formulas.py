"""Escape spreadsheet formulas in CSV text by an apostrophe, and restore the text."""

from __future__ import annotations

import re

APOSTROPHE, SIGNS = "'", "=+-@\t\r"  # first characters of a formula; spreadsheet programs skip TAB and CR
FORMULA = r"^'*[=+\-@\t\r](?s:.)"  # Python and Arrow interpret both patterns alike
DECIMAL = r"^'*[ \t\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\r\n]*$"


def escape_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet program would run as a formula.

    A formula begins with ``=``, ``+``, ``-``, ``@``, TAB or CR, is longer than one character and is not a number. A formula
    that already begins with apostrophes gets one more, so that `restore_formula` is exact.

    >>> [escape_formula(text) for text in ("=1+1", "'=1+1", "-5", "-", "a=b")]
    ["'=1+1", "''=1+1", '-5', '-', 'a=b']
    """
    return APOSTROPHE + text if _is_formula(text) else text


def restore_formula(text: str) -> str:
    """Remove the apostrophe that `escape_formula` put before a formula.

    >>> [restore_formula(text) for text in ("'=1+1", "''=1+1", "'-5", "=1+1", "'tis")]
    ['=1+1', "'=1+1", "'-5", '=1+1', "'tis"]
    """
    return text[1:] if text.startswith(APOSTROPHE) and _is_formula(text) else text


def _is_formula(text: str) -> bool:
    return re.match(FORMULA, text) is not None and re.match(DECIMAL, text) is None
