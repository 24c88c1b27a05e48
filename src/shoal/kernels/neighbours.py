"""The exact nearest record to a cluster, or furthest record from a record: a forest of boxes and a lazy priority queue.

D(c + r), the loss of the box around cluster c and record r, is a sum over attributes. Each term grows monotonically with the
distance of r's code from the box's interval, for numbers and for trees, since nodes are intervals of codes. So the code of a
node's box that is nearest to c gives a lower bound of the terms of all records below the node, and the further of its two
ends an upper bound. D also grows with c, so an old D is a lower bound: the queue keeps old values and recomputes only the
entry at its top. Sums follow the order of the attributes, which is monotone in floating point, so the bounds are exact.

A forest has one tree per label. Ties go to the cell with the smaller rank. An entry of a queue is (D, tag). The high half of
the tag is the rank of a record's cell, or the smallest rank below a node. The low half is the node, or the number of nodes
plus the record's place. The functions of a queue take its arrays one by one: unpacking a tuple for every entry is slower.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.boxes import weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import HEAD, LARGEST_CODE, LOW, NONE64, SIZE, LossArrays

LEAF = 8  # nodes with up to this many cells are leaves
TABLE = 256  # attributes with up to this many codes have a table of terms
FIRST_CODE = np.int32(0)
MARGIN = 1e-9  # relative; far above the rounding error of a sum of terms


class Forest(NamedTuple):
    """Trees of boxes, one per label.

    ``order`` has the cells in tree order, one per place. By node: box, first and last place (``span``), left child (the right
    child follows; -1: a leaf), parent, remaining cells, smallest rank. By label: the root (-1: none) and the start of its
    queue. By place: the leaf. By cell: the rank.
    """

    order: NDArray[Any]
    box: NDArray[Any]
    span: NDArray[Any]
    child: NDArray[Any]
    parent: NDArray[Any]
    remaining: NDArray[Any]
    first_rank: NDArray[Any]
    root: NDArray[Any]
    queue_start: NDArray[Any]
    leaf: NDArray[Any]
    rank: NDArray[Any]


class ClusterBox(NamedTuple):
    """The box of a cluster, and the terms of D.

    By attribute: the smallest and largest code, the weighted loss, the start of its table of terms (-1: no table). ``term`` has
    all tables: the term of an attribute by the code that joins the box.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    loss: NDArray[Any]
    term_start: NDArray[Any]
    term: NDArray[Any]
    loss_tables: LossArrays


class Queues(NamedTuple):
    """The priority queues of a forest, one per label, each from `Forest.queue_start` on; by label the number of entries.

    By entry: D or a lower bound, the tag, and the version of the box for which D was computed.
    """

    key: NDArray[Any]
    tag: NDArray[Any]
    stamp: NDArray[Any]
    size: NDArray[Any]


class DescentScratch(NamedTuple):
    """Work arrays of `find_furthest`: a stack of nodes, the upper bound of each, the bound of the later terms by attribute."""

    stack: NDArray[Any]
    upper: NDArray[Any]
    rest: NDArray[Any]


@inner
def allocate_box(m, loss_tables):
    """Allocate the box of a cluster; attributes with few codes get a table of terms."""
    ints = loss_tables.ints
    term_start = np.full(m, -1, np.int64)
    length = 0
    for j in range(m):
        if ints[HEAD * j + SIZE] <= TABLE:
            term_start[j] = length
            length += ints[HEAD * j + SIZE]
    low, high, loss = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.float64)
    return ClusterBox(low, high, loss, term_start, np.empty(length, np.float64), loss_tables)


@inner
def allocate_queues(forest):
    """Allocate the queues of a forest at their largest size."""
    length = forest.queue_start[-1]
    key, tag, stamp = np.empty(length, np.float64), np.empty(length, np.int64), np.empty(length, np.int32)
    return Queues(key, tag, stamp, np.zeros(forest.root.shape[0], np.int64))


