"""A decision tree as a partition of the domain into cells: every pair of a leaf and a class is a cell.

Friedman, Wolff and Schuster, "Providing k-anonymity in data mining", Definition 2: a model is a function of the domain, and two
records are equivalent if the model cannot distinguish them. The cells of a decision tree are the bins of its leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.arrays import BoolArray, Int32Array, Int64Array


@dataclass(frozen=True)
class Condition:
    """A test on the way to a leaf, in words: the column, and which of its values pass.

    A cut of numbers has the numbers ``above`` and ``at_most`` in order, and their texts.
    """

    column: str
    text: str
    above: tuple[float, str] | None = None
    at_most: tuple[float, str] | None = None

    @classmethod
    def of_cut(cls, column: str, cut: float, text: str, *, below: bool) -> Condition:
        """The side of a cut of numbers, in words such as ``at most 20``."""
        return cls(column, f"is {text}", None if below else (cut, text), (cut, text) if below else None)

    def __str__(self) -> str:
        return f"{self.column} {self.text}"


def describe_conditions(conditions: Iterable[Condition], default: str) -> str:
    """Tests in words; several cuts of a column become one range.

    >>> above = [Condition.of_cut("age", cut, f"above {cut}", below=False) for cut in (20, 30)]
    >>> describe_conditions([*above, Condition.of_cut("age", 50, "at most 50", below=True)], "all")
    'age is above 30 and at most 50'
    """
    texts: dict[Condition | str, str] = {}
    above: dict[str, tuple[float, str]] = {}
    at_most: dict[str, tuple[float, str]] = {}
    for condition in conditions:
        column = condition.column
        if condition.above is not None:
            above[column] = max(above.get(column, condition.above), condition.above)
        elif condition.at_most is not None:
            at_most[column] = min(at_most.get(column, condition.at_most), condition.at_most)
        else:
            texts[condition] = str(condition)
            continue
        ends = [end[column][1] for end in (above, at_most) if column in end]
        texts[column] = f"{column} is {' and '.join(ends)}"
    return ", ".join(texts.values()) or default


@dataclass(frozen=True)
class CellTree:
    """A decision tree over the values of a table; a value is a code of its column.

    Node n is a leaf if ``column[n]`` is -1. Otherwise ``child[n]`` has the child of every code of ``columns[column[n]]``. A
    node with a ``cut`` has two children instead: codes whose ``rank`` is below the cut go to the first. A column of many
    numbers then needs no list of codes for every node.
    ``conditions[n]`` describes the test by which node n was reached; the root has none. ``classes`` are the values of the
    target that divide a leaf into bins; a model whose leaves are not divided has none.
    """

    columns: tuple[str, ...]
    column: Int32Array
    child: tuple[Int32Array, ...]
    parent: Int32Array
    conditions: tuple[Condition | None, ...]
    classes: tuple[str | None, ...]
    cut: Int64Array | None = None  # by node; -1: no cut
    rank: tuple[Int64Array, ...] = ()  # of every code, by column; empty for columns without cuts

    def children(self, n: int) -> Int32Array:
        """The child of every code of the column that a node tests."""
        if self.cut is None or self.cut[n] < 0:
            return self.child[n]
        first, second = self.child[n]
        goes_first = self.rank[self.column[n]] < self.cut[n]
        return np.asarray(np.where(goes_first, first, second), np.int32)

    @property
    def bins(self) -> int:
        """The number of cells of a leaf: its classes; 1 if leaves are not divided by class.

        Another class is always possible, also if all records of a table have one class.
        """
        return max(len(self.classes), 2) if self.classes else 1

    @cached_property
    def sizes(self) -> list[int]:
        """The number of codes of every column."""
        return [len(self.children(int(np.argmax(self.column == j)))) for j in range(len(self.columns))]

    @cached_property
    def leaves(self) -> Int32Array:
        """The nodes that are leaves."""
        return np.flatnonzero(self.column < 0).astype(np.int32)

    def walk(
        self, codes: Sequence[Int32Array], domains: Sequence[BoolArray], known: Collection[str]
    ) -> Iterator[tuple[int, Int64Array]]:
        """Yield every leaf, in a fixed order, with the rows that may fall in it if only the columns ``known`` are known.

        ``codes`` has the codes of every column by row, ``domains`` the codes that are possible. At a split by a column that is
        not known, every child is possible to which some value of the column leads, of the values that lead to the node.
        """
        private = {j: domains[j] for j, name in enumerate(self.columns) if name not in known}
        waiting: list[tuple[int, Int64Array, dict[int, BoolArray]]] = [
            (0, np.arange(len(codes[0]) if codes else 1), private)
        ]
        while waiting:
            node, rows, possible = waiting.pop()
            j = int(self.column[node])
            if j < 0:
                yield node, rows
                continue
            child = self.children(node)
            if j in possible:
                ways = [
                    (c, rows, possible | {j: possible[j] & (child == c)})
                    for c in np.unique(child[possible[j]]).tolist()
                    if c >= 0
                ]
            else:
                reached = child[codes[j][rows]]
                ways = [(c, rows[reached == c], possible) for c in np.unique(reached).tolist()]
            waiting += reversed(ways)

    def route(self, codes: Sequence[Int32Array], rows: int) -> Int64Array:
        """The node of every record: its leaf, or the node in which no child has its value; ``codes`` by column.

        All records go down one level at a time, so the work does not depend on the number of nodes.
        """
        found = np.zeros(rows, np.int64)
        if not codes:
            return found
        table = np.stack(codes)
        length = np.array([len(child) for child in self.child])
        start, child = np.cumsum(length) - length, np.concatenate(self.child)
        cut = np.full(len(self.column), -1) if self.cut is None else self.cut
        ranks = [self.rank[j][c] if self.rank and len(self.rank[j]) else c for j, c in enumerate(codes)]
        ranked = np.stack(ranks).astype(np.int64)
        here = np.arange(rows)
        while len(here):
            here = here[self.column[found[here]] >= 0]
            node = found[here]
            place = (self.column[node], here)
            step = np.where(cut[node] < 0, table[place], ranked[place] >= cut[node])
            reached = child[start[node] + step]
            here = here[reached >= 0]
            found[here] = reached[reached >= 0]
        return found

    def path(self, leaf: int) -> tuple[Condition, ...]:
        """The tests from the root to a leaf."""
        found = []
        node = leaf
        while node > 0:
            condition = self.conditions[node]
            if condition is not None:
                found.append(condition)
            node = int(self.parent[node])
        return tuple(reversed(found))
