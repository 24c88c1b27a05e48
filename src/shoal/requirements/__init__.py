"""What must hold for every group: k-anonymity, l-diversity, t-closeness."""

from __future__ import annotations

from shoal.requirements.anonymity import KAnonymity
from shoal.requirements.base import (
    Layout,
    Limits,
    Requirement,
    Term,
    Verdict,
    describe,
    layout_of,
    lower,
    parameters,
)
from shoal.requirements.certificate import Certificate, Finding, certify, settle
from shoal.requirements.closeness import TCloseness
from shoal.requirements.diversity import LDiversity

REQUIREMENTS: dict[str, type[KAnonymity] | type[LDiversity] | type[TCloseness]] = {
    kind.name: kind for kind in (KAnonymity, LDiversity, TCloseness)
}

__all__ = [
    "REQUIREMENTS",
    "Certificate",
    "Finding",
    "KAnonymity",
    "LDiversity",
    "Layout",
    "Limits",
    "Requirement",
    "TCloseness",
    "Term",
    "Verdict",
    "certify",
    "describe",
    "layout_of",
    "lower",
    "parameters",
    "settle",
]
