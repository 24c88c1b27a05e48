"""Microaggregation by the maximum distance to the average vector (Domingo-Ferrer and Mateo-Sanz 2002; MDAV-generic for
mixed attributes: Domingo-Ferrer and Torra 2005), and optimal microaggregation of a single number (Hansen and Mukherjee 2003).

Records are assigned to groups of k similar records, from the most distant records inwards, and every group is published by
its mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError
from shoal.kernels.interface import DistanceScale, TaxonomyArrays
from shoal.pipeline.clustering import meet_requirements
from shoal.pipeline.method import LEAST_AVERAGED, GroupingMethod
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import Style
from shoal.recoding.grouping import Grouping
from shoal.requirements import combine_limits

SMALL_GROUPS_NOTE = (
    "mdav writes labels instead of means, since the policy allows groups of fewer than 3 records: from the mean of two "
    "records, each person could compute the other's value"
)
PART = 100_000  # from this many rows on, a scan is divided among threads
STEPS = 100  # progress reports


class MDAV(GroupingMethod):
    """Group k similar records and publish their means and modes.

    While at least 3k records remain: r is the record furthest from the centroid of the remaining records, s the record furthest
    from r; r and its k - 1 nearest records form a group, then s and its k - 1 nearest records. If 2k to 3k - 1 records remain,
    the record furthest from the centroid and its k - 1 nearest records form a group, and the others form another; fewer form
    one group. s is set aside before the group of r is filled. Ties: the earlier cell in the order of a hash that is keyed by
    the secret seed of the release.

    Parameters
    ----------
    policy : the policy; k is the size of the smallest group that its requirements allow
    weights : the weight of each attribute, by column name (default: 1); 0 excludes it from the distance
    optimal : group a single number or date optimally: the least sum of squares within groups of k or more (default: if the
        policy has exactly one quasi-identifier, and it is a number or a date without a taxonomy)
    write : see `GroupingMethod`; by default ``mean``, and ``label`` if groups may have fewer than 3 records
    ends, objective, improve, max_size, seconds : as for every method; see `GroupingMethod`

    The squared distance of two records is the sum of weight x d² over the attributes. For numbers and dates d is the
    difference over the standard deviation of all records (0 if all are equal); for categories and attributes with a taxonomy
    it is the height of the lowest node that covers both values over the height of the taxonomy, so 0 or 1 without a taxonomy.
    The centroid has the mean of every number and the mode of every category. Ties: the earlier code. A missing value is at
    d = 1 from all other values and at 0 from another missing value; it enters a centroid only if all values are missing.

    Optimal groups are neighbours in the order of values. Missing values form a group of their own if there are k of
    them and k others, otherwise they join the group of the largest values. Ties: the fewer records in the last group.

    Groups that fail another requirement are suppressed if the policy allows it, otherwise merged with others at the least loss.

    Guarantee
    ---------
    Every group has k records or more, at most 2k - 1 unless other requirements or missing values made it larger, and
    meets every requirement. A group is published by its mean (median, box…) and nothing else of its records; records
    with equal values may be in different groups. The mean of very different records may equal no record's value. The release is
    the same for the same records and the same secret seed, in any order of the rows and on any number of threads.

    References
    ----------
    J. Domingo-Ferrer, J. M. Mateo-Sanz: Practical data-oriented microaggregation for statistical disclosure control (2002).
    J. Domingo-Ferrer, V. Torra: Ordinal, continuous and heterogeneous k-anonymity through microaggregation (2005).
    S. L. Hansen, S. Mukherjee: A polynomial algorithm for optimal univariate microaggregation (2003).
    """

    name: ClassVar[str] = "mdav"
    summary: ClassVar[str] = "groups k similar records and publishes their means"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"write": "label"}, {"optimal": False})
    column_examples: ClassVar[Mapping[str, Any]] = {"weights": 2}

    def __init__(
        self,
        policy: Policy,
        *,
        weights: Mapping[str, float] | None = None,
        optimal: bool | None = None,
        write: str | None = None,
        ends: str | None = None,
        objective: str = "ncp",
        improve: bool = False,
        max_size: int | None = None,
        seconds: float | None = None,
    ) -> None:
        super().__init__(policy, ends=ends, objective=objective, improve=improve, max_size=max_size, seconds=seconds)
        self.weights = weights
        self.optimal = optimal
        self.write = write

    def style(self) -> Style:
        """``write`` if given; otherwise the mean, or labels if groups may be too small for a mean."""
        if self.write is not None:
            return super().style()
        return "label" if self._allows_small_groups() else "mean"

    def notes(self) -> tuple[str, ...]:
        """The reason why labels are written although ``write`` was not given."""
        return (SMALL_GROUPS_NOTE,) if self.write is None and self._allows_small_groups() else ()

    def _allows_small_groups(self) -> bool:
        return self.policy.least_group_size < LEAST_AVERAGED

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The groups; ``rng`` is not used."""
        weights, optimal = self.attribute_weights(codes), self._is_optimal(codes)
        self.refuse_non_monotone()
        k = combine_limits(self.policy.require, codes.distribution).least
        keyed, number = codes.sort_by_key()
        cell = np.repeat(np.arange(len(number), dtype=np.int32), keyed.counts.size)
        if k == 1:
            group = np.arange(len(cell), dtype=np.int32)
        elif optimal:
            group = _group_optimally(keyed, k, progress)
        else:
            group = _group_by_mdav(Space.of(keyed, weights), keyed.size, k, progress)
        passing = meet_requirements(keyed, self.policy, cell, group, weights, self.objective)
        return Grouping.from_records(codes, number[cell], passing)

    def _is_optimal(self, codes: Codes) -> bool:
        if not (self.optimal is None or isinstance(self.optimal, bool)):
            raise PolicyError(f"optimal must be true or false, not {self.optimal!r}")
        single = len(codes.attributes) == 1 and codes.attributes[0].taxonomy is None
        if self.optimal and not single:
            names = ", ".join(repr(a.name) for a in codes.attributes)
            raise PolicyError(
                "optimal=True needs exactly one quasi-identifier, a number or a date without a taxonomy, but the policy has "
                f"{names}; leave 'optimal' out to group by all of them"
            )
        return single if self.optimal is None else self.optimal


