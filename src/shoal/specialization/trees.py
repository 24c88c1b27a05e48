"""The specialization tree of every attribute, with the information gain of its values.

A categorical attribute has the nodes of its taxonomy. A numeric attribute has a tree of intervals that grows during the search:
each interval is split where the gain is highest (Fung, Wang, Yu, section 4). Values are numbered in the order of creation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute, rate_nodes
from shoal.encoding.codes import Codes
from shoal.formats.dates import format_date
from shoal.formats.labels import ROOT, format_interval, format_range
from shoal.formats.numbers import format_number
from shoal.recoding.grouping import AttributeCut

GAIN_TOLERANCE = 1e-12  # gains that differ by less are equal
SCORE_TOLERANCE = 1e-9  # scores that differ by less, relative to their size, are equal
MOST_CELLS = 2**25  # the largest array of codes x classes


@dataclass(frozen=True)
class ClassCounts:
    """The records of every code and class of one attribute: code c has the cells ``start[c]`` to ``start[c + 1]``."""

    start: Int64Array
    classes: Int64Array
    records: Int64Array
    domain: int

    def select(self, lo: int, hi: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return code, class and records of the cells of the codes ``lo`` to ``hi``."""
        cells = slice(int(self.start[lo]), int(self.start[hi + 1]))
        code = np.repeat(np.arange(lo, hi + 1), np.diff(self.start[lo : hi + 2]))
        return code, self.classes[cells], self.records[cells]


def count_classes(codes: Codes, target: str | None) -> list[ClassCounts]:
    """Count the classes of the target by the codes of every attribute; without a target there is one class."""
    classes, domain = list_classes(codes, target)
    sizes = [a.size for a in codes.attributes]
    if sum(sizes) * domain > MOST_CELLS:
        return [_count_sparse(codes, j, classes, domain) for j in range(len(sizes))]
    offset = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    start, records = codes.counts.start, codes.counts.size

    def count_rows(rows: tuple[int, int]) -> Int64Array:
        out = np.zeros((int(offset[-1]), domain), np.int64)
        kernels.specialize.count_classes(codes.quasi, start, classes, records, offset, *rows, out)
        return out

    half = len(codes.quasi) // 2
    one, other = threads.each(count_rows, [(0, half), (half, len(codes.quasi))], rows=len(codes.quasi))
    dense = one + other
    return [_compress(dense[begin:end], domain) for begin, end in pairwise(offset)]


def list_classes(codes: Codes, target: str | None) -> tuple[Int32Array, int]:
    """Return the class of every cell, and the number of classes."""
    names = [a.name for a in codes.attributes]
    if target is None:
        return np.zeros(len(codes.counts.size), np.int32), 1
    if target in names:
        column = names.index(target)
        return codes.quasi[codes.combination, column], codes.attributes[column].size
    column = [s.name for s in codes.sensitive].index(target)
    return np.ascontiguousarray(codes.counts.sensitive[:, column]), len(codes.sensitive[column].labels)


def _compress(dense: Int64Array, domain: int) -> ClassCounts:
    code, classes = np.nonzero(dense)
    start = np.searchsorted(code, np.arange(len(dense) + 1)).astype(np.int64)
    return ClassCounts(start, classes.astype(np.int64), dense[code, classes], domain)


