"""Measures: information loss and re-identification risk of a release, and the error of the queries that it answers."""

from __future__ import annotations

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
