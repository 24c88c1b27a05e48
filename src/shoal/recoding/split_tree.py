"""`Boxes`: a tree of cuts with a box per leaf. Strict Mondrian learns it; later data fall through the cuts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shoal import kernels
from shoal.arrays import FloatArray, Int32Array
from shoal.engines import GroupColumn
from shoal.formats.checked_json import array, array_to_json, member
from shoal.recoding.field import Field
from shoal.recoding.nearest_box import (
    PublishedSets,
    are_listed,
    check_groups,
    nearest_boxes,
    points_of,
    sets_from_dict,
    sets_to_dict,
)
from shoal.recoding.protocol import LaterData, Output, PlacedData, apply, descend_split_tree
from shoal.recoding.serialization import (
    check_tree,
    head_from_dict,
    head_to_dict,
    tree_from_dict,
    written_from_dict,
    written_to_dict,
)


@dataclass(frozen=True)
class Boxes:
    """Node n sends positions up to ``at[n]`` of field ``field[n]`` left, others right; where ``field[n]`` is -1 it is
    the leaf of group ``group[n]`` (-1: suppressed). Box ``g`` holds the positions from ``lo[g]`` to ``hi[g]``, which is
    what is published for it: a range of numbers, all that lies under a node.
    """

    fields: tuple[Field, ...]
    output: Output
    field: Int32Array
    at: FloatArray
    left: Int32Array
    right: Int32Array
    group: Int32Array
    lo: FloatArray
    hi: FloatArray
    written: tuple[tuple[str, GroupColumn], ...]
    sets: tuple[PublishedSets, ...] = ()

    kind: ClassVar[str] = "boxes"

    def __post_init__(self) -> None:
        check_groups(self.fields, self.output, self.lo, self.hi, self.written, self.sets)
        tree = self.field, self.at, self.left, self.right, self.group
        check_tree(len(self.fields), *tree, leaves=len(self.lo))

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode later data by the same cuts.

        Parameters
        ----------
        data : a frame or a file with the same columns
        nearest : give a record that no box holds the label of the nearest box, instead of raising `DataError`

        Guarantee
        ---------
        A record gets a label that was published before, and one that holds its values unless ``nearest`` is asked for.
        Records that fall where the first data were suppressed are left out. Groups may be smaller than the requirement
        asks: check the result before it leaves.
        """
        return apply(self, data, nearest=nearest)

    def place(self, later: LaterData) -> PlacedData:
        """Let every combination fall through the cuts."""
        group = descend_split_tree(later, self.field, self.at, self.left, self.right, self.group)
        points = points_of(later)
        present = group >= 0
        outside = np.zeros(len(group), bool)
        outside[present] = ~kernels.boxes.is_inside(points[present], group[present], self.lo, self.hi)
        outside[present] |= ~are_listed(self.fields, points[present], group[present], self.sets)
        if outside.any():  # another box may hold it
            group[outside], held = nearest_boxes(self.fields, points[outside], self.lo, self.hi, self.sets)
            outside[outside] = ~held
        return PlacedData(group, outside, self.written)

    def to_json(self) -> str:
        """The recoding as JSON text."""
        return json.dumps(
            {
                **head_to_dict(self),
                "tree": {
                    "field": array_to_json(self.field),
                    "at": array_to_json(self.at),
                    "left": array_to_json(self.left),
                    "right": array_to_json(self.right),
                    "group": array_to_json(self.group),
                },
                "lo": array_to_json(self.lo),
                "hi": array_to_json(self.hi),
                "written": written_to_dict(self.written),
                **sets_to_dict(self.sets),
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Boxes:
        """Back from JSON."""
        fields, output = head_from_dict(found)
        tree = tree_from_dict(member(found, "tree", dict), "group")
        lo = array(found, "lo", np.float64, (None, len(fields)))
        hi = array(found, "hi", np.float64, lo.shape)
        return cls(fields, output, *tree, lo, hi, written_from_dict(found), sets_from_dict(found))
