"""A local search that lowers the information loss of groups: records move while the requirement holds.

This module has the state of the search and the moves of single entries; `regrouping` has the moves of whole groups.

An *entry* is a number of equal records of one cell in one group. For every group and attribute the search keeps the two
smallest and the two largest codes of its entries, so that the box without one entry is known at once.

Every kind of move has two phases. The first one reads a frozen state and proposes the best move of every entry or group; it
runs in parallel for parts of them. The second one applies the proposals in the given order, computes each gain again, and tests
the requirement. So the result does not depend on the number of threads.

D is the weighted loss of a group's box, summed over the attributes. ``clock`` counts the changes of groups.
``values`` are `interface.SensitiveLabels`. Small functions in inner loops take single arrays: every array of a tuple is passed.

The kernels of the search and of the losses have ``error_model="numpy"``. Otherwise each division can raise an exception, and
a search in the tree of groups takes several times as long (measured). No divisor is 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.group_tree import allocate_nearest, find_cheapest_groups, interval_cost
from shoal.kernels.interface import LARGEST_CODE, LEAST_GAIN, ONE64, ZERO64
from shoal.kernels.limits import holds

CANDIDATES = np.int64(6)  # groups considered for an exchange with an entry
PARTNERS = 96  # entries of such a group that are tried
# the cheapest groups that are tested with a requirement on sensitive values; many if all of the few fail
FEW, MANY = np.int64(8), np.int64(64)
NO_CELL, NO_LIMIT, WHOLE = np.int32(-1), np.int64(LARGEST_CODE), np.bool_(True)  # arguments of a known type
SAMPLE = 64  # entries that determine the order of the attributes

# Indices of ``State.used``: entries, and the changes of groups.
ENTRIES, CLOCK = range(2)


class State(NamedTuple):
    """By entry: cell, group, number of records; linked lists of the entries of a group.

    By group: first entry, number of records; by [group, attribute] the two smallest and the two largest codes, and the loss; D;
    the time of the last change, and of the last proposal that was not applied; the counts of the sensitive values (no rows:
    counted again for each test). ``used``: see ENTRIES.
    """

    cell: NDArray[Any]
    group: NDArray[Any]
    records: NDArray[Any]
    following: NDArray[Any]
    previous: NDArray[Any]
    head: NDArray[Any]
    size: NDArray[Any]
    low: NDArray[Any]
    next_low: NDArray[Any]
    high: NDArray[Any]
    next_high: NDArray[Any]
    loss: NDArray[Any]
    total: NDArray[Any]
    changed: NDArray[Any]
    refused: NDArray[Any]
    histogram: NDArray[Any]
    used: NDArray[Any]


class Rules(NamedTuple):
    """The least and the most records of a group, and whether entries may be divided."""

    least: int
    most: int
    divide: bool


@inner(error_model="numpy")
def extend_ends(g, row, low, next_low, high, next_high):
    """Update the smallest and largest codes of a group by one more row of codes."""
    for j in range(row.shape[0]):
        x = row[j]
        if x < low[g, j]:
            next_low[g, j], low[g, j] = low[g, j], x
        elif x < next_low[g, j]:
            next_low[g, j] = x
        if x > high[g, j]:
            next_high[g, j], high[g, j] = high[g, j], x
        elif x > next_high[g, j]:
            next_high[g, j] = x


@inner(error_model="numpy")
def stamp(g, state):
    """Note that a group changed."""
    state.used[CLOCK] += 1
    state.changed[g] = state.used[CLOCK]


@inner(error_model="numpy")
def measure_group(g, rows, state, losses):
    """Compute the losses of a group from its ends."""
    low, high, loss = state.low, state.high, state.loss
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    total = 0.0
    for j in range(rows.shape[1]):
        loss[g, j] = 0.0
        if state.head[g] >= 0:
            loss[g, j] = interval_cost(j, low[g, j], high[g, j], pairs, begin, loss_tables)
        total += loss[g, j]
    state.total[g] = total


@inner(error_model="numpy")
def recompute_group(g, rows, state, losses):
    """Recompute the ends and the losses of a group from its entries."""
    cell, following = state.cell, state.following
    low, next_low, high, next_high = state.low, state.next_low, state.high, state.next_high
    for j in range(rows.shape[1]):
        low[g, j] = next_low[g, j] = LARGEST_CODE
        high[g, j] = next_high[g, j] = -1
    e = state.head[g]
    while e >= 0:
        extend_ends(g, rows[cell[e]], low, next_low, high, next_high)
        e = following[e]
    measure_group(g, rows, state, losses)


@inner(error_model="numpy")
def add_counts(g, cell, count, state, values):
    """Add ``count`` records of a cell to the counts of a group's sensitive values."""
    if state.histogram.shape[0] > 0:
        for s in range(values.sensitive.shape[1]):
            state.histogram[g, values.offset[s] + values.sensitive[values.label[cell], s]] += count


