"""Bottom-up local recoding (Xu, Wang, Pei, Wang, Shi, Fu, KDD 2006): merge groups until all meet the requirement.

The smallest failing group merges with the group for which the total loss grows least. The loss of a group is records x D; D is
the weighted loss of its box, summed over the attributes. A tree of hulls excludes most groups from the search: D of a union is
at least D of the group extended by the nearest codes of a hull, and at least D of the partner. The search is exact.

``table`` is `interface.MergeTable`, ``groups`` are `interface.MergedGroups`, ``tree`` is `interface.HullTree`, ``search``
`interface.ClusterBox` with tables for all attributes, and ``cells`` are `interface.CombinationCells`, or None if the
requirements depend on the size of groups alone. A group has the smallest rank of its combinations; ties go to the smaller rank.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.boxes import interval_loss, lowest_node, weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.halving import count_values, split_segment
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
NO_STAMP = np.int32(0)


@entry
def start_groups(table, groups, cells, state):
    """Measure every combination as a group, and queue those that fail; ``state`` has the ALIVE and QUEUED groups."""
    for g in range(table.rows.shape[0]):
        groups.loss[g] = measure_box(g, groups, table)
        groups.failing[g] = fails(g, groups, table, cells)
        if groups.failing[g]:
            enqueue(g, groups, state)
    state[ALIVE] = table.rows.shape[0]


@inner
def fails(g, groups, table, cells):
    """Whether a group fails the requirement."""
    if cells is None:
        return groups.records[g] < table.least
    else:  # noqa: RET505 - the compiler leaves out one of the two
        own = groups.own
        for c in range(own.shape[0]):
            own[c] = 0
        count_group(g, groups, cells, own)
        return not holds(groups.records[g], own, table.limits)


@inner
def enqueue(g, groups, state):
    """Add a failing group to the queue."""
    tag = (np.int64(groups.rank[g]) << 32) | np.int64(g)
    records = np.float64(groups.records[g])
    push(groups.key, groups.tag, groups.stamp, ZERO64, state[QUEUED], records, tag, NO_STAMP)
    state[QUEUED] += 1


@inner
def take_smallest(groups, state):
    """Remove the smallest failing group from the queue; -1 if there is none. Groups that have changed are skipped."""
    key, tag, stamp = groups.key, groups.tag, groups.stamp
    while state[QUEUED] > 0:
        records, g, rank = np.int64(key[0]), np.int64(tag[0] & LOW), tag[0] >> 32
        state[QUEUED] -= 1
        last = state[QUEUED]
        key[0], tag[0], stamp[0] = key[last], tag[last], stamp[last]
        sift_down(key, tag, stamp, ZERO64, last)
        if groups.alive[g] and groups.failing[g] and groups.records[g] == records and groups.rank[g] == rank:
            return g
    return NONE64


@inner
def refresh_node(node, tree, groups):
    """Compute the figures of a node from its groups or children."""
    hull, child, order, alive, box = tree.hull, tree.child, tree.order, groups.alive, groups.box
    m = hull.shape[1] // 2
    remaining, records, least, most = ZERO64, np.int64(2**62), np.inf, 0.0
    for j in range(m):
        hull[node, j], hull[node, m + j] = LARGEST_CODE, -1
    if child[node] < 0:
        for p in range(tree.span[node, 0], tree.span[node, 1]):
            g = order[p]
            if alive[g]:
                remaining += 1
                records = min(records, groups.records[g])
                least, most = min(least, groups.loss[g]), max(most, groups.loss[g])
                for j in range(m):
                    hull[node, j] = min(hull[node, j], box[g, j])
                    hull[node, m + j] = max(hull[node, m + j], box[g, m + j])
    else:
        for i in range(child[node], child[node] + 2):
            if tree.remaining[i] > 0:
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
        node = np.int64(tree.parent[node])


@entry
def build_tree(groups, tree, loss_tables):
    """Build the tree over the groups of its ``order``, cut at medians of their smallest codes."""
    order, hull, span, child, parent, box = tree.order, tree.hull, tree.span, tree.child, tree.parent, groups.box
    m = box.shape[1] // 2
    span[0, 0], span[0, 1] = 0, order.shape[0]
    nodes, at = 1, 0
    while at < nodes:
        begin, end = np.int64(span[at, 0]), np.int64(span[at, 1])
        if end - begin <= LEAF:
            for p in range(begin, end):
                tree.leaf[order[p]] = at
            at += 1
            continue
        for j in range(m):  # here the hull is that of the smallest codes
            hull[at, j], hull[at, m + j] = LARGEST_CODE, -1
        for p in range(begin, end):
            for j in range(m):
                x = box[order[p], j]
                hull[at, j], hull[at, m + j] = min(hull[at, j], x), max(hull[at, m + j], x)
        widest, a = 0.0, NONE64
        for j in range(m):
            loss = weighted_loss(j, hull[at, j], hull[at, m + j], loss_tables)
            if loss > widest and hull[at, j] < hull[at, m + j]:
                widest, a = loss, j
        middle = (begin + end) // 2
        if a >= 0:
            middle = partition_places(box, order, begin, end, a, hull[at, a], hull[at, m + a], tree.codes, tree.spare)
        child[at] = nodes
        parent[nodes] = parent[nodes + 1] = at
        span[nodes, 0], span[nodes, 1] = begin, middle
        span[nodes + 1, 0], span[nodes + 1, 1] = middle, end
        nodes += 2
        at += 1
    for node in range(nodes - 1, -1, -1):
        refresh_node(node, tree, groups)


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


@inner(forceinline=True)
def union_loss(g, groups, search):
    """D of the union of the search box and the box of a group."""
    box, low, high, term_start, term = groups.box, search.low, search.high, search.term_start, search.term
    total = 0.0
    m = low.shape[0]
    for j in range(m):
        first, last = box[g, j], box[g, m + j]
        if first >= low[j]:
            total += term[term_start[j] + last]
        elif last <= high[j]:
            total += term[term_start[j] + first]
        else:
            total += groups.terms[g, j]
    return total


@inner(forceinline=True)
def extended_loss(node, tree, search):
    """D of the search box extended by the nearest codes of a hull."""
    hull, low, high, term_start, term = tree.hull, search.low, search.high, search.term_start, search.term
    total = 0.0
    m = low.shape[0]
    for j in range(m):
        first, last = hull[node, j], hull[node, m + j]
        if last < low[j]:
            total += term[term_start[j] + last]
        elif first > high[j]:
            total += term[term_start[j] + first]
        else:
            total += search.loss[j]
    return total


@inner
def count_group(g, groups, cells, histogram):
    """Add the sensitive values of a group to a histogram."""
    following = groups.following
    u = groups.head[g]
    while u >= 0:
        count_values(u, ONE64, cells, histogram)
        u = following[u]


@inner
def may_merge(x, g, lacks, groups, table, cells):
    """Whether failing group ``x`` may merge with ``g``.

    The union passes; or both groups fail, and ``x`` is too small or the union is closer to passing than ``x``. ``lacks`` is the
    shortfall of ``x``, whose histogram is in ``groups.own``. (By size alone every union is closer to passing.)
    """
    own, trial = groups.own, groups.trial
    records = groups.records[x] + groups.records[g]
    if groups.failing[g] and groups.records[x] < table.least:
        return True
    for c in range(own.shape[0]):
        trial[c] = own[c]
    count_group(g, groups, cells, trial)
    if holds(records, trial, table.limits):
        return True
    return groups.failing[g] and shortfall(records, trial, table.limits) < lacks - LEAST_IMPROVEMENT


@inner
def find_partner(x, groups, tree, search, margin, table, cells):
    """The group for which the total loss grows least when ``x`` merges with it; -1 if ``x`` may merge with none.

    ``margin`` is above the rounding error of an increase.
    """
    group_records, group_loss, group_rank, alive = groups.records, groups.loss, groups.rank, groups.alive
    span, child, remaining, order = tree.span, tree.child, tree.remaining, tree.order
    stack, bounds = tree.stack, tree.bounds
    records, loss = group_records[x], group_loss[x]
    best, found, rank, lacks = np.inf, NONE64, LARGEST_CODE, 0.0
    if cells is not None:
        own = groups.own
        for c in range(own.shape[0]):
            own[c] = 0
        count_group(x, groups, cells, own)
        lacks = shortfall(records, own, table.limits)
    stack[0], bounds[0] = 0, 0.0
    height = 1
    while height > 0:
        height -= 1
        node = stack[height]
        if bounds[height] > best + margin:
            continue
        if child[node] < 0:
            for p in range(span[node, 0], span[node, 1]):
                g = np.int64(order[p])
                if g == x or not alive[g]:
                    continue
                total = union_loss(g, groups, search)
                increase = (records + group_records[g]) * total - records * loss - group_records[g] * group_loss[g]
                if increase < best or (increase == best and group_rank[g] < rank):
                    if cells is not None:
                        if not may_merge(x, g, lacks, groups, table, cells):
                            continue
                    best, found, rank = increase, g, group_rank[g]
            continue
        last = height
        for half in range(child[node], child[node] + 2):
            if remaining[half] == 0:
                continue
            least = extended_loss(half, tree, search)
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
    rows, records, box, following = table.rows, table.records, groups.box, groups.following
    m = rows.shape[1]
    for j in range(m):
        box[g, j], box[g, m + j] = LARGEST_CODE, -1
    groups.records[g] = 0
    for p in range(begin, end):
        u = order[p]
        groups.records[g] += records[u]
        following[u] = order[p + 1] if p + 1 < end else -1
        for j in range(m):
            box[g, j], box[g, m + j] = min(box[g, j], rows[u, j]), max(box[g, m + j], rows[u, j])
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
def join_boxes(x, g, groups, table):
    """Extend the box of group ``g`` by that of ``x``."""
    box = groups.box
    m = table.rows.shape[1]
    for j in range(m):
        box[g, j], box[g, m + j] = min(box[g, j], box[x, j]), max(box[g, m + j], box[x, m + j])
    groups.loss[g] = measure_box(g, groups, table)
    groups.alive[x] = False


@inner
def split_group(g, spare, groups, halves, table, cells):
    """Split a group if that lowers its loss; the second half becomes the group ``spare``. Return whether it was split."""
    members, following = groups.members, groups.following
    n = ZERO64
    u = groups.head[g]
    while u >= 0:
        members[n] = u
        n += 1
        u = following[u]
    sort_items(members, n, table.rank)
    middle = split_segment(members, ZERO64, n, halves, table, cells)
    if middle == n:
        return False
    before, records, rank = groups.records[g] * groups.loss[g], groups.records[g], groups.rank[g]
    set_group(g, members, ZERO64, middle, groups, table)
    set_group(spare, members, middle, n, groups, table)
    after = groups.records[g] * groups.loss[g] + groups.records[spare] * groups.loss[spare]
    if after < before:
        return True
    following[members[middle - 1]] = members[middle]  # restore the union
    groups.tail[g], groups.records[g], groups.rank[g] = members[n - 1], records, rank
    join_boxes(spare, g, groups, table)
    return False


@entry
def merge_groups(state, most, indexed, margin, table, groups, tree, search, halves, cells):
    """Merge up to ``most`` failing groups. Stop when fewer than half of the ``indexed`` groups of the tree are alive.

    A failing group that may merge with none is left as it is. At the end ``groups.owner`` is written.
    """
    for _ in range(most):
        if 2 * state[ALIVE] < indexed:
            return
        x = take_smallest(groups, state)
        if x < 0:
            state[DONE] = 1
            break
        set_box(x, groups, search, table.loss_tables)
        g = find_partner(x, groups, tree, search, margin, table, cells)
        if g < 0:
            continue
        groups.following[groups.tail[g]] = groups.head[x]
        groups.tail[g] = groups.tail[x]
        groups.records[g] += groups.records[x]
        groups.rank[g] = min(groups.rank[g], groups.rank[x])
        join_boxes(x, g, groups, table)
        groups.failing[g] = fails(g, groups, table, cells)
        state[ALIVE] -= 1
        if groups.failing[g]:
            enqueue(g, groups, state)
        elif groups.records[g] >= 2 * table.least and split_group(g, x, groups, halves, table, cells):
            state[ALIVE] += 1
        refresh_path(x, tree, groups)
        refresh_path(g, tree, groups)
    if state[DONE]:
        for g in range(groups.alive.shape[0]):
            if groups.alive[g]:
                u = groups.head[g]
                while u >= 0:
                    groups.owner[u] = g
                    u = groups.following[u]
