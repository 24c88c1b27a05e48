"""Groups that are refined value by value (Fung, Wang, Yu: Top-down specialization, sections 5.3 and 5.4).

The groups of one set of attributes lie one behind the other in the rows, as the paper's leaf partitions do. For every
group and attribute is kept what would be if the attribute's value were opened: the smallest group that would pass, the
records in groups that would fail, and the number of groups. So scores are updated without looking at a record, and opening
a value touches only the records that have it.

The *slot* of a row and an attribute is the child into which it would fall. A row's slots and codes are packed into words:
attribute a has the bits ``fields[a]``, word, shift and mask of its slot, then those of its code. ``facts[g]`` holds of group
g its first row, the row behind its last, its records, those of them that fail, and then three figures for every attribute.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels import interface
from shoal.kernels.interface import AHEAD, JOINT
from shoal.kernels.limits import holds

BEGIN, END, SIZE, FAIL = 0, 1, 2, 3
NONE = np.int64(interface.NONE)
MANY = 128  # rows from which that pays


@njit(cache=True, nogil=True)
def class_counts(quasi, start, classes, weight, offset, first, last, out):
    """Add to ``out[offset[j] + code, class]`` the records of every attribute's codes in the combinations first to last."""
    for u in range(first, last):
        for c in range(start[u], start[u + 1]):
            for j in range(quasi.shape[1]):
                out[offset[j] + quasi[u, j], classes[c]] += weight[c]


@njit(cache=True, nogil=True)
def lay_out(quasi, columns, place, offset, fields, first, last, words):
    """Pack the rows first to last: of every attribute the slot ``place[offset[a] + code]`` and the code."""
    row = np.empty(words.shape[1], np.uint64)
    for i in range(first, last):
        row[:] = 0
        for a in range(columns.shape[0]):
            code = quasi[i, columns[a]]
            row[fields[a, 0]] |= np.uint64(place[offset[a] + code]) << np.uint64(fields[a, 1])
            row[fields[a, 3]] |= np.uint64(code) << np.uint64(fields[a, 4])
        for w in range(words.shape[1]):
            words[i, w] = row[w]


@njit(cache=True, nogil=True)
def _slot(word, field):
    return np.int64((word >> np.uint64(field[1])) & np.uint64(field[2]))


@njit(cache=True, nogil=True)
def split(link, number, rows, opened, fields, chunks, ahead):
    """Open a value of attribute a in the groups of ``link``: divide each among its children, numbered from ``first``.

    A group's first child keeps its number, the others are numbered from ``number[n]``. ``place[code]`` is where a row with
    that code would fall if the child it goes to were opened. Then look ahead in the groups that came of it.
    """
    words, ref, weight, facts, node = rows
    a, first, children, place = opened
    fan, alive, cells, limits, least, plain, room = ahead
    counts = np.zeros(room, np.int64)
    table = np.zeros(JOINT * chunks.shape[0], np.int64)
    histogram = np.zeros(1 if plain else max(room, 1) * cells[4], np.int64)
    longest = np.int64(0)
    for g in link:
        longest = max(longest, facts[g, END] - facts[g, BEGIN])
    new_words = np.empty((longest, words.shape[1]), words.dtype)
    new_ref = np.empty(longest, ref.dtype)
    new_weight = np.empty(longest, weight.dtype)
    behind = np.empty(children + 1, np.int64)
    w, shift, mask = fields[a, 0], np.uint64(fields[a, 1]), np.uint64(fields[a, 2])
    mass = np.empty(children, np.int64)
    waiting = False  # whether some child may be opened some day
    for c in range(children):
        waiting = waiting or alive[first + c]
    for n in range(link.shape[0]):
        g = link[n]
        low, high = facts[g, BEGIN], facts[g, END]
        if facts[g, AHEAD + 3 * a + 2] == 1:  # nothing moves, and the other attributes see no change
            node[g, a] = first + np.int64((words[low, w] >> shift) & mask)
            _place(low, high, words, fields[a], place)
            _look(g, a, words, ref, weight, facts, node, fields, chunks, ahead, counts, table, histogram)
            continue
        idle = plain and not waiting  # nothing will ever be opened in these groups: their sizes are all that counts
        for b in range(node.shape[1]):
            idle = idle and (b == a or not alive[node[g, b]])
        if children == 2:
            middle, left = _halve(low, high, rows, fields[a], place, idle, new_words, new_ref, new_weight)
            right = facts[g, SIZE] - left
            _become(g, g, low, middle, left, a, first, facts, node, least)
            _become(number[n], g, middle, high, right, a, first + 1, facts, node, least)
            if not idle:
                _look(g, -1, words, ref, weight, facts, node, fields, chunks, ahead, counts, table, histogram)
                _look(number[n], -1, words, ref, weight, facts, node, fields, chunks, ahead, counts, table, histogram)
            continue
        behind[:] = 0
        mass[:] = 0
        for i in range(low, high):
            c = np.int64((words[i, w] >> shift) & mask)
            behind[c + 1] += 1
            mass[c] += weight[i]
        for c in range(children):
            behind[c + 1] += behind[c]
        to, target = g, number[n]
        for c in range(children):
            if behind[c + 1] > behind[c]:
                _become(to, g, low + behind[c], low + behind[c + 1], mass[c], a, first + c, facts, node, least)
                if to != g:
                    target += 1
                to = target
        _deal(low, high, rows, fields[a], place, idle, behind, new_words, new_ref, new_weight)
        if idle:
            continue
        _look(g, -1, words, ref, weight, facts, node, fields, chunks, ahead, counts, table, histogram)
        for to in range(number[n], target):
            _look(to, -1, words, ref, weight, facts, node, fields, chunks, ahead, counts, table, histogram)


