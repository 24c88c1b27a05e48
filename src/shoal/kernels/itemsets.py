"""Find all sets of items that enough records have: depth first, with one bit per record (Eclat, Zaki 2000).

The search has one branch for every item: the sets in which this item is the rarest. A branch holds only the records that have
its item, and a bitset of these records for every other item that occurs often enough with it. Records with equal items are one
cell with a weight. A cell has one bit for every power of two in its weight; bits of the same power are stored in words of their
own, a plane. So the weight of a set is the sum over the planes of the number of bits, times the power of the plane.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import NONE64, ONE64, ZERO64
from shoal.kernels.order import sort_items

ODD_BITS = np.uint64(0x5555555555555555)
ODD_PAIRS = np.uint64(0x3333333333333333)
ODD_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
BYTES = np.uint64(0x0101010101010101)
ONE = np.uint64(1)
PLANES = 63  # powers of two in a weight
FEW = 256  # sets for which a branch has room at first


class ItemCells(NamedTuple):
    """The cells of a table. Items have ranks by their number of records, rare items first.

    ``item[t]`` has the ranks of the items of cell t in ascending order; -1 fills the row at its beginning. ``weight[t]`` is the
    number of records of cell t. By rank: the number and the column of the item, and its number of records. The cells of the
    item with rank i are ``cells[start[i]:start[i + 1]]``.
    """

    item: NDArray[Any]
    weight: NDArray[Any]
    number: NDArray[Any]
    column: NDArray[Any]
    records: NDArray[Any]
    start: NDArray[Any]
    cells: NDArray[Any]


class FoundSets(NamedTuple):
    """Sets of items, one after another: the items of all sets, and the size and the number of records of every set."""

    members: NDArray[Any]
    size: NDArray[Any]
    records: NDArray[Any]


class SearchLimits(NamedTuple):
    """The least records of a frequent set, the largest number of items of a set, and the largest number of sets.

    A branch is left when there are more sets: found ones, or subsets of a found one, which are all frequent.
    """

    least: np.int64
    largest: np.int64
    most: np.int64


class Path(NamedTuple):
    """The sets from the item of a branch down to the present one, by depth.

    ``items`` has the items of the set in ascending order, ``bits`` its cells. ``partner[depth, :length[depth]]`` are the
    partners that can extend the set, ``records`` those of the extended sets, and ``next`` the partner to be tried next.
    """

    items: NDArray[Any]
    bits: NDArray[Any]
    partner: NDArray[Any]
    records: NDArray[Any]
    length: NDArray[Any]
    next: NDArray[Any]


@entry
def list_cells(item, items):
    """The cells of every item: the start of its cells, and the cells."""
    start = np.zeros(items + 1, np.int64)
    for t in range(item.shape[0]):
        for c in range(item.shape[1]):
            if item[t, c] >= 0:
                start[item[t, c] + 1] += 1
    for i in range(items):
        start[i + 1] += start[i]
    place = start.copy()
    cells = np.empty(start[items], np.int32)
    for t in range(item.shape[0]):
        for c in range(item.shape[1]):
            i = item[t, c]
            if i >= 0:
                cells[place[i]] = t
                place[i] += 1
    return start, cells


@inner(inline="always")
def count_bits(x):
    """The number of bits of a word. The compiler recognizes this form and uses the instruction of the processor."""
    x -= (x >> ONE) & ODD_BITS
    x = (x & ODD_PAIRS) + ((x >> np.uint64(2)) & ODD_PAIRS)
    x = (x + (x >> np.uint64(4))) & ODD_NIBBLES
    return np.int64((x * BYTES) >> np.uint64(56))


@inner
def count_common(one, other, plane):
    """The number of records of the cells in two bitsets; plane p has the words from ``plane[p]`` to ``plane[p + 1]``."""
    total = ZERO64
    for p in range(plane.shape[0] - 1):
        bits = ZERO64
        for w in range(plane[p], plane[p + 1]):
            bits += count_bits(one[w] & other[w])
        total += bits << p
    return total


@inner
def find_partners(table, branch, least):
    """The more frequent items that are frequent together with the item of a branch, and the number of records of all pairs.

    Partners are sorted by this number, rare ones first.
    """
    items = table.number.shape[0]
    records = np.zeros(items, np.int64)
    for s in range(table.start[branch], table.start[branch + 1]):
        t = table.cells[s]
        c = table.item.shape[1] - 1
        while table.item[t, c] > branch:
            records[table.item[t, c]] += table.weight[t]
            c -= 1
    partners = np.empty(items, np.int64)
    n = ZERO64
    for i in range(branch + 1, items):
        if records[i] >= least:
            partners[n] = i
            n += 1
    sort_items(partners, n, records)
    return partners[:n], records


@inner
def arrange_planes(table, branch):
    """The words of every plane for the cells of a branch; see `count_common`."""
    bits = np.zeros(PLANES, np.int64)
    planes = ZERO64
    for s in range(table.start[branch], table.start[branch + 1]):
        weight = table.weight[table.cells[s]]
        p = ZERO64
        while weight >> p:
            bits[p] += (weight >> p) & ONE64
            p += 1
        planes = max(planes, p)
    plane = np.zeros(planes + 1, np.int64)
    for p in range(planes):
        plane[p + 1] = plane[p] + ((bits[p] + 63) >> 6)
    return plane


@inner
def fill_bitsets(table, branch, partners, plane):
    """The cells of a branch as bits, a bitset for every partner."""
    place_of = np.full(table.number.shape[0], NONE64)
    for k in range(partners.shape[0]):
        place_of[partners[k]] = k
    planes = plane.shape[0] - 1
    bitsets = np.zeros((partners.shape[0], plane[planes]), np.uint64)
    place = np.empty(planes, np.int64)
    for p in range(planes):
        place[p] = plane[p] << 6
    for s in range(table.start[branch], table.start[branch + 1]):
        t = table.cells[s]
        for p in range(planes):
            if (table.weight[t] >> p) & ONE64:
                word, bit = place[p] >> 6, ONE << np.uint64(place[p] & 63)
                place[p] += 1
                c = table.item.shape[1] - 1
                while table.item[t, c] > branch:
                    k = place_of[table.item[t, c]]
                    if k >= 0:
                        bitsets[k, word] |= bit
                    c -= 1
    return bitsets


@inner
def enlarge(values, used, more):
    """An array with room for more values, which begins with the used ones."""
    if used + more <= values.shape[0]:
        return values
    larger = np.empty(2 * (used + more), values.dtype)
    for i in range(used):
        larger[i] = values[i]
    return larger


@inner
def enlarge_sets(found, sets, members, more):
    """The found sets, with room for one more set of ``more`` items."""
    return FoundSets(
        enlarge(found.members, members, more), enlarge(found.size, sets, ONE64), enlarge(found.records, sets, ONE64)
    )


@inner
def add_item(items, depth, item, members, used):
    """Add an item to the set at a depth, in ascending order, and write the longer set after the used members."""
    at = ZERO64
    while at <= depth and items[depth, at] < item:
        items[depth + 1, at] = items[depth, at]
        at += 1
    items[depth + 1, at] = item
    while at <= depth:
        items[depth + 1, at + 1] = items[depth, at]
        at += 1
    for i in range(depth + 2):
        members[used + i] = items[depth + 1, i]


@inner
def extend_path(table, partners, bitsets, plane, path, depth, k, least):
    """Find the partners that can extend the set at a depth after its partner k was added; return their number."""
    one = path.partner[depth, k]
    bits = path.bits[depth + 1]
    if depth == 0:  # all cells of the branch have its item
        for w in range(bits.shape[0]):
            bits[w] = bitsets[one, w]
    else:
        for w in range(bits.shape[0]):
            bits[w] = path.bits[depth, w] & bitsets[one, w]
    column = table.column[partners[one]]
    n = ZERO64
    for j in range(k + 1, path.length[depth]):
        other = path.partner[depth, j]
        if table.column[partners[other]] != column:  # a record has one value in a column
            common = count_common(bits, bitsets[other], plane)
            if common >= least:
                path.partner[depth + 1, n], path.records[depth + 1, n] = other, common
                n += 1
    return n


@inner
def search_branch(table, partners, bitsets, plane, path, found, state, limits):
    """Search a branch from its state (depth, number of sets, number of their items) until the end, or until there is no room.

    The search ends at depth -1. The found sets are written to arrays that do not change here: it takes long to exchange arrays
    inside the loop.
    """
    depth, sets, used = state[0], state[1], state[2]
    while depth >= 0 and sets < found.size.shape[0] and used + depth + 2 <= found.members.shape[0]:
        k = path.next[depth]
        if k == path.length[depth]:
            depth -= 1
            continue
        path.next[depth] += 1
        size = depth + 2
        item = table.number[partners[path.partner[depth, k]]]
        add_item(path.items, depth, item, found.members, used)
        found.size[sets], found.records[sets] = size, path.records[depth, k]
        sets += 1
        used += size
        if sets > limits.most or (ONE64 << size) - 1 > limits.most:
            depth = NONE64
        elif size < limits.largest and k + 1 < path.length[depth]:
            n = extend_path(table, partners, bitsets, plane, path, depth, k, limits.least)
            if n > 0:
                depth += 1
                path.next[depth], path.length[depth] = 0, n
    state[0], state[1], state[2] = depth, sets, used


@entry
def mine_branch(table, branch, limits):
    """The frequent sets whose rarest item is that of a branch, the item with rank ``branch``; see `SearchLimits`."""
    partners, records = find_partners(table, branch, limits.least)
    if limits.largest < 2:
        partners = partners[:0]
    plane = arrange_planes(table, branch)
    bitsets = fill_bitsets(table, branch, partners, plane)
    m, depths = partners.shape[0], limits.largest
    path = Path(
        np.empty((depths, depths), np.int32),
        np.empty((depths, bitsets.shape[1]), np.uint64),
        np.empty((depths, m), np.int64),
        np.empty((depths, m), np.int64),
        np.zeros(depths, np.int64),
        np.zeros(depths, np.int64),
    )
    found = FoundSets(np.empty(4 * FEW, np.int32), np.empty(FEW, np.int32), np.empty(FEW, np.int64))
    path.items[0, 0] = table.number[branch]
    found.members[0], found.size[0], found.records[0] = table.number[branch], 1, table.records[branch]
    for k in range(m):
        path.partner[0, k], path.records[0, k] = k, records[partners[k]]
    path.length[0] = m
    state = np.array([0, 1, 1])
    while True:
        search_branch(table, partners, bitsets, plane, path, found, state, limits)
        if state[0] < 0:
            break
        found = enlarge_sets(found, state[1], state[2], depths)
    return FoundSets(found.members[: state[2]].copy(), found.size[: state[1]].copy(), found.records[: state[1]].copy())


@entry
def pack_members(start, members, order, first, items, bits):
    """A key for every set, in a given order, from the items at the places ``first`` to ``first + items`` of the set."""
    keys = np.zeros(order.shape[0], np.uint64)
    for s in range(order.shape[0]):
        place, end = start[order[s]] + first, start[order[s] + 1]
        for p in range(place, place + items):
            keys[s] <<= np.uint64(bits)
            if p < end:
                keys[s] |= np.uint64(members[p] + 1)
    return keys


@entry
def take_members(start, members, order):
    """The items of the sets in another order."""
    taken = np.empty(members.shape[0], members.dtype)
    used = ZERO64
    for s in order:
        for p in range(start[s], start[s + 1]):
            taken[used] = members[p]
            used += 1
    return taken
