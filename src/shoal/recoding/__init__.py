"""Recodings: the rules by which a release generalized values, stored as JSON and applicable to later data."""

from __future__ import annotations

from shoal.recoding.assignment import Assignment
from shoal.recoding.cut import Cut, FieldCut
from shoal.recoding.field import Field
from shoal.recoding.group_labels import STYLES, Style, label_boxes, parse_style
from shoal.recoding.partitioned import Parts, load_recoding, read_recoding, refuse_other_policy
from shoal.recoding.protocol import (
    Columns,
    EncodedLaterData,
    LaterData,
    LaterPlacement,
    Output,
    Placement,
    Recoding,
    encode_later_data,
)
from shoal.recoding.randomize import IndependentOperator, Randomize
from shoal.recoding.selection import SelectionOperator
from shoal.recoding.split_tree import Boxes
from shoal.recoding.synthesis import Synthesis, expand_placement

__all__ = [
    "STYLES",
    "Assignment",
    "Boxes",
    "Columns",
    "Cut",
    "EncodedLaterData",
    "Field",
    "FieldCut",
    "IndependentOperator",
    "LaterData",
    "LaterPlacement",
    "Output",
    "Parts",
    "Placement",
    "Randomize",
    "Recoding",
    "SelectionOperator",
    "Style",
    "Synthesis",
    "encode_later_data",
    "expand_placement",
    "label_boxes",
    "load_recoding",
    "parse_style",
    "read_recoding",
    "refuse_other_policy",
]
