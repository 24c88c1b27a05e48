"""`Cut`: a global recoding, one cut per attribute for the whole table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import BoolArray, FloatArray, Int32Array
from shoal.engines import GroupColumn
from shoal.errors import PolicyError, list_choices, list_some
from shoal.formats.checked_json import (
    array,
    array_to_json,
    member,
    objects,
    refuse_unknown,
    require,
    texts,
)
from shoal.formats.column_pairs import pair_names
from shoal.formats.dates import format_date
from shoal.formats.labels import ROOT, format_interval, format_range, format_set
from shoal.formats.numbers import format_number
from shoal.kernels.combinations import number_combinations
from shoal.recoding.field import Field
from shoal.recoding.group_labels import RangeEnds
from shoal.recoding.protocol import BaseRecoding, Columns, LaterData, LaterPlacement, Output, apply
from shoal.recoding.serialization import HEAD, check_head, head_from_dict, head_to_dict
from shoal.taxonomy import Taxonomy

NUMBERS = ("label", "lo-hi", "midpoint")  # styles for intervals of numbers
LARGEST = {"numeric": float(np.finfo(np.float64).max), "date": 9e12}  # dates are microseconds in 64 bits


@dataclass(frozen=True)
class LeafRun:
    """A run of leaves that is published as one value but is no node: its first and its last code, and its label.

    ``is_set``: the label lists the values, so it does not cover new values between them.
    """

    first: int
    last: int
    label: str
    is_set: bool

    @property
    def extent(self) -> tuple[float, float]:
        """The range of positions."""
        return float(self.first), float(self.last)


@dataclass(frozen=True)
class FieldCut:
    """The cut of one field: interval i has the positions from ``begin[i]`` (included) to ``end[i]`` (excluded).

    Numbers have half-open intervals; the last includes its end if ``closed``. A taxonomy has nodes, as intervals of leaf codes.
    A missing value is published as missing if ``missing`` is None, else as that label. If the published range differs from
    the interval, it goes from ``low[i]`` to ``high[i]``. If labels are sets, ``set_positions`` has the positions of their
    values. All other positions are outside. ``middle`` has the rounded midpoints of the published ranges.
    """

    begin: FloatArray
    end: FloatArray
    labels: tuple[str, ...]
    missing: str | None = None
    closed: bool = False
    low: FloatArray | None = None
    high: FloatArray | None = None
    set_positions: FloatArray | None = None
    middle: FloatArray | None = None

    @classmethod
    def root(cls) -> FieldCut:
        """The root for all values."""
        return cls(np.array([-np.inf]), np.array([np.inf]), (ROOT,), ROOT)

    @classmethod
    def of_ends(
        cls, field: Field, ends: FloatArray, *, closed: bool = False, published: RangeEnds | None = None
    ) -> FieldCut:
        """Numbers or dates, cut at ascending ends; ``published`` has the published ranges if they differ from the intervals."""
        text = format_date if field.kind == "date" else format_number
        labels = [format_interval(a, b, text) for a, b in pairwise(ends)]
        if closed:
            labels[-1] = format_range(ends[-2], ends[-1], text)
        if published is None:
            return cls(ends[:-1], ends[1:], tuple(labels), None, closed)
        released = published.low <= published.high  # the other intervals have only suppressed records and no label
        labels = [published.label(i, text) if released[i] else old for i, old in enumerate(labels)]
        return cls(ends[:-1], ends[1:], tuple(labels), None, closed, published.low, published.high)

    @classmethod
    def of_nodes(
        cls,
        field: Field,
        nodes: Sequence[int],
        *,
        tree: Taxonomy | None = None,
        sets: bool = False,
        released: Int32Array | None = None,
        runs: Mapping[int, LeafRun] | None = None,
    ) -> FieldCut:
        """Nodes of the field's taxonomy by id, in leaf order; ``runs`` has the intervals that are no node.

        ``sets`` publishes every node as the set of its released values. ``released`` are the codes of released records.
        ``tree`` has the labels if they differ from the field's own tree; published ranges then end at released values.
        """
        own, runs = field.taxonomy, runs or {}
        assert own is not None  # noqa: S101
        tree = tree or own
        at = enumerate(nodes)
        ends = np.array([runs[i].extent if i in runs else field.extent(n) for i, n in at], np.float64).reshape(-1, 2)
        texts = tuple(runs[i].label if i in runs else str(tree.text(n)) for i, n in enumerate(nodes))
        cut = cls(ends[:, 0], np.nextafter(ends[:, 1], np.inf), texts)
        narrowed = tree.label != own.label
        if any(run.is_set for run in runs.values()):
            cut = replace(cut, set_positions=_list_positions(own.size, runs, released))
        if released is None or not (sets or narrowed or runs):
            return cut
        spans = [(runs[i].first, runs[i].last) if i in runs else (own.lo[n], own.hi[n]) for i, n in enumerate(nodes)]
        inside = [released[(released >= lo) & (released <= hi)] for lo, hi in spans]
        low = np.array([codes[0] if len(codes) else np.inf for codes in inside], np.float64)
        high = np.array([codes[-1] if len(codes) else -np.inf for codes in inside], np.float64)
        if not sets:
            whole = np.array(
                [i not in runs and not narrowed for i in range(len(nodes))], bool
            )  # a node keeps its label
            return replace(cut, low=np.where(whole, ends[:, 0], low), high=np.where(whole, ends[:, 1], high))
        pairs = zip(cut.labels, inside, strict=True)
        leaves = tree.leaves
        labels = [
            str(format_set(dict.fromkeys(leaves[c] for c in codes))) if len(codes) else old for old, codes in pairs
        ]
        positions = np.sort(released).astype(np.float64)
        return replace(cut, labels=tuple(labels), low=low, high=high, set_positions=positions)

    @property
    def is_root(self) -> bool:
        """Whether all values have the root."""
        return self.labels == (ROOT,)

    def nearest_released(self, interval: Int32Array, positions: FloatArray) -> Int32Array:
        """The interval of each position; if it has no released records, the nearest interval that has some."""
        released = np.flatnonzero(self._is_released)
        inside = interval < len(self.labels)
        if len(released) == len(self.labels) or not len(released) or self.low is None or self.high is None:
            return interval
        finite = np.where(np.isfinite(positions), positions, -np.inf)
        before = (np.searchsorted(self.low[released], finite, side="right") - 1).clip(0)
        after = np.minimum(before + 1, len(released) - 1)
        closer = self.low[released[after]] - finite < finite - self.high[released[before]]
        near = released[np.where(closer, after, before)]
        return np.where(inside & ~self._is_released[np.where(inside, interval, 0)], near, interval).astype(np.int32)

    def locate(self, positions: FloatArray) -> tuple[Int32Array, BoolArray]:
        """The interval of every position (outside all: the nearest; ties: the first), and whether it is outside all intervals.

        A missing value has the number after the last interval. An unknown category is outside, and nearest to the first
        interval.
        """
        missing, unknown = np.isinf(positions), np.isnan(positions)
        if not len(self.begin):  # the first table had no value
            return np.zeros(len(positions), np.int32), ~missing
        finite = np.where(missing | unknown, 0.0, positions)
        last = len(self.begin) - 1
        before = np.clip(np.searchsorted(self.begin, finite, side="right") - 1, 0, last)
        after = np.minimum(before + 1, last)
        inside = (finite >= self.begin[before]) & (finite < self.end[before])
        if self.closed:
            inside |= finite == self.end[last]
        if self.low is not None and self.high is not None:
            inside &= (finite >= self.low[before]) & (finite <= self.high[before])
            follows = (
                ~inside & (finite >= self.low[after]) & (finite <= self.high[after])
            )  # a rounded range begins earlier
            before, inside = np.where(follows, after, before), inside | follows
        if self.set_positions is not None:
            inside &= np.isin(finite, self.set_positions)
        closer = ~inside & (np.abs(self.begin[after] - finite) < np.abs(finite - self.end[before]))
        interval = np.where(closer & (finite >= self.begin[0]), after, before)
        interval = np.where(missing, 0 if self.is_root else len(self.labels), np.where(unknown, 0, interval))
        return interval.astype(np.int32), (~inside | unknown) & ~missing & (not self.is_root)

    def locate_unrounded(self, positions: FloatArray, interval: Int32Array) -> Int32Array:
        """The interval of the cut that contains each position, whatever range it publishes; outside all: ``interval``.

        It differs from the interval of `locate` where a rounded range begins before its interval.
        """
        if not len(self.begin):
            return interval
        own = (np.searchsorted(self.begin, positions, side="right") - 1).clip(0)
        inside = (positions >= self.begin[own]) & (positions < self.end[own])
        inside |= self.closed & (positions == self.end[-1])
        return np.where(inside & np.isfinite(positions), own, interval).astype(np.int32)

    def ends(self, interval: Int32Array) -> tuple[FloatArray, FloatArray]:
        """The ends of the published ranges of intervals; infinite for the root and for a missing value."""
        begin, end = (self.begin, self.end) if self.low is None or self.high is None else (self.low, self.high)
        inside = interval < len(begin)
        index = np.where(inside, interval, 0)
        return np.where(inside, begin[index], -np.inf), np.where(inside, end[index], np.inf)

    def check(self, name: str, *, largest: float) -> None:
        """Raise `DataError` unless the intervals ascend and each has a label.

        ``name`` is the name of the field; ``largest`` is the largest number that can be written.
        """
        ends = [self.begin, self.end, *(e for e in (self.low, self.high, self.middle) if e is not None)]
        fits = all(len(e) == len(self.labels) for e in ends) and (self.low is None) == (self.high is None)
        require(fits, f"the cut of {name!r} does not have one label for each interval")
        ascends = (self.begin <= self.end).all() and (np.diff(self.begin) >= 0).all()
        require(ascends, f"the intervals of the cut of {name!r} do not ascend")
        require(
            self.missing is None or len(set(self.labels)) == len(self.labels), f"the cut of {name!r} repeats a label"
        )
        bounded = self.is_root or all((np.abs(e[self._is_released]) <= largest).all() for e in ends)
        require(bounded, f"the cut of {name!r} has an end that is too large")

    @property
    def _is_released(self) -> BoolArray:
        """Whether each interval has released records."""
        if self.low is None or self.high is None:
            return np.ones(len(self.begin), bool)
        return np.asarray(self.low <= self.high)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> FieldCut:
        """Read the cut of a field from JSON content."""
        names = texts(found, "labels")
        begin, end = (
            array(
                {key: [infinite if v is None else v for v in member(found, key, list)]}, key, np.float64, (len(names),)
            )
            for key, infinite in (("begin", "-inf"), ("end", "inf"))
        )
        missing = None if found.get("missing") is None else member(found, "missing", str)
        low = high = None
        if found.get("shown") is not None:
            published = member(found, "shown", list)
            require(len(published) == 2, "'shown' must hold two lists")
            low, high = (array({"shown": ends}, "shown", np.float64, (len(names),)) for ends in published)
        positions = array(found, "listed", np.float64, (None,)) if "listed" in found else None
        middle = array(found, "middle", np.float64, (len(names),)) if "middle" in found else None
        return cls(begin, end, names, missing, member(found, "closed", bool), low, high, positions, middle)


@dataclass(frozen=True)
class Cut(BaseRecoding):
    """A cut of every field; ``suppressed`` has the suppressed combinations of intervals [combination, field].

    Two intervals may have one label, if the ends of ranges are rounded.

    ``numbers`` is the style for intervals of numbers: ``label``, ``lo-hi`` or ``midpoint``. Create a cut with `Cut.of`:

    >>> from shoal.policy import Policy
    >>> age = Field("age", "numeric", 80.0)
    >>> cut = Cut.of([age], {"age": [20, 40, 60]}, Output((), ("",)))
    >>> cut.cuts[0].labels
    ('[20, 40)', '[40, 60)')
    """

    fields: tuple[Field, ...]
    output: Output
    cuts: tuple[FieldCut, ...]
    suppressed: Int32Array | None = None
    numbers: str = "label"

    kind: ClassVar[str] = "cut"

    def __post_init__(self) -> None:
        check_head(self.fields, self.output)
        require(
            self.numbers in NUMBERS,
            f"'numbers' has the unknown style {self.numbers!r}; {list_choices(self.numbers, NUMBERS)}",
        )
        require(len(self.cuts) == len(self.fields), "there is not one cut for each field")
        for field, cut in zip(self.fields, self.cuts, strict=True):
            writes_numbers = field.taxonomy is None and self.numbers != "label"
            cut.check(field.name, largest=LARGEST[field.kind] if writes_numbers else np.inf)
        if self.suppressed is not None:
            intervals = [len(cut.labels) + 1 for cut in self.cuts]  # the last is a missing value
            fits = self.suppressed.shape[1] == len(intervals)
            require(fits, "a suppressed combination does not have one interval for each field")
            known = ((self.suppressed >= 0) & (self.suppressed < intervals)).all()
            require(bool(known), "a suppressed combination has an interval that its cut does not have")

    @classmethod
    def of(cls, fields: Sequence[Field], given: Mapping[str, Sequence[Any]], output: Output) -> Cut:
        """Create a cut from the boundaries of numeric fields and the node labels of the others; ``["*"]`` is the root.

        Without an entry, a field with a taxonomy keeps all leaves, and a numeric field raises `PolicyError`.
        """
        cuts = []
        for field in fields:
            if field.taxonomy is not None:
                leaves = [label for label in field.taxonomy.leaves if label is not None]
                cuts.append(_cut_taxonomy(field, list(given.get(field.name, leaves))))
            elif field.name in given:
                cuts.append(_cut_numbers(field, given[field.name]))
            else:
                raise PolicyError(
                    f"the cut of {field.name!r} is not given. List its boundaries, or ['*'] for the root."
                )
        return cls(tuple(fields), output, tuple(cuts))

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode later data with the same cut.

        A number outside every interval raises `DataError`; with ``nearest`` it gets the label of the nearest interval. Groups
        may be smaller than the requirement demands: check the result before you publish it.
        """
        return apply(self, data, nearest=nearest)

    def place(self, later: LaterData) -> LaterPlacement:
        """Place every code in its interval; each combination of intervals in the data is a group."""
        quasi = later.quasi
        own, intervals, near = np.empty((3, *quasi.shape), np.int32)
        outside = np.zeros(len(quasi), bool)
        for j, (cut, positions) in enumerate(zip(self.cuts, later.positions, strict=True)):
            interval, is_outside = cut.locate(positions)
            own[:, j] = cut.locate_unrounded(positions, interval)[quasi[:, j]]
            intervals[:, j] = interval[quasi[:, j]]
            near[:, j] = cut.nearest_released(interval, positions)[quasi[:, j]]
            outside |= is_outside[quasi[:, j]]
        suppressed = self._are_suppressed(own) | self._are_suppressed(intervals)  # by the cut, and as published
        intervals = np.where(
            suppressed[:, None], intervals, near
        )  # a label of suppressed records alone is never published
        suppressed |= self._are_suppressed(intervals)
        group = number_combinations(list(intervals.T), len(intervals))
        first = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
        first[group] = np.arange(len(group))
        group = np.where(suppressed, -1, group).astype(np.int32)
        return LaterPlacement(group, outside & (group >= 0), self.write(intervals[first]))

    def _are_suppressed(self, intervals: Int32Array) -> BoolArray:
        """Whether each combination of intervals is suppressed."""
        if self.suppressed is None:
            return np.zeros(len(intervals), bool)
        rows = np.concatenate([self.suppressed, intervals])
        number = number_combinations(list(rows.T), len(rows))
        return np.isin(number[len(self.suppressed) :], number[: len(self.suppressed)])

    def write(self, intervals: Int32Array) -> Columns:
        """The published columns of groups in ``intervals`` [group, field]; the number after the last interval is missing."""
        found: list[tuple[str, GroupColumn]] = []
        for j, (field, cut) in enumerate(zip(self.fields, self.cuts, strict=True)):
            if field.taxonomy is None and self.numbers != "label":
                columns = _number_columns(field, cut, intervals[:, j], self.numbers)
            else:
                columns = [_label_column(field.name, cut, intervals[:, j])]
            found += [(field.name, column) for column in columns]
        return tuple(found)

    def to_json(self) -> str:
        """The recoding as JSON text."""
        return json.dumps(
            {
                **head_to_dict(self),
                "cuts": [
                    {
                        "begin": [None if np.isinf(v) else v for v in c.begin.tolist()],
                        "end": [None if np.isinf(v) else v for v in c.end.tolist()],
                        "labels": list(c.labels),
                        "missing": c.missing,
                        "closed": c.closed,
                        "shown": None
                        if c.low is None or c.high is None
                        else [array_to_json(c.low), array_to_json(c.high)],
                        **({} if c.set_positions is None else {"listed": array_to_json(c.set_positions)}),
                        **({} if c.middle is None else {"middle": array_to_json(c.middle)}),
                    }
                    for c in self.cuts
                ],
                "suppressed": None if self.suppressed is None else array_to_json(self.suppressed),
                "numbers": self.numbers,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Cut:
        """Read a recoding from the content of its JSON file."""
        refuse_unknown(found, (*HEAD, "cuts", "suppressed", "numbers"))
        cuts = tuple(FieldCut.from_dict(c) for c in objects(found, "cuts"))
        suppressed = None
        if found.get("suppressed") is not None:
            suppressed = array(found, "suppressed", np.int32, (None, len(cuts)))
        return cls(*head_from_dict(found), cuts, suppressed, member(found, "numbers", str))


def _cut_numbers(field: Field, given: Sequence[Any]) -> FieldCut:
    if list(given) == [ROOT]:
        return FieldCut.root()
    try:
        ends = np.array(list(given), np.float64)
    except (TypeError, ValueError):
        raise PolicyError(f"the boundaries of {field.name!r} must be numbers, or ['*'] for the root.") from None
    if len(ends) < 2 or not (np.diff(ends) > 0).all():
        raise PolicyError(
            f"the cut of {field.name!r} needs at least two boundaries in ascending order, or ['*'] for the root."
        )
    return FieldCut.of_ends(field, ends)


def _cut_taxonomy(field: Field, labels: list[Any]) -> FieldCut:
    tree = field.taxonomy
    assert tree is not None  # noqa: S101
    if labels == [ROOT]:
        return FieldCut.root()
    by_label = {label: node for node, label in reversed(list(enumerate(tree.label))) if label is not None}
    unknown = [label for label in labels if label not in by_label]
    if unknown:
        raise PolicyError(
            f"the taxonomy of {field.name!r} has no node {list_some(unknown)}; {list_choices(str(unknown[0]), list(by_label))}"
        )
    nodes = sorted((by_label[label] for label in labels), key=lambda n: int(tree.lo[n]))
    covered = [code for n in nodes for code in range(tree.lo[n], tree.hi[n] + 1)]
    if covered != list(range(tree.size - (tree.leaves[-1] is None))):
        raise PolicyError(
            f"the cut of {field.name!r} must have exactly one node on every path from the root to a leaf."
        )
    return FieldCut.of_nodes(field, nodes)


def _list_positions(size: int, runs: Mapping[int, LeafRun], released: Int32Array | None) -> FloatArray:
    """The positions of the leaves of a taxonomy, without those in runs that were not released."""
    codes = np.arange(size)
    for run in runs.values():
        if released is not None:
            codes = codes[(codes < run.first) | (codes > run.last) | np.isin(codes, released)]
    return codes.astype(np.float64)


def _label_column(name: str, cut: FieldCut, interval: Int32Array) -> GroupColumn:
    labels = cut.labels if cut.missing is None else (*cut.labels, cut.missing)
    distinct = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    index = np.array([distinct[label] for label in labels] + [-1] * (cut.missing is None), np.int32)
    return GroupColumn(name, np.array(list(distinct), dtype=object), index[interval])


def _number_columns(field: Field, cut: FieldCut, interval: Int32Array, style: str) -> list[GroupColumn]:
    """Columns of ends or midpoints; missing for the root and for a missing value."""
    begin, end = (cut.begin, cut.end) if cut.low is None or cut.high is None else (cut.low, cut.high)
    released = begin <= end  # the other intervals have only suppressed records
    begin, end = (np.where(released, begin, 0.0), np.where(released, end, 0.0))
    if cut.is_root:
        begin, end = np.zeros(0), np.zeros(0)
    index = np.where(interval < len(begin), interval, -1).astype(np.int32)
    low, high = pair_names(field.name)
    middle = begin / 2 + end / 2 if cut.middle is None or cut.is_root else np.where(released, cut.middle, 0.0)
    columns = {low: begin, high: end} if style == "lo-hi" else {field.name: middle}
    if field.kind == "date":
        columns = {name: np.array([format_date(v) for v in numbers], object) for name, numbers in columns.items()}
    return [GroupColumn(name, numbers, index) for name, numbers in columns.items()]
