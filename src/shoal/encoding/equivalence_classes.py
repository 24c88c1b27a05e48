"""Equivalence classes: the groups of a published table, read from its published values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.encoding.codes import CodedColumn, cells_as_groups, encode_column
from shoal.engines import Dictionary, Engine
from shoal.policy import Policy
from shoal.requirements.groups import Groups


@dataclass(frozen=True)
class PublishedTable:
    """A finished table as a stranger reads it: its columns by what stands in them, not yet counted."""

    columns: tuple[str, ...]
    values: Mapping[str, CodedColumn]
    engine: Engine

    @property
    def labels(self) -> dict[str, Sequence[str | None]]:
        """What the codes of every column stand for."""
        return {name: secret.labels for name, secret in self.values.items()}

    def partitions(self, confidential: Sequence[str]) -> int:
        """In how many parts the groups are counted with the values of some columns; each group is whole in one of them."""
        return self.engine.partition(self.columns, confidential).partitions

    def groups(self, confidential: Sequence[str], part: int | None = None) -> Groups:
        """The groups, all or those of a part, with the counts of the values of some columns."""
        counts = self.engine.count(self.columns, confidential, partition=part)
        return cells_as_groups(counts, self.columns, [self.values[c] for c in confidential])


def read_published_table(engine: Engine, policy: Policy, *, also: Sequence[str] = ()) -> PublishedTable:
    """A finished table by its quasi-identifiers, by the confidential columns that a requirement names, and those of ``also``.

    A quasi-identifier that was written as two columns, ``age_lo`` and ``age_hi``, counts as both. Where the table has ``age``
    as well, ``age`` alone counts: the other two have no role.
    """
    columns = tuple(part for parts in policy.published_columns(engine.schema().names).values() for part in parts)
    listed = tuple(dict.fromkeys((*columns, *policy.tested_columns, *also)))
    readings = {name: policy.published_reading(name) for name in listed}
    engine.prepare(readings)
    dictionaries: dict[str, Dictionary] = {}
    values = {name: encode_column(engine, name, readings[name], dictionaries) for name in listed}
    return PublishedTable(columns, values, engine.encode(dictionaries))


def read_published_groups(engine: Engine, policy: Policy) -> tuple[Groups, Mapping[str, Sequence[str | None]]]:
    """The groups of a finished table with the values that requirements look at, and the label of every code."""
    table = read_published_table(engine, policy)
    return table.groups(policy.tested_columns), table.labels
