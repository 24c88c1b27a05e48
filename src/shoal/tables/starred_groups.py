"""Groups of records that share all values without a star: place leftover records, and divide a few groups again.

Where few records are involved, the best division is found by an exact search (`kernels.starring.divide`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal import kernels
from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.kernels.interface import SensitiveLabels
from shoal.pipeline.clustering import ClusteringInput
from shoal.progress import Progress

EXACT = 12  # records that are divided at the least cost
PAIRED = 10  # records of two groups that are divided again
MOST_PAIRED = 20_000  # groups; more are not divided again
PARTNERS = 3  # groups that are tried with each group
PASSES = 2
WINDOW = 500  # groups on each side, in the order of their labels, among which partners are searched
TIE = 1e-9


@dataclass
class StarredGroups:
    """The group of every record, -1 for none. Entry i is a record of the cell ``cell[i]``, in keyed order.

    ``size_only``: the requirements depend on the size of groups alone.
    """

    codes: Codes
    records: ClusteringInput
    importance: FloatArray
    size_only: bool
    cell: Int32Array
    group: Int32Array

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.group.max(initial=-1)) + 1

    @property
    def width(self) -> int:
        """The length of the histograms that requirements need."""
        return 0 if self.size_only else int(self.records.offset[-1])

    @cached_property
    def _values(self) -> SensitiveLabels:
        return self.records.values

    def label_groups(self) -> Int32Array:
        """The code of every group in every attribute, -1 for a star."""
        combination = self.codes.combination[self.cell]
        lo, hi = kernels.boxes.bound_groups(self.codes.quasi, combination, self.group, self.groups)
        return np.where(lo == hi, lo, -1).astype(np.int32)

    def sum_costs(self) -> float:
        """The sum of the importance of all starred cells."""
        return float(((self.label_groups() < 0) @ self.importance) @ self._size())

    def _size(self) -> Int64Array:
        return np.bincount(self.group[self.group >= 0], minlength=self.groups)

    def divide_all(self) -> bool:
        """Divide all records at the least cost, if they are few; return whether that was possible."""
        if len(self.cell) > EXACT:
            return False
        group = np.full(len(self.cell), -1, np.int32)
        if not np.isfinite(self._divide(np.arange(len(self.cell)), group)):
            return False
        self.group = group
        return True

    def _divide(self, members: Int64Array, group: Int32Array) -> float:
        """The least cost of these records; ``group`` gets their groups, from 0 on."""
        cells = self.cell[members]
        return float(
            kernels.starring.divide(
                self.records.rows[cells],
                self._values,
                self.records.label[cells],
                self.records.k,
                self.width,
                self.importance,
                group,
            )
        )

    def place_leftovers(self) -> None:
        """Place the records that are in no group where the cost grows least, so that every group passes.

        A block of equal records joins a whole group, or takes as many records of a larger group as it needs. Where other
        requirements than sizes must hold, all leftover records are one block, and it joins whole groups until it passes.
        """
        left = np.flatnonzero(self.group < 0)
        combination = self.codes.combination[self.cell[left]]
        blocks = [left[combination == u] for u in dict.fromkeys(combination.tolist())] if self.size_only else [left]
        for block in blocks:
            if len(block):
                self._place_block(block)

    def _place_block(self, block: Int64Array) -> None:
        while self.groups:
            label, size = self.label_groups(), self._size()
            own = self._label_block(block)
            cost, union = np.empty(len(label)), np.empty(len(label))
            kernels.starring.rate_joins(label, self.importance, own, cost, union)
            increase = (size + len(block)) * union - size * cost
            needed = self.records.k - len(block)
            taken = needed * (union - cost) + len(block) * union
            spare = self.size_only & (needed > 0) & (size - needed >= self.records.k)
            total = np.where(spare, np.minimum(increase, taken), increase)
            for g in np.argsort(total, kind="stable").tolist():
                members = np.flatnonzero(self.group == g)
                if spare[g] and taken[g] < increase[g] - TIE:
                    self.group[block] = self.group[members[:needed]] = self.groups
                    return
                if self.size_only or self._passes(np.concatenate([members, block])):
                    self.group[block] = g
                    return
            nearest = np.flatnonzero(self.group == int(np.argmin(total)))
            block = np.concatenate([nearest, block])
            self.group[block] = -1
            self._renumber()
        self.group[block] = 0

    def _label_block(self, block: Int64Array) -> Int32Array:
        rows = self.records.rows[self.cell[block]]
        return np.where((rows == rows[0]).all(axis=0), rows[0], -1).astype(np.int32)

    def _passes(self, members: Int64Array) -> bool:
        cell = self.cell[members]
        return not self.records.find_failing(cell, np.zeros(len(cell), np.int32)).any()

    def _renumber(self) -> None:
        kept = np.unique(self.group[self.group >= 0])
        self.group = np.where(self.group >= 0, np.searchsorted(kept, self.group), -1).astype(np.int32)

    def improve(self, progress: Progress) -> None:
        """Divide pairs of groups that have few records together again, while this lowers the cost."""
        for number in range(PASSES if self.groups <= MOST_PAIRED else 0):
            progress("improving", number, PASSES)
            if not self._divide_pairs():
                break
        progress("improving", PASSES, PASSES)

    def _divide_pairs(self) -> bool:
        """Divide each starred group again together with the groups that agree most with it; return whether any changed."""
        self._sort_groups()
        label, size = self.label_groups(), self._size()
        starred = np.flatnonzero(((label < 0).any(axis=1)) & (size + self.records.k <= PAIRED))
        partner = np.full((len(starred), PARTNERS), -1, np.int64)
        kernels.starring.find_partners(label, size, self.importance, starred, WINDOW, PAIRED, partner)
        order = np.argsort(self.group, kind="stable")
        begin = np.searchsorted(self.group[order], np.arange(self.groups + 1))
        members = [order[begin[g] : begin[g + 1]] for g in range(self.groups)]
        cost = ((label < 0) @ self.importance) * size
        return self._divide_each(starred, partner, members, cost)

    def _divide_each(
        self, starred: Int64Array, partner: Int64Array, members: list[Int64Array], cost: FloatArray
    ) -> bool:
        changed: set[int] = set()
        for g, partners in zip(starred.tolist(), partner.tolist(), strict=True):
            for h in partners:
                if h < 0 or g in changed or h in changed:
                    continue
                pool = np.sort(np.concatenate([members[g], members[h]]))
                group = np.empty(len(pool), np.int32)
                if self._divide(pool, group) < cost[g] + cost[h] - TIE:
                    new = self.groups
                    numbers = np.array([g, h, *range(new, new + PAIRED)], np.int32)
                    self.group[pool] = numbers[group]
                    changed |= {g, h}
        return bool(changed)

    def _sort_groups(self) -> None:
        """Number the groups in the order of their labels."""
        self._renumber()
        label = self.label_groups()
        place = np.empty(len(label), np.int32)
        place[np.lexsort(label.T[::-1])] = np.arange(len(label), dtype=np.int32)
        self.group = np.where(self.group >= 0, place[self.group], -1).astype(np.int32)
