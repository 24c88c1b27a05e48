"""Itemsets and rules of tiny tables, counted record by record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from shoal.mining.itemsets import Item, Itemsets, Rules

Names = frozenset[str]


def make_itemsets(supports: Mapping[Names, int], records: int) -> Itemsets:
    """Itemsets with these supports, in the given order; an item is a column of truth values or ``column=value``."""
    names = sorted(set().union(*supports))
    sets = [sorted(names.index(n) for n in members) for members in supports]
    start = np.cumsum([0, *map(len, sets)]).astype(np.int64)
    members = np.array([i for items in sets for i in items], np.int32)
    items = tuple(Item(*name.split("=")) for name in names)
    return Itemsets(items, start, members, np.array(list(supports.values()), np.int64), records)


def count_sets(baskets: Sequence[Collection[str]], sets: Iterable[Names]) -> dict[Names, int]:
    """The number of baskets that have all items of each set."""
    return {members: sum(members <= set(basket) for basket in baskets) for members in sets}


def make_rules(baskets: Sequence[Collection[Item]], sides: Sequence[tuple[set[Item], set[Item]]]) -> Rules:
    """Rules with these sides, counted in baskets of items."""
    items = sorted(set().union(*(left | right for left, right in sides))) if sides else []
    numbers = [tuple(tuple(sorted(items.index(i) for i in side)) for side in pair) for pair in sides]

    def count(wanted: Collection[Item]) -> int:
        return sum(set(wanted) <= set(basket) for basket in baskets)

    return Rules(
        tuple(items),
        tuple(left for left, _ in numbers),
        tuple(right for _, right in numbers),
        np.array([count(left | right) for left, right in sides], np.int64),
        np.array([count(left) for left, _ in sides], np.int64),
        np.array([count(right) for _, right in sides], np.int64),
        len(baskets),
    )
