"""Models: their audit by spans, and models that meet the requirements of a policy by construction; itemsets and rules.

`AnonymousTree`, `AnonymousClusters` and their published forms need scikit-learn (``pip install "shoal[models]"``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.errors import EngineError
from shoal.mining.channels import BlockedChannels, Channel, Channels, block_channels, find_channels
from shoal.mining.implied_spans import ImpliedSpan
from shoal.mining.itemsets import Item, Itemsets, Rules
from shoal.mining.mine import mine_itemsets, mine_rules
from shoal.models.audit import audit
from shoal.models.certificate import ModelCertificate
from shoal.models.minimization import MinimizedColumn, MinimizedInputs, minimize
from shoal.models.model_files import load_model
from shoal.models.predictor_audit import audit_predictions
from shoal.models.rule_audit import FiguresAudit, audit_figures
from shoal.models.scores import ModelFlags, choose_best, find_flags, score_exposed, score_k
from shoal.models.span_reports import SpanCell, SpanReport

if TYPE_CHECKING:
    from shoal.models.clusters import AnonymousClusters
    from shoal.models.distillation import DistilledTree, distill
    from shoal.models.published_clusters import PublishedClusters
    from shoal.models.published_tree import PublishedTree
    from shoal.models.rule_artifact import WithheldRule
    from shoal.models.rules import AnonymousRules
    from shoal.models.tree import AnonymousTree

__all__ = [
    "AnonymousClusters",
    "AnonymousRules",
    "AnonymousTree",
    "BlockedChannels",
    "Channel",
    "Channels",
    "DistilledTree",
    "FiguresAudit",
    "ImpliedSpan",
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
    "WithheldRule",
    "audit",
    "audit_figures",
    "audit_predictions",
    "block_channels",
    "choose_best",
    "distill",
    "find_channels",
    "find_flags",
    "load_model",
    "mine_itemsets",
    "mine_rules",
    "minimize",
    "score_exposed",
    "score_k",
]
_LAZY = {
    "AnonymousClusters": "clusters",
    "AnonymousRules": "rules",
    "AnonymousTree": "tree",
    "DistilledTree": "distillation",
    "PublishedClusters": "published_clusters",
    "PublishedTree": "published_tree",
    "WithheldRule": "rule_artifact",
    "distill": "distillation",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sklearn":
            raise
        raise EngineError(f'{name} needs scikit-learn. Install it with: pip install "shoal[models]"') from error
