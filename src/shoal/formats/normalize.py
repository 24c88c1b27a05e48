"""Normalized text: the spellings of one value have one text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property

INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"  # characters without width; they are trimmed like spaces
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,4})?")
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
