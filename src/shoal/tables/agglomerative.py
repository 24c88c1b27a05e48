"""Utility-based local recoding, bottom-up and top-down (Xu, Wang, Pei, Wang, Shi, Fu, KDD 2006).

Bottom-up, groups that fail the requirement merge with the group for which the information loss grows least. Top-down, groups
are split in two by distant seeds. Records with equal quasi-identifiers stay together in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal import kernels
from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, list_choices
from shoal.kernels.interface import (
    ALIVE,
    DONE,
    LARGEST_CODE,
    ClusterBox,
    CombinationCells,
    Halves,
    HullTree,
    MergedGroups,
    MergeTable,
)
from shoal.pipeline.clustering import ClusteringInput, suppress_or_merge
from shoal.pipeline.method import CommonParameters, GroupingMethod
from shoal.policy import Policy
from shoal.progress import CountProgress, Progress
from shoal.recoding.grouping import Grouping
from shoal.requirements.requirement import parse_whole_number
from shoal.tables.cluster_search import REPORTS, search_partitions
from shoal.tables.mondrian import Mondrian

DIRECTIONS = ("both", "bottom-up", "top-down")
MOST_COMBINATIONS = 20_000  # larger tables are searched in partitions, unless ``part`` is given
PART = 2_500
ROUNDING = 1e-14  # relative to the loss of all records; above the rounding error of an increase


class Agglomerative(GroupingMethod):
    """Merge groups by the least increase of information loss, or split them by distant seeds.

    Parameters
    ----------
    policy : the policy
    direction : ``bottom-up``, ``top-down``, or ``both``: run both and `Mondrian`, and keep the groups with the lowest
        information loss
    weights : the weight of each attribute, by column name (default: 1): the utilities of the paper
    part : first join the boxes of `Mondrian` to partitions of about this many records and search each on its own, on all
        cores. By default tables of more than 20,000 distinct combinations are searched in partitions of about 2,500 records;
        a ``part`` of all records searches the table as a whole
    common : ``write``, ``objective``, ``improve`` and others, as for every method; see `GroupingMethod`

    The loss of a group is its records times D, the sum of the weighted losses of its intervals. Records with equal
    quasi-identifiers stay in one group.

    Bottom-up, every combination of values begins as a group. The smallest group that fails the requirement merges with the
    group, failing or not, for which the total loss grows least. With requirements on sensitive values the union must pass, or
    both groups fail and the union is closer to passing. A union of at least 2k records that passes is split as below, if that
    lowers the loss. Top-down, a group is split by two combinations far apart: each of the others joins the half whose loss
    grows less, and a half that fails takes the combinations that cost it least from the other half, as long as that one
    passes. Groups are split until no split leaves two halves that pass.

    Bottom-up has the lower loss for small k. For large k the last merges are between wide groups, and top-down has the lower
    loss, which is why both run by default, in every partition. On large tables the better of the two has a lower loss than
    `Mondrian`. On small tables it can be the other way round, so ``both`` keeps the boxes of `Mondrian` wherever these have the
    lowest loss. The other directions do not.

    Failing groups that may merge with no other group are suppressed within the allowance, otherwise merged. Ties go to the
    earlier combination in the order of a hash that is keyed by the secret seed of the release.

    Guarantee
    ---------
    Every group meets every requirement of the policy. Groups have no largest size: equal records stay together.

    References
    ----------
    Xu, Wang, Pei, Wang, Shi, Fu: Utility-based anonymization using local recoding. KDD 2006.
    """

    name: ClassVar[str] = "agglomerative"
    summary: ClassVar[str] = "merges small groups by the least increase of information loss, or splits by distant seeds"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {},
        {"direction": "bottom-up"},
        {"direction": "top-down"},
        {"part": 5},
    )
    column_examples: ClassVar[Mapping[str, Any]] = {"weights": 2}

    def __init__(
        self,
        policy: Policy,
        *,
        direction: str = "both",
        weights: Mapping[str, float] | str | None = None,
        part: int | None = None,
        **common: Unpack[CommonParameters],
    ) -> None:
        super().__init__(policy, **common)
        self.direction = direction
        self.weights = weights
        self.part = part

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The groups; ``rng`` is not used."""
        self.refuse_non_monotone()
        if self.direction not in DIRECTIONS:
            raise PolicyError(
                f"unknown value {self.direction!r} for 'direction'; {list_choices(self.direction, DIRECTIONS)}"
            )
        records = ClusteringInput.of(codes, self.policy, self.attribute_weights(codes), self.objective)
        part = PART if self.part is None and len(codes.quasi) > MOST_COMBINATIONS else self.part
        progress("clustering", 0, codes.records)

        def report(done: int) -> None:
            progress("clustering", done, codes.records)

        if part is None and self.direction != "both":
            cell, group = self._search(records, report)
        else:
            boxes = Mondrian(self.policy, weights=self.weights, objective=self.objective).decide(
                codes, rng=rng, progress=progress
            )
            box = boxes.placement.group
            partitions = _join_boxes(boxes, codes.records if part is None else parse_whole_number(part, "part", 1))
            cell, group = search_partitions(
                partitions,
                lambda cells, _, report: self._search(records.select_cells(cells), report, box[cells]),
                rng,
                report,
            )
        return Grouping.from_records(codes, cell, suppress_or_merge(records, self.policy, cell, group))

    def _search(
        self, records: ClusteringInput, report: CountProgress, box: Int32Array | None = None
    ) -> tuple[Int32Array, Int32Array]:
        """The cell and the group of every record; ``box`` has Mondrian's group of every cell."""
        table, cells, combination = _build_table(records)
        cell = np.repeat(np.arange(len(records.count), dtype=np.int32), records.count)
        candidates = []
        if self.direction != "top-down":
            candidates.append(_merge_all(table, cells, report)[combination[cell]])
        if self.direction != "bottom-up":
            candidates.append(_split_all(table, cells)[combination[cell]])
        if self.direction == "both" and box is not None:
            candidates.append(np.unique(box, return_inverse=True)[1].astype(np.int32)[cell])
        report(records.total)
        return cell, _choose_best(records, cell, candidates)


