"""The box nearest to a record, for records that do not fall into one by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.formats.checked_json import array, array_to_json, member, objects, require
from shoal.recoding.field import Field
from shoal.recoding.protocol import Columns, LaterData, Output
from shoal.recoding.serialization import check_boxes, check_head, check_written


@dataclass(frozen=True)
class PublishedSets:
    """Of a field that is published in sets, the codes that are listed: group g lists ``code[start[g] : start[g + 1]]``."""

    field: int
    start: Int64Array
    code: Int32Array

    def check(self, fields: Sequence[Field], groups: int) -> None:
        """`DataError` unless every group has a set of codes of the field."""
        known = 0 <= self.field < len(fields)
        tree = fields[self.field].taxonomy if known else None
        require(tree is not None, "sets are listed for a field that has no taxonomy")
        start = self.start
        rises = (
            len(start) == groups + 1 and start[0] == 0 and (np.diff(start) > 0).all() and start[-1] == len(self.code)
        )
        codes = tree is not None and ((self.code >= 0) & (self.code < tree.size)).all()
        require(rises and codes, "the sets that are listed do not fit the groups")

    def codes_of(self, points: FloatArray, fields: Sequence[Field]) -> Int64Array:
        """The code of every point; -1 for a value that the tree does not have."""
        tree = fields[self.field].taxonomy
        assert tree is not None  # noqa: S101
        position = np.where(np.isposinf(points[:, self.field]), tree.size - 1, points[:, self.field])
        whole = np.isfinite(position) & (position == np.floor(position))
        return np.where(whole, np.where(whole, position, 0.0), -1.0).astype(np.int64)

    def lists(self, group: Int32Array, code: Int64Array) -> BoolArray:
        """Whether the sets of these groups list these codes."""
        size = int(max(self.code.max(initial=0), code.max(initial=0))) + 2
        owner = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        return np.isin(group.astype(np.int64) * size + code + 1, owner * size + self.code + 1)


def check_groups(
    fields: Sequence[Field],
    output: Output,
    lo: FloatArray,
    hi: FloatArray,
    written: Columns,
    sets: Sequence[PublishedSets],
) -> None:
    """`DataError` unless every group has a box, a value in every published column, and a set where sets are listed."""
    check_head(fields, output)
    check_boxes(fields, lo, hi)
    check_written(fields, output, written, len(lo))
    for one in sets:
        one.check(fields, len(lo))


def sets_to_dict(sets: Sequence[PublishedSets]) -> dict[str, Any]:
    """Sets for JSON; nothing where there are none."""
    listed = [{"field": s.field, "start": array_to_json(s.start), "code": array_to_json(s.code)} for s in sets]
    return {"sets": listed} if listed else {}


def sets_from_dict(found: Mapping[str, Any]) -> tuple[PublishedSets, ...]:
    """Back from JSON."""
    return tuple(
        PublishedSets(
            member(entry, "field", int),
            array(entry, "start", np.int64, (None,)),
            array(entry, "code", np.int32, (None,)),
        )
        for entry in (objects(found, "sets") if "sets" in found else ())
    )


def points_of(later: LaterData) -> FloatArray:
    """The positions of every combination."""
    points = np.empty(later.quasi.shape, np.float64)
    for j, positions in enumerate(later.positions):
        points[:, j] = positions[later.quasi[:, j]]
    return points


def nearest_boxes(
    fields: Sequence[Field], points: FloatArray, lo: FloatArray, hi: FloatArray, sets: Sequence[PublishedSets] = ()
) -> tuple[Int32Array, BoolArray]:
    """The group whose box is nearest to each point, the earlier one where several are, and whether its label is true.

    Where fields are published in sets, a group whose sets list the values comes first. Without any box the group is -1.
    """
    if not len(lo):
        return np.full(len(points), -1, np.int32), np.zeros(len(points), bool)
    categorical = np.array([f.taxonomy is not None for f in fields])
    span = np.array([f.span for f in fields], np.float64)
    group, distance = kernels.boxes.find_nearest_box(points, categorical, span, lo, hi)
    held = distance == 0.0
    if sets:
        for i in np.flatnonzero(held & ~are_listed(fields, points, group, sets)):
            other = _first_listing(fields, points[i], lo, hi, sets)
            group[i], held[i] = (group[i], False) if other < 0 else (other, True)
    return group, held


def are_listed(
    fields: Sequence[Field], points: FloatArray, group: Int32Array, sets: Sequence[PublishedSets]
) -> BoolArray:
    """Whether the sets of their groups list the values of points."""
    found = np.ones(len(points), bool)
    for one in sets:
        found &= one.lists(group, one.codes_of(points, fields))
    return found


def _first_listing(
    fields: Sequence[Field], point: FloatArray, lo: FloatArray, hi: FloatArray, sets: Sequence[PublishedSets]
) -> int:
    """The first group whose box holds a point and whose sets list its values; -1 if there is none."""
    groups = np.flatnonzero(((lo <= point) & (point <= hi)).all(axis=1)).astype(np.int32)
    listed = are_listed(fields, np.repeat(point[None], len(groups), axis=0), groups, sets)
    return int(groups[listed][0]) if listed.any() else -1
