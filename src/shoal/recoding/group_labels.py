"""What is published for a group: the label of its box, its ends, its midpoint, the set of its values, or one value for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.engines import GroupColumn
from shoal.errors import PolicyError, list_choices
from shoal.formats.column_pairs import pair_names
from shoal.formats.dates import format_date
from shoal.formats.labels import DAY, ROOT, format_interval, format_range, format_set
from shoal.formats.numbers import format_number
from shoal.kernels.combinations import compact_codes, number_combinations

Style = Literal["label", "lo-hi", "midpoint", "set", "mean", "median"]
STYLES: tuple[str, ...] = get_args(Style)
PLACES = 6  # the most decimals that a column is kept to; one that has more is written as finely as numbers are
EXACT = 2.0**53
AVERAGES: tuple[Style, ...] = ("mean", "median")  # made from the records of a group, so a cut has none


Ends = Literal["tight", "cut"]
ENDS: tuple[str, ...] = get_args(Ends)


@dataclass(frozen=True)
class RangeEnds:
    """Where the published range of every group begins and ends, as positions; ``closed`` ones hold their upper end.

    A range from minus to plus infinity is the root; one that begins behind its end holds no released record.
    """

    low: FloatArray
    high: FloatArray
    closed: BoolArray

    @classmethod
    def tight(cls, attribute: Attribute, lo: Int32Array, hi: Int32Array, seen: Int32Array) -> RangeEnds:
        """From the smallest to the largest released value between two codes."""
        known = np.append(attribute.position[seen[seen != attribute.missing]], np.nan)
        first = np.searchsorted(seen, lo)
        last = np.searchsorted(seen[seen != attribute.missing], hi, side="right") - 1
        none = last < first
        low, high = (known[np.where(none, -1, place)] for place in (first, last))
        return cls(np.where(none, np.inf, low), np.where(none, -np.inf, high), np.ones(len(low), bool))

    @classmethod
    def of(
        cls, attribute: Attribute, lo: Int32Array, hi: Int32Array, shared: BoolArray, seen: Int32Array, *, bounded: bool
    ) -> RangeEnds:
        """The cuts around codes from ``lo`` to ``hi``: from one cut up to but not with the next.

        No end is a value that only suppressed records have: an end moves up to the next released value (``seen`` are the
        released codes), the first and the last end to the smallest and the largest, unless the policy gives bounds.
        """
        last = attribute.size - 1 - (attribute.missing >= 0)
        known = attribute.position[seen[seen != attribute.missing]]
        if not len(known):
            return cls(np.full(len(lo), np.inf), np.full(len(lo), -np.inf), np.ones(len(lo), bool))
        bottom, top = (attribute.low, attribute.high) if bounded else (known[0], known[-1])

        def moved(code: NDArray[np.integer]) -> tuple[FloatArray, BoolArray]:
            place = np.searchsorted(known, attribute.position[code.clip(0, last)])
            beyond = (place >= len(known)) | (code > last)
            return np.where(beyond, top, known[place.clip(0, len(known) - 1)]), beyond

        low, gone = moved(lo)
        high, closed = moved(hi + 1)
        reach = attribute.position[hi.clip(0, last)]
        below = known[(np.searchsorted(known, reach, side="right") - 1).clip(0)]
        empty = gone | (low > reach)
        low, high = np.where(lo == 0, bottom, low), np.where(shared, below, high)
        low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
        whole = (lo == 0) & (hi >= attribute.size - 1) & ~shared
        return cls(np.where(whole, -np.inf, low), np.where(whole, np.inf, high), closed | shared | whole)

    def label(self, at: int, text: Callable[[float], str]) -> str:
        """What is published for a group."""
        low, high = float(self.low[at]), float(self.high[at])
        if np.isinf(low):
            return ROOT
        return (format_range if self.closed[at] else format_interval)(low, high, text)

    def extents(self, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The positions that ranges hold, both ends included; where ``hi`` is infinite a missing value is among them."""
        high = np.where(self.closed, self.high, np.nextafter(self.high, -np.inf))
        return np.where(np.isinf(hi), -np.inf, self.low), np.where(np.isinf(hi), np.inf, high)


def parse_ends(text: str) -> Ends:
    """How ranges end, by its name, or an error that lists the choices."""
    if text not in ENDS:
        raise PolicyError(f"unknown ends {text!r}; {list_choices(str(text), ENDS)}")
    return text  # type: ignore[return-value]


