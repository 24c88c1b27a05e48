"""The cut points of a table: its attributes as ordered slots, and cuts between them (Bayardo and Agrawal, ICDE 2005)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes
from shoal.kernels.interface import MISCLASSIFIED, CutRoom, CutTable, SearchRules
from shoal.recoding.grouping import AttributeCut
from shoal.tables.lattice import number_words

MOST_SLOTS = 256  # of an attribute; more values are divided at quantiles of the records


@dataclass(frozen=True)
class AttributeSlots:
    """The slots of an attribute: runs of codes that no cut divides; slot i begins with the code ``start[i]``.

    A missing value has the last slot. Codes that do not occur are in the slot of an occurring neighbour.
    """

    attribute: Attribute
    start: Int32Array
    inner: tuple[Int32Array, Int32Array]  # the first and the last occurring code of every slot

    @classmethod
    def of(cls, attribute: Attribute, records: Int64Array, *, covered: bool) -> AttributeSlots:
        """One slot per occurring value; one for all if no requirement covers the attribute."""
        codes = np.flatnonzero(records).astype(np.int32)
        begins = np.ones(len(codes), bool)
        if not covered or not len(codes):
            begins[1:] = False
        elif attribute.rounding is not None and attribute.numbers is not None:
            low = attribute.round_ends(attribute.numbers[codes], attribute.numbers[codes])[0]
            begins[1:] = low[1:] != low[:-1]  # two published ranges with rounded ends differ
        if begins.sum() > MOST_SLOTS:
            before = np.cumsum(records[codes]) - records[codes]
            part = before * (MOST_SLOTS - 1) // max(int(records.sum()), 1)
            first = np.flatnonzero(begins)
            begins[first[1:]] = part[first[1:]] != part[first[:-1]]
        if covered and len(codes) and codes[-1] == attribute.missing:
            begins[-1] = True
        first = np.flatnonzero(begins) if len(codes) else np.zeros(0, np.int64)
        last = np.append(first[1:], len(codes)) - 1
        inner = codes[first], codes[last[: len(first)]]
        start = [
            0,
            *(_find_boundary(attribute, int(b), int(a)) for b, a in zip(inner[1][:-1], inner[0][1:], strict=True)),
        ]
        return cls(attribute, np.array(start, np.int32), inner)

    @property
    def has_missing(self) -> bool:
        """Whether the last slot is the missing value."""
        return self.attribute.missing >= 0 and len(self.start) > 1

    def locate(self, codes: Int32Array) -> Int32Array:
        """The slot of every code."""
        return (np.searchsorted(self.start, codes, side="right") - 1).astype(np.int32)

    def build_cut(self, begins: BoolArray) -> AttributeCut:
        """The cut with intervals that begin at these slots; intervals of a taxonomy that are no node have the node -1."""
        chosen = begins.copy()
        if self.has_missing and chosen[1:].any():
            chosen[-1] = True
        chosen[:1] = True
        first = self.start[chosen]
        tree = self.attribute.taxonomy
        if tree is None:
            return AttributeCut(first)
        last = np.append(first[1:], self.attribute.size).astype(np.int32) - 1
        node = tree.covers(first, last) if self.attribute.size else np.zeros(1, np.int32)
        exact = (tree.lo[node] == first) & (tree.hi[node] == last)
        node = np.where(exact, node, -1).astype(np.int32)
        return AttributeCut(first, np.zeros(1, np.int32) if len(first) == 1 else node)

    def read_values(self, value: Int32Array) -> BoolArray:
        """Where intervals begin, from the number of the published value of every code."""
        begins = np.zeros(len(self.start), bool)
        before, after = self.inner[1][:-1], self.inner[0][1:]
        begins[1:] = value[before] != value[after]
        return begins


def _find_boundary(attribute: Attribute, before: int, after: int) -> int:
    """The first code of a slot between two occurring codes: in a taxonomy, where the branch of the second one begins."""
    tree = attribute.taxonomy
    if tree is None:
        return after
    above, node = tree.cover(before, after), int(tree.leaf[after])
    while tree.parent[node] != above:
        node = int(tree.parent[node])
    return int(tree.lo[node])


def build_table(codes: Codes, slots: Sequence[AttributeSlots], rules: SearchRules) -> CutTable:
    """The table for the kernels: one row per combination of slots."""
    columns = (
        np.stack([s.locate(codes.quasi[:, j]) for j, s in enumerate(slots)]) if slots else np.zeros((0, 0), np.int32)
    )
    count = [len(s.start) for s in slots]
    first = np.cumsum([0, *count]).astype(np.int64)
    word = number_words([[np.arange(n, dtype=np.int32)] for n in count])
    key = np.zeros(columns.shape[1], np.uint64)
    for j in range(len(slots)):
        key += word[first[j] + columns[j]]
    _, row, group = np.unique(key, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    counts_values = rules.tests_values or rules.kind == MISCLASSIFIED
    histogram = np.zeros((len(row), int(sum(codes.distribution.domains)) if counts_values else 0), np.int64)
    if counts_values:
        offset = np.cumsum((0, *codes.distribution.domains))
        for s in range(len(codes.sensitive)):
            column = offset[s] + codes.counts.sensitive[:, s]
            np.add.at(histogram, (group[codes.combination], column), codes.counts.size)
    slot = np.ascontiguousarray(columns[:, row]).astype(np.int32)
    return CutTable(
        np.array([len(row)], np.int64),
        slot,
        np.bincount(group, codes.size, minlength=len(row)).astype(np.int64),
        histogram,
        first,
        np.array([s.has_missing for s in slots], np.bool_),
        word,
        np.argsort(slot, axis=1, kind="stable").astype(np.int64),
    )


def build_room(table: CutTable) -> CutRoom:
    """Empty arrays for the kernels."""
    rows, hashed, width = table.size.shape[0], 16, table.histogram.shape[1]
    while hashed < 2 * rows:
        hashed *= 2
    widest = int(np.diff(table.first).max(initial=1)) + 1
    return CutRoom(
        np.empty(hashed, np.int64),
        np.empty(rows, np.uint64),
        np.empty(rows, np.int64),
        np.empty(rows + 1, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty((rows, width), np.int64),
        np.empty(rows, np.bool_),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(int(table.first[-1]), np.bool_),
        np.empty(widest, np.uint64),
        np.empty(widest, np.bool_),
        np.empty(widest, np.int64),
        np.empty(widest, np.int64),
        np.empty(widest, np.int64),
        np.empty(widest, np.int64),
        np.empty((widest, width), np.int64),
        np.empty(width, np.int64),
        np.empty((widest, widest), np.int64),
        np.empty((widest, widest), np.int64),
        np.zeros(1, np.int64),
    )


def copy_table(table: CutTable) -> CutTable:
    """A table with room for the same rows, to be filled by the kernels."""
    own = {name: np.empty_like(getattr(table, name)) for name in ("rows", "slot", "size", "histogram")}
    return replace(table, **own)
