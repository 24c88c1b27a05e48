"""How a file is written: its delimiter, its encoding, and the forms of its numbers and dates.

What a user does not name is detected where this is safe: delimiter and encoding for each file, numbers and dates for each
column.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from shoal.errors import PolicyError, list_choices

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}  # those that are detected
DECIMALS = (".", ",")
THOUSANDS = (".", ",", " ", "'")
ENCODINGS = ("utf-8", "cp1252", "latin-1", "utf-16")  # the usual ones; any text encoding of Python is allowed
NOT_CHARACTERS = ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7", "mbcs", "oem")
SAMPLE = datetime(2001, 2, 3)


@dataclass(frozen=True)
class Conventions:
    """How the files with the raw table are written. Shoal detects what is not named, where this is safe.

    Parameters
    ----------
    delimiter : the character between the columns of a CSV file, such as ``;``, ``|`` or ``tab``
    decimal : the decimal separator of numbers: ``.`` or ``,``
    thousands : the separator of groups of three digits: ``.``, ``,``, a space or an apostrophe
    encoding : the encoding of a CSV file, such as ``cp1252``, ``latin-1`` or ``utf-16``
    dates : the format of dates, such as ``%d.%m.%Y`` or ``%m/%d/%Y``
    sheet : the name of the sheet of an Excel file (default: the first sheet)
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    dates: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(value))
        if self.thousands is not None and self.thousands == self.decimal:
            raise PolicyError(
                f"'thousands' and 'decimal' are both {self.decimal!r}; choose different characters",
                place=("thousands",),
            )

    def to_plain(self) -> dict[str, str]:
        """The keys that are set, as in a policy file."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def override(self, given: Mapping[str, str | None]) -> Conventions:
        """These conventions with other values for the keys that are given."""
        return Conventions(**{**self.to_plain(), **{name: value for name, value in given.items() if value is not None}})


def parse_conventions(value: Any) -> Any:
    """Return conventions from a mapping with the keys of ``read:``."""
    if value is None or isinstance(value, Conventions):
        return value
    known = [f.name for f in fields(Conventions)]
    if not isinstance(value, Mapping):
        raise PolicyError(
            f"'read' maps keys to values, for example 'read: {{delimiter: \";\", decimal: \",\"}}'; {list_choices('', known)}"
        )
    for key in value:
        if key not in known:
            raise PolicyError(f"'read' has no key {key!r}; {list_choices(str(key), known)}", place=(str(key),))
    return Conventions(**value)


def _check_delimiter(value: Any) -> str:
    names = {name: char for char, name in DELIMITERS.items()} | {"\\t": "\t", "space": " "}
    char = names.get(value, value) if isinstance(value, str) else ""
    if len(char) != 1 or not char.isascii() or char.isalnum() or char in '"\r\n\0':
        raise PolicyError(
            f"'delimiter' must be one character, such as ',', ';', '|' or 'tab', and no letter, digit or quote, not {value!r}",
            place=("delimiter",),
        )
    return char


def _check_choice(name: str, allowed: tuple[str, ...]) -> Any:
    def check(value: Any) -> str:
        if value not in allowed:
            raise PolicyError(f"{name!r} cannot be {value!r}; {list_choices('', allowed)}", place=(name,))
        return str(value)

    return check


def _check_encoding(value: Any) -> str:
    try:
        codec = codecs.lookup(str(value))
        known = codec._is_text_encoding and codec.name not in NOT_CHARACTERS
    except (LookupError, ValueError):
        known = False
    if not known:
        choices = list_choices(str(value), ENCODINGS)
        raise PolicyError(f"unknown encoding {value!r}; {choices}, or another encoding of Python", place=("encoding",))
    return str(value)


def _check_dates(value: Any) -> str:
    try:
        text = str(value)
        fits = datetime.strptime(SAMPLE.strftime(text), text).date() == SAMPLE.date()
    except (ValueError, UnicodeError):
        fits = False
    if not fits:
        raise PolicyError(
            f"'dates' must be a format with the day, the month and the year, such as '%d.%m.%Y' or '%m/%d/%Y', not {value!r}",
            place=("dates",),
        )
    return text


def _check_sheet(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise PolicyError(f"'sheet' must be the name of a sheet, not {value!r}", place=("sheet",))
    return value


CHECKS = {
    "delimiter": _check_delimiter,
    "decimal": _check_choice("decimal", DECIMALS),
    "thousands": _check_choice("thousands", THOUSANDS),
    "encoding": _check_encoding,
    "dates": _check_dates,
    "sheet": _check_sheet,
}
