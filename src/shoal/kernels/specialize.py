"""Groups that are refined value by value (Fung, Wang, Yu: Top-down specialization, sections 5.3 and 5.4).

The rows of one group are consecutive, as in the paper's leaf partitions. For every group and attribute three look-ahead figures
predict the specialization of the attribute's value: the smallest group that would pass, the records in groups that would fail,
and the number of groups. So the search updates scores without reading records, and a specialization reads only the records that
have the value.

The *slot* of a row and an attribute is the number of the child that the row would get. A row's slots and codes are packed into
words: ``fields[a]`` has word, shift and mask of the slot of attribute a, then those of its code. ``facts[g]`` has the first row
of group g, the row after its last, its records, its failing records, and three look-ahead figures per attribute.
``node[g, a]`` is the value of group g in attribute a, ``link`` lists the groups that have one value (the paper's links).

``rows`` are `interface.RefinedRows`, ``ahead`` is `interface.LookAheadInput`, ``field`` one row of ``fields``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import (
    CHILD_GROUPS,
    CHUNK_END,
    CHUNK_FIRST,
    CHUNK_MASK,
    CHUNK_SHIFT,
    CHUNK_WORD,
    CODE_MASK,
    CODE_SHIFT,
    CODE_WORD,
    FAILING,
    FIGURES,
    GROUP_BEGIN,
    GROUP_END,
    GROUP_FAILING,
    GROUP_SIZE,
    MOST_JOINT,
    NO_GROUP,
    NONE64,
    SLOT_MASK,
    SLOT_SHIFT,
    SLOT_WORD,
    SMALLEST,
    ZERO64,
)
from shoal.kernels.limits import holds

MANY_ROWS = 128  # rows from which joint counting is faster


class LookAheadScratch(NamedTuple):
    """Work arrays of the look-ahead: records by child, records by combination of slots and chunk, histograms by child."""

    counts: NDArray[Any]
    table: NDArray[Any]
    histogram: NDArray[Any]


class RowBuffer(NamedTuple):
    """A buffer for the rows of one group while they are sorted by child."""

    words: NDArray[Any]
    ref: NDArray[Any]
    records: NDArray[Any]


@entry
def count_classes(quasi, start, classes, records, offset, first, last, out):
    """Add the records of the combinations ``first`` to ``last - 1`` to ``out[offset[j] + code, class]`` for every attribute."""
    for u in range(first, last):
        for c in range(start[u], start[u + 1]):
            for j in range(quasi.shape[1]):
                out[offset[j] + quasi[u, j], classes[c]] += records[c]


@entry
def pack_rows(quasi, columns, slots, offset, fields, first, last, words):
    """Pack the rows ``first`` to ``last - 1``: the slot ``slots[offset[a] + code]`` and the code of every attribute."""
    row = np.empty(words.shape[1], np.uint64)
    for i in range(first, last):
        row[:] = 0
        for a in range(columns.shape[0]):
            code = quasi[i, columns[a]]
            row[fields[a, SLOT_WORD]] |= np.uint64(slots[offset[a] + code]) << np.uint64(fields[a, SLOT_SHIFT])
            row[fields[a, CODE_WORD]] |= np.uint64(code) << np.uint64(fields[a, CODE_SHIFT])
        for w in range(words.shape[1]):
            words[i, w] = row[w]


@inner
def _slot(word, field):
    return np.int64((word >> np.uint64(field[SLOT_SHIFT])) & np.uint64(field[SLOT_MASK]))


@inner
def _code(word, field):
    return np.int64((word >> np.uint64(field[CODE_SHIFT])) & np.uint64(field[CODE_MASK]))


@inner
def _allocate_look_ahead(rows, ahead):
    histogram_size = 1 if ahead.size_only else max(ahead.most_children, 1) * ahead.cells.width
    return LookAheadScratch(
        np.zeros(ahead.most_children, np.int64),
        np.zeros(MOST_JOINT * rows.chunks.shape[0], np.int64),
        np.zeros(histogram_size, np.int64),
    )


@inner
def _allocate_buffer(link, rows):
    """Allocate a buffer for the rows of the largest of these groups."""
    facts, longest = rows.facts, np.int64(0)
    for g in link:
        longest = max(longest, facts[g, GROUP_END] - facts[g, GROUP_BEGIN])
    return RowBuffer(
        np.empty((longest, rows.words.shape[1]), rows.words.dtype),
        np.empty(longest, rows.ref.dtype),
        np.empty(longest, rows.records.dtype),
    )


@entry
def split_groups(link, number, rows, specialized, ahead):
    """Specialize a value in the groups of ``link``, and compute the look-ahead figures of the new groups.

    ``specialized`` is an `interface.SpecializedValue`; its children are numbered from ``first``. The first part of a group
    keeps the group's number, the other parts are numbered from ``number[n]``. ``slots[code]`` is the slot of a row with that
    code in its new value.
    """
    words, records, facts, node = rows.words, rows.records, rows.facts, rows.node
    a, first, children, slots = specialized.attribute, specialized.first, specialized.children, specialized.slots
    alive, least, size_only = ahead.alive, ahead.least, ahead.size_only
    scratch, buffer, field = _allocate_look_ahead(rows, ahead), _allocate_buffer(link, rows), rows.fields[a]
    start = np.empty(children + 1, np.int64)  # of the rows of every child
    w, shift, mask = field[SLOT_WORD], np.uint64(field[SLOT_SHIFT]), np.uint64(field[SLOT_MASK])
    total = np.empty(children, np.int64)
    is_child_alive = False  # whether some child may be specialized later
    for c in range(children):
        is_child_alive = is_child_alive or alive[first + c]
    for n in range(link.shape[0]):
        g = link[n]
        low, high = facts[g, GROUP_BEGIN], facts[g, GROUP_END]
        if facts[g, FIGURES + 3 * a + CHILD_GROUPS] == 1:  # an undivided group keeps the figures of other attributes
            node[g, a] = first + np.int64((words[low, w] >> shift) & mask)
            _write_slots(low, high, words, field, slots)
            _look_ahead(g, a, rows, ahead, scratch)
            continue
        is_final = size_only and not is_child_alive  # no later specialization: only sizes are needed
        for b in range(node.shape[1]):
            is_final = is_final and (b == a or not alive[node[g, b]])
        if children == 2:
            middle, left = _divide_in_two(low, high, rows, field, slots, is_final, buffer)
            right = facts[g, GROUP_SIZE] - left
            _write_group(g, g, low, middle, left, a, first, rows, least)
            _write_group(number[n], g, middle, high, right, a, first + 1, rows, least)
            if not is_final:
                _look_ahead(g, NONE64, rows, ahead, scratch)
                _look_ahead(number[n], NONE64, rows, ahead, scratch)
            continue
        start[:] = 0
        total[:] = 0
        for i in range(low, high):
            c = np.int64((words[i, w] >> shift) & mask)
            start[c + 1] += 1
            total[c] += records[i]
        for c in range(children):
            start[c + 1] += start[c]
        to, target = g, number[n]
        for c in range(children):
            if start[c + 1] > start[c]:
                _write_group(to, g, low + start[c], low + start[c + 1], total[c], a, first + c, rows, least)
                if to != g:
                    target += 1
                to = target
        _divide(low, high, rows, field, slots, is_final, start, buffer)
        if is_final:
            continue
        _look_ahead(g, NONE64, rows, ahead, scratch)
        for to in range(number[n], target):
            _look_ahead(to, NONE64, rows, ahead, scratch)


@inner
def _write_group(to, g, begin, end, total, a, value, rows, least):
    """Write a part of group g as group ``to``, with its own value of attribute a."""
    facts, node = rows.facts, rows.node
    facts[to, GROUP_BEGIN], facts[to, GROUP_END], facts[to, GROUP_SIZE] = begin, end, total
    facts[to, GROUP_FAILING] = total if total < least else 0
    for b in range(node.shape[1]):
        node[to, b] = node[g, b]
    node[to, a] = value


@inner
def _divide(low, high, rows, field, slots, is_final, start, buffer):
    """Sort the rows of a group by child, in stable order; the rows of child c begin at ``start[c]``."""
    words, ref, records = rows.words, rows.ref, rows.records
    new_words, new_ref, new_records = buffer.words, buffer.ref, buffer.records
    w, shift, mask = field[SLOT_WORD], np.uint64(field[SLOT_SHIFT]), np.uint64(field[SLOT_MASK])
    code_word, code_shift, code_mask = field[CODE_WORD], np.uint64(field[CODE_SHIFT]), np.uint64(field[CODE_MASK])
    for i in range(low, high):
        word = words[i, w]
        c = np.int64((word >> shift) & mask)
        at = start[c]
        start[c] = at + 1
        new_ref[at] = ref[i]
        if not is_final:
            for v in range(words.shape[1]):
                new_words[at, v] = words[i, v]
            code = (words[i, code_word] >> code_shift) & code_mask
            new_words[at, w] = (word & ~(mask << shift)) | (np.uint64(slots[code]) << shift)
            new_records[at] = records[i]
    _copy_back(low, high, rows, is_final, buffer)


@inner
def _copy_back(low, high, rows, is_final, buffer):
    """Copy the first rows of the buffer to the rows from ``low`` to ``high``. (Slices would compile their own error texts.)"""
    words, ref, records = rows.words, rows.ref, rows.records
    new_words, new_ref, new_records = buffer.words, buffer.ref, buffer.records
    for i in range(high - low):
        ref[low + i] = new_ref[i]
    if is_final:
        return
    for i in range(high - low):
        records[low + i] = new_records[i]
        for v in range(words.shape[1]):
            words[low + i, v] = new_words[i, v]


@entry
def update_slots(link, rows, a, slots, ahead):
    """Write the slots ``slots[code]`` after the split of a value of attribute a was moved, and update its figures."""
    facts, scratch = rows.facts, _allocate_look_ahead(rows, ahead)
    for g in link:
        _write_slots(facts[g, GROUP_BEGIN], facts[g, GROUP_END], rows.words, rows.fields[a], slots)
        _look_ahead(g, a, rows, ahead, scratch)


@inner
def _write_slots(low, high, words, field, slots):
    w, shift = field[SLOT_WORD], np.uint64(field[SLOT_SHIFT])
    clear = ~(np.uint64(field[SLOT_MASK]) << shift)
    for i in range(low, high):
        code = (words[i, field[CODE_WORD]] >> np.uint64(field[CODE_SHIFT])) & np.uint64(field[CODE_MASK])
        words[i, w] = (words[i, w] & clear) | (np.uint64(slots[code]) << shift)


@entry
def mark_invalid_splits(link, rows, first, last, field, ahead, invalid):
    """Mark the codes from ``first`` to ``last`` after which the interval cannot be split: some part of a group would fail."""
    words, ref, records, facts = rows.words, rows.ref, rows.records, rows.facts
    cells, limits, least, size_only, width = ahead.cells, ahead.limits, ahead.least, ahead.size_only, ahead.cells.width
    begin = np.empty(last - first + 2, np.int64)
    longest = np.int64(0)
    for g in link:
        longest = max(longest, facts[g, GROUP_END] - facts[g, GROUP_BEGIN])
    order = np.empty(longest, np.int64)
    left, right = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for g in link:
        begin[:] = 0
        right[:] = 0
        right_total = np.int64(0)
        for i in range(facts[g, GROUP_BEGIN], facts[g, GROUP_END]):
            code = _code(words[i, field[CODE_WORD]], field)
            if code <= last:
                begin[code - first + 1] += 1
        for c in range(last - first + 1):
            begin[c + 1] += begin[c]
        for i in range(facts[g, GROUP_BEGIN], facts[g, GROUP_END]):
            code = _code(words[i, field[CODE_WORD]], field)
            if code <= last:  # not missing
                order[begin[code - first]] = i
                begin[code - first] += 1
                right_total += records[i]
                if not size_only:
                    _add_cells(ref[i], 1, cells, right)
        left[:] = 0
        left_total, done, is_invalid = np.int64(0), 0, False
        for c in range(last - first):
            moved = done
            while done < begin[c]:
                i = order[done]
                left_total += records[i]
                right_total -= records[i]
                if not size_only:
                    _add_cells(ref[i], 1, cells, left)
                    _add_cells(ref[i], -1, cells, right)
                done += 1
            if done > moved or c == 0:
                if size_only:
                    is_invalid = 0 < left_total < least or 0 < right_total < least
                else:
                    is_invalid = (left_total > 0 and not holds(left_total, left, limits)) or (
                        right_total > 0 and not holds(right_total, right, limits)
                    )
            if is_invalid:
                invalid[c] = True


@inner
def _add_cells(u, sign, cells, histogram):
    """Add the sensitive values of a combination to a histogram, or subtract them (sign = -1)."""
    start, sensitive, cell_records, offset = cells.start, cells.sensitive, cells.records, cells.offset
    for c in range(start[u], start[u + 1]):
        for s in range(offset.shape[0]):
            histogram[offset[s] + sensitive[c, s]] += sign * cell_records[c]


@inner
def _divide_in_two(low, high, rows, field, slots, is_final, buffer):
    """Sort the rows of a group by two children, in stable order; return the second child's first row, the first's records.

    Rows of the first child move up in place, rows of the second through a buffer. A final group needs only ``ref``.
    """
    words, ref, records = rows.words, rows.ref, rows.records
    new_words, new_ref, new_records = buffer.words, buffer.ref, buffer.records
    w, shift = field[SLOT_WORD], np.uint64(field[SLOT_SHIFT])
    clear = ~(np.uint64(field[SLOT_MASK]) << shift)
    code_word, code_shift, code_mask = field[CODE_WORD], np.uint64(field[CODE_SHIFT]), np.uint64(field[CODE_MASK])
    many = words.shape[1]
    to, aside, left = low, 0, np.int64(0)
    for i in range(low, high):
        word = words[i, w]
        if (word >> shift) & np.uint64(1):
            new_ref[aside] = ref[i]
            if not is_final:
                code = (words[i, code_word] >> code_shift) & code_mask
                for v in range(many):
                    new_words[aside, v] = words[i, v]
                new_words[aside, w] = (word & clear) | (np.uint64(slots[code]) << shift)
                new_records[aside] = records[i]
            aside += 1
        else:
            left += records[i]
            if not is_final:
                code = (words[i, code_word] >> code_shift) & code_mask
                for v in range(many):
                    words[to, v] = words[i, v]
                words[to, w] = (word & clear) | (np.uint64(slots[code]) << shift)
                records[to] = records[i]
            ref[to] = ref[i]
            to += 1
    _copy_back(to, high, rows, is_final, buffer)
    return to, left


@entry
def look_ahead(rows, ahead):
    """Compute the look-ahead figures of the first group, which has all rows."""
    facts = rows.facts
    facts[0, GROUP_BEGIN], facts[0, GROUP_END] = 0, rows.words.shape[0]
    facts[0, GROUP_SIZE], facts[0, GROUP_FAILING] = rows.records.sum(), 0
    _look_ahead(ZERO64, NONE64, rows, ahead, _allocate_look_ahead(rows, ahead))


@inner
def _look_ahead(g, only, rows, ahead, scratch):
    """Compute the look-ahead figures of group g for one attribute (``only``), or for all with a live value (-1)."""
    if ahead.size_only:
        _look_ahead_by_size(g, only, rows, ahead, scratch)
        return
    words, ref, records, facts, node, fields = rows.words, rows.ref, rows.records, rows.facts, rows.node, rows.fields
    fan_out, alive, cells, limits, width = ahead.fan_out, ahead.alive, ahead.cells, ahead.limits, ahead.cells.width
    start, sensitive, cell_records, offset = cells.start, cells.sensitive, cells.records, cells.offset
    counts, histogram = scratch.counts, scratch.histogram
    low, high = facts[g, GROUP_BEGIN], facts[g, GROUP_END]
    if only < 0:
        histogram[:width] = 0
        for i in range(low, high):
            for c in range(start[ref[i]], start[ref[i] + 1]):
                for s in range(offset.shape[0]):
                    histogram[offset[s] + sensitive[c, s]] += cell_records[c]
        facts[g, GROUP_FAILING] = 0 if holds(facts[g, GROUP_SIZE], histogram[:width], limits) else facts[g, GROUP_SIZE]
    for a in range(node.shape[1]):
        x = node[g, a]
        if not alive[x] or (only >= 0 and only != a):
            continue
        counts[: fan_out[x]] = 0
        histogram[: fan_out[x] * width] = 0
        for i in range(low, high):
            slot = _slot(words[i, fields[a, SLOT_WORD]], fields[a])
            counts[slot] += records[i]
            for c in range(start[ref[i]], start[ref[i] + 1]):
                for s in range(offset.shape[0]):
                    histogram[slot * width + offset[s] + sensitive[c, s]] += cell_records[c]
        passes = np.zeros(fan_out[x], np.bool_)
        for slot in range(fan_out[x]):
            if counts[slot] > 0:
                passes[slot] = holds(counts[slot], histogram[slot * width : (slot + 1) * width], limits)
        _write_figures(facts[g, FIGURES + 3 * a : FIGURES + 3 * a + 3], counts[: fan_out[x]], passes)


@inner
def _write_figures(figures, counts, passes):
    """Write the three figures of an attribute, from the records of each child of its value and whether the child passes."""
    figures[SMALLEST], figures[FAILING], figures[CHILD_GROUPS] = NO_GROUP, 0, 0
    for slot in range(counts.shape[0]):
        if counts[slot] > 0:
            figures[CHILD_GROUPS] += 1
            if passes[slot]:
                figures[SMALLEST] = min(figures[SMALLEST], counts[slot])
            else:
                figures[FAILING] += counts[slot]


@inner
def _look_ahead_by_size(g, only, rows, ahead, scratch):
    """As `_look_ahead`, for requirements on the size of groups alone.

    Attributes with adjacent slots (a chunk) are counted jointly, by the combinations of their slots, and then summed per
    attribute.
    """
    words, records, facts, node = rows.words, rows.records, rows.facts, rows.node
    fields, chunks, fan_out, alive = rows.fields, rows.chunks, ahead.fan_out, ahead.alive
    counts, table = scratch.counts, scratch.table
    low, high = facts[g, GROUP_BEGIN], facts[g, GROUP_END]
    is_joint = only < 0 and high - low >= MANY_ROWS
    if is_joint:
        _count_chunks(words, records, np.uint64(low), np.uint64(high), chunks, node[g], alive, table)
    for n in range(chunks.shape[0]):
        first, last, size = chunks[n, CHUNK_FIRST], chunks[n, CHUNK_END], chunks[n, CHUNK_MASK] + 1
        is_chunk_counted = is_joint and size <= MOST_JOINT
        for a in range(first, last):
            x = node[g, a]
            if not alive[x] or (only >= 0 and only != a):
                continue
            counts[: fields[a, SLOT_MASK] + 1] = 0
            if is_chunk_counted:
                shift = fields[a, SLOT_SHIFT] - chunks[n, CHUNK_SHIFT]
                for c in range(size):
                    counts[(c >> shift) & fields[a, SLOT_MASK]] += table[n * MOST_JOINT + c]
            else:
                _count_slots(words, records, np.uint64(low), np.uint64(high), fields[a], counts)
            figures, children = facts[g, FIGURES + 3 * a : FIGURES + 3 * a + 3], counts[: fan_out[x]]
            _write_figures(figures, children, children >= ahead.least)


@inner
def _count_chunks(words, records, low, high, chunks, node, alive, table):
    """Count the records of every combination of slots in one pass, for all chunks that fit a table and have a live value."""
    many = 0
    base, shift = np.empty(chunks.shape[0], np.uint64), np.empty(chunks.shape[0], np.uint64)
    word, mask = np.empty(chunks.shape[0], np.uint64), np.empty(chunks.shape[0], np.uint64)
    for n in range(chunks.shape[0]):
        has_live_value = False
        for a in range(chunks[n, CHUNK_FIRST], chunks[n, CHUNK_END]):
            has_live_value = has_live_value or alive[node[a]]
        if has_live_value and chunks[n, CHUNK_MASK] < MOST_JOINT:
            base[many], word[many] = n * MOST_JOINT, chunks[n, CHUNK_WORD]
            shift[many], mask[many] = chunks[n, CHUNK_SHIFT], chunks[n, CHUNK_MASK]
            table[n * MOST_JOINT : n * MOST_JOINT + chunks[n, CHUNK_MASK] + 1] = 0
            many += 1
    many = np.uint64(many)
    for i in range(low, high):
        w = records[i]
        for t in range(many):
            table[base[t] + ((words[i, word[t]] >> shift[t]) & mask[t])] += w


@inner
def _count_slots(words, records, low, high, field, counts):
    """Count the records of every slot; unsigned indices avoid a sign test at each access."""
    w, shift, mask = np.uint64(field[SLOT_WORD]), np.uint64(field[SLOT_SHIFT]), np.uint64(field[SLOT_MASK])
    for i in range(low, high):
        counts[(words[i, w] >> shift) & mask] += records[i]


@entry
def summarize_look_ahead(facts, node, groups, column, alive):
    """Return for the specialization of every value the smallest passing group and the records in failing groups.

    ``column[x]`` is the position of the attribute of value x in this set, or -1. The third result is the smallest group that
    passes now.
    """
    values = column.shape[0]
    after = np.full(values, NO_GROUP, np.int64)
    own = np.full(values, NO_GROUP, np.int64)
    fails = np.zeros(values, np.int64)
    smallest, failing = NO_GROUP, np.int64(0)
    for g in range(groups):
        fail = facts[g, GROUP_FAILING]
        failing += fail
        size = facts[g, GROUP_SIZE] if fail == 0 else NO_GROUP
        smallest = min(smallest, size)
        for a in range(node.shape[1]):
            x = node[g, a]
            own[x] = min(own[x], size)
            if alive[x]:
                after[x] = min(after[x], facts[g, FIGURES + 3 * a + SMALLEST])
                fails[x] += facts[g, FIGURES + 3 * a + FAILING] - fail
    best = np.full((node.shape[1], 2), NO_GROUP, np.int64)  # the two smallest of ``own`` for every attribute
    for x in range(values):
        a = column[x]
        if a >= 0:
            if own[x] < best[a, 0]:
                best[a, 1] = best[a, 0]
                best[a, 0] = own[x]
            elif own[x] < best[a, 1]:
                best[a, 1] = own[x]
    for x in range(values):
        a = column[x]
        if a < 0:
            fails[x] = failing
        elif alive[x]:
            others = best[a, 1] if own[x] == best[a, 0] else best[a, 0]
            after[x] = min(after[x], others)
            fails[x] += failing
    return after, fails, smallest


@entry
def split_gains(start, classes, records, lo, hi, domain):
    """Return the reduction of entropy, in bits x records, by a split after every code from ``lo`` to ``hi - 1``.

    Code c has the cells ``start[c]`` to ``start[c + 1]``. The sums of count x log2(count) are compensated for rounding errors,
    so that equal gains agree up to the last bits.
    """
    left, right = np.zeros(domain, np.int64), np.zeros(domain, np.int64)
    right_total = np.int64(0)
    for c in range(start[lo], start[hi + 1]):
        right[classes[c]] += records[c]
        right_total += records[c]
    sums, errors = np.zeros(2), np.zeros(2)
    for k in range(domain):
        _add_compensated(sums, errors, 1, _n_log_n(right[k]))
    whole = _n_log_n(right_total) - (sums[1] + errors[1])
    left_total = np.int64(0)
    out = np.empty(hi - lo, np.float64)
    for code in range(lo, hi):
        for c in range(start[code], start[code + 1]):
            k, w = classes[c], records[c]
            _add_compensated(sums, errors, 0, -_n_log_n(left[k]))
            _add_compensated(sums, errors, 1, -_n_log_n(right[k]))
            left[k] += w
            right[k] -= w
            _add_compensated(sums, errors, 0, _n_log_n(left[k]))
            _add_compensated(sums, errors, 1, _n_log_n(right[k]))
            left_total += w
            right_total -= w
        below = _n_log_n(left_total) - (sums[0] + errors[0]) + _n_log_n(right_total) - (sums[1] + errors[1])
        out[code - lo] = whole - below
    return out


@inner
def _n_log_n(n):
    return n * np.log2(n) if n > 0 else 0.0


@inner
def _add_compensated(sums, errors, side, term):
    total = sums[side] + term
    if abs(sums[side]) >= abs(term):
        errors[side] += (sums[side] - total) + term
    else:
        errors[side] += (term - total) + sums[side]
    sums[side] = total
