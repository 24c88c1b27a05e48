"""The record nearest to a cluster, or furthest from a record: exact, by a forest of boxes and a lazy queue.

D(c + r), the loss of the box around cluster c and record r, is a sum over attributes, and each term only grows while r's code
moves away from the box's interval, for numbers and trees alike since nodes are intervals of codes. So the code of a node's box
that is nearest to c bounds the terms of all records below it from below, and the further of its two ends from above. D also
only grows while c grows, so an old D is a lower bound: the queue keeps old figures and works out anew only what reaches its
top. Sums are taken over the attributes in their order, in floating point monotone too, so that bounds hold to the last bit.

A forest has one tree per label. Ties go to the cell with the smaller turn. A queue's entry is (D, tag): the tag holds the
smallest turn below a node, or the turn of a record's cell, and in its low half the node, or the record's place behind all
nodes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.boxes import HEAD, SIZE, weighted_loss

LEAF = 8  # records of a node that is not divided
TABLE = 256  # attributes of up to this many codes keep their terms in a table
LOW = np.int64(0xFFFFFFFF)
FAR = np.int32(2**31 - 1)


@njit(cache=True, nogil=True)
def tables(m, ints):
    """Where the table of every attribute begins, -1 for those without one; and the room they take."""
    begin = np.full(m, -1, np.int64)
    room = 0
    for j in range(m):
        if ints[HEAD * j + SIZE] <= TABLE:
            begin[j] = room
            room += ints[HEAD * j + SIZE]
    return begin, room


@njit(cache=True, nogil=True, forceinline=True)
def term(j, x, lo, hi, begin, table, weight, ints, floats):
    """What attribute ``j`` adds to D when code ``x`` joins the box."""
    if begin[j] >= 0:
        return table[begin[j] + x]
    return weighted_loss(j, min(lo[j], x), max(hi[j], x), weight, ints, floats)


@njit(cache=True, nogil=True)
def fill(j, lo, hi, begin, table, weight, ints, floats):
    """Work out the table of one attribute."""
    if begin[j] >= 0:
        for x in range(ints[HEAD * j + SIZE]):
            table[begin[j] + x] = weighted_loss(j, min(lo[j], x), max(hi[j], x), weight, ints, floats)


@njit(cache=True, nogil=True)
def surround(row, rows, lo, hi, cur, begin, table, weight, ints, floats):
    """Draw the box around one record."""
    for j in range(lo.shape[0]):
        lo[j] = hi[j] = rows[row, j]
        cur[j] = 0.0
        fill(j, lo, hi, begin, table, weight, ints, floats)


@njit(cache=True, nogil=True)
def widen(row, rows, lo, hi, cur, begin, table, weight, ints, floats):
    """Let the box reach to a further record; whether it was outside."""
    grew = False
    for j in range(lo.shape[0]):
        x = rows[row, j]
        if x < lo[j] or x > hi[j]:
            lo[j], hi[j] = min(lo[j], x), max(hi[j], x)
            cur[j] = weighted_loss(j, lo[j], hi[j], weight, ints, floats)
            fill(j, lo, hi, begin, table, weight, ints, floats)
            grew = True
    return grew


@njit(cache=True, nogil=True)
def joined(row, rows, lo, hi, begin, table, weight, ints, floats):
    """D of the box with a record."""
    total = 0.0
    for j in range(lo.shape[0]):
        total += term(j, rows[row, j], lo, hi, begin, table, weight, ints, floats)
    return total


@njit(cache=True, nogil=True)
def at_least(node, box, lo, hi, cur, begin, table, weight, ints, floats):
    """No record below a node has a smaller D."""
    total = 0.0
    m = lo.shape[0]
    for j in range(m):
        first, last = box[node, j], box[node, m + j]
        if last < lo[j]:
            total += term(j, last, lo, hi, begin, table, weight, ints, floats)
        elif first > hi[j]:
            total += term(j, first, lo, hi, begin, table, weight, ints, floats)
        else:
            total += cur[j]
    return total


@njit(cache=True, nogil=True)
def reaching(row, rows, best, rest, lo, hi, begin, table, weight, ints, floats):
    """D of the box with a record, or -1 as soon as it is clear to be less than ``best``."""
    total = 0.0
    for j in range(lo.shape[0]):
        total += term(j, rows[row, j], lo, hi, begin, table, weight, ints, floats)
        if total + rest[j] < best:
            return -1.0
    return total


@njit(cache=True, nogil=True)
def at_most(node, box, best, rest, lo, hi, begin, table, weight, ints, floats):
    """No record below a node has a larger D; -1 as soon as that is clear to be less than ``best``."""
    total = 0.0
    m = lo.shape[0]
    for j in range(m):
        total += max(
            term(j, box[node, j], lo, hi, begin, table, weight, ints, floats),
            term(j, box[node, m + j], lo, hi, begin, table, weight, ints, floats),
        )
        if total + rest[j] < best:
            return -1.0
    return total


@njit(cache=True, nogil=True)
def beyond(lo, hi, begin, table, weight, ints, floats, rest):
    """What the attributes behind each can add to D at most, and a little more than rounding takes."""
    ahead = 0.0
    for j in range(lo.shape[0] - 1, -1, -1):
        rest[j] = ahead
        ahead += max(
            term(j, 0, lo, hi, begin, table, weight, ints, floats),
            term(j, ints[HEAD * j + SIZE] - 1, lo, hi, begin, table, weight, ints, floats),
        )
    for j in range(lo.shape[0]):
        rest[j] += 1e-9 * ahead


@njit(cache=True, nogil=True)
def cut(rows, order, begin, end, a, lo, hi, keys, spare):
    """Part the places of a segment at the middle of attribute ``a``, in stable order; returns where the second part begins."""
    n = end - begin
    for i in range(n):
        keys[i] = rows[order[begin + i], a]
    at, most = (
        lo,
        hi - 1,
    )  # bisect for the first code with half of the places up to it; the last code stays on the right
    while at < most:
        middle = (at + most) // 2
        up_to = 0
        for i in range(n):
            up_to += keys[i] <= middle
        if 2 * up_to >= n:
            most = middle
        else:
            at = middle + 1
    left, kept = begin, 0
    for i in range(n):
        p = order[begin + i]
        if keys[i] <= at:
            order[left] = p
            left += 1
        else:
            spare[kept] = p
            kept += 1
    for i in range(kept):
        order[left + i] = spare[i]
    return left


@njit(cache=True, nogil=True)
def plant(rows, cells, turn, label, labels, weight, ints, floats):
    """A forest over the cells that are left, one tree per label; ``turn`` has the place of every cell among equals.

    Returns the places in tree order (a cell each), and of the nodes: box, first and last place, left child (the right one
    follows; -1: a leaf), parent, cells below, smallest turn; of the labels the root (-1: none) and the first place in a queue;
    the leaf of every place; and the turns.
    """
    n = cells.shape[0]
    m = rows.shape[1]
    order = np.empty(n, np.int32)
    edge = np.zeros(labels + 1, np.int64)
    for i in range(n):
        edge[label[cells[i]] + 1] += 1
    for i in range(labels):
        edge[i + 1] += edge[i]
    free = edge[:labels].copy()
    for i in range(n):
        order[free[label[cells[i]]]] = cells[i]
        free[label[cells[i]]] += 1
    room = 2 * n + labels
    box = np.empty((room, 2 * m), np.int32)
    span = np.empty((room, 2), np.int32)
    child = np.full(room, -1, np.int32)
    parent = np.full(room, -1, np.int32)
    first_turn = np.empty(room, np.int32)
    root = np.full(labels, -1, np.int32)
    heap = np.zeros(labels + 1, np.int64)
    keys, spare = np.empty(n, np.int32), np.empty(n, np.int32)
    nodes = 0
    for i in range(labels):
        made = nodes
        if edge[i] < edge[i + 1]:
            root[i] = nodes
            span[nodes] = edge[i], edge[i + 1]
            nodes += 1
        at = made
        while at < nodes:
            begin, end = span[at]
            wide, a, earliest = 0.0, -1, FAR
            for j in range(m):
                box[at, j], box[at, m + j] = FAR, -1
            for p in range(begin, end):
                cell = order[p]
                earliest = min(earliest, turn[cell])
                for j in range(m):
                    box[at, j] = min(box[at, j], rows[cell, j])
                    box[at, m + j] = max(box[at, m + j], rows[cell, j])
            first_turn[at] = earliest
            for j in range(m):
                loss = weighted_loss(j, box[at, j], box[at, m + j], weight, ints, floats)
                if loss > wide:
                    wide, a = loss, j
            if end - begin > LEAF:
                middle = (begin + end) // 2
                if a >= 0:
                    middle = cut(rows, order, begin, end, a, box[at, a], box[at, m + a], keys, spare)
                child[at] = nodes
                for half in range(2):
                    parent[nodes] = at
                    span[nodes] = (begin, middle) if half == 0 else (middle, end)
                    nodes += 1
            at += 1
        heap[i + 1] = heap[i] + (nodes - made) + (edge[i + 1] - edge[i])
    below = span[:nodes, 1] - span[:nodes, 0]
    leaf = np.empty(n, np.int32)
    for at in range(nodes):
        if child[at] < 0:
            leaf[span[at, 0] : span[at, 1]] = at
    return (
        order,
        box[:nodes].copy(),
        span[:nodes].copy(),
        child[:nodes].copy(),
        parent[:nodes].copy(),
        below,
        first_turn[:nodes].copy(),
        root,
        heap,
        leaf,
        turn,
    )


@njit(cache=True, nogil=True)
def fell(place, rows, count, forest):
    """A cell is used up: draw the boxes above it tight around what is left, as seeds use up the outermost cells first."""
    order, box, span, child, parent, below, _, _, _, leaf, _ = forest
    m = rows.shape[1]
    node, loose = leaf[place], True
    while node >= 0:
        below[node] -= 1
        loose = loose and below[node] > 0
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
                        if below[half] > 0:
                            lo, hi = min(lo, box[half, j]), max(hi, box[half, m + j])
                changed = changed or lo != box[node, j] or hi != box[node, m + j]
                box[node, j], box[node, m + j] = lo, hi
            loose = changed
        elif below[node] == 0:
            loose = True  # the node above has lost one of its halves
        node = parent[node]


@njit(cache=True, nogil=True)
def furthest(forest, rows, count, lo, hi, begin, table, weight, ints, floats, stack, reach, rest):
    """The cell left that lies furthest from the box, which is drawn around one record; ties: the smaller turn."""
    order, box, span, child, _, below, first_turn, root, _, _, turn = forest
    best, found, earliest = -1.0, FAR, FAR
    beyond(lo, hi, begin, table, weight, ints, floats, rest)
    for i in range(root.shape[0]):
        if root[i] < 0 or below[root[i]] == 0:
            continue
        stack[0] = root[i]
        reach[0] = at_most(root[i], box, best, rest, lo, hi, begin, table, weight, ints, floats)
        high = 1
        while high > 0:
            high -= 1
            node, most = stack[high], reach[high]
            if most < best or (most == best and first_turn[node] > earliest):
                continue
            if child[node] < 0:
                for p in range(span[node, 0], span[node, 1]):
                    cell = order[p]
                    if count[cell] > 0:
                        d = reaching(cell, rows, best, rest, lo, hi, begin, table, weight, ints, floats)
                        if d > best or (d == best and turn[cell] < earliest):
                            best, found, earliest = d, cell, turn[cell]
                continue
            one, other = child[node], child[node] + 1
            most_one = most_other = -1.0
            if below[one] > 0:
                most_one = at_most(one, box, best, rest, lo, hi, begin, table, weight, ints, floats)
            if below[other] > 0:
                most_other = at_most(other, box, best, rest, lo, hi, begin, table, weight, ints, floats)
            if most_one > most_other or (most_one == most_other and first_turn[one] < first_turn[other]):
                one, other, most_one, most_other = other, one, most_other, most_one
            if most_one >= 0.0:
                stack[high], reach[high] = one, most_one
                high += 1
            if most_other >= 0.0:  # the more promising one is looked at first
                stack[high], reach[high] = other, most_other
                high += 1
    return found


@njit(cache=True, nogil=True, forceinline=True)
def before(key, tag, i, j):
    """Whether entry ``i`` of a queue comes before entry ``j``."""
    return key[i] < key[j] or (key[i] == key[j] and tag[i] < tag[j])


@njit(cache=True, nogil=True)
def sink(key, tag, stamp, base, size):
    """Let the top of a queue sink to its place."""
    d, t, s = key[base], tag[base], stamp[base]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and before(key, tag, base + below + 1, base + below):
            below += 1
        i = base + below
        if not (key[i] < d or (key[i] == d and tag[i] < t)):
            break
        key[base + at], tag[base + at], stamp[base + at] = key[i], tag[i], stamp[i]
        at = below
    key[base + at], tag[base + at], stamp[base + at] = d, t, s


@njit(cache=True, nogil=True)
def push(key, tag, stamp, base, size, d, t, s):
    """Put an entry into a queue of ``size`` entries."""
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
def nearest(i, version, forest, queue, sizes, rows, count, lo, hi, cur, begin, table, weight, ints, floats):
    """Bring the nearest record of label ``i`` to the top of its queue; whether there is one.

    ``version`` counts how often the box has grown: figures of an older one are lower bounds.
    """
    order, box, span, child, _, below, first_turn, _, heap, _, turn = forest
    key, tag, stamp = queue
    nodes = np.int64(child.shape[0])
    base, size = heap[i], sizes[i]
    while size > 0:
        ref = tag[base] & LOW
        gone = count[order[ref - nodes]] == 0 if ref >= nodes else below[ref] == 0
        if not gone and stamp[base] != version:
            if ref >= nodes:
                d = joined(order[ref - nodes], rows, lo, hi, begin, table, weight, ints, floats)
            else:
                d = at_least(ref, box, lo, hi, cur, begin, table, weight, ints, floats)
            stamp[base] = version
            if d > key[base]:
                key[base] = d
                sink(key, tag, stamp, base, size)
                continue
        if not gone and ref >= nodes:
            sizes[i] = size
            return True
        size -= 1
        key[base], tag[base], stamp[base] = key[base + size], tag[base + size], stamp[base + size]
        sink(key, tag, stamp, base, size)
        if gone:
            continue
        if child[ref] < 0:
            for p in range(span[ref, 0], span[ref, 1]):
                cell = order[p]
                if count[cell] > 0:
                    d = joined(cell, rows, lo, hi, begin, table, weight, ints, floats)
                    push(key, tag, stamp, base, size, d, (np.int64(turn[cell]) << 32) | (p + nodes), version)
                    size += 1
        else:
            for node in range(child[ref], child[ref] + 2):
                if below[node] > 0:
                    d = at_least(node, box, lo, hi, cur, begin, table, weight, ints, floats)
                    push(key, tag, stamp, base, size, d, (np.int64(first_turn[node]) << 32) | np.int64(node), version)
                    size += 1
    sizes[i] = 0
    return False
