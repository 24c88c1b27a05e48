"""Attributes: the codes of a quasi-identifier, and the loss of intervals of codes.

The code of a numeric or date value is its rank among the distinct values, that of a categorical value the index of its leaf
in depth-first order, and that of a missing value the last code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.rounding import Rounding, default_rounding, parse_rounding
from shoal.engines import Dictionary, Distinct, Reading
from shoal.errors import DataError, PolicyError, list_some
from shoal.formats.dates import parse_date
from shoal.formats.labels import DAY
from shoal.formats.numbers import format_number, parse_number
from shoal.kernels.interface import FLAT, HEAD, NODES, NUMBER, RANGED, TREE
from shoal.policy import QuasiIdentifier
from shoal.taxonomy import Balanced, Runs, Taxonomy

OBJECTIVES = ("ncp", "loss_mean", "il")  # the measures that methods can minimize, by their names in `release.measures`
LARGEST = 1e150  # sums of squares of larger numbers overflow


@dataclass(frozen=True)
class SourceValues:
    """The different values of a source column, where a leaf of the taxonomy covers several, such as a month or an interval.

    ``count[code]`` is the number of values of each code; missing values count as one value. ``number`` and ``records`` have the
    values that are not missing and their records, ordered by code.
    """

    count: Int64Array
    number: FloatArray
    records: Int64Array


@dataclass(frozen=True)
class Attribute:
    """A quasi-identifier as codes.

    ``position[code]`` is the value of a number or date (dates in seconds since 1970-01-01), the leaf code of a categorical
    value, and infinity for a missing value. Positions ascend with the codes. The taxonomy contains the leaf of missing
    values. ``low`` and ``high`` are the bounds of numbers in the policy (default: the least and the largest value). ``runs``
    has the nodes at which published ranges of an ordered taxonomy begin and end. ``rounding`` moves the ends of published
    ranges of numbers and dates outward; ``bounded`` ranges stay within ``low`` and ``high``. ``source`` is None where each
    code is one value of the source.
    """

    name: str
    kind: Literal["numeric", "categorical", "date"]
    position: FloatArray
    taxonomy: Taxonomy | None
    span: float
    flat: bool = False
    low: float = 0.0
    high: float = 0.0
    runs: Runs | None = None
    rounding: Rounding | None = None
    bounded: bool = False
    source: SourceValues | None = None

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.position)

    @property
    def missing(self) -> int:
        """The code of missing values, or -1 if there are none."""
        return self.size - 1 if self.size and np.isinf(self.position[-1]) else -1

    @cached_property
    def numbers(self) -> FloatArray | None:
        """The number or date of each code, infinity for missing; None for categories.

        With a taxonomy, the leaves are parsed; None if a leaf is not a single number or date, such as a month.
        """
        if self.taxonomy is None:
            return self.position
        if self.kind == "categorical":
            return None
        parse = parse_number if self.kind == "numeric" else parse_date
        found = [np.inf if leaf is None else parse(leaf) for leaf in self.taxonomy.leaves]
        return None if None in found else np.array(found, np.float64)

    @cached_property
    def values_before(self) -> Int64Array:
        """The number of source values of all codes below each code; the last entry is the number of all source values."""
        if self.source is None:
            return np.arange(self.size + 1)
        return np.concatenate(([0], np.cumsum(self.source.count)))

    @property
    def source_size(self) -> int:
        """The number of different source values; missing values count as one value."""
        return int(self.values_before[-1])

    def publish_nodes(self, lo: Int32Array, hi: Int32Array) -> tuple[Int32Array, Int32Array]:
        """The first and the last node that are published for the codes from ``lo`` to ``hi``; equal for a single node."""
        assert self.taxonomy is not None  # noqa: S101
        if self.runs is not None:
            return self.runs.publish(self.taxonomy, lo, hi)
        node = self.taxonomy.covers(lo, hi)
        return node, node

    def round_ends(
        self, low: FloatArray, high: FloatArray, closed: BoolArray | bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """The published ends of ranges of numbers or dates, of which the ``closed`` ones include their upper end."""
        if self.rounding is None:
            return low, high
        low, high = self.rounding.outward(low, high, closed)
        if self.bounded:
            return np.where(np.isinf(low), low, low.clip(min=self.low)), np.where(
                np.isinf(high), high, high.clip(max=self.high)
            )
        return low, high

    def round_nearest(self, values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """The published averages or midpoints of ranges from ``low`` to ``high``."""
        if self.rounding is None:
            return values
        rounded = self.rounding.nearest(values, low, high)
        return rounded.clip(self.low, self.high) if self.bounded else rounded

    @cached_property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The lower and the upper end of published ranges by their first and last code, as a search counts them."""
        if self.rounding is None or not self.rounding.by_value:
            return self.position, self.position
        return self.round_ends(self.position, self.position)

    def loss(self, lo: Int32Array, hi: Int32Array) -> FloatArray:
        """The normalized certainty penalty of intervals of codes: 0 for one source value, 1 for all source values."""
        if self.taxonomy is not None:
            first, last = self.publish_nodes(lo, hi)
            covered = self.values_before[self.taxonomy.hi[last] + 1] - self.values_before[self.taxonomy.lo[first]]
            return np.where(
                first == last, rate_nodes(self, "ncp")[first], rate_values(covered, self.source_size, "ncp")
            )
        with np.errstate(invalid="ignore"):
            width = (self.ends[1][hi] - self.ends[0][lo]) / self.span
        return np.where(np.isinf(self.position[hi]), np.where(lo == hi, 0.0, 1.0), width)

    def distance(self, one: Int32Array, other: Int32Array) -> FloatArray:
        """The distance of codes, between 0 and 1; the distance of a missing value from all others is 1.

        Definitions 4 and 5 of Byun, Kamra, Bertino and Li, "Efficient k-anonymization using clustering techniques"
        (2007): for numbers the difference over the span, for categories the height of the lowest common ancestor over the
        height of the taxonomy.
        """
        lo, hi = np.minimum(one, other), np.maximum(one, other)
        if self.taxonomy is None:
            return self.loss(lo, hi)
        height = self.taxonomy.height
        return np.asarray(height[self.taxonomy.covers(lo, hi)] / max(int(height[0]), 1), np.float64)


