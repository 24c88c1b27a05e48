"""How published values are written, in one place.

A tight range is ``[20, 36]``, a cut ``[20, 40)``, a set ``{a, b}``, the root ``*``; a single value stands plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.engines import date_text, number_text
from shoal.taxonomy import ROOT

__all__ = ["ROOT", "cut_text", "date_text", "number_text", "range_text", "set_text"]


def range_text(lo: float, hi: float, text: Callable[[float], str] = number_text) -> str:
    """A tight range, both ends taken by records.

    >>> range_text(20, 36), range_text(20, 20)
    ('[20, 36]', '20')
    """
    return text(lo) if lo == hi else f"[{text(lo)}, {text(hi)}]"


def cut_text(lo: float, hi: float, text: Callable[[float], str] = number_text) -> str:
    """An interval of a cut, without its upper end; an end at infinity is open.

    >>> cut_text(20, 40), cut_text(float("-inf"), 20), cut_text(40, float("inf"))
    ('[20, 40)', '(-inf, 20)', '[40, inf)')
    """
    left = "(-inf" if lo == float("-inf") else f"[{text(lo)}"
    return f"{left}, {'inf' if hi == float('inf') else text(hi)})"


def set_text(values: Iterable[str | None]) -> str | None:
    """A set of values; a single one stands plain.

    >>> set_text(["b", "a"]), set_text(["a"])
    ('{b, a}', 'a')
    """
    listed = list(values)
    if len(listed) == 1:
        return listed[0]
    return "{" + ", ".join("?" if v is None else v for v in listed) + "}"
