"""`PublishedClusters`: released centroids as a scikit-learn estimator, from their JSON text alone."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin

from shoal.formats.checked_json import read_object
from shoal.mining.cluster_model import ClusterModel
from shoal.models.published_tree import open_later


class PublishedClusters(ClusterMixin, BaseEstimator):
    """Centroids of a release: they predict, and they cannot be fitted. ``model.skops`` of a release holds this object.

    Parameters
    ----------
    model : the text of ``model.json``
    """

    def __init__(self, model: str) -> None:
        self.model = model

    @classmethod
    def of(cls, model: ClusterModel) -> PublishedClusters:
        """The published form of centroids."""
        return cls(json.dumps(model.to_dict(), ensure_ascii=False))

    @cached_property
    def cluster_model_(self) -> ClusterModel:
        """The centroids."""
        return ClusterModel.from_dict(read_object(self.model))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> PublishedClusters:
        """Do nothing: released centroids are fitted already."""
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The nearest centroid of every record."""
        return self.cluster_model_.find_nearest(open_later(X))

    def export_text(self) -> str:
        """The centroids as text."""
        return self.cluster_model_.export_text()

    def __getstate__(self) -> dict[str, Any]:
        """The state for files: the parameters alone."""
        state = dict(super().__getstate__())
        state.pop("cluster_model_", None)
        return state
