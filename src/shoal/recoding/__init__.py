"""Recodings: what a method learned, small enough to keep, ready for later data."""

from __future__ import annotations

from shoal.recoding.assignment import Assignment
from shoal.recoding.cut import Cut, FieldCut
from shoal.recoding.field import Field
from shoal.recoding.group_labels import STYLES, Style, style_of, write_boxes
from shoal.recoding.partitioned import Parts, load_recoding, read_recoding, refuse_other_policy
from shoal.recoding.protocol import Columns, Later, Located, Output, Placed, Placement, Recoding, locate
from shoal.recoding.split_tree import Boxes
from shoal.recoding.synthesis import Synthesis, one_by_one

__all__ = [
    "STYLES",
    "Assignment",
    "Boxes",
    "Columns",
    "Cut",
    "Field",
    "FieldCut",
    "Later",
    "Located",
    "Output",
    "Parts",
    "Placed",
    "Placement",
    "Recoding",
    "Style",
    "Synthesis",
    "load_recoding",
    "locate",
    "one_by_one",
    "read_recoding",
    "refuse_other_policy",
    "style_of",
    "write_boxes",
]
