"""What a method decided, and how it looks: where every cell goes, the groups that makes, what a stranger sees of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.engines import GroupColumn
from shoal.kernels.combinations import number_combinations, sort_matrix
from shoal.policy import Policy
from shoal.recoding import Placement
from shoal.recoding.search_path import SearchPath
from shoal.requirements.groups import Groups, take_rows


@dataclass(frozen=True)
class SplitTree:
    """A tree of cuts in codes: node n sends codes up to ``at[n]`` left; a leaf (-1) is the group ``group[n]``."""

    attribute: Int32Array
    at: Int32Array
    left: Int32Array
    right: Int32Array
    group: Int32Array


@dataclass(frozen=True)
class AttributeCut:
    """One attribute cut into intervals of codes, the same everywhere: interval i begins with the code ``first[i]``.

    ``node[i]`` is the node of the attribute's taxonomy that is published for it; numbers have none. One interval that holds
    all codes is the root. A missing value has an interval of its own unless it is in the root.
    """

    first: Int32Array
    node: Int32Array | None = None

    def table(self, size: int) -> Int32Array:
        """The interval of every code."""
        return np.repeat(np.arange(len(self.first), dtype=np.int32), np.diff(self.first, append=size))

    @property
    def uncut(self) -> bool:
        """Whether the root is published for all."""
        return len(self.first) == 1 and (self.node is None or self.node[0] == 0)


@dataclass(frozen=True)
class Regions:
    """The part of all codes that cuts leave to every group: from ``lo`` to ``hi`` [group, attribute], both included.

    Where ``shared``, a cut divided records with the code ``hi``, so that the region behind it begins with the same code.
    """

    lo: Int32Array
    hi: Int32Array
    shared: BoolArray

    def of(self, groups: NDArray[np.integer] | BoolArray) -> Regions:
        """The regions of some groups."""
        return Regions(self.lo[groups], self.hi[groups], self.shared[groups])


@dataclass(frozen=True)
class Grouping:
    """What a method decided: the group of each cell, the box of every group, and figures for the owner.

    A split tree has the groups at its leaves (``split_tree``). A global recoding has one cut per attribute
    (``attribute_cuts``); the groups are the combinations of its intervals, and ``suppressed_boxes`` has the first codes of
    suppressed ones. Otherwise cells are assigned one by one. ``regions`` are the cuts, where these are published instead of
    boxes.
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

    @classmethod
    def from_cuts(
        cls,
        codes: Codes,
        slices: Sequence[AttributeCut],
        path: SearchPath | None = None,
        group: Int32Array | None = None,
    ) -> Grouping:
        """The groups that cuts through all attributes make; ``group`` numbers them by combination where that is known."""
        group = _grouped(codes, slices) if group is None else group
        one = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
        one[group] = np.arange(len(group))
        size = np.array([a.size for a in codes.attributes], np.int64)
        length = [np.diff(cut.first, append=n) for cut, n in zip(slices, size, strict=True)]
        first = np.concatenate([np.repeat(s.first, n) for s, n in zip(slices, length, strict=True)])
        last = np.concatenate([np.repeat(s.first + n - 1, n) for s, n in zip(slices, length, strict=True)])
        tables, half = (first.astype(np.int32), last.astype(np.int32), size), len(one) // 2
        lo, hi = np.empty((2, len(one), len(size)), np.int32)
        threads.each(
            lambda part: kernels.boxes.bound_intervals(codes.quasi, one[part], *tables, lo[part], hi[part]),
            [slice(0, half), slice(half, None)],
        )
        return cls(Placement.whole(codes.counts, group), lo, hi, attribute_cuts=tuple(slices), path=path)

    @classmethod
    def from_records(
        cls, codes: Codes, cell: NDArray[np.integer], group: Int32Array, regions: Regions | None = None
    ) -> Grouping:
        """Groups told record by record: entry i sends one record of ``cell[i]`` to ``group[i]``, -1 to none of them.

        Groups are numbered by their first cell, so that nothing tells in which order they were found.
        """
        held = group >= 0
        first = np.full(int(group.max(initial=-1)) + 1, len(codes.counts.size), np.int64)
        np.minimum.at(first, group[held], cell[held])
        number = np.empty(len(first) + 1, np.int32)
        by_first = np.argsort(first, kind="stable")
        number[by_first], number[-1] = np.arange(len(first), dtype=np.int32), -1
        groups = int((first < len(codes.counts.size)).sum())
        key, weight = np.unique(cell.astype(np.int64) * (groups + 1) + number[group] + 1, return_counts=True)
        cells, group = key // (groups + 1), (key % (groups + 1) - 1).astype(np.int32)
        lo, hi = kernels.boxes.bound_groups(codes.quasi, codes.combination[cells], group, groups)
        ordered = None if regions is None else regions.of(by_first[:groups])
        return cls(Placement(cells, group, weight.astype(np.int64)), lo, hi, regions=ordered)

    def keep_groups(self, kept: BoolArray) -> Grouping:
        """The same groups without those that are suppressed."""
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
            suppressed_boxes=self.lo[~kept],
            regions=None if self.regions is None else self.regions.of(kept),
        )

    @cached_property
    def suppressed(self) -> bool:
        """Whether records go to no group."""
        return bool((self.placement.group < 0).any())

    def released(self, codes: Codes) -> list[Int32Array]:
        """The codes of every attribute that released records have, ascending."""
        place = self.placement
        kept = np.zeros(len(codes.quasi), bool)
        kept[codes.combination[place.cell[place.group >= 0]]] = True
        rows = codes.quasi[kept]
        return [np.flatnonzero(np.bincount(column, minlength=1)).astype(np.int32) for column in rows.T]

    def size(self) -> Int64Array:
        """The records of every group."""
        return kernels.order.sum_by_group(self.placement.group, self.placement.count, len(self.lo))


