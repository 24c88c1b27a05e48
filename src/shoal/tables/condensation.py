"""Condensation (Aggarwal and Yu, EDBT 2004): groups of records replaced by records drawn from their statistics.

Variable k: Aggarwal and Yu, SDM 2005.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Unpack

import numpy as np

from shoal.arrays import Int32Array
from shoal.encoding.codes import Codes
from shoal.engines import Engine, GroupColumn
from shoal.errors import PolicyError, RequirementNotMet
from shoal.pipeline.method import CommonParameters
from shoal.pipeline.run import LabelledGroups, RecodedTable, plan_of
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import Columns, Field, Output, Placement, Synthesis, expand_placement
from shoal.recoding.grouping import Grouping
from shoal.requirements import PersonalizedK
from shoal.tables.knn import KNearest


class Condensation(KNearest):
    """Group a random record with its nearest, and replace each group by as many records drawn from its statistics.

    Parameters
    ----------
    policy : the policy
    own_k : a column of the table with each record's own k, a whole number of at least 1, empty where the policy's will do:
        the record lies in a group of at least so many records. It is not released unless the policy keeps it
    weights : how much each attribute counts in the grouping, by column name; 1 unless said
    part : cut the table into parts of at least this many records first and group each on its own, on all cores
    common : ``improve`` and ``max_size``, as for every method; see `Method`. ``write`` stays ``label``: what is released are
        plain values

    Groups are those of `KNearest`; with ``own_k`` a group takes the nearest records, among those that do not ask for still
    more, until it is as large as any of its records asks for. Only quasi-identifiers are drawn anew: confidential and kept
    columns stay with their rows.

    Numbers and dates: a record is the mean of its group, plus along each principal component of the group's covariance
    (attributes made comparable by their widths) a uniform draw over a range of sqrt(12 lambda), which has the component's
    variance lambda. What would leave the ends of the table, or the policy's bounds, is turned back at equal distances on both
    sides of the mean, which keeps the mean and narrows the spread. Values have as many decimals as the column (whole numbers
    stay whole, dates are days, or as fine as they were) and are rounded up or down by chance, which keeps the mean. Missing
    numbers: as many as their share in the group, by chance; the moments are of those that are there. Other attributes: each
    value as often as in the group, by chance, one attribute without regard to the others. Numbers under a tree of intervals
    are numbers, dates whose finest part is coarser than a day are categories.

    Measures of loss and risk look at the groups and the boxes around them; ``mean_shift``, ``deviation_shift``,
    ``correlation_shift`` and ``share_shift`` say what the drawn table kept of the original's statistics.

    Guarantee
    ---------
    Every record that leaves was drawn from the statistics of a group that meets every requirement of the policy, and with
    ``own_k`` of every record in it. So nothing in a row tells which of the group's records its confidential values belong
    to. The groups are counted anew from the rows before anything is written, and the certificate says that they, not the
    table, are the evidence: drawn rows differ from one another, and `shoal.check` of the released table does not hold.

    Not promised: that no released value is somebody's own. A group of equal records is drawn as it was, a category that one
    record of the group has is drawn with its share, and by chance a row may equal a real one; none of this tells whose the
    row is. An outlier widens its group, as it widens a box. The seed is a secret: whoever has it and nearly all of the table
    can undo the draws.

    References
    ----------
    Aggarwal, Yu: A condensation approach to privacy preserving data mining. EDBT 2004.
    Aggarwal, Yu: On variable constraints in privacy preserving data mining. SDM 2005.
    """

    name: ClassVar[str] = "condensation"
    summary: ClassVar[str] = "replaces groups by records drawn from their means, covariances and shares"
    randomized: ClassVar[bool] = True

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
            raise PolicyError(f"own_k names a column that holds each record's own k; {self.own_k!r} is no name")
        if self.own_k in self.policy.quasi:
            raise PolicyError(
                f"own_k names {self.own_k!r}, a quasi-identifier; give each record's own k in a column of its own"
            )
        return (self.own_k,)

    def full_policy(self) -> Policy:
        """The policy, and each record's own k."""
        return self.policy.model_copy(update={"require": (*self.policy.require, *self._wishes())})

    def _wishes(self) -> tuple[PersonalizedK, ...]:
        return tuple(PersonalizedK(column, self.policy.missing_texts) for column in self.extra_columns())

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The groups."""
        if self.write != "label":
            raise PolicyError(
                f"condensation releases plain values, which cannot be written as {self.write!r}; use 'label'"
            )
        for own in self._wishes():
            most = own.parse_labels(codes.distribution.label(own.of)).max(initial=0.0)
            if most > codes.records:
                raise RequirementNotMet(
                    f"column {own.of!r} asks for a group of {most:.0f} records, but the table has {codes.records}; lower the "
                    "value or leave the record out"
                )
        return super().decide(codes, rng=rng, progress=progress)

    def label_groups(self, codes: Codes, grouping: Grouping) -> Columns:
        """The audited table shows groups by their numbers, so no group hides in the box of another."""
        return _numbered(self.policy, np.arange(len(grouping.lo), dtype=np.int32))

    def apply_groups(
        self, codes: Codes, engine: Engine, labelled: LabelledGroups, output: Output, rng: np.random.Generator
    ) -> RecodedTable:
        """Generate synthetic records; beside them the same rows with their groups, to be counted."""
        grouping = labelled.grouping
        names = engine.schema().names
        fields = tuple(Field.of(a, self.policy) for a in codes.attributes)
        bounds = {name: quasi.bounds for name, quasi in self.policy.quasi.items()}
        synthesis = Synthesis.of(codes, grouping.placement, fields, output, bounds)
        each, group = expand_placement(grouping.placement)
        own = tuple(_own(codes, each, column) for column in self.extra_columns() if column not in output.unchanged)

        def table(columns: Columns) -> Engine:
            listed = output.order_columns(names, columns)
            return engine.apply([plan_of(codes, each, listed, self.policy)])

        return RecodedTable(synthesis, table((*_numbered(self.policy, group), *own)), table(synthesis.draw(rng)))


def _numbered(policy: Policy, group: Int32Array) -> Columns:
    """The number of a group in the place of the quasi-identifiers.

    It stands in one of every set that a requirement looks at, so that all of them see the same groups; the rest is empty.
    """
    first = {(requirement.on or tuple(policy.quasi))[0] for requirement in policy.require} | {next(iter(policy.quasi))}
    values, nothing = np.arange(int(group.max(initial=-1)) + 1), np.full(len(group), -1, np.int32)
    return tuple((name, GroupColumn(name, values, group if name in first else nothing)) for name in policy.quasi)


def _own(codes: Codes, each: Placement, column: str) -> tuple[str, GroupColumn]:
    """A column that the groups are tested by but that is not released, for records one by one."""
    place = [s.name for s in codes.sensitive].index(column)
    labels = codes.sensitive[place].labels
    index = np.empty(int(each.group.max(initial=-1)) + 1, np.int32)
    kept = each.group >= 0
    index[each.group[kept]] = codes.counts.sensitive[each.cell[kept], place]
    known = [label for label in labels if label is not None]  # a missing one is the last code
    return column, GroupColumn(
        column, np.array(known, dtype=object), np.where(index < len(known), index, -1).astype(np.int32)
    )
