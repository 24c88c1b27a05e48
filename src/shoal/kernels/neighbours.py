"""The exact nearest record to a cluster, or furthest record from a record: a forest of boxes and a lazy priority queue.

D(c + r), the loss of the box around cluster c and record r, is a sum over attributes. Each term grows monotonically with the
distance of r's code from the box's interval, for numbers and for trees, since nodes are intervals of codes. So the code of a
node's box that is nearest to c gives a lower bound of the terms of all records below the node, and the further of its two
ends an upper bound. D also grows with c, so an old D is a lower bound: the queue keeps old values and recomputes only the
entry at its top. Sums follow the order of the attributes, which is monotone in floating point, so the bounds are exact.

A forest has one tree per label. Ties go to the cell with the smaller rank. An entry of a queue is (D, tag). The high half of
the tag is the rank of a record's cell, or the smallest rank below a node. The low half is the node, or the number of nodes
plus the record's place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shoal.kernels.boxes import weighted_loss
from shoal.kernels.interface import HEAD, SIZE

LEAF = 8  # nodes with up to this many cells are leaves
TABLE = 256  # attributes with up to this many codes have a table of terms
LOW = np.int64(0xFFFFFFFF)
FAR = np.int32(2**31 - 1)


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


@njit(cache=True, nogil=True)
def locate_term_tables(m, ints):
    """The start of every attribute's table of terms, -1 for attributes without a table; and the total length."""
    begin = np.full(m, -1, np.int64)
    room = 0
    for j in range(m):
        if ints[HEAD * j + SIZE] <= TABLE:
            begin[j] = room
            room += ints[HEAD * j + SIZE]
    return begin, room


@njit(cache=True, nogil=True, forceinline=True)
def loss_term(j, x, lo, hi, begin, table, weight, ints, floats):
    """The term of attribute ``j`` in D when code ``x`` joins the box."""
    if begin[j] >= 0:
        return table[begin[j] + x]
    return weighted_loss(j, min(lo[j], x), max(hi[j], x), weight, ints, floats)


@njit(cache=True, nogil=True)
def fill_term_table(j, lo, hi, begin, table, weight, ints, floats):
    """Compute the table of terms of one attribute."""
    if begin[j] >= 0:
        for x in range(ints[HEAD * j + SIZE]):
            table[begin[j] + x] = weighted_loss(j, min(lo[j], x), max(hi[j], x), weight, ints, floats)


@njit(cache=True, nogil=True)
def reset_box(row, rows, lo, hi, current, begin, table, weight, ints, floats):
    """Set the box to a single record."""
    for j in range(lo.shape[0]):
        lo[j] = hi[j] = rows[row, j]
        current[j] = 0.0
        fill_term_table(j, lo, hi, begin, table, weight, ints, floats)


@njit(cache=True, nogil=True)
def extend_box(row, rows, lo, hi, current, begin, table, weight, ints, floats):
    """Extend the box to another record; return whether it grew."""
    grew = False
    for j in range(lo.shape[0]):
        x = rows[row, j]
        if x < lo[j] or x > hi[j]:
            lo[j], hi[j] = min(lo[j], x), max(hi[j], x)
            current[j] = weighted_loss(j, lo[j], hi[j], weight, ints, floats)
            fill_term_table(j, lo, hi, begin, table, weight, ints, floats)
            grew = True
    return grew


@njit(cache=True, nogil=True)
def extended_loss(row, rows, lo, hi, begin, table, weight, ints, floats):
    """D of the box extended by a record."""
    total = 0.0
    for j in range(lo.shape[0]):
        total += loss_term(j, rows[row, j], lo, hi, begin, table, weight, ints, floats)
    return total


