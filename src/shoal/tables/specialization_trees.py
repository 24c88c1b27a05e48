"""The values that a cut can go through: of every attribute a tree, given or grown, and what its values tell.

Categories have the nodes of their taxonomy. Numbers grow a tree of intervals as they are opened, each by the split that
tells most (Fung, Wang, Yu, section 4). A value is told by its number, in the order in which they were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes
from shoal.formats.dates import format_date
from shoal.formats.labels import ROOT, format_interval, format_range
from shoal.formats.numbers import format_number
from shoal.recoding.grouping import AttributeCut

NOTHING = 1e-12  # gains that differ by less are equal
SAME = 1e-9  # scores that differ by less, relative to their size, are equal
MOST_CELLS = 2**25  # of codes x classes, counted in one array


@dataclass(frozen=True)
class ClassCounts:
    """For the codes of one attribute the records of each class: code c has the cells ``start[c]`` to ``start[c + 1]``."""

    start: Int64Array
    classes: Int64Array
    weight: Int64Array
    domain: int

    def inside(self, lo: int, hi: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Code, class and records of the cells from code ``lo`` to ``hi``."""
        cells = slice(int(self.start[lo]), int(self.start[hi + 1]))
        code = np.repeat(np.arange(lo, hi + 1), np.diff(self.start[lo : hi + 2]))
        return code, self.classes[cells], self.weight[cells]


def class_counts(codes: Codes, target: str | None) -> list[ClassCounts]:
    """How the classes of the target spread over the codes of every attribute; without a target all are of one class."""
    classes, domain = classes_of(codes, target)
    sizes = [a.size for a in codes.attributes]
    if sum(sizes) * domain > MOST_CELLS:
        return [_sparse(codes, j, classes, domain) for j in range(len(sizes))]
    offset = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    start, weight = codes.counts.start, codes.counts.size

    def counted(part: tuple[int, int]) -> Int64Array:
        out = np.zeros((int(offset[-1]), domain), np.int64)
        kernels.specialize.class_counts(codes.quasi, start, classes, weight, offset, *part, out)
        return out

    half = len(codes.quasi) // 2
    one, other = threads.each(counted, [(0, half), (half, len(codes.quasi))])
    dense = one + other
    return [_compressed(dense[begin:end], domain) for begin, end in pairwise(offset)]


def classes_of(codes: Codes, target: str | None) -> tuple[Int32Array, int]:
    """The class of every cell, and how many there may be."""
    names = [a.name for a in codes.attributes]
    if target is None:
        return np.zeros(len(codes.counts.size), np.int32), 1
    if target in names:
        place = names.index(target)
        return codes.quasi[codes.combination, place], codes.attributes[place].size
    secret = [s.name for s in codes.sensitive].index(target)
    return np.ascontiguousarray(codes.counts.sensitive[:, secret]), len(codes.sensitive[secret].labels)


def _compressed(dense: Int64Array, domain: int) -> ClassCounts:
    code, classes = np.nonzero(dense)
    start = np.searchsorted(code, np.arange(len(dense) + 1)).astype(np.int64)
    return ClassCounts(start, classes.astype(np.int64), dense[code, classes], domain)


