"""The extent of published labels: how all measures read the labels of Shoal and of other tools."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shoal.arrays import BoolArray, FloatArray, Int64Array
from shoal.encoding.attributes import Attribute, rate_values
from shoal.errors import DataError, list_some
from shoal.formats.labels import (
    DAY,
    ROOT,
    is_half_open,
    match_mask,
    read_branch,
    read_range,
    read_ranges,
    read_run,
    read_set,
)
from shoal.formats.numbers import parse_number


@dataclass(frozen=True)
class Extent:
    """The part of an attribute that one label covers; each figure is between 0 (one value) and 1 (all values).

    ``ncp``: the width of a range, or the different source values of a node or set, as a share of all. ``height``: the
    height of the lowest node that covers the label, over the height of the taxonomy; for numbers the width. ``loss``: the
    share of source values, scaled from 0 for one value to 1 for all. ``entropy``: the entropy of the original value given
    the label, over its entropy without the label.
    """

    ncp: float
    height: float
    loss: float
    entropy: float


MEMBER = re.compile(r"[\[(][^\])]*[\])]|[^,\s]+")  # of a set of numbers and ranges
SINGLE = Extent(0.0, 0.0, 0.0, 0.0)
WHOLE = Extent(1.0, 1.0, 1.0, 1.0)


def read_values(attribute: Attribute, labels: Sequence[str | None], count: Int64Array) -> list[Int64Array]:
    """The source values that every label covers, ordered by code; the last one is missing, if values are missing.

    A single number or date that is not in the source covers no value. Where no value is missing in the source, a missing
    label is a suppressed value and covers all. Raises `DataError` for labels that cannot be read.
    """
    reader = (_NumberReader if attribute.taxonomy is None else _CategoryReader)(attribute, count)
    every = np.arange(attribute.source_size)
    missing = every[-1:] if attribute.missing >= 0 else every
    covered = [missing if label is None else every if label == ROOT else reader.find_values(label) for label in labels]
    for i, label in enumerate(labels):
        if covered[i] is None and attribute.kind != "categorical" and read_single(attribute, label) is not None:
            covered[i] = every[:0]
    _refuse_unreadable(attribute, [label for label, values in zip(labels, covered, strict=True) if values is None])
    return [values for values in covered if values is not None]


def read_single(attribute: Attribute, label: str | None) -> float | None:
    """The number or date of a label that is a single one; None for other labels."""
    ends = None if label is None else read_range(label, dates=attribute.kind == "date")
    return ends[0] if ends is not None and ends[0] == ends[1] else None


def read_extents(attribute: Attribute, labels: Sequence[str | None], count: Int64Array) -> list[Extent]:
    """The extent of every label; ``count[code]`` is the number of records of each code in the original.

    Raises `DataError` for labels that cannot be read.
    """
    reader = (_NumberReader if attribute.taxonomy is None else _CategoryReader)(attribute, count)
    extents = [WHOLE if label == ROOT else reader.read(label) for label in labels]
    _refuse_unreadable(attribute, [label for label, extent in zip(labels, extents, strict=True) if extent is None])
    return [extent for extent in extents if extent is not None]


def _refuse_unreadable(attribute: Attribute, unreadable: Sequence[str | None]) -> None:
    if unreadable:
        raise DataError(
            f"column {attribute.name!r} of the release holds labels that cannot be read: {list_some(unreadable)}. Use values, "
            "ranges such as [20, 36] or 20-40, sets such as {a, b} or a,b, labels of the taxonomy, masks such as 479**, or *."
        )


class _NumberReader:
    """Reads labels of numbers and dates."""

    def __init__(self, attribute: Attribute, count: Int64Array) -> None:
        finite = np.isfinite(attribute.position)
        self.position, self.count = attribute.position[finite], count[finite]
        self.span, self.dates = attribute.span, attribute.kind == "date"
        self.total_entropy = _compute_entropy(count)
        present = np.maximum(self.count, 1)
        self.records_before: list[int] = np.concatenate(([0], np.cumsum(self.count))).tolist()
        self.logs_before: list[float] = np.concatenate(([0.0], np.cumsum(self.count * np.log(present)))).tolist()

    def read(self, label: str | None) -> Extent | None:
        if label is None or not len(self.position):
            return SINGLE
        ends = read_ranges(label, dates=self.dates) or self._read_list(label)
        if ends is None:
            return None
        lo, hi = ends
        lo = float(self.position[0]) if np.isinf(lo) else lo  # an open end is the least or largest value of the data
        hi = float(self.position[-1]) if np.isinf(hi) else hi
        width = min(max(hi - lo, 0.0) / self.span, 1.0)
        end: Literal["left", "right"] = "left" if is_half_open(label) and hi > lo else "right"
        first, last = int(self.position.searchsorted(lo)), int(self.position.searchsorted(hi, side=end))
        return Extent(width, width, width, self._compute_entropy_share(first, last))

    def find_values(self, label: str) -> Int64Array | None:
        """The values that a label covers, in ascending order; None if the label cannot be read.

        A range of dates includes the times of its last day.
        """
        is_set = label.startswith("{") and label.endswith("}")
        members = MEMBER.findall(label[1:-1]) if is_set else [label]
        if not is_set and read_range(label, dates=self.dates) is None:
            members = [] if self._read_list(label) is None else label.split(",")
        missing = np.array([len(self.position)]) if "?" in members and is_set else np.zeros(0, np.int64)
        found = [read_range(member, dates=self.dates) for member in members if member != "?"]
        if not members or None in found:
            return None
        covered = [missing.astype(np.int64)]
        for member, (lo, hi) in zip((m for m in members if m != "?"), filter(None, found), strict=True):
            end: Literal["left", "right"] = "left" if is_half_open(member) and hi > lo else "right"
            if self.dates and hi > lo and end == "right" and hi % DAY == 0:
                hi, end = hi + DAY, "left"
            covered.append(np.arange(self.position.searchsorted(lo), self.position.searchsorted(hi, side=end)))
        return np.unique(np.concatenate(covered))

    def _read_list(self, label: str) -> tuple[float, float] | None:
        """The least and the largest of values that commas separate; all must be values of the original."""
        members = [read_range(member, dates=self.dates) for member in label.split(",")]
        values = [ends[0] for ends in members if ends is not None and ends[0] == ends[1]]
        known = len(values) == len(members) > 1 and bool(np.isin(values, self.position).all())
        return (min(values), max(values)) if known else None

    def _compute_entropy_share(self, first: int, last: int) -> float:
        """The entropy of the values ``first`` to ``last`` - 1, from sums over all values before them."""
        records = self.records_before[last] - self.records_before[first]
        if last - first < 2 or not records or not self.total_entropy:
            return 0.0
        logs = self.logs_before[last] - self.logs_before[first]
        return max(math.log(records) - logs / records, 0.0) / self.total_entropy


class _CategoryReader:
    """Reads labels of a taxonomy: a leaf, a node, a set, a mask.

    ``records`` has the number of records of every source value, ordered by code; ``begin`` the first value of every code.
    ``number`` has the values themselves, where a leaf covers several.
    """

    def __init__(self, attribute: Attribute, count: Int64Array) -> None:
        assert attribute.taxonomy is not None  # noqa: S101
        self.tree, self.begin, self.size = attribute.taxonomy, attribute.values_before, attribute.source_size
        self.records = count
        self.number: FloatArray | None = None
        if attribute.source is not None:
            missing = slice(attribute.missing, None) if attribute.missing >= 0 else slice(0)
            self.records = np.append(attribute.source.records, count[missing])
            self.number = np.append(attribute.source.number, np.full(len(count[missing]), np.nan))
        self.total_entropy = _compute_entropy(self.records)
        self.leaf = {label: code for code, label in enumerate(self.tree.leaves)}
        self.node = {label: n for n, label in reversed(list(enumerate(self.tree.label)))}
        self.dates = attribute.kind == "date"
        self.ordered = attribute.runs is not None
        none = (np.nan, np.nan)
        numbers = all(leaf is None or parse_number(leaf) is not None for leaf in self.tree.leaves)
        is_text = attribute.kind == "categorical" and not numbers
        leaves = [None if is_text or leaf is None else leaf for leaf in self.tree.leaves]
        ends = [none if leaf is None else read_range(leaf, dates=self.dates) or none for leaf in leaves]
        self.low, self.high = np.array(ends, np.float64).reshape(-1, 2).T
        if self.number is not None:  # a leaf such as 1980s is no range: its least and its largest value are its ends
            unread = np.isnan(self.low)
            self.low[unread] = self.number[self.begin[:-1]][unread]
            self.high[unread] = self.number[self.begin[1:] - 1][unread]
        self.open = np.array([leaf is not None and is_half_open(leaf) for leaf in leaves], bool)

    def read(self, label: str | None) -> Extent | None:
        if label is None:  # a missing value is a value of its own
            return SINGLE
        found = self.locate(label)
        if found is None:
            return None
        tree, (node, values) = self.tree, found
        if tree.height[node] == 0 and len(values) < 2:
            return SINGLE
        ncp, loss = (max(float(rate_values(len(values), self.size, o)), 0.0) for o in ("ncp", "loss_mean"))
        height = float(tree.height[node] / tree.height[0])
        return Extent(ncp, height, loss, _compute_entropy_share(self.records[values], self.total_entropy))

    def find_values(self, label: str) -> Int64Array | None:
        """The source values that a label covers, ordered by code; None if the label cannot be read."""
        found = self.locate(label)
        return None if found is None else found[1]

    def locate(self, label: str) -> tuple[int, Int64Array] | None:
        """The lowest node over a label, and the source values that the label covers; None if it cannot be read."""
        tree = self.tree
        inside: list[int] | None = None
        if label in self.leaf:
            codes, node = np.array([self.leaf[label]]), int(tree.leaf[self.leaf[label]])
        elif label in self.node:
            node = self.node[label]
            codes = np.arange(tree.lo[node], tree.hi[node] + 1)
        else:
            members = read_set(label, tree.leaves)
            leaves = match_mask(label, tree.leaves) if members is None else [self.leaf[v] for v in members]
            leaves = leaves or self._read_branch(label) or self._read_run(label)
            if not leaves:
                leaves, inside = self._read_ranges(label)
            if not leaves:
                leaves, inside = self._read_list(label), None
            if not leaves:
                return None
            codes = np.unique(leaves)
            node = tree.cover(int(codes[0]), int(codes[-1]))
        values = self._list_values(codes) if inside is None else np.unique(np.array(inside, np.int64))
        return node, values

    def _list_values(self, codes: Int64Array) -> Int64Array:
        """The source values of these codes."""
        if self.number is None:
            return codes
        return np.concatenate([np.arange(self.begin[code], self.begin[code + 1]) for code in codes])

    def _read_list(self, label: str) -> list[int]:
        """The leaves of values that commas separate, as anonypy writes a set; ``nan`` is a missing value."""
        if "," not in label:
            return []
        missing = "nan" if "nan" not in self.leaf else None
        values = read_set(f"{{{label}}}", [missing if leaf is None else leaf for leaf in self.tree.leaves])
        return [self.leaf[None if value == missing else value] for value in values or ()]

    def _read_branch(self, label: str) -> list[int]:
        """The leaves of a branch such as ``{clerk … nurse}``: from the first to the last, in the order of the taxonomy."""
        first, last = read_branch(label) or ("", "")
        if first not in self.leaf or last not in self.leaf:
            return []
        return list(range(self.leaf[first], self.leaf[last] + 1))

    def _read_run(self, label: str) -> list[int]:
        """The leaves of a run such as ``1966 – 1983``: from the first leaf of one node to the last leaf of another."""
        first, last = (self.node.get(end) for end in read_run(label) or ("", ""))
        if not self.ordered or first is None or last is None:
            return []
        return list(range(self.tree.lo[first], self.tree.hi[last] + 1))

    def _read_ranges(self, label: str) -> tuple[list[int], list[int] | None]:
        """The leaves and values in a range, or in any range of a set such as ``{3, [3.1, 3.2], ?}``.

        The values are None for all values of the leaves.
        """
        if not (label.startswith("{") and label.endswith("}")):
            return self._read_range(label)
        found: list[int] = []
        values: list[int] = []
        for member in MEMBER.findall(label[1:-1]):
            missing = [self.tree.size - 1] if member == "?" and self.tree.leaves[-1] is None else []
            leaves = [self.leaf[member]] if member in self.leaf else missing
            leaves, inside = (leaves, None) if leaves else self._read_range(member)
            if not leaves:
                return [], None
            found += leaves
            values += self._list_values(np.array(leaves)).tolist() if inside is None else inside
        return found, values

    def _read_range(self, label: str) -> tuple[list[int], list[int] | None]:
        """The leaves, numbers or intervals, that overlap a range that is not a node of the taxonomy, and the values inside."""
        ends = None if np.isnan(self.low).all() else read_range(label, dates=self.dates)
        if ends is None:
            return [], None
        half_open = is_half_open(label)
        below = self.low < ends[1] if half_open else self.low <= ends[1]
        above = np.where(self.open, self.high > ends[0], self.high >= ends[0])
        leaves: list[int] = np.flatnonzero(above & below).tolist()
        if self.number is None:
            return leaves, None
        # A range of dates includes the times of its last day.
        last = np.floor(self.number / DAY) * DAY if self.dates and ends[0] < ends[1] else self.number
        inside: BoolArray = self.number < ends[1] if half_open else last <= ends[1]
        return leaves, np.flatnonzero(inside & (self.number >= ends[0])).tolist()


def _compute_entropy_share(count: Int64Array, total_entropy: float) -> float:
    return _compute_entropy(count) / total_entropy if total_entropy else 0.0


def _compute_entropy(count: Int64Array) -> float:
    """The entropy, in nats, of values with these numbers of records."""
    present = count[count > 0]
    if len(present) < 2:
        return 0.0
    share = present / present.sum()
    return float(-(share * np.log(share)).sum())
