"""What a table of plain values kept of the statistics of another: means, deviations, correlations, shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.arrays import FloatArray
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import Engine
from shoal.policy import Policy, QuasiIdentifier


def compare_statistics(before: Codes, released: Engine, policy: Policy) -> dict[str, float]:
    """How far the statistics of a table of plain values lie from those of the original; 0: they are the same.

    ``mean_shift``: the difference of the means of a number or date, in standard deviations of the original, the mean over
    attributes. ``deviation_shift``: by what share the standard deviation has changed. ``correlation_shift``: the difference
    of Pearson's correlation, the mean over pairs. ``share_shift``: half the sum of the differences of the shares of a
    category's values, the mean over attributes. Missing numbers are left out, a pair where either is missing; a missing
    category is a value. Attributes that have a single value are left out; a figure without attributes is not given.
    """
    after = _plainly(before, released, policy)
    one, other = _Numbers.of(before), _Numbers.of(after)
    sd = one.deviation
    varied = sd > 0
    with np.errstate(invalid="ignore"):
        apart = np.abs(one.correlation - other.correlation)[np.triu_indices(len(sd), 1)]
    shares = [_distance(x, y) for x, y in zip(_shares(before), _shares(after), strict=True)]
    found = {
        "mean_shift": np.abs(other.mean - one.mean)[varied] / sd[varied],
        "deviation_shift": np.abs(other.deviation[varied] / sd[varied] - 1),
        "correlation_shift": apart[np.isfinite(apart)],
        "share_shift": np.array(shares),
    }
    return {name: float(np.mean(values)) for name, values in found.items() if len(values)}


def _plainly(before: Codes, released: Engine, policy: Policy) -> Codes:
    """A released table as numbers, dates and texts, without trees."""
    kinds = {a.name: QuasiIdentifier(kind="categorical" if a.numbers is None else a.kind) for a in before.attributes}
    return encode_and_count(released, policy.model_copy(update={"quasi": kinds, "require": ()}))[0]


class _Numbers:
    """Mean, standard deviation and correlation of the numeric attributes of a table."""

    def __init__(self, values: FloatArray, weight: FloatArray) -> None:
        present = ~np.isnan(values)
        held = present * weight[:, None]
        number = np.maximum(held.sum(axis=0), 1)
        first = np.array([column[p][0] if p.any() else 0.0 for column, p in zip(values.T, present.T, strict=True)])
        self.mean = first + np.where(present, (values - first) * held, 0.0).sum(axis=0) / number
        apart = np.where(present, values - self.mean, 0.0)
        self.deviation = np.sqrt((held * apart**2).sum(axis=0) / number)
        self.correlation = np.full((len(first), len(first)), np.nan)
        for i in range(len(first)):
            for j in range(i + 1, len(first)):
                both = present[:, i] & present[:, j]
                self.correlation[i, j] = _correlation(values[both, i], values[both, j], weight[both])

    @classmethod
    def of(cls, codes: Codes) -> _Numbers:
        columns = [a.numbers[codes.quasi[:, j]] for j, a in enumerate(codes.attributes) if a.numbers is not None]
        values = np.stack(columns, axis=1) if columns else np.zeros((len(codes.quasi), 0))
        return cls(np.where(np.isinf(values), np.nan, values), codes.size.astype(np.float64))


def _correlation(x: FloatArray, y: FloatArray, weight: FloatArray) -> float:
    """Pearson's correlation; NaN where one of the two does not vary."""
    if not len(x) or (x == x[0]).all() or (y == y[0]).all():
        return float("nan")
    x, y = x - np.average(x, weights=weight), y - np.average(y, weights=weight)
    return float((weight * x * y).sum() / np.sqrt((weight * x * x).sum() * (weight * y * y).sum()))


def _shares(codes: Codes) -> list[dict[str | None, float]]:
    """The share of every value of each categorical attribute."""
    found = []
    for j, attribute in enumerate(codes.attributes):
        if attribute.numbers is None and attribute.taxonomy is not None:
            counts = np.bincount(codes.quasi[:, j], codes.size, minlength=attribute.size) / max(codes.records, 1)
            found.append(dict(zip(attribute.taxonomy.leaves, counts.tolist(), strict=True)))
    return found


def _distance(one: dict[str | None, float], other: dict[str | None, float]) -> float:
    values: Sequence[str | None] = [*dict.fromkeys((*one, *other))]
    return sum(abs(one.get(v, 0.0) - other.get(v, 0.0)) for v in values) / 2
