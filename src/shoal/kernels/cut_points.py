"""Ordered-set partitioning: the slots of every attribute are cut into intervals; groups are combinations of intervals.

Bayardo and Agrawal: Data privacy through optimal k-anonymization, ICDE 2005. The cost of a table is the sum of the costs of its
groups: the squared size, or the records outside the most frequent class. A suppressed record costs as many as the table has
records, or 1.

``table`` is `interface.CutTable`, ``rules`` is `interface.SearchRules` and ``room`` is `interface.CutRoom`. Costs are whole
numbers.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import NONE64, SQUARED_SIZES
from shoal.kernels.limits import all_values_hold

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # the odd number next to 2^64 / golden ratio: spreads keys over the slots
HIGH = np.uint64(32)
INFINITE = np.int64(2**62)


@inner
def add_words(attribute, cut, table, room):
    """Add the words of an attribute's intervals to the keys of the rows."""
    begin, end = table.first[attribute], table.first[attribute + 1]
    has_cut = False
    for s in range(begin + 1, end):
        if cut[s]:
            has_cut = True
    if not has_cut:
        return
    word, words, slot, key = room.word, table.word, table.slot, room.key
    at = begin
    for s in range(begin, end):
        if s > begin and (cut[s] or (table.missing[attribute] and s == end - 1)):
            at = s
        word[s - begin] = words[at]
    for i in range(table.rows[0]):
        key[i] += word[slot[attribute, i]]


@inner
def number_groups(rows, room):
    """Number the groups of rows by their keys, in the order of their first rows; return how many there are."""
    mask = 16
    while mask < 2 * rows:
        mask *= 2
    mask -= 1
    hashed, key, group = room.hashed, room.key, room.group
    for i in range(mask + 1):
        hashed[i] = NONE64
    groups = 0
    for i in range(rows):
        at = np.int64((key[i] * SPREAD) >> HIGH) & mask
        while hashed[at] >= 0 and key[hashed[at]] != key[i]:
            at = (at + 1) & mask
        if hashed[at] < 0:
            hashed[at] = i
            group[i] = groups
            groups += 1
        else:
            group[i] = group[hashed[at]]
    room.work[0] += rows
    return groups


@inner
def number_cuts(cut, table, room):
    """Number the groups of cuts, by row; return how many there are."""
    rows, key = table.rows[0], room.key
    for i in range(rows):
        key[i] = 0
    for a in range(table.slot.shape[0]):
        add_words(a, cut, table, room)
    return number_groups(rows, room)


@inner
def passes(size, histogram, rules):
    """Whether a group is released."""
    return size >= rules.least and all_values_hold(size, histogram, rules.limits)


@inner
def count_minority(size, histogram, rules):
    """The records outside the most frequent class."""
    most = 0
    for c in range(rules.class_first, rules.class_last):
        most = max(most, histogram[c])
    return size - most


@inner
def rate_released(size, histogram, rules):
    """The cost of a released group."""
    return size * size if rules.kind == SQUARED_SIZES else count_minority(size, histogram, rules)


@inner
def rate_suppressed(size, rules):
    """The cost of suppressed records."""
    return size * rules.records if rules.kind == SQUARED_SIZES else size


@inner
def count_groups(groups, table, room, size, histogram):
    """Sum the records of the groups of rows."""
    group, row_size, row_histogram = room.group, table.size, table.histogram
    for g in range(groups):
        size[g] = 0
        for c in range(histogram.shape[1]):
            histogram[g, c] = 0
    for i in range(table.rows[0]):
        g = group[i]
        size[g] += row_size[i]
        for c in range(histogram.shape[1]):
            histogram[g, c] += row_histogram[i, c]


@inner
def rate_groups(groups, size, histogram, rules):
    """The cost of groups, and the suppressed records."""
    cost, lost = 0, 0
    for g in range(groups):
        if passes(size[g], histogram[g], rules):
            cost += rate_released(size[g], histogram[g], rules)
        else:
            cost += rate_suppressed(size[g], rules)
            lost += size[g]
    return cost, lost


@entry
def rate_cuts(cut, table, rules, room):
    """The cost of cuts, and the suppressed records."""
    groups = number_cuts(cut, table, room)
    count_groups(groups, table, room, room.size, room.histogram)
    return rate_groups(groups, room.size, room.histogram, rules)


@inner
def sort_by_group(attribute, groups, table, room):
    """Sort the rows by their groups, then by their slots of an attribute; ``room.start`` gets the end of every group."""
    rows = table.rows[0]
    start, place, group, order = room.start, room.place, room.group, table.order
    for g in range(groups + 1):
        start[g] = 0
    for i in range(rows):
        start[group[i] + 1] += 1
    for g in range(groups):
        start[g + 1] += start[g]
    for i in range(rows):
        u = order[attribute, i]
        place[start[group[u]]] = u
        start[group[u]] += 1


