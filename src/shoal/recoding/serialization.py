"""Recodings as JSON: the members that all kinds share, and checks of their content."""

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

HEAD = ("kind", "fields", "kept", "missing")  # keys of every recoding


def head_to_dict(recoding: Recoding) -> dict[str, Any]:
    """The members that every recoding has, for JSON."""
    return {
        "kind": recoding.kind,
        "fields": [f.to_dict() for f in recoding.fields],
        "kept": list(recoding.output.unchanged),
        "missing": list(recoding.output.missing),
    }


def head_from_dict(found: Mapping[str, Any]) -> tuple[tuple[Field, ...], Output]:
    """Read fields and output from JSON content."""
    fields = tuple(Field.from_dict(f) for f in objects(found, "fields"))
    return fields, Output(texts(found, "kept"), texts(found, "missing"))


def columns_to_dict(columns: Columns) -> list[dict[str, Any]]:
    """The published columns of the groups, for JSON."""
    return [
        {"source": source, "name": w.name, "values": w.values.tolist(), "index": array_to_json(w.index)}
        for source, w in columns
    ]


def columns_from_dict(found: Mapping[str, Any]) -> Columns:
    """Read the published columns of the groups from JSON content."""
    columns = []
    for entry in objects(found, "written"):
        content = member(entry, "values", list)
        numeric = bool(content) and type(content[0]) is not str
        values = array(entry, "values", np.float64, (None,)) if numeric else np.array(texts(entry, "values"), object)
        index = array(entry, "index", np.int32, (None,))
        columns.append((member(entry, "source", str), GroupColumn(member(entry, "name", str), values, index)))
    return tuple(columns)


def tree_from_dict(
    found: Mapping[str, Any], leaf: str
) -> tuple[Int32Array, FloatArray, Int32Array, Int32Array, Int32Array]:
    """Read the arrays of a split tree from JSON content; ``leaf`` is the key of the array with the results of the leaves."""
    field = array(found, "field", np.int32, (None,))
    left, right, leaves = (array(found, name, np.int32, field.shape) for name in ("left", "right", leaf))
    return field, array(found, "at", np.float64, field.shape), left, right, leaves


def check_head(fields: Sequence[Field], output: Output) -> None:
    """Raise `DataError` unless every column is named once."""
    names = [*(f.name for f in fields), *output.unchanged]
    require(len(fields) > 0, "the recoding has no field")
    require(len(set(names)) == len(names), "the recoding names a column twice, in 'fields' or in 'kept'")


def check_boxes(fields: Sequence[Field], lo: FloatArray, hi: FloatArray) -> None:
    """Raise `DataError` unless every box has two ends in every field."""
    shape = len(lo), len(fields)
    require(lo.shape == shape and hi.shape == shape, "the ends of the boxes do not fit the fields")
    require((lo <= hi).all(), "a box ends before it begins")


def check_columns(fields: Sequence[Field], output: Output, columns: Columns, groups: int) -> None:
    """Raise `DataError` unless every field is published under its own name or names, with a value for each group."""
    names: dict[str, list[str]] = {f.name: [] for f in fields}
    for source, column in columns:
        require(source in names, f"the published column {column.name!r} comes from {source!r}, which is not a field")
        names[source].append(column.name)
        index = column.index
        require(len(index) == groups, f"the published column {column.name!r} does not have one entry for each group")
        inside = ((index >= -1) & (index < len(column.values))).all()
        require(inside, f"the published column {column.name!r} has an index without a value")
        finite = column.values.dtype == object or np.isfinite(column.values).all()
        require(finite, f"the published column {column.name!r} holds a number that is not finite")
    for name, published in names.items():
        low, high = pair_names(name)
        fits = published in ([name], [low, high])
        require(fits, f"the field {name!r} must be published as {name!r}, or as {low!r} and {high!r}")
    every = [*(column.name for _, column in columns), *output.unchanged]
    require(len(set(every)) == len(every), "the recoding publishes two columns under one name")


def check_tree(
    fields: int, field: Int32Array, at: FloatArray, left: Int32Array, right: Int32Array, leaf: Int32Array, leaves: int
) -> None:
    """Raise `DataError` unless the nodes form one tree, split existing fields, and have leaf values below ``leaves``."""
    nodes = len(field)
    equal = all(len(other) == nodes for other in (at, left, right, leaf))
    require(nodes > 0 and equal, "the arrays of the split tree differ in length")
    require(((field >= -1) & (field < fields)).all(), "the split tree names a field that does not exist")
    inner = np.flatnonzero(field >= 0)
    require(not np.isnan(at[inner]).any(), "the split tree has a split position that is not a number")
    children = np.concatenate([left[inner], right[inner]])
    require(((children > 0) & (children < nodes)).all(), "the split tree has a child that does not exist")
    once = (np.bincount(children, minlength=nodes)[1:] == 1).all()
    require(
        once and _reaches_root(inner, children, nodes), "the split tree does not reach every node once from its root"
    )
    ends = leaf[field < 0]
    require(((ends >= -1) & (ends < leaves)).all(), "the split tree leads to a group that does not exist")


def _reaches_root(inner: Int64Array, children: Int32Array, nodes: int) -> bool:
    """Whether every node has the root as an ancestor, if each has one parent; the others are in a cycle."""
    parent = np.concatenate([inner, inner])
    if (children > parent).all():  # the node order of the methods
        return True
    above = np.zeros(nodes, np.int64)
    above[children] = parent
    for _ in range(nodes.bit_length()):  # every iteration doubles the number of steps
        if not above.any():
            break
        above = above[above]
    return not above.any()