@njit(cache=True, nogil=True)
def _become(to, g, begin, end, records, a, value, facts, node, least):
    """Write down a part of group g, with its own value of attribute a, as group ``to``."""
    facts[to, BEGIN], facts[to, END], facts[to, SIZE] = begin, end, records
    facts[to, FAIL] = records if records < least else 0
    for b in range(node.shape[1]):
        node[to, b] = node[g, b]
    node[to, a] = value


@njit(cache=True, nogil=True)
def _deal(low, high, rows, field, place, idle, behind, new_words, new_ref, new_weight):
    """Divide the rows of a group among children whose rows begin at ``behind``, each in their old order."""
    words, ref, weight, facts, node = rows
    w, shift, mask = field[0], np.uint64(field[1]), np.uint64(field[2])
    coded, down, whole = field[3], np.uint64(field[4]), np.uint64(field[5])
    for i in range(low, high):
        word = words[i, w]
        c = np.int64((word >> shift) & mask)
        at = behind[c]
        behind[c] = at + 1
        new_ref[at] = ref[i]
        if not idle:
            for v in range(words.shape[1]):
                new_words[at, v] = words[i, v]
            code = (words[i, coded] >> down) & whole
            new_words[at, w] = (word & ~(mask << shift)) | (np.uint64(place[code]) << shift)
            new_weight[at] = weight[i]
    ref[low:high] = new_ref[: high - low]
    if not idle:
        words[low:high] = new_words[: high - low]
        weight[low:high] = new_weight[: high - low]


@njit(cache=True, nogil=True)
def place_anew(link, rows, a, place, fields, chunks, ahead):
    """Look ahead in groups whose value of attribute a would now be opened in another way: ``place[code]`` says which."""
    words, ref, weight, facts, node = rows
    fan, alive, cells, limits, least, plain, room = ahead
    histogram = np.zeros(1 if plain else max(room, 1) * cells[4], np.int64)
    counts, table = np.zeros(room, np.int64), np.zeros(JOINT * chunks.shape[0], np.int64)
    for g in link:
        _place(facts[g, BEGIN], facts[g, END], words, fields[a], place)
        _look(g, a, words, ref, weight, facts, node, fields, chunks, ahead, counts, table, histogram)


@njit(cache=True, nogil=True)
def _place(low, high, words, field, place):
    w, shift, clear = field[0], np.uint64(field[1]), ~(np.uint64(field[2]) << np.uint64(field[1]))
    for i in range(low, high):
        code = (words[i, field[3]] >> np.uint64(field[4])) & np.uint64(field[5])
        words[i, w] = (words[i, w] & clear) | (np.uint64(place[code]) << shift)


