"""The box nearest to a record, for records that do not fall into one by themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.recoding.base import F8, I4, Field, Later


def points_of(later: Later) -> F8:
    """The positions of every combination."""
    points = np.empty(later.quasi.shape, np.float64)
    for j, positions in enumerate(later.positions):
        points[:, j] = positions[later.quasi[:, j]]
    return points


def nearest_boxes(fields: Sequence[Field], points: F8, lo: F8, hi: F8) -> tuple[I4, NDArray[np.bool_]]:
    """The group whose box is nearest to each point, the earlier one where several are, and whether the box holds it.

    Without any box the group is -1.
    """
    if not len(lo):
        return np.full(len(points), -1, np.int32), np.zeros(len(points), bool)
    categorical = np.array([f.taxonomy is not None for f in fields])
    span = np.array([f.span for f in fields], np.float64)
    group, distance = kernels.boxes.nearest(points, categorical, span, lo, hi)
    return group, distance == 0.0