def rate_values(count: NDArray[Any] | int, size: int, objective: str) -> FloatArray:
    """The loss of labels that cover ``count`` of the ``size`` different source values.

    ``ncp`` is the share of values. ``loss_mean`` is the same share, scaled from 0 for one value to 1 for all values.
    """
    values = np.asarray(count, np.float64)
    offset, scale = _scale_values(size, objective)
    return np.asarray((values - offset) / scale, np.float64)


def _scale_values(size: int, objective: str) -> tuple[int, int]:
    """The numbers to subtract from a number of values, and to divide the difference by, for a loss."""
    return (1, max(size - 1, 1)) if objective == "loss_mean" else (0, max(size, 1))


def rate_nodes(attribute: Attribute, objective: str) -> FloatArray:
    """The loss of every node of a taxonomy: its source values (`rate_values`), or for ``il`` its height over that of the root.

    A leaf that covers one source value has loss 0.
    """
    tree = attribute.taxonomy
    assert tree is not None  # noqa: S101
    if objective == "il":
        return np.asarray(tree.height / max(int(tree.height[0]), 1), np.float64)
    covered = attribute.values_before[tree.hi + 1] - attribute.values_before[tree.lo]
    is_value = (tree.height == 0) & (covered == 1)
    return np.where(is_value, 0.0, rate_values(covered, attribute.source_size, objective))


