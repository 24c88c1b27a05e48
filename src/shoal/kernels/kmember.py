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
    NONE64,
    NONEMPTY,
    PICKED,
    REFERENCE,
    REMAINING,
    SEED,
)
from shoal.kernels.limits import holds, shortfall, shortfalls_by_value
from shoal.kernels.neighbours import extend_box, find_furthest, find_nearest, remove_cell, reset_box


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
def take_record(cell, cells, forest, labels, state, picks):
    """Take one record of a cell into the current cluster."""
    rows, count, sums = cells.rows, cells.records, cells.sums
    picks[state[PICKED]] = cell
    state[PICKED] += 1
    state[REMAINING] -= 1
    count[cell] -= 1
    if count[cell] == 0:
        state[NONEMPTY] -= 1
        remove_cell(cell, rows, count, forest)
        if labels is not None:
            remove_cell(cell, rows, count, labels.forest)
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
    for i in range(penalty.shape[0]):
        penalty[i] = 0.0
    for a in range(columns.shape[0]):
        s, first, last, of_class = columns[a, 0], columns[a, 1], columns[a, 2], columns[a, 3]
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
def choose_record(size, version, forest, cells, cluster):
    """The cell with the least (score, D, rank), where the score is (size + 1) D + penalty; -1 if no label is allowed.

    The top of a queue is a lower bound of (D, rank), so a label is skipped if its top is not less than the best record. The
    label whose queue promises the least score comes first.
    """
    order, nodes, queue_start, rank = forest.order, forest.child.shape[0], forest.queue_start, forest.rank
    key, tag, queued, penalty, allowed = forest.key, forest.tag, forest.queued, forest.penalty, forest.allowed
    least, first = np.inf, NONE64
    for i in range(allowed.shape[0]):
        if allowed[i] and queued[i] > 0 and (size + 1) * key[queue_start[i]] + penalty[i] < least:
            least, first = (size + 1) * key[queue_start[i]] + penalty[i], i
    best_score, best_d, best = np.inf, np.inf, NONE64
    for turn in range(-1, queued.shape[0]):
        i = first if turn < 0 else turn
        if i < 0 or not allowed[i] or queued[i] == 0 or turn == first:
            continue
        d = key[queue_start[i]]
        score = (size + 1) * d + penalty[i]
        if score > best_score:
            continue
        if score == best_score and d == best_d and (tag[queue_start[i]] >> 32) > rank[best]:
            continue
        if not find_nearest(i, version, forest, cells, cluster):
            continue
        d = key[queue_start[i]]
        cell = np.int64(order[(tag[queue_start[i]] & LOW) - nodes])
        score = (size + 1) * d + penalty[i]
        if score < best_score or (score == best_score and (d < best_d or (d == best_d and rank[cell] < rank[best]))):
            best_score, best_d, best = score, d, cell
    return best


@inner
def choose_labelled_record(size, version, labels, cells, rules, cluster):
    """As `choose_record`, where the labels matter: penalties, and from k records on only labels that help."""
    sensitive, offset, forest = cells.sensitive, cells.offset, labels.forest
    compute_penalties(labels.histogram, sensitive, offset, rules.penalties, forest.penalty)
    if size >= rules.k and not find_helpful_labels(
        size, labels.histogram, sensitive, offset, rules.limits, labels.after, forest.allowed
    ):
        return NONE64
    return choose_record(size, version, forest, cells, cluster)


@inner
def reset_queues(forest):
    """Start the queue of every label with the root of its tree, and allow all labels. The lower bound of its D is 0."""
    root, queue_start = forest.root, forest.queue_start
    for i in range(root.shape[0]):
        forest.allowed[i] = True
        forest.queued[i] = 1 if root[i] >= 0 else 0
        if root[i] >= 0:
            at = queue_start[i]
            forest.key[at], forest.tag[at], forest.stamp[at] = 0.0, root[i], -1


@entry
def grow_clusters(state, max_clusters, indexed_cells, distant, chance, cells, forest, labels, rules, cluster, out):
    """Make up to ``max_clusters`` clusters. Stop when fewer than half of the ``indexed_cells`` of the forests are left.

    ``cells`` are `interface.ClusterCells`, ``rules`` `interface.ClusterRules`, ``out`` is `interface.ClusterOutput`, and
    ``cluster`` is `interface.ClusterBox`. ``forest`` is a single tree, used while labels do not matter; ``labels`` is
    `interface.LabelSearch`, or None: labels never matter, and every cluster of k records meets the requirement. Seeds are
    ``distant``, or ``chance`` has a random number for every cluster; the other one is None. The compiler leaves out branches
    for arguments that are None.
    """
    k, rows, picks = rules.k, cells.rows, out.picks
    for _ in range(max_clusters):
        if state[REMAINING] < k or 2 * state[NONEMPTY] < indexed_cells:
            return
        seed = NONE64
        if distant is not None:
            reset_box(state[REFERENCE], rows, cluster)
            seed = find_furthest(forest, cells, cluster)
        if chance is not None:
            seed = find_in_fenwick_tree(cells.sums, np.int64(chance[state[CLUSTERS]] * state[REMAINING]))
        out.starts[state[CLUSTERS]] = state[PICKED]
        reset_box(seed, rows, cluster)
        reset_queues(forest)
        if labels is not None:
            for c in range(labels.histogram.shape[0]):
                labels.histogram[c] = 0
        cell, size, version, uses_labels, unmet = seed, 0, 0, False, False
        while True:
            take_record(cell, cells, forest, labels, state, picks)
            size += 1
            if rules.box_grows and size > 1 and extend_box(cell, rows, cluster):
                version += 1
            if labels is None:
                if size >= k:
                    break
                chosen = choose_record(size, version, forest, cells, cluster)
            else:
                for s in range(cells.sensitive.shape[1]):
                    labels.histogram[cells.offset[s] + cells.sensitive[cells.label[cell], s]] += 1
                if size >= k and holds(size, labels.histogram, rules.limits):
                    break
                if rules.penalties.columns.shape[0] == 0 and size < k:
                    chosen = choose_record(size, version, forest, cells, cluster)
                else:
                    if not uses_labels:
                        reset_queues(labels.forest)
                        uses_labels = True
                    chosen = choose_labelled_record(size, version, labels, cells, rules, cluster)
            if chosen < 0:
                unmet = True
                break
            cell = chosen
        out.failed[state[CLUSTERS]] = unmet
        state[CLUSTERS] += 1
        state[REFERENCE] = seed if rules.seed_choice == SEED else cell
