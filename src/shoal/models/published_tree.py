"""`PublishedTree`: a released tree as a scikit-learn classifier, from its JSON text alone."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from shoal.engines import Column, Engine, build_frame, open_data
from shoal.formats.checked_json import read_object
from shoal.mining.tree_model import TreeModel


class PublishedTree(ClassifierMixin, BaseEstimator):
    """A tree of a release: it predicts, and it cannot be fitted. ``model.skops`` of a release holds this object.

    Parameters
    ----------
    model : the text of ``model.json``
    classes : the classes with their own types, in the order of the model (default: the texts of the model)
    """

    def __init__(self, model: str, classes: list[Any] | None = None) -> None:
        self.model = model
        self.classes = classes

    @classmethod
    def of(cls, model: TreeModel, classes: list[Any] | None = None) -> PublishedTree:
        """The published form of a tree."""
        return cls(json.dumps(model.to_dict(), ensure_ascii=False), classes)

    @cached_property
    def tree_model_(self) -> TreeModel:
        """The tree."""
        return TreeModel.from_dict(read_object(self.model))

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes."""
        return np.array(list(self.tree_model_.classes) if self.classes is None else self.classes)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The columns that the tree tests."""
        return np.array(list(self.tree_model_.columns), object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> PublishedTree:
        """Do nothing: a released tree is fitted already."""
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most frequent class of the leaf of every record (ties: the first class)."""
        found: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of every class in the leaf of every record."""
        return self.tree_model_.probabilities[self.tree_model_.find_nodes(open_later(X))]

    def export_text(self) -> str:
        """The tree as indented text."""
        return self.tree_model_.export_text()

    def __getstate__(self) -> dict[str, Any]:
        """The state for files: the parameters alone."""
        state = dict(super().__getstate__())
        state.pop("tree_model_", None)
        return state


def open_later(X: Any) -> Engine:
    """Later records as a table; the columns of an array are x0, x1 and so on."""
    if isinstance(X, np.ndarray):
        names = [f"x{j}" for j in range(X.shape[1])]
        return open_data(build_frame({n: Column(X[:, j].astype(np.float64)) for j, n in enumerate(names)}, "pyarrow"))
    return open_data(X)
