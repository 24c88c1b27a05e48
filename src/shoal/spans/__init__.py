"""Spans: the cells of a model that a person may fall in, given what is public about them."""

from __future__ import annotations

from shoal.spans.cell_tree import CellTree, Condition, describe_conditions
from shoal.spans.forest import EnsembleSpans, ThresholdForest, ThresholdTree
from shoal.spans.spans import Knowledge, Spans, find_spans, lower_spans

__all__ = [
    "CellTree",
    "Condition",
    "EnsembleSpans",
    "Knowledge",
    "Spans",
    "ThresholdForest",
    "ThresholdTree",
    "describe_conditions",
    "find_spans",
    "lower_spans",
]
