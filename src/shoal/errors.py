"""The errors a user can meet: one tree, each text naming the column, the value and the remedy."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

SHOWN = 5
LONGEST = (
    100  # characters of one value that an error text quotes, and of a wrong word that is compared with the allowed ones
)
JOINERS = "\u200c\u200d"  # Persian words and some emoji need them
BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # letters and marks by category that show nothing


class ShoalError(Exception):
    """Everything Shoal raises on purpose. Its text is harmless to a terminal, whatever names and values it quotes."""

    def __str__(self) -> str:
        return escape_invisible(super().__str__(), keep="\n")


class PolicyError(ShoalError, ValueError):
    """The policy is wrong in itself, or does not fit the table; ``place`` is the key at fault, where it is known."""

    def __init__(self, text: str, *, place: tuple[str | int, ...] = ()) -> None:
        super().__init__(text)
        self.place = place


class DataError(ShoalError, ValueError):
    """The table, a taxonomy or a file holds something that cannot be used as it is."""


class EngineError(ShoalError):
    """The machinery that holds the data failed: a library is absent, a file cannot be written."""


class RequirementNotMet(ShoalError):
    """No release within the allowance meets the policy; nothing was written.

    ``certificate`` says how far the best attempt got, where there was one.
    """

    certificate: Any = None

    def reached(self, certificate: Any) -> Self:
        """Attach the certificate of the failed attempt."""
        self.certificate = certificate
        return self


def escape_invisible(text: str, *, keep: str = "") -> str:
    r"""A text in which control characters, bidi overrides and other characters that cannot be seen are escapes.

    Parameters
    ----------
    text : what may hold names and values of any origin
    keep : characters to leave as they are, such as the newlines of a text of several lines

    >>> print(escape_invisible("a\x1b[31mb\nc\u202ed"), escape_invisible("a\nb", keep="\n"))
    a\x1b[31mb\nc\u202ed a
    b
    """
    return "".join(sign if sign in keep or _is_visible(sign) else _escape(sign) for sign in text)


def _is_visible(sign: str) -> bool:
    seen = sign.isprintable() or sign in JOINERS or unicodedata.category(sign) == "Zs"
    return seen and sign not in BLANKS


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape").decode()


def list_some(values: Iterable[object], total: int | None = None) -> str:
    """The first five values, each cut where it is long, and how many more there are.

    >>> list_some(["a", "b"])
    "'a', 'b'"
    >>> list_some(range(9))
    '0, 1, 2, 3, 4 and 4 more'
    """
    shown = list(values)
    count = len(shown) if total is None else total
    quoted = [repr(v) for v in shown[:SHOWN]]
    text = ", ".join(q if len(q) <= LONGEST else f"{q[:LONGEST]}…" for q in quoted)
    more = count - min(len(shown), SHOWN)
    return f"{text} and {more} more" if more > 0 else text


def count_noun(count: int, noun: str) -> str:
    """A count with its unit.

    >>> count_noun(1, "record"), count_noun(3, "record")
    ('1 record', '3 records')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def list_choices(wrong: object, allowed: Sequence[str]) -> str:
    """What may be said instead, with a guess at what was meant.

    >>> list_choices("agee", ["age", "sex"])
    "choose from 'age', 'sex' (did you mean 'age'?)"
    """
    word = str(wrong)
    close = difflib.get_close_matches(word, allowed, n=1) if len(word) <= LONGEST else []  # quadratic in the length
    guess = f" (did you mean {close[0]!r}?)" if close else ""
    listed = ", ".join(repr(a) for a in allowed[:30]) + (" …" if len(allowed) > 30 else "")
    return f"choose from {listed}{guess}"
