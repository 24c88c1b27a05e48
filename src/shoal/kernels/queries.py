"""Answer a block of at most 64 COUNT queries in one pass over counted cells.

A table has groups with two sides of cells. The answer to a query is the sum over the groups of the weight on the one side that
meets its conditions times the weight on the other side. A share table has, for every code and query, the share of the values of
the code that meet the condition of the query: 1 where the query has no condition on the column. A mask has, for every code, the
bits of the queries whose share is not 0. Only the queries in all masks of a cell are multiplied.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner

NOTHING, ONE, EVERYTHING = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)
# The place of a single bit: its product with this number has a different number in the highest six bits for every place.
DE_BRUIJN, HIGHEST = np.uint64(0x03F79D71B4CB0A89), np.uint64(58)
PLACE = np.zeros(64, np.int64)
for _place in range(64):
    PLACE[((0x03F79D71B4CB0A89 << _place) % 2**64) >> 58] = _place


class Side(NamedTuple):
    """Cells by group: group g has the cells ``start[g]:start[g + 1]``; the shares of column c begin at ``begin[c]``."""

    start: NDArray[Any]
    codes: NDArray[Any]
    weight: NDArray[Any]
    begin: NDArray[Any]


@inner
def match_group(side, shares, masks, g, wanted, total):
    """Add the weight of the cells of a group that meets the conditions of wanted queries; return the bits of those met."""
    columns = side.codes.shape[1]
    found = NOTHING
    for cell in range(side.start[g], side.start[g + 1]):
        bits = wanted
        for c in range(columns):
            bits &= masks[side.begin[c] + side.codes[cell, c]]
        found |= bits
        while bits != NOTHING:
            lowest = bits & (~bits + ONE)
            bits ^= lowest
            q = PLACE[(lowest * DE_BRUIJN) >> HIGHEST]
            product = side.weight[cell]
            for c in range(columns):
                product *= shares[side.begin[c] + side.codes[cell, c], q]
            total[q] += product
    return found


@entry
def sum_products(one, one_shares, one_masks, other, other_shares, other_masks):
    """The answer to each query of a block."""
    width = one_shares.shape[1]
    answer, left, right = np.zeros(width), np.zeros(width), np.zeros(width)
    every = EVERYTHING >> np.uint64(64 - width)
    for g in range(one.start.shape[0] - 1):
        met = match_group(one, one_shares, one_masks, g, every, left)
        if met == NOTHING:
            continue
        match_group(other, other_shares, other_masks, g, met, right)
        while met != NOTHING:
            lowest = met & (~met + ONE)
            met ^= lowest
            q = PLACE[(lowest * DE_BRUIJN) >> HIGHEST]
            answer[q] += left[q] * right[q]
            left[q] = 0.0
            right[q] = 0.0
    return answer


@inner
def weigh_group(side, shares, g, total, product):
    """The weight of the cells of a group that meets the conditions of every query, into ``total``."""
    width = shares.shape[1]
    for q in range(width):
        total[q] = 0.0
    for cell in range(side.start[g], side.start[g + 1]):
        weight = side.weight[cell]
        for q in range(width):
            product[q] = weight
        for c in range(side.codes.shape[1]):
            row = shares[side.begin[c] + side.codes[cell, c]]
            for q in range(width):
                product[q] *= row[q]
        for q in range(width):
            total[q] += product[q]


@entry
def count_patterns(one, bits, other, other_shares, patterns):
    """The records of each query by the set of its conditions that they meet on the one side, as a number of bits.

    Every group has one cell on the one side. ``bits`` has the bit of the condition for every code that meets it, else 0. Most
    queries of a block have records in a group, so masks would not help.
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
        weigh_group(other, other_shares, g, right, product)
        for q in range(width):
            found[q, pattern[q]] += right[q]
    return found
