"""Spans: the cells of a model that a person may fall in, given what is public about them."""

from __future__ import annotations

from shoal.spans.cell_tree import CellTree, Condition, describe_conditions
from shoal.spans.spans import Knowledge, Spans, find_spans

__all__ = ["CellTree", "Condition", "Knowledge", "Spans", "describe_conditions", "find_spans"]
