"""The published values of a group: the label of its box, the ends, the midpoint, the set of values, or one average value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.engines import GroupColumn
from shoal.errors import PolicyError, list_choices
from shoal.formats.column_pairs import pair_names
from shoal.formats.dates import format_date
from shoal.formats.labels import (
    DAY,
    ROOT,
    format_interval,
    format_range,
    format_run,
    format_set,
    join_intervals,
)
from shoal.formats.numbers import EXACT, format_number

Style = Literal["label", "lo-hi", "midpoint", "set", "mean", "median"]
STYLES: tuple[str, ...] = get_args(Style)
PLACES = 12  # columns with more decimals are not rounded
AVERAGES: tuple[Style, ...] = ("mean", "median")  # computed from the records of a group, so not possible for a cut


Ends = Literal["tight", "cut"]
ENDS: tuple[str, ...] = get_args(Ends)


@dataclass(frozen=True)
class RangeEnds:
    """The ends of the published range of every group, as positions; ``closed`` ranges include their upper end.

    A range from minus to plus infinity is the root; a range with ``low`` above ``high`` has no released record.
    """

    low: FloatArray
    high: FloatArray
    closed: BoolArray

    @classmethod
    def tight(cls, attribute: Attribute, lo: Int32Array, hi: Int32Array, released: Int32Array) -> RangeEnds:
        """From the smallest to the largest released value between two codes; ``released`` are the released codes."""
        present = released[released != attribute.missing]
        positions = np.append(attribute.position[present], np.nan)
        first = np.searchsorted(released, lo)
        last = np.searchsorted(present, hi, side="right") - 1
        none = last < first
        low, high = (positions[np.where(none, -1, index)] for index in (first, last))
        return cls(np.where(none, np.inf, low), np.where(none, -np.inf, high), np.ones(len(low), bool))

    @classmethod
    def of(
        cls,
        attribute: Attribute,
        lo: Int32Array,
        hi: Int32Array,
        shared: BoolArray,
        released: Int32Array,
        *,
        bounded: bool,
    ) -> RangeEnds:
        """The half-open ranges between the cuts around the codes from ``lo`` to ``hi``.

        No end is a value of suppressed records alone: an end moves up to the next released value (``released`` are the
        released codes). The first and the last end move to the smallest and the largest released value, unless the policy
        has bounds.
        """
        last = attribute.size - 1 - (attribute.missing >= 0)
        positions = attribute.position[released[released != attribute.missing]]
        if not len(positions):
            return cls(np.full(len(lo), np.inf), np.full(len(lo), -np.inf), np.ones(len(lo), bool))
        bottom, top = (attribute.low, attribute.high) if bounded else (positions[0], positions[-1])

        def move_up(code: NDArray[np.integer]) -> tuple[FloatArray, BoolArray]:
            index = np.searchsorted(positions, attribute.position[code.clip(0, last)])
            beyond = (index >= len(positions)) | (code > last)
            return np.where(beyond, top, positions[index.clip(0, len(positions) - 1)]), beyond

        low, beyond = move_up(lo)
        high, closed = move_up(hi + 1)
        largest = attribute.position[hi.clip(0, last)]
        below = positions[(np.searchsorted(positions, largest, side="right") - 1).clip(0)]
        empty = beyond | (low > largest)
        low, high = np.where(lo == 0, bottom, low), np.where(shared, below, high)
        low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
        whole = (lo == 0) & (hi >= attribute.size - 1) & ~shared
        return cls(np.where(whole, -np.inf, low), np.where(whole, np.inf, high), closed | shared | whole)

    def round(self, attribute: Attribute) -> RangeEnds:
        """The same ranges with rounded ends."""
        low, high = attribute.round_ends(self.low, self.high, self.closed)
        empty = self.low > self.high
        return RangeEnds(np.where(empty, self.low, low), np.where(empty, self.high, high), self.closed)

    def label(self, at: int, text: Callable[[float], str]) -> str:
        """The label of a group."""
        low, high = float(self.low[at]), float(self.high[at])
        if np.isinf(low):
            return ROOT
        return (format_range if self.closed[at] else format_interval)(low, high, text)

    def extents(self, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The positions in the ranges, both ends included; a group with infinite ``hi`` includes a missing value."""
        high = np.where(self.closed, self.high, np.nextafter(self.high, -np.inf))
        return np.where(np.isinf(hi), -np.inf, self.low), np.where(np.isinf(hi), np.inf, high)


