"""Fill buckets with records of different sensitive values (Xiao and Tao, VLDB 2006)."""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry, inner


@entry
def take_largest(left, width):
    """Fill buckets with one record each of the ``width`` values that have most records left; return the values by bucket.

    ``left`` has the records of every value, in descending order, and afterwards the records that are in no bucket. Of equal
    numbers the last values are taken, so the order stays descending and no bucket needs a search over all values.
    """
    values = left.shape[0]
    total = np.int64(0)
    for value in range(values):
        total += left[value]
    taken = np.empty((total // width, width), np.int32)
    remaining = values
    while remaining > 0 and left[remaining - 1] == 0:
        remaining -= 1
    made = 0
    while remaining >= width:
        least = left[width - 1]
        first = _find(left, remaining, least)
        last = _find(left, remaining, least - 1)
        for i in range(width):
            value = i if i < first else last - 1 - (i - first)
            taken[made, i] = value
            left[value] -= 1
        made += 1
        while remaining > 0 and left[remaining - 1] == 0:
            remaining -= 1
    return taken[:made]


@inner
def _find(left, remaining, number):
    """The first place with at most this number of records."""
    low, high = 0, remaining
    while low < high:
        middle = (low + high) // 2
        if left[middle] <= number:
            high = middle
        else:
            low = middle + 1
    return low
