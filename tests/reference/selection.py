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
    shares = [
        {value: Fraction(sum(r[j] == value for r in rows), len(rows)) for value in {r[j] for r in rows}}
        for j in range(len(published))
    ]
    weights = {q: rows.count(q) * become(q, published, shares, probabilities, replaced) for q in dict.fromkeys(rows)}
    total = sum(weights.values(), Fraction(0))
    return {q: w / total for q, w in weights.items()} if total else weights
