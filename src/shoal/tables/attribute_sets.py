"""Sets of identifiers: the attributes that requirements look at together, each set with its own threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal import threads
from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.kernels.combinations import pack_keys, sort_matrix
from shoal.policy import Policy
from shoal.recoding.grouping import AttributeCut, Grouping
from shoal.requirements import KAnonymity, Limits, Requirement, describe, lower_requirements, select_passing_groups
from shoal.requirements.groups import Groups

MOST_GROUPS = 2**22  # numbers that need not follow each other
SAMPLE, MOSTLY = 4096, 0.98  # rows that are looked at, and the share of them that may differ, before all are sorted


@dataclass(frozen=True)
class AttributeSet:
    """The names of some attributes, where they stand among all, and what must hold for the groups by them."""

    names: tuple[str, ...]
    columns: tuple[int, ...]
    require: tuple[Requirement, ...]

    def __str__(self) -> str:
        return "; ".join(describe(r) for r in self.require)


def attribute_sets(policy: Policy) -> tuple[AttributeSet, ...]:
    """The sets that a policy's requirements are on, in their order."""
    quasi = list(policy.quasi)
    found: dict[tuple[int, ...], list[Requirement]] = {}
    for requirement in policy.require:
        columns = tuple(sorted(quasi.index(n) for n in requirement.on or quasi))
        found.setdefault(columns, []).append(requirement)
    return tuple(AttributeSet(tuple(quasi[c] for c in columns), columns, tuple(r)) for columns, r in found.items())


@dataclass(frozen=True)
class Combinations:
    """The distinct combinations of one set's attributes, with what the kernels test groups of them by.

    Attribute a of the set stands in column ``columns[a]`` of ``quasi``. ``cells`` are the confidential values of every
    combination: where its cells begin, their codes and records, where each column's codes begin in a histogram, and how long
    that is. Where only the size of groups counts the limits are ``plain``.
    """

    quasi: Int32Array
    columns: Int64Array
    weight: Int64Array
    cells: tuple[Any, ...]
    limits: Limits
    plain: bool

    @classmethod
    def of(cls, codes: Codes, of: AttributeSet) -> Combinations:
        """Of a set, from the combinations of all attributes."""
        plain = all(r.of is None for r in of.require)
        layout = codes.distribution
        counts, quasi, weight = codes.counts, codes.quasi, codes.size
        cells = (counts.start, counts.sensitive, counts.size)
        columns = np.array(of.columns, np.int64)
        if len(columns) < len(codes.attributes) and plain:
            quasi, weight = _collapsed(codes, columns)
        elif len(columns) < len(codes.attributes):
            merged, _ = codes.raw_groups.project(of.names)
            quasi, weight, cells = merged.quasi, merged.size, (merged.start, merged.sensitive_codes, merged.cell_size)
            columns = np.arange(len(columns))
        offset = np.cumsum((0, *layout.domains), dtype=np.int64)
        width = 0 if plain else int(offset[-1])
        return cls(quasi, columns, weight, (*cells, offset[:-1], width), lower_requirements(of.require, layout), plain)


def _collapsed(codes: Codes, columns: Int64Array) -> tuple[Int32Array, Int64Array]:
    """Combinations that differ in some columns, with their records; as they are where few repeat."""
    quasi, sizes = codes.quasi, [codes.attributes[c].size for c in columns]
    sample = quasi[:: max(1, len(quasi) // SAMPLE)]
    if len(sort_matrix(sample, columns, sizes).start) > MOSTLY * len(sample):
        return quasi, codes.size
    _, order, begin = sort_matrix(quasi, columns, sizes)
    return quasi[order[begin]], np.add.reduceat(codes.size[order], begin)


@dataclass(frozen=True)
class SuppressionAllowance:
    """How many records may be left out, and whether that many are enough.

    ``records`` may be suppressed. Where there is one set of identifiers and no requirement compares groups with the whole
    table, the records that fail are those to suppress; else what fails for want of others must be found (``settled``).
    """

    policy: Policy
    records: int
    settled: bool

    @classmethod
    def of(cls, policy: Policy, codes: Codes) -> SuppressionAllowance:
        """What a policy allows for a table."""
        records = policy.most_suppressed(codes.records)
        alone = len(attribute_sets(policy)) == 1 and not any(r.relative for r in policy.require)
        return cls(policy, records, records > 0 and not alone)

    @property
    def lasting(self) -> bool:
        """Whether a value that may not be opened now may never be: groups only get smaller."""
        require = self.policy.require
        return all(r.monotone and (self.records == 0 or isinstance(r, KAnonymity)) for r in require)

    def enough(self, lost: int, records: int) -> bool:
        """Whether so many records of all may be left out."""
        return lost <= self.records and lost < records

    @property
    def sure(self) -> bool:
        """Whether records that fail must be left out: leaving out others makes their groups smaller, and mends nothing."""
        return not self.settled or all(isinstance(r, KAnonymity) for r in self.policy.require)

    def lost(self, codes: Codes, slices: Sequence[AttributeCut]) -> int:
        """The records that must be left out of the groups by these cuts, once everything has settled."""
        if all(isinstance(r, KAnonymity) for r in self.policy.require):
            return self._smaller(codes, slices)
        decision = Grouping.from_cuts(codes, slices)
        groups = _groups(codes, decision)
        kept = select_passing_groups(groups, self.policy.require)
        return codes.records - int(groups.size[kept].sum())

    def _smaller(self, codes: Codes, slices: Sequence[AttributeCut]) -> int:
        """The same where only the size of groups counts."""
        sets = attribute_sets(self.policy)
        groups = threads.each(lambda of: _numbered(codes, slices, of.columns), sets)
        least = [max(r.least for r in of.require) for of in sets]
        weight, left = codes.size.copy(), codes.records + 1
        while left != (left := int(weight.sum())):
            for group, k in zip(groups, least, strict=True):
                weight[(np.bincount(group, weight) < k)[group]] = 0
        return codes.records - left


def _numbered(codes: Codes, slices: Sequence[AttributeCut], columns: Sequence[int]) -> NDArray[np.integer]:
    """A number for the group of every combination, by cuts through some attributes."""
    cut = [j for j in columns if len(slices[j].first) > 1]
    sizes = [len(slices[j].first) for j in cut]
    tables = [slices[j].table(codes.attributes[j].size) for j in cut]
    if math.prod(sizes) > MOST_GROUPS:
        return sort_matrix(codes.quasi, cut, sizes, tables).number
    return pack_keys(codes.quasi, cut, sizes, tables).astype(np.int64)


def _groups(codes: Codes, decision: Grouping) -> Groups:
    group = decision.placement.group
    order = np.argsort(group, kind="stable")
    start = np.searchsorted(group[order], np.arange(len(decision.lo) + 1)).astype(np.int64)
    table = codes.raw_groups
    return Groups(
        table.names,
        table.sensitive,
        decision.lo,
        start,
        table.sensitive_codes[order],
        table.cell_size[order],
        table.domains,
        table.labels,
    )
