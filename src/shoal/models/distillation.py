"""From a model that must not be published to one that may be: a tree fitted to the predictions of the model."""

from __future__ import annotations

from typing import Any

from shoal.engines import open_data
from shoal.engines.raw_columns import RawColumns
from shoal.errors import DataError
from shoal.mining.learning_policy import name_target
from shoal.models.predictions import measure_agreement, predict
from shoal.models.tree import AnonymousTree
from shoal.policy import Policy, parse_policy


class DistilledTree(AnonymousTree):
    """A tree that `distill` fitted to the predictions of another model.

    Attributes
    ----------
    fidelity_ : the share of the records for which the tree predicts the same class as the model
    accuracy_ : the share of the records for which the tree predicts the true class
    model_accuracy_ : the share of the records for which the model predicts the true class
    """

    fidelity_: float
    accuracy_: float
    model_accuracy_: float


def distill(model: Any, frame: Any, policy: Policy, **parameters: Any) -> DistilledTree:
    """Fit an anonymous tree to the predictions of a classifier, so that the tree may be published instead of the model.

    Parameters
    ----------
    model : a fitted classifier, of any kind
    frame : the records that the model was fitted on, with the columns that it uses, and the target
    policy : the policy; the class of the tree, which is private, is the prediction of the model
    parameters : parameters of `AnonymousTree`, such as ``max_leaves``

    Returns
    -------
    A fitted tree with ``fidelity_``, ``accuracy_`` and ``model_accuracy_``. The three figures are for the owner: they are
    counted on the records themselves.

    Guarantee
    ---------
    The tree meets the requirements of the policy, as every `AnonymousTree`: its leaves count predictions, not true classes.
    """
    policy = parse_policy(policy)
    engine = open_data(frame, policy.with_conventions())
    raw = RawColumns.typed(engine)
    policy = name_target(policy, engine.schema().names)
    target = str(policy.target)
    if not hasattr(model, "predict") or not hasattr(model, "classes_"):
        raise DataError(
            f"a model of the type {type(model).__name__} is no fitted classifier. Fit it first, or pass another."
        )
    predicted = predict(model, raw, target)
    tree = DistilledTree(policy, **parameters).fit(frame, predicted)
    own = tree.predict(frame)
    tree.fidelity_ = float((own == predicted).mean())
    tree.accuracy_ = measure_agreement(own, raw, target)
    tree.model_accuracy_ = measure_agreement(predicted, raw, target)
    return tree
