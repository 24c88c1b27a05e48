"""Recodings: what a method learned, small enough to keep, ready for later data."""

from __future__ import annotations

from shoal.recoding.assignment import Assignment
from shoal.recoding.cut import Cut, FieldCut
from shoal.recoding.field import Field
from shoal.recoding.group_labels import STYLES, Style, label_boxes, parse_style
from shoal.recoding.partitioned import Parts, load_recoding, read_recoding, refuse_other_policy
from shoal.recoding.protocol import (
    Columns,
    LaterData,
    LocatedData,
    Output,
    PlacedData,
    Placement,
    Recoding,
    locate_later_data,
)
from shoal.recoding.split_tree import Boxes
from shoal.recoding.synthesis import Synthesis, expand_placement

__all__ = [
    "STYLES",
    "Assignment",
    "Boxes",
    "Columns",
    "Cut",
    "Field",
    "FieldCut",
    "LaterData",
    "LocatedData",
    "Output",
    "Parts",
    "PlacedData",
    "Placement",
    "Recoding",
    "Style",
    "Synthesis",
    "expand_placement",
    "label_boxes",
    "load_recoding",
    "locate_later_data",
    "parse_style",
    "read_recoding",
    "refuse_other_policy",
]
