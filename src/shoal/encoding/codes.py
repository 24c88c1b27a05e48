"""Attributes as ordered integer codes, and tables as counted cells of them.

The one representation every method decides on: a numeric or date value is its rank among the distinct ones, a categorical
value its leaf's place in depth-first order, a missing value the last code. A number or date under a tree of intervals or
parts has the place of its leaf too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import FloatArray, Int32Array, Int64Array, UInt64Array
from shoal.engines import Counts, Dictionary, Distinct, Division, Engine, Reading
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import DataError, some
from shoal.formats.dates import parse_date
from shoal.formats.numbers import format_number, parse_number
from shoal.policy import Policy, Quasi
from shoal.requirements import Layout, layout_of
from shoal.requirements.groups import Groups
from shoal.taxonomy import Taxonomy

LARGEST = 1e150  # sums and squares of larger numbers leave what floating point can hold
NUMBER, TREE, FLAT = 0, 1, 2  # how the kernels measure the loss of an interval


@dataclass(frozen=True)
class Attribute:
    """A quasi-identifier as the methods see it.

    ``position[code]`` is where a code lies: the value of a number or date (dates in seconds since 1970-01-01), the leaf
    code of a categorical value, infinity for missing. Codes ascend with their positions. Trees hold the missing leaf.
    Numbers reach from ``low`` to ``high``: the bounds that the policy gives, or without these the values there are.
    """

    name: str
    kind: Literal["numeric", "categorical", "date"]
    position: FloatArray
    taxonomy: Taxonomy | None
    span: float
    flat: bool = False
    low: float = 0.0
    high: float = 0.0

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.position)

    @property
    def missing(self) -> int:
        """The code of a missing value, or -1."""
        return self.size - 1 if self.size and np.isinf(self.position[-1]) else -1

    @cached_property
    def numbers(self) -> FloatArray | None:
        """The number or moment that each code stands for, infinity for missing; None for categories.

        Under a tree the leaves tell it, unless they are coarser than that, as months are.
        """
        if self.taxonomy is None:
            return self.position
        if self.kind == "categorical":
            return None
        parse = parse_number if self.kind == "numeric" else parse_date
        found = [np.inf if leaf is None else parse(leaf) for leaf in self.taxonomy.leaves]
        return None if None in found else np.array(found, np.float64)

    def loss(self, lo: Int32Array, hi: Int32Array) -> FloatArray:
        """The normalized certainty penalty of intervals of codes: 0 for one value, 1 for everything."""
        if self.taxonomy is not None:
            return self.taxonomy.share[self.taxonomy.covers(lo, hi)]
        with np.errstate(invalid="ignore"):
            width = (self.position[hi] - self.position[lo]) / self.span
        return np.where(lo == hi, 0.0, np.where(np.isinf(self.position[hi]), 1.0, width))

    def distance(self, one: Int32Array, other: Int32Array) -> FloatArray:
        """How far codes lie apart, between 0 and 1; a missing value is at distance 1 from all others.

        Definitions 4 and 5 of Byun, Kamra, Bertino and Li, "Efficient k-anonymization using clustering techniques"
        (2007): numbers by their difference over the span, categories by the height of the lowest node over both, over
        the height of the tree.
        """
        lo, hi = np.minimum(one, other), np.maximum(one, other)
        if self.taxonomy is None:
            return self.loss(lo, hi)
        height = self.taxonomy.height
        return np.asarray(height[self.taxonomy.covers(lo, hi)] / max(int(height[0]), 1), np.float64)


@dataclass(frozen=True)
class Geometry:
    """All attributes as two arrays, for `kernels.boxes.interval_loss`.

    ``ints`` begins with six facts per attribute: its kind, its number of codes, the code of missing, and where its leaves
    (node by code), its nodes (pairs of last code and parent) and its floats (positions, or shares by node) begin.
    ``floats`` begins with the span of every attribute.
    """

    ints: Int32Array
    floats: FloatArray

    @classmethod
    def of(cls, attributes: Sequence[Attribute], *, heights: bool = False) -> Geometry:
        """Lower attributes to arrays; with ``heights`` nodes cost by their height, as in `Attribute.distance`."""
        head = np.zeros((len(attributes), 6), np.int32)
        ints: list[NDArray[Any]] = [head.ravel()]
        floats: list[NDArray[Any]] = [np.array([a.span for a in attributes], np.float64)]

        def put(parts: list[NDArray[Any]], array: NDArray[Any]) -> int:
            begin = sum(map(len, parts))
            parts.append(array)
            return begin

        for j, attribute in enumerate(attributes):
            tree = attribute.taxonomy
            if tree is None:
                head[j] = NUMBER, attribute.size, attribute.missing, 0, 0, put(floats, attribute.position)
            else:
                kind = FLAT if attribute.flat and not heights else TREE
                leaves, nodes = put(ints, tree.leaf), put(ints, np.stack([tree.hi, tree.parent], axis=1).ravel())
                cost = tree.height / max(int(tree.height[0]), 1) if heights else tree.share
                head[j] = kind, attribute.size, attribute.missing, leaves, nodes, put(floats, cost)
        return cls(np.concatenate(ints).astype(np.int32), np.concatenate(floats).astype(np.float64))


@dataclass(frozen=True)
class Secret:
    """A confidential attribute: its values in ascending order; a missing one, where there is any, is the last code."""

    name: str
    labels: tuple[str | None, ...]


@dataclass(frozen=True)
class Codes:
    """A table as counted cells of codes; ``counts.quasi[u, j]`` is combination u's code of attribute j."""

    attributes: tuple[Attribute, ...]
    secrets: tuple[Secret, ...]
    counts: Counts
    hash: KeyedHash | None = None

    @cached_property
    def combination_hash(self) -> UInt64Array:
        """The keyed hash of every distinct combination, by its quasi-identifier values."""
        return self._hashes([_value_hashes(self._keyed, a) for a in self.attributes], self.quasi)

    @cached_property
    def cell_hash(self) -> UInt64Array:
        """The keyed hash of every cell, by its quasi-identifier and confidential values."""
        if not self.secrets:
            return self.combination_hash
        known = [self._keyed.texts(s.name, ["" if v is None else v for v in s.labels]) for s in self.secrets]
        return self._keyed.mix(self.combination_hash[self.combination], self._hashes(known, self.counts.secret))

    def in_keyed_order(self) -> tuple[Codes, Int64Array]:
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
        ordered = Counts(counts.quasi[first], start, counts.secret[cells], counts.weight[cells], part=counts.part)
        return Codes(self.attributes, self.secrets, ordered), cells

    @cached_property
    def turn(self) -> Int32Array:
        """The place of every cell in keyed order: of equal cells the one with the smaller turn comes first."""
        _, number = self.in_keyed_order()
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
    def weight(self) -> Int64Array:
        """The number of records of every combination."""
        if len(self.counts.weight) == len(self.quasi):
            return self.counts.weight
        return np.add.reduceat(self.counts.weight, self.counts.start[:-1])

    @property
    def combination(self) -> Int64Array:
        """The combination that each cell belongs to."""
        return np.repeat(np.arange(len(self.quasi)), np.diff(self.counts.start))

    @cached_property
    def records(self) -> int:
        """The number of records."""
        return int(self.counts.weight.sum())

    @cached_property
    def geometry(self) -> Geometry:
        """The attributes as arrays."""
        return Geometry.of(self.attributes)

    @cached_property
    def heights(self) -> Geometry:
        """The attributes as arrays, nodes by their heights: the loss of Byun, Kamra, Bertino and Li, Definition 7."""
        return Geometry.of(self.attributes, heights=True)

    def distance(self, one: int, other: int) -> float:
        """How far two combinations lie apart: the sum over the attributes, as Definition 6 of the k-member paper has it."""
        pairs = zip(self.attributes, self.quasi[one], self.quasi[other], strict=True)
        return float(sum(a.distance(np.array([x]), np.array([y]))[0] for a, x, y in pairs))

    @cached_property
    def table(self) -> Groups:
        """The whole table as groups by its raw codes."""
        return groups_of(self.counts, [a.name for a in self.attributes], self.secrets)

    @cached_property
    def layout(self) -> Layout:
        """How the confidential values are distributed in the whole table."""
        return layout_of(self.table)


