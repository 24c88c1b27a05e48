"""The exceptions of Shoal. Every error text names the column, the value and the remedy."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

MOST_VALUES = 5  # values that an error text quotes
LONGEST = 100  # characters of a quoted value, and of a wrong word that is compared with the allowed words
JOINERS = "\u200c\u200d"  # required by Persian words and some emoji
BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters and marks by category, but invisible

EMPTY_TABLE = "the table is empty; pass a table with at least one record"
DELIMITERS = (
    "If the columns of a CSV file are separated by another character than a comma, a semicolon, a tab or '|', name it: "
    "--delimiter, or 'delimiter:' under 'read:'."
)


class ShoalError(Exception):
    """Base class of all errors that Shoal raises on purpose. Invisible characters in the text are escaped."""

    def __str__(self) -> str:
        return escape_invisible(super().__str__(), keep="\n")


class PolicyError(ShoalError, ValueError):
    """The policy is invalid or does not fit the table; ``place`` is the path of the wrong key, if known."""

    def __init__(self, text: str, *, place: tuple[str | int, ...] = ()) -> None:
        super().__init__(text)
        self.place = place


class DataError(ShoalError, ValueError):
    """The table, a taxonomy or a file contains invalid data."""


class EngineError(ShoalError):
    """The engine failed: a library is not installed, or a file cannot be written."""


class RequirementNotMet(ShoalError):
    """No release within the suppression limit meets the policy; nothing was written.

    ``certificate`` is the certificate of the best attempt, or None.
    """

    certificate: Any = None

    def with_certificate(self, certificate: Any) -> Self:
        """Attach the certificate of the failed attempt."""
        self.certificate = certificate
        return self


def escape_invisible(text: str, *, keep: str = "") -> str:
    r"""Escape control characters, bidirectional overrides and other invisible characters.

    Parameters
    ----------
    text : any text, such as names and values from an untrusted file
    keep : characters that are not escaped, such as the newlines of a text with several lines

    >>> print(escape_invisible("a\x1b[31mb\nc\u202ed"), escape_invisible("a\nb", keep="\n"))
    a\x1b[31mb\nc\u202ed a
    b
    """
    if text.isascii() and text.isprintable():  # most texts; nothing to escape
        return text
    return "".join(char if char in keep or _is_visible(char) else _escape(char) for char in text)


def _is_visible(char: str) -> bool:
    printable = char.isprintable() or char in JOINERS or unicodedata.category(char) == "Zs"
    return printable and char not in BLANKS


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def list_some(values: Iterable[object], total: int | None = None) -> str:
    """Quote the first five values, each shortened if it is long, and add the number of further values.

    >>> list_some(["a", "b"])
    "'a', 'b'"
    >>> list_some(range(9))
    '0, 1, 2, 3, 4 and 4 more'
    """
    listed = list(values)
    count = len(listed) if total is None else total
    quoted = [repr(v) for v in listed[:MOST_VALUES]]
    text = ", ".join(q if len(q) <= LONGEST else f"{q[:LONGEST]}…" for q in quoted)
    more = count - min(len(listed), MOST_VALUES)
    return f"{text} and {more} more" if more > 0 else text


def list_choices(wrong: object, allowed: Sequence[str]) -> str:
    """List the allowed words, with a suggestion if one of them resembles the wrong word.

    >>> list_choices("agee", ["age", "sex"])
    "choose from 'age', 'sex' (did you mean 'age'?)"
    >>> list_choices("agee", [])
    'no choice exists here, so remove it'
    """
    if not allowed:
        return "no choice exists here, so remove it"
    word = str(wrong)
    close = difflib.get_close_matches(word, allowed, n=1) if len(word) <= LONGEST else []  # takes quadratic time
    guess = f" (did you mean {close[0]!r}?)" if close else ""
    listed = ", ".join(repr(a) for a in allowed[:30]) + (" …" if len(allowed) > 30 else "")
    return f"choose from {listed}{guess}"


def explain_absent_column(column: str, wanted: Iterable[str], names: Sequence[str], remedy: str) -> str:
    """The error text for a column that is not in the table.

    The text lists the columns of the table only if one of the ``wanted`` columns is among them, in upper or lower case.
    Otherwise the file may have no header line, and its first line may contain the values of a person.

    >>> print(explain_absent_column("agee", ["agee", "sex"], ["age", "sex"], "Correct the name."))
    column 'agee' is not in the table; choose from 'age', 'sex' (did you mean 'age'?). Correct the name.
    >>> print(explain_absent_column("age", ["age", "sex"], ["51", "Male"], "Correct the name."))
    none of the columns of the policy is in the table. Does the first line of the file contain the column names?
    >>> print(explain_absent_column("age", ["age", "sex"], ["age^sex"], "Correct the name.").partition(";")[2])
     the columns may be separated by '^'. Name the delimiter: --delimiter '^', or 'delimiter:' under 'read:'.
    """
    wanted = list(wanted)
    if len(names) == 1 and names[0] not in wanted and (delimiter := _guess_delimiter(names[0], wanted)):
        return (
            f"column {column!r} is not in the table: the header has only one column; the columns may be separated by "
            f"{delimiter!r}. Name the delimiter: --delimiter {delimiter!r}, or 'delimiter:' under 'read:'."
        )
    present = {name.strip().casefold() for name in names}
    if any(name.strip().casefold() in present for name in wanted):
        return f"column {column!r} is not in the table; {list_choices(column, names)}. {remedy}"
    return _ask_for_header("none of the columns of the policy is", names)


def _guess_delimiter(header: str, wanted: Iterable[str]) -> str:
    """The character that may separate the columns in a header: one next to a wanted column; empty if there is none."""
    for name in sorted(filter(None, wanted), key=len, reverse=True):
        before, found, after = header.partition(name)
        for char in (after[:1], before[-1:]) if found else ():
            if char and not char.isalnum() and char not in "_\"'":
                return char
    return ""


def explain_unknown_column(column: str, names: Sequence[str]) -> str:
    """The error text for a single column that is not in the table; it quotes at most one name, which resembles the column.

    >>> print(explain_unknown_column("agee", ["age", "sex"]))
    column 'agee' is not in the table (did you mean 'age'?). Correct the name.
    """
    close = difflib.get_close_matches(column, names, n=1) if len(column) <= LONGEST else []
    if close:
        return f"column {column!r} is not in the table (did you mean {close[0]!r}?). Correct the name."
    return _ask_for_header(f"column {column!r} is not", names)


def _ask_for_header(absent: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{absent} in the table, which has only one column. {DELIMITERS}"
    return f"{absent} in the table. Does the first line of the file contain the column names?"
