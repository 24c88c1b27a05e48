"""`Boxes`: the recoding of strict Mondrian, a tree of splits with one box per leaf. Later data descend the tree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shoal import kernels
from shoal.arrays import FloatArray, Int32Array
from shoal.formats.checked_json import array, array_to_json, member, refuse_unknown
from shoal.recoding.field import Field
from shoal.recoding.nearest_box import (
    PublishedSets,
    are_in_sets,
    check_groups,
    find_nearest_boxes,
    locate_points,
    sets_from_dict,
    sets_to_dict,
)
from shoal.recoding.protocol import BaseRecoding, Columns, LaterData, LaterPlacement, Output, apply, descend_split_tree
from shoal.recoding.serialization import (
    HEAD,
    check_tree,
    columns_from_dict,
    columns_to_dict,
    head_from_dict,
    head_to_dict,
    tree_from_dict,
)


@dataclass(frozen=True)
class Boxes(BaseRecoding):
    """A tree of splits. Node n sends positions up to ``at[n]`` of field ``field[n]`` left, others right.

    If ``field[n]`` is -1, node n is the leaf of group ``group[n]`` (-1: suppressed). Box g contains the positions from
    ``lo[g]`` to ``hi[g]``, as published: a range of numbers, or all values below a node of a taxonomy.
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
    columns: Columns
    sets: tuple[PublishedSets, ...] = ()

    kind: ClassVar[str] = "boxes"

    def __post_init__(self) -> None:
        check_groups(self.fields, self.output, self.lo, self.hi, self.columns, self.sets)
        tree = self.field, self.at, self.left, self.right, self.group
        check_tree(len(self.fields), *tree, leaves=len(self.lo))

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode later data with the same splits.

        Parameters
        ----------
        data : a frame or a file with the same columns
        nearest : give a record outside every box the labels of the nearest box, instead of raising `DataError`

        Guarantee
        ---------
        Every record gets labels that were published before; without ``nearest`` the labels are true. Records of suppressed
        boxes are suppressed. Groups may be smaller than the requirement demands: check the result before you publish it.
        """
        return apply(self, data, nearest=nearest)

    def place(self, later: LaterData) -> LaterPlacement:
        """Send every combination down the tree to its group."""
        group = descend_split_tree(later, self.field, self.at, self.left, self.right, self.group)
        points = locate_points(later)
        present = group >= 0
        outside = np.zeros(len(group), bool)
        outside[present] = ~kernels.boxes.is_inside(points[present], group[present], self.lo, self.hi)
        outside[present] |= ~are_in_sets(self.fields, points[present], group[present], self.sets)
        if outside.any():  # another box may contain the point
            group[outside], inside = find_nearest_boxes(self.fields, points[outside], self.lo, self.hi, self.sets)
            outside[outside] = ~inside
        return LaterPlacement(group, outside, self.columns)

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
                "written": columns_to_dict(self.columns),
                **sets_to_dict(self.sets),
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Boxes:
        """Read a recoding from the content of its JSON file."""
        refuse_unknown(found, (*HEAD, "tree", "lo", "hi", "written", "sets"))
        fields, output = head_from_dict(found)
        tree = tree_from_dict(member(found, "tree", dict), "group")
        lo = array(found, "lo", np.float64, (None, len(fields)))
        hi = array(found, "hi", np.float64, lo.shape)
        return cls(fields, output, *tree, lo, hi, columns_from_dict(found), sets_from_dict(found))
