"""What must hold for every group: k-anonymity, l-diversity, t-closeness and their kin."""

from __future__ import annotations

from typing import Any

from shoal.requirements.certificate import DRAWN, PARTS, UNION, Certificate, Finding, certify, select_passing_groups
from shoal.requirements.k_anonymity import KAnonymity
from shoal.requirements.l_diversity import LDiversity
from shoal.requirements.personalized_k import PersonalizedK
from shoal.requirements.requirement import (
    Combined,
    Limits,
    Requirement,
    TableDistribution,
    Term,
    Verdict,
    describe,
    distribution_of,
    fields_of,
    lower_requirements,
    parameters,
    refuse_unreachable,
)
from shoal.requirements.share_bounds import AlphaKAnonymity, BetaLikeness, ConfidenceBound, DeltaDisclosure
from shoal.requirements.t_closeness import TCloseness

KINDS = (KAnonymity, LDiversity, TCloseness, AlphaKAnonymity, BetaLikeness, ConfidenceBound, DeltaDisclosure)
REQUIREMENTS: dict[str, type[Any]] = {kind.name: kind for kind in KINDS}

__all__ = [
    "DRAWN",
    "PARTS",
    "REQUIREMENTS",
    "UNION",
    "AlphaKAnonymity",
    "BetaLikeness",
    "Certificate",
    "Combined",
    "ConfidenceBound",
    "DeltaDisclosure",
    "Finding",
    "KAnonymity",
    "LDiversity",
    "Limits",
    "PersonalizedK",
    "Requirement",
    "TCloseness",
    "TableDistribution",
    "Term",
    "Verdict",
    "certify",
    "describe",
    "distribution_of",
    "fields_of",
    "lower_requirements",
    "parameters",
    "refuse_unreachable",
    "select_passing_groups",
]
