"""Groups of records that share their published quasi-identifier values, and what lies in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.kernels.combinations import sort_combinations


@dataclass(frozen=True)
class Groups:
    """Groups by one set of attributes, with the counts of their confidential values as compressed rows.

    Group ``g`` has the published codes ``quasi[g]`` and owns the cells ``start[g]:start[g + 1]``; a cell is a combination
    of confidential codes with its number of records. ``domains`` is the number of codes of each confidential attribute,
    ``labels`` what they stand for.
    """

    names: tuple[str, ...]
    sensitive: tuple[str, ...]
    quasi: Int32Array
    start: Int64Array
    sensitive_codes: Int32Array
    cell_size: Int64Array
    domains: tuple[int, ...] = ()
    labels: tuple[tuple[str | None, ...], ...] = ()

    @cached_property
    def size(self) -> Int64Array:
        """The number of records of every group."""
        return self._per_group(self.cell_size)

    @property
    def records(self) -> int:
        """The number of records of all groups."""
        return int(self.cell_size.sum())

    def histogram(self, of: str) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Group, confidential code and number of records, wherever there are any; sorted by group."""
        column = self.sensitive_codes[:, self.sensitive.index(of)].astype(np.int64)
        domain = self.domains[self.sensitive.index(of)]
        key = self.group_of_cell.astype(np.int64) * domain + column
        if (key[1:] > key[:-1]).all():  # counted by this attribute alone
            return self.group_of_cell, column.astype(np.int32), self.cell_size
        kept, place = np.unique(key, return_inverse=True)
        weight = np.bincount(place, self.cell_size, minlength=len(kept)).astype(np.int64)
        return (kept // domain).astype(np.int32), (kept % domain).astype(np.int32), weight

    @cached_property
    def group_of_cell(self) -> Int32Array:
        """The group that each cell lies in."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    def project(self, names: Sequence[str] | None) -> tuple[Groups, Int32Array]:
        """The groups by fewer attributes, and for each of ours which of those it lies in."""
        if names is None or tuple(names) == self.names:
            return self, np.arange(len(self.start) - 1, dtype=np.int32)
        return self._by(names)

    def merge_equal(self) -> tuple[Groups, Int32Array]:
        """Groups with the same published values made one, and for each of ours which of those it lies in."""
        return self._by(self.names)

    def _by(self, names: Sequence[str]) -> tuple[Groups, Int32Array]:
        columns = [self.names.index(n) for n in names]
        whole, order, begin = sort_combinations([self.quasi[:, c] for c in columns], len(self.quasi))
        cells, start = kernels.order.reorder_groups(self.start, order)
        merged = Groups(
            tuple(names),
            self.sensitive,
            self.quasi[order[begin]][:, columns],
            start[np.append(begin, len(order))],
            take_rows(self.sensitive_codes, cells),
            self.cell_size[cells],
            self.domains,
            self.labels,
        )
        return merged, whole

    def keep(self, kept: BoolArray) -> Groups:
        """Only the groups that are marked."""
        if kept.all():
            return self
        inside = kept[self.group_of_cell]
        counts = np.diff(self.start)[kept]
        return Groups(
            self.names,
            self.sensitive,
            self.quasi[kept],
            np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            self.sensitive_codes[inside],
            self.cell_size[inside],
            self.domains,
            self.labels,
        )

    def _per_group(self, values: Int64Array) -> Int64Array:
        total = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=total[1:])
        return (total[self.start[1:]] - total[self.start[:-1]]).astype(np.int64)


def take_rows(secret: Int32Array, place: NDArray[np.integer]) -> Int32Array:
    """The confidential codes at these places; where none are counted, no place is looked at."""
    return secret[place] if secret.shape[1] else np.empty((len(place), 0), secret.dtype)
