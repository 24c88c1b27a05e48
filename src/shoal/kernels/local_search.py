"""A local search that lowers the information loss of groups: dissolve, move, swap and split while the requirement holds.

For every group and attribute the search keeps the two smallest and the two largest codes, so that the box without one record,
or with one more, is known at once. The increase of a group's loss by one more record is a sum of non-negative terms over the
attributes. The sum stops at the first attribute that makes it too large; attributes that separate the groups best come first.
A record without a better group is compared again only with groups that changed since, unless its own group changed.

D is the weighted loss of a group's box, summed over the attributes. ``clock`` counts the changes of groups.
``values`` are `interface.SensitiveLabels`. Small functions in inner loops take single arrays: every array of a tuple is passed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shoal.kernels.boxes import weighted_loss
from shoal.kernels.interface import HEAD, LARGEST_CODE, LEAST_GAIN, SIZE, LossArrays
from shoal.kernels.limits import holds

CANDIDATES = 6  # groups considered for a swap with a record
TABULATED = 256  # attributes with up to this many codes have a table of the losses of all intervals
SAMPLE = 64  # records that determine the order of the attributes


class Model(NamedTuple):
    """The constants of a search.

    The codes of every cell and the cell of every record; the losses of all intervals of attributes with few codes, and where
    each attribute's losses begin; the loss tables; the order in which attributes are compared.
    """

    rows: NDArray[Any]
    cell: NDArray[Any]
    pairs: NDArray[Any]
    begin: NDArray[Any]
    loss_tables: LossArrays
    attribute_order: NDArray[Any]


class State(NamedTuple):
    """The group of every record; linked lists of records: first of a group, next, previous; the size of every group.

    By [attribute, group]: the two smallest and the two largest codes, and the loss. By group: the time of its last change.
    """

    group: NDArray[Any]
    head: NDArray[Any]
    following: NDArray[Any]
    previous: NDArray[Any]
    size: NDArray[Any]
    low: NDArray[Any]
    next_low: NDArray[Any]
    high: NDArray[Any]
    next_high: NDArray[Any]
    loss: NDArray[Any]
    changed: NDArray[Any]


@njit(cache=True, nogil=True)
def tabulate_losses(m, loss_tables):
    """The loss of every interval of the attributes with few codes, and the start of each attribute (-1: no table)."""
    ints = loss_tables.ints
    begin = np.full(m, -1, np.int64)
    length = 0
    for j in range(m):
        if ints[HEAD * j + SIZE] <= TABULATED:
            begin[j] = length
            length += np.int64(ints[HEAD * j + SIZE]) ** 2
    pairs = np.empty(length)
    for j in range(m):
        if begin[j] >= 0:
            n = np.int64(ints[HEAD * j + SIZE])
            for lo in range(n):
                for hi in range(lo, n):
                    pairs[begin[j] + lo * n + hi] = weighted_loss(j, lo, hi, loss_tables)
    return pairs, begin


@njit(cache=True, nogil=True, forceinline=True)
def interval_cost(j, lo, hi, pairs, begin, loss_tables):
    """The weighted loss of an interval."""
    if begin[j] >= 0:
        return pairs[begin[j] + np.int64(lo) * loss_tables.ints[HEAD * j + SIZE] + hi]
    return weighted_loss(j, lo, hi, loss_tables)


@njit(cache=True, nogil=True)
def extend_ends(g, x, j, low, next_low, high, next_high):
    """Update the smallest and largest codes of a group by one more code of attribute ``j``."""
    if x < low[j, g]:
        next_low[j, g], low[j, g] = low[j, g], x
    elif x < next_low[j, g]:
        next_low[j, g] = x
    if x > high[j, g]:
        next_high[j, g], high[j, g] = high[j, g], x
    elif x > next_high[j, g]:
        next_high[j, g] = x


@njit(cache=True, nogil=True)
def recompute_group(g, model, state, clock):
    """Recompute the ends and the loss of a group from its records."""
    rows, cell, pairs, begin = model.rows, model.cell, model.pairs, model.begin
    loss_tables = model.loss_tables
    head, following, loss, changed = state.head, state.following, state.loss, state.changed
    low, next_low, high, next_high = state.low, state.next_low, state.high, state.next_high
    clock[0] += 1
    changed[g] = clock[0]
    for j in range(rows.shape[1]):
        low[j, g] = next_low[j, g] = LARGEST_CODE
        high[j, g] = next_high[j, g] = -1
    i = head[g]
    while i >= 0:
        for j in range(rows.shape[1]):
            extend_ends(g, rows[cell[i], j], j, low, next_low, high, next_high)
        i = following[i]
    for j in range(rows.shape[1]):
        loss[j, g] = interval_cost(j, low[j, g], high[j, g], pairs, begin, loss_tables) if head[g] >= 0 else 0.0


@njit(cache=True, nogil=True)
def link(i, g, state):
    """Insert a record into the list of a group."""
    group, head, following, previous, size = state.group, state.head, state.following, state.previous, state.size
    group[i] = g
    following[i], previous[i] = head[g], -1
    if head[g] >= 0:
        previous[head[g]] = i
    head[g] = i
    size[g] += 1


@njit(cache=True, nogil=True)
def unlink(i, state):
    """Remove a record from the list of its group."""
    group, head, following, previous, size = state.group, state.head, state.following, state.previous, state.size
    g = group[i]
    if previous[i] >= 0:
        following[previous[i]] = following[i]
    else:
        head[g] = following[i]
    if following[i] >= 0:
        previous[following[i]] = previous[i]
    size[g] -= 1


@njit(cache=True, nogil=True)
def add_record(i, g, model, state, clock):
    """Add a record to a group and update the group's ends and loss."""
    rows, cell, pairs, begin = model.rows, model.cell, model.pairs, model.begin
    loss_tables = model.loss_tables
    loss, changed = state.loss, state.changed
    low, next_low, high, next_high = state.low, state.next_low, state.high, state.next_high
    link(i, g, state)
    clock[0] += 1
    changed[g] = clock[0]
    for j in range(rows.shape[1]):
        extend_ends(g, rows[cell[i], j], j, low, next_low, high, next_high)
        loss[j, g] = interval_cost(j, low[j, g], high[j, g], pairs, begin, loss_tables)


