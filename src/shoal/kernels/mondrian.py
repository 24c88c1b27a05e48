"""Mondrian's recursion on rows of codes, in place: each group is a segment of the rows.

There are three ways to choose a cut (see `tables.mondrian`): the most balanced cut of the widest attribute; among all cuts of
all attributes, the one with the largest decrease of the loss of both sides, tightened in every attribute; or the one with the
largest information gain on a target (see `kernels.target_split`). The second reads each row once per attribute: the smallest
and largest codes of all attributes are gathered per code of the cut attribute, and running boxes from both ends give the loss
on either side of every cut.

``rows`` are `interface.SplitRows`, ``segment`` is a `segments.Segment`, ``criteria`` `interface.SplitCriteria`, ``scratch``
`segments.Scratch`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels import rules
from shoal.kernels.boxes import interval_loss, widen_to_label
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import (
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
    SIZE,
    TARGET,
    TREE,
    ZERO64,
)
from shoal.kernels.segments import (
    NO_CUT,
    SHORT,
    TABLE,
    Scratch,
    Segment,
    both_hold,
    count_segment,
    move_counts,
    partition_rows,
    sort_by_code,
)
from shoal.kernels.target_split import ClassScratch, find_target_cut, table_capacity
from shoal.kernels.vectorized_boxes import clear, stretch

ZERO, TWO = np.uint64(0), np.uint64(2)


class BoxScratch(NamedTuple):
    """Work arrays of `find_gain_cut`.

    The boxes by code; the running box, its previous state and its loss by attribute; by entry its position, cumulative records
    and code, and the loss up to it and from it on; the tabulated attributes and their places; the counts of both sides.
    """

    table: NDArray[Any]
    box: NDArray[Any]
    previous: NDArray[Any]
    attribute_loss: NDArray[Any]
    place: NDArray[Any]
    cumulative: NDArray[Any]
    code: NDArray[Any]
    before: NDArray[Any]
    after: NDArray[Any]
    tabulated: NDArray[Any]
    base: NDArray[Any]
    left_counts: NDArray[Any]
    right_counts: NDArray[Any]


class CutNodes(NamedTuple):
    """The nodes of a tree of cuts: attribute (-1: a group), cut, children, segment of rows."""

    attribute: NDArray[Any]
    cut: NDArray[Any]
    child: NDArray[Any]
    segment: NDArray[Any]


@inner(forceinline=True)
def weighted_interval_loss(j, lo, hi, losses):
    """The loss of the codes ``lo`` to ``hi`` of attribute ``j``, times the attribute weight."""
    return losses.weight[j] * interval_loss(j, lo, hi, losses.ints, losses.floats)


@inner(forceinline=True)
def compute_widths(segment, losses):
    """The weighted loss of the segment's box by attribute."""
    width = np.empty(segment.lo.shape[0])
    for j in range(width.shape[0]):
        is_single = segment.lo[j] == segment.hi[j]  # it cannot be cut, also if rounded ends give it a loss
        width[j] = 0.0 if is_single else weighted_interval_loss(j, segment.lo[j], segment.hi[j], losses)
    return width


@inner
def is_allowed(codes, records, ref, segment, a, at, whole, cells, limits):
    """Whether both sides of a cut meet every rule; ``whole`` is the histogram of the segment, empty if not needed."""
    left = np.zeros(whole.shape[0], np.int64)
    start, sensitive, offset = cells.start, cells.sensitive, cells.offset
    size = 0
    for i in range(segment.begin, segment.end):
        if codes[i, a] <= at:
            size += records[i]
            if whole.shape[0] > 0:
                u = ref[i]
                for c in range(start[u], start[u + 1]):
                    for s in range(sensitive.shape[1]):
                        left[offset[s] + sensitive[c, s]] += cells.records[c]
    return both_hold(size, segment.records - size, left, whole - left, limits)


@inner
def find_balanced_cut(codes, records, segment, a, tally, keys, spare):
    """The most balanced cut of attribute ``a``, and the number of records on its left. Ties: the smaller code."""
    begin, end, lo, hi, total = segment.begin, segment.end, segment.lo[a], segment.hi[a], segment.records
    n = end - begin
    size = hi - lo + 1
    best, at, taken, left = -1, NO_CUT, 0, 0
    if size <= TABLE and size <= 4 * n + SHORT:
        tally[:size] = 0
        for i in range(begin, end):
            tally[codes[i, a] - lo] += records[i]
        for v in range(size - 1):
            if tally[v] > 0:
                left += tally[v]
                gap = abs(2 * left - total)
                if best < 0 or gap < best:
                    best, at, taken = gap, lo + v, left
        return at, taken
    order = sort_by_code(codes, begin, end, a, lo, size, keys, spare)
    for p in range(n - 1):
        left += records[begin + (order[p] & LOW)]
        v = order[p] >> 32
        if order[p + 1] >> 32 != v:
            gap = abs(2 * left - total)
            if best < 0 or gap < best:
                best, at, taken = gap, lo + v, left
    return at, taken