@dataclass(frozen=True)
class Space:
    """The distinct records as points, and the arrays by which kernels measure distances.

    ``number[j, u]`` is a number of combination u, scaled by a power of two to at most 1, infinity if missing. Its squared
    distance is ``factor[j]`` x difference², or ``missing_distance[j]`` if one of both is missing. ``code[j, u]`` is a category;
    the codes of category j have the places ``first[j]`` to ``first[j + 1]``, its nodes begin at ``trees.root[j]``.
    """

    number: FloatArray
    factor: FloatArray
    missing_distance: FloatArray
    code: Int32Array
    first: Int64Array
    missing: Int64Array
    trees: TaxonomyArrays

    @classmethod
    def of(cls, codes: Codes, weights: FloatArray) -> Space:
        """The points of a table, without attributes that do not contribute to any distance."""
        weights = np.ldexp(weights, -_exponent(weights))  # so that large weights do not overflow
        number, factor, missing_distance, code, trees = [], [], [], [], []
        for j, (attribute, weight) in enumerate(zip(codes.attributes, weights, strict=True)):
            column = codes.quasi[:, j]
            if weight == 0 or attribute.size < 2:
                continue
            if attribute.taxonomy is not None:
                code.append(column)
                trees.append((attribute, weight))
                continue
            position, variance = _scale_positions(attribute, np.bincount(column, codes.size, minlength=attribute.size))
            number.append(position[column])
            factor.append(weight / variance if variance > 0 else 0.0)
            missing_distance.append(weight)
        records = len(codes.quasi)
        return cls(
            np.array(number, np.float64).reshape(-1, records),
            np.array(factor, np.float64),
            np.array(missing_distance, np.float64),
            np.array(code, np.int32).reshape(-1, records),
            np.cumsum([0, *(a.size for a, _ in trees)], dtype=np.int64),
            np.array([a.missing for a, _ in trees], np.int64),
            _stack_trees(trees),
        )


