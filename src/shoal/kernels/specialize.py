"""Groups that are refined value by value (Fung, Wang, Yu: Top-down specialization, sections 5.3 and 5.4).

The rows of one group are consecutive, as in the paper's leaf partitions. For every group and attribute three look-ahead figures
predict the specialization of the attribute's value: the smallest group that would pass, the records in groups that would fail,
and the number of groups. So the search updates scores without reading records, and a specialization reads only the records that
have the value.

The *slot* of a row and an attribute is the number of the child that the row would get. A row's slots and codes are packed into
words: ``fields[a]`` has word, shift and mask of the slot of attribute a, then those of its code. ``facts[g]`` has the first row
of group g, the row after its last, its records, its failing records, and three look-ahead figures per attribute.
``node[g, a]`` is the value of group g in attribute a, ``link`` lists the groups that have one value (the paper's links).

``rows`` are `interface.RefinedRows`, ``ahead`` is `interface.LookAheadInput`, ``scratch`` `interface.LookAheadScratch`.
"""

from __future__ import annotations

import numpy as np

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
    ONE64,
    SLOT_MASK,
    SLOT_SHIFT,
    SLOT_WORD,
    SMALLEST,
    ZERO64,
)
from shoal.kernels.limits import rules_hold

MANY_ROWS = 128  # rows from which joint counting is faster


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
    for i in range(first, last):
        for w in range(words.shape[1]):
            words[i, w] = 0
        for a in range(columns.shape[0]):
            code = quasi[i, columns[a]]
            words[i, fields[a, SLOT_WORD]] |= np.uint64(slots[offset[a] + code]) << np.uint64(fields[a, SLOT_SHIFT])
            words[i, fields[a, CODE_WORD]] |= np.uint64(code) << np.uint64(fields[a, CODE_SHIFT])


@entry
def split_groups(link, number, rows, specialized, ahead, scratch, values):
    """Specialize a value in the groups of ``link``, and compute the look-ahead figures of the new groups.

    ``specialized`` is an `interface.SpecializedValue`; its children are numbered from ``first``. The first part of a group
    keeps the group's number, the other parts are numbered from ``number[n]``. ``slots[code]`` is the slot of a row with that
    code in its new value. ``values``: None if requirements are on sizes alone, which leaves out the test of values.
    """
    words, records, facts, node, fields = rows.words, rows.records, rows.facts, rows.node, rows.fields
    a, first, children, slots = specialized.attribute, specialized.first, specialized.children, specialized.slots
    alive, least, start, total = ahead.alive, ahead.least, scratch.start, scratch.counts
    w, shift, mask = fields[a, SLOT_WORD], np.uint64(fields[a, SLOT_SHIFT]), np.uint64(fields[a, SLOT_MASK])
    is_child_alive = False  # whether some child may be specialized later
    for c in range(children):
        is_child_alive = is_child_alive or alive[first + c]
    for n in range(link.shape[0]):
        g = link[n]
        low, high = facts[g, GROUP_BEGIN], facts[g, GROUP_END]
        if facts[g, FIGURES + 3 * a + CHILD_GROUPS] == 1:  # an undivided group keeps the figures of other attributes
            node[g, a] = first + np.int64((words[low, w] >> shift) & mask)
            _write_slots(low, high, words, fields, a, slots)
            _look_ahead(g, a, rows, ahead, scratch, values)
            continue
        is_final = ahead.size_only and not is_child_alive  # no later specialization: only sizes are needed
        for b in range(node.shape[1]):
            is_final = is_final and (b == a or not alive[node[g, b]])
        if children == 2:
            middle, left = _divide_in_two(low, high, rows, a, slots, is_final, scratch)
            right = facts[g, GROUP_SIZE] - left
            _write_group(g, g, low, middle, left, a, first, rows, least)
            _write_group(number[n], g, middle, high, right, a, first + 1, rows, least)
            if not is_final:
                _look_ahead(g, NONE64, rows, ahead, scratch, values)
                _look_ahead(number[n], NONE64, rows, ahead, scratch, values)
            continue
        for c in range(children):
            start[c + 1] = 0
            total[c] = 0
        start[0] = 0
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
        _divide(low, high, rows, a, slots, is_final, scratch)
        if is_final:
            continue
        _look_ahead(g, NONE64, rows, ahead, scratch, values)
        for to in range(number[n], target):
            _look_ahead(to, NONE64, rows, ahead, scratch, values)


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
def _divide(low, high, rows, a, slots, is_final, scratch):
    """Sort the rows of a group by child, in stable order; the rows of child c begin at ``scratch.start[c]``."""
    words, ref, records, fields, start = rows.words, rows.ref, rows.records, rows.fields, scratch.start
    new_words, new_ref, new_records = scratch.words, scratch.ref, scratch.records
    w, shift, mask = fields[a, SLOT_WORD], np.uint64(fields[a, SLOT_SHIFT]), np.uint64(fields[a, SLOT_MASK])
    code_word, code_shift = fields[a, CODE_WORD], np.uint64(fields[a, CODE_SHIFT])
    code_mask = np.uint64(fields[a, CODE_MASK])
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
    _copy_back(low, high, rows, is_final, scratch)


