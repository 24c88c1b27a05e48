"""What a published label says of a value: the one reading of labels, ours and other tools', that all measures share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shoal.arrays import Int64Array
from shoal.encoding.attributes import Attribute
from shoal.errors import DataError, list_some
from shoal.formats.dates import parse_date
from shoal.formats.labels import ROOT, is_half_open, match_mask, read_branch, read_range, read_ranges, read_set
from shoal.formats.numbers import parse_number


@dataclass(frozen=True)
class Extent:
    """What one label covers of an attribute, each figure between 0 (one value) and 1 (everything).

    ``ncp``: the width of numbers, the leaves under a node, or the values of a set, over all. ``height``: the height of the
    lowest node over it, over the tree's; the width of numbers. ``share``: the leaves over all, 1/m for one of m.
    ``entropy``: how uncertain the original value is, knowing the label, over how uncertain it is without it.
    """

    ncp: float
    height: float
    share: float
    entropy: float


WHOLE = Extent(1.0, 1.0, 1.0, 1.0)


def read_extents(attribute: Attribute, labels: Sequence[str | None], count: Int64Array) -> list[Extent]:
    """The extent of every label; ``count[code]`` is how often each value of the attribute occurs in the original.

    Raises `DataError` for labels that cannot be understood.
    """
    read = (_Numbers if attribute.taxonomy is None else _Categories)(attribute, count)
    found = [WHOLE if label == ROOT else read.extent(label) for label in labels]
    lost = [label for label, extent in zip(labels, found, strict=True) if extent is None]
    if lost:
        raise DataError(
            f"column {attribute.name!r} of the release holds labels that cannot be read: {list_some(lost)}; expected are "
            "values, ranges such as [20, 36] or 20-40, sets such as {a, b}, labels of the taxonomy, masks such as 479**, "
            "or *"
        )
    return [extent for extent in found if extent is not None]


class _Numbers:
    """Reads labels of numbers and dates."""

    def __init__(self, attribute: Attribute, count: Int64Array) -> None:
        finite = np.isfinite(attribute.position)
        self.position, self.count = attribute.position[finite], count[finite]
        self.span, self.dates = attribute.span, attribute.kind == "date"
        self.everything = _entropy(count)

    def extent(self, label: str | None) -> Extent | None:
        if label is None or not len(self.position):
            return Extent(0.0, 0.0, 0.0, 0.0)
        ends = read_ranges(label, dates=self.dates)
        if ends is None:
            return None
        lo, hi = ends
        lo = float(self.position[0]) if np.isinf(lo) else lo  # an open end reaches as far as the data do
        hi = float(self.position[-1]) if np.isinf(hi) else hi
        width = min(max(hi - lo, 0.0) / self.span, 1.0)
        end: Literal["left", "right"] = "left" if is_half_open(label) and hi > lo else "right"
        first, last = np.searchsorted(self.position, lo), np.searchsorted(self.position, hi, side=end)
        return Extent(width, width, width, _part(self.count[first:last], self.everything))


class _Categories:
    """Reads labels of a tree: a leaf, a node, a set, a mask."""

    def __init__(self, attribute: Attribute, count: Int64Array) -> None:
        assert attribute.taxonomy is not None  # noqa: S101
        self.tree, self.count = attribute.taxonomy, count
        self.everything = _entropy(count)
        self.leaf = {label: code for code, label in enumerate(self.tree.leaves)}
        self.node = {label: n for n, label in reversed(list(enumerate(self.tree.label)))}
        self.dates = attribute.kind == "date"
        parse = {"numeric": parse_number, "date": parse_date}.get(attribute.kind)
        places = [None if parse is None or leaf is None else parse(leaf) for leaf in self.tree.leaves]
        self.numbers = np.array([np.nan if place is None else place for place in places], np.float64)

    def extent(self, label: str | None) -> Extent | None:
        tree = self.tree
        if label in self.leaf or label is None:  # a missing value is a value of its own
            return Extent(0.0, 0.0, 1 / tree.size, 0.0)
        if label in self.node:
            node = self.node[label]
            codes, part = np.arange(tree.lo[node], tree.hi[node] + 1), float(tree.share[node])
        else:
            listed = read_set(label, tree.leaves)
            found = match_mask(label, tree.leaves) if listed is None else [self.leaf[v] for v in listed]
            found = found or self._run(label) or self._between(label)
            if not found:
                return None
            codes = np.unique(found)
            node = tree.cover(int(codes[0]), int(codes[-1]))
            part = 0.0 if len(codes) == 1 else len(codes) / tree.size
        height = float(tree.height[node] / tree.height[0]) if part else 0.0
        return Extent(part, height, max(part, 1 / tree.size), _part(self.count[codes], self.everything))

    def _run(self, label: str) -> list[int]:
        """The leaves of a branch such as ``{clerk … nurse}``: from the first to the last, in the order of the tree."""
        first, last = read_branch(label) or ("", "")
        if first not in self.leaf or last not in self.leaf:
            return []
        return list(range(self.leaf[first], self.leaf[last] + 1))

    def _between(self, label: str) -> list[int]:
        """The leaves of numbers or dates that lie in a range which is no node of the tree."""
        ends = None if np.isnan(self.numbers).all() else read_range(label, dates=self.dates)
        if ends is None:
            return []
        below = self.numbers < ends[1] if is_half_open(label) else self.numbers <= ends[1]
        return [int(code) for code in np.flatnonzero((self.numbers >= ends[0]) & below)]


def _part(count: Int64Array, everything: float) -> float:
    return _entropy(count) / everything if everything else 0.0


def _entropy(count: Int64Array) -> float:
    """How uncertain a value is that occurs so often among others."""
    present = count[count > 0]
    if len(present) < 2:
        return 0.0
    share = present / present.sum()
    return float(-(share * np.log(share)).sum())
