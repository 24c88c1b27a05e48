"""Normalize texts, so that all spellings of a value become one text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property

INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"  # zero-width characters, trimmed like spaces
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,4})?")
PLAIN = 30  # numbers with fewer digits are written without an exponent


@dataclass(frozen=True)
class Normalizer:
    """Maps the spellings of a value to one text: trimmed, Unicode NFKC, case folded, numbers by their value.

    All spellings of the texts in ``missing`` become the empty text.

    >>> normal = Normalizer(("", "N/A"))
    >>> [normal(text) for text in ("HIV ", "hiv", "01", "1e0", "n/a", " ")]
    ['hiv', 'hiv', '1', '1', '', '']
    """

    missing: tuple[str, ...] = ("",)

    @cached_property
    def missing_texts(self) -> frozenset[str]:
        """The normalized texts that mean a missing value."""
        return frozenset(map(_normalize_text, self.missing))

    def __call__(self, text: str) -> str:
        """Return the normalized text of a value."""
        normal = _normalize_text(text)
        return "" if normal in self.missing_texts else normal


def _normalize_text(text: str) -> str:
    before = None
    if text.isascii():  # Unicode does not change it
        text = before = text.lower().strip()
    while text != before:  # case folding and trimming may require another pass
        before = text
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip().strip(INVISIBLE)
    if NUMBER.fullmatch(text) is None:
        return text
    number = Decimal(text).normalize(Context(prec=len(text)))
    plain = abs(number.adjusted()) < PLAIN
    return "0" if not number else format(number, "f") if plain else str(number).lower()
