"""Measures: information loss and re-identification risk of a release."""

from __future__ import annotations

from shoal.measures.associations import Associations, associations
from shoal.measures.figures import MEASURES, Measures, compute_measures, merge_columns
from shoal.measures.measure import THRESHOLD, Measure, MeasureInput, PublishedColumn, PublishedGroups
from shoal.measures.sensitive_figures import SensitiveFigures
from shoal.measures.supports import Supports, supports

__all__ = [
    "MEASURES",
    "THRESHOLD",
    "Associations",
    "Measure",
    "MeasureInput",
    "Measures",
    "PublishedColumn",
    "PublishedGroups",
    "SensitiveFigures",
    "Supports",
    "associations",
    "compute_measures",
    "merge_columns",
    "supports",
]
