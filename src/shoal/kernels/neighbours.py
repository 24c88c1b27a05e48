"""The exact nearest record to a cluster, or furthest record from a record: a forest of boxes and a lazy priority queue.

D(c + r), the loss of the box around cluster c and record r, is a sum over attributes. Each term grows monotonically with the
distance of r's code from the box's interval, for numbers and for trees, since nodes are intervals of codes. So the code of a
node's box that is nearest to c gives a lower bound of the terms of all records below the node, and the further of its two
ends an upper bound. D also grows with c, so an old D is a lower bound: the queue keeps old values and recomputes only the
entry at its top. Sums follow the order of the attributes, which is monotone in floating point, so the bounds are exact.

A forest has one tree per label. Ties go to the cell with the smaller rank. An entry of a queue is (D, tag). The high half of
the tag is the rank of a record's cell, or the smallest rank below a node. The low half is the node, or the number of nodes
plus the record's place. ``forest`` is `interface.Forest`, ``cluster`` is `interface.ClusterBox`, and ``cells`` are
`interface.ClusterCells`. The number of nodes is that of the room for nodes.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.boxes import weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import HEAD, LARGEST_CODE, LOW, NONE64, SIZE

LEAF = 8  # nodes with up to this many cells are leaves
FIRST_CODE = np.int32(0)
MARGIN = 1e-9  # relative; far above the rounding error of a sum of terms


@inner(forceinline=True)
def loss_term(j, x, cluster):
    """The term of attribute ``j`` in D when code ``x`` joins the box."""
    if cluster.term_start[j] >= 0:
        return cluster.term[cluster.term_start[j] + x]
    return weighted_loss(j, min(cluster.low[j], x), max(cluster.high[j], x), cluster.loss_tables)


@inner
def fill_term_table(j, cluster):
    """Compute the table of terms of one attribute."""
    low, high, begin, loss_tables = cluster.low[j], cluster.high[j], cluster.term_start[j], cluster.loss_tables
    if begin >= 0:
        for x in range(loss_tables.ints[HEAD * j + SIZE]):
            cluster.term[begin + x] = weighted_loss(j, min(low, x), max(high, x), loss_tables)


@inner
def reset_box(row, rows, cluster):
    """Set the box to a single record."""
    for j in range(rows.shape[1]):
        x = rows[row, j]
        cluster.low[j] = cluster.high[j] = x
        cluster.loss[j] = weighted_loss(j, x, x, cluster.loss_tables)
        fill_term_table(j, cluster)


@inner
def extend_box(row, rows, cluster):
    """Extend the box to another record; return whether it grew."""
    low, high = cluster.low, cluster.high
    grew = False
    for j in range(rows.shape[1]):
        x = rows[row, j]
        if x < low[j] or x > high[j]:
            low[j], high[j] = min(low[j], x), max(high[j], x)
            cluster.loss[j] = weighted_loss(j, low[j], high[j], cluster.loss_tables)
            fill_term_table(j, cluster)
            grew = True
    return grew


@inner
def extended_loss(row, rows, cluster):
    """D of the box extended by a record."""
    total = 0.0
    for j in range(rows.shape[1]):
        total += loss_term(j, rows[row, j], cluster)
    return total


@inner
def lower_bound(node, box, cluster):
    """A lower bound of D over the records below a node; ``box`` has the boxes of all nodes."""
    low, high, loss = cluster.low, cluster.high, cluster.loss
    total = 0.0
    m = low.shape[0]
    for j in range(m):
        first, last = box[node, j], box[node, m + j]
        if last < low[j]:
            total += loss_term(j, last, cluster)
        elif first > high[j]:
            total += loss_term(j, first, cluster)
        else:
            total += loss[j]
    return total


@inner
def extended_loss_above(row, rows, best, rest, cluster):
    """D of the box extended by a record, or -1 as soon as it is certain to be less than ``best``."""
    total = 0.0
    for j in range(rows.shape[1]):
        total += loss_term(j, rows[row, j], cluster)
        if total + rest[j] < best:
            return -1.0
    return total


@inner
def upper_bound(node, box, best, rest, cluster):
    """An upper bound of D over the records below a node, or -1 as soon as it is certain to be less than ``best``."""
    total = 0.0
    m = rest.shape[0]
    for j in range(m):
        total += max(loss_term(j, box[node, j], cluster), loss_term(j, box[node, m + j], cluster))
        if total + rest[j] < best:
            return -1.0
    return total


@inner
def bound_remaining_terms(cluster, rest):
    """For every attribute, an upper bound of the sum of the later terms, with a margin for rounding."""
    ints = cluster.loss_tables.ints
    ahead = 0.0
    for j in range(rest.shape[0] - 1, -1, -1):
        rest[j] = ahead
        last = np.int32(ints[HEAD * j + SIZE] - 1)
        ahead += max(loss_term(j, FIRST_CODE, cluster), loss_term(j, last, cluster))
    for j in range(rest.shape[0]):
        rest[j] += MARGIN * ahead


@inner
def partition_places(rows, order, begin, end, a, lo, hi, keys, spare):
    """Partition a segment of places at the median of attribute ``a``, in stable order; return the start of the second part."""
    n = end - begin
    for i in range(n):
        keys[i] = rows[order[begin + i], a]
    # bisect for the first code with at least half of the places up to it; the last code is always on the right
    at, upper = lo, hi - 1
    while at < upper:
        middle = (at + upper) // 2
        up_to = 0
        for i in range(n):
            up_to += keys[i] <= middle
        if 2 * up_to >= n:
            upper = middle
        else:
            at = middle + 1
    left, held = begin, 0
    for i in range(n):
        p = order[begin + i]
        if keys[i] <= at:
            order[left] = p
            left += 1
        else:
            spare[held] = p
            held += 1
    for i in range(held):
        order[left + i] = spare[i]
    return left


@entry
def build_forest(rows, forest, loss_tables):
    """Build the trees of a forest, and return the number of nodes. ``order`` has the cells by label."""
    order, box, span, child, parent = forest.order, forest.box, forest.span, forest.child, forest.parent
    first_rank, rank, start, leaf = forest.first_rank, forest.rank, forest.start, forest.leaf
    m = rows.shape[1]
    nodes = 0
    for i in range(forest.root.shape[0]):
        first_node = nodes
        if start[i] < start[i + 1]:
            forest.root[i] = nodes
            span[nodes, 0], span[nodes, 1], parent[nodes] = start[i], start[i + 1], -1
            nodes += 1
        at = first_node
        while at < nodes:
            begin, end = np.int64(span[at, 0]), np.int64(span[at, 1])
            widest, a, earliest = 0.0, NONE64, LARGEST_CODE
            for j in range(m):
                box[at, j], box[at, m + j] = LARGEST_CODE, -1
            for p in range(begin, end):
                cell = order[p]
                leaf[cell] = at
                earliest = min(earliest, rank[cell])
                for j in range(m):
                    box[at, j] = min(box[at, j], rows[cell, j])
                    box[at, m + j] = max(box[at, m + j], rows[cell, j])
            first_rank[at], forest.remaining[at], child[at] = earliest, end - begin, -1
            for j in range(m):
                loss = weighted_loss(j, box[at, j], box[at, m + j], loss_tables)
                if loss > widest and box[at, j] < box[at, m + j]:
                    widest, a = loss, j
            if end - begin > LEAF:
                middle = (begin + end) // 2
                if a >= 0:
                    middle = partition_places(
                        rows, order, begin, end, a, box[at, a], box[at, m + a], forest.codes, forest.spare
                    )
                child[at] = nodes
                parent[nodes] = parent[nodes + 1] = at
                span[nodes, 0], span[nodes, 1] = begin, middle
                span[nodes + 1, 0], span[nodes + 1, 1] = middle, end
                nodes += 2
            at += 1
        forest.queue_start[i + 1] = forest.queue_start[i] + (nodes - first_node) + (start[i + 1] - start[i])
    return nodes


@inner
def remove_cell(cell, rows, count, forest):
    """Remove an empty cell and tighten the boxes above it, since seeds use up the outermost cells first."""
    order, box, span, child = forest.order, forest.box, forest.span, forest.child
    parent, remaining, leaf = forest.parent, forest.remaining, forest.leaf
    m = rows.shape[1]
    node, loose = leaf[cell], True
    while node >= 0:
        remaining[node] -= 1
        loose = loose and remaining[node] > 0
        if loose:
            changed = False
            for j in range(m):
                lo, hi = LARGEST_CODE, np.int32(-1)
                if child[node] < 0:
                    for p in range(span[node, 0], span[node, 1]):
                        if count[order[p]] > 0:
                            lo, hi = min(lo, rows[order[p], j]), max(hi, rows[order[p], j])
                else:
                    for half in range(child[node], child[node] + 2):
                        if remaining[half] > 0:
                            lo, hi = min(lo, box[half, j]), max(hi, box[half, m + j])
                changed = changed or lo != box[node, j] or hi != box[node, m + j]
                box[node, j], box[node, m + j] = lo, hi
            loose = changed
        elif remaining[node] == 0:
            loose = True  # the parent has lost one of its halves
        node = parent[node]


@inner
def find_furthest(forest, cells, cluster):
    """The remaining cell furthest from the box, which is a single record. Ties: the smaller rank."""
    rows, count = cells.rows, cells.records
    stack, upper, rest = forest.stack, forest.upper, cluster.rest
    order, box, span, child = forest.order, forest.box, forest.span, forest.child
    remaining, first_rank, root, rank = forest.remaining, forest.first_rank, forest.root, forest.rank
    best, found, earliest = -1.0, LARGEST_CODE, LARGEST_CODE
    bound_remaining_terms(cluster, rest)
    for i in range(root.shape[0]):
        if root[i] < 0 or remaining[root[i]] == 0:
            continue
        stack[0] = root[i]
        upper[0] = upper_bound(np.int64(root[i]), box, best, rest, cluster)
        high = 1
        while high > 0:
            high -= 1
            node, bound = stack[high], upper[high]
            if bound < best or (bound == best and first_rank[node] > earliest):
                continue
            if child[node] < 0:
                for p in range(span[node, 0], span[node, 1]):
                    cell = order[p]
                    if count[cell] > 0:
                        d = extended_loss_above(cell, rows, best, rest, cluster)
                        if d > best or (d == best and rank[cell] < earliest):
                            best, found, earliest = d, cell, rank[cell]
                continue
            one, other = np.int64(child[node]), np.int64(child[node] + 1)
            bound_one = bound_other = -1.0
            if remaining[one] > 0:
                bound_one = upper_bound(one, box, best, rest, cluster)
            if remaining[other] > 0:
                bound_other = upper_bound(other, box, best, rest, cluster)
            if bound_one > bound_other or (bound_one == bound_other and first_rank[one] < first_rank[other]):
                one, other, bound_one, bound_other = other, one, bound_other, bound_one
            if bound_one >= 0.0:
                stack[high], upper[high] = one, bound_one
                high += 1
            if bound_other >= 0.0:  # the half with the larger bound is visited first
                stack[high], upper[high] = other, bound_other
                high += 1
    return np.int64(found)


@inner(forceinline=True)
def precedes(key, tag, i, j):
    """Whether entry ``i`` of a queue precedes entry ``j``."""
    return key[i] < key[j] or (key[i] == key[j] and tag[i] < tag[j])


@inner
def sift_down(key, tag, stamp, base, size):
    """Move the top of the queue at ``base`` down to its position."""
    d, t, s = key[base], tag[base], stamp[base]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and precedes(key, tag, base + child + 1, base + child):
            child += 1
        i = base + child
        if not (key[i] < d or (key[i] == d and tag[i] < t)):
            break
        key[base + at], tag[base + at], stamp[base + at] = key[i], tag[i], stamp[i]
        at = child
    key[base + at], tag[base + at], stamp[base + at] = d, t, s


@inner
def push(key, tag, stamp, base, size, d, t, s):
    """Insert an entry into the queue at ``base``, which has ``size`` entries."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        i = base + above
        if not (d < key[i] or (d == key[i] and t < tag[i])):
            break
        key[base + at], tag[base + at], stamp[base + at] = key[i], tag[i], stamp[i]
        at = above
    key[base + at], tag[base + at], stamp[base + at] = d, t, s


