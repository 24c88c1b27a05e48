"""From a grouping of codes to published labels, and to the recoding for later data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.arrays import FloatArray, Int32Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes
from shoal.engines import Partitioning
from shoal.formats.labels import format_range
from shoal.kernels.combinations import number_combinations
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
from shoal.recoding.cut import LeafRun
from shoal.recoding.group_labels import Ends, RangeEnds, label_leaves, star_ranges
from shoal.recoding.grouping import AttributeCut, Grouping, count_members, locate_intervals
from shoal.recoding.nearest_box import PublishedSets
from shoal.taxonomy import Balanced, Taxonomy, narrow_branches


@dataclass(frozen=True)
class EndCounts:
    """The ends of published ranges that show single records.

    ``isolated`` is the number of records that are alone in their group with a value that is an end of the group's range.
    ``unique`` is the number of labels that have an end that occurs once in the source.
    """

    isolated: int
    unique: int

    def figures(self, records: int) -> dict[str, float]:
        """The measures of a table with this number of released records."""
        return {"isolated_ends": self.isolated / max(records, 1), "unique_ends": float(self.unique)}

    def __add__(self, other: EndCounts) -> EndCounts:
        return EndCounts(self.isolated + other.isolated, self.unique + other.unique)


@dataclass(frozen=True)
class LabelRules:
    """The rules by which a grouping is published: the style, and whether ranges have ``tight`` ends or the ends of the ``cut``.

    If ``ends`` is None, a global cut is published with its own ends, or with tight ends if it suppresses records. ``stars``: a
    group has one value of an attribute or ``*``, and no other label.
    """

    policy: Policy
    style: Style
    ends: Ends | None = "tight"
    stars: bool = False

    def write(self, codes: Codes, grouping: Grouping) -> Columns:
        """The published columns of every group."""
        if grouping.attribute_cuts:
            return self._cut(codes, grouping, Output((), ())).write(locate_intervals(grouping, grouping.lo))
        attributes = self._attributes(codes, grouping)
        ranges = self._ranges(codes, grouping)
        boxes = grouping.lo, grouping.hi
        columns = label_boxes(attributes, *boxes, self.style, count_members(codes, grouping), ranges)
        return star_ranges(columns, *boxes) if self.stars else columns

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

    def label_cut(self, attribute: Attribute, cut: AttributeCut) -> list[str | None]:
        """The label of every interval of a cut, in a table without suppressed records."""
        field, tree = Field.of(attribute, self.policy), attribute.taxonomy
        if tree is not None and tree.derived and attribute.rounding is not None:
            attribute = replace(attribute, taxonomy=_round_branches(attribute, tree, None))
        found = self._field_cut(attribute, field, cut, None)
        return [*found.labels, found.missing][: len(cut.first)]

    def _sets(self, codes: Codes, grouping: Grouping) -> tuple[PublishedSets, ...]:
        """The codes of the published sets."""
        found = []
        for j, attribute in enumerate(codes.attributes):
            if self.style == "set" and attribute.taxonomy is not None:
                group, code, _ = count_members(codes, grouping)(j)
                start = np.searchsorted(group, np.arange(len(grouping.lo) + 1)).astype(np.int64)
                found.append(PublishedSets(j, start, code))
        return tuple(found)

    def count_ends(self, codes: Codes, grouping: Grouping, columns: Columns) -> EndCounts:
        """Count the ends of published ranges that are values of single records.

        Groups with equal published ``columns`` are one group.
        """
        if self.style not in ("label", "lo-hi", "set") or self.stars:
            return EndCounts(0, 0)
        placement = grouping.placement
        released = placement.group >= 0
        number = number_combinations([column.index + 1 for _, column in columns], len(grouping.lo))
        first = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
        first[number] = np.arange(len(number))
        group, count = number[placement.group[released]], placement.count[released]
        rows = codes.combination[placement.cell[released]]
        alone, unique = np.zeros(len(group), bool), 0
        for j, ends in self._end_codes(codes, grouping):
            code = codes.quasi[rows, j]
            source = np.append(
                np.bincount(codes.quasi[:, j], codes.size, codes.attributes[j].size), 0
            )  # -1 is no value
            once = (source[ends[0]] == 1) | (source[ends[1]] == 1)
            label = next(column.index for name, column in columns if name == codes.attributes[j].name)
            unique += len(np.unique(label[once]))
            for end in (by_group[first] for by_group in ends):
                at_end = code == end[group]
                records = np.bincount(group[at_end], count[at_end], minlength=len(end))
                alone |= at_end & (records[group] == 1)
        return EndCounts(int(alone.sum()), unique)

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
                low, high = attribute.round_ends(attribute.position[lo], attribute.position[hi])
            is_range = (low < high) & np.isfinite(high)  # a box with a missing value has no range
            code = np.searchsorted(attribute.position, [low, high]).clip(0, attribute.size - 1)
            is_value = attribute.position[code] == [low, high]
            ends = np.where(is_range & is_value, code, -1).astype(np.int32)
            yield j, (ends[0], ends[1])

    def _is_balanced_number(self, attribute: Attribute) -> bool:
        return attribute.kind == "numeric" and isinstance(self.policy.quasi[attribute.name].tree_builder, Balanced)

    @staticmethod
    def _branch_ends(codes: Codes, grouping: Grouping, j: int) -> tuple[Int32Array, Int32Array]:
        """The first and the last released code below the published nodes of every group; -1 for a single value."""
        attribute = codes.attributes[j]
        tree = attribute.taxonomy
        assert tree is not None  # noqa: S101
        lo, hi = grouping.lo[:, j], grouping.hi[:, j]
        is_root = np.full(len(lo), bool(grouping.attribute_cuts) and grouping.attribute_cuts[j].is_root)
        if not grouping.attribute_cuts:
            nodes = attribute.publish_nodes(lo, hi)
            lo, hi, is_root = tree.lo[nodes[0]], tree.hi[nodes[1]], nodes[0] == 0
        first, last = _released_ends(lo, hi, grouping.released_codes(codes)[j])
        is_range = ~is_root & (first < last)
        if attribute.rounding is not None and attribute.numbers is not None:
            exact = attribute.numbers[first.astype(int)], attribute.numbers[last.astype(int)]
            rounded = attribute.round_ends(*exact)
            return tuple(  # type: ignore[return-value]
                np.where(is_range & (end == value), code, -1).astype(np.int32)
                for code, value, end in zip((first, last), exact, rounded, strict=True)
            )
        return np.where(is_range, first, -1).astype(np.int32), np.where(is_range, last, -1).astype(np.int32)

    def _attributes(self, codes: Codes, grouping: Grouping) -> tuple[Attribute, ...]:
        """The attributes with the labels of their nodes: no value of suppressed records alone, and rounded ends."""
        derived = [a.taxonomy is not None and a.taxonomy.derived for a in codes.attributes]
        if not any(derived):
            return codes.attributes
        attributes = list(codes.attributes)
        released = grouping.released_codes(codes) if grouping.suppresses_records else None
        for j in np.flatnonzero(derived):
            tree = attributes[j].taxonomy
            assert tree is not None  # noqa: S101
            narrowed = tree if released is None else narrow_branches(tree, released[j])
            if attributes[j].rounding is not None:
                narrowed = _round_branches(attributes[j], narrowed, None if released is None else released[j])
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
                found[j] = RangeEnds.of(attribute, *regions, released[j], bounded=bounded).round(attribute)
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
        return replace(cut, suppressed=locate_intervals(grouping, grouping.suppressed_boxes))

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
            runs = _find_runs(attribute, cut, len(first), released)
            return FieldCut.of_nodes(field, nodes, tree=attribute.taxonomy, sets=sets, released=released, runs=runs)
        ends = np.concatenate(([attribute.low], attribute.position[first[1:]], [attribute.high]))
        if released is None and attribute.rounding is None:
            return FieldCut.of_ends(field, ends, closed=True)
        if released is None:
            closed = np.append(np.zeros(len(first) - 1, bool), True)
            return _round_cut(attribute, field, ends, RangeEnds(ends[:-1], ends[1:], closed))
        last = np.append(first[1:] - 1, attribute.size - 1 - (attribute.missing >= 0)).astype(np.int32)
        bounded = self.policy.quasi[attribute.name].bounds is not None
        if self.ends == "cut":
            published = RangeEnds.of(attribute, first, last, np.zeros(len(first), bool), released, bounded=bounded)
        else:
            published = RangeEnds.tight(attribute, first, last, released)
        return _round_cut(attribute, field, ends, published)

    def _extents(self, codes: Codes, grouping: Grouping, fields: tuple[Field, ...]) -> tuple[FloatArray, FloatArray]:
        """The positions in each published box: the range of numbers, or all values below a node."""
        lo, hi = (_positions(codes, box) for box in (grouping.lo, grouping.hi))
        ranges, narrowed = self._ranges(codes, grouping), self._attributes(codes, grouping)
        released = grouping.released_codes(codes) if grouping.suppresses_records else []
        for j, (attribute, field) in enumerate(zip(codes.attributes, fields, strict=True)):
            if j in ranges:
                lo[:, j], hi[:, j] = ranges[j].extents(hi[:, j])
            elif attribute.taxonomy is None:
                lo[:, j], hi[:, j] = attribute.round_ends(lo[:, j], hi[:, j])
            elif self.style != "set":
                tree = attribute.taxonomy
                first, last = attribute.publish_nodes(grouping.lo[:, j], grouping.hi[:, j])
                low, high = _node_ends(field, first)[0], _node_ends(field, last)[1]
                if (
                    narrowed[j].taxonomy is not tree and grouping.suppresses_records
                ):  # the label ends at released values
                    ends = _released_ends(tree.lo[first], tree.hi[last], released[j])
                    low = np.where((first > 0) & np.isfinite(low), ends[0], low)
                    high = np.where((first > 0) & np.isfinite(high), ends[1], high)
                lo[:, j], hi[:, j] = low, high
            lo[np.isinf(hi[:, j]) & np.isfinite(lo[:, j]), j] = -np.inf  # missing and other values: '*'
        if self.stars:
            starred = grouping.lo < grouping.hi
            lo[starred], hi[starred] = -np.inf, np.inf
        return lo, hi


def _find_runs(attribute: Attribute, cut: AttributeCut, count: int, released: Int32Array | None) -> dict[int, LeafRun]:
    """The runs of leaves among the first intervals of a cut; their labels have released values only."""
    found = {}
    last = np.append(cut.first[1:], attribute.size) - 1
    for i in np.flatnonzero(cut.node[:count] < 0).tolist() if cut.node is not None else []:
        leaves = np.arange(cut.first[i], last[i] + 1)
        inside = leaves if released is None else released[(released >= leaves[0]) & (released <= leaves[-1])]
        label = label_leaves(attribute, (inside if len(inside) else leaves).tolist())
        is_set = attribute.kind != "numeric" and attribute.runs is None
        found[i] = LeafRun(int(leaves[0]), int(leaves[-1]), label, is_set)
    return found


def _round_cut(attribute: Attribute, field: Field, ends: FloatArray, exact: RangeEnds) -> FieldCut:
    """The cut of a field with the rounded ends and midpoints of its ranges; it contains all positions of the rounded ranges."""
    published = exact.round(attribute)
    if attribute.rounding is None:
        return FieldCut.of_ends(field, ends, closed=True, published=published)
    low, high = published.low[published.low <= published.high], published.high[published.low <= published.high]
    ends = ends.copy()
    ends[0], ends[-1] = min(ends[0], low.min(initial=np.inf)), max(ends[-1], high.max(initial=-np.inf))
    is_range = np.isfinite(published.low) & np.isfinite(published.high)
    first, last = np.where(is_range, published.low, 0.0), np.where(is_range, published.high, 0.0)
    middle = attribute.round_nearest(first / 2 + last / 2, first, last)
    return replace(FieldCut.of_ends(field, ends, closed=True, published=published), middle=middle)


def _round_branches(attribute: Attribute, tree: Taxonomy, released: Int32Array | None) -> Taxonomy:
    """A balanced tree of numbers whose labels are ranges with rounded ends; also a single number becomes a range."""
    assert attribute.numbers is not None  # noqa: S101
    codes = np.arange(tree.size, dtype=np.int32) if released is None else released
    numbers = [n for n in range(1, len(tree.label)) if tree.label[n] is not None]
    lo, hi = tree.lo[numbers], tree.hi[numbers]
    first, last = _released_ends(lo, hi, codes)
    empty = first > last  # no released record: the label is not published
    first, last = np.where(empty, lo, first), np.where(empty, hi, last)
    low, high = attribute.round_ends(attribute.numbers[first.astype(int)], attribute.numbers[last.astype(int)])
    label = list(tree.label)
    for node, *ends in zip(numbers, low.tolist(), high.tolist(), strict=True):
        label[node] = format_range(*ends)
    return replace(tree, label=tuple(label))


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


def _node_ends(field: Field, nodes: Int32Array) -> tuple[FloatArray, FloatArray]:
    """The range of positions of each published node; see `Field.extent`."""
    distinct, index = np.unique(nodes, return_inverse=True)
    ends = np.array([field.extent(int(node)) for node in distinct], np.float64).reshape(-1, 2)[index.reshape(-1)]
    return ends[:, 0], ends[:, 1]


def _released_ends(lo: Int32Array, hi: Int32Array, released: Int32Array) -> tuple[FloatArray, FloatArray]:
    """The first and the last released code of each interval of codes."""
    low = released[np.searchsorted(released, lo).clip(0, len(released) - 1)]
    high = released[(np.searchsorted(released, hi, side="right") - 1).clip(0)]
    return low.astype(np.float64), high.astype(np.float64)


def _positions(codes: Codes, box: Int32Array) -> FloatArray:
    columns = [a.position[box[:, j]] for j, a in enumerate(codes.attributes)]
    return np.stack(columns, axis=1) if columns else np.zeros(box.shape)