def _value_hashes(keyed: KeyedHash, attribute: Attribute) -> UInt64Array:
    """The keyed hash of every value of an attribute, by code."""
    if attribute.taxonomy is None:
        return keyed.numbers(attribute.name, attribute.position)
    return keyed.texts(attribute.name, ["" if leaf is None else leaf for leaf in attribute.taxonomy.leaves])


def groups_of(counts: Counts, names: Sequence[str], secrets: Sequence[Secret]) -> Groups:
    """Counted cells seen as groups."""
    return Groups(
        tuple(names),
        tuple(s.name for s in secrets),
        counts.quasi,
        counts.start,
        counts.secret,
        counts.weight,
        tuple(len(s.labels) for s in secrets),
        tuple(s.labels for s in secrets),
    )


@dataclass(frozen=True)
class Coded:
    """A table whose columns have codes, not yet counted: the engine that holds it can apply what is decided on them."""

    attributes: tuple[Attribute, ...]
    secrets: tuple[Secret, ...]
    engine: Engine
    dictionaries: Mapping[str, Dictionary]
    least: int = 1
    hash: KeyedHash | None = None

    @cached_property
    def division(self) -> Division:
        """The parts to be worked on one after another; one, where all cells can be held at once."""
        return self.engine.divide(*self._names, least=self.least)

    def count(self, part: int = 0) -> Codes:
        """The counted cells of a part."""
        return Codes(self.attributes, self.secrets, self.engine.count(*self._names, part=part), self.hash)

    def occurring(self, j: int) -> Int64Array:
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
        return [a.name for a in self.attributes], [s.name for s in self.secrets]


