"""Microaggregation by the maximum distance to the average vector (Domingo-Ferrer and Mateo-Sanz 2002; MDAV-generic for
mixed attributes: Domingo-Ferrer and Torra 2005), and the optimal one of a single number (Hansen and Mukherjee 2003).

Records are put into groups of k that are near to one another, from the outskirts of the table inwards, and every group is
published by its mean.
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
from shoal.pipeline.clustering import meet_requirements
from shoal.pipeline.method import LEAST_AVERAGED, Method
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import Style
from shoal.recoding.grouping import Grouping
from shoal.requirements import lower_requirements

SMALL = (
    "mdav writes labels instead of means, since the policy allows groups of fewer than 3 records, whose mean would show each "
    "of two people the other's value"
)
PART = 100_000  # from this many rows on, a scan is worth dividing among threads
STEPS = 100  # how often the progress is told


class MDAV(Method):
    """Groups of k records that are near to one another, written as their means and modes.

    While at least 3k records remain: r is the record furthest from the centroid of those that remain, s the one furthest
    from r; r and the k - 1 nearest to it are a group, then s and the k - 1 nearest to it. Of 2k to 3k - 1 remaining ones the
    furthest from the centroid and the k - 1 nearest to it are a group, and the others; fewer are one group. s is set aside
    before the group of r is filled. Ties: the earlier cell in the order of a hash that is keyed by the secret of the release.

    Parameters
    ----------
    policy : the policy; k is the size of the smallest group that its requirements allow
    weights : how much an attribute counts, by column name; 1 unless said, 0 leaves it out of the distance
    optimal : group a single number or date optimally: the least sum of squares within groups of k or more. Unless said, this is
        done where the policy has exactly one quasi-identifier, and that is a number or a date without a tree
    write : as for every method, see `Method`; by default ``mean``, and ``label`` where groups may have fewer than 3 records
    ends, improve, max_size : as for every method; see `Method`

    The squared distance of two records is the sum of weight x d² over the attributes. For numbers and dates d is the
    difference over the standard deviation of all records (0 where all are equal); for categories and whatever has a tree
    it is the height of the lowest node over both values over the height of the tree, so 0 or 1 without a tree. The
    centroid has the mean of every number and the mode of every category, ties: the earlier code. A missing value is at
    d = 1 from all others and at 0 from another missing one, and it enters no centroid, unless there is no other.

    Optimal groups are neighbours in the order of values. Missing values are a group of their own where there are k of
    them and k others, else they go to the group of the largest values. Ties: the fewer records in the last group.

    Groups that fail another requirement are suppressed where the policy allows it, else merged with others at the least loss.

    Guarantee
    ---------
    Every group has k records or more, at most 2k - 1 unless other requirements or missing values made it larger, and
    meets every requirement. What is published of a group is its mean (median, box…) and nothing else of its records; records
    with equal values may be in different groups. A mean of very unlike records may equal nobody's value. The release is the
    same for the same records and the same secret, in any order of the rows and on any number of threads.

    References
    ----------
    J. Domingo-Ferrer, J. M. Mateo-Sanz: Practical data-oriented microaggregation for statistical disclosure control (2002).
    J. Domingo-Ferrer, V. Torra: Ordinal, continuous and heterogeneous k-anonymity through microaggregation (2005).
    S. L. Hansen, S. Mukherjee: A polynomial algorithm for optimal univariate microaggregation (2003).
    """

    name: ClassVar[str] = "mdav"
    summary: ClassVar[str] = "puts k near records together and writes their means"

    def __init__(
        self,
        policy: Policy,
        *,
        weights: Mapping[str, float] | None = None,
        optimal: bool | None = None,
        write: str | None = None,
        ends: str | None = None,
        improve: bool = False,
        max_size: int | None = None,
    ) -> None:
        super().__init__(policy, ends=ends, improve=improve, max_size=max_size)
        self.weights = weights
        self.optimal = optimal
        self.write = write

    def style(self) -> Style:
        """The mean unless another style was given; labels where groups may be too small for a mean."""
        if self.write is not None:
            return super().style()
        return "label" if self._small() else "mean"

    def notes(self) -> tuple[str, ...]:
        """Why labels are written, where nobody asked for them."""
        return (SMALL,) if self.write is None and self._small() else ()

    def _small(self) -> bool:
        return self.policy.least_group_size < LEAST_AVERAGED

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The groups; ``rng`` is not used."""
        weights, optimal = self.attribute_weights(codes), self._optimal(codes)
        self.refuse_non_monotone()
        k = lower_requirements(self.policy.require, codes.distribution).least
        keyed, number = codes.sort_by_key()
        cell = np.repeat(np.arange(len(number), dtype=np.int32), keyed.counts.size)
        if k == 1:
            group = np.arange(len(cell), dtype=np.int32)
        elif optimal:
            group = _optimal(keyed, k, progress)
        else:
            group = _grouped(Space.of(keyed, weights), keyed.size, k, progress)
        return Grouping.from_records(codes, number[cell], meet_requirements(keyed, self.policy, cell, group, weights))

    def _optimal(self, codes: Codes) -> bool:
        if not (self.optimal is None or isinstance(self.optimal, bool)):
            raise PolicyError(f"optimal must be true or false, not {self.optimal!r}")
        single = len(codes.attributes) == 1 and codes.attributes[0].taxonomy is None
        if self.optimal and not single:
            names = ", ".join(repr(a.name) for a in codes.attributes)
            raise PolicyError(
                "optimal grouping is for exactly one quasi-identifier that is a number or a date without a tree, and the "
                f"policy has {names}; leave 'optimal' out to group by all of them"
            )
        return single if self.optimal is None else self.optimal


