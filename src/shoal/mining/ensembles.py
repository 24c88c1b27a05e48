"""Ensembles of scikit-learn as trees of thresholds: forests, bagging, gradient boosting, and boosting by histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.errors import DataError
from shoal.kernels.interface import FeatureRanks, ThresholdNodes
from shoal.mining.supported import SUPPORTED, TREES, check_nodes
from shoal.spans import ThresholdTree

CLOSE = 1e-9  # relative difference of sums of leaf values


@dataclass(frozen=True)
class _SourceTree:
    """One tree as scikit-learn holds it. ``left_codes`` has, by node, the values that go left where a node tests categories.

    ``tree`` is the object that predicts, ``columns`` the features that it gets.
    """

    feature: Int64Array
    threshold: NDArray[np.float64]
    left: Int64Array
    right: Int64Array
    missing_left: BoolArray
    tree: Any
    columns: Int64Array
    left_codes: dict[int, BoolArray]


@dataclass(frozen=True)
class RankedForest:
    """The trees of an ensemble over ranks of features; columns are numbered in the order of the input."""

    features: FeatureRanks
    trees: tuple[ThresholdTree, ...]
    sizes: tuple[int, ...]
    sources: tuple[_SourceTree, ...]

    def compare(self, final: Any, values: NDArray[Any], codes: Sequence[Int32Array]) -> None:
        """Compare the leaves of all records with those of the model itself."""
        table = np.stack(codes, axis=1).astype(np.int32) if codes else np.zeros((len(values), 0), np.int32)
        total: NDArray[Any] | float = 0.0
        same = True
        for tree, source in zip(self.trees, self.sources, strict=True):
            leaf = kernels.tree_spans.route_rows(tree.nodes, self.features, table)
            if hasattr(source.tree, "apply"):
                own = np.ascontiguousarray(values[:, source.columns])
                same &= bool(np.array_equal(leaf, source.tree.apply(own)))
            else:
                total = total + source.tree.nodes["value"][leaf]
        if not hasattr(self.sources[0].tree, "apply"):
            expected = np.zeros((len(values), final.n_trees_per_iteration_), order="F")
            ordered = np.ascontiguousarray(values[:, order_histogram_features(final)])
            final._predict_iterations(ordered, final._predictors, expected, False, 1)
            same = bool(np.allclose(total, expected.sum(axis=1), rtol=CLOSE, atol=CLOSE))
        if not same:
            raise RuntimeError(
                "The traced trees send records to other leaves than the model. This is a bug; nothing was certified."
            )


def order_histogram_features(final: Any) -> Int64Array:
    """The input feature of every feature of a histogram model, which puts categories first."""
    categorical = final.is_categorical_
    if categorical is None or final._preprocessor is None:
        return np.arange(final.n_features_in_)
    return np.concatenate([np.flatnonzero(categorical), np.flatnonzero(~categorical)])


def build_forest(
    final: Any, values: NDArray[Any], source: Sequence[int], first: Sequence[Int64Array]
) -> tuple[list[int], RankedForest]:
    """The trees of an ensemble; also return the columns that they use.

    Parameters
    ----------
    final : the fitted ensemble
    values : the features of every value: row c has the features of code c of every column
    source : the column of every feature
    first : one record of every code, by column
    """
    trees = _list_trees(final)
    tested = sorted({int(f) for tree in trees for f in np.unique(tree.feature[tree.feature >= 0])})
    used = sorted({source[f] for f in tested})
    sizes = tuple(len(first[j]) for j in used)
    column: list[int] = []
    ranks: list[Int32Array] = []
    number: dict[int, int] = {}
    unique: dict[int, NDArray[Any]] = {}
    for f in tested:
        own = values[: len(first[source[f]]), f].astype(np.float64)
        present = ~np.isnan(own)
        unique[f] = np.unique(own[present])
        number[f] = len(column)
        column.append(used.index(source[f]))
        ranks.append(np.where(present, np.searchsorted(unique[f], own), -1).astype(np.int32))
    nodes = []
    for tree in trees:
        feature, cut = np.full(len(tree.feature), -1, np.int64), np.zeros(len(tree.feature), np.int64)
        for f in np.unique(tree.feature[tree.feature >= 0]).tolist():
            here = tree.feature == f
            feature[here] = number[f]
            cut[here] = np.searchsorted(unique[f], tree.threshold[here], side="right")
        for n, left_values in tree.left_codes.items():
            f = int(tree.feature[n])
            own = values[: len(first[source[f]]), f]
            known = ~np.isnan(own) & (own >= 0)
            goes_left = np.full(len(own), bool(tree.missing_left[n]))
            goes_left[known] = left_values[own[known].astype(np.int64)]
            feature[n], cut[n] = len(column), 1
            column.append(used.index(source[f]))
            ranks.append(np.where(goes_left, 0, 1).astype(np.int32))
        nodes.append(ThresholdTree(ThresholdNodes(feature, cut, tree.left, tree.right, tree.missing_left)))
    length = np.array([len(r) for r in ranks], np.int64)
    features = FeatureRanks(
        np.array(column, np.int64),
        np.cumsum(length) - length,
        np.concatenate([np.zeros(0, np.int32), *ranks]).astype(np.int32),
    )
    return used, RankedForest(features, tuple(nodes), sizes, tuple(trees))


def _list_trees(final: Any) -> list[_SourceTree]:
    if hasattr(final, "_predictors"):
        return _list_histogram_trees(final)
    every = np.asarray(final.estimators_, object).ravel().tolist()
    wanted = getattr(final, "n_estimators_", final.n_estimators)
    if len(every) == 0 or len(np.asarray(final.estimators_, object)) != wanted:
        raise DataError(
            f"the model has {len(every):,} trees, but {wanted:,} are set. Fit the model completely, and change no parameter "
            "afterwards."
        )
    subsets = getattr(final, "estimators_features_", [None] * len(every))
    return [_read_tree(tree, final.n_features_in_, subset) for tree, subset in zip(every, subsets, strict=True)]


def _read_tree(estimator: Any, width: int, subset: Any) -> _SourceTree:
    if type(estimator).__name__ not in TREES:
        raise DataError(
            f"the ensemble holds models of the type {type(estimator).__name__}, which are not supported. {SUPPORTED}."
        )
    tree, columns = estimator.tree_, np.arange(width) if subset is None else np.asarray(subset, np.int64)
    check_nodes(tree, len(columns))
    feature = np.where(tree.feature >= 0, columns[np.clip(tree.feature, 0, None)], -1).astype(np.int64)
    goes_left = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count, np.uint8))
    return _SourceTree(
        feature,
        np.asarray(tree.threshold, np.float64),
        np.asarray(tree.children_left, np.int64),
        np.asarray(tree.children_right, np.int64),
        np.asarray(goes_left, np.bool_),
        tree,
        columns,
        {},
    )


def _list_histogram_trees(final: Any) -> list[_SourceTree]:
    predictors = [tree for step in final._predictors for tree in step]
    order = order_histogram_features(final)
    known, places = final._bin_mapper.make_known_categories_bitsets()
    return [_read_histogram_tree(tree, order, known, places) for tree in predictors]


def _read_histogram_tree(tree: Any, order: Int64Array, known: Any, places: Any) -> _SourceTree:
    nodes = tree.nodes
    inner = nodes["is_leaf"] == 0
    feature = np.where(inner, order[np.where(inner, nodes["feature_idx"], 0)], -1).astype(np.int64)
    left_codes = {}
    for n in np.flatnonzero(inner & (nodes["is_categorical"] == 1)).tolist():
        left = _read_bits(tree.raw_left_cat_bitsets[nodes["bitset_idx"][n]])
        accepted = _read_bits(known[places[nodes["feature_idx"][n]]])
        left_codes[n] = np.where(left | accepted, left, bool(nodes["missing_go_to_left"][n]))
    return _SourceTree(
        feature,
        nodes["num_threshold"].astype(np.float64),
        nodes["left"].astype(np.int64),
        nodes["right"].astype(np.int64),
        nodes["missing_go_to_left"].astype(np.bool_),
        tree,
        np.arange(len(order)),
        left_codes,
    )


def _read_bits(words: NDArray[np.uint32]) -> BoolArray:
    """The 256 bits of a set of categories."""
    bits = (np.asarray(words, np.uint32)[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    return bits.ravel().astype(np.bool_)