@njit(cache=True, nogil=True)
def lower_bound(node, box, lo, hi, current, begin, table, weight, ints, floats):
    """A lower bound of D over the records below a node."""
    total = 0.0
    m = lo.shape[0]
    for j in range(m):
        first, last = box[node, j], box[node, m + j]
        if last < lo[j]:
            total += loss_term(j, last, lo, hi, begin, table, weight, ints, floats)
        elif first > hi[j]:
            total += loss_term(j, first, lo, hi, begin, table, weight, ints, floats)
        else:
            total += current[j]
    return total


@njit(cache=True, nogil=True)
def extended_loss_above(row, rows, best, rest, lo, hi, begin, table, weight, ints, floats):
    """D of the box extended by a record, or -1 as soon as it is certain to be less than ``best``."""
    total = 0.0
    for j in range(lo.shape[0]):
        total += loss_term(j, rows[row, j], lo, hi, begin, table, weight, ints, floats)
        if total + rest[j] < best:
            return -1.0
    return total


@njit(cache=True, nogil=True)
def upper_bound(node, box, best, rest, lo, hi, begin, table, weight, ints, floats):
    """An upper bound of D over the records below a node, or -1 as soon as it is certain to be less than ``best``."""
    total = 0.0
    m = lo.shape[0]
    for j in range(m):
        total += max(
            loss_term(j, box[node, j], lo, hi, begin, table, weight, ints, floats),
            loss_term(j, box[node, m + j], lo, hi, begin, table, weight, ints, floats),
        )
        if total + rest[j] < best:
            return -1.0
    return total


@njit(cache=True, nogil=True)
def bound_remaining_terms(lo, hi, begin, table, weight, ints, floats, rest):
    """For every attribute, an upper bound of the sum of the later terms, with a margin for rounding."""
    ahead = 0.0
    for j in range(lo.shape[0] - 1, -1, -1):
        rest[j] = ahead
        ahead += max(
            loss_term(j, 0, lo, hi, begin, table, weight, ints, floats),
            loss_term(j, ints[HEAD * j + SIZE] - 1, lo, hi, begin, table, weight, ints, floats),
        )
    for j in range(lo.shape[0]):
        rest[j] += 1e-9 * ahead


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def build_forest(rows, cells, rank, label, labels, weight, ints, floats):
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
            span[nodes] = label_start[i], label_start[i + 1]
            nodes += 1
        at = first_node
        while at < nodes:
            begin, end = span[at]
            widest, a, earliest = 0.0, -1, FAR
            for j in range(m):
                box[at, j], box[at, m + j] = FAR, -1
            for p in range(begin, end):
                cell = order[p]
                earliest = min(earliest, rank[cell])
                for j in range(m):
                    box[at, j] = min(box[at, j], rows[cell, j])
                    box[at, m + j] = max(box[at, m + j], rows[cell, j])
            first_rank[at] = earliest
            for j in range(m):
                loss = weighted_loss(j, box[at, j], box[at, m + j], weight, ints, floats)
                if loss > widest:
                    widest, a = loss, j
            if end - begin > LEAF:
                middle = (begin + end) // 2
                if a >= 0:
                    middle = partition_places(rows, order, begin, end, a, box[at, a], box[at, m + a], keys, spare)
                child[at] = nodes
                for half in range(2):
                    parent[nodes] = at
                    span[nodes] = (begin, middle) if half == 0 else (middle, end)
                    nodes += 1
            at += 1
        queue_start[i + 1] = queue_start[i] + (nodes - first_node) + (label_start[i + 1] - label_start[i])
    remaining = span[:nodes, 1] - span[:nodes, 0]
    leaf = np.empty(n, np.int32)
    for at in range(nodes):
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


@njit(cache=True, nogil=True)
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
                lo, hi = FAR, np.int32(-1)
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


