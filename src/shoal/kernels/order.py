"""Sort and number 64-bit keys by a stable radix sort; sort few items in a kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner

BITS = 11
BUCKETS = 1 << BITS
RUN = 48  # items that `sort_items` sorts by insertion


@entry
def argsort(keys: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The stable order of the keys. A digit that all keys share is counted but not moved."""
    n = keys.shape[0]
    order = np.arange(n, dtype=np.int32)
    if n < 2:
        return order
    top = np.uint64(0)
    for i in range(n):
        top |= keys[i]
    spare = np.empty(n, np.int32)
    source = keys.copy()
    moved = np.empty(n, np.uint64)
    count = np.empty(BUCKETS + 1, np.int64)
    shift = np.uint64(0)
    while shift < 64 and (top >> shift) > 0:
        count[:] = 0
        for i in range(n):
            count[np.int64((source[i] >> shift) & np.uint64(BUCKETS - 1)) + 1] += 1
        single = False
        for b in range(BUCKETS):
            single = single or count[b + 1] == n
            count[b + 1] += count[b]
        if not single:
            for i in range(n):
                digit = np.int64((source[i] >> shift) & np.uint64(BUCKETS - 1))
                place = count[digit]
                count[digit] += 1
                spare[place] = order[i]
                moved[place] = source[i]
            order, spare = spare, order
            source, moved = moved, source
        shift += np.uint64(BITS)
    return order


@entry
def sort_pairs(keys: NDArray[np.uint64], values: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The keys in ascending order, each with its value; faster than `argsort` and indexing."""
    n = keys.shape[0]
    top = np.uint64(0)
    for i in range(n):
        top |= keys[i]
    source, carried = keys.copy(), values.copy()
    moved, spare = np.empty(n, np.uint64), np.empty(n, np.int64)
    count = np.empty(BUCKETS + 1, np.int64)
    shift = np.uint64(0)
    while shift < 64 and (top >> shift) > 0:
        count[:] = 0
        for i in range(n):
            count[np.int64((source[i] >> shift) & np.uint64(BUCKETS - 1)) + 1] += 1
        for b in range(BUCKETS):
            count[b + 1] += count[b]
        for i in range(n):
            digit = np.int64((source[i] >> shift) & np.uint64(BUCKETS - 1))
            place = count[digit]
            count[digit] += 1
            moved[place] = source[i]
            spare[place] = carried[i]
        source, moved = moved, source
        carried, spare = spare, carried
        shift += np.uint64(BITS)
    return source, carried


@entry
def number_keys(keys: NDArray[np.uint64], order: NDArray[np.int32], rank: NDArray[np.int32]) -> NDArray[np.int64]:
    """Write the index of every key among the distinct keys into ``rank``; return the start of each in ``order``."""
    n = keys.shape[0]
    begin = np.empty(n, np.int64)
    seen = -1
    last = np.uint64(0)
    for i in range(n):
        key = keys[order[i]]
        if seen < 0 or key != last:
            seen += 1
            begin[seen] = i
            last = key
        rank[order[i]] = seen
    return begin[: seen + 1].copy()


@entry
def append_digit(keys: NDArray[np.uint64], codes: NDArray[np.int32], size: int) -> None:
    """Append a digit to every key: ``key * size + code``."""
    factor = np.uint64(size)
    for i in range(keys.shape[0]):
        keys[i] = keys[i] * factor + np.uint64(codes[i])


@entry
def pack(
    codes: NDArray[np.int32],
    columns: NDArray[np.int64],
    sizes: NDArray[np.uint64],
    table: NDArray[np.int32],
    offset: NDArray[np.int64],
) -> NDArray[np.uint64]:
    """Pack columns into one key per row, as `append_digit` does; ``table[offset[c] + code]``, if any, recodes them first."""
    keys = np.empty(codes.shape[0], np.uint64)
    mapped = table.shape[0] > 0
    for i in range(codes.shape[0]):
        key = np.uint64(0)
        for c in range(columns.shape[0]):
            code = codes[i, columns[c]]
            key = key * sizes[c] + np.uint64(table[offset[c] + code] if mapped else code)
        keys[i] = key
    return keys


@entry
def unpack(keys: NDArray[np.uint64], sizes: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The digits that `append_digit` packed into each key, first to last."""
    m = sizes.shape[0]
    out = np.empty((keys.shape[0], m), np.int32)
    for i in range(keys.shape[0]):
        rest = keys[i]
        for j in range(m - 1, -1, -1):
            above = rest // sizes[j]
            out[i, j] = rest - above * sizes[j]
            rest = above
    return out


@entry
def sort_by_group(group: NDArray[np.int32], groups: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The entries sorted by group, without those of group -1, and the start of every group."""
    start = np.zeros(groups + 1, np.int64)
    for p in range(group.shape[0]):
        if group[p] >= 0:
            start[group[p] + 1] += 1
    for g in range(groups):
        start[g + 1] += start[g]
    at = start.copy()
    order = np.empty(start[groups], np.int32)
    for p in range(group.shape[0]):
        if group[p] >= 0:
            order[at[group[p]]] = p
            at[group[p]] += 1
    return order, start


@entry
def reorder_groups(start: NDArray[np.int64], order: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The entries of the groups in another order of the groups, and the start of every group there."""
    out = np.empty(start[-1], np.int32)
    begin = np.zeros(order.shape[0] + 1, np.int64)
    at = 0
    for g in range(order.shape[0]):
        for p in range(start[order[g]], start[order[g] + 1]):
            out[at] = p
            at += 1
        begin[g + 1] = at
    return out, begin


@entry
def sum_by_group(group: NDArray[np.int32], weight: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """The sum of the weights of every group; entries of group -1 do not count."""
    out = np.zeros(groups, np.int64)
    for p in range(group.shape[0]):
        if group[p] >= 0:
            out[group[p]] += weight[p]
    return out


@inner
def sort_items(items, n, key):
    """Sort the first ``n`` items by their keys, in stable order: insertion sort of short runs, which are then merged.

    ``key`` is by item. `numpy.argsort` takes longer to compile, in every kernel that calls it.
    """
    for begin in range(0, n, RUN):
        for p in range(begin + 1, min(begin + RUN, n)):
            item, at = items[p], p
            while at > begin and key[items[at - 1]] > key[item]:
                items[at] = items[at - 1]
                at -= 1
            items[at] = item
    length = RUN
    while length < n:
        merged = np.empty(n, items.dtype)
        for begin in range(0, n, 2 * length):
            middle, end = min(begin + length, n), min(begin + 2 * length, n)
            left, right = begin, middle
            for at in range(begin, end):
                if left < middle and (right == end or key[items[left]] <= key[items[right]]):
                    merged[at] = items[left]
                    left += 1
                else:
                    merged[at] = items[right]
                    right += 1
        for at in range(n):
            items[at] = merged[at]
        length *= 2
