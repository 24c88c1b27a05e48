"""`Assignment`: a local recoding that assigns every cell to a group, with quotas where equal records are divided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.formats.checked_json import array, array_to_json, refuse_unknown, require
from shoal.recoding.field import Field
from shoal.recoding.nearest_box import (
    PublishedSets,
    check_groups,
    find_nearest_boxes,
    locate_points,
    sets_from_dict,
    sets_to_dict,
)
from shoal.recoding.protocol import BaseRecoding, Columns, LaterData, LaterPlacement, Output, apply
from shoal.recoding.serialization import HEAD, columns_from_dict, columns_to_dict, head_from_dict, head_to_dict


@dataclass(frozen=True)
class Assignment(BaseRecoding):
    """Entry p assigns ``count[p]`` records at the positions ``cells[p]`` to ``group[p]`` (-1: suppressed).

    It holds the raw values of every record, so it must stay in the owner folder.
    """

    fields: tuple[Field, ...]
    output: Output
    cells: FloatArray
    group: Int32Array
    count: Int64Array
    lo: FloatArray
    hi: FloatArray
    columns: Columns
    sets: tuple[PublishedSets, ...] = ()

    kind: ClassVar[str] = "assignment"

    def __post_init__(self) -> None:
        check_groups(self.fields, self.output, self.lo, self.hi, self.columns, self.sets)
        count = len(self.group)
        fits = self.cells.shape == (count, len(self.fields)) and len(self.count) == count
        require(fits, "the arrays 'cells', 'group' and 'weight' differ in length")
        inside = ((self.group >= -1) & (self.group < len(self.lo))).all()
        require(inside, "a cell is assigned to a group that does not exist")
        require((self.count > 0).all(), "a cell has no records")

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode later data: each record gets the labels of the first box that contains it.

        A record outside every box raises `DataError`; with ``nearest`` it gets the labels of the nearest box. Groups may be
        smaller than the requirement demands: check the result before you publish it.
        """
        return apply(self, data, nearest=nearest)

    def place(self, later: LaterData) -> LaterPlacement:
        """The first box that contains each combination; suppressed if all its original records were suppressed."""
        points = locate_points(later)
        group, inside = find_nearest_boxes(self.fields, points, self.lo, self.hi, self.sets)
        suppressed = {row.tobytes() for row in self.cells[self.group < 0]} - {
            row.tobytes() for row in self.cells[self.group >= 0]
        }
        out = np.zeros(len(points), bool)
        if suppressed:
            out = np.array([row.tobytes() in suppressed for row in points], bool)
        return LaterPlacement(np.where(out, -1, group).astype(np.int32), ~(inside | out), self.columns)

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
                "written": columns_to_dict(self.columns),
                **sets_to_dict(self.sets),
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Assignment:
        """Read a recoding from the content of its JSON file."""
        refuse_unknown(found, (*HEAD, "cells", "group", "weight", "lo", "hi", "written", "sets"))
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
            columns_from_dict(found),
            sets_from_dict(found),
        )
