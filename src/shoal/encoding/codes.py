"""Tables as counted cells of codes: the representation that every method decides on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal import kernels
from shoal.arrays import Int32Array, Int64Array, UInt64Array
from shoal.encoding.attributes import Attribute, LossTables, encode_attribute
from shoal.engines import Counts, Dictionary, Engine, Partitioning, Reading
from shoal.engines.keyed_hash import KeyedHash
from shoal.policy import Policy
from shoal.requirements import TableDistribution, distribution_of
from shoal.requirements.groups import Groups


@dataclass(frozen=True)
class CodedColumn:
    """A confidential attribute: its values in ascending order; a missing one, where there is any, is the last code."""

    name: str
    labels: tuple[str | None, ...]


@dataclass(frozen=True)
class Codes:
    """A table as counted cells of codes; ``counts.quasi[u, j]`` is combination u's code of attribute j."""

    attributes: tuple[Attribute, ...]
    sensitive: tuple[CodedColumn, ...]
    counts: Counts
    hash: KeyedHash | None = None

    @cached_property
    def combination_hash(self) -> UInt64Array:
        """The keyed hash of every distinct combination, by its quasi-identifier values."""
        return self._hashes([_value_hashes(self._keyed, a) for a in self.attributes], self.quasi)

    @cached_property
    def cell_hash(self) -> UInt64Array:
        """The keyed hash of every cell, by its quasi-identifier and confidential values."""
        if not self.sensitive:
            return self.combination_hash
        known = [self._keyed.hash_texts(s.name, ["" if v is None else v for v in s.labels]) for s in self.sensitive]
        return self._keyed.mix(self.combination_hash[self.combination], self._hashes(known, self.counts.sensitive))

    def sort_by_key(self) -> tuple[Codes, Int64Array]:
        """The same table with its cells in the order of their keyed hashes, and the number that each cell has here.

        In this order ties among cells are broken, so that nobody without the secret can repeat it. The cells of a combination
        stay together. Without a key the order stays.
        """
        counts, combination = self.counts, self.combination
        if self.hash is None:
            return self, np.arange(len(combination))
        first = np.asarray(kernels.order.argsort(self.combination_hash), np.int64)
        cells = first
        if len(combination) > len(first):
            rank = np.empty(len(first), np.uint64)
            rank[first] = np.arange(len(first), dtype=np.uint64)
            cells = np.asarray(kernels.order.argsort(self.cell_hash), np.int64)
            cells = cells[kernels.order.argsort(rank[combination[cells]])]
        start = np.concatenate(([0], np.cumsum(np.diff(counts.start)[first]))).astype(np.int64)
        ordered = Counts(
            counts.quasi[first], start, counts.sensitive[cells], counts.size[cells], partition=counts.partition
        )
        return Codes(self.attributes, self.sensitive, ordered), cells

    @cached_property
    def keyed_rank(self) -> Int32Array:
        """The place of every cell in keyed order: of equal cells the one with the smaller turn comes first."""
        _, number = self.sort_by_key()
        found = np.empty(len(number), np.int32)
        found[number] = np.arange(len(number), dtype=np.int32)
        return found

    @property
    def _keyed(self) -> KeyedHash:
        if self.hash is None:
            raise ValueError("these codes have no key; a release gives them one")
        return self.hash

    def _hashes(self, values: Sequence[UInt64Array], codes: Int32Array) -> UInt64Array:
        """Keyed hashes of rows of codes; ``values`` has the hash of each code, by column."""
        begin = np.cumsum([0, *map(len, values)], dtype=np.int64)
        table = np.concatenate([np.zeros(0, np.uint64), *values])
        total = np.asarray(kernels.hashing.sum_by_code(table, begin, np.ascontiguousarray(codes)))
        return self._keyed.mix(total, np.zeros_like(total))

    @property
    def quasi(self) -> Int32Array:
        """The codes of every distinct combination."""
        return self.counts.quasi

    @cached_property
    def size(self) -> Int64Array:
        """The number of records of every combination."""
        if len(self.counts.size) == len(self.quasi):
            return self.counts.size
        return np.add.reduceat(self.counts.size, self.counts.start[:-1])

    @property
    def combination(self) -> Int64Array:
        """The combination that each cell belongs to."""
        return np.repeat(np.arange(len(self.quasi)), np.diff(self.counts.start))

    @cached_property
    def records(self) -> int:
        """The number of records."""
        return int(self.counts.size.sum())

    @cached_property
    def loss_tables(self) -> LossTables:
        """The attributes as arrays."""
        return LossTables.of(self.attributes)

    @cached_property
    def height_tables(self) -> LossTables:
        """The attributes as arrays, nodes by their heights: the loss of Byun, Kamra, Bertino and Li, Definition 7."""
        return LossTables.of(self.attributes, heights=True)

    def distance(self, one: int, other: int) -> float:
        """How far two combinations lie apart: the sum over the attributes, as Definition 6 of the k-member paper has it."""
        pairs = zip(self.attributes, self.quasi[one], self.quasi[other], strict=True)
        return float(sum(a.distance(np.array([x]), np.array([y]))[0] for a, x, y in pairs))

    @cached_property
    def raw_groups(self) -> Groups:
        """The whole table as groups by its raw codes."""
        return cells_as_groups(self.counts, [a.name for a in self.attributes], self.sensitive)

    @cached_property
    def distribution(self) -> TableDistribution:
        """How the confidential values are distributed in the whole table."""
        return distribution_of(self.raw_groups)


