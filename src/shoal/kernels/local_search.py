"""A local search that lowers the information loss of groups: dissolve, move, swap, split, while the requirement holds.

Of every group and attribute the two smallest and the two largest codes are kept, so that the box without one record, or with
one more, is known at once. What a group pays for one more record is a sum over attributes of terms that are never negative: it
is left aside at the first attribute that makes it too dear, and those that part the groups best come first. A record that
found no better place looks again only at groups that have changed since, unless its own has.

``model`` is what never changes: rows, the cell of every record, the loss of every interval of attributes with few codes (and
where it begins), the weights and arrays of all attributes, the order in which they are looked at. ``state`` is the group of
every record, chains of records (first of a group, next, previous), sizes, ends [attribute, group], losses [attribute, group]
and when each group changed last; ``clock`` counts the changes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.boxes import HEAD, SIZE, weighted_loss
from shoal.kernels.limits import holds

FAR = np.int32(2**31 - 1)
SLACK = 1e-9  # smaller gains are rounding
TRIED = 6  # groups that a record is offered to in exchange for one of theirs
PAIRS = 256  # attributes of up to this many codes have the losses of all intervals in a table
SAMPLE = 64  # records that tell which attributes part the groups


@njit(cache=True, nogil=True)
def tabled(m, weight, ints, floats):
    """The loss of every interval of the attributes with few codes, and where each attribute's begin (-1: nowhere)."""
    begin = np.full(m, -1, np.int64)
    room = 0
    for j in range(m):
        if ints[HEAD * j + SIZE] <= PAIRS:
            begin[j] = room
            room += np.int64(ints[HEAD * j + SIZE]) ** 2
    pairs = np.empty(room)
    for j in range(m):
        if begin[j] >= 0:
            n = np.int64(ints[HEAD * j + SIZE])
            for lo in range(n):
                for hi in range(lo, n):
                    pairs[begin[j] + lo * n + hi] = weighted_loss(j, lo, hi, weight, ints, floats)
    return pairs, begin


@njit(cache=True, nogil=True, forceinline=True)
def cost(j, lo, hi, pairs, begin, weight, ints, floats):
    """The weighted loss of an interval."""
    if begin[j] >= 0:
        return pairs[begin[j] + np.int64(lo) * ints[HEAD * j + SIZE] + hi]
    return weighted_loss(j, lo, hi, weight, ints, floats)


@njit(cache=True, nogil=True)
def note(g, x, j, low, next_low, high, next_high):
    """Let one more code of attribute ``j`` enter the ends of a group."""
    if x < low[j, g]:
        next_low[j, g], low[j, g] = low[j, g], x
    elif x < next_low[j, g]:
        next_low[j, g] = x
    if x > high[j, g]:
        next_high[j, g], high[j, g] = high[j, g], x
    elif x > next_high[j, g]:
        next_high[j, g] = x


@njit(cache=True, nogil=True)
def measure(g, model, state, clock):
    """The ends and the loss of a group, from its records."""
    rows, cell, pairs, begin, weight, ints, floats, _ = model
    _, head, following, _, _, low, next_low, high, next_high, part, changed = state
    clock[0] += 1
    changed[g] = clock[0]
    for j in range(rows.shape[1]):
        low[j, g] = next_low[j, g] = FAR
        high[j, g] = next_high[j, g] = -1
    i = head[g]
    while i >= 0:
        for j in range(rows.shape[1]):
            note(g, rows[cell[i], j], j, low, next_low, high, next_high)
        i = following[i]
    for j in range(rows.shape[1]):
        part[j, g] = cost(j, low[j, g], high[j, g], pairs, begin, weight, ints, floats) if head[g] >= 0 else 0.0


@njit(cache=True, nogil=True)
def link(i, g, state):
    """Put a record into a group."""
    group, head, following, previous, size = state[0], state[1], state[2], state[3], state[4]
    group[i] = g
    following[i], previous[i] = head[g], -1
    if head[g] >= 0:
        previous[head[g]] = i
    head[g] = i
    size[g] += 1


