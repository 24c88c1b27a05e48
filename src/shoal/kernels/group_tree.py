"""A tree of the boxes of groups: the groups whose loss grows least if records join them.

The increase of a group's loss by ``more`` records is (s + more) x D(with them) - s x D, where s is the size of the group and D
the weighted loss of its box, summed over the attributes. A node keeps the hull of the boxes below it, their largest loss by
attribute, their least size and their least D. With l the loss from the query to the nearest code of the hull, and u the sum
of max(0, l - largest loss), the increase is at least more x max(least D + u, sum of l) + least size x u.

The tree is read-only: a search builds it again after groups have changed. ``tree`` is `interface.GroupTree`, ``losses`` are
`interface.IntervalLosses`, and ``nearest`` are `interface.NearestGroups`.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.boxes import weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import HEAD, LARGEST_CODE, NONE64, SIZE, TREE_SAMPLE, ZERO64

LEAF = 6  # nodes with up to this many groups are leaves


@entry(error_model="numpy")
def tabulate_losses(losses):
    """Write the loss of every interval of the attributes with few codes."""
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    for j in range(begin.shape[0]):
        if begin[j] >= 0:
            n = loss_tables.ints[HEAD * j + SIZE]
            for lo in range(n):
                for hi in range(lo, n):
                    pairs[begin[j] + np.int64(lo) * n + hi] = weighted_loss(j, lo, hi, loss_tables)


@inner(error_model="numpy", forceinline=True)
def interval_cost(j, lo, hi, pairs, begin, loss_tables):
    """The weighted loss of an interval."""
    if begin[j] >= 0:
        return pairs[begin[j] + np.int64(lo) * loss_tables.ints[HEAD * j + SIZE] + hi]
    return weighted_loss(j, lo, hi, loss_tables)


@inner(error_model="numpy")
def choose_cut(begin, end, tree, boxes, losses):
    """The attribute and the sum of a box's ends whose cut gives two hulls with the least loss, judged by a sample; -1: none."""
    pairs, starts, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    groups, low, high = tree.group, boxes.low, boxes.high
    key, ordered, hull = tree.key, tree.ordered, tree.hull
    m = low.shape[1]
    step = max(1, (end - begin) // TREE_SAMPLE)
    n = (end - begin + step - 1) // step
    best, chosen, at = np.inf, NONE64, ZERO64
    for a in range(m):
        for i in range(n):
            g = groups[begin + i * step]
            x = np.int64(low[g, a]) + high[g, a]
            key[i] = x
            p = i
            while p > 0 and ordered[p - 1] > x:
                ordered[p] = ordered[p - 1]
                p -= 1
            ordered[p] = x
        if ordered[0] == ordered[n - 1]:
            continue
        place = (n - 1) // 2
        if ordered[place] == ordered[n - 1]:  # the largest smaller one
            while ordered[place] == ordered[n - 1]:
                place -= 1
        middle = ordered[place]
        for side in range(2):
            for j in range(m):
                hull[2 * side, j], hull[2 * side + 1, j] = LARGEST_CODE, -1
        count = 0
        for i in range(n):
            g = groups[begin + i * step]
            side = 1 if key[i] > middle else 0
            count += side
            for j in range(m):
                hull[2 * side, j] = min(hull[2 * side, j], low[g, j])
                hull[2 * side + 1, j] = max(hull[2 * side + 1, j], high[g, j])
        loss = 0.0
        for j in range(m):
            loss += (n - count) * interval_cost(j, hull[0, j], hull[1, j], pairs, starts, loss_tables)
            loss += count * interval_cost(j, hull[2, j], hull[3, j], pairs, starts, loss_tables)
        if loss < best:
            best, chosen, at = loss, a, middle
    return chosen, at


@entry(error_model="numpy")
def build_tree(tree, boxes, losses):
    """Build the tree of its groups; ``boxes`` are `interface.GroupBoxes`, by group. Its groups are reordered."""
    groups, spare, span, child = tree.group, tree.spare, tree.span, tree.child
    hull_low, hull_high, largest_loss = tree.hull_low, tree.hull_high, tree.largest_loss
    low, high, loss, total, size = boxes.low, boxes.high, boxes.loss, boxes.total, boxes.size
    n, m = groups.shape[0], low.shape[1]
    nodes = 0
    if n > 0:
        span[0, 0], span[0, 1] = 0, n
        nodes = 1
    at = 0
    while at < nodes:
        begin, end = np.int64(span[at, 0]), np.int64(span[at, 1])
        child[at] = -1
        least_size, least_total = np.inf, np.inf
        for j in range(m):
            hull_low[at, j], hull_high[at, j], largest_loss[at, j] = LARGEST_CODE, -1, 0.0
        for p in range(begin, end):
            g = groups[p]
            least_size, least_total = min(least_size, np.float64(size[g])), min(least_total, total[g])
            for j in range(m):
                hull_low[at, j], hull_high[at, j] = min(hull_low[at, j], low[g, j]), max(hull_high[at, j], high[g, j])
                largest_loss[at, j] = max(largest_loss[at, j], loss[g, j])
        tree.least_size[at], tree.least_total[at] = least_size, least_total
        if end - begin > LEAF:
            a, middle = choose_cut(begin, end, tree, boxes, losses)
            left, held = begin, 0
            if a >= 0:
                for p in range(begin, end):
                    g = groups[p]
                    if np.int64(low[g, a]) + high[g, a] <= middle:
                        groups[left] = g
                        left += 1
                    else:
                        spare[held] = g
                        held += 1
                for i in range(held):
                    groups[left + i] = spare[i]
            else:
                left = (begin + end) // 2
            child[at] = nodes
            span[nodes, 0], span[nodes, 1] = begin, left
            span[nodes + 1, 0], span[nodes + 1, 1] = left, end
            nodes += 2
        at += 1
    for p in range(n):
        g = groups[p]
        tree.total[p], tree.size[p] = total[g], size[g]
        for j in range(m):
            tree.low[p, j], tree.high[p, j], tree.loss[p, j] = low[g, j], high[g, j], loss[g, j]


@inner(error_model="numpy", forceinline=True)
def bound_increase(node, low, high, loss, more, tree, losses):
    """A lower bound of the increase over the groups below a node."""
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    hull_low, hull_high, largest_loss = tree.hull_low, tree.hull_high, tree.largest_loss
    nearest, growth = 0.0, 0.0
    for j in range(low.shape[0]):
        if hull_high[node, j] < low[j]:
            term = interval_cost(j, hull_high[node, j], high[j], pairs, begin, loss_tables)
        elif hull_low[node, j] > high[j]:
            term = interval_cost(j, low[j], hull_low[node, j], pairs, begin, loss_tables)
        else:
            term = loss[j]
        nearest += term
        if term > largest_loss[node, j]:
            growth += term - largest_loss[node, j]
    return more * max(nearest, tree.least_total[node] + growth) + tree.least_size[node] * growth


@inner(error_model="numpy")
def find_cheapest_groups(low, high, loss, more, own, limit, found, want, most, tree, losses, nearest):
    """Find the groups with the least increase below ``limit`` for ``more`` records with this box; return their number.

    ``found`` groups are already in ``nearest``. At most ``want`` groups are kept. Group ``own`` and groups that would have more
    than ``most`` records are left out. ``loss`` is the loss of the box by attribute.
    """
    pairs, begin, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    attribute_order, near_group, near_increase = losses.attribute_order, nearest.group, nearest.increase
    span, child = tree.span, tree.child
    group, box_low, box_high, box_loss, total, size = tree.group, tree.low, tree.high, tree.loss, tree.total, tree.size
    stack, bound = nearest.stack, nearest.bound
    m = low.shape[0]
    if group.shape[0] == 0:
        return found
    if found == want:
        limit = min(limit, near_increase[want - 1])
    stack[0], bound[0] = 0, 0.0
    top = 1
    while top > 0:
        top -= 1
        if bound[top] >= limit:
            continue
        node = np.int64(stack[top])
        if child[node] >= 0:
            left = np.int64(child[node])
            one = bound_increase(left, low, high, loss, more, tree, losses)
            other = bound_increase(left + 1, low, high, loss, more, tree, losses)
            if one <= other:
                stack[top], bound[top] = left + 1, other
                stack[top + 1], bound[top + 1] = left, one
            else:
                stack[top], bound[top] = left, one
                stack[top + 1], bound[top + 1] = left + 1, other
            top += 2
            continue
        for p in range(span[node, 0], span[node, 1]):
            increase = more * total[p]
            if increase >= limit or group[p] == own or size[p] + more > most:
                continue
            grown = size[p] + more
            for t in range(m):
                j = attribute_order[t]
                lo, hi = box_low[p, j], box_high[p, j]
                if low[j] < lo or high[j] > hi:
                    with_it = interval_cost(j, min(lo, low[j]), max(hi, high[j]), pairs, begin, loss_tables)
                    increase += grown * (with_it - box_loss[p, j])
                    if increase >= limit:
                        break
            if increase < limit:
                at = min(found, want - 1)
                while at > 0 and near_increase[at - 1] > increase:
                    near_increase[at], near_group[at] = near_increase[at - 1], near_group[at - 1]
                    at -= 1
                near_increase[at], near_group[at] = increase, group[p]
                found = min(found + 1, want)
                if found == want:
                    limit = near_increase[want - 1]
    return found
