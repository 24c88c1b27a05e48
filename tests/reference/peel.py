"""Peeling, slow and obvious: every round groups all remaining records by every node of the lattice.

For requirements on sizes every node is tried in every round. For others the twin keeps the same estimates as the method: the
records that a node could release, and its least loss, when it was tried last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

from shoal.encoding.attributes import Attribute
from tests.reference.losses import interval_loss

TIE = 1e-12
Record = tuple[int, ...]
Level = dict[int, tuple[int, int]]  # the first and the last code of the value of every code


def list_levels(attribute: Attribute, codes: Sequence[int]) -> list[Level]:
    """The levels of an attribute from its values to its root; ``codes`` are those of all records."""
    size = len(attribute.position)
    values: Level = {c: (c, c) for c in range(size)}
    root: Level = dict.fromkeys(range(size), (0, size - 1))
    quantiles = () if attribute.taxonomy is not None else _list_quantiles(attribute, codes)
    levels = _list_steps(attribute) if attribute.taxonomy is not None else [values, *quantiles, root]
    return [level for place, level in enumerate(levels) if place == 0 or level != levels[place - 1]]


def _list_quantiles(attribute: Attribute, codes: Sequence[int]) -> list[Level]:
    numbers = [c for c in range(len(attribute.position)) if math.isfinite(attribute.position[c])]
    count = Counter(codes)
    total = sum(count[c] for c in numbers)
    levels = []
    for intervals in (32, 16, 8, 4, 2):
        if len(numbers) > intervals:
            before, number = 0, {}
            for code in numbers:
                number[code] = before * intervals // total
                before += count[code]
            level: Level = {c: (c, c) for c in range(len(attribute.position))}
            for code in numbers:
                same = [c for c in numbers if number[c] == number[code]]
                level[code] = min(same), max(same)
            levels.append(level)
    return levels


def _list_steps(attribute: Attribute) -> list[Level]:
    tree = attribute.taxonomy
    assert tree is not None

    def path(code: int) -> list[int]:
        """The nodes over a leaf, from the root."""
        return [n for n in range(len(tree.label)) if tree.lo[n] <= code <= tree.hi[n]]

    paths = {code: path(code) for code in range(tree.hi[0] + 1)}
    deepest = max(map(len, paths.values()))
    levels = []
    for steps in range(deepest - 1, -1, -1):
        node = {code: way[min(steps, len(way) - 1)] for code, way in paths.items()}
        levels.append({code: (int(tree.lo[n]), int(tree.hi[n])) for code, n in node.items()})
    return levels


@dataclass
class Twin:
    """The records (codes of all attributes), and how a group of records is tested.

    ``passes`` takes the numbers of the records of a group. ``exact``: only sizes count.
    """

    attributes: Sequence[Attribute]
    records: Sequence[Record]
    passes: Callable[[Sequence[int]], bool]
    exact: bool
    least: int
    step: float = 0.01
    objective: str = "ncp"
    weights: Sequence[float] = ()
    spread: float = math.inf
    rounds: list[tuple[tuple[int, ...], list[list[int]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        columns = list(zip(*self.records, strict=True))
        self.levels = [list_levels(a, column) for a, column in zip(self.attributes, columns, strict=True)]
        self.weight = [w / (max(self.weights) or 1.0) for w in self.weights] or [1.0] * len(self.attributes)
        nodes = list(product(*(range(len(levels)) for levels in self.levels)))
        self.start = {
            node: sum(
                min(self.rate(j, node[j], code) for code in column)
                for j, column in enumerate(map(sorted, map(set, columns)))
            )
            for node in nodes
        }
        self.nodes = sorted(nodes, key=lambda node: (self.start[node], node))

    def rate(self, j: int, level: int, code: int) -> float:
        """The weighted loss of a value."""
        lo, hi = self.levels[j][level][code]
        if level == 0 and self.attributes[j].taxonomy is None:
            return 0.0
        return self.weight[j] * interval_loss(self.attributes[j], lo, hi, self.objective)

    def group(self, node: tuple[int, ...], left: Sequence[int]) -> list[list[int]]:
        """The groups of a node that pass."""
        groups: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for i in left:
            value = tuple(self.levels[j][node[j]][code] for j, code in enumerate(self.records[i]))
            groups.setdefault(value, []).append(i)
        return [group for group in groups.values() if len(group) >= self.least and self.passes(group)]

    def loss(self, node: tuple[int, ...], group: Sequence[int]) -> float:
        """The loss of each record of a group."""
        return sum(self.rate(j, node[j], code) for j, code in enumerate(self.records[group[0]]))

    def run(self) -> list[int]:
        """Publish groups in rounds; return the records that are left."""
        left = list(range(len(self.records)))
        any_number = self.step == 0
        count, bound = dict.fromkeys(self.nodes, math.inf), dict(self.start)
        while left:
            need = 1 if any_number else max(1, math.ceil(self.step * len(left) - 1e-9))
            chosen = self.choose(left, need, count, bound)
            if chosen is None and not any_number:
                any_number = True
                count, bound = dict.fromkeys(self.nodes, math.inf), dict(self.start)
                chosen = self.choose(left, 1, count, bound)
            if chosen is None:
                break
            groups = self.group(chosen, left)
            losses = [self.loss(chosen, group) for group in groups]
            mean = sum(len(g) * loss for g, loss in zip(groups, losses, strict=True)) / sum(map(len, groups))
            most = math.inf if self.spread == math.inf else mean * (1 + self.spread) + TIE
            groups = [group for group, loss in zip(groups, losses, strict=True) if loss <= most]
            self.rounds.append((chosen, groups))
            published = {i for group in groups for i in group}
            left = [i for i in left if i not in published]
        return left

    def choose(
        self,
        left: Sequence[int],
        need: int,
        count: dict[tuple[int, ...], float],
        bound: dict[tuple[int, ...], float],
    ) -> tuple[int, ...] | None:
        """The node with the least mean loss; ties go to the earlier node."""
        best, chosen = math.inf, None
        place = {node: i for i, node in enumerate(self.nodes)}
        tried = self.nodes if self.exact else sorted(self.nodes, key=lambda node: (bound[node], place[node]))
        for node in tried:
            if not self.exact and count[node] < need:
                continue
            if not self.exact and bound[node] > best + TIE:
                break
            groups = self.group(node, left)
            records = sum(map(len, groups))
            losses = [self.loss(node, group) for group in groups]
            if not self.exact:
                count[node], bound[node] = records, max(bound[node], min(losses, default=math.inf))
            if records >= need:
                mean = sum(len(g) * loss for g, loss in zip(groups, losses, strict=True)) / records
                if mean < best - TIE or (mean <= best + TIE and chosen is not None and place[node] < place[chosen]):
                    best, chosen = mean, node
        return chosen
