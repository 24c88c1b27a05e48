"""`SelectionOperator`: replace some quasi-identifiers of every record, chosen at random, by draws from their distributions.

Yang and Qiao, "Anonymizing data by random anonymization": Algorithm 1 (one attribute, chosen with given probabilities) and
Algorithm 2 (several attributes, chosen uniformly).

An adversary who knows the distribution of the original combinations can weigh, for a published combination, every original
combination by its number of records and the probability that it becomes the published one (Bayes). An original combination that
differs in the attributes D becomes the published one if the chosen attributes contain D and the draws hit. So its probability
depends on D alone, and the sums and maxima over all original combinations need one count of records for every set of
attributes, instead of a comparison of all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from shoal import kernels
from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.kernels.combinations import number_combinations, sort_combinations
from shoal.requirements.operator import Inference, RandomNumbers, Transition

MOST_COUNTS = 2**26  # published combinations times sets of attributes: 256 MB


@dataclass(frozen=True)
class SelectionOperator:
    """Choose ``replaced`` of the attributes of a record, and replace each by a draw from its distribution.

    ``shares`` are the distributions of the codes, by attribute. ``probabilities`` are those of the attributes, if one is
    replaced; several are chosen uniformly.
    """

    attributes: tuple[str, ...]
    shares: tuple[FloatArray, ...]
    probabilities: FloatArray
    replaced: int = 1

    @property
    def selected(self) -> FloatArray:
        """The probability that each attribute is replaced."""
        if self.replaced == 1:
            return self.probabilities
        return np.full(len(self.attributes), self.replaced / len(self.attributes))

    @cached_property
    def entropies(self) -> FloatArray:
        """The entropy of each attribute, in nats."""
        return np.array([-float((s[s > 0] * np.log(s[s > 0])).sum()) for s in self.shares])

    @property
    def probabilistic_anonymity(self) -> float:
        """The paper's anonymity Pa: an average, and no bound for a record."""
        return math.exp(self.measure_choices({}))

    def measure_choices(self, shares: Mapping[str, FloatArray]) -> float:
        """The entropy of the chosen attributes and of the drawn values: ln Pa.

        One attribute: equation 1; λ of m attributes: ln C(m, λ) + (λ / m) times the sum of the entropies.
        """
        if self.replaced == 1:
            p = self.probabilities[self.probabilities > 0]
            return float((p * (self.entropies[self.probabilities > 0] - np.log(p))).sum())
        m = len(self.attributes)
        return math.log(math.comb(m, self.replaced)) + self.replaced / m * float(self.entropies.sum())

    def transition(self, attribute: str) -> Transition:
        """The probabilities of one attribute alone."""
        j = self.attributes.index(attribute)
        return Transition(np.full(len(self.shares[j]), 1 - self.selected[j]), self.shares[j])

    def randomize(self, rows: Int32Array, uniform: RandomNumbers) -> Int32Array:
        """The published codes of records; the first m random numbers choose attributes, the next m draw values."""
        m, published = len(self.attributes), rows.copy()
        left = np.full(len(rows), self.replaced, np.int64)
        place = uniform(0) if self.replaced == 1 < m else np.zeros(len(rows))
        ends = np.concatenate([[0.0], np.cumsum(self.probabilities)])
        ends[int(np.flatnonzero(self.probabilities)[-1]) + 1 :] = np.inf  # the sum may be a little below 1
        for j in range(m):
            if self.replaced == m:
                chosen = np.ones(len(rows), bool)
            elif self.replaced == 1:
                chosen = (place >= ends[j]) & (place < ends[j + 1])
            else:
                chosen = uniform(j) * (m - j) < left  # selection sampling
                left -= chosen
            at = np.flatnonzero(chosen)
            never = np.zeros(len(self.shares[j]))
            cumulative = np.cumsum(self.shares[j])[np.newaxis, :]
            codes = np.ascontiguousarray(rows[at, j])
            published[at, j] = kernels.randomize.draw_codes(codes, uniform(m + j, at), never, cumulative)
        return published

    def to_dict(self) -> dict[str, Any]:
        """The distribution of each attribute, and the probability that it is replaced."""
        return {
            name: {"keep": [1 - float(p)] * len(share), "draw": [share.tolist()]}
            for name, share, p in zip(self.attributes, self.shares, self.selected, strict=True)
        }

    def infer(self, quasi: Int32Array, size: Int64Array, published: Int32Array) -> Inference:
        """What an adversary who knows all original combinations infers from published combinations.

        ``quasi`` are the distinct original combinations with their numbers of records, ``published`` published ones.
        """
        count, sets = len(published), self._list_differences()
        hits = np.stack([share[published[:, j]] for j, share in enumerate(self.shares)], axis=1)
        hits = hits * self.probabilities if self.replaced == 1 else hits
        total, best = np.zeros(count), np.zeros(count)
        guess = np.full(count, -1, np.int64)
        agree: dict[tuple[int, ...], Int32Array] | None = {} if len(sets) * count <= MOST_COUNTS else None
        for differ in sets:
            rest = [j for j in range(len(self.attributes)) if j not in differ]
            records, largest, where = _match(quasi, size, published, rest)
            probability = self._become(hits, differ)
            if len(differ) == self.replaced:
                total += probability * records
            weight = probability * largest
            better = weight > best * (1 + 1e-12)
            best, guess = np.where(better, weight, best), np.where(better, where, guess)
            if agree is not None:
                agree[differ] = records.astype(np.int32)
        amplification = None if agree is None else self._amplify(hits, agree)
        return Inference(best / np.where(total > 0, total, 1.0), guess, amplification)

    def _list_differences(self) -> list[tuple[int, ...]]:
        """All sets of attributes in which a published combination can differ from its original."""
        every = range(len(self.attributes))
        return [differ for width in range(self.replaced + 1) for differ in combinations(every, width)]

    def _become(self, hits: FloatArray, differ: tuple[int, ...]) -> FloatArray:
        """The probability that an original combination that differs in some attributes becomes each published one."""
        rest = [j for j in range(len(self.attributes)) if j not in differ]
        choices = 1 if self.replaced == 1 else math.comb(len(self.attributes), self.replaced)
        drawn = hits[:, differ].prod(axis=1)
        return np.asarray(drawn * _sum_products(hits[:, rest], self.replaced - len(differ)) / choices, np.float64)

    def _amplify(self, hits: FloatArray, agree: dict[tuple[int, ...], Int32Array]) -> FloatArray:
        """The largest ratio of the probabilities of two original combinations to become each published one.

        Only original combinations that occur and can become it are compared. ``agree`` are the records that agree with each
        published combination in all attributes but some.
        """
        for j in range(
            len(self.attributes)
        ):  # from records that differ in some of the attributes to those that differ in all
            for differ, records in agree.items():
                if j in differ:
                    records -= agree[tuple(i for i in differ if i != j)]
        largest, smallest = np.zeros(len(hits)), np.full(len(hits), np.inf)
        for differ, records in agree.items():
            probability = self._become(hits, differ)
            occurs = (records > 0) & (probability > 0)
            largest[occurs] = np.maximum(largest, probability)[occurs]
            smallest[occurs] = np.minimum(smallest, probability)[occurs]
        return np.where(largest > 0, largest, 1.0) / np.where(largest > 0, smallest, 1.0)


