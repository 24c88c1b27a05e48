"""The box nearest to a record, for records outside every box."""

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
from shoal.recoding.serialization import check_boxes, check_columns, check_head


@dataclass(frozen=True)
class PublishedSets:
    """The published sets of a field: the set of group g has the codes ``code[start[g] : start[g + 1]]``."""

    field: int
    start: Int64Array
    code: Int32Array

    def check(self, fields: Sequence[Field], groups: int) -> None:
        """Raise `DataError` unless every group has a set of codes of the field."""
        exists = 0 <= self.field < len(fields)
        tree = fields[self.field].taxonomy if exists else None
        require(tree is not None, "a field without a taxonomy has sets")
        start = self.start
        rises = (
            len(start) == groups + 1 and start[0] == 0 and (np.diff(start) > 0).all() and start[-1] == len(self.code)
        )
        codes = tree is not None and ((self.code >= 0) & (self.code < tree.size)).all()
        require(rises and codes, "the sets do not fit the groups")

    def codes_of(self, points: FloatArray, fields: Sequence[Field]) -> Int64Array:
        """The code of every point; -1 for a value that is not in the taxonomy."""
        tree = fields[self.field].taxonomy
        assert tree is not None  # noqa: S101
        position = np.where(np.isposinf(points[:, self.field]), tree.size - 1, points[:, self.field])
        whole = np.isfinite(position) & (position == np.floor(position))
        return np.where(whole, np.where(whole, position, 0.0), -1.0).astype(np.int64)

    def contain(self, group: Int32Array, code: Int64Array) -> BoolArray:
        """Whether the sets of these groups contain these codes."""
        size = int(max(self.code.max(initial=0), code.max(initial=0))) + 2
        owner = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        return np.isin(group.astype(np.int64) * size + code + 1, owner * size + self.code + 1)


def check_groups(
    fields: Sequence[Field],
    output: Output,
    lo: FloatArray,
    hi: FloatArray,
    columns: Columns,
    sets: Sequence[PublishedSets],
) -> None:
    """Raise `DataError` unless every group has a box, a value in every published column, and a set for fields with sets."""
    check_head(fields, output)
    check_boxes(fields, lo, hi)
    check_columns(fields, output, columns, len(lo))
    for of_field in sets:
        of_field.check(fields, len(lo))


def sets_to_dict(sets: Sequence[PublishedSets]) -> dict[str, Any]:
    """The sets for JSON; empty if there are none."""
    entries = [{"field": s.field, "start": array_to_json(s.start), "code": array_to_json(s.code)} for s in sets]
    return {"sets": entries} if entries else {}


def sets_from_dict(found: Mapping[str, Any]) -> tuple[PublishedSets, ...]:
    """Read the sets from JSON content."""
    return tuple(
        PublishedSets(
            member(entry, "field", int),
            array(entry, "start", np.int64, (None,)),
            array(entry, "code", np.int32, (None,)),
        )
        for entry in (objects(found, "sets") if "sets" in found else ())
    )


def locate_points(later: LaterData) -> FloatArray:
    """The positions of every combination."""
    points = np.empty(later.quasi.shape, np.float64)
    for j, positions in enumerate(later.positions):
        points[:, j] = positions[later.quasi[:, j]]
    return points


def find_nearest_boxes(
    fields: Sequence[Field], points: FloatArray, lo: FloatArray, hi: FloatArray, sets: Sequence[PublishedSets] = ()
) -> tuple[Int32Array, BoolArray]:
    """The group whose box is nearest to each point (ties: the first group), and whether the box contains the point.

    If fields are published in sets, groups whose sets contain the values come first. Without any box the group is -1.
    """
    if not len(lo):
        return np.full(len(points), -1, np.int32), np.zeros(len(points), bool)
    categorical = np.array([f.taxonomy is not None for f in fields])
    span = np.array([f.span for f in fields], np.float64)
    group, distance = kernels.boxes.find_nearest_box(points, categorical, span, lo, hi)
    inside = distance == 0.0
    if sets:
        for i in np.flatnonzero(inside & ~are_in_sets(fields, points, group, sets)):
            other = _first_containing(fields, points[i], lo, hi, sets)
            group[i], inside[i] = (group[i], False) if other < 0 else (other, True)
    return group, inside


def are_in_sets(
    fields: Sequence[Field], points: FloatArray, group: Int32Array, sets: Sequence[PublishedSets]
) -> BoolArray:
    """Whether the sets of the points' groups contain the values of the points."""
    found = np.ones(len(points), bool)
    for of_field in sets:
        found &= of_field.contain(group, of_field.codes_of(points, fields))
    return found


def _first_containing(
    fields: Sequence[Field], point: FloatArray, lo: FloatArray, hi: FloatArray, sets: Sequence[PublishedSets]
) -> int:
    """The first group whose box and sets contain a point; -1 if there is none."""
    groups = np.flatnonzero(((lo <= point) & (point <= hi)).all(axis=1)).astype(np.int32)
    inside = are_in_sets(fields, np.repeat(point[None], len(groups), axis=0), groups, sets)
    return int(groups[inside][0]) if inside.any() else -1
