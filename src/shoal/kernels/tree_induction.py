"""Induction of a decision tree whose spans meet a requirement: Algorithm 1 of Friedman, Wolff and Schuster (section 5.1).

All leaves wait in one queue, ordered by the score of their best allowed split. A split by a public attribute divides every span
that contains the leaf; a split by a private attribute adds its children to these spans. A leaf whose spans changed since its
evaluation is evaluated again, because a split that was allowed may now leave a span that fails. Spans only become smaller, so a
split that failed once is not tried again.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import (
    CUT,
    ENTROPY_GAIN,
    GAIN_RATIO,
    GINI,
    LEAST_GAIN,
    LOW,
    NONE64,
    ONE64,
    ZERO64,
    InductionNodes,
)
from shoal.kernels.limits import rules_hold

BITS = 50  # the entropy of all records has about this many bits in its unit, so that sums are exact
TABLE = 4  # an attribute with more codes than this number per row is sorted instead of counted


class CodeCounts(NamedTuple):
    """The records of a leaf by the codes that it has, ascending: by class, and all classes together."""

    code: NDArray[Any]
    classes: NDArray[Any]
    total: NDArray[Any]


class Split(NamedTuple):
    """A split of a leaf: attribute (-1: none), level of the taxonomy (CUT: numbers up to the code ``at``), score."""

    attribute: int
    level: int
    at: int
    score: float


class SpanTable(NamedTuple):
    """The spans of all attackers, and the links of spans and leaves.

    Span s belongs to ``attacker[s]`` and has the rows ``row[begin[s]:end[s]]``. Its first link is ``first[s]``; link e names
    ``leaf[e]`` and continues with ``next[e]``. The links of leaf l are ``of_first[l]``, ``of_span`` and ``of_next``. ``used``
    has the numbers of spans, of links of spans, and of links of leaves.
    """

    row: NDArray[Any]
    attacker: NDArray[Any]
    begin: NDArray[Any]
    end: NDArray[Any]
    first: NDArray[Any]
    leaf: NDArray[Any]
    next: NDArray[Any]
    of_first: NDArray[Any]
    of_span: NDArray[Any]
    of_next: NDArray[Any]
    used: NDArray[Any]


@inner
def extend(array, size):
    """A copy of an array with room for at least so many entries, or the array itself."""
    if size <= array.shape[0]:
        return array
    longer = np.empty(max(size, 2 * array.shape[0]), array.dtype)
    for i in range(array.shape[0]):
        longer[i] = array[i]
    return longer


@inner
def extend_rows(array, size):
    """A copy of a matrix with room for at least so many rows, or the matrix itself."""
    if size <= array.shape[0]:
        return array
    longer = np.empty((max(size, 2 * array.shape[0]), array.shape[1]), array.dtype)
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            longer[i, j] = array[i, j]
    return longer


@inner(forceinline=True)
def x_log2_x(x, unit):
    """x log2 x of a count, rounded to a multiple of the unit."""
    return np.rint(x * np.log2(x) * unit) if x > 1 else 0.0


@inner
def rate_classes(classes, total, criterion, unit):
    """The impurity of some records by their classes, times the number of records: entropy or Gini index."""
    found = 0.0
    if total <= 1:
        return found
    if criterion == GINI:
        for c in range(classes.shape[0]):
            found += np.float64(classes[c]) * np.float64(classes[c]) / total
        return total - found
    for c in range(classes.shape[0]):
        found += x_log2_x(classes[c], unit)
    return x_log2_x(total, unit) - found


@inner
def tabulate_codes(rows, leaf_rows, a, low, width, table):
    """Count the records of a leaf by code and class in a table with an entry for every code and class."""
    class_count = rows.class_count
    for i in range(width * class_count):
        table[i] = 0
    for i in range(leaf_rows.shape[0]):
        r = leaf_rows[i]
        table[(rows.codes[r, a] - low) * class_count + rows.classes[r]] += rows.records[r]
    code = np.empty(min(width, leaf_rows.shape[0]), np.int64)
    present = ZERO64
    for v in range(width):
        for c in range(class_count):
            if table[v * class_count + c] > 0:
                code[present] = low + v
                present += 1
                break
    by_class, total = np.empty((present, class_count), np.int64), np.zeros(present, np.int64)
    for p in range(present):
        for c in range(class_count):
            by_class[p, c] = table[(code[p] - low) * class_count + c]
            total[p] += by_class[p, c]
    return CodeCounts(code[:present], by_class, total)


@inner
def sort_codes(rows, leaf_rows, a):
    """Count the records of a leaf by code and class by sorting its rows."""
    n = leaf_rows.shape[0]
    key = np.empty(n, np.int64)
    for i in range(n):
        key[i] = (np.int64(rows.codes[leaf_rows[i], a]) << 32) | i
    key.sort()
    code = np.empty(n, np.int64)
    present = ZERO64
    for i in range(n):
        if i == 0 or key[i] >> 32 != key[i - 1] >> 32:
            code[present] = key[i] >> 32
            present += 1
    by_class, total = np.zeros((present, rows.class_count), np.int64), np.zeros(present, np.int64)
    p = ZERO64
    for i in range(n):
        if key[i] >> 32 != code[p]:
            p += 1
        r = leaf_rows[key[i] & LOW]
        by_class[p, rows.classes[r]] += rows.records[r]
        total[p] += rows.records[r]
    return CodeCounts(code[:present], by_class, total)


@inner
def find_cut(position, first, one, other):
    """The last code with a value up to the middle of the values of two codes, at least the first of the two."""
    if np.isinf(position[first + other]):  # a missing value
        return other - 1
    middle = position[first + one] + (position[first + other] - position[first + one]) / 2.0
    low, high = one, other - 1
    while low < high:
        code = (low + high + 1) // 2
        if position[first + code] <= middle:
            low = code
        else:
            high = code - 1
    return low


@inner(forceinline=True)
def block_of(choices, attribute, level, at, code):
    """The first code of the block of a code in a split. A cut has two blocks, 0 and 1."""
    if level == CUT:
        return np.int64(code > at)
    return np.int64(choices.block[choices.first_block[attribute] + level * choices.size[attribute] + code])


@inner
def rows_hold(rows, chosen, attackers, b, histogram):
    """Whether the rows of one span meet the requirement against attacker b; ``histogram`` is empty if only sizes count."""
    total, least = ZERO64, attackers.least[b]
    for i in range(chosen.shape[0]):
        total += rows.votes[chosen[i]]
    if total < least or histogram.shape[0] == 0:
        return total >= least
    for i in range(histogram.shape[0]):
        histogram[i] = 0
    for i in range(chosen.shape[0]):
        r = chosen[i]
        for j in range(rows.offset.shape[0]):
            histogram[rows.offset[j] + rows.sensitive[r, j]] += rows.votes[r]
    return rules_hold(total, histogram, attackers.rules, attackers.first_term[b], attackers.first_term[b + 1])


@inner
def mark_children(counts, choices, split, child_of_block):
    """Number the blocks of a split that have records from 1 on, and return their number; all other blocks have number 0."""
    children, before = ZERO64, NONE64
    for p in range(counts.code.shape[0]):
        block = block_of(choices, split.attribute, split.level, split.at, counts.code[p])
        if block != before:
            children += 1
            child_of_block[block] = children
            before = block
    return children


@inner
def unmark_children(counts, choices, split, child_of_block):
    """Remove the numbers of `mark_children`."""
    for p in range(counts.code.shape[0]):
        child_of_block[block_of(choices, split.attribute, split.level, split.at, counts.code[p])] = 0


@inner
def sort_by_child(rows, chosen, choices, split, child_of_block, children, order):
    """Sort rows by the number of their block in ``order``; return the start of every number from 0 to ``children``."""
    start = np.zeros(children + 2, np.int64)
    a, level, at = split.attribute, split.level, split.at
    for i in range(chosen.shape[0]):
        start[child_of_block[block_of(choices, a, level, at, rows.codes[chosen[i], a])] + 1] += 1
    for c in range(children + 1):
        start[c + 1] += start[c]
    place = start.copy()
    for i in range(chosen.shape[0]):
        child = child_of_block[block_of(choices, a, level, at, rows.codes[chosen[i], a])]
        order[place[child]] = chosen[i]
        place[child] += 1
    return start


@inner
def is_single(spans, s, attackers):
    """Whether a span is a single cell: one leaf, in which the attacker knows the class."""
    return attackers.knows_class[spans.attacker[s]] and spans.next[spans.first[s]] < 0


@inner
def blocks_hold(counts, choices, split, least):
    """Whether every block of a split has enough records, where the leaf is the only cell of its only span."""
    total, before = ZERO64, NONE64
    for p in range(counts.code.shape[0]):
        block = block_of(choices, split.attribute, split.level, split.at, counts.code[p])
        if block != before and before >= 0:
            if total < least:
                return False
            total = ZERO64
        total += counts.total[p]
        before = block
    return total >= least


@inner
def is_whole_span(spans, leaf, size):
    """Whether a leaf of so many rows is the only leaf of its only span, which then has the same rows."""
    e = spans.of_first[leaf]
    s = spans.of_span[e]
    return spans.of_next[e] < 0 and spans.next[spans.first[s]] < 0 and spans.end[s] - spans.begin[s] == size


@inner
def divided_span_holds(rows, own, split, children, choices, attackers, b, scratch):
    """Whether every part of a span meets the requirement if a split divides the span."""
    start = sort_by_child(rows, own, choices, split, scratch.child_of_block, children, scratch.order)
    for c in range(children + 1):
        part = scratch.order[start[c] : start[c + 1]]
        if part.shape[0] > 0 and not rows_hold(rows, part, attackers, b, scratch.histogram):
            return False
    return True


@inner
def split_holds(rows, size, spans, leaf, split, counts, choices, attackers, scratch):
    """Whether all spans meet the requirement after a split of a leaf of so many rows."""
    if attackers.size_only and is_whole_span(spans, leaf, size):
        s = spans.of_span[spans.of_first[leaf]]
        b = spans.attacker[s]
        if attackers.public[b, split.attribute]:
            if attackers.spare_single and is_single(spans, s, attackers):
                return True
            return blocks_hold(counts, choices, split, attackers.least[b])
    children = mark_children(counts, choices, split, scratch.child_of_block)
    e, passed = spans.of_first[leaf], True
    while e >= 0 and passed:
        s = spans.of_span[e]
        e = spans.of_next[e]
        b, spared = spans.attacker[s], attackers.spare_single and is_single(spans, s, attackers)
        own = spans.row[spans.begin[s] : spans.end[s]]
        if not attackers.public[b, split.attribute]:
            if spared:  # the span gets several cells
                passed = rows_hold(rows, own, attackers, b, scratch.histogram)
        elif not spared:
            passed = divided_span_holds(rows, own, split, children, choices, attackers, b, scratch)
    unmark_children(counts, choices, split, scratch.child_of_block)
    return passed


@inner
def rate_level(counts, choices, a, level, impurity, records, criterion, unit):
    """The gain and the score of a split at a level, and its number of blocks."""
    class_count = counts.classes.shape[1]
    side = np.zeros(class_count, np.int64)
    total, blocks, after, spread, before = ZERO64, ZERO64, 0.0, 0.0, NONE64
    for p in range(counts.code.shape[0]):
        block = block_of(choices, a, level, ZERO64, counts.code[p])
        if block != before:
            after += rate_classes(side, total, criterion, unit)
            spread += x_log2_x(total, unit)
            blocks += 1
            before = block
            total = ZERO64
            for c in range(class_count):
                side[c] = 0
        total += counts.total[p]
        for c in range(class_count):
            side[c] += counts.classes[p, c]
    gain = impurity - after - rate_classes(side, total, criterion, unit)
    return gain, scale_gain(gain, records, spread + x_log2_x(total, unit), criterion, unit), blocks


@inner(forceinline=True)
def scale_gain(gain, records, spread, criterion, unit):
    """The score of a gain: for the gain ratio relative to the entropy of the split itself, times records."""
    if criterion != GAIN_RATIO:
        return gain
    entropy = x_log2_x(records, unit) - spread
    return records * gain / entropy if entropy > 0.0 else 0.0


@inner(forceinline=True)
def find_slack(records, criterion, unit):
    """The least gain that is no rounding, and the least difference of two scores."""
    slack = LEAST_GAIN * records
    return slack * (1.0 if criterion == GINI else unit), slack * (unit if criterion == ENTROPY_GAIN else 1.0)


@inner
def search_cuts(rows, size, spans, leaf, counts, a, best, records, impurity, choices, attackers, scratch):
    """The best allowed cut of a number, if its score is above ``best``."""
    criterion, unit, class_count = rows.criterion, rows.unit, rows.class_count
    least_gain, slack = find_slack(records, criterion, unit)
    left, right = np.zeros(class_count, np.int64), np.zeros(class_count, np.int64)
    for p in range(counts.code.shape[0]):
        for c in range(class_count):
            right[c] += counts.classes[p, c]
    below = ZERO64
    for p in range(counts.code.shape[0] - 1):
        for c in range(class_count):
            left[c] += counts.classes[p, c]
            right[c] -= counts.classes[p, c]
        below += counts.total[p]
        above = records - below
        gain = impurity - rate_classes(left, below, criterion, unit) - rate_classes(right, above, criterion, unit)
        if gain <= least_gain:
            continue
        score = scale_gain(gain, records, x_log2_x(below, unit) + x_log2_x(above, unit), criterion, unit)
        if score > best.score + slack:
            at = find_cut(choices.position, choices.first_position[a], counts.code[p], counts.code[p + 1])
            split = Split(a, CUT, at, score)
            if split_holds(rows, size, spans, leaf, split, counts, choices, attackers, scratch):
                best = split
    return best


@inner
def find_split(rows, leaf_rows, nodes, leaf, spans, choices, attackers, scratch):
    """The best allowed split of a leaf. Ties: the earlier attribute, then the higher level, then the smaller cut."""
    criterion, unit, size = rows.criterion, rows.unit, leaf_rows.shape[0]
    best = Split(NONE64, CUT, ZERO64, 0.0)
    records = ZERO64
    for c in range(rows.class_count):
        records += nodes.classes[leaf, c]
    impurity = rate_classes(nodes.classes[leaf], records, criterion, unit)
    least_gain, slack = find_slack(records, criterion, unit)
    if impurity <= least_gain:
        return best
    for column in range(choices.size.shape[0]):
        a = np.int64(column)
        low, width = np.int64(nodes.lo[leaf, a]), np.int64(nodes.hi[leaf, a]) - nodes.lo[leaf, a] + 1
        if width < 2:
            continue
        if width <= TABLE * size + 64:
            counts = tabulate_codes(rows, leaf_rows, a, low, width, scratch.table)
        else:
            counts = sort_codes(rows, leaf_rows, a)
        if choices.levels[a] == 0:
            best = search_cuts(rows, size, spans, leaf, counts, a, best, records, impurity, choices, attackers, scratch)
            continue
        blocks_before = np.int64(1)
        for step in range(choices.levels[a]):
            level = np.int64(step)
            gain, score, blocks = rate_level(counts, choices, a, level, impurity, records, criterion, unit)
            if blocks == blocks_before:  # the same split as the level above
                continue
            blocks_before = blocks
            split = Split(a, level, ZERO64, score)
            if gain <= least_gain or score <= best.score + slack:
                continue
            if split_holds(rows, size, spans, leaf, split, counts, choices, attackers, scratch):
                best = split
    return best


@inner
def has_other_blocks(nodes, leaf, choices, split, children):
    """Whether a leaf's region has blocks without records."""
    if split.level == CUT:
        return False
    a, code, blocks = split.attribute, np.int64(nodes.lo[leaf, split.attribute]), ZERO64
    while code <= nodes.hi[leaf, a]:
        code = np.int64(choices.last[choices.first_block[a] + split.level * choices.size[a] + code]) + 1
        blocks += 1
    return blocks > children


