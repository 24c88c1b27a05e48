"""The figures of a release as text, with measure names and units, for the terminal and the HTML report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.formats.numbers import format_count
from shoal.measures import MEASURES, THRESHOLD, Measures
from shoal.measures.built_in import STATISTICS
from shoal.requirements import Certificate

RISKS = ("size and re-identification risk", "measure", "value")
INFORMATION_KEPT = ("information kept (1 - NCP)", "share")
STATISTICS_KEPT = ("statistics of the synthetic records", "measure", "mean difference")
MEASURE_HEADINGS = ("measure", "unit", "value")
EXPLANATION_HEADINGS = ("measure", "meaning", "unit", "value")


def _format_percentage(value: float) -> str:
    return f"{value:.1%}"


def _format_records(value: float) -> str:
    return format_count(value, "record")


def _format_people(value: float) -> str:
    return format_count(value, "person", "people")


RISK_FORMATS: dict[str, Callable[[float], str]] = {  # the measures of `Summary.risks`, in order
    "records": _format_records,
    "suppressed": _format_records,
    "people": _format_people,
    "classes": lambda value: format_count(value, "group"),
    "smallest": _format_records,
    "smallest_people": _format_people,
    "smallest_history": _format_people,
    "risk_max": _format_percentage,
    "risk_mean": _format_percentage,
    "certain": _format_records,
    "largest_share": _format_percentage,
    "isolated_ends": lambda value: f"{value:.1%} of records",
    "unique_ends": lambda value: format_count(value, "label"),
    "untrue_labels": _format_records,
}


def format_measures(measures: Mapping[str, float], threshold: float) -> list[tuple[str, str, str]]:
    """The name, the unit and the value of every measure."""
    units = {measure.name: measure.unit.format(threshold=threshold) for measure in MEASURES}
    return [(name, units.get(name, ""), f"{value:,.6g}") for name, value in measures.items()]


@dataclass(frozen=True)
class Summary:
    """The certificate and the measures of a release."""

    certificate: Certificate
    measures: Measures
    method: str
    parameters: Mapping[str, Any]
    notes: tuple[str, ...] = ()  # for the owner

    @property
    def treatment(self) -> str:
        """What was done to the quasi-identifiers: ``generalized``, ``synthetic``, ``unchanged`` (in buckets) or ``randomized``.

        For a model it is ``public``.
        """
        by_evidence = {"groups": "synthetic", "buckets": "unchanged", "operator": "randomized", "model": "public"}
        return by_evidence.get(self.certificate.evidence, "generalized")

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
        shown = self.measures if owner else self.measures.public(evidence=self.certificate.evidence)
        rows = [(MEASURES.find(name).title, name, write) for name, write in RISK_FORMATS.items() if name in shown]
        return [(title, name, write(shown[name])) for title, name, write in rows]

    def explanations(self, *, owner: bool = True) -> list[tuple[str, str, str, str]]:
        """Every measure of the release: name, meaning, unit and value; without ``owner`` only public measures."""
        shown = self.measures if owner else self.measures.public(evidence=self.certificate.evidence)
        meanings = {measure.name: measure.meaning.replace("`", "") for measure in MEASURES}
        return [
            (name, meanings.get(name, "a figure of the method"), unit, value)
            for name, unit, value in format_measures(shown, THRESHOLD)
        ]

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
        """Mean differences between statistics of the released values and of the original: description, measure, value."""
        return [
            (measure.title, measure.name, f"{self.measures[measure.name]:.4f} ({measure.unit})")
            for measure in STATISTICS
            if measure.name in self.measures
        ]
