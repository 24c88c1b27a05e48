"""Condensation (Aggarwal and Yu, EDBT 2004): groups are replaced by synthetic records generated from their statistics.

Variable k: Aggarwal and Yu, SDM 2005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, RequirementNotMet
from shoal.pipeline.method import CommonParameters
from shoal.pipeline.publication import Publication, SyntheticPublication
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import Grouping
from shoal.requirements import PersonalizedK
from shoal.tables.knn import KNearest


class Condensation(KNearest):
    """Group a random record with its nearest records, and replace each group by as many synthetic records.

    Parameters
    ----------
    policy : the policy
    own_k : a column of the table with each record's own k, a whole number of at least 1, empty if the policy's k is enough:
        the group of the record has at least so many records. The column is released only if the policy keeps it
    weights : the weight of each attribute in the grouping, by column name (default: 1)
    part : first cut the table into partitions of at least this many records and group each on its own, on all cores
    common : ``objective``, ``improve`` and ``max_size``; see `GroupingMethod`. ``write`` must be ``label``: the release has
        plain values

    Groups are those of `KNearest`; with ``own_k`` a group takes the nearest records, among those that do not require a still
    larger group, until it is as large as each of its records requires. Only quasi-identifiers are synthetic: all
    other released columns are unchanged and remain with their rows.

    Numbers and dates: a synthetic record is the mean of its group, plus along each principal component of the group's
    covariance (attributes scaled by their widths) a uniform draw over a range of sqrt(12 lambda), which has the component's
    variance lambda. A value beyond the ends of the table, or the policy's bounds, is reflected at equal distances on both sides
    of the mean, which keeps the mean and narrows the spread. Values have as many decimals as the column (whole numbers remain
    whole, dates are days, or as fine as the original) and are rounded up or down at random, which keeps the mean. Missing
    numbers: as many as their share in the group, at random; the moments are those of the values present. Other attributes: each
    value as often as in the group, at random, each attribute independently of the others. Numbers under a tree of intervals are
    treated as numbers, dates whose finest part is coarser than a day as categories.

    Measures of loss and risk refer to the groups and the boxes around them; ``mean_shift``, ``deviation_shift``,
    ``correlation_shift`` and ``share_shift`` compare the statistics of the synthetic table with those of the original.

    Guarantee
    ---------
    Every released record was generated from the statistics of a group that meets every requirement of the policy, and with
    ``own_k`` that of every record in it. So nothing in a row reveals which of the group's records its sensitive values belong
    to. The groups are counted again from the rows before anything is written, and the certificate states that the groups, not
    the table, are the evidence: synthetic rows differ from one another, and `shoal.check` of the released table does not hold.

    Not guaranteed: that no released value equals a person's value. A group of equal records is reproduced unchanged, a
    category that one record of the group has is generated with its share, and by chance a row may equal a real record; none
    of this reveals whose row it is. An outlier widens its group, as it widens a box. The seed is a secret: anyone who has it
    and nearly all of the table can undo the draws.

    References
    ----------
    Aggarwal, Yu: A condensation approach to privacy preserving data mining. EDBT 2004.
    Aggarwal, Yu: On variable constraints in privacy preserving data mining. SDM 2005.
    """

    name: ClassVar[str] = "condensation"
    summary: ClassVar[str] = (
        "replaces each group by synthetic records with the means, covariances and shares of the group"
    )
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"part": 5})
    column_names: ClassVar[tuple[str, ...]] = ("own_k",)
    styles: ClassVar[Sequence[str]] = ("label",)

    def __init__(
        self,
        policy: Policy,
        *,
        own_k: str | None = None,
        weights: Mapping[str, float] | str | None = None,
        part: int | None = None,
        **common: Unpack[CommonParameters],
    ) -> None:
        super().__init__(policy, weights=weights, part=part, **common)
        self.own_k = own_k

    def extra_columns(self) -> tuple[str, ...]:
        """The column with each record's own k."""
        if self.own_k is None:
            return ()
        if not isinstance(self.own_k, str):
            raise PolicyError(f"own_k must be the name of a column with each record's own k, not {self.own_k!r}")
        if self.own_k in self.policy.quasi:
            raise PolicyError(
                f"own_k names the quasi-identifier {self.own_k!r}; put each record's own k into a separate column"
            )
        return (self.own_k,)

    def full_policy(self) -> Policy:
        """The policy with each record's own k as one more requirement."""
        return self.policy.model_copy(update={"require": (*self.policy.require, *self._own_requirements())})

    def _own_requirements(self) -> tuple[PersonalizedK, ...]:
        return tuple(PersonalizedK(column, self.policy.missing_texts) for column in self.extra_columns())

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The groups."""
        if self.write != "label":
            raise PolicyError(
                f"condensation releases plain values, so write={self.write!r} is not possible; use write='label'"
            )
        for own in self._own_requirements():
            most = own.parse_labels(codes.distribution.label(own.of)).max(initial=0.0)
            if most > codes.records:
                raise RequirementNotMet(
                    f"column {own.of!r} requires a group of {most:.0f} records, but the table has {codes.records} records; "
                    "lower the value or remove the record from the table"
                )
        return super().decide(codes, rng=rng, progress=progress)

    def publication(self) -> Publication:
        """Synthetic records in place of the groups."""
        return SyntheticPublication(self.policy, self.extra_columns())