def _exponent(values: FloatArray) -> int:
    """The least power of two above all values."""
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def _scale_positions(attribute: Attribute, records: NDArray[Any]) -> tuple[FloatArray, float]:
    """The positions of a number, scaled, and their variance, weighted by the records of each code."""
    known = np.isfinite(attribute.position)
    value, records = attribute.position[known], records[known]
    exponent = _exponent(value)
    value = np.ldexp(value, -exponent)
    if len(value) < 2 or not records.any():  # one value, or none in this partition
        return np.ldexp(attribute.position, -exponent), 0.0
    middle = np.average(value, weights=records)
    return np.ldexp(attribute.position, -exponent), float(np.average((value - middle) ** 2, weights=records))


def _stack_trees(weighted: list[tuple[Attribute, float]]) -> TaxonomyArrays:
    """The taxonomies of several attributes as one set of arrays; distances are multiplied by the attribute weights."""
    trees = [a.taxonomy for a, _ in weighted if a.taxonomy is not None]

    def concatenate(parts: list[NDArray[Any]], kind: type) -> NDArray[Any]:
        return np.concatenate([np.zeros(0, kind), *parts]).astype(kind)

    relative = [tree.height / max(int(tree.height[0]), 1) for tree in trees]
    return TaxonomyArrays(
        concatenate([tree.leaf for tree in trees], np.int32),
        concatenate([tree.lo for tree in trees], np.int32),
        concatenate([tree.hi for tree in trees], np.int32),
        concatenate([tree.parent for tree in trees], np.int32),
        concatenate([weight * (s * s) for s, (_, weight) in zip(relative, weighted, strict=True)], np.float64),
        np.cumsum([0, *(len(tree.label) for tree in trees)], dtype=np.int64),
    )


