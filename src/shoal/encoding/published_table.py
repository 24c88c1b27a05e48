"""A published table: its groups (equivalence classes), read from its published values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.encoding.codes import EncodedColumn, build_groups, encode_column
from shoal.engines import Dictionary, Engine
from shoal.policy import Policy
from shoal.requirements.groups import Groups


@dataclass(frozen=True)
class PublishedTable:
    """The published values of a finished table, column by column, before they are counted."""

    columns: tuple[str, ...]
    values: Mapping[str, EncodedColumn]
    engine: Engine

    @property
    def labels(self) -> dict[str, Sequence[str | None]]:
        """The value of each code, by column."""
        return {name: column.labels for name, column in self.values.items()}

    def partitions(self, sensitive: Sequence[str]) -> int:
        """The number of partitions in which groups are counted with these columns; no group is split between partitions."""
        return self.engine.partition(self.columns, sensitive).partitions

    def groups(self, sensitive: Sequence[str], partition: int | None = None) -> Groups:
        """The groups of the table, or of a partition, with the counts of the values of these columns."""
        counts = self.engine.count(self.columns, sensitive, partition=partition)
        return build_groups(counts, self.columns, [self.values[c] for c in sensitive])


def read_published_table(engine: Engine, policy: Policy, *, extra: Sequence[str] = ()) -> PublishedTable:
    """Read the quasi-identifiers, the columns that requirements name, and the ``extra`` columns of a finished table.

    A quasi-identifier that was written as two columns, ``age_lo`` and ``age_hi``, is read as both columns. If the table also
    has ``age``, only ``age`` is read: the two other columns have no role.
    """
    columns = tuple(column for pair in policy.published_columns(engine.schema().names).values() for column in pair)
    names = tuple(dict.fromkeys((*columns, *policy.tested_columns, *extra)))
    readings = {name: policy.published_reading(name) for name in names}
    engine.prepare(readings)
    dictionaries: dict[str, Dictionary] = {}
    values = {name: encode_column(engine, name, readings[name], dictionaries) for name in names}
    return PublishedTable(columns, values, engine.encode(dictionaries))


def read_published_groups(engine: Engine, policy: Policy) -> tuple[Groups, Mapping[str, Sequence[str | None]]]:
    """The groups of a finished table with the sensitive values that requirements test, and the label of every code."""
    table = read_published_table(engine, policy)
    return table.groups(policy.tested_columns), table.labels