@inner(error_model="numpy")
def link(e, g, state, values):
    """Insert an entry into the list of a group."""
    group, head, following, previous = state.group, state.head, state.following, state.previous
    group[e] = g
    following[e], previous[e] = head[g], -1
    if head[g] >= 0:
        previous[head[g]] = e
    head[g] = e
    state.size[g] += state.records[e]
    add_counts(g, state.cell[e], state.records[e], state, values)


@inner(error_model="numpy")
def unlink(e, state, values):
    """Remove an entry from the list of its group."""
    head, following, previous = state.head, state.following, state.previous
    g = np.int64(state.group[e])
    if previous[e] >= 0:
        following[previous[e]] = following[e]
    else:
        head[g] = following[e]
    if following[e] >= 0:
        previous[following[e]] = previous[e]
    state.size[g] -= state.records[e]
    add_counts(g, state.cell[e], -state.records[e], state, values)


@inner(error_model="numpy")
def detach(e, count, rows, state, values, losses):
    """Take ``count`` records of an entry out of its group; return the entry that holds them, or -1 if there is no room."""
    g = np.int64(state.group[e])
    if count == state.records[e]:
        unlink(e, state, values)
        recompute_group(g, rows, state, losses)
        stamp(g, state)
        return e
    new = state.used[ENTRIES]
    if new == state.cell.shape[0]:
        return -1
    state.used[ENTRIES] += 1
    state.cell[new], state.records[new] = state.cell[e], count
    state.records[e] -= count
    state.size[g] -= count
    add_counts(g, state.cell[e], -count, state, values)
    stamp(g, state)
    return new


@inner(error_model="numpy")
def attach(e, g, rows, state, values, losses):
    """Add an entry that is in no list to a group."""
    low, next_low, high, next_high = state.low, state.next_low, state.high, state.next_high
    link(e, g, state, values)
    extend_ends(g, rows[state.cell[e]], low, next_low, high, next_high)
    measure_group(g, rows, state, losses)
    stamp(g, state)


@inner(error_model="numpy")
def fill_lists(n, group, following, previous, head):
    """Link the entries of every group; the entries are sorted by group."""
    for e in range(n):
        previous[e] = e - 1 if e > 0 and group[e - 1] == group[e] else -1
        following[e] = e + 1 if e + 1 < n and group[e + 1] == group[e] else -1
        if previous[e] < 0:
            head[group[e]] = e


@entry(error_model="numpy")
def build_state(cell, count, group, room, groups, rows, changed, refused, clock, keep_counts, values, losses):
    """The state of entries that are sorted by group, with room for more entries."""
    n, m = cell.shape[0], rows.shape[1]
    width = values.offset[-1]
    state = State(
        np.empty(n + room, np.int32),
        np.empty(n + room, np.int32),
        np.empty(n + room, np.int64),
        np.empty(n + room, np.int32),
        np.empty(n + room, np.int32),
        np.full(groups, -1, np.int32),
        np.zeros(groups, np.int64),
        np.empty((groups, m), np.int32),
        np.empty((groups, m), np.int32),
        np.empty((groups, m), np.int32),
        np.empty((groups, m), np.int32),
        np.empty((groups, m)),
        np.empty(groups),
        changed,
        refused,
        np.zeros((groups if keep_counts else 0, width), np.int32),
        np.array([n, clock]),
    )
    for e in range(n):
        state.cell[e], state.records[e], state.group[e] = cell[e], count[e], group[e]
    fill_lists(n, state.group, state.following, state.previous, state.head)
    low, next_low, high, next_high = state.low, state.next_low, state.high, state.next_high
    size, loss, total, counts = state.size, state.loss, state.total, state.histogram
    low[:] = next_low[:] = LARGEST_CODE
    high[:] = next_high[:] = -1
    loss[:], total[:] = 0.0, 0.0
    label, sensitive, offset = values.label, values.sensitive, values.offset
    for e in range(n):
        g = np.int64(group[e])
        size[g] += count[e]
        extend_ends(g, rows[cell[e]], low, next_low, high, next_high)
        if keep_counts:
            for s in range(sensitive.shape[1]):
                counts[g, offset[s] + sensitive[label[cell[e]], s]] += count[e]
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    for g in range(groups):
        if size[g] > 0:
            for j in range(m):
                loss[g, j] = interval_cost(j, low[g, j], high[g, j], pairs, begin, loss_tables)
                total[g] += loss[g, j]
    return state


