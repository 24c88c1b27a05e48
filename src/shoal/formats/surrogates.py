"""Lone surrogates: halves of a UTF-16 pair, which Python texts may contain but no UTF-8 file can."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def find_surrogates(texts: Iterable[str]) -> list[str]:
    r"""Return the texts that contain a lone surrogate.

    >>> find_surrogates(["age", "\ud800", "\U0001f600"])
    ['\ud800']
    """
    listed = list(texts)
    return [] if _is_valid("".join(listed)) else [text for text in listed if not _is_valid(text)]


def is_utf8(path: Path) -> bool:
    r"""Whether an absolute path is valid UTF-8. Arrow and DuckDB cannot open other paths, which Python writes with surrogates.

    >>> is_utf8(Path("a.csv")), is_utf8(Path("\udcff.csv"))
    (True, False)
    """
    return _is_valid(str(path.absolute()))


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
