"""Frequent itemsets and association rules, slow and obvious: Apriori over Python sets (Agrawal and Srikant 1994).

A record is a set of items. An item is any value that can be compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

ItemSet = frozenset[Hashable]


def make_records(columns: Mapping[str, Sequence[Any]]) -> list[ItemSet]:
    """The items of every record: pairs of column and value, or the column alone for a truth value. None is no item."""
    names, records = list(columns), []
    for row in zip(*columns.values(), strict=True):
        items: set[Hashable] = set()
        for name, value in zip(names, row, strict=True):
            if isinstance(value, bool):
                items |= {(name, None)} if value else set()
            elif value is not None and value != "":
                items.add((name, str(value)))
        records.append(frozenset(items))
    return records


def count_records(records: Sequence[ItemSet], items: ItemSet) -> int:
    return sum(items <= record for record in records)


def mine_itemsets(records: Sequence[ItemSet], least: int, max_size: int | None = None) -> dict[ItemSet, int]:
    """Every set with at least ``least`` records, and their number; a set is tested if all its subsets are frequent."""
    found: dict[ItemSet, int] = {}
    candidates = {frozenset([item]) for record in records for item in record}
    size = 1
    while candidates and (max_size is None or size <= max_size):
        counted = {items: count_records(records, items) for items in candidates}
        level = {items: count for items, count in counted.items() if count >= least}
        found |= level
        size += 1
        candidates = {
            one | other
            for one, other in itertools.combinations(level, 2)
            if len(one | other) == size and all((one | other) - {item} in level for item in one | other)
        }
    return found


def mine_rules(
    itemsets: Mapping[ItemSet, int], confidence: float, max_right: int | None = None
) -> dict[tuple[ItemSet, ItemSet], float]:
    """Every rule (left, right) whose sides and union are among the sets, with its confidence."""
    found = {}
    for items, count in itemsets.items():
        for size in range(1, len(items) if max_right is None else min(max_right + 1, len(items))):
            for chosen in itertools.combinations(items, size):
                right = frozenset(chosen)
                left = items - right
                if left in itemsets and right in itemsets and count / itemsets[left] >= confidence:
                    found[left, right] = count / itemsets[left]
    return found
