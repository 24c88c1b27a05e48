"""Separate rows by the leaves of a tree of thresholds that are possible for them, given their public values.

The tree is walked once. At a public split the rows are divided; at a private split all rows take both ways, as far as a private
value is left that leads there. At every leaf the rows that arrived are separated from those that did not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import ZERO64


class SpanNumbers(NamedTuple):
    """The numbers of the rows so far: equal for rows that arrived at the same leaves; and the number of these leaves.

    ``size`` has the rows of every number. ``arrived``, ``moved`` and ``touched`` are work arrays; ``used`` is the count of
    numbers.
    """

    span: NDArray[Any]
    leaves: NDArray[Any]
    size: NDArray[Any]
    arrived: NDArray[Any]
    moved: NDArray[Any]
    touched: NDArray[Any]
    used: NDArray[Any]


@inner
def separate_at_leaf(rows, numbers):
    """Give the rows that arrived at a leaf numbers of their own, unless all rows of a number arrived."""
    span, size, arrived, moved, touched = numbers.span, numbers.size, numbers.arrived, numbers.moved, numbers.touched
    found = ZERO64
    for i in range(rows.shape[0]):
        numbers.leaves[rows[i]] += 1
        old = span[rows[i]]
        if arrived[old] == 0:
            touched[found] = old
            found += 1
        arrived[old] += 1
    for i in range(rows.shape[0]):
        old = span[rows[i]]
        if arrived[old] < size[old]:
            if moved[old] < 0:
                moved[old] = numbers.used[0]
                size[moved[old]] = arrived[old]
                numbers.used[0] += 1
            span[rows[i]] = moved[old]
    for i in range(found):
        old = touched[i]
        if moved[old] >= 0:
            size[old] -= arrived[old]
        arrived[old] = 0
        moved[old] = -1


@inner
def divide_rows(rows, codes, column, ranks, cut, missing_left):
    """Sort rows so that those that go left come first; return their number."""
    left, right = ZERO64, np.int64(rows.shape[0] - 1)
    while left <= right:
        r = rows[left]
        rank = ranks[codes[r, column]]
        goes_left = missing_left if rank < 0 else rank < cut
        if goes_left:
            left += 1
        else:
            rows[left] = rows[right]
            rows[right] = r
            right -= 1
    return left


@inner
def narrow_ranks(low, high, missing, column, cut, missing_left, is_left):
    """Keep the ranks of a private number that take one way of a split; return whether any value is left."""
    if is_left:
        high[column] = min(high[column], cut)
    else:
        low[column] = max(low[column], cut)
    missing[column] &= missing_left == is_left
    return low[column] < high[column] or missing[column]


@inner
def narrow_codes(possible, begin, end, ranks, cut, missing_left, is_left):
    """Keep the codes of a private column that take one way of a split; return whether any is left."""
    left_over = False
    for p in range(begin, end):
        rank = ranks[p - begin]
        goes_left = missing_left if rank < 0 else rank < cut
        possible[p] &= goes_left == is_left
        left_over |= possible[p]
    return left_over


@entry
def separate(nodes, features, codes, domain, depth, numbers):
    """Walk a tree of at most this depth, and separate all rows by the leaves that are possible for them."""
    n, columns = codes.shape
    rows = np.arange(n)
    frames = depth + 2  # the children that wait, at most one for every level above, and the current node
    node, begin, end = np.zeros(frames, np.int64), np.zeros(frames, np.int64), np.zeros(frames, np.int64)
    low, high = np.zeros((frames, columns), np.int64), np.zeros((frames, columns), np.int64)
    missing = np.zeros((frames, columns), np.bool_)
    possible = np.zeros((frames, domain.possible.shape[0]), np.bool_)
    end[0] = n
    for c in range(columns):
        high[0, c], missing[0, c] = domain.ranks[c], domain.has_missing[c]
    for p in range(domain.possible.shape[0]):
        possible[0, p] = domain.possible[p]
    top = ZERO64
    while top >= 0:
        here, first, last = node[top], begin[top], end[top]
        f = nodes.feature[here]
        if f < 0:
            separate_at_leaf(rows[first:last], numbers)
            top -= 1
            continue
        column, cut, missing_left = features.column[f], nodes.cut[here], nodes.missing_left[here]
        ranks = features.rank[features.start[f] :]
        if domain.public[column]:
            middle = first + divide_rows(rows[first:last], codes, column, ranks, cut, missing_left)
            top = push_public(nodes, here, node, begin, end, low, high, missing, possible, top, first, middle, last)
            continue
        for c in range(columns):
            low[top + 1, c], high[top + 1, c], missing[top + 1, c] = low[top, c], high[top, c], missing[top, c]
        for p in range(possible.shape[1]):
            possible[top + 1, p] = possible[top, p]
        node[top], node[top + 1] = nodes.right[here], nodes.left[here]
        begin[top + 1], end[top + 1] = first, last
        if domain.by_rank[column]:
            right = narrow_ranks(low[top], high[top], missing[top], column, cut, missing_left, False)
            left = narrow_ranks(low[top + 1], high[top + 1], missing[top + 1], column, cut, missing_left, True)
        else:
            first_code, last_code = domain.first[column], domain.first[column + 1]
            right = narrow_codes(possible[top], first_code, last_code, ranks, cut, missing_left, False)
            left = narrow_codes(possible[top + 1], first_code, last_code, ranks, cut, missing_left, True)
        if right and left:
            top += 1
        elif left:
            copy_frame(node, begin, end, low, high, missing, possible, top + 1, top)
        elif not right:
            top -= 1


@inner
def copy_frame(node, begin, end, low, high, missing, possible, source, target):
    """Copy a waiting node with its rows and its private values."""
    node[target], begin[target], end[target] = node[source], begin[source], end[source]
    for c in range(low.shape[1]):
        low[target, c], high[target, c], missing[target, c] = low[source, c], high[source, c], missing[source, c]
    for p in range(possible.shape[1]):
        possible[target, p] = possible[source, p]


@inner
def push_public(nodes, here, node, begin, end, low, high, missing, possible, top, first, middle, last):
    """Let the children of a public split wait, if they have rows; return the place of the last."""
    if middle == first or middle == last:
        node[top] = nodes.right[here] if middle == first else nodes.left[here]
        return top
    copy_frame(node, begin, end, low, high, missing, possible, top, top + 1)
    node[top], begin[top] = nodes.right[here], middle
    node[top + 1], end[top + 1] = nodes.left[here], middle
    return top + 1


@entry
def route_rows(nodes, features, codes):
    """The leaf of every row."""
    leaf = np.zeros(codes.shape[0], np.int64)
    for r in range(codes.shape[0]):
        node = ZERO64
        while nodes.feature[node] >= 0:
            f = nodes.feature[node]
            rank = features.rank[features.start[f] + codes[r, features.column[f]]]
            goes_left = nodes.missing_left[node] if rank < 0 else rank < nodes.cut[node]
            node = nodes.left[node] if goes_left else nodes.right[node]
        leaf[r] = node
    return leaf
