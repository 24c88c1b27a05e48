"""Greedy k-member clustering (Byun, Kamra, Bertino, Li, Figure 8), and the nearest neighbours of random records.

Records are cells with counts; ties go to the cell with the smaller rank. The result is a list of picks: the cell of every
record in the order in which the records were clustered.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import (
    CLUSTERS,
    LEAST_IMPROVEMENT,
    LOW,
    NONEMPTY,
    PICKED,
    RANDOM,
    REFERENCE,
    REMAINING,
    SEED,
)
from shoal.kernels.limits import holds, shortfall, shortfalls_by_value
from shoal.kernels.neighbours import (
    allocate_box,
    allocate_descent,
    allocate_queues,
    extend_box,
    find_furthest,
    find_nearest,
    remove_cell,
    reset_box,
)


@inner
def build_fenwick_tree(count):
    """A Fenwick tree: entry i is the sum of the last i & -i counts up to count i - 1."""
    sums = np.zeros(count.shape[0] + 1, np.int64)
    for i in range(1, sums.shape[0]):
        sums[i] += count[i - 1]
        above = i + (i & -i)
        if above < sums.shape[0]:
            sums[above] += sums[i]
    return sums


@inner
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


@inner
def take_record(cell, cells, forests, place_of, sums, state, picks):
    """Take one record of a cell into the current cluster; ``sums`` is a Fenwick tree of the records left, or empty."""
    rows, count = cells.rows, cells.records
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


@inner
def find_majority(histogram, first, last):
    """The most frequent value. Ties: the smaller code."""
    best = first
    for c in range(first + 1, last):
        if histogram[c] > histogram[best]:
            best = c
    return best


@inner
def compute_penalties(histogram, sensitive, offset, penalties, penalty):
    """The penalty of every label: for a class other than the majority class, and for a value that all records share.

    ``penalties`` are `interface.Penalties`.
    """
    columns, amount, harmful = penalties.columns, penalties.amount, penalties.harmful
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


@inner
def find_helpful_labels(total, histogram, sensitive, offset, limits, after, allowed):
    """Mark the labels that bring the cluster closer to the requirement; return whether there are any.

    ``after`` is a work array as long as the histogram.
    """
    now = shortfall(total, histogram, limits)
    shortfalls_by_value(total + 1, histogram, limits, after)
    any_helps = False
    for i in range(allowed.shape[0]):
        lacking = 0.0
        for s in range(sensitive.shape[1]):
            lacking += after[offset[s] + sensitive[i, s]]
        allowed[i] = lacking < now - LEAST_IMPROVEMENT
        any_helps = any_helps or allowed[i]
    return any_helps


@inner
def find_first_label(size, queue_start, queues, penalty, allowed):
    """The allowed label whose queue promises the least score; -1 if there is none."""
    least, first = np.inf, np.int64(-1)
    for i in range(allowed.shape[0]):
        if allowed[i] and queues.size[i] > 0 and (size + 1) * queues.key[queue_start[i]] + penalty[i] < least:
            least, first = (size + 1) * queues.key[queue_start[i]] + penalty[i], np.int64(i)
    return first


@inner
def choose_record(size, version, forest, queues, penalty, allowed, cells, cluster):
    """The cell with the least (score, D, rank), where the score is (size + 1) D + penalty; -1 if no label is allowed.

    The top of a queue is a lower bound of (D, rank), so a label is skipped if its top is not less than the best record.
    """
    order, nodes, queue_start, rank = forest.order, forest.child.shape[0], forest.queue_start, forest.rank
    key, tag, sizes = queues.key, queues.tag, queues.size
    best_score, best_d, best = np.inf, np.inf, np.int64(-1)
    first = find_first_label(size, queue_start, queues, penalty, allowed)
    for turn in range(-1, sizes.shape[0]):
        i = first if turn < 0 else np.int64(turn)
        if i < 0 or not allowed[i] or sizes[i] == 0 or turn == first:
            continue
        d = key[queue_start[i]]
        score = (size + 1) * d + penalty[i]
        if score > best_score:
            continue
        if score == best_score and d == best_d and (tag[queue_start[i]] >> 32) > rank[best]:
            continue
        if not find_nearest(i, version, forest, queues, cells, cluster):
            continue
        d = key[queue_start[i]]
        cell = np.int64(order[(tag[queue_start[i]] & LOW) - nodes])
        score = (size + 1) * d + penalty[i]
        if score < best_score or (score == best_score and (d < best_d or (d == best_d and rank[cell] < rank[best]))):
            best_score, best_d, best = score, d, cell
    return best


@inner
def reset_queues(forest, queues):
    """Start the queue of every label with the root of its tree. The lower bound of its D is 0."""
    root, queue_start = forest.root, forest.queue_start
    for i in range(root.shape[0]):
        queues.size[i] = 1 if root[i] >= 0 else 0
        if root[i] >= 0:
            at = queue_start[i]
            queues.key[at], queues.tag[at], queues.stamp[at] = 0.0, np.int64(root[i]), -1


@inner
def locate_cells(forests, cells):
    """The place of every cell in both forests."""
    place_of = np.empty((2, cells), np.int32)
    for f in range(2):
        order = forests[f].order
        for p in range(order.shape[0]):
            place_of[f, order[p]] = p
    return place_of


@entry
def grow_clusters(state, max_clusters, indexed_cells, chance, cells, forests, cluster_rules, out):
    """Make up to ``max_clusters`` clusters. Stop when fewer than half of the ``indexed_cells`` of the forests are left.

    ``cells`` are `interface.ClusterCells`, ``cluster_rules`` `interface.ClusterRules`, ``out`` is `interface.ClusterOutput`.
    The first forest is a single tree, used while labels do not matter; the second has a tree for every label. ``chance`` has a
    random number for every cluster, if seeds are random.
    """
    k, seed_choice, penalties, limits = (
        cluster_rules.k,
        cluster_rules.seed_choice,
        cluster_rules.penalties,
        cluster_rules.limits,
    )
    rows, count, label, sensitive, offset = cells.rows, cells.records, cells.label, cells.sensitive, cells.offset
    unlabelled, labelled = forests
    labels, m = sensitive.shape[0], rows.shape[1]
    place_of = locate_cells(forests, count.shape[0])
    cluster, scratch = allocate_box(m, cluster_rules.loss_tables), allocate_descent(unlabelled, m)
    queues, label_queues = allocate_queues(unlabelled), allocate_queues(labelled)
    penalty, allowed = np.zeros(labels), np.ones(labels, np.bool_)
    no_penalty, all_allowed = np.zeros(1), np.ones(1, np.bool_)
    histogram, after = np.zeros(offset[-1], np.int64), np.zeros(offset[-1])
    sums = build_fenwick_tree(count) if seed_choice == RANDOM else np.zeros(0, np.int64)
    for _ in range(max_clusters):
        if state[REMAINING] < k or 2 * state[NONEMPTY] < indexed_cells:
            return
        if seed_choice == RANDOM:
            seed = np.int64(find_in_fenwick_tree(sums, np.int64(chance[state[CLUSTERS]] * state[REMAINING])))
        else:
            reset_box(state[REFERENCE], rows, cluster)
            seed = np.int64(find_furthest(unlabelled, cells, cluster, scratch))
        out.starts[state[CLUSTERS]] = state[PICKED]
        reset_box(seed, rows, cluster)
        histogram[:] = 0
        reset_queues(unlabelled, queues)
        cell, size, version, uses_labels = seed, 0, 0, False
        while True:
            take_record(cell, cells, forests, place_of, sums, state, out.picks)
            size += 1
            if cluster_rules.box_grows and size > 1 and extend_box(cell, rows, cluster):
                version += 1
            for s in range(sensitive.shape[1]):
                histogram[offset[s] + sensitive[label[cell], s]] += 1
            if size >= k and holds(size, histogram, limits):
                unmet = False
                break
            if penalties.columns.shape[0] == 0 and size < k:
                chosen = choose_record(size, version, unlabelled, queues, no_penalty, all_allowed, cells, cluster)
            else:
                if not uses_labels:
                    reset_queues(labelled, label_queues)
                    allowed[:] = True
                    uses_labels = True
                compute_penalties(histogram, sensitive, offset, penalties, penalty)
                chosen = np.int64(-1)
                if size < k or find_helpful_labels(size, histogram, sensitive, offset, limits, after, allowed):
                    chosen = choose_record(size, version, labelled, label_queues, penalty, allowed, cells, cluster)
            if chosen < 0:
                unmet = True
                break
            cell = chosen
        out.failed[state[CLUSTERS]] = unmet
        state[CLUSTERS] += 1
        state[REFERENCE] = seed if seed_choice == SEED else cell
