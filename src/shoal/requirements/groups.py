"""Groups of records with equal published quasi-identifiers, and the counts of their sensitive values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.kernels.combinations import sort_combinations


@dataclass(frozen=True)
class Groups:
    """Groups by one set of attributes, with the counts of their sensitive values as compressed rows.

    Group ``g`` has the published codes ``quasi[g]`` and the cells ``start[g]:start[g + 1]``; a cell is a combination of
    sensitive codes with its number of records. ``domains`` is the number of codes of each sensitive attribute, ``labels``
    the value of each code.

    Where a policy has a unit, ``person`` is the person of every cell (-1: every record is a person of its own). Sizes and
    histograms then count different people instead of records, and a cell is a combination of sensitive codes and person.
    """

    names: tuple[str, ...]
    sensitive: tuple[str, ...]
    quasi: Int32Array
    start: Int64Array
    sensitive_codes: Int32Array
    cell_size: Int64Array
    domains: tuple[int, ...] = ()
    labels: tuple[tuple[str | None, ...], ...] = ()
    person: Int32Array | None = None

    @cached_property
    def size(self) -> Int64Array:
        """The number of records of every group, or of different people."""
        return self.records_of_groups if self.person is None else self._count_people(self.start, self.person)

    @cached_property
    def records_of_groups(self) -> Int64Array:
        """The number of records of every group."""
        return self._per_group(self.cell_size)

    @property
    def records(self) -> int:
        """The number of records of all groups."""
        return int(self.cell_size.sum())

    @cached_property
    def people(self) -> int | None:
        """The number of different people of all groups; None where records are counted."""
        if self.person is None:
            return None
        return int(self._count_people(np.array([0, len(self.person)]), self.person)[0])

    def histogram(self, of: str) -> tuple[Int32Array, Int32Array, Int64Array]:
        """Group, sensitive code, and number of records or of people, for all pairs that occur; sorted by group."""
        column = self.sensitive_codes[:, self.sensitive.index(of)].astype(np.int64)
        domain = self.domains[self.sensitive.index(of)]
        key = self.group_of_cell.astype(np.int64) * domain + column
        if self.person is not None:
            return self._count_pairs(key, domain)
        if (key[1:] > key[:-1]).all():  # the cells differ by this attribute alone
            return self.group_of_cell, column.astype(np.int32), self.cell_size
        pair, pair_of_cell = np.unique(key, return_inverse=True)
        records = np.bincount(pair_of_cell, self.cell_size, minlength=len(pair)).astype(np.int64)
        return (pair // domain).astype(np.int32), (pair % domain).astype(np.int32), records

    def _count_pairs(self, key: Int64Array, domain: int) -> tuple[Int32Array, Int32Array, Int64Array]:
        """The histogram where people are counted; a person counts once for every value that one of their records has."""
        assert self.person is not None  # noqa: S101
        order = np.argsort(key, kind="stable")
        pair = key[order]
        begin = np.flatnonzero(np.append(True, pair[1:] != pair[:-1])[: len(pair)])
        people = self._count_people(np.append(begin, len(pair)), self.person[order], self.cell_size[order])
        return (pair[begin] // domain).astype(np.int32), (pair[begin] % domain).astype(np.int32), people

    def _count_people(self, start: Int64Array, person: Int32Array, records: Int64Array | None = None) -> Int64Array:
        counted: Int64Array = kernels.people.count_people(
            start.astype(np.int64),
            person,
            self.cell_size if records is None else records,
            int(person.max(initial=-1)) + 1,
        )
        return counted

    def values_of_groups(self, of: str) -> Int64Array:
        """The sum of the histogram of every group: its records, or its different pairs of person and value."""
        if self.person is None:
            return self.size
        group, _, count = self.histogram(of)
        return np.bincount(group, count, minlength=len(self.start) - 1).astype(np.int64)

    def values_of_table(self, of: str) -> Int64Array:
        """The number of records of every value in all groups together, or of people who have the value."""
        domain = self.domains[self.sensitive.index(of)]
        column = self.sensitive_codes[:, self.sensitive.index(of)]
        if self.person is None:
            return np.bincount(column, self.cell_size, minlength=domain).astype(np.int64)
        _, code, people = self._count_pairs(column.astype(np.int64), domain)
        return np.bincount(code, people, minlength=domain).astype(np.int64)

    @cached_property
    def group_of_cell(self) -> Int32Array:
        """The group of every cell."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))

    def project(self, names: Sequence[str] | None) -> tuple[Groups, Int32Array]:
        """The groups by fewer attributes, and for each group the number of the merged group that contains it."""
        if names is None or tuple(names) == self.names:
            return self, np.arange(len(self.start) - 1, dtype=np.int32)
        return self._merge_by(names)

    def merge_equal(self) -> tuple[Groups, Int32Array]:
        """Merge groups with equal published values; also return for each group the number of its merged group."""
        return self._merge_by(self.names)

    def _merge_by(self, names: Sequence[str]) -> tuple[Groups, Int32Array]:
        columns = [self.names.index(n) for n in names]
        merged_group, order, begin = sort_combinations([self.quasi[:, c] for c in columns], len(self.quasi))
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
            None if self.person is None else self.person[cells],
        )
        return merged, merged_group

    def keep(self, kept: BoolArray) -> Groups:
        """Return only the groups that are marked."""
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
            None if self.person is None else self.person[inside],
        )

    def keep_cells(self, kept: BoolArray) -> Groups:
        """Return the groups with only the cells that are marked; groups without cells are removed."""
        if kept.all():
            return self
        count = np.bincount(self.group_of_cell[kept], minlength=len(self.start) - 1)
        return Groups(
            self.names,
            self.sensitive,
            self.quasi[count > 0],
            np.concatenate(([0], np.cumsum(count[count > 0]))).astype(np.int64),
            self.sensitive_codes[kept],
            self.cell_size[kept],
            self.domains,
            self.labels,
            None if self.person is None else self.person[kept],
        )

    def _per_group(self, values: Int64Array) -> Int64Array:
        total = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=total[1:])
        return (total[self.start[1:]] - total[self.start[:-1]]).astype(np.int64)


def stack_columns(columns: Sequence[NDArray[Any]], rows: int) -> Int32Array:
    """Return columns of codes as one array [row, column]; ``rows`` is their length, needed if there are no columns."""
    return np.stack(columns, axis=1).astype(np.int32, copy=False) if columns else np.zeros((rows, 0), np.int32)


def take_rows(codes: Int32Array, rows: NDArray[np.integer]) -> Int32Array:
    """Return the given rows of codes; faster than indexing if there are no columns."""
    return codes[rows] if codes.shape[1] else np.empty((len(rows), 0), codes.dtype)