def _count_sparse(codes: Codes, j: int, classes: Int32Array, domain: int) -> ClassCounts:
    key, cell = np.unique(
        codes.quasi[codes.combination, j].astype(np.int64) * domain + classes.astype(np.int64), return_inverse=True
    )
    records = np.bincount(cell, codes.counts.size, minlength=len(key)).astype(np.int64)
    start = np.searchsorted(key // domain, np.arange(codes.attributes[j].size + 1)).astype(np.int64)
    return ClassCounts(start, key % domain, records, domain)


@dataclass
class SpecializationTrees:
    """All values created so far, as lists by value number; the children of one value have consecutive numbers.

    A value has the codes ``lo`` to ``hi``, its taxonomy ``node`` (-1 for an interval) and the ``first`` of its ``fan_out``
    children (-1 before they are created). ``gain`` is the information gain with a target (``has_target``), else the reduction
    of the ``objective``. A value ``is_useful`` if its specialization can gain information, and ``is_free`` if all its records
    have the same child, so that its specialization costs no anonymity.
    """

    attributes: Sequence[Attribute]
    counts: Sequence[ClassCounts]
    has_target: bool
    objective: str
    attribute: list[int] = field(default_factory=list)
    lo: list[int] = field(default_factory=list)
    hi: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    fan_out: list[int] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    is_useful: list[bool] = field(default_factory=list)
    is_free: list[bool] = field(default_factory=list)
    _children: list[tuple[tuple[int, int, int], ...]] = field(default_factory=list)

    def add_root(self, j: int) -> int:
        """Create the root value of an attribute and return its number."""
        return self._add(j, 0, self.attributes[j].size - 1, 0 if self.attributes[j].taxonomy is not None else -1)

    def add_interval(self, j: int, lo: int, hi: int) -> int:
        """Create a value outside the tree, from neighbouring intervals of an attribute, and return its number."""
        return self._add(j, lo, hi, -1)

    def expand(self, x: int) -> range:
        """Return the children of a value; the first call creates them."""
        if self.first[x] < 0:
            self.first[x] = len(self.lo)
            for child in self._children[x]:
                self._add(self.attribute[x], *child)
        return range(self.first[x], self.first[x] + self.fan_out[x])

    def splittable_codes(self, x: int) -> tuple[int, int] | None:
        """Return the first and the last code of an interval that can be split, or None."""
        attribute = self.attributes[self.attribute[x]]
        last = self.hi[x] - (self.hi[x] == attribute.missing)
        return (self.lo[x], last) if attribute.taxonomy is None and self.lo[x] < last else None

    def change_split(self, x: int, invalid: BoolArray) -> bool:
        """Move the split of an interval to the best valid position; return whether the split changed."""
        codes = self.splittable_codes(x)
        if codes is None or invalid.all():
            return False
        at = self._find_split(self.attribute[x], *codes, invalid)
        if at == self._children[x][0][1]:
            return False
        self._children[x] = ((codes[0], at, -1), (at + 1, codes[1], -1), *self._children[x][2:])
        self.gain[x] = self._compute_gain(x)
        return True

    def slots(self, x: int) -> Int32Array:
        """Return the child, counted from 0, of every code of a value."""
        length = [hi - lo + 1 for lo, hi, _ in self._children[x]] or [self.hi[x] - self.lo[x] + 1]
        return np.repeat(np.arange(len(length), dtype=np.int32), length)

    def loss(self, x: int, objective: str) -> float:
        """Return the loss of a value by an objective."""
        return self._loss(self.attribute[x], self.lo[x], self.hi[x], self.node[x], objective)

    def loss_reduction(self, x: int, objective: str) -> float:
        """Return the reduction of the attribute's loss by a value's specialization, as the mean over the value's records."""
        j = self.attribute[x]
        below = sum(
            self._loss(j, *child, objective) * self._count_records(j, *child[:2]) for child in self._children[x]
        )
        return self.loss(x, objective) - below / max(self.records[x], 1)

    def label(self, x: int) -> str | None:
        """Return the published label of a value."""
        return self._label(self.attribute[x], self.lo[x], self.hi[x], self.node[x])

    def child_labels(self, x: int) -> tuple[str | None, ...]:
        """Return the labels of the children of a value."""
        return tuple(self._label(self.attribute[x], *child) for child in self._children[x])

    def build_cut(self, j: int, values: Sequence[int], specialized: int = -1) -> AttributeCut:
        """Return the cut of an attribute through these values, with the value ``specialized`` replaced by its children."""
        ranges: list[tuple[int, int, int]] = []
        for x in values:
            ranges += self._children[x] if x == specialized else [(self.lo[x], self.hi[x], self.node[x])]
        first, _, node = np.array(sorted(ranges), np.int32).reshape(-1, 3).T
        return AttributeCut(first, node if self.attributes[j].taxonomy is not None else None)

    def most_children(self, j: int) -> int:
        """Return the largest number of children of a value of an attribute."""
        tree = self.attributes[j].taxonomy
        return 3 if tree is None else int(np.bincount(tree.parent[1:], minlength=1).max())

    def _add(self, j: int, lo: int, hi: int, node: int) -> int:
        x = len(self.lo)
        self.attribute.append(j)
        self.lo.append(lo)
        self.hi.append(hi)
        self.node.append(node)
        self.first.append(-1)
        self.records.append(self._count_records(j, lo, hi))
        children = self._find_children(j, lo, hi, node)
        self._children.append(children)
        self.fan_out.append(len(children))
        gain = self._compute_gain(x) if children and self.records[x] else 0.0
        self.gain.append(gain)
        classes = np.bincount(self.counts[j].select(lo, hi)[1]) if children and self.has_target else np.zeros(0)
        has_one_child = sum(self._count_records(j, a, b) > 0 for a, b, _ in children) == 1
        is_free = not self.has_target and has_one_child and self.loss(x, "ncp") > 0
        self.is_free.append(is_free)
        self.is_useful.append(bool(np.count_nonzero(classes) > 1) if self.has_target else gain > 0 or is_free)
        return x

    def _count_records(self, j: int, lo: int, hi: int) -> int:
        counts = self.counts[j]
        return int(counts.records[counts.start[lo] : counts.start[hi + 1]].sum())

    def _find_children(self, j: int, lo: int, hi: int, node: int) -> tuple[tuple[int, int, int], ...]:
        """Return first code, last code and node of every child: from the taxonomy, or by the best split of an interval."""
        attribute = self.attributes[j]
        tree = attribute.taxonomy
        if tree is not None:
            children = np.flatnonzero(tree.parent == node) if tree.height[node] else ()
            return tuple((int(tree.lo[n]), int(tree.hi[n]), int(n)) for n in children)
        missing = ((hi, hi, -1),) if hi == attribute.missing else ()
        last = hi - len(missing)
        if lo < last:
            at = self._find_split(j, lo, last)
            return (lo, at, -1), (at + 1, last, -1), *missing
        return ((lo, last, -1), *missing) if missing and lo == last else ()

    def _find_split(self, j: int, lo: int, hi: int, invalid: BoolArray | None = None) -> int:
        """Return the last code of the left interval of the best split; the smallest code breaks ties."""
        counts, attribute = self.counts[j], self.attributes[j]
        records = max(self._count_records(j, lo, hi), 1)
        if self.has_target:
            gains = kernels.specialize.split_gains(counts.start, counts.classes, counts.records, lo, hi, counts.domain)
        else:
            begin, end = self._interval_ends(j, lo, hi)
            at = attribute.position[lo + 1 : hi + 1]
            left = np.cumsum(np.diff(np.append(0, np.cumsum(counts.records))[counts.start[lo : hi + 1]]))
            gains = -(left * (at - begin) + (records - left) * (end - at)) / attribute.span
        gains = gains / records
        if invalid is not None:
            gains = np.where(invalid, -np.inf, gains)
        return lo + int(np.argmax(gains >= gains.max() - GAIN_TOLERANCE))

    def _compute_gain(self, x: int) -> float:
        """Return the information gain or the reduction of the objective, as the mean over a value's records."""
        if not self.has_target:
            gain = self.loss_reduction(x, self.objective)
        else:
            counts = self.counts[self.attribute[x]]
            code, classes, records = counts.select(self.lo[x], self.hi[x])
            child = self.slots(x)[code - self.lo[x]].astype(np.int64)
            before = _sum_entropy(np.zeros_like(child), classes, records, counts.domain)
            gain = (before - _sum_entropy(child, classes, records, counts.domain)) / max(self.records[x], 1)
        return gain if gain > GAIN_TOLERANCE else 0.0

    def _interval_ends(self, j: int, lo: int, hi: int) -> tuple[float, float]:
        """Return the published ends of the interval of these codes."""
        attribute = self.attributes[j]
        numbers = attribute.size - (attribute.missing >= 0)
        begin = attribute.low if lo == 0 else float(attribute.position[lo])
        return begin, attribute.high if hi >= numbers - 1 else float(attribute.position[hi + 1])

    @cached_property
    def _node_loss(self) -> dict[str, list[FloatArray | None]]:
        """The loss of every taxonomy node, by objective and attribute."""
        names = dict.fromkeys(("ncp", self.objective))
        return {name: [None if a.taxonomy is None else rate_nodes(a, name) for a in self.attributes] for name in names}

    def _loss(self, j: int, lo: int, hi: int, node: int, objective: str) -> float:
        attribute, nodes = self.attributes[j], self._node_loss[objective][j]
        if nodes is not None:
            return float(nodes[node])
        if lo == 0 and hi == attribute.size - 1:
            return 1.0
        begin, end = self._interval_ends(j, lo, hi)
        return 0.0 if lo == attribute.missing else (end - begin) / attribute.span

    def _label(self, j: int, lo: int, hi: int, node: int) -> str | None:
        attribute = self.attributes[j]
        if attribute.taxonomy is not None:
            return attribute.taxonomy.text(node)
        if lo == 0 and hi == attribute.size - 1:
            return ROOT
        if lo == attribute.missing:
            return None
        begin, end = self._interval_ends(j, lo, hi)
        text = format_date if attribute.kind == "date" else format_number
        last = hi == attribute.size - 1 - (attribute.missing >= 0)
        return (format_range if last else format_interval)(begin, end, text)


def _sum_entropy(child: Int64Array, classes: Int64Array, records: Int64Array, domain: int) -> float:
    """Return the sum over the children of the entropy of the classes, in bits, times the records of the child."""
    key = child * domain + classes
    if key.max(initial=0) > MOST_CELLS:
        _, key = np.unique(key, return_inverse=True)
    return _sum_n_log_n(np.bincount(child, records)) - _sum_n_log_n(np.bincount(key, records))


def _sum_n_log_n(count: NDArray[Any]) -> float:
    present = count[count > 0]
    return float((present * np.log2(present)).sum())
