"""Greedy k-member clustering and its k-nearest kin, slow and obvious: every record is tried at every step.

After J.-W. Byun, A. Kamra, E. Bertino, N. Li, "Efficient k-anonymization using clustering techniques", Figure 8 and
sections 5.1 and 5.2. A record is a tuple (codes, secrets), told by its place in the list; equal records lie side by side, and
all ties go to the record with the smaller turn or the earlier cluster. ``losses[j](lo, hi)`` is the loss of an interval of
attribute j, its weight included, ``fits(records)`` whether a group may exist, and ``shortfall(records)`` how far it is from
that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Record = tuple[tuple[int, ...], tuple[int, ...]]
Loss = Callable[[int, int], float]
Rank = tuple[float, ...]

TINY = 1e-12  # a shortfall that falls by less has not fallen


class Chance(Protocol):
    """As much of a random generator as is asked for."""

    def integers(self, high: int, /) -> int: ...

    def random(self, count: int | None = None, /) -> object: ...


@dataclass(frozen=True)
class Table:
    """The records, and what is asked of their clusters.

    ``target(record)`` is a record's class; ``sensitive`` has the places of the sensitive columns among the secrets, ``truly``
    the codes of each that do harm. Without ``diversity`` no record is penalized for repeating a value.
    """

    records: Sequence[Record]
    losses: Sequence[Loss]
    k: int
    fits: Callable[[Sequence[Record]], bool]
    shortfall: Callable[[Sequence[Record]], float] = lambda records: 0.0
    furthest: str = "last"
    target: Callable[[Record], int] | None = None
    target_penalty: float = 0.0
    diversity: str | None = None
    diversity_penalty: float = 1.0
    sensitive: Sequence[int] = ()
    truly: Mapping[int, set[int]] = field(default_factory=dict)
    relative: bool = False
    suppress: float = 0.0
    turns: Sequence[int] = ()

    def turn(self, i: int) -> tuple[int, int]:
        """The place of a record among equals: its own place unless turns are given."""
        return (self.turns[i] if self.turns else 0), i

    def of(self, members: Sequence[int]) -> list[Record]:
        return [self.records[i] for i in members]

    def meets(self, members: Sequence[int]) -> bool:
        return self.fits(self.of(members))

    def lacks(self, members: Sequence[int]) -> float:
        return self.shortfall(self.of(members))

    def extent(self, members: Sequence[int]) -> float:
        """D: the loss of the box around some records; of two, their distance."""
        total = 0.0
        for j, loss in enumerate(self.losses):
            codes = [self.records[i][0][j] for i in members]
            total += loss(min(codes), max(codes))
        return total

    def loss(self, members: Sequence[int]) -> float:
        """IL: the records times D."""
        return len(members) * self.extent(members)

    def penalty(self, cluster: Sequence[int], i: int) -> float:
        """What is added for a record of another class, and for one that repeats what a cluster already gives away."""
        total = 0.0
        if self.target is not None and self.target(self.records[i]) != majority(map(self.target, self.of(cluster))):
            total += self.target_penalty
        for column in self.sensitive if self.diversity is not None else ():
            values = [secrets[column] for _, secrets in self.of(cluster)]
            common = majority(values)
            harmful = self.diversity == "equal" or common in self.truly.get(column, set())
            if len(set(values)) == 1 and harmful and self.records[i][1][column] == common:
                total += self.diversity_penalty
        return total

    def by_cluster(self, cluster: Sequence[int], i: int) -> Rank:
        """How k-member ranks a record: by the loss of the cluster with it."""
        extent = self.extent([*cluster, i])
        return (len(cluster) + 1) * extent + self.penalty(cluster, i), extent, *self.turn(i)

    def by_seed(self, cluster: Sequence[int], i: int) -> Rank:
        """How k-nearest ranks a record: by its distance from the cluster's first."""
        return self.extent([cluster[0], i]), *self.turn(i)


@dataclass(frozen=True)
class Clusters:
    """The clusters and the suppressed records, by their places."""

    clusters: list[list[int]]
    suppressed: list[int]

    def groups(self, records: Sequence[Record]) -> list[list[Record]]:
        """The clusters as sorted lists of sorted records."""
        return sorted(sorted(records[i] for i in cluster) for cluster in self.clusters)


