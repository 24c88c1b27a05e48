"""Statistics of synthetic records compared with the original: means, standard deviations, correlations, shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.arrays import FloatArray
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import Engine
from shoal.policy import Policy, QuasiIdentifier


def compare_statistics(before: Codes, released: Engine, policy: Policy) -> dict[str, float]:
    """The differences between the statistics of released plain values and those of the original; 0: equal.

    ``mean_shift``: the difference of the means of a number or date, in standard deviations of the original, mean over
    attributes. ``deviation_shift``: the relative change of the standard deviation, mean over attributes.
    ``correlation_shift``: the difference of Pearson's correlations, mean over pairs. ``share_shift``: half the sum of the
    differences of the shares of a category's values, mean over attributes. Missing numbers are ignored, and in a correlation
    all pairs with a missing number; a missing category is a value. Numbers with a single value are ignored. A figure without
    attributes is omitted.
    """
    return compare_codes(before, _encode_released(before, released, policy))


def compare_codes(before: Codes, after: Codes) -> dict[str, float]:
    """`compare_statistics` for encoded tables."""
    original, release = _Moments.of(before), _Moments.of(after)
    sd = original.deviation
    varies = sd > 0
    with np.errstate(invalid="ignore"):
        correlation_gap = np.abs(original.correlation - release.correlation)[np.triu_indices(len(sd), 1)]
    pairs = zip(_compute_shares(before), _compute_shares(after), strict=True)
    shifts = {
        "mean_shift": np.abs(release.mean - original.mean)[varies] / sd[varies],
        "deviation_shift": np.abs(release.deviation[varies] / sd[varies] - 1),
        "correlation_shift": correlation_gap[np.isfinite(correlation_gap)],
        "share_shift": np.array([_compute_variation_distance(x, y) for x, y in pairs]),
    }
    return {name: float(np.mean(values)) for name, values in shifts.items() if len(values)}


def _encode_released(before: Codes, released: Engine, policy: Policy) -> Codes:
    """Encode a released table as numbers, dates and texts, without taxonomies."""
    kinds = {a.name: QuasiIdentifier(kind="categorical" if a.numbers is None else a.kind) for a in before.attributes}
    return encode_and_count(released, policy.model_copy(update={"quasi": kinds, "require": (), "unit": None}))[0]


class _Moments:
    """Mean, standard deviation and correlation of the numeric attributes of a table."""

    def __init__(self, values: FloatArray, records: FloatArray) -> None:
        present = ~np.isnan(values)
        count = present * records[:, None]
        total = np.maximum(count.sum(axis=0), 1)
        first = np.array([column[p][0] if p.any() else 0.0 for column, p in zip(values.T, present.T, strict=True)])
        self.mean = first + np.where(present, (values - first) * count, 0.0).sum(axis=0) / total
        centred = np.where(present, values - self.mean, 0.0)
        self.deviation = np.sqrt((count * centred**2).sum(axis=0) / total)
        self.correlation = np.full((len(first), len(first)), np.nan)
        for i in range(len(first)):
            for j in range(i + 1, len(first)):
                both = present[:, i] & present[:, j]
                self.correlation[i, j] = _correlate(values[both, i], values[both, j], records[both])

    @classmethod
    def of(cls, codes: Codes) -> _Moments:
        columns = [a.numbers[codes.quasi[:, j]] for j, a in enumerate(codes.attributes) if a.numbers is not None]
        values = np.stack(columns, axis=1) if columns else np.zeros((len(codes.quasi), 0))
        return cls(np.where(np.isinf(values), np.nan, values), codes.size.astype(np.float64))


def _correlate(x: FloatArray, y: FloatArray, records: FloatArray) -> float:
    """Pearson's correlation; NaN if one of the two does not vary."""
    if not len(x) or (x == x[0]).all() or (y == y[0]).all():
        return float("nan")
    x, y = x - np.average(x, weights=records), y - np.average(y, weights=records)
    return float((records * x * y).sum() / np.sqrt((records * x * x).sum() * (records * y * y).sum()))


def _compute_shares(codes: Codes) -> list[dict[str | None, float]]:
    """The share of every value of each categorical attribute."""
    found = []
    for j, attribute in enumerate(codes.attributes):
        if attribute.numbers is None and attribute.taxonomy is not None:
            shares = np.bincount(codes.quasi[:, j], codes.size, minlength=attribute.size) / max(codes.records, 1)
            found.append(dict(zip(attribute.taxonomy.leaves, shares.tolist(), strict=True)))
    return found


def _compute_variation_distance(one: dict[str | None, float], other: dict[str | None, float]) -> float:
    """Total variation distance: half the sum of the absolute differences."""
    values: Sequence[str | None] = [*dict.fromkeys((*one, *other))]
    return sum(abs(one.get(v, 0.0) - other.get(v, 0.0)) for v in values) / 2
