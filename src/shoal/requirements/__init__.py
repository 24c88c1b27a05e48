"""Requirements (privacy models) on groups: k-anonymity, l-diversity, t-closeness and others."""

from __future__ import annotations

from typing import Any

from shoal.registry import Registry
from shoal.requirements.certificate import (
    EVIDENCE_NOTES,
    PARTITIONS_NOTE,
    Certificate,
    Evidence,
    Finding,
    certify,
    judge_operator,
    judge_spans,
    select_passing_groups,
)
from shoal.requirements.k_anonymity import KAnonymity
from shoal.requirements.l_diversity import LDiversity
from shoal.requirements.operator import Attack, Distributions, Inference, Operator, OperatorRequirement, Transition
from shoal.requirements.personalized_k import PersonalizedK
from shoal.requirements.randomized import Posterior, ProbabilisticAnonymity
from shoal.requirements.requirement import (
    BaseRequirement,
    Conjunction,
    Limits,
    Requirement,
    SizeRequirement,
    TableDistribution,
    Term,
    Verdict,
    collect_parameters,
    combine_limits,
    compute_distribution,
    describe,
    list_parameters,
    refuse_unreachable,
)
from shoal.requirements.share_bounds import AlphaKAnonymity, BetaLikeness, ConfidenceBound, DeltaDisclosure
from shoal.requirements.t_closeness import TCloseness

KINDS = (
    KAnonymity,
    LDiversity,
    TCloseness,
    AlphaKAnonymity,
    BetaLikeness,
    ConfidenceBound,
    DeltaDisclosure,
    Posterior,
    ProbabilisticAnonymity,
)
REQUIREMENTS: Registry[type[Any]] = Registry(
    "shoal.requirements", "requirement", {kind.name: kind for kind in KINDS}, base=BaseRequirement
)

__all__ = [
    "EVIDENCE_NOTES",
    "PARTITIONS_NOTE",
    "REQUIREMENTS",
    "AlphaKAnonymity",
    "Attack",
    "BaseRequirement",
    "BetaLikeness",
    "Certificate",
    "ConfidenceBound",
    "Conjunction",
    "DeltaDisclosure",
    "Distributions",
    "Evidence",
    "Finding",
    "Inference",
    "KAnonymity",
    "LDiversity",
    "Limits",
    "Operator",
    "OperatorRequirement",
    "PersonalizedK",
    "Posterior",
    "ProbabilisticAnonymity",
    "Requirement",
    "SizeRequirement",
    "TCloseness",
    "TableDistribution",
    "Term",
    "Transition",
    "Verdict",
    "certify",
    "collect_parameters",
    "combine_limits",
    "compute_distribution",
    "describe",
    "judge_operator",
    "judge_spans",
    "list_parameters",
    "refuse_unreachable",
    "select_passing_groups",
]