@entry(error_model="numpy")
def sum_increases(rows, state, losses):
    """By attribute, the increase of loss when entries join groups, summed over a sample of both."""
    m, entries, groups = rows.shape[1], state.used[ENTRIES], state.size.shape[0]
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    increase = np.zeros(m)
    for e in range(0, entries, max(1, entries // SAMPLE)):
        for g in range(0, groups, max(1, groups // 1024)):
            for j in range(m):
                x = rows[state.cell[e], j]
                if state.size[g] > 0 and (x < state.low[g, j] or x > state.high[g, j]):
                    lo, hi = min(x, state.low[g, j]), max(x, state.high[g, j])
                    increase[j] += interval_cost(j, lo, hi, pairs, begin, loss_tables) - state.loss[g, j]
    return increase


@inner(error_model="numpy")
def fill_counts(g, state, values, counts):
    """Write the counts of a group's sensitive values."""
    if state.histogram.shape[0] > 0:
        for c in range(counts.shape[0]):
            counts[c] = state.histogram[g, c]
        return
    counts[:] = 0
    e = state.head[g]
    while e >= 0:
        for s in range(values.sensitive.shape[1]):
            counts[values.offset[s] + values.sensitive[values.label[state.cell[e]], s]] += state.records[e]
        e = state.following[e]


@inner(error_model="numpy")
def holds_after(g, removed, fewer, added, more, state, values, counts):
    """Whether a group meets the requirement without ``fewer`` records of a cell and with ``more`` of another (-1: none)."""
    if counts.shape[0] > 0:
        label, sensitive, offset = values.label, values.sensitive, values.offset
        fill_counts(g, state, values, counts)
        for s in range(sensitive.shape[1]):
            if removed >= 0:
                counts[offset[s] + sensitive[label[removed], s]] -= fewer
            if added >= 0:
                counts[offset[s] + sensitive[label[added], s]] += more
    return holds(state.size[g] - fewer + more, counts, values.limits)


@inner(error_model="numpy")
def box_without(e, whole, rows, state, losses, low, high):
    """Write the box of an entry's group without the entry, if it leaves as a whole; return D of this box."""
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    g, total = np.int64(state.group[e]), 0.0
    for j in range(rows.shape[1]):
        x, lo, hi = rows[state.cell[e], j], state.low[g, j], state.high[g, j]
        if whole and (x == lo or x == hi):
            lo, hi = state.next_low[g, j] if x == lo else lo, state.next_high[g, j] if x == hi else hi
            if lo <= hi:  # otherwise nothing is left in the group
                total += interval_cost(j, lo, hi, pairs, begin, loss_tables)
        else:
            total += state.loss[g, j]
        low[j], high[j] = lo, hi
    return total


@inner(error_model="numpy")
def union_loss(low, high, other_low, other_high, limit, losses):
    """D of the box around two boxes; infinity if it is ``limit`` or more."""
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    total = 0.0
    for t in range(low.shape[0]):
        j = losses.attribute_order[t]
        lo, hi = min(low[j], other_low[j]), max(high[j], other_high[j])
        if lo <= hi:
            total += interval_cost(j, lo, hi, pairs, begin, loss_tables)
            if total >= limit:
                return np.inf
    return total


@inner(error_model="numpy")
def join_cost(g, x, more, state, losses):
    """The increase of a group's loss by ``more`` records with the codes ``x``."""
    with_it = union_loss(state.low[g], state.high[g], x, x, np.inf, losses)
    return (state.size[g] + more) * with_it - state.size[g] * state.total[g]


@inner(error_model="numpy")
def count_movable(e, rules, state, values, counts):
    """How many records of an entry can leave its group: all, or some of them if entries may be divided; 0 if none may."""
    g, count = np.int64(state.group[e]), state.records[e]
    if state.size[g] - count >= rules.least and holds_after(
        g, state.cell[e], count, NO_CELL, ZERO64, state, values, counts
    ):
        return count
    if not rules.divide or count == 1 or state.size[g] <= rules.least:
        return 0
    if counts.shape[0] == 0:
        return min(count - 1, state.size[g] - rules.least)
    return 1 if holds_after(g, state.cell[e], ONE64, NO_CELL, ZERO64, state, values, counts) else 0


@inner(error_model="numpy")
def find_passing_group(cell, row, count, own, limit, rules, tree, losses, state, values, counts, point_loss, few, many):
    """The group with the least increase below ``limit`` that passes with the records (-1: none), and the increase."""
    if counts.shape[0] == 0:
        found = find_cheapest_groups(
            row, row, point_loss, count, own, limit, ZERO64, ONE64, rules.most, tree, losses, few
        )
        return (few.group[0], few.increase[0]) if found else (-1, limit)
    for nearest, want in ((few, FEW), (many, MANY)):
        found = find_cheapest_groups(
            row, row, point_loss, count, own, limit, ZERO64, want, rules.most, tree, losses, nearest
        )
        for o in range(found):
            if holds_after(nearest.group[o], NO_CELL, ZERO64, cell, count, state, values, counts):
                return nearest.group[o], nearest.increase[o]
        if found < want:
            break
    return -1, limit


@entry(error_model="numpy")
def propose_shifts(first, last, since, rules, rows, state, tree, changed_tree, losses, values, target, moved, gain):
    """For every entry of a part: the group that it should join, how many of its records, and the gain (0: none)."""
    m = rows.shape[1]
    counts, point_loss = np.zeros(values.offset[-1], np.int64), np.zeros(m)
    low, high = np.empty(m, np.int32), np.empty(m, np.int32)
    nodes = max(tree.child.shape[0], changed_tree.child.shape[0])
    few, many = allocate_nearest(nodes, FEW), allocate_nearest(nodes, MANY)
    for e in range(first, last):
        gain[e] = 0.0
        g = np.int64(state.group[e])
        if state.total[g] <= 0.0 or (state.size[g] <= state.records[e] and not rules.divide):
            continue
        among_all = state.changed[g] > since or state.refused[g] > since
        if not among_all and changed_tree.child.shape[0] == 0:
            continue
        count = count_movable(e, rules, state, values, counts)
        if count == 0:
            continue
        rest = box_without(e, count == state.records[e], rows, state, losses, low, high)
        decrease = state.size[g] * state.total[g] - (state.size[g] - count) * rest - LEAST_GAIN * count
        t, increase = find_passing_group(
            state.cell[e],
            rows[state.cell[e]],
            count,
            g,
            decrease,
            rules,
            tree if among_all else changed_tree,
            losses,
            state,
            values,
            counts,
            point_loss,
            few,
            many,
        )
        if t >= 0:
            target[e], moved[e], gain[e] = t, count, decrease - increase


@entry(error_model="numpy")
def apply_shifts(order, rules, rows, state, losses, values, target, moved):
    """Apply shifts in the given order, each if it still lowers the loss and both groups pass; return the gain."""
    m = rows.shape[1]
    counts = np.zeros(values.offset[-1], np.int64)
    low, high = np.empty(m, np.int32), np.empty(m, np.int32)
    gain = 0.0
    for e in order:
        g, t = np.int64(state.group[e]), target[e]
        state.refused[g] = state.used[CLOCK] + 1
        count = min(moved[e], count_movable(e, rules, state, values, counts))
        if count == 0 or state.size[t] == 0 or state.size[t] + count > rules.most:
            continue
        if count < state.records[e] and counts.shape[0] > 0:
            count = 1
        rest = box_without(e, count == state.records[e], rows, state, losses, low, high)
        decrease = state.size[g] * state.total[g] - (state.size[g] - count) * rest
        increase = join_cost(t, rows[state.cell[e]], count, state, losses)
        if decrease - increase <= LEAST_GAIN * count:
            continue
        if counts.shape[0] > 0 and not holds_after(t, NO_CELL, ZERO64, state.cell[e], count, state, values, counts):
            continue
        new = detach(e, count, rows, state, values, losses)
        if new >= 0:
            attach(new, t, rows, state, values, losses)
            gain += decrease - increase
    return gain


@inner(error_model="numpy")
def exchange_sizes(e, other, rules, state):
    """How many records of two entries change places: all, or as many of each as the smaller has."""
    if rules.divide:
        both = min(state.records[e], state.records[other])
        return both, both
    return state.records[e], state.records[other]


@inner(error_model="numpy")
def exchange_holds(e, other, one, two, rules, state, values, counts):
    """Whether both groups pass after an exchange."""
    g, t = np.int64(state.group[e]), np.int64(state.group[other])
    here, there = state.size[g] - one + two, state.size[t] - two + one
    if min(here, there) < rules.least or (two > one and here > rules.most) or (one > two and there > rules.most):
        return False
    if counts.shape[0] == 0:
        return holds(here, counts, values.limits) and holds(there, counts, values.limits)
    return holds_after(g, state.cell[e], one, state.cell[other], two, state, values, counts) and holds_after(
        t, state.cell[other], two, state.cell[e], one, state, values, counts
    )


@entry(error_model="numpy")
def propose_exchanges(first, last, since, rules, rows, state, tree, changed_tree, losses, values, partner, gain):
    """For every entry of a part: the entry of another group that it should change places with, and the gain (0: none)."""
    m = rows.shape[1]
    counts, point_loss = np.zeros(values.offset[-1], np.int64), np.zeros(m)
    low, high = np.empty(m, np.int32), np.empty(m, np.int32)
    other_low, other_high = np.empty(m, np.int32), np.empty(m, np.int32)
    nearest = allocate_nearest(max(tree.child.shape[0], changed_tree.child.shape[0]), CANDIDATES)
    cell, following, size, total = state.cell, state.following, state.size, state.total
    for e in range(first, last):
        gain[e] = 0.0
        g = np.int64(state.group[e])
        among_all = state.changed[g] > since or state.refused[g] > since
        if total[g] <= 0.0 or (not among_all and changed_tree.child.shape[0] == 0):
            continue
        row, n = rows[cell[e]], size[g]
        rest = box_without(e, WHOLE, rows, state, losses, low, high)
        decrease = n * (total[g] - rest)
        if decrease <= LEAST_GAIN:
            continue
        best = LEAST_GAIN
        found = find_cheapest_groups(
            row,
            row,
            point_loss,
            ZERO64,
            g,
            decrease,
            ZERO64,
            CANDIDATES,
            NO_LIMIT,
            tree if among_all else changed_tree,
            losses,
            nearest,
        )
        for o in range(found):
            t = nearest.group[o]
            other, tried = np.int64(state.head[t]), 0
            while other >= 0 and tried < PARTNERS:
                tried += 1
                one, two = exchange_sizes(e, other, rules, state)
                whole, other_whole = one == state.records[e], two == state.records[other]
                if cell[other] != cell[e] and (whole or other_whole):
                    here, there = n - one + two, size[t] - two + one
                    before = n * total[g] + size[t] * total[t]
                    if whole:
                        with_other = union_loss(
                            low, high, rows[cell[other]], rows[cell[other]], (before - best) / here, losses
                        )
                    else:
                        with_other = union_loss(
                            state.low[g],
                            state.high[g],
                            rows[cell[other]],
                            rows[cell[other]],
                            (before - best) / here,
                            losses,
                        )
                    rest_limit = (before - best - here * with_other) / there
                    if rest_limit > 0.0:
                        box_without(other, other_whole, rows, state, losses, other_low, other_high)
                        with_it = union_loss(other_low, other_high, row, row, rest_limit, losses)
                        if with_it < rest_limit and exchange_holds(e, other, one, two, rules, state, values, counts):
                            best = before - here * with_other - there * with_it
                            partner[e], gain[e] = other, best
                other = following[other]


@entry(error_model="numpy")
def apply_exchanges(order, rules, rows, state, losses, values, partner, group_then, count_then):
    """Apply exchanges in the given order, each if it still lowers the loss and both groups pass; return the gain.

    ``group_then`` and ``count_then`` are the groups and counts of the entries when the exchanges were proposed.
    """
    m = rows.shape[1]
    counts = np.zeros(values.offset[-1], np.int64)
    low, high = np.empty(m, np.int32), np.empty(m, np.int32)
    gain = 0.0
    for e in order:
        other = partner[e]
        g, t = np.int64(state.group[e]), np.int64(state.group[other])
        state.refused[group_then[e]] = state.used[CLOCK] + 1
        if g != group_then[e] or t != group_then[other] or g == t:
            continue
        if state.records[e] != count_then[e] or state.records[other] != count_then[other]:
            continue
        one, two = exchange_sizes(e, other, rules, state)
        if not exchange_holds(e, other, one, two, rules, state, values, counts):
            continue
        here, there = state.size[g] - one + two, state.size[t] - two + one
        before = state.size[g] * state.total[g] + state.size[t] * state.total[t]
        box_without(e, one == state.records[e], rows, state, losses, low, high)
        after = here * union_loss(low, high, rows[state.cell[other]], rows[state.cell[other]], np.inf, losses)
        box_without(other, two == state.records[other], rows, state, losses, low, high)
        after += there * union_loss(low, high, rows[state.cell[e]], rows[state.cell[e]], np.inf, losses)
        if before - after <= LEAST_GAIN or state.used[ENTRIES] + 2 > state.cell.shape[0]:
            continue
        new, new_other = detach(e, one, rows, state, values, losses), detach(other, two, rows, state, values, losses)
        attach(new, t, rows, state, values, losses)
        attach(new_other, g, rows, state, values, losses)
        gain += before - after
    return gain
