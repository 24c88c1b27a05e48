"""Mondrian's recursion on rows of codes, in place: each group is a segment of the rows.

Two ways to choose a cut (see `tables.mondrian`): the most balanced cut of the widest attribute, or, among all cuts of all
attributes, the one after which the losses of both sides, tightened in every attribute, fall most. The second touches each
row once per attribute: the smallest and largest codes of all attributes are gathered per code of the cut attribute, and
running boxes from both ends give the loss on either side of every cut.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.boxes import interval_loss
from shoal.kernels.limits import holds

MEDIAN, GAIN, RELAXED = 0, 1, 2
OPEN = -1
FAR = np.int32(2**31 - 1)
TABLE = 1 << 16  # codes up to this many are gathered in a table, more are sorted
LEAST_GAIN = 1e-9  # per record; below it is rounding


@njit(cache=True, nogil=True)
def weigh(ref, begin, end, cells, histogram):  # type: ignore[no-untyped-def]
    """Count the confidential values of a segment into ``histogram``."""
    start, secret, weight, offset = cells
    histogram[:] = 0
    for i in range(begin, end):
        u = ref[i]
        for c in range(start[u], start[u + 1]):
            for s in range(secret.shape[1]):
                histogram[offset[s] + secret[c, s]] += weight[c]


@njit(cache=True, nogil=True)
def allowed(rows, weight, ref, begin, end, a, at, total, whole, cells, limits):  # type: ignore[no-untyped-def]
    """Whether both sides of a cut meet every rule; ``whole`` is the histogram of the segment, if one is needed."""
    rule, first, last, x, y, base = limits
    left = np.zeros(whole.shape[0], np.int64)
    start, secret, cell_weight, offset = cells
    size = 0
    for i in range(begin, end):
        if rows[i, a] <= at:
            size += weight[i]
            if whole.shape[0] > 0:
                u = ref[i]
                for c in range(start[u], start[u + 1]):
                    for s in range(secret.shape[1]):
                        left[offset[s] + secret[c, s]] += cell_weight[c]
    if not holds(size, left, rule, first, last, x, y, base):
        return False
    return holds(total - size, whole - left, rule, first, last, x, y, base)


@njit(cache=True, nogil=True)
def balanced(rows, weight, begin, end, a, lo, hi, total, tally):  # type: ignore[no-untyped-def]
    """The cut of attribute ``a`` that divides the records most evenly, and the records on its left; smaller code on ties."""
    n = end - begin
    size = hi - lo + 1
    best = -1
    at = OPEN
    taken = 0
    left = 0
    if size <= 4 * n + 64 and size <= TABLE:
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
    order = begin + np.argsort(rows[begin:end, a])
    for p in range(n - 1):
        left += weight[order[p]]
        code = rows[order[p], a]
        if rows[order[p + 1], a] != code:
            gap = abs(2 * left - total)
            if best < 0 or gap < best:
                best, at, taken = gap, code, left
    return at, taken


@njit(cache=True, nogil=True)
def split_median(rows, weight, ref, begin, end, lo, hi, total, geometry, cells, limits, least, scratch):  # type: ignore[no-untyped-def]
    """The widest attribute whose most balanced cut is allowed, and that cut; -1 if there is none."""
    tally, whole = scratch[0], scratch[4]
    m = rows.shape[1]
    width = np.empty(m)
    for j in range(m):
        width[j] = interval_loss(j, lo[j], hi[j], geometry)
    if whole.shape[0] > 0:
        weigh(ref, begin, end, cells, whole)
    for _ in range(m):
        a = 0
        for j in range(1, m):
            if width[j] > width[a]:
                a = j
        if width[a] <= 0.0:
            return -1, OPEN
        width[a] = -1.0
        at, left = balanced(rows, weight, begin, end, a, lo[a], hi[a], total, tally)
        if at == OPEN or left < least or total - left < least:
            continue
        if whole.shape[0] == 0 or allowed(rows, weight, ref, begin, end, a, at, total, whole, cells, limits):
            return a, at
    return -1, OPEN


@njit(cache=True, nogil=True)
def gather(rows, weight, begin, end, a, lo, size, tally, low, high):  # type: ignore[no-untyped-def]
    """Per code of attribute ``a``: the records, and the box of all attributes."""
    m = rows.shape[1]
    tally[:size] = 0
    low[: size * m] = FAR
    high[: size * m] = -1
    for i in range(begin, end):
        v = rows[i, a] - lo
        tally[v] += weight[i]
        at = v * m
        for j in range(m):
            x = rows[i, j]
            low[at + j] = min(low[at + j], x)
            high[at + j] = max(high[at + j], x)


@njit(cache=True, nogil=True)
def gather_sorted(rows, weight, begin, end, a, tally, low, high, codes):  # type: ignore[no-untyped-def]
    """As `gather`, over the codes that are present only; returns how many there are."""
    m = rows.shape[1]
    order = begin + np.argsort(rows[begin:end, a])
    seen = -1
    last = OPEN
    for p in range(order.shape[0]):
        i = order[p]
        if rows[i, a] != last:
            seen += 1
            last = rows[i, a]
            codes[seen] = last
            tally[seen] = 0
            for j in range(m):
                low[seen * m + j] = FAR
                high[seen * m + j] = -1
        tally[seen] += weight[i]
        for j in range(m):
            x = rows[i, j]
            low[seen * m + j] = min(low[seen * m + j], x)
            high[seen * m + j] = max(high[seen * m + j], x)
    return seen + 1


@njit(cache=True, nogil=True)
def widen(v, m, low, high, lo, hi, part, geometry):  # type: ignore[no-untyped-def]
    """Take code ``v`` into a running box; the losses ``part`` are renewed where it grew. Returns their sum."""
    total = 0.0
    for j in range(m):
        x, y = low[v * m + j], high[v * m + j]
        if x < lo[j] or y > hi[j]:
            lo[j] = min(lo[j], x)
            hi[j] = max(hi[j], y)
            part[j] = interval_loss(j, lo[j], hi[j], geometry)
        total += part[j]
    return total


@njit(cache=True, nogil=True)
def split_gain(rows, weight, ref, begin, end, lo, hi, total, geometry, cells, limits, least, scratch):  # type: ignore[no-untyped-def]
    """The cut with the largest fall of records x loss; the earlier attribute, then the smaller code, on ties."""
    tally, low, high, codes, whole, after = scratch
    rule, first, last, x, y, base = limits
    start, secret, cell_weight, offset = cells
    m = rows.shape[1]
    n = end - begin
    now = 0.0
    for j in range(m):
        now += interval_loss(j, lo[j], hi[j], geometry)
    best = LEAST_GAIN * total
    best_a, best_at = -1, OPEN
    box_lo = np.empty(m, np.int32)
    box_hi = np.empty(m, np.int32)
    part = np.empty(m)
    if whole.shape[0] > 0:
        weigh(ref, begin, end, cells, whole)
    left_counts = np.zeros(whole.shape[0], np.int64)
    right_counts = np.zeros(whole.shape[0], np.int64)
    for a in range(m):
        if lo[a] == hi[a]:
            continue
        size = hi[a] - lo[a] + 1
        table = size <= 4 * n + 64 and size <= TABLE
        if table:
            gather(rows, weight, begin, end, a, lo[a], size, tally, low, high)
        else:
            size = gather_sorted(rows, weight, begin, end, a, tally, low, high, codes)
        box_lo[:] = FAR
        box_hi[:] = -1
        part[:] = 0.0
        loss = 0.0
        for v in range(size - 1, 0, -1):
            if tally[v] > 0:
                loss = widen(v, m, low, high, box_lo, box_hi, part, geometry)
            after[v] = loss
        by_code = order_by_code(rows, begin, end, a) if whole.shape[0] > 0 else np.empty(0, np.int64)
        moved = 0
        left_counts[:] = 0
        right_counts[:] = whole
        box_lo[:] = FAR
        box_hi[:] = -1
        part[:] = 0.0
        left = 0
        for v in range(size - 1):
            if tally[v] == 0:
                continue
            left += tally[v]
            loss = widen(v, m, low, high, box_lo, box_hi, part, geometry)
            if total - left < least:
                break
            if left < least:
                continue
            gain = total * now - (left * loss + (total - left) * after[v + 1])
            if gain > best:
                at = lo[a] + v if table else codes[v]
                if whole.shape[0] > 0:
                    while moved < n and rows[by_code[moved], a] <= at:
                        u = ref[by_code[moved]]
                        for c in range(start[u], start[u + 1]):
                            for s in range(secret.shape[1]):
                                left_counts[offset[s] + secret[c, s]] += cell_weight[c]
                                right_counts[offset[s] + secret[c, s]] -= cell_weight[c]
                        moved += 1
                    if not (
                        holds(left, left_counts, rule, first, last, x, y, base)
                        and holds(total - left, right_counts, rule, first, last, x, y, base)
                    ):
                        continue
                best, best_a, best_at = gain, a, at
    return best_a, best_at


@njit(cache=True, nogil=True)
def order_by_code(rows, begin, end, a):  # type: ignore[no-untyped-def]
    """The rows of a segment in the order of one attribute."""
    return begin + np.argsort(rows[begin:end, a])


@njit(cache=True, nogil=True)
def partition(rows, weight, ref, begin, end, a, at):  # type: ignore[no-untyped-def]
    """Move the rows with codes up to ``at`` to the front of the segment; returns where the others begin."""
    i, j = begin, end - 1
    while True:
        while i <= j and rows[i, a] <= at:
            i += 1
        while i <= j and rows[j, a] > at:
            j -= 1
        if i >= j:
            return i
        for c in range(rows.shape[1]):
            rows[i, c], rows[j, c] = rows[j, c], rows[i, c]
        weight[i], weight[j] = weight[j], weight[i]
        ref[i], ref[j] = ref[j], ref[i]
        i += 1
        j -= 1


@njit(cache=True, nogil=True)
def split_relaxed(rows, weight, ref, begin, end, lo, hi, total, geometry, cells, limits, least, scratch):  # type: ignore[no-untyped-def]
    """Halve the segment by the widest attribute whose halves are allowed, dividing equal values; -1 if none is.

    Rows stand for one record each. They are left sorted by (code, combination); returns where the second half begins.
    """
    whole = scratch[4]
    rule, first, last, x, y, base = limits
    m = rows.shape[1]
    width = np.empty(m)
    for j in range(m):
        width[j] = interval_loss(j, lo[j], hi[j], geometry)
    middle = begin + (end - begin) // 2
    if middle - begin < least:
        return -1
    if whole.shape[0] > 0:
        weigh(ref, begin, end, cells, whole)
    for _ in range(m):
        a = 0
        for j in range(1, m):
            if width[j] > width[a]:
                a = j
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
        if holds(middle - begin, left, rule, first, last, x, y, base) and holds(
            end - middle, whole - left, rule, first, last, x, y, base
        ):
            return middle
    return -1


@njit(cache=True, nogil=True)
def grow(rows, weight, ref, begin, end, mode, once, geometry, cells, limits, least):  # type: ignore[no-untyped-def]
    """Cut a segment until nothing may be cut, or ``once``; the rows end up ordered by group.

    Returns the nodes of the tree of cuts: attribute (-1: a group), cut, left child, right child, begin, end.
    """
    rule, first, last, x, y, base = limits
    start, secret, cell_weight, offset = cells
    m = rows.shape[1]
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

    biggest = np.int64(1)
    for j in range(m):
        biggest = max(biggest, np.int64(geometry[2][j]))
    room = min(max(min(biggest, TABLE), end - begin if biggest > TABLE else 0), 4 * (end - begin) + 64)
    counted = 0
    for r in range(rule.shape[0]):
        if rule[r] != 0:
            counted = base.shape[0]
    wide = room * m if mode == GAIN else 1
    scratch = (
        np.empty(room, np.int64),
        np.empty(wide, np.int32),
        np.empty(wide, np.int32),
        np.empty(room, np.int32),
        np.zeros(counted, np.int64),
        np.empty(room + 1, np.float64),
    )

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
        elif mode == GAIN:
            a, at = split_gain(rows, weight, ref, b, e, lo, hi, total, geometry, cells, limits, least, scratch)
        else:
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
    return attribute[:count], cut[:count], child[:count], segment[:count]
