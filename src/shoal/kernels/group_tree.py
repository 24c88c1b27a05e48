"""A tree of the boxes of groups: the groups whose loss grows least if records join them.

The increase of a group's loss by ``more`` records is (s + more) x D(with them) - s x D, where s is the size of the group and D
the weighted loss of its box, summed over the attributes. A node keeps the hull of the boxes below it, their largest loss by
attribute, their least size and their least D. With l the loss from the query to the nearest code of the hull, and u the sum
of max(0, l - largest loss), the increase is at least more x max(least D + u, sum of l) + least size x u.

The tree is read-only: a search builds it again after groups have changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.boxes import weighted_loss
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import HEAD, LARGEST_CODE, SIZE, LossArrays

LEAF = 6  # nodes with up to this many groups are leaves
SAMPLE = 32  # groups that determine the cut of a node
TABULATED = 256  # attributes with up to this many codes have a table of the losses of all intervals


class Losses(NamedTuple):
    """The losses of all intervals of attributes with few codes, and where each attribute's losses begin (-1: no table).

    ``loss_tables`` serve the other attributes. ``attribute_order``: attributes that separate groups best are compared first.
    """

    pairs: NDArray[Any]
    begin: NDArray[Any]
    loss_tables: LossArrays
    attribute_order: NDArray[Any]


class GroupTree(NamedTuple):
    """By node: first and last place, left child (the right child follows; -1: a leaf), hull, largest loss, least size, least D.

    By place: group, box, loss by attribute, D, size. A tree without groups has no nodes.
    """

    span: NDArray[Any]
    child: NDArray[Any]
    hull_low: NDArray[Any]
    hull_high: NDArray[Any]
    largest_loss: NDArray[Any]
    least_size: NDArray[Any]
    least_total: NDArray[Any]
    group: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    loss: NDArray[Any]
    total: NDArray[Any]
    size: NDArray[Any]


class Nearest(NamedTuple):
    """Work arrays of a search, and its result: groups and increases, cheapest first."""

    stack: NDArray[Any]
    bound: NDArray[Any]
    group: NDArray[Any]
    increase: NDArray[Any]


@entry(error_model="numpy")
def tabulate_losses(loss_tables):
    """The loss of every interval of the attributes with few codes, and the start of each attribute (-1: no table)."""
    ints, m = loss_tables.ints, loss_tables.weight.shape[0]
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


@inner(error_model="numpy", forceinline=True)
def interval_cost(j, lo, hi, pairs, begin, loss_tables):
    """The weighted loss of an interval."""
    if begin[j] >= 0:
        return pairs[begin[j] + np.int64(lo) * loss_tables.ints[HEAD * j + SIZE] + hi]
    return weighted_loss(j, lo, hi, loss_tables)


@inner(error_model="numpy")
def choose_cut(groups, begin, end, low, high, losses):
    """The attribute and the sum of a box's ends whose cut gives two hulls with the least loss, judged by a sample; -1: none."""
    pairs, starts, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    m = low.shape[1]
    step = max(1, (end - begin) // SAMPLE)
    n = (end - begin + step - 1) // step
    key = np.empty(n, np.int64)
    hull = np.empty((2, 2, m), np.int32)
    best, chosen, at = np.inf, -1, np.int64(0)
    for a in range(m):
        for i in range(n):
            g = groups[begin + i * step]
            key[i] = np.int64(low[g, a]) + high[g, a]
        ordered = np.sort(key)
        if ordered[0] == ordered[-1]:
            continue
        middle = ordered[(n - 1) // 2]
        if middle == ordered[-1]:  # the largest smaller one
            middle = ordered[np.searchsorted(ordered, middle) - 1]
        hull[:, 0], hull[:, 1] = LARGEST_CODE, -1
        count = 0
        for i in range(n):
            g = groups[begin + i * step]
            side = 1 if key[i] > middle else 0
            count += side
            for j in range(m):
                hull[side, 0, j] = min(hull[side, 0, j], low[g, j])
                hull[side, 1, j] = max(hull[side, 1, j], high[g, j])
        loss = 0.0
        for j in range(m):
            loss += (n - count) * interval_cost(j, hull[0, 0, j], hull[0, 1, j], pairs, starts, loss_tables)
            loss += count * interval_cost(j, hull[1, 0, j], hull[1, 1, j], pairs, starts, loss_tables)
        if loss < best:
            best, chosen, at = loss, a, middle
    return chosen, at


@entry(error_model="numpy")
def build_tree(groups, low, high, loss, total, size, losses):
    """Build the tree of the given groups; the other arrays are by group."""
    n, m = groups.shape[0], low.shape[1]
    groups = groups.copy()
    spare = np.empty(n, groups.dtype)
    room = max(2 * n, 1)
    span = np.empty((room, 2), np.int32)
    child = np.full(room, -1, np.int32)
    hull_low, hull_high = np.full((room, m), LARGEST_CODE, np.int32), np.full((room, m), -1, np.int32)
    largest_loss = np.zeros((room, m))
    least_size, least_total = np.full(room, np.inf), np.full(room, np.inf)
    nodes = 0
    if n > 0:
        span[0, 0], span[0, 1] = 0, n
        nodes = 1
    at = 0
    while at < nodes:
        begin, end = span[at]
        for p in range(begin, end):
            g = groups[p]
            least_size[at], least_total[at] = min(least_size[at], size[g]), min(least_total[at], total[g])
            for j in range(m):
                hull_low[at, j], hull_high[at, j] = min(hull_low[at, j], low[g, j]), max(hull_high[at, j], high[g, j])
                largest_loss[at, j] = max(largest_loss[at, j], loss[g, j])
        if end - begin > LEAF:
            a, middle = choose_cut(groups, begin, end, low, high, losses)
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
    return GroupTree(
        span[:nodes],
        child[:nodes],
        hull_low[:nodes],
        hull_high[:nodes],
        largest_loss[:nodes],
        least_size[:nodes],
        least_total[:nodes],
        groups,
        low[groups],
        high[groups],
        loss[groups],
        total[groups],
        size[groups],
    )


@inner(error_model="numpy")
def allocate_nearest(nodes, want):
    """Allocate the work arrays of a search for up to ``want`` groups in trees of up to so many nodes."""
    return Nearest(np.empty(nodes + 2, np.int32), np.empty(nodes + 2), np.empty(want, np.int64), np.empty(want))


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
    attribute_order = losses.attribute_order
    span, child = tree.span, tree.child
    group, box_low, box_high, box_loss, total, size = tree.group, tree.low, tree.high, tree.loss, tree.total, tree.size
    stack, bound = nearest.stack, nearest.bound
    m = low.shape[0]
    if child.shape[0] == 0:
        return found
    if found == want:
        limit = min(limit, nearest.increase[want - 1])
    stack[0], bound[0] = 0, 0.0
    top = 1
    while top > 0:
        top -= 1
        if bound[top] >= limit:
            continue
        node = stack[top]
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
                while at > 0 and nearest.increase[at - 1] > increase:
                    nearest.increase[at], nearest.group[at] = nearest.increase[at - 1], nearest.group[at - 1]
                    at -= 1
                nearest.increase[at], nearest.group[at] = increase, group[p]
                found = min(found + 1, want)
                if found == want:
                    limit = nearest.increase[want - 1]
    return found
