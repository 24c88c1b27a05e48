"""Itemsets and association rules over the values of a table, with the number of records that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.errors import escape_invisible
from shoal.formats.html_text import render_table, render_view

SHOWN = 10  # sets or rules in a text


@dataclass(frozen=True, order=True)
class Item:
    """A value of a column. A column of truth values is itself an item: its value is None, and records have it or not."""

    column: str
    value: str | None = None

    def __str__(self) -> str:
        return self.column if self.value is None else f"{self.column}={self.value}"


@dataclass(frozen=True)
class Itemsets:
    """Sets of items: set s has the items ``members[start[s]:start[s + 1]]``, ascending.

    ``count[s]`` records have all items of set s.
    """

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

    def list_members(self) -> list[tuple[int, ...]]:
        """The item numbers of each set."""
        members, start = self.members.tolist(), self.start.tolist()
        return [tuple(members[a:b]) for a, b in pairwise(start)]

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name, such as for ``pandas.DataFrame``: the items of each set, and its support, count and size.

        >>> alone = Itemsets((Item("ill"),), np.array([0, 1]), np.array([0], np.int32), np.array([3]), 4)
        >>> alone.to_dict()
        {'itemset': [frozenset({Item(column='ill', value=None)})], 'support': [0.75], 'count': [3], 'size': [1]}
        """
        return {
            "itemset": [frozenset(self.items[i] for i in numbers) for numbers in self.list_members()],
            "support": self.support.tolist(),
            "count": self.count.tolist(),
            "size": self.size.tolist(),
        }

    def __str__(self) -> str:
        lines = [f"  {share}  {names}" for names, share in self._describe()]
        return "\n".join([self._title, *lines, *_count_more(len(self))])

    def _repr_html_(self) -> str:
        head = ("items", "share of the records")
        rest = [f"<p>{line.strip()}</p>" for line in _count_more(len(self))]
        return render_view(self._title, render_table("itemsets", head, self._describe()), *rest)

    @property
    def _title(self) -> str:
        return f"{_count(len(self), 'itemset')} of {_count(self.records, 'record')}"

    def _describe(self) -> list[tuple[str, str]]:
        """The items and the support of the first sets in words."""
        described = []
        for s, share in enumerate(self.support[:SHOWN].tolist()):
            numbers = self.members[self.start[s] : self.start[s + 1]].tolist()
            described.append((_name_items(self.items, numbers), _percent(share)))
        return described


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
        """The confidence, divided by the share of all records that have the right side; NaN where this is not known."""
        share = np.where(self.right_count < 0, np.nan, self.right_count / max(self.records, 1))
        return np.asarray(self.confidence / np.maximum(share, np.finfo(float).tiny), np.float64)

    def name_items(self, side: Sequence[int]) -> str:
        """The items of a side in words."""
        return _name_items(self.items, side)

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name, such as for ``pandas.DataFrame``: both sides of each rule, and its figures."""
        return {
            "left": [frozenset(self.items[i] for i in side) for side in self.left],
            "right": [frozenset(self.items[i] for i in side) for side in self.right],
            "support": self.support.tolist(),
            "confidence": self.confidence.tolist(),
            "lift": self.lift.tolist(),
            "count": self.count.tolist(),
        }

    def __str__(self) -> str:
        lines = [
            f"  {left} => {right}  (support {support}, confidence {confidence}, lift {lift})"
            for left, right, support, confidence, lift in self._describe()
        ]
        return "\n".join([self._title, *lines, *_count_more(len(self))])

    def _repr_html_(self) -> str:
        head = ("records with", "often have", "support", "confidence", "lift")
        rest = [f"<p>{line.strip()}</p>" for line in _count_more(len(self))]
        return render_view(self._title, render_table("rules", head, self._describe()), *rest)

    @property
    def _title(self) -> str:
        return f"{_count(len(self), 'rule')} of {_count(self.records, 'record')}"

    def _describe(self) -> list[tuple[str, ...]]:
        """Both sides and the figures of the first rules in words."""
        figures = zip(self.support, self.confidence, self.lift, strict=True)
        return [
            (self.name_items(left), self.name_items(right), _percent(support), _percent(confidence), f"{lift:.2f}")
            for left, right, (support, confidence, lift) in zip(
                self.left[:SHOWN], self.right[:SHOWN], figures, strict=False
            )
        ]


def _name_items(items: Sequence[Item], numbers: Sequence[int]) -> str:
    return escape_invisible(", ".join(str(items[i]) for i in numbers))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _count_more(number: int) -> list[str]:
    """The line for the entries that are not shown."""
    return [f"  … and {number - SHOWN:,} more"] if number > SHOWN else []
