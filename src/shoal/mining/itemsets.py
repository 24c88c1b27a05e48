"""Itemsets and association rules over the values of a table, with the number of records that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array


@dataclass(frozen=True, order=True)
class Item:
    """A value of a column. A column of truth values is itself an item: its value is None, and records have it or not."""

    column: str
    value: str | None = None

    def __str__(self) -> str:
        return self.column if self.value is None else f"{self.column}={self.value}"


@dataclass(frozen=True)
class Itemsets:
    """Sets of items: set s has the items ``members[start[s]:start[s + 1]]``, ascending, and ``count[s]`` records have them all."""

    items: tuple[Item, ...]
    start: Int64Array
    members: Int32Array
    count: Int64Array
    records: int

    def __len__(self) -> int:
        return len(self.count)

    def __getitem__(self, s: int) -> frozenset[Item]:
        return frozenset(self.items[i] for i in self.members[self.start[s] : self.start[s + 1]].tolist())

    @property
    def support(self) -> FloatArray:
        """The share of the records that have each set."""
        return self.count / max(self.records, 1)

    @property
    def size(self) -> Int64Array:
        """The number of items of each set."""
        return np.diff(self.start)


@dataclass(frozen=True)
class Rules:
    """Association rules: rule r says that records with the items ``left[r]`` often have the items ``right[r]``, too.

    Sides are tuples of item numbers, ascending. ``count`` is the number of records with both sides, ``left_count`` and
    ``right_count`` with one side.
    """

    items: tuple[Item, ...]
    left: tuple[tuple[int, ...], ...]
    right: tuple[tuple[int, ...], ...]
    count: Int64Array
    left_count: Int64Array
    right_count: Int64Array
    records: int

    def __len__(self) -> int:
        return len(self.count)

    @property
    def support(self) -> FloatArray:
        """The share of the records that have both sides."""
        return self.count / max(self.records, 1)

    @property
    def confidence(self) -> FloatArray:
        """The share of the records with the left side that have the right side."""
        return self.count / np.maximum(self.left_count, 1)

    @property
    def lift(self) -> FloatArray:
        """The confidence, divided by the share of all records that have the right side."""
        return self.confidence / np.maximum(self.right_count / max(self.records, 1), np.finfo(float).tiny)

    def name_items(self, side: Sequence[int]) -> str:
        """The items of a side in words."""
        return ", ".join(str(self.items[i]) for i in side)
