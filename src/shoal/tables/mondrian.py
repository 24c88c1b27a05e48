"""Mondrian (LeFevre, DeWitt, Ramakrishnan: Mondrian multidimensional k-anonymity; survey in Byun et al., section 3.2).

Records are cut in two recursively until no cut leaves two groups that meet the requirement. Each group is published as the
smallest box around it. A cut is chosen by the loss, by the number of records, or by the information gain on a target.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import LossTables
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, list_choices
from shoal.kernels.interface import (
    GAIN,
    MEDIAN,
    RELAXED,
    STEP_BYTES,
    TARGET,
    SplitCells,
    SplitCriteria,
    SplitLosses,
    SplitRows,
)
from shoal.pipeline.method import CommonParameters, GroupingMethod, Need
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import Placement
from shoal.recoding.grouping import Grouping, Regions, SplitTree
from shoal.requirements import combine_limits
from shoal.specialization.trees import list_classes

CUTS = ("gain", "median", "target")
PIECE = 16_384  # segments of up to this many rows are cut completely by one task


class Mondrian(GroupingMethod):
    """Cut the table into boxes, each of which meets the requirement.

    Parameters
    ----------
    policy : the policy
    cut : ``gain`` chooses, among all cuts of all attributes that keep the requirement, the one with the largest decrease of
        records x NCP, summed over all attributes after both sides are tightened; ``median`` the most balanced cut of the widest
        attribute, or of the next widest if that cut is not allowed; ``target``, among the same cuts as ``gain``, the one with
        the least entropy of the policy's target on both sides, weighted by their records. If no cut has an information gain
        (1e-9 bits per record), ``target`` chooses as ``gain``, so that groups of one class are cut further
    relaxed : with ``median``, divide records that share the median value, so that both halves are equally large; by a hash that
        is keyed by the secret seed of the release
    weights : the weight of each attribute, by column (default: 1). It multiplies the attribute's loss in ``gain``, also if
        ``target`` falls back on ``gain``, and its width in ``median``. Only proportions count. An attribute of weight 0 is not
        cut for its own sake, but still published as tightly as its group allows. On a command line: ``age=2,zip=0.5``
    common : ``write``, ``objective``, ``improve`` and others, as for every method; see `GroupingMethod`

    The loss of an interval is its width over the attribute's whole width for numbers, the source values under the lowest node
    that covers it for taxonomies, and the number of values in it for categories without a taxonomy. Ties: the earlier
    attribute in the policy, then the smaller code; the information gains of two cuts are equal up to 1e-9 bits per record.

    The boxes are a local recoding: one value may be published in different ways in different groups. With weights, ``gain``
    lowers the weighted certainty penalty of Xu et al.

    Guarantee
    ---------
    Every box meets every requirement of the policy, also requirements on fewer attributes, since their groups are unions of
    boxes. The release is the same for the same records in any order and on any number of threads; with ``relaxed`` it also
    depends on the secret seed. If the target is a sensitive attribute as well, cuts for the target drive the groups towards one
    value of it: require l-diversity or t-closeness.

    References
    ----------
    LeFevre, DeWitt, Ramakrishnan: Mondrian multidimensional k-anonymity. ICDE 2006; Workload-aware anonymization. KDD 2006.
    Xu, Wang, Pei, Wang, Shi, Fu: Utility-based anonymization using local recoding. KDD 2006.
    """

    name: ClassVar[str] = "mondrian"
    cuts: ClassVar[bool] = True
    summary: ClassVar[str] = "splits the table into boxes by the lowest information loss, at medians, or for a target"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {},
        {"cut": "median"},
        {"cut": "median", "relaxed": True},
        {"cut": "target"},
        {"ends": "cut"},
        {"cut": "median", "relaxed": True, "ends": "cut"},
        {"improve": True},
    )
    column_examples: ClassVar[Mapping[str, Any]] = {"weights": 2}

    def __init__(
        self,
        policy: Policy,
        *,
        cut: str = "gain",
        relaxed: bool = False,
        weights: Mapping[str, float] | str | None = None,
        **common: Unpack[CommonParameters],
    ) -> None:
        super().__init__(policy, **common)
        self.cut = cut
        self.relaxed = relaxed
        self.weights = weights

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """The target, if cuts depend on it."""
        return frozenset({"target"}) if parameters.get("cut") == "target" else frozenset()

    def extra_columns(self) -> tuple[str, ...]:
        """The target, if cuts depend on it."""
        return (self.policy.target,) if self.cut == "target" and self.policy.target is not None else ()

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The boxes; ``rng`` is not used."""
        if self.cut not in CUTS:
            raise PolicyError(f"unknown value {self.cut!r} for 'cut'; {list_choices(self.cut, CUTS)}")
        self.refuse_non_monotone()
        if not isinstance(self.relaxed, bool):
            raise PolicyError(f"relaxed must be true or false, not {self.relaxed!r}")
        if self.relaxed and self.cut != "median":
            raise PolicyError(
                "relaxed=True divides the records at the median and needs cut='median'; set cut='median' or leave 'relaxed' out"
            )
        if self.cut == "target" and self.policy.target is None:
            raise PolicyError(
                "cut='target' needs a target column; name it as 'target' in the policy, or use cut='gain'"
            )
        mode = RELAXED if self.relaxed else {"gain": GAIN, "median": MEDIAN, "target": TARGET}[self.cut]
        ordered, number = codes.sort_by_key() if self.relaxed else (codes, np.zeros(0, np.int64))
        search = _CutSearch.of(ordered, self.policy, mode, self.attribute_weights(codes), self.objective)
        tree, ref = _join_trees(search.cut_all(progress), len(search.rows.ref)), search.rows.ref
        regions = _bound_regions(codes, tree, search) if self.ends == "cut" else None
        if self.relaxed:
            return Grouping.from_records(codes, number[ref], _number_groups(tree)[1], regions)
        box = kernels.boxes.bound_segments(search.rows.codes, tree.segment[tree.leaves], search.width)
        del search  # free the memory of its rows
        return replace(_group_combinations(codes, ref, tree, box), regions=regions)


