"""What a decision on codes amounts to outside them: the labels that are published, and the recoding for later data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shoal.codes import Attribute, Codes
from shoal.decision import Decision, Slices, intervals, members_of
from shoal.engines import Division, Written
from shoal.groups import listed
from shoal.policy import Policy
from shoal.recoding import Assignment, Boxes, Cut, Field, FieldCut, Output, Parts, Recoding, Style, write_boxes

I4 = NDArray[np.int32]
F8 = NDArray[np.float64]

Columns = tuple[tuple[str, Written], ...]  # what is written per group, each with the column it comes from


def written_for(codes: Codes, decision: Decision, policy: Policy, style: Style) -> Columns:
    """What is published for every group."""
    if not decision.slices:
        return write_boxes(codes.attributes, decision.lo, decision.hi, style, members_of(codes, decision))
    return _cut(codes, decision, policy, Output((), ()), style).write(intervals(decision, decision.lo))


def recoding_of(
    codes: Codes, decision: Decision, written: Columns, policy: Policy, output: Output, style: Style
) -> Recoding:
    """What a method learned, with which later data can be recoded."""
    if decision.slices:
        return _cut(codes, decision, policy, output, style)
    fields = fields_of(codes.attributes, policy)
    lo, hi = _extents(codes, decision, fields, style)
    cuts, place = decision.cuts, decision.placement
    if cuts is None:
        cells = _positions(codes, codes.quasi[codes.combination[place.cell]])
        return Assignment(fields, output, cells, place.group, place.weight, lo, hi, written)
    at = _cut_positions(codes.attributes, cuts.attribute, cuts.at)
    return Boxes(fields, output, cuts.attribute, at, cuts.left, cuts.right, cuts.group, lo, hi, written)


def parts_of(attributes: tuple[Attribute, ...], division: Division, policy: Policy, output: Output) -> Parts:
    """The coarse cut that came before the search, as a recoding that has one of its own for every part."""
    at = _cut_positions(attributes, division.column, division.at)
    tree = (division.column, at, division.left, division.right, division.part)
    assert division.folder is not None  # noqa: S101  an engine that divides has room
    return Parts(fields_of(attributes, policy), output, *tree, division.folder, division.owner)


def fields_of(attributes: tuple[Attribute, ...], policy: Policy) -> tuple[Field, ...]:
    """What to remember of the quasi-identifiers."""
    return tuple(Field.of(a, policy) for a in attributes)


def _cut_positions(attributes: tuple[Attribute, ...], attribute: I4, at: I4) -> F8:
    found = np.zeros(len(at))
    for j, known in enumerate(attributes):
        mine = attribute == j
        found[mine] = known.position[at[mine]]
    return found


def _cut(codes: Codes, decision: Decision, policy: Policy, output: Output, style: Style) -> Cut:
    fields = fields_of(codes.attributes, policy)
    listed = zip(codes.attributes, fields, decision.slices, strict=True)
    cuts = tuple(_field_cut(a, f, s, sets=style == "set") for a, f, s in listed)
    cut = Cut(fields, output, cuts, numbers="label" if style == "set" else style)
    if decision.gone is None:
        return cut
    return replace(cut, suppressed=tuple(cut.labels(intervals(decision, decision.gone))))


def _field_cut(attribute: Attribute, field: Field, slices: Slices, *, sets: bool) -> FieldCut:
    """A cut in codes as a cut in positions, which later data can be held against."""
    if slices.uncut:
        return FieldCut.whole()
    seen = slices.first != attribute.missing  # it stands behind the others and is published as it is
    if slices.node is not None:
        return FieldCut.of_nodes(field, slices.node[seen].tolist(), sets=sets)
    ends = np.concatenate(([attribute.low], attribute.position[slices.first[seen][1:]], [attribute.high]))
    shown = None if slices.shown is None else (slices.shown[0][seen], slices.shown[1][seen])
    return FieldCut.of_ends(field, ends, closed=True, shown=shown)


def _extents(codes: Codes, decision: Decision, fields: tuple[Field, ...], style: Style) -> tuple[F8, F8]:
    """The positions that each published box holds: a range as it is, a node with all that lies under it."""
    lo, hi = (_positions(codes, box) for box in (decision.lo, decision.hi))
    for j, (attribute, known) in enumerate(zip(codes.attributes, fields, strict=True)):
        if attribute.taxonomy is not None and style != "set":
            covers = attribute.taxonomy.covers(decision.lo[:, j], decision.hi[:, j])
            nodes, index = listed(covers, len(attribute.taxonomy.label))
            ends = np.array([known.extent(int(n)) for n in nodes], np.float64)
            lo[:, j], hi[:, j] = ends[index, 0], ends[index, 1]
        lo[np.isinf(hi[:, j]) & np.isfinite(lo[:, j]), j] = -np.inf  # with a missing value among others: '*'
    return lo, hi


def _positions(codes: Codes, box: I4) -> F8:
    columns = [a.position[box[:, j]] for j, a in enumerate(codes.attributes)]
    return np.stack(columns, axis=1) if columns else np.zeros(box.shape)
