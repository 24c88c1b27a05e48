"""Microaggregation: scans over records that are not yet placed, and the shortest path through sorted ones.

Rows are distinct records with a count of how many are left. Numbers lie by column, so that a scan reads them one behind
the other; of categories, the distance of every code from the point is looked up. A point is a row, or a centroid.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK = 1024  # rows whose distances stay in the nearest cache while the columns are gone through


@njit(cache=True, nogil=True)
def scan(rows, scale, point, reach, begin, end, distance):
    """The squared distances of the rows ``begin`` to ``end`` from a point; the furthest that has records left, or -1.

    A number's difference is squared, then times ``factor``; a missing one (infinity) is ``gap`` away from all numbers. Numbers
    are summed in their order, then categories. Ties: the earlier row.
    """
    number, code, count = rows
    factor, gap, holes, first = scale
    best, furthest = -1.0, -1
    for low in range(begin, end, BLOCK):
        high = min(low + BLOCK, end)
        out = distance[low:high]
        out[:] = 0.0
        for j in range(number.shape[0]):
            x, y, f, w = number[j, low:high], point[j], factor[j], gap[j]
            if not holes[j]:
                for i in range(out.shape[0]):
                    t = x[i] - y
                    out[i] += t * t * f
            elif y == np.inf:
                for i in range(out.shape[0]):
                    out[i] += 0.0 if x[i] == np.inf else w
            else:
                for i in range(out.shape[0]):
                    t = x[i] - y
                    out[i] += w if x[i] == np.inf else t * t * f
        for j in range(code.shape[0]):
            c, table = code[j, low:high], reach[first[j] : first[j + 1]]
            for i in range(out.shape[0]):
                out[i] += table[c[i]]
        for i in range(out.shape[0]):
            if out[i] > best and count[low + i] > 0:
                best, furthest = out[i], low + i
    return furthest, best


@njit(cache=True, nogil=True)
def spread(code, trees, first, reach):
    """Fill ``reach`` with the squared distance of every code of every category from the codes of a point.

    A tree is a row per node: the first and last code under it and its parent; ``leaf`` is the node of every code.
    """
    leaf, low, high, parent, cost, root = trees
    for j in range(code.shape[0]):
        node = root[j] + leaf[first[j] + code[j]]
        begin, end = code[j], code[j]
        reach[first[j] + code[j]] = cost[node]
        while parent[node] >= 0:
            node = root[j] + parent[node]
            for c in range(low[node], begin):
                reach[first[j] + c] = cost[node]
            for c in range(end + 1, high[node] + 1):
                reach[first[j] + c] = cost[node]
            begin, end = low[node], high[node]


@njit(cache=True, nogil=True)
def centroid(sums, present, grid, tally, first, absent, point, code):
    """The mean of every number and the mode of every category; missing values count where there are no others."""
    for j in range(sums.shape[0]):
        point[j] = np.inf if present[j] == 0 else sums[j] / present[j] / grid
    for j in range(code.shape[0]):
        best, most = absent[j], 0
        for c in range(first[j + 1] - first[j]):
            if tally[first[j] + c] > most and c != absent[j]:
                best, most = c, tally[first[j] + c]
        code[j] = best


@njit(cache=True, nogil=True)
def nearest(distance, count, need, place, share):
    """The rows of the ``need`` nearest records and how many of each; ties: the earlier row. Returns the number of rows.

    The nearest found so far are a heap with the furthest of them on top, which is all that a further row is compared with.
    """
    size, held = 0, 0
    top = np.inf
    for i in range(count.shape[0]):
        if (distance[i] < top or held < need) and count[i] > 0:
            place[size] = i
            held += count[i]
            size += 1
            rise(distance, place, size - 1)
            while held - count[place[0]] >= need:
                held -= count[place[0]]
                size -= 1
                place[0] = place[size]
                sink(distance, place, size)
            if held >= need:
                top = distance[place[0]]
    for p in range(size):
        share[p] = count[place[p]]
    share[0] -= held - need
    return size


@njit(cache=True, nogil=True)
def further(distance, a, b):
    """Whether row ``a`` comes behind row ``b`` in the order of distances."""
    return distance[a] > distance[b] or (distance[a] == distance[b] and a > b)


@njit(cache=True, nogil=True)
def rise(distance, place, at):
    """Mend a heap whose last entry is new."""
    while at > 0 and further(distance, place[at], place[(at - 1) // 2]):
        place[at], place[(at - 1) // 2] = place[(at - 1) // 2], place[at]
        at = (at - 1) // 2


@njit(cache=True, nogil=True)
def sink(distance, place, size):
    """Mend a heap whose first entry is new."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and further(distance, place[child + 1], place[child]):
            child += 1
        if not further(distance, place[child], place[at]):
            return
        place[at], place[child] = place[child], place[at]
        at = child


@njit(cache=True, nogil=True)
def take(rows, place, share, size, sums, present, grid, tally, first):
    """Take records out of the rows, the sums and the tallies; how many rows have none left by that.

    Sums are of whole multiples of 1 / ``grid``, so that they are exact in every order.
    """
    number, code, count = rows
    emptied = 0
    for p in range(size):
        i, q = place[p], share[p]
        count[i] -= q
        emptied += count[i] == 0
        for j in range(number.shape[0]):
            if number[j, i] != np.inf:
                sums[j] -= q * np.int64(np.rint(number[j, i] * grid))
                present[j] -= q
        for j in range(code.shape[0]):
            tally[first[j] + code[j, i]] -= q
    return emptied


@njit(cache=True, nogil=True)
def close(rows, ref):
    """Move the rows that have records left together, in their order; how many these are."""
    number, code, count = rows
    size = count.shape[0]
    kept = 0
    for j in range(number.shape[0]):
        kept = 0
        for i in range(size):
            if count[i] > 0:
                number[j, kept] = number[j, i]
                kept += 1
    for j in range(code.shape[0]):
        kept = 0
        for i in range(size):
            if count[i] > 0:
                code[j, kept] = code[j, i]
                kept += 1
    kept = 0
    for i in range(size):
        if count[i] > 0:
            ref[kept], count[kept] = ref[i], count[i]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def shortest(value, k, begin, end, cost, last):
    """Of the first j ascending values, for j from ``begin`` to ``end``: the least sum of squares within groups of k to 2k - 1
    neighbours, and how many are in the last group; ties: the fewer. Both are known for all smaller j.

    The sum of squares of a group is updated value by value around its mean (Welford), which does not cancel.
    """
    for j in range(begin, end):
        best, size = np.inf, 0
        mean, squares = 0.0, 0.0
        for n in range(1, min(2 * k - 1, j) + 1):
            gap = value[j - n] - mean
            mean += gap / n
            squares += gap * (value[j - n] - mean)
            if n >= k and cost[j - n] + squares < best:
                best, size = cost[j - n] + squares, n
        cost[j], last[j] = best, size