@inner
def find_median_cut(rows, segment, criteria, scratch):
    """The widest attribute whose most balanced cut is allowed, and that cut; -1 if there is none."""
    codes, records, ref, total = rows.codes, rows.records, rows.ref, segment.records
    tally, keys, spare, whole = scratch.tally, scratch.keys, scratch.spare, scratch.whole
    cells, limits, least = criteria.cells, criteria.limits, criteria.least
    width = compute_widths(segment, criteria.losses)
    if whole.shape[0] > 0:
        count_segment(ref, segment.begin, segment.end, cells, whole)
    for _ in range(width.shape[0]):
        a = np.argmax(width)
        if width[a] <= 0.0:
            return -1, NO_CUT
        width[a] = -1.0
        at, left = find_balanced_cut(codes, records, segment, a, tally, keys, spare)
        if at == NO_CUT or left < least or total - left < least:
            continue
        if whole.shape[0] == 0 or is_allowed(codes, records, ref, segment, a, at, whole, cells, limits):
            return a, at
    return -1, NO_CUT


@inner
def assign_table_places(segment, begin, tabulated, base):
    """The attributes from ``begin`` on that share one table, the first attribute after these, and the table entries used.

    Code v of the attribute ``tabulated[t]`` has the entry ``base[t] + v``. An attribute with more codes than rows gets no
    table.
    """
    lo, hi, n = segment.lo, segment.hi, segment.end - segment.begin
    count, used, a = 0, 0, begin
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
def gather_boxes(rows, segment, count, used, tally, box_scratch):
    """For every code of the first ``count`` tabulated attributes: the records, and the box of all attributes around them."""
    flat, row_records, box = rows.codes.reshape(-1), rows.records, 2 * rows.codes.shape[1]
    tabulated, base, table = box_scratch.tabulated, box_scratch.base, box_scratch.table
    width = np.uint64(rows.codes.shape[1])
    tally[:used] = 0
    for v in range(used):
        clear(table[box * v : box * (v + 1)])
    for i in range(np.uint64(segment.begin), np.uint64(segment.end)):
        row, records = i * width, row_records[i]
        for t in range(count):
            v = np.uint64(base[t] + flat[row + np.uint64(tabulated[t])])
            tally[v] += records
            stretch(table, TWO * width * v, width, flat, row, ZERO)


@inner(forceinline=True)
def list_tabulated_codes(tally, first, size, span, box_scratch):
    """List the codes that occur: the position of the code's box, the cumulative number of records, and the code."""
    place, cumulative, code = box_scratch.place, box_scratch.cumulative, box_scratch.code
    count, left = 0, np.int64(0)
    for v in range(size):
        left += tally[first + v]
        place[count], cumulative[count], code[count] = span * (first + v), left, v
        count += tally[first + v] > 0
    return count


