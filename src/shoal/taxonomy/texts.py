"""How ranges are written, in one place: the labels of interval trees and of recodings alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.engines import number_text


def range_text(lo: float, hi: float, text: Callable[[float], str] = number_text) -> str:
    """A tight range, both ends taken by records.

    >>> range_text(20, 36), range_text(20, 20)
    ('[20, 36]', '20')
    """
    return text(lo) if lo == hi else f"[{text(lo)}, {text(hi)}]"


def branch_text(first: Any, last: Any) -> str:
    """A branch of neighbouring values, by the first and the last of them.

    >>> branch_text(20.0, 36.0), branch_text("clerk", "nurse")
    ('[20, 36]', '{clerk … nurse}')
    """
    return f"{{{first} … {last}}}" if isinstance(first, str) else range_text(first, last)


def cut_text(lo: float, hi: float, text: Callable[[float], str] = number_text) -> str:
    """An interval of a cut, without its upper end; an end at infinity is open.

    >>> cut_text(20, 40), cut_text(float("-inf"), 20), cut_text(40, float("inf"))
    ('[20, 40)', '(-inf, 20)', '[40, inf)')
    """
    left = "(-inf" if lo == float("-inf") else f"[{text(lo)}"
    return f"{left}, {'inf' if hi == float('inf') else text(hi)})"
