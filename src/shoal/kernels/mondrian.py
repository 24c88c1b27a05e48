"""Mondrian's recursion on rows of codes, in place: each group is a segment of the rows.

There are three ways to choose a cut (see `tables.mondrian`): the most balanced cut of the widest attribute; among all cuts of
all attributes, the one with the largest decrease of the loss of both sides, tightened in every attribute; or the one with the
largest information gain on a target (see `kernels.target_split`). The second reads each row once per attribute: the smallest
and largest codes of all attributes are gathered per code of the cut attribute, and running boxes from both ends give the loss
on either side of every cut.

``rows`` are `interface.SplitRows`, ``criteria`` `interface.SplitCriteria`, ``scratch`` `interface.SplitScratch`. A segment is
the rows ``begin`` to ``end``, ``total`` its records; ``scratch.lo`` and ``scratch.hi`` are its smallest and largest codes.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels import rules
from shoal.kernels.boxes import interval_loss, widen_to_label
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import (
    CLASS_ROOM,
    GAIN,
    HEAD,
    KIND,
    LEAST_GAIN,
    LOW,
    MEDIAN,
    NONE64,
    ONE64,
    RANGED,
    RELAXED,
    SHORT,
    SIZE,
    TABLE,
    TARGET,
    TREE,
    ZERO64,
    CutNodes,
    SplitCriteria,
    SplitRows,
    SplitScratch,
)
from shoal.kernels.segments import NO_CUT, both_hold, count_segment, move_counts, partition_rows, sort_by_code
from shoal.kernels.target_split import find_target_cut
from shoal.kernels.vectorized_boxes import clear, stretch

ZERO, TWO = np.uint64(0), np.uint64(2)


@inner(forceinline=True)
def weighted_interval_loss(j, lo, hi, losses):
    """The loss of the codes ``lo`` to ``hi`` of attribute ``j``, times the attribute weight."""
    return losses.weight[j] * interval_loss(j, lo, hi, losses.ints, losses.floats)


@inner
def compute_widths(lo, hi, losses, width):
    """The weighted loss of a box by attribute, written to ``width``."""
    for j in range(width.shape[0]):
        is_single = lo[j] == hi[j]  # it cannot be cut, also if rounded ends give it a loss
        width[j] = 0.0 if is_single else weighted_interval_loss(j, np.int64(lo[j]), np.int64(hi[j]), losses)


@inner
def take_widest(width):
    """The attribute with the largest width, which becomes -1; -1 if no attribute has a width."""
    a = np.int64(0)
    for j in range(1, width.shape[0]):
        if width[j] > width[a]:
            a = j
    if width[a] <= 0.0:
        return np.int64(-1)
    width[a] = -1.0
    return a


@inner
def is_allowed(rows, begin, end, total, a, at, criteria, scratch):
    """Whether both sides of a cut meet every rule; ``scratch.whole`` is the histogram of the segment."""
    codes, records, ref = rows.codes, rows.records, rows.ref
    whole, left, right = scratch.whole, scratch.left_counts, scratch.right_counts
    start, sensitive, offset, cell_records = (
        criteria.cells.start,
        criteria.cells.sensitive,
        criteria.cells.offset,
        criteria.cells.records,
    )
    for v in range(whole.shape[0]):
        left[v], right[v] = 0, whole[v]
    size = np.int64(0)
    for i in range(begin, end):
        if codes[i, a] <= at:
            size += records[i]
            u = ref[i]
            for c in range(start[u], start[u + 1]):
                for s in range(sensitive.shape[1]):
                    left[offset[s] + sensitive[c, s]] += cell_records[c]
                    right[offset[s] + sensitive[c, s]] -= cell_records[c]
    return both_hold(size, total - size, left, right, criteria.limits)


@inner
def find_balanced_cut(rows, begin, end, total, a, scratch):
    """The most balanced cut of attribute ``a``, and the number of records on its left. Ties: the smaller code."""
    codes, records, tally = rows.codes, rows.records, scratch.tally
    lo, size = np.int64(scratch.lo[a]), np.int64(scratch.hi[a]) - scratch.lo[a] + 1
    n = end - begin
    best, at, taken, left = np.int64(-1), np.int64(NO_CUT), np.int64(0), np.int64(0)
    if size <= TABLE and size <= 4 * n + SHORT:
        for v in range(size):
            tally[v] = 0
        for i in range(begin, end):
            tally[codes[i, a] - lo] += records[i]
        for v in range(size - 1):
            if tally[v] > 0:
                left += tally[v]
                gap = abs(2 * left - total)
                if best < 0 or gap < best:
                    best, at, taken = gap, lo + v, left
        return at, taken
    order = sort_by_code(codes, begin, end, a, lo, size, scratch.keys, scratch.spare, scratch.digit)
    for p in range(n - 1):
        left += records[begin + (order[p] & LOW)]
        v = order[p] >> 32
        if order[p + 1] >> 32 != v:
            gap = abs(2 * left - total)
            if best < 0 or gap < best:
                best, at, taken = gap, lo + v, left
    return at, taken


@inner
def find_median_cut(rows, begin, end, total, criteria, scratch, values):
    """The widest attribute whose most balanced cut is allowed, and that cut; -1 if there is none."""
    least, width = criteria.least, scratch.width
    compute_widths(scratch.lo, scratch.hi, criteria.losses, width)
    if values is not None:
        count_segment(rows.ref, begin, end, criteria.cells, scratch.whole)
    while True:
        a = take_widest(width)
        if a < 0:
            return a, np.int64(NO_CUT)
        at, left = find_balanced_cut(rows, begin, end, total, a, scratch)
        if at == NO_CUT or left < least or total - left < least:
            continue
        if values is not None:
            if not is_allowed(rows, begin, end, total, a, at, criteria, scratch):
                continue
        return a, at


@inner
def assign_table_places(lo, hi, n, begin, tabulated, base):
    """The attributes from ``begin`` on that share one table, the first attribute after these, and the table entries used.

    Code v of the attribute ``tabulated[t]`` has the entry ``base[t] + v``. An attribute with more codes than rows gets no
    table.
    """
    count, used, a = np.int64(0), np.int64(0), begin
    while a < lo.shape[0]:
        size = np.int64(hi[a]) - lo[a] + 1
        if size > 1 and size <= TABLE and (size <= n or size <= SHORT):
            if used + size > TABLE:
                break
            tabulated[count], base[count] = a, used - lo[a]
            count += 1
            used += size
        a += 1
    return count, a, used


@inner
def gather_boxes(rows, begin, end, count, used, scratch):
    """For every code of the first ``count`` tabulated attributes: the records, and the box of all attributes around them."""
    flat, row_records, tally = rows.codes.reshape(-1), rows.records, scratch.tally
    tabulated, base, table, largest = scratch.tabulated, scratch.base, scratch.table, scratch.largest
    width = np.uint64(rows.codes.shape[1])
    for v in range(np.uint64(used)):
        tally[v] = 0
        clear(table, TWO * width * v, width, largest)
    for i in range(np.uint64(begin), np.uint64(end)):
        row, records = i * width, row_records[i]
        for t in range(count):
            v = np.uint64(base[t] + flat[row + np.uint64(tabulated[t])])
            tally[v] += records
            stretch(table, TWO * width * v, width, flat, row, ZERO)


@inner
def list_tabulated_codes(first, size, span, scratch):
    """List the codes that occur: the position of the code's box, the cumulative number of records, and the code."""
    tally, place, cumulative, code = scratch.tally, scratch.place, scratch.cumulative, scratch.code
    count, left = np.int64(0), np.int64(0)
    for v in range(size):
        left += tally[first + v]
        place[count], cumulative[count], code[count] = span * (first + v), left, v
        count += tally[first + v] > 0
    return count


