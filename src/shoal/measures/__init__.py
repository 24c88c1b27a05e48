"""Measures: information loss and re-identification risk of a release."""

from __future__ import annotations

from shoal.measures.figures import (
    THRESHOLD,
    Measures,
    PublishedColumn,
    PublishedGroups,
    SensitiveFigures,
    compute_measures,
    merge_columns,
)

__all__ = [
    "THRESHOLD",
    "Measures",
    "PublishedColumn",
    "PublishedGroups",
    "SensitiveFigures",
    "compute_measures",
    "merge_columns",
]
