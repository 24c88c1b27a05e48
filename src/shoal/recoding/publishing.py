"""From a grouping of codes to published labels, and to the recoding for later data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.arrays import FloatArray, Int32Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes
from shoal.engines import Partitioning
from shoal.kernels.combinations import compact_codes, number_combinations
from shoal.policy import Policy
from shoal.recoding import (
    Assignment,
    Boxes,
    Columns,
    Cut,
    Field,
    FieldCut,
    Output,
    Parts,
    Recoding,
    Style,
    label_boxes,
)
from shoal.recoding.group_labels import Ends, RangeEnds
from shoal.recoding.grouping import AttributeCut, Grouping, count_members, locate_intervals
from shoal.recoding.nearest_box import PublishedSets
from shoal.taxonomy import Balanced, Taxonomy, narrow_branches


@dataclass(frozen=True)
class LabelRules:
    """The rules by which a grouping is published: the style, and whether ranges have ``tight`` ends or the ends of the ``cut``.

    If ``ends`` is None, a global cut is published with its own ends, or with tight ends if it suppresses records.
    """

    policy: Policy
    style: Style
    ends: Ends | None = "tight"

    def write(self, codes: Codes, grouping: Grouping) -> Columns:
        """The published columns of every group."""
        if grouping.attribute_cuts:
            return self._cut(codes, grouping, Output((), ())).write(locate_intervals(grouping, grouping.lo))
        attributes = self._attributes(codes, grouping)
        ranges = self._ranges(codes, grouping)
        return label_boxes(attributes, grouping.lo, grouping.hi, self.style, count_members(codes, grouping), ranges)

    def build_recoding(self, codes: Codes, grouping: Grouping, columns: Columns, output: Output) -> Recoding:
        """The recoding of a grouping, for later data."""
        if grouping.attribute_cuts:
            return self._cut(codes, grouping, output)
        fields = build_fields(codes.attributes, self.policy)
        boxes = (*self._extents(codes, grouping, fields), columns, self._sets(codes, grouping))
        tree, placement = grouping.split_tree, grouping.placement
        if tree is None:
            cells = _positions(codes, codes.quasi[codes.combination[placement.cell]])
            return Assignment(fields, output, cells, placement.group, placement.count, *boxes)
        at = _split_positions(codes.attributes, tree.attribute, tree.at)
        return Boxes(fields, output, tree.attribute, at, tree.left, tree.right, tree.group, *boxes)

    def _sets(self, codes: Codes, grouping: Grouping) -> tuple[PublishedSets, ...]:
        """The codes of the published sets."""
        found = []
        for j, attribute in enumerate(codes.attributes):
            if self.style == "set" and attribute.taxonomy is not None:
                group, code, _ = count_members(codes, grouping)(j)
                start = np.searchsorted(group, np.arange(len(grouping.lo) + 1)).astype(np.int64)
                found.append(PublishedSets(j, start, code))
        return tuple(found)

    def count_isolated_ends(self, codes: Codes, grouping: Grouping, columns: Columns) -> int:
        """The number of records that are alone in their group with a value that is an end of the group's published range.

        Groups with equal published ``columns`` are one group.
        """
        if self.style not in ("label", "lo-hi", "set"):
            return 0
        placement = grouping.placement
        released = placement.group >= 0
        number = number_combinations([column.index + 1 for _, column in columns], len(grouping.lo))
        first = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
        first[number] = np.arange(len(number))
        group, count = number[placement.group[released]], placement.count[released]
        rows = codes.combination[placement.cell[released]]
        alone = np.zeros(len(group), bool)
        for j, ends in self._end_codes(codes, grouping):
            code = codes.quasi[rows, j]
            for end in (by_group[first] for by_group in ends):
                at_end = code == end[group]
                records = np.bincount(group[at_end], count[at_end], minlength=len(end))
                alone |= at_end & (records[group] == 1)
        return int(alone.sum())

    def _end_codes(self, codes: Codes, grouping: Grouping) -> Iterator[tuple[int, tuple[Int32Array, Int32Array]]]:
        """For every attribute published in ranges, the codes at both ends, by group; -1 if the end is not a value."""
        cut = self._cut(codes, grouping, Output((), ())) if grouping.attribute_cuts else None
        ranges = self._ranges(codes, grouping)
        for j, attribute in enumerate(codes.attributes):
            lo, hi = grouping.lo[:, j], grouping.hi[:, j]
            if attribute.taxonomy is not None:
                if self.style != "set" and self._is_balanced_number(attribute):
                    yield j, self._branch_ends(codes, grouping, j)
                continue
            if cut is not None:
                low, high = cut.cuts[j].ends(locate_intervals(grouping, grouping.lo)[:, j])
            elif j in ranges:
                low, high = ranges[j].low, np.where(np.isinf(attribute.position[hi]), np.inf, ranges[j].high)
            else:
                low, high = attribute.position[lo], attribute.position[hi]
            is_range = (low < high) & np.isfinite(high)  # a box with a missing value has no range
            code = np.searchsorted(attribute.position, [low, high]).clip(0, attribute.size - 1)
            is_value = attribute.position[code] == [low, high]
            ends = np.where(is_range & is_value, code, -1).astype(np.int32)
            yield j, (ends[0], ends[1])

    def _is_balanced_number(self, attribute: Attribute) -> bool:
        return attribute.kind == "numeric" and isinstance(self.policy.quasi[attribute.name].tree_builder, Balanced)

    @staticmethod
    def _branch_ends(codes: Codes, grouping: Grouping, j: int) -> tuple[Int32Array, Int32Array]:
        """The first and the last released code below the published node of every group; -1 for a single value."""
        tree = codes.attributes[j].taxonomy
        assert tree is not None  # noqa: S101
        node = tree.covers(grouping.lo[:, j], grouping.hi[:, j])
        first, last = _released_ends(tree, node, grouping.released_codes(codes)[j])
        is_range = (node > 0) & (first < last)
        return np.where(is_range, first, -1).astype(np.int32), np.where(is_range, last, -1).astype(np.int32)

    def _attributes(self, codes: Codes, grouping: Grouping) -> tuple[Attribute, ...]:
        """The attributes with labels that contain no value of suppressed records alone."""
        derived = [a.taxonomy is not None and a.taxonomy.derived for a in codes.attributes]
        if not grouping.suppresses_records or not any(derived):
            return codes.attributes
        released, attributes = grouping.released_codes(codes), list(codes.attributes)
        for j in np.flatnonzero(derived):
            tree = attributes[j].taxonomy
            assert tree is not None  # noqa: S101
            narrowed = narrow_branches(tree, released[j])
            if narrowed is not tree:
                attributes[j] = replace(attributes[j], taxonomy=narrowed)
        return tuple(attributes)

    def _ranges(self, codes: Codes, grouping: Grouping) -> dict[int, RangeEnds]:
        """The published ranges of every group, for numbers with published cuts."""
        if grouping.regions is None:
            return {}
        released = grouping.released_codes(codes)
        found = {}
        for j, attribute in enumerate(codes.attributes):
            if attribute.taxonomy is None:
                bounded = self.policy.quasi[attribute.name].bounds is not None
                regions = grouping.regions.lo[:, j], grouping.regions.hi[:, j], grouping.regions.shared[:, j]
                found[j] = RangeEnds.of(attribute, *regions, released[j], bounded=bounded)
        return found

    def _cut(self, codes: Codes, grouping: Grouping, output: Output) -> Cut:
        fields = build_fields(codes.attributes, self.policy)
        sets = self.style == "set"
        released: Sequence[Int32Array | None] = [None] * len(fields)
        if sets or grouping.suppresses_records or self.ends == "tight":
            released = grouping.released_codes(codes)
        narrowed = self._attributes(codes, grouping)
        cuts = tuple(
            self._field_cut(attribute, field, grouping.attribute_cuts[j], released[j])
            for j, (attribute, field) in enumerate(zip(narrowed, fields, strict=True))
        )
        cut = Cut(fields, output, cuts, numbers="label" if sets else self.style)
        if grouping.suppressed_boxes is None:
            return cut
        return replace(cut, suppressed=tuple(cut.labels(locate_intervals(grouping, grouping.suppressed_boxes))))

    def _field_cut(
        self, attribute: Attribute, field: Field, cut: AttributeCut, released: Int32Array | None
    ) -> FieldCut:
        """Convert a cut in codes to a cut in positions, for later data; ``released`` are the released codes."""
        if cut.is_root:
            return FieldCut.root()
        first = cut.first[cut.first != attribute.missing]  # a missing value comes last and is published as missing
        if cut.node is not None:
            assert attribute.taxonomy is not None  # noqa: S101
            nodes, sets = cut.node[: len(first)].tolist(), self.style == "set"
            return FieldCut.of_nodes(field, nodes, tree=attribute.taxonomy, sets=sets, released=released)
        ends = np.concatenate(([attribute.low], attribute.position[first[1:]], [attribute.high]))
        if released is None:
            return FieldCut.of_ends(field, ends, closed=True)
        last = np.append(first[1:] - 1, attribute.size - 1 - (attribute.missing >= 0)).astype(np.int32)
        bounded = self.policy.quasi[attribute.name].bounds is not None
        if self.ends == "cut":
            published = RangeEnds.of(attribute, first, last, np.zeros(len(first), bool), released, bounded=bounded)
        else:
            published = RangeEnds.tight(attribute, first, last, released)
        return FieldCut.of_ends(field, ends, closed=True, published=published)

    def _extents(self, codes: Codes, grouping: Grouping, fields: tuple[Field, ...]) -> tuple[FloatArray, FloatArray]:
        """The positions in each published box: the range of numbers, or all values below a node."""
        lo, hi = (_positions(codes, box) for box in (grouping.lo, grouping.hi))
        ranges, narrowed = self._ranges(codes, grouping), self._attributes(codes, grouping)
        released = grouping.released_codes(codes) if grouping.suppresses_records else []
        for j, (attribute, field) in enumerate(zip(codes.attributes, fields, strict=True)):
            if j in ranges:
                lo[:, j], hi[:, j] = ranges[j].extents(hi[:, j])
            elif attribute.taxonomy is not None and self.style != "set":
                covers = attribute.taxonomy.covers(grouping.lo[:, j], grouping.hi[:, j])
                nodes, index = compact_codes(covers, len(attribute.taxonomy.label))
                ends = np.array([field.extent(int(n)) for n in nodes], np.float64)
                if narrowed[j] is not attribute:  # the label ends at released values
                    low, high = _released_ends(attribute.taxonomy, nodes, released[j])
                    ends = np.where((nodes > 0)[:, None] & np.isfinite(ends), np.stack([low, high], axis=1), ends)
                lo[:, j], hi[:, j] = ends[index, 0], ends[index, 1]
            lo[np.isinf(hi[:, j]) & np.isfinite(lo[:, j]), j] = -np.inf  # missing and other values: '*'
        return lo, hi


def create_partitions(
    attributes: tuple[Attribute, ...], partitioning: Partitioning, policy: Policy, output: Output
) -> Parts:
    """The recoding of a partitioned table, before the recodings of the partitions are stored."""
    at = _split_positions(attributes, partitioning.column, partitioning.at)
    tree = (partitioning.column, at, partitioning.left, partitioning.right, partitioning.partition)
    assert partitioning.folder is not None  # noqa: S101  an engine with partitions has a folder
    return Parts(build_fields(attributes, policy), output, *tree, partitioning.folder, partitioning.owner)


def build_fields(attributes: tuple[Attribute, ...], policy: Policy) -> tuple[Field, ...]:
    """The fields of the quasi-identifiers."""
    return tuple(Field.of(a, policy) for a in attributes)


def _split_positions(attributes: tuple[Attribute, ...], attribute: Int32Array, at: Int32Array) -> FloatArray:
    positions = np.zeros(len(at))
    for j, of_node in enumerate(attributes):
        nodes = attribute == j
        positions[nodes] = of_node.position[at[nodes]]
    return positions


def _released_ends(tree: Taxonomy, nodes: Int32Array, released: Int32Array) -> tuple[FloatArray, FloatArray]:
    """The first and the last released code below each node."""
    low = released[np.searchsorted(released, tree.lo[nodes]).clip(0, len(released) - 1)]
    high = released[(np.searchsorted(released, tree.hi[nodes], side="right") - 1).clip(0)]
    return low.astype(np.float64), high.astype(np.float64)


def _positions(codes: Codes, box: Int32Array) -> FloatArray:
    columns = [a.position[box[:, j]] for j, a in enumerate(codes.attributes)]
    return np.stack(columns, axis=1) if columns else np.zeros(box.shape)
