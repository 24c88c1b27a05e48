"""The cut with the largest information gain on a target: workload-aware Mondrian (LeFevre, DeWitt, Ramakrishnan, KDD 2006).

The gain of a cut, in bits x records, is the decrease of the entropy of the target's classes, weighted by records, from the
segment to its two sides. With T(x) = x log2 x it is T(all) - T(left) - T(right) + the sum over the classes of T on the left
and the right minus T in the segment. The sums are integer multiples of a small unit, so they depend neither on the order of
the rows nor on the way of counting the classes.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import inner
from shoal.kernels.interface import CLASS_ROOM, LEAST_GAIN, LOW, TABLE
from shoal.kernels.segments import NO_CUT, both_hold, count_segment, move_counts, sort_by_code

BITS = 58  # T of a whole segment has about this many bits in its unit


@inner(forceinline=True)
def x_log2_x(x, unit):
    """T of a count, in units."""
    return np.int64(np.rint(x * np.log2(x) * unit)) if x > 1 else np.int64(0)


@inner(forceinline=True)
def move_class_records(label, records, left, right, unit):
    """Move records of a class from the right side to the left; return the increase of the sum of T over both sides."""
    before = x_log2_x(left[label], unit) + x_log2_x(right[label], unit)
    left[label] += records
    right[label] -= records
    return x_log2_x(left[label], unit) + x_log2_x(right[label], unit) - before


@inner
def count_classes(ref, begin, end, cells, out, unit):
    """Count the classes of a segment into ``out``, which is all zero; return the sum of T over the classes."""
    start, cell_records, classes = cells.start, cells.records, cells.classes
    total = np.int64(0)
    for i in range(begin, end):
        for c in range(start[ref[i]], start[ref[i] + 1]):
            label = classes[c]
            total -= x_log2_x(out[label], unit)
            out[label] += cell_records[c]
            total += x_log2_x(out[label], unit)
    return total


@inner
def reset_classes(ref, begin, end, cells, left, right):
    """Move all classes of a segment back to the right side."""
    start, classes = cells.start, cells.classes
    for i in range(begin, end):
        for c in range(start[ref[i]], start[ref[i] + 1]):
            right[classes[c]] += left[classes[c]]
            left[classes[c]] = 0


@inner
def tabulate_classes(rows, begin, end, cells, scratch):
    """Count the classes by the codes of every attribute that fits into the table.

    ``scratch.class_first`` gets the start of every attribute in the table; -1 for attributes that are not counted.
    """
    codes, ref, lo, hi, first = rows.codes, rows.ref, scratch.lo, scratch.hi, scratch.class_first
    start, cell_records, classes = cells.start, cells.records, cells.classes
    table, labels = scratch.class_table, scratch.left_classes.shape[0]
    most, used, m = min(TABLE, 4 * (end - begin) + CLASS_ROOM), 0, lo.shape[0]
    for a in range(m):
        first[a] = -1
        places = np.int64(hi[a] - lo[a] + 1) * labels
        if lo[a] < hi[a] and places <= most:
            first[a] = used
            used += places
    for x in range(used):
        table[x] = 0
    for i in range(begin, end):
        u = ref[i]
        for c in range(start[u], start[u + 1]):
            for a in range(m):
                if first[a] >= 0:
                    table[first[a] + np.int64(codes[i, a] - lo[a]) * labels + classes[c]] += cell_records[c]


@inner
def search_target_cut(rows, begin, end, total, criteria, scratch, segment_sum, unit, values):
    """Search the cut of `find_target_cut`; ``segment_sum`` is the sum of T over the segment's classes, all on the right."""
    ref, lo, hi, first = rows.ref, scratch.lo, scratch.hi, scratch.class_first
    cells, limits, least, whole = criteria.cells, criteria.limits, criteria.least, scratch.whole
    left, right, table = scratch.left_classes, scratch.right_classes, scratch.class_table
    left_counts, right_counts = scratch.left_counts, scratch.right_counts
    start, cell_records, classes = cells.start, cells.records, cells.classes
    n, labels = end - begin, left.shape[0]
    slack = np.int64(LEAST_GAIN * total * unit)
    best, best_a, best_at = np.int64(0), -1, NO_CUT
    tabulate_classes(rows, begin, end, cells, scratch)
    if values is not None:
        count_segment(ref, begin, end, cells, whole)
    for a in range(lo.shape[0]):
        if lo[a] == hi[a]:
            continue
        tabled = first[a] >= 0
        order = scratch.keys
        if not tabled or whole.shape[0] > 0:
            size = np.int64(hi[a]) - lo[a] + 1
            order = sort_by_code(rows.codes, begin, end, a, lo[a], size, scratch.keys, scratch.spare, scratch.digit)
        for x in range(whole.shape[0]):
            left_counts[x], right_counts[x] = 0, whole[x]
        side_sum, taken, moved, v = segment_sum, np.int64(0), 0, np.int64(0)
        for p in range(hi[a] - lo[a] if tabled else n - 1):
            before = taken
            if tabled:
                v = np.int64(p)
                for label in range(labels):
                    records = table[first[a] + p * labels + label]
                    if records > 0:
                        side_sum += move_class_records(label, records, left, right, unit)
                        taken += records
            else:
                v = order[p] >> 32
                u = ref[begin + (order[p] & LOW)]
                for c in range(start[u], start[u + 1]):
                    side_sum += move_class_records(classes[c], cell_records[c], left, right, unit)
                    taken += cell_records[c]
            if total - taken < least:
                break
            if taken < least or taken == before or (not tabled and order[p + 1] >> 32 == v):
                continue
            gain = (
                x_log2_x(total, unit) - segment_sum - (x_log2_x(taken, unit) + x_log2_x(total - taken, unit) - side_sum)
            )
            if gain > best + slack:
                if values is not None:
                    moved = move_counts(ref, begin, end, order, moved, v, cells, left_counts, right_counts)
                    if not both_hold(taken, total - taken, left_counts, right_counts, limits):
                        continue
                best, best_a, best_at = gain, a, lo[a] + v
        if tabled:
            for label in range(labels):
                right[label] += left[label]
                left[label] = 0
        else:
            reset_classes(ref, begin, end, cells, left, right)
    return best_a, best_at


@inner
def find_target_cut(rows, begin, end, total, criteria, scratch, values):
    """The allowed cut with the largest information gain on the target; -1 if no cut gains anything.

    Gains that differ by no more than rounding are equal. Ties: the earlier attribute, then the smaller code.
    """
    ref, cells, right = rows.ref, criteria.cells, scratch.right_classes
    unit = 2.0 ** (BITS - np.ceil(np.log2(total * np.log2(total) + 1.0)))
    segment_sum = count_classes(ref, begin, end, cells, right, unit)
    a, at = -1, NO_CUT
    if x_log2_x(total, unit) - segment_sum > np.int64(LEAST_GAIN * total * unit):
        a, at = search_target_cut(rows, begin, end, total, criteria, scratch, segment_sum, unit, values)
    start, classes = cells.start, cells.classes
    for i in range(begin, end):  # there may be many more classes than rows
        for c in range(start[ref[i]], start[ref[i] + 1]):
            right[classes[c]] = 0
    return a, at