@dataclass(frozen=True)
class Space:
    """The distinct records as points, and what the kernels need to measure between them.

    ``number[j, u]`` is a number of combination u, shrunk by a power of two to at most 1, infinity where missing; it counts
    ``factor[j]`` x difference², and ``gap[j]`` where one of both is missing. ``code[j, u]`` is a category; the codes of
    category j have the places ``first[j]`` to ``first[j + 1]``, its nodes begin at ``trees[-1][j]``.
    """

    number: FloatArray
    factor: FloatArray
    gap: FloatArray
    code: Int32Array
    first: Int64Array
    absent: Int64Array
    trees: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, codes: Codes, weights: FloatArray) -> Space:
        """Attributes that cannot tell two records apart are left out."""
        weights = np.ldexp(weights, -_exponent(weights))  # large ones may not overflow
        number, factor, gap, code, trees = [], [], [], [], []
        for j, (attribute, weight) in enumerate(zip(codes.attributes, weights, strict=True)):
            column = codes.quasi[:, j]
            if weight == 0 or attribute.size < 2:
                continue
            if attribute.taxonomy is not None:
                code.append(column)
                trees.append((attribute, weight))
                continue
            position, variance = _standard(attribute, np.bincount(column, codes.size, minlength=attribute.size))
            number.append(position[column])
            factor.append(weight / variance if variance > 0 else 0.0)
            gap.append(weight)
        records = len(codes.quasi)
        return cls(
            np.array(number, np.float64).reshape(-1, records),
            np.array(factor, np.float64),
            np.array(gap, np.float64),
            np.array(code, np.int32).reshape(-1, records),
            np.cumsum([0, *(a.size for a, _ in trees)], dtype=np.int64),
            np.array([a.missing for a, _ in trees], np.int64),
            _trees(trees),
        )


def _exponent(values: FloatArray) -> int:
    """The power of two that all values are below."""
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def _standard(attribute: Attribute, records: NDArray[Any]) -> tuple[FloatArray, float]:
    """The positions of a number, shrunk, and the variance of these over the records that each code has."""
    known = np.isfinite(attribute.position)
    value, records = attribute.position[known], records[known]
    exponent = _exponent(value)
    value = np.ldexp(value, -exponent)
    if len(value) < 2 or not records.any():  # one value, or none in this part of the table
        return np.ldexp(attribute.position, -exponent), 0.0
    middle = np.average(value, weights=records)
    return np.ldexp(attribute.position, -exponent), float(np.average((value - middle) ** 2, weights=records))


def _trees(listed: list[tuple[Attribute, float]]) -> tuple[NDArray[Any], ...]:
    """Node by code, then by node the first and last code, the parent and the squared distance; where each tree begins."""
    trees = [a.taxonomy for a, _ in listed if a.taxonomy is not None]

    def joined(parts: list[NDArray[Any]], kind: type) -> NDArray[Any]:
        return np.concatenate([np.zeros(0, kind), *parts]).astype(kind)

    share = [tree.height / max(int(tree.height[0]), 1) for tree in trees]
    return (
        joined([tree.leaf for tree in trees], np.int32),
        joined([tree.lo for tree in trees], np.int32),
        joined([tree.hi for tree in trees], np.int32),
        joined([tree.parent for tree in trees], np.int32),
        joined([weight * (s * s) for s, (_, weight) in zip(share, listed, strict=True)], np.float64),
        np.cumsum([0, *(len(tree.label) for tree in trees)], dtype=np.int64),
    )


