"""`Cut`: one node per value of each attribute, the same everywhere in the table."""

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
from shoal.formats.checked_json import array, array_to_json, member, objects, require, texts, texts_or_null
from shoal.formats.column_pairs import pair_names
from shoal.formats.dates import format_date
from shoal.formats.labels import ROOT, format_interval, format_range, format_set
from shoal.formats.numbers import format_number
from shoal.kernels.combinations import number_combinations
from shoal.recoding.field import Field
from shoal.recoding.group_labels import RangeEnds
from shoal.recoding.protocol import LaterData, Output, PlacedData, apply
from shoal.recoding.serialization import check_head, head_from_dict, head_to_dict
from shoal.taxonomy import Taxonomy

NUMBERS = ("label", "lo-hi", "midpoint")  # how intervals of numbers are written
REACH = {"numeric": float(np.finfo(np.float64).max), "date": 9e12}  # a date is written in microseconds, in 64 bits


@dataclass(frozen=True)
class FieldCut:
    """The cut of one field: interval i goes from ``begin[i]`` up to but not with ``end[i]``, as positions.

    Numbers are cut into half-open intervals, the last of which holds its end where ``closed``; a taxonomy into nodes, whose
    intervals are of leaf codes. A missing value is published as missing where ``missing`` is None, else by that label. Where
    an interval is not published as it was cut, its label reaches from ``low[i]`` to ``high[i]``; where labels are sets,
    ``listed`` has the positions of the values in them. Other values lie outside.
    """

    begin: FloatArray
    end: FloatArray
    labels: tuple[str, ...]
    missing: str | None = None
    closed: bool = False
    low: FloatArray | None = None
    high: FloatArray | None = None
    listed: FloatArray | None = None

    @classmethod
    def whole(cls) -> FieldCut:
        """No cut: everything is the root."""
        return cls(np.array([-np.inf]), np.array([np.inf]), (ROOT,), ROOT)

    @classmethod
    def of_ends(
        cls, field: Field, ends: FloatArray, *, closed: bool = False, shown: RangeEnds | None = None
    ) -> FieldCut:
        """Numbers or dates, cut at ascending ends; ``shown`` has what is published of each interval, where not all of it."""
        text = format_date if field.kind == "date" else format_number
        labels = [format_interval(a, b, text) for a, b in pairwise(ends)]
        if closed:
            labels[-1] = format_range(ends[-2], ends[-1], text)
        if shown is None:
            return cls(ends[:-1], ends[1:], tuple(labels), None, closed)
        seen = shown.low <= shown.high  # the others hold suppressed records alone, and their labels are not published
        labels = [shown.label(i, text) if seen[i] else old for i, old in enumerate(labels)]
        return cls(ends[:-1], ends[1:], tuple(labels), None, closed, shown.low, shown.high)

    @classmethod
    def of_nodes(
        cls,
        field: Field,
        nodes: Sequence[int],
        *,
        tree: Taxonomy | None = None,
        sets: bool = False,
        seen: Int32Array | None = None,
    ) -> FieldCut:
        """Nodes of the field's taxonomy by their ids, in the order of their leaves; with ``sets`` written as these.

        ``seen`` are the codes that released records have; sets list no others. ``tree`` has the labels, where they are not
        those of the field's own tree; then labels reach only as far as released values do.
        """
        own = field.taxonomy
        assert own is not None  # noqa: S101
        tree = tree or own
        ends = np.array([field.extent(n) for n in nodes], np.float64).reshape(-1, 2)
        found = cls(ends[:, 0], np.nextafter(ends[:, 1], np.inf), tuple(str(tree.text(n)) for n in nodes))
        if seen is None or not (sets or tree.label != own.label):
            return found
        inside = [seen[(seen >= own.lo[n]) & (seen <= own.hi[n])] for n in nodes]
        low = np.array([codes[0] if len(codes) else np.inf for codes in inside], np.float64)
        high = np.array([codes[-1] if len(codes) else -np.inf for codes in inside], np.float64)
        if not sets:
            return replace(found, low=low, high=high)
        pairs = zip(found.labels, inside, strict=True)
        labels = [str(format_set(own.leaves[c] for c in codes)) if len(codes) else old for old, codes in pairs]
        return replace(found, labels=tuple(labels), low=low, high=high, listed=np.sort(seen).astype(np.float64))

    @property
    def uncut(self) -> bool:
        """Whether everything is the root."""
        return self.labels == (ROOT,)

    def released(self, place: Int32Array, positions: FloatArray) -> Int32Array:
        """The interval of each position; where that has no released records, the nearest interval that has some."""
        seen = np.flatnonzero(self._seen)
        inside = place < len(self.labels)
        if len(seen) == len(self.labels) or not len(seen) or self.low is None or self.high is None:
            return place
        found = np.where(np.isfinite(positions), positions, -np.inf)
        before = (np.searchsorted(self.low[seen], found, side="right") - 1).clip(0)
        behind = np.minimum(before + 1, len(seen) - 1)
        closer = self.low[seen[behind]] - found < found - self.high[seen[before]]
        near = seen[np.where(closer, behind, before)]
        return np.where(inside & ~self._seen[np.where(inside, place, 0)], near, place).astype(np.int32)

    def ends(self, part: Int32Array) -> tuple[FloatArray, FloatArray]:
        """Where the published ranges of intervals begin and end; infinite for the root and for a missing value."""
        begin, end = (self.begin, self.end) if self.low is None or self.high is None else (self.low, self.high)
        inside = part < len(begin)
        place = np.where(inside, part, 0)
        return np.where(inside, begin[place], -np.inf), np.where(inside, end[place], np.inf)

    def check(self, name: str, *, reach: float) -> None:
        """`DataError` unless there is a label for each of the intervals, which ascend.

        ``name`` is the field's; ``reach`` is the largest number that can be written.
        """
        ends = [self.begin, self.end, *(e for e in (self.low, self.high) if e is not None)]
        fits = all(len(e) == len(self.labels) for e in ends) and (self.low is None) == (self.high is None)
        require(fits, f"the cut of {name!r} does not have one label for each interval")
        ascends = (self.begin <= self.end).all() and (np.diff(self.begin) >= 0).all()
        require(ascends, f"the intervals of the cut of {name!r} do not ascend")
        require(
            self.missing is None or len(set(self.labels)) == len(self.labels), f"the cut of {name!r} repeats a label"
        )
        bounded = self.uncut or all((np.abs(e[self._seen]) <= reach).all() for e in ends)
        require(bounded, f"the cut of {name!r} has an end that cannot be written")

    @property
    def _seen(self) -> BoolArray:
        """The intervals that are written; the others hold suppressed records alone."""
        if self.low is None or self.high is None:
            return np.ones(len(self.begin), bool)
        return np.asarray(self.low <= self.high)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> FieldCut:
        """Back from JSON."""
        names = texts(found, "labels")
        begin, end = (
            array({key: [open_ if v is None else v for v in member(found, key, list)]}, key, np.float64, (len(names),))
            for key, open_ in (("begin", "-inf"), ("end", "inf"))
        )
        missing = None if found.get("missing") is None else member(found, "missing", str)
        low = high = None
        if found.get("shown") is not None:
            shown = member(found, "shown", list)
            require(len(shown) == 2, "'shown' must hold two lists")
            low, high = (array({"shown": ends}, "shown", np.float64, (len(names),)) for ends in shown)
        listed = array(found, "listed", np.float64, (None,)) if "listed" in found else None
        return cls(begin, end, names, missing, member(found, "closed", bool), low, high, listed)