def optimal_probabilities(entropies: FloatArray) -> FloatArray:
    """The probabilities of the attributes with the largest probabilistic anonymity (Proposition 7)."""
    weights = np.exp(entropies - entropies.max())
    return np.asarray(weights / weights.sum(), np.float64)


def _match(
    quasi: Int32Array, size: Int64Array, published: Int32Array, columns: Sequence[int]
) -> tuple[FloatArray, FloatArray, Int64Array]:
    """The records that agree with each published combination in some columns; the largest combination of them, its number.

    Ties: the first combination.
    """
    both = [np.concatenate([quasi[:, j], published[:, j]]) for j in columns]
    rows = len(quasi) + len(published)
    number = number_combinations(both, rows) if both else np.zeros(rows, np.int32)
    groups = int(number.max(initial=-1)) + 1
    records = np.bincount(number[: len(quasi)], size, minlength=groups).astype(np.float64)
    _, order, _ = sort_combinations([size.max(initial=0) - size], len(quasi))  # largest first, ties in order
    first = np.full(groups, -1, np.int64)
    first[number[: len(quasi)][order[::-1]]] = order[::-1]
    own = number[len(quasi) :]
    where = first[own]
    largest = np.where(where >= 0, size[np.maximum(where, 0)], 0)
    return records[own], largest.astype(np.float64), where


def _sum_products(values: FloatArray, order: int) -> FloatArray:
    """The sum of the products of ``order`` different values of every row (the elementary symmetric polynomial)."""
    found = np.zeros((len(values), order + 1))
    found[:, 0] = 1.0
    for j in range(values.shape[1]):
        for k in range(min(order, j + 1), 0, -1):
            found[:, k] += found[:, k - 1] * values[:, j]
    return np.asarray(found[:, order], np.float64)