@inner
def allocate_descent(forest, m):
    """Allocate the work arrays of `find_furthest`."""
    nodes = forest.child.shape[0]
    return DescentScratch(np.empty(nodes, np.int32), np.empty(nodes, np.float64), np.empty(m, np.float64))


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
def build_forest(rows, cells, rank, label, labels, loss_tables):
    """Build a forest over the remaining cells, one tree per label; ``rank`` orders cells with equal D."""
    n = cells.shape[0]
    m = rows.shape[1]
    order = np.empty(n, np.int32)
    label_start = np.zeros(labels + 1, np.int64)
    for i in range(n):
        label_start[label[cells[i]] + 1] += 1
    for i in range(labels):
        label_start[i + 1] += label_start[i]
    next_place = label_start[:labels].copy()
    for i in range(n):
        order[next_place[label[cells[i]]]] = cells[i]
        next_place[label[cells[i]]] += 1
    room = 2 * n + labels
    box = np.empty((room, 2 * m), np.int32)
    span = np.empty((room, 2), np.int32)
    child = np.full(room, -1, np.int32)
    parent = np.full(room, -1, np.int32)
    first_rank = np.empty(room, np.int32)
    root = np.full(labels, -1, np.int32)
    queue_start = np.zeros(labels + 1, np.int64)
    keys, spare = np.empty(n, np.int32), np.empty(n, np.int32)
    nodes = 0
    for i in range(labels):
        first_node = nodes
        if label_start[i] < label_start[i + 1]:
            root[i] = nodes
            span[nodes, 0], span[nodes, 1] = label_start[i], label_start[i + 1]
            nodes += 1
        at = first_node
        while at < nodes:
            begin, end = span[at]
            widest, a, earliest = 0.0, NONE64, LARGEST_CODE
            for j in range(m):
                box[at, j], box[at, m + j] = LARGEST_CODE, -1
            for p in range(begin, end):
                cell = order[p]
                earliest = min(earliest, rank[cell])
                for j in range(m):
                    box[at, j] = min(box[at, j], rows[cell, j])
                    box[at, m + j] = max(box[at, m + j], rows[cell, j])
            first_rank[at] = earliest
            for j in range(m):
                loss = weighted_loss(j, box[at, j], box[at, m + j], loss_tables)
                if loss > widest and box[at, j] < box[at, m + j]:
                    widest, a = loss, j
            if end - begin > LEAF:
                middle = (begin + end) // 2
                if a >= 0:
                    middle = partition_places(rows, order, begin, end, a, box[at, a], box[at, m + a], keys, spare)
                child[at] = nodes
                parent[nodes] = parent[nodes + 1] = at
                span[nodes, 0], span[nodes, 1] = begin, middle
                span[nodes + 1, 0], span[nodes + 1, 1] = middle, end
                nodes += 2
            at += 1
        queue_start[i + 1] = queue_start[i] + (nodes - first_node) + (label_start[i + 1] - label_start[i])
    remaining, leaf = np.empty(nodes, np.int32), np.empty(n, np.int32)
    for at in range(nodes):
        remaining[at] = span[at, 1] - span[at, 0]
        if child[at] < 0:
            leaf[span[at, 0] : span[at, 1]] = at
    return Forest(
        order,
        box[:nodes].copy(),
        span[:nodes].copy(),
        child[:nodes].copy(),
        parent[:nodes].copy(),
        remaining,
        first_rank[:nodes].copy(),
        root,
        queue_start,
        leaf,
        rank,
    )


@inner
def remove_cell(place, rows, count, forest):
    """Remove an empty cell and tighten the boxes above it, since seeds use up the outermost cells first."""
    order, box, span, child = forest.order, forest.box, forest.span, forest.child
    parent, remaining, leaf = forest.parent, forest.remaining, forest.leaf
    m = rows.shape[1]
    node, loose = leaf[place], True
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
def find_furthest(forest, cells, cluster, scratch):
    """The remaining cell furthest from the box, which is a single record. Ties: the smaller rank.

    ``cells`` are `interface.ClusterCells`.
    """
    rows, count = cells.rows, cells.records
    stack, upper, rest = scratch.stack, scratch.upper, scratch.rest
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
    return found


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
def find_nearest(i, version, forest, queues, cells, cluster):
    """Bring the nearest record of label ``i`` to the top of its queue; return whether there is one.

    ``version`` counts the extensions of the box. Values with an older version are lower bounds.
    """
    order, box, span, child = forest.order, forest.box, forest.span, forest.child
    remaining, first_rank, queue_start, rank = forest.remaining, forest.first_rank, forest.queue_start, forest.rank
    rows, count = cells.rows, cells.records
    key, tag, stamp, sizes = queues.key, queues.tag, queues.stamp, queues.size
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