@njit(cache=True, nogil=True)
def group_loss(g, loss):
    """D of a group."""
    total = 0.0
    for j in range(loss.shape[0]):
        total += loss[j, g]
    return total


@njit(cache=True, nogil=True)
def loss_after_exchange(g, removed, added, limit, model, state):
    """D of a group without record ``removed`` and with record ``added`` (-1: none); infinity if it is ``limit`` or more."""
    rows, cell, pairs, begin = model.rows, model.cell, model.pairs, model.begin
    loss_tables, attribute_order = model.loss_tables, model.attribute_order
    low, next_low, high, next_high, loss = state.low, state.next_low, state.high, state.next_high, state.loss
    total = 0.0
    for t in range(rows.shape[1]):
        j = attribute_order[t]
        y, lo, hi = rows[cell[removed], j], low[j, g], high[j, g]
        x = rows[cell[added], j] if added >= 0 else y
        if lo < y < hi and lo <= x <= hi:
            total += loss[j, g]
        else:
            lo, hi = next_low[j, g] if y == lo else lo, next_high[j, g] if y == hi else hi
            if added >= 0:
                lo, hi = min(lo, x), max(hi, x)
            total += interval_cost(j, lo, hi, pairs, begin, loss_tables) if lo < hi else 0.0
        if total >= limit:
            return np.inf
    return total


@njit(cache=True, nogil=True)
def insertion_cost(g, i, more, limit, model, state):
    """The increase (size + more) x D with the record - size x D without it; infinity if it is ``limit`` or more."""
    rows, cell, pairs, begin = model.rows, model.cell, model.pairs, model.begin
    loss_tables, attribute_order = model.loss_tables, model.attribute_order
    size, low, high, loss = state.size, state.low, state.high, state.loss
    increase = 0.0
    for t in range(rows.shape[1]):
        j = attribute_order[t]
        x, lo, hi = rows[cell[i], j], low[j, g], high[j, g]
        if lo <= x <= hi:
            increase += more * loss[j, g]
        else:
            with_it = interval_cost(j, min(lo, x), max(hi, x), pairs, begin, loss_tables)
            increase += (size[g] + more) * with_it - size[g] * loss[j, g]
        if increase >= limit:
            return np.inf
    return increase