@njit(cache=True, nogil=True)
def forbid(link, rows, first, last, field, ahead, forbidden):
    """Mark the codes behind which numbers from ``first`` to ``last`` cannot be split: some part of a group would fail."""
    words, ref, weight, facts, node = rows
    fan, alive, cells, limits, least, plain, room = ahead
    start, secret, share, offset, width = cells
    begin = np.empty(last - first + 2, np.int64)
    longest = np.int64(0)
    for g in link:
        longest = max(longest, facts[g, END] - facts[g, BEGIN])
    order = np.empty(longest, np.int64)
    left, right = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for g in link:
        begin[:] = 0
        right[:] = 0
        behind = np.int64(0)
        for i in range(facts[g, BEGIN], facts[g, END]):
            code = np.int64((words[i, field[3]] >> np.uint64(field[4])) & np.uint64(field[5]))
            if code <= last:
                begin[code - first + 1] += 1
        for c in range(last - first + 1):
            begin[c + 1] += begin[c]
        for i in range(facts[g, BEGIN], facts[g, END]):
            code = np.int64((words[i, field[3]] >> np.uint64(field[4])) & np.uint64(field[5]))
            if code <= last:  # not missing
                order[begin[code - first]] = i
                begin[code - first] += 1
                behind += weight[i]
                if not plain:
                    _shift(ref[i], 1, cells, right)
        left[:] = 0
        before, seen, bad = np.int64(0), 0, False
        for c in range(last - first):
            moved = seen
            while seen < begin[c]:
                i = order[seen]
                before += weight[i]
                behind -= weight[i]
                if not plain:
                    _shift(ref[i], 1, cells, left)
                    _shift(ref[i], -1, cells, right)
                seen += 1
            if seen > moved or c == 0:
                if plain:
                    bad = 0 < before < least or 0 < behind < least
                else:
                    bad = (before > 0 and not holds(before, left, limits)) or (
                        behind > 0 and not holds(behind, right, limits)
                    )
            if bad:
                forbidden[c] = True


@njit(cache=True, nogil=True)
def _shift(u, sign, cells, histogram):
    """Add the confidential values of a combination to a histogram, or take them out."""
    start, secret, share, offset, width = cells
    for c in range(start[u], start[u + 1]):
        for s in range(offset.shape[0]):
            histogram[offset[s] + secret[c, s]] += sign * share[c]


@njit(cache=True, nogil=True)
def _halve(low, high, rows, field, place, idle, new_words, new_ref, new_weight):
    """Divide the rows of a group between two children, each in their old order; where the second begins, the first's records.

    The first child's rows are moved up in place, the second's wait aside. Of an idle group only the order counts.
    """
    words, ref, weight, facts, node = rows
    w, shift, clear = field[0], np.uint64(field[1]), ~(np.uint64(field[2]) << np.uint64(field[1]))
    coded, down, whole = field[3], np.uint64(field[4]), np.uint64(field[5])
    many = words.shape[1]
    to, aside, left = low, 0, np.int64(0)
    for i in range(low, high):
        word = words[i, w]
        if (word >> shift) & np.uint64(1):
            new_ref[aside] = ref[i]
            if not idle:
                code = (words[i, coded] >> down) & whole
                for v in range(many):
                    new_words[aside, v] = words[i, v]
                new_words[aside, w] = (word & clear) | (np.uint64(place[code]) << shift)
                new_weight[aside] = weight[i]
            aside += 1
        else:
            left += weight[i]
            if not idle:
                code = (words[i, coded] >> down) & whole
                for v in range(many):
                    words[to, v] = words[i, v]
                words[to, w] = (word & clear) | (np.uint64(place[code]) << shift)
                weight[to] = weight[i]
            ref[to] = ref[i]
            to += 1
    ref[to:high] = new_ref[:aside]
    if not idle:
        words[to:high] = new_words[:aside]
        weight[to:high] = new_weight[:aside]
    return to, left


@njit(cache=True, nogil=True)
def look(rows, fields, chunks, ahead):
    """Look ahead in the one group that holds all rows."""
    words, ref, weight, facts, node = rows
    fan, alive, cells, limits, least, plain, room = ahead
    histogram = np.zeros(1 if plain else max(room, 1) * cells[4], np.int64)
    facts[0, BEGIN], facts[0, END], facts[0, SIZE], facts[0, FAIL] = 0, words.shape[0], weight.sum(), 0
    counts, table = np.zeros(room, np.int64), np.zeros(JOINT * chunks.shape[0], np.int64)
    _look(0, -1, words, ref, weight, facts, node, fields, chunks, ahead, counts, table, histogram)