@inner
def extend_nodes(nodes, size):
    """The nodes with room for at least so many."""
    return InductionNodes(
        extend(nodes.attribute, size),
        extend(nodes.level, size),
        extend(nodes.at, size),
        extend(nodes.first_child, size),
        extend(nodes.children, size),
        extend(nodes.has_other, size),
        extend(nodes.depth, size),
        extend(nodes.begin, size),
        extend(nodes.end, size),
        extend_rows(nodes.lo, size),
        extend_rows(nodes.hi, size),
        extend_rows(nodes.classes, size),
    )


@inner
def add_node(nodes, new, parent, begin, end):
    """Set the facts of a new leaf: those of its parent, without records."""
    nodes.attribute[new], nodes.level[new], nodes.at[new] = -1, CUT, 0
    nodes.first_child[new], nodes.children[new], nodes.has_other[new] = -1, 0, False
    nodes.depth[new], nodes.begin[new], nodes.end[new] = nodes.depth[parent] + 1, begin, end
    for j in range(nodes.lo.shape[1]):
        nodes.lo[new, j], nodes.hi[new, j] = nodes.lo[parent, j], nodes.hi[parent, j]
    for c in range(nodes.classes.shape[1]):
        nodes.classes[new, c] = 0


@inner
def add_children(rows, order, nodes, first, leaf, split, children, choices, scratch):
    """Turn a leaf into a node with children, numbered from ``first`` on; the rows of the leaf are sorted by child.

    After the children of the blocks with records comes one leaf for all other blocks, if there are any. Nobody is in it.
    """
    a, begin, end = split.attribute, nodes.begin[leaf], nodes.end[leaf]
    start = sort_by_child(rows, order[begin:end], choices, split, scratch.child_of_block, children, scratch.order)
    for i in range(end - begin):
        order[begin + i] = scratch.order[i]
    other = has_other_blocks(nodes, leaf, choices, split, children)
    nodes.attribute[leaf], nodes.level[leaf], nodes.at[leaf] = a, split.level, split.at
    nodes.first_child[leaf], nodes.children[leaf], nodes.has_other[leaf] = first, children + other, other
    for child in range(children):
        new = first + child
        add_node(nodes, new, leaf, begin + start[child + 1], begin + start[child + 2])
        code = np.int64(rows.codes[order[nodes.begin[new]], a])
        if split.level == CUT:
            if child == 0:
                nodes.hi[new, a] = split.at
            else:
                nodes.lo[new, a] = split.at + 1
        else:
            place = choices.first_block[a] + split.level * choices.size[a] + code
            nodes.lo[new, a], nodes.hi[new, a] = choices.block[place], choices.last[place]
        for i in range(nodes.begin[new], nodes.end[new]):
            nodes.classes[new, rows.classes[order[i]]] += rows.records[order[i]]
    if other:
        add_node(nodes, first + children, leaf, end, end)


