"""`Assignment`: cell by cell, which group its records go to, with quotas where equal records are divided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shoal.engines import Written
from shoal.recoding.base import (
    F8,
    I4,
    I8,
    Field,
    Later,
    Output,
    Placement,
    apply,
    from_numbers,
    head_from_dict,
    head_to_dict,
    refuse_outside,
    to_numbers,
    written_from_dict,
    written_to_dict,
)
from shoal.recoding.nearest import nearest_boxes, points_of


@dataclass(frozen=True)
class Assignment:
    """Entry p says that ``weight[p]`` records at the positions ``cells[p]`` went to ``group[p]`` (-1: suppressed).

    It holds the raw values of every record, so it never leaves the owner's folder.
    """

    fields: tuple[Field, ...]
    output: Output
    cells: F8
    group: I4
    weight: I8
    lo: F8
    hi: F8
    written: tuple[tuple[str, Written], ...]

    kind: ClassVar[str] = "assignment"

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode later data: each record goes to the first box that holds it.

        With ``nearest``, one that no box holds goes to the nearest box, instead of raising `DataError`. Groups may be
        smaller than the requirement asks: check the result before it leaves.
        """
        return apply(self, data, nearest=nearest)

    def place(self, later: Later, *, nearest: bool) -> tuple[Placement, tuple[tuple[str, Written], ...]]:
        """The first box that holds each combination; one whose records were all suppressed stays out."""
        points = points_of(later)
        group, held = nearest_boxes(self.fields, points, self.lo, self.hi)
        gone = {row.tobytes() for row in self.cells[self.group < 0]} - {
            row.tobytes() for row in self.cells[self.group >= 0]
        }
        out = np.array([row.tobytes() in gone for row in points], bool) if gone else np.zeros(len(points), bool)
        if not nearest and not (held | out).all():
            refuse_outside(later, ~(held | out))
        return Placement.whole(later.counts, np.where(out, -1, group).astype(np.int32)), self.written

    def to_json(self) -> str:
        """The recoding as JSON text."""
        return json.dumps(
            {
                **head_to_dict(self),
                "cells": to_numbers(self.cells),
                "group": self.group.tolist(),
                "weight": self.weight.tolist(),
                "lo": to_numbers(self.lo),
                "hi": to_numbers(self.hi),
                "written": written_to_dict(self.written),
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Assignment:
        """Back from JSON."""
        return cls(
            *head_from_dict(found),
            from_numbers(found["cells"]),
            np.array(found["group"], np.int32),
            np.array(found["weight"], np.int64),
            from_numbers(found["lo"]),
            from_numbers(found["hi"]),
            written_from_dict(found["written"]),
        )
