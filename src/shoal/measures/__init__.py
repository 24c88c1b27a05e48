"""Measures: information loss and re-identification risk of a release, and the error of the queries that it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.lazy import import_on_use

if TYPE_CHECKING:
    from shoal.measures.conditions import Interval
    from shoal.measures.figures import MEASURES, Measures, compute_measures, merge_columns
    from shoal.measures.measure import THRESHOLD, Measure, MeasureInput, PublishedColumn, PublishedGroups
    from shoal.measures.mined_associations import Associations, associations
    from shoal.measures.query_errors import QueryErrors, query_error
    from shoal.measures.random_queries import random_workload
    from shoal.measures.sensitive_figures import SensitiveFigures
    from shoal.measures.support_estimates import Supports, supports
    from shoal.measures.workloads import Query, Workload

__all__ = [
    "MEASURES",
    "THRESHOLD",
    "Associations",
    "Interval",
    "Measure",
    "MeasureInput",
    "Measures",
    "PublishedColumn",
    "PublishedGroups",
    "Query",
    "QueryErrors",
    "SensitiveFigures",
    "Supports",
    "Workload",
    "associations",
    "compute_measures",
    "merge_columns",
    "query_error",
    "random_workload",
    "supports",
]

# Lazy, since a release needs its measures, but neither queries nor mined associations.
if not TYPE_CHECKING:  # so that type checkers report unknown names
    __getattr__, __dir__ = import_on_use(
        __name__,
        {
            "shoal.measures.conditions": ("Interval",),
            "shoal.measures.figures": ("MEASURES", "Measures", "compute_measures", "merge_columns"),
            "shoal.measures.measure": ("THRESHOLD", "Measure", "MeasureInput", "PublishedColumn", "PublishedGroups"),
            "shoal.measures.mined_associations": ("Associations", "associations"),
            "shoal.measures.query_errors": ("QueryErrors", "query_error"),
            "shoal.measures.random_queries": ("random_workload",),
            "shoal.measures.sensitive_figures": ("SensitiveFigures",),
            "shoal.measures.support_estimates": ("Supports", "supports"),
            "shoal.measures.workloads": ("Query", "Workload"),
        },
    )