@dataclass(frozen=True)
class _Tree:
    """The nodes of the tree of cuts: attribute (-1: a group), cut, children, segment of rows."""

    attribute: Int32Array
    cut: Int32Array
    child: Int32Array
    segment: Int64Array

    @property
    def uncut_segments(self) -> list[tuple[int, int]]:
        """The segments that are still to be cut: both halves, if only one cut was made."""
        begin, end = _bounds(self.segment[0])
        return [_bounds(half) for half in self.segment[1:]] if end - begin > PIECE else []

    @property
    def leaves(self) -> Int64Array:
        """The groups, in the order of their rows."""
        leaf = np.flatnonzero(self.attribute < 0)
        return leaf[np.argsort(self.segment[leaf, 0], kind="stable")]


@dataclass(frozen=True)
class _CutSearch:
    """Rows of codes that are cut in place, and the arrays by which kernels evaluate a cut."""

    rows: SplitRows
    width: int
    mode: int
    criteria: SplitCriteria
    records: int

    @classmethod
    def of(cls, codes: Codes, policy: Policy, mode: int, weights: FloatArray, objective: str) -> _CutSearch:
        counts = codes.counts
        distribution = codes.distribution
        limits = combine_limits(policy.require, distribution)
        offset = (
            np.concatenate(([0], np.cumsum(distribution.domains)[:-1])).astype(np.int64)
            if distribution.domains
            else np.zeros(0, np.int64)
        )
        classes, class_count = list_classes(codes, policy.target) if mode == TARGET else (np.zeros(0, np.int32), 0)
        most = max((a.size for a in codes.attributes), default=0)
        if mode == RELAXED:  # one row per record
            cell = np.repeat(np.arange(len(counts.size), dtype=np.int32), counts.size)
            rows = SplitRows(_pad_rows(codes.quasi[codes.combination[cell]], most), np.ones(len(cell), np.int32), cell)
            start = np.arange(len(counts.size) + 1, dtype=np.int64)
            ones = np.ones(len(counts.size), np.int64)
            cells = SplitCells(start, counts.sensitive, ones, offset, classes, class_count)
        else:
            cell = np.arange(len(codes.quasi), dtype=np.int32)
            rows = SplitRows(_pad_rows(codes.quasi, most), codes.size.astype(np.int32), cell)
            cells = SplitCells(counts.start, counts.sensitive, counts.size, offset, classes, class_count)
        tables = LossTables.of(codes.attributes, objective, count_values=True)
        relative_weights = weights / (weights.max(initial=0.0) or 1.0)
        losses = SplitLosses(tables.ints, tables.floats, relative_weights, tables.first_codes(codes.attributes))
        criteria = SplitCriteria(losses, cells, limits.arrays(), limits.least)
        return cls(rows, len(codes.attributes), mode, criteria, codes.records)

    def cut_all(self, progress: Progress) -> dict[tuple[int, int], _Tree]:
        """Cut all rows; return the subtrees by their segments.

        Large segments are cut once and their halves queued; a small segment is cut completely by one task. The subtrees do not
        depend on the number of threads: tasks work on disjoint rows.
        """
        done, waiting = 0, [(0, len(self.rows.ref))]
        trees: dict[tuple[int, int], _Tree] = {}
        ready: SimpleQueue[Future[_Tree]] = SimpleQueue()
        progress("cutting", 0, self.records)
        with threads.open_pool() as pool:
            running = 0
            while waiting or running:
                for segment in waiting:
                    pool.submit(self._cut_segment, *segment).add_done_callback(ready.put)
                running += len(waiting)
                tree = threads.take(ready).result()
                running -= 1
                begin, end = _bounds(tree.segment[0])
                trees[begin, end] = tree
                waiting = tree.uncut_segments
                if not waiting:
                    done += int(self.rows.records[begin:end].sum())
                    progress("cutting", done, self.records)
        return trees

    def _cut_segment(self, begin: int, end: int) -> _Tree:
        once = end - begin > PIECE
        nodes = kernels.mondrian.grow_tree(self.rows, begin, end, self.width, self.mode, once, self.criteria)
        return _Tree(*nodes)


