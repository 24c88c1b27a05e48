"""Anonymize personal data for release, and certify the privacy requirements that the release meets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.lazy import import_on_use

if TYPE_CHECKING:
    from shoal import attacks, datasets, measures, models, sql, tables
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

# Lazy, since a program that needs the version or the errors should not wait for NumPy, Pydantic and all methods.
if not TYPE_CHECKING:  # so that type checkers report unknown names
    __getattr__, __dir__ = import_on_use(
        __name__,
        {
            "shoal.api": ("anonymize", "check", "measure"),
            "shoal.errors": ("DataError", "EngineError", "PolicyError", "RequirementNotMet", "ShoalError"),
            "shoal.formats.conventions": ("Conventions",),
            "shoal.policy": ("Policy", "Unit"),
            "shoal.recoding": ("load_recoding",),
            "shoal.release": ("Release",),
            "shoal.requirements": (
                "AlphaKAnonymity",
                "BetaLikeness",
                "Certificate",
                "ConfidenceBound",
                "DeltaDisclosure",
                "KAnonymity",
                "LDiversity",
                "Posterior",
                "ProbabilisticAnonymity",
                "TCloseness",
            ),
            "shoal.taxonomy": ("Taxonomy",),
        },
        modules=(
            "api",
            "arrays",
            "attacks",
            "datasets",
            "encoding",
            "engines",
            "errors",
            "formats",
            "kernels",
            "measures",
            "mining",
            "models",
            "pipeline",
            "policy",
            "progress",
            "recoding",
            "registry",
            "release",
            "report",
            "requirements",
            "secret",
            "spans",
            "specialization",
            "sql",
            "tables",
            "taxonomy",
            "threads",
            "work_folder",
        ),
    )
