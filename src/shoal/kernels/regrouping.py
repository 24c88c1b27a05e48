"""The moves of a local search that change whole groups: divide groups, divide pairs in another way, let entries leave.

A division separates the entries with a range of codes of one attribute from the rest. An ejection lets all entries outside a
range of codes leave their group, each for the cheapest other group; if all leave, the group is dissolved. See `local_search`
for the state and for the two phases of every move.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry, inner
from shoal.kernels.group_tree import find_cheapest_groups
from shoal.kernels.interface import LARGEST_CODE, LEAST_GAIN, NONE64, ZERO64
from shoal.kernels.limits import holds
from shoal.kernels.local_search import (
    CLOCK,
    NO_CELL,
    NO_LIMIT,
    attach,
    find_passing_group,
    holds_after,
    join_cost,
    link,
    recompute_group,
    stamp,
    union_loss,
    unlink,
)
from shoal.kernels.order import sort_items

RANGES = 16  # all ranges of an attribute with up to this many codes are tried as one half of a division
MOST_COST = 8  # an entry leaves a group together with others only if it costs less than so many times its own loss


@entry(error_model="numpy")
def find_partners(groups, state, tree, losses, nearest, partner):
    """For every given group: the groups with the least increase of loss when merged with it, cheapest first (-1: none)."""
    want = np.int64(partner.shape[1])
    for i in range(groups.shape[0]):
        g = np.int64(groups[i])
        low, high, loss = state.low[g], state.high[g], state.loss[g]
        found = find_cheapest_groups(
            low, high, loss, state.size[g], g, np.inf, ZERO64, want, NO_LIMIT, tree, losses, nearest
        )
        for o in range(want):
            partner[i, o] = nearest.group[o] if o < found else -1


@inner(error_model="numpy")
def build_runs(n, a, state, values, work):
    """Collect the entries of a division into runs of equal codes of attribute ``a``; return the number of runs.

    A run has its code, its number of records, its box and its counts of sensitive values. ``before`` and ``after`` are the
    boxes of all earlier and of all later runs.
    """
    rows, cell, count = state.rows, state.cell, state.records
    entries, order, codes, run_low, run_high = work.entries, work.order, work.codes, work.run_low, work.run_high
    before_low, before_high, after_low, after_high = work.before_low, work.before_high, work.after_low, work.after_high
    m, runs = rows.shape[1], ZERO64
    for p in range(n):
        codes[p] = rows[cell[entries[p]], a]
        order[p] = p
    sort_items(order, n, codes)
    for p in range(n):
        at = order[p]
        e = entries[at]
        c = cell[e]
        if p == 0 or codes[at] != work.run_code[runs - 1]:
            work.run_code[runs], work.run_size[runs] = codes[at], 0
            for j in range(m):
                run_low[runs, j], run_high[runs, j] = LARGEST_CODE, -1
            if values is not None:
                for v in range(work.run_counts.shape[1]):
                    work.run_counts[runs, v] = 0
            runs += 1
        r = runs - 1
        work.run_size[r] += count[e]
        if values is not None:
            for s in range(values.sensitive.shape[1]):
                work.run_counts[r, values.offset[s] + values.sensitive[values.label[c], s]] += count[e]
        for j in range(m):
            x = rows[c, j]
            run_low[r, j], run_high[r, j] = min(run_low[r, j], x), max(run_high[r, j], x)
    for j in range(m):
        before_low[0, j], before_high[0, j] = LARGEST_CODE, -1
        after_low[runs, j], after_high[runs, j] = LARGEST_CODE, -1
    for r in range(runs):
        b = runs - 1 - r
        for j in range(m):
            before_low[r + 1, j] = min(before_low[r, j], run_low[r, j])
            before_high[r + 1, j] = max(before_high[r, j], run_high[r, j])
            after_low[b, j] = min(after_low[b + 1, j], run_low[b, j])
            after_high[b, j] = max(after_high[b + 1, j], run_high[b, j])
    return runs


@inner(error_model="numpy")
def start_range(scratch):
    """Set the box and the counts of a range of codes to those of no entry."""
    for j in range(scratch.low.shape[0]):
        scratch.low[j], scratch.high[j] = LARGEST_CODE, -1
    for v in range(scratch.counts.shape[0]):
        scratch.counts[v] = 0


@inner(error_model="numpy")
def extend_range(run, work, scratch):
    """Extend the box and the counts of a range of codes by a run."""
    low, high, inside = scratch.low, scratch.high, scratch.counts
    for j in range(low.shape[0]):
        low[j], high[j] = min(low[j], work.run_low[run, j]), max(high[j], work.run_high[run, j])
    for v in range(inside.shape[0]):
        inside[v] += work.run_counts[run, v]


@inner(error_model="numpy")
def both_hold(size, rest, runs, work, values, scratch):
    """Whether a range of codes and the rest of the runs meet the requirement."""
    inside, outside = scratch.counts, scratch.other_counts
    for v in range(inside.shape[0]):
        outside[v] = -inside[v]
    for r in range(runs):
        for v in range(inside.shape[0]):
            outside[v] += work.run_counts[r, v]
    return holds(size, inside, values.limits) and holds(rest, outside, values.limits)


@inner(error_model="numpy")
def find_division(n, records, limit, rules, state, losses, values, work, scratch):
    """The division of entries into a range of codes and the rest that has the least loss below ``limit`` and passes.

    Returns the loss (``limit``: none), the attribute, and the first and last code of the range. Attributes with many codes are
    cut at one code, or one code is separated from the rest.
    """
    least, low, high = rules.least, scratch.low, scratch.high
    best, chosen, first_code, last_code = limit, NONE64, ZERO64, ZERO64
    for a in range(low.shape[0]):
        runs = build_runs(n, a, state, values, work)
        if runs == 1:
            continue
        for first in range(runs):
            start_range(scratch)
            size = ZERO64
            end = runs - (1 if first == 0 else 0)
            if first > 0 and runs > RANGES:
                end = first + 1
            if first > 0:
                end = min(end, runs - 1)  # a range up to the last code is the complement of one from the first code
            for last in range(first, end):
                size += work.run_size[last]
                extend_range(last, work, scratch)
                rest = records - size
                if rest < least:
                    break
                if size < least:
                    continue
                loss = size * union_loss(low, high, low, high, best / size, losses)
                if loss >= best:
                    break  # the loss only grows with the range
                loss += rest * union_loss(
                    work.before_low[first],
                    work.before_high[first],
                    work.after_low[last + 1],
                    work.after_high[last + 1],
                    (best - loss) / rest,
                    losses,
                )
                if loss >= best:
                    continue
                if values is not None:
                    if not both_hold(size, rest, runs, work, values, scratch):
                        continue
                best, chosen, first_code, last_code = loss, a, work.run_code[first], work.run_code[last]
    return best, chosen, first_code, last_code


@inner(error_model="numpy")
def list_entries(g, n, state, work):
    """Append the entries of a group to those of a division; return their number."""
    entries, following = work.entries, state.following
    e = np.int64(state.head[g])
    while e >= 0:
        entries[n] = e
        n += 1
        e = np.int64(following[e])
    return n


@entry(error_model="numpy")
def propose_divisions(pairs, rules, state, losses, values, work, scratch, gain, cut):
    """For every given group, or pair of groups: the best division of its entries, and the gain (0: none).

    ``pairs`` has two columns, -1: no second group. A row of ``cut`` is the attribute, and the first and last code of one half.
    """
    for i in range(pairs.shape[0]):
        g, t = np.int64(pairs[i, 0]), np.int64(pairs[i, 1])
        gain[i] = 0.0
        n, records, loss = list_entries(g, ZERO64, state, work), state.size[g], state.size[g] * state.total[g]
        if t >= 0:
            n = list_entries(t, n, state, work)
            records += state.size[t]
            loss += state.size[t] * state.total[t]
        if loss <= 0.0 or records < 2 * rules.least:
            continue
        limit = loss - LEAST_GAIN * records
        best, a, first, last = find_division(n, records, limit, rules, state, losses, values, work, scratch)
        if best < limit:
            gain[i] = loss - best
            cut[i, 0], cut[i, 1], cut[i, 2] = a, first, last


@inner(error_model="numpy")
def move_entries(e, g, a, first, last, inside, state, values):
    """Move the entries of a list, from ``e`` on, that are in a range of codes, or those that are not, to group ``g``."""
    rows, cell = state.rows, state.cell
    while e >= 0:
        following = np.int64(state.following[e])
        if (first <= rows[cell[e], a] <= last) == inside:
            unlink(e, state, values)
            link(e, g, state, values)
        e = following


@entry(error_model="numpy")
def apply_divisions(order, pairs, cut, since, rules, free, state, losses, values, gain):
    """Apply divisions in the given order, each if its groups have not changed since ``since``; return the gain.

    A single group keeps the rest, and the entries in the range become one of the ``free`` groups. Of a pair, the second group
    gets the entries in the range.
    """
    rows = state.rows
    total, next_free = 0.0, 0
    for p in range(order.shape[0]):
        i = order[p]
        g, t = np.int64(pairs[i, 0]), np.int64(pairs[i, 1])
        if state.changed[g] > since or (t >= 0 and state.changed[t] > since):
            state.refused[g] = state.used[CLOCK] + 1
            continue
        a, first, last = cut[i, 0], cut[i, 1], cut[i, 2]
        if t < 0:
            if next_free == free.shape[0]:
                continue
            t = np.int64(free[next_free])
            next_free += 1
        elif state.size[g] + state.size[t] > rules.most:  # both halves must be small enough
            size = ZERO64
            for half in range(2):
                e = np.int64(state.head[g if half == 0 else t])
                while e >= 0:
                    if first <= rows[state.cell[e], a] <= last:
                        size += state.records[e]
                    e = np.int64(state.following[e])
            if max(size, state.size[g] + state.size[t] - size) > rules.most:
                continue
        other = np.int64(state.head[t])
        move_entries(np.int64(state.head[g]), t, a, first, last, True, state, values)
        move_entries(other, g, a, first, last, False, state, values)
        recompute_group(g, state, losses)
        recompute_group(t, state, losses)
        stamp(g, state)
        stamp(t, state)
        total += gain[i]
    return total


@inner(error_model="numpy")
def sum_run_costs(n, work):
    """Write the sum of the costs of the entries of every run."""
    run_cost = work.run_cost
    r = NONE64
    for p in range(n):
        at = work.order[p]
        if r < 0 or work.codes[at] != work.run_code[r]:
            r += 1
            run_cost[r] = 0.0
        run_cost[r] += work.cost[at]


@inner(error_model="numpy")
def find_ejection(n, limit, spent, rules, state, losses, values, work, scratch):
    """The range of codes that a group should keep, so that its loss and the cost of the other entries are least.

    ``work.cost`` is the cost of every entry in another group, ``spent`` their sum. Returns the loss (``limit``: none), the
    attribute, and the first and last code that are kept. Attributes with many codes lose codes at one end.
    """
    low, high = scratch.low, scratch.high
    best, chosen, first_code, last_code = limit, NONE64, ZERO64, ZERO64
    for a in range(low.shape[0]):
        runs = build_runs(n, a, state, values, work)
        if runs == 1:
            continue
        sum_run_costs(n, work)
        for first in range(runs):
            start_range(scratch)
            size, left = ZERO64, spent
            for last in range(first, runs):
                size += work.run_size[last]
                left -= work.run_cost[last]
                extend_range(last, work, scratch)
                if size < rules.least or (first == 0 and last == runs - 1):
                    continue
                if runs > RANGES and first > 0 and last < runs - 1:
                    continue
                if not left < best:
                    continue
                loss = left + size * union_loss(low, high, low, high, (best - left) / size, losses)
                if loss < best:
                    if values is not None:
                        if not holds(size, scratch.counts, values.limits):
                            continue
                    best, chosen, first_code, last_code = loss, a, work.run_code[first], work.run_code[last]
    return best, chosen, first_code, last_code


@entry(error_model="numpy")
def propose_ejections(groups, rules, state, tree, losses, values, work, scratch, target, gain, cut):
    """For every given group: the entries that should leave it, each for the cheapest other group, and the gain (0: none).

    ``target`` is the other group of every entry. A row of ``cut`` is an attribute, and the first and last code of the entries
    that stay; attribute -1: all leave, and the group is dissolved.
    """
    entries, costs = work.entries, work.cost
    for i in range(groups.shape[0]):
        g = np.int64(groups[i])
        gain[i] = 0.0
        n, loss = list_entries(g, ZERO64, state, work), state.size[g] * state.total[g]
        spent = 0.0
        for p in range(n):
            e = entries[p]
            most = min(loss, MOST_COST * state.records[e] * state.total[g])
            t, cost = find_passing_group(
                state.cell[e], state.records[e], g, most, rules, tree, losses, state, values, scratch
            )
            target[e] = t
            if t < 0:
                cost = 2.0 * loss  # more than any gain
            costs[p] = cost
            spent += cost
        limit = loss - LEAST_GAIN * state.size[g]
        if spent < limit and state.size[g] <= rules.most:
            gain[i], cut[i, 0], limit = loss - spent, -1, spent
        if state.size[g] <= rules.least:
            continue
        best, a, first, last = find_ejection(n, limit, spent, rules, state, losses, values, work, scratch)
        if best < limit:
            gain[i] = loss - best
            cut[i, 0], cut[i, 1], cut[i, 2] = a, first, last


@entry(error_model="numpy")
def apply_ejections(order, groups, cut, rules, state, losses, values, counts, target, moved, stamps):
    """Let entries leave their groups, in the given order of groups, if that still lowers the loss and all groups pass.

    Returns the gain. ``counts`` is a work array for sensitive values, ``moved`` and ``stamps`` have room for all entries.
    """
    rows = state.rows
    gain = 0.0
    for p in range(order.shape[0]):
        i = order[p]
        g = np.int64(groups[i])
        a, first, last = cut[i, 0], cut[i, 1], cut[i, 2]
        before, spent, sent = state.size[g] * (state.total[g] - LEAST_GAIN), 0.0, 0
        e = np.int64(state.head[g])
        while e >= 0:
            following = np.int64(state.following[e])
            t, count, c = target[e], state.records[e], state.cell[e]
            if a < 0 or not first <= rows[c, a] <= last:
                if t < 0 or t == g or state.size[t] == 0 or state.size[t] + count > rules.most:
                    break
                spent += join_cost(t, c, count, state, losses)
                if spent >= before or not holds_after(t, NO_CELL, ZERO64, c, count, rules, state, values, counts):
                    break
                moved[sent], stamps[sent] = e, state.changed[t]
                sent += 1
                unlink(e, state, values)
                attach(e, t, state, values, losses)
            e = following
        if e < 0 and sent > 0:
            recompute_group(g, state, losses)
            after = spent + state.size[g] * state.total[g]
            passes = state.size[g] == 0 or holds_after(
                g, NO_CELL, ZERO64, NO_CELL, ZERO64, rules, state, values, counts
            )
            if after < before and passes:
                stamp(g, state)
                gain += before - after
                continue
        for q in range(sent - 1, -1, -1):  # undo
            e = moved[q]
            t = np.int64(state.group[e])
            unlink(e, state, values)
            recompute_group(t, state, losses)
            state.changed[t] = stamps[q]
            link(e, g, state, values)
        recompute_group(g, state, losses)
        state.refused[g] = state.used[CLOCK] + 1
    return gain