def parse_ends(text: str) -> Ends:
    """Check a value of ``ends``; `PolicyError` lists the choices."""
    if text not in ENDS:
        raise PolicyError(f"unknown value {text!r} for 'ends'; {list_choices(str(text), ENDS)}")
    return text  # type: ignore[return-value]


def parse_style(text: str) -> Style:
    """Check a value of ``write``; `PolicyError` lists the choices."""
    if text not in STYLES:
        raise PolicyError(f"unknown value {text!r} for 'write'; {list_choices(text, STYLES)}")
    return text  # type: ignore[return-value]


def label_boxes(
    attributes: Sequence[Attribute],
    lo: Int32Array,
    hi: Int32Array,
    style: Style,
    members: Callable[[int], tuple[Int32Array, Int32Array, Int64Array]],
    ranges: Mapping[int, RangeEnds] | None = None,
) -> tuple[tuple[str, GroupColumn], ...]:
    """The published columns of boxes ``lo`` to ``hi`` [group, attribute], each with the name of its attribute.

    ``members(j)`` returns the distinct pairs of group and code of attribute j, sorted, and the number of records of each; only
    sets, means and medians need it. ``ranges`` has the ranges of numbers that are not tight.
    """
    found: list[tuple[str, GroupColumn]] = []
    for j, attribute in enumerate(attributes):
        if style in AVERAGES:
            columns = [_average_column(attribute, *members(j), len(lo), style)]
        elif ranges and j in ranges:
            columns = _range_columns(attribute, lo[:, j], hi[:, j], ranges[j], style)
        elif attribute.taxonomy is None and style in ("lo-hi", "midpoint"):
            columns = _number_columns(attribute, lo[:, j], hi[:, j], style)
        elif attribute.taxonomy is not None and style == "set":
            columns = [_set_column(attribute, *members(j)[:2], len(lo))]
        else:
            columns = [_label_column(attribute, lo[:, j], hi[:, j])]
        found += [(attribute.name, column) for column in columns]
    return tuple(found)


