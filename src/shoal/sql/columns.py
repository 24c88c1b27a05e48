"""Columns of a table as SQL expressions with the values that Shoal counts: missing values as NULL, spellings as one text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shoal.engines.sql import quote_name, quote_text
from shoal.formats.normalize import Normalizer
from shoal.sql.dialects import IS_NAN

# Backslashes mean different things in the string literals of the dialects, so no pattern has any.
PRINTABLE = "^[!-~]([ -~]*[!-~])?$"  # ASCII; the normalized text is the text itself, unless it is a number
NUMBER = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
SHORTEST_NUMBER = "^(0|-?[1-9][0-9]{0,20}|-?(0|[1-9][0-9]{0,9})[.][0-9]{0,9}[1-9])$"  # as `Normalizer` writes it
PERHAPS_NUMBER = "^[^A-Za-z]*[0-9][^A-Za-z]*([eE][+-]?[0-9]+)?$"  # with separators of thousands or a decimal comma


@dataclass(frozen=True)
class ColumnText:
    """A column as SQL: its ``value``, NULL where it is missing, and a condition for texts that SQL cannot read, if any."""

    value: str
    unknown: str | None = None


def read_as_published(column: str) -> ColumnText:
    """Read a column as the audit does: an empty text and a number that is no number are missing, other values unchanged."""
    name = quote_name(column)
    return ColumnText(make_null(name, f"{cast_text(name)} = '' OR {IS_NAN}({name})"))


def make_null(value: str, missing: str) -> str:
    """A value, or NULL where a condition says that it is missing."""
    return f"CASE WHEN {missing} THEN NULL ELSE {value} END"


def fold_text(value: str) -> str:
    """The text of a value without spaces around it and in lower case."""
    return f"LOWER(TRIM({cast_text(value)}))"


def read_normalized(column: str, normal: Normalizer) -> ColumnText:
    """Read a column as its normalized texts; texts whose normalized form SQL cannot compute are marked as unknown."""
    name = quote_name(column)
    text = fold_text(name)
    missing = is_listed(text, sorted({"", *normal.missing_texts}))
    plain = f"{matches(text, PRINTABLE)} AND NOT {matches(text, NUMBER)} OR {matches(text, SHORTEST_NUMBER)}"
    return ColumnText(
        make_null(text, f"{missing} OR {IS_NAN}({name})"),
        f"NOT ({missing} OR {IS_NAN}({name}) OR {plain})",
    )


def cast_text(value: str) -> str:
    """A value as text."""
    return f"CAST({value} AS TEXT)"


def matches(text: str, pattern: str) -> str:
    """Whether a text matches a regular expression."""
    return f"REGEXP_MATCHES({text}, {quote_text(pattern)})"


def is_listed(text: str, texts: Iterable[str]) -> str:
    """Whether a text is one of several texts."""
    return f"{text} IN ({', '.join(map(quote_text, texts))})"


def as_float(value: str) -> str:
    """A count as a floating-point number, so that a division is no integer division."""
    return f"CAST({value} AS DOUBLE)"


def write_float(number: float) -> str:
    """A number as a literal that no dialect reads as a decimal."""
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


def join_names(names: Sequence[str], *others: str) -> str:
    """Names for a list of SQL."""
    return ", ".join([*names, *others])
