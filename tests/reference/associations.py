"""Quasi-sensitive associations, slow and obvious: every combination of values of every set of columns is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product

Row = Mapping[str, str | None]
Values = frozenset[tuple[str, str]]
Found = dict[tuple[Values, Values], tuple[float, float]]


def mine(
    rows: Sequence[Row],
    quasi: Sequence[str],
    sensitive: Sequence[str],
    share: Callable[[Values], float],
    support: float,
    confidence: float,
) -> Found:
    """The support and the confidence of all associations; ``share`` is the support of a set of values."""
    found: Found = {}
    for left in list_values(rows, quasi):
        for right in list_values(rows, sensitive):
            both = share(left | right)
            if both >= support - 1e-12 and both / share(left) >= confidence - 1e-12:
                found[left, right] = both, both / share(left)
    return found


def list_values(rows: Sequence[Row], names: Sequence[str]) -> list[Values]:
    """All combinations of present values of one or more columns."""
    texts = {name: {row[name] for row in rows} - {None} for name in names}
    return [
        frozenset(zip(chosen, values, strict=True))  # type: ignore[arg-type]
        for size in range(1, len(names) + 1)
        for chosen in combinations(names, size)
        for values in product(*(texts[name] for name in chosen))
    ]


def count_share(rows: Sequence[Row], values: Values) -> float:
    """The share of the rows that have all values."""
    return sum(all(row[name] == value for name, value in values) for row in rows) / len(rows)


def expect_share(rows: Sequence[Row], bucket: Sequence[int], sensitive: str, values: Values) -> float:
    """The expected share, if every way to link the sensitive values of a bucket with its records is equally probable."""
    right = [value for name, value in values if name == sensitive]
    left = frozenset(v for v in values if v[0] != sensitive)
    if not right:
        return count_share(rows, left)
    total = 0.0
    for number in set(bucket):
        own = [row for row, b in zip(rows, bucket, strict=True) if b == number]
        total += sum(row[sensitive] == right[0] for row in own) * count_share(own, left)
    return total / len(rows)
