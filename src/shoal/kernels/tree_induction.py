"""Induction of a decision tree whose spans meet a requirement: Algorithm 1 of Friedman, Wolff and Schuster (section 5.1).

All leaves wait in one queue, ordered by the score of their best allowed split. A split by a public attribute divides every span
that contains the leaf; a split by a private attribute adds its children to these spans. A leaf whose spans changed since its
evaluation is evaluated again, because a split that was allowed may now leave a span that fails. Spans only become smaller, so a
split that failed once is not tried again.

``rows`` is `interface.InductionRows`, ``nodes`` `interface.InductionNodes`, ``waiting`` `interface.WaitingLeaves`, ``spans``
`interface.SpanTable`, ``choices`` `interface.SplitChoices`, ``attackers`` `interface.AttackerArrays` and ``scratch``
`interface.InductionScratch`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import (
    CUT,
    ENTROPY_GAIN,
    FINISHED,
    GAIN_RATIO,
    GINI,
    LEAF_COUNT,
    LEAST_GAIN,
    LINK_COUNT,
    NO_ROOM,
    NODE_COUNT,
    NONE64,
    OF_LINK_COUNT,
    QUEUE_COUNT,
    SPAN_COUNT,
    ZERO64,
)
from shoal.kernels.limits import values_hold
from shoal.kernels.order import sort_items

BITS = 50  # the entropy of all records has about this many bits in its unit, so that sums are exact
TABLE = 4  # an attribute with more codes than this number per row is sorted instead of counted


class Split(NamedTuple):
    """A split of a leaf: attribute (-1: none), level of the taxonomy (CUT: numbers up to the code ``at``), score."""

    attribute: int
    level: int
    at: int
    score: float


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
def count_codes(rows, order, nodes, leaf, a, scratch):
    """Count the records of a leaf by code; return the number of its codes.

    ``scratch`` gets the codes, ascending, and the records of each: by class, and of all classes.
    """
    begin, end = nodes.begin[leaf], nodes.end[leaf]
    low, width = np.int64(nodes.lo[leaf, a]), np.int64(nodes.hi[leaf, a]) - nodes.lo[leaf, a] + 1
    if width > TABLE * (end - begin) + 64:
        return sort_codes(rows, order, begin, end, a, scratch)
    codes, class_of, records, class_count = rows.codes, rows.classes, rows.records, rows.class_count
    code, table, total = scratch.code, scratch.classes, scratch.total
    for v in range(width):
        for c in range(class_count):
            table[v, c] = 0
    for i in range(begin, end):
        r = order[i]
        table[codes[r, a] - low, class_of[r]] += records[r]
    present = ZERO64
    for v in range(width):
        size = ZERO64
        for c in range(class_count):
            size += table[v, c]
        if size > 0:
            for c in range(class_count):
                table[present, c] = table[v, c]
            code[present], total[present] = low + v, size
            present += 1
    return present


@inner
def sort_codes(rows, order, begin, end, a, scratch):
    """See `count_codes`: sort the rows of the leaf."""
    codes, class_of, records, class_count = rows.codes, rows.classes, rows.records, rows.class_count
    code, table, total, item, key = scratch.code, scratch.classes, scratch.total, scratch.order, scratch.key
    for i in range(end - begin):
        item[i], key[i] = i, codes[order[begin + i], a]
    sort_items(item, end - begin, key)
    present = ZERO64
    for i in range(end - begin):
        r = order[begin + item[i]]
        if i == 0 or codes[r, a] != code[present - 1]:
            code[present], total[present] = codes[r, a], 0
            for c in range(class_count):
                table[present, c] = 0
            present += 1
        table[present - 1, class_of[r]] += records[r]
        total[present - 1] += records[r]
    return present


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
def rows_hold(rows, chosen, begin, end, attackers, b, histogram):
    """Whether the rows ``chosen[begin:end]`` of one span meet the requirement against attacker b.

    ``histogram`` is empty if only sizes count.
    """
    total, least, votes = ZERO64, attackers.least[b], rows.votes
    for i in range(begin, end):
        total += votes[chosen[i]]
    if total < least or histogram.shape[0] == 0:
        return total >= least
    sensitive, offset = rows.sensitive, rows.offset
    for i in range(histogram.shape[0]):
        histogram[i] = 0
    for i in range(begin, end):
        r = chosen[i]
        for j in range(offset.shape[0]):
            histogram[offset[j] + sensitive[r, j]] += votes[r]
    return values_hold(total, histogram, attackers.rules, attackers.first_term[b], attackers.first_term[b + 1])


@inner
def mark_children(present, choices, split, scratch):
    """Number the blocks of a split that have records from 1 on, and return their number; all other blocks have number 0."""
    code, child_of_block = scratch.code, scratch.child_of_block
    children, before = ZERO64, NONE64
    for p in range(present):
        block = block_of(choices, split.attribute, split.level, split.at, code[p])
        if block != before:
            children += 1
            child_of_block[block] = children
            before = block
    return children


@inner
def unmark_children(present, choices, split, scratch):
    """Remove the numbers of `mark_children`."""
    code, child_of_block = scratch.code, scratch.child_of_block
    for p in range(present):
        child_of_block[block_of(choices, split.attribute, split.level, split.at, code[p])] = 0


@inner
def sort_by_child(rows, chosen, begin, end, choices, split, children, scratch):
    """Sort the rows ``chosen[begin:end]`` by the number of their block in ``scratch.order``.

    ``scratch.start`` gets the start of every number from 0 to ``children``.
    """
    codes, child_of_block, start, place = rows.codes, scratch.child_of_block, scratch.start, scratch.place
    order, a, level, at = scratch.order, split.attribute, split.level, split.at
    for c in range(children + 2):
        start[c] = 0
    for i in range(begin, end):
        start[child_of_block[block_of(choices, a, level, at, codes[chosen[i], a])] + 1] += 1
    for c in range(children + 1):
        place[c] = start[c]
        start[c + 1] += start[c]
    for i in range(begin, end):
        child = child_of_block[block_of(choices, a, level, at, codes[chosen[i], a])]
        order[place[child]] = chosen[i]
        place[child] += 1


@inner
def is_single(spans, s, attackers):
    """Whether a span is a single cell: one leaf, in which the attacker knows the class."""
    return attackers.knows_class[spans.attacker[s]] and spans.next[spans.first[s]] < 0


@inner
def blocks_hold(present, choices, split, least, scratch):
    """Whether every block of a split has enough records, where the leaf is the only cell of its only span."""
    code, records = scratch.code, scratch.total
    total, before = ZERO64, NONE64
    for p in range(present):
        block = block_of(choices, split.attribute, split.level, split.at, code[p])
        if block != before and before >= 0:
            if total < least:
                return False
            total = ZERO64
        total += records[p]
        before = block
    return total >= least


@inner
def is_whole_span(spans, leaf, size):
    """Whether a leaf of so many rows is the only leaf of its only span, which then has the same rows."""
    e = spans.of_first[leaf]
    s = spans.of_span[e]
    return spans.of_next[e] < 0 and spans.next[spans.first[s]] < 0 and spans.end[s] - spans.begin[s] == size


@inner
def divided_span_holds(rows, spans, s, split, children, choices, attackers, scratch):
    """Whether every part of a span meets the requirement if a split divides the span."""
    start, order, histogram, b = scratch.start, scratch.order, scratch.histogram, spans.attacker[s]
    sort_by_child(rows, spans.row, spans.begin[s], spans.end[s], choices, split, children, scratch)
    for c in range(children + 1):
        if start[c + 1] > start[c] and not rows_hold(rows, order, start[c], start[c + 1], attackers, b, histogram):
            return False
    return True


@inner
def split_holds(rows, size, spans, leaf, split, present, choices, attackers, scratch):
    """Whether all spans meet the requirement after a split of a leaf of so many rows."""
    if attackers.size_only and is_whole_span(spans, leaf, size):
        s = spans.of_span[spans.of_first[leaf]]
        b = spans.attacker[s]
        if attackers.public[b, split.attribute]:
            if attackers.spare_single and is_single(spans, s, attackers):
                return True
            return blocks_hold(present, choices, split, attackers.least[b], scratch)
    children = mark_children(present, choices, split, scratch)
    e, passed = spans.of_first[leaf], True
    while e >= 0 and passed:
        s = spans.of_span[e]
        e = spans.of_next[e]
        b, spared = spans.attacker[s], attackers.spare_single and is_single(spans, s, attackers)
        if not attackers.public[b, split.attribute]:
            if spared:  # the span gets several cells
                passed = rows_hold(rows, spans.row, spans.begin[s], spans.end[s], attackers, b, scratch.histogram)
        elif not spared:
            passed = divided_span_holds(rows, spans, s, split, children, choices, attackers, scratch)
    unmark_children(present, choices, split, scratch)
    return passed


@inner
def rate_level(present, choices, a, level, impurity, records, criterion, unit, scratch):
    """The gain and the score of a split at a level, and its number of blocks."""
    code, classes, totals, side = scratch.code, scratch.classes, scratch.total, scratch.side
    class_count = side.shape[0]
    for c in range(class_count):
        side[c] = 0
    total, blocks, after, spread, before = ZERO64, ZERO64, 0.0, 0.0, NONE64
    for p in range(present):
        block = block_of(choices, a, level, ZERO64, code[p])
        if block != before:
            after += rate_classes(side, total, criterion, unit)
            spread += x_log2_x(total, unit)
            blocks += 1
            before = block
            total = ZERO64
            for c in range(class_count):
                side[c] = 0
        total += totals[p]
        for c in range(class_count):
            side[c] += classes[p, c]
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
def search_cuts(rows, size, spans, leaf, present, a, best, records, impurity, choices, attackers, scratch):
    """The best allowed cut of a number, if its score is above ``best``."""
    criterion, unit, class_count = rows.criterion, rows.unit, rows.class_count
    code, classes, totals, left, right = scratch.code, scratch.classes, scratch.total, scratch.side, scratch.other_side
    least_gain, slack = find_slack(records, criterion, unit)
    for c in range(class_count):
        left[c], right[c] = 0, 0
    for p in range(present):
        for c in range(class_count):
            right[c] += classes[p, c]
    below = ZERO64
    for p in range(present - 1):
        for c in range(class_count):
            left[c] += classes[p, c]
            right[c] -= classes[p, c]
        below += totals[p]
        above = records - below
        gain = impurity - rate_classes(left, below, criterion, unit) - rate_classes(right, above, criterion, unit)
        if gain <= least_gain:
            continue
        score = scale_gain(gain, records, x_log2_x(below, unit) + x_log2_x(above, unit), criterion, unit)
        if score > best.score + slack:
            at = find_cut(choices.position, choices.first_position[a], code[p], code[p + 1])
            split = Split(a, CUT, at, score)
            if split_holds(rows, size, spans, leaf, split, present, choices, attackers, scratch):
                best = split
    return best


@inner
def find_split(rows, order, nodes, leaf, spans, choices, attackers, scratch):
    """The best allowed split of a leaf. Ties: the earlier attribute, then the higher level, then the smaller cut."""
    criterion, unit, size = rows.criterion, rows.unit, nodes.end[leaf] - nodes.begin[leaf]
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
        if nodes.lo[leaf, a] == nodes.hi[leaf, a]:
            continue
        present = count_codes(rows, order, nodes, leaf, a, scratch)
        if choices.levels[a] == 0:
            best = search_cuts(
                rows, size, spans, leaf, present, a, best, records, impurity, choices, attackers, scratch
            )
            continue
        blocks_before = np.int64(1)
        for step in range(choices.levels[a]):
            level = np.int64(step)
            gain, score, blocks = rate_level(present, choices, a, level, impurity, records, criterion, unit, scratch)
            if blocks == blocks_before:  # the same split as the level above
                continue
            blocks_before = blocks
            split = Split(a, level, ZERO64, score)
            if gain <= least_gain or score <= best.score + slack:
                continue
            if split_holds(rows, size, spans, leaf, split, present, choices, attackers, scratch):
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
    a, begin, end, start, sorted_rows = (
        split.attribute,
        nodes.begin[leaf],
        nodes.end[leaf],
        scratch.start,
        scratch.order,
    )
    sort_by_child(rows, order, begin, end, choices, split, children, scratch)
    for i in range(end - begin):
        order[begin + i] = sorted_rows[i]
    other = has_other_blocks(nodes, leaf, choices, split, children)
    nodes.attribute[leaf], nodes.level[leaf], nodes.at[leaf] = a, split.level, split.at
    nodes.first_child[leaf], nodes.children[leaf], nodes.has_other[leaf] = first, children + other, other
    for child in range(children):
        new = first + child
        add_node(nodes, new, leaf, begin + start[child + 1], begin + start[child + 2])
        if split.level == CUT:
            if child == 0:
                nodes.hi[new, a] = split.at
            else:
                nodes.lo[new, a] = split.at + 1
        else:
            code = np.int64(rows.codes[order[nodes.begin[new]], a])
            place = choices.first_block[a] + split.level * choices.size[a] + code
            nodes.lo[new, a], nodes.hi[new, a] = choices.block[place], choices.last[place]
        for i in range(nodes.begin[new], nodes.end[new]):
            nodes.classes[new, rows.classes[order[i]]] += rows.records[order[i]]
    if other:
        add_node(nodes, first + children, leaf, end, end)


@inner
def has_room(leaf, split, children, nodes, spans, attackers, counts, needed):
    """Whether there is room for a split of a leaf. If not, ``needed`` gets the numbers of nodes, spans and links to make
    room for.
    """
    more_spans, more_links, more_of_links = ZERO64, ZERO64, ZERO64
    e = spans.of_first[leaf]
    while e >= 0:
        s = spans.of_span[e]
        e = spans.of_next[e]
        if attackers.public[spans.attacker[s], split.attribute]:
            parts = min(children, spans.end[s] - spans.begin[s])
            links = parts * count_links(spans.first[s], spans.next)
            more_spans += parts
            more_links += links
            more_of_links += links + 1
        else:
            more_links += children
            more_of_links += children + 1
    needed[NODE_COUNT] = counts[NODE_COUNT] + children + 1
    needed[SPAN_COUNT] = counts[SPAN_COUNT] + more_spans
    needed[LINK_COUNT] = counts[LINK_COUNT] + more_links
    needed[OF_LINK_COUNT] = counts[OF_LINK_COUNT] + more_of_links
    fits = needed[NODE_COUNT] <= nodes.attribute.shape[0] and needed[SPAN_COUNT] <= spans.begin.shape[0]
    return fits and needed[LINK_COUNT] <= spans.leaf.shape[0] and needed[OF_LINK_COUNT] <= spans.of_span.shape[0]


@inner
def link_leaf(spans, s, leaf, counts):
    """Add a leaf to a span; there is room for the link."""
    e = counts[LINK_COUNT]
    spans.leaf[e], spans.next[e], spans.first[s] = leaf, spans.first[s], e
    counts[LINK_COUNT] += 1


@inner
def link_span(spans, leaf, s, counts):
    """Add a span to the spans of a leaf; there is room for the link."""
    e = counts[OF_LINK_COUNT]
    spans.of_span[e], spans.of_next[e], spans.of_first[leaf] = s, spans.of_first[leaf], e
    counts[OF_LINK_COUNT] += 1


@inner
def count_links(first, next):
    """The length of a list of links."""
    e, length = first, ZERO64
    while e >= 0:
        e = next[e]
        length += 1
    return length


@inner
def replace_leaf(spans, s, leaf, new, counts):
    """Replace a leaf of a span by another."""
    e = spans.first[s]
    while spans.leaf[e] != leaf:
        e = spans.next[e]
    spans.leaf[e] = new
    link_span(spans, new, s, counts)


@inner
def divide_span(rows, spans, s, leaf, first, split, children, choices, scratch, stale, counts):
    """Divide a span by a public split of one of its leaves; the other leaves of the span belong to every part."""
    row, begin, end, start, sorted_rows = spans.row, spans.begin[s], spans.end[s], scratch.start, scratch.order
    sort_by_child(rows, row, begin, end, choices, split, children, scratch)
    for i in range(end - begin):
        row[begin + i] = sorted_rows[i]
    own = NONE64
    for c in range(children + 1):
        if start[c] == start[c + 1]:
            continue
        new_leaf = first + (c - 1 if c > 0 else children)  # the leaf of other blocks is the last
        if own < 0:
            own = new_leaf
            spans.begin[s], spans.end[s] = begin + start[c], begin + start[c + 1]
            continue
        t = counts[SPAN_COUNT]
        counts[SPAN_COUNT] += 1
        spans.attacker[t], spans.first[t] = spans.attacker[s], -1
        spans.begin[t], spans.end[t] = begin + start[c], begin + start[c + 1]
        e = spans.first[s]
        while e >= 0:
            other = spans.leaf[e]
            link_leaf(spans, t, new_leaf if other == leaf else other, counts)
            link_span(spans, new_leaf if other == leaf else other, t, counts)
            if other != leaf:
                stale[other] = True
            e = spans.next[e]
    replace_leaf(spans, s, leaf, own, counts)


@inner
def update_spans(rows, spans, leaf, first, made, split, children, choices, attackers, scratch, stale, counts):
    """Update the spans of a leaf that was split into ``made`` leaves, numbered from ``first`` on."""
    for new in range(first, first + made):
        spans.of_first[new] = -1
    e = spans.of_first[leaf]  # nothing changes the links of this leaf, which has no spans from now on
    while e >= 0:
        s = spans.of_span[e]
        e = spans.of_next[e]
        if attackers.public[spans.attacker[s], split.attribute]:
            divide_span(rows, spans, s, leaf, first, split, children, choices, scratch, stale, counts)
            continue
        replace_leaf(spans, s, leaf, first, counts)
        for new in range(first + 1, first + made):
            link_leaf(spans, s, new, counts)
            link_span(spans, new, s, counts)


@inner
def precedes(waiting, one, other):
    """Whether a leaf is split before another: the higher score, then the earlier attribute, then the smaller number."""
    score, attribute = waiting.score, waiting.attribute
    if score[one] != score[other]:
        return score[one] > score[other]
    if attribute[one] != attribute[other]:
        return attribute[one] < attribute[other]
    return one < other


@inner
def add_leaf(waiting, leaf, counts):
    """Add a leaf to the queue, a binary heap."""
    queue, at = waiting.queue, counts[QUEUE_COUNT]
    counts[QUEUE_COUNT] += 1
    while at > 0 and precedes(waiting, leaf, queue[(at - 1) // 2]):
        queue[at] = queue[(at - 1) // 2]
        at = (at - 1) // 2
    queue[at] = leaf


@inner
def take_leaf(waiting, counts):
    """Take the first leaf from the queue."""
    queue = waiting.queue
    counts[QUEUE_COUNT] -= 1
    first, size = queue[0], counts[QUEUE_COUNT]
    moved, at, child = queue[size], ZERO64, np.int64(1)
    while child < size:
        if child + 1 < size and precedes(waiting, queue[child + 1], queue[child]):
            child += 1
        if precedes(waiting, moved, queue[child]):
            break
        queue[at] = queue[child]
        at, child = child, 2 * child + 1
    queue[at] = moved
    return first


@entry
def grow(rows, order, nodes, waiting, spans, choices, attackers, scratch, max_leaves, max_depth):
    """Grow a tree from its leaves that wait. Return FINISHED, or NO_ROOM before a split for which the arrays are too short;
    then ``waiting.needed`` has the numbers of nodes, spans and links to make room for.

    ``order`` has the rows in the order of leaves.
    """
    counts = waiting.counts
    while counts[QUEUE_COUNT] > 0 and counts[LEAF_COUNT] < max_leaves:
        leaf = take_leaf(waiting, counts)
        if waiting.stale[leaf]:
            waiting.stale[leaf] = False
            split = find_split(rows, order, nodes, leaf, spans, choices, attackers, scratch)
            waiting.attribute[leaf], waiting.level[leaf] = split.attribute, split.level
            waiting.at[leaf], waiting.score[leaf] = split.at, split.score
            if split.attribute >= 0:
                add_leaf(waiting, leaf, counts)
            continue
        split = Split(waiting.attribute[leaf], waiting.level[leaf], waiting.at[leaf], waiting.score[leaf])
        present = count_codes(rows, order, nodes, leaf, split.attribute, scratch)
        children = mark_children(present, choices, split, scratch)
        if not has_room(leaf, split, children, nodes, spans, attackers, counts, waiting.needed):
            unmark_children(present, choices, split, scratch)
            add_leaf(waiting, leaf, counts)
            return NO_ROOM
        first = counts[NODE_COUNT]
        add_children(rows, order, nodes, first, leaf, split, children, choices, scratch)
        made, stale = nodes.children[leaf], waiting.stale
        counts[NODE_COUNT] += made
        counts[LEAF_COUNT] += made - 1
        update_spans(rows, spans, leaf, first, made, split, children, choices, attackers, scratch, stale, counts)
        unmark_children(present, choices, split, scratch)
        for new in range(first, first + made):
            stale[new], waiting.attribute[new], waiting.score[new] = True, -1, np.inf
            if nodes.end[new] > nodes.begin[new] and nodes.depth[new] < max_depth:
                add_leaf(waiting, new, counts)
    return FINISHED


@entry
def root_holds(rows, spans, attackers, scratch):
    """Whether the spans of a tree without splits meet the requirement."""
    for s in range(spans.begin.shape[0]):
        if attackers.spare_single and is_single(spans, s, attackers):
            continue
        if not rows_hold(
            rows, spans.row, spans.begin[s], spans.end[s], attackers, spans.attacker[s], scratch.histogram
        ):
            return False
    return True
