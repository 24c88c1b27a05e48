"""One test for every requirement: may a group with these counts exist?"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels import rules

SLACK = 1e-9  # a bound met up to rounding is met; the check outside uses the same slack

_SIZE, _DISTINCT, _ENTROPY, _RECURSIVE = rules.SIZE, rules.DISTINCT, rules.ENTROPY, rules.RECURSIVE
_BETWEEN, _DISTANCE, _OWN = rules.BETWEEN, rules.DISTANCE, rules.OWN


@njit(cache=True, nogil=True)
def holds(total, histogram, limits):
    """Whether a group of ``total`` records meets every rule.

    ``histogram`` holds the counts of all confidential attributes one behind the other. Rule r (see
    `requirements.base.Limits`) looks at the codes ``first`` to ``last`` of it and at its own parts of the other arrays.
    """
    table, number, base, left, right, floor, ceiling, order = limits
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
            seen = 0
            for c in range(first, last):
                if histogram[c] > 0:
                    seen += 1
            if seen < a:
                return False
        elif kind == _ENTROPY:
            entropy = 0.0
            for c in range(first, last):
                if histogram[c] > 0:
                    p = histogram[c] / total
                    entropy -= p * np.log(p)
            if entropy < np.log(a) - SLACK:
                return False
        elif kind == _RECURSIVE:
            counts = np.sort(histogram[first:last])[::-1]
            tail = 0
            for c in range(np.int64(number[r, 1]) - 1, last - first):
                tail += counts[c]
            if not counts[0] < a * tail - SLACK:
                return False
        elif kind == _BETWEEN:
            for c in range(first, last):
                share = histogram[c] / total
                if share < floor[part + c - first] - SLACK or share > ceiling[part + c - first] + SLACK:
                    return False
        elif kind == _DISTANCE:
            ahead = np.zeros(
                last - first + 1, np.float64
            )  # of the codes in their turn, the share more than in the table
            for i in range(last - first):
                c = first + order[turn + i]
                ahead[i + 1] = ahead[i] + histogram[c] / total - base[c]
            distance = 0.0
            for i in range(part, parts):
                distance += ceiling[i] * abs(ahead[right[i] + 1] - ahead[left[i]])
            if distance > a + SLACK:
                return False
        elif kind == _OWN:
            for c in range(first, last):
                if histogram[c] > 0 and total < ceiling[part + c - first]:
                    return False
    return True


@njit(cache=True, nogil=True)
def shortfall(total, histogram, limits):
    """How far a group is from meeting the rules about its confidential values: 0 where it meets them, larger the further."""
    table, number, base, left, right, floor, ceiling, order = limits
    amount = 0.0
    for r in range(table.shape[0]):
        kind, first, last, part, parts, turn = table[r]
        a = number[r, 0]
        if kind == _DISTINCT:
            seen = 0
            for c in range(first, last):
                if histogram[c] > 0:
                    seen += 1
            amount += max(0.0, (a - seen) / a)
        elif kind == _ENTROPY:
            entropy = 0.0
            for c in range(first, last):
                if histogram[c] > 0:
                    p = histogram[c] / total
                    entropy -= p * np.log(p)
            if a > 1.0:
                amount += max(0.0, (np.log(a) - entropy) / np.log(a))
        elif kind == _RECURSIVE:
            counts = np.sort(histogram[first:last])[::-1]
            tail = 0
            for c in range(np.int64(number[r, 1]) - 1, last - first):
                tail += counts[c]
            if not counts[0] < a * tail - SLACK:  # equality does not do
                amount += (counts[0] - a * tail) / total + SLACK
        elif kind == _BETWEEN:
            for c in range(first, last):
                share = histogram[c] / total
                amount += max(0.0, floor[part + c - first] - share, share - ceiling[part + c - first])
        elif kind == _DISTANCE:
            ahead = np.zeros(last - first + 1, np.float64)
            for i in range(last - first):
                c = first + order[turn + i]
                ahead[i + 1] = ahead[i] + histogram[c] / total - base[c]
            distance = 0.0
            for i in range(part, parts):
                distance += ceiling[i] * abs(ahead[right[i] + 1] - ahead[left[i]])
            amount += max(0.0, distance - a)
        elif kind == _OWN:
            asked = 0.0
            for c in range(first, last):
                if histogram[c] > 0:
                    asked = max(asked, ceiling[part + c - first])
            amount += max(0.0, (asked - total) / max(asked, 1.0))
    return amount
