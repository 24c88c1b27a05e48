"""Bottom-up local recoding (Xu, Wang, Pei, Wang, Shi, Fu, KDD 2006): merge groups until all meet the requirement.

The smallest failing group merges with the group for which the total loss grows least. The loss of a group is records x D; D is
the weighted loss of its box, summed over the attributes. A tree of hulls excludes most groups from the search: D of a union is
at least D of the group extended by the nearest codes of a hull, and at least D of the partner. The search is exact.

``table`` is `interface.MergeTable`. A group has the smallest rank of its combinations; ties go to the smaller rank.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.boxes import interval_loss, lowest_node, weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.halving import allocate_split, count_values, number_by_rank, split_segment
from shoal.kernels.interface import (
    ALIVE,
    DONE,
    FLOATS,
    HEAD,
    KIND,
    LARGEST_CODE,
    LEAST_IMPROVEMENT,
    LOW,
    NODES,
    NONE64,
    ONE64,
    QUEUED,
    SIZE,
    TREE,
    ZERO64,
)
from shoal.kernels.limits import holds, shortfall
from shoal.kernels.neighbours import partition_places, push, sift_down
from shoal.kernels.order import sort_items

LEAF = 8  # nodes with up to this many groups are leaves
ROUNDING = 1e-14  # relative to the loss of all records; above the rounding error of an increase


class MergedGroups(NamedTuple):
    """The groups, numbered by their first combinations; a group that has merged into another one is not alive.

    By group: box (smallest codes, then largest codes), weighted loss by attribute (``terms``), records, D, rank, first and
    last combination, whether it is alive, whether it fails. By combination: the next one of its group (-1: none).
    """

    box: NDArray[Any]
    terms: NDArray[Any]
    records: NDArray[Any]
    loss: NDArray[Any]
    rank: NDArray[Any]
    head: NDArray[Any]
    tail: NDArray[Any]
    following: NDArray[Any]
    alive: NDArray[Any]
    failing: NDArray[Any]


class HullTree(NamedTuple):
    """A tree over the groups: ``order`` has the groups in tree order, one per place.

    By node: hull, first and last place (``span``), left child (the right child follows; -1: a leaf), parent, groups alive, the
    least records, the least and the largest D. By group: its leaf.
    """

    order: NDArray[Any]
    hull: NDArray[Any]
    span: NDArray[Any]
    child: NDArray[Any]
    parent: NDArray[Any]
    remaining: NDArray[Any]
    least_records: NDArray[Any]
    least_loss: NDArray[Any]
    most_loss: NDArray[Any]
    leaf: NDArray[Any]


class SearchBox(NamedTuple):
    """The box of the group that is merged.

    By attribute: the smallest and largest code, the weighted loss, the start of its table of terms. ``term`` has all tables:
    the weighted loss of the box extended by a code.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    loss: NDArray[Any]
    term_start: NDArray[Any]
    term: NDArray[Any]


class SearchScratch(NamedTuple):
    """Work arrays of `find_partner`: a stack of nodes, the bound of each, the histogram of the group, another one to try."""

    stack: NDArray[Any]
    bounds: NDArray[Any]
    own: NDArray[Any]
    trial: NDArray[Any]


class GroupQueue(NamedTuple):
    """The failing groups, the smallest first: records, tag (rank and number of the group), unused."""

    key: NDArray[Any]
    tag: NDArray[Any]
    stamp: NDArray[Any]


@entry
def start_groups(table, state):
    """Every combination as a group, and the queue of those that fail; ``state`` has the ALIVE and QUEUED groups."""
    n, m = table.rows.shape
    groups = MergedGroups(
        np.empty((n, 2 * m), np.int32),
        np.zeros((n, m), np.float64),
        table.records.copy(),
        np.zeros(n, np.float64),
        table.rank.copy(),
        np.arange(n).astype(np.int32),
        np.arange(n).astype(np.int32),
        np.full(n, -1, np.int32),
        np.ones(n, np.bool_),
        np.zeros(n, np.bool_),
    )
    queue = GroupQueue(np.empty(2 * n, np.float64), np.empty(2 * n, np.int64), np.empty(2 * n, np.int32))
    histogram = np.zeros(table.cells.width, np.int64)
    for u in range(n):
        for j in range(m):
            groups.box[u, j] = groups.box[u, m + j] = table.rows[u, j]
        groups.loss[u] = measure_box(u, groups, table)
        histogram[:] = 0
        count_values(np.int32(u), ONE64, table.cells, histogram)
        groups.failing[u] = not holds(table.records[u], histogram, table.limits)
        if groups.failing[u]:
            enqueue(u, groups, queue, state)
    state[ALIVE] = n
    return groups, queue


