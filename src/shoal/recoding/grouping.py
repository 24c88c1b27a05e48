"""The result of a method: the group of every cell, the boxes of the groups, and the groups as published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.kernels.combinations import number_combinations, sort_matrix
from shoal.policy import Policy
from shoal.recoding import Columns, Placement
from shoal.recoding.search_path import SearchPath
from shoal.requirements.groups import Groups, take_rows


@dataclass(frozen=True)
class SplitTree:
    """A tree of splits: node n sends codes up to ``at[n]`` left; a leaf (``attribute[n]`` is -1) has group ``group[n]``."""

    attribute: Int32Array
    at: Int32Array
    left: Int32Array
    right: Int32Array
    group: Int32Array

    def grow(self, groups: Int64Array, attribute: Int32Array, at: Int32Array) -> SplitTree:
        """Split the leaves of some groups; the left leaf keeps the number, the right leaves get the next numbers in order."""
        nodes, new = len(self.attribute), len(groups)
        leaf = np.empty(int(self.group.max(initial=-1)) + 1, np.int64)
        leaves = np.flatnonzero((self.attribute < 0) & (self.group >= 0))
        leaf[self.group[leaves]] = leaves
        parents, first = leaf[groups], nodes + 2 * np.arange(new)

        def extend(values: Int32Array, inner: NDArray[np.integer], left: Any, right: Any) -> Int32Array:
            found = np.concatenate([values, np.zeros(2 * new, np.int32)])
            found[parents], found[first], found[first + 1] = inner, left, right
            return found.astype(np.int32)

        return SplitTree(
            extend(self.attribute, attribute, -1, -1),
            extend(self.at, at, 0, 0),
            extend(self.left, first, -1, -1),
            extend(self.right, first + 1, -1, -1),
            extend(self.group, np.full(new, -1), groups, len(leaf) + np.arange(new)),
        )


@dataclass(frozen=True)
class AttributeCut:
    """An attribute cut into intervals of codes for the whole table: interval i begins with the code ``first[i]``.

    ``node[i]`` is the published node of the attribute's taxonomy, or -1 for a run of leaves that is no node; numbers have no
    nodes. One interval with all codes is the root.
    A missing value has its own interval unless it is in the root.
    """

    first: Int32Array
    node: Int32Array | None = None

    def table(self, size: int) -> Int32Array:
        """The interval of every code."""
        return np.repeat(np.arange(len(self.first), dtype=np.int32), np.diff(self.first, append=size))

    @property
    def is_root(self) -> bool:
        """Whether all values have the root."""
        return len(self.first) == 1 and (self.node is None or self.node[0] == 0)


@dataclass(frozen=True)
class Regions:
    """The codes between the cuts around every group: from ``lo`` to ``hi`` [group, attribute], both included.

    Where ``shared``, a cut divided records with the code ``hi``, so the next region begins with the same code.
    """

    lo: Int32Array
    hi: Int32Array
    shared: BoolArray

    def cut(self, groups: Int64Array, attribute: Int32Array, at: Int32Array) -> Regions:
        """The regions with some groups cut in two; the right halves follow all groups."""
        new = np.arange(len(groups))
        left_hi, right_lo, shared = self.hi.copy(), self.lo[groups].copy(), self.shared.copy()
        left_hi[groups, attribute], right_lo[new, attribute], shared[groups, attribute] = at, at + 1, False
        return Regions(
            np.concatenate([self.lo, right_lo]),
            np.concatenate([left_hi, self.hi[groups]]),
            np.concatenate([shared, self.shared[groups]]),
        )

    def cover(self, lo: Int32Array, hi: Int32Array) -> Regions:
        """The smallest regions with the boxes of all groups, for groups with records that no cut assigned to them."""
        return Regions(np.minimum(self.lo, lo), np.maximum(self.hi, hi), self.shared & (hi <= self.hi))

    def of(self, groups: NDArray[np.integer] | BoolArray) -> Regions:
        """The regions of some groups."""
        return Regions(self.lo[groups], self.hi[groups], self.shared[groups])


@dataclass(frozen=True)
class Grouping:
    """The result of a method: the group of each cell, the box of every group, and figures for the owner.

    A split tree has the groups at its leaves (``split_tree``). A global recoding has one cut per attribute
    (``attribute_cuts``): its groups are the combinations of intervals, and ``suppressed_boxes`` has the first codes of the
    suppressed groups. Otherwise cells are assigned one by one. ``regions`` are the cuts if these are published instead of
    tight boxes. ``rank`` is the round in which each group was formed, for methods that work in rounds. Where the groups are
    parts of the groups of a larger table, ``released`` has the codes of its released records by attribute.
    """

    placement: Placement
    lo: Int32Array
    hi: Int32Array
    split_tree: SplitTree | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    attribute_cuts: tuple[AttributeCut, ...] = ()
    suppressed_boxes: Int32Array | None = None
    path: SearchPath | None = None
    regions: Regions | None = None
    rank: Int32Array | None = None
    released: tuple[Int32Array, ...] | None = None

    @classmethod
    def from_cuts(
        cls,
        codes: Codes,
        cuts: Sequence[AttributeCut],
        path: SearchPath | None = None,
        group: Int32Array | None = None,
    ) -> Grouping:
        """The groups of cuts of all attributes; ``group`` has the group of every combination if it is already computed."""
        group = _group_combinations(codes, cuts) if group is None else group
        member = np.zeros(int(group.max(initial=-1)) + 1, np.int64)  # one combination of every group
        member[group] = np.arange(len(group))
        size = np.array([a.size for a in codes.attributes], np.int64)
        length = [np.diff(cut.first, append=n) for cut, n in zip(cuts, size, strict=True)]
        first = np.concatenate([np.repeat(cut.first, n) for cut, n in zip(cuts, length, strict=True)])
        last = np.concatenate([np.repeat(cut.first + n - 1, n) for cut, n in zip(cuts, length, strict=True)])
        tables, half = (first.astype(np.int32), last.astype(np.int32), size), len(member) // 2
        lo, hi = np.empty((2, len(member), len(size)), np.int32)
        threads.each(
            lambda part: kernels.boxes.bound_intervals(codes.quasi, member[part], *tables, lo[part], hi[part]),
            [slice(0, half), slice(half, None)],
            rows=len(member),
        )
        return cls(Placement.whole(codes.counts, group), lo, hi, attribute_cuts=tuple(cuts), path=path)

    @classmethod
    def from_records(
        cls,
        codes: Codes,
        cell: NDArray[np.integer],
        group: Int32Array,
        regions: Regions | None = None,
        rank: Int32Array | None = None,
    ) -> Grouping:
        """Groups of single records: entry i places one record of ``cell[i]`` in ``group[i]`` (-1: suppressed).

        Groups are numbered by their first cell, so the numbers do not reveal the order of the search. ``regions`` and ``rank``
        are given by the old numbers.
        """
        released = group >= 0
        first = np.full(int(group.max(initial=-1)) + 1, len(codes.counts.size), np.int64)
        np.minimum.at(first, group[released], cell[released])
        number = np.empty(len(first) + 1, np.int32)
        by_first = np.argsort(first, kind="stable")
        number[by_first], number[-1] = np.arange(len(first), dtype=np.int32), -1
        groups = int((first < len(codes.counts.size)).sum())
        key, count = np.unique(cell.astype(np.int64) * (groups + 1) + number[group] + 1, return_counts=True)
        cells, group = key // (groups + 1), (key % (groups + 1) - 1).astype(np.int32)
        lo, hi = kernels.boxes.bound_groups(codes.quasi, codes.combination[cells], group, groups)
        ordered = None if regions is None else regions.of(by_first[:groups])
        ranks = None if rank is None else rank[by_first[:groups]]
        return cls(Placement(cells, group, count.astype(np.int64)), lo, hi, regions=ordered, rank=ranks)

    def apply_cuts(self, codes: Codes) -> Grouping:
        """The groups of the same cuts, for another form of the same table."""
        return replace(Grouping.from_cuts(codes, self.attribute_cuts, self.path), figures=self.figures)

    def keep_groups(self, kept: BoolArray) -> Grouping:
        """Suppress all groups but the kept ones."""
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)

        def renumber(group: Int32Array) -> Int32Array:
            return np.where(group >= 0, number[group], -1).astype(np.int32)

        return replace(
            self,
            placement=replace(self.placement, group=renumber(self.placement.group)),
            lo=self.lo[kept],
            hi=self.hi[kept],
            split_tree=None
            if self.split_tree is None
            else replace(self.split_tree, group=renumber(self.split_tree.group)),
            suppressed_boxes=self.lo[~kept]
            if self.suppressed_boxes is None
            else np.concatenate([self.suppressed_boxes, self.lo[~kept]]),
            regions=None if self.regions is None else self.regions.of(kept),
            rank=None if self.rank is None else self.rank[kept],
        )

    def keep_entries(self, codes: Codes, kept: BoolArray) -> Grouping:
        """Suppress all entries of the placement but the kept ones; groups without records are removed."""
        placement = self.placement
        group = np.where(kept, placement.group, -1).astype(np.int32)
        remains = np.bincount(group[group >= 0], minlength=len(self.lo)) > 0
        fewer = replace(self, placement=replace(placement, group=group))
        if not self.attribute_cuts:
            lo, hi = kernels.boxes.bound_groups(codes.quasi, codes.combination[placement.cell], group, len(self.lo))
            fewer = replace(fewer, lo=lo, hi=hi)
        return fewer.keep_groups(remains)

    @cached_property
    def suppresses_records(self) -> bool:
        """Whether any record is suppressed, also in the larger table."""
        elsewhere = self.released is not None and self.suppressed_boxes is not None
        return elsewhere or bool((self.placement.group < 0).any())

    def released_codes(self, codes: Codes) -> list[Int32Array]:
        """The codes of released records, by attribute, ascending."""
        if self.released is not None:
            return list(self.released)
        placement = self.placement
        is_released = np.zeros(len(codes.quasi), bool)
        is_released[codes.combination[placement.cell[placement.group >= 0]]] = True
        rows = codes.quasi[is_released]
        return [np.flatnonzero(np.bincount(column, minlength=1)).astype(np.int32) for column in rows.T]

    def size(self) -> Int64Array:
        """The number of records of every group."""
        return kernels.order.sum_by_group(self.placement.group, self.placement.count, len(self.lo))


def _group_combinations(codes: Codes, cuts: Sequence[AttributeCut]) -> Int32Array:
    """The group of every combination."""
    columns = [j for j, cut in enumerate(cuts) if len(cut.first) > 1]
    tables = [cuts[j].table(codes.attributes[j].size) for j in columns]
    return sort_matrix(codes.quasi, columns, [len(cuts[j].first) for j in columns], tables).number


def locate_intervals(grouping: Grouping, codes: Int32Array) -> Int32Array:
    """The interval of every code [group, attribute]."""
    cuts = grouping.attribute_cuts
    intervals = [np.searchsorted(cut.first, codes[:, j], side="right") - 1 for j, cut in enumerate(cuts)]
    return np.stack(intervals, axis=1).astype(np.int32)


def count_members(codes: Codes, grouping: Grouping) -> Callable[[int], tuple[Int32Array, Int32Array, Int64Array]]:
    """A function of the attribute: its distinct pairs of group and code, sorted, and the number of records of each."""

    def members(j: int) -> tuple[Int32Array, Int32Array, Int64Array]:
        placement = grouping.placement
        combination = codes.combination[placement.cell]
        released = placement.group >= 0
        size = codes.attributes[j].size
        key = placement.group[released].astype(np.int64) * size + codes.quasi[combination[released], j]
        pair, index = np.unique(key, return_inverse=True)
        records = np.bincount(index, placement.count[released], minlength=len(pair)).astype(np.int64)
        return (pair // size).astype(np.int32), (pair % size).astype(np.int32), records

    return members


def build_raw_groups(codes: Codes, grouping: Grouping) -> Groups:
    """The groups with the smallest codes of their boxes as quasi-identifiers; groups without records are kept."""
    placement, table = grouping.placement, codes.raw_groups
    order, start = kernels.order.sort_by_group(placement.group, len(grouping.lo))
    cells = placement.cell[order]
    return Groups(
        table.names,
        table.sensitive,
        grouping.lo,
        start,
        take_rows(table.sensitive_codes, cells),
        placement.count[order],
        table.domains,
        table.labels,
        None if table.person is None else table.person[cells],
    )


def build_published_groups(codes: Codes, grouping: Grouping, columns: Columns, policy: Policy) -> Groups:
    """The groups with their published values as quasi-identifiers, instead of the codes of their boxes."""
    placement = grouping.placement
    order, start = kernels.order.sort_by_group(placement.group, len(grouping.lo))
    sources = [source for source, _ in columns]
    quasi = np.stack([w.index for _, w in columns], axis=1) + 1
    names = tuple(policy.quasi)
    if len(sources) > len(names):  # some attributes have two columns: number their pairs
        quasi = np.stack(
            [
                number_combinations([quasi[:, c] for c, s in enumerate(sources) if s == name], len(quasi))
                for name in names
            ],
            axis=1,
        )
    return Groups(
        names,
        tuple(s.name for s in codes.sensitive),
        quasi.astype(np.int32),
        start,
        take_rows(codes.counts.sensitive, placement.cell[order] if codes.sensitive else order),
        placement.count[order],
        tuple(len(s.labels) for s in codes.sensitive),
        tuple(s.labels for s in codes.sensitive),
        None if codes.person is None else codes.person[placement.cell[order]],
    )
