"""What the clustering methods share: a greedy search for clusters, whole or in parts."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.pipeline.clustering import ClusteringInput, suppress_or_merge
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import Grouping
from shoal.requirements import KAnonymity
from shoal.requirements.requirement import parse_whole_number
from shoal.tables.mondrian import Mondrian

LAST, SEED, RANDOM = 0, 1, 2  # the next seed: furthest from the last record, from the last seed, or a random one
PICKED, CLUSTERS, REMAINING, FROM, LIVING = range(5)
CALLS = 100  # how often a long search comes back to say how far it is

Tell = Callable[[int], None]


@dataclass(frozen=True)
class Aims:
    """What is penalized: rows (column, first and last code in the histogram, whether it is the class), each with its price.

    ``grave`` says by place in the histogram which values must not be shared by a whole cluster.
    """

    columns: Int64Array
    price: FloatArray
    grave: BoolArray

    @classmethod
    def none(cls) -> Aims:
        """Nothing."""
        return cls(np.zeros((0, 4), np.int64), np.zeros(0), np.zeros(0, bool))


@dataclass(frozen=True)
class Search:
    """A greedy search for clusters: how seeds are chosen, whether clusters grow, what is penalized."""

    mode: int
    growing: bool
    aims: Aims

    def run(self, records: ClusteringInput, rng: np.random.Generator, tell: Tell) -> tuple[Int32Array, Int32Array]:
        """The cell and the cluster of every record; -1 where no cluster takes it. Those that had to be given up come last."""
        total, k = records.total, records.k
        start = int(rng.integers(total)) if self.mode != RANDOM else 0
        state = np.array([0, 0, total, np.searchsorted(np.cumsum(records.count), start, side="right"), 0], np.int64)
        most = total // k + 1
        chance = deepcopy(rng).random(most) if self.mode == RANDOM else np.zeros(0)
        picks, starts, loose = np.empty(total, np.int32), np.zeros(most + 1, np.int64), np.zeros(most, bool)
        count = records.count.copy()
        self._grow(records, count, state, chance, (picks, starts, loose), tell)
        clusters = int(state[CLUSTERS])
        if self.mode == RANDOM:
            rng.random(clusters)
        starts[clusters] = state[PICKED]
        rest = np.repeat(np.arange(len(count), dtype=np.int32), count)
        picks[state[PICKED] :] = rest
        group = np.full(total, -1, np.int32)
        made = ~loose[:clusters]
        group[: state[PICKED]] = np.repeat(
            np.where(made, np.cumsum(made) - 1, -1).astype(np.int32), np.diff(starts[: clusters + 1])
        )
        left = np.concatenate([np.arange(state[PICKED], total), np.flatnonzero(group[: state[PICKED]] < 0)])
        records.place_leftovers(picks, group, left, rng)
        lost = np.flatnonzero(group[: state[PICKED]] < 0)  # those of one cluster stay together
        _, together = np.unique(np.searchsorted(starts[1 : clusters + 1], lost, side="right"), return_inverse=True)
        group[lost] = group.max(initial=-1) + 1 + together
        tell(total)
        return picks, group

    def _grow(
        self,
        records: ClusteringInput,
        count: Int64Array,
        state: Int64Array,
        chance: FloatArray,
        out: tuple[NDArray[Any], ...],
        tell: Tell,
    ) -> None:
        """Make clusters until fewer than k records are left; the forest is planted anew as the records grow fewer."""
        near = kernels.neighbours
        weight, ints, floats = records.loss_tables
        begin, room = near.tables(records.rows.shape[1], ints)
        aims = (self.aims.columns, self.aims.price, self.aims.grave, begin, room)
        planted, forests = -1, ((), ())
        while state[REMAINING] >= records.k:
            if 2 * state[LIVING] < planted or planted < 0:
                cells = np.flatnonzero(count).astype(np.int32)
                one, labelled = np.zeros(len(count), np.int32), cells[: None if records.sensitive.shape[1] else 0]
                forests = tuple(
                    near.plant(records.rows, of, records.keyed_rank, label, labels, weight, ints, floats)
                    for of, label, labels in ((cells, one, 1), (labelled, records.label, len(records.sensitive)))
                )
                state[LIVING] = planted = len(cells)
            kernels.kmember.grow(
                state,
                max(1, records.total // records.k // CALLS),
                planted,
                (records.k, self.mode, self.growing),
                chance,
                (records.rows, count, records.label, records.sensitive, records.offset),
                forests,
                aims,
                records.limits,
                records.loss_tables,
                out,
            )
            tell(int(state[PICKED]))


def cluster_cells(
    codes: Codes,
    policy: Policy,
    records: ClusteringInput,
    search: Search,
    part: int | None,
    rng: np.random.Generator,
    progress: Progress,
) -> Grouping:
    """The clusters that a search finds, once all of them meet the requirement."""
    progress("clustering", 0, codes.records)
    if part is None:
        cell, group = search.run(records, rng, lambda done: progress("clustering", done, codes.records))
    else:
        cell, group = cluster_partitions(
            codes,
            policy,
            part,
            lambda cells, chance, tell: search.run(records.select_cells(cells), chance, tell),
            rng,
            progress,
        )
    return Grouping.from_records(codes, cell, suppress_or_merge(records, policy, cell, group))


def cluster_partitions(
    codes: Codes,
    policy: Policy,
    part: int,
    search: Callable[[Int64Array, np.random.Generator, Tell], tuple[Int32Array, Int32Array]],
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Int32Array, Int32Array]:
    """Search each part of a coarse Mondrian on its own, on all cores; the groups of all, numbered one behind the other.

    Every part has at least ``part`` records and meets the requirement.
    """
    coarse = policy.model_copy(
        update={"require": (*policy.require, KAnonymity(min(parse_whole_number(part, "part", 1), codes.records)))}
    )
    cut = Mondrian(coarse).decide(codes, rng=rng, progress=progress)
    number = cut.placement.group
    order = np.argsort(number, kind="stable")
    parts = np.split(order, np.searchsorted(number[order], np.arange(1, len(cut.lo))))
    done, turn = np.zeros(len(parts), np.int64), Lock()

    def one(at: int) -> tuple[Int32Array, Int32Array]:
        def tell(placed: int) -> None:
            with turn:
                done[at] = placed
                progress("clustering", int(done.sum()), codes.records)

        cell, group = search(parts[at], chances[at], tell)
        return parts[at][cell].astype(np.int32), group

    chances = rng.spawn(len(parts))
    found = threads.each(one, range(len(parts)))
    sizes = np.concatenate(([0], np.cumsum([group.max(initial=-1) + 1 for _, group in found])))
    groups = [np.where(group < 0, -1, group + sizes[i]) for i, (_, group) in enumerate(found)]
    return np.concatenate([cell for cell, _ in found]), np.concatenate(groups).astype(np.int32)