@njit(cache=True, nogil=True)
def holds_after_exchange(g, removed, added, model, state, values, histogram):
    """Whether a group meets the requirement without record ``removed`` and with record ``added`` (-1: none)."""
    label, sensitive, offset = values.label, values.sensitive, values.offset
    cell, head, following = model.cell, state.head, state.following
    if histogram.shape[0] > 0:
        histogram[:] = 0
        i = head[g]
        while i >= 0:
            for s in range(sensitive.shape[1]):
                histogram[offset[s] + sensitive[label[cell[i]], s]] += i != removed
            i = following[i]
        if added >= 0:
            for s in range(sensitive.shape[1]):
                histogram[offset[s] + sensitive[label[cell[added]], s]] += 1
    return holds(state.size[g] - (removed >= 0) + (added >= 0), histogram, values.limits)


@njit(cache=True, nogil=True)
def find_cheapest_group(i, after, limit, groups, most, model, state, values, histogram):
    """The other group with the least increase, below ``limit``, that still passes with the record; -1 if there is none.

    Only groups that changed later than ``after`` are considered.
    """
    rows, cell, pairs, begin = model.rows, model.cell, model.pairs, model.begin
    loss_tables, attribute_order = model.loss_tables, model.attribute_order
    group, size, low, high, loss, changed = state.group, state.size, state.low, state.high, state.loss, state.changed
    found, first = -1, attribute_order[0]
    x = rows[cell[i], first]
    for g in range(groups):
        if changed[g] <= after or size[g] >= most or size[g] == 0 or g == group[i]:
            continue
        lo, hi = low[first, g], high[first, g]
        if x < lo or x > hi:
            with_it = interval_cost(first, min(lo, x), max(hi, x), pairs, begin, loss_tables)
            if (size[g] + 1) * with_it - size[g] * loss[first, g] >= limit:
                continue
        increase = insertion_cost(g, i, 1, limit, model, state)
        if increase < limit and (
            histogram.shape[0] == 0 or holds_after_exchange(g, -1, i, model, state, values, histogram)
        ):
            limit, found = increase, g
    return found, limit


@njit(cache=True, nogil=True)
def dissolve(g, groups, most, model, state, values, histogram, moved_records, stamps, clock):
    """Move all records of a group to other groups, each to the cheapest, if that costs less than the group's loss."""
    head, following, size, loss = state.head, state.following, state.size, state.loss
    loss_before = size[g] * group_loss(g, loss)
    records = size[g]
    spent, sent, i = 0.0, 0, head[g]
    while i >= 0:
        following_record = following[i]
        t, increase = find_cheapest_group(i, -1, loss_before - spent, groups, most, model, state, values, histogram)
        if t < 0 or spent + increase >= loss_before - LEAST_GAIN * records:
            break
        spent += increase
        moved_records[sent], stamps[sent] = i, state.changed[t]
        sent += 1
        unlink(i, state)
        add_record(i, t, model, state, clock)
        i = following_record
    if size[g] == 0:
        return loss_before - spent
    for p in range(sent - 1, -1, -1):  # undo
        i = moved_records[p]
        t = state.group[i]
        unlink(i, state)
        recompute_group(t, model, state, clock)
        state.changed[t] = stamps[p]
        link(i, g, state)
    return 0.0


@njit(cache=True, nogil=True)
def move(i, after, groups, most, model, state, values, histogram, clock):
    """Move a record to the cheapest group, if its own group still passes without it."""
    g, size = state.group[i], state.size
    if size[g] < 2:
        return 0.0
    decrease = size[g] * group_loss(g, state.loss) - (size[g] - 1) * loss_after_exchange(g, i, -1, np.inf, model, state)
    if decrease <= LEAST_GAIN or not holds_after_exchange(g, i, -1, model, state, values, histogram):
        return 0.0
    t, increase = find_cheapest_group(i, after, decrease - LEAST_GAIN, groups, most, model, state, values, histogram)
    if t < 0:
        return 0.0
    unlink(i, state)
    recompute_group(g, model, state, clock)
    add_record(i, t, model, state, clock)
    return decrease - increase


@njit(cache=True, nogil=True)
def find_swap_groups(i, after, limit, groups, model, state, candidates, increases):
    """List the groups with the least increase for receiving the record in a swap, cheapest first; return their number."""
    rows, cell, pairs, begin = model.rows, model.cell, model.pairs, model.begin
    loss_tables, attribute_order = model.loss_tables, model.attribute_order
    group, size, low, high, loss, changed = state.group, state.size, state.low, state.high, state.loss, state.changed
    found, first = 0, attribute_order[0]
    x = rows[cell[i], first]
    for g in range(groups):
        if changed[g] <= after or size[g] == 0 or g == group[i]:
            continue
        threshold = increases[CANDIDATES - 1] if found == CANDIDATES else limit
        lo, hi = low[first, g], high[first, g]
        if x < lo or x > hi:
            with_it = interval_cost(first, min(lo, x), max(hi, x), pairs, begin, loss_tables)
            if size[g] * (with_it - loss[first, g]) >= threshold:
                continue
        increase = insertion_cost(g, i, 0, threshold, model, state)
        if increase < threshold:
            at = min(found, CANDIDATES - 1)
            while at > 0 and increases[at - 1] > increase:
                increases[at], candidates[at] = increases[at - 1], candidates[at - 1]
                at -= 1
            increases[at], candidates[at] = increase, g
            found = min(found + 1, CANDIDATES)
    return found