def _grouped(codes: Codes, slices: Sequence[AttributeCut]) -> Int32Array:
    """The group of every combination."""
    cut = [j for j, s in enumerate(slices) if len(s.first) > 1]
    tables = [slices[j].table(codes.attributes[j].size) for j in cut]
    return sort_matrix(codes.quasi, cut, [len(slices[j].first) for j in cut], tables).number


def locate_intervals(decision: Grouping, codes: Int32Array) -> Int32Array:
    """The interval of every group and attribute, told by a code that lies in it."""
    places = [np.searchsorted(s.first, codes[:, j], side="right") - 1 for j, s in enumerate(decision.attribute_cuts)]
    return np.stack(places, axis=1).astype(np.int32)


def count_members(codes: Codes, decision: Grouping) -> Callable[[int], tuple[Int32Array, Int32Array, Int64Array]]:
    """For each attribute the distinct pairs of group and code, sorted, and the records of each."""

    def members(j: int) -> tuple[Int32Array, Int32Array, Int64Array]:
        place = decision.placement
        combination = codes.combination[place.cell]
        present = place.group >= 0
        size = codes.attributes[j].size
        key = place.group[present].astype(np.int64) * size + codes.quasi[combination[present], j]
        pair, index = np.unique(key, return_inverse=True)
        records = np.bincount(index, place.count[present], minlength=len(pair)).astype(np.int64)
        return (pair // size).astype(np.int32), (pair % size).astype(np.int32), records

    return members


def groups_as_published(
    codes: Codes, decision: Grouping, written: tuple[tuple[str, GroupColumn], ...], policy: Policy
) -> Groups:
    """The groups as a stranger will see them: by what is written, not by what was decided."""
    place = decision.placement
    order, start = kernels.order.sort_by_group(place.group, len(decision.lo))
    sources = [source for source, _ in written]
    quasi = np.stack([w.index for _, w in written], axis=1) + 1
    names = tuple(policy.quasi)
    if len(sources) > len(names):  # two columns for one attribute: number their pairs
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
        take_rows(codes.counts.sensitive, place.cell[order] if codes.sensitive else order),
        place.count[order],
        tuple(len(s.labels) for s in codes.sensitive),
        tuple(s.labels for s in codes.sensitive),
    )
