"""Measures: information loss and re-identification risk of a release."""

from __future__ import annotations

from shoal.measures.figures import MEASURES, Measures, compute_measures, merge_columns
from shoal.measures.measure import THRESHOLD, Measure, MeasureInput, PublishedColumn, PublishedGroups
from shoal.measures.sensitive_figures import SensitiveFigures

__all__ = [
    "MEASURES",
    "THRESHOLD",
    "Measure",
    "MeasureInput",
    "Measures",
    "PublishedColumn",
    "PublishedGroups",
    "SensitiveFigures",
    "compute_measures",
    "merge_columns",
]