@inner
def extend_spans(spans, more_spans, more_links, more_of_links, leaves):
    """The spans with room for more spans and links."""
    used = spans.used
    return SpanTable(
        spans.row,
        extend(spans.attacker, used[0] + more_spans),
        extend(spans.begin, used[0] + more_spans),
        extend(spans.end, used[0] + more_spans),
        extend(spans.first, used[0] + more_spans),
        extend(spans.leaf, used[1] + more_links),
        extend(spans.next, used[1] + more_links),
        extend(spans.of_first, leaves),
        extend(spans.of_span, used[2] + more_of_links),
        extend(spans.of_next, used[2] + more_of_links),
        used,
    )


@inner
def link_leaf(spans, s, leaf):
    """Add a leaf to a span; there is room for the link."""
    e = spans.used[1]
    spans.leaf[e], spans.next[e], spans.first[s] = leaf, spans.first[s], e
    spans.used[1] += 1


@inner
def link_span(spans, leaf, s):
    """Add a span to the spans of a leaf; there is room for the link."""
    e = spans.used[2]
    spans.of_span[e], spans.of_next[e], spans.of_first[leaf] = s, spans.of_first[leaf], e
    spans.used[2] += 1


@inner
def count_links(first, next):
    """The length of a list of links."""
    e, length = first, ZERO64
    while e >= 0:
        e = next[e]
        length += 1
    return length