@inner
def enqueue(g, groups, queue, state):
    """Add a failing group to the queue."""
    tag = (np.int64(groups.rank[g]) << 32) | np.int64(g)
    push(queue.key, queue.tag, queue.stamp, 0, state[QUEUED], np.float64(groups.records[g]), tag, np.int32(0))
    state[QUEUED] += 1


@inner
def take_smallest(groups, queue, state):
    """Remove the smallest failing group from the queue; -1 if there is none. Groups that have changed are skipped."""
    key, tag, stamp = queue.key, queue.tag, queue.stamp
    while state[QUEUED] > 0:
        records, g, rank = np.int64(key[0]), np.int64(tag[0] & LOW), tag[0] >> 32
        state[QUEUED] -= 1
        last = state[QUEUED]
        key[0], tag[0], stamp[0] = key[last], tag[last], stamp[last]
        sift_down(key, tag, stamp, 0, last)
        if groups.alive[g] and groups.failing[g] and groups.records[g] == records and groups.rank[g] == rank:
            return g
    return np.int64(-1)


@inner
def refresh_node(node, tree, groups):
    """Compute the figures of a node from its groups or children."""
    hull, child = tree.hull, tree.child
    width = hull.shape[1]
    m = width // 2
    remaining, records, least, most = 0, np.int64(2**62), np.inf, 0.0
    for j in range(m):
        hull[node, j], hull[node, m + j] = LARGEST_CODE, -1
    is_leaf = child[node] < 0
    first, last = (tree.span[node, 0], tree.span[node, 1]) if is_leaf else (child[node], child[node] + 2)
    for i in range(first, last):
        if is_leaf:
            g = tree.order[i]
            if not groups.alive[g]:
                continue
            remaining += 1
            records = min(records, groups.records[g])
            least, most = min(least, groups.loss[g]), max(most, groups.loss[g])
            for j in range(m):
                hull[node, j] = min(hull[node, j], groups.box[g, j])
                hull[node, m + j] = max(hull[node, m + j], groups.box[g, m + j])
        elif tree.remaining[i] > 0:
            remaining += tree.remaining[i]
            records = min(records, tree.least_records[i])
            least, most = min(least, tree.least_loss[i]), max(most, tree.most_loss[i])
            for j in range(m):
                hull[node, j] = min(hull[node, j], hull[i, j])
                hull[node, m + j] = max(hull[node, m + j], hull[i, m + j])
    tree.remaining[node], tree.least_records[node] = remaining, records
    tree.least_loss[node], tree.most_loss[node] = least, most


@inner
def refresh_path(g, tree, groups):
    """Compute the figures of all nodes above a group that has changed."""
    node = np.int64(tree.leaf[g])
    while node >= 0:
        refresh_node(node, tree, groups)
        node = tree.parent[node]


