"""The lattice of levels: every node has one level of generalization per attribute.

Level 0 of an attribute has its values, the last level its root. The values of a level are unions of values of the level below.
The nodes of a lattice are numbered, and `Lattice.evaluate` counts the groups of some nodes on all cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from shoal import kernels, threads
from shoal.arrays import FloatArray, Int32Array, Int64Array, UInt64Array
from shoal.encoding.attributes import Attribute, rate_nodes
from shoal.encoding.codes import Codes
from shoal.kernels.interface import LatticeLevels, LatticeTable, PublishedBoxes
from shoal.policy import Policy
from shoal.recoding.grouping import AttributeCut
from shoal.specialization.attribute_sets import AttributeSet, SetCombinations
from shoal.tables.levels import list_cuts

MOST_NODES = 20_000  # larger lattices get fewer levels
LARGEST_KEY = 2**63
NO_BOXES = PublishedBoxes(np.zeros((0, 0), np.int32), np.zeros(1, np.int64), np.zeros(0, np.int32))
PARALLEL_MINIMUM = 8_192  # nodes x rows; fewer are evaluated by one thread, sooner than another thread can begin


@dataclass(frozen=True)
class Level:
    """One level of an attribute: the value of every code, as consecutive numbers, and its loss."""

    value: Int32Array
    loss: FloatArray

    @property
    def values(self) -> int:
        """The number of values."""
        return int(self.value.max(initial=0)) + 1


def list_levels(attribute: Attribute, records: Int64Array, objective: str) -> tuple[Level, ...]:
    """The levels of an attribute, from its values to its root; ``records`` has the number of records of every code.

    The levels are those of `list_cuts`. A level that has the values of the level before is omitted.
    """
    kept: list[Level] = []
    for cut in list_cuts(attribute, records):
        level = Level(cut.table(attribute.size), _rate_cut(attribute, cut, objective))
        if not kept or (level.value != kept[-1].value).any():
            kept.append(level)
    return tuple(kept)


def _rate_cut(attribute: Attribute, cut: AttributeCut, objective: str) -> FloatArray:
    """The loss of every code."""
    interval = cut.table(attribute.size)
    if cut.node is not None:
        return rate_nodes(attribute, objective)[cut.node][interval]
    last = np.append(cut.first[1:], attribute.size).astype(np.int32) - 1
    return attribute.loss(cut.first, last)[interval]


@dataclass(frozen=True)
class Lattice:
    """The nodes of a lattice, and the table whose groups are counted.

    ``chains`` has the attributes that are generalized together: normally one each. ``node[i]`` has the level of every
    attribute in node i. Nodes are sorted by ``bound``, the least loss that a record can have at the node, then by their levels.
    """

    levels: tuple[tuple[Level, ...], ...]
    node: Int32Array
    bound: FloatArray
    arrays: LatticeLevels
    table: LatticeTable
    workers: threads.Workers
    _scratch: list[object] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        codes: Codes,
        policy: Policy,
        weights: FloatArray,
        objective: str,
        workers: threads.Workers,
        *,
        most_nodes: int = MOST_NODES,
    ) -> Lattice:
        """The lattice of a table. Attributes have fewer levels if the lattice would have more than ``most_nodes`` nodes."""
        records = [np.bincount(codes.quasi[:, j], codes.size, minlength=a.size) for j, a in enumerate(codes.attributes)]
        levels = [
            list_levels(a, of_code.astype(np.int64), objective)
            for a, of_code in zip(codes.attributes, records, strict=True)
        ]
        levels, chains = thin_levels(levels, most_nodes)
        return cls.of_nodes(codes, policy, levels, _list_nodes(levels, chains), weights, workers)

    @classmethod
    def of_nodes(
        cls,
        codes: Codes,
        policy: Policy,
        levels: Sequence[Sequence[Level]],
        node: Int32Array,
        weights: FloatArray,
        workers: threads.Workers,
    ) -> Lattice:
        """The lattice with these levels of every attribute, restricted to some nodes: the level of every attribute in each."""
        losses = [
            np.array([(w * level.loss[np.unique(codes.quasi[:, j])]).min(initial=np.inf) for level in of_attribute])
            for j, (w, of_attribute) in enumerate(zip(weights, levels, strict=True))
        ]
        bound = sum((loss[node[:, j]] for j, loss in enumerate(losses)), np.zeros(len(node)))
        order = np.lexsort((*node.T[::-1], bound))
        every = AttributeSet(tuple(policy.quasi), tuple(range(len(levels))), tuple(policy.require))
        combinations = SetCombinations.of_set(codes, every)
        table = LatticeTable(
            combinations.quasi,
            combinations.size,
            combinations.cells,
            combinations.limits.arrays() if combinations.cells.width else None,
            combinations.limits.least,
        )
        arrays = _pack_levels(levels, weights)
        return cls(tuple(map(tuple, levels)), node[order], bound[order], arrays, table, workers)

    def evaluate(
        self, nodes: Int64Array, rows: Int32Array, blocked: PublishedBoxes | None
    ) -> tuple[Int64Array, FloatArray, FloatArray]:
        """For every node, of the given rows: the records in groups that pass, their total loss, the least loss of a group."""
        found = np.zeros((len(nodes), 3))
        tasks = threads.CORES if len(nodes) * len(rows) >= PARALLEL_MINIMUM else 1
        places = [places for places in np.array_split(np.arange(len(nodes)), tasks) if len(places)]

        def work(thread: int) -> None:
            part = np.zeros((len(places[thread]), 3))
            kernels.lattice.evaluate_nodes(
                self.node[nodes[places[thread]]], rows, self.arrays, self.table, blocked, self._memory(thread), part
            )
            found[places[thread]] = part

        for thread in range(len(places)):
            self._memory(thread)
        self.workers.each(work, range(len(places)))
        return found[:, 0].astype(np.int64), found[:, 1], found[:, 2]

    def publish(
        self,
        node: int,
        rows: Int32Array,
        blocked: PublishedBoxes | None,
        most_loss: float,
        number: int,
        group: Int32Array,
    ) -> tuple[int, Int32Array]:
        """Assign the rows of passing groups, up to a loss, to new groups; return their number and the rows that are left."""
        levels = self.node[node]
        published = kernels.lattice.publish_node(
            levels, rows, self.arrays, self.table, blocked, most_loss, self._memory(0), number, group
        )
        return int(published), rows[group[rows] < 0]

    def _memory(self, thread: int) -> object:
        while len(self._scratch) <= thread:
            self._scratch.append(kernels.lattice.allocate(*self.table.codes.shape))
        return self._scratch[thread]

    @cached_property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.node)


def thin_levels(
    levels: Sequence[Sequence[Level]], most_nodes: int
) -> tuple[list[tuple[Level, ...]], list[tuple[int, ...]]]:
    """Remove levels until the lattice has at most ``most_nodes`` nodes; return the levels and the chains of attributes.

    The attribute with the most levels loses the middle one (ties: the later attribute). If every attribute has only its values
    and its root, attributes are generalized together: the two chains that have the fewest values together are joined.
    """
    thinned = [tuple(of_attribute) for of_attribute in levels]
    chains: list[tuple[int, ...]] = [(j,) for j in range(len(thinned))]
    while prod(len(thinned[chain[0]]) for chain in chains) > most_nodes:
        most = max(range(len(thinned)), key=lambda j: (len(thinned[j]), j))
        if len(thinned[most]) > 2:
            middle = len(thinned[most]) // 2
            thinned[most] = thinned[most][:middle] + thinned[most][middle + 1 :]
            continue
        wide = sorted(
            (c for c in chains if len(thinned[c[0]]) == 2), key=lambda c: (prod(thinned[j][0].values for j in c), c)
        )
        joined = tuple(sorted(wide[0] + wide[1]))
        chains = sorted([c for c in chains if c not in wide[:2]] + [joined])
    return thinned, chains


def _list_nodes(levels: Sequence[Sequence[Level]], chains: Sequence[Sequence[int]]) -> Int32Array:
    """All nodes: every combination of the levels of the chains."""
    counts = [len(levels[chain[0]]) for chain in chains]
    grid = np.stack(np.unravel_index(np.arange(prod(counts)), counts), axis=1)
    node = np.zeros((len(grid), len(levels)), np.int32)
    for place, chain in enumerate(chains):
        for j in chain:
            node[:, j] = grid[:, place]
    return node


def _pack_levels(levels: Sequence[Sequence[Level]], weights: FloatArray) -> LatticeLevels:
    """The levels as arrays."""
    flat = [level for of_attribute in levels for level in of_attribute]
    first = np.cumsum([0, *(len(of_attribute) for of_attribute in levels)])[:-1]
    begin = np.cumsum([0, *(len(level.value) for level in flat)])[:-1]
    loss = [w * level.loss for w, of_attribute in zip(weights, levels, strict=True) for level in of_attribute]
    return LatticeLevels(
        first.astype(np.int64),
        begin.astype(np.int64),
        number_words([[level.value for level in of_attribute] for of_attribute in levels]),
        np.concatenate([np.zeros(0), *loss]),
    )


def number_words(values: Sequence[Sequence[Int32Array]]) -> UInt64Array:
    """The words of all codes, by attribute and level: the places of one number if it fits in 63 bits, otherwise random."""
    sizes = [int(of_attribute[0].max(initial=0)) + 1 for of_attribute in values]
    place = [prod(sizes[:j]) for j in range(len(sizes))]
    exact = prod(sizes) < LARGEST_KEY
    draw = np.random.default_rng(0)
    words: list[UInt64Array] = []
    for j, of_attribute in enumerate(values):
        for value in of_attribute:
            random = draw.integers(2**64, size=int(value.max(initial=0)) + 1, dtype=np.uint64)
            words.append(value.astype(np.uint64) * np.uint64(place[j]) if exact else random[value])
    return np.concatenate([np.zeros(0, np.uint64), *words])