@inner
def replace_leaf(spans, s, leaf, new):
    """Replace a leaf of a span by another."""
    e = spans.first[s]
    while spans.leaf[e] != leaf:
        e = spans.next[e]
    spans.leaf[e] = new
    link_span(spans, new, s)


@inner
def divide_span(rows, spans, s, leaf, first, split, children, choices, scratch, stale):
    """Divide a span by a public split of one of its leaves; the other leaves of the span belong to every part."""
    begin, end = spans.begin[s], spans.end[s]
    start = sort_by_child(rows, spans.row[begin:end], choices, split, scratch.child_of_block, children, scratch.order)
    for i in range(end - begin):
        spans.row[begin + i] = scratch.order[i]
    leaves, own = count_links(spans.first[s], spans.next), NONE64
    for c in range(children + 1):
        if start[c] == start[c + 1]:
            continue
        new_leaf = first + (c - 1 if c > 0 else children)  # the leaf of other blocks is the last
        if own < 0:
            own = new_leaf
            spans.begin[s], spans.end[s] = begin + start[c], begin + start[c + 1]
            continue
        spans = extend_spans(spans, ONE64, leaves, leaves, ZERO64)
        t = spans.used[0]
        spans.used[0] += 1
        spans.attacker[t], spans.first[t] = spans.attacker[s], -1
        spans.begin[t], spans.end[t] = begin + start[c], begin + start[c + 1]
        e = spans.first[s]
        while e >= 0:
            other = spans.leaf[e]
            link_leaf(spans, t, new_leaf if other == leaf else other)
            link_span(spans, new_leaf if other == leaf else other, t)
            if other != leaf:
                stale[other] = True
            e = spans.next[e]
    spans = extend_spans(spans, ZERO64, ZERO64, ONE64, ZERO64)
    replace_leaf(spans, s, leaf, own)
    return spans


