"""Attribute sets: the quasi-identifiers that a requirement groups by, each set with its own requirements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.kernels.combinations import pack_keys, sort_matrix
from shoal.kernels.interface import CombinationCells
from shoal.policy import Policy
from shoal.recoding.grouping import AttributeCut, Grouping, build_raw_groups
from shoal.requirements import Limits, Requirement, combine_limits, describe, select_passing_groups
from shoal.requirements.histories import select_passing_cells

MOST_GROUPS = 2**22  # group numbers, with gaps, up to which no sorting is needed
SAMPLE, MOST_DISTINCT = 4096, 0.98  # rows sampled; a larger share of distinct rows does not repay sorting all rows


@dataclass(frozen=True)
class AttributeSet:
    """Names of quasi-identifiers, their columns among all quasi-identifiers, and the requirements on their groups."""

    names: tuple[str, ...]
    columns: tuple[int, ...]
    require: tuple[Requirement, ...]

    def __str__(self) -> str:
        return "; ".join(describe(r) for r in self.require)


def list_attribute_sets(policy: Policy) -> tuple[AttributeSet, ...]:
    """Return the attribute sets of a policy, in the order of its requirements."""
    quasi = list(policy.quasi)
    requirements: dict[tuple[int, ...], list[Requirement]] = {}
    for requirement in policy.require:
        columns = tuple(sorted(quasi.index(n) for n in requirement.on or quasi))
        requirements.setdefault(columns, []).append(requirement)
    return tuple(
        AttributeSet(tuple(quasi[c] for c in columns), columns, tuple(r)) for columns, r in requirements.items()
    )


@dataclass(frozen=True)
class SetCombinations:
    """The distinct combinations of an attribute set, with the input of the kernels that test groups.

    Attribute a of the set is column ``columns[a]`` of ``quasi``; ``size`` has the records of every combination, ``cells`` its
    sensitive values. ``size_only``: the requirements depend on the size of groups alone.
    """

    quasi: Int32Array
    columns: Int64Array
    size: Int64Array
    cells: CombinationCells
    limits: Limits
    size_only: bool

    @classmethod
    def of_set(cls, codes: Codes, attribute_set: AttributeSet) -> SetCombinations:
        """Return the combinations of a set, from the combinations of all attributes."""
        size_only = all(r.size_only for r in attribute_set.require)
        distribution = codes.distribution
        counts, quasi, size = codes.counts, codes.quasi, codes.size
        start, sensitive, records = counts.start, counts.sensitive, counts.size
        columns = np.array(attribute_set.columns, np.int64)
        if len(columns) < len(codes.attributes) and size_only:
            quasi, size = _merge_equal_rows(codes, columns)
        elif len(columns) < len(codes.attributes):
            merged, _ = codes.raw_groups.project(attribute_set.names)
            quasi, size = merged.quasi, merged.size
            start, sensitive, records = merged.start, merged.sensitive_codes, merged.cell_size
            columns = np.arange(len(columns))
        offset = np.cumsum((0, *distribution.domains), dtype=np.int64)
        width = 0 if size_only else int(offset[-1])
        limits = combine_limits(attribute_set.require, distribution)
        cells = CombinationCells(start, sensitive, records, offset[:-1], width)
        return cls(quasi, columns, size, cells, limits, size_only)


def _merge_equal_rows(codes: Codes, columns: Int64Array) -> tuple[Int32Array, Int64Array]:
    """Merge combinations with equal codes in some columns and add their records; return all unmerged if few are equal."""
    quasi, sizes = codes.quasi, [codes.attributes[c].size for c in columns]
    sample = quasi[:: max(1, len(quasi) // SAMPLE)]
    if len(sort_matrix(sample, columns, sizes).start) > MOST_DISTINCT * len(sample):
        return quasi, codes.size
    _, order, begin = sort_matrix(quasi, columns, sizes)
    return quasi[order[begin]], np.add.reduceat(codes.size[order], begin)


@dataclass(frozen=True)
class SuppressionAllowance:
    """The number of records that a policy allows to suppress, and the test whether this number suffices.

    With one attribute set and no requirement that compares groups with the whole table, exactly the records of failing groups
    are suppressed. Otherwise a suppression can make other groups fail, so the suppressed records must be found by repeated
    tests (``needs_repeats``). Where people are counted (``counts_people``), every cut must be counted exactly.
    """

    policy: Policy
    records: int
    needs_repeats: bool
    counts_people: bool = False
    most_records: int = 1  # of a person

    @classmethod
    def of(cls, policy: Policy, codes: Codes) -> SuppressionAllowance:
        """Return the allowance of a policy for a table."""
        records = policy.most_suppressed(codes.records)
        is_direct = len(list_attribute_sets(policy)) == 1 and not any(r.relative for r in policy.require)
        counts_people = codes.by_person is not None
        most = 1 if codes.by_person is None else codes.by_person.most_records
        return cls(policy, records, counts_people or (records > 0 and not is_direct), counts_people, most)

    def is_large_enough(self, smallest: int, require: Sequence[Requirement]) -> bool:
        """Whether a group of so many records has enough people, however its records are distributed over people."""
        return all(r.size_only and smallest >= r.least * self.most_records for r in require)

    @property
    def is_refusal_final(self) -> bool:
        """Whether a value that cannot be specialized now never can be, because groups only get smaller."""
        closed = all(r.upward_closed or not self.counts_people for r in self.policy.require)
        return closed and all(r.monotone and (self.records == 0 or r.size_only) for r in self.policy.require)

    def allows(self, suppressed: int, records: int) -> bool:
        """Whether this many of all records may be suppressed; a release keeps at least one record."""
        return suppressed <= self.records and suppressed < records

    @property
    def counts_all_failing(self) -> bool:
        """Whether every failing record must be suppressed: suppressing other records cannot make its group pass."""
        return not self.needs_repeats or all(r.size_only for r in self.policy.require)

    def count_suppressed(self, codes: Codes, cuts: Sequence[AttributeCut], changed: Int64Array | None = None) -> int:
        """Return the number of records that must be suppressed for all remaining groups of these cuts to pass.

        Where people are counted and nothing may be suppressed, a number above 0 may be too small. ``changed`` are then the
        combinations of the groups that may fail (default: all).
        """
        if codes.by_person is not None:
            codes = codes.by_person
            direct = self.records == 0 and not self.policy.knows_history
            if direct and all(r.size_only for r in self.policy.require):
                return self._count_failing_people(codes, cuts, changed)
        elif all(r.size_only for r in self.policy.require):
            return self._count_suppressed_by_size(codes, cuts)
        groups = build_raw_groups(codes, Grouping.from_cuts(codes, cuts))
        if self.policy.knows_history:
            return codes.records - int(groups.cell_size[select_passing_cells(groups, self.policy.require)].sum())
        kept = select_passing_groups(groups, self.policy.require)
        return codes.records - int(groups.records_of_groups[kept].sum())

    def _count_failing_people(self, codes: Codes, cuts: Sequence[AttributeCut], combinations: Int64Array | None) -> int:
        """Return the records of groups with too few people, for requirements on the size of groups alone."""
        assert codes.person is not None  # noqa: S101
        rows = np.arange(len(codes.quasi)) if combinations is None else combinations
        failing = 0
        for attribute_set in list_attribute_sets(self.policy):
            divided = [j for j in attribute_set.columns if len(cuts[j].first) > 1]
            tables = [cuts[j].table(codes.attributes[j].size) for j in divided]
            _, order, begin = sort_matrix(codes.quasi[rows], divided, [len(cuts[j].first) for j in divided], tables)
            failing += kernels.people.count_failing_records(
                rows[order],
                np.append(begin, len(rows)),
                codes.counts.start,
                codes.person,
                codes.counts.size,
                max(r.least for r in attribute_set.require),
                int(codes.person.max(initial=-1)) + 1,
            )
        return int(failing)

    def _count_suppressed_by_size(self, codes: Codes, cuts: Sequence[AttributeCut]) -> int:
        """As `count_suppressed`, for requirements on the size of groups alone."""
        sets = list_attribute_sets(self.policy)
        groups = threads.each(lambda s: _number_groups(codes, cuts, s.columns), sets, rows=len(codes.quasi))
        least = [max(r.least for r in s.require) for s in sets]
        size, kept = codes.size.copy(), codes.records + 1
        while kept != (kept := int(size.sum())):
            for group, k in zip(groups, least, strict=True):
                size[(np.bincount(group, size) < k)[group]] = 0
        return codes.records - kept


def _number_groups(codes: Codes, cuts: Sequence[AttributeCut], columns: Sequence[int]) -> NDArray[np.integer]:
    """Return the group number of every combination, by the cuts of some attributes; numbers may have gaps."""
    divided = [j for j in columns if len(cuts[j].first) > 1]
    sizes = [len(cuts[j].first) for j in divided]
    tables = [cuts[j].table(codes.attributes[j].size) for j in divided]
    if math.prod(sizes) > MOST_GROUPS:
        return sort_matrix(codes.quasi, divided, sizes, tables).number
    return pack_keys(codes.quasi, divided, sizes, tables).astype(np.int64)
