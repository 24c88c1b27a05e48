"""Centroids of scikit-learn (k-means, nearest centroid) over the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.errors import DataError
from shoal.mining.read_cells import ReadCells
from shoal.spans import CentroidCells, CentroidColumn, FreeColumn

MOST_TIES = (
    0.001  # the share of records whose nearest centroid may differ from the model's, where distances are nearly equal
)


def read_centroids(
    final: Any,
    features: NDArray[Any],
    source: Sequence[int],
    names: Sequence[str],
    codes: Sequence[Int32Array],
    values: Sequence[Sequence[Any]],
    predicted: NDArray[Any],
) -> ReadCells:
    """Read the centroids of a model.

    Parameters
    ----------
    final : the fitted model
    features : the features of every value: row c has the features of the code c of every column
    source : the column of every feature
    names, codes, values : the name of every column, the codes of the records, and the value of every code
    predicted : the predictions of the model for the records
    """
    centers, labels = _find_centers(final)
    used = sorted(set(source))
    columns = []
    for j in used:
        own = [f for f, column in enumerate(source) if column == j]
        found = features[: len(values[j]), own].astype(np.float64)
        terms = ((found[:, np.newaxis, :] - centers[np.newaxis, :, own]) ** 2).sum(axis=2)
        free = _find_bounds(found[:, 0], centers[:, own[0]], values[j]) if len(own) == 1 else None
        columns.append(CentroidColumn(names[j], terms, free))
    cells = CentroidCells(tuple(columns), labels)
    chosen = [codes[j] for j in used]
    cell = cells.find_nearest(chosen)
    _compare(cell, labels, predicted)
    fits = _counts_records(final, cell, len(labels))
    return ReadCells(
        tuple(names[j] for j in used), cell, len(labels), partial(cells.find_spans, chosen), "clusters", fits
    )


def _find_centers(final: Any) -> tuple[FloatArray, tuple[str, ...]]:
    """The coordinates of the centroids, and their names."""
    if hasattr(final, "cluster_centers_"):
        centers = np.asarray(final.cluster_centers_, np.float64)
        return centers, tuple(str(i) for i in range(len(centers)))
    priors = getattr(final, "priors", "uniform")
    if getattr(final, "metric", "euclidean") != "euclidean" or not isinstance(priors, str) or priors != "uniform":
        raise DataError(
            "a NearestCentroid is supported with metric='euclidean' and priors='uniform' only. Fit it so, or test its "
            "predictions with shoal.models.audit_predictions."
        )
    return np.asarray(final.centroids_, np.float64), tuple(str(c) for c in final.classes_.tolist())


def _find_bounds(feature: FloatArray, center: FloatArray, values: Sequence[Any]) -> FreeColumn | None:
    """The bounds of a feature that is a continuous function of a number; None for categories and steps."""
    present = [i for i, v in enumerate(values) if v is not None and v == v]
    if not present or not all(isinstance(values[i], (int, float, np.number)) for i in present):
        return None
    if any(isinstance(values[i], (bool, np.bool_)) for i in present):
        return None
    if len(np.unique(feature[present])) < len({float(values[i]) for i in present}):  # several values have one feature
        return None
    return FreeColumn(np.ascontiguousarray(center), float(feature.min()), float(feature.max()))


def _compare(cell: Int64Array, labels: Sequence[str], predicted: NDArray[Any]) -> None:
    """Compare the nearest centroids with the model's; distances may be nearly equal for a few records."""
    own = np.array(labels, object)[cell].astype(str)
    differ = int((own != predicted.astype(str)).sum())
    if differ > MOST_TIES * len(cell) + 1:
        raise RuntimeError(
            f"The centroids give other clusters than the model for {differ} records. This is a bug; nothing was certified."
        )


def _counts_records(final: Any, cell: Int64Array, count: int) -> bool:
    """Whether the model was fitted on so many records in every cluster; True if the model does not tell."""
    labels = getattr(final, "labels_", None)
    if labels is None:
        return True
    counts = np.bincount(np.asarray(labels), minlength=count)
    return len(labels) == len(cell) and bool((np.abs(counts - np.bincount(cell, minlength=count)) <= 1).all())
