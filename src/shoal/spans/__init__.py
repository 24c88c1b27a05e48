"""Spans: the cells of a model that a person may fall in, given what is public about them."""

from __future__ import annotations

from shoal.spans.cell_sets import CellSets, collect_cell_sets, collect_pairs
from shoal.spans.cell_tree import CellTree, Condition, describe_conditions
from shoal.spans.centroids import CentroidCells, CentroidColumn, FreeColumn
from shoal.spans.forest import EnsembleSpans, ThresholdForest, ThresholdTree
from shoal.spans.spans import Knowledge, Spans, find_spans, lower_spans

__all__ = [
    "CellSets",
    "CellTree",
    "CentroidCells",
    "CentroidColumn",
    "Condition",
    "EnsembleSpans",
    "FreeColumn",
    "Knowledge",
    "Spans",
    "ThresholdForest",
    "ThresholdTree",
    "collect_cell_sets",
    "collect_pairs",
    "describe_conditions",
    "find_spans",
    "lower_spans",
]