def _join_boxes(boxes: Grouping, part: int) -> list[Int64Array]:
    """The cells of partitions of at least ``part`` records: unions of Mondrian's boxes, which are numbered in tree order.

    A coarse Mondrian would cut elsewhere, since it must leave ``part`` records on both sides.
    """
    before = np.cumsum(boxes.size()) - boxes.size()
    last = max(int(boxes.size().sum()) // part - 1, 0)
    number = np.minimum(before // part, last)[boxes.placement.group]
    order = np.argsort(number, kind="stable")
    partitions = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    return [np.sort(cells) for cells in partitions]


def _choose_best(records: ClusteringInput, cell: Int32Array, candidates: Sequence[Int32Array]) -> Int32Array:
    """The groups of every record with the fewest records in failing groups, then with the lowest loss. Ties: the earlier."""
    if len(candidates) == 1:
        return candidates[0]

    def rate(group: Int32Array) -> tuple[int, float]:
        return int(records.find_failing(cell, group)[group].sum()), records.total_loss(cell, group)

    return min(candidates, key=rate)


def _build_table(records: ClusteringInput) -> tuple[MergeTable, CombinationCells | None, Int32Array]:
    """The combinations as the kernels take them, their cells if the requirement tests values, and the combination of cells."""
    rows = records.rows
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (rows[1:] != rows[:-1]).any(axis=1)  # the cells of a combination are consecutive
    first = np.flatnonzero(is_first)
    cells = None
    if records.tests_values:
        cells = CombinationCells(
            np.append(first, len(rows)).astype(np.int64),
            records.sensitive[records.label],
            records.count,
            records.offset,
            int(records.offset[-1]),
        )
    table = MergeTable(
        np.ascontiguousarray(rows[first]),
        np.add.reduceat(records.count, first),
        np.minimum.reduceat(records.keyed_rank, first),
        records.limits,
        records.k,
        records.loss_tables,
    )
    return table, cells, (np.cumsum(is_first) - 1).astype(np.int32)


def _split_all(table: MergeTable, cells: CombinationCells | None) -> Int32Array:
    """Split the whole table until no group can be split; the group of every combination."""
    order, n = np.argsort(table.rank, kind="stable").astype(np.int32), len(table.rows)
    group, stack = np.empty(n, np.int32), np.empty((n + 1, 2), np.int64)
    kernels.halving.split_all(order, stack, Halves.allocate(table, _width(cells)), table, cells, group)
    return _number_by_rank(group, table)


def _merge_all(table: MergeTable, cells: CombinationCells | None, report: CountProgress) -> Int32Array:
    """Merge failing groups until none is left that may merge; rebuild the tree when half of its groups are merged."""
    kernel, state = kernels.agglomerative, np.zeros(3, np.int64)
    groups, halves = MergedGroups.of(table, _width(cells)), Halves.allocate(table, _width(cells))
    kernel.start_groups(table, groups, cells, state)
    search = ClusterBox.allocate(table.loss_tables, most=int(LARGEST_CODE))
    total, combinations, indexed, tree = int(table.records.sum()), len(table.rows), 0, None
    margin = ROUNDING * total * float(table.loss_tables.weight.sum())
    while not state[DONE]:
        if tree is None or 2 * state[ALIVE] < indexed:
            tree, indexed = HullTree.allocate(groups), int(state[ALIVE])
            kernel.build_tree(groups, tree, table.loss_tables)
        most = max(1, combinations // REPORTS)
        kernel.merge_groups(state, most, indexed, margin, table, groups, tree, search, halves, cells)
        report(int(total * (1 - state[ALIVE] / combinations)))
    return _number_by_rank(groups.owner, table)


def _width(cells: CombinationCells | None) -> int:
    """The length of a histogram of sensitive values."""
    return 0 if cells is None else cells.width


def _number_by_rank(owner: Int32Array, table: MergeTable) -> Int32Array:
    """Number the groups consecutively by their smallest ranks; ``owner`` has a number of the group of every combination."""
    _, group = np.unique(owner, return_inverse=True)
    smallest = np.full(int(group.max(initial=-1)) + 1, LARGEST_CODE)
    np.minimum.at(smallest, group, table.rank)
    number = np.empty(len(smallest), np.int32)
    number[np.argsort(smallest, kind="stable")] = np.arange(len(smallest), dtype=np.int32)
    return number[group]
