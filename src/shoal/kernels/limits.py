"""One test for every requirement: may a group with these counts exist?"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels import rules

SLACK = 1e-9  # a bound met up to rounding is met; the check outside uses the same slack

_SIZE, _DISTINCT, _ENTROPY, _RECURSIVE = rules.SIZE, rules.DISTINCT, rules.ENTROPY, rules.RECURSIVE
_BETWEEN, _DISTANCE, _OWN = rules.BETWEEN, rules.DISTANCE, rules.OWN


@njit(cache=True, nogil=True)
def seen(histogram, first, last):
    """How many values occur."""
    found = 0
    for c in range(first, last):
        if histogram[c] > 0:
            found += 1
    return found


@njit(cache=True, nogil=True)
def entropy_of(total, histogram, first, last):
    """The entropy of the values, in nats."""
    entropy = 0.0
    for c in range(first, last):
        if histogram[c] > 0:
            p = histogram[c] / total
            entropy -= p * np.log(p)
    return entropy


@njit(cache=True, nogil=True)
def lead(histogram, first, last, a, b):
    """By how much the most frequent value is ahead of ``a`` times the ``b``-th most frequent and the rarer ones."""
    counts = np.sort(histogram[first:last])[::-1]
    tail = 0
    for c in range(np.int64(b) - 1, last - first):
        tail += counts[c]
    return counts[0] - a * tail


@njit(cache=True, nogil=True)
def distance_of(total, histogram, first, last, part, parts, turn, limits):
    """How far the values are from the whole table's: the weighted sum over sets of values of what their shares differ."""
    base, left, right, ceiling, order = limits[2], limits[3], limits[4], limits[6], limits[7]
    ahead = np.zeros(last - first + 1, np.float64)  # of the codes in their turn, the share more than in the table
    for i in range(last - first):
        c = first + order[turn + i]
        ahead[i + 1] = ahead[i] + histogram[c] / total - base[c]
    distance = 0.0
    for i in range(part, parts):
        distance += ceiling[i] * abs(ahead[right[i] + 1] - ahead[left[i]])
    return distance


@njit(cache=True, nogil=True)
def holds(total, histogram, limits):
    """Whether a group of ``total`` records meets every rule.

    ``histogram`` holds the counts of all confidential attributes one behind the other. Rule r (see
    `requirements.base.Limits`) looks at the codes ``first`` to ``last`` of it and at its own parts of the other arrays.
    """
    table, number, floor, ceiling = limits[0], limits[1], limits[5], limits[6]
    for r in range(table.shape[0]):
        kind, first, last, part, parts, turn = table[r]
        a = number[r, 0]
        if kind == _SIZE:
            if total < a:
                return False
            continue
        if total == 0:
            return False
        if kind == _DISTINCT:
            if seen(histogram, first, last) < a:
                return False
        elif kind == _ENTROPY:
            if entropy_of(total, histogram, first, last) < np.log(a) - SLACK:
                return False
        elif kind == _RECURSIVE:
            if not lead(histogram, first, last, a, number[r, 1]) < -SLACK:
                return False
        elif kind == _BETWEEN:
            for c in range(first, last):
                share = histogram[c] / total
                if share < floor[part + c - first] - SLACK or share > ceiling[part + c - first] + SLACK:
                    return False
        elif kind == _DISTANCE:
            if distance_of(total, histogram, first, last, part, parts, turn, limits) > a + SLACK:
                return False
        elif kind == _OWN:
            for c in range(first, last):
                if histogram[c] > 0 and total < ceiling[part + c - first]:
                    return False
    return True


@njit(cache=True, nogil=True)
def shortfall(total, histogram, limits):
    """How far a group is from meeting the rules about its confidential values: 0 where it meets them, larger the further."""
    table, number, floor, ceiling = limits[0], limits[1], limits[5], limits[6]
    amount = 0.0
    for r in range(table.shape[0]):
        kind, first, last, part, parts, turn = table[r]
        a = number[r, 0]
        if kind == _DISTINCT:
            amount += max(0.0, (a - seen(histogram, first, last)) / a)
        elif kind == _ENTROPY and a > 1.0:
            amount += max(0.0, (np.log(a) - entropy_of(total, histogram, first, last)) / np.log(a))
        elif kind == _RECURSIVE:
            ahead = lead(histogram, first, last, a, number[r, 1])
            if not ahead < -SLACK:  # equality does not do
                amount += ahead / total + SLACK
        elif kind == _BETWEEN:
            for c in range(first, last):
                share = histogram[c] / total
                amount += max(0.0, floor[part + c - first] - share, share - ceiling[part + c - first])
        elif kind == _DISTANCE:
            amount += max(0.0, distance_of(total, histogram, first, last, part, parts, turn, limits) - a)
        elif kind == _OWN:
            asked = 0.0
            for c in range(first, last):
                if histogram[c] > 0:
                    asked = max(asked, ceiling[part + c - first])
            amount += max(0.0, (asked - total) / max(asked, 1.0))
    return amount