@inner
def find_nearest(i, version, forest, cells, cluster):
    """Bring the nearest record of label ``i`` to the top of its queue; return whether there is one.

    ``version`` counts the extensions of the box. Values with an older version are lower bounds.
    """
    order, box, span, child = forest.order, forest.box, forest.span, forest.child
    remaining, first_rank, queue_start, rank = forest.remaining, forest.first_rank, forest.queue_start, forest.rank
    rows, count = cells.rows, cells.records
    key, tag, stamp, sizes = forest.key, forest.tag, forest.stamp, forest.queued
    nodes = np.int64(child.shape[0])
    base, size = queue_start[i], sizes[i]
    while size > 0:
        ref = tag[base] & LOW
        gone = count[order[ref - nodes]] == 0 if ref >= nodes else remaining[ref] == 0
        if not gone and stamp[base] != version:
            if ref >= nodes:
                d = extended_loss(order[ref - nodes], rows, cluster)
            else:
                d = lower_bound(ref, box, cluster)
            stamp[base] = version
            if d > key[base]:
                key[base] = d
                sift_down(key, tag, stamp, base, size)
                continue
        if not gone and ref >= nodes:
            sizes[i] = size
            return True
        size -= 1
        key[base], tag[base], stamp[base] = key[base + size], tag[base + size], stamp[base + size]
        sift_down(key, tag, stamp, base, size)
        if gone:
            continue
        if child[ref] < 0:
            for p in range(span[ref, 0], span[ref, 1]):
                cell = order[p]
                if count[cell] > 0:
                    d = extended_loss(cell, rows, cluster)
                    push(key, tag, stamp, base, size, d, (np.int64(rank[cell]) << 32) | (p + nodes), version)
                    size += 1
        else:
            for node in range(child[ref], child[ref] + 2):
                if remaining[node] > 0:
                    d = lower_bound(node, box, cluster)
                    push(key, tag, stamp, base, size, d, (np.int64(first_rank[node]) << 32) | np.int64(node), version)
                    size += 1
    sizes[i] = 0
    return False