def _bounds(segment: Int64Array) -> tuple[int, int]:
    return int(segment[0]), int(segment[1])


def _pad_rows(quasi: Int32Array, most: int) -> NDArray[Any]:
    """Copy codes below ``most`` into the shortest type, rows padded to a multiple of `STEP_BYTES`."""
    kind = np.dtype(np.uint16 if most <= 1 << 16 else np.int32)
    lanes = STEP_BYTES // kind.itemsize
    rows = np.zeros((len(quasi), -(-quasi.shape[1] // lanes) * lanes), kind)
    rows[:, : quasi.shape[1]] = quasi
    return rows


def _join_trees(trees: Mapping[tuple[int, int], _Tree], rows: int) -> _Tree:
    """Join the subtrees into one tree: the root of a subtree replaces the leaf with the same segment."""
    order = sorted(trees, key=lambda segment: (segment != (0, rows), segment))
    shift = dict(zip(order, np.cumsum([0, *(len(trees[s].attribute) for s in order)]), strict=False))
    child = np.concatenate([np.where(trees[s].child >= 0, trees[s].child + shift[s], -1) for s in order])
    for segment in order:
        if halves := trees[segment].uncut_segments:
            child[shift[segment]] = [shift[half] for half in halves]
    whole = _Tree(
        np.concatenate([trees[s].attribute for s in order]),
        np.concatenate([trees[s].cut for s in order]),
        child,
        np.concatenate([trees[s].segment for s in order]),
    )
    return _drop_unreachable(whole)


def _drop_unreachable(tree: _Tree) -> _Tree:
    """Keep only the nodes that can be reached from the root."""
    seen = np.zeros(len(tree.attribute), bool)
    seen[0] = True
    seen[tree.child[tree.attribute >= 0].ravel()] = True
    number = np.cumsum(seen) - 1
    child = np.where(tree.child >= 0, number[tree.child], -1).astype(np.int32)
    return _Tree(tree.attribute[seen], tree.cut[seen], child[seen], tree.segment[seen])


def _number_groups(tree: _Tree) -> tuple[Int64Array, Int32Array]:
    leaves = tree.leaves
    sizes = tree.segment[leaves, 1] - tree.segment[leaves, 0]
    return leaves, np.repeat(np.arange(len(leaves), dtype=np.int32), sizes)


def _bound_regions(codes: Codes, tree: _Tree, search: _CutSearch) -> Regions:
    """The region of all codes that the cuts assign to every group; a relaxed cut may divide the records of one code."""
    width = len(codes.attributes)
    lo = np.zeros((len(tree.attribute), width), np.int32)
    hi = np.tile(np.array([a.size - 1 for a in codes.attributes], np.int32), (len(lo), 1))
    shared = np.zeros(lo.shape, bool)
    waiting = [0]
    while waiting:
        node = waiting.pop()
        a = int(tree.attribute[node])
        if a < 0:
            continue
        left, right = tree.child[node].tolist()
        for child in (left, right):
            lo[child], hi[child], shared[child] = lo[node], hi[node], shared[node]
        if search.mode == RELAXED:
            below, above = (search.rows.codes[begin:end, a] for begin, end in tree.segment[[left, right]])
            last, first = int(below.max()), int(above.min())
            hi[left, a], shared[left, a], lo[right, a] = max(first - 1, last), first == last, first
        else:
            hi[left, a], shared[left, a], lo[right, a] = tree.cut[node], False, tree.cut[node] + 1
        waiting += [left, right]
    leaves = tree.leaves
    return Regions(lo[leaves], hi[leaves], shared[leaves])


def _group_combinations(codes: Codes, ref: Int32Array, tree: _Tree, box: tuple[Int32Array, Int32Array]) -> Grouping:
    leaves, by_row = _number_groups(tree)
    group = np.empty(len(codes.quasi), np.int32)
    group[ref] = by_row
    del by_row
    number = np.full(len(tree.attribute), -1, np.int32)
    number[leaves] = np.arange(len(leaves), dtype=np.int32)
    cuts = SplitTree(tree.attribute, tree.cut, tree.child[:, 0].copy(), tree.child[:, 1].copy(), number)
    return Grouping(Placement.whole(codes.counts, group), *box, cuts)
