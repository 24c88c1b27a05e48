"""Information loss and re-identification risk of a release, as figures.

All figures follow from the two tables and the policy: from the extent of each label (`read_extents`) and from the groups as
published. Counting: in a mean over records, a suppressed record counts as fully generalized (loss 1 in every attribute). A
missing value is a value like any other. Records with ``*`` in every attribute are a group like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field

import numpy as np

from shoal.arrays import Int64Array
from shoal.encoding.attributes import Attribute
from shoal.measures.label_extents import read_extents
from shoal.policy import Policy
from shoal.requirements.groups import Groups

STATISTICS = ("mean_shift", "deviation_shift", "correlation_shift", "share_shift")
RELATIVE = frozenset(
    {"ncp", "il", "loss", "loss_mean", "precision", "entropy", "improved", "isolated_ends", *STATISTICS}
)  # measured against the original
SIZES = frozenset({"records", "suppressed", "classes", "smallest", "average", "risk_max", "risk_mean"})
THRESHOLD = 0.2  # default: records with a higher re-identification risk count as at risk


class Measures(dict[str, float]):
    """The measures of a release by name; ``columns`` has the measures of each attribute.

    ============== ====================================================================================================
    records        released records; ``suppressed``: records of the original that are not in the release
    classes        groups; ``smallest`` and ``average``: their numbers of records
    ncp            normalized certainty penalty: mean over records and attributes (0: original values, 1: fully generalized)
    il             Total-IL (Byun et al., Definitions 7 and 8): records x (widths + heights), summed
    loss           exp(mean(log(1 + x))) - 1 over attributes, x the mean share of leaves, scaled so that the original
                   table has 0; ``loss_mean``: the plain mean of x
    precision      1 - mean height of the published node over the height of its taxonomy
    entropy        mean entropy of the original value given the label, over its entropy without the label
    dm             discernibility: the sum of squared group sizes; each suppressed record adds the size of the original
    cm             classification metric: the share of records that are suppressed or not of their group's most frequent
                   class; ``cm_sum``: their number (if the policy has a target)
    risk_max       the largest re-identification risk: the probability of picking the right record of a person who is known
                   to be in the table (1 / smallest); ``risk_mean``: the mean; ``risk_above``: the share of records with a
                   higher risk than the threshold
    uniques        records that are the only one of their group
    certain        records with a sensitive value that is equal in the whole group
    ed, sd         equal and sensitive diversity (Byun et al., Definition 10), summed over the sensitive attributes; sd
                   counts the values that the policy lists as truly sensitive
    mean_shift     for synthetic records, the difference of the means of numbers from the original; see also
                   ``deviation_shift``, ``correlation_shift``, ``share_shift`` in `statistics.compare_statistics`
    isolated_ends  the share of records that are the only one of their group with the value at an end of its range: an
                   attacker who knows that a person has this value knows the record (``ends="cut"`` avoids most of them)
    untrue_labels  records whose labels do not cover their values, because no box contained them (``nearest``)
    improved       the share of Total-IL, with the method's weights, that moving records between groups removed (``improve``)
    ============== ====================================================================================================
    """

    def __init__(self, figures: Mapping[str, float], columns: Mapping[str, Mapping[str, float]]) -> None:
        super().__init__(figures)
        self.columns = columns

    def public(self, *, synthetic: bool = False) -> dict[str, float]:
        """The measures that follow from the released table alone; for ``synthetic`` records only the sizes of their groups.

        The other measures depend on the original, for example on its largest number, and could disclose original values.
        """
        return {name: value for name, value in self.items() if (name in SIZES if synthetic else name not in RELATIVE)}


@dataclass(frozen=True)
class PublishedColumn:
    """One attribute as released: its labels, the number of records of each, and that of each original code."""

    attribute: Attribute
    labels: Sequence[str | None]
    records: Int64Array
    original: Int64Array


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


@dataclass(frozen=True)
class SensitiveFigures:
    """Counts of records by the sensitive values and classes of their groups; add up those of several partitions.

    ``majority``: records of the most frequent class of their group (None without a target). ``certain``: records of groups in
    which some sensitive column has a single value. ``equal``: the sum of these records over the sensitive columns. ``grave``:
    the same for the values that the policy lists as truly sensitive (None if it lists none).
    """

    majority: float | None = None
    certain: float | None = None
    equal: float | None = None
    grave: float | None = None

    @classmethod
    def of(cls, groups: Groups, policy: Policy, names: Sequence[str]) -> SensitiveFigures:
        """Count groups that have the values of the columns ``names``."""
        size = groups.size
        majority = None
        if policy.target is not None and policy.target in names:
            group, _, records = groups.histogram(policy.target)
            largest = np.zeros(len(size))
            np.maximum.at(largest, group, records)
            majority = float(largest.sum())
        sensitive = [name for name in policy.sensitive if name in names]
        if not sensitive:
            return cls(majority)
        certain = np.zeros(len(size), bool)
        equal = grave = 0.0
        for name in sensitive:
            group, code, _ = groups.histogram(name)
            has_one_value = np.bincount(group, minlength=len(size)) == 1
            certain |= has_one_value
            equal += float(size[has_one_value].sum())
            harmful = np.array(policy.flag_truly_sensitive(name, groups.labels[groups.sensitive.index(name)]), bool)
            has_harmful = np.zeros(len(size), bool)
            has_harmful[group] = harmful[code]
            grave += float(size[has_one_value & has_harmful].sum())
        return cls(majority, float(size[certain].sum()), equal, grave if policy.truly_sensitive else None)

    def __add__(self, other: SensitiveFigures) -> SensitiveFigures:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return SensitiveFigures(*(y if x is None else x if y is None else x + y for x, y in pairs))


@dataclass(frozen=True)
class PublishedGroups:
    """The groups of a released table as published, with the number of suppressed records."""

    groups: Groups
    suppressed: int
    sensitive_figures: SensitiveFigures = field(default_factory=SensitiveFigures)
    threshold: float = THRESHOLD


def compute_measures(attributes: Sequence[PublishedColumn], published: PublishedGroups) -> Measures:
    """All measures; see `Measures`. Without attributes, only the measures of groups."""
    figures = _measure_groups(published)
    if not attributes:
        return Measures(figures, {})
    columns = {a.attribute.name: _measure_column(a, published.suppressed) for a in attributes}
    every = list(columns.values())
    x = np.array([c["loss"] for c in every])
    total = figures["records"] + figures["suppressed"]
    figures |= {
        "ncp": float(np.mean([c["ncp"] for c in every])),
        "il": float(np.sum([c["height"] for c in every])) * total,
        "loss": float(np.exp(np.mean(np.log1p(x))) - 1),
        "loss_mean": float(np.mean(x)),
        "precision": 1 - float(np.mean([c["height"] for c in every])),
        "entropy": float(np.mean([c["entropy"] for c in every])),
    }
    return Measures(figures, columns)


def _measure_column(published: PublishedColumn, suppressed: int) -> dict[str, float]:
    extents = read_extents(published.attribute, published.labels, published.original)
    records = published.records.astype(np.float64)
    total = max(float(records.sum()) + suppressed, 1.0)

    def mean(name: str) -> float:
        value = np.array([getattr(e, name) for e in extents], np.float64)
        return (float((value * records).sum()) + suppressed) / total

    tree = published.attribute.taxonomy
    least = 0.0 if tree is None else 1 / tree.size
    loss = 0.0 if least == 1.0 else max(0.0, (mean("share") - least) / (1 - least))
    return {
        "ncp": mean("ncp"),
        "height": mean("height"),
        "loss": loss,
        "entropy": mean("entropy"),
        "distinct": float(len(extents)),
        "distinct_original": float((published.original > 0).sum()),
    }


def _measure_groups(published: PublishedGroups) -> dict[str, float]:
    """The measures that follow from the groups alone."""
    size = published.groups.size.astype(np.float64)
    records, suppressed = float(size.sum()), float(published.suppressed)
    risk = 1 / size
    measures = {
        "records": records,
        "suppressed": suppressed,
        "classes": float(len(size)),
        "smallest": float(size.min()) if len(size) else 0.0,
        "average": records / len(size) if len(size) else 0.0,
        "dm": float((size**2).sum()) + suppressed * (records + suppressed),
        "risk_max": float(risk.max(initial=0.0)),
        "risk_mean": len(size) / records if records else 0.0,
        "risk_above": float(size[risk > published.threshold + 1e-12].sum()) / records if records else 0.0,
        "uniques": float((size == 1).sum()),
    }
    figures = published.sensitive_figures
    if figures.majority is not None:
        measures["cm_sum"] = records + suppressed - figures.majority
        measures["cm"] = measures["cm_sum"] / max(records + suppressed, 1.0)
    diversity = {"certain": figures.certain, "ed": figures.equal, "sd": figures.grave}
    return measures | {name: value for name, value in diversity.items() if value is not None}
