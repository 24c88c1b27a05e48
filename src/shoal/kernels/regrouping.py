"""The moves of a local search that change whole groups: divide groups, divide pairs in another way, let entries leave.

A division separates the entries with a range of codes of one attribute from the rest. An ejection lets all entries outside a
range of codes leave their group, each for the cheapest other group; if all leave, the group is dissolved. See `local_search`
for the state and for the two phases of every move.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.group_tree import allocate_nearest, find_cheapest_groups
from shoal.kernels.interface import LARGEST_CODE, LEAST_GAIN, ZERO64
from shoal.kernels.limits import holds
from shoal.kernels.local_search import (
    CLOCK,
    FEW,
    MANY,
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


class Division(NamedTuple):
    """Work arrays for the division of a group: by entry and by run of equal codes."""

    entries: NDArray[Any]
    codes: NDArray[Any]
    order: NDArray[Any]
    run_code: NDArray[Any]
    run_size: NDArray[Any]
    run_low: NDArray[Any]
    run_high: NDArray[Any]
    before_low: NDArray[Any]
    before_high: NDArray[Any]
    after_low: NDArray[Any]
    after_high: NDArray[Any]
    run_counts: NDArray[Any]


@entry(error_model="numpy")
def find_partners(groups, state, tree, losses, rules, partner):
    """For every given group: the groups with the least increase of loss when merged with it, cheapest first (-1: none)."""
    want = partner.shape[1]
    nearest = allocate_nearest(tree.child.shape[0], want)
    for i in range(groups.shape[0]):
        g = np.int64(groups[i])
        found = find_cheapest_groups(
            state.low[g],
            state.high[g],
            state.loss[g],
            state.size[g],
            g,
            np.inf,
            ZERO64,
            want,
            NO_LIMIT,
            tree,
            losses,
            nearest,
        )
        for o in range(want):
            partner[i, o] = nearest.group[o] if o < found else -1


@inner(error_model="numpy")
def allocate_division(n, m, width):
    """Allocate the work arrays for groups of up to ``n`` entries."""
    return Division(
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n + 1, np.int64),
        np.empty(n + 1, np.int64),
        np.empty((n + 1, m), np.int32),
        np.empty((n + 1, m), np.int32),
        np.empty((n + 1, m), np.int32),
        np.empty((n + 1, m), np.int32),
        np.empty((n + 1, m), np.int32),
        np.empty((n + 1, m), np.int32),
        np.empty((n + 1, width), np.int64),
    )


@inner(error_model="numpy")
def sort_by_code(n, a, rows, state, work):
    """Sort the entries of a division by the code of attribute ``a``."""
    for p in range(n):
        work.codes[p] = rows[state.cell[work.entries[p]], a]
        work.order[p] = p
    sort_items(work.order, n, work.codes)


@inner(error_model="numpy")
def build_runs(n, a, rows, state, values, work):
    """Collect the entries of a division into runs of equal codes of attribute ``a``; return the number of runs.

    A run has its code, its number of records, its box and its counts of sensitive values. ``before`` and ``after`` are the
    boxes of all earlier and of all later runs.
    """
    m, runs, count = rows.shape[1], 0, state.records
    sort_by_code(n, a, rows, state, work)
    for p in range(n):
        at = work.order[p]
        if p == 0 or work.codes[at] != work.run_code[runs - 1]:
            work.run_code[runs], work.run_size[runs] = work.codes[at], 0
            work.run_low[runs], work.run_high[runs] = LARGEST_CODE, -1
            work.run_counts[runs] = 0
            runs += 1
        r, e = runs - 1, work.entries[at]
        c = state.cell[e]
        work.run_size[r] += count[e]
        for s in range(values.sensitive.shape[1]):
            work.run_counts[r, values.offset[s] + values.sensitive[values.label[c], s]] += count[e]
        for j in range(m):
            x = rows[c, j]
            work.run_low[r, j], work.run_high[r, j] = min(work.run_low[r, j], x), max(work.run_high[r, j], x)
    work.before_low[0], work.before_high[0] = LARGEST_CODE, -1
    work.after_low[runs], work.after_high[runs] = LARGEST_CODE, -1
    for r in range(runs):
        b = runs - 1 - r
        for j in range(m):
            work.before_low[r + 1, j] = min(work.before_low[r, j], work.run_low[r, j])
            work.before_high[r + 1, j] = max(work.before_high[r, j], work.run_high[r, j])
            work.after_low[b, j] = min(work.after_low[b + 1, j], work.run_low[b, j])
            work.after_high[b, j] = max(work.after_high[b + 1, j], work.run_high[b, j])
    return runs


@inner(error_model="numpy")
def find_division(n, records, limit, rules, rows, state, losses, values, work, inside, outside):
    """The division of entries into a range of codes and the rest that has the least loss below ``limit`` and passes.

    Returns the loss (``limit``: none), the attribute, and the first and last code of the range. Attributes with many codes are
    cut at one code, or one code is separated from the rest.
    """
    m, least, limits = rows.shape[1], rules.least, values.limits
    best, chosen, first_code, last_code = limit, -1, 0, 0
    low, high = np.empty(m, np.int32), np.empty(m, np.int32)
    for a in range(m):
        runs = build_runs(n, a, rows, state, values, work)
        if runs == 1:
            continue
        for first in range(runs):
            low[:], high[:] = LARGEST_CODE, -1
            inside[:] = 0
            size = 0
            end = runs - (1 if first == 0 else 0)
            if first > 0 and runs > RANGES:
                end = first + 1
            if first > 0:
                end = min(end, runs - 1)  # a range up to the last code is the complement of one from the first code
            for last in range(first, end):
                size += work.run_size[last]
                for j in range(m):
                    low[j], high[j] = min(low[j], work.run_low[last, j]), max(high[j], work.run_high[last, j])
                for v in range(inside.shape[0]):
                    inside[v] += work.run_counts[last, v]
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
                if inside.shape[0] > 0:
                    for v in range(inside.shape[0]):
                        outside[v] = -inside[v]
                    for r in range(runs):
                        for v in range(inside.shape[0]):
                            outside[v] += work.run_counts[r, v]
                if holds(size, inside, limits) and holds(rest, outside, limits):
                    best, chosen, first_code, last_code = loss, a, work.run_code[first], work.run_code[last]
    return best, chosen, first_code, last_code


@inner(error_model="numpy")
def list_entries(g, n, state, work):
    """Append the entries of a group to those of a division; return their number."""
    e = np.int64(state.head[g])
    while e >= 0:
        work.entries[n] = e
        n += 1
        e = state.following[e]
    return n


@inner(error_model="numpy")
def count_entries(group, state):
    """The number of entries of a group (-1: none)."""
    n = 0
    e = state.head[group] if group >= 0 else -1
    while e >= 0:
        n += 1
        e = state.following[e]
    return n


@entry(error_model="numpy")
def propose_divisions(pairs, rules, rows, state, losses, values, gain, cut):
    """For every given group, or pair of groups: the best division of its entries, and the gain (0: none).

    ``pairs`` has two columns, -1: no second group. A row of ``cut`` is the attribute, and the first and last code of one half.
    """
    m, width = rows.shape[1], values.offset[-1]
    longest = ZERO64
    for i in range(pairs.shape[0]):
        g, t = np.int64(pairs[i, 0]), np.int64(pairs[i, 1])
        longest = max(longest, count_entries(g, state) + count_entries(t, state))
    work = allocate_division(longest, m, width)
    inside, outside = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for i in range(pairs.shape[0]):
        g, t = np.int64(pairs[i, 0]), np.int64(pairs[i, 1])
        gain[i] = 0.0
        n, records, loss = list_entries(g, ZERO64, state, work), state.size[g], state.size[g] * state.total[g]
        if t >= 0:
            n, records, loss = (
                list_entries(t, n, state, work),
                records + state.size[t],
                loss + state.size[t] * state.total[t],
            )
        if loss <= 0.0 or records < 2 * rules.least:
            continue
        limit = loss - LEAST_GAIN * records
        best, a, first, last = find_division(
            n, records, limit, rules, rows, state, losses, values, work, inside, outside
        )
        if best < limit:
            gain[i] = loss - best
            cut[i, 0], cut[i, 1], cut[i, 2] = a, first, last


@entry(error_model="numpy")
def apply_divisions(order, pairs, cut, since, rules, free, rows, state, losses, values, gain):
    """Apply divisions in the given order, each if its groups have not changed since ``since``; return the gain.

    A single group keeps the rest, and the entries in the range become one of the ``free`` groups. Of a pair, the second group
    gets the entries in the range.
    """
    total, next_free = 0.0, 0
    for i in order:
        g, t = np.int64(pairs[i, 0]), np.int64(pairs[i, 1])
        if state.changed[g] > since or (t >= 0 and state.changed[t] > since):
            state.refused[g] = state.used[CLOCK] + 1
            continue
        a, first, last = cut[i]
        if t < 0:
            if next_free == free.shape[0]:
                continue
            t = np.int64(free[next_free])
            next_free += 1
        elif state.size[g] + state.size[t] > rules.most:  # both halves must be small enough
            size = 0
            for half in (g, t):
                e = np.int64(state.head[half])
                while e >= 0:
                    if first <= rows[state.cell[e], a] <= last:
                        size += state.records[e]
                    e = state.following[e]
            if max(size, state.size[g] + state.size[t] - size) > rules.most:
                continue
        e, other = np.int64(state.head[g]), np.int64(state.head[t])
        while e >= 0:
            following = state.following[e]
            if first <= rows[state.cell[e], a] <= last:
                unlink(e, state, values)
                link(e, t, state, values)
            e = following
        e = other
        while e >= 0:
            following = state.following[e]
            if not first <= rows[state.cell[e], a] <= last:
                unlink(e, state, values)
                link(e, g, state, values)
            e = following
        recompute_group(g, rows, state, losses)
        recompute_group(t, rows, state, losses)
        stamp(g, state)
        stamp(t, state)
        total += gain[i]
    return total


@inner(error_model="numpy")
def sum_run_costs(n, cost, work, run_cost):
    """Write the sum of the costs of the entries of every run."""
    r = -1
    for p in range(n):
        at = work.order[p]
        if r < 0 or work.codes[at] != work.run_code[r]:
            r += 1
            run_cost[r] = 0.0
        run_cost[r] += cost[at]


@inner(error_model="numpy")
def find_ejection(n, records, limit, spent, cost, run_cost, rules, rows, state, losses, values, work, inside):
    """The range of codes that a group should keep, so that its loss and the cost of the other entries are least.

    ``cost`` is the cost of every entry in another group, ``spent`` their sum. Returns the loss (``limit``: none), the
    attribute, and the first and last code that are kept. Attributes with many codes lose codes at one end.
    """
    m = rows.shape[1]
    best, chosen, first_code, last_code = limit, -1, 0, 0
    low, high = np.empty(m, np.int32), np.empty(m, np.int32)
    for a in range(m):
        runs = build_runs(n, a, rows, state, values, work)
        if runs == 1:
            continue
        sum_run_costs(n, cost, work, run_cost)
        for first in range(runs):
            low[:], high[:] = LARGEST_CODE, -1
            inside[:] = 0
            size, left = 0, spent
            for last in range(first, runs):
                size += work.run_size[last]
                left -= run_cost[last]
                for j in range(m):
                    low[j], high[j] = min(low[j], work.run_low[last, j]), max(high[j], work.run_high[last, j])
                for v in range(inside.shape[0]):
                    inside[v] += work.run_counts[last, v]
                if size < rules.least or (first == 0 and last == runs - 1):
                    continue
                if runs > RANGES and first > 0 and last < runs - 1:
                    continue
                if not left < best:
                    continue
                loss = left + size * union_loss(low, high, low, high, (best - left) / size, losses)
                if loss < best and holds(size, inside, values.limits):
                    best, chosen, first_code, last_code = loss, a, work.run_code[first], work.run_code[last]
    return best, chosen, first_code, last_code


@entry(error_model="numpy")
def propose_ejections(groups, rules, rows, state, tree, losses, values, target, gain, cut):
    """For every given group: the entries that should leave it, each for the cheapest other group, and the gain (0: none).

    ``target`` is the other group of every entry. A row of ``cut`` is an attribute, and the first and last code of the entries
    that stay; attribute -1: all leave, and the group is dissolved.
    """
    m, width = rows.shape[1], values.offset[-1]
    counts, point_loss = np.zeros(width, np.int64), np.zeros(m)
    few, many = allocate_nearest(tree.child.shape[0], FEW), allocate_nearest(tree.child.shape[0], MANY)
    longest = ZERO64
    for g in groups:
        longest = max(longest, count_entries(np.int64(g), state))
    work = allocate_division(longest, m, width)
    cost, run_cost = np.empty(longest), np.empty(longest)
    for i in range(groups.shape[0]):
        g = np.int64(groups[i])
        gain[i] = 0.0
        n, loss = list_entries(g, ZERO64, state, work), state.size[g] * state.total[g]
        spent = 0.0
        for p in range(n):
            e = work.entries[p]
            t, cost[p] = find_passing_group(
                state.cell[e],
                rows[state.cell[e]],
                state.records[e],
                g,
                min(loss, MOST_COST * state.records[e] * state.total[g]),
                rules,
                tree,
                losses,
                state,
                values,
                counts,
                point_loss,
                few,
                many,
            )
            target[e] = t
            if t < 0:
                cost[p] = 2.0 * loss  # more than any gain
            spent += cost[p]
        limit = loss - LEAST_GAIN * state.size[g]
        if spent < limit and state.size[g] <= rules.most:
            gain[i], cut[i, 0], limit = loss - spent, -1, spent
        if state.size[g] <= rules.least:
            continue
        best, a, first, last = find_ejection(
            n, state.size[g], limit, spent, cost, run_cost, rules, rows, state, losses, values, work, counts
        )
        if best < limit:
            gain[i] = loss - best
            cut[i, 0], cut[i, 1], cut[i, 2] = a, first, last


@entry(error_model="numpy")
def apply_ejections(order, groups, cut, rules, rows, state, losses, values, target):
    """Let entries leave their groups, in the given order of groups, if that still lowers the loss and all groups pass.

    Returns the gain.
    """
    counts = np.zeros(values.offset[-1], np.int64)
    gain = 0.0
    for i in order:
        g = np.int64(groups[i])
        n = count_entries(g, state)
        moved, stamps = np.empty(n, np.int64), np.empty(n, np.int64)
        a, first, last = cut[i]
        before, spent, sent = state.size[g] * (state.total[g] - LEAST_GAIN), 0.0, 0
        e = np.int64(state.head[g])
        while e >= 0:
            following = state.following[e]
            t, count, c = target[e], state.records[e], state.cell[e]
            if a < 0 or not first <= rows[c, a] <= last:
                if t < 0 or t == g or state.size[t] == 0 or state.size[t] + count > rules.most:
                    break
                spent += join_cost(t, rows[c], count, state, losses)
                if spent >= before or not holds_after(t, NO_CELL, ZERO64, c, count, state, values, counts):
                    break
                moved[sent], stamps[sent] = e, state.changed[t]
                sent += 1
                unlink(e, state, values)
                attach(e, t, rows, state, values, losses)
            e = following
        if e < 0 and sent > 0:
            recompute_group(g, rows, state, losses)
            after = spent + state.size[g] * state.total[g]
            passes = state.size[g] == 0 or holds_after(g, NO_CELL, ZERO64, NO_CELL, ZERO64, state, values, counts)
            if after < before and passes:
                stamp(g, state)
                gain += before - after
                continue
        for p in range(sent - 1, -1, -1):  # undo
            e = moved[p]
            t = np.int64(state.group[e])
            unlink(e, state, values)
            recompute_group(t, rows, state, losses)
            state.changed[t] = stamps[p]
            link(e, g, state, values)
        recompute_group(g, rows, state, losses)
        state.refused[g] = state.used[CLOCK] + 1
    return gain
