"""The figures of a release as text, with measure names and units, for the terminal and the HTML report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.formats.numbers import format_count
from shoal.measures import Measures
from shoal.requirements import Certificate

RISKS = ("size and re-identification risk", "measure", "value")
INFORMATION_KEPT = ("information kept (1 - NCP)", "share")
STATISTICS_KEPT = ("statistics of the synthetic records", "measure", "mean difference")
MEASURES = ("measure", "unit", "value")

SHARE = "share, 0 to 1"
UNITS = {
    "records": "records",
    "suppressed": "records",
    "classes": "groups",
    "smallest": "records",
    "average": "records per group",
    "dm": "records squared",
    "risk_max": "probability",
    "risk_mean": "probability",
    "risk_above": "share of records with a risk above {threshold:g}",
    "uniques": "records",
    "certain": "records",
    "ed": "records, summed over sensitive attributes",
    "sd": "records, summed over sensitive attributes",
    "cm": "share of records",
    "cm_sum": "records",
    "ncp": SHARE,
    "il": "records x attributes",
    "loss": SHARE,
    "loss_mean": SHARE,
    "precision": SHARE,
    "entropy": SHARE,
    "isolated_ends": "share of records",
    "untrue_labels": "records",
    "improved": "share of the information loss il",
    "mean_shift": "standard deviations",
    "deviation_shift": "share of the standard deviation",
    "correlation_shift": "correlation",
    "share_shift": "share of records",
}
STATISTICS = {
    "mean_shift": "means of numbers and dates",
    "deviation_shift": "standard deviations of numbers and dates",
    "correlation_shift": "Pearson correlations of numbers and dates",
    "share_shift": "shares of categories",
}


def format_measures(measures: Mapping[str, float], threshold: float) -> list[tuple[str, str, str]]:
    """The name, the unit and the value of every measure."""
    return [
        (name, UNITS.get(name, "").format(threshold=threshold), f"{value:,.6g}") for name, value in measures.items()
    ]


@dataclass(frozen=True)
class Summary:
    """The certificate and the measures of a release."""

    certificate: Certificate
    measures: Measures
    method: str
    parameters: Mapping[str, Any]
    notes: tuple[str, ...] = ()  # for the owner

    @property
    def is_synthetic(self) -> bool:
        """Whether the records are synthetic, so that the table does not show its groups."""
        return self.certificate.evidence == "groups"

    @property
    def information_kept(self) -> dict[str, float]:
        """The share of each attribute's information that was kept: 1 - NCP."""
        return {name: 1 - figures["ncp"] for name, figures in self.measures.columns.items()}

    def requirements(self) -> list[tuple[str, str, str]]:
        """Each requirement, the value that the worst group reaches, and whether the requirement holds."""
        return [
            (
                f.text,
                f.reached_text,
                "holds" if f.holds else f"fails for {format_count(f.failing_records, 'record')}",
            )
            for f in self.certificate.findings
        ]

    def risks(self, *, owner: bool = True) -> list[tuple[str, str, str]]:
        """Sizes and risks: description, measure and value; for the owner also risks that the table does not show."""
        m = self.measures
        rows = [
            ("records released", "records", format_count(m["records"], "record")),
            ("records suppressed", "suppressed", format_count(m["suppressed"], "record")),
            ("groups", "classes", format_count(m["classes"], "group")),
            ("smallest group", "smallest", format_count(m["smallest"], "record")),
            ("highest re-identification risk", "risk_max", f"{m['risk_max']:.1%}"),
            ("mean re-identification risk", "risk_mean", f"{m['risk_mean']:.1%}"),
        ]
        if owner and "isolated_ends" in m:
            rows.append(
                ("records isolated by the end of a range", "isolated_ends", f"{m['isolated_ends']:.1%} of records")
            )
        if "untrue_labels" in m:
            rows.append(
                ("records with labels that are not true", "untrue_labels", format_count(m["untrue_labels"], "record"))
            )
        return rows

    def information(self) -> list[tuple[str, str]]:
        """The information kept, of all attributes and of each: 100 % for raw values, 0 % for ``*``; empty if not measured."""
        if not self.information_kept:
            return []
        overall = 1 - self.measures["ncp"]
        return [
            ("all attributes", f"{overall:.1%}"),
            *((name, f"{share:.1%}") for name, share in self.information_kept.items()),
        ]

    def statistics(self) -> list[tuple[str, str, str]]:
        """Mean differences between statistics of the synthetic table and of the original: description, measure, value."""
        return [
            (text, name, f"{self.measures[name]:.4f} ({UNITS[name]})")
            for name, text in STATISTICS.items()
            if name in self.measures
        ]
