"""Group rows by one node of a lattice of levels, and test the groups.

A node has one level per attribute. The words of a level are one number per code; equal values of the level have equal words.
The key of a row is the sum of its words. Where the words are places of a number, equal keys mean equal values. Otherwise two
different values can get one key by chance. Then their rows are one group, which is still tested as a whole.

``levels`` are `interface.LatticeLevels`, ``table`` is `interface.LatticeTable`, ``scratch`` are the arrays of `allocate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.boxes import weighted_loss, widen_to_label
from shoal.kernels.bundle import Bundle
from shoal.kernels.compiler import entry, inner
from shoal.kernels.limits import all_values_hold, holds

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # the odd number next to 2^64 / golden ratio: spreads keys over the slots
LEAST_SLOTS = 16


@dataclass(frozen=True, eq=False)
class Scratch(Bundle):
    """Working memory of one thread: hash slots with their time stamps, the groups, and the group of every row.

    ``begin`` is by attribute.
    """

    slot: NDArray[Any]
    stamp: NDArray[Any]
    key: NDArray[Any]
    size: NDArray[Any]
    loss: NDArray[Any]
    group: NDArray[Any]
    passes: NDArray[Any]
    row: NDArray[Any]
    number: NDArray[Any]
    begin: NDArray[Any]
    clock: NDArray[Any]


def allocate(rows: int, attributes: int) -> Scratch:
    """Working memory for a number of rows and of attributes."""
    slots = LEAST_SLOTS
    while slots < 2 * rows:
        slots *= 2
    return Scratch(
        np.zeros(slots, np.int32),
        np.zeros(slots, np.int32),
        np.zeros(rows, np.uint64),
        np.zeros(rows, np.int64),
        np.zeros(rows),
        np.zeros(rows, np.int32),
        np.zeros(rows, np.bool_),
        np.zeros(rows, np.int32),
        np.zeros(rows, np.int64),
        np.zeros(attributes, np.int64),
        np.zeros(1, np.int32),
    )


@inner
def group_rows(node, rows, levels, table, scratch):
    """Number the groups of the given rows, in the order of their first rows; return the number of groups."""
    m, begin, words = node.shape[0], scratch.begin, levels.word
    for j in range(m):
        begin[j] = levels.begin[levels.first[j] + node[j]]
    slot, stamp, key, size = scratch.slot, scratch.stamp, scratch.key, scratch.size
    group, first_row, codes, records = scratch.group, scratch.row, table.codes, table.records
    scratch.clock[0] += 1
    now = scratch.clock[0]
    used = LEAST_SLOTS
    shift = 60
    while used < 2 * rows.shape[0]:
        used *= 2
        shift -= 1
    mask, right = used - 1, np.uint64(shift)
    groups = 0
    for i in range(rows.shape[0]):
        u = rows[i]
        word = np.uint64(0)
        for j in range(m):
            word += words[begin[j] + codes[u, j]]
        at = np.int64((word * SPREAD) >> right) & mask
        while stamp[at] == now and key[slot[at]] != word:
            at = (at + 1) & mask
        if stamp[at] != now:
            stamp[at], slot[at] = now, groups
            key[groups], size[groups], first_row[groups] = word, 0, u
            groups += 1
        g = slot[at]
        group[i] = g
        size[g] += records[u]
    return groups


@inner
def test_groups(groups, rows, table, scratch):
    """Test every group against the requirements."""
    size, passes, cells, least = scratch.size, scratch.passes, table.cells, table.least
    for g in range(groups):
        passes[g] = size[g] >= least
    if cells.width == 0:
        return
    number, group = scratch.number, scratch.group
    start, sensitive, offset, records = cells.start, cells.sensitive, cells.offset, cells.records
    enough = 0
    for g in range(groups):
        number[g] = enough if passes[g] else -1
        enough += passes[g]
    histogram = np.zeros((enough, cells.width), np.int64)
    for i in range(rows.shape[0]):
        g = number[group[i]]
        if g >= 0:
            for c in range(start[rows[i]], start[rows[i] + 1]):
                for s in range(offset.shape[0]):
                    histogram[g, offset[s] + sensitive[c, s]] += records[c]
    for g in range(groups):
        if passes[g]:
            passes[g] = all_values_hold(size[g], histogram[number[g]], table.limits)


@inner
def rate_groups(node, groups, levels, table, scratch):
    """Compute the loss of every passing group."""
    passes, row, loss, begin = scratch.passes, scratch.row, scratch.loss, scratch.begin
    codes, level_loss = table.codes, levels.loss
    for j in range(node.shape[0]):
        begin[j] = levels.begin[levels.first[j] + node[j]]
    for g in range(groups):
        if passes[g]:
            lost = 0.0
            for j in range(node.shape[0]):
                lost += level_loss[begin[j] + codes[row[g], j]]
            loss[g] = lost


@entry
def evaluate_nodes(nodes, rows, levels, table, blocked, scratch, found):
    """For every node: the records of groups that pass, their loss summed over the records, and the least loss of a group.

    Groups that `block_groups` refuses do not count; ``blocked`` is None if boxes may overlap.
    """
    passes, size, loss = scratch.passes, scratch.size, scratch.loss
    for p in range(nodes.shape[0]):
        groups = group_rows(nodes[p], rows, levels, table, scratch)
        test_groups(groups, rows, table, scratch)
        if blocked is not None:
            block_groups(nodes[p], groups, levels, table, blocked, scratch)
        rate_groups(nodes[p], groups, levels, table, scratch)
        records, total, least = 0, 0.0, np.inf
        for g in range(groups):
            if passes[g]:
                records += size[g]
                total += size[g] * loss[g]
                least = min(least, loss[g])
        found[p, 0], found[p, 1], found[p, 2] = records, total, least


@inner
def block_groups(node, groups, levels, table, blocked, scratch):
    """Refuse the passing groups whose boxes overlap a box that was published at another node.

    Two boxes overlap if their values are equal at the higher of their two levels, in every attribute: the values of all levels
    are nested. ``blocked.node[v]`` is a node that published the boxes of the rows ``blocked.row[start[v] : start[v + 1]]``.
    """
    m, passes, row, join = node.shape[0], scratch.passes, scratch.row, scratch.begin
    for v in range(blocked.node.shape[0]):
        for j in range(m):
            join[j] = levels.begin[levels.first[j] + max(node[j], blocked.node[v, j])]
        first, last = blocked.start[v], blocked.start[v + 1]
        keys = np.empty(last - first, np.uint64)
        for p in range(first, last):
            word = np.uint64(0)
            for j in range(m):
                word += levels.word[join[j] + table.codes[blocked.row[p], j]]
            keys[p - first] = word
        keys = np.sort(keys)
        for g in range(groups):
            if passes[g]:
                word = np.uint64(0)
                for j in range(m):
                    word += levels.word[join[j] + table.codes[row[g], j]]
                at = np.searchsorted(keys, word)
                passes[g] = at == keys.shape[0] or keys[at] != word


@entry
def publish_node(node, rows, levels, table, blocked, most_loss, scratch, number, out):
    """Assign the rows of passing groups, up to a loss, to groups from ``number`` on, other rows to -1; return their number."""
    groups = group_rows(node, rows, levels, table, scratch)
    test_groups(groups, rows, table, scratch)
    if blocked is not None:
        block_groups(node, groups, levels, table, blocked, scratch)
    rate_groups(node, groups, levels, table, scratch)
    passes, loss, group, named = scratch.passes, scratch.loss, scratch.group, scratch.number
    published = 0
    for g in range(groups):
        released = passes[g] and loss[g] <= most_loss
        named[g] = number + published if released else -1
        published += released
    for i in range(rows.shape[0]):
        out[rows[i]] = named[group[i]]
    return published


@inner
def widen_group(g, lo, hi, label_lo, label_hi, loss_tables, first_code):
    """Set the codes that the label of a group covers."""
    for j in range(lo.shape[1]):
        label_lo[g, j], label_hi[g, j] = widen_to_label(j, lo[g, j], hi[g, j], loss_tables.ints, first_code)


@inner
def find_overlapping(g, label_lo, label_hi, size):
    """The first other group whose label overlaps the label of a group, or -1."""
    for other in range(size.shape[0]):
        if other == g or size[other] == 0:
            continue
        overlaps = True
        for j in range(label_lo.shape[1]):
            if label_lo[other, j] > label_hi[g, j] or label_hi[other, j] < label_lo[g, j]:
                overlaps = False
                break
        if overlaps:
            return other
    return -1


@inner
def join_groups(g, other, lo, hi, size, histogram, parent):
    """Add a group to group ``g``."""
    for j in range(lo.shape[1]):
        lo[g, j], hi[g, j] = min(lo[g, j], lo[other, j]), max(hi[g, j], hi[other, j])
    for c in range(histogram.shape[1]):
        histogram[g, c] += histogram[other, c]
    size[g] += size[other]
    size[other] = 0
    parent[other] = g


@entry
def merge_overlapping(lo, hi, label_lo, label_hi, size, histogram, limits, loss_tables, first_code, parent):
    """Merge failing groups at the least loss, and with them all groups whose labels would overlap.

    ``parent`` gets for every group the group that it was merged into, itself if none. The arrays of the groups are changed.
    """
    groups, m = lo.shape[0], lo.shape[1]
    loss = np.zeros(groups)
    for g in range(groups):
        parent[g] = g
        widen_group(g, lo, hi, label_lo, label_hi, loss_tables, first_code)
        for j in range(m):
            loss[g] += weighted_loss(j, lo[g, j], hi[g, j], loss_tables)
    for g in range(groups):
        while size[g] > 0 and not holds(size[g], histogram[g], limits):
            best, partner = np.inf, -1
            for other in range(groups):
                if other == g or size[other] == 0:
                    continue
                union = 0.0
                for j in range(m):
                    union += weighted_loss(j, min(lo[g, j], lo[other, j]), max(hi[g, j], hi[other, j]), loss_tables)
                increase = (size[g] + size[other]) * union - size[g] * loss[g] - size[other] * loss[other]
                if increase < best:
                    best, partner = increase, other
            if partner < 0:
                break
            while partner >= 0:
                join_groups(g, partner, lo, hi, size, histogram, parent)
                widen_group(g, lo, hi, label_lo, label_hi, loss_tables, first_code)
                partner = find_overlapping(g, label_lo, label_hi, size)
            loss[g] = 0.0
            for j in range(m):
                loss[g] += weighted_loss(j, lo[g, j], hi[g, j], loss_tables)
    for g in range(groups):
        root = g
        while parent[root] != root:
            root = parent[root]
        parent[g] = root
