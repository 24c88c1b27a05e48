"""Test a group's counts against all rules of the requirements."""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import ZERO64
from shoal.kernels.rules import (
    BETWEEN,
    DISTANCE,
    DISTINCT,
    END_PART,
    ENTROPY,
    FIRST,
    FIRST_ORDER,
    FIRST_PART,
    KIND,
    LAST,
    OWN_K,
    RECURSIVE,
    SIZE,
    SLACK,
)


@inner
def count_distinct(histogram, first, last):
    """The number of distinct values that occur."""
    distinct = 0
    for c in range(first, last):
        if histogram[c] > 0:
            distinct += 1
    return distinct


@inner
def compute_entropy(total, histogram, first, last):
    """The entropy of the values, in nats."""
    entropy = 0.0
    for c in range(first, last):
        if histogram[c] > 0:
            p = histogram[c] / total
            entropy -= p * np.log(p)
    return entropy


@inner
def recursive_excess(histogram, first, last, a, b):
    """The highest frequency minus ``a`` times the sum of the ``b``-th highest and all lower frequencies."""
    rest = np.empty(last - first, np.int64)
    tail, highest = 0, 0
    for c in range(last - first):
        rest[c] = histogram[first + c]
        tail += rest[c]
        highest = max(highest, rest[c])
    for _ in range(min(np.int64(b) - 1, last - first)):  # without the b - 1 highest frequencies
        at = 0
        for c in range(last - first):
            if rest[c] > rest[at]:
                at = c
        tail -= rest[at]
        rest[at] = 0
    return highest - a * tail


@inner
def accumulate_excess(total, histogram, first, last, order, first_order, table_shares):
    """The share in the group minus the share in the table, summed over the values in their order; 0 before the first."""
    excess = np.zeros(last - first + 1, np.float64)
    for i in range(last - first):
        c = first + order[first_order + i]
        excess[i + 1] = excess[i] + histogram[c] / total - table_shares[c]
    return excess


@inner
def compute_distance(total, histogram, r, limits):
    """The distance of rule ``r`` from the whole table: the weighted sum of |share difference| over sets of values."""
    term = limits.term
    first, last, first_part = term[r, FIRST], term[r, LAST], term[r, FIRST_PART]
    end_part, first_order = term[r, END_PART], term[r, FIRST_ORDER]
    left, right, set_weight, order = limits.left, limits.right, limits.figure, limits.value_order
    excess = accumulate_excess(total, histogram, first, last, order, first_order, limits.table_shares)
    distance = 0.0
    for i in range(first_part, end_part):
        distance += set_weight[i] * abs(excess[right[i] + 1] - excess[left[i]])
    return distance


@entry
def holds(total, histogram, limits):
    """Whether a group of ``total`` records meets every rule."""
    return rules_hold(total, histogram, limits, ZERO64, limits.term.shape[0])


@inner
def values_hold(total, histogram, limits, begin, end):
    """As `rules_hold`; ``limits`` are None where the requirements do not depend on values, and then no rule is compiled."""
    if limits is None:
        return True
    return rules_hold(total, histogram, limits, begin, end)


@inner
def all_values_hold(total, histogram, limits):
    """As `values_hold`, for all rules."""
    if limits is None:
        return True
    return rules_hold(total, histogram, limits, ZERO64, limits.term.shape[0])


@inner
def rules_hold(total, histogram, limits, begin, end):
    """Whether a group of ``total`` records meets the rules ``begin`` to ``end`` - 1.

    ``histogram`` holds the counts of all sensitive attributes, concatenated. Rule r (see `requirements.requirement.Limits`)
    uses the codes ``first`` to ``last`` of the histogram and its own parts of the other arrays.
    """
    term, parameter, floor, figure = limits.term, limits.parameter, limits.floor, limits.figure
    for r in range(begin, end):
        kind, first, last, first_part = term[r, KIND], term[r, FIRST], term[r, LAST], term[r, FIRST_PART]
        a = parameter[r, 0]
        if kind == SIZE:
            if total < a:
                return False
            continue
        if total == 0:
            return False
        if kind == DISTINCT:
            if count_distinct(histogram, first, last) < a:
                return False
        elif kind == ENTROPY:
            if compute_entropy(total, histogram, first, last) < np.log(a) - SLACK:
                return False
        elif kind == RECURSIVE:
            if not recursive_excess(histogram, first, last, a, parameter[r, 1]) < -SLACK:
                return False
        elif kind == BETWEEN:
            for c in range(first, last):
                share = histogram[c] / total
                if share < floor[first_part + c - first] - SLACK or share > figure[first_part + c - first] + SLACK:
                    return False
        elif kind == DISTANCE:
            if compute_distance(total, histogram, r, limits) > a + SLACK:
                return False
        elif kind == OWN_K:
            for c in range(first, last):
                if histogram[c] > 0 and total < figure[first_part + c - first]:
                    return False
    return True


