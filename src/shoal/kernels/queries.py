"""Answer a block of COUNT queries in one pass over counted cells.

A table has groups with two sides of cells. The answer to a query is the sum over the groups of the weight on the one side that
meets its conditions times the weight on the other side. A share table has, for every code and query, the share of the values of
the code that meet the condition of the query: 1 where the query has no condition on the column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray


class Side(NamedTuple):
    """Cells by group: group g has the cells ``start[g]:start[g + 1]``; the shares of column c begin at ``begin[c]``."""

    start: NDArray[Any]
    codes: NDArray[Any]
    weight: NDArray[Any]
    begin: NDArray[Any]


@njit(cache=True, nogil=True)
def match_group(side, shares, g, total, product):
    """The weight of the cells of a group that meets the conditions of each query, into ``total``."""
    width = shares.shape[1]
    columns = side.codes.shape[1]
    for q in range(width):
        total[q] = 0.0
    for cell in range(side.start[g], side.start[g + 1]):
        weight = side.weight[cell]
        for q in range(width):
            product[q] = weight
        for c in range(columns):
            row = shares[side.begin[c] + side.codes[cell, c]]
            for q in range(width):
                product[q] *= row[q]
        for q in range(width):
            total[q] += product[q]


@njit(cache=True, nogil=True)
def sum_products(one, one_shares, other, other_shares):
    """The answer to each query of a block."""
    width = one_shares.shape[1]
    answer, product = np.zeros(width), np.zeros(width)
    left, right = np.zeros(width), np.zeros(width)
    for g in range(one.start.shape[0] - 1):
        match_group(one, one_shares, g, left, product)
        largest = 0.0
        for q in range(width):
            largest = max(largest, left[q])
        if largest == 0.0:
            continue
        match_group(other, other_shares, g, right, product)
        for q in range(width):
            answer[q] += left[q] * right[q]
    return answer


@njit(cache=True, nogil=True)
def count_patterns(one, bits, other, other_shares, patterns):
    """The records of each query by the set of its conditions that they meet on the one side, as a number of bits.

    Every group has one cell on the one side. ``bits`` has the bit of the condition for every code that meets it, else 0.
    """
    width = bits.shape[1]
    found = np.zeros((width, patterns))
    right, product = np.zeros(width), np.zeros(width)
    pattern = np.zeros(width, np.uint32)
    for g in range(one.start.shape[0] - 1):
        for q in range(width):
            pattern[q] = np.uint32(0)
        for c in range(one.codes.shape[1]):
            row = bits[one.begin[c] + one.codes[g, c]]
            for q in range(width):
                pattern[q] |= row[q]
        match_group(other, other_shares, g, right, product)
        for q in range(width):
            found[q, pattern[q]] += right[q]
    return found
