"""Full-domain generalization by brute force: every combination of levels, counted record by record."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tests.reference.requirements import leaf_ways, passes

Way = tuple[str, ...]  # the labels from the root to a node
Node = tuple[int, ...]
NEAR = 1e-9


@dataclass(frozen=True)
class Tree:
    """A taxonomy as the way to each of its leaves."""

    ways: dict[str, Way]

    @classmethod
    def of(cls, nested: Any) -> Tree:
        return cls({way[-1]: way for way in leaf_ways(nested)})

    @property
    def height(self) -> int:
        return max(len(way) for way in self.ways.values()) - 1

    def ancestor(self, value: str, level: int) -> Way:
        """The ancestor at depth height - level, or the leaf itself if it is less deep."""
        return self.ways[value][: self.height - level + 1]

    def below(self, node: Way) -> list[str]:
        return [leaf for leaf, way in self.ways.items() if way[: len(node)] == node]

    def rate(self, node: Way, figure: str, column: Sequence[str]) -> float:
        """The loss of a label, by the definitions of the measures; ``column`` has the values of all records."""
        leaves, total = self.below(node), len(self.ways)
        if len(node) == 1:
            return 0.0 if figure == "loss" and total == 1 else 1.0
        if leaves == [node[-1]]:
            return 0.0
        if figure == "ncp":
            return len(leaves) / total
        if figure == "loss":
            return (len(leaves) - 1) / max(total - 1, 1)
        if figure == "height":
            return (max(len(self.ways[leaf]) for leaf in leaves) - len(node)) / self.height
        whole = entropy(column)
        return entropy([v for v in column if v in leaves]) / whole if whole else 0.0


def entropy(values: Sequence[str]) -> float:
    counts = Counter(values).values()
    return -sum(c / len(values) * math.log(c / len(values)) for c in counts)


@dataclass(frozen=True)
class Twin:
    """A table with a tree per attribute; ``sensitive`` has the values that requirements name, ``classes`` the target."""

    rows: list[tuple[str, ...]]
    trees: list[Tree]
    names: list[str]
    require: Sequence[Any]
    suppress: float
    sensitive: list[str]
    classes: list[str]

    def nodes(self) -> Iterator[Node]:
        """All nodes; an attribute that no requirement covers has its root."""
        covered = {name for r in self.require for name in (r.on or self.names)}
        pairs = zip(self.names, self.trees, strict=True)
        yield from product(*(range(t.height + 1) if n in covered else [t.height] for n, t in pairs))

    def released(self, node: Node) -> list[int]:
        """The records that remain if failing groups are suppressed until none is left."""
        kept, changed = list(range(len(self.rows))), True
        labels = [
            [t.ancestor(v, level) for t, v, level in zip(self.trees, row, node, strict=True)] for row in self.rows
        ]
        while changed:
            changed = False
            for requirement in self.require:
                groups = defaultdict(list)
                for i in kept:
                    on = requirement.on or self.names
                    groups[tuple(labels[i][self.names.index(name)] for name in on)].append(i)
                everyone = [self.sensitive[i] for i in kept]
                passing = [i for g in groups.values() if self._passes(requirement, g, everyone) for i in g]
                changed |= len(passing) < len(kept)
                kept = sorted(passing)
        return kept

    def _passes(self, requirement: Any, group: list[int], everyone: list[str]) -> bool:
        if requirement.of is None:
            return len(group) >= requirement.k
        return bool(passes(requirement, [self.sensitive[i] for i in group], everyone))

    def measure(self, node: Node, kept: list[int], objective: str) -> float:
        """The measure of a release; a suppressed record loses everything."""
        total, lost = len(self.rows), len(self.rows) - len(kept)
        if objective in ("dm", "average", "cm"):
            groups = defaultdict(list)
            for i in kept:
                groups[tuple(t.ancestor(v, n) for t, v, n in zip(self.trees, self.rows[i], node, strict=True))].append(
                    i
                )
            if objective == "dm":
                return sum(len(g) ** 2 for g in groups.values()) + lost * total
            if objective == "average":
                return len(kept) / len(groups)
            most = sum(max(Counter(self.classes[i] for i in g).values()) for g in groups.values())
            return (total - most) / total
        figure = {"loss": "loss", "loss_mean": "loss", "precision": "height"}.get(objective, objective)
        means = []
        for j, (tree, level) in enumerate(zip(self.trees, node, strict=True)):
            column = [row[j] for row in self.rows]
            each = 0.0 if figure == "loss" and len(tree.ways) == 1 else 1.0
            rated = sum(tree.rate(tree.ancestor(column[i], level), figure, column) for i in kept)
            means.append((rated + lost * each) / total)
        if objective == "loss":
            return math.exp(sum(math.log1p(m) for m in means) / len(means)) - 1
        mean = sum(means) / len(means)
        return 1 - mean if objective == "precision" else mean

    def anonymous(self) -> dict[Node, list[int]]:
        """The nodes that meet the requirements, and the records that each releases."""
        most = int(self.suppress * len(self.rows) + NEAR)
        found = {node: self.released(node) for node in self.nodes()}
        return {node: kept for node, kept in found.items() if kept and len(self.rows) - len(kept) <= most}

    def minimal(self) -> list[Node]:
        """The anonymous nodes without a finer anonymous node."""
        every = list(self.anonymous())

        def finer(a: Node, b: Node) -> bool:
            return a != b and all(x <= y for x, y in zip(a, b, strict=True))

        return sorted(node for node in every if not any(finer(other, node) for other in every))

    def best(self, objective: str, among: Sequence[Node] | None = None) -> tuple[Node, float] | None:
        """The best node and its measure; ties go to the lower level of the earlier attribute."""
        sign = -1 if objective == "precision" else 1
        found = self.anonymous()
        values = {
            node: sign * self.measure(node, kept, objective)
            for node, kept in found.items()
            if among is None or node in among
        }
        if not values:
            return None
        least = min(values.values())
        node = min(node for node, value in values.items() if value <= least + NEAR * max(1, abs(least)))
        return node, sign * values[node]
