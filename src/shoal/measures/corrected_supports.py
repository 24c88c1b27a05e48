"""Unbiased supports of combinations in a table that `SelectionOperator` randomized.

A combination has l values of quasi-identifiers and some values of columns that are not changed. With S the replaced attributes
among its l, the expected published support is the sum over all S of the probability of S, times the shares of the values of S,
times the original support of the combination without the values of S. This is triangular in the length. So the original support
is a sum over the sub-combinations T of published supports, each with a weight; see `Inverse`.

Such a sum is the mean of a score over the published records: a record that has the values A of the combination has the sum of
the weights of all T within A. The expected score of a record is 1 if its original has the combination, otherwise 0. So the
variance, for a fixed original table, is the mean of the squared scores minus the original support, over the number of records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.arrays import FloatArray, Int64Array
from shoal.errors import DataError
from shoal.measures.counted_values import Combination, CountedValues
from shoal.recoding import SelectionOperator

LONGEST = 16  # values of a combination; all its sub-combinations are counted
TINY = 1e-9  # a probability that is 0 but for rounding


@dataclass(frozen=True)
class Inverse:
    """The weights of published supports in the unbiased support of a combination."""

    operator: SelectionOperator
    known: dict[tuple[int, ...], FloatArray | None] = field(default_factory=dict)

    def weigh(self, attributes: tuple[int, ...]) -> FloatArray | None:
        """The weight of every sub-combination of a combination of attributes, without the shares of the removed values.

        Entry R is for the sub-combination without the attributes at the places of the bits of R. None: no unbiased estimate
        exists, because at least one of the attributes is always replaced.
        """
        if attributes not in self.known:
            one = self.operator.replaced == 1
            self.known[attributes] = self._weigh_one(attributes) if one else self._weigh_several(len(attributes))
        return self.known[attributes]

    def _weigh_one(self, attributes: tuple[int, ...]) -> FloatArray | None:
        """One attribute is replaced: the weights follow from those of the combinations with one attribute less."""
        chosen = self.operator.probabilities[list(attributes)]
        unchanged = 1 - float(chosen.sum())
        if unchanged < TINY:
            return None
        weight = np.zeros(2 ** len(attributes))
        weight[0] = 1 / unchanged
        removed = np.arange(len(weight))
        for j, p in enumerate(chosen):
            shorter = self.weigh(attributes[:j] + attributes[j + 1 :])
            assert shorter is not None  # noqa: S101  it is replaced less often
            weight[(removed >> j & 1) == 1] -= p * shorter / unchanged
        return weight

    def _weigh_several(self, length: int) -> FloatArray | None:
        """Several attributes are replaced: the weights depend on the numbers of attributes alone."""
        m, replaced = len(self.operator.attributes), self.operator.replaced
        if length > m - replaced:
            return None
        choices = [[math.comb(m - t, replaced - k) for k in range(min(t, replaced) + 1)] for t in range(length + 1)]
        weight = np.zeros((length + 1, length + 1))  # by the length and the number of removed values
        for t in range(length + 1):
            weight[t, 0] = math.comb(m, replaced) / choices[t][0]
            for k in range(1, t + 1):
                parts = (math.comb(k, j) * choices[t][j] * weight[t - j, k - j] for j in range(1, min(k, replaced) + 1))
                weight[t, k] = -sum(parts) / choices[t][0]
        return np.array([weight[length, removed.bit_count()] for removed in range(2**length)])


@dataclass
class CorrectedSupports:
    """The supports of combinations, which are added from shorter to longer ones.

    ``published`` has the published values; the labels of its quasi-identifiers have the ``shares`` in the original table. By
    combination: the published support, the unbiased one (NaN where there is none), the clipped one and the standard error of
    the unbiased one. The first combination is the empty one. ``shorter[i, j]`` is combination i without its j-th value.
    """

    operator: SelectionOperator
    published: CountedValues
    shares: tuple[FloatArray, ...]
    place: dict[Combination, int] = field(default_factory=lambda: {(): 0})
    raw: FloatArray = field(default_factory=lambda: np.ones(1))
    unbiased: FloatArray = field(default_factory=lambda: np.ones(1))
    clipped: FloatArray = field(default_factory=lambda: np.ones(1))
    error: FloatArray = field(default_factory=lambda: np.zeros(1))
    shorter: Int64Array = field(init=False)

    def __post_init__(self) -> None:
        self.inverse = Inverse(self.operator)
        self.shorter = np.zeros((1, len(self.published.columns)), np.int64)

    def add(self, combinations: Sequence[Combination]) -> Int64Array:
        """Compute the supports of combinations and of their sub-combinations, and return the place of each."""
        longest = max(map(len, combinations), default=0)
        if longest > LONGEST:
            raise DataError(
                f"a combination has {longest} values; supports of combinations of at most {LONGEST} values can be computed."
            )
        wanted = set(combinations) - self.place.keys()
        for length in range(max(map(len, wanted), default=0), 1, -1):
            for values in [c for c in wanted if len(c) == length]:
                wanted |= {values[:j] + values[j + 1 :] for j in range(length)} - self.place.keys()
        for length in range(1, max(map(len, wanted), default=0) + 1):
            self._add_level(sorted(c for c in wanted if len(c) == length))
        return np.array([self.place[c] for c in combinations], np.int64)

    def _add_level(self, level: Sequence[Combination]) -> None:
        """Add combinations of the same length; their sub-combinations were added before."""
        if not level:
            return
        begin, length = len(self.raw), len(level[0])
        self.place |= {values: begin + i for i, values in enumerate(level)}
        shorter = np.zeros((len(level), self.shorter.shape[1]), np.int64)
        for i, values in enumerate(level):
            shorter[i, :length] = [self.place[values[:j] + values[j + 1 :]] for j in range(length)]
        self.shorter = np.concatenate([self.shorter, shorter])
        self.raw = np.concatenate([self.raw, self.published.count(level) / max(self.published.records, 1)])
        blank = np.full(len(level), np.nan)
        self.unbiased, self.error = np.concatenate([self.unbiased, blank]), np.concatenate([self.error, blank])
        columns = self.published.column_of[np.array(level, np.int64)]
        number = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.argsort(number, kind="stable")
        for same in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
            quasi = columns[same[0]][columns[same[0]] < self.published.quasi]
            self._correct(begin + same, np.array([level[i] for i in same], np.int64)[:, : len(quasi)], quasi.tolist())
        own = np.where(np.isnan(self.unbiased[begin:]), self.raw[begin:], self.unbiased[begin:])
        most = self.clipped[shorter[:, :length]].min(axis=1)
        self.clipped = np.concatenate([self.clipped, own.clip(0.0, most)])

    def _correct(self, places: Int64Array, values: Int64Array, attributes: list[int]) -> None:
        """Compute the unbiased supports of combinations that have values [combination, attribute] of the same attributes."""
        weights = self.inverse.weigh(tuple(attributes))
        if weights is None:
            return
        l, every = len(attributes), 2 ** len(attributes) - 1  # noqa: E741
        position = np.zeros((len(places), every + 1), np.int64)  # of the sub-combinations, by the bits of their values
        drawn = np.ones((len(places), every + 1))  # the product of the shares of the values of the bits
        position[:, every] = places
        for kept in range(every - 1, -1, -1):
            low = (~kept & (kept + 1)).bit_length() - 1
            larger = kept | 1 << low
            position[:, kept] = self.shorter[position[:, larger], low]
        for j, attribute in enumerate(attributes):
            share = self.shares[attribute][values[:, j] - self.published.first[attribute]]
            drawn[:, [bits for bits in range(every + 1) if bits >> j & 1]] *= share[:, np.newaxis]
        removed = every - np.arange(every + 1)
        weight, support = weights[removed] * drawn[:, removed], self.raw[position]
        estimate = (weight * support).sum(axis=1)
        score, exactly = weight, support.copy()
        for j in range(l):
            with_it = np.array([bits for bits in range(every + 1) if bits >> j & 1])
            score[:, with_it] += score[:, with_it ^ (1 << j)]  # sums over subsets
            exactly[:, with_it ^ (1 << j)] -= exactly[:, with_it]  # records with these values of the combination alone
        variance = ((exactly * score**2).sum(axis=1) - estimate) / max(self.published.records, 1)
        self.unbiased[places], self.error[places] = estimate, np.sqrt(variance.clip(min=0.0))