@njit(cache=True, nogil=True)
def unlink(i, state):
    """Take a record out of its group."""
    group, head, following, previous, size = state[0], state[1], state[2], state[3], state[4]
    g = group[i]
    if previous[i] >= 0:
        following[previous[i]] = following[i]
    else:
        head[g] = following[i]
    if following[i] >= 0:
        previous[following[i]] = previous[i]
    size[g] -= 1


@njit(cache=True, nogil=True)
def admit(i, g, model, state, clock):
    """Let a record into a group."""
    rows, cell, pairs, begin, weight, ints, floats, _ = model
    _, _, _, _, _, low, next_low, high, next_high, part, changed = state
    link(i, g, state)
    clock[0] += 1
    changed[g] = clock[0]
    for j in range(rows.shape[1]):
        note(g, rows[cell[i], j], j, low, next_low, high, next_high)
        part[j, g] = cost(j, low[j, g], high[j, g], pairs, begin, weight, ints, floats)


@njit(cache=True, nogil=True)
def total(g, part):
    """D of a group."""
    found = 0.0
    for j in range(part.shape[0]):
        found += part[j, g]
    return found


@njit(cache=True, nogil=True)
def exchanged(g, out, into, limit, model, state):
    """D of a group once record ``out`` is gone and ``into`` has come (-1: none); infinity where it is ``limit`` or more."""
    rows, cell, pairs, begin, weight, ints, floats, turn = model
    _, _, _, _, _, low, next_low, high, next_high, part, _ = state
    found = 0.0
    for t in range(rows.shape[1]):
        j = turn[t]
        y, lo, hi = rows[cell[out], j], low[j, g], high[j, g]
        x = rows[cell[into], j] if into >= 0 else y
        if lo < y < hi and lo <= x <= hi:
            found += part[j, g]
        else:
            lo, hi = next_low[j, g] if y == lo else lo, next_high[j, g] if y == hi else hi
            if into >= 0:
                lo, hi = min(lo, x), max(hi, x)
            found += cost(j, lo, hi, pairs, begin, weight, ints, floats) if lo < hi else 0.0
        if found >= limit:
            return np.inf
    return found


@njit(cache=True, nogil=True)
def price(g, i, more, limit, model, state):
    """What a group pays for a record: (size + more) D with it less size x D now; infinity where that is ``limit`` or more."""
    rows, cell, pairs, begin, weight, ints, floats, turn = model
    size, low, high, part = state[4], state[5], state[7], state[9]
    paid = 0.0
    for t in range(rows.shape[1]):
        j = turn[t]
        x, lo, hi = rows[cell[i], j], low[j, g], high[j, g]
        if lo <= x <= hi:
            paid += more * part[j, g]
        else:
            with_it = cost(j, min(lo, x), max(hi, x), pairs, begin, weight, ints, floats)
            paid += (size[g] + more) * with_it - size[g] * part[j, g]
        if paid >= limit:
            return np.inf
    return paid


@njit(cache=True, nogil=True)
def may(g, out, into, model, state, values, histogram):
    """Whether a group still meets the requirement without record ``out`` and with record ``into`` (-1: none)."""
    label, secret, offset, limits = values
    cell, head, following = model[1], state[1], state[2]
    if histogram.shape[0] > 0:
        histogram[:] = 0
        i = head[g]
        while i >= 0:
            for s in range(secret.shape[1]):
                histogram[offset[s] + secret[label[cell[i]], s]] += i != out
            i = following[i]
        if into >= 0:
            for s in range(secret.shape[1]):
                histogram[offset[s] + secret[label[cell[into]], s]] += 1
    return holds(state[4][g] - (out >= 0) + (into >= 0), histogram, limits)