@inner
def shortfall(total, histogram, limits):
    """How far a group is from meeting the rules on its sensitive values: 0 if it meets them, larger the further away."""
    term, parameter, floor, figure = limits.term, limits.parameter, limits.floor, limits.figure
    amount = 0.0
    for r in range(term.shape[0]):
        kind, first, last, first_part = term[r, KIND], term[r, FIRST], term[r, LAST], term[r, FIRST_PART]
        a = parameter[r, 0]
        if kind == DISTINCT:
            amount += max(0.0, (a - count_distinct(histogram, first, last)) / a)
        elif kind == ENTROPY and a > 1.0:
            amount += max(0.0, (np.log(a) - compute_entropy(total, histogram, first, last)) / np.log(a))
        elif kind == RECURSIVE:
            excess = recursive_excess(histogram, first, last, a, parameter[r, 1])
            if not excess < -SLACK:  # the inequality is strict
                amount += excess / total + SLACK
        elif kind == BETWEEN:
            for c in range(first, last):
                share = histogram[c] / total
                amount += max(0.0, floor[first_part + c - first] - share, share - figure[first_part + c - first])
        elif kind == DISTANCE:
            amount += max(0.0, compute_distance(total, histogram, r, limits) - a)
        elif kind == OWN_K:
            required = 0.0
            for c in range(first, last):
                if histogram[c] > 0:
                    required = max(required, figure[first_part + c - first])
            amount += max(0.0, (required - total) / max(required, 1.0))
    return amount


@inner
def add_shortfalls_by_count(total, histogram, r, limits, after):
    """Entropy and recursive rules: compute the shortfall once per count of the joining value; it depends on nothing else."""
    kind, first, last = limits.term[r, KIND], limits.term[r, FIRST], limits.term[r, LAST]
    a, b = limits.parameter[r, 0], limits.parameter[r, 1]
    highest = 0
    for c in range(first, last):
        highest = max(highest, histogram[c])
    by_count = np.full(highest + 1, -1.0)
    for c in range(first, last):
        count = histogram[c]
        if by_count[count] < 0.0:
            histogram[c] += 1
            by_count[count] = 0.0
            if kind == ENTROPY:
                entropy = compute_entropy(total, histogram, first, last)
                by_count[count] = max(0.0, (np.log(a) - entropy) / np.log(a))
            else:
                excess = recursive_excess(histogram, first, last, a, b)
                if not excess < -SLACK:
                    by_count[count] = max(0.0, excess / total + SLACK)
            histogram[c] -= 1
        after[c] += by_count[count]


@inner
def add_distances(total, histogram, r, limits, after):
    """The distance rule: a joining value changes only the sets of values that contain it, each by one record."""
    term = limits.term
    first, last, first_part = term[r, FIRST], term[r, LAST], term[r, FIRST_PART]
    end_part, first_order = term[r, END_PART], term[r, FIRST_ORDER]
    left, right, set_weight, order = limits.left, limits.right, limits.figure, limits.value_order
    excess = accumulate_excess(total, histogram, first, last, order, first_order, limits.table_shares)
    change = np.zeros(
        last - first + 1, np.float64
    )  # the change of the distance, as steps along the order of the values
    distance = 0.0
    for i in range(first_part, end_part):
        share = excess[right[i] + 1] - excess[left[i]]
        step = set_weight[i] * (abs(share + 1.0 / total) - abs(share))
        distance += set_weight[i] * abs(share)
        change[left[i]] += step
        change[right[i] + 1] -= step
    for i in range(last - first):
        distance += change[i]
        after[first + order[first_order + i]] += max(0.0, distance - limits.parameter[r, 0])


@inner
def add_interval_shortfalls(total, histogram, r, limits, after):
    """The rule on shares: a joining value changes its own share by one record."""
    first, last, first_part = limits.term[r, FIRST], limits.term[r, LAST], limits.term[r, FIRST_PART]
    floor, figure = limits.floor, limits.figure
    amount = 0.0
    for c in range(first, last):
        share = histogram[c] / total
        amount += max(0.0, floor[first_part + c - first] - share, share - figure[first_part + c - first])
    for c in range(first, last):
        least, most = floor[first_part + c - first], figure[first_part + c - first]
        share, grown = histogram[c] / total, (histogram[c] + 1) / total
        after[c] += max(0.0, amount - max(0.0, least - share, share - most) + max(0.0, least - grown, grown - most))


@inner
def shortfalls_by_value(total, histogram, limits, after):
    """For every value, the part of `shortfall` that depends on its column, if a record with the value joins the group.

    ``total`` includes the joining record, ``histogram`` does not. A record has one value of every column, so the sum over its
    values is the shortfall of the group with it. The cost is one pass over the histogram, not one for every value.
    """
    term, parameter, figure = limits.term, limits.parameter, limits.figure
    for c in range(after.shape[0]):
        after[c] = 0.0
    for r in range(term.shape[0]):
        kind, first, last, first_part = term[r, KIND], term[r, FIRST], term[r, LAST], term[r, FIRST_PART]
        a = parameter[r, 0]
        if kind == DISTINCT:
            distinct = count_distinct(histogram, first, last)
            for c in range(first, last):
                after[c] += max(0.0, (a - distinct - (histogram[c] == 0)) / a)
        elif (kind == ENTROPY and a > 1.0) or kind == RECURSIVE:
            add_shortfalls_by_count(total, histogram, r, limits, after)
        elif kind == BETWEEN:
            add_interval_shortfalls(total, histogram, r, limits, after)
        elif kind == DISTANCE:
            add_distances(total, histogram, r, limits, after)
        elif kind == OWN_K:
            required = 0.0
            for c in range(first, last):
                if histogram[c] > 0:
                    required = max(required, figure[first_part + c - first])
            for c in range(first, last):
                needed = max(required, figure[first_part + c - first])
                after[c] += max(0.0, (needed - total) / max(needed, 1.0))
