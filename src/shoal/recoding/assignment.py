"""`Assignment`: cell by cell, which group its records go to, with quotas where equal records are divided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.engines import GroupColumn
from shoal.formats.checked_json import array, array_to_json, require
from shoal.recoding.field import Field
from shoal.recoding.nearest_box import (
    PublishedSets,
    check_groups,
    nearest_boxes,
    points_of,
    sets_from_dict,
    sets_to_dict,
)
from shoal.recoding.protocol import LaterData, Output, PlacedData, apply
from shoal.recoding.serialization import head_from_dict, head_to_dict, written_from_dict, written_to_dict


@dataclass(frozen=True)
class Assignment:
    """Entry p says that ``count[p]`` records at the positions ``cells[p]`` went to ``group[p]`` (-1: suppressed).

    It holds the raw values of every record, so it never leaves the owner's folder.
    """

    fields: tuple[Field, ...]
    output: Output
    cells: FloatArray
    group: Int32Array
    count: Int64Array
    lo: FloatArray
    hi: FloatArray
    written: tuple[tuple[str, GroupColumn], ...]
    sets: tuple[PublishedSets, ...] = ()

    kind: ClassVar[str] = "assignment"

    def __post_init__(self) -> None:
        check_groups(self.fields, self.output, self.lo, self.hi, self.written, self.sets)
        count = len(self.group)
        fits = self.cells.shape == (count, len(self.fields)) and len(self.count) == count
        require(fits, "the cells, their groups and their weights differ in length")
        inside = ((self.group >= -1) & (self.group < len(self.lo))).all()
        require(inside, "a cell is sent to a group that is not there")
        require((self.count > 0).all(), "a cell has no records")

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode later data: each record goes to the first box that holds it.

        With ``nearest``, one that no box holds goes to the nearest box, instead of raising `DataError`. Groups may be
        smaller than the requirement asks: check the result before it leaves.
        """
        return apply(self, data, nearest=nearest)

    def place(self, later: LaterData) -> PlacedData:
        """The first box that holds each combination; one whose records were all suppressed stays out."""
        points = points_of(later)
        group, held = nearest_boxes(self.fields, points, self.lo, self.hi, self.sets)
        gone = {row.tobytes() for row in self.cells[self.group < 0]} - {
            row.tobytes() for row in self.cells[self.group >= 0]
        }
        out = np.array([row.tobytes() in gone for row in points], bool) if gone else np.zeros(len(points), bool)
        return PlacedData(np.where(out, -1, group).astype(np.int32), ~(held | out), self.written)

    def to_json(self) -> str:
        """The recoding as JSON text."""
        return json.dumps(
            {
                **head_to_dict(self),
                "cells": array_to_json(self.cells),
                "group": array_to_json(self.group),
                "weight": array_to_json(self.count),
                "lo": array_to_json(self.lo),
                "hi": array_to_json(self.hi),
                "written": written_to_dict(self.written),
                **sets_to_dict(self.sets),
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Assignment:
        """Back from JSON."""
        fields, output = head_from_dict(found)
        group = array(found, "group", np.int32, (None,))
        lo = array(found, "lo", np.float64, (None, len(fields)))
        return cls(
            fields,
            output,
            array(found, "cells", np.float64, (len(group), len(fields))),
            group,
            array(found, "weight", np.int64, (len(group),)),
            lo,
            array(found, "hi", np.float64, lo.shape),
            written_from_dict(found),
            sets_from_dict(found),
        )