@inner
def add_rectangle(array, low, high, left, right, value):
    """Add a value to the entries from ``low`` to ``high`` - 1 and ``left`` to ``right`` - 1, as differences of neighbours."""
    array[low, left] += value
    array[high, left] -= value
    array[low, right] -= value
    array[high, right] += value


@inner
def rate_intervals(attribute, cut, table, rules, room):
    """Fill ``room.cost`` and ``room.lost``: the cost of every interval of an attribute, with the cuts of the others.

    Return the cost and the records of groups that are suppressed with any interval.
    """
    rows, width, key = table.rows[0], table.histogram.shape[1], room.key
    slots = table.first[attribute + 1] - table.first[attribute]
    for i in range(rows):
        key[i] = 0
    for a in range(table.slot.shape[0]):
        if a != attribute:
            add_words(a, cut, table, room)
    groups = number_groups(rows, room)
    sort_by_group(attribute, groups, table, room)
    cost_of, lost_of, slot, size = room.cost, room.lost, room.run_slot, room.run_size
    histogram, total, start, place = room.run_histogram, room.total, room.start, room.place
    row_slot, row_size, row_histogram = table.slot, table.size, table.histogram
    for a in range(slots + 1):
        for b in range(slots + 1):
            cost_of[a, b], lost_of[a, b] = 0, 0
    least, squared = rules.least, rules.kind == SQUARED_SIZES
    first_class, last_class, limits = rules.class_first, rules.class_last, rules.limits
    price = rules.records if squared else 1
    fixed_cost, fixed_lost, begin = 0, 0, 0
    for g in range(groups):
        end, records = start[g], 0
        for i in range(begin, end):
            records += row_size[place[i]]
        if records < least:
            fixed_cost += records * price
            fixed_lost += records
            begin = end
            continue
        used = 0
        for i in range(begin, end):
            u = place[i]
            s = row_slot[attribute, u]
            if used == 0 or slot[used - 1] != s:
                slot[used], size[used] = s, 0
                for c in range(width):
                    histogram[used, c] = 0
                used += 1
            size[used - 1] += row_size[u]
            for c in range(width):
                histogram[used - 1, c] += row_histogram[u, c]
        slot[used] = slots
        begin = end
        for x in range(used):
            low, records = 0 if x == 0 else slot[x - 1] + 1, 0
            for c in range(width):
                total[c] = 0
            for y in range(x, used):
                records += size[y]
                most = 0
                for c in range(width):
                    total[c] += histogram[y, c]
                    if first_class <= c < last_class:
                        most = max(most, total[c])
                if records >= least and all_values_hold(records, total, limits):
                    cost = records * records if squared else records - most
                else:
                    cost = records * price
                    add_rectangle(lost_of, low, slot[x] + 1, slot[y], slot[y + 1], records)
                add_rectangle(cost_of, low, slot[x] + 1, slot[y], slot[y + 1], cost)
        room.work[0] += used * used
    for a in range(1, slots + 1):
        for b in range(slots + 1):
            cost_of[a, b] += cost_of[a - 1, b]
            lost_of[a, b] += lost_of[a - 1, b]
    for a in range(slots + 1):
        for b in range(1, slots + 1):
            cost_of[a, b] += cost_of[a, b - 1]
            lost_of[a, b] += lost_of[a, b - 1]
    return fixed_cost, fixed_lost


@inner
def divide(slots, missing, price, room):
    """The best division of an attribute if every suppressed record costs ``price`` more; return the cost and the records.

    ``room.begins`` gets whether an interval begins at each slot. A missing value is alone, unless all values are one interval.
    """
    cost, lost, best, back, begins = room.cost, room.lost, room.best, room.back, room.begins
    values = slots - 1 if missing else slots
    best[0] = 0
    for b in range(values):
        least, at = INFINITE, 0
        for a in range(b + 1):
            value = best[a] + cost[a, b] + price * lost[a, b]
            if value < least:
                least, at = value, a
        best[b + 1], back[b + 1] = least, at
    for s in range(slots):
        begins[s] = False
    if missing:
        alone = cost[slots - 1, slots - 1] + price * lost[slots - 1, slots - 1]
        if cost[0, slots - 1] + price * lost[0, slots - 1] <= best[values] + alone:
            return cost[0, slots - 1], lost[0, slots - 1]
    found_cost, found_lost = 0, 0
    if missing:
        begins[slots - 1] = True
        found_cost, found_lost = cost[slots - 1, slots - 1], lost[slots - 1, slots - 1]
    b = values
    while b > 0:
        a = back[b]
        found_cost += cost[a, b - 1]
        found_lost += lost[a, b - 1]
        if a > 0:
            begins[a] = True
        b = a
    return found_cost, found_lost