@njit(cache=True, nogil=True)
def find_furthest(forest, rows, count, lo, hi, begin, table, weight, ints, floats, stack, upper, rest):
    """The remaining cell furthest from the box, which is a single record. Ties: the smaller rank."""
    order, box, span, child = forest.order, forest.box, forest.span, forest.child
    remaining, first_rank, root, rank = forest.remaining, forest.first_rank, forest.root, forest.rank
    best, found, earliest = -1.0, FAR, FAR
    bound_remaining_terms(lo, hi, begin, table, weight, ints, floats, rest)
    for i in range(root.shape[0]):
        if root[i] < 0 or remaining[root[i]] == 0:
            continue
        stack[0] = root[i]
        upper[0] = upper_bound(root[i], box, best, rest, lo, hi, begin, table, weight, ints, floats)
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
                        d = extended_loss_above(cell, rows, best, rest, lo, hi, begin, table, weight, ints, floats)
                        if d > best or (d == best and rank[cell] < earliest):
                            best, found, earliest = d, cell, rank[cell]
                continue
            one, other = child[node], child[node] + 1
            bound_one = bound_other = -1.0
            if remaining[one] > 0:
                bound_one = upper_bound(one, box, best, rest, lo, hi, begin, table, weight, ints, floats)
            if remaining[other] > 0:
                bound_other = upper_bound(other, box, best, rest, lo, hi, begin, table, weight, ints, floats)
            if bound_one > bound_other or (bound_one == bound_other and first_rank[one] < first_rank[other]):
                one, other, bound_one, bound_other = other, one, bound_other, bound_one
            if bound_one >= 0.0:
                stack[high], upper[high] = one, bound_one
                high += 1
            if bound_other >= 0.0:  # the half with the larger bound is visited first
                stack[high], upper[high] = other, bound_other
                high += 1
    return found


@njit(cache=True, nogil=True, forceinline=True)
def precedes(key, tag, i, j):
    """Whether entry ``i`` of a queue precedes entry ``j``."""
    return key[i] < key[j] or (key[i] == key[j] and tag[i] < tag[j])


@njit(cache=True, nogil=True)
def sift_down(key, tag, stamp, base, size):
    """Move the top of a queue down to its position."""
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


@njit(cache=True, nogil=True)
def push(key, tag, stamp, base, size, d, t, s):
    """Insert an entry into a queue of ``size`` entries."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        i = base + above
        if not (d < key[i] or (d == key[i] and t < tag[i])):
            break
        key[base + at], tag[base + at], stamp[base + at] = key[i], tag[i], stamp[i]
        at = above
    key[base + at], tag[base + at], stamp[base + at] = d, t, s


@njit(cache=True, nogil=True)
def find_nearest(i, version, forest, queue, sizes, rows, count, lo, hi, current, begin, table, weight, ints, floats):
    """Bring the nearest record of label ``i`` to the top of its queue; return whether there is one.

    ``version`` counts the extensions of the box. Values with an older version are lower bounds.
    """
    order, box, span, child = forest.order, forest.box, forest.span, forest.child
    remaining, first_rank, queue_start, rank = forest.remaining, forest.first_rank, forest.queue_start, forest.rank
    key, tag, stamp = queue
    nodes = np.int64(child.shape[0])
    base, size = queue_start[i], sizes[i]
    while size > 0:
        ref = tag[base] & LOW
        gone = count[order[ref - nodes]] == 0 if ref >= nodes else remaining[ref] == 0
        if not gone and stamp[base] != version:
            if ref >= nodes:
                d = extended_loss(order[ref - nodes], rows, lo, hi, begin, table, weight, ints, floats)
            else:
                d = lower_bound(ref, box, lo, hi, current, begin, table, weight, ints, floats)
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
                    d = extended_loss(cell, rows, lo, hi, begin, table, weight, ints, floats)
                    push(key, tag, stamp, base, size, d, (np.int64(rank[cell]) << 32) | (p + nodes), version)
                    size += 1
        else:
            for node in range(child[ref], child[ref] + 2):
                if remaining[node] > 0:
                    d = lower_bound(node, box, lo, hi, current, begin, table, weight, ints, floats)
                    push(key, tag, stamp, base, size, d, (np.int64(first_rank[node]) << 32) | np.int64(node), version)
                    size += 1
    sizes[i] = 0
    return False
