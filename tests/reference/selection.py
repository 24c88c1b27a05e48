"""Random anonymization by its definition: every choice of attributes, every pair of combinations, in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

Row = tuple[int, ...]


def become(
    one: Row, other: Row, shares: Sequence[dict[int, Fraction]], probabilities: Sequence[Fraction], replaced: int
) -> Fraction:
    """The probability that a combination is published as another."""
    m = len(one)
    total = Fraction(0)
    choices = list(combinations(range(m), replaced))
    for chosen in choices:
        if any(one[j] != other[j] for j in range(m) if j not in chosen):
            continue
        weight = probabilities[chosen[0]] if replaced == 1 else Fraction(1, len(choices))
        for j in chosen:
            weight *= shares[j].get(other[j], Fraction(0))
        total += weight
    return total


def infer(rows: Sequence[Row], published: Row, probabilities: Sequence[Fraction], replaced: int) -> dict[Row, Fraction]:
    """The posterior of every original combination, given a published one, for an adversary who knows all originals."""
    shares = list_shares(rows)
    weights = {q: rows.count(q) * become(q, published, shares, probabilities, replaced) for q in dict.fromkeys(rows)}
    total = sum(weights.values(), Fraction(0))
    return {q: w / total for q, w in weights.items()} if total else weights


def amplify(rows: Sequence[Row], published: Row, probabilities: Sequence[Fraction], replaced: int) -> Fraction:
    """The largest ratio of the probabilities of two original combinations to become a published one; 1 if none can."""
    shares = list_shares(rows)
    found = [become(q, published, shares, probabilities, replaced) for q in set(rows)]
    possible = [p for p in found if p]
    return max(possible) / min(possible) if possible else Fraction(1)


def list_shares(rows: Sequence[Row]) -> list[dict[int, Fraction]]:
    """The distribution of every attribute."""
    return [
        {value: Fraction(sum(r[j] == value for r in rows), len(rows)) for value in {r[j] for r in rows}}
        for j in range(len(rows[0]))
    ]


def expect_support(
    rows: Sequence[Row], values: dict[int, int], probabilities: Sequence[Fraction], replaced: int
) -> Fraction:
    """The expected share of the published records that have some values by attribute, over all choices of attributes."""
    shares, m = list_shares(rows), len(rows[0])
    choices = list(combinations(range(m), replaced))
    total = Fraction(0)
    for row in rows:
        for chosen in choices:
            weight = probabilities[chosen[0]] if replaced == 1 else Fraction(1, len(choices))
            for j, value in values.items():
                weight *= shares[j].get(value, Fraction(0)) if j in chosen else Fraction(row[j] == value)
            total += weight
    return total / len(rows)
