"""Publications: what a release shows of each group, and the table in which the audit counts the groups.

`LabelPublication` writes the labels of the groups. `SyntheticPublication` writes synthetic records that are generated from the
statistics of the groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from shoal.arrays import Int32Array
from shoal.encoding.codes import Codes
from shoal.engines import Engine, GroupColumn, HiddenColumn, KeyedOrder, Plan, UnchangedColumn
from shoal.errors import PolicyError, list_choices
from shoal.measures.statistics import compare_statistics
from shoal.pipeline.people import divide_by_person
from shoal.policy import Policy
from shoal.recoding import Columns, Field, Output, Placement, Recoding, Style, Synthesis, expand_placement
from shoal.recoding.group_labels import AVERAGES, STYLES, Ends
from shoal.recoding.grouping import Grouping
from shoal.recoding.publishing import EndCounts, LabelRules
from shoal.requirements import Evidence


@dataclass(frozen=True)
class LabelledGroups:
    """The groups of a table, and the columns that identify them in the audited table."""

    grouping: Grouping
    columns: Columns


@dataclass(frozen=True)
class RecodedTable:
    """The result of applying groups in an engine: the recoding, the released table, and the table that the audit counts.

    Both tables are the same where the released table shows its groups.
    """

    recoding: Recoding
    released_table: Engine
    counted_table: Engine

    @classmethod
    def of(cls, recoding: Recoding, table: Engine, hidden: Sequence[str]) -> RecodedTable:
        """The released table is the counted table without the hidden columns."""
        return cls(recoding, table.without(hidden) if hidden else table, table)


class Publication(ABC):
    """What is published for the groups of a grouping method.

    ``evidence`` is what the certificate is based on: the released ``table``, or ``groups`` that only the owner knows.
    ``supports_partitions``: whether the partitions of a large table can be published one after another; such a publication
    also implements `plan` and `build_recoding`.
    """

    evidence: ClassVar[Evidence] = "table"
    supports_partitions: ClassVar[bool] = False

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.hidden = list_hidden_columns(policy)  # columns that only the audit reads

    def hide(self, column: str) -> Publication:
        """The same publication, with one more column for the audit alone."""
        other = copy(self)
        other.hidden = tuple(dict.fromkeys((*self.hidden, column)))
        return other

    @property
    def output(self) -> Output:
        """The columns that are released unchanged beside the quasi-identifiers."""
        return Output(self.policy.unchanged_columns, self.policy.missing_texts)

    @abstractmethod
    def label(self, codes: Codes, grouping: Grouping) -> Columns:
        """The columns that identify the groups in the audited table."""

    @abstractmethod
    def apply(self, codes: Codes, engine: Engine, labelled: LabelledGroups, rng: np.random.Generator) -> RecodedTable:
        """Write the released table, and the table that the audit counts."""

    @abstractmethod
    def label_boxes(self, codes: Codes, labelled: LabelledGroups) -> Columns:
        """The labels of the boxes around the groups, from which the information loss is measured."""

    def count_ends(self, codes: Codes, labelled: LabelledGroups) -> EndCounts | None:
        """The ends of ranges that show single records; None if no ranges are published."""
        return None

    def compare_statistics(self, codes: Codes, released: Engine) -> dict[str, float]:
        """Measures of the released values against the original values."""
        return {}

    def plan(self, codes: Codes, names: Sequence[str], labelled: LabelledGroups) -> Plan:
        """The plan that writes one partition; ``names`` are the columns of the source."""
        raise NotImplementedError

    def build_recoding(self, codes: Codes, labelled: LabelledGroups) -> Recoding:
        """The recoding of one partition."""
        raise NotImplementedError


class LabelPublication(Publication):
    """Publish the labels of the groups, in a style; see `LabelRules`.

    Parameters
    ----------
    policy : the policy
    style : how generalized values are written
    ends : the ends of published ranges
    method : the name of the method, for errors
    stars : publish one value or ``*``, and no other label
    """

    supports_partitions: ClassVar[bool] = True

    def __init__(self, policy: Policy, style: Style, ends: Ends | None, method: str, *, stars: bool = False) -> None:
        super().__init__(policy)
        self.style, self.ends, self.method, self.stars = style, ends, method, stars

    @property
    def _rules(self) -> LabelRules:
        return LabelRules(self.policy, self.style, self.ends, self.stars)

    def label(self, codes: Codes, grouping: Grouping) -> Columns:
        """The published labels."""
        if grouping.attribute_cuts and self.style in AVERAGES:
            styles = [s for s in STYLES if s not in AVERAGES]
            raise PolicyError(
                f"{self.method} publishes the same cut in the whole table, so no group has a {self.style} of its own. "
                f"For 'write', {list_choices(self.style, styles)}, or use another method."
            )
        return self._rules.write(codes, grouping)

    def apply(self, codes: Codes, engine: Engine, labelled: LabelledGroups, rng: np.random.Generator) -> RecodedTable:
        """Write the labels in place of the quasi-identifiers."""
        table = engine.apply([self.plan(codes, engine.schema().names, labelled)])
        return RecodedTable.of(self.build_recoding(codes, labelled), table, self.hidden)

    def label_boxes(self, codes: Codes, labelled: LabelledGroups) -> Columns:
        """The published labels; where these are pairs of columns, midpoints or averages, the labels of the boxes."""
        if self.style in ("label", "set"):
            return labelled.columns
        return LabelPublication(self.policy, "label", self.ends, self.method).label(codes, labelled.grouping)

    def count_ends(self, codes: Codes, labelled: LabelledGroups) -> EndCounts | None:
        """See `LabelRules.count_ends`."""
        return self._rules.count_ends(codes, labelled.grouping, labelled.columns)

    def plan(self, codes: Codes, names: Sequence[str], labelled: LabelledGroups) -> Plan:
        """The plan that writes the labels."""
        placement, columns = labelled.grouping.placement, labelled.columns
        if self.policy.pseudonym_column is not None:
            placement, columns = add_pseudonyms(codes, placement, columns, f"{codes.combination_hash[0]:016x}")
        ordered = self.output.order_columns(names, columns)
        return build_plan(codes, placement, (*ordered, *map(HiddenColumn, self.hidden)), self.policy)

    def build_recoding(self, codes: Codes, labelled: LabelledGroups) -> Recoding:
        """The recoding of the groups, for later data."""
        return self._rules.build_recoding(codes, labelled.grouping, labelled.columns, self.output)


class SyntheticPublication(Publication):
    """Publish synthetic records, generated from the statistics of each group; see `Synthesis`.

    The released table does not show the groups, so the audit counts a table with group numbers instead.

    Parameters
    ----------
    policy : the policy
    tested_columns : columns that a requirement of the method needs and that may not be released
    """

    evidence: ClassVar[Evidence] = "groups"

    def __init__(self, policy: Policy, tested_columns: Sequence[str] = ()) -> None:
        super().__init__(policy)
        self.tested_columns = tested_columns

    def label(self, codes: Codes, grouping: Grouping) -> Columns:
        """The group numbers, so that all groups have different labels."""
        return self._write_group_numbers(np.arange(len(grouping.lo), dtype=np.int32))

    def apply(self, codes: Codes, engine: Engine, labelled: LabelledGroups, rng: np.random.Generator) -> RecodedTable:
        """Generate synthetic records; also write the same rows with their group numbers, for the audit."""
        placement, output, names = labelled.grouping.placement, self.output, engine.schema().names
        fields = tuple(Field.of(a, self.policy) for a in codes.attributes)
        bounds = {name: quasi.bounds for name, quasi in self.policy.quasi.items()}
        synthesis = Synthesis.of(codes, placement, fields, output, bounds)
        each, group = expand_placement(placement)
        hidden = [column for column in self.tested_columns if column not in output.unchanged]
        tested = tuple(_write_tested_column(codes, each, column) for column in hidden)

        def write(columns: Columns, hidden: Sequence[str] = ()) -> Engine:
            ordered = (*output.order_columns(names, columns), *map(HiddenColumn, hidden))
            return engine.apply([build_plan(codes, each, ordered, self.policy)])

        counted = write((*self._write_group_numbers(group), *tested), self.hidden)
        return RecodedTable(synthesis, write(synthesis.draw(rng)), counted)

    def label_boxes(self, codes: Codes, labelled: LabelledGroups) -> Columns:
        """The labels of the boxes around the groups, which are not published."""
        return LabelRules(self.policy, "label", None).write(codes, labelled.grouping)

    def compare_statistics(self, codes: Codes, released: Engine) -> dict[str, float]:
        """Means, standard deviations, correlations and shares of the synthetic records against the original."""
        return compare_statistics(codes, released, self.policy)

    def _write_group_numbers(self, group: Int32Array) -> Columns:
        """Write the number of the group in place of the quasi-identifiers.

        The number is in one column of every set of attributes that a requirement is on, so that all requirements see the same
        groups; the other columns are empty.
        """
        quasi = tuple(self.policy.quasi)
        first = {(requirement.on or quasi)[0] for requirement in self.policy.require} | {quasi[0]}
        values, empty = np.arange(int(group.max(initial=-1)) + 1), np.full(len(group), -1, np.int32)
        return tuple((name, GroupColumn(name, values, group if name in first else empty)) for name in quasi)


def list_hidden_columns(policy: Policy) -> tuple[str, ...]:
    """The unit column, for the audit alone; none without a unit, or where the table shows its pseudonyms."""
    column = policy.unit_column
    return () if column is None or column == policy.pseudonym_column else (column,)


def add_pseudonyms(codes: Codes, placement: Placement, columns: Columns, partition: str) -> tuple[Placement, Columns]:
    """Add the column of pseudonyms, with the groups divided by person.

    A record without a person gets a pseudonym of its own; ``partition`` must differ for all partitions of all releases.
    """
    assert codes.unit is not None and codes.hash is not None  # noqa: S101
    divided, group, person = divide_by_person(codes, placement)
    by_person = tuple((source, replace(column, index=column.index[group])) for source, column in columns)
    name, unknown = codes.unit.name, np.flatnonzero(person < 0)
    numbers = [f"{partition}:{number}" for number in range(len(unknown))]
    texts = [*codes.unit.make_pseudonyms(codes.hash), *codes.hash.make_pseudonyms(f"{name} unknown", numbers)]
    index = person.copy()
    index[unknown] = len(codes.unit.texts) + np.arange(len(unknown), dtype=np.int32)
    return divided, (*by_person, (name, GroupColumn(name, np.array(texts, object), index)))


def _write_tested_column(codes: Codes, each: Placement, column: str) -> tuple[str, GroupColumn]:
    """Write a column that the requirements need but that is not released, record by record."""
    place = [s.name for s in codes.sensitive].index(column)
    labels = codes.sensitive[place].labels
    index = np.empty(int(each.group.max(initial=-1)) + 1, np.int32)
    kept = each.group >= 0
    index[each.group[kept]] = codes.counts.sensitive[each.cell[kept], place]
    known = [label for label in labels if label is not None]  # missing is the last code
    return column, GroupColumn(
        column, np.array(known, dtype=object), np.where(index < len(known), index, -1).astype(np.int32)
    )


def build_plan(
    codes: Codes, placement: Placement, columns: Sequence[UnchangedColumn | GroupColumn], policy: Policy | None
) -> Plan:
    """The plan for an engine. The keyed hash decides which records of a divided cell go to which group."""
    order = None
    if codes.hash is not None and (np.diff(placement.cell) == 0).any():
        key = (policy.key,) if policy is not None and policy.key else ()
        unchanged = (c.name for c in columns if isinstance(c, UnchangedColumn))
        order = KeyedOrder(codes.hash, codes.cell_hash, (*unchanged, *key))
    return Plan(codes.counts, placement.cell, placement.group, placement.count, tuple(columns), order)
