"""Search a lattice of levels depth-first, with tables of groups that are rolled up attribute by attribute.

A node is chosen in steps. First every attribute with many levels gets a block of neighbouring levels, then every attribute gets
one level of its block. After d steps the levels of every attribute are between ``place.low[d]`` and ``place.high[d]``. Table d
of the stack has one row per group of the finest of these nodes. It is counted from an earlier table, so the rows of the source
are read few times. The last table has the groups of the current node.

Every step goes from high to low levels, so nodes are visited from coarse to fine. If too many records are in groups below the
least size, all finer nodes fail, and they are tagged without a check.

``space`` is `interface.SearchSpace`, ``rules`` is `interface.SearchRules`, ``stack`` is `interface.RolledTables`, ``place``
is `interface.SearchPlace` and ``log`` is `interface.SearchLog`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.interface import (
    ANONYMOUS,
    ASKS,
    AVERAGE_SIZE,
    DECIDES,
    DECIDES_WHOLE,
    FAILS,
    FINISHED,
    LEAST_SLOTS,
    MISCLASSIFIED,
    NO_ROOM,
    PAUSED,
    SQUARED_SIZES,
    SUM_OF_LOGARITHMS,
    SUM_OF_MEANS,
    TAGGED,
    UNSEEN,
    RuleArrays,
)
from shoal.kernels.limits import holds

HALF = np.int64(32)
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # the odd number next to 2^64 / golden ratio: spreads keys over the slots
TIE = 1e-12  # relative: objectives that differ less are equal


@njit(cache=True, nogil=True)
def open_slots(rows, stack):
    """A new time stamp, in the high half of a word, and the mask and the shift for a table of so many rows."""
    stack.clock[0] += 1
    used, shift = LEAST_SLOTS, 60
    while used < 2 * rows:
        used *= 2
        shift -= 1
    return stack.clock[0] << HALF, used - 1, np.uint64(shift)


@njit(cache=True, nogil=True)
def roll_up(d, end, space, stack, place):
    """Count table ``end`` from table d; if no attribute changes its lowest level, the rows stay the same."""
    m = space.low.shape[0]
    start, rows = stack.start[d], stack.rows[d]
    raised, old, new = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
    count = 0
    for j in range(m):
        if place.low[end, j] != place.low[d, j]:
            raised[count] = j
            old[count] = space.begin[space.first[j] + place.low[d, j]]
            new[count] = space.begin[space.first[j] + place.low[end, j]]
            count += 1
    if count == 0:
        stack.start[end], stack.rows[end] = start, rows
        return
    key, row, size, histogram, slot, words = stack.key, stack.row, stack.size, stack.histogram, stack.slot, space.word
    out = start + rows
    now, mask, shift = open_slots(rows, stack)
    width = histogram.shape[1]
    groups = 0
    for i in range(start, start + rows):
        u = row[i]
        word = key[i]
        for a in range(count):
            code = space.codes[raised[a], u]
            word += words[new[a] + code] - words[old[a] + code]
        at = np.int64((word * SPREAD) >> shift) & mask
        while slot[at] >= now and key[out + (slot[at] - now)] != word:
            at = (at + 1) & mask
        if slot[at] >= now:
            g = out + (slot[at] - now)
            size[g] += size[i]
        else:
            slot[at] = now + groups
            g = out + groups
            key[g], row[g], size[g] = word, u, size[i]
            for c in range(width):
                histogram[g, c] = 0
            groups += 1
        for c in range(width):
            histogram[g, c] += histogram[i, c]
    stack.start[end], stack.rows[end] = out, groups
    stack.clock[1] += rows


@njit(cache=True, nogil=True)
def build_tables(depth, space, stack, place):
    """Count the tables up to a number of steps; return whether the stack has enough room.

    Only the numbers of steps in ``space.stages`` have tables.
    """
    stage = 0
    while space.stages[stage] < stack.built[0]:
        stage += 1
    if space.stages[stage] > stack.built[0]:
        stage -= 1
    while space.stages[stage] < depth:
        d = space.stages[stage]
        if stack.start[d] + 2 * stack.rows[d] > stack.key.shape[0]:
            return False
        roll_up(d, space.stages[stage + 1], space, stack, place)
        stage += 1
        stack.built[0] = space.stages[stage]
    return True


@njit(cache=True, nogil=True)
def count_small(d, space, rules, stack, place):
    """The records in groups below the least size, at the coarsest node after d steps."""
    m = space.low.shape[0]
    start, rows = stack.start[d], stack.rows[d]
    raised, old, new = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
    count = 0
    for j in range(m):
        if place.high[d, j] != place.low[d, j]:
            raised[count] = j
            old[count] = space.begin[space.first[j] + place.low[d, j]]
            new[count] = space.begin[space.first[j] + place.high[d, j]]
            count += 1
    key, row, size, slot, seen, total = stack.key, stack.row, stack.size, stack.slot, stack.probe_key, stack.probe_size
    now, mask, shift = open_slots(rows, stack)
    groups = 0
    for i in range(start, start + rows):
        word = key[i]
        for a in range(count):
            code = space.codes[raised[a], row[i]]
            word += space.word[new[a] + code] - space.word[old[a] + code]
        at = np.int64((word * SPREAD) >> shift) & mask
        while slot[at] >= now and seen[slot[at] - now] != word:
            at = (at + 1) & mask
        if slot[at] >= now:
            total[slot[at] - now] += size[i]
        else:
            slot[at] = now + groups
            seen[groups], total[groups] = word, size[i]
            groups += 1
    small = 0
    for g in range(groups):
        if total[g] < rules.least:
            small += total[g]
    stack.clock[1] += rows
    return small


@njit(cache=True, nogil=True)
def find_majority(histogram, g, first, last):
    """The records of the most frequent class of a group."""
    most = 0
    for c in range(first, last):
        most = max(most, histogram[g, c])
    return most


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def test_node(space, rules, stack, place):
    """Test the groups of the last table; return the records of groups that are too small, and of all that fail."""
    last = space.attribute.shape[0]
    start, rows = stack.start[last], stack.rows[last]
    if rules.least_of_set.shape[0] > 0:
        return test_sets(space, rules, stack, place)
    for i in range(rows):
        stack.passes[i] = stack.size[start + i] >= rules.least
    small = count_failing(start, rows, stack)
    if small > rules.limit or not rules.tests_values:
        return small, small
    for i in range(rows):
        if stack.passes[i]:
            stack.passes[i] = holds(stack.size[start + i], stack.histogram[start + i], rules.limits)
    return small, count_failing(start, rows, stack)


@njit(cache=True, nogil=True)
def count_failing(start, rows, stack):
    """The records of the groups that do not pass."""
    failing = 0
    for i in range(rows):
        if not stack.passes[i]:
            failing += stack.size[start + i]
    return failing


@njit(cache=True, nogil=True)
def test_sets(space, rules, stack, place):
    """As `test_node`, for requirements on several sets of attributes: suppress groups until all that remain pass.

    The groups of a set are unions of groups of the last table. The sizes alone are tested first, since they decide for finer
    nodes. Then the requirements are tested from the beginning, in the order of the policy.
    """
    last = space.attribute.shape[0]
    start, rows = stack.start[last], stack.rows[last]
    sets = rules.least_of_set.shape[0]
    number = np.empty((sets, rows), np.int64)
    groups = np.empty(sets, np.int64)
    for s in range(sets):
        groups[s] = number_groups(s, space, rules, stack, place, number[s])
    small = -1
    for with_values in range(1 + rules.tests_values):
        for i in range(rows):
            stack.passes[i] = True
        changed = True
        while changed:
            changed = False
            for s in range(sets):
                size = np.zeros(groups[s], np.int64)
                for i in range(rows):
                    if stack.passes[i]:
                        size[number[s, i]] += stack.size[start + i]
                if with_values == 1 and rules.term_start[s + 1] > rules.term_start[s]:
                    verdict = test_values(s, size, number[s], rules, stack, last)
                else:
                    verdict = size >= rules.least_of_set[s]
                for i in range(rows):
                    if stack.passes[i] and not verdict[number[s, i]]:
                        stack.passes[i] = False
                        changed = True
        failing = count_failing(start, rows, stack)
        if with_values == 0:
            small = failing
        if failing > rules.limit:
            break
    return small, failing


@njit(cache=True, nogil=True)
def number_groups(s, space, rules, stack, place, number):
    """Number the groups of a set of attributes, by row of the last table; return how many there are."""
    last = space.attribute.shape[0]
    start, rows = stack.start[last], stack.rows[last]
    now, mask, shift = open_slots(rows, stack)
    key = np.empty(rows, np.uint64)
    groups = 0
    for i in range(rows):
        word = np.uint64(0)
        for a in range(rules.set_start[s], rules.set_start[s + 1]):
            j = rules.set_attribute[a]
            word += space.word[space.begin[space.first[j] + place.level[j]] + space.codes[j, stack.row[start + i]]]
        at = np.int64((word * SPREAD) >> shift) & mask
        while stack.slot[at] >= now and key[stack.slot[at] - now] != word:
            at = (at + 1) & mask
        if stack.slot[at] < now:
            stack.slot[at] = now + groups
            key[groups] = word
            groups += 1
        number[i] = stack.slot[at] - now
    return groups


@njit(cache=True, nogil=True)
def test_values(s, size, number, rules, stack, last):
    """Whether each group of a set meets the requirements of the set."""
    start, rows = stack.start[last], stack.rows[last]
    first, end = rules.term_start[s], rules.term_start[s + 1]
    every = rules.limits
    limits = RuleArrays(
        every.term[first:end],
        every.parameter[first:end],
        every.table_shares,
        every.left,
        every.right,
        every.floor,
        every.figure,
        every.value_order,
    )
    histogram = np.zeros((size.shape[0], stack.histogram.shape[1]), np.int64)
    for i in range(rows):
        if stack.passes[i]:
            for c in range(histogram.shape[1]):
                histogram[number[i], c] += stack.histogram[start + i, c]
    verdict = np.zeros(size.shape[0], np.bool_)
    for g in range(size.shape[0]):
        verdict[g] = size[g] >= rules.least_of_set[s] and holds(size[g], histogram[g], limits)
    return verdict


@njit(cache=True, nogil=True)
def rate_node(failing, space, rules, stack, place):
    """The objective of the current node; the groups that do not pass are suppressed."""
    m = space.low.shape[0]
    last = space.attribute.shape[0]
    start, rows = stack.start[last], stack.rows[last]
    if rules.kind == SUM_OF_MEANS or rules.kind == SUM_OF_LOGARITHMS:
        score = 0.0
        for j in range(m):
            level = space.first[j] + place.level[j]
            column = space.mean[level]
            if failing > 0:
                lost = 0.0
                for i in range(rows):
                    if not stack.passes[i]:
                        loss = space.loss[space.begin[level] + space.codes[j, stack.row[start + i]]]
                        lost += stack.size[start + i] * (space.lost[j] - loss)
                column += lost / rules.records
            score += np.log1p(column) if rules.kind == SUM_OF_LOGARITHMS else column
        return score
    total, kept = 0.0, 0
    for i in range(rows):
        if stack.passes[i]:
            g = start + i
            kept += 1
            if rules.kind == SQUARED_SIZES:
                total += 1.0 * stack.size[g] * stack.size[g]
            elif rules.kind == MISCLASSIFIED:
                total += stack.size[g] - find_majority(stack.histogram, g, rules.class_first, rules.class_last)
    if rules.kind == SQUARED_SIZES:
        return total + 1.0 * failing * rules.records
    if rules.kind == MISCLASSIFIED:
        return (total + failing) / rules.records
    return (rules.records - failing) / max(kept, 1)


@njit(cache=True, nogil=True)
def tag_finer(level, space, log):
    """Tag all nodes that are as fine or finer."""
    m = space.low.shape[0]
    if log.state.shape[0] == 0:
        count = log.counts[1]
        if count < log.failed.shape[0]:
            for j in range(m):
                log.failed[count, j] = level[j]
            log.counts[1] = count + 1
        return
    at = np.zeros(m, np.int64)
    for j in range(m):
        at[j] = space.low[j]
    run = m - 1
    while True:
        index = 0
        for j in range(run):
            index += at[j] * space.stride[j]
        for v in range(index + space.low[run], index + level[run] + 1):
            if log.state[v] == UNSEEN:
                log.state[v] = TAGGED
        j = run - 1
        while j >= 0:
            at[j] += 1
            if at[j] <= level[j]:
                break
            at[j] = space.low[j]
            j -= 1
        if j < 0:
            return


@njit(cache=True, nogil=True)
def is_settled(d, space, place, log):
    """Whether the coarsest node after d steps is known to fail, or after the last step is checked."""
    m = space.low.shape[0]
    if log.state.shape[0] > 0:
        index = 0
        for j in range(m):
            index += place.high[d, j] * space.stride[j]
        state = log.state[index]
        return state == TAGGED or (d == space.attribute.shape[0] and state != UNSEEN)
    for i in range(log.counts[1]):
        below = True
        for j in range(m):
            if log.failed[i, j] < place.high[d, j]:
                below = False
                break
        if below:
            return True
    return False


@njit(cache=True, nogil=True)
def precedes(level, best, space):
    """Whether a node comes before another one: the lower level of the first attribute of the policy that differs."""
    for p in range(space.policy_order.shape[0]):
        j = space.policy_order[p]
        if level[j] != best[j]:
            return level[j] < best[j]
    return False


@njit(cache=True, nogil=True)
def record(state, suppressed, value, space, place, log):
    """Write a check to the log, and keep the node if it is the best so far."""
    m = space.low.shape[0]
    count = log.counts[0]
    for j in range(m):
        log.level[count, j] = place.level[j]
    log.outcome[count], log.suppressed[count], log.value[count] = state, suppressed, value
    log.counts[0] = count + 1
    if log.state.shape[0] > 0:
        index = 0
        for j in range(m):
            index += place.level[j] * space.stride[j]
        if log.state[index] != TAGGED:
            log.state[index] = state
    if state != ANONYMOUS:
        return
    best = place.best[0]
    slack = TIE * max(1.0, abs(best)) if best < np.inf else 0.0
    if value < best - slack or (value <= best + slack and precedes(place.level, place.best_level, space)):
        place.best[0] = min(value, best)
        for j in range(m):
            place.best_level[j] = place.level[j]


@njit(cache=True, nogil=True)
def check_node(space, rules, stack, place, log):
    """Check the node with the current levels: FINISHED, NO_ROOM if an array is full, ASKS if the caller must decide."""
    last = space.attribute.shape[0]
    for j in range(space.low.shape[0]):
        place.level[j] = place.low[last, j]
    if log.counts[0] == log.outcome.shape[0] or (log.state.shape[0] == 0 and log.counts[1] == log.failed.shape[0]):
        return NO_ROOM
    if not build_tables(last, space, stack, place):
        return NO_ROOM
    small, failing = test_node(space, rules, stack, place)
    if small > rules.limit or (failing > rules.limit and rules.decides == DECIDES):
        if small > rules.limit or rules.inherits:
            tag_finer(place.level, space, log)
        record(FAILS, failing, np.inf, space, place, log)
        return FINISHED
    if rules.decides != DECIDES and (rules.decides != DECIDES_WHOLE or failing > 0):
        return ASKS
    record(ANONYMOUS, failing, rate_node(failing, space, rules, stack, place), space, place, log)
    return FINISHED


@njit(cache=True, nogil=True)
def probe_coarsest(d, space, rules, stack, place, log):
    """Whether even the coarsest node after d steps fails; then all nodes of these steps fail."""
    small = count_small(d, space, rules, stack, place)
    log.counts[2] += 1
    if small <= rules.limit:
        return False
    for j in range(space.low.shape[0]):
        place.level[j] = place.high[d, j]
    tag_finer(place.level, space, log)
    record(FAILS, small, np.inf, space, place, log)
    return True


@njit(cache=True, nogil=True)
def take_step(d, choice, space, stack, place):
    """Choose a block of levels, or a level, in step d."""
    changed = False
    for j in range(space.low.shape[0]):
        low, high = place.low[d, j], place.high[d, j]
        if j == space.attribute[d]:
            low = space.block[j, choice] if space.is_block[d] else choice
            high = space.block[j, choice + 1] - 1 if space.is_block[d] else choice
        changed |= place.low[d + 1, j] != low
        place.low[d + 1, j], place.high[d + 1, j] = low, high
    place.choice[d] = choice
    if changed:
        stack.built[0] = min(stack.built[0], d)
    j = space.attribute[d]
    old, new = space.first[j] + place.low[d, j], space.first[j] + place.low[d + 1, j]
    place.bound[d + 1] = place.bound[d] - space.floor[old] + space.floor[new]


@njit(cache=True, nogil=True)
def find_highest(d, space, place):
    """The first choice of step d: its highest block or level."""
    j = space.attribute[d]
    return space.blocks[j] - 1 if space.is_block[d] else place.high[d, j]


@njit(cache=True, nogil=True)
def find_lowest(d, space, place):
    """The last choice of step d."""
    return np.int64(0) if space.is_block[d] else place.low[d, space.attribute[d]]


@njit(cache=True, nogil=True)
def move_to(level, space, stack, place):
    """Go to a node; tables that stay the same are kept."""
    for d in range(space.attribute.shape[0]):
        j = space.attribute[d]
        choice = level[j]
        if space.is_block[d]:
            choice = np.int64(0)
            while space.block[j, choice + 1] <= level[j]:
                choice += 1
        take_step(d, choice, space, stack, place)


@njit(cache=True, nogil=True)
def leave_step(d, place):
    """Return to the step before, with its next choice."""
    place.depth[0] = d - 1
    if d > 0:
        place.choice[d - 1] -= 1


@njit(cache=True, nogil=True)
def sweep(space, rules, stack, place, log, work):
    """Visit all nodes that can be better than the best one, from coarse to fine.

    Return FINISHED at the end, PAUSED after so many rows were counted, NO_ROOM or ASKS as `check_node`. The next call goes on.
    """
    last = space.attribute.shape[0]
    added = rules.kind == SUM_OF_MEANS or rules.kind == SUM_OF_LOGARITHMS
    until = stack.clock[1] + work
    steps = 0
    while place.depth[0] >= 0:
        d = place.depth[0]
        if d == last:
            done = check_node(space, rules, stack, place, log)
            if done != FINISHED:
                return done
            leave_step(d, place)
            if stack.clock[1] > until:
                return PAUSED
            continue
        steps += 1
        if steps > 16 * work:
            return PAUSED
        choice = place.choice[d]
        if choice < find_lowest(d, space, place):
            leave_step(d, place)
            continue
        take_step(d, choice, space, stack, place)
        best = place.best[0]
        most = best + TIE * max(1.0, abs(best)) if best < np.inf else np.inf
        skips = added and place.bound[d + 1] > most
        if not skips:
            skips = is_settled(d + 1, space, place, log)
            stack.clock[1] += log.counts[1]  # as many nodes were compared
            if stack.clock[1] > until and not skips:
                return PAUSED
        if not skips and not added and space.has_table[d + 1]:
            if not build_tables(d + 1, space, stack, place):
                return NO_ROOM
            skips = bound_table(d + 1, rules, stack) > most
        if not skips and space.probe[d + 1]:
            if log.counts[0] == log.outcome.shape[0] or not build_tables(d + 1, space, stack, place):
                return NO_ROOM
            skips = probe_coarsest(d + 1, space, rules, stack, place, log)
        if skips:
            place.choice[d] -= 1
            continue
        place.depth[0] = d + 1
        if d + 1 < last:
            place.choice[d + 1] = find_highest(d + 1, space, place)
    return FINISHED