class _Rest:
    """The records that are not yet placed. A row is a combination; those that have none left are closed up now and then.

    Sums of numbers are kept in whole multiples of 1 / ``grid``, so that they are exact, whatever was taken in what order.
    """

    def __init__(self, space: Space, weight: Int64Array, k: int, workers: threads.Workers) -> None:
        self.space, self.workers = space, workers
        self.left = int(weight.sum())
        self.rows = (space.number.copy(), space.code.copy(), weight.copy())
        self.filled = len(weight)
        self.ref = np.arange(len(weight), dtype=np.int32)
        self.grid = 2.0 ** (62 - self.left.bit_length())
        known = np.isfinite(space.number)
        whole = np.rint(np.where(known, space.number, 0.0) * self.grid).astype(np.int64)
        self.sums, self.present = (whole * weight).sum(axis=1), (known * weight).sum(axis=1)
        self.scale = (space.factor, space.gap, ~known.all(axis=1), space.first)
        self.tally = np.zeros(space.first[-1], np.int64)
        for first, column in zip(space.first, space.code, strict=False):
            np.add.at(self.tally, first + column, weight)
        self.distance, self.reach = np.empty(len(weight)), np.empty(len(self.tally))
        self.place, self.share = np.empty(k + 1, np.int64), np.empty(k + 1, np.int64)
        self.order, self.group = np.empty(self.left, np.int32), np.empty(self.left, np.int32)  # of the placed ones

    def from_centroid(self) -> int:
        """The row furthest from the centroid."""
        point, code = np.empty(len(self.sums)), np.empty(len(self.space.code), np.int32)
        first, absent = self.space.first, self.space.absent
        kernels.microaggregate.centroid(self.sums, self.present, self.grid, self.tally, first, absent, point, code)
        return self._scan(point, code)

    def from_row(self, row: int) -> int:
        """The row furthest from another; the distances of all from it stay known."""
        return self._scan(self.rows[0][:, row].copy(), self.rows[1][:, row].copy())

    def _scan(self, point: FloatArray, code: Int32Array) -> int:
        kernels.microaggregate.spread(code, self.space.trees, self.space.first, self.reach)
        size = len(self.rows[2])
        parts = threads.CORES if size >= PART else 1
        ends = [size * p // parts for p in range(parts + 1)]
        found = self.workers.each(
            lambda p: kernels.microaggregate.scan(
                self.rows, self.scale, point, self.reach, ends[p], ends[p + 1], self.distance
            ),
            range(parts),
        )
        return int(max(found, key=lambda one: one[1])[0])  # the first of equal ones

    def put(self, row: int, group: int) -> None:
        """One record of a row goes to a group."""
        self.place[0], self.share[0] = row, 1
        self._take(1, group)

    def put_nearest(self, need: int, group: int) -> None:
        """The records with the least known distances go to a group."""
        size = kernels.microaggregate.nearest(self.distance, self.rows[2], need, self.place, self.share)
        self._take(size, group)

    def _take(self, size: int, group: int) -> None:
        done = len(self.order) - self.left
        self.left -= int(self.share[:size].sum())
        placed = slice(done, len(self.order) - self.left)
        self.order[placed], self.group[placed] = np.repeat(self.ref[self.place[:size]], self.share[:size]), group
        self.filled -= kernels.microaggregate.take(
            self.rows,
            self.place,
            self.share,
            size,
            self.sums,
            self.present,
            self.grid,
            self.tally,
            self.space.first,
        )

    def close(self) -> None:
        """Move the rows together where many have no records left."""
        number, code, count = self.rows
        if self.filled < 0.9 * len(count):
            kernels.microaggregate.close(self.rows, self.ref)
            self.rows = (number, code, count[: self.filled])

    def finish(self, group: int) -> Int32Array:
        """All that is left goes to one group; the group of every record in the order of the combinations."""
        count = self.rows[2]
        done = len(self.order) - self.left
        self.order[done:], self.group[done:] = np.repeat(self.ref[: len(count)], count), group
        return self.group[np.argsort(self.order, kind="stable")]


def _grouped(space: Space, weight: Int64Array, k: int, progress: Progress) -> Int32Array:
    """MDAV: the group of every record, in the order of the cells.

    Cells that differ in confidential values alone are equally far from everything, so the records of a combination leave
    it in the order of its cells.
    """
    with threads.workers() as workers:
        rest = _Rest(space, weight, k, workers)
        records, group, told = rest.left, 0, 0
        progress("grouping", 0, records)
        while rest.left >= 3 * k:
            one = rest.from_centroid()
            rest.put(one, group)
            other = rest.from_row(one)
            rest.put(other, group + 1)
            rest.put_nearest(k - 1, group)
            rest.from_row(other)
            rest.put_nearest(k - 1, group + 1)
            rest.close()
            group += 2
            if (records - rest.left) * STEPS >= (told + 1) * records:
                told = (records - rest.left) * STEPS // records
                progress("grouping", records - rest.left, records)
        if rest.left >= 2 * k:
            one = rest.from_centroid()
            rest.put(one, group)
            rest.from_row(one)
            rest.put_nearest(k - 1, group)
            group += 1
        found = rest.finish(group)
        progress("grouping", records, records)
    return found


def _optimal(codes: Codes, k: int, progress: Progress) -> Int32Array:
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
        kernels.microaggregate.shortest(value, k, begin, end, cost, last)
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
