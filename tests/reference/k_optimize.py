"""Ordered-set partitioning by brute force: every set of cut points, counted record by record."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tests.reference.requirements import passes

NEAR = 1e-9
Cuts = frozenset[tuple[int, Any]]  # the attribute, and the value at which an interval begins


@dataclass(frozen=True)
class Twin:
    """A table with the order of the values of every attribute; None is a missing value, which comes last."""

    rows: list[tuple[Any, ...]]
    orders: list[list[Any]]
    names: list[str]
    require: Sequence[Any]
    suppress: float
    sensitive: list[str]
    classes: list[str]

    def points(self) -> list[tuple[int, Any]]:
        """All values that occur but the first, of the attributes that a requirement covers."""
        covered = {name for r in self.require for name in (r.on or self.names)}
        found = []
        for j, order in enumerate(self.orders):
            values = {row[j] for row in self.rows}
            occurring = [v for v in [*order, None] if v in values]
            found += [(j, v) for v in occurring[1:] if self.names[j] in covered]
        return found

    def cuts(self) -> Iterator[Cuts]:
        points = self.points()
        for n in range(len(points) + 1):
            yield from map(frozenset, combinations(points, n))

    def interval(self, j: int, value: Any, cuts: Cuts) -> int:
        """The number of cuts of an attribute up to a value; a missing value is alone if there is any cut."""
        begins = [v for i, v in cuts if i == j]
        if value is None:
            return -1 if begins else 0
        return sum(v is not None and self.orders[j].index(v) <= self.orders[j].index(value) for v in begins)

    def measure(self, cuts: Cuts, objective: str) -> float | None:
        """The measure of cuts after the suppression of failing groups; None if too many records fail."""
        total = len(self.rows)
        labels = [tuple(self.interval(j, v, cuts) for j, v in enumerate(row)) for row in self.rows]
        kept, changed = list(range(total)), True
        while changed:
            before = len(kept)
            for requirement in self.require:
                groups = defaultdict(list)
                for i in kept:
                    groups[tuple(labels[i][self.names.index(n)] for n in requirement.on or self.names)].append(i)
                everyone = [self.sensitive[i] for i in kept]
                kept = sorted(i for g in groups.values() if self._passes(requirement, g, everyone) for i in g)
            changed = len(kept) < before
        lost = total - len(kept)
        if not kept or lost > int(self.suppress * total + NEAR):
            return None
        groups = defaultdict(list)
        for i in kept:
            groups[labels[i]].append(i)
        if objective == "dm":
            return sum(len(g) ** 2 for g in groups.values()) + lost * total
        return (total - sum(max(Counter(self.classes[i] for i in g).values()) for g in groups.values())) / total

    def _passes(self, requirement: Any, group: list[int], everyone: list[str]) -> bool:
        if requirement.of is None:
            return len(group) >= requirement.k
        return bool(passes(requirement, [self.sensitive[i] for i in group], everyone))

    def best(self, objective: str) -> float | None:
        """The least measure of all cuts."""
        values = [self.measure(cuts, objective) for cuts in self.cuts()]
        return min((v for v in values if v is not None), default=None)
