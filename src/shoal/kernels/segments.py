"""Segments of rows of codes: the rows of one group. Count, sort and partition them in place.

Functions in inner loops take single arrays, since a call passes every array of a tuple.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import inner
from shoal.kernels.interface import LOW, SHORT, ZERO64
from shoal.kernels.limits import rules_hold

NO_CUT = -1


@inner
def count_segment(ref, begin, end, cells, histogram):
    """Count the sensitive values of the rows ``begin`` to ``end`` into ``histogram``; ``cells`` are `interface.SplitCells`."""
    start, sensitive, offset = cells.start, cells.sensitive, cells.offset
    for v in range(histogram.shape[0]):
        histogram[v] = 0
    for i in range(begin, end):
        u = ref[i]
        for c in range(start[u], start[u + 1]):
            for s in range(sensitive.shape[1]):
                histogram[offset[s] + sensitive[c, s]] += cells.records[c]


@inner
def both_hold(left, right, left_counts, right_counts, limits):
    """Whether both sides of a cut meet every rule."""
    rules = limits.term.shape[0]
    return rules_hold(left, left_counts, limits, ZERO64, rules) and rules_hold(
        right, right_counts, limits, ZERO64, rules
    )


@inner
def move_counts(ref, begin, end, order, moved, v, cells, left, right):
    """Move the sensitive counts of all rows up to code offset ``v`` from the right side to the left; return the rows moved."""
    start, sensitive, offset = cells.start, cells.sensitive, cells.offset
    while moved < end - begin and order[moved] >> 32 <= v:
        u = ref[begin + (order[moved] & LOW)]
        for c in range(start[u], start[u + 1]):
            for s in range(sensitive.shape[1]):
                left[offset[s] + sensitive[c, s]] += cells.records[c]
                right[offset[s] + sensitive[c, s]] -= cells.records[c]
        moved += 1
    return moved


@inner
def sort_by_code(codes, begin, end, a, lo, size, keys, spare, count):
    """Sort the rows of a segment by attribute ``a``: (code - lo) << 32 | row - begin, in one of the two buffers.

    ``count`` has 257 entries.
    """
    n = end - begin
    for i in range(n):
        keys[i] = (np.int64(codes[begin + i, a] - lo) << 32) | np.int64(i)
    if n <= SHORT:
        for i in range(1, n):
            key = keys[i]
            j = i - 1
            while j >= 0 and keys[j] > key:
                keys[j + 1] = keys[j]
                j -= 1
            keys[j + 1] = key
        return keys
    shift = 32
    while (size - 1) >> (shift - 32) > 0:
        for d in range(257):
            count[d] = 0
        for i in range(n):
            count[((keys[i] >> shift) & 255) + 1] += 1
        for d in range(256):
            count[d + 1] += count[d]
        for i in range(n):
            digit = (keys[i] >> shift) & 255
            spare[count[digit]] = keys[i]
            count[digit] += 1
        keys, spare = spare, keys
        shift += 8
    return keys


@inner
def partition_rows(rows, begin, end, a, at):
    """Move the rows with codes up to ``at`` to the front of the segment; return the start of the other rows."""
    codes, records, ref = rows.codes, rows.records, rows.ref
    i, j = begin, end - 1
    while True:
        while i <= j and codes[i, a] <= at:
            i += 1
        while i <= j and codes[j, a] > at:
            j -= 1
        if i >= j:
            return i
        for c in range(codes.shape[1]):
            codes[i, c], codes[j, c] = codes[j, c], codes[i, c]
        records[i], records[j] = records[j], records[i]
        ref[i], ref[j] = ref[j], ref[i]
        i += 1
        j -= 1