@inner
def list_sorted_rows(order, rows, begin, n, scratch):
    """The same for rows sorted by code, where each row is a box."""
    place, cumulative, code, records = scratch.place, scratch.cumulative, scratch.code, rows.records
    width, left = rows.codes.shape[1], np.int64(0)
    for p in range(n):
        i = begin + (order[p] & LOW)
        left += records[i]
        place[p], cumulative[p], code[p] = width * i, left, order[p] >> 32
    return n


@inner
def update_box_loss(box, previous, attribute_loss, losses):
    """The loss of the running box; ``attribute_loss`` has it by attribute for the box ``previous``, and both are updated.

    The box is widened to the codes under its labels, which does not change its loss. So it grows less often afterwards.
    """
    ints, first = losses.ints, losses.first_code
    width = box.shape[0] // 2
    loss = 0.0
    for j in range(attribute_loss.shape[0]):
        lo, hi = np.int64(box[j]), np.int64(box[width + j])
        if lo != previous[j] or hi != previous[width + j]:
            attribute_loss[j] = weighted_interval_loss(j, lo, hi, losses)
            if lo < hi and (ints[HEAD * j + KIND] == TREE or ints[HEAD * j + KIND] == RANGED):
                box[j], box[width + j] = widen_to_label(j, lo, hi, ints, first)
            previous[j], previous[width + j] = box[j], box[width + j]
        loss += attribute_loss[j]
    return loss