@njit(cache=True, nogil=True)
def cheapest(i, since, limit, groups, most, model, state, values, histogram):
    """The other group that pays least for a record, less than ``limit``, and may take it; -1 if none.

    Only groups that changed after ``since`` are asked.
    """
    rows, cell, pairs, begin, weight, ints, floats, turn = model
    group, size, low, high, part, changed = state[0], state[4], state[5], state[7], state[9], state[10]
    found, first = -1, turn[0]
    x = rows[cell[i], first]
    for g in range(groups):
        if changed[g] <= since or size[g] >= most or size[g] == 0 or g == group[i]:
            continue
        lo, hi = low[first, g], high[first, g]
        if x < lo or x > hi:
            with_it = cost(first, min(lo, x), max(hi, x), pairs, begin, weight, ints, floats)
            if (size[g] + 1) * with_it - size[g] * part[first, g] >= limit:
                continue
        paid = price(g, i, 1, limit, model, state)
        if paid < limit and (histogram.shape[0] == 0 or may(g, -1, i, model, state, values, histogram)):
            limit, found = paid, g
    return found, limit


@njit(cache=True, nogil=True)
def dissolve(g, groups, most, model, state, values, histogram, trail, stamps, clock):
    """Send all records of a group elsewhere, each to the cheapest group, if that costs less than the group does."""
    head, following, size, part = state[1], state[2], state[4], state[9]
    whole = size[g] * total(g, part)
    records = size[g]
    spent, sent, i = 0.0, 0, head[g]
    while i >= 0:
        after = following[i]
        t, paid = cheapest(i, -1, whole - spent, groups, most, model, state, values, histogram)
        if t < 0 or spent + paid >= whole - SLACK * records:
            break
        spent += paid
        trail[sent], stamps[sent] = i, state[10][t]
        sent += 1
        unlink(i, state)
        admit(i, t, model, state, clock)
        i = after
    if size[g] == 0:
        return whole - spent
    for p in range(sent - 1, -1, -1):  # back home
        i = trail[p]
        t = state[0][i]
        unlink(i, state)
        measure(t, model, state, clock)
        state[10][t] = stamps[p]
        link(i, g, state)
    return 0.0


@njit(cache=True, nogil=True)
def move(i, since, groups, most, model, state, values, histogram, clock):
    """Move a record to the group where it costs least, if its own may lose it."""
    g, size = state[0][i], state[4]
    if size[g] < 2:
        return 0.0
    fall = size[g] * total(g, state[9]) - (size[g] - 1) * exchanged(g, i, -1, np.inf, model, state)
    if fall <= SLACK or not may(g, i, -1, model, state, values, histogram):
        return 0.0
    t, paid = cheapest(i, since, fall - SLACK, groups, most, model, state, values, histogram)
    if t < 0:
        return 0.0
    unlink(i, state)
    measure(g, model, state, clock)
    admit(i, t, model, state, clock)
    return fall - paid


@njit(cache=True, nogil=True)
def offers(i, since, limit, groups, model, state, near, paid):
    """The groups that would pay least to have a record in exchange, cheapest first; how many they are."""
    rows, cell, pairs, begin, weight, ints, floats, turn = model
    group, size, low, high, part, changed = state[0], state[4], state[5], state[7], state[9], state[10]
    found, first = 0, turn[0]
    x = rows[cell[i], first]
    for g in range(groups):
        if changed[g] <= since or size[g] == 0 or g == group[i]:
            continue
        bar = paid[TRIED - 1] if found == TRIED else limit
        lo, hi = low[first, g], high[first, g]
        if x < lo or x > hi:
            with_it = cost(first, min(lo, x), max(hi, x), pairs, begin, weight, ints, floats)
            if size[g] * (with_it - part[first, g]) >= bar:
                continue
        asked = price(g, i, 0, bar, model, state)
        if asked < bar:
            at = min(found, TRIED - 1)
            while at > 0 and paid[at - 1] > asked:
                paid[at], near[at] = paid[at - 1], near[at - 1]
                at -= 1
            paid[at], near[at] = asked, g
            found = min(found + 1, TRIED)
    return found