@entry
def build_tree(groups, loss_tables):
    """Build the tree over the groups that are alive, cut at medians of their smallest codes."""
    m = groups.box.shape[1] // 2
    order = np.flatnonzero(groups.alive).astype(np.int32)
    n = order.shape[0]
    room = 2 * n + 1
    hull, span = np.empty((room, 2 * m), np.int32), np.empty((room, 2), np.int32)
    child, parent = np.full(room, -1, np.int32), np.full(room, -1, np.int32)
    leaf = np.full(groups.alive.shape[0], -1, np.int32)
    keys, spare = np.empty(n, np.int32), np.empty(n, np.int32)
    span[0, 0], span[0, 1] = 0, n
    nodes, at = 1, 0
    low, high = np.empty(m, np.int32), np.empty(m, np.int32)
    while at < nodes:
        begin, end = span[at]
        if end - begin <= LEAF:
            for p in range(begin, end):
                leaf[order[p]] = at
            at += 1
            continue
        low[:], high[:] = LARGEST_CODE, -1
        for p in range(begin, end):
            for j in range(m):
                low[j], high[j] = min(low[j], groups.box[order[p], j]), max(high[j], groups.box[order[p], j])
        widest, a = 0.0, NONE64
        for j in range(m):
            loss = weighted_loss(j, low[j], high[j], loss_tables)
            if loss > widest and low[j] < high[j]:
                widest, a = loss, j
        middle = (begin + end) // 2
        if a >= 0:
            middle = partition_places(groups.box, order, begin, end, a, low[a], high[a], keys, spare)
        child[at] = nodes
        parent[nodes] = parent[nodes + 1] = at
        span[nodes, 0], span[nodes, 1] = begin, middle
        span[nodes + 1, 0], span[nodes + 1, 1] = middle, end
        nodes += 2
        at += 1
    tree = HullTree(
        order,
        hull[:nodes].copy(),
        span[:nodes].copy(),
        child[:nodes].copy(),
        parent[:nodes].copy(),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.float64),
        np.zeros(nodes, np.float64),
        leaf,
    )
    for node in range(nodes - 1, -1, -1):
        refresh_node(node, tree, groups)
    return tree


@inner
def allocate_search_box(loss_tables):
    """Allocate the box of a search."""
    m = loss_tables.weight.shape[0]
    term_start = np.zeros(m, np.int64)
    length = 0
    for j in range(m):
        term_start[j] = length
        length += loss_tables.ints[HEAD * j + SIZE]
    low, high, loss = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.float64)
    return SearchBox(low, high, loss, term_start, np.empty(length, np.float64))


@inner
def set_box(g, groups, search, loss_tables):
    """Set the box of the search to the box of a group, and compute the terms of all codes."""
    weight, ints, floats = loss_tables.weight, loss_tables.ints, loss_tables.floats
    term = search.term
    m = search.low.shape[0]
    for j in range(m):
        low, high, own, begin = groups.box[g, j], groups.box[g, m + j], groups.terms[g, j], search.term_start[j]
        search.low[j], search.high[j], search.loss[j] = low, high, own
        size = ints[HEAD * j + SIZE]
        if ints[HEAD * j + KIND] != TREE:
            for x in range(size):
                term[begin + x] = weight[j] * interval_loss(j, min(low, x), max(high, x), ints, floats)
            continue
        nodes, shares = ints[HEAD * j + NODES], ints[HEAD * j + FLOATS]
        for x in range(low):
            term[begin + x] = weight[j] * floats[shares + lowest_node(j, x, high, ints)]
        for x in range(low, high + 1):
            term[begin + x] = own
        node = lowest_node(j, low, high, ints)
        for x in range(high + 1, size):  # ancestors only: the nodes above all of these codes are on one path
            while ints[nodes + 2 * node] < x:
                node = ints[nodes + 2 * node + 1]
            term[begin + x] = weight[j] * floats[shares + node]


@inner
def union_loss(g, box, terms, low, high, term_start, term):
    """D of the union of the search box and the box of a group."""
    total = 0.0
    m = low.shape[0]
    for j in range(m):
        first, last = box[g, j], box[g, m + j]
        if first >= low[j]:
            total += term[term_start[j] + last]
        elif last <= high[j]:
            total += term[term_start[j] + first]
        else:
            total += terms[g, j]
    return total


@inner
def extended_loss(node, hull, low, high, loss, term_start, term):
    """D of the search box extended by the nearest codes of a hull."""
    total = 0.0
    m = low.shape[0]
    for j in range(m):
        first, last = hull[node, j], hull[node, m + j]
        if last < low[j]:
            total += term[term_start[j] + last]
        elif first > high[j]:
            total += term[term_start[j] + first]
        else:
            total += loss[j]
    return total


@inner
def count_group(g, groups, cells, histogram):
    """Add the sensitive values of a group to a histogram."""
    u = groups.head[g]
    while u >= 0:
        count_values(u, ONE64, cells, histogram)
        u = groups.following[u]