def _label_column(attribute: Attribute, lo: Int32Array, hi: Int32Array) -> GroupColumn:
    if attribute.taxonomy is not None:
        first, last = attribute.publish_nodes(lo, hi)
        nodes = len(attribute.taxonomy.label)
        pairs, index = np.unique(first.astype(np.int64) * nodes + last, return_inverse=True)
        labels = [label_nodes(attribute, pair // nodes, pair % nodes) for pair in pairs.tolist()]
        return _text_column(attribute.name, labels, index)
    ranges = RangeEnds(attribute.position[lo], attribute.position[hi], np.ones(len(lo), bool))
    return _range_columns(attribute, lo, hi, ranges.round(attribute), "label")[0]


def label_nodes(attribute: Attribute, first: int, last: int) -> str | None:
    """The label of a run of nodes, or of a single node."""
    tree = attribute.taxonomy
    assert tree is not None  # noqa: S101
    if first == last:
        return tree.text(first)
    join = join_intervals if attribute.kind == "numeric" else format_run
    return join(str(tree.label[first]), str(tree.label[last]))


def label_leaves(attribute: Attribute, codes: Sequence[int]) -> str:
    """The label of neighbouring leaves, by their codes: a range of numbers, a run of an ordered taxonomy, or a set."""
    tree = attribute.taxonomy
    assert tree is not None  # noqa: S101
    if len(codes) > 1 and (attribute.kind == "numeric" or attribute.runs is not None):
        return str(label_nodes(attribute, int(tree.leaf[codes[0]]), int(tree.leaf[codes[-1]])))
    return str(format_set(dict.fromkeys(tree.leaves[code] for code in codes)))


def _range_columns(
    attribute: Attribute, lo: Int32Array, hi: Int32Array, ranges: RangeEnds, style: Style
) -> list[GroupColumn]:
    """Columns for ranges of numbers; a box of missing values alone is missing, other boxes with missing values are the root."""
    missing = np.isinf(attribute.position[hi])
    if style in ("lo-hi", "midpoint"):
        return _end_columns(attribute, ranges.low, ranges.high, missing | np.isinf(ranges.low), style)
    text = format_date if attribute.kind == "date" else format_number
    kinds = [np.where(missing, np.where(lo == hi, 1, 2), 0), ranges.low, ranges.high, ranges.closed]
    _, first, index = np.unique(np.stack(kinds, axis=1), axis=0, return_index=True, return_inverse=True)
    others = {1: None, 2: ROOT}
    labels = [others[int(kinds[0][g])] if kinds[0][g] else ranges.label(int(g), text) for g in first]
    return [_text_column(attribute.name, labels, index.reshape(-1))]


def _text_column(name: str, labels: Sequence[str | None], index: NDArray[np.integer]) -> GroupColumn:
    """A column of labels by index; equal labels are merged, and None has the index -1."""
    number: dict[str, int] = {}
    target = [-1 if label is None else number.setdefault(label, len(number)) for label in labels]
    return GroupColumn(name, np.array(list(number), dtype=object), np.array(target, np.int32)[index])


def star_ranges(
    columns: Sequence[tuple[str, GroupColumn]], lo: Int32Array, hi: Int32Array
) -> tuple[tuple[str, GroupColumn], ...]:
    """The columns of labels with ``*`` in place of every label of more than one code; the others stay as they are."""
    found = []
    for j, (source, column) in enumerate(columns):
        texts = [*column.values.tolist(), ROOT]
        used, index = np.unique(np.where(lo[:, j] < hi[:, j], len(texts) - 1, column.index), return_inverse=True)
        labels = [None if i < 0 else texts[i] for i in used.tolist()]
        found.append((source, _text_column(column.name, labels, index.reshape(-1))))
    return tuple(found)


def _set_column(attribute: Attribute, group: Int32Array, code: Int32Array, groups: int) -> GroupColumn:
    assert attribute.taxonomy is not None  # noqa: S101
    leaves = attribute.taxonomy.leaves
    begin = np.searchsorted(group, np.arange(groups + 1))
    seen: dict[bytes, int] = {}
    labels: list[str | None] = []
    index = np.empty(groups, np.int32)
    for g in range(groups):
        codes = code[begin[g] : begin[g + 1]]
        index[g] = seen.setdefault(codes.tobytes(), len(labels))
        if index[g] == len(labels):
            labels.append(format_set(dict.fromkeys(leaves[c] for c in codes)))  # rounded leaves may be equal
    return _text_column(attribute.name, labels, index)


def _number_columns(attribute: Attribute, lo: Int32Array, hi: Int32Array, style: Style) -> list[GroupColumn]:
    """Columns of ends or midpoints; missing for a box with a missing value."""
    low, high = attribute.round_ends(attribute.position[lo], attribute.position[hi])
    return _end_columns(attribute, low, high, np.isinf(high), style)


def _end_columns(
    attribute: Attribute, low: FloatArray, high: FloatArray, missing: BoolArray, style: Style
) -> list[GroupColumn]:
    low, high = np.where(missing, 0.0, low), np.where(missing, 0.0, high)
    if style == "midpoint":
        middle = attribute.round_nearest(low / 2 + high / 2, low, high)
        return [_value_column(attribute, attribute.name, middle, missing)]
    ends = zip(pair_names(attribute.name), (low, high), strict=True)
    return [_value_column(attribute, name, values, missing) for name, values in ends]


def _average_column(
    attribute: Attribute, group: Int32Array, code: Int32Array, records: Int64Array, groups: int, style: Style
) -> GroupColumn:
    """The mean or median of numbers and dates, the most frequent category.

    A group with a missing number has a missing average: the mean of the other numbers could be the value of one person. Means
    have as many decimals as the column. Every attribute with a taxonomy is categorical; a missing category is a value like any
    other. Ties between categories: a missing value first, then the smaller code. Means and medians of dates are rounded to
    the unit of the column, whole days or whole seconds (ties: the earlier).
    """
    begin = np.searchsorted(group, np.arange(groups))
    if attribute.taxonomy is not None:
        mode = code[np.lexsort((code, code != attribute.missing, -records, group))[begin]]
        codes, index = np.unique(mode, return_inverse=True)
        return _text_column(attribute.name, [attribute.taxonomy.leaves[c] for c in codes], index)
    missing = np.zeros(groups, bool)
    missing[group[code == attribute.missing]] = True
    values = np.where(code == attribute.missing, 0.0, attribute.position[code])
    averages = (_means if style == "mean" else _medians)(values, records, begin)
    if style == "mean" and attribute.kind == "numeric":
        averages = _round_means(averages, attribute.position[np.isfinite(attribute.position)])
    if attribute.kind == "date":
        finite = attribute.position[np.isfinite(attribute.position)]
        unit = next((u for u in (DAY, 1.0) if not (finite % u).any()), None)
        averages = averages if unit is None else np.ceil(averages / unit - 0.5) * unit
    first, last = np.minimum.reduceat(values, begin), np.maximum.reduceat(values, begin)
    averages = attribute.round_nearest(averages, first, last)
    return _value_column(attribute, attribute.name, np.where(missing, 0.0, averages), missing)


def _means(value: FloatArray, records: Int64Array, begin: Int64Array) -> FloatArray:
    """The mean of every run of ascending values, clipped to the run because of rounding errors."""
    mean = np.add.reduceat(value * records, begin) / np.add.reduceat(records, begin)
    return np.clip(mean, np.minimum.reduceat(value, begin), np.maximum.reduceat(value, begin))


def _round_means(means: FloatArray, values: FloatArray) -> FloatArray:
    """Round means to the decimals of the column's values: more decimals would reveal the divisor, the group size."""
    places = count_decimal_places(values, float(np.abs(values).max(initial=0.0)))
    return means if places is None else np.asarray(np.rint(means * 10.0**places) / 10.0**places, np.float64)


def count_decimal_places(values: FloatArray, largest: float) -> int | None:
    """The largest number of decimals of values up to ``largest``; None if above `PLACES` or not exact."""
    for places in range(PLACES + 1):
        scale = 10.0**places
        if largest * scale < EXACT and (np.rint(values * scale) / scale == values).all():
            return places
    return None


def _medians(value: FloatArray, records: Int64Array, begin: Int64Array) -> FloatArray:
    """The median of every run of ascending values."""
    upto = np.cumsum(records)
    first, size = upto[begin] - records[begin], np.add.reduceat(records, begin)
    low, high = (value[np.searchsorted(upto, first + rank, side="right")] for rank in ((size - 1) // 2, size // 2))
    return np.asarray((low + high) / 2, np.float64)


def write_values(attributes: Sequence[Attribute], codes: Int32Array) -> tuple[tuple[str, GroupColumn], ...]:
    """The columns of single values, exactly as in the source: numbers, dates as texts, categories."""
    found = []
    for j, attribute in enumerate(attributes):
        code = codes[:, j]
        if attribute.numbers is not None:
            missing = code == attribute.missing
            values = np.where(missing, 0.0, attribute.numbers[code])
            column = _value_column(attribute, attribute.name, values, missing)
            whole = column.values.dtype.kind == "f" and (column.values == np.rint(column.values)).all()
            if whole and (np.abs(column.values) < EXACT).all():
                column = replace(column, values=column.values.astype(np.int64))
        else:
            assert attribute.taxonomy is not None  # noqa: S101
            column = _text_column(attribute.name, attribute.taxonomy.leaves, code)
        found.append((attribute.name, column))
    return tuple(found)


def label_codes(attributes: Sequence[Attribute]) -> tuple[tuple[str | None, ...], ...]:
    """The text of every code, by attribute, as a table of single values shows it; None for a missing value."""
    found = []
    for attribute in attributes:
        ((_, column),) = write_values([attribute], np.arange(attribute.size, dtype=np.int32)[:, None])
        texts = [v if isinstance(v, str) else format_number(float(v)) for v in column.values]
        found.append(tuple(None if i < 0 else texts[i] for i in column.index))
    return tuple(found)


def _value_column(attribute: Attribute, name: str, values: FloatArray, missing: BoolArray) -> GroupColumn:
    distinct, inverse = np.unique(values, return_inverse=True)
    index = np.where(missing, -1, inverse).astype(np.int32)
    if attribute.kind == "date":
        return GroupColumn(name, np.array([format_date(v) for v in distinct], dtype=object), index)
    return GroupColumn(name, distinct, index)
