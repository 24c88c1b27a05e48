"""Information loss and re-identification risk of a release, as figures.

All figures follow from the two tables and the policy: from the extent of each label (`read_extents`) and from the groups as
published. Counting: in a mean over records, a suppressed record counts as fully generalized (loss 1 in every attribute). A
missing value is a value like any other. Records with ``*`` in every attribute are a group like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shoal.formats.html_text import render_table, render_view
from shoal.measures.built_in import BUILT_IN
from shoal.measures.measure import Measure, MeasureInput, PublishedColumn, PublishedGroups
from shoal.registry import Registry

MEASURES = Registry("shoal.measures", "measure", {measure.name: measure for measure in BUILT_IN}, base=Measure)

SHOWN = ("records", "classes", "risk_max", "ncp")  # in the representation of measures


class Measures(dict[str, float]):
    """The measures of a release by name; ``columns`` has the measures of each attribute.

    `MEASURES` is the registry of all measures, with unit, meaning, counting rule, and whether they are published.
    """

    def __init__(self, figures: Mapping[str, float], columns: Mapping[str, Mapping[str, float]]) -> None:
        super().__init__(figures)
        self.columns = columns

    def __repr__(self) -> str:
        shown = [f"{name} {self[name]:.4g}" for name in SHOWN if name in self]
        return f"Measures({', '.join(shown)}; {len(self)} measures, {len(self.columns)} columns)"

    def _repr_html_(self) -> str:
        meanings = {measure.name: measure.meaning.replace("`", "") for measure in MEASURES}
        rows = [(name, meanings.get(name, "a figure of the method"), f"{value:,.6g}") for name, value in self.items()]
        kept = [(name, f"{1 - figures['ncp']:.1%}") for name, figures in self.columns.items() if "ncp" in figures]
        return render_view(
            "Measures (for the owner: do not publish)",
            render_table("all measures", ("measure", "meaning", "value"), rows),
            render_table("information kept (1 - NCP)", ("column", "share"), kept),
        )

    def public(self, *, evidence: str = "table") -> dict[str, float]:
        """The measures that may be published: those that are registered as public and that recipients could compute.

        The other measures depend on the original, for example on its largest number, and could disclose original values.
        ``evidence`` is that of the certificate.
        """
        allowed = {measure.name for measure in MEASURES if measure.is_public(evidence)}
        return {name: value for name, value in self.items() if name in allowed}


def compute_measures(columns: Sequence[PublishedColumn], published: PublishedGroups) -> Measures:
    """All measures of a release. Without ``columns``, only the measures of groups."""
    release = MeasureInput(columns, published)
    values = {m.name: m.compute(release) for m in MEASURES if m.compute is not None}
    return Measures({n: float(v) for n, v in values.items() if v is not None}, release.column_figures)


def merge_columns(partitions: Sequence[PublishedColumn]) -> PublishedColumn:
    """Merge one attribute of several partitions of a table."""
    records: dict[str | None, int] = {}
    for column in partitions:
        for label, count in zip(column.labels, column.records.tolist(), strict=True):
            records[label] = records.get(label, 0) + count
    original = np.sum([column.original for column in partitions], axis=0).astype(np.int64)
    labels = sorted(records, key=lambda label: (label is None, label))
    return PublishedColumn(
        partitions[0].attribute, labels, np.array([records[label] for label in labels], np.int64), original
    )