@njit(cache=True, nogil=True)
def swap(i, since, groups, model, state, values, histogram, near, paid, clock):
    """Exchange a record for one of a near group, the best of all, if both groups together lose less then."""
    cell, head, following, size, part = model[1], state[1], state[2], state[4], state[9]
    g = state[0][i]
    own = total(g, part)
    fall = size[g] * (own - exchanged(g, i, -1, np.inf, model, state))
    if fall <= SLACK or size[g] < 2:
        return 0.0
    best, partner = SLACK, -1
    for o in range(offers(i, since, fall, groups, model, state, near, paid)):
        t = near[o]
        theirs = total(t, part)
        other = head[t]
        while other >= 0:
            if cell[other] != cell[i]:
                gain = 0.0
                one = exchanged(
                    g, i, other, own - best / size[g], model, state
                )  # beyond that the other gains too little
                if one < np.inf:
                    here = size[g] * (own - one)
                    bar = theirs + (here - best) / size[t]
                    gain = here + size[t] * (theirs - exchanged(t, other, i, bar, model, state))
                if gain > best and (
                    histogram.shape[0] == 0
                    or (
                        may(g, i, other, model, state, values, histogram)
                        and may(t, other, i, model, state, values, histogram)
                    )
                ):
                    best, partner = gain, other
            other = following[other]
    if partner < 0:
        return 0.0
    t = state[0][partner]
    unlink(i, state)
    unlink(partner, state)
    link(i, t, state)
    link(partner, g, state)
    measure(g, model, state, clock)
    measure(t, model, state, clock)
    return best


@njit(cache=True, nogil=True)
def carry(i, sign, cell, values, histogram):
    """Count the confidential values of a record in, or out."""
    label, secret, offset, _ = values
    for s in range(secret.shape[1]):
        histogram[offset[s] + secret[label[cell[i]], s]] += sign


@njit(cache=True, nogil=True)
def split(g, fresh, least, model, state, values, clock):
    """Cut a group in two where the loss falls most and both halves hold; the second half becomes group ``fresh``."""
    rows, cell, pairs, begin, weight, ints, floats, _ = model
    head, following, size, part = state[1], state[2], state[4], state[9]
    n, m, limits = size[g], rows.shape[1], values[3]
    width = values[2][-1]
    left, right, whole_counts = np.zeros(width, np.int64), np.zeros(width, np.int64), np.zeros(width, np.int64)
    records = np.empty(n, np.int64)
    i = head[g]
    for p in range(n):
        records[p] = i
        carry(i, 1, cell, values, whole_counts)
        i = following[i]
    whole = n * total(g, part)
    best, best_at, chosen = SLACK * n, -1, records
    after = np.empty(n)
    codes = np.empty(n, np.int32)
    lo, hi = np.empty(m, np.int32), np.empty(m, np.int32)
    for a in range(m):
        if state[5][a, g] == state[7][a, g]:
            continue
        for p in range(n):
            codes[p] = rows[cell[records[p]], a]
        order = records[np.argsort(codes, kind="mergesort")]
        for forward in range(2):
            lo[:], hi[:] = FAR, -1
            left[:], right[:] = 0, whole_counts
            for q in range(n):
                p = q if forward == 1 else n - 1 - q
                d = 0.0
                for j in range(m):
                    x = rows[cell[order[p]], j]
                    lo[j], hi[j] = min(lo[j], x), max(hi[j], x)
                    d += cost(j, lo[j], hi[j], pairs, begin, weight, ints, floats)
                if forward == 0:
                    after[p] = d
                    continue
                carry(order[p], 1, cell, values, left)
                carry(order[p], -1, cell, values, right)
                if q + 1 >= least and n - q - 1 >= least:
                    gain = whole - (q + 1) * d - (n - q - 1) * after[q + 1]
                    if gain > best and holds(q + 1, left, limits) and holds(n - q - 1, right, limits):
                        best, best_at, chosen = gain, q + 1, order
    if best_at < 0:
        return 0.0
    for p in range(best_at, n):
        unlink(chosen[p], state)
        link(chosen[p], fresh, state)
    measure(g, model, state, clock)
    measure(fresh, model, state, clock)
    return best