@njit(cache=True, nogil=True)
def swap(i, after, groups, model, state, values, histogram, candidates, increases, clock):
    """Swap a record with the best record of a candidate group, if the loss of both groups together falls."""
    cell, head, following, size, loss = model.cell, state.head, state.following, state.size, state.loss
    g = state.group[i]
    own_loss = group_loss(g, loss)
    decrease = size[g] * (own_loss - loss_after_exchange(g, i, -1, np.inf, model, state))
    if decrease <= LEAST_GAIN or size[g] < 2:
        return 0.0
    best, partner = LEAST_GAIN, -1
    for o in range(find_swap_groups(i, after, decrease, groups, model, state, candidates, increases)):
        t = candidates[o]
        other_loss = group_loss(t, loss)
        other = head[t]
        while other >= 0:
            if cell[other] != cell[i]:
                gain = 0.0
                # above this limit the other group cannot gain enough
                one = loss_after_exchange(g, i, other, own_loss - best / size[g], model, state)
                if one < np.inf:
                    here = size[g] * (own_loss - one)
                    threshold = other_loss + (here - best) / size[t]
                    gain = here + size[t] * (other_loss - loss_after_exchange(t, other, i, threshold, model, state))
                if gain > best and (
                    histogram.shape[0] == 0
                    or (
                        holds_after_exchange(g, i, other, model, state, values, histogram)
                        and holds_after_exchange(t, other, i, model, state, values, histogram)
                    )
                ):
                    best, partner = gain, other
            other = following[other]
    if partner < 0:
        return 0.0
    t = state.group[partner]
    unlink(i, state)
    unlink(partner, state)
    link(i, t, state)
    link(partner, g, state)
    recompute_group(g, model, state, clock)
    recompute_group(t, model, state, clock)
    return best


@njit(cache=True, nogil=True)
def count_record(i, sign, cell, values, histogram):
    """Add ``sign`` to the counts of a record's sensitive values."""
    label, sensitive, offset = values.label, values.sensitive, values.offset
    for s in range(sensitive.shape[1]):
        histogram[offset[s] + sensitive[label[cell[i]], s]] += sign


@njit(cache=True, nogil=True)
def split(g, new_group, least, model, state, values, clock):
    """Split a group where the loss falls most and both halves pass; the second half becomes group ``new_group``."""
    rows, cell, pairs, begin = model.rows, model.cell, model.pairs, model.begin
    loss_tables = model.loss_tables
    head, following, size, loss = state.head, state.following, state.size, state.loss
    n, m, limits = size[g], rows.shape[1], values.limits
    width = values.offset[-1]
    left, right, whole_counts = np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width, np.int64)
    records = np.empty(n, np.int64)
    i = head[g]
    for p in range(n):
        records[p] = i
        count_record(i, 1, cell, values, whole_counts)
        i = following[i]
    loss_before = n * group_loss(g, loss)
    best, best_at, chosen = LEAST_GAIN * n, -1, records
    right_loss = np.empty(n)
    codes = np.empty(n, np.int32)
    lo, hi = np.empty(m, np.int32), np.empty(m, np.int32)
    for a in range(m):
        if state.low[a, g] == state.high[a, g]:
            continue
        for p in range(n):
            codes[p] = rows[cell[records[p]], a]
        order = records[np.argsort(codes, kind="mergesort")]
        for forward in range(2):
            lo[:], hi[:] = LARGEST_CODE, -1
            left[:], right[:] = 0, whole_counts
            for q in range(n):
                p = q if forward == 1 else n - 1 - q
                d = 0.0
                for j in range(m):
                    x = rows[cell[order[p]], j]
                    lo[j], hi[j] = min(lo[j], x), max(hi[j], x)
                    d += interval_cost(j, lo[j], hi[j], pairs, begin, loss_tables)
                if forward == 0:
                    right_loss[p] = d
                    continue
                count_record(order[p], 1, cell, values, left)
                count_record(order[p], -1, cell, values, right)
                if q + 1 >= least and n - q - 1 >= least:
                    gain = loss_before - (q + 1) * d - (n - q - 1) * right_loss[q + 1]
                    if gain > best and holds(q + 1, left, limits) and holds(n - q - 1, right, limits):
                        best, best_at, chosen = gain, q + 1, order
    if best_at < 0:
        return 0.0
    for p in range(best_at, n):
        unlink(chosen[p], state)
        link(chosen[p], new_group, state)
    recompute_group(g, model, state, clock)
    recompute_group(new_group, model, state, clock)
    return best


