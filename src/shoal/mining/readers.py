"""Read a model of any supported kind as cells over the values of a table."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.arrays import Int64Array
from shoal.encoding.codes import encode_column
from shoal.engines import Dictionary, Engine
from shoal.engines.raw_columns import RawColumns
from shoal.errors import EMPTY_TABLE, DataError, list_some
from shoal.mining.cluster_model import ClusterModel
from shoal.mining.model_columns import row_codes
from shoal.mining.read_cells import ReadCells
from shoal.mining.scikit_learn import ReadEnsemble, ReadModel, is_scikit_learn, read_scikit_learn
from shoal.mining.supported import CLUSTERS, SUPPORTED
from shoal.mining.tree_model import TreeModel
from shoal.policy import Policy

TREE_ARRAYS = ("children_left", "children_right", "feature", "threshold", "n_node_samples", "value")
CENTERS = ("cluster_centers_", "centroids_")


def find_tree_model(model: Any) -> TreeModel | None:
    """The published tree of a model of Shoal; None for other models."""
    found = model if isinstance(model, TreeModel) else getattr(model, "tree_model_", None)
    return found if isinstance(found, TreeModel) else None


def find_cluster_model(model: Any) -> ClusterModel | None:
    """The published centroids of a model of Shoal; None for other models."""
    found = model if isinstance(model, ClusterModel) else getattr(model, "cluster_model_", None)
    return found if isinstance(found, ClusterModel) else None


def has_target(model: Any) -> bool:
    """Whether a model predicts a column of the table; clusters do not."""
    return find_cluster_model(model) is None and type(_find_last_step(model)).__name__ not in CLUSTERS


def read_model(model: Any, engine: Engine, policy: Policy, target: str | None) -> ReadModel | ReadEnsemble | ReadCells:
    """Read a fitted model and the records that it was fitted on; `DataError` for an unsupported model, or no records."""
    if isinstance(model, type):
        raise DataError(
            f"{model.__name__} is a class, not a model. Make an object of it, and call its method fit first."
        )
    own, clusters = find_tree_model(model), find_cluster_model(model)
    if own is None and clusters is None and hasattr(model, "policy") and hasattr(model, "fit"):
        raise DataError(f"the model {type(model).__name__} is not fitted. Call its method fit first.")
    if not engine.schema().rows:
        raise DataError(EMPTY_TABLE)
    if clusters is not None:
        return clusters.read(engine)
    if own is not None:
        return read_tree_model(own, engine, policy, str(target))
    if is_scikit_learn(model):
        return read_scikit_learn(
            model, RawColumns.of(engine), target, from_file=bool(getattr(engine, "from_file", False))
        )
    raise DataError(f"a model of the type {type(model).__name__} is not supported. {SUPPORTED}.")


def read_tree_model(model: TreeModel, engine: Engine, policy: Policy, target: str) -> ReadModel:
    """Read a tree of Shoal over the values of a table."""
    if target not in engine.schema().names:
        raise DataError(
            f"the table lacks the target {target!r}, whose values the leaves of the model count. Add this column."
        )
    values, codes = model.locate(engine)
    tree = model.cell_tree(values)
    columns = tuple(codes[name] for name in tree.columns)
    leaf = tree.route(columns, engine.schema().rows)
    _refuse_unknown_values(model, leaf)
    dictionaries: dict[str, Dictionary] = {}
    column = encode_column(engine, target, policy.published_reading(target), dictionaries)
    absent = [label for label in column.labels if label not in model.classes]
    if absent:
        raise DataError(
            f"column {target!r} has classes that the model does not know: {list_some(absent)}. The model knows "
            f"{list_some(model.classes)}. Pass the table that the model was fitted on."
        )
    number = np.array([model.classes.index(label) for label in column.labels], np.int32)
    classes = number[row_codes(engine.encode(dictionaries), target)]
    read = ReadModel(tree, columns, classes, leaf)
    return replace(read, fits=model.populations != "bins" or model.counts_records(read.count_cells()))


def _refuse_unknown_values(model: TreeModel, node: Int64Array) -> None:
    """Raise `DataError` if a record stops at a node that has no child for its value."""
    stopped = [n for n in np.unique(node).tolist() if model.nodes[n].column is not None]
    if stopped:
        names = list(dict.fromkeys(str(model.nodes[n].column) for n in stopped))
        raise DataError(
            f"the table has values that the model does not know, in {list_some(names)}. Pass the table that the model was "
            "fitted on."
        )


def fingerprint_model(model: Any) -> str:
    """A digest of a fitted model: its splits and its statistics."""
    own = find_tree_model(model) or find_cluster_model(model)
    if own is not None:
        text = json.dumps(own.to_dict(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    digest = hashlib.sha256()
    final = _find_last_step(model)
    for name in CENTERS:
        if hasattr(final, name):
            digest.update(np.ascontiguousarray(getattr(final, name), np.float64).tobytes())
            return digest.hexdigest()
    for tree in list_fitted_trees(model):
        nodes = getattr(tree, "nodes", None)
        names = TREE_ARRAYS if nodes is None else nodes.dtype.names
        for name in names:
            digest.update(np.ascontiguousarray(getattr(tree, name) if nodes is None else nodes[name]).tobytes())
    return digest.hexdigest()


def list_fitted_trees(model: Any) -> list[Any]:
    """The trees of a model of scikit-learn: one, or those of an ensemble."""
    final = _find_last_step(model)
    if hasattr(final, "_predictors"):
        return [tree for step in final._predictors for tree in step]
    if hasattr(final, "estimators_"):
        return [estimator.tree_ for estimator in np.asarray(final.estimators_, object).ravel()]
    return [final.tree_]


def _find_last_step(model: Any) -> Any:
    while hasattr(model, "steps"):
        model = model.steps[-1][1]
    return model
