"""Models: their audit by spans, and models that meet the requirements of a policy by construction; itemsets and rules.

`AnonymousTree`, `AnonymousClusters` and their published forms need scikit-learn (``pip install "shoal[models]"``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.errors import EngineError
from shoal.mining.itemsets import Item, Itemsets, Rules
from shoal.mining.mine import mine_itemsets, mine_rules
from shoal.models.audit import audit
from shoal.models.certificate import ModelCertificate
from shoal.models.minimization import MinimizedColumn, MinimizedInputs, minimize
from shoal.models.model_files import load_model
from shoal.models.predictor_audit import audit_predictions
from shoal.models.scores import ModelFlags, choose_best, find_flags, score_exposed, score_k
from shoal.models.span_reports import SpanCell, SpanReport

if TYPE_CHECKING:
    from shoal.models.clusters import AnonymousClusters
    from shoal.models.distillation import DistilledTree, distill
    from shoal.models.published_clusters import PublishedClusters
    from shoal.models.published_tree import PublishedTree
    from shoal.models.tree import AnonymousTree

__all__ = [
    "AnonymousClusters",
    "AnonymousTree",
    "DistilledTree",
    "Item",
    "Itemsets",
    "MinimizedColumn",
    "MinimizedInputs",
    "ModelCertificate",
    "ModelFlags",
    "PublishedClusters",
    "PublishedTree",
    "Rules",
    "SpanCell",
    "SpanReport",
    "audit",
    "audit_predictions",
    "choose_best",
    "distill",
    "find_flags",
    "load_model",
    "mine_itemsets",
    "mine_rules",
    "minimize",
    "score_exposed",
    "score_k",
]
_ESTIMATORS = {
    "AnonymousClusters": "clusters",
    "AnonymousTree": "tree",
    "DistilledTree": "distillation",
    "PublishedClusters": "published_clusters",
    "PublishedTree": "published_tree",
    "distill": "distillation",
}


def __getattr__(name: str) -> Any:
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_ESTIMATORS[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sklearn":
            raise
        raise EngineError(f'{name} needs scikit-learn. Install it with: pip install "shoal[models]"') from error
