"""Recodings: what a method learned, small enough to keep, ready for later data."""

from __future__ import annotations

import json
from pathlib import Path

from shoal.errors import DataError, choices
from shoal.recoding.assignment import Assignment
from shoal.recoding.base import Field, Later, Output, Placement, Recoding
from shoal.recoding.boxes import Boxes
from shoal.recoding.cut import Cut, FieldCut
from shoal.recoding.synthesis import Synthesis, one_by_one
from shoal.recoding.writing import STYLES, Style, style_of, write_boxes

KINDS: dict[str, type[Boxes] | type[Assignment] | type[Cut] | type[Synthesis]] = {
    k.kind: k for k in (Cut, Boxes, Assignment, Synthesis)
}


def load_recoding(path: str | Path) -> Recoding:
    """A recoding from the JSON file that a release left in the owner's folder."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the recoding {str(path)!r}: {error}") from error
    kind = found.get("kind") if isinstance(found, dict) else None
    if kind not in KINDS:
        raise DataError(f"{str(path)!r} is no recoding that this version knows; {choices(str(kind), list(KINDS))}")
    try:
        return KINDS[kind].from_dict(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the recoding {str(path)!r} is damaged: {error!r}") from error


__all__ = [
    "STYLES",
    "Assignment",
    "Boxes",
    "Cut",
    "Field",
    "FieldCut",
    "Later",
    "Output",
    "Placement",
    "Recoding",
    "Style",
    "Synthesis",
    "load_recoding",
    "one_by_one",
    "style_of",
    "write_boxes",
]
