"""Measures: how much information a release kept, and what risk is left."""

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
