"""A local search that lowers the information loss of groups: records move while the requirement holds.

This module has the state of the search and the moves of single entries; `regrouping` has the moves of whole groups.

An *entry* is a number of equal records of one cell in one group. For every group and attribute the search keeps the two
smallest and the two largest codes of its entries, so that the box without one entry is known at once.

Every kind of move has two phases. The first one reads a frozen state and proposes the best move of every entry or group; it
runs in parallel for parts of them. The second one applies the proposals in the given order, computes each gain again, and tests
the requirement. So the result does not depend on the number of threads.

D is the weighted loss of a group's box, summed over the attributes. ``clock`` counts the changes of groups. ``state`` is
`interface.SearchState`, ``scratch`` `interface.MoveScratch`. ``values`` are `interface.SensitiveLabels`, or None if the
requirements depend on the size of groups alone: then the compiler leaves out the branches for sensitive values.

The kernels of the search and of the losses have ``error_model="numpy"``. Otherwise each division can raise an exception, and
a search in the tree of groups takes several times as long (measured). No divisor is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.kernels.compiler import entry, inner
from shoal.kernels.group_tree import find_cheapest_groups, interval_cost
from shoal.kernels.interface import LARGEST_CODE, LEAST_GAIN, MOST_NEAR, NONE64, ONE64, ZERO64
from shoal.kernels.limits import holds

CANDIDATES = np.int64(6)  # groups considered for an exchange with an entry
PARTNERS = 96  # entries of such a group that are tried
# the cheapest groups that are tested with a requirement on sensitive values; many if all of the few fail
FEW, MANY = np.int64(8), np.int64(MOST_NEAR)
NO_CELL, NO_LIMIT, WHOLE = np.int32(-1), np.int64(LARGEST_CODE), np.bool_(True)  # arguments of a known type
SAMPLE = 64  # entries that determine the order of the attributes

# Indices of ``state.used``: entries, and the changes of groups.
ENTRIES, CLOCK = range(2)


class Rules(NamedTuple):
    """The least and the most records of a group, and whether entries may be divided."""

    least: int
    most: int
    divide: bool


@inner(error_model="numpy")
def extend_ends(g, cell, state):
    """Update the smallest and largest codes of a group by one more cell."""
    rows, low, next_low, high, next_high = state.rows, state.low, state.next_low, state.high, state.next_high
    for j in range(rows.shape[1]):
        x = rows[cell, j]
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
def measure_group(g, state, losses):
    """Compute the losses of a group from its ends."""
    low, high, loss = state.low, state.high, state.loss
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    total = 0.0
    for j in range(low.shape[1]):
        loss[g, j] = 0.0
        if state.head[g] >= 0:
            loss[g, j] = interval_cost(j, low[g, j], high[g, j], pairs, begin, loss_tables)
        total += loss[g, j]
    state.total[g] = total


@inner(error_model="numpy")
def recompute_group(g, state, losses):
    """Recompute the ends and the losses of a group from its entries."""
    cell, following = state.cell, state.following
    for j in range(state.low.shape[1]):
        state.low[g, j] = state.next_low[g, j] = LARGEST_CODE
        state.high[g, j] = state.next_high[g, j] = -1
    e = state.head[g]
    while e >= 0:
        extend_ends(g, cell[e], state)
        e = following[e]
    measure_group(g, state, losses)


@inner(error_model="numpy")
def add_counts(g, cell, count, state, values):
    """Add ``count`` records of a cell to the counts of a group's sensitive values."""
    if values is not None:
        histogram, label, sensitive, offset = state.histogram, values.label, values.sensitive, values.offset
        if histogram.shape[0] > 0:
            for s in range(sensitive.shape[1]):
                histogram[g, offset[s] + sensitive[label[cell], s]] += count


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
def detach(e, count, state, values, losses):
    """Take ``count`` records of an entry out of its group; return the entry that holds them, or -1 if there is no room."""
    g = np.int64(state.group[e])
    if count == state.records[e]:
        unlink(e, state, values)
        recompute_group(g, state, losses)
        stamp(g, state)
        return e
    new = state.used[ENTRIES]
    if new == state.cell.shape[0]:
        return NONE64
    state.used[ENTRIES] += 1
    state.cell[new], state.records[new] = state.cell[e], count
    state.records[e] -= count
    state.size[g] -= count
    add_counts(g, state.cell[e], -count, state, values)
    stamp(g, state)
    return new


