"""What was kept and what is at risk, as numbers about a release.

Everything is read off the two tables and the policy: what a label covers (`read_extents`), and the groups as a stranger counts
them. Rule of counting: a suppressed record counts as fully generalized (loss 1 in every attribute) wherever a mean is over
records; a missing value is a value like any other; records written as ``*`` throughout are a group like any other.
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
)  # to the original
SIZES = frozenset({"records", "suppressed", "classes", "smallest", "average", "risk_max", "risk_mean"})
THRESHOLD = 0.2  # the risk above which a record counts as at risk, unless said


class Measures(dict[str, float]):
    """The measures of a release by name; ``columns`` has those of each attribute.

    ============== ====================================================================================================
    records        released records; ``suppressed``: records of the original that are not in the release
    classes        groups; ``smallest`` and ``average``: their records
    ncp            normalized certainty penalty: mean over records and attributes (0: raw, 1: nothing left)
    il             Total-IL (Byun et al., Definitions 7 and 8): records x (widths + heights), summed
    loss           exp(mean(log(1 + x))) - 1 over attributes, x the mean share of leaves, scaled so that the raw table
                   has 0; ``loss_mean``: the plain mean of x
    precision      1 - mean height of what is published over the height of its tree
    entropy        mean uncertainty of the original value, knowing the label, over that without it
    dm             discernibility: the sum of squared sizes, and for each suppressed record the size of the original
    cm             classification metric: the share of records that are suppressed or not of their group's most frequent
                   class; ``cm_sum``: their number (where the policy has a target)
    risk_max       the chance to find the record of somebody known to be in the table, at worst (1 / smallest);
                   ``risk_mean``: on average; ``risk_above``: the share of records above the threshold
    uniques        records alone in their group
    certain        records with a sensitive value that all of their group share
    ed, sd         equal and sensitive diversity (Byun et al., Definition 10), summed over the sensitive attributes; sd
                   counts the values that the policy calls truly sensitive
    mean_shift     where records were drawn anew, how far the means of numbers lie from the original's; see also
                   ``deviation_shift``, ``correlation_shift``, ``share_shift`` in `statistics.statistics_kept`
    isolated_ends  the share of records that are the only ones of their group with the value at an end of its range: who
                   knows that somebody has this value knows the record (``ends="cut"`` avoids most of them)
    untrue_labels  records whose labels are not true of them, since no box held them (``nearest``)
    improved       the part of Total-IL, with the method's weights, that moving records between groups took away (``improve``)
    ============== ====================================================================================================
    """

    def __init__(self, figures: Mapping[str, float], columns: Mapping[str, Mapping[str, float]]) -> None:
        super().__init__(figures)
        self.columns = columns

    def public(self, *, drawn: bool = False) -> dict[str, float]:
        """Those that anybody can count in the released table; of ``drawn`` records only the sizes of their groups.

        The others are relative to the original, to its widest number say, and would give away what the table hides.
        """
        return {name: value for name, value in self.items() if (name in SIZES if drawn else name not in RELATIVE)}


@dataclass(frozen=True)
class PublishedColumn:
    """One attribute as released: its labels, how many records bear each, and how often each original value occurs."""

    attribute: Attribute
    labels: Sequence[str | None]
    records: Int64Array
    original: Int64Array


def merge_columns(parts: Sequence[PublishedColumn]) -> PublishedColumn:
    """One attribute as released in several parts of a table."""
    records: dict[str | None, int] = {}
    for part in parts:
        for label, count in zip(part.labels, part.records.tolist(), strict=True):
            records[label] = records.get(label, 0) + count
    original = np.sum([part.original for part in parts], axis=0).astype(np.int64)
    labels = sorted(records, key=lambda label: (label is None, label))
    return PublishedColumn(
        parts[0].attribute, labels, np.array([records[label] for label in labels], np.int64), original
    )


@dataclass(frozen=True)
class SensitiveFigures:
    """What groups tell of confidential values, summed over the groups; those of several parts of a table are added.

    ``best``: the records of the most frequent class of each group (None without a target); ``certain``: records that share a
    sensitive value with all of their group; ``equal`` and ``grave``: such records per sensitive column, and those whose value
    the policy calls truly sensitive (None where there is none).
    """

    best: float | None = None
    certain: float | None = None
    equal: float | None = None
    grave: float | None = None

    @classmethod
    def of(cls, groups: Groups, policy: Policy, names: Sequence[str]) -> SensitiveFigures:
        """Of groups with the counts of the columns ``names``."""
        size = groups.size
        best = None
        if policy.target is not None and policy.target in names:
            group, _, weight = groups.histogram(policy.target)
            most = np.zeros(len(size))
            np.maximum.at(most, group, weight)
            best = float(most.sum())
        sensitive = [name for name in policy.sensitive if name in names]
        if not sensitive:
            return cls(best)
        certain = np.zeros(len(size), bool)
        equal = grave = 0.0
        for name in sensitive:
            group, code, _ = groups.histogram(name)
            alone = np.bincount(group, minlength=len(size)) == 1
            certain |= alone
            equal += float(size[alone].sum())
            harmful = np.array(policy.flag_truly_sensitive(name, groups.labels[groups.sensitive.index(name)]), bool)
            known = np.zeros(len(size), bool)
            known[group] = harmful[code]
            grave += float(size[alone & known].sum())
        return cls(best, float(size[certain].sum()), equal, grave if policy.truly_sensitive else None)

    def __add__(self, other: SensitiveFigures) -> SensitiveFigures:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return SensitiveFigures(*(y if x is None else x if y is None else x + y for x, y in pairs))


@dataclass(frozen=True)
class PublishedGroups:
    """What a stranger counts in a released table."""

    groups: Groups
    suppressed: int
    sensitive_figures: SensitiveFigures = field(default_factory=SensitiveFigures)
    threshold: float = THRESHOLD


def compute_measures(published: Sequence[PublishedColumn], audience: PublishedGroups) -> Measures:
    """All measures; see `Measures`. Without published attributes, those that the groups alone give."""
    figures = _counted(audience)
    if not published:
        return Measures(figures, {})
    columns = {p.attribute.name: _column(p, audience.suppressed) for p in published}
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


def _column(published: PublishedColumn, suppressed: int) -> dict[str, float]:
    found = read_extents(published.attribute, published.labels, published.original)
    weight = published.records.astype(np.float64)
    total = max(float(weight.sum()) + suppressed, 1.0)

    def mean(name: str) -> float:
        value = np.array([getattr(e, name) for e in found], np.float64)
        return (float((value * weight).sum()) + suppressed) / total

    tree = published.attribute.taxonomy
    least = 0.0 if tree is None else 1 / tree.size
    loss = 0.0 if least == 1.0 else max(0.0, (mean("share") - least) / (1 - least))
    return {
        "ncp": mean("ncp"),
        "height": mean("height"),
        "loss": loss,
        "entropy": mean("entropy"),
        "distinct": float(len(found)),
        "distinct_original": float((published.original > 0).sum()),
    }


def _counted(audience: PublishedGroups) -> dict[str, float]:
    """The measures that the groups alone give."""
    groups = audience.groups
    size = groups.size.astype(np.float64)
    records, suppressed = float(size.sum()), float(audience.suppressed)
    risk = 1 / size
    found = {
        "records": records,
        "suppressed": suppressed,
        "classes": float(len(size)),
        "smallest": float(size.min()) if len(size) else 0.0,
        "average": records / len(size) if len(size) else 0.0,
        "dm": float((size**2).sum()) + suppressed * (records + suppressed),
        "risk_max": float(risk.max(initial=0.0)),
        "risk_mean": len(size) / records if records else 0.0,
        "risk_above": float(size[risk > audience.threshold + 1e-12].sum()) / records if records else 0.0,
        "uniques": float((size == 1).sum()),
    }
    told = audience.sensitive_figures
    if told.best is not None:
        found["cm_sum"] = records + suppressed - told.best
        found["cm"] = found["cm_sum"] / max(records + suppressed, 1.0)
    named = {"certain": told.certain, "ed": told.equal, "sd": told.grave}
    return found | {name: value for name, value in named.items() if value is not None}
