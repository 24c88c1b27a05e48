"""Joining neighbours into branches of even weight."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise


def even_parts(weights: Sequence[int], parts: int) -> list[int]:
    """Where each of ``parts`` runs of neighbours begins, and the end of the last.

    No other division has a lighter heaviest part, and no two neighbouring parts can be made more even by moving what
    divides them.

    >>> even_parts([5, 1, 1, 1, 6, 2], 3), even_parts([1, 1, 1, 1, 4], 3)
    ([0, 3, 5, 6], [0, 2, 4, 5])
    """
    total = [0, *accumulate(weights)]
    found = _shares(total, parts, _heaviest(total, parts))
    moved = True
    while moved:
        moved = False
        for i in range(1, parts):
            place = _middle(total, found[i - 1], found[i + 1])
            both = total[found[i - 1]] + total[found[i + 1]]
            if abs(2 * total[place] - both) < abs(2 * total[found[i]] - both):
                found[i], moved = place, True
    return found


def _middle(total: Sequence[int], begin: int, end: int) -> int:
    """Where a run is divided most evenly, neither half empty; the earlier place on ties."""
    both = total[begin] + total[end]
    place = max(bisect_right(total, both // 2, begin + 1, end) - 1, begin + 1)
    return min((p for p in (place, place + 1) if p < end), key=lambda p: abs(2 * total[p] - both))


def _shares(total: Sequence[int], parts: int, heaviest: int) -> list[int]:
    """From the left, parts as near as they can to an even share of what is left, none above the heaviest."""
    last = len(total) - 1
    reach = [bisect_right(total, total[begin] + heaviest) - 1 for begin in range(last)]
    needed = [0] * (last + 1)  # how many parts the rest needs
    for begin in reversed(range(last)):
        needed[begin] = 1 + needed[reach[begin]]
    found = [0]
    for left in range(parts, 1, -1):
        begin = found[-1]
        share = total[begin] + (total[last] - total[begin]) // left
        furthest = min(reach[begin], last - left + 1)
        place = min(max(bisect_right(total, share) - 1, begin + 1), furthest)
        while needed[place] > left - 1:
            place += 1
        found.append(place)
    return [*found, last]


def _heaviest(total: Sequence[int], parts: int) -> int:
    """The least weight that the heaviest of so many parts can have."""
    low, high = max(b - a for a, b in pairwise(total)), total[-1]
    while low < high:
        middle = (low + high) // 2
        begin = used = 0
        while begin < len(total) - 1 and used <= parts:
            begin, used = bisect_right(total, total[begin] + middle) - 1, used + 1
        low, high = (low, middle) if begin == len(total) - 1 and used <= parts else (middle + 1, high)
    return low


def joined(weights: Sequence[int], fanout: int) -> list[list[tuple[int, int]]]:
    """The branches of every level below the root, from fine to coarse, as first and last leaf.

    Each level has as many branches as the one below it divided by ``fanout``, rounded up, until no more than ``fanout`` are
    left.

    >>> joined([1, 1, 1, 1, 4], 2)
    [[(0, 1), (2, 3), (4, 4)], [(0, 3), (4, 4)]]
    """
    levels: list[list[tuple[int, int]]] = []
    runs = [(code, code) for code in range(len(weights))]
    weights = list(weights)
    while len(runs) > fanout:
        begin = even_parts(weights, -(-len(runs) // fanout))
        weights = [sum(weights[a:b]) for a, b in pairwise(begin)]
        runs = [(runs[a][0], runs[b - 1][1]) for a, b in pairwise(begin)]
        levels.append(runs)
    return levels
