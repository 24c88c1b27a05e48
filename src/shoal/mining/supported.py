"""The models of scikit-learn that Shoal can read, and a check of the nodes of their trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.errors import DataError

FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")
BAGGING = ("BaggingClassifier", "BaggingRegressor")
BOOSTING = ("GradientBoostingClassifier", "GradientBoostingRegressor")
HISTOGRAMS = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
ENSEMBLES = (*FORESTS, *BAGGING, *BOOSTING, *HISTOGRAMS)
TREES = ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor")
CLUSTERS = ("KMeans", "MiniBatchKMeans")  # models without a target
CENTROIDS = (*CLUSTERS, "NearestCentroid")
PER_COLUMN = (  # transformers that compute every feature from one column
    "Binarizer",
    "KBinsDiscretizer",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MissingIndicator",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "QuantileTransformer",
    "RobustScaler",
    "SelectKBest",
    "SelectPercentile",
    "SimpleImputer",
    "StandardScaler",
    "VarianceThreshold",
)
SUPPORTED = (
    "Shoal audits its own models (AnonymousTree, AnonymousClusters, AnonymousRules) and the scikit-learn models "
    f"{', '.join((*TREES, *ENSEMBLES, *CENTROIDS))}, alone or at the end of a Pipeline with ColumnTransformer and "
    f"{', '.join(PER_COLUMN)}. The predictions of any other model can be tested with shoal.models.audit_predictions"
)


def check_nodes(tree: Any, features: int) -> None:
    """Raise `DataError` for a tree from a damaged file, whose nodes would be read outside its arrays."""
    node = np.arange(tree.node_count)
    left, right, feature = np.asarray(tree.children_left), np.asarray(tree.children_right), np.asarray(tree.feature)
    inner = left >= 0
    below = np.sort(np.concatenate([left[inner], right[inner]]))
    if (
        (left[inner] <= node[inner]).any()
        or (right[inner] <= node[inner]).any()
        or not np.array_equal(below, node[1:])
        or (feature[inner] < 0).any()
        or (feature[inner] >= features).any()
    ):
        raise DataError(
            "the nodes of the model do not form a tree. The file of the model is damaged; save the model again."
        )
