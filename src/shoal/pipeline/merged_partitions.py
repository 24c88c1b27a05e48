"""One search for a table that is counted in partitions: their counts are added up at levels that fit in memory.

A method that publishes one level per attribute for the whole table must not search partitions on their own. Each partition is
counted, its values are merged into the lowest levels at which the whole table fits, and the counts are added. The groups of all
nodes from these levels upward are exact. Then the partitions are counted again to write the groups of the chosen cuts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes, EncodedTable, MergedValues
from shoal.engines import Counts, Plan
from shoal.kernels.combinations import number_combinations, sort_combinations
from shoal.measures import PublishedColumn, merge_columns
from shoal.measures.comparison import count_labels
from shoal.pipeline.publication import LabelledGroups, RecodedTable
from shoal.recoding.grouping import AttributeCut, Grouping, locate_intervals

if TYPE_CHECKING:
    from shoal.pipeline.run import Run


class MergedSearch(NamedTuple):
    """The released table, the labels of all partitions, the figures of the method, and a note on the levels."""

    recoded: RecodedTable
    labels: list[PublishedColumn]
    figures: dict[str, float]
    note: str


@dataclass
class PartitionMerger:
    """The sum of counted partitions, with at most ``most`` cells as long as a level can be raised (0: no limit is known).

    ``levels`` has the cuts of every level by attribute, and ``level`` the level at which each attribute is counted.
    """

    table: EncodedTable
    levels: Sequence[Sequence[AttributeCut]]
    most: int
    level: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.level = [0] * len(self.levels)
        self._columns = np.zeros((len(self.levels) + len(self.table.sensitive), 0), np.int32)
        self._size = np.zeros(0, np.int64)

    def add(self, codes: Codes) -> None:
        """Add the cells of a partition, and raise levels while there are too many cells."""
        most = self.most or len(codes.counts.size)  # partitions fit, so their size is a limit
        quasi = codes.quasi[codes.combination].T
        columns = np.concatenate([quasi, codes.counts.sensitive.T]).astype(np.int32)
        for j in range(len(self.levels)):
            columns[j] = self._first_codes(j)[columns[j]]
        self._merge(np.concatenate([self._columns, columns], axis=1), np.concatenate([self._size, codes.counts.size]))
        while len(self._size) > most and (raised := self._choose_attribute()) is not None:
            self.level[raised] += 1
            self._columns[raised] = self._first_codes(raised)[self._columns[raised]]
            self._merge(self._columns, self._size)

    def _choose_attribute(self) -> int | None:
        """The attribute with the most values; ties: the earlier attribute. None if all have their root."""
        left = [j for j, cuts in enumerate(self.levels) if self.level[j] < len(cuts) - 1]
        return max(left, key=lambda j: (len(np.unique(self._columns[j])), -j), default=None)

    def _first_codes(self, j: int) -> Int32Array:
        """The first code of the interval of every code, at the level of the attribute."""
        cut = self.levels[j][self.level[j]]
        return cut.first[cut.table(self.table.attributes[j].size)]

    def _merge(self, columns: Int32Array, size: Int64Array) -> None:
        found = sort_combinations(list(columns), columns.shape[1])
        rows = found.order[found.start]
        self._columns = np.ascontiguousarray(columns[:, rows])
        self._size = np.bincount(found.number, size, minlength=len(rows)).astype(np.int64)

    def build(self) -> Codes:
        """The whole table with merged values."""
        table, m = self.table, len(self.levels)
        quasi = np.ascontiguousarray(self._columns[:m].T)
        new = np.append(True, (quasi[1:] != quasi[:-1]).any(axis=1))[: len(quasi)]
        start = np.append(np.flatnonzero(new), len(quasi)).astype(np.int64)
        counts = Counts(quasi[new], start, np.ascontiguousarray(self._columns[m:].T), self._size)
        merged = MergedValues(
            tuple(self._first_codes(j) for j in range(m)), tuple(table.count_codes(j) for j in range(m))
        )
        return Codes(table.attributes, table.sensitive, counts, table.hash, merged=merged)

    def describe(self) -> str:
        """A note on the levels that were not counted."""
        raised = [f"{a.name!r} {level}" for a, level in zip(self.table.attributes, self.level, strict=True) if level]
        text = (
            "The table has more combinations of values than the memory limit allows. Shoal counted "
            f"{self.table.partitioning.partitions} partitions one after another, and searched their sum."
        )
        if not raised:
            return text
        return (
            f"{text} The search began at these levels: {', '.join(raised)}. Lower levels of these columns were not searched; "
            "they could be better. Allow more memory (memory, --memory) to search them."
        )


def search_merged(run: Run, table: EncodedTable, most: int) -> MergedSearch:
    """Search a partitioned table as one table, and write its partitions one after another."""
    count = table.partitioning.partitions
    levels = [run.method.list_levels(a, table.count_codes(j)) for j, a in enumerate(table.attributes)]
    merger = PartitionMerger(table, levels, most)
    for number in range(count):
        run.report("parts", number, count)
        merger.add(table.count(number))
    run.report("parts", count, count)
    codes = merger.build()
    found = run.group(codes, np.random.default_rng(run.secret), run.report, run.method.parse_seconds()).labelled
    groups = MergedGroups.of(table, found.grouping)
    publication, names = run.publication, table.engine.schema().names
    labels: list[list[PublishedColumn]] = []
    last: list[tuple[Codes, LabelledGroups]] = []

    def plans() -> Iterator[Plan]:
        for number in range(count):
            run.report("writing", number, count)
            codes = table.count(number)
            grouping = groups.group(codes)
            labelled = LabelledGroups(grouping, publication.label(codes, grouping))
            labels.append(count_labels(codes, grouping, publication.label_boxes(codes, labelled)))
            last[:] = [(codes, labelled)]
            yield publication.plan(codes, names, labelled)

    released = table.engine.apply(plans())
    recoding = publication.build_recoding(*last[0])  # the same for all partitions
    run.report("writing", count, count)
    return MergedSearch(
        RecodedTable.of(recoding, released, publication.hidden),
        [merge_columns(of_column) for of_column in zip(*labels, strict=True)],
        dict(found.grouping.figures),
        merger.describe(),
    )


@dataclass(frozen=True)
class MergedGroups:
    """The groups of cuts in a whole table: those that are suppressed, and the codes of released records by attribute."""

    cuts: tuple[AttributeCut, ...]
    suppressed_boxes: Int32Array | None
    released: tuple[Int32Array, ...]

    @classmethod
    def of(cls, table: EncodedTable, found: Grouping) -> MergedGroups:
        """The groups of a search; where records are suppressed, the partitions are counted for the released codes."""
        records = [table.count_codes(j) for j in range(len(table.attributes))]
        if found.suppressed_boxes is None or not len(found.suppressed_boxes):
            return cls(found.attribute_cuts, None, tuple(np.flatnonzero(r).astype(np.int32) for r in records))
        groups = cls(found.attribute_cuts, found.suppressed_boxes, ())
        occurs = [np.zeros(len(r), bool) for r in records]
        for number in range(table.partitioning.partitions):
            codes = table.count(number)
            grouping = groups.group(codes)
            for seen, own in zip(occurs, replace(grouping, released=None).released_codes(codes), strict=True):
                seen[own] = True
        return replace(groups, released=tuple(np.flatnonzero(seen).astype(np.int32) for seen in occurs))

    def group(self, codes: Codes) -> Grouping:
        """The groups of a partition, as parts of the groups of the whole table."""
        whole = Grouping.from_cuts(codes, self.cuts)
        if self.suppressed_boxes is None:
            return replace(whole, released=self.released)
        part = whole.keep_groups(~self._is_suppressed(whole, self.suppressed_boxes))
        return replace(part, suppressed_boxes=self.suppressed_boxes, released=self.released)

    @staticmethod
    def _is_suppressed(grouping: Grouping, boxes: Int32Array) -> BoolArray:
        """Whether each group is one of the suppressed groups, by its intervals."""
        intervals = np.concatenate([locate_intervals(grouping, grouping.lo), locate_intervals(grouping, boxes)])
        number = number_combinations(list(intervals.T), len(intervals))
        return np.isin(number[: len(grouping.lo)], number[len(grouping.lo) :])
