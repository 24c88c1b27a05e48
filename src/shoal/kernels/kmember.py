"""Greedy k-member clustering (Byun, Kamra, Bertino, Li, Figure 8), and the nearest neighbours of random records.

Records are cells with counts; ties go to the cell with the smaller turn. Clusters are told as picks: the cell of one record
after another.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels.limits import holds, shortfall
from shoal.kernels.neighbours import LOW, fell, furthest, nearest, surround, widen

LAST, SEED, RANDOM = 0, 1, 2  # the next seed: furthest from the last record, from the last seed, or a random one
PICKED, CLUSTERS, REMAINING, FROM, LIVING = 0, 1, 2, 3, 4  # where the state of a search lies
LEAST = 1e-12  # a shortfall that falls by less stays


@njit(cache=True, nogil=True)
def fenwick(count):
    """Running sums of counts that can be changed: entry i holds the last i & -i of them."""
    sums = np.zeros(count.shape[0] + 1, np.int64)
    for i in range(1, sums.shape[0]):
        sums[i] += count[i - 1]
        above = i + (i & -i)
        if above < sums.shape[0]:
            sums[above] += sums[i]
    return sums


@njit(cache=True, nogil=True)
def nth(sums, place):
    """The cell of the record at a place, in the order of the cells."""
    at, step = 0, 1
    while 2 * step < sums.shape[0]:
        step *= 2
    while step > 0:
        if at + step < sums.shape[0] and sums[at + step] <= place:
            at += step
            place -= sums[at]
        step //= 2
    return at


@njit(cache=True, nogil=True)
def take(cell, rows, forests, count, place_of, sums, state, picks):
    """Take one record of a cell."""
    picks[state[PICKED]] = cell
    state[PICKED] += 1
    state[REMAINING] -= 1
    count[cell] -= 1
    if count[cell] == 0:
        state[LIVING] -= 1
        fell(place_of[0, cell], rows, count, forests[0])
        if forests[1][0].shape[0] > 0:  # empty where there are no labels
            fell(place_of[1, cell], rows, count, forests[1])
    i = cell + 1
    while i < sums.shape[0]:
        sums[i] -= 1
        i += i & -i


@njit(cache=True, nogil=True)
def majority(histogram, first, last):
    """The most frequent value; the smaller code of equals."""
    best = first
    for c in range(first + 1, last):
        if histogram[c] > histogram[best]:
            best = c
    return best


@njit(cache=True, nogil=True)
def penalize(histogram, secret, offset, aims, price, grave, penalty):
    """The penalty of every label: for another class than the majority's, and for repeating a value that all share.

    ``aims`` has a row (column of the label, first, last code, whether it is the class) for each column that matters.
    """
    penalty[:] = 0.0
    for a in range(aims.shape[0]):
        s, first, last, of_class = aims[a]
        most = majority(histogram, first, last)
        values = 0
        for c in range(first, last):
            if histogram[c] > 0:
                values += 1
        if not of_class and (values > 1 or not grave[most]):
            continue
        for i in range(penalty.shape[0]):
            same = offset[s] + secret[i, s] == most
            if same != of_class:
                penalty[i] += price[a]


@njit(cache=True, nogil=True)
def helpful(total, histogram, secret, offset, limits, allowed):
    """Which labels bring the cluster nearer to what is required."""
    now = shortfall(total, histogram, limits)
    some = False
    for i in range(allowed.shape[0]):
        for s in range(secret.shape[1]):
            histogram[offset[s] + secret[i, s]] += 1
        allowed[i] = shortfall(total + 1, histogram, limits) < now - LEAST
        some = some or allowed[i]
        for s in range(secret.shape[1]):
            histogram[offset[s] + secret[i, s]] -= 1
    return some


@njit(cache=True, nogil=True)
def choose(size, version, forest, queue, sizes, penalty, allowed, around):
    """The cell with the least (score, D, turn), the score being (size + 1) D + penalty; -1 if none is allowed.

    ``around`` is the rows and counts of the cells, the box of the cluster, the tables of its terms, and the geometry.
    """
    rows, count, (lo, hi, cur), (begin, table), (weight, ints, floats) = around
    order, nodes, heap, turn = forest[0], forest[3].shape[0], forest[8], forest[10]
    key, tag = queue[0], queue[1]
    best_score, best_d, best = np.inf, np.inf, np.int64(-1)
    for i in range(sizes.shape[0]):
        if not allowed[i] or sizes[i] == 0 or (size + 1) * key[heap[i]] + penalty[i] > best_score:
            continue
        if not nearest(i, version, forest, queue, sizes, rows, count, lo, hi, cur, begin, table, weight, ints, floats):
            continue
        d = key[heap[i]]
        cell = np.int64(order[(tag[heap[i]] & LOW) - nodes])
        score = (size + 1) * d + penalty[i]
        if score < best_score or (score == best_score and (d < best_d or (d == best_d and turn[cell] < turn[best]))):
            best_score, best_d, best = score, d, cell
    return best


@njit(cache=True, nogil=True)
def begin_queue(forest, queue, sizes):
    """A queue for each label that holds its root; 0 bounds every D."""
    root, heap = forest[7], forest[8]
    for i in range(root.shape[0]):
        sizes[i] = 1 if root[i] >= 0 else 0
        if root[i] >= 0:
            queue[0][heap[i]], queue[1][heap[i]], queue[2][heap[i]] = 0.0, np.int64(root[i]), -1


@njit(cache=True, nogil=True)
def empty_queue(forest):
    """Room for all that the queues of a forest may hold, and their sizes."""
    room = forest[8][-1]
    queue = (np.empty(room, np.float64), np.empty(room, np.int64), np.empty(room, np.int32))
    return queue, np.zeros(forest[7].shape[0], np.int64)


@njit(cache=True, nogil=True)
def places(forests, cells):
    """The place of every cell in both forests."""
    place_of = np.empty((2, cells), np.int32)
    for f in range(2):
        order = forests[f][0]
        for p in range(order.shape[0]):
            place_of[f, order[p]] = p
    return place_of


@njit(cache=True, nogil=True)
def grow(state, most, planted, way, chance, records, forests, aims, limits, geometry, out):
    """Make up to ``most`` clusters; stop where less than half of the cells are left that the forests were planted for.

    ``way``: k, how seeds are chosen, and whether clusters grow; without that records are ranked by their distance from the
    seed alone. Of the two forests one is a single tree, for as long as labels do not matter, the other has a tree for each.
    Clusters that cannot meet the requirement are marked loose. ``out`` holds the picks, where each cluster begins, and
    whether it is loose.
    """
    k, mode, growing = way
    rows, count, label, secret, offset = records
    picks, starts, loose = out
    weight, ints, floats = geometry
    columns, price, grave, begin, room = aims
    plain, labelled = forests
    labels, m, nodes = secret.shape[0], rows.shape[1], plain[3].shape[0]
    place_of = places(forests, count.shape[0])
    box = (np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.float64))
    (lo, hi, cur), table = box, np.empty(room, np.float64)
    around = (rows, count, box, (begin, table), geometry)
    (queue, sizes), (by_label, label_sizes) = empty_queue(plain), empty_queue(labelled)
    stack, reach, rest = np.empty(nodes, np.int32), np.empty(nodes, np.float64), np.empty(m, np.float64)
    penalty, allowed = np.zeros(labels), np.ones(labels, np.bool_)
    nothing, everyone = np.zeros(1), np.ones(1, np.bool_)
    histogram = np.zeros(offset[-1], np.int64)
    sums = fenwick(count) if mode == RANDOM else np.zeros(0, np.int64)
    for _ in range(most):
        if state[REMAINING] < k or 2 * state[LIVING] < planted:
            return
        if mode == RANDOM:
            seed = np.int64(nth(sums, np.int64(chance[state[CLUSTERS]] * state[REMAINING])))
        else:
            surround(state[FROM], rows, lo, hi, cur, begin, table, weight, ints, floats)
            far = furthest(plain, rows, count, lo, hi, begin, table, weight, ints, floats, stack, reach, rest)
            seed = np.int64(far)
        starts[state[CLUSTERS]] = state[PICKED]
        surround(seed, rows, lo, hi, cur, begin, table, weight, ints, floats)
        histogram[:] = 0
        begin_queue(plain, queue, sizes)
        cell, size, version, apart = seed, 0, 0, False
        while True:
            take(cell, rows, forests, count, place_of, sums, state, picks)
            size += 1
            if growing and size > 1 and widen(cell, rows, lo, hi, cur, begin, table, weight, ints, floats):
                version += 1
            for s in range(secret.shape[1]):
                histogram[offset[s] + secret[label[cell], s]] += 1
            if size >= k and holds(size, histogram, limits):
                unmet = False
                break
            if columns.shape[0] == 0 and size < k:
                following = choose(size, version, plain, queue, sizes, nothing, everyone, around)
            else:
                if not apart:
                    begin_queue(labelled, by_label, label_sizes)
                    allowed[:] = True
                    apart = True
                penalize(histogram, secret, offset, columns, price, grave, penalty)
                following = np.int64(-1)
                if size < k or helpful(size, histogram, secret, offset, limits, allowed):
                    following = choose(size, version, labelled, by_label, label_sizes, penalty, allowed, around)
            if following < 0:
                unmet = True
                break
            cell = following
        loose[state[CLUSTERS]] = unmet
        state[CLUSTERS] += 1
        state[FROM] = seed if mode == SEED else cell
