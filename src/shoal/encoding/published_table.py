"""A published table: its groups (equivalence classes), read from its published values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.encoding.codes import (
    EncodedColumn,
    EncodedUnit,
    build_groups,
    encode_column,
    encode_unit,
    separate_people,
    unit_reading,
)
from shoal.engines import Dictionary, Engine
from shoal.policy import Policy
from shoal.requirements.groups import Groups


@dataclass(frozen=True)
class PublishedTable:
    """The published values of a finished table, column by column, before they are counted.

    ``unit`` has the people if the table has the unit column of the policy; groups then count people.
    """

    columns: tuple[str, ...]
    values: Mapping[str, EncodedColumn]
    engine: Engine
    unit: EncodedUnit | None = None

    @property
    def labels(self) -> dict[str, Sequence[str | None]]:
        """The value of each code, by column."""
        return {name: column.labels for name, column in self.values.items()}

    def partitions(self, sensitive: Sequence[str]) -> int:
        """The number of partitions in which groups are counted with these columns; no group is split between partitions."""
        return self.engine.partition(self.columns, self._counted(sensitive)).partitions

    def groups(self, sensitive: Sequence[str], partition: int | None = None) -> Groups:
        """The groups of the table, or of a partition, with the counts of the values of these columns."""
        counts, person = self.engine.count(self.columns, self._counted(sensitive), partition=partition), None
        if self.unit is not None:
            counts, person = separate_people(counts, self.unit)
        return build_groups(counts, self.columns, [self.values[c] for c in sensitive], person)

    def _counted(self, sensitive: Sequence[str]) -> list[str]:
        return [*sensitive, *([] if self.unit is None else [self.unit.name])]


def read_published_table(engine: Engine, policy: Policy, *, extra: Sequence[str] = ()) -> PublishedTable:
    """Read the quasi-identifiers, the columns that requirements name, and the ``extra`` columns of a finished table.

    A quasi-identifier that was written as two columns, ``age_lo`` and ``age_hi``, is read as both columns. If the table also
    has ``age``, only ``age`` is read: the two other columns have no role. If the table has the unit column, people are counted.
    """
    columns = tuple(column for pair in policy.published_columns(engine.schema().names).values() for column in pair)
    names = tuple(dict.fromkeys((*columns, *policy.tested_columns, *extra)))
    readings = {name: policy.published_reading(name) for name in names}
    has_unit = policy.unit_column in engine.schema().names
    engine.prepare(readings | (unit_reading(policy) if has_unit else {}))
    dictionaries: dict[str, Dictionary] = {}
    values = {name: encode_column(engine, name, readings[name], dictionaries) for name in names}
    unit = encode_unit(engine, policy, dictionaries) if has_unit else None
    return PublishedTable(columns, values, engine.encode(dictionaries), unit)


def read_published_groups(engine: Engine, policy: Policy) -> tuple[Groups, Mapping[str, Sequence[str | None]]]:
    """The groups of a finished table with the sensitive values that requirements test, and the label of every code."""
    table = read_published_table(engine, policy)
    return table.groups(policy.tested_columns), table.labels