@njit(cache=True, nogil=True)
def prepare(rows, cell, group, groups, room, geometry):
    """The model and the state of a search, with room for more groups."""
    weight, ints, floats = geometry
    m = rows.shape[1]
    pairs, begin = tabled(m, weight, ints, floats)
    head = np.full(room, -1, np.int64)
    following, previous = np.full(group.shape[0], -1, np.int64), np.full(group.shape[0], -1, np.int64)
    size = np.zeros(room, np.int64)
    low, next_low = np.empty((m, room), np.int32), np.empty((m, room), np.int32)
    high, next_high = np.empty((m, room), np.int32), np.empty((m, room), np.int32)
    part = np.zeros((m, room))
    changed = np.zeros(room, np.int64)
    turn = np.arange(m)
    model = (rows, cell, pairs, begin, weight, ints, floats, turn)
    state = (group, head, following, previous, size, low, next_low, high, next_high, part, changed)
    clock = np.zeros(1, np.int64)
    for i in range(group.shape[0] - 1, -1, -1):
        link(i, group[i], state)
    for g in range(groups):
        measure(g, model, state, clock)
    dear = np.zeros(m)
    for i in range(0, group.shape[0], max(1, group.shape[0] // SAMPLE)):
        for j in range(m):
            x = rows[cell[i], j]
            for g in range(groups):
                if size[g] > 0 and (x < low[j, g] or x > high[j, g]):
                    dear[j] += (
                        cost(j, min(x, low[j, g]), max(x, high[j, g]), pairs, begin, weight, ints, floats) - part[j, g]
                    )
    turn[:] = np.argsort(-dear, kind="mergesort")
    return model, state, clock


@njit(cache=True, nogil=True)
def improve(groups, least, most, model, state, values, seen, tried, clock):
    """One round over all groups and records; returns the groups there are, empty ones included, and the fall of the loss.

    Groups of twice ``least`` records are split; groups are dissolved from the one that loses most per record down; then every
    record is moved or else exchanged. ``seen`` and ``tried`` say when a record and a group were last looked at.
    """
    group, size, part, changed = state[0], state[4], state[9], state[10]
    histogram = np.zeros(values[2][-1], np.int64)
    near, paid = np.empty(TRIED, np.int64), np.empty(TRIED)
    trail, stamps = np.empty(most + 1, np.int64), np.empty(most + 1, np.int64)
    gain = 0.0
    g = 0
    while g < groups:
        won = 0.0
        if size[g] >= 2 * least and groups < size.shape[0] and changed[g] > tried[g]:
            won = split(g, groups, least, model, state, values, clock)
            gain += won
            if won == 0.0 and size[g] > most:
                tried[g] = clock[0]
        groups += won > 0.0
        g += won == 0.0
    loss = np.empty(groups)
    for g in range(groups):
        loss[g] = -total(g, part)
    for g in np.argsort(loss, kind="mergesort"):
        if 0 < size[g] <= most and loss[g] < 0.0 and changed[g] > tried[g]:
            gain += dissolve(g, groups, most, model, state, values, histogram, trail, stamps, clock)
            tried[g] = clock[0]
    for i in range(group.shape[0]):
        since = seen[i] if changed[group[i]] <= seen[i] else -1
        now = clock[0]
        won = move(i, since, groups, most, model, state, values, histogram, clock)
        if won == 0.0:
            won = swap(i, since, groups, model, state, values, histogram, near, paid, clock)
        seen[i] = now if won == 0.0 else -1
        gain += won
    return groups, gain
