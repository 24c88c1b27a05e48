"""One test for every requirement: may a group with these counts exist?"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.kernels import rules

SLACK = 1e-9  # a bound met up to rounding is met; the check outside uses the same slack

_SIZE, _DISTINCT, _ENTROPY, _RECURSIVE = rules.SIZE, rules.DISTINCT, rules.ENTROPY, rules.RECURSIVE
_EQUAL, _ORDERED = rules.EQUAL_DISTANCE, rules.ORDERED_DISTANCE


@njit(cache=True, nogil=True)
def holds(total, histogram, rule, first, last, a, b, base):
    """Whether a group of ``total`` records meets every rule.

    ``histogram`` holds the counts of all confidential attributes one behind the other; rule ``r`` looks at the codes
    ``first[r]:last[r]`` and compares with the distribution ``base`` of the whole table there.
    """
    for r in range(rule.shape[0]):
        if rule[r] == _SIZE:
            if total < a[r]:
                return False
            continue
        if total == 0:
            return False
        f, e = first[r], last[r]
        if rule[r] == _DISTINCT:
            seen = 0
            for c in range(f, e):
                if histogram[c] > 0:
                    seen += 1
            if seen < a[r]:
                return False
        elif rule[r] == _ENTROPY:
            entropy = 0.0
            for c in range(f, e):
                if histogram[c] > 0:
                    p = histogram[c] / total
                    entropy -= p * np.log(p)
            if entropy < np.log(a[r]) - SLACK:
                return False
        elif rule[r] == _RECURSIVE:
            counts = np.sort(histogram[f:e])[::-1]
            tail = 0
            for c in range(np.int64(b[r]) - 1, e - f):
                tail += counts[c]
            if not counts[0] < a[r] * tail - SLACK:
                return False
        elif rule[r] == _EQUAL:
            distance = 0.0
            for c in range(f, e):
                distance += abs(histogram[c] / total - base[c])
            if distance / 2 > a[r] + SLACK:
                return False
        elif rule[r] == _ORDERED:
            distance = 0.0
            carried = 0.0
            for c in range(f, e):
                carried += histogram[c] / total - base[c]
                distance += abs(carried)
            if e - f > 1 and distance / (e - f - 1) > a[r] + SLACK:
                return False
    return True
