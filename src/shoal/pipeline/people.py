"""People instead of records: one vote per person for the search, and the groups of all records.

Numbers of different people do not add up over cells, and the methods add counts. So every person gets one vote, for one of
their records, chosen by the keyed hash. A method groups the votes. The votes of a group never exceed its people, so groups
with k votes have at least k people. The other records then join the groups, and the groups are counted exactly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.encoding.published_table import read_published_table
from shoal.engines import Counts, Engine
from shoal.errors import DataError
from shoal.formats.column_pairs import pair_names
from shoal.kernels.interface import GroupBoxes, GroupTree, LossArrays, NearestGroups
from shoal.pipeline.local_search import tabulate_losses
from shoal.policy import Policy, Unit
from shoal.recoding import Placement
from shoal.recoding.grouping import Grouping, build_raw_groups
from shoal.requirements import Requirement
from shoal.requirements.groups import Groups

MOST_SEARCHED = 2_000_000  # records of a table in which columns that seem to name people are searched
LEAST_RECORDS = 1.01  # mean records per value of a column that seems to name people
MOST_RECORDS = 50
MOST_RECORDS_UNNAMED = 5  # for columns without a role
LEAST_PEOPLE = {True: 2, False: 10}  # different values of a column with a role, and of one without
CHANCE_TOLD_APART = (
    0.05  # the largest share of all pairs of records in one group at which repeated names are recognized
)
MORE_THAN_CHANCE = (
    5.0  # pairs of records with the same value are so many times as often in one group, if they are one person
)
PARALLEL_MINIMUM = 1_000  # groups; fewer are split by one thread
NUMBER_OR_DATE = re.compile(r"[-+]?\d+([.,]\d*)?$|\d{4}[-/.]\d|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2}:\d\d")


@dataclass(frozen=True)
class Votes:
    """The votes of a table whose cells are counted by person.

    ``codes`` are the cells of all records, ``voters`` the cells of the votes. Vote v is for the cell ``cell[v]`` of ``codes``
    and is counted in the cell ``voter[v]`` of ``voters``. A record without a person has a vote of its own.
    """

    codes: Codes
    voters: Codes
    cell: Int64Array
    voter: Int64Array

    @classmethod
    def of(cls, codes: Codes) -> Votes:
        """Choose the record of every person that votes."""
        assert codes.person is not None  # noqa: S101
        counts, people = codes.counts, int(codes.person.max(initial=-1)) + 1
        voting = np.flatnonzero(kernels.people.choose_votes(codes.person, codes.cell_hash, people))
        combination = codes.combination[voting]
        new = np.ones(len(voting), bool)
        new[1:] = (combination[1:] != combination[:-1]) | (
            counts.sensitive[voting[1:]] != counts.sensitive[voting[:-1]]
        ).any(axis=1)
        first = np.flatnonzero(new)
        votes = np.where(codes.person[voting] < 0, counts.size[voting], 1)
        held, start = np.unique(combination[first], return_index=True)
        voters = Codes(
            codes.attributes,
            codes.sensitive,
            Counts(
                counts.quasi[held],
                np.append(start, len(first)).astype(np.int64),
                counts.sensitive[voting[first]],
                np.add.reduceat(votes, first).astype(np.int64),
            ),
            codes.hash,
        )
        return cls(codes, voters, np.repeat(voting, votes), np.repeat(np.cumsum(new) - 1, votes))

    def extend(self, grouping: Grouping, losses: LossArrays, most_suppressed: int = 0) -> Grouping:
        """The groups of all records, from the groups of the votes; at most so many records are suppressed.

        A global recoding and a tree of splits place every record. Otherwise the records of a person in the cell of their vote
        follow the vote, records of other cells join the votes of the same combination, and the rest joins the group whose
        information loss grows least.
        """
        codes = self.codes
        if grouping.attribute_cuts:
            return grouping.apply_cuts(codes)
        group_of_vote = self._assign_votes(grouping.placement)
        home = self._place_combinations(grouping, group_of_vote, losses)
        group = home[codes.combination].astype(np.int32)
        if grouping.split_tree is None:
            group = self._follow_votes(group, group_of_vote)
        if int(codes.counts.size[group < 0].sum()) + int((group_of_vote[self._is_unknown] < 0).sum()) > most_suppressed:
            # a suppressed vote stands for one record of its person, and the person has more
            group = np.where(group < 0, home[codes.combination], group).astype(np.int32)
            group_of_vote = np.where(group_of_vote < 0, home[codes.combination[self.cell]], group_of_vote).astype(
                np.int32
            )
        placement = self._divide_unknown(group, group_of_vote)
        lo, hi = kernels.boxes.bound_groups(
            codes.quasi, codes.combination[placement.cell], placement.group, len(grouping.lo)
        )
        regions = None if grouping.regions is None else grouping.regions.cover(lo, hi)
        return replace(grouping, placement=placement, lo=lo, hi=hi, regions=regions)

    @property
    def _is_unknown(self) -> BoolArray:
        """Whether each vote is that of a record without a person."""
        assert self.codes.person is not None  # noqa: S101
        return self.codes.person[self.cell] < 0

    def _assign_votes(self, placement: Placement) -> Int32Array:
        """The group of every vote; the votes of a divided cell are assigned in the order of their keyed hashes."""
        order = np.lexsort((self.codes.cell_hash[self.cell], self.voter))
        group = np.empty(len(self.cell), np.int32)
        by_cell = np.argsort(placement.cell, kind="stable")
        group[order] = np.repeat(placement.group[by_cell], placement.count[by_cell])
        return group

    def _place_combinations(self, grouping: Grouping, group_of_vote: Int32Array, losses: LossArrays) -> Int32Array:
        """The group of the records of every combination that do not follow a vote of their person."""
        codes = self.codes
        home = np.full(len(codes.quasi), -1, np.int32)
        tree = grouping.split_tree
        if tree is not None:
            home = kernels.boxes.descend(codes.quasi, tree.attribute, tree.at, tree.left, tree.right, tree.group)
        else:
            held = np.flatnonzero(group_of_vote >= 0)[::-1]  # the first vote of a combination is written last
            home[codes.combination[self.cell[held]]] = group_of_vote[held]
        lost = np.flatnonzero(home < 0)
        boxes = (grouping.lo, grouping.hi) if grouping.regions is None else (grouping.regions.lo, grouping.regions.hi)
        rows = codes.quasi[lost]
        if len(lost) and len(grouping.lo):
            nobody = np.full(len(lost), -1, np.int64)
            home[lost] = find_cheapest_boxes(rows, rows, codes.size[lost], nobody, *boxes, grouping.size(), losses)
        return home

    def _follow_votes(self, group: Int32Array, group_of_vote: Int32Array) -> Int32Array:
        """Place the cells of a person in the combination of their vote in the group of the vote."""
        codes, person = self.codes, self.codes.person
        assert person is not None  # noqa: S101
        known = person[self.cell] >= 0
        vote_group = np.full(int(person.max(initial=-1)) + 2, -1, np.int32)
        vote_combination = np.full(len(vote_group), -1, np.int64)
        vote_group[person[self.cell[known]]] = group_of_vote[known]
        vote_combination[person[self.cell[known]]] = codes.combination[self.cell[known]]
        follows = (vote_combination[person] == codes.combination) & (person >= 0)
        return np.where(follows, vote_group[person], group).astype(np.int32)

    def _divide_unknown(self, group: Int32Array, group_of_vote: Int32Array) -> Placement:
        """The placement of all cells; the records of a cell without a person can be in different groups."""
        codes, person = self.codes, self.codes.person
        assert person is not None  # noqa: S101
        known = np.flatnonzero(person >= 0)
        unknown = np.flatnonzero(person[self.cell] < 0)
        groups = int(max(group.max(initial=-1), group_of_vote.max(initial=-1))) + 2
        key, count = np.unique(self.cell[unknown] * groups + group_of_vote[unknown] + 1, return_counts=True)
        cell = np.concatenate([known, key // groups])
        order = np.argsort(cell, kind="stable")
        return Placement(
            cell[order].astype(np.int64),
            np.concatenate([group[known], key % groups - 1])[order].astype(np.int32),
            np.concatenate([codes.counts.size[known], count])[order].astype(np.int64),
        )


def split_groups(codes: Codes, grouping: Grouping, require: Sequence[Requirement], losses: LossArrays) -> Grouping:
    """Split groups that have more people than they need, while both sides meet every requirement.

    Votes count a person once in the whole table, so groups of votes have more people than required. Here every person counts in
    every group that has one of their records. Requirements on fewer attributes leave the groups unchanged.
    """
    if any(r.on is not None for r in require) or grouping.attribute_cuts:
        return grouping
    least = max((r.least for r in require), default=1)
    splits = _Splits.of(codes, grouping, losses)
    waiting = np.arange(len(grouping.lo))
    while len(waiting):
        attribute, at = splits.find_cuts(waiting, least)
        finer = splits.cut(attribute, at)
        if not all(r.size_only for r in require):
            cut, groups = np.flatnonzero(attribute >= 0), build_raw_groups(codes, finer.grouping)
            ok = np.logical_and.reduce([r.test(groups).ok for r in require])
            attribute[cut[~(ok[cut] & ok[len(attribute) :])]] = -1
            finer = splits.cut(attribute, at)
        cut = np.flatnonzero(attribute >= 0)
        waiting = np.concatenate([cut, len(attribute) + np.arange(len(cut))])
        splits = finer
    placement = splits.grouping.placement
    lo, hi = kernels.boxes.bound_groups(codes.quasi, splits.combination, placement.group, splits.groups)
    return replace(splits.grouping, lo=lo, hi=hi)


@dataclass(frozen=True)
class _Splits:
    """Groups that are split, with the combination and the person of every entry; the boxes of the grouping are not kept."""

    codes: Codes
    grouping: Grouping
    groups: int
    combination: Int64Array
    person: Int32Array
    losses: Any

    @classmethod
    def of(cls, codes: Codes, grouping: Grouping, losses: LossArrays) -> _Splits:
        assert codes.person is not None  # noqa: S101
        cell, tables = grouping.placement.cell, tabulate_losses(losses)
        return cls(codes, grouping, len(grouping.lo), codes.combination[cell], codes.person[cell], tables)

    def find_cuts(self, waiting: Int64Array, least: int) -> tuple[Int32Array, Int32Array]:
        """The best cut of some groups; both sides have at least ``least`` people."""
        placement = self.grouping.placement
        order, begin = kernels.order.sort_by_group(placement.group, self.groups)
        attribute, at = np.full(self.groups, -1, np.int32), np.zeros(self.groups, np.int32)
        entries = self.codes.quasi, self.combination, self.person, placement.count
        people = int(self.person.max(initial=-1)) + 1
        threads.each(
            lambda some: kernels.people.find_cuts(
                some, order, begin, *entries, least, people, self.losses, attribute, at
            ),
            np.array_split(waiting, threads.CORES if len(waiting) > PARALLEL_MINIMUM else 1),
        )
        return attribute, at

    def cut(self, attribute: Int32Array, at: Int32Array) -> _Splits:
        """Cut groups in two; the right half of the n-th group that is cut gets a new number."""
        grouping, placement = self.grouping, self.grouping.placement
        cut = np.flatnonzero(attribute >= 0)
        number = np.full(self.groups + 1, -1, np.int32)  # the last entry is for suppressed records
        number[cut] = self.groups + np.arange(len(cut), dtype=np.int32)
        entries = np.flatnonzero(number[placement.group] >= 0)
        held = placement.group[entries]
        is_right = self.codes.quasi[self.combination[entries], attribute[held]] > at[held]
        group = placement.group.copy()
        group[entries[is_right]] = number[held[is_right]]
        tree, regions, rank = grouping.split_tree, grouping.regions, grouping.rank
        where = cut, attribute[cut], at[cut]
        finer = replace(
            grouping,
            placement=replace(placement, group=group),
            lo=np.zeros((self.groups + len(cut), grouping.lo.shape[1]), np.int32),
            split_tree=None if tree is None else tree.grow(*where),
            regions=None if regions is None else regions.cut(*where),
            rank=None if rank is None else np.append(rank, rank[cut]).astype(np.int32),
        )
        return replace(self, grouping=finer, groups=self.groups + len(cut))


@dataclass(frozen=True)
class PersonColumn:
    """A column that seems to name people with several records, in a policy without a unit."""

    name: str
    records: int
    people: int

    def note(self, counted: Engine, policy: Policy) -> tuple[str, ...]:
        """A note for the owner, unless values seem to repeat by chance; ``counted`` is the released table with this column."""
        by_person = policy.model_copy(update={"unit": Unit(column=self.name), "require": ()})
        groups = read_published_table(counted, by_person).groups(())
        if _repeats_by_chance(groups):
            return ()
        smallest = int(groups.size.min())
        return (
            f"Column {self.name!r} seems to name people who have several records: {self.records:,} records have "
            f"{self.people:,} different values. The requirements count records, and some group has only {smallest:,} different "
            f"value{'' if smallest == 1 else 's'} of {self.name!r}. To count people, add 'unit: {self.name}' to the policy.",
        )


def _repeats_by_chance(groups: Groups) -> bool:
    """Whether two records with the same value are in the same group hardly more often than any two records.

    The records of a person have much in common, so most of them are in the same groups. People who share a name differ. Where
    any two records are often in the same group, nothing can be said.
    """
    assert groups.person is not None  # noqa: S101
    known = groups.person >= 0
    records = groups.cell_size[known]
    same_value = _count_pairs(np.bincount(groups.person[known], records))
    chance = _count_pairs(groups.records_of_groups) / max(_count_pairs(np.array([groups.records])), 1.0)
    both = _count_pairs(records)
    return chance < CHANCE_TOLD_APART and both < MORE_THAN_CHANCE * chance * same_value


def _count_pairs(sizes: NDArray[Any]) -> float:
    """The number of pairs of records within groups of these sizes."""
    return float((sizes * (sizes - 1.0)).sum() / 2)


def find_person_column(engine: Engine, policy: Policy) -> PersonColumn | None:
    """The first column that seems to name people with several records, if the policy has no unit.

    Identifiers and the key count as names of people unless a value has many records. Other columns that are not released
    count if they have texts, and most texts are rare. Very large tables are not searched.
    """
    schema = engine.schema()
    if policy.unit is not None or schema.rows > MOST_SEARCHED:
        return None
    taken = {
        name for column in policy.quasi for name in pair_names(column)
    }  # a release may have columns of these names
    named = dict.fromkeys((*policy.identifiers, *filter(None, (policy.key,))), MOST_RECORDS)
    rest = dict.fromkeys(policy.find_unassigned(schema.names), MOST_RECORDS_UNNAMED)
    for column, most in (named | rest).items():
        if column in taken:
            continue
        try:
            found = engine.summarize(column)
        except DataError:  # values that cannot be compared name nobody, and the column is not released
            continue
        least = LEAST_PEOPLE[column in named]
        repeats = LEAST_RECORDS * found.values <= found.records <= most * found.values and found.values >= least
        if repeats and (column in named or not NUMBER_OR_DATE.match(found.example)):
            return PersonColumn(column, found.records, found.values)
    return None


@dataclass
class SuppressedPeople:
    """The released and the suppressed records of every person; add up those of several partitions.

    ``unknown`` and ``unknown_released`` are the numbers of suppressed and of released records without a person.
    """

    released: Int64Array
    suppressed: Int64Array
    unknown: int = 0
    unknown_released: int = 0

    @classmethod
    def start(cls, people: int) -> SuppressedPeople:
        """No records."""
        return cls(np.zeros(people, np.int64), np.zeros(people, np.int64))

    def add(self, codes: Codes, placement: Placement) -> None:
        """Add the records of a table or partition."""
        assert codes.person is not None  # noqa: S101
        person, lost, people = codes.person[placement.cell], placement.group < 0, len(self.released)
        known = person >= 0
        for total, chosen in ((self.released, known & ~lost), (self.suppressed, known & lost)):
            total += np.bincount(person[chosen], placement.count[chosen], minlength=people).astype(np.int64)
        self.unknown += int(placement.count[~known & lost].sum())
        self.unknown_released += int(placement.count[~known & ~lost].sum())

    @property
    def some(self) -> int:
        """The people with at least one suppressed record."""
        return int((self.suppressed > 0).sum()) + self.unknown

    @property
    def all(self) -> int:
        """The people without a released record."""
        return int(((self.suppressed > 0) & (self.released == 0)).sum()) + self.unknown


def divide_by_person(codes: Codes, placement: Placement) -> tuple[Placement, Int32Array, Int32Array]:
    """Divide the groups of a placement by person, so that every person in a group has a number of their own.

    Also return the group and the person of every number; records without a person have numbers of their own, and the person -1.
    """
    assert codes.person is not None  # noqa: S101
    repeats = np.where((codes.person[placement.cell] < 0) & (placement.group >= 0), placement.count, 1)
    cell, group = np.repeat(placement.cell, repeats), np.repeat(placement.group, repeats)
    count = np.where(repeats > 1, 1, placement.count)
    count, person = np.repeat(count, repeats), codes.person[cell]
    single = np.where(person < 0, np.arange(len(cell)), -1)
    held = group >= 0
    triples = np.stack([group[held], person[held], single[held]], axis=1)
    found, inverse = np.unique(triples, axis=0, return_inverse=True)
    number = np.full(len(cell), -1, np.int32)
    number[held] = inverse.reshape(-1)
    return Placement(cell, number, count), found[:, 0].astype(np.int32), found[:, 1].astype(np.int32)


def find_cheapest_boxes(
    low: Int32Array,
    high: Int32Array,
    records: Int64Array,
    own: Int64Array,
    group_low: Int32Array,
    group_high: Int32Array,
    size: Int64Array,
    losses: LossArrays,
) -> Int32Array:
    """For every box of records the group whose information loss grows least; never the group ``own`` of the box."""
    tables, m = tabulate_losses(losses), low.shape[1]
    loss = kernels.people.rate_boxes(group_low, group_high, tables)
    tree = GroupTree.allocate(np.arange(len(group_low)), m)
    boxes = GroupBoxes(group_low, group_high, loss, loss.sum(axis=1), size.astype(np.int64))
    kernels.group_tree.build_tree(tree, boxes, tables)
    found, nearest = np.empty(len(low), np.int32), NearestGroups.allocate(len(tree.child), 1)
    kernels.people.find_cheapest_boxes(
        low, high, records.astype(np.int64), own, tree, tables, nearest, np.empty(m), found
    )
    return found


def merge_groups(codes: Codes, grouping: Grouping, failing: BoolArray, losses: LossArrays) -> Grouping:
    """Merge every failing group with the group whose union with it loses least information."""
    number, lo, hi, size = np.flatnonzero(failing), grouping.lo, grouping.hi, grouping.size()
    partner = find_cheapest_boxes(lo[number], hi[number], size[number], number, lo, hi, size, losses)
    merged = _connect(len(lo), number, partner)
    placement = grouping.placement
    group = np.where(placement.group >= 0, merged[placement.group], -1).astype(np.int32)
    lo, hi = kernels.boxes.bound_groups(codes.quasi, codes.combination[placement.cell], group, int(merged.max()) + 1)
    return Grouping(replace(placement, group=group), lo, hi, figures=grouping.figures)


def _connect(groups: int, one: Int64Array, other: Int32Array) -> Int32Array:
    """Number the groups so that connected groups have the same number; numbers follow the first group of each union."""
    root = np.arange(groups)
    for a, b in zip(one.tolist(), other.tolist(), strict=True):
        if b < 0:
            continue
        a, b = _find_root(root, a), _find_root(root, b)
        root[max(a, b)] = min(a, b)
    roots = np.array([_find_root(root, g) for g in range(groups)])
    return np.unique(roots, return_inverse=True)[1].reshape(-1).astype(np.int32)


def _find_root(root: Int64Array, group: int) -> int:
    while root[group] != group:
        root[group] = root[root[group]]
        group = int(root[group])
    return group
