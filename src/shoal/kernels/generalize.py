"""Groups that are merged as values are closed into their parent: `specialize` the other way round."""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.hashing import mix
from shoal.kernels.limits import holds


@njit(cache=True, nogil=True)
def merge(node, groups, a):
    """Number these groups by their values in all attributes but a; the numbers, and the first group of each.

    Rows are compared value by value: a hash only says where to look.
    """
    size = np.int64(16)
    while size < 2 * groups.shape[0]:
        size *= 2
    table = np.full(size, -1, np.int32)
    number = np.empty(groups.shape[0], np.int32)
    one = np.empty(groups.shape[0], np.int64)
    found = 0
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
                table[at] = found
                one[found] = g
                number[n] = found
                found += 1
                break
            same = True
            for b in range(node.shape[1]):
                if b != a and node[one[k], b] != node[g, b]:
                    same = False
                    break
            if same:
                number[n] = k
                break
            at = (at + 1) & (size - 1)
    return number, one[:found].copy()


@njit(cache=True, nogil=True)
def passing(groups, start, total, first, following, cells, limits):
    """Whether unions of groups pass: union k holds the groups ``groups[start[k]:start[k + 1]]`` and ``total[k]`` records.

    The combinations of group g begin with ``first[g]`` and go on with ``following``.
    """
    begin, secret, share, offset, width = cells
    histogram = np.zeros(width, np.int64)
    ok = np.empty(total.shape[0], np.bool_)
    for k in range(total.shape[0]):
        histogram[:] = 0
        for n in range(start[k], start[k + 1]):
            u = first[groups[n]]
            while u >= 0:
                for c in range(begin[u], begin[u + 1]):
                    for s in range(offset.shape[0]):
                        histogram[offset[s] + secret[c, s]] += share[c]
                u = following[u]
        ok[k] = holds(total[k], histogram, limits)
    return ok


@njit(cache=True, nogil=True)
def failing_below(node, size, ok, parent, ready):
    """For every value that may be closed, the records of groups below it that fail, summed by attribute."""
    out = np.zeros(ready.shape[0], np.int64)
    for g in range(node.shape[0]):
        if not ok[g]:
            for a in range(node.shape[1]):
                v = parent[node[g, a]]
                if v >= 0 and ready[v]:
                    out[v] += size[g]
    return out
