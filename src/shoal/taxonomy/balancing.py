"""Join neighbouring values into branches of even record count."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise


def divide_evenly(counts: Sequence[int], runs: int) -> list[int]:
    """Divide a sequence into runs of neighbours. Return where each run begins, and the end of the last run.

    No other division has a smaller largest run, and moving the border between two neighbouring runs makes no pair of runs
    more even.

    >>> divide_evenly([5, 1, 1, 1, 6, 2], 3), divide_evenly([1, 1, 1, 1, 4], 3)
    ([0, 3, 5, 6], [0, 2, 4, 5])
    """
    total = [0, *accumulate(counts)]
    borders = _place_borders(total, runs, _smallest_maximum(total, runs))
    moved = True
    while moved:
        moved = False
        for i in range(1, runs):
            place = _find_middle(total, borders[i - 1], borders[i + 1])
            both = total[borders[i - 1]] + total[borders[i + 1]]
            if abs(2 * total[place] - both) < abs(2 * total[borders[i]] - both):
                borders[i], moved = place, True
    return borders


def _find_middle(total: Sequence[int], begin: int, end: int) -> int:
    """The border that divides a run most evenly, with no empty half; the earlier border on ties."""
    both = total[begin] + total[end]
    place = max(bisect_right(total, both // 2, begin + 1, end) - 1, begin + 1)
    return min((p for p in (place, place + 1) if p < end), key=lambda p: abs(2 * total[p] - both))


def _place_borders(total: Sequence[int], runs: int, maximum: int) -> list[int]:
    """Borders from left to right: each run is near an even share of the rest, and none exceeds the maximum."""
    last = len(total) - 1
    reach = [bisect_right(total, total[begin] + maximum) - 1 for begin in range(last)]
    needed = [0] * (last + 1)  # the fewest runs for the rest
    for begin in reversed(range(last)):
        needed[begin] = 1 + needed[reach[begin]]
    borders = [0]
    for left in range(runs, 1, -1):
        begin = borders[-1]
        share = total[begin] + (total[last] - total[begin]) // left
        furthest = min(reach[begin], last - left + 1)
        place = min(max(bisect_right(total, share) - 1, begin + 1), furthest)
        while needed[place] > left - 1:
            place += 1
        borders.append(place)
    return [*borders, last]


def _smallest_maximum(total: Sequence[int], runs: int) -> int:
    """The smallest possible count of the largest run."""
    low, high = max(b - a for a, b in pairwise(total)), total[-1]
    while low < high:
        middle = (low + high) // 2
        begin = used = 0
        while begin < len(total) - 1 and used <= runs:
            begin, used = bisect_right(total, total[begin] + middle) - 1, used + 1
        low, high = (low, middle) if begin == len(total) - 1 and used <= runs else (middle + 1, high)
    return low


def join_neighbours(counts: Sequence[int], fanout: int) -> list[list[tuple[int, int]]]:
    """The branches of every level below the root, from fine to coarse, each as its first and last leaf.

    The number of branches of a level is that of the level below divided by ``fanout``, rounded up. The last level has at most
    ``fanout`` branches.

    >>> join_neighbours([1, 1, 1, 1, 4], 2)
    [[(0, 1), (2, 3), (4, 4)], [(0, 3), (4, 4)]]
    """
    levels: list[list[tuple[int, int]]] = []
    runs = [(code, code) for code in range(len(counts))]
    counts = list(counts)
    while len(runs) > fanout:
        begin = divide_evenly(counts, -(-len(runs) // fanout))
        counts = [sum(counts[a:b]) for a, b in pairwise(begin)]
        runs = [(runs[a][0], runs[b - 1][1]) for a, b in pairwise(begin)]
        levels.append(runs)
    return levels