@dataclass(frozen=True)
class LossTables:
    """All attributes as two arrays, for `kernels.boxes.interval_loss`.

    ``ints`` begins with six numbers per attribute: its kind, its number of codes, the code of missing values, and the first
    index of its leaves (node by code), its nodes (pairs of last code and parent) and its floats (positions, or shares by
    node). ``floats`` begins with the span of every attribute: the width of all numbers, or the scale of the losses of runs.
    """

    ints: Int32Array
    floats: FloatArray

    @classmethod
    def of(cls, attributes: Sequence[Attribute], objective: str, *, count_values: bool = False) -> LossTables:
        """Convert attributes to arrays, with the losses of an objective (`OBJECTIVES`).

        An attribute without a taxonomy is published as one value or as ``*``. With ``count_values`` the loss of its intervals
        is the share of values instead, because a search that cuts them further may still separate them.
        """
        head = np.zeros((len(attributes), HEAD), np.int32)
        ints: list[NDArray[Any]] = [head.ravel()]
        span = np.array([a.span for a in attributes], np.float64)
        floats: list[NDArray[Any]] = [span]

        def append(arrays: list[NDArray[Any]], array: NDArray[Any]) -> int:
            begin = sum(map(len, arrays))
            arrays.append(array)
            return begin

        for j, attribute in enumerate(attributes):
            tree = attribute.taxonomy
            if tree is None:
                low = high = append(floats, attribute.ends[0])
                if attribute.ends[1] is not attribute.ends[0]:
                    high = append(floats, attribute.ends[1])
                head[j] = NUMBER, attribute.size, attribute.missing, low, 0, high
                continue
            kind = FLAT if attribute.flat and count_values and objective != "il" else TREE
            leaves = append(ints, tree.leaf)
            if attribute.runs is not None and objective != "il":
                kind, node = RANGED, attribute.runs.node
                append(ints, tree.lo[node])
                append(ints, tree.hi[node])
                offset, span[j] = _scale_values(attribute.source_size, objective)
                append(floats, attribute.values_before[:-1] + offset)
                append(floats, attribute.values_before[1:])
            nodes = append(ints, np.stack([tree.hi, tree.parent], axis=1).ravel())
            losses = append(floats, rate_nodes(attribute, objective))
            head[j] = kind, attribute.size, attribute.missing, leaves, nodes, losses
        return cls(np.concatenate(ints).astype(np.int32), np.concatenate(floats).astype(np.float64))

    def first_codes(self, attributes: Sequence[Attribute]) -> Int32Array:
        """The first code under each node, at the index where ``ints`` has the last code."""
        first = np.zeros(len(self.ints), np.int32)
        for j, attribute in enumerate(attributes):
            if attribute.taxonomy is not None:
                nodes = self.ints[HEAD * j + NODES]
                first[nodes : nodes + 2 * len(attribute.taxonomy.lo) : 2] = attribute.taxonomy.lo
        return first


def encode_attribute(
    name: str, quasi: QuasiIdentifier, distinct: Distinct, reading: Reading
) -> tuple[Attribute, Dictionary]:
    """Encode the distinct values of a column as an attribute, and return it with its dictionary."""
    has_missing = distinct.missing > 0
    if quasi.kind != "categorical" and quasi.tree_builder is None:
        position = np.append(distinct.values, np.inf) if has_missing else np.asarray(distinct.values, np.float64)
        codes = np.arange(len(distinct.values), dtype=np.int32)
        low, high = _find_range(name, quasi, distinct.values)
        rounding = _choose_rounding(quasi, np.asarray(distinct.values, np.float64), high - low)
        attribute = Attribute(
            name,
            quasi.kind,
            position,
            None,
            1.0,
            low=low,
            high=high,
            rounding=rounding,
            bounded=quasi.bounds is not None,
        )
        ends = attribute.ends[0][: len(codes)], attribute.ends[1][: len(codes)]
        low, high = (low, high) if attribute.bounded or not len(codes) else (float(ends[0][0]), float(ends[1][-1]))
        attribute = replace(attribute, span=high - low if high > low else 1.0)
    else:
        tree, codes, flat = _encode_tree(name, quasi, distinct)
        position = np.arange(tree.size, dtype=np.float64)
        if has_missing:
            tree, position = tree.with_missing(), np.append(position, np.inf)
        runs = None if quasi.range_height is None else Runs.of(tree, quasi.range_height)
        rounding = None
        if quasi.kind == "numeric" and isinstance(quasi.tree_builder, Balanced):
            values = np.asarray(distinct.values, np.float64)
            rounding = _choose_rounding(quasi, values, float(np.ptp(values)) if len(values) else 0.0)
        source = None if quasi.kind == "categorical" else _list_source_values(distinct, codes, tree.size)
        attribute = Attribute(name, quasi.kind, position, tree, 1.0, flat, runs=runs, rounding=rounding, source=source)
    return attribute, Dictionary(reading, distinct, codes, attribute.size - 1 if has_missing else -1)