@inner
def _copy_back(low, high, rows, is_final, scratch):
    """Copy the first rows of the buffer to the rows from ``low`` to ``high``. (Slices would compile their own error texts.)"""
    words, ref, records = rows.words, rows.ref, rows.records
    new_words, new_ref, new_records = scratch.words, scratch.ref, scratch.records
    for i in range(high - low):
        ref[low + i] = new_ref[i]
    if is_final:
        return
    for i in range(high - low):
        records[low + i] = new_records[i]
        for v in range(words.shape[1]):
            words[low + i, v] = new_words[i, v]


@entry
def update_slots(link, rows, a, slots, ahead, scratch, values):
    """Write the slots ``slots[code]`` after the split of a value of attribute a was moved, and update its figures."""
    facts, words, fields = rows.facts, rows.words, rows.fields
    for n in range(link.shape[0]):
        g = link[n]
        _write_slots(facts[g, GROUP_BEGIN], facts[g, GROUP_END], words, fields, a, slots)
        _look_ahead(g, a, rows, ahead, scratch, values)


@inner
def _write_slots(low, high, words, fields, a, slots):
    w, shift = fields[a, SLOT_WORD], np.uint64(fields[a, SLOT_SHIFT])
    clear = ~(np.uint64(fields[a, SLOT_MASK]) << shift)
    code_word, code_shift = fields[a, CODE_WORD], np.uint64(fields[a, CODE_SHIFT])
    code_mask = np.uint64(fields[a, CODE_MASK])
    for i in range(low, high):
        code = (words[i, code_word] >> code_shift) & code_mask
        words[i, w] = (words[i, w] & clear) | (np.uint64(slots[code]) << shift)


@entry
def mark_invalid_splits(link, rows, first, last, a, ahead, order, begin, left, right, invalid, values):
    """Mark the codes from ``first`` to ``last`` after which the interval cannot be split: some part of a group would fail.

    ``order`` has room for the rows of the largest group, ``begin`` for all codes, ``left`` and ``right`` are histograms.
    """
    words, ref, records, facts, fields = rows.words, rows.ref, rows.records, rows.facts, rows.fields
    cells, limits, least, size_only = ahead.cells, ahead.limits, ahead.least, ahead.size_only
    w, shift, mask = fields[a, CODE_WORD], np.uint64(fields[a, CODE_SHIFT]), np.uint64(fields[a, CODE_MASK])
    for n in range(link.shape[0]):
        low, high = facts[link[n], GROUP_BEGIN], facts[link[n], GROUP_END]
        for c in range(begin.shape[0]):
            begin[c] = 0
        for v in range(left.shape[0]):
            left[v], right[v] = 0, 0
        left_total, right_total = np.int64(0), np.int64(0)
        for i in range(low, high):
            code = np.int64((words[i, w] >> shift) & mask)
            if code <= last:
                begin[code - first + 1] += 1
        for c in range(last - first + 1):
            begin[c + 1] += begin[c]
        for i in range(low, high):
            code = np.int64((words[i, w] >> shift) & mask)
            if code <= last:  # not missing
                order[begin[code - first]] = i
                begin[code - first] += 1
                right_total += records[i]
                if values is not None:
                    _add_cells(ref[i], ONE64, cells, right)
        done, is_invalid = np.int64(0), False
        for c in range(last - first):
            moved = done
            while done < begin[c]:
                i = order[done]
                left_total += records[i]
                right_total -= records[i]
                if values is not None:
                    _add_cells(ref[i], ONE64, cells, left)
                    _add_cells(ref[i], NONE64, cells, right)
                done += 1
            if done > moved or c == 0:
                if size_only:
                    is_invalid = 0 < left_total < least or 0 < right_total < least
                if values is not None:
                    is_invalid = (left_total > 0 and not _meets(left_total, left, limits)) or (
                        right_total > 0 and not _meets(right_total, right, limits)
                    )
            if is_invalid:
                invalid[c] = True


@inner
def _meets(total, histogram, limits):
    return rules_hold(total, histogram, limits, ZERO64, limits.term.shape[0])


@inner
def _add_cells(u, sign, cells, histogram):
    """Add the sensitive values of a combination to a histogram, or subtract them (sign = -1)."""
    start, sensitive, cell_records, offset = cells.start, cells.sensitive, cells.records, cells.offset
    for c in range(start[u], start[u + 1]):
        for s in range(offset.shape[0]):
            histogram[offset[s] + sensitive[c, s]] += sign * cell_records[c]


