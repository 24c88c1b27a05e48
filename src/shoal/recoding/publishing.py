"""What a decision on codes amounts to outside them: the labels that are published, and the recoding for later data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.arrays import FloatArray, Int32Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes
from shoal.engines import GroupColumn, Partitioning
from shoal.kernels.combinations import compact_codes, number_combinations
from shoal.policy import Policy
from shoal.recoding import Assignment, Boxes, Cut, Field, FieldCut, Output, Parts, Recoding, Style, label_boxes
from shoal.recoding.group_labels import Ends, RangeEnds
from shoal.recoding.grouping import AttributeCut, Grouping, count_members, locate_intervals
from shoal.recoding.nearest_box import PublishedSets
from shoal.taxonomy import Balanced, Taxonomy, narrow_branches

Columns = tuple[tuple[str, GroupColumn], ...]  # what is written per group, each with the column it comes from


@dataclass(frozen=True)
class Publication:
    """What is to be published of a decision: the style, and whether ranges are ``tight`` or the ``cut`` that was made.

    Where ``ends`` is None, global cuts are published as they are, or tight where records are suppressed.
    """

    policy: Policy
    style: Style
    ends: Ends | None = "tight"

    def write(self, codes: Codes, decision: Grouping) -> Columns:
        """What is published for every group."""
        if decision.attribute_cuts:
            return self._cut(codes, decision, Output((), ())).write(locate_intervals(decision, decision.lo))
        attributes = self._attributes(codes, decision)
        ranges = self._ranges(codes, decision)
        return label_boxes(attributes, decision.lo, decision.hi, self.style, count_members(codes, decision), ranges)

    def recoding(self, codes: Codes, decision: Grouping, written: Columns, output: Output) -> Recoding:
        """What a method learned, with which later data can be recoded."""
        if decision.attribute_cuts:
            return self._cut(codes, decision, output)
        fields = fields_of(codes.attributes, self.policy)
        lo, hi = self._extents(codes, decision, fields)
        cuts, place = decision.split_tree, decision.placement
        if cuts is None:
            cells = _positions(codes, codes.quasi[codes.combination[place.cell]])
            return Assignment(
                fields, output, cells, place.group, place.count, lo, hi, written, self._sets(codes, decision)
            )
        at = _cut_positions(codes.attributes, cuts.attribute, cuts.at)
        tree = cuts.attribute, at, cuts.left, cuts.right, cuts.group
        return Boxes(fields, output, *tree, lo, hi, written, self._sets(codes, decision))

    def _sets(self, codes: Codes, decision: Grouping) -> tuple[PublishedSets, ...]:
        """The codes that published sets list."""
        found = []
        for j, attribute in enumerate(codes.attributes):
            if self.style == "set" and attribute.taxonomy is not None:
                group, code, _ = count_members(codes, decision)(j)
                start = np.searchsorted(group, np.arange(len(decision.lo) + 1)).astype(np.int64)
                found.append(PublishedSets(j, start, code))
        return tuple(found)

    def isolated(self, codes: Codes, decision: Grouping, written: Columns) -> int:
        """How many records are the only ones of their group with a value that an end of its range names.

        Groups for which the same is ``written`` are one, as for every reader.
        """
        if self.style not in ("label", "lo-hi", "set"):
            return 0
        place = decision.placement
        held = place.group >= 0
        number = number_combinations([column.index + 1 for _, column in written], len(decision.lo))
        first = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
        first[number] = np.arange(len(number))
        group, weight = number[place.group[held]], place.count[held]
        rows = codes.combination[place.cell[held]]
        alone = np.zeros(len(group), bool)
        for j, ends in self._end_codes(codes, decision):
            code = codes.quasi[rows, j]
            for end in (by_group[first] for by_group in ends):
                at_end = code == end[group]
                records = np.bincount(group[at_end], weight[at_end], minlength=len(end))
                alone |= at_end & (records[group] == 1)
        return int(alone.sum())

    def _end_codes(self, codes: Codes, decision: Grouping) -> Iterator[tuple[int, tuple[Int32Array, Int32Array]]]:
        """For every attribute that is published in ranges the codes at both ends, by group; -1 where no value is there."""
        cut = self._cut(codes, decision, Output((), ())) if decision.attribute_cuts else None
        ranges = self._ranges(codes, decision)
        for j, attribute in enumerate(codes.attributes):
            lo, hi = decision.lo[:, j], decision.hi[:, j]
            if attribute.taxonomy is not None:
                if self.style != "set" and self._is_balanced_number(attribute):
                    yield j, self._branch_ends(codes, decision, j)
                continue
            if cut is not None:
                low, high = cut.cuts[j].ends(locate_intervals(decision, decision.lo)[:, j])
            elif j in ranges:
                low, high = ranges[j].low, np.where(np.isinf(attribute.position[hi]), np.inf, ranges[j].high)
            else:
                low, high = attribute.position[lo], attribute.position[hi]
            ranged = (low < high) & np.isfinite(high)  # beside a missing value there is no range
            place = np.searchsorted(attribute.position, [low, high]).clip(0, attribute.size - 1)
            there = attribute.position[place] == [low, high]
            found = np.where(ranged & there, place, -1).astype(np.int32)
            yield j, (found[0], found[1])

    def _is_balanced_number(self, attribute: Attribute) -> bool:
        return attribute.kind == "numeric" and isinstance(self.policy.quasi[attribute.name].tree_builder, Balanced)

    @staticmethod
    def _branch_ends(codes: Codes, decision: Grouping, j: int) -> tuple[Int32Array, Int32Array]:
        """The first and the last released value of the branch that is published for every group; -1 for a single value."""
        tree = codes.attributes[j].taxonomy
        assert tree is not None  # noqa: S101
        node = tree.covers(decision.lo[:, j], decision.hi[:, j])
        first, last = _reach(tree, node, decision.released(codes)[j])
        ranged = (node > 0) & (first < last)
        return np.where(ranged, first, -1).astype(np.int32), np.where(ranged, last, -1).astype(np.int32)

    def _attributes(self, codes: Codes, decision: Grouping) -> tuple[Attribute, ...]:
        """The attributes with labels that name no value which only suppressed records have."""
        made = [a.taxonomy is not None and a.taxonomy.derived for a in codes.attributes]
        if not decision.suppressed or not any(made):
            return codes.attributes
        released, found = decision.released(codes), list(codes.attributes)
        for j in np.flatnonzero(made):
            tree = found[j].taxonomy
            assert tree is not None  # noqa: S101
            narrowed = narrow_branches(tree, released[j])
            if narrowed is not tree:
                found[j] = replace(found[j], taxonomy=narrowed)
        return tuple(found)

    def _ranges(self, codes: Codes, decision: Grouping) -> dict[int, RangeEnds]:
        """For numbers whose cut is published, where the range of every group begins and ends."""
        if decision.regions is None:
            return {}
        released = decision.released(codes)
        found = {}
        for j, attribute in enumerate(codes.attributes):
            if attribute.taxonomy is None:
                bounded = self.policy.quasi[attribute.name].bounds is not None
                regions = decision.regions.lo[:, j], decision.regions.hi[:, j], decision.regions.shared[:, j]
                found[j] = RangeEnds.of(attribute, *regions, released[j], bounded=bounded)
        return found

    def _cut(self, codes: Codes, decision: Grouping, output: Output) -> Cut:
        fields = fields_of(codes.attributes, self.policy)
        sets = self.style == "set"
        seen: Sequence[Int32Array | None] = [None] * len(fields)
        if sets or decision.suppressed or self.ends == "tight":
            seen = decision.released(codes)
        narrowed = self._attributes(codes, decision)
        cuts = tuple(
            self._field_cut(attribute, known, decision.attribute_cuts[j], seen[j])
            for j, (attribute, known) in enumerate(zip(narrowed, fields, strict=True))
        )
        cut = Cut(fields, output, cuts, numbers="label" if sets else self.style)
        if decision.suppressed_boxes is None:
            return cut
        return replace(cut, suppressed=tuple(cut.labels(locate_intervals(decision, decision.suppressed_boxes))))

    def _field_cut(self, attribute: Attribute, field: Field, slices: AttributeCut, seen: Int32Array | None) -> FieldCut:
        """A cut in codes as a cut in positions, which later data can be held against; ``seen`` are the released codes."""
        if slices.uncut:
            return FieldCut.whole()
        first = slices.first[slices.first != attribute.missing]  # it stands behind the others and is published as it is
        if slices.node is not None:
            assert attribute.taxonomy is not None  # noqa: S101
            nodes = slices.node[: len(first)].tolist()
            return FieldCut.of_nodes(field, nodes, tree=attribute.taxonomy, sets=self.style == "set", seen=seen)
        ends = np.concatenate(([attribute.low], attribute.position[first[1:]], [attribute.high]))
        if seen is None:
            return FieldCut.of_ends(field, ends, closed=True)
        last = np.append(first[1:] - 1, attribute.size - 1 - (attribute.missing >= 0)).astype(np.int32)
        bounded = self.policy.quasi[attribute.name].bounds is not None
        if self.ends == "cut":
            shown = RangeEnds.of(attribute, first, last, np.zeros(len(first), bool), seen, bounded=bounded)
        else:
            shown = RangeEnds.tight(attribute, first, last, seen)
        return FieldCut.of_ends(field, ends, closed=True, shown=shown)

    def _extents(self, codes: Codes, decision: Grouping, fields: tuple[Field, ...]) -> tuple[FloatArray, FloatArray]:
        """The positions that each published box holds: a range as it is, a node with all that lies under it."""
        lo, hi = (_positions(codes, box) for box in (decision.lo, decision.hi))
        ranges, narrowed = self._ranges(codes, decision), self._attributes(codes, decision)
        released = decision.released(codes) if decision.suppressed else []
        for j, (attribute, known) in enumerate(zip(codes.attributes, fields, strict=True)):
            if j in ranges:
                lo[:, j], hi[:, j] = ranges[j].extents(hi[:, j])
            elif attribute.taxonomy is not None and self.style != "set":
                covers = attribute.taxonomy.covers(decision.lo[:, j], decision.hi[:, j])
                nodes, index = compact_codes(covers, len(attribute.taxonomy.label))
                ends = np.array([known.extent(int(n)) for n in nodes], np.float64)
                if narrowed[j] is not attribute:  # the label ends where released values do
                    low, high = _reach(attribute.taxonomy, nodes, released[j])
                    ends = np.where((nodes > 0)[:, None] & np.isfinite(ends), np.stack([low, high], axis=1), ends)
                lo[:, j], hi[:, j] = ends[index, 0], ends[index, 1]
            lo[np.isinf(hi[:, j]) & np.isfinite(lo[:, j]), j] = -np.inf  # with a missing value among others: '*'
        return lo, hi


def start_partitioned(
    attributes: tuple[Attribute, ...], division: Partitioning, policy: Policy, output: Output
) -> Parts:
    """The coarse cut that came before the search, as a recoding that has one of its own for every part."""
    at = _cut_positions(attributes, division.column, division.at)
    tree = (division.column, at, division.left, division.right, division.partition)
    assert division.folder is not None  # noqa: S101  an engine that divides has room
    return Parts(fields_of(attributes, policy), output, *tree, division.folder, division.owner)


def fields_of(attributes: tuple[Attribute, ...], policy: Policy) -> tuple[Field, ...]:
    """What to remember of the quasi-identifiers."""
    return tuple(Field.of(a, policy) for a in attributes)


def _cut_positions(attributes: tuple[Attribute, ...], attribute: Int32Array, at: Int32Array) -> FloatArray:
    found = np.zeros(len(at))
    for j, known in enumerate(attributes):
        mine = attribute == j
        found[mine] = known.position[at[mine]]
    return found


def _reach(tree: Taxonomy, nodes: Int32Array, seen: Int32Array) -> tuple[FloatArray, FloatArray]:
    """The first and the last released code below nodes."""
    low = seen[np.searchsorted(seen, tree.lo[nodes]).clip(0, len(seen) - 1)]
    high = seen[(np.searchsorted(seen, tree.hi[nodes], side="right") - 1).clip(0)]
    return low.astype(np.float64), high.astype(np.float64)


def _positions(codes: Codes, box: Int32Array) -> FloatArray:
    columns = [a.position[box[:, j]] for j, a in enumerate(codes.attributes)]
    return np.stack(columns, axis=1) if columns else np.zeros(box.shape)