def _list_source_values(distinct: Distinct, codes: Int32Array, size: int) -> SourceValues | None:
    """The values of every code; None if each code has one value."""
    if len(np.unique(codes)) == len(codes):
        return None
    numbers = np.asarray(distinct.values, np.float64)
    order = np.lexsort((numbers, codes))
    count = np.bincount(codes, minlength=size).clip(min=1)  # missing values are one value, which has no number
    return SourceValues(count, numbers[order], np.asarray(distinct.counts, np.int64)[order])


def _choose_rounding(quasi: QuasiIdentifier, values: FloatArray, span: float) -> Rounding | None:
    """The rounding in the policy, or the default for these values."""
    if quasi.round is None:
        return default_rounding(values, dates=quasi.kind == "date", span=span)
    return parse_rounding(quasi.round, days=not (values % DAY).any())


def _find_range(name: str, quasi: QuasiIdentifier, values: FloatArray) -> tuple[float, float]:
    """The least and the largest number of a column: its bounds in the policy, or those of its values."""
    if quasi.bounds is not None:
        low, high = quasi.bounds
        outside = [format_number(v) for v in values if not low <= v <= high]
        if outside:
            raise DataError(
                f"column {name!r} holds values outside its bounds {low:g} to {high:g}: {list_some(outside)}. "
                "Correct the values or widen the bounds."
            )
        return low, high
    low, high = (float(values[0]), float(values[-1])) if len(values) else (0.0, 0.0)
    if max(-low, high) > LARGEST:
        raise DataError(
            f"column {name!r} holds numbers beyond {LARGEST:g}, such as {format_number(high if high > -low else low)}, which "
            "are too large for sums of squares. Use a larger unit, or make these values missing."
        )
    return low, high


def _encode_tree(name: str, quasi: QuasiIdentifier, distinct: Distinct) -> tuple[Taxonomy, Int32Array, bool]:
    """The taxonomy of an attribute, the code of every distinct value, and whether the taxonomy is flat and unordered."""
    if quasi.tree_builder is not None:
        paths = [quasi.tree_builder.path(value) for value in distinct.values]
        tree = quasi.tree_builder.tree(paths, distinct.counts.tolist(), column=name)
        try:
            tree = quasi.reshape(tree)
        except PolicyError as error:
            raise PolicyError(f"column {name!r}: {error}") from None
        return tree, tree.code_of([path[0] for path in paths], column=name), False
    texts = [str(v) for v in distinct.values]
    if quasi.taxonomy is not None:
        tree = quasi.reshape(quasi.taxonomy)
        return tree, tree.code_of(texts, column=name), False
    # Without a taxonomy the most frequent value comes first, so that cuts between codes separate frequent from rare values.
    order = np.argsort(-distinct.counts, kind="stable")
    tree = Taxonomy.flat([texts[i] for i in order])
    return tree, tree.code_of(texts, column=name), True
