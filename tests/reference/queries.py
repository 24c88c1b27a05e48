"""Answers to COUNT queries by their definition, record by record, in fractions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

Record = Mapping[str, Any]
Sets = Mapping[str, set[Any]]


def count(records: Sequence[Record], query: Sets) -> int:
    """The records that have one of the listed values in every column."""
    return sum(all(record[name] in values for name, values in query.items()) for record in records)


def equation_12(records: Sequence[Mapping[str, set[Any]]], query: Sets) -> Fraction:
    """A generalized record has a set of values in every column; each of them is equally probable."""
    total = Fraction(0)
    for record in records:
        share = Fraction(1)
        for name, values in query.items():
            share *= Fraction(len(values & record[name]), len(record[name]))
        total += share
    return total


def equation_13(buckets: Sequence[Sequence[Record]], sensitive: str, query: Sets) -> Fraction:
    """Every record of a bucket may have every sensitive value of the bucket."""
    quasi = {name: values for name, values in query.items() if name != sensitive}
    total = Fraction(0)
    for bucket in buckets:
        values = [record for record in bucket if record[sensitive] in query.get(sensitive, {record[sensitive]})]
        total += Fraction(count(bucket, quasi) * len(values), len(bucket))
    return total


def unbiased(
    published: Sequence[Record],
    shares: Mapping[str, Fraction],
    query: Sets,
    quasi: Sequence[str],
    replaced: int,
    m: int,
) -> Fraction:
    """Solve E N'(T) = Σ over S of C(m - |T|, λ - |S|) / C(m, λ) Π P_i N(T without S) for N, from smaller to larger T."""
    rest = {name: values for name, values in query.items() if name not in quasi}
    solved: dict[tuple[str, ...], Fraction] = {}
    asked = [name for name in quasi if name in query]
    for t in range(len(asked) + 1):
        for chosen in combinations(asked, t):
            left = Fraction(count(published, rest | {name: query[name] for name in chosen}))
            for s in range(1, t + 1):
                for drawn in combinations(chosen, s):
                    term = Fraction(comb(m - t, replaced - s), comb(m, replaced)) if 0 <= replaced - s <= m - t else 0
                    for name in drawn:
                        term *= shares[name]
                    left -= term * solved[tuple(n for n in chosen if n not in drawn)]
            solved[chosen] = left / Fraction(comb(m - t, replaced), comb(m, replaced))
    return solved[tuple(asked)]


def unbiased_one(
    published: Sequence[Record],
    shares: Mapping[str, Fraction],
    query: Sets,
    probabilities: Mapping[str, Fraction],
) -> Fraction:
    """Solve E N'(T) = (1 - Σ p_i) N(T) + Σ p_i P_i N(T without i) for N, by recursion."""
    asked = [name for name in probabilities if name in query]
    kept = 1 - sum((probabilities[name] for name in asked), Fraction(0))
    drawn = Fraction(0)
    for name in asked:
        shorter = {other: values for other, values in query.items() if other != name}
        drawn += probabilities[name] * shares[name] * unbiased_one(published, shares, shorter, probabilities)
    return (count(published, query) - drawn) / kept
