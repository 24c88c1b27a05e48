"""The levels of generalization of an attribute: one cut per level, from its values to its root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.measures.label_extents import read_extents
from shoal.recoding.grouping import AttributeCut
from shoal.recoding.publishing import LabelRules
from shoal.taxonomy import Taxonomy

QUANTILES = (32, 16, 8, 4, 2)  # the numbers of intervals at the levels of numbers without a taxonomy


def list_cuts(attribute: Attribute, records: Int64Array) -> tuple[AttributeCut, ...]:
    """The cut of every level, from the values to the root; ``records`` has the number of records of every code.

    A taxonomy of height H has the levels 0 to H: level j has the ancestor of every value at depth H - j, or the value itself if
    its leaf is less deep. Numbers and dates without a taxonomy are divided at quantiles of the records into 32, 16, 8, 4 and 2
    intervals, as far as they have more values than that.
    """
    tree = attribute.taxonomy
    return _cut_numbers(attribute, records) if tree is None else _cut_tree(tree)


def _cut_tree(tree: Taxonomy) -> tuple[AttributeCut, ...]:
    node = tree.leaf.copy()
    cuts = []
    for depth in range(int(tree.level.max(initial=0)), -1, -1):
        node = np.where(tree.level[node] > depth, tree.parent[node], node)
        nodes = node[np.append(True, node[1:] != node[:-1])]
        cuts.append(AttributeCut(tree.lo[nodes].astype(np.int32), nodes.astype(np.int32)))
    return tuple(cuts)


def _cut_numbers(attribute: Attribute, records: Int64Array) -> tuple[AttributeCut, ...]:
    """The values, intervals between quantiles, and the root; a missing value is a value of its own below the root."""
    size = attribute.size
    numbers = size - (attribute.missing >= 0)
    cuts = [AttributeCut(np.arange(size, dtype=np.int32))]
    before = np.cumsum(records[:numbers]) - records[:numbers]
    for count in QUANTILES:
        if numbers > count:
            interval = before * count // max(int(records[:numbers].sum()), 1)
            first = np.flatnonzero(np.append(True, interval[1:] != interval[:-1]))
            cuts.append(AttributeCut(np.append(first, np.arange(numbers, size)).astype(np.int32)))
    return (*cuts, AttributeCut(np.zeros(1, np.int32)))


@dataclass(frozen=True)
class AttributeLevel:
    """A level of an attribute: its cut, and for every code the number of its value and the loss of the value's label."""

    cut: AttributeCut
    value: Int32Array
    loss: FloatArray

    def is_equal(self, other: AttributeLevel) -> bool:
        """Whether the level publishes the same groups at the same loss."""
        return np.array_equal(self.value, other.value) and np.array_equal(self.loss, other.loss)


@dataclass(frozen=True)
class AttributeLevels:
    """All levels of an attribute; ``records`` has the number of records of every code.

    ``lost`` is the loss of a suppressed record: 1, or 0 for an attribute whose taxonomy has a single value.
    """

    attribute: Attribute
    levels: tuple[AttributeLevel, ...]
    records: Int64Array
    lost: float = 1.0

    @classmethod
    def of(cls, attribute: Attribute, records: Int64Array, rules: LabelRules, figure: str) -> AttributeLevels:
        """The levels with the losses that ``figure`` of their labels' extents names."""
        single = figure == "loss" and attribute.taxonomy is not None and attribute.source_size == 1
        levels = []
        for cut in list_cuts(attribute, records):
            labels = rules.label_cut(attribute, cut)
            cut, labels = _merge_equal(cut, labels)
            extents = read_extents(attribute, labels, records)
            loss = np.array([0.0 if single else getattr(e, figure) for e in extents], np.float64)
            interval = cut.table(attribute.size)
            value = np.arange(len(labels), dtype=np.int32)
            if (
                not rules.policy.suppress
            ):  # nodes with equal rounded ranges; these can differ when records are suppressed
                number = {label: i for i, label in enumerate(dict.fromkeys(labels))}
                value = np.array([number[label] for label in labels], np.int32)
            levels.append(AttributeLevel(cut, value[interval], loss[interval]))
        return cls(attribute, _nest(levels), records, 0.0 if single else 1.0)

    @property
    def height(self) -> int:
        """The level of the root."""
        return len(self.levels) - 1

    def find_base(self, first: Int32Array) -> int:
        """The lowest level that does not divide merged values; ``first`` is the merged code of every code."""
        tables = (level.cut.table(self.attribute.size) for level in self.levels)
        return next(i for i, interval in enumerate(tables) if np.array_equal(interval[first], interval))

    def list_different(self, base: int) -> Int64Array:
        """The levels from ``base`` that differ from the level below."""
        levels = range(base, len(self.levels))
        return np.array([i for i in levels if i == base or not self.levels[i].is_equal(self.levels[i - 1])], np.int64)

    def mean(self, level: int) -> float:
        """The mean loss of all records at a level."""
        total = float((self.levels[level].loss * self.records).sum())
        return total / max(int(self.records.sum()), 1)

    def least(self, level: int, suppressed: int) -> float:
        """The least mean loss at a level if so many records may be suppressed: those that lose more than a suppressed one."""
        excess = np.maximum(self.levels[level].loss - self.lost, 0.0)
        if not suppressed or not excess.any():
            return self.mean(level)
        order = np.argsort(-excess)
        taken = np.minimum(np.cumsum(self.records[order]), suppressed)
        saved = float((excess[order] * np.diff(taken, prepend=0)).sum())
        return self.mean(level) - saved / max(int(self.records.sum()), 1)


def _merge_equal(cut: AttributeCut, labels: Sequence[str | None]) -> tuple[AttributeCut, list[str | None]]:
    """A cut of numbers without the boundaries between equal labels; rounded ranges can have equal labels.

    The values of such a range stay in one group when other records are suppressed and ranges become narrower.
    """
    if cut.node is not None:
        return cut, list(labels)
    kept = [i for i, label in enumerate(labels) if i == 0 or label != labels[i - 1]]
    return AttributeCut(cut.first[kept]), [labels[i] for i in kept]


def _nest(levels: list[AttributeLevel]) -> tuple[AttributeLevel, ...]:
    """The levels with values that are unions of values of the level before; else values are the intervals of the cuts."""
    nested = all(_refines(fine.value, coarse.value) for fine, coarse in pairwise(levels))
    if nested:
        return tuple(levels)
    return tuple(AttributeLevel(level.cut, level.cut.table(len(level.value)), level.loss) for level in levels)


def _refines(fine: Int32Array, coarse: Int32Array) -> bool:
    """Whether codes with one fine value have one coarse value."""
    of_value = np.zeros(int(fine.max(initial=0)) + 1, np.int32)
    of_value[fine] = coarse
    return bool((of_value[fine] == coarse).all())
