"""Sort and number 64-bit keys by a stable radix sort; sort few items in a kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner

BITS = 11
BUCKETS = 1 << BITS
RUN = 48  # items that `sort_items` sorts by insertion


def argsort(keys: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The stable order of the keys."""
    n = len(keys)
    order = np.arange(n, dtype=np.int32)
    if n < 2:
        return order
    spare = np.empty(n, np.int32)
    moved = sort_digits(keys.copy(), np.empty(n, np.uint64), order, spare, np.empty(BUCKETS + 1, np.int64))
    return spare if moved else order


def sort_pairs(keys: NDArray[np.uint64], values: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The keys in ascending order, each with its value; faster than `argsort` and indexing."""
    n = len(keys)
    source, carried = (keys.copy(), np.empty(n, np.uint64)), (values.copy(), np.empty(n, np.int64))
    moved = sort_digits(*source, *carried, np.empty(BUCKETS + 1, np.int64))
    return source[moved], carried[moved]


@entry
def sort_digits(source, other_source, carried, other_carried, count):
    """Sort keys digit by digit, each with what it carries; return whether the result is in the second pair of arrays.

    A digit that all keys share is counted but not moved.
    """
    n = source.shape[0]
    top = np.uint64(0)
    for i in range(n):
        top |= source[i]
    shift, is_swapped = np.uint64(0), False
    while shift < 64 and (top >> shift) > 0:
        for b in range(BUCKETS + 1):
            count[b] = 0
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
                other_carried[place] = carried[i]
                other_source[place] = source[i]
            source, other_source = other_source, source
            carried, other_carried = other_carried, carried
            is_swapped = not is_swapped
        shift += np.uint64(BITS)
    return is_swapped


def number_keys(keys: NDArray[np.uint64], order: NDArray[np.int32], rank: NDArray[np.int32]) -> NDArray[np.int64]:
    """Write the index of every key among the distinct keys into ``rank``; return the start of each in ``order``."""
    begin = np.empty(len(keys), np.int64)
    return begin[: rank_keys(keys, order, rank, begin)].copy()


@entry
def rank_keys(keys, order, rank, begin):
    """See `number_keys`; return the number of distinct keys."""
    seen = np.int64(-1)
    last = np.uint64(0)
    for i in range(keys.shape[0]):
        key = keys[order[i]]
        if seen < 0 or key != last:
            seen += 1
            begin[seen] = i
            last = key
        rank[order[i]] = seen
    return seen + 1


@entry
def append_digit(keys: NDArray[np.uint64], codes: NDArray[np.int32], size: int) -> None:
    """Append a digit to every key: ``key * size + code``."""
    factor = np.uint64(size)
    for i in range(keys.shape[0]):
        keys[i] = keys[i] * factor + np.uint64(codes[i])


def pack(
    codes: NDArray[np.int32],
    columns: NDArray[np.int64],
    sizes: NDArray[np.uint64],
    table: NDArray[np.int32],
    offset: NDArray[np.int64],
) -> NDArray[np.uint64]:
    """Pack columns into one key per row, as `append_digit` does; ``table[offset[c] + code]``, if any, recodes them first."""
    keys = np.empty(len(codes), np.uint64)
    pack_digits(codes, columns, sizes, table, offset, keys)
    return keys


@entry
def pack_digits(codes, columns, sizes, table, offset, keys):
    """See `pack`."""
    mapped = table.shape[0] > 0
    for i in range(codes.shape[0]):
        key = np.uint64(0)
        for c in range(columns.shape[0]):
            code = codes[i, columns[c]]
            key = key * sizes[c] + np.uint64(table[offset[c] + code] if mapped else code)
        keys[i] = key


def unpack(keys: NDArray[np.uint64], sizes: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The digits that `append_digit` packed into each key, first to last."""
    out = np.empty((len(keys), len(sizes)), np.int32)
    unpack_digits(keys, sizes, out)
    return out


@entry
def unpack_digits(keys, sizes, out):
    """See `unpack`."""
    for i in range(keys.shape[0]):
        rest = keys[i]
        for j in range(sizes.shape[0] - 1, -1, -1):
            above = rest // sizes[j]
            out[i, j] = rest - above * sizes[j]
            rest = above


def sort_by_group(group: NDArray[np.int32], groups: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The entries sorted by group, without those of group -1, and the start of every group."""
    start, order = np.zeros(groups + 1, np.int64), np.empty(len(group), np.int32)
    place_by_group(group, start, np.zeros(groups, np.int64), order)
    return (order if start[groups] == len(order) else order[: start[groups]].copy()), start


@entry
def place_by_group(group, start, at, order):
    """See `sort_by_group`; ``start`` and ``at`` are all zero."""
    for p in range(group.shape[0]):
        if group[p] >= 0:
            start[group[p] + 1] += 1
    for g in range(at.shape[0]):
        at[g] = start[g]
        start[g + 1] += start[g]
    for p in range(group.shape[0]):
        if group[p] >= 0:
            order[at[group[p]]] = p
            at[group[p]] += 1


def reorder_groups(start: NDArray[np.int64], order: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The entries of the groups in another order of the groups, and the start of every group there."""
    sizes = np.diff(start)[order]
    begin = np.concatenate(([0], np.cumsum(sizes)))
    out = np.arange(begin[-1], dtype=np.int32)
    out += np.repeat((start[order] - begin[:-1]).astype(np.int32), sizes)
    return out, begin


def sum_by_group(group: NDArray[np.int32], weight: NDArray[np.integer], groups: int) -> NDArray[np.int64]:
    """The sum of the weights of every group; entries of group -1 do not count."""
    out = np.zeros(groups, np.int64)
    add_by_group(np.ascontiguousarray(group), np.ascontiguousarray(weight, np.int64), out)
    return out


@entry
def add_by_group(group, weight, out):
    """See `sum_by_group`; ``out`` is all zero."""
    for p in range(group.shape[0]):
        if group[p] >= 0:
            out[group[p]] += weight[p]


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