def coded(
    engine: Engine,
    policy: Policy,
    *,
    also: Sequence[str] = (),
    carry: Sequence[str] | None = None,
    hash: KeyedHash | None = None,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Coded:
    """A table with codes for its quasi-identifiers, for the columns that a requirement names, and for those of ``also``.

    ``carry`` names the other columns that a release of it needs; see `Engine.encode`. ``hash`` breaks ties among cells.
    """
    confidential = [c for c in dict.fromkeys((*policy.confidential, *also)) if c not in policy.quasi]
    readings = {c: policy.reading(c) for c in policy.quasi}
    readings |= {c: policy.counted_as(c) for c in confidential}
    engine.prepare(readings)
    dictionaries: dict[str, Dictionary] = {}
    attributes = []
    for number, (name, quasi) in enumerate(policy.quasi.items()):
        tell(number, len(readings) + 1)
        attribute, dictionaries[name] = attribute_of(name, quasi, engine.distinct(name, readings[name]), readings[name])
        attributes.append(attribute)
    secrets = [secret_of(engine, c, readings[c], dictionaries) for c in confidential]
    tell(len(readings), len(readings) + 1)
    encoded = engine.encode(dictionaries, carry=carry)
    return Coded(tuple(attributes), tuple(secrets), encoded, dictionaries, policy.least, hash)


def encode(
    engine: Engine, policy: Policy, *, also: Sequence[str] = (), hash: KeyedHash | None = None
) -> tuple[Codes, Engine]:
    """The codes of a whole table, and the engine that has them; see `coded`."""
    table = coded(engine, policy, also=also, hash=hash)
    return table.count(), table.engine


@dataclass(frozen=True)
class Shown:
    """A finished table as a stranger reads it: its columns by what stands in them, not yet counted."""

    columns: tuple[str, ...]
    values: Mapping[str, Secret]
    engine: Engine

    @property
    def labels(self) -> dict[str, Sequence[str | None]]:
        """What the codes of every column stand for."""
        return {name: secret.labels for name, secret in self.values.items()}

    def parts(self, confidential: Sequence[str]) -> int:
        """In how many parts the groups are counted with the values of some columns; each group is whole in one of them."""
        return self.engine.divide(self.columns, confidential).parts

    def groups(self, confidential: Sequence[str], part: int | None = None) -> Groups:
        """The groups, all or those of a part, with the counts of the values of some columns."""
        counts = self.engine.count(self.columns, confidential, part=part)
        return groups_of(counts, self.columns, [self.values[c] for c in confidential])


def shown(engine: Engine, policy: Policy, *, also: Sequence[str] = ()) -> Shown:
    """A finished table by its quasi-identifiers, by the confidential columns that a requirement names, and those of ``also``.

    A quasi-identifier that was written as two columns, ``age_lo`` and ``age_hi``, counts as both. Where the table has ``age``
    as well, ``age`` alone counts: the other two have no role.
    """
    columns = tuple(part for parts in policy.published_as(engine.schema().names).values() for part in parts)
    listed = tuple(dict.fromkeys((*columns, *policy.confidential, *also)))
    readings = {name: policy.counted_as(name) for name in listed}
    engine.prepare(readings)
    dictionaries: dict[str, Dictionary] = {}
    values = {name: secret_of(engine, name, readings[name], dictionaries) for name in listed}
    return Shown(columns, values, engine.encode(dictionaries))


def published(engine: Engine, policy: Policy) -> tuple[Groups, Mapping[str, Sequence[str | None]]]:
    """The groups of a finished table with the values that requirements look at, and the label of every code."""
    table = shown(engine, policy)
    return table.groups(policy.confidential), table.labels


def secret_of(engine: Engine, column: str, reading: Reading, dictionaries: dict[str, Dictionary]) -> Secret:
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
    return Secret(column, tuple(labels + [None] * (distinct.missing > 0)))


def attribute_of(name: str, quasi: Quasi, distinct: Distinct, reading: Reading) -> tuple[Attribute, Dictionary]:
    """An attribute and its dictionary, from the distinct values of its column."""
    absent = distinct.missing > 0
    if quasi.kind != "categorical" and quasi.maker is None:
        position = np.append(distinct.values, np.inf) if absent else np.asarray(distinct.values, np.float64)
        codes = np.arange(len(distinct.values), dtype=np.int32)
        low, high = _ends(name, quasi, distinct.values)
        span = high - low if high > low else 1.0
        attribute = Attribute(name, quasi.kind, position, None, span, low=low, high=high)
    else:
        tree, codes, flat = _tree(name, quasi, distinct)
        position = np.arange(tree.size, dtype=np.float64)
        if absent:
            tree, position = tree.with_missing(), np.append(position, np.inf)
        attribute = Attribute(name, quasi.kind, position, tree, 1.0, flat)
    return attribute, Dictionary(reading, distinct, codes, attribute.size - 1 if absent else -1)


def _ends(name: str, quasi: Quasi, values: FloatArray) -> tuple[float, float]:
    """Where the numbers begin and end."""
    if quasi.bounds is not None:
        low, high = quasi.bounds
        outside = [format_number(v) for v in values if not low <= v <= high]
        if outside:
            raise DataError(
                f"column {name!r} holds values outside its bounds {low:g} to {high:g}: {some(outside)}; "
                "mend them or widen the bounds"
            )
        return low, high
    low, high = (float(values[0]), float(values[-1])) if len(values) else (0.0, 0.0)
    if max(-low, high) > LARGEST:
        raise DataError(
            f"column {name!r} holds numbers beyond {LARGEST:g}, such as {format_number(high if high > -low else low)}: too "
            "large to be measured or averaged; write them in a larger unit, or as missing"
        )
    return low, high


def _tree(name: str, quasi: Quasi, distinct: Distinct) -> tuple[Taxonomy, Int32Array, bool]:
    """The tree of an attribute, the code of every distinct value, and whether it is a root and leaves in no order."""
    if quasi.maker is not None:
        paths = [quasi.maker.path(value) for value in distinct.values]
        tree = quasi.shaped(quasi.maker.tree(paths, distinct.counts.tolist(), column=name))
        return tree, tree.code_of([path[0] for path in paths], column=name), False
    texts = [str(v) for v in distinct.values]
    if quasi.taxonomy is not None:
        tree = quasi.shaped(quasi.taxonomy)
        return tree, tree.code_of(texts, column=name), False
    # No tree given: the most frequent value first, so that cuts in the order of codes part what is common from what is rare.
    order = np.argsort(-distinct.counts, kind="stable")
    tree = Taxonomy.flat([texts[i] for i in order])
    return tree, tree.code_of(texts, column=name), True