@inner
def may_merge(x, g, lacks, own, trial, groups, table):
    """Whether failing group ``x`` may merge with ``g``.

    The union passes; or both groups fail, and ``x`` is too small or the union is closer to passing than ``x``. ``own`` is the
    histogram of ``x``, ``lacks`` its shortfall. (By size alone every union is closer to passing.)
    """
    records = groups.records[x] + groups.records[g]
    if groups.failing[g] and groups.records[x] < table.least:
        return True
    for c in range(own.shape[0]):
        trial[c] = own[c]
    count_group(g, groups, table.cells, trial)
    if holds(records, trial, table.limits):
        return True
    return groups.failing[g] and shortfall(records, trial, table.limits) < lacks - LEAST_IMPROVEMENT


@inner
def find_partner(x, groups, tree, search, scratch, margin, table):
    """The group for which the total loss grows least when ``x`` merges with it; -1 if ``x`` may merge with none.

    The functions of the inner loop take arrays one by one: passing named tuples takes many times as long.
    """
    low, high, own_loss, term_start, term = search.low, search.high, search.loss, search.term_start, search.term
    box, terms, group_records, group_loss, group_rank = (
        groups.box,
        groups.terms,
        groups.records,
        groups.loss,
        groups.rank,
    )
    hull, child, remaining, order, alive = tree.hull, tree.child, tree.remaining, tree.order, groups.alive
    stack, bounds, own, trial = scratch.stack, scratch.bounds, scratch.own, scratch.trial
    records, loss = groups.records[x], groups.loss[x]
    best, found, rank, lacks = np.inf, np.int64(-1), LARGEST_CODE, 0.0
    if own.shape[0] > 0:
        own[:] = 0
        count_group(x, groups, table.cells, own)
        lacks = shortfall(records, own, table.limits)
    stack[0], bounds[0] = 0, 0.0
    height = 1
    while height > 0:
        height -= 1
        node = stack[height]
        if bounds[height] > best + margin:
            continue
        if child[node] < 0:
            for p in range(tree.span[node, 0], tree.span[node, 1]):
                g = np.int64(order[p])
                if g == x or not alive[g]:
                    continue
                total = union_loss(g, box, terms, low, high, term_start, term)
                increase = (records + group_records[g]) * total - records * loss - group_records[g] * group_loss[g]
                if (increase < best or (increase == best and group_rank[g] < rank)) and (
                    trial.shape[0] == 0 or may_merge(x, g, lacks, own, trial, groups, table)
                ):
                    best, found, rank = increase, g, group_rank[g]
            continue
        last = height
        for half in range(child[node], child[node] + 2):
            if remaining[half] == 0:
                continue
            least = extended_loss(half, hull, low, high, own_loss, term_start, term)
            bound = records * (max(least, tree.least_loss[half]) - loss)
            bound += tree.least_records[half] * max(0.0, least - tree.most_loss[half])
            if bound <= best + margin:
                stack[height], bounds[height] = half, bound
                height += 1
        if height == last + 2 and bounds[last] < bounds[last + 1]:  # the half with the smaller bound is visited first
            stack[last], stack[last + 1] = stack[last + 1], stack[last]
            bounds[last], bounds[last + 1] = bounds[last + 1], bounds[last]
    return found


@inner
def set_group(g, order, begin, end, groups, table):
    """Set a group to the combinations of a segment, which meet the requirement."""
    m = table.rows.shape[1]
    groups.box[g, :m], groups.box[g, m:] = LARGEST_CODE, -1
    groups.records[g] = 0
    for p in range(begin, end):
        u = order[p]
        groups.records[g] += table.records[u]
        groups.following[u] = order[p + 1] if p + 1 < end else -1
        for j in range(m):
            groups.box[g, j] = min(groups.box[g, j], table.rows[u, j])
            groups.box[g, m + j] = max(groups.box[g, m + j], table.rows[u, j])
    groups.head[g], groups.tail[g], groups.rank[g] = order[begin], order[end - 1], table.rank[order[begin]]
    groups.alive[g], groups.failing[g] = True, False
    groups.loss[g] = measure_box(g, groups, table)