@inner
def _divide_in_two(low, high, rows, a, slots, is_final, scratch):
    """Sort the rows of a group by two children, in stable order; return the second child's first row, the first's records.

    Rows of the first child move up in place, rows of the second through a buffer. A final group needs only ``ref``.
    """
    words, ref, records, fields = rows.words, rows.ref, rows.records, rows.fields
    new_words, new_ref, new_records = scratch.words, scratch.ref, scratch.records
    w, shift = fields[a, SLOT_WORD], np.uint64(fields[a, SLOT_SHIFT])
    clear = ~(np.uint64(fields[a, SLOT_MASK]) << shift)
    code_word, code_shift = fields[a, CODE_WORD], np.uint64(fields[a, CODE_SHIFT])
    code_mask = np.uint64(fields[a, CODE_MASK])
    many = words.shape[1]
    to, aside, left = low, np.int64(0), np.int64(0)
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
    _copy_back(to, high, rows, is_final, scratch)
    return to, left


@entry
def look_ahead(rows, ahead, scratch, values):
    """Compute the look-ahead figures of the first group, which has all rows."""
    facts, records, total = rows.facts, rows.records, np.int64(0)
    for i in range(records.shape[0]):
        total += records[i]
    facts[0, GROUP_BEGIN], facts[0, GROUP_END] = 0, records.shape[0]
    facts[0, GROUP_SIZE], facts[0, GROUP_FAILING] = total, 0
    _look_ahead(ZERO64, NONE64, rows, ahead, scratch, values)


@inner
def _look_ahead(g, only, rows, ahead, scratch, values):
    """Compute the look-ahead figures of group g for one attribute (``only``), or for all with a live value (-1)."""
    if values is not None:
        _look_ahead_by_values(g, only, rows, ahead, scratch)
    else:
        _look_ahead_by_size(g, only, rows, ahead, scratch)


@inner
def _look_ahead_by_values(g, only, rows, ahead, scratch):
    words, ref, records, facts, node, fields = rows.words, rows.ref, rows.records, rows.facts, rows.node, rows.fields
    fan_out, alive, cells, limits, width = ahead.fan_out, ahead.alive, ahead.cells, ahead.limits, ahead.cells.width
    start, sensitive, cell_records, offset = cells.start, cells.sensitive, cells.records, cells.offset
    counts, histogram, passes = scratch.counts, scratch.histogram, scratch.passes
    low, high = facts[g, GROUP_BEGIN], facts[g, GROUP_END]
    if only < 0:
        for v in range(width):
            histogram[v] = 0
        for i in range(low, high):
            for c in range(start[ref[i]], start[ref[i] + 1]):
                for s in range(offset.shape[0]):
                    histogram[offset[s] + sensitive[c, s]] += cell_records[c]
        passed = _meets(facts[g, GROUP_SIZE], histogram[:width], limits)
        facts[g, GROUP_FAILING] = 0 if passed else facts[g, GROUP_SIZE]
    for a in range(node.shape[1]):
        x = node[g, a]
        if not alive[x] or (only >= 0 and only != a):
            continue
        children = np.int64(fan_out[x])
        w, shift, mask = fields[a, SLOT_WORD], np.uint64(fields[a, SLOT_SHIFT]), np.uint64(fields[a, SLOT_MASK])
        for slot in range(children):
            counts[slot] = 0
        for v in range(children * width):
            histogram[v] = 0
        for i in range(low, high):
            slot = np.int64((words[i, w] >> shift) & mask)
            counts[slot] += records[i]
            for c in range(start[ref[i]], start[ref[i] + 1]):
                for s in range(offset.shape[0]):
                    histogram[slot * width + offset[s] + sensitive[c, s]] += cell_records[c]
        for slot in range(children):
            passes[slot] = False
            if counts[slot] > 0:
                passes[slot] = _meets(counts[slot], histogram[slot * width : (slot + 1) * width], limits)
        _write_figures(facts, g, a, counts, children, passes)


@inner
def _write_figures(facts, g, a, counts, children, passes):
    """Write the three figures of an attribute, from the records of each child of its value and whether the child passes."""
    smallest, failing, groups = NO_GROUP, np.int64(0), np.int64(0)
    for slot in range(children):
        if counts[slot] > 0:
            groups += 1
            if not passes[slot]:
                failing += counts[slot]
            elif counts[slot] < smallest:
                smallest = counts[slot]
    at = FIGURES + 3 * a
    facts[g, at + SMALLEST], facts[g, at + FAILING], facts[g, at + CHILD_GROUPS] = smallest, failing, groups