@njit(cache=True, nogil=True)
def _look(g, only, words, ref, weight, facts, node, fields, chunks, ahead, counts, table, histogram):
    """What would become of group g if values were opened: of one attribute only, or of all that may be."""
    fan, alive, cells, limits, least, plain, room = ahead
    start, secret, share, offset, width = cells
    low, high = facts[g, BEGIN], facts[g, END]
    if plain:
        _tally(g, only, words, weight, facts, node, fields, chunks, fan, alive, least, counts, table)
        return
    if only < 0:
        histogram[:width] = 0
        for i in range(low, high):
            for c in range(start[ref[i]], start[ref[i] + 1]):
                for s in range(offset.shape[0]):
                    histogram[offset[s] + secret[c, s]] += share[c]
        facts[g, FAIL] = 0 if holds(facts[g, SIZE], histogram[:width], limits) else facts[g, SIZE]
    for a in range(node.shape[1]):
        x = node[g, a]
        if not alive[x] or (only >= 0 and only != a):
            continue
        counts[: fan[x]] = 0
        histogram[: fan[x] * width] = 0
        for i in range(low, high):
            slot = _slot(words[i, fields[a, 0]], fields[a])
            counts[slot] += weight[i]
            for c in range(start[ref[i]], start[ref[i] + 1]):
                for s in range(offset.shape[0]):
                    histogram[slot * width + offset[s] + secret[c, s]] += share[c]
        fine = np.zeros(fan[x], np.bool_)
        for slot in range(fan[x]):
            if counts[slot] > 0:
                fine[slot] = holds(counts[slot], histogram[slot * width : (slot + 1) * width], limits)
        _note(facts[g, AHEAD + 3 * a : AHEAD + 3 * a + 3], counts[: fan[x]], fine)


@njit(cache=True, nogil=True)
def _note(figures, counts, fine):
    """The three figures of an attribute, from the records of its value's children and whether each passes."""
    figures[0], figures[1], figures[2] = NONE, 0, 0
    for slot in range(counts.shape[0]):
        if counts[slot] > 0:
            figures[2] += 1
            if fine[slot]:
                figures[0] = min(figures[0], counts[slot])
            else:
                figures[1] += counts[slot]


@njit(cache=True, nogil=True)
def _tally(g, only, words, weight, facts, node, fields, chunks, fan, alive, least, counts, table):
    """The same where only the size of groups counts.

    Attributes whose slots lie side by side are counted as one, by the distinct combinations of their slots, and told apart
    afterwards: a chunk is a first attribute, the one behind its last, the word, the shift and the mask.
    """
    low, high = facts[g, BEGIN], facts[g, END]
    joint = only < 0 and high - low >= MANY
    if joint:
        _count_all(words, weight, np.uint64(low), np.uint64(high), chunks, node[g], alive, table)
    for n in range(chunks.shape[0]):
        first, last, size = chunks[n, 0], chunks[n, 1], chunks[n, 4] + 1
        together = joint and size <= JOINT
        for a in range(first, last):
            x = node[g, a]
            if not alive[x] or (only >= 0 and only != a):
                continue
            counts[: fields[a, 2] + 1] = 0
            if together:
                shift = fields[a, 1] - chunks[n, 3]
                for c in range(size):
                    counts[(c >> shift) & fields[a, 2]] += table[n * JOINT + c]
            else:
                _count(
                    words,
                    weight,
                    np.uint64(low),
                    np.uint64(high),
                    np.uint64(fields[a, 0]),
                    fields[a, 1],
                    fields[a, 2],
                    counts,
                )
            _note(facts[g, AHEAD + 3 * a : AHEAD + 3 * a + 3], counts[: fan[x]], counts[: fan[x]] >= least)