@inner
def compute_running_losses(source, gap, begin, direction, count, skip, scratch, losses, out):
    """The loss of the box around the first entry, the first two and so on, at every end of a code, except the first ``skip``.

    Entries are read from ``begin`` on, upwards if ``direction`` is 1, downwards if it is -1. An entry is a box in ``source``:
    its largest codes follow its smallest codes after ``gap``, which is 0 for rows.
    """
    box, previous, attribute_loss = scratch.box, scratch.previous, scratch.attribute_loss
    place, code = scratch.place, scratch.code
    width = np.uint64(box.shape[0] // 2)
    clear(box, ZERO, width, scratch.largest)
    clear(previous, ZERO, width, scratch.largest)
    grew, loss = False, 0.0
    for q in range(count):
        p = begin + direction * q
        grew |= stretch(box, ZERO, width, source, np.uint64(place[p]), np.uint64(gap))
        if q >= skip and code[p] != code[p + direction]:
            if grew:
                loss = update_box_loss(box, previous, attribute_loss, losses)
                grew = False
            out[p] = loss


@inner
def find_gain_cut(rows, begin, end, total, criteria, scratch, values):
    """The cut with the largest decrease of records x loss. Ties: the earlier attribute, then the smaller code."""
    losses, cells, limits, least = criteria.losses, criteria.cells, criteria.limits, criteria.least
    lo, hi, keys, spare, whole = scratch.lo, scratch.hi, scratch.keys, scratch.spare, scratch.whole
    cumulative, code, before, after = scratch.cumulative, scratch.code, scratch.before, scratch.after
    tabulated, base = scratch.tabulated, scratch.base
    left_counts, right_counts = scratch.left_counts, scratch.right_counts
    m, width = lo.shape[0], rows.codes.shape[1]
    flat = rows.codes.reshape(-1)
    current_loss = 0.0
    for j in range(m):
        current_loss += weighted_interval_loss(j, np.int64(lo[j]), np.int64(hi[j]), losses)
    best = LEAST_GAIN * total
    best_a, best_at = np.int64(-1), np.int64(NO_CUT)
    if values is not None:
        count_segment(rows.ref, begin, end, cells, whole)
    tabulated_count, next_attribute, t = np.int64(0), np.int64(0), np.int64(0)
    for a in range(m):
        if a == next_attribute:
            tabulated_count, next_attribute, used = assign_table_places(lo, hi, end - begin, a, tabulated, base)
            gather_boxes(rows, begin, end, tabulated_count, used, scratch)
            t = np.int64(0)
        if lo[a] == hi[a]:
            continue
        size = np.int64(hi[a]) - lo[a] + 1
        has_table = t < tabulated_count and tabulated[t] == a
        order = keys
        if not has_table or whole.shape[0] > 0:
            order = sort_by_code(rows.codes, begin, end, a, np.int64(lo[a]), size, keys, spare, scratch.digit)
        if has_table:
            count = list_tabulated_codes(base[t] + lo[a], size, 2 * width, scratch)
            source, gap = scratch.table, width
            t += 1
        else:
            count = list_sorted_rows(order, rows, begin, end - begin, scratch)
            source, gap = flat, np.int64(0)
        first, last = np.int64(0), count - 2  # the entries after which both sides are large enough
        while first <= last and cumulative[first] < least:
            first += 1
        while first <= last and total - cumulative[last] < least:
            last -= 1
        if first > last:
            continue
        compute_running_losses(source, gap, ZERO64, ONE64, last + 1, first, scratch, losses, before)
        right_count, right_skip = count - 1 - first, count - 2 - last
        compute_running_losses(source, gap, count - 1, NONE64, right_count, right_skip, scratch, losses, after)
        moved = np.int64(0)
        for v in range(whole.shape[0]):
            left_counts[v], right_counts[v] = 0, whole[v]
        for p in range(first, last + 1):
            if code[p] == code[p + 1]:
                continue
            left = cumulative[p]
            gain = total * current_loss - (left * before[p] + (total - left) * after[p + 1])
            if gain > best:
                if values is not None:
                    moved = move_counts(rows.ref, begin, end, order, moved, code[p], cells, left_counts, right_counts)
                    if not both_hold(left, total - left, left_counts, right_counts, limits):
                        continue
                best, best_a, best_at = gain, a, lo[a] + code[p]
    return best_a, best_at


@inner
def split_relaxed(rows, begin, end, criteria, scratch, values):
    """Halve the segment by the widest attribute whose halves are allowed, dividing equal values; -1 if there is none.

    Each row is one record. The rows end up sorted by (code, combination). Return the attribute and the start of the second
    half.
    """
    codes, ref, width = rows.codes, rows.ref, scratch.width
    cells, whole, left, right = criteria.cells, scratch.whole, scratch.left_counts, scratch.right_counts
    compute_widths(scratch.lo, scratch.hi, criteria.losses, width)
    middle = begin + (end - begin) // 2
    if middle - begin < criteria.least:
        return np.int64(-1), np.int64(-1)
    if values is not None:
        count_segment(ref, begin, end, cells, whole)
    while True:
        a = take_widest(width)
        if a < 0:
            return a, a
        key = np.empty(end - begin, np.int64)
        for i in range(begin, end):
            key[i - begin] = (np.int64(codes[i, a]) << 32) | np.int64(ref[i])
        order = begin + np.argsort(key, kind="mergesort")
        codes[begin:end] = codes[order]
        ref[begin:end] = ref[order]
        if values is not None:
            count_segment(ref, begin, middle, cells, left)
            for v in range(whole.shape[0]):
                right[v] = whole[v] - left[v]
            if not both_hold(middle - begin, end - middle, left, right, criteria.limits):
                continue
        return a, middle


def grow_tree(
    rows: SplitRows, begin: int, end: int, mode: int, once: bool, criteria: SplitCriteria, scratch: SplitScratch
) -> CutNodes:
    """Cut a segment until no cut is allowed, or ``once``; the rows end up ordered by group. Return the nodes of the tree.

    ``mode`` is the choice of cuts (MEDIAN, GAIN, RELAXED or TARGET).
    """
    records = int(rows.records[begin:end].sum(dtype=np.int64))
    most = 3 if once else 2 * min(end - begin, records // max(criteria.least, 1)) + 3
    nodes = CutNodes(
        np.full(most, -1, np.int32),
        np.full(most, -1, np.int32),
        np.full((most, 2), -1, np.int32),
        np.empty((most, 2), np.int64),
        np.empty(most + 1, np.int32),
    )
    values = True if len(scratch.whole) else None
    count = grow_with(rows, begin, end, once, criteria, scratch, nodes, *FINDERS[mode], values)
    return CutNodes(
        nodes.attribute[:count].copy(),
        nodes.cut[:count].copy(),
        nodes.child[:count].copy(),
        nodes.segment[:count].copy(),
        nodes.stack[:0],
    )


# By mode: whether the median cut, the cut by the target, the cut by gain, and the relaxed split are searched.
FINDERS = {
    MEDIAN: (True, None, None, None),
    TARGET: (None, True, True, None),
    GAIN: (None, None, True, None),
    RELAXED: (None, None, None, True),
}


@entry
def grow_with(rows, begin, end, once, criteria, scratch, nodes, median, target, gain, relaxed, values):
    """See `grow_tree`; return the number of nodes. The compiler leaves out branches for arguments that are None.

    ``values``: requirements are on sensitive values too.
    """
    codes, row_records, least = rows.codes, rows.records, criteria.least
    attribute, cut, child, segment, stack = nodes.attribute, nodes.cut, nodes.child, nodes.segment, nodes.stack
    lo, hi, box = scratch.lo, scratch.hi, scratch.box
    flat, width = codes.reshape(-1), np.uint64(codes.shape[1])
    segment[0, 0], segment[0, 1] = begin, end
    stack[0] = 0
    count, top = np.int64(1), np.int64(1)
    while top > 0:
        top -= 1
        node = stack[top]
        b, e = segment[node, 0], segment[node, 1]
        total = np.int64(0)
        clear(box, ZERO, width, scratch.largest)
        for i in range(np.uint64(b), np.uint64(e)):
            total += row_records[i]
            stretch(box, ZERO, width, flat, i * width, ZERO)
        if total < 2 * least:
            continue
        for j in range(lo.shape[0]):
            lo[j], hi[j] = box[j], box[codes.shape[1] + j]
        a, at, middle = np.int64(-1), np.int64(NO_CUT), np.int64(-1)
        if median is not None:
            a, at = find_median_cut(rows, b, e, total, criteria, scratch, values)
        if target is not None:
            a, at = find_target_cut(rows, b, e, total, criteria, scratch, values)
        if gain is not None:
            if a < 0:
                a, at = find_gain_cut(rows, b, e, total, criteria, scratch, values)
        if relaxed is not None:
            a, middle = split_relaxed(rows, b, e, criteria, scratch, values)
        elif a >= 0:
            middle = partition_rows(rows, b, e, a, at)
        if middle < 0:
            continue
        attribute[node], cut[node] = a, at
        segment[count, 0], segment[count, 1] = b, middle
        segment[count + 1, 0], segment[count + 1, 1] = middle, e
        child[node, 0], child[node, 1] = count, count + 1
        if not once:
            stack[top], stack[top + 1] = count + 1, count
            top += 2
        count += 2
    return count


def allocate_scratch(rows: SplitRows, n: int, m: int, mode: int, criteria: SplitCriteria) -> SplitScratch:
    """Allocate the work arrays of a search among ``n`` rows with ``m`` attributes."""
    kind, lanes = rows.codes.dtype, rows.codes.shape[1]
    limits, classes = criteria.limits, criteria.cells.class_count
    sizes = criteria.losses.ints[SIZE : HEAD * m : HEAD].astype(np.int64)
    biggest = int(sizes.max(initial=1))
    uses_boxes, tests_values = mode in (GAIN, TARGET), bool((limits.term[:, 0] != rules.SIZE).any())
    counted_codes = min(biggest, TABLE, 4 * n + SHORT)
    sorted_rows = n if biggest > TABLE else min(n, biggest)  # fewer rows than codes, or too many codes for a table
    entries = max(counted_codes, sorted_rows) if uses_boxes else 0
    places = min(int(np.minimum(sizes, max(n, SHORT)).sum()), TABLE) if uses_boxes else 0
    if tests_values or mode == TARGET:
        sorted_rows = n
    values = len(limits.table_shares) if tests_values else 0
    class_entries = m * min(TABLE, 4 * n + CLASS_ROOM) if mode == TARGET else 0
    return SplitScratch(
        lo=np.empty(m, np.int32),
        hi=np.empty(m, np.int32),
        tally=np.empty(max(counted_codes, places), np.int64),
        keys=np.empty(sorted_rows, np.int64),
        spare=np.empty(sorted_rows, np.int64),
        digit=np.empty(257, np.int64),
        whole=np.zeros(values, np.int64),
        left_counts=np.empty(values, np.int64),
        right_counts=np.empty(values, np.int64),
        table=np.empty(2 * lanes * places, kind),
        box=np.empty(2 * lanes, kind),
        previous=np.empty(2 * lanes, kind),
        largest=int(np.iinfo(kind).max),
        attribute_loss=np.empty(m),
        place=np.empty(entries, np.int64),
        cumulative=np.empty(entries, np.int64),
        code=np.empty(entries, np.int64),
        before=np.empty(entries),
        after=np.empty(entries),
        tabulated=np.empty(m, np.int64),
        base=np.empty(m, np.int64),
        left_classes=np.zeros(classes, np.int64),
        right_classes=np.zeros(classes, np.int64),
        class_table=np.empty(class_entries, np.int64),
        class_first=np.empty(m, np.int64),
        width=np.empty(m),
    )
