"""Mondrian's recursion on rows of codes, in place: each group is a segment of the rows.

Three ways to choose a cut (see `tables.mondrian`): the most balanced cut of the widest attribute, or, among all cuts of all
attributes, the one after which the losses of both sides, tightened in every attribute, fall most, or the one that tells most
of a target (see `kernels.informed`). The second touches each row once per attribute: the smallest and largest codes of all
attributes are gathered per code of the cut attribute, and running boxes from both ends give the loss on either side of
every cut.

``geometry`` is the two arrays of `codes.Geometry` and the weights by which the losses of the attributes are multiplied.
``cells`` is what lies under each row: where its cells begin, their confidential codes, their records, where the counts of each
confidential attribute begin, their class, and how many classes there are.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.boxes import HEAD, SIZE, interval_loss
from shoal.kernels.informed import split_target, table_of
from shoal.kernels.segments import LEAST_GAIN, LOW, OPEN, SHORT, TABLE, both, move, partition, sort_by_code, weigh

MEDIAN, GAIN, RELAXED, TARGET = 0, 1, 2, 3
FAR = np.int32(2**31 - 1)
ZERO, ONE, TWO, THREE, FOUR = (np.uint64(i) for i in range(5))


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
    tally, keys, spare, whole = scratch[0], scratch[2], scratch[3], scratch[4]
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
def gather(rows, weight, begin, end, a, lo, size, tally, table):
    """Per code of attribute ``a``: the records, and the box of all attributes (smallest codes, then largest).

    The columns of ``rows`` come in fours, and each four is read before it is written, with unsigned places: then the
    compiler compares four at once.
    """
    flat = rows.reshape(-1)
    width = np.uint64(rows.shape[1])
    tally[:size] = 0
    for v in range(size):
        at = 2 * rows.shape[1] * v
        table[at : at + rows.shape[1]] = FAR
        table[at + rows.shape[1] : at + 2 * rows.shape[1]] = -1
    for i in range(np.uint64(begin), np.uint64(end)):
        row = i * width
        v = np.uint64(flat[row + np.uint64(a)] - lo)
        tally[v] += weight[i]
        at = TWO * width * v
        for j in range(ZERO, width, FOUR):
            r, low, high = row + j, at + j, at + width + j
            x0, x1, x2, x3 = flat[r], flat[r + ONE], flat[r + TWO], flat[r + THREE]
            l0, l1, l2, l3 = table[low], table[low + ONE], table[low + TWO], table[low + THREE]
            h0, h1, h2, h3 = table[high], table[high + ONE], table[high + TWO], table[high + THREE]
            table[low], table[low + ONE] = min(l0, x0), min(l1, x1)
            table[low + TWO], table[low + THREE] = min(l2, x2), min(l3, x3)
            table[high], table[high + ONE] = max(h0, x0), max(h1, x1)
            table[high + TWO], table[high + THREE] = max(h2, x2), max(h3, x3)


@njit(cache=True, nogil=True)
def running_loss(source, place, gap, count, backward, out, lo, hi, part, geometry):
    """The loss of the box around the first (or, backward, the last) entries, after each of them.

    Entry p spans, in attribute j, the codes ``source[place[p] + j]`` to ``source[place[p] + gap + j]``.
    """
    m = lo.shape[0]
    lo[:] = FAR
    hi[:] = -1
    loss = 0.0
    for q in range(count):
        p = count - 1 - q if backward else q
        at = place[p]
        grew = False
        for j in range(m):
            x, y = source[at + j], source[at + gap + j]
            if x < lo[j] or y > hi[j]:
                lo[j] = min(lo[j], x)
                hi[j] = max(hi[j], y)
                part[j] = loss_of(j, lo[j], hi[j], geometry)
                grew = True
        if grew:
            loss = 0.0
            for j in range(m):
                loss += part[j]
        out[p] = loss


@njit(cache=True, nogil=True)
def split_gain(rows, weight, ref, begin, end, lo, hi, total, geometry, cells, limits, least, scratch):
    """The cut with the largest fall of records x loss; the earlier attribute, then the smaller code, on ties."""
    tally, table, keys, spare, whole, place, before, after = scratch
    m = lo.shape[0]
    n = end - begin
    width = rows.shape[1]
    flat = rows.reshape(-1)
    now = 0.0
    for j in range(m):
        now += loss_of(j, lo[j], hi[j], geometry)
    best = LEAST_GAIN * total
    best_a, best_at = -1, OPEN
    box_lo, box_hi, part = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.float64)
    if whole.shape[0] > 0:
        weigh(ref, begin, end, cells, whole)
    for a in range(m):
        if lo[a] == hi[a]:
            continue
        size = hi[a] - lo[a] + 1
        tabled = size <= TABLE and (size <= n or size <= SHORT)
        order = keys[:0]
        if not tabled or whole.shape[0] > 0:
            order = sort_by_code(rows, begin, end, a, lo[a], size, keys, spare)
        if tabled:
            gather(rows, weight, begin, end, a, lo[a], size, tally, table)
            count = 0
            for v in range(size):
                if tally[v] > 0:
                    place[count] = 2 * width * v
                    count += 1
            source, gap = table, width
        else:
            count = n
            for p in range(n):
                place[p] = (begin + (order[p] & LOW)) * width
            source, gap = flat, 0
        running_loss(source, place, gap, count, False, before, box_lo, box_hi, part, geometry)
        running_loss(source, place, gap, count, True, after, box_lo, box_hi, part, geometry)
        left, moved, v = np.int64(0), 0, np.int64(0)
        left_counts = np.zeros(whole.shape[0], np.int64)
        right_counts = whole.copy()
        for p in range(count - 1):
            if tabled:
                v = np.int64(place[p] // (2 * width))
                left += tally[v]
            else:
                v = order[p] >> 32
                left += weight[place[p] // width]
            if total - left < least:
                break
            if left < least or (not tabled and order[p + 1] >> 32 == v):
                continue
            gain = total * now - (left * before[p] + (total - left) * after[p + 1])
            if gain > best:
                if whole.shape[0] > 0:
                    moved = move(ref, begin, end, order, moved, v, cells, left_counts, right_counts)
                    if not both(left, total - left, left_counts, right_counts, limits):
                        continue
                best, best_a, best_at = gain, a, lo[a] + v
    return best_a, best_at


@njit(cache=True, nogil=True)
def split_relaxed(rows, weight, ref, begin, end, lo, hi, total, geometry, cells, limits, least, scratch):
    """Halve the segment by the widest attribute whose halves are allowed, dividing equal values; -1 if none is.

    Rows stand for one record each. They are left sorted by (code, combination); returns where the second half begins.
    """
    whole = scratch[4]
    m = lo.shape[0]
    width = np.empty(m)
    for j in range(m):
        width[j] = loss_of(j, lo[j], hi[j], geometry)
    middle = begin + (end - begin) // 2
    if middle - begin < least:
        return -1
    if whole.shape[0] > 0:
        weigh(ref, begin, end, cells, whole)
    for _ in range(m):
        a = np.argmax(width)
        if width[a] <= 0.0:
            return -1
        width[a] = -1.0
        key = np.empty(end - begin, np.int64)
        for i in range(begin, end):
            key[i - begin] = (np.int64(rows[i, a]) << 32) | np.int64(ref[i])
        order = begin + np.argsort(key, kind="mergesort")
        rows[begin:end] = rows[order]
        ref[begin:end] = ref[order]
        if whole.shape[0] == 0:
            return middle
        left = np.zeros(whole.shape[0], np.int64)
        weigh(ref, begin, middle, cells, left)
        if both(middle - begin, end - middle, left, whole - left, limits):
            return middle
    return -1


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
    counted = 0
    for r in range(limits[0].shape[0]):
        if limits[0][r, 0] != 0:
            counted, sorted_rows = limits[2].shape[0], n
    if mode == TARGET:
        sorted_rows = n
    scratch = (
        np.empty(codes, np.int64),
        np.empty(2 * rows.shape[1] * codes if boxed else 0, np.int32),
        np.empty(sorted_rows, np.int64),
        np.empty(sorted_rows, np.int64),
        np.zeros(counted, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.float64),
        np.empty(entries, np.float64),
    )
    by_class = (
        np.zeros(kinds, np.int64),
        np.zeros(kinds, np.int64),
        np.empty(m * table_of(n) if mode == TARGET else 0, np.int64),
    )
    return scratch, by_class


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
    lo = np.empty(m, np.int32)
    hi = np.empty(m, np.int32)
    scratch, by_class = room(rows, end - begin, m, mode, geometry[0], limits, cells[5])
    stack = np.empty(most + 1, np.int32)
    stack[0] = 0
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        b, e = segment[node]
        total = np.int64(0)
        lo[:] = FAR
        hi[:] = -1
        for i in range(b, e):
            total += weight[i]
            for j in range(m):
                v = rows[i, j]
                lo[j] = min(lo[j], v)
                hi[j] = max(hi[j], v)
        if total < 2 * least:
            continue
        a, at, middle = -1, OPEN, np.int64(-1)
        if mode == MEDIAN:
            a, at = split_median(rows, weight, ref, b, e, lo, hi, total, geometry, cells, limits, least, scratch)
        elif mode == TARGET:
            a, at = split_target(rows, ref, b, e, lo, hi, total, cells, limits, least, scratch, by_class)
        if mode == GAIN or (mode == TARGET and a < 0):
            a, at = split_gain(rows, weight, ref, b, e, lo, hi, total, geometry, cells, limits, least, scratch)
        elif mode == RELAXED:
            middle = split_relaxed(rows, weight, ref, b, e, lo, hi, total, geometry, cells, limits, least, scratch)
        if a >= 0:
            middle = partition(rows, weight, ref, b, e, a, at)
        if middle < 0:
            continue
        attribute[node] = max(a, 0)
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