def _sparse(codes: Codes, j: int, classes: Int32Array, domain: int) -> ClassCounts:
    key, place = np.unique(
        codes.quasi[codes.combination, j].astype(np.int64) * domain + classes.astype(np.int64), return_inverse=True
    )
    weight = np.bincount(place, codes.counts.size, minlength=len(key)).astype(np.int64)
    start = np.searchsorted(key // domain, np.arange(codes.attributes[j].size + 1)).astype(np.int64)
    return ClassCounts(start, key % domain, weight, domain)


@dataclass
class SpecializationTrees:
    """All values made so far; arrays by their numbers. Those of one parent follow each other.

    ``informed`` says that a target is there, so that gains are of information; else they are of certainty (NCP). A value
    ``helps`` where opening it can tell something, and is ``free`` where all its records go to one child, which costs nothing.
    """

    attributes: Sequence[Attribute]
    counts: Sequence[ClassCounts]
    informed: bool
    attribute: list[int] = field(default_factory=list)
    lo: list[int] = field(default_factory=list)
    hi: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    fan: list[int] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    helps: list[bool] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)
    _parts: list[tuple[tuple[int, int, int], ...]] = field(default_factory=list)

    def root(self, j: int) -> int:
        """The topmost value of an attribute."""
        return self._add(j, 0, self.attributes[j].size - 1, 0 if self.attributes[j].taxonomy is not None else -1)

    def open(self, x: int) -> range:
        """The children of a value, made where they are not there yet."""
        if self.first[x] < 0:
            self.first[x] = len(self.lo)
            for part in self._parts[x]:
                self._add(self.attribute[x], *part)
        return range(self.first[x], self.first[x] + self.fan[x])

    def numbers(self, x: int) -> tuple[int, int] | None:
        """The first and the last code of numbers that can be split, if a value has any."""
        attribute = self.attributes[self.attribute[x]]
        last = self.hi[x] - (self.hi[x] == attribute.missing)
        return (self.lo[x], last) if attribute.taxonomy is None and self.lo[x] < last else None

    def split_elsewhere(self, x: int, forbidden: BoolArray) -> bool:
        """Let a value of numbers be split at the best place that is not forbidden; whether that changes anything."""
        inside = self.numbers(x)
        if inside is None or forbidden.all():
            return False
        at = self._split(self.attribute[x], *inside, forbidden)
        if at == self._parts[x][0][1]:
            return False
        self._parts[x] = ((inside[0], at, -1), (at + 1, inside[1], -1), *self._parts[x][2:])
        self.gain[x] = self._gain(x)
        return True

    def slots(self, x: int) -> Int32Array:
        """For every code under a value the child it falls into."""
        length = [hi - lo + 1 for lo, hi, _ in self._parts[x]] or [self.hi[x] - self.lo[x] + 1]
        return np.repeat(np.arange(len(length), dtype=np.int32), length)

    def share(self, x: int) -> float:
        """The NCP of a value."""
        return self._share(self.attribute[x], self.lo[x], self.hi[x], self.node[x])

    def fall(self, x: int) -> float:
        """How much the NCP of the attribute, as the mean over a value's records, falls when the value is opened."""
        parts = [
            (self._share(self.attribute[x], *p), self._records(self.attribute[x], p[0], p[1])) for p in self._parts[x]
        ]
        return self.share(x) - sum(share * records for share, records in parts) / max(self.records[x], 1)

    def label(self, x: int) -> str | None:
        """What is published for a value."""
        return self._label(self.attribute[x], self.lo[x], self.hi[x], self.node[x])

    def children(self, x: int) -> tuple[str | None, ...]:
        """What would be published for the children of a value."""
        return tuple(self._label(self.attribute[x], *part) for part in self._parts[x])

    def slices(self, j: int, cut: Sequence[int], opened: int = -1) -> AttributeCut:
        """The cut of an attribute through these values; as if one of them were opened, where asked."""
        parts = [p for x in cut for p in (self._parts[x] if x == opened else [(self.lo[x], self.hi[x], self.node[x])])]
        first, _, node = np.array(sorted(parts), np.int32).reshape(-1, 3).T
        return AttributeCut(first, node if self.attributes[j].taxonomy is not None else None)

    def widest(self, j: int) -> int:
        """The most children that a value of an attribute can have."""
        tree = self.attributes[j].taxonomy
        return 3 if tree is None else int(np.bincount(tree.parent[1:], minlength=1).max())

    def _add(self, j: int, lo: int, hi: int, node: int) -> int:
        x = len(self.lo)
        self.attribute.append(j)
        self.lo.append(lo)
        self.hi.append(hi)
        self.node.append(node)
        self.first.append(-1)
        self.records.append(self._records(j, lo, hi))
        parts = self._below(j, lo, hi, node)
        self._parts.append(parts)
        self.fan.append(len(parts))
        gain = self._gain(x) if parts and self.records[x] else 0.0
        self.gain.append(gain)
        classes = np.bincount(self.counts[j].inside(lo, hi)[1]) if parts and self.informed else np.zeros(0)
        free = not self.informed and sum(self._records(j, a, b) > 0 for a, b, _ in parts) == 1 and self.share(x) > 0
        self.free.append(free)
        self.helps.append(bool(np.count_nonzero(classes) > 1) if self.informed else gain > 0 or free)
        return x

    def _records(self, j: int, lo: int, hi: int) -> int:
        counts = self.counts[j]
        return int(counts.weight[counts.start[lo] : counts.start[hi + 1]].sum())

    def _below(self, j: int, lo: int, hi: int, node: int) -> tuple[tuple[int, int, int], ...]:
        """First code, last code and node of the children: a tree's, or of the best split."""
        attribute = self.attributes[j]
        tree = attribute.taxonomy
        if tree is not None:
            below = np.flatnonzero(tree.parent == node) if tree.height[node] else ()
            return tuple((int(tree.lo[n]), int(tree.hi[n]), int(n)) for n in below)
        absent = ((hi, hi, -1),) if hi == attribute.missing else ()
        last = hi - len(absent)
        if lo < last:
            at = self._split(j, lo, last)
            return (lo, at, -1), (at + 1, last, -1), *absent
        return ((lo, last, -1), *absent) if absent and lo == last else ()

    def _split(self, j: int, lo: int, hi: int, forbidden: BoolArray | None = None) -> int:
        """The code behind which an interval is best split; of equals the smallest."""
        counts, attribute = self.counts[j], self.attributes[j]
        records = max(self._records(j, lo, hi), 1)
        if self.informed:
            gains = kernels.specialize.split_gains(counts.start, counts.classes, counts.weight, lo, hi, counts.domain)
        else:
            begin, end = self._ends(j, lo, hi)
            at = attribute.position[lo + 1 : hi + 1]
            left = np.cumsum(np.diff(np.append(0, np.cumsum(counts.weight))[counts.start[lo : hi + 1]]))
            gains = -(left * (at - begin) + (records - left) * (end - at)) / attribute.span
        gains = gains / records
        if forbidden is not None:
            gains = np.where(forbidden, -np.inf, gains)
        return lo + int(np.argmax(gains >= gains.max() - NOTHING))

    def _gain(self, x: int) -> float:
        """Of information or of certainty, as the mean over a value's records."""
        if not self.informed:
            gain = self.fall(x)
        else:
            code, classes, weight = self.counts[self.attribute[x]].inside(self.lo[x], self.hi[x])
            part = self.slots(x)[code - self.lo[x]].astype(np.int64)
            domain = self.counts[self.attribute[x]].domain
            gain = (_mix(np.zeros_like(part), classes, weight, domain) - _mix(part, classes, weight, domain)) / max(
                self.records[x], 1
            )
        return gain if gain > NOTHING else 0.0

    def _ends(self, j: int, lo: int, hi: int) -> tuple[float, float]:
        """Where the published interval of these codes begins and ends."""
        attribute = self.attributes[j]
        numbers = attribute.size - (attribute.missing >= 0)
        begin = attribute.low if lo == 0 else float(attribute.position[lo])
        return begin, attribute.high if hi >= numbers - 1 else float(attribute.position[hi + 1])

    def _share(self, j: int, lo: int, hi: int, node: int) -> float:
        attribute = self.attributes[j]
        if attribute.taxonomy is not None:
            return float(attribute.taxonomy.share[node])
        if lo == 0 and hi == attribute.size - 1:
            return 1.0
        begin, end = self._ends(j, lo, hi)
        return 0.0 if lo == attribute.missing else (end - begin) / attribute.span

    def _label(self, j: int, lo: int, hi: int, node: int) -> str | None:
        attribute = self.attributes[j]
        if attribute.taxonomy is not None:
            return attribute.taxonomy.text(node)
        if lo == 0 and hi == attribute.size - 1:
            return ROOT
        if lo == attribute.missing:
            return None
        begin, end = self._ends(j, lo, hi)
        text = format_date if attribute.kind == "date" else format_number
        last = hi == attribute.size - 1 - (attribute.missing >= 0)
        return (format_range if last else format_interval)(begin, end, text)


def _mix(part: Int64Array, classes: Int64Array, weight: Int64Array, domain: int) -> float:
    """The entropy of the classes within the parts, in bits, times the records."""
    key = part * domain + classes
    if key.max(initial=0) > MOST_CELLS:
        _, key = np.unique(key, return_inverse=True)
    return _tall(np.bincount(part, weight)) - _tall(np.bincount(key, weight))


def _tall(count: NDArray[Any]) -> float:
    present = count[count > 0]
    return float((present * np.log2(present)).sum())
