"""The fewest starred cells, by brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations, product

Row = tuple[object, ...]


def fewest_by_groups(
    rows: Sequence[Row], importance: Sequence[float], fits: Callable[[Sequence[int]], bool], best: float = float("inf")
) -> float:
    """The least importance of starred cells over all divisions of the records into groups that fit.

    A group stars the columns in which its records differ. The first record is grouped with every subset of the others in turn;
    a division that already costs as much as the best is not completed.
    """

    def cost(group: Sequence[int]) -> float:
        starred = [w for j, w in enumerate(importance) if len({rows[i][j] for i in group}) > 1]
        return sum(starred) * len(group)

    def divide(left: tuple[int, ...], spent: float) -> None:
        nonlocal best
        if not left:
            best = min(best, spent)
            return
        for size in range(len(left)):
            for others in combinations(left[1:], size):
                group = (left[0], *others)
                total = spent + cost(group)
                if total < best and fits(group):
                    divide(tuple(i for i in left if i not in group), total)

    divide(tuple(range(len(rows))), 0.0)
    return best


def fewest_by_cells(rows: Sequence[Row], importance: Sequence[float], k: int) -> float:
    """The least importance over all ways to star cells; records with equal values and stars are a group of at least k."""
    columns = range(len(importance))
    best = float("inf")
    for stars in product(product((False, True), repeat=len(importance)), repeat=len(rows)):
        shown = [tuple("*" if star[j] else row[j] for j in columns) for row, star in zip(rows, stars, strict=True)]
        if min(Counter(shown).values()) >= k:
            best = min(best, sum(importance[j] for star in stars for j in columns if star[j]))
    return best
