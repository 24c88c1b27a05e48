"""The greedy search of the clustering methods, for a whole table or for its partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from threading import Lock

import numpy as np

from shoal import kernels, threads
from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.kernels.interface import (
    CLUSTERS,
    NONEMPTY,
    PICKED,
    RANDOM,
    REMAINING,
    ClusterBox,
    ClusterCells,
    ClusterOutput,
    ClusterRules,
    Forest,
    LabelSearch,
    Penalties,
)
from shoal.pipeline.clustering import ClusteringInput, suppress_or_merge
from shoal.policy import Policy
from shoal.progress import CountProgress, Progress
from shoal.recoding.grouping import Grouping
from shoal.requirements import KAnonymity
from shoal.requirements.requirement import parse_whole_number
from shoal.tables.mondrian import Mondrian

REPORTS = 100  # progress reports of a long search


@dataclass(frozen=True)
class ClusterSearch:
    """A greedy search for clusters: the choice of seeds, whether the box grows with its cluster, the penalties."""

    mode: int
    box_grows: bool
    penalties: Penalties

    def run(
        self, records: ClusteringInput, rng: np.random.Generator, report: CountProgress
    ) -> tuple[Int32Array, Int32Array]:
        """The cell and the cluster of every record; -1 if no cluster takes it. Clusters that fail the requirement come last."""
        total, k = records.total, records.k
        start = int(rng.integers(total)) if self.mode != RANDOM else 0
        state = np.array([0, 0, total, np.searchsorted(np.cumsum(records.count), start, side="right"), 0], np.int64)
        most = total // k + 1
        draws = deepcopy(rng).random(most) if self.mode == RANDOM else np.zeros(0)
        picks, starts, failed = np.empty(total, np.int32), np.zeros(most + 1, np.int64), np.zeros(most, bool)
        count = records.count.copy()
        self._grow_clusters(records, count, state, draws, ClusterOutput(picks, starts, failed), report)
        clusters = int(state[CLUSTERS])
        if self.mode == RANDOM:
            rng.random(clusters)
        starts[clusters] = state[PICKED]
        rest = np.repeat(np.arange(len(count), dtype=np.int32), count)
        picks[state[PICKED] :] = rest
        group = np.full(total, -1, np.int32)
        passing = ~failed[:clusters]
        group[: state[PICKED]] = np.repeat(
            np.where(passing, np.cumsum(passing) - 1, -1).astype(np.int32), np.diff(starts[: clusters + 1])
        )
        left = np.concatenate([np.arange(state[PICKED], total), np.flatnonzero(group[: state[PICKED]] < 0)])
        records.place_leftovers(picks, group, left, rng)
        ungrouped = np.flatnonzero(group[: state[PICKED]] < 0)  # the records of a failed cluster stay together
        _, together = np.unique(np.searchsorted(starts[1 : clusters + 1], ungrouped, side="right"), return_inverse=True)
        group[ungrouped] = group.max(initial=-1) + 1 + together
        report(total)
        return picks, group

    def _grow_clusters(
        self,
        records: ClusteringInput,
        count: Int64Array,
        state: Int64Array,
        draws: FloatArray,
        out: ClusterOutput,
        report: CountProgress,
    ) -> None:
        """Make clusters until fewer than k records are left; rebuild the forests when half of their cells are used up."""
        rules = ClusterRules(records.k, self.mode, self.box_grows, self.penalties, records.limits, records.loss_tables)
        sums = _build_fenwick_tree(count) if self.mode == RANDOM else np.zeros(0, np.int64)
        cells_left = ClusterCells(records.rows, count, records.label, records.sensitive, records.offset, sums)
        box = ClusterBox.allocate(records.loss_tables)
        indexed_cells, forest, labels = -1, None, None
        while state[REMAINING] >= records.k:
            if 2 * state[NONEMPTY] < indexed_cells or indexed_cells < 0:
                cells = np.flatnonzero(count)
                forest = _build_forest(records, cells, np.zeros_like(records.label), 1)
                if records.tests_values:
                    labelled = _build_forest(records, cells, records.label, len(records.sensitive))
                    width = int(records.offset[-1])
                    labels = LabelSearch(labelled, np.zeros(width, np.int64), np.zeros(width))
                state[NONEMPTY] = indexed_cells = len(cells)
            kernels.kmember.grow_clusters(
                state,
                max(1, records.total // records.k // REPORTS),
                indexed_cells,
                None if self.mode == RANDOM else True,
                draws if self.mode == RANDOM else None,
                cells_left,
                forest,
                labels,
                rules,
                box,
                out,
            )
            report(int(state[PICKED]))


def _build_forest(records: ClusteringInput, cells: Int64Array, label: Int32Array, labels: int) -> Forest:
    """A forest over some cells, with a tree for every label."""
    forest = Forest.allocate(cells, label, labels, records.keyed_rank, records.rows.shape[1])
    kernels.neighbours.build_forest(records.rows, forest, records.loss_tables)
    return forest


def _build_fenwick_tree(count: Int64Array) -> Int64Array:
    """The sums of the last i & -i counts up to count i - 1, by i."""
    before = np.concatenate(([0], np.cumsum(count)))
    i = np.arange(len(before))
    return before - before[i - (i & -i)]


def cluster_cells(
    codes: Codes,
    policy: Policy,
    records: ClusteringInput,
    search: ClusterSearch,
    part: int | None,
    rng: np.random.Generator,
    progress: Progress,
) -> Grouping:
    """Run a search, then suppress or merge the clusters that fail the requirement."""
    progress("clustering", 0, codes.records)
    if part is None:
        cell, group = search.run(records, rng, lambda done: progress("clustering", done, codes.records))
    else:
        cell, group = cluster_partitions(
            codes,
            policy,
            part,
            lambda cells, generator, report: search.run(records.select_cells(cells), generator, report),
            rng,
            progress,
        )
    return Grouping.from_records(codes, cell, suppress_or_merge(records, policy, cell, group))


def cluster_partitions(
    codes: Codes,
    policy: Policy,
    part: int,
    search: Callable[[Int64Array, np.random.Generator, CountProgress], tuple[Int32Array, Int32Array]],
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Int32Array, Int32Array]:
    """Search each partition of a coarse Mondrian on its own, on all cores; number the groups of all partitions consecutively.

    Every partition has at least ``part`` records and meets the requirement.
    """
    coarse = policy.model_copy(
        update={"require": (*policy.require, KAnonymity(min(parse_whole_number(part, "part", 1), codes.records)))}
    )
    cut = Mondrian(coarse).decide(codes, rng=rng, progress=progress)
    number = cut.placement.group
    order = np.argsort(number, kind="stable")
    partitions = np.split(order, np.searchsorted(number[order], np.arange(1, len(cut.lo))))
    return search_partitions(partitions, search, rng, lambda done: progress("clustering", done, codes.records))


def search_partitions(
    partitions: Sequence[Int64Array],
    search: Callable[[Int64Array, np.random.Generator, CountProgress], tuple[Int32Array, Int32Array]],
    rng: np.random.Generator,
    report_all: CountProgress,
) -> tuple[Int32Array, Int32Array]:
    """Search each partition, given as its cells, on all cores; number the groups of all partitions consecutively."""
    done, lock = np.zeros(len(partitions), np.int64), Lock()

    def search_partition(at: int) -> tuple[Int32Array, Int32Array]:
        def report(placed: int) -> None:
            with lock:
                done[at] = placed
                report_all(int(done.sum()))

        cell, group = search(partitions[at], generators[at], report)
        return partitions[at][cell].astype(np.int32), group

    generators = rng.spawn(len(partitions))
    found = threads.each(search_partition, range(len(partitions)))
    sizes = np.concatenate(([0], np.cumsum([group.max(initial=-1) + 1 for _, group in found])))
    groups = [np.where(group < 0, -1, group + sizes[i]) for i, (_, group) in enumerate(found)]
    return np.concatenate([cell for cell, _ in found]), np.concatenate(groups).astype(np.int32)
