"""The cut that tells most of a target: workload-aware Mondrian (LeFevre, DeWitt, Ramakrishnan, KDD 2006).

A cut tells as many bits x records as the entropy of the target's classes, weighted by records, falls from the segment to its
two sides. With T(x) = x log2 x it is T(all) - T(left) - T(right) + the sum over the classes of T on the left and the right
less T in the segment. The sums are kept as whole numbers of a small unit, so that they do not depend on the order of
the rows, nor on the way the classes are counted.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.segments import LEAST_GAIN, LOW, OPEN, TABLE, both, move, sort_by_code, weigh

BITS = 58  # T of a whole segment has about this many in its unit


@njit(cache=True, nogil=True, forceinline=True)
def table_of(rows):
    """The most places in which the classes are counted by the codes of an attribute; with more, the rows are sorted."""
    return min(TABLE, 4 * rows + 64)


@njit(cache=True, nogil=True, forceinline=True)
def tall(count, unit):
    """T of a count."""
    return np.int64(np.rint(count * np.log2(count) * unit)) if count > 1 else np.int64(0)


@njit(cache=True, nogil=True, forceinline=True)
def shift(kind, records, left, right, unit):
    """Carry records of a class from the right side to the left; by how much the sum of T over both sides grows."""
    before = tall(left[kind], unit) + tall(right[kind], unit)
    left[kind] += records
    right[kind] -= records
    return tall(left[kind], unit) + tall(right[kind], unit) - before


@njit(cache=True, nogil=True)
def count(ref, begin, end, cells, out, unit):
    """Count the classes of a segment into ``out``, where none are; the sum of T over them."""
    start, weight, classes = cells[0], cells[2], cells[4]
    found = np.int64(0)
    for i in range(begin, end):
        for c in range(start[ref[i]], start[ref[i] + 1]):
            kind = classes[c]
            found -= tall(out[kind], unit)
            out[kind] += weight[c]
            found += tall(out[kind], unit)
    return found


@njit(cache=True, nogil=True)
def bring_back(ref, begin, end, cells, left, right):
    """Carry all classes of a segment back to the right side."""
    start, classes = cells[0], cells[4]
    for i in range(begin, end):
        for c in range(start[ref[i]], start[ref[i] + 1]):
            right[classes[c]] += left[classes[c]]
            left[classes[c]] = 0


@njit(cache=True, nogil=True)
def tabulate(rows, ref, begin, end, lo, hi, cells, kinds, table):
    """Count the classes by the codes of every attribute that is short enough for it.

    Returns where those of each attribute begin in the table; -1 where they are not counted.
    """
    start, weight, classes = cells[0], cells[2], cells[4]
    most, used, m = table_of(end - begin), 0, lo.shape[0]
    first = np.full(m, -1, np.int64)
    for a in range(m):
        places = np.int64(hi[a] - lo[a] + 1) * kinds
        if lo[a] < hi[a] and places <= most:
            first[a] = used
            used += places
    table[:used] = 0
    for i in range(begin, end):
        u = ref[i]
        for c in range(start[u], start[u + 1]):
            for a in range(m):
                if first[a] >= 0:
                    table[first[a] + np.int64(rows[i, a] - lo[a]) * kinds + classes[c]] += weight[c]
    return first


@njit(cache=True, nogil=True)
def most_telling(rows, ref, begin, end, lo, hi, total, cells, limits, least, scratch, by_class, apart, unit):
    """Look for the cut of `split_target`; ``apart`` is the sum of T over the classes of the segment, all on the right."""
    keys, spare, whole = scratch[1:]
    left, right, table = by_class
    start, weight, classes = cells[0], cells[2], cells[4]
    n, kinds = end - begin, left.shape[0]
    slack = np.int64(LEAST_GAIN * total * unit)
    best, best_a, best_at = np.int64(0), -1, OPEN
    first = tabulate(rows, ref, begin, end, lo, hi, cells, kinds, table)
    if whole.shape[0] > 0:
        weigh(ref, begin, end, cells, whole)
    for a in range(lo.shape[0]):
        if lo[a] == hi[a]:
            continue
        tabled = first[a] >= 0
        order = keys[:0]
        if not tabled or whole.shape[0] > 0:
            order = sort_by_code(rows, begin, end, a, lo[a], hi[a] - lo[a] + 1, keys, spare)
        left_counts, right_counts = np.zeros(whole.shape[0], np.int64), whole.copy()
        both_sides, taken, moved, v = apart, np.int64(0), 0, np.int64(0)
        for p in range(hi[a] - lo[a] if tabled else n - 1):
            before = taken
            if tabled:
                v = np.int64(p)
                for kind in range(kinds):
                    records = table[first[a] + p * kinds + kind]
                    if records > 0:
                        both_sides += shift(kind, records, left, right, unit)
                        taken += records
            else:
                v = order[p] >> 32
                u = ref[begin + (order[p] & LOW)]
                for c in range(start[u], start[u + 1]):
                    both_sides += shift(classes[c], weight[c], left, right, unit)
                    taken += weight[c]
            if total - taken < least:
                break
            if taken < least or taken == before or (not tabled and order[p + 1] >> 32 == v):
                continue
            gain = tall(total, unit) - apart - (tall(taken, unit) + tall(total - taken, unit) - both_sides)
            if gain > best + slack:
                if whole.shape[0] > 0:
                    moved = move(ref, begin, end, order, moved, v, cells, left_counts, right_counts)
                    if not both(taken, total - taken, left_counts, right_counts, limits):
                        continue
                best, best_a, best_at = gain, a, lo[a] + v
        if tabled:
            right += left
            left[:] = 0
        else:
            bring_back(ref, begin, end, cells, left, right)
    return best_a, best_at


@njit(cache=True, nogil=True)
def split_target(rows, ref, begin, end, lo, hi, total, cells, limits, least, scratch, by_class):
    """The allowed cut that tells most of the target; -1 if none tells anything.

    Gains that differ by no more than rounding are equal: then the earlier attribute, and the smaller code.
    """
    right = by_class[1]
    unit = 2.0 ** (BITS - np.ceil(np.log2(total * np.log2(total) + 1.0)))
    apart = count(ref, begin, end, cells, right, unit)
    a, at = -1, OPEN
    if tall(total, unit) - apart > np.int64(LEAST_GAIN * total * unit):
        a, at = most_telling(rows, ref, begin, end, lo, hi, total, cells, limits, least, scratch, by_class, apart, unit)
    start, classes = cells[0], cells[4]
    for i in range(begin, end):  # there may be many more classes than rows
        for c in range(start[ref[i]], start[ref[i] + 1]):
            right[classes[c]] = 0
    return a, at