@inner(error_model="numpy")
def attach(e, g, state, values, losses):
    """Add an entry that is in no list to a group."""
    link(e, g, state, values)
    extend_ends(g, state.cell[e], state)
    measure_group(g, state, losses)
    stamp(g, state)


@entry(error_model="numpy")
def fill_state(state, values, losses):
    """Compute the lists and the figures of groups from entries that are sorted by group; the figures are those of no entry."""
    cell, group, records, head = state.cell, state.group, state.records, state.head
    n = state.used[ENTRIES]
    for e in range(n):
        g = np.int64(group[e])
        state.previous[e] = e - 1 if e > 0 and group[e - 1] == g else -1
        state.following[e] = e + 1 if e + 1 < n and group[e + 1] == g else -1
        if state.previous[e] < 0:
            head[g] = e
        state.size[g] += records[e]
        extend_ends(g, cell[e], state)
        add_counts(g, cell[e], records[e], state, values)
    for g in range(head.shape[0]):
        measure_group(g, state, losses)


@entry(error_model="numpy")
def sum_increases(state, losses, increase):
    """Write by attribute the increase of loss when entries join groups, summed over a sample of both."""
    rows, entries, groups = state.rows, state.used[ENTRIES], state.size.shape[0]
    m = rows.shape[1]
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    for j in range(m):
        increase[j] = 0.0
    for e in range(0, entries, max(1, entries // SAMPLE)):
        for g in range(0, groups, max(1, groups // 1024)):
            for j in range(m):
                x = rows[state.cell[e], j]
                if state.size[g] > 0 and (x < state.low[g, j] or x > state.high[g, j]):
                    lo, hi = min(x, state.low[g, j]), max(x, state.high[g, j])
                    increase[j] += interval_cost(j, lo, hi, pairs, begin, loss_tables) - state.loss[g, j]


@inner(error_model="numpy")
def fill_counts(g, state, values, counts):
    """Write the counts of a group's sensitive values."""
    if state.histogram.shape[0] > 0:
        for c in range(counts.shape[0]):
            counts[c] = state.histogram[g, c]
        return
    for c in range(counts.shape[0]):
        counts[c] = 0
    e = state.head[g]
    while e >= 0:
        for s in range(values.sensitive.shape[1]):
            counts[values.offset[s] + values.sensitive[values.label[state.cell[e]], s]] += state.records[e]
        e = state.following[e]


@inner(error_model="numpy")
def holds_after(g, removed, fewer, added, more, rules, state, values, counts):
    """Whether a group meets the requirement without ``fewer`` records of a cell and with ``more`` of another (-1: none)."""
    total = state.size[g] - fewer + more
    if values is None:
        return total >= rules.least
    else:  # noqa: RET505 - the compiler leaves out one of the two
        label, sensitive, offset = values.label, values.sensitive, values.offset
        fill_counts(g, state, values, counts)
        for s in range(sensitive.shape[1]):
            if removed >= 0:
                counts[offset[s] + sensitive[label[removed], s]] -= fewer
            if added >= 0:
                counts[offset[s] + sensitive[label[added], s]] += more
        return holds(total, counts, values.limits)


@inner(error_model="numpy")
def box_without(e, whole, state, losses, low, high):
    """Write the box of an entry's group without the entry, if it leaves as a whole; return D of this box."""
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    rows = state.rows
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
    attribute_order = losses.attribute_order
    total = 0.0
    for t in range(low.shape[0]):
        j = attribute_order[t]
        lo, hi = min(low[j], other_low[j]), max(high[j], other_high[j])
        if lo <= hi:
            total += interval_cost(j, lo, hi, pairs, begin, loss_tables)
            if total >= limit:
                return np.inf
    return total


@inner(error_model="numpy")
def join_cost(g, cell, more, state, losses):
    """The increase of a group's loss by ``more`` records of a cell."""
    x = state.rows[cell]
    with_it = union_loss(state.low[g], state.high[g], x, x, np.inf, losses)
    return (state.size[g] + more) * with_it - state.size[g] * state.total[g]


@inner(error_model="numpy")
def count_movable(e, rules, state, values, counts):
    """How many records of an entry can leave its group: all, or some of them if entries may be divided; 0 if none may."""
    g, count = np.int64(state.group[e]), state.records[e]
    if state.size[g] - count >= rules.least and holds_after(
        g, state.cell[e], count, NO_CELL, ZERO64, rules, state, values, counts
    ):
        return count
    if not rules.divide or count == 1 or state.size[g] <= rules.least:
        return ZERO64
    if values is None:
        return min(count - 1, state.size[g] - rules.least)
    else:  # noqa: RET505 - the compiler leaves out one of the two
        one_can = holds_after(g, state.cell[e], ONE64, NO_CELL, ZERO64, rules, state, values, counts)
        return ONE64 if one_can else ZERO64


@inner(error_model="numpy")
def find_passing_group(cell, count, own, limit, rules, tree, losses, state, values, scratch):
    """The group with the least increase below ``limit`` that passes with the records (-1: none), and the increase."""
    row, nearest, most = state.rows[cell], scratch.nearest, rules.most
    want = ONE64
    if values is not None:
        want = FEW
    while True:
        found = find_cheapest_groups(
            row, row, scratch.point_loss, count, own, limit, ZERO64, want, most, tree, losses, nearest
        )
        for o in range(found):
            g = nearest.group[o]
            if values is None:
                return g, nearest.increase[o]
            else:  # noqa: RET505 - the compiler leaves out one of the two
                if holds_after(g, NO_CELL, ZERO64, cell, count, rules, state, values, scratch.counts):
                    return g, nearest.increase[o]
        if found < want or want == MANY:
            return NONE64, limit
        want = MANY


@entry(error_model="numpy")
def propose_shifts(first, last, since, rules, state, tree, changed_tree, losses, values, scratch, target, moved, gain):
    """For every entry of a part: the group that it should join, how many of its records, and the gain (0: none)."""
    for e in range(first, last):
        gain[e] = 0.0
        g = np.int64(state.group[e])
        if state.total[g] <= 0.0 or (state.size[g] <= state.records[e] and not rules.divide):
            continue
        among_all = state.changed[g] > since or state.refused[g] > since
        if not among_all and changed_tree.group.shape[0] == 0:
            continue
        count = count_movable(e, rules, state, values, scratch.counts)
        if count == 0:
            continue
        rest = box_without(e, count == state.records[e], state, losses, scratch.low, scratch.high)
        decrease = state.size[g] * state.total[g] - (state.size[g] - count) * rest - LEAST_GAIN * count
        searched = tree if among_all else changed_tree
        t, increase = find_passing_group(
            state.cell[e], count, g, decrease, rules, searched, losses, state, values, scratch
        )
        if t >= 0:
            target[e], moved[e], gain[e] = t, count, decrease - increase


@entry(error_model="numpy")
def apply_shifts(order, rules, state, losses, values, scratch, target, moved):
    """Apply shifts in the given order, each if it still lowers the loss and both groups pass; return the gain."""
    gain = 0.0
    for i in range(order.shape[0]):
        e = order[i]
        g, t, cell = np.int64(state.group[e]), target[e], state.cell[e]
        state.refused[g] = state.used[CLOCK] + 1
        count = min(moved[e], count_movable(e, rules, state, values, scratch.counts))
        if count == 0 or state.size[t] == 0 or state.size[t] + count > rules.most:
            continue
        if values is not None:
            if count < state.records[e]:
                count = ONE64
        rest = box_without(e, count == state.records[e], state, losses, scratch.low, scratch.high)
        decrease = state.size[g] * state.total[g] - (state.size[g] - count) * rest
        increase = join_cost(t, cell, count, state, losses)
        if decrease - increase <= LEAST_GAIN * count:
            continue
        if values is not None:
            if not holds_after(t, NO_CELL, ZERO64, cell, count, rules, state, values, scratch.counts):
                continue
        new = detach(e, count, state, values, losses)
        if new >= 0:
            attach(new, t, state, values, losses)
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
    if values is None:
        return True
    else:  # noqa: RET505 - the compiler leaves out one of the two
        cell, its_cell = state.cell[e], state.cell[other]
        return holds_after(g, cell, one, its_cell, two, rules, state, values, counts) and holds_after(
            t, its_cell, two, cell, one, rules, state, values, counts
        )


@entry(error_model="numpy")
def propose_exchanges(first, last, since, rules, state, tree, changed_tree, losses, values, scratch, partner, gain):
    """For every entry of a part: the entry of another group that it should change places with, and the gain (0: none)."""
    low, high, other_low, other_high = scratch.low, scratch.high, scratch.other_low, scratch.other_high
    rows, cell, following, size, total = state.rows, state.cell, state.following, state.size, state.total
    point_loss, nearest = scratch.point_loss, scratch.nearest
    for e in range(first, last):
        gain[e] = 0.0
        g = np.int64(state.group[e])
        among_all = state.changed[g] > since or state.refused[g] > since
        if total[g] <= 0.0 or (not among_all and changed_tree.group.shape[0] == 0):
            continue
        row, n = rows[cell[e]], size[g]
        rest = box_without(e, WHOLE, state, losses, low, high)
        decrease = n * (total[g] - rest)
        if decrease <= LEAST_GAIN:
            continue
        best = LEAST_GAIN
        searched = tree if among_all else changed_tree
        found = find_cheapest_groups(
            row, row, point_loss, ZERO64, g, decrease, ZERO64, CANDIDATES, NO_LIMIT, searched, losses, nearest
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
                    its_row = rows[cell[other]]
                    here_low, here_high = (low, high) if whole else (state.low[g], state.high[g])
                    with_other = union_loss(here_low, here_high, its_row, its_row, (before - best) / here, losses)
                    rest_limit = (before - best - here * with_other) / there
                    if rest_limit > 0.0:
                        box_without(other, other_whole, state, losses, other_low, other_high)
                        with_it = union_loss(other_low, other_high, row, row, rest_limit, losses)
                        if with_it < rest_limit and exchange_holds(
                            e, other, one, two, rules, state, values, scratch.counts
                        ):
                            best = before - here * with_other - there * with_it
                            partner[e], gain[e] = other, best
                other = np.int64(following[other])


@entry(error_model="numpy")
def apply_exchanges(order, rules, state, losses, values, scratch, partner, group_then, count_then):
    """Apply exchanges in the given order, each if it still lowers the loss and both groups pass; return the gain.

    ``group_then`` and ``count_then`` are the groups and counts of the entries when the exchanges were proposed.
    """
    rows, low, high = state.rows, scratch.low, scratch.high
    gain = 0.0
    for i in range(order.shape[0]):
        e = order[i]
        other = partner[e]
        g, t = np.int64(state.group[e]), np.int64(state.group[other])
        state.refused[group_then[e]] = state.used[CLOCK] + 1
        if g != group_then[e] or t != group_then[other] or g == t:
            continue
        if state.records[e] != count_then[e] or state.records[other] != count_then[other]:
            continue
        one, two = exchange_sizes(e, other, rules, state)
        if not exchange_holds(e, other, one, two, rules, state, values, scratch.counts):
            continue
        here, there = state.size[g] - one + two, state.size[t] - two + one
        before = state.size[g] * state.total[g] + state.size[t] * state.total[t]
        row, its_row = rows[state.cell[e]], rows[state.cell[other]]
        box_without(e, one == state.records[e], state, losses, low, high)
        after = here * union_loss(low, high, its_row, its_row, np.inf, losses)
        box_without(other, two == state.records[other], state, losses, low, high)
        after += there * union_loss(low, high, row, row, np.inf, losses)
        if before - after <= LEAST_GAIN or state.used[ENTRIES] + 2 > state.cell.shape[0]:
            continue
        new, new_other = detach(e, one, state, values, losses), detach(other, two, state, values, losses)
        attach(new, t, state, values, losses)
        attach(new_other, g, state, values, losses)
        gain += before - after
    return gain
