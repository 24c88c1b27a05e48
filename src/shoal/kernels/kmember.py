"""Greedy k-member clustering (Byun, Kamra, Bertino, Li, Figure 8), and the nearest neighbours of random records.

Records are cells with counts; ties go to the cell with the smaller rank. The result is a list of picks: the cell of every
record in the order in which the records were clustered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shoal.kernels.interface import CLUSTERS, NONEMPTY, PICKED, RANDOM, REFERENCE, REMAINING, SEED, LossArrays
from shoal.kernels.limits import holds, shortfall
from shoal.kernels.neighbours import LOW, extend_box, find_furthest, find_nearest, remove_cell, reset_box

LEAST_IMPROVEMENT = 1e-12  # a smaller decrease of the shortfall does not count


class Context(NamedTuple):
    """The codes and records of the cells, the box of the cluster, the tables of its terms, and the loss tables."""

    rows: NDArray[Any]
    records: NDArray[Any]
    box: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
    terms: tuple[NDArray[Any], NDArray[Any]]
    loss_tables: LossArrays


@njit(cache=True, nogil=True)
def build_fenwick_tree(count):
    """A Fenwick tree: entry i is the sum of the last i & -i counts up to count i - 1."""
    sums = np.zeros(count.shape[0] + 1, np.int64)
    for i in range(1, sums.shape[0]):
        sums[i] += count[i - 1]
        above = i + (i & -i)
        if above < sums.shape[0]:
            sums[above] += sums[i]
    return sums


@njit(cache=True, nogil=True)
def find_in_fenwick_tree(sums, place):
    """The cell of the record with index ``place``, records in the order of their cells."""
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
def take_record(cell, rows, forests, count, place_of, sums, state, picks):
    """Take one record of a cell into the current cluster."""
    picks[state[PICKED]] = cell
    state[PICKED] += 1
    state[REMAINING] -= 1
    count[cell] -= 1
    if count[cell] == 0:
        state[NONEMPTY] -= 1
        remove_cell(place_of[0, cell], rows, count, forests[0])
        if forests[1].order.shape[0] > 0:  # empty if there are no labels
            remove_cell(place_of[1, cell], rows, count, forests[1])
    i = cell + 1
    while i < sums.shape[0]:
        sums[i] -= 1
        i += i & -i


@njit(cache=True, nogil=True)
def find_majority(histogram, first, last):
    """The most frequent value. Ties: the smaller code."""
    best = first
    for c in range(first + 1, last):
        if histogram[c] > histogram[best]:
            best = c
    return best


@njit(cache=True, nogil=True)
def compute_penalties(histogram, sensitive, offset, columns, amount, harmful, penalty):
    """The penalty of every label: for a class other than the majority class, and for a value that all records share.

    ``columns`` has a row (column of the label, first code, last code, whether the column is the class) per penalized column.
    """
    penalty[:] = 0.0
    for a in range(columns.shape[0]):
        s, first, last, of_class = columns[a]
        common = find_majority(histogram, first, last)
        values = 0
        for c in range(first, last):
            if histogram[c] > 0:
                values += 1
        if not of_class and (values > 1 or not harmful[common]):
            continue
        for i in range(penalty.shape[0]):
            same = offset[s] + sensitive[i, s] == common
            if same != of_class:
                penalty[i] += amount[a]


@njit(cache=True, nogil=True)
def find_helpful_labels(total, histogram, sensitive, offset, limits, allowed):
    """Mark the labels that bring the cluster closer to the requirement; return whether there are any."""
    now = shortfall(total, histogram, limits)
    any_helps = False
    for i in range(allowed.shape[0]):
        for s in range(sensitive.shape[1]):
            histogram[offset[s] + sensitive[i, s]] += 1
        allowed[i] = shortfall(total + 1, histogram, limits) < now - LEAST_IMPROVEMENT
        any_helps = any_helps or allowed[i]
        for s in range(sensitive.shape[1]):
            histogram[offset[s] + sensitive[i, s]] -= 1
    return any_helps


@njit(cache=True, nogil=True)
def choose_record(size, version, forest, queue, sizes, penalty, allowed, context):
    """The cell with the least (score, D, rank), where the score is (size + 1) D + penalty; -1 if no label is allowed."""
    rows, count, (lo, hi, current), (begin, table) = context.rows, context.records, context.box, context.terms
    weight, ints, floats = context.loss_tables
    order, nodes, queue_start, rank = forest.order, forest.child.shape[0], forest.queue_start, forest.rank
    key, tag = queue[0], queue[1]
    best_score, best_d, best = np.inf, np.inf, np.int64(-1)
    for i in range(sizes.shape[0]):
        if not allowed[i] or sizes[i] == 0 or (size + 1) * key[queue_start[i]] + penalty[i] > best_score:
            continue
        if not find_nearest(
            i, version, forest, queue, sizes, rows, count, lo, hi, current, begin, table, weight, ints, floats
        ):
            continue
        d = key[queue_start[i]]
        cell = np.int64(order[(tag[queue_start[i]] & LOW) - nodes])
        score = (size + 1) * d + penalty[i]
        if score < best_score or (score == best_score and (d < best_d or (d == best_d and rank[cell] < rank[best]))):
            best_score, best_d, best = score, d, cell
    return best


@njit(cache=True, nogil=True)
def reset_queues(forest, queue, sizes):
    """Start the queue of every label with the root of its tree. The lower bound of its D is 0."""
    root, queue_start = forest.root, forest.queue_start
    for i in range(root.shape[0]):
        sizes[i] = 1 if root[i] >= 0 else 0
        if root[i] >= 0:
            queue[0][queue_start[i]], queue[1][queue_start[i]], queue[2][queue_start[i]] = 0.0, np.int64(root[i]), -1


@njit(cache=True, nogil=True)
def allocate_queues(forest):
    """Allocate the queues of a forest at their largest size, and their current sizes."""
    length = forest.queue_start[-1]
    queue = (np.empty(length, np.float64), np.empty(length, np.int64), np.empty(length, np.int32))
    return queue, np.zeros(forest.root.shape[0], np.int64)


@njit(cache=True, nogil=True)
def locate_cells(forests, cells):
    """The place of every cell in both forests."""
    place_of = np.empty((2, cells), np.int32)
    for f in range(2):
        order = forests[f].order
        for p in range(order.shape[0]):
            place_of[f, order[p]] = p
    return place_of


@njit(cache=True, nogil=True)
def grow_clusters(
    state, max_clusters, indexed_cells, settings, chance, cells, forests, terms, penalties, limits, loss_tables, out
):
    """Make up to ``max_clusters`` clusters. Stop when fewer than half of the ``indexed_cells`` of the forests are left.

    ``settings``: k, the choice of seeds, and whether the box grows with its cluster; otherwise records are ranked by their
    distance from the seed alone. The first forest is a single tree, used while labels do not matter; the second has a tree for
    every label. ``terms``: the start of every table of terms, and their length. ``out`` receives the picks, the start of every
    cluster, and whether it failed to meet the requirement.
    """
    k, mode, box_grows = settings
    rows, count, label, sensitive, offset = cells.rows, cells.records, cells.label, cells.sensitive, cells.offset
    picks, starts, failed = out
    weight, ints, floats = loss_tables
    columns, amount, harmful = penalties
    begin, table_size = terms
    unlabelled, labelled = forests
    labels, m, nodes = sensitive.shape[0], rows.shape[1], unlabelled.child.shape[0]
    place_of = locate_cells(forests, count.shape[0])
    box = (np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.float64))
    (lo, hi, current), table = box, np.empty(table_size, np.float64)
    context = Context(rows, count, box, (begin, table), loss_tables)
    (queue, sizes), (by_label, label_sizes) = allocate_queues(unlabelled), allocate_queues(labelled)
    stack, upper, rest = np.empty(nodes, np.int32), np.empty(nodes, np.float64), np.empty(m, np.float64)
    penalty, allowed = np.zeros(labels), np.ones(labels, np.bool_)
    no_penalty, all_allowed = np.zeros(1), np.ones(1, np.bool_)
    histogram = np.zeros(offset[-1], np.int64)
    sums = build_fenwick_tree(count) if mode == RANDOM else np.zeros(0, np.int64)
    for _ in range(max_clusters):
        if state[REMAINING] < k or 2 * state[NONEMPTY] < indexed_cells:
            return
        if mode == RANDOM:
            seed = np.int64(find_in_fenwick_tree(sums, np.int64(chance[state[CLUSTERS]] * state[REMAINING])))
        else:
            reset_box(state[REFERENCE], rows, lo, hi, current, begin, table, weight, ints, floats)
            furthest = find_furthest(
                unlabelled, rows, count, lo, hi, begin, table, weight, ints, floats, stack, upper, rest
            )
            seed = np.int64(furthest)
        starts[state[CLUSTERS]] = state[PICKED]
        reset_box(seed, rows, lo, hi, current, begin, table, weight, ints, floats)
        histogram[:] = 0
        reset_queues(unlabelled, queue, sizes)
        cell, size, version, uses_labels = seed, 0, 0, False
        while True:
            take_record(cell, rows, forests, count, place_of, sums, state, picks)
            size += 1
            if box_grows and size > 1 and extend_box(cell, rows, lo, hi, current, begin, table, weight, ints, floats):
                version += 1
            for s in range(sensitive.shape[1]):
                histogram[offset[s] + sensitive[label[cell], s]] += 1
            if size >= k and holds(size, histogram, limits):
                unmet = False
                break
            if columns.shape[0] == 0 and size < k:
                chosen = choose_record(size, version, unlabelled, queue, sizes, no_penalty, all_allowed, context)
            else:
                if not uses_labels:
                    reset_queues(labelled, by_label, label_sizes)
                    allowed[:] = True
                    uses_labels = True
                compute_penalties(histogram, sensitive, offset, columns, amount, harmful, penalty)
                chosen = np.int64(-1)
                if size < k or find_helpful_labels(size, histogram, sensitive, offset, limits, allowed):
                    chosen = choose_record(size, version, labelled, by_label, label_sizes, penalty, allowed, context)
            if chosen < 0:
                unmet = True
                break
            cell = chosen
        failed[state[CLUSTERS]] = unmet
        state[CLUSTERS] += 1
        state[REFERENCE] = seed if mode == SEED else cell
