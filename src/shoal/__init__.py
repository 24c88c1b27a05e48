"""Anonymize personal data for release, and certify the privacy requirements that the release meets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal import datasets, measures, sql, tables
from shoal.api import anonymize, check, measure
from shoal.errors import DataError, EngineError, PolicyError, RequirementNotMet, ShoalError
from shoal.formats.conventions import Conventions
from shoal.policy import Policy, Unit
from shoal.recoding import load_recoding
from shoal.release import Release
from shoal.requirements import (
    AlphaKAnonymity,
    BetaLikeness,
    Certificate,
    ConfidenceBound,
    DeltaDisclosure,
    KAnonymity,
    LDiversity,
    Posterior,
    ProbabilisticAnonymity,
    TCloseness,
)
from shoal.taxonomy import Taxonomy

if TYPE_CHECKING:
    from shoal import attacks, models

__version__ = "0.1.0"

__all__ = [
    "AlphaKAnonymity",
    "BetaLikeness",
    "Certificate",
    "ConfidenceBound",
    "Conventions",
    "DataError",
    "DeltaDisclosure",
    "EngineError",
    "KAnonymity",
    "LDiversity",
    "Policy",
    "PolicyError",
    "Posterior",
    "ProbabilisticAnonymity",
    "Release",
    "RequirementNotMet",
    "ShoalError",
    "TCloseness",
    "Taxonomy",
    "Unit",
    "anonymize",
    "attacks",
    "check",
    "datasets",
    "load_recoding",
    "measure",
    "measures",
    "models",
    "sql",
    "tables",
]


def __getattr__(name: str) -> Any:
    """Import the packages on models and attacks at their first use: they load scikit-learn."""
    if name in ("attacks", "models"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
