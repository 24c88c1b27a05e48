"""Spreadsheet formulas in CSV text: escaped by an apostrophe, and restored."""

from __future__ import annotations

import re

APOSTROPHE, SIGNS = "'", "=+-@\t\r"  # spreadsheets run what begins with a sign; before TAB and CR they look further
FORMULA = r"^'*[=+\-@\t\r](?s:.)"  # these two mean the same to Python and to Arrow
DECIMAL = r"^'*[ \t\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\r\n]*$"


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
