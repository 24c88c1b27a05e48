"""The built-in measures: name, unit, meaning, counting rule, and the function that computes the value.

The order is that of ``release.measures``. Measures without a function are provided by the run that knows their input.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.measures.measure import Better, Measure, MeasureInput, Need

Compute = Callable[[MeasureInput], float | None]
SHARE = "share, 0 to 1"
SUMMED = "records, summed over sensitive attributes"


def _compute_discernibility(release: MeasureInput) -> float:
    return float((release.size**2).sum()) + release.suppressed * release.total


def _compute_risk_above(release: MeasureInput) -> float:
    records, people = release.attacked
    at_risk = 1 / people > release.published.threshold + 1e-12
    return float(records[at_risk].sum()) / release.records if release.records else 0.0


def _compute_mean_risk(release: MeasureInput) -> float:
    records, people = release.attacked
    return float((records / people).sum()) / release.records if release.records else 0.0


def _count_uniques(release: MeasureInput) -> float:
    records, people = release.attacked
    return float(records[people == 1].sum())


def _count_misclassified(release: MeasureInput) -> float | None:
    majority = release.published.sensitive_figures.majority
    return None if majority is None else release.total - majority


def _compute_classification_metric(release: MeasureInput) -> float | None:
    misclassified = _count_misclassified(release)
    return None if misclassified is None else misclassified / max(release.total, 1.0)


def _mean_of(name: str) -> Compute:
    """The mean of a column measure over the attributes."""

    def compute(release: MeasureInput) -> float | None:
        values = release.collect(name)
        return None if values is None else float(np.mean(values))

    return compute


def _compute_total_loss(release: MeasureInput) -> float | None:
    heights = release.collect("height")
    return None if heights is None else float(np.sum(heights)) * release.total


def _compute_geometric_loss(release: MeasureInput) -> float | None:
    losses = release.collect("loss")
    return None if losses is None else float(np.exp(np.mean(np.log1p(losses))) - 1)


def _compute_precision(release: MeasureInput) -> float | None:
    heights = release.collect("height")
    return None if heights is None else 1 - float(np.mean(heights))


def _describe_sizes(
    name: str, unit: str, title: str, meaning: str, rule: str, compute: Compute, better: Better = "neither"
) -> Measure:
    """A measure of the sizes of groups, which is public for every release."""
    return Measure(name, unit, meaning, rule, better, frozenset({"sizes"}), public=True, title=title, compute=compute)


def _describe_table(
    name: str, unit: str, meaning: str, rule: str, compute: Compute, need: Need = "table", title: str = ""
) -> Measure:
    """A measure that anybody can compute from the released table."""
    return Measure(name, unit, meaning, rule, "lower", frozenset({need}), public=True, title=title, compute=compute)


def _describe_loss(
    name: str, unit: str, meaning: str, rule: str, compute: Compute, better: Better = "lower"
) -> Measure:
    """A measure relative to the original, for the owner only."""
    return Measure(name, unit, meaning, rule, better, compute=compute)


SIZES = (
    _describe_sizes("records", "records", "records released", "records in the release", "", lambda r: r.records),
    _describe_sizes(
        "suppressed",
        "records",
        "records suppressed",
        "suppressed records",
        "records of the original that are not in the release",
        lambda r: r.suppressed,
    ),
    _describe_sizes(
        "classes",
        "groups",
        "groups",
        "groups (equivalence classes)",
        "counted in the released table",
        lambda r: len(r.size),
    ),
    _describe_sizes(
        "smallest",
        "records",
        "smallest group",
        "records of the smallest group",
        "the k that the table reaches",
        lambda r: float(r.size.min()) if len(r.size) else 0.0,
    ),
    _describe_sizes(
        "average",
        "records per group",
        "",
        "records per group",
        "`records` / `classes`",
        lambda r: r.records / len(r.size) if len(r.size) else 0.0,
    ),
    _describe_sizes(
        "people",
        "people",
        "people in the release",
        "different people in the release, if the policy has a unit",
        "a record without a value of the unit is a person of its own",
        lambda r: r.total_people,
    ),
    _describe_sizes(
        "smallest_people",
        "people",
        "group with the fewest people",
        "different people of the group with the fewest people, if the policy has a unit",
        "the k that the table reaches",
        lambda r: None if r.total_people is None else float(r.people.min(initial=np.inf)),
    ),
    _describe_sizes(
        "smallest_history",
        "people",
        "fewest people with equal histories",
        "the smallest number of people with equal histories, if the attacker knows histories",
        "the history of a person is the multiset of the published labels of their records",
        lambda r: None if r.published.by_history is None else float(r.attacked[1].min(initial=np.inf)),
    ),
)
DISCERNIBILITY = _describe_table(
    "dm",
    "records squared",
    "discernibility",
    "the sum of the squared group sizes; a suppressed record costs the number of records of the original",
    _compute_discernibility,
)
RISKS = (
    _describe_sizes(
        "risk_max",
        "probability",
        "highest re-identification risk",
        "the highest re-identification risk: the probability that an attacker chooses the right record of a person who is "
        "known to be in the table",
        "1 / `smallest`; with a unit 1 / `smallest_people`, with `knows: history` 1 / `smallest_history`",
        lambda r: float((1 / r.attacked[1]).max(initial=0.0)),
        "lower",
    ),
    _describe_sizes(
        "risk_mean",
        "probability",
        "mean re-identification risk",
        "the mean re-identification risk over records",
        "`classes` / `records`; with a unit the mean over records of 1 / people of the group or with the same history",
        _compute_mean_risk,
        "lower",
    ),
    _describe_table(
        "risk_above",
        "share of records with a risk above {threshold:g}",
        "the share of records with a risk above a threshold",
        "`threshold` sets the threshold (default: 0.2)",
        _compute_risk_above,
    ),
    _describe_table(
        "uniques",
        "records",
        "records that are alone in their group",
        "with a unit, records in groups of one person",
        _count_uniques,
    ),
)
TARGET = (
    _describe_table("cm_sum", "records", "`cm` as a number of records", "", _count_misclassified, "target"),
    _describe_table(
        "cm",
        "share of records",
        "classification metric, if the policy has a target",
        "the share of records that are suppressed or that do not have the most frequent class of their group",
        _compute_classification_metric,
        "target",
    ),
)
SENSITIVE = (
    _describe_table(
        "certain",
        "records",
        "records whose sensitive value is known, because all records of their group share it",
        "each record counts once, even if several columns are known",
        lambda r: r.published.sensitive_figures.certain,
        "sensitive",
        "records whose sensitive value is certain",
    ),
    _describe_table(
        "largest_share",
        "share of a group",
        "the largest share of one sensitive value in a group",
        "over all groups and sensitive columns; 1 if the value of some record is certain",
        lambda r: r.published.sensitive_figures.largest_share,
        "sensitive",
        "largest share of a sensitive value in a group",
    ),
    _describe_table(
        "ed",
        SUMMED,
        "equal diversity (Byun et al., Definition 10)",
        "like `certain`, but counted for each sensitive column and then summed over these columns",
        lambda r: r.published.sensitive_figures.equal,
        "sensitive",
    ),
    _describe_table(
        "sd",
        SUMMED,
        "sensitive diversity",
        "like `ed`, only for the values that the policy lists under `truly_sensitive`",
        lambda r: r.published.sensitive_figures.grave,
        "sensitive",
    ),
)
LOSSES = (
    _describe_loss(
        "ncp",
        SHARE,
        "normalized certainty penalty, from 0 to 1",
        "A number: the width of its range, divided by the whole width. A label of a taxonomy: the number of different source "
        "values that it covers, divided by the number of all; 0 for a single value. Then the mean over records and attributes",
        _mean_of("ncp"),
    ),
    _describe_loss(
        "il",
        "records x attributes",
        "Total-IL (Byun et al., Definitions 7 and 8)",
        "per record, the sum of the widths (numbers, divided by the whole width) and the heights of the lowest nodes (divided "
        "by the height of the tree) over the attributes; then the sum over records",
        _compute_total_loss,
    ),
    _describe_loss(
        "loss",
        SHARE,
        "like `loss_mean`, with a geometric mean",
        "e to the power of the mean of ln(1 + share) over the attributes, minus 1",
        _compute_geometric_loss,
    ),
    _describe_loss(
        "loss_mean",
        SHARE,
        "like `ncp`, scaled for taxonomies",
        "the share of source values, scaled so that the raw table has 0 and the root 1; the mean over records, then over "
        "attributes",
        _mean_of("loss"),
    ),
    _describe_loss(
        "precision",
        SHARE,
        "1 for the raw table, 0 for `*` everywhere",
        "1 − the mean of the heights and widths of `il`",
        _compute_precision,
        "higher",
    ),
    _describe_loss(
        "entropy",
        SHARE,
        "the uncertainty about the original value if the label is known",
        "divided by the uncertainty without the label; the mean over records and attributes",
        _mean_of("entropy"),
    ),
)
IMPROVED = Measure(
    "improved",
    "share of the information loss",
    "the effect of `improve=True`",
    "the share of the information loss that the local search removed: of the measure that `objective` names, computed for the "
    "boxes around the groups, with the `weights` of the method",
    "higher",
)
DOWNCODED = Measure(
    "downcoded",
    "share of records",
    "the share of records whose label can be sharpened: without the boxes of groups that were published in earlier rounds, the "
    "label has a single value of an attribute that it generalizes",
    "for methods that publish in rounds, such as `peel`. After `improve=True` a group with less loss counts as earlier. For "
    "`local-suppression` a group with cheaper stars counts as earlier. `shoal.measure` does not know the rounds and does not "
    "compute the measure. The measure is not published",
    "lower",
    frozenset({"groups"}),
    title="records whose labels can be sharpened",
)
STARS = (
    Measure(
        "starred",
        "starred cells, weighted by importance",
        "the cells that `local-suppression` published as `*`",
        "the sum of the importance of their columns: with importance 1, the number of cells. Cells of suppressed records do "
        "not count. With a unit, or for a table that is searched in partitions, the measure is not computed",
        "lower",
        frozenset({"groups"}),
        title="starred cells",
    ),
    Measure(
        "starred_least",
        "starred cells, weighted by importance",
        "a lower bound of `starred`: no release with single values and `*` that meets the same requirements has less",
        "each record counts with the cheapest set of columns without which as many records of the source agree as a group must "
        "have; for a source of at most 12 records, the least that is possible",
        "neither",
        frozenset({"groups"}),
        title="lower bound of the starred cells",
    ),
)
ENDS = (
    Measure(
        "isolated_ends",
        "share of records",
        "the share of records that are isolated by the end of a range: no other record of the group has the value at this end",
        "for numbers and dates. This measure needs the group of each original record. `shoal.measure` does not know these "
        "groups and does not compute the measure. The measure is not published",
        "lower",
        frozenset({"groups"}),
        title="records isolated by the end of a range",
    ),
    Measure(
        "unique_ends",
        "labels",
        "the labels with an end that is a value of a single record of the source",
        "for numbers and dates; `round` in the policy moves the ends of ranges to values that show nobody. This measure needs "
        "the source values of all groups. `shoal.measure` does not compute the measure. The measure is not published",
        "lower",
        frozenset({"groups"}),
        title="labels with an end that occurs once",
    ),
    Measure(
        "untrue_labels",
        "records",
        "with `nearest`, the records whose labels do not contain their values",
        "records that were outside every box",
        "lower",
        frozenset({"groups"}),
        public=True,
        title="records with labels that are not true",
    ),
)
STATISTICS = (
    Measure(
        "mean_shift",
        "standard deviations",
        "the difference of the means of a number or date",
        "in standard deviations of the original; the mean over attributes",
        "lower",
        title="means of numbers and dates",
    ),
    Measure(
        "deviation_shift",
        "share of the standard deviation",
        "the relative change of the standard deviation",
        "the mean over attributes",
        "lower",
        title="standard deviations of numbers and dates",
    ),
    Measure(
        "correlation_shift",
        "correlation",
        "the difference of Pearson's correlation",
        "the mean over pairs of numbers or dates, of the records that have both",
        "lower",
        title="Pearson correlations of numbers and dates",
    ),
    Measure(
        "share_shift",
        "share of records",
        "the share of records that would have to change their category",
        "half the sum of the differences of the shares of all values, including the missing value; the mean over attributes",
        "lower",
        title="shares of categories",
    ),
)
RECONSTRUCTION = Measure(
    "reconstruction_error",
    SHARE,
    "for a release in buckets, the squared distance between the shares of the sensitive values in the bucket of a record and "
    "the value of the record",
    "the mean over the records; 0 if every bucket has one value, near 1 if a bucket has many values",
    "lower",
    frozenset({"table"}),
    public=True,
    title="reconstruction error of the sensitive values",
)
_ADVERSARY = (
    "for an adversary who knows the original quasi-identifiers of all people and the probabilities of the changes"
)


def _rate_adversary(name: str, meaning: str, title: str, rule: str = _ADVERSARY, better: Better = "lower") -> Measure:
    """A measure of a randomized release, as its certificate states it."""
    return Measure(name, SHARE, f"for a randomized release, {meaning}", rule, better, public=True, title=title)


RANDOMIZED = (
    _rate_adversary(
        "unchanged",
        "the share of the records that have their original quasi-identifiers",
        "records unchanged",
        "a draw can be the value itself",
        "neither",
    ),
    _rate_adversary(
        "posterior_mean",
        "the probability of the most probable original combination of a record, on average",
        "mean posterior",
    ),
    _rate_adversary(
        "posterior_max",
        "the largest probability of the most probable original combination of a record",
        "largest posterior",
    ),
    _rate_adversary(
        "guessed",
        "the share of the records whose most probable original combination is the right one",
        "originals guessed",
    ),
)
BUILT_IN = (
    *SIZES,
    DISCERNIBILITY,
    *RISKS,
    *TARGET,
    *SENSITIVE,
    *LOSSES,
    IMPROVED,
    DOWNCODED,
    *STARS,
    *ENDS,
    *STATISTICS,
    RECONSTRUCTION,
    *RANDOMIZED,
)