def parse_style(text: str) -> Style:
    """A way of writing by its name, or an error that lists them."""
    if text not in STYLES:
        raise PolicyError(f"unknown way of writing {text!r}; {list_choices(text, STYLES)}")
    return text  # type: ignore[return-value]


def label_boxes(
    attributes: Sequence[Attribute],
    lo: Int32Array,
    hi: Int32Array,
    style: Style,
    members: Callable[[int], tuple[Int32Array, Int32Array, Int64Array]],
    ranges: Mapping[int, RangeEnds] | None = None,
) -> tuple[tuple[str, GroupColumn], ...]:
    """The released columns for boxes ``lo`` to ``hi`` [group, attribute], each with the attribute it comes from.

    ``members(j)`` gives the distinct pairs of group and code of attribute j, sorted, and the records of each; asked for by
    sets, means and medians alone. ``ranges`` has the ranges of numbers that are not to be tight.
    """
    found: list[tuple[str, GroupColumn]] = []
    for j, attribute in enumerate(attributes):
        if style in AVERAGES:
            columns = [_averages(attribute, *members(j), len(lo), style)]
        elif ranges and j in ranges:
            columns = _ranged(attribute, lo[:, j], hi[:, j], ranges[j], style)
        elif attribute.taxonomy is None and style in ("lo-hi", "midpoint"):
            columns = _numbers(attribute, lo[:, j], hi[:, j], style)
        elif attribute.taxonomy is not None and style == "set":
            columns = [_sets(attribute, *members(j)[:2], len(lo))]
        else:
            columns = [_labels(attribute, lo[:, j], hi[:, j])]
        found += [(attribute.name, column) for column in columns]
    return tuple(found)


def _labels(attribute: Attribute, lo: Int32Array, hi: Int32Array) -> GroupColumn:
    if attribute.taxonomy is not None:
        node = attribute.taxonomy.covers(lo, hi)
        kept, index = compact_codes(node, len(attribute.taxonomy.label))
        return _texts(attribute.name, [attribute.taxonomy.text(int(n)) for n in kept], index)
    pair = number_combinations([lo, hi], len(lo))
    first = np.zeros(int(pair.max(initial=-1)) + 1, np.int64)
    first[pair] = np.arange(len(lo))
    return _texts(attribute.name, [_range(attribute, int(lo[g]), int(hi[g])) for g in first], pair)


def _ranged(attribute: Attribute, lo: Int32Array, hi: Int32Array, ranges: RangeEnds, style: Style) -> list[GroupColumn]:
    """Ranges of numbers as cuts; a box with a missing value in it is the root, or missing."""
    absent = np.isinf(attribute.position[hi])
    if style in ("lo-hi", "midpoint"):
        return _ends(attribute, ranges.low, ranges.high, absent | np.isinf(ranges.low), style)
    text = format_date if attribute.kind == "date" else format_number
    kinds = [np.where(absent, np.where(lo == hi, 1, 2), 0), ranges.low, ranges.high, ranges.closed]
    _, first, place = np.unique(np.stack(kinds, axis=1), axis=0, return_index=True, return_inverse=True)
    labels = [{0: ranges.label(int(g), text), 1: None, 2: ROOT}[int(kinds[0][g])] for g in first]
    return [_texts(attribute.name, labels, place.reshape(-1))]


def _range(attribute: Attribute, lo: int, hi: int) -> str | None:
    low, high = attribute.position[lo], attribute.position[hi]
    if np.isinf(high):
        return None if lo == hi else ROOT
    return format_range(low, high, format_date if attribute.kind == "date" else format_number)


def _texts(name: str, labels: Sequence[str | None], index: NDArray[np.integer]) -> GroupColumn:
    """Texts by index, equal ones joined; a missing one is -1."""
    place: dict[str, int] = {}
    target = [-1 if label is None else place.setdefault(label, len(place)) for label in labels]
    return GroupColumn(name, np.array(list(place), dtype=object), np.array(target, np.int32)[index])


def _sets(attribute: Attribute, group: Int32Array, code: Int32Array, groups: int) -> GroupColumn:
    assert attribute.taxonomy is not None  # noqa: S101
    leaves = attribute.taxonomy.leaves
    begin = np.searchsorted(group, np.arange(groups + 1))
    seen: dict[bytes, int] = {}
    labels: list[str | None] = []
    index = np.empty(groups, np.int32)
    for g in range(groups):
        codes = code[begin[g] : begin[g + 1]]
        place = seen.setdefault(codes.tobytes(), len(labels))
        if place == len(labels):
            labels.append(format_set(leaves[c] for c in codes))
        index[g] = place
    return _texts(attribute.name, labels, index)


