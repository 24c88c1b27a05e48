"""Groups that are merged when values are generalized to their parent: the reverse of `kernels.specialize`."""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry
from shoal.kernels.hashing import mix
from shoal.kernels.limits import holds


@entry
def merge(node, groups, a):
    """Number these groups by their values in all attributes except a; return the numbers and the first group of each number.

    Hash collisions are resolved by comparing all values.
    """
    size = np.int64(16)
    while size < 2 * groups.shape[0]:
        size *= 2
    table = np.full(size, -1, np.int32)
    number = np.empty(groups.shape[0], np.int32)
    representative = np.empty(groups.shape[0], np.int64)
    count = 0
    for n in range(groups.shape[0]):
        g = groups[n]
        h = np.uint64(0)
        for b in range(node.shape[1]):
            if b != a:
                h = mix(h + np.uint64(node[g, b]) + np.uint64(0x9E3779B97F4A7C15))
        at = np.int64(h & np.uint64(size - 1))
        while True:
            k = table[at]
            if k < 0:
                table[at] = count
                representative[count] = g
                number[n] = count
                count += 1
                break
            same = True
            for b in range(node.shape[1]):
                if b != a and node[representative[k], b] != node[g, b]:
                    same = False
                    break
            if same:
                number[n] = k
                break
            at = (at + 1) & (size - 1)
    return number, representative[:count].copy()


@entry
def find_passing(groups, start, total, first, following, cells, limits):
    """Return which merged groups pass: group k merges ``groups[start[k]:start[k + 1]]`` and has ``total[k]`` records.

    The combinations of group g are a linked list: ``first[g]``, then ``following`` of each. ``cells`` are
    `interface.CombinationCells`.
    """
    begin, sensitive, records, offset = cells.start, cells.sensitive, cells.records, cells.offset
    histogram = np.zeros(cells.width, np.int64)
    passes = np.empty(total.shape[0], np.bool_)
    for k in range(total.shape[0]):
        histogram[:] = 0
        for n in range(start[k], start[k + 1]):
            u = first[groups[n]]
            while u >= 0:
                for c in range(begin[u], begin[u + 1]):
                    for s in range(offset.shape[0]):
                        histogram[offset[s] + sensitive[c, s]] += records[c]
                u = following[u]
        passes[k] = holds(total[k], histogram, limits)
    return passes


@entry
def count_failing_below(node, size, passes, parent, ready):
    """Return for every value in ``ready`` the records of failing groups with one of its children."""
    out = np.zeros(ready.shape[0], np.int64)
    for g in range(node.shape[0]):
        if not passes[g]:
            for a in range(node.shape[1]):
                v = parent[node[g, a]]
                if v >= 0 and ready[v]:
                    out[v] += size[g]
    return out