@inner
def update_spans(rows, spans, leaf, first, made, split, children, choices, attackers, scratch, stale):
    """Update the spans of a leaf that was split into ``made`` leaves, numbered from ``first`` on."""
    spans = extend_spans(spans, ZERO64, ZERO64, ZERO64, first + made)
    for new in range(first, first + made):
        spans.of_first[new] = -1
    own = np.empty(count_links(spans.of_first[leaf], spans.of_next), np.int64)
    e = spans.of_first[leaf]
    for i in range(own.shape[0]):
        own[i] = spans.of_span[e]
        e = spans.of_next[e]
    for i in range(own.shape[0]):
        s = own[i]
        if attackers.public[spans.attacker[s], split.attribute]:
            spans = divide_span(rows, spans, s, leaf, first, split, children, choices, scratch, stale)
            continue
        spans = extend_spans(spans, ZERO64, made, made, ZERO64)
        replace_leaf(spans, s, leaf, first)
        for new in range(first + 1, first + made):
            link_leaf(spans, s, new)
            link_span(spans, new, s)
    return spans


@inner
def count_leaf(rows, order, nodes, leaf, a, scratch):
    """Count the records of a leaf by the codes of an attribute."""
    leaf_rows = order[nodes.begin[leaf] : nodes.end[leaf]]
    low, width = np.int64(nodes.lo[leaf, a]), np.int64(nodes.hi[leaf, a]) - nodes.lo[leaf, a] + 1
    if width <= TABLE * leaf_rows.shape[0] + 64:
        return tabulate_codes(rows, leaf_rows, a, low, width, scratch.table)
    return sort_codes(rows, leaf_rows, a)


