"""What must hold for every group: k-anonymity, l-diversity, t-closeness and their kin."""

from __future__ import annotations

from typing import Any

from shoal.requirements.anonymity import KAnonymity
from shoal.requirements.base import (
    Combined,
    Layout,
    Limits,
    Requirement,
    Term,
    Verdict,
    describe,
    fields_of,
    layout_of,
    lower,
    parameters,
    refuse_unreachable,
)
from shoal.requirements.bounds import AlphaKAnonymity, BetaLikeness, ConfidenceBound, DeltaDisclosure
from shoal.requirements.certificate import DRAWN, PARTS, UNION, Certificate, Finding, certify, settle
from shoal.requirements.closeness import TCloseness
from shoal.requirements.diversity import LDiversity
from shoal.requirements.own import OwnK

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
    "Layout",
    "Limits",
    "OwnK",
    "Requirement",
    "TCloseness",
    "Term",
    "Verdict",
    "certify",
    "describe",
    "fields_of",
    "layout_of",
    "lower",
    "parameters",
    "refuse_unreachable",
    "settle",
]