@njit(cache=True, nogil=True)
def _count_all(words, weight, low, high, chunks, node, alive, table):
    """The records of every combination of slots, for all chunks in one pass, but those too wide or with nothing alive."""
    many = 0
    place, shift = np.empty(chunks.shape[0], np.uint64), np.empty(chunks.shape[0], np.uint64)
    word, mask = np.empty(chunks.shape[0], np.uint64), np.empty(chunks.shape[0], np.uint64)
    for n in range(chunks.shape[0]):
        hope = False
        for a in range(chunks[n, 0], chunks[n, 1]):
            hope = hope or alive[node[a]]
        if hope and chunks[n, 4] < JOINT:
            place[many], word[many], shift[many], mask[many] = n * JOINT, chunks[n, 2], chunks[n, 3], chunks[n, 4]
            table[n * JOINT : n * JOINT + chunks[n, 4] + 1] = 0
            many += 1
    many = np.uint64(many)
    for i in range(low, high):
        w = weight[i]
        for t in range(many):
            table[place[t] + ((words[i, word[t]] >> shift[t]) & mask[t])] += w


@njit(cache=True, nogil=True)
def _count(words, weight, low, high, w, shift, mask, counts):
    """The records of every value of some bits; unsigned indices spare a test at each access."""
    shift, mask = np.uint64(shift), np.uint64(mask)
    for i in range(low, high):
        counts[(words[i, w] >> shift) & mask] += weight[i]


@njit(cache=True, nogil=True)
def outlook(facts, node, groups, column, alive):
    """For every value, if it were opened: the smallest group that passes, and the records in groups that fail.

    ``column[x]`` is the attribute of value x in this set, or -1. Returns the two figures by value, and the smallest group
    that passes as they are.
    """
    values = column.shape[0]
    ahead = np.full(values, NONE, np.int64)
    own = np.full(values, NONE, np.int64)
    fails = np.zeros(values, np.int64)
    smallest, failing = NONE, np.int64(0)
    for g in range(groups):
        fail = facts[g, FAIL]
        failing += fail
        size = facts[g, SIZE] if fail == 0 else NONE
        smallest = min(smallest, size)
        for a in range(node.shape[1]):
            x = node[g, a]
            own[x] = min(own[x], size)
            if alive[x]:
                ahead[x] = min(ahead[x], facts[g, AHEAD + 3 * a])
                fails[x] += facts[g, AHEAD + 3 * a + 1] - fail
    best = np.full((node.shape[1], 2), NONE, np.int64)  # of every attribute the two smallest of ``own``
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
            ahead[x] = min(ahead[x], others)
            fails[x] += failing
    return ahead, fails, smallest


@njit(cache=True, nogil=True)
def split_gains(start, classes, weight, lo, hi, domain):
    """The fall of entropy, in bits x records, for a split behind every code from ``lo`` to ``hi - 1``.

    Code c has the cells ``start[c]`` to ``start[c + 1]``. The sum of count x log2(count) is carried along with the error of
    each addition, so that equal gains come out equal up to the last bits.
    """
    left, right = np.zeros(domain, np.int64), np.zeros(domain, np.int64)
    all_right = np.int64(0)
    for c in range(start[lo], start[hi + 1]):
        right[classes[c]] += weight[c]
        all_right += weight[c]
    sums, errors = np.zeros(2), np.zeros(2)
    for k in range(domain):
        _add(sums, errors, 1, _tall(right[k]))
    whole = _tall(all_right) - (sums[1] + errors[1])
    all_left = np.int64(0)
    out = np.empty(hi - lo, np.float64)
    for code in range(lo, hi):
        for c in range(start[code], start[code + 1]):
            k, w = classes[c], weight[c]
            _add(sums, errors, 0, -_tall(left[k]))
            _add(sums, errors, 1, -_tall(right[k]))
            left[k] += w
            right[k] -= w
            _add(sums, errors, 0, _tall(left[k]))
            _add(sums, errors, 1, _tall(right[k]))
            all_left += w
            all_right -= w
        below = _tall(all_left) - (sums[0] + errors[0]) + _tall(all_right) - (sums[1] + errors[1])
        out[code - lo] = whole - below
    return out


@njit(cache=True, nogil=True)
def _tall(n):
    return n * np.log2(n) if n > 0 else 0.0


@njit(cache=True, nogil=True)
def _add(sums, errors, side, term):
    total = sums[side] + term
    if abs(sums[side]) >= abs(term):
        errors[side] += (sums[side] - total) + term
    else:
        errors[side] += (term - total) + sums[side]
    sums[side] = total