@entry
def grow(rows, nodes, spans, choices, attackers, scratch, max_leaves, max_depth, done):
    """Grow a tree from its root; return the nodes, their number, the rows in the order of leaves, and the spans.

    ``done`` is increased by the records of leaves that will not be split.
    """
    order = np.arange(rows.codes.shape[0])
    used, leaves = np.int64(1), np.int64(1)
    best_attribute, best_level = np.full(1, -1, np.int64), np.zeros(1, np.int64)
    best_at, best_score, stale = np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.bool_)
    queue = [(0.0, NONE64, ZERO64)]  # score with the smallest first, attribute, leaf
    stale[0] = True
    while len(queue) > 0 and leaves < max_leaves:
        _, _, leaf = heappop(queue)
        leaf_rows = order[nodes.begin[leaf] : nodes.end[leaf]]
        if stale[leaf]:
            stale[leaf] = False
            split = find_split(rows, leaf_rows, nodes, leaf, spans, choices, attackers, scratch)
            best_attribute[leaf], best_level[leaf] = split.attribute, split.level
            best_at[leaf], best_score[leaf] = split.at, split.score
            if split.attribute >= 0:
                heappush(queue, (-split.score, split.attribute, leaf))
            else:
                done[0] += leaf_rows.shape[0]
            continue
        split = Split(best_attribute[leaf], best_level[leaf], best_at[leaf], best_score[leaf])
        counts = count_leaf(rows, order, nodes, leaf, split.attribute, scratch)
        children = mark_children(counts, choices, split, scratch.child_of_block)
        nodes, first = extend_nodes(nodes, used + children + 1), used
        add_children(rows, order, nodes, first, leaf, split, children, choices, scratch)
        made = np.int64(nodes.children[leaf])
        used += made
        best_attribute, best_level = extend(best_attribute, used), extend(best_level, used)
        best_at, best_score, stale = extend(best_at, used), extend(best_score, used), extend(stale, used)
        spans = update_spans(rows, spans, leaf, first, made, split, children, choices, attackers, scratch, stale)
        unmark_children(counts, choices, split, scratch.child_of_block)
        leaves += made - 1
        for new in range(first, used):
            stale[new] = True
            if nodes.end[new] > nodes.begin[new]:
                if nodes.depth[new] < max_depth:
                    heappush(queue, (-np.inf, NONE64, np.int64(new)))
                else:
                    done[0] += nodes.end[new] - nodes.begin[new]
    return nodes, used, order, spans


@entry
def root_holds(rows, spans, attackers, scratch):
    """Whether the spans of a tree without splits meet the requirement."""
    for s in range(spans.used[0]):
        if attackers.spare_single and is_single(spans, s, attackers):
            continue
        b, own = spans.attacker[s], spans.row[spans.begin[s] : spans.end[s]]
        if not rows_hold(rows, own, attackers, b, scratch.histogram):
            return False
    return True
