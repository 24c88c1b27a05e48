"""Mondrian's recursion on rows of codes, in place: each group is a segment of the rows.

Three ways to choose a cut (see `tables.mondrian`): the most balanced cut of the widest attribute, or, among all cuts of all
attributes, the one after which the losses of both sides, tightened in every attribute, fall most, or the one that tells most
of a target (see `kernels.informed`). The second touches each row once per attribute: the smallest and largest codes of all
attributes are gathered per code of the cut attribute, and running boxes from both ends give the loss on either side of
every cut.

``geometry`` is the two arrays of `codes.Geometry`, the weights by which the losses of the attributes are multiplied, and the
first code under each node, where the first of the two arrays has the last.
``cells`` is what lies under each row: where its cells begin, their confidential codes, their records, where the counts of each
confidential attribute begin, their class, and how many classes there are.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.boxes import HEAD, KIND, NODES, SIZE, TREE, interval_loss, lowest_node
from shoal.kernels.segments import LEAST_GAIN, LOW, OPEN, SHORT, TABLE, both, move, partition, sort_by_code, weigh
from shoal.kernels.target_split import split_target, table_of
from shoal.kernels.vectorized_boxes import clear, stretch

MEDIAN, GAIN, RELAXED, TARGET = 0, 1, 2, 3
ZERO, TWO = np.uint64(0), np.uint64(2)


@njit(cache=True, nogil=True, forceinline=True)
def loss_of(j, lo, hi, geometry):
    """The loss of the codes ``lo`` to ``hi`` of attribute ``j``, times its weight."""
    return geometry[2][j] * interval_loss(j, lo, hi, geometry[0], geometry[1])


@njit(cache=True, nogil=True)
def allowed(rows, weight, ref, begin, end, a, at, total, whole, cells, limits):
    """Whether both sides of a cut meet every rule; ``whole`` is the histogram of the segment, if one is needed."""
    left = np.zeros(whole.shape[0], np.int64)
    start, secret, cell_weight, offset = cells[:4]
    size = 0
    for i in range(begin, end):
        if rows[i, a] <= at:
            size += weight[i]
            if whole.shape[0] > 0:
                u = ref[i]
                for c in range(start[u], start[u + 1]):
                    for s in range(secret.shape[1]):
                        left[offset[s] + secret[c, s]] += cell_weight[c]
    return both(size, total - size, left, whole - left, limits)


@njit(cache=True, nogil=True)
def balanced(rows, weight, begin, end, a, lo, hi, total, tally, keys, spare):
    """The cut of attribute ``a`` that divides the records most evenly, with the records left of it; on ties the first."""
    n = end - begin
    size = hi - lo + 1
    best, at, taken, left = -1, OPEN, 0, 0
    if size <= TABLE and size <= 4 * n + SHORT:
        tally[:size] = 0
        for i in range(begin, end):
            tally[rows[i, a] - lo] += weight[i]
        for v in range(size - 1):
            if tally[v] > 0:
                left += tally[v]
                gap = abs(2 * left - total)
                if best < 0 or gap < best:
                    best, at, taken = gap, lo + v, left
        return at, taken
    order = sort_by_code(rows, begin, end, a, lo, size, keys, spare)
    for p in range(n - 1):
        left += weight[begin + (order[p] & LOW)]
        v = order[p] >> 32
        if order[p + 1] >> 32 != v:
            gap = abs(2 * left - total)
            if best < 0 or gap < best:
                best, at, taken = gap, lo + v, left
    return at, taken


@njit(cache=True, nogil=True)
def split_median(rows, weight, ref, begin, end, lo, hi, total, geometry, cells, limits, least, scratch):
    """The widest attribute whose most balanced cut is allowed, and that cut; -1 if there is none."""
    tally, keys, spare, whole = scratch
    m = lo.shape[0]
    width = np.empty(m)
    for j in range(m):
        width[j] = loss_of(j, lo[j], hi[j], geometry)
    if whole.shape[0] > 0:
        weigh(ref, begin, end, cells, whole)
    for _ in range(m):
        a = np.argmax(width)
        if width[a] <= 0.0:
            return -1, OPEN
        width[a] = -1.0
        at, left = balanced(rows, weight, begin, end, a, lo[a], hi[a], total, tally, keys, spare)
        if at == OPEN or left < least or total - left < least:
            continue
        if whole.shape[0] == 0 or allowed(rows, weight, ref, begin, end, a, at, total, whole, cells, limits):
            return a, at
    return -1, OPEN


@njit(cache=True, nogil=True)
def lay_out(lo, hi, begin, n, listed, base):
    """Which attributes from ``begin`` on are gathered together in a table, the next one after these, and the places used.

    Code v of the attribute ``listed[t]`` has the place ``base[t] + v``. More codes than rows are not worth a table.
    """
    count, used, a = 0, 0, begin
    while a < lo.shape[0]:
        size = np.int64(hi[a]) - lo[a] + 1
        if size > 1 and size <= TABLE and (size <= n or size <= SHORT):
            if used + size > TABLE:
                break
            listed[count], base[count] = a, used - lo[a]
            count += 1
            used += size
        a += 1
    return count, a, used


@njit(cache=True, nogil=True)
def gather(rows, weight, begin, end, listed, base, used, tally, table):
    """Per code of the listed attributes: the records, and the box of all attributes around them."""
    flat = rows.reshape(-1)
    width = np.uint64(rows.shape[1])
    tally[:used] = 0
    for v in range(used):
        clear(table[2 * rows.shape[1] * v : 2 * rows.shape[1] * (v + 1)])
    for i in range(np.uint64(begin), np.uint64(end)):
        row, records = i * width, weight[i]
        for t in range(listed.shape[0]):
            v = np.uint64(base[t] + flat[row + np.uint64(listed[t])])
            tally[v] += records
            stretch(table, TWO * width * v, width, flat, row, ZERO)


@njit(cache=True, nogil=True)
def tabled_entries(tally, first, size, span, place, upto, code):
    """The codes that occur, as entries: where the box of each lies, the records up to it, and the code."""
    count, left = 0, np.int64(0)
    for v in range(size):
        left += tally[first + v]
        place[count], upto[count], code[count] = span * (first + v), left, v
        count += tally[first + v] > 0
    return count


@njit(cache=True, nogil=True)
def sorted_entries(order, n, weight, begin, width, place, upto, code):
    """The same for rows in the order of their codes, each a box of its own."""
    left = np.int64(0)
    for p in range(n):
        i = begin + (order[p] & LOW)
        left += weight[i]
        place[p], upto[p], code[p] = width * i, left, order[p] >> 32
    return n


@njit(cache=True, nogil=True)
def loss_of_box(box, known, part, geometry):
    """The loss of a box; ``part`` has it by attribute for the box ``known``, and is brought up to date with it.

    The box is widened to all that its nodes cover, which costs nothing: then it seldom grows, and seldom comes here.
    """
    ints, first = geometry[0], geometry[3]
    width = box.shape[0] // 2
    loss = 0.0
    for j in range(part.shape[0]):
        lo, hi = np.int64(box[j]), np.int64(box[width + j])
        if lo != known[j] or hi != known[width + j]:
            part[j] = loss_of(j, lo, hi, geometry)
            if lo < hi and ints[HEAD * j + KIND] == TREE:
                node = ints[HEAD * j + NODES] + 2 * lowest_node(j, lo, hi, ints)
                box[j], box[width + j] = first[node], ints[node]
            known[j], known[width + j] = box[j], box[width + j]
        loss += part[j]
    return loss


@njit(cache=True, nogil=True)
def running_loss(source, gap, place, code, begin, one, count, skipped, out, box, known, part, geometry):
    """The loss of the box around the first entry, the first two and so on, wherever a code ends, but for some at first.

    Entries are taken from ``begin`` on, upwards where ``one`` is 1, downwards where it is -1.
    """
    width = np.uint64(box.shape[0] // 2)
    clear(box)
    clear(known)
    grew, loss = False, 0.0
    for q in range(count):
        p = begin + one * q
        grew |= stretch(box, ZERO, width, source, np.uint64(place[p]), np.uint64(gap))
        if q >= skipped and code[p] != code[p + one]:
            if grew:
                loss = loss_of_box(box, known, part, geometry)
                grew = False
            out[p] = loss


@njit(cache=True, nogil=True)
def split_gain(rows, weight, ref, begin, end, lo, hi, total, geometry, cells, limits, least, scratch, boxing):
    """The cut with the largest fall of records x loss; the earlier attribute, then the smaller code, on ties."""
    tally, keys, spare, whole = scratch
    table, box, known, part, place, upto, code, before, after, listed, base, left_counts, right_counts = boxing
    m, n, width = lo.shape[0], end - begin, rows.shape[1]
    flat = rows.reshape(-1)
    now = 0.0
    for j in range(m):
        now += loss_of(j, lo[j], hi[j], geometry)
    best = LEAST_GAIN * total
    best_a, best_at = -1, OPEN
    if whole.shape[0] > 0:
        weigh(ref, begin, end, cells, whole)
    gathered, ready, t = 0, 0, 0
    for a in range(m):
        if a == ready:
            gathered, ready, used = lay_out(lo, hi, a, n, listed, base)
            gather(rows, weight, begin, end, listed[:gathered], base[:gathered], used, tally, table)
            t = 0
        if lo[a] == hi[a]:
            continue
        size = np.int64(hi[a]) - lo[a] + 1
        tabled = t < gathered and listed[t] == a
        order = keys[:0]
        if not tabled or whole.shape[0] > 0:
            order = sort_by_code(rows, begin, end, a, lo[a], size, keys, spare)
        if tabled:
            count = tabled_entries(tally, base[t] + lo[a], size, 2 * width, place, upto, code)
            source, gap = table, width
            t += 1
        else:
            count = sorted_entries(order, n, weight, begin, width, place, upto, code)
            source, gap = flat, 0
        first, last = 0, count - 2  # the entries after which both sides are large enough
        while first <= last and upto[first] < least:
            first += 1
        while first <= last and total - upto[last] < least:
            last -= 1
        if first > last:
            continue
        running_loss(source, gap, place, code, 0, 1, last + 1, first, before, box, known, part, geometry)
        over, beyond = count - 1 - first, count - 2 - last
        running_loss(source, gap, place, code, count - 1, -1, over, beyond, after, box, known, part, geometry)
        moved = 0
        left_counts[:] = 0
        right_counts[:] = whole
        for p in range(first, last + 1):
            if code[p] == code[p + 1]:
                continue
            left = upto[p]
            gain = total * now - (left * before[p] + (total - left) * after[p + 1])
            if gain > best:
                if whole.shape[0] > 0:
                    moved = move(ref, begin, end, order, moved, code[p], cells, left_counts, right_counts)
                    if not both(left, total - left, left_counts, right_counts, limits):
                        continue
                best, best_a, best_at = gain, a, lo[a] + code[p]
    return best_a, best_at


@njit(cache=True, nogil=True)
def split_relaxed(rows, weight, ref, begin, end, lo, hi, total, geometry, cells, limits, least, scratch):
    """Halve the segment by the widest attribute whose halves are allowed, dividing equal values; -1 if none is.

    Rows stand for one record each. They are left sorted by (code, combination); returns the attribute and where the second half
    begins.
    """
    whole = scratch[3]
    m = lo.shape[0]
    width = np.empty(m)
    for j in range(m):
        width[j] = loss_of(j, lo[j], hi[j], geometry)
    middle = begin + (end - begin) // 2
    if middle - begin < least:
        return -1, -1
    if whole.shape[0] > 0:
        weigh(ref, begin, end, cells, whole)
    for _ in range(m):
        a = np.argmax(width)
        if width[a] <= 0.0:
            return -1, -1
        width[a] = -1.0
        key = np.empty(end - begin, np.int64)
        for i in range(begin, end):
            key[i - begin] = (np.int64(rows[i, a]) << 32) | np.int64(ref[i])
        order = begin + np.argsort(key, kind="mergesort")
        rows[begin:end] = rows[order]
        ref[begin:end] = ref[order]
        if whole.shape[0] == 0:
            return a, middle
        left = np.zeros(whole.shape[0], np.int64)
        weigh(ref, begin, middle, cells, left)
        if both(middle - begin, end - middle, left, whole - left, limits):
            return a, middle
    return -1, -1


@njit(cache=True, nogil=True)
def room(rows, n, m, mode, ints, limits, kinds):
    """Space for the search among ``n`` rows: what all cuts use, and what cuts for a target of so many ``kinds`` do."""
    biggest = np.int64(1)
    for j in range(m):
        biggest = max(biggest, np.int64(ints[HEAD * j + SIZE]))
    boxed = mode in (GAIN, TARGET)
    codes = min(biggest, TABLE, 4 * n + SHORT)
    sorted_rows = n if biggest > TABLE else min(n, biggest)  # fewer rows than codes, or too many codes for a table
    entries = max(codes, sorted_rows) if boxed else 0
    places = np.int64(0)
    if boxed:
        for j in range(m):
            places += min(np.int64(ints[HEAD * j + SIZE]), max(n, SHORT))
        places = min(places, TABLE)
    counted = 0
    for r in range(limits[0].shape[0]):
        if limits[0][r, 0] != 0:
            counted, sorted_rows = limits[2].shape[0], n
    if mode == TARGET:
        sorted_rows = n
    scratch = (
        np.empty(max(codes, places), np.int64),
        np.empty(sorted_rows, np.int64),
        np.empty(sorted_rows, np.int64),
        np.zeros(counted, np.int64),
    )
    box = 2 * rows.shape[1]
    boxing = (
        np.empty(box * places, rows.dtype),
        np.empty(box, rows.dtype),
        np.empty(box, rows.dtype),
        np.empty(m, np.float64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.float64),
        np.empty(entries, np.float64),
        np.empty(m, np.int64),
        np.empty(m, np.int64),
        np.empty(counted, np.int64),
        np.empty(counted, np.int64),
    )
    by_class = (
        np.zeros(kinds, np.int64),
        np.zeros(kinds, np.int64),
        np.empty(m * table_of(n) if mode == TARGET else 0, np.int64),
    )
    return scratch, boxing, by_class


@njit(cache=True, nogil=True)
def grow(rows, weight, ref, begin, end, m, mode, once, geometry, cells, limits, least):
    """Cut a segment until nothing may be cut, or ``once``; the rows end up ordered by group.

    Returns the nodes of the tree of cuts: attribute (-1: a group), cut, left child, right child, begin, end.
    """
    records = np.int64(0)
    for i in range(begin, end):
        records += weight[i]
    most = 3 if once else 2 * min(end - begin, records // max(least, 1)) + 3
    attribute = np.full(most, -1, np.int32)
    cut = np.full(most, -1, np.int32)
    child = np.full((most, 2), -1, np.int32)
    segment = np.empty((most, 2), np.int64)
    segment[0] = begin, end
    count = 1
    lo, hi = np.empty(m, np.int32), np.empty(m, np.int32)
    flat, width, box = rows.reshape(-1), np.uint64(rows.shape[1]), np.empty(2 * rows.shape[1], rows.dtype)
    scratch, boxing, by_class = room(rows, end - begin, m, mode, geometry[0], limits, cells[5])
    stack = np.empty(most + 1, np.int32)
    stack[0] = 0
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        b, e = segment[node]
        total = np.int64(0)
        clear(box)
        for i in range(np.uint64(b), np.uint64(e)):
            total += weight[i]
            stretch(box, ZERO, width, flat, i * width, ZERO)
        if total < 2 * least:
            continue
        for j in range(m):
            lo[j], hi[j] = box[j], box[rows.shape[1] + j]
        a, at, middle = -1, OPEN, np.int64(-1)
        if mode == MEDIAN:
            a, at = split_median(rows, weight, ref, b, e, lo, hi, total, geometry, cells, limits, least, scratch)
        elif mode == TARGET:
            a, at = split_target(rows, ref, b, e, lo, hi, total, cells, limits, least, scratch, by_class)
        if mode == GAIN or (mode == TARGET and a < 0):
            a, at = split_gain(rows, weight, ref, b, e, lo, hi, total, geometry, cells, limits, least, scratch, boxing)
        elif mode == RELAXED:
            a, middle = split_relaxed(rows, weight, ref, b, e, lo, hi, total, geometry, cells, limits, least, scratch)
        if a >= 0 and mode != RELAXED:
            middle = partition(rows, weight, ref, b, e, a, at)
        if middle < 0:
            continue
        attribute[node] = a
        cut[node] = at
        segment[count] = b, middle
        segment[count + 1] = middle, e
        child[node] = count, count + 1
        if not once:
            stack[top] = count + 1
            stack[top + 1] = count
            top += 2
        count += 2
    return attribute[:count].copy(), cut[:count].copy(), child[:count].copy(), segment[:count].copy()
