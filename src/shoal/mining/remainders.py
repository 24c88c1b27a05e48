"""Remainders: the people who have the items of a published set, and none of the published values of a column.

Nobody has two values of a column, so the supports of the set with each value can be added up and subtracted from the support of
the set. Only all published values together are listed: if this remainder is 0 or at least k, and so is every support, then the
remainder of fewer values is also 0 or at least k.
"""

from __future__ import annotations

from itertools import chain, combinations, pairwise
from typing import NamedTuple

from shoal.arrays import BoolArray
from shoal.errors import DataError
from shoal.mining.itemsets import Itemsets


class Remainder(NamedTuple):
    """People with the items ``present`` and without the items ``absent``, which are two or more values of a column.

    ``needs`` are the numbers of the published sets with people that are added and subtracted.
    """

    present: tuple[int, ...]
    absent: tuple[int, ...]
    needs: tuple[int, ...]
    people: int


def list_remainders(itemsets: Itemsets, tested: BoolArray | None = None) -> list[Remainder]:
    """The remainders with people that are no groups between two published sets, by the number of items.

    ``tested`` marks the sets that count (default: all): one of the sets with a value must be marked.
    """
    columns = [item.column for item in itemsets.items]
    if len(set(columns)) == len(columns):
        return []
    bounds = itemsets.start.tolist()
    members, count = itemsets.members.tolist(), itemsets.count.tolist()
    sets = [tuple(members[a:b]) for a, b in pairwise(bounds)]
    number = {own: s for s, own in enumerate(sets)} | {(): -1}
    with_value: dict[tuple[tuple[int, ...], str], list[tuple[int, int]]] = {}
    for s, own in enumerate(sets):
        for b, item in enumerate(own):
            rest = own[:b] + own[b + 1 :]
            if rest in number and all(columns[i] != columns[item] for i in rest):
                with_value.setdefault((rest, columns[item]), []).append((item, s))
    found = []
    for (present, column), values in with_value.items():
        if len(values) < 2 or not (tested is None or any(tested[s] for _, s in values)):
            continue
        whole = number[present]
        people = (itemsets.records if whole < 0 else count[whole]) - sum(count[s] for _, s in values)
        if people < 0:
            raise DataError(
                f"these supports contradict one another: the values of column {column!r} have {-people:,} more records than "
                "there are, but no record has two values of a column. Count the supports again, all in the same table."
            )
        if people and not _is_between_sets(present, [item for item, _ in values], number):
            needs = tuple(s for s in (whole, *(s for _, s in values)) if s >= 0 and count[s])
            found.append(Remainder(present, tuple(sorted(item for item, _ in values)), needs, people))
    return sorted(found, key=lambda r: (len(r.present) + len(r.absent), r))


def _is_between_sets(present: tuple[int, ...], values: list[int], number: dict[tuple[int, ...], int]) -> bool:
    """Whether the sets with two or more of the values are published, too, so that inclusion and exclusion gives the group."""
    parts = chain.from_iterable(combinations(values, n) for n in range(len(values), 1, -1))
    return all(tuple(sorted((*present, *part))) in number for part in parts)
