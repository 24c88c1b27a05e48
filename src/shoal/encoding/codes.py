"""Tables as counted cells of codes: the representation that every method works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from shoal import kernels
from shoal.arrays import FloatArray, Int32Array, Int64Array, UInt64Array
from shoal.encoding.attributes import Attribute, LossTables, encode_attribute
from shoal.engines import Counts, Dictionary, Engine, Partitioning, Reading
from shoal.engines.keyed_hash import KeyedHash
from shoal.formats.numbers import read_numbers
from shoal.policy import Policy
from shoal.requirements import TableDistribution, compute_distribution
from shoal.requirements.groups import Groups

Result = TypeVar("Result")


@dataclass(frozen=True)
class EncodedColumn:
    """A column and its distinct values by code, in ascending order; the last code is None if values are missing."""

    name: str
    labels: tuple[str | None, ...]


@dataclass(frozen=True)
class EncodedUnit:
    """The unit column: the text of every person by number. A missing value has no number."""

    name: str
    texts: tuple[str, ...]

    def hash_people(self, key: KeyedHash) -> UInt64Array:
        """The keyed hash of every person."""
        return key.hash_texts(self.name, self.texts)

    def make_pseudonyms(self, key: KeyedHash) -> list[str]:
        """The pseudonym of every person."""
        return key.make_pseudonyms(self.name, self.texts)


@dataclass(frozen=True)
class MergedValues:
    """Values that are merged into intervals of codes: every value of an interval has the first code of the interval.

    ``first[j]`` has this code for every code of attribute j, and ``records[j]`` the records of every code before merging.
    """

    first: tuple[Int32Array, ...]
    records: tuple[Int64Array, ...]


@dataclass(frozen=True)
class Codes:
    """A table as counted cells of codes; ``counts.quasi[u, j]`` is the code of attribute j in combination u.

    Where a policy has a unit, there are two forms. With ``person``, every person has cells of their own; ``person`` is the
    number of the person of every cell (-1: a different person in every record). With ``by_person``, cells are counted without
    regard to people, and ``by_person`` is the first form of the same table.

    A table that is too large to be counted at its values has ``merged`` values.
    """

    attributes: tuple[Attribute, ...]
    sensitive: tuple[EncodedColumn, ...]
    counts: Counts
    hash: KeyedHash | None = None
    unit: EncodedUnit | None = None
    person: Int32Array | None = None
    by_person: Codes | None = field(default=None, repr=False)
    merged: MergedValues | None = field(default=None, repr=False)

    @cached_property
    def combination_hash(self) -> UInt64Array:
        """The keyed hash of every distinct combination, by its quasi-identifier values."""
        return self._hash_rows([_hash_values(self._key, a) for a in self.attributes], self.quasi)

    @cached_property
    def cell_hash(self) -> UInt64Array:
        """The keyed hash of every cell, by its quasi-identifier and sensitive values, and its person."""
        values = self._value_hash
        if self.unit is None or self.person is None:
            return values
        people = np.append(self.unit.hash_people(self._key), np.uint64(0))
        return self._key.mix(values, people[self.person])

    @cached_property
    def _value_hash(self) -> UInt64Array:
        """The keyed hash of every cell, by its quasi-identifier and sensitive values."""
        if not self.sensitive:
            return (
                self.combination_hash
                if len(self.counts.size) == len(self.quasi)
                else self.combination_hash[self.combination]
            )
        hashes = [self._key.hash_texts(s.name, ["" if v is None else v for v in s.labels]) for s in self.sensitive]
        return self._key.mix(self.combination_hash[self.combination], self._hash_rows(hashes, self.counts.sensitive))

    def sort_by_key(self) -> tuple[Codes, Int64Array]:
        """Sort the cells by their keyed hashes; also return the number of each sorted cell in this table.

        Ties among cells are broken in this order, so nobody can repeat it without the secret seed. The cells of a combination
        stay together. Without a key the order does not change.
        """
        counts, combination = self.counts, self.combination
        if self.hash is None:
            return self, np.arange(len(combination))
        first = np.asarray(kernels.order.argsort(self.combination_hash), np.int64)
        cells = first
        if len(combination) > len(first):
            rank = np.empty(len(first), np.uint64)
            rank[first] = np.arange(len(first), dtype=np.uint64)
            cells = np.lexsort((self.cell_hash, self._draw_arrival(), rank[combination])).astype(np.int64)
        start = np.concatenate(([0], np.cumsum(np.diff(counts.start)[first]))).astype(np.int64)
        ordered = Counts(counts.quasi[first], start, counts.sensitive[cells], counts.size[cells])
        return Codes(self.attributes, self.sensitive, ordered), cells

    def _draw_arrival(self) -> FloatArray:
        """A keyed random number of every cell: the smallest of as many exponential numbers as the cell has records.

        In the order of these numbers, the first record of a combination has each value with its share of the records. By the
        hash alone a rare value would come first as often as a frequent one.
        """
        uniform = ((self.cell_hash >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return np.asarray(-np.log(uniform) / self.counts.size, np.float64)

    @cached_property
    def keyed_rank(self) -> Int32Array:
        """The rank of every cell in the order of `sort_by_key`; ties go to the smaller rank."""
        _, number = self.sort_by_key()
        rank = np.empty(len(number), np.int32)
        rank[number] = np.arange(len(number), dtype=np.int32)
        return rank

    @property
    def _key(self) -> KeyedHash:
        if self.hash is None:
            raise ValueError("These codes have no key. Encode the table with a keyed hash.")
        return self.hash

    def _hash_rows(self, values: Sequence[UInt64Array], codes: Int32Array) -> UInt64Array:
        """Keyed hashes of rows of codes; ``values`` has the hash of each code, by column."""
        begin = np.cumsum([0, *map(len, values)], dtype=np.int64)
        table = np.concatenate([np.zeros(0, np.uint64), *values])
        total = np.asarray(kernels.hashing.sum_by_code(table, begin, np.ascontiguousarray(codes)))
        return self._key.mix(total, np.zeros_like(total))

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

    def count_codes(self, j: int) -> Int64Array:
        """The number of records of each code of an attribute; of the codes before merging, where values are merged."""
        return self.count_own_codes(j) if self.merged is None else self.merged.records[j]

    def count_own_codes(self, j: int) -> Int64Array:
        """The number of records of each code of an attribute, after merging."""
        return np.bincount(self.quasi[:, j], self.size, minlength=self.attributes[j].size).astype(np.int64)

    @property
    def combination(self) -> Int64Array:
        """The combination of every cell."""
        return np.repeat(np.arange(len(self.quasi)), np.diff(self.counts.start))

    @cached_property
    def records(self) -> int:
        """The number of records."""
        return int(self.counts.size.sum())

    def loss_tables(self, objective: str) -> LossTables:
        """The loss of published intervals of codes by an objective, as arrays."""
        return LossTables.of(self.attributes, objective)

    def distance(self, one: int, other: int) -> float:
        """The distance of two combinations: the sum over the attributes (Definition 6 of the k-member paper)."""
        pairs = zip(self.attributes, self.quasi[one], self.quasi[other], strict=True)
        return float(sum(a.distance(np.array([x]), np.array([y]))[0] for a, x, y in pairs))

    @cached_property
    def raw_groups(self) -> Groups:
        """The whole table as groups by its raw codes."""
        return build_groups(self.counts, [a.name for a in self.attributes], self.sensitive, self.person)

    @cached_property
    def most_records(self) -> int:
        """The largest number of records of a person."""
        assert self.person is not None  # noqa: S101
        known = self.person >= 0
        return int(np.bincount(self.person[known], self.counts.size[known], minlength=1).max())

    def merge_people(self) -> Codes:
        """The same table with cells that are counted without regard to people."""
        counts = self.counts
        new = np.ones(len(counts.size), bool)
        new[1:] = (counts.sensitive[1:] != counts.sensitive[:-1]).any(axis=1)
        new[counts.start[:-1]] = True
        begin = np.flatnonzero(new)
        start = np.searchsorted(begin, counts.start).astype(np.int64)
        merged = Counts(counts.quasi, start, counts.sensitive[begin], np.add.reduceat(counts.size, begin))
        return Codes(self.attributes, self.sensitive, merged, self.hash, by_person=self)

    @cached_property
    def distribution(self) -> TableDistribution:
        """The distribution of the sensitive values in the whole table."""
        return compute_distribution(self.raw_groups)


def _hash_values(key: KeyedHash, attribute: Attribute) -> UInt64Array:
    """The keyed hash of every value of an attribute, by code."""
    if attribute.taxonomy is None:
        return key.hash_numbers(attribute.name, attribute.position)
    return key.hash_texts(attribute.name, ["" if leaf is None else leaf for leaf in attribute.taxonomy.leaves])


def build_groups(
    counts: Counts, names: Sequence[str], sensitive: Sequence[EncodedColumn], person: Int32Array | None = None
) -> Groups:
    """Counted cells as groups: one group per combination; ``person`` is the person of every cell."""
    return Groups(
        tuple(names),
        tuple(s.name for s in sensitive),
        counts.quasi,
        counts.start,
        counts.sensitive,
        counts.size,
        tuple(len(s.labels) for s in sensitive),
        tuple(s.labels for s in sensitive),
        person,
    )


@dataclass(frozen=True)
class CodesBuilder:
    """Builds the codes of counted cells, here or in another process; the last sensitive column is the unit, if there is one."""

    attributes: tuple[Attribute, ...]
    sensitive: tuple[EncodedColumn, ...]
    hash: KeyedHash | None = None
    unit: EncodedUnit | None = None

    def build(self, counts: Counts) -> Codes:
        """The codes of counted cells."""
        if self.unit is None:
            return Codes(self.attributes, self.sensitive, counts, self.hash)
        counts, person = separate_people(counts, self.unit)
        return Codes(self.attributes, self.sensitive, counts, self.hash, self.unit, person)


@dataclass(frozen=True)
class CodesSearch(Generic[Result]):
    """A search of codes as a search of counted cells, as engines call it."""

    builder: CodesBuilder
    search: Callable[[int, Codes], Result]

    def __call__(self, number: int, counts: Counts) -> Result:
        """Search the codes of a partition."""
        return self.search(number, self.builder.build(counts))


@dataclass(frozen=True)
class EncodedTable:
    """A table with encoded columns, before its cells are counted; its engine can apply a recoding of the codes."""

    attributes: tuple[Attribute, ...]
    sensitive: tuple[EncodedColumn, ...]
    engine: Engine
    dictionaries: Mapping[str, Dictionary]
    least: int = 1
    hash: KeyedHash | None = None
    unit: EncodedUnit | None = None

    @cached_property
    def partitioning(self) -> Partitioning:
        """The partitions to be searched one after another; a single one if all cells fit in memory."""
        return self.engine.partition(*self._names, least=self.least)

    def count(self, partition: int = 0) -> Codes:
        """Count the cells of a partition."""
        return self._builder.build(self.engine.count(*self._names, partition=partition))

    def map_partitions(self, search: Callable[[int, Codes], Result]) -> Iterator[tuple[Codes, Result]]:
        """Count and search all partitions; yield the codes and the result of each. See `Engine.map_partitions`."""
        builder, partitions = self._builder, self.partitioning.partitions
        for counts, result in self.engine.map_partitions(CodesSearch(builder, search), *self._names, partitions):
            yield builder.build(counts), result

    @property
    def _builder(self) -> CodesBuilder:
        return CodesBuilder(self.attributes, self.sensitive, self.hash, self.unit)

    def count_codes(self, j: int) -> Int64Array:
        """The number of records of each code of an attribute, from its dictionary."""
        attribute = self.attributes[j]
        dictionary = self.dictionaries[attribute.name]
        records = np.zeros(attribute.size, np.int64)
        np.add.at(records, dictionary.codes, dictionary.distinct.counts)
        if dictionary.missing >= 0:
            records[dictionary.missing] += dictionary.distinct.missing
        return records

    @property
    def _names(self) -> tuple[list[str], list[str]]:
        unit = [] if self.unit is None else [self.unit.name]
        return [a.name for a in self.attributes], [*(s.name for s in self.sensitive), *unit]


def separate_people(counts: Counts, unit: EncodedUnit) -> tuple[Counts, Int32Array]:
    """Remove the unit, the last sensitive column, from counted cells; return the person of every cell."""
    number = counts.sensitive[:, -1]
    person = np.where(number < len(unit.texts), number, -1).astype(np.int32)
    return replace(counts, sensitive=np.ascontiguousarray(counts.sensitive[:, :-1])), person


def encode_table(
    engine: Engine,
    policy: Policy,
    *,
    extra: Sequence[str] = (),
    carry: Sequence[str] | None = None,
    hash: KeyedHash | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EncodedTable:
    """Encode the quasi-identifiers, the columns that requirements name, and the ``extra`` columns of a table.

    ``carry`` names the other columns that a release needs; see `Engine.encode`. ``hash`` breaks ties among cells. ``progress``
    is called with the number of encoded columns and their total.
    """
    sensitive = [c for c in dict.fromkeys((*policy.tested_columns, *extra)) if c not in policy.quasi]
    readings = {c: policy.raw_reading(c) for c in policy.quasi}
    readings |= {c: policy.published_reading(c) for c in sensitive}
    engine.prepare(readings | unit_reading(policy))
    dictionaries: dict[str, Dictionary] = {}
    attributes = []
    for number, (name, quasi) in enumerate(policy.quasi.items()):
        progress(number, len(readings) + 1)
        attribute, dictionaries[name] = encode_attribute(
            name, quasi, engine.distinct(name, readings[name]), readings[name]
        )
        attributes.append(attribute)
    columns = [encode_column(engine, c, readings[c], dictionaries) for c in sensitive]
    unit = None if policy.unit_column is None else encode_unit(engine, policy, dictionaries)
    progress(len(readings), len(readings) + 1)
    encoded = engine.encode(dictionaries, carry=carry)
    least = policy.least_group_size
    if unit is not None and unit.texts:  # so many records usually have at least so many people
        least *= int(np.quantile(dictionaries[unit.name].distinct.counts, 0.99))
    return EncodedTable(tuple(attributes), tuple(columns), encoded, dictionaries, least, hash, unit)


def encode_and_count(
    engine: Engine, policy: Policy, *, extra: Sequence[str] = (), hash: KeyedHash | None = None
) -> tuple[Codes, Engine]:
    """Encode and count a whole table; return its codes and the engine with the encoded table. See `encode_table`."""
    table = encode_table(engine, policy, extra=extra, hash=hash)
    return table.count(), table.engine


def encode_unit(engine: Engine, policy: Policy, dictionaries: dict[str, Dictionary]) -> EncodedUnit:
    """Encode the people of the unit column; add its dictionary to ``dictionaries``."""
    ((column, reading),) = unit_reading(policy).items()
    distinct = engine.distinct(column, reading)
    people = len(distinct.values)
    dictionaries[column] = Dictionary(reading, distinct, np.arange(people, dtype=np.int32), people)
    return EncodedUnit(column, tuple(distinct.values.tolist()))


def unit_reading(policy: Policy) -> dict[str, Reading]:
    """How the unit column is read; empty without a unit."""
    return {} if policy.unit_column is None else {policy.unit_column: policy.unit_reading}


def encode_column(engine: Engine, column: str, reading: Reading, dictionaries: dict[str, Dictionary]) -> EncodedColumn:
    """Encode the distinct values of a column, sorted by number if all are numbers; add its dictionary to ``dictionaries``."""
    distinct = engine.distinct(column, reading)
    values = [str(v) for v in distinct.values]
    numbers = read_numbers(values)
    order = np.arange(len(values)) if numbers is None else np.argsort(np.array(numbers), kind="stable")
    codes = np.empty(len(values), np.int32)
    codes[order] = np.arange(len(values), dtype=np.int32)
    dictionaries[column] = Dictionary(reading, distinct, codes, len(values))
    labels: list[str | None] = [values[i] for i in order]
    return EncodedColumn(column, tuple(labels + [None] * (distinct.missing > 0)))
