"""Test and rate the groups of one node of a lattice of levels: which of them fail, and the objective of the rest.

The arguments are those of `roll_up`.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import inner
from shoal.kernels.interface import MISCLASSIFIED, SQUARED_SIZES, SUM_OF_LOGARITHMS, SUM_OF_MEANS, ZERO64
from shoal.kernels.limits import rules_hold
from shoal.kernels.roll_up import SPREAD, find_combination, find_majority, open_slots


@inner
def test_node(space, rules, stack, place, values, sets):
    """Test the groups of the last table; return the records of groups that are too small, and of all that fail."""
    last = space.attribute.shape[0]
    start, rows, least = stack.start[last], stack.rows[last], rules.least
    passes, size = stack.passes, stack.size
    if sets is not None:
        return test_sets(space, rules, stack, place, values)
    for i in range(rows):
        passes[i] = size[start + i] >= least
    small = count_failing(start, rows, stack)
    if values is not None:
        if small > rules.limit or not rules.tests_values:
            return small, small
        histogram, limits = stack.histogram, rules.limits
        for i in range(rows):
            if passes[i]:
                passes[i] = rules_hold(size[start + i], histogram[start + i], limits, ZERO64, limits.term.shape[0])
        return small, count_failing(start, rows, stack)
    return small, small


@inner
def test_relaxed(space, rules, stack):
    """The records of groups that fail whatever records are suppressed."""
    last = space.attribute.shape[0]
    start, rows = stack.start[last], stack.rows[last]
    for i in range(rows):
        size = stack.size[start + i]
        stack.passes[i] = size >= rules.least and rules_hold(
            size, stack.histogram[start + i], rules.relaxed, ZERO64, rules.relaxed.term.shape[0]
        )
    return count_failing(start, rows, stack)


@inner
def count_failing(start, rows, stack):
    """The records of the groups that do not pass."""
    passes, size, failing = stack.passes, stack.size, np.int64(0)
    for i in range(rows):
        if not passes[i]:
            failing += size[start + i]
    return failing


@inner
def test_sets(space, rules, stack, place, values):
    """As `test_node`, for requirements on several sets of attributes: suppress groups until all that remain pass.

    The groups of a set are unions of groups of the last table. The sizes alone are tested first, since they decide for finer
    nodes. Then the requirements are tested from the beginning, in the order of the policy.
    """
    last = space.attribute.shape[0]
    start, rows = stack.start[last], stack.rows[last]
    sets = rules.least_of_set.shape[0]
    number = np.empty((sets, rows), np.int64)
    groups = np.empty(sets, np.int64)
    for s in range(sets):
        groups[s] = number_groups(s, space, rules, stack, place, number[s])
    small = np.int64(-1)
    failing = small
    for with_values in range(1 + rules.tests_values):
        for i in range(rows):
            stack.passes[i] = True
        changed = True
        while changed:
            changed = False
            for s in range(sets):
                size = np.zeros(groups[s], np.int64)
                for i in range(rows):
                    if stack.passes[i]:
                        size[number[s, i]] += stack.size[start + i]
                verdict = np.empty(groups[s], np.bool_)
                for g in range(groups[s]):
                    verdict[g] = size[g] >= rules.least_of_set[s]
                if values is not None:
                    if with_values == 1 and rules.term_start[s + 1] > rules.term_start[s]:
                        test_values(s, size, number[s], rules, stack, last, verdict)
                for i in range(rows):
                    if stack.passes[i] and not verdict[number[s, i]]:
                        stack.passes[i] = False
                        changed = True
        failing = count_failing(start, rows, stack)
        if with_values == 0:
            small = failing
        if failing > rules.limit:
            break
    return small, failing


@inner
def number_groups(s, space, rules, stack, place, number):
    """Number the groups of a set of attributes, by row of the last table; return how many there are."""
    last = space.attribute.shape[0]
    start, rows = stack.start[last], stack.rows[last]
    now, mask, shift = open_slots(rows, stack)
    key = np.empty(rows, np.uint64)
    groups = np.int64(0)
    for i in range(rows):
        word = np.uint64(0)
        for a in range(rules.set_start[s], rules.set_start[s + 1]):
            j = rules.set_attribute[a]
            code = stack.codes[j, stack.row[start + i]]
            word += space.word[space.begin[space.first[j] + place.level[j]] + code]
        at = np.int64((word * SPREAD) >> shift) & mask
        while stack.slot[at] >= now and key[stack.slot[at] - now] != word:
            at = (at + 1) & mask
        if stack.slot[at] < now:
            stack.slot[at] = now + groups
            key[groups] = word
            groups += 1
        number[i] = stack.slot[at] - now
    return groups


@inner
def test_values(s, size, number, rules, stack, last, verdict):
    """Test the groups of a set that are large enough by the other requirements of the set."""
    start, rows = stack.start[last], stack.rows[last]
    first, end = rules.term_start[s], rules.term_start[s + 1]
    histogram = np.zeros((size.shape[0], stack.histogram.shape[1]), np.int64)
    for i in range(rows):
        if stack.passes[i]:
            for c in range(histogram.shape[1]):
                histogram[number[i], c] += stack.histogram[start + i, c]
    for g in range(size.shape[0]):
        verdict[g] = verdict[g] and rules_hold(size[g], histogram[g], rules.limits, first, end)


@inner
def rate_node(failing, space, rules, stack, place):
    """The objective of the current node; the groups that do not pass are suppressed."""
    m = space.low.shape[0]
    last = space.attribute.shape[0]
    start, rows = stack.start[last], stack.rows[last]
    if rules.kind == SUM_OF_MEANS or rules.kind == SUM_OF_LOGARITHMS:
        score = 0.0
        for j in range(m):
            level = space.first[j] + place.level[j]
            column = space.mean[level]
            if failing > 0:
                lost = 0.0
                for i in range(rows):
                    if not stack.passes[i]:
                        loss = space.loss[space.begin[level] + stack.codes[j, stack.row[start + i]]]
                        lost += stack.size[start + i] * (space.lost[j] - loss)
                column += lost / rules.records
            score += np.log1p(column) if rules.kind == SUM_OF_LOGARITHMS else column
        return score
    total, kept = 0.0, np.int64(0)
    for i in range(rows):
        if stack.passes[i]:
            g = start + i
            kept += 1
            if rules.kind == SQUARED_SIZES:
                total += 1.0 * stack.size[g] * stack.size[g]
            elif rules.kind == MISCLASSIFIED:
                total += stack.size[g] - find_majority(stack.histogram, g, rules.class_first, rules.class_last)
    if rules.kind == SQUARED_SIZES:
        return total + 1.0 * failing * rules.records
    if rules.kind == MISCLASSIFIED:
        return (total + failing) / rules.records
    return (rules.records - failing) / max(kept, 1)


@inner
def rate_dense(failing, space, rules, stack, place):
    """As `rate_node`, for a sum over the attributes, from the combinations that `count_dense` counted."""
    m = space.low.shape[0]
    lost = place.lost
    for j in range(m):
        lost[j] = 0.0
    dense, packed, fused = stack.dense, stack.packed, stack.fused
    lane, shift, mask, start = space.lane, space.shift, space.mask, space.fused_begin
    if failing > 0:
        for i in range(stack.rows[0]):
            if dense[find_combination(i, packed, fused, lane, shift, mask, start)] < rules.least:
                for j in range(m):
                    begin = space.begin[space.first[j] + place.level[j]]
                    loss = space.loss[begin + stack.codes[j, i]]
                    lost[j] += stack.size[i] * (space.lost[j] - loss)
    score = 0.0
    for j in range(m):
        column = space.mean[space.first[j] + place.level[j]] + lost[j] / rules.records
        score += np.log1p(column) if rules.kind == SUM_OF_LOGARITHMS else column
    return score
