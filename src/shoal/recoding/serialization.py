"""Recodings as JSON: the parts that all kinds share, and checks of what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.engines import GroupColumn
from shoal.formats.checked_json import array, array_to_json, member, objects, require, texts
from shoal.formats.column_pairs import pair_names
from shoal.recoding.field import Field
from shoal.recoding.protocol import Columns, Output, Recoding


def head_to_dict(recoding: Recoding) -> dict[str, Any]:
    """What every recoding says first, for JSON."""
    return {
        "kind": recoding.kind,
        "fields": [f.to_dict() for f in recoding.fields],
        "kept": list(recoding.output.kept),
        "missing": list(recoding.output.missing),
    }


def head_from_dict(found: Mapping[str, Any]) -> tuple[tuple[Field, ...], Output]:
    """Back from JSON."""
    fields = tuple(Field.from_dict(f) for f in objects(found, "fields"))
    return fields, Output(texts(found, "kept"), texts(found, "missing"))


def written_to_dict(written: Sequence[tuple[str, GroupColumn]]) -> list[dict[str, Any]]:
    """What is published per group, for JSON."""
    return [
        {"source": source, "name": w.name, "values": w.values.tolist(), "index": array_to_json(w.index)}
        for source, w in written
    ]


def written_from_dict(found: Mapping[str, Any]) -> Columns:
    """Back from JSON."""
    made = []
    for entry in objects(found, "written"):
        listed = member(entry, "values", list)
        numeric = bool(listed) and type(listed[0]) is not str
        values = array(entry, "values", np.float64, (None,)) if numeric else np.array(texts(entry, "values"), object)
        index = array(entry, "index", np.int32, (None,))
        made.append((member(entry, "source", str), GroupColumn(member(entry, "name", str), values, index)))
    return tuple(made)


def tree_from_dict(
    found: Mapping[str, Any], leaf: str
) -> tuple[Int32Array, FloatArray, Int32Array, Int32Array, Int32Array]:
    """The arrays of a tree of cuts from JSON; ``leaf`` is the key of what its leaves lead to."""
    field = array(found, "field", np.int32, (None,))
    left, right, leaves = (array(found, name, np.int32, field.shape) for name in ("left", "right", leaf))
    return field, array(found, "at", np.float64, field.shape), left, right, leaves


def check_head(fields: Sequence[Field], output: Output) -> None:
    """`DataError` unless every column is named once."""
    names = [*(f.name for f in fields), *output.kept]
    require(len(fields) > 0, "the recoding has no field")
    require(len(set(names)) == len(names), "the recoding names a column twice, as a field or under 'kept'")


def check_boxes(fields: Sequence[Field], lo: FloatArray, hi: FloatArray) -> None:
    """`DataError` unless every box has two ends in every field."""
    shape = len(lo), len(fields)
    require(lo.shape == shape and hi.shape == shape, "the ends of the boxes do not fit the fields")
    require((lo <= hi).all(), "a box ends before it begins")


def check_written(fields: Sequence[Field], output: Output, written: Columns, groups: int) -> None:
    """`DataError` unless every field is published, under its own names, with a value for each of the groups."""
    names: dict[str, list[str]] = {f.name: [] for f in fields}
    for source, column in written:
        require(source in names, f"the published column {column.name!r} comes from {source!r}, which is no field")
        names[source].append(column.name)
        index = column.index
        require(len(index) == groups, f"the published column {column.name!r} does not have one entry for each group")
        inside = ((index >= -1) & (index < len(column.values))).all()
        require(inside, f"the published column {column.name!r} points at a value that it does not have")
        finite = column.values.dtype == object or np.isfinite(column.values).all()
        require(finite, f"the published column {column.name!r} holds a number that is not finite")
    for name, listed in names.items():
        low, high = pair_names(name)
        fits = listed in ([name], [low, high])
        require(fits, f"the field {name!r} must be published as {name!r}, or as {low!r} and {high!r}")
    every = [*(column.name for _, column in written), *output.kept]
    require(len(set(every)) == len(every), "the recoding publishes two columns under one name")


def check_tree(
    fields: int, field: Int32Array, at: FloatArray, left: Int32Array, right: Int32Array, leaf: Int32Array, leaves: int
) -> None:
    """`DataError` unless the nodes are one tree, its cuts are cuts of fields, and its leaves lead to one of ``leaves``."""
    nodes = len(field)
    equal = all(len(other) == nodes for other in (at, left, right, leaf))
    require(nodes > 0 and equal, "the arrays of the tree of cuts differ in length")
    require(((field >= -1) & (field < fields)).all(), "the tree of cuts names a field that is not there")
    inner = np.flatnonzero(field >= 0)
    require(not np.isnan(at[inner]).any(), "the tree of cuts has a cut that is no number")
    below = np.concatenate([left[inner], right[inner]])
    require(((below > 0) & (below < nodes)).all(), "the tree of cuts has a child that is not there")
    once = (np.bincount(below, minlength=nodes)[1:] == 1).all()
    require(
        once and _reaches_root(inner, below, nodes), "the tree of cuts does not reach every node once from its root"
    )
    ends = leaf[field < 0]
    require(((ends >= -1) & (ends < leaves)).all(), "the tree of cuts leads to a group that is not there")


def _reaches_root(inner: Int64Array, below: Int32Array, nodes: int) -> bool:
    """Whether every node has the root above it, where each has one parent; others are in a cycle."""
    parent = np.concatenate([inner, inner])
    if (below > parent).all():  # the order in which methods number the nodes
        return True
    above = np.zeros(nodes, np.int64)
    above[below] = parent
    for _ in range(nodes.bit_length()):  # every round doubles the steps
        if not above.any():
            break
        above = above[above]
    return not above.any()