@inner
def measure_box(g, groups, table):
    """D of a group, and its terms."""
    m = table.rows.shape[1]
    total = 0.0
    for j in range(m):
        groups.terms[g, j] = weighted_loss(j, groups.box[g, j], groups.box[g, m + j], table.loss_tables)
        total += groups.terms[g, j]
    return total


@inner
def join_groups(x, g, groups, table):
    """Merge group ``x`` into ``g``."""
    m = table.rows.shape[1]
    for j in range(m):
        groups.box[g, j] = min(groups.box[g, j], groups.box[x, j])
        groups.box[g, m + j] = max(groups.box[g, m + j], groups.box[x, m + j])
    groups.following[groups.tail[g]] = groups.head[x]
    groups.tail[g] = groups.tail[x]
    groups.records[g] += groups.records[x]
    groups.rank[g] = min(groups.rank[g], groups.rank[x])
    groups.loss[g] = measure_box(g, groups, table)
    groups.alive[x] = False


@inner
def split_group(g, spare, groups, members, scratch, table):
    """Split a group if that lowers its loss; the second half becomes the group ``spare``. Return whether it was split."""
    n = 0
    u = groups.head[g]
    while u >= 0:
        members[n] = u
        n += 1
        u = groups.following[u]
    sort_items(members, n, table.rank)
    middle = split_segment(members, ZERO64, n, scratch, table)
    if middle == n:
        return False
    before, records, rank = groups.records[g] * groups.loss[g], groups.records[g], groups.rank[g]
    set_group(g, members, ZERO64, middle, groups, table)
    set_group(spare, members, middle, n, groups, table)
    after = groups.records[g] * groups.loss[g] + groups.records[spare] * groups.loss[spare]
    if after < before:
        return True
    groups.following[members[middle - 1]] = members[middle]  # restore the union
    m = table.rows.shape[1]
    for j in range(m):
        groups.box[g, j] = min(groups.box[g, j], groups.box[spare, j])
        groups.box[g, m + j] = max(groups.box[g, m + j], groups.box[spare, m + j])
    groups.tail[g], groups.records[g], groups.rank[g] = members[n - 1], records, rank
    groups.loss[g] = measure_box(g, groups, table)
    groups.alive[spare] = False
    return False


@entry
def merge_groups(state, most, indexed, table, groups, queue, tree):
    """Merge up to ``most`` failing groups. Stop when fewer than half of the ``indexed`` groups of the tree are alive.

    A failing group that may merge with none is left as it is.
    """
    cells, nodes = table.cells, tree.child.shape[0]
    search, halves = allocate_search_box(table.loss_tables), allocate_split(table)
    own, trial = np.zeros(cells.width, np.int64), np.zeros(cells.width, np.int64)
    scratch = SearchScratch(np.empty(nodes + 1, np.int32), np.empty(nodes + 1, np.float64), own, trial)
    members = np.empty(table.rows.shape[0], np.int32)
    margin = ROUNDING * table.records.sum() * table.loss_tables.weight.sum()
    for _ in range(most):
        if 2 * state[ALIVE] < indexed:
            return
        x = take_smallest(groups, queue, state)
        if x < 0:
            state[DONE] = 1
            return
        set_box(x, groups, search, table.loss_tables)
        g = find_partner(x, groups, tree, search, scratch, margin, table)
        if g < 0:
            continue
        join_groups(x, g, groups, table)
        own[:] = 0
        if own.shape[0] > 0:
            count_group(g, groups, cells, own)
        groups.failing[g] = not holds(groups.records[g], own, table.limits)
        state[ALIVE] -= 1
        if groups.failing[g]:
            enqueue(g, groups, queue, state)
        elif groups.records[g] >= 2 * table.least and split_group(g, x, groups, members, halves, table):
            state[ALIVE] += 1
        refresh_path(x, tree, groups)
        refresh_path(g, tree, groups)


@entry
def number_groups(groups, by_rank):
    """The group of every combination; see `halving.number_by_rank`."""
    owner = np.empty(groups.alive.shape[0], np.int32)
    for g in range(groups.alive.shape[0]):
        if groups.alive[g]:
            u = groups.head[g]
            while u >= 0:
                owner[u] = g
                u = groups.following[u]
    return number_by_rank(owner, by_rank)