def _numbers(attribute: Attribute, lo: Int32Array, hi: Int32Array, style: Style) -> list[GroupColumn]:
    """Numeric columns; a box with a missing value in it has no ends and no middle."""
    low, high = attribute.position[lo], attribute.position[hi]
    return _ends(attribute, low, high, np.isinf(high), style)


def _ends(attribute: Attribute, low: FloatArray, high: FloatArray, gone: BoolArray, style: Style) -> list[GroupColumn]:
    low, high = np.where(gone, 0.0, low), np.where(gone, 0.0, high)
    if style == "midpoint":
        return [_column(attribute, attribute.name, (low + high) / 2, gone)]
    ends = zip(pair_names(attribute.name), (low, high), strict=True)
    return [_column(attribute, name, values, gone) for name, values in ends]


def _averages(
    attribute: Attribute, group: Int32Array, code: Int32Array, records: Int64Array, groups: int, style: Style
) -> GroupColumn:
    """The mean or median of numbers, the most frequent category.

    Numbers with a missing one among them have neither, as they have no middle: the mean of those that are there could be one
    person's value. Means have as many decimals as the column. A missing category is a value like any other. Whatever has a
    tree is a category; where several are as frequent it is a missing one, or else the earlier code. Dates stay as fine as
    they are: whole days, or whole seconds, the earlier where two are as near.
    """
    begin = np.searchsorted(group, np.arange(groups))
    if attribute.taxonomy is not None:
        mode = code[np.lexsort((code, code != attribute.missing, -records, group))[begin]]
        kept, index = np.unique(mode, return_inverse=True)
        return _texts(attribute.name, [attribute.taxonomy.leaves[c] for c in kept], index)
    gone = np.zeros(groups, bool)
    gone[group[code == attribute.missing]] = True
    values = np.where(code == attribute.missing, 0.0, attribute.position[code])
    found = (_means if style == "mean" else _medians)(values, records, begin)
    if style == "mean" and attribute.kind == "numeric":
        found = _rounded(found, attribute.position[np.isfinite(attribute.position)])
    if attribute.kind == "date":
        known = attribute.position[np.isfinite(attribute.position)]
        unit = next((u for u in (DAY, 1.0) if not (known % u).any()), None)
        found = found if unit is None else np.ceil(found / unit - 0.5) * unit
    return _column(attribute, attribute.name, np.where(gone, 0.0, found), gone)


def _means(value: FloatArray, records: Int64Array, begin: Int64Array) -> FloatArray:
    """The mean of every run of ascending values; rounding may not lead out of it."""
    mean = np.add.reduceat(value * records, begin) / np.add.reduceat(records, begin)
    return np.clip(mean, np.minimum.reduceat(value, begin), np.maximum.reduceat(value, begin))


def _rounded(means: FloatArray, values: FloatArray) -> FloatArray:
    """Means with as many decimals as the column's values have: more would show by how many records a sum was divided."""
    places = decimal_places(values, float(np.abs(values).max(initial=0.0)))
    return means if places is None else np.asarray(np.rint(means * 10.0**places) / 10.0**places, np.float64)


def decimal_places(values: FloatArray, largest: float) -> int | None:
    """How many decimals values have at most, where none is above ``largest``; None where they are as fine as numbers are."""
    for places in range(PLACES + 1):
        scale = 10.0**places
        if largest * scale < EXACT and (np.rint(values * scale) / scale == values).all():
            return places
    return None


def _medians(value: FloatArray, records: Int64Array, begin: Int64Array) -> FloatArray:
    """The value in the middle of every run of ascending values, or between the two that are there."""
    upto = np.cumsum(records)
    first, size = upto[begin] - records[begin], np.add.reduceat(records, begin)
    low, high = (value[np.searchsorted(upto, first + rank, side="right")] for rank in ((size - 1) // 2, size // 2))
    return np.asarray((low + high) / 2, np.float64)


def _column(attribute: Attribute, name: str, values: FloatArray, gone: BoolArray) -> GroupColumn:
    kept, index = np.unique(values, return_inverse=True)
    place = np.where(gone, -1, index).astype(np.int32)
    if attribute.kind == "date":
        return GroupColumn(name, np.array([format_date(v) for v in kept], dtype=object), place)
    return GroupColumn(name, kept, place)
