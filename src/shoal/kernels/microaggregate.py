"""Microaggregation: distances of the remaining records from a point, and the shortest path through sorted values.

Rows are distinct records with the number of records left. Numbers are stored by column, so that a scan reads contiguous memory;
for categories the distance of every code from the point is tabulated. A point is a row or a centroid.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry, inner

BLOCK = 1024  # rows per block; the distances of a block stay in the processor's first cache


@entry
def compute_distances(rows, scale, point, code_distance, begin, end, distance):
    """The squared distances of the rows ``begin`` to ``end`` from a point; the furthest row with records left, or -1.

    The squared difference of numbers is multiplied by ``factor``; a missing number (infinity) is ``missing_distance`` away from
    all numbers. Numbers are summed in their order, then categories. Ties: the earlier row.
    """
    number, code, count = rows
    factor, missing_distance, has_missing, first = scale.factor, scale.missing_distance, scale.has_missing, scale.first
    best, furthest = -1.0, -1
    for low in range(begin, end, BLOCK):
        high = min(low + BLOCK, end)
        out = distance[low:high]
        out[:] = 0.0
        for j in range(number.shape[0]):
            x, y, f, w = number[j, low:high], point[j], factor[j], missing_distance[j]
            if not has_missing[j]:
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
            c, table = code[j, low:high], code_distance[first[j] : first[j + 1]]
            for i in range(out.shape[0]):
                out[i] += table[c[i]]
        for i in range(out.shape[0]):
            if out[i] > best and count[low + i] > 0:
                best, furthest = out[i], low + i
    return furthest, best


@entry
def fill_code_distances(code, trees, first, code_distance):
    """Fill ``code_distance`` with the squared distance of every code of every category from the codes of a point."""
    leaf, low, high = trees.leaf, trees.low, trees.high
    parent, cost, root = trees.parent, trees.cost, trees.root
    for j in range(code.shape[0]):
        node = root[j] + leaf[first[j] + code[j]]
        begin, end = code[j], code[j]
        code_distance[first[j] + code[j]] = cost[node]
        while parent[node] >= 0:
            node = root[j] + parent[node]
            for c in range(low[node], begin):
                code_distance[first[j] + c] = cost[node]
            for c in range(end + 1, high[node] + 1):
                code_distance[first[j] + c] = cost[node]
            begin, end = low[node], high[node]


@entry
def compute_centroid(sums, present, grid, tally, first, missing, point, code):
    """The mean of every number and the mode of every category; missing only if all values are missing."""
    for j in range(sums.shape[0]):
        point[j] = np.inf if present[j] == 0 else sums[j] / present[j] / grid
    for j in range(code.shape[0]):
        best, most = missing[j], 0
        for c in range(first[j + 1] - first[j]):
            if tally[first[j] + c] > most and c != missing[j]:
                best, most = c, tally[first[j] + c]
        code[j] = best


@entry
def find_nearest(distance, count, need, place, taken):
    """The rows of the ``need`` nearest records and the records taken of each. Ties: the earlier row. Return the number of rows.

    The nearest rows so far are a heap with the furthest on top, the only one that a new row is compared with.
    """
    size, records = 0, 0
    top = np.inf
    for i in range(count.shape[0]):
        if (distance[i] < top or records < need) and count[i] > 0:
            place[size] = i
            records += count[i]
            size += 1
            sift_up(distance, place, size - 1)
            while records - count[place[0]] >= need:
                records -= count[place[0]]
                size -= 1
                place[0] = place[size]
                sift_down(distance, place, size)
            if records >= need:
                top = distance[place[0]]
    for p in range(size):
        taken[p] = count[place[p]]
    taken[0] -= records - need
    return size


@inner
def is_further(distance, a, b):
    """Whether row ``a`` is further away than row ``b``. Ties: the later row."""
    return distance[a] > distance[b] or (distance[a] == distance[b] and a > b)


@inner
def sift_up(distance, place, at):
    """Restore the heap after its last entry changed."""
    while at > 0 and is_further(distance, place[at], place[(at - 1) // 2]):
        place[at], place[(at - 1) // 2] = place[(at - 1) // 2], place[at]
        at = (at - 1) // 2


@inner
def sift_down(distance, place, size):
    """Restore the heap after its first entry changed."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and is_further(distance, place[child + 1], place[child]):
            child += 1
        if not is_further(distance, place[child], place[at]):
            return
        place[at], place[child] = place[child], place[at]
        at = child


@entry
def remove_records(rows, place, taken, size, sums, present, grid, tally, first):
    """Remove records from the rows, the sums and the tallies; return the number of rows that became empty.

    Sums are integer multiples of 1 / ``grid``, so that they are exact in any order.
    """
    number, code, count = rows
    emptied = 0
    for p in range(size):
        i, q = place[p], taken[p]
        count[i] -= q
        emptied += count[i] == 0
        for j in range(number.shape[0]):
            if number[j, i] != np.inf:
                sums[j] -= q * np.int64(np.rint(number[j, i] * grid))
                present[j] -= q
        for j in range(code.shape[0]):
            tally[first[j] + code[j, i]] -= q
    return emptied


@entry
def compact_rows(rows, ref):
    """Move the rows with records left to the front, in their order; return their number."""
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


@entry
def find_shortest_path(value, k, begin, end, cost, last):
    """For j from ``begin`` to ``end``: the least sum of squares of the first j ascending values in groups of k to 2k - 1
    neighbours, and the size of the last group. Ties: the smaller size. Both are known for all smaller j.

    The sum of squares of a group is updated value by value around its mean (Welford), which avoids cancellation.
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
