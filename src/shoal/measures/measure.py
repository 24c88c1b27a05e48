"""The interface of measures, and the tables that they are computed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from shoal.arrays import FloatArray, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.measures.label_extents import read_extents
from shoal.measures.sensitive_figures import SensitiveFigures
from shoal.requirements.groups import Groups

THRESHOLD = 0.2  # default: records with a higher re-identification risk count as at risk
Better = Literal["lower", "higher", "neither"]
Need = Literal["sizes", "table", "sensitive", "target", "original", "groups"]


@dataclass(frozen=True)
class PublishedColumn:
    """One attribute as released: its labels, the number of records of each, and that of each original code."""

    attribute: Attribute
    labels: Sequence[str | None]
    records: Int64Array
    original: Int64Array


@dataclass(frozen=True)
class PublishedGroups:
    """The groups of a released table as published, with the number of suppressed records."""

    groups: Groups
    suppressed: int
    sensitive_figures: SensitiveFigures = field(default_factory=SensitiveFigures)
    threshold: float = THRESHOLD
    by_history: Groups | None = None  # the people with equal histories, where the attacker knows histories


@dataclass(frozen=True)
class MeasureInput:
    """The input of all measures: the attributes as released, and the groups as published.

    ``columns`` is empty where the original is not known.
    """

    columns: Sequence[PublishedColumn]
    published: PublishedGroups

    @cached_property
    def size(self) -> FloatArray:
        """The number of records of each group."""
        return self.published.groups.records_of_groups.astype(np.float64)

    @cached_property
    def people(self) -> FloatArray:
        """The number of different people of each group; of records where the policy has no unit."""
        return self.published.groups.size.astype(np.float64)

    @cached_property
    def attacked(self) -> tuple[FloatArray, FloatArray]:
        """The records and the people of the groups in which the attacker searches: people with equal labels or histories."""
        groups = self.published.by_history
        if groups is None:
            return self.size, self.people
        return groups.records_of_groups.astype(np.float64), groups.size.astype(np.float64)

    @property
    def total_people(self) -> int | None:
        """The number of different people in the release; None where people are not counted."""
        return self.published.groups.people

    @cached_property
    def records(self) -> float:
        """The number of released records."""
        return float(self.size.sum())

    @property
    def suppressed(self) -> float:
        """The number of suppressed records."""
        return float(self.published.suppressed)

    @property
    def total(self) -> float:
        """The number of records of the original."""
        return self.records + self.suppressed

    @cached_property
    def column_figures(self) -> Mapping[str, Mapping[str, float]]:
        """The measures of each attribute, by column name."""
        return {c.attribute.name: _measure_column(c, self.published.suppressed) for c in self.columns}

    def collect(self, name: str) -> FloatArray | None:
        """One measure of every attribute; None where the original is not known."""
        return np.array([figures[name] for figures in self.column_figures.values()]) if self.columns else None


@dataclass(frozen=True)
class Measure:
    """One measure of a release.

    Parameters
    ----------
    name : its key in ``release.measures``
    unit : the unit of its value
    meaning : a phrase for the documentation and the report
    rule : the counting rule, if the meaning does not state it
    better : whether a ``lower`` or a ``higher`` value is better, or ``neither``
    needs : the data that it is computed from: the ``sizes`` of groups (their number, smallest and mean size), the released
        ``table``, its ``sensitive`` columns or ``target``, the ``original`` table, or the ``groups`` of the original records
    public : whether the measure may be published. A measure without ``public=True`` stays in the owner folder
    title : its name in the summary, for measures that the summary shows
    compute : the function that computes it, or returns None where the measure does not apply; None if the run provides it
    """

    name: str
    unit: str
    meaning: str
    rule: str = ""
    better: Better = "neither"
    needs: frozenset[Need] = frozenset({"original"})
    public: bool = False
    title: str = ""
    compute: Callable[[MeasureInput], float | None] | None = None

    def is_public(self, evidence: str) -> bool:
        """Whether the measure may be published: declared public, and computed from data that recipients can see.

        A table whose ``evidence`` is not the table itself shows nothing about its groups; of these only the sizes are public.
        """
        return self.public and (evidence in ("table", "union", "people", "buckets") or self.needs <= {"sizes"})


def _measure_column(published: PublishedColumn, suppressed: int) -> dict[str, float]:
    extents = read_extents(published.attribute, published.labels, published.original)
    records = published.records.astype(np.float64)
    total = max(float(records.sum()) + suppressed, 1.0)

    def mean(name: str) -> float:
        value = np.array([getattr(e, name) for e in extents], np.float64)
        return (float((value * records).sum()) + suppressed) / total

    attribute, original = published.attribute, published.original
    loss = 0.0 if attribute.taxonomy is not None and attribute.source_size == 1 else mean("loss")
    values = original > 0 if attribute.source is None else attribute.source.count[original > 0]
    return {
        "ncp": mean("ncp"),
        "height": mean("height"),
        "loss": loss,
        "entropy": mean("entropy"),
        "distinct": float(len(extents)),
        "distinct_original": float(values.sum()),
    }