@njit(cache=True, nogil=True)
def prepare(rows, cell, group, groups, capacity, loss_tables):
    """The model and the state of a search, with space for ``capacity`` groups."""
    m = rows.shape[1]
    pairs, begin = tabulate_losses(m, loss_tables)
    head = np.full(capacity, -1, np.int64)
    following, previous = np.full(group.shape[0], -1, np.int64), np.full(group.shape[0], -1, np.int64)
    size = np.zeros(capacity, np.int64)
    low, next_low = np.empty((m, capacity), np.int32), np.empty((m, capacity), np.int32)
    high, next_high = np.empty((m, capacity), np.int32), np.empty((m, capacity), np.int32)
    loss = np.zeros((m, capacity))
    changed = np.zeros(capacity, np.int64)
    attribute_order = np.arange(m)
    model = Model(rows, cell, pairs, begin, loss_tables, attribute_order)
    state = State(group, head, following, previous, size, low, next_low, high, next_high, loss, changed)
    clock = np.zeros(1, np.int64)
    for i in range(group.shape[0] - 1, -1, -1):
        link(i, group[i], state)
    for g in range(groups):
        recompute_group(g, model, state, clock)
    increase = np.zeros(m)
    for i in range(0, group.shape[0], max(1, group.shape[0] // SAMPLE)):
        for j in range(m):
            x = rows[cell[i], j]
            for g in range(groups):
                if size[g] > 0 and (x < low[j, g] or x > high[j, g]):
                    increase[j] += (
                        interval_cost(j, min(x, low[j, g]), max(x, high[j, g]), pairs, begin, loss_tables) - loss[j, g]
                    )
    attribute_order[:] = np.argsort(-increase, kind="mergesort")
    return model, state, clock


@njit(cache=True, nogil=True)
def run_round(groups, least, most, model, state, values, record_checked, group_checked, clock):
    """Run one round over all groups and records; return the number of groups, including empty ones, and the decrease of loss.

    Groups of at least 2 x ``least`` records are split; groups are dissolved in descending order of D; then every record is
    moved or else swapped. ``record_checked`` and ``group_checked`` hold the time of the last check of every record and group.
    """
    group, size, loss, changed = state.group, state.size, state.loss, state.changed
    histogram = np.zeros(values.offset[-1], np.int64)
    candidates, increases = np.empty(CANDIDATES, np.int64), np.empty(CANDIDATES)
    moved_records, stamps = np.empty(most + 1, np.int64), np.empty(most + 1, np.int64)
    gain = 0.0
    g = 0
    while g < groups:
        decrease = 0.0
        if size[g] >= 2 * least and groups < size.shape[0] and changed[g] > group_checked[g]:
            decrease = split(g, groups, least, model, state, values, clock)
            gain += decrease
            if decrease == 0.0 and size[g] > most:
                group_checked[g] = clock[0]
        groups += decrease > 0.0
        g += decrease == 0.0
    order_key = np.empty(groups)
    for g in range(groups):
        order_key[g] = -group_loss(g, loss)
    for g in np.argsort(order_key, kind="mergesort"):
        if 0 < size[g] <= most and order_key[g] < 0.0 and changed[g] > group_checked[g]:
            gain += dissolve(g, groups, most, model, state, values, histogram, moved_records, stamps, clock)
            group_checked[g] = clock[0]
    for i in range(group.shape[0]):
        after = record_checked[i] if changed[group[i]] <= record_checked[i] else -1
        now = clock[0]
        decrease = move(i, after, groups, most, model, state, values, histogram, clock)
        if decrease == 0.0:
            decrease = swap(i, after, groups, model, state, values, histogram, candidates, increases, clock)
        record_checked[i] = now if decrease == 0.0 else -1
        gain += decrease
    return groups, gain
