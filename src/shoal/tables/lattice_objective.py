"""The objectives of a search in a lattice of levels, by their names in ``release.measures``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.arrays import Int64Array
from shoal.kernels.interface import (
    AVERAGE_SIZE,
    MISCLASSIFIED,
    SQUARED_SIZES,
    SUM_OF_LOGARITHMS,
    SUM_OF_MEANS,
)


@dataclass(frozen=True)
class LatticeObjective:
    """A measure that a search minimizes.

    ``figure`` is the figure of labels that the measure averages (see `Extent`), ``kind`` the formula of the kernel, which
    computes a score. For measures of groups the figure only orders the first steps of the search. ``improves`` is the loss that
    the local search of ``improve=True`` minimizes instead.
    """

    name: str
    figure: str
    kind: int
    improves: str = "ncp"

    @property
    def sums_attributes(self) -> bool:
        """Whether the score is a sum over the attributes."""
        return self.kind in (SUM_OF_MEANS, SUM_OF_LOGARITHMS)

    def score_attribute(self, mean: float) -> float:
        """The score of an attribute with a mean loss."""
        return float(np.log1p(mean)) if self.kind == SUM_OF_LOGARITHMS else mean

    def measure(self, score: float, attributes: int) -> float:
        """The measure of a score, as ``release.measures`` has it."""
        if self.kind == SUM_OF_LOGARITHMS:
            return float(np.expm1(score / max(attributes, 1)))
        if self.kind == SUM_OF_MEANS:
            mean = score / max(attributes, 1)
            return 1 - mean if self.name == "precision" else mean
        return score

    def score_groups(self, size: Int64Array, majority: Int64Array, suppressed: int) -> float:
        """The score of released groups, for measures of groups; by group its size and the records of its largest class."""
        records = int(size.sum()) + suppressed
        if self.kind == SQUARED_SIZES:
            return float((size.astype(np.float64) ** 2).sum()) + float(suppressed) * records
        if self.kind == AVERAGE_SIZE:
            return float(size.sum()) / max(len(size), 1)
        return float((size - majority).sum() + suppressed) / records

    def score_means(self, means: Sequence[float]) -> float:
        """The score of the mean losses of all attributes, suppressed records included."""
        return float(sum(self.score_attribute(mean) for mean in means))


OBJECTIVES = {
    objective.name: objective
    for objective in (
        LatticeObjective("loss", "loss", SUM_OF_LOGARITHMS, "loss_mean"),
        LatticeObjective("loss_mean", "loss", SUM_OF_MEANS, "loss_mean"),
        LatticeObjective("ncp", "ncp", SUM_OF_MEANS),
        LatticeObjective("dm", "loss", SQUARED_SIZES),
        LatticeObjective("precision", "height", SUM_OF_MEANS, "il"),
        LatticeObjective("entropy", "entropy", SUM_OF_MEANS),
        LatticeObjective("average", "loss", AVERAGE_SIZE),
        LatticeObjective("cm", "loss", MISCLASSIFIED),
    )
}