@inner
def _look_ahead_by_size(g, only, rows, ahead, scratch):
    """As `_look_ahead_by_values`, for requirements on the size of groups alone.

    Attributes with adjacent slots (a chunk) are counted jointly, by the combinations of their slots, and then summed per
    attribute.
    """
    words, records, facts, node = rows.words, rows.records, rows.facts, rows.node
    fields, chunks, fan_out, alive, least = rows.fields, rows.chunks, ahead.fan_out, ahead.alive, ahead.least
    counts, table, passes = scratch.counts, scratch.table, scratch.passes
    low, high = facts[g, GROUP_BEGIN], facts[g, GROUP_END]
    is_joint = only < 0 and high - low >= MANY_ROWS
    if is_joint:
        _count_chunks(words, records, np.uint64(low), np.uint64(high), chunks, node, g, alive, table, scratch.plan)
    for n in range(chunks.shape[0]):
        first, last, size = chunks[n, CHUNK_FIRST], chunks[n, CHUNK_END], chunks[n, CHUNK_MASK] + 1
        is_chunk_counted = is_joint and size <= MOST_JOINT
        for a in range(first, last):
            x = node[g, a]
            if not alive[x] or (only >= 0 and only != a):
                continue
            slot_mask, children = fields[a, SLOT_MASK], np.int64(fan_out[x])
            for slot in range(slot_mask + 1):
                counts[slot] = 0
            if is_chunk_counted:
                shift = fields[a, SLOT_SHIFT] - chunks[n, CHUNK_SHIFT]
                for c in range(size):
                    counts[(c >> shift) & slot_mask] += table[n * MOST_JOINT + c]
            else:
                _count_slots(words, records, np.uint64(low), np.uint64(high), fields, a, counts)
            for slot in range(children):
                passes[slot] = counts[slot] >= least
            _write_figures(facts, g, a, counts, children, passes)


@inner
def _count_chunks(words, records, low, high, chunks, node, g, alive, table, plan):
    """Count the records of every combination of slots in one pass, for all chunks that fit a table and have a live value.

    ``plan`` gets the base in the table, the word, the shift and the mask of these chunks.
    """
    many = np.uint64(0)
    for n in range(chunks.shape[0]):
        has_live_value = False
        for a in range(chunks[n, CHUNK_FIRST], chunks[n, CHUNK_END]):
            has_live_value = has_live_value or alive[node[g, a]]
        if has_live_value and chunks[n, CHUNK_MASK] < MOST_JOINT:
            plan[0, many], plan[1, many] = n * MOST_JOINT, chunks[n, CHUNK_WORD]
            plan[2, many], plan[3, many] = chunks[n, CHUNK_SHIFT], chunks[n, CHUNK_MASK]
            for c in range(chunks[n, CHUNK_MASK] + 1):
                table[n * MOST_JOINT + c] = 0
            many += np.uint64(1)
    base, word, shift, mask = plan[0], plan[1], plan[2], plan[3]
    for i in range(low, high):
        w = records[i]
        for t in range(many):
            table[base[t] + ((words[i, word[t]] >> shift[t]) & mask[t])] += w


@inner
def _count_slots(words, records, low, high, fields, a, counts):
    """Count the records of every slot; unsigned indices avoid a sign test at each access."""
    w, shift, mask = np.uint64(fields[a, SLOT_WORD]), np.uint64(fields[a, SLOT_SHIFT]), np.uint64(fields[a, SLOT_MASK])
    for i in range(low, high):
        counts[(words[i, w] >> shift) & mask] += records[i]


@entry
def summarize_look_ahead(facts, node, groups, column, alive, after, own, fails, best):
    """Find for the specialization of every value the smallest passing group and the records in failing groups.

    ``column[x]`` is the position of the attribute of value x in this set, or -1. ``after`` and ``fails`` get the results,
    ``own`` and ``best`` are work arrays; all are NO_GROUP at first, and ``fails`` is 0. Return the smallest group that passes
    now.
    """
    values = column.shape[0]
    smallest, failing = NO_GROUP, np.int64(0)
    for g in range(groups):
        fail = facts[g, GROUP_FAILING]
        failing += fail
        size = facts[g, GROUP_SIZE] if fail == 0 else NO_GROUP
        smallest = size if size < smallest else smallest
        for a in range(node.shape[1]):
            x = node[g, a]
            own[x] = size if size < own[x] else own[x]
            if alive[x]:
                figure = facts[g, FIGURES + 3 * a + SMALLEST]
                after[x] = figure if figure < after[x] else after[x]
                fails[x] += facts[g, FIGURES + 3 * a + FAILING] - fail
    for x in range(values):  # ``best`` has the two smallest of ``own`` for every attribute
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
            after[x] = others if others < after[x] else after[x]
            fails[x] += failing
    return smallest


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
