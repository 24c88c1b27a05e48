"""The facts of a release in words, the same for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.measures import Measures
from shoal.requirements import Certificate

STATISTICS = {
    "mean_shift": "means, in standard deviations",
    "deviation_shift": "standard deviations, as a share",
    "correlation_shift": "correlations",
    "share_shift": "shares of categories",
}


@dataclass(frozen=True)
class Summary:
    """A release's certificate and figures."""

    certificate: Certificate
    measures: Measures
    method: str
    parameters: Mapping[str, Any]
    notes: tuple[str, ...] = ()  # for the owner

    @property
    def is_synthetic(self) -> bool:
        """Whether records were drawn anew, so that the table does not show its groups."""
        return self.certificate.evidence == "groups"

    @property
    def information_kept(self) -> dict[str, float]:
        """The share of each attribute's certainty that was kept: 1 - NCP."""
        return {name: 1 - figures["ncp"] for name, figures in self.measures.columns.items()}

    def requirements(self) -> list[tuple[str, str, str]]:
        """Requirement, what the worst group reaches, holds or not."""
        return [
            (f.text, f.reached_text, "holds" if f.holds else f"fails for {f.failing_records} records")
            for f in self.certificate.findings
        ]

    def risks(self, *, owner: bool = True) -> list[tuple[str, str]]:
        """What is at risk, in words and figures; for the owner also what the released table does not show."""
        m = self.measures
        rows = [
            ("records released", f"{m['records']:,.0f}"),
            ("records suppressed", f"{m['suppressed']:,.0f}"),
            ("groups", f"{m['classes']:,.0f}"),
            ("smallest group", f"{m['smallest']:,.0f}"),
            ("highest risk of being found", f"{m['risk_max']:.1%}"),
            ("mean risk of being found", f"{m['risk_mean']:.1%}"),
        ]
        if owner and "isolated_ends" in m:
            rows.append(("records isolated by the end of a range", f"{m['isolated_ends']:.1%}"))
        if "untrue_labels" in m:
            rows.append(("records with untrue labels", f"{m['untrue_labels']:,.0f}"))
        return rows

    def information(self) -> list[tuple[str, str]]:
        """What was kept, overall and by attribute: 100 % is the raw value, 0 % is '*'; nothing where it was not measured."""
        if not self.information_kept:
            return []
        overall = 1 - self.measures["ncp"]
        return [
            ("all attributes", f"{overall:.1%}"),
            *((name, f"{share:.1%}") for name, share in self.information_kept.items()),
        ]

    def statistics(self) -> list[tuple[str, str]]:
        """How far statistics of a drawn table lie from the original's, on average."""
        return [(words, f"{self.measures[name]:.4f}") for name, words in STATISTICS.items() if name in self.measures]