@entry
def divide_attribute(attribute, cut, table, rules, room):
    """Replace the cuts of an attribute by the best cuts, with those of the others; return the cost and the suppressed records.

    Without a limit on suppressed records the division is optimal. With one, suppressed records get a price, as low as
    possible. If no division is within the limit, the one with the highest price is used.
    """
    fixed_cost, fixed_lost = rate_intervals(attribute, cut, table, rules, room)
    first, slots = table.first[attribute], table.first[attribute + 1] - table.first[attribute]
    begins = room.begins
    most = min(
        rules.records * rules.records + 1, INFINITE // max(2 * rules.records, 1)
    )  # more than any difference of costs
    low, high = -1, most if rules.limit == 0 else 0
    cost, lost = divide(slots, table.missing[attribute], high, room)
    while fixed_lost + lost > rules.limit and high < most:
        low, high = high, min(max(4 * high, 1), most)
        cost, lost = divide(slots, table.missing[attribute], high, room)
    while rules.limit > 0 and high > 0 and high - low > max(high // 64, 1) and fixed_lost + lost <= rules.limit:
        middle = (low + high) // 2
        cost, lost = divide(slots, table.missing[attribute], middle, room)
        if fixed_lost + lost > rules.limit:
            low = middle
            cost, lost = divide(slots, table.missing[attribute], high, room)
        else:
            high = middle
    for s in range(1, slots):
        cut[first + s] = begins[s]
    return fixed_cost + cost, fixed_lost + lost


@inner
def merge_rows(cut, table, fine, room):
    """Fill a table with one row per group of some cuts; return the number of rows."""
    groups = number_cuts(cut, table, room)
    count_groups(groups, table, room, fine.size, fine.histogram)
    slot, row_slot, group = fine.slot, table.slot, room.group
    for i in range(table.rows[0]):
        for a in range(slot.shape[0]):
            slot[a, group[i]] = row_slot[a, i]
    fine.rows[0] = groups
    return groups


@inner
def bound_groups(groups, size, histogram, fine, rules, room):
    """The least cost of cuts that are finer than some groups and coarser than a finest table; INFINITE above the limit.

    ``room.group`` has the group of every row of the finest table. Records of a group that fails are suppressed by all finer
    cuts. Every other record is in a group at least as large as its row of the finest table, and as the least size.
    """
    fails, group, fine_size = room.marks, room.group, fine.size
    bound, lost = 0, 0
    for g in range(groups):
        fails[g] = not passes(size[g], histogram[g], rules) if rules.inherits else size[g] < rules.least
        if fails[g]:
            bound += rate_suppressed(size[g], rules)
            lost += size[g]
    if lost > rules.limit:
        return INFINITE
    least, squared = rules.least, rules.kind == SQUARED_SIZES
    for i in range(fine.rows[0]):
        if not fails[group[i]]:
            if squared:
                bound += fine_size[i] * max(fine_size[i], least)
            else:
                bound += count_minority(fine_size[i], fine.histogram[i], rules)
    return bound


@inner
def splits_released(groups, fine, rules, room):
    """Whether any released group is a part of a larger group; ``room.parent`` has the larger group of every row."""
    seen, group, size, parent, parent_size = room.marks, room.group, room.size, room.parent, room.parent_size
    for g in range(groups):
        seen[g] = False
    for i in range(fine.rows[0]):
        g = group[i]
        if not seen[g] and size[g] < parent_size[parent[i]] and passes(size[g], room.histogram[g], rules):
            return True
        seen[g] = True
    return False


@entry
def expand(head, tail, length, best, table, fine, rules, room, found):
    """Prune the tail of a node of the set-enumeration tree: its subtree adds cuts of the tail to those of the head.

    A cut is removed if no cuts with it cost less than ``best``, or if it makes only groups that are suppressed. Return the
    length of the new tail, or -1 if nothing in the subtree costs less, and the bound of the subtree. ``found`` gets for every
    cut of the tail the bound of the cuts with it, and the cost and the suppressed records of the head with it. ``fine`` is a
    table with room for as many rows as ``table``.
    """
    cut, size, histogram, group = room.cut, room.size, room.histogram, room.group
    parent, parent_size = room.parent, room.parent_size
    while True:
        for s in range(head.shape[0]):
            cut[s] = head[s]
        for t in range(length):
            cut[tail[t]] = True
        rows = merge_rows(cut, table, fine, room)
        groups = number_cuts(head, fine, room)
        count_groups(groups, fine, room, size, histogram)
        own = bound_groups(groups, size, histogram, fine, rules, room)
        if own >= best:
            return NONE64, own
        for i in range(rows):
            parent[i] = group[i]
        for g in range(groups):
            parent_size[g] = size[g]
        kept = 0
        for t in range(length):
            v = tail[t]
            head[v] = True
            groups = number_cuts(head, fine, room)
            head[v] = False
            count_groups(groups, fine, room, size, histogram)
            bound = bound_groups(groups, size, histogram, fine, rules, room)
            if bound >= best or (rules.inherits and not splits_released(groups, fine, rules, room)):
                continue
            tail[kept], found[kept, 0] = v, bound
            found[kept, 1], found[kept, 2] = rate_groups(groups, size, histogram, rules)
            kept += 1
        if kept == length:
            return length, own
        length = kept
