"""The box nearest to a record, for records that no box holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.recoding.base import F8, I4, Field, Later


def nearest_boxes(fields: Sequence[Field], later: Later, which: NDArray[np.bool_], lo: F8, hi: F8) -> I4:
    """For the marked combinations, the group whose box is nearest; the earlier one where several are."""
    best, _ = measured(fields, later, which, lo, hi)
    return best


def measured(fields: Sequence[Field], later: Later, which: NDArray[np.bool_], lo: F8, hi: F8) -> tuple[I4, F8]:
    """The nearest box of the marked combinations, and how far it is: 0 where it holds the record."""
    quasi = later.counts.quasi[which]
    points = np.empty(quasi.shape, np.float64)
    for j, positions in enumerate(later.positions):
        points[:, j] = positions[quasi[:, j]]
    categorical = np.array([f.taxonomy is not None for f in fields])
    span = np.array([f.span for f in fields], np.float64)
    found: tuple[I4, F8] = kernels.boxes.nearest(points, categorical, span, lo, hi, _whole(fields, lo, hi))
    return found


def _whole(fields: Sequence[Field], lo: F8, hi: F8) -> NDArray[np.bool_]:
    """Where a box is published as the root of its attribute, so that it holds every value."""
    whole = np.isinf(hi) & ~np.isinf(lo)
    for j, field in enumerate(fields):
        if field.taxonomy is not None:
            last = field.taxonomy.size - 1
            top = np.where(np.isinf(hi[:, j]), last, hi[:, j]).astype(np.int32)
            low = np.where(np.isinf(lo[:, j]), last, lo[:, j]).astype(np.int32)
            whole[:, j] |= field.taxonomy.covers(low, top) == 0
    return np.asarray(whole, bool)
