"""Count the groups of the nodes of a lattice of levels, in tables that are rolled up from finer tables.

Table d of the stack has one row per group of the finest node after d steps of the search (see `lattice_sweep`). It is counted
from an earlier table, so the rows of the first table are read few times.

In a large table most nodes fail by the sizes of their groups alone. These are counted from the first table, in an array with an
entry for every combination of values, slice by slice: slices have no group in common, so the count can end with the first
slices that have too many records in small groups. The codes of a row are packed into words, so that a row is read at once.

Loops take their arrays from the tuples before they begin: the compiler counts a reference each time a tuple gives an array.

``space`` is `interface.SearchSpace`, ``rules`` is `interface.SearchRules`, ``stack`` is `interface.RolledTables` and ``place``
is `interface.SearchPlace`.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import AVERAGE_SIZE, LEAST_SLOTS, SQUARED_SIZES

HALF = np.int64(32)
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # the odd number next to 2^64 / golden ratio: spreads keys over the slots
ENTRIES_PER_ROW = 16  # of an array that is cleared as a whole, for the time in which one row is read again
TOO_MANY = np.int64(-1)  # the node has too many combinations of values for an array with an entry for each


@inner
def open_slots(rows, stack):
    """A new time stamp, in the high half of a word, and the mask and the shift for a table of so many rows."""
    stack.clock[0] += 1
    used, shift = LEAST_SLOTS, 60
    while used < 2 * rows:
        used *= 2
        shift -= 1
    return stack.clock[0] << HALF, used - 1, np.uint64(shift)


@inner
def find_raised(low, level, space, stack):
    """Write the attributes whose level differs, with the begin of their old and their new level; return how many there are."""
    raised, begin, first = stack.raised, space.begin, space.first
    count = np.int64(0)
    for j in range(level.shape[0]):
        if level[j] != low[j]:
            raised[0, count] = j
            raised[1, count] = begin[first[j] + low[j]]
            raised[2, count] = begin[first[j] + level[j]]
            count += 1
    return count


@inner(inline="always")
def raise_key(word, u, count, raised, codes, words):
    """The key of a row, which has the codes of row u of the first table, after the attributes are raised."""
    for a in range(count):
        code = codes[raised[0, a], u]
        word += words[raised[2, a] + code] - words[raised[1, a] + code]
    return word


@inner
def roll_up(d, end, space, stack, place):
    """Count table ``end`` from table d; if no attribute changes its lowest level, the rows stay the same."""
    start, rows = stack.start[d], stack.rows[d]
    changes = find_raised(place.low[d], place.low[end], space, stack)
    if changes == 0:
        stack.start[end], stack.rows[end] = start, rows
        return
    key, row, size, histogram, slot = stack.key, stack.row, stack.size, stack.histogram, stack.slot
    codes, words, width, raised = stack.codes, space.word, stack.histogram.shape[1], stack.raised
    out = start + rows
    now, mask, shift = open_slots(rows, stack)
    groups = np.int64(0)
    for i in range(start, start + rows):
        word = raise_key(key[i], row[i], changes, raised, codes, words)
        at = np.int64((word * SPREAD) >> shift) & mask
        while slot[at] >= now and key[out + (slot[at] - now)] != word:
            at = (at + 1) & mask
        if slot[at] >= now:
            g = out + (slot[at] - now)
            size[g] += size[i]
        else:
            slot[at] = now + groups
            g = out + groups
            key[g], row[g], size[g] = word, row[i], size[i]
            for c in range(width):
                histogram[g, c] = 0
            groups += 1
        for c in range(width):
            histogram[g, c] += histogram[i, c]
    stack.start[end], stack.rows[end] = out, groups
    stack.clock[1] += rows


@inner
def find_stage(depth, space):
    """The number of the last table that is counted after at most so many steps."""
    stage = 0
    while stage + 1 < space.stages.shape[0] and space.stages[stage + 1] <= depth:
        stage += 1
    return stage


@inner
def build_tables(depth, space, stack, place):
    """Count the tables up to a number of steps; return whether the stack has enough room.

    Only the numbers of steps in ``space.stages`` have tables.
    """
    stage, last = find_stage(stack.built[0], space), find_stage(depth, space)
    while stage < last:
        d = space.stages[stage]
        if stack.start[d] + 2 * stack.rows[d] > stack.key.shape[0]:
            return False
        roll_up(d, space.stages[stage + 1], space, stack, place)
        stage += 1
        stack.built[0] = space.stages[stage]
    return True


@inner
def count_combinations(level, space, stack):
    """The combinations of values at a node, or `TOO_MANY` if most of them cannot have a row in the first table."""
    total = 1
    for j in range(level.shape[0]):
        total *= space.values[space.first[j] + level[j]]
        if total > stack.dense.shape[0]:
            return TOO_MANY
    return np.int64(total)


@inner
def number_values(level, space, stack):
    """Write the places of all values of a node among its combinations to ``stack.fused``, by bundle of attributes.

    A bundle is a run of attributes with few combinations of codes, so that one look-up serves all of them.
    """
    total = np.int64(1)
    for b in range(space.bundle.shape[0] - 1):
        begin, filled = space.fused_begin[b], np.int64(1)
        stack.fused[begin] = 0
        for j in range(space.bundle[b], space.bundle[b + 1]):
            number = space.first[j] + level[j]
            codes = space.begin[number + 1] - space.begin[number]
            for code in range(codes - 1, -1, -1):
                digit = total * space.value[space.begin[number] + code]
                at = begin + code * filled
                for x in range(filled):
                    stack.fused[at + x] = stack.fused[begin + x] + digit
            filled = filled << space.bits[j]
            total *= space.values[number]


@inner(inline="always")
def find_combination(i, packed, fused, lane, shift, mask, begin):
    """The combination of values of row i of the first table, by the places that `number_values` wrote to ``fused``."""
    x = np.int64(0)
    for b in range(lane.shape[0]):
        x += fused[begin[b] + np.int64((packed[i, lane[b]] >> shift[b]) & mask[b])]
    return x


@inner
def order_slices(level, space, stack):
    """Order the slices of the first table, and find after which of them no group of the node is divided between read and
    unread slices.

    A slice has the rows with equal values directly below the roots. Attributes that have their root do not separate slices.
    """
    order, number, closes = stack.slice_order, stack.slice_number, stack.slice_closes
    sliced, slice_value, slice_values = stack.sliced, stack.slice_value, stack.slice_values
    slices = order.shape[0]
    for s in range(slices):
        order[s], number[s] = s, 0
    for a in range(sliced.shape[0]):
        j = sliced[a]
        if space.values[space.first[j] + level[j]] > 1:
            for s in range(slices):
                number[s] = number[s] * slice_values[a] + slice_value[s, a]
    for end in range(1, slices):  # heap sort: few slices, in any order where numbers are equal
        at = end
        while at > 0 and number[order[(at - 1) // 2]] < number[order[at]]:
            order[at], order[(at - 1) // 2] = order[(at - 1) // 2], order[at]
            at = (at - 1) // 2
    for end in range(slices - 1, 0, -1):
        order[0], order[end] = order[end], order[0]
        at, child = 0, 1
        while child < end:
            if child + 1 < end and number[order[child + 1]] > number[order[child]]:
                child += 1
            if number[order[child]] <= number[order[at]]:
                break
            order[at], order[child] = order[child], order[at]
            at, child = child, 2 * child + 1
    for s in range(slices - 1):
        closes[s] = number[order[s]] != number[order[s + 1]]
    closes[slices - 1] = True


@inner
def clear_dense(combinations, stack):
    """Make the used part of ``stack.dense`` zero again."""
    dense = stack.dense
    for x in range(combinations):
        dense[x] = 0


@inner
def clear_slices(count, rows, combinations, space, stack):
    """Make the part of ``stack.dense`` that the first slices in their order used zero again."""
    if ENTRIES_PER_ROW * rows > combinations:
        clear_dense(combinations, stack)
        return
    dense, packed, fused, order, slice_start = (
        stack.dense,
        stack.packed,
        stack.fused,
        stack.slice_order,
        stack.slice_start,
    )
    lane, shift, mask, begin = space.lane, space.shift, space.mask, space.fused_begin
    for n in range(count):
        for i in range(slice_start[order[n]], slice_start[order[n] + 1]):
            dense[find_combination(i, packed, fused, lane, shift, mask, begin)] = 0


@inner
def count_dense(level, most, combinations, space, rules, stack):
    """Add the records of the first table to the combinations of values of a node, in ``stack.dense``, up to the least size.

    Return the records of combinations below the least size. Where these are more than ``most``, the count ends early, and
    ``stack.dense`` is zero again; otherwise the caller clears it.
    """
    number_values(level, space, stack)
    order_slices(level, space, stack)
    order, closes, slice_start, least = stack.slice_order, stack.slice_closes, stack.slice_start, np.int32(rules.least)
    dense, size, packed, fused = stack.dense, stack.size, stack.packed, stack.fused
    lane, shift, mask, begin = space.lane, space.shift, space.mask, space.fused_begin
    small, counted = np.int64(0), np.int64(0)
    for at in range(order.shape[0]):
        s = order[at]
        for i in range(slice_start[s], slice_start[s + 1]):
            x = find_combination(i, packed, fused, lane, shift, mask, begin)
            before = dense[x]
            after = min(before + np.int32(min(size[i], least)), least)
            dense[x] = after
            small += (after if after < least else np.int32(0)) - (before if before < least else np.int32(0))
        counted += slice_start[s + 1] - slice_start[s]
        if small > most and closes[at]:
            clear_slices(at + 1, counted, combinations, space, stack)
            break
    stack.clock[1] += counted
    return small


@inner
def count_sparse(level, most, space, rules, stack, place):
    """As `count_dense`, by hashing, for a node with many combinations of values."""
    changes = find_raised(place.low[0], level, space, stack)
    order_slices(level, space, stack)
    order, closes, slice_start = stack.slice_order, stack.slice_closes, stack.slice_start
    now, mask, shift = open_slots(stack.rows[0], stack)
    small, groups = np.int64(0), np.int64(0)
    for at in range(order.shape[0]):
        first, last = slice_start[order[at]], slice_start[order[at] + 1]
        change, groups = add_rows(first, last, groups, now, mask, shift, changes, space, rules, stack)
        small += change
        if small > most and closes[at]:
            break
    return small


@inner
def count_small(d, level, space, rules, stack, place):
    """The records in groups below the least size at a node that is not finer than table d."""
    changes = find_raised(place.low[d], level, space, stack)
    start, rows = stack.start[d], stack.rows[d]
    now, mask, shift = open_slots(rows, stack)
    return add_rows(start, start + rows, np.int64(0), now, mask, shift, changes, space, rules, stack)[0]


@inner
def add_rows(first, last, groups, now, mask, shift, changes, space, rules, stack):
    """Add the rows ``first`` to ``last`` - 1 of the stack to so many groups, which the slots of `open_slots` find.

    ``changes`` is the result of `find_raised`. Return the change of the records in groups below the least size, and the number
    of groups.
    """
    key, row, size, codes, words, raised = stack.key, stack.row, stack.size, stack.codes, space.word, stack.raised
    slot, seen, total, least = stack.slot, stack.probe_key, stack.probe_size, rules.least
    small = np.int64(0)
    for i in range(first, last):
        word = raise_key(key[i], row[i], changes, raised, codes, words)
        at = np.int64((word * SPREAD) >> shift) & mask
        while slot[at] >= now and seen[slot[at] - now] != word:
            at = (at + 1) & mask
        if slot[at] < now:
            slot[at] = now + groups
            seen[groups], total[groups] = word, 0
            groups += 1
        g = slot[at] - now
        before = total[g]
        total[g] = before + size[i]
        small += (total[g] if total[g] < least else 0) - (before if before < least else 0)
    stack.clock[1] += last - first
    return small, groups


@inner
def find_majority(histogram, g, first, last):
    """The records of the most frequent class of a group."""
    most = 0
    for c in range(first, last):
        most = max(most, histogram[g, c])
    return most


@entry
def bound_table(d, rules, stack):
    """The least objective of a node whose groups are unions of the groups of table d, however many records it suppresses."""
    first, last = stack.start[d], stack.start[d] + stack.rows[d]
    if rules.kind == AVERAGE_SIZE:
        return max((rules.records - rules.limit) / max(stack.rows[d], 1), 1.0 * rules.least)
    total = 0.0
    for g in range(first, last):
        if rules.kind == SQUARED_SIZES:
            total += stack.size[g] * max(1.0 * stack.size[g], 1.0 * rules.least)
        else:
            total += stack.size[g] - find_majority(stack.histogram, g, rules.class_first, rules.class_last)
    return total if rules.kind == SQUARED_SIZES else total / rules.records
