"""Privacy as a score for model search, and structural flags that output checkers know.

The scores are proofs on the records that they get; the flags are heuristics and say nothing about a requirement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.engines import Column, Engine, build_frame, open_data
from shoal.engines.raw_columns import RawColumns, with_texts
from shoal.errors import DataError, PolicyError
from shoal.mining.learning_policy import set_target
from shoal.mining.readers import find_tree_model, list_fitted_trees
from shoal.models.audit import audit_table
from shoal.models.certificate import ModelCertificate
from shoal.models.predictions import measure_agreement, predict
from shoal.policy import Policy, parse_policy

Scorer = Callable[[Any, Any, Any], float]
CONFIDENCE = 0.9


def score_k(policy: Policy, *, rule: str = "claim3") -> Scorer:
    """A scorer for scikit-learn: the k that a fitted model reaches on the records that it is scored on.

    In a search, ask for training scores (``return_train_score=True``): the records that a model was fitted on are at risk.

    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> import shoal
    >>> policy = shoal.Policy(quasi={"age": "numeric"}, target="ill", require=[shoal.KAnonymity(5)])
    >>> scoring = {"accuracy": "accuracy", "k": score_k(policy)}
    >>> search = GridSearchCV(DecisionTreeClassifier(), {"min_samples_leaf": [1, 5]}, scoring=scoring,
    ...                       refit=choose_best("accuracy", k=5), return_train_score=True)
    """
    return lambda model, X, y: _score(model, X, y, policy, rule, lambda found: float(found.smallest))


def score_exposed(policy: Policy, *, rule: str = "claim3") -> Scorer:
    """A scorer for scikit-learn: minus the share of the records with a certain private value, so that 0 is best."""
    return lambda model, X, y: _score(model, X, y, policy, rule, lambda found: -found.certain / max(found.records, 1))


def choose_best(score: str, *, k: int, privacy: str = "k") -> Callable[[Mapping[str, Any]], int]:
    """A value of ``refit`` for a search: the candidate with the best score of those that reach k in every training set.

    Raises `PolicyError` if no candidate reaches k.

    Parameters
    ----------
    score : the name of the score in ``scoring``
    k : the least k
    privacy : the name of the score of `score_k` in ``scoring``
    """

    def choose(results: Mapping[str, Any]) -> int:
        names = [n for n in results if n.startswith("split") and n.endswith(f"_train_{privacy}")]
        if not names:
            raise PolicyError(
                f"the search has no training score {privacy!r}. Add it to 'scoring', and set return_train_score=True."
            )
        reached = np.min([np.asarray(results[n], float) for n in names], axis=0)
        allowed = np.flatnonzero(reached >= k)
        if not len(allowed):
            raise PolicyError(
                f"no candidate reaches k = {k} in every training set; the best reaches {np.nanmax(reached):g}. Search larger "
                "leaves or smaller trees."
            )
        return int(allowed[np.argmax(np.asarray(results[f"mean_test_{score}"])[allowed])])

    return choose


def _score(model: Any, X: Any, y: Any, policy: Policy, rule: str, read: Callable[[ModelCertificate], float]) -> float:
    """The score of a model; NaN if the records have values that the model does not know."""
    policy = parse_policy(policy)
    target = policy.target or "class"
    try:
        engine = _add_classes(X, y, target)
        return read(audit_table(model, engine, set_target(policy, target), rule, "bins", CONFIDENCE))
    except DataError:
        return float("nan")


def _add_classes(X: Any, y: Any, target: str) -> Engine:
    labels, number = np.unique(np.asarray(y), return_inverse=True)
    if isinstance(X, np.ndarray):
        X = build_frame({f"x{j}": Column(X[:, j]) for j in range(X.shape[1])}, None)
    return with_texts(open_data(X), target, [str(v) for v in labels.tolist()], number)


@dataclass(frozen=True)
class ModelFlags:
    """Structural figures of a tree or ensemble that output checkers look at. They are heuristics, and no requirement.

    Attributes
    ----------
    residual_degrees : records minus the leaves of all trees; a small or negative number means that the model has about as many
        numbers as there are records
    smallest_leaf : the least number of records in a leaf that has any
    pure_leaves : leaves of single trees in which all records have one class
    gap : accuracy on the training records minus accuracy on test records; None without test records
    """

    residual_degrees: int
    smallest_leaf: int
    pure_leaves: int
    gap: float | None = None


def find_flags(model: Any, frame: Any, policy: Policy, *, test: Any = None) -> ModelFlags:
    """Structural flags of a fitted tree or ensemble.

    Parameters
    ----------
    model : the fitted model
    frame : the records that the model was fitted on
    policy : the policy, which names the target
    test : other records, for the gap between training and test accuracy
    """
    policy = parse_policy(policy)
    own = find_tree_model(model)
    if own is not None:
        leaves = np.array([own.nodes[n].statistics for n in own.leaves], float)
        sizes, records = leaves.sum(axis=1), int(leaves.sum())
        pure = int(((leaves > 0).sum(axis=1) == 1).sum())
        count = len(leaves)
    else:
        sizes_of, pure, count = [], 0, 0
        records = open_data(frame).schema().rows
        for tree in list_fitted_trees(model):
            is_leaf, size, impurity = _read_leaves(tree)
            sizes_of.append(size[is_leaf])
            pure += int((impurity[is_leaf] <= 0).sum()) if impurity is not None else 0
            count += int(is_leaf.sum())
        sizes = np.concatenate(sizes_of)
    gap = None if test is None else _accuracy(model, frame, policy) - _accuracy(model, test, policy)
    return ModelFlags(records - count, int(sizes[sizes > 0].min(initial=records)), pure, gap)


def _read_leaves(tree: Any) -> tuple[Any, Any, Any]:
    nodes = getattr(tree, "nodes", None)
    if nodes is not None:
        return nodes["is_leaf"] == 1, nodes["count"], None
    return tree.children_left < 0, tree.n_node_samples, tree.impurity


def _accuracy(model: Any, frame: Any, policy: Policy) -> float:
    raw = RawColumns.typed(open_data(frame, policy.with_conventions()))
    target = str(policy.target)
    return measure_agreement(predict(model, raw, target), raw, target)