def _value_hashes(keyed: KeyedHash, attribute: Attribute) -> UInt64Array:
    """The keyed hash of every value of an attribute, by code."""
    if attribute.taxonomy is None:
        return keyed.hash_numbers(attribute.name, attribute.position)
    return keyed.hash_texts(attribute.name, ["" if leaf is None else leaf for leaf in attribute.taxonomy.leaves])


def cells_as_groups(counts: Counts, names: Sequence[str], secrets: Sequence[CodedColumn]) -> Groups:
    """Counted cells seen as groups."""
    return Groups(
        tuple(names),
        tuple(s.name for s in secrets),
        counts.quasi,
        counts.start,
        counts.sensitive,
        counts.size,
        tuple(len(s.labels) for s in secrets),
        tuple(s.labels for s in secrets),
    )


@dataclass(frozen=True)
class EncodedTable:
    """A table whose columns have codes, not yet counted: the engine that holds it can apply what is decided on them."""

    attributes: tuple[Attribute, ...]
    sensitive: tuple[CodedColumn, ...]
    engine: Engine
    dictionaries: Mapping[str, Dictionary]
    least: int = 1
    hash: KeyedHash | None = None

    @cached_property
    def partitioning(self) -> Partitioning:
        """The parts to be worked on one after another; one, where all cells can be held at once."""
        return self.engine.partition(*self._names, least=self.least)

    def count(self, part: int = 0) -> Codes:
        """The counted cells of a part."""
        return Codes(self.attributes, self.sensitive, self.engine.count(*self._names, partition=part), self.hash)

    def count_codes(self, j: int) -> Int64Array:
        """How often each code of an attribute occurs; nothing need be counted for it."""
        attribute = self.attributes[j]
        known = self.dictionaries[attribute.name]
        found = np.zeros(attribute.size, np.int64)
        np.add.at(found, known.codes, known.distinct.counts)
        if known.missing >= 0:
            found[known.missing] += known.distinct.missing
        return found

    @property
    def _names(self) -> tuple[list[str], list[str]]:
        return [a.name for a in self.attributes], [s.name for s in self.sensitive]


def encode_table(
    engine: Engine,
    policy: Policy,
    *,
    also: Sequence[str] = (),
    carry: Sequence[str] | None = None,
    hash: KeyedHash | None = None,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> EncodedTable:
    """A table with codes for its quasi-identifiers, for the columns that a requirement names, and for those of ``also``.

    ``carry`` names the other columns that a release of it needs; see `Engine.encode`. ``hash`` breaks ties among cells.
    """
    confidential = [c for c in dict.fromkeys((*policy.tested_columns, *also)) if c not in policy.quasi]
    readings = {c: policy.raw_reading(c) for c in policy.quasi}
    readings |= {c: policy.published_reading(c) for c in confidential}
    engine.prepare(readings)
    dictionaries: dict[str, Dictionary] = {}
    attributes = []
    for number, (name, quasi) in enumerate(policy.quasi.items()):
        tell(number, len(readings) + 1)
        attribute, dictionaries[name] = encode_attribute(
            name, quasi, engine.distinct(name, readings[name]), readings[name]
        )
        attributes.append(attribute)
    secrets = [encode_column(engine, c, readings[c], dictionaries) for c in confidential]
    tell(len(readings), len(readings) + 1)
    encoded = engine.encode(dictionaries, carry=carry)
    return EncodedTable(tuple(attributes), tuple(secrets), encoded, dictionaries, policy.least_group_size, hash)


def encode_and_count(
    engine: Engine, policy: Policy, *, also: Sequence[str] = (), hash: KeyedHash | None = None
) -> tuple[Codes, Engine]:
    """The codes of a whole table, and the engine that has them; see `encode_table`."""
    table = encode_table(engine, policy, also=also, hash=hash)
    return table.count(), table.engine


def encode_column(engine: Engine, column: str, reading: Reading, dictionaries: dict[str, Dictionary]) -> CodedColumn:
    """A confidential column by its distinct values, in the order of numbers where all of them are; its codes are put aside."""
    distinct = engine.distinct(column, reading)
    values = [str(v) for v in distinct.values]
    order = np.arange(len(values))
    with suppress(ValueError):
        order = np.argsort(np.array([float(v) for v in values]), kind="stable")
    codes = np.empty(len(values), np.int32)
    codes[order] = np.arange(len(values), dtype=np.int32)
    dictionaries[column] = Dictionary(reading, distinct, codes, len(values))
    labels: list[str | None] = [values[i] for i in order]
    return CodedColumn(column, tuple(labels + [None] * (distinct.missing > 0)))
