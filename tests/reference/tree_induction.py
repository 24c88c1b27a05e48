"""Algorithm 1 of Friedman, Wolff and Schuster, slow and obvious: every split of every leaf is tried on a copy of the tree.

A record is a mapping of columns to values, None for a missing value. A column is a `Feature`: numbers, or the way from a value
up to below the root. Spans are found by following all private values through the tree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Record = Mapping[str, Any]
Block = Callable[[Any], Any]
LEAST = 1e-9  # a smaller gain per record is rounding


@dataclass(frozen=True)
class Feature:
    """A column that may split the records; ``levels`` has the label of a value at every level, from the top (None: numbers).

    ``values`` are the values in the order of codes.
    """

    name: str
    values: Sequence[Any]
    levels: Sequence[Block] | None = None


@dataclass(frozen=True)
class Attacker:
    """The columns that an attacker knows, whether the attacker knows the class, and k."""

    columns: Collection[str]
    knows_class: bool
    k: int


@dataclass
class Node:
    """A node of the tree: its records, and its split if it is no leaf. ``other`` has all blocks without records."""

    number: int
    rows: list[int]
    column: str | None = None
    block: Block | None = None
    children: dict[Any, Node] = field(default_factory=dict)
    other: Node | None = None

    def choose(self, value: Any) -> Node:
        assert self.block is not None
        found = self.children.get(self.block(value), self.other)
        assert found is not None
        return found

    def list_leaves(self) -> list[Node]:
        if self.column is None:
            return [self]
        below = [*self.children.values(), *([self.other] if self.other else [])]
        return [leaf for child in below for leaf in child.list_leaves()]


def entropy(classes: Collection[Any]) -> float:
    """Times the number of records."""
    return -math.fsum(n * math.log2(n / len(classes)) for n in Counter(classes).values())


def gini(classes: Collection[Any]) -> float:
    """Times the number of records."""
    return len(classes) - math.fsum(n * n / len(classes) for n in Counter(classes).values())


@dataclass
class Induction:
    """The records with their classes, the columns, the attackers, and the measure of impurity."""

    records: Sequence[Record]
    classes: Sequence[Any]
    features: Sequence[Feature]
    attackers: Sequence[Attacker]
    impurity: Callable[[Collection[Any]], float]
    spares_single: bool = True

    def grow(self) -> Node | None:
        """The tree; None if not even the root holds."""
        root = Node(0, list(range(len(self.records))))
        if not self.holds(root):
            return None
        used = 1
        while True:
            found = [(leaf, *best) for leaf in root.list_leaves() if (best := self.find_split(root, leaf))]
            if not found:
                return root
            leaf, _, a, block = min(found, key=lambda f: (-round(f[1], 7), f[2], f[0].number))
            used = self.split(leaf, self.features[a], block, used)

    def find_split(self, root: Node, leaf: Node) -> tuple[float, int, Block] | None:
        best: tuple[float, int, Block] | None = None
        before = [self.classes[r] for r in leaf.rows]
        for a, feature in enumerate(self.features):
            for block in self.list_blocks(leaf, feature):
                parts: dict[Any, list[Any]] = {}
                for r in leaf.rows:
                    parts.setdefault(block(self.records[r][feature.name]), []).append(self.classes[r])
                gain = self.impurity(before) - math.fsum(map(self.impurity, parts.values()))
                least = LEAST * len(before)
                if gain <= least or gain <= (best[0] if best else 0.0) + least:
                    continue
                self.split(leaf, feature, block, 10**9)
                if self.holds(root):
                    best = (gain, a, block)
                leaf.column, leaf.block, leaf.children, leaf.other = None, None, {}, None
        return best

    def list_blocks(self, leaf: Node, feature: Feature) -> list[Block]:
        present = {self.records[r][feature.name] for r in leaf.rows}
        if feature.levels is not None:
            found, before = [], 1
            for level in feature.levels:
                if len({level(v) for v in present}) > before:  # not the same split as the level above
                    before = len({level(v) for v in present})
                    found.append(level)
            return found
        numbers = sorted(v for v in present if v is not None)
        cuts = [low + (high - low) / 2 for low, high in pairwise(numbers)]
        if None in present and numbers:
            cuts.append(math.inf)
        return [lambda v, cut=cut: int(v is None or v > cut) for cut in cuts]

    def split(self, leaf: Node, feature: Feature, block: Block, used: int) -> int:
        """Split a leaf; children have numbers from ``used`` on, in the order of codes. Return the next free number."""
        parts: dict[Any, list[int]] = {}
        for value in feature.values:
            rows = [r for r in leaf.rows if self.records[r][feature.name] == value]
            if rows:
                parts.setdefault(block(value), []).extend(rows)
        leaf.column, leaf.block = feature.name, block
        leaf.children = {key: Node(used + i, rows) for i, (key, rows) in enumerate(parts.items())}
        leaf.other = Node(used + len(parts), [])
        return used + len(parts) + 1

    def holds(self, root: Node) -> bool:
        for attacker in self.attackers:
            spans = Counter(self.span_of(root, r, attacker) for r in range(len(self.records)))
            for (leaves, known), size in spans.items():
                cells = len(leaves) * (1 if known is not None else max(len(set(self.classes)), 2))
                if size < attacker.k and not (self.spares_single and cells == 1):
                    return False
        return True

    def span_of(self, root: Node, r: int, attacker: Attacker) -> tuple[frozenset[int], Any]:
        """The leaves that a record may fall in, and its class if the attacker knows it."""
        found: set[int] = set()

        def follow(node: Node, possible: dict[str, list[Any]]) -> None:
            if node.column is None:
                found.add(id(node))
                return
            if node.column in attacker.columns:
                follow(node.choose(self.records[r][node.column]), possible)
                return
            reached: dict[int, tuple[Node, list[Any]]] = {}
            for value in possible[node.column]:
                child = node.choose(value)
                reached.setdefault(id(child), (child, []))[1].append(value)
            for child, values in reached.values():
                follow(child, possible | {node.column: values})

        follow(root, {f.name: list({record[f.name]: None for record in self.records}) for f in self.features})
        return frozenset(found), self.classes[r] if attacker.knows_class else None