def majority(values: object) -> int:
    """The most frequent value; of several the smallest."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def grown(table: Table, seed: int, remaining: list[int], rank: Callable[[Sequence[int], int], Rank]) -> list[int]:
    """A cluster around a seed, first of k records, then of as many as the requirement needs; they leave ``remaining``."""
    remaining.remove(seed)
    cluster = [seed]
    while len(cluster) < table.k:
        take(cluster, remaining, remaining, rank)
    while not table.meets(cluster):
        lacks = table.lacks(cluster)
        helpful = [i for i in remaining if lacks - table.lacks([*cluster, i]) > TINY]
        if not helpful:
            break
        take(cluster, remaining, helpful, rank)
    return cluster


def take(
    cluster: list[int], remaining: list[int], among: Sequence[int], rank: Callable[[Sequence[int], int], Rank]
) -> None:
    best = min(among, key=lambda i: rank(cluster, i))
    remaining.remove(best)
    cluster.append(best)


def kmember(table: Table, rng: Chance) -> Clusters:
    """Figure 8: the next seed is the record furthest from the one taken last, or from the last seed."""
    remaining = list(range(len(table.records)))
    clusters: list[list[int]] = []
    loose: list[list[int]] = []
    start = int(rng.integers(len(table.records)))
    while len(remaining) >= table.k:
        seed = min(remaining, key=lambda i: (-table.extent([start, i]), *table.turn(i)))
        cluster = grown(table, seed, remaining, table.by_cluster)
        start = seed if table.furthest == "seed" else cluster[-1]
        if table.meets(cluster):
            clusters.append(cluster)
        else:
            loose.append(cluster)
    return settled(table, clusters, remaining, loose, rng)


def nearest(table: Table, rng: Chance) -> Clusters:
    """A random record with the k - 1 nearest to it, again and again."""
    remaining = list(range(len(table.records)))
    clusters: list[list[int]] = []
    loose: list[list[int]] = []
    while len(remaining) >= table.k:
        seed = remaining[int(rng.random() * len(remaining))]
        cluster = grown(table, seed, remaining, table.by_seed)
        if table.meets(cluster):
            clusters.append(cluster)
        else:
            loose.append(cluster)
    return settled(table, clusters, remaining, loose, rng)


def settled(
    table: Table, clusters: list[list[int]], remaining: list[int], loose: list[list[int]], rng: Chance
) -> Clusters:
    """Leftovers go to the clusters that they cost least; those that fit nowhere are suppressed, or clusters are merged.

    What fits nowhere stays with those of its cluster, or alone where it had none, numbered behind the others.
    """
    left = remaining + [i for cluster in loose for i in cluster]
    homeless = [*loose, *([i] for i in remaining)]
    for chance in list(rng.random(len(left))):
        record = left.pop(int(chance * len(left)))
        open_to = [c for c in clusters if table.meets([*c, record])]
        if open_to:
            min(open_to, key=lambda c: table.loss([*c, record]) - table.loss(c)).append(record)
            homeless = [[i for i in together if i != record] for together in homeless]
    numbered = [*clusters, *(together for together in homeless if together)]
    failing = [c for c in numbered if not table.meets(c)]
    lost = [i for c in failing for i in c]
    allowed = int(table.suppress * len(table.records) + 1e-9)
    if not table.relative and len(lost) <= allowed and len(lost) < len(table.records):
        return Clusters([c for c in numbered if c not in failing], lost)
    return Clusters(merged(table, numbered), [])


def merged(table: Table, clusters: Sequence[list[int]]) -> list[list[int]]:
    """Join what fails with what it costs least to join it with, until all meet the requirement or all are one."""
    numbered = dict(enumerate(clusters))
    while len(numbered) > 1:
        failing = [a for a in numbered if not table.meets(numbered[a])]
        if not failing:
            break
        a = min(failing)
        one = numbered[a]
        others = [b for b in numbered if b != a]
        enough = [b for b in others if table.meets([*one, *numbered[b]])]

        def cost(b: int, one: list[int] = one) -> Rank:
            other = numbered[b]
            return table.loss([*one, *other]) - table.loss(one) - table.loss(other), b

        b = min(enough or others, key=cost)
        union = [*one, *numbered[b]]
        del numbered[a], numbered[b]
        numbered[min(a, b)] = union
    return list(numbered.values())