@dataclass(frozen=True)
class Cut:
    """A cut through every field; ``suppressed`` lists the published combinations that are left out.

    ``numbers`` says how the intervals of numbers are written: ``label``, ``lo-hi`` or ``midpoint``. Make one with `Cut.of`:

    >>> from shoal.policy import Policy
    >>> age = Field("age", "numeric", 80.0)
    >>> cut = Cut.of([age], {"age": [20, 40, 60]}, Output((), ("",)))
    >>> cut.cuts[0].labels
    ('[20, 40)', '[40, 60)')
    """

    fields: tuple[Field, ...]
    output: Output
    cuts: tuple[FieldCut, ...]
    suppressed: tuple[tuple[str | None, ...], ...] = ()
    numbers: str = "label"

    kind: ClassVar[str] = "cut"

    def __post_init__(self) -> None:
        check_head(self.fields, self.output)
        require(
            self.numbers in NUMBERS, f"unknown way of writing {self.numbers!r}; {list_choices(self.numbers, NUMBERS)}"
        )
        require(len(self.cuts) == len(self.fields), "there is not one cut for each field")
        for field, cut in zip(self.fields, self.cuts, strict=True):
            written = field.taxonomy is None and self.numbers != "label"
            cut.check(field.name, reach=REACH[field.kind] if written else np.inf)
        fits = all(len(row) == len(self.fields) for row in self.suppressed)
        require(fits, "a suppressed combination does not have one label for each field")

    @classmethod
    def of(cls, fields: Sequence[Field], given: Mapping[str, Sequence[Any]], output: Output) -> Cut:
        """A cut from the boundaries of numeric fields and the node labels of the others; ``["*"]`` is the root.

        A field that is not given stays as it is where it has a taxonomy (every leaf), and is an error for numbers.
        """
        cuts = []
        for field in fields:
            if field.taxonomy is not None:
                leaves = [label for label in field.taxonomy.leaves if label is not None]
                cuts.append(_nodes(field, list(given.get(field.name, leaves))))
            elif field.name in given:
                cuts.append(_intervals(field, given[field.name]))
            else:
                raise PolicyError(f"the cut of {field.name!r} is not given; list its boundaries, or ['*']")
        return cls(tuple(fields), output, tuple(cuts))

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Recode later data by the same cut.

        A number outside every interval raises `DataError`, or goes to the nearest interval where asked. Groups may be
        smaller than the requirement asks: check the result before it leaves.
        """
        return apply(self, data, nearest=nearest)

    def place(self, later: LaterData) -> PlacedData:
        """Every code to its interval; a group is a combination of intervals that occurs."""
        quasi = later.quasi
        parts, near = np.empty(quasi.shape, np.int32), np.empty(quasi.shape, np.int32)
        outside = np.zeros(len(quasi), bool)
        for j, (cut, positions) in enumerate(zip(self.cuts, later.positions, strict=True)):
            place, lost = _intervals_of(cut, positions)
            parts[:, j], near[:, j] = place[quasi[:, j]], cut.released(place, positions)[quasi[:, j]]
            outside |= lost[quasi[:, j]]
        gone = self._gone(parts)
        parts = np.where(gone[:, None], parts, near)  # no label of suppressed records alone is written
        gone |= self._gone(parts)
        group = number_combinations(list(parts.T), len(parts))
        first = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
        first[group] = np.arange(len(group))
        group = np.where(gone, -1, group).astype(np.int32)
        return PlacedData(group, outside & (group >= 0), self.write(parts[first]))

    def _gone(self, parts: Int32Array) -> BoolArray:
        """Which combinations of intervals are suppressed."""
        if not self.suppressed:
            return np.zeros(len(parts), bool)
        group = number_combinations(list(parts.T), len(parts))
        first = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
        first[group] = np.arange(len(group))
        known = set(self.suppressed)
        return np.array([row in known for row in self.labels(parts[first])], bool)[group]

    def write(self, parts: Int32Array, *, numbers: str | None = None) -> tuple[tuple[str, GroupColumn], ...]:
        """The released columns of groups that lie in the intervals ``parts`` [group, field]; missing is the one behind."""
        found: list[tuple[str, GroupColumn]] = []
        for j, (field, cut) in enumerate(zip(self.fields, self.cuts, strict=True)):
            style = numbers or self.numbers
            if field.taxonomy is None and style != "label":
                columns = _numbers(field, cut, parts[:, j], style)
            else:
                columns = [_written(field.name, cut, parts[:, j])]
            found += [(field.name, column) for column in columns]
        return tuple(found)

    def labels(self, parts: Int32Array) -> list[tuple[str | None, ...]]:
        """What is published for groups, as combinations of labels."""
        columns = [[None if i < 0 else w.values[i] for i in w.index] for _, w in self.write(parts, numbers="label")]
        return list(zip(*columns, strict=True))

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
                        **({} if c.listed is None else {"listed": array_to_json(c.listed)}),
                    }
                    for c in self.cuts
                ],
                "suppressed": [list(row) for row in self.suppressed],
                "numbers": self.numbers,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Cut:
        """Back from JSON."""
        cuts = tuple(FieldCut.from_dict(c) for c in objects(found, "cuts"))
        gone = [texts_or_null({"suppressed": row}, "suppressed") for row in member(found, "suppressed", list)]
        return cls(*head_from_dict(found), cuts, tuple(gone), member(found, "numbers", str))


def _intervals(field: Field, given: Sequence[Any]) -> FieldCut:
    if list(given) == [ROOT]:
        return FieldCut.whole()
    try:
        ends = np.array(list(given), np.float64)
    except (TypeError, ValueError):
        raise PolicyError(f"the cut of {field.name!r} needs numbers as boundaries, or ['*']") from None
    if len(ends) < 2 or not (np.diff(ends) > 0).all():
        raise PolicyError(f"the cut of {field.name!r} needs at least two boundaries in ascending order, or ['*']")
    return FieldCut.of_ends(field, ends)


def _nodes(field: Field, labels: list[Any]) -> FieldCut:
    tree = field.taxonomy
    assert tree is not None  # noqa: S101
    if labels == [ROOT]:
        return FieldCut.whole()
    place = {label: node for node, label in reversed(list(enumerate(tree.label))) if label is not None}
    unknown = [label for label in labels if label not in place]
    if unknown:
        raise PolicyError(
            f"the taxonomy of {field.name!r} has no node {list_some(unknown)}; {list_choices(str(unknown[0]), list(place))}"
        )
    nodes = sorted((place[label] for label in labels), key=lambda n: int(tree.lo[n]))
    covered = [code for n in nodes for code in range(tree.lo[n], tree.hi[n] + 1)]
    if covered != list(range(tree.size - (tree.leaves[-1] is None))):
        raise PolicyError(f"the cut of {field.name!r} must hold exactly one node on every way from the root to a leaf")
    return FieldCut.of_nodes(field, nodes)


def _intervals_of(cut: FieldCut, positions: FloatArray) -> tuple[Int32Array, BoolArray]:
    """The interval of every position (the nearest, the earlier on ties), and which positions lie outside all of them.

    A missing value has the place behind the last interval; an unknown category lies outside, nearest to the first.
    """
    missing, unknown = np.isinf(positions), np.isnan(positions)
    if not len(cut.begin):  # no value was ever seen
        return np.zeros(len(positions), np.int32), ~missing
    found = np.where(missing | unknown, 0.0, positions)
    last = len(cut.begin) - 1
    before = np.clip(np.searchsorted(cut.begin, found, side="right") - 1, 0, last)
    behind = np.minimum(before + 1, last)
    inside = (found >= cut.begin[before]) & (found < cut.end[before])
    if cut.closed:
        inside |= found == cut.end[last]
    if cut.low is not None and cut.high is not None:
        inside &= (found >= cut.low[before]) & (found <= cut.high[before])
    if cut.listed is not None:
        inside &= np.isin(found, cut.listed)
    closer = ~inside & (np.abs(cut.begin[behind] - found) < np.abs(found - cut.end[before]))
    place = np.where(closer & (found >= cut.begin[0]), behind, before)
    place = np.where(missing, len(cut.labels), np.where(unknown, 0, place))
    return place.astype(np.int32), (~inside | unknown) & ~missing & (not cut.uncut)


def _written(name: str, cut: FieldCut, part: Int32Array) -> GroupColumn:
    if cut.missing is None:
        return GroupColumn(
            name,
            np.array(cut.labels, dtype=object),
            np.where(part == len(cut.labels), -1, part).astype(np.int32),
        )
    labels = list(dict.fromkeys((*cut.labels, cut.missing)))
    return GroupColumn(
        name,
        np.array(labels, dtype=object),
        np.where(part == len(cut.labels), labels.index(cut.missing), part).astype(np.int32),
    )


def _numbers(field: Field, cut: FieldCut, part: Int32Array, style: str) -> list[GroupColumn]:
    """Numeric columns; the root and a missing value have no ends and no middle."""
    begin, end = (cut.begin, cut.end) if cut.low is None or cut.high is None else (cut.low, cut.high)
    seen = begin <= end  # others hold suppressed records alone and are not written
    begin, end = (np.zeros(0), np.zeros(0)) if cut.uncut else (np.where(seen, begin, 0.0), np.where(seen, end, 0.0))
    index = np.where(part < len(begin), part, -1).astype(np.int32)
    low, high = pair_names(field.name)
    columns = {low: begin, high: end} if style == "lo-hi" else {field.name: begin / 2 + end / 2}
    if field.kind == "date":
        columns = {name: np.array([format_date(v) for v in numbers], object) for name, numbers in columns.items()}
    return [GroupColumn(name, numbers, index) for name, numbers in columns.items()]