@inner(forceinline=True)
def list_sorted_rows(order, rows, segment, box_scratch):
    """The same for rows sorted by code, where each row is a box."""
    place, cumulative, code = box_scratch.place, box_scratch.cumulative, box_scratch.code
    n, width, left = segment.end - segment.begin, rows.codes.shape[1], np.int64(0)
    for p in range(n):
        i = segment.begin + (order[p] & LOW)
        left += rows.records[i]
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
def compute_running_losses(source, gap, begin, direction, count, skip, box_scratch, losses, out):
    """The loss of the box around the first entry, the first two and so on, at every end of a code, except the first ``skip``.

    Entries are read from ``begin`` on, upwards if ``direction`` is 1, downwards if it is -1. An entry is a box in ``source``:
    its largest codes follow its smallest codes after ``gap``, which is 0 for rows.
    """
    box, previous, attribute_loss = box_scratch.box, box_scratch.previous, box_scratch.attribute_loss
    place, code = box_scratch.place, box_scratch.code
    width = np.uint64(box.shape[0] // 2)
    clear(box)
    clear(previous)
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
def find_gain_cut(rows, segment, criteria, scratch, box_scratch):
    """The cut with the largest decrease of records x loss. Ties: the earlier attribute, then the smaller code."""
    begin, end, lo, hi, total = segment.begin, segment.end, segment.lo, segment.hi, segment.records
    losses, cells, limits, least = criteria.losses, criteria.cells, criteria.limits, criteria.least
    tally, keys, spare, whole = scratch.tally, scratch.keys, scratch.spare, scratch.whole
    cumulative, code, before, after = box_scratch.cumulative, box_scratch.code, box_scratch.before, box_scratch.after
    tabulated, base = box_scratch.tabulated, box_scratch.base
    left_counts, right_counts = box_scratch.left_counts, box_scratch.right_counts
    m, width = lo.shape[0], rows.codes.shape[1]
    flat = rows.codes.reshape(-1)
    current_loss = 0.0
    for j in range(m):
        current_loss += weighted_interval_loss(j, lo[j], hi[j], losses)
    best = LEAST_GAIN * total
    best_a, best_at = -1, NO_CUT
    if whole.shape[0] > 0:
        count_segment(rows.ref, begin, end, cells, whole)
    tabulated_count, next_attribute, t = 0, 0, 0
    for a in range(m):
        if a == next_attribute:
            tabulated_count, next_attribute, used = assign_table_places(segment, a, tabulated, base)
            gather_boxes(rows, segment, tabulated_count, used, tally, box_scratch)
            t = 0
        if lo[a] == hi[a]:
            continue
        size = np.int64(hi[a]) - lo[a] + 1
        has_table = t < tabulated_count and tabulated[t] == a
        order = keys[:0]
        if not has_table or whole.shape[0] > 0:
            order = sort_by_code(rows.codes, begin, end, a, lo[a], size, keys, spare)
        if has_table:
            count = list_tabulated_codes(tally, base[t] + lo[a], size, 2 * width, box_scratch)
            source, gap = box_scratch.table, width
            t += 1
        else:
            count = list_sorted_rows(order, rows, segment, box_scratch)
            source, gap = flat, 0
        first, last = 0, count - 2  # the entries after which both sides are large enough
        while first <= last and cumulative[first] < least:
            first += 1
        while first <= last and total - cumulative[last] < least:
            last -= 1
        if first > last:
            continue
        compute_running_losses(source, gap, ZERO64, ONE64, last + 1, first, box_scratch, losses, before)
        right_count, right_skip = count - 1 - first, count - 2 - last
        compute_running_losses(source, gap, count - 1, NONE64, right_count, right_skip, box_scratch, losses, after)
        moved = 0
        left_counts[:] = 0
        for v in range(whole.shape[0]):
            right_counts[v] = whole[v]
        for p in range(first, last + 1):
            if code[p] == code[p + 1]:
                continue
            left = cumulative[p]
            gain = total * current_loss - (left * before[p] + (total - left) * after[p + 1])
            if gain > best:
                if whole.shape[0] > 0:
                    moved = move_counts(rows.ref, begin, end, order, moved, code[p], cells, left_counts, right_counts)
                    if not both_hold(left, total - left, left_counts, right_counts, limits):
                        continue
                best, best_a, best_at = gain, a, lo[a] + code[p]
    return best_a, best_at


@inner
def split_relaxed(rows, segment, criteria, scratch):
    """Halve the segment by the widest attribute whose halves are allowed, dividing equal values; -1 if there is none.

    Each row is one record. The rows end up sorted by (code, combination). Return the attribute and the start of the second
    half.
    """
    codes, ref, begin, end = rows.codes, rows.ref, segment.begin, segment.end
    cells, whole = criteria.cells, scratch.whole
    width = compute_widths(segment, criteria.losses)
    middle = begin + (end - begin) // 2
    if middle - begin < criteria.least:
        return -1, -1
    if whole.shape[0] > 0:
        count_segment(ref, begin, end, cells, whole)
    for _ in range(width.shape[0]):
        a = np.argmax(width)
        if width[a] <= 0.0:
            return -1, -1
        width[a] = -1.0
        key = np.empty(end - begin, np.int64)
        for i in range(begin, end):
            key[i - begin] = (np.int64(codes[i, a]) << 32) | np.int64(ref[i])
        order = begin + np.argsort(key, kind="mergesort")
        codes[begin:end] = codes[order]
        ref[begin:end] = ref[order]
        if whole.shape[0] == 0:
            return a, middle
        left = np.zeros(whole.shape[0], np.int64)
        count_segment(ref, begin, middle, cells, left)
        if both_hold(middle - begin, end - middle, left, whole - left, criteria.limits):
            return a, middle
    return -1, -1


@inner
def allocate_scratch(codes, n, m, mode, criteria):
    """Allocate the work arrays of a search among ``n`` rows: for all cuts, for boxes, and for the classes of a target."""
    ints, limits, class_count = criteria.losses.ints, criteria.limits, criteria.cells.class_count
    biggest = np.int64(1)
    for j in range(m):
        biggest = max(biggest, np.int64(ints[HEAD * j + SIZE]))
    uses_boxes = mode in (GAIN, TARGET)
    counted_codes = min(biggest, TABLE, 4 * n + SHORT)
    sorted_rows = n if biggest > TABLE else min(n, biggest)  # fewer rows than codes, or too many codes for a table
    entries = max(counted_codes, sorted_rows) if uses_boxes else 0
    places = np.int64(0)
    if uses_boxes:
        for j in range(m):
            places += min(np.int64(ints[HEAD * j + SIZE]), max(n, SHORT))
        places = min(places, TABLE)
    histogram_size = 0
    for r in range(limits.term.shape[0]):
        if limits.term[r, 0] != rules.SIZE:
            histogram_size, sorted_rows = limits.table_shares.shape[0], n
    if mode == TARGET:
        sorted_rows = n
    scratch = Scratch(
        np.empty(max(counted_codes, places), np.int64),
        np.empty(sorted_rows, np.int64),
        np.empty(sorted_rows, np.int64),
        np.zeros(histogram_size, np.int64),
    )
    box = 2 * codes.shape[1]
    box_scratch = BoxScratch(
        np.empty(box * places, codes.dtype),
        np.empty(box, codes.dtype),
        np.empty(box, codes.dtype),
        np.empty(m, np.float64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.float64),
        np.empty(entries, np.float64),
        np.empty(m, np.int64),
        np.empty(m, np.int64),
        np.empty(histogram_size, np.int64),
        np.empty(histogram_size, np.int64),
    )
    class_scratch = ClassScratch(
        np.zeros(class_count, np.int64),
        np.zeros(class_count, np.int64),
        np.empty(m * table_capacity(n) if mode == TARGET else 0, np.int64),
    )
    return scratch, box_scratch, class_scratch


def grow_tree(rows: Any, begin: int, end: int, m: int, mode: int, once: bool, criteria: Any) -> Any:
    """Cut a segment until no cut is allowed, or ``once``; the rows end up ordered by group. Return the nodes of the tree.

    ``m`` is the number of attributes, ``mode`` the choice of cuts (MEDIAN, GAIN, RELAXED or TARGET).
    """
    return grow_with(rows, begin, end, m, mode, once, criteria, *FINDERS[mode])


# By mode: whether the median cut, the cut by the target, the cut by gain, and the relaxed split are searched.
FINDERS = {
    MEDIAN: (True, None, None, None),
    TARGET: (None, True, True, None),
    GAIN: (None, None, True, None),
    RELAXED: (None, None, None, True),
}


@entry
def grow_with(rows, begin, end, m, mode, once, criteria, median, target, gain, relaxed):
    """See `grow_tree`. The compiler leaves out branches for arguments that are None."""
    codes, row_records, least = rows.codes, rows.records, criteria.least
    records = np.int64(0)
    for i in range(begin, end):
        records += row_records[i]
    max_nodes = 3 if once else 2 * min(end - begin, records // max(least, 1)) + 3
    attribute = np.full(max_nodes, -1, np.int32)
    cut = np.full(max_nodes, -1, np.int32)
    child = np.full((max_nodes, 2), -1, np.int32)
    segment = np.empty((max_nodes, 2), np.int64)
    segment[0] = begin, end
    count = 1
    lo, hi = np.empty(m, np.int32), np.empty(m, np.int32)
    flat, width, box = codes.reshape(-1), np.uint64(codes.shape[1]), np.empty(2 * codes.shape[1], codes.dtype)
    scratch, box_scratch, class_scratch = allocate_scratch(codes, end - begin, m, mode, criteria)
    stack = np.empty(max_nodes + 1, np.int32)
    stack[0] = 0
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        b, e = segment[node]
        total = np.int64(0)
        clear(box)
        for i in range(np.uint64(b), np.uint64(e)):
            total += row_records[i]
            stretch(box, ZERO, width, flat, i * width, ZERO)
        if total < 2 * least:
            continue
        for j in range(m):
            lo[j], hi[j] = box[j], box[codes.shape[1] + j]
        group = Segment(b, e, lo, hi, total)
        a, at, middle = -1, NO_CUT, np.int64(-1)
        if median is not None:
            a, at = find_median_cut(rows, group, criteria, scratch)
        if target is not None:
            a, at = find_target_cut(rows, group, criteria, scratch, class_scratch)
        if gain is not None:
            if a < 0:
                a, at = find_gain_cut(rows, group, criteria, scratch, box_scratch)
        if relaxed is not None:
            a, middle = split_relaxed(rows, group, criteria, scratch)
        elif a >= 0:
            middle = partition_rows(rows, b, e, a, at)
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
    return CutNodes(attribute[:count].copy(), cut[:count].copy(), child[:count].copy(), segment[:count].copy())