class _Remaining:
    """The records that are not yet assigned. A row is a combination; empty rows are removed from time to time.

    Sums of numbers are integer multiples of 1 / ``grid``, so that they are exact in any order.
    """

    def __init__(self, space: Space, count: Int64Array, k: int, workers: threads.Workers) -> None:
        self.space, self.workers = space, workers
        self.left = int(count.sum())
        self.rows = (space.number.copy(), space.code.copy(), count.copy())
        self.nonempty = len(count)
        self.ref = np.arange(len(count), dtype=np.int32)
        self.grid = 2.0 ** (62 - self.left.bit_length())
        known = np.isfinite(space.number)
        whole = np.rint(np.where(known, space.number, 0.0) * self.grid).astype(np.int64)
        self.sums, self.present = (whole * count).sum(axis=1), (known * count).sum(axis=1)
        self.distance_scale = DistanceScale(
            space.factor, space.missing_distance, np.asarray(~known.all(axis=1)), space.first
        )
        self.tally = np.zeros(space.first[-1], np.int64)
        for first, column in zip(space.first, space.code, strict=False):
            np.add.at(self.tally, first + column, count)
        self.distance, self.code_distance = np.empty(len(count)), np.empty(len(self.tally))
        self.chosen, self.taken = np.empty(k + 1, np.int64), np.empty(k + 1, np.int64)
        self.order, self.group = np.empty(self.left, np.int32), np.empty(self.left, np.int32)  # of the assigned records

    def find_furthest_from_centroid(self) -> int:
        """The row furthest from the centroid."""
        point, code = np.empty(len(self.sums)), np.empty(len(self.space.code), np.int32)
        first, missing = self.space.first, self.space.missing
        kernels.microaggregate.compute_centroid(
            self.sums, self.present, self.grid, self.tally, first, missing, point, code
        )
        return self._compute_distances(point, code)

    def find_furthest_from_row(self, row: int) -> int:
        """The row furthest from another row; the distances of all rows from it are kept."""
        return self._compute_distances(self.rows[0][:, row].copy(), self.rows[1][:, row].copy())

    def _compute_distances(self, point: FloatArray, code: Int32Array) -> int:
        kernels.microaggregate.fill_code_distances(code, self.space.trees, self.space.first, self.code_distance)
        size = len(self.rows[2])
        parts = threads.CORES if size >= PART else 1
        ends = [size * p // parts for p in range(parts + 1)]
        found = self.workers.each(
            lambda p: kernels.microaggregate.compute_distances(
                self.rows, self.distance_scale, point, self.code_distance, ends[p], ends[p + 1], self.distance
            ),
            range(parts),
        )
        return int(max(found, key=lambda one: one[1])[0])  # ties: the first

    def assign(self, row: int, group: int) -> None:
        """Assign one record of a row to a group."""
        self.chosen[0], self.taken[0] = row, 1
        self._remove(1, group)

    def assign_nearest(self, need: int, group: int) -> None:
        """Assign the ``need`` records with the least distances to a group."""
        size = kernels.microaggregate.find_nearest(self.distance, self.rows[2], need, self.chosen, self.taken)
        self._remove(size, group)

    def _remove(self, size: int, group: int) -> None:
        done = len(self.order) - self.left
        self.left -= int(self.taken[:size].sum())
        placed = slice(done, len(self.order) - self.left)
        self.order[placed], self.group[placed] = np.repeat(self.ref[self.chosen[:size]], self.taken[:size]), group
        self.nonempty -= kernels.microaggregate.remove_records(
            self.rows,
            self.chosen,
            self.taken,
            size,
            self.sums,
            self.present,
            self.grid,
            self.tally,
            self.space.first,
        )

    def compact(self) -> None:
        """Move the rows together if many are empty."""
        number, code, count = self.rows
        if self.nonempty < 0.9 * len(count):
            kernels.microaggregate.compact_rows(self.rows, self.ref)
            self.rows = (number, code, count[: self.nonempty])

    def finish(self, group: int) -> Int32Array:
        """Assign all remaining records to one group; return the group of every record in the order of the combinations."""
        count = self.rows[2]
        done = len(self.order) - self.left
        self.order[done:], self.group[done:] = np.repeat(self.ref[: len(count)], count), group
        return self.group[np.argsort(self.order, kind="stable")]


def _group_by_mdav(space: Space, count: Int64Array, k: int, progress: Progress) -> Int32Array:
    """MDAV: the group of every record, in the order of the cells.

    Cells that differ only in sensitive values have equal distances, so the records of a combination are taken in the order of
    its cells.
    """
    with threads.workers() as workers:
        remaining = _Remaining(space, count, k, workers)
        records, group, reported = remaining.left, 0, 0
        progress("grouping", 0, records)
        while remaining.left >= 3 * k:
            one = remaining.find_furthest_from_centroid()
            remaining.assign(one, group)
            other = remaining.find_furthest_from_row(one)
            remaining.assign(other, group + 1)
            remaining.assign_nearest(k - 1, group)
            remaining.find_furthest_from_row(other)
            remaining.assign_nearest(k - 1, group + 1)
            remaining.compact()
            group += 2
            if (records - remaining.left) * STEPS >= (reported + 1) * records:
                reported = (records - remaining.left) * STEPS // records
                progress("grouping", records - remaining.left, records)
        if remaining.left >= 2 * k:
            one = remaining.find_furthest_from_centroid()
            remaining.assign(one, group)
            remaining.find_furthest_from_row(one)
            remaining.assign_nearest(k - 1, group)
            group += 1
        found = remaining.finish(group)
        progress("grouping", records, records)
    return found


def _group_optimally(codes: Codes, k: int, progress: Progress) -> Int32Array:
    """Hansen and Mukherjee: the group of every record by one number, in the order of the cells."""
    attribute = codes.attributes[0]
    position = np.repeat(attribute.position[codes.quasi[:, 0]], codes.size)
    ascending = np.argsort(position, kind="stable")
    position = position[ascending]
    value = position[np.isfinite(position)]
    value = np.ldexp(value, -_exponent(value))
    records, known = len(position), len(value)
    progress("grouping", 0, records)
    group = np.zeros(records, np.int32)
    if known < k:
        progress("grouping", records, records)
        return group
    cost, last = np.full(known + 1, np.inf), np.zeros(known + 1, np.int64)
    cost[0] = 0.0
    for begin in range(k, known + 1, step := max(known // STEPS, 1)):
        end = min(begin + step, known + 1)
        kernels.microaggregate.find_shortest_path(value, k, begin, end, cost, last)
        progress("grouping", end - 1, records)
    starts = np.zeros(known, np.int32)
    end = known
    while end > 0:
        end -= int(last[end])
        starts[end] = 1
    group[:known] = np.cumsum(starts) - 1
    group[known:] = group[known - 1] + (records - known >= k)
    progress("grouping", records, records)
    return group[np.argsort(ascending, kind="stable")]
