"""Number the distinct combinations of codes in ascending order by a radix sort. Keys are below 2^63."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal import kernels

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Keys = NDArray[np.uint64]


class Combinations(NamedTuple):
    """The number of every row's combination, the rows sorted by this number, and the start of every number in that order."""

    number: Ints
    order: Ints
    start: Longs


def number_combinations(columns: Sequence[NDArray[np.integer]], rows: int) -> Ints:
    """The number of every row's combination."""
    return sort_combinations(columns, rows).number


def sort_combinations(columns: Sequence[NDArray[np.integer]], rows: int) -> Combinations:
    """Number the distinct combinations of several columns of codes, and sort the rows by these numbers."""
    keys = np.zeros(rows, np.uint64)
    number = np.zeros(rows, np.int32)
    bound = 1
    for column in columns:
        size = int(column.max(initial=0)) + 1
        if bound * size >= 2**63:
            bound = len(kernels.order.number_keys(keys, kernels.order.argsort(keys), number))
            keys = number.astype(np.uint64)
        kernels.order.append_digit(keys, np.ascontiguousarray(column, np.int32), size)
        bound *= size
    return _sort_keys(keys, number)


def sort_matrix(
    codes: Ints, columns: Sequence[int] | Longs, sizes: Sequence[int], tables: Sequence[Ints] = ()
) -> Combinations:
    """`sort_combinations` for columns of a matrix with codes below ``sizes``; ``tables`` recode every column first."""
    if math.prod(sizes) >= 2**63:
        chosen = [codes[:, c] for c in columns]
        return sort_combinations([t[c] for t, c in zip(tables, chosen, strict=True)] if tables else chosen, len(codes))
    return _sort_keys(pack_keys(codes, columns, sizes, tables), np.zeros(len(codes), np.int32))


def pack_keys(codes: Ints, columns: Sequence[int] | Longs, sizes: Sequence[int], tables: Sequence[Ints] = ()) -> Keys:
    """A key below the product of ``sizes`` for every row; see `sort_matrix`."""
    offset = np.cumsum([0, *map(len, tables)], dtype=np.int64)
    table = np.concatenate(tables) if tables else np.zeros(0, np.int32)
    packed: Keys = kernels.order.pack(codes, np.array(columns, np.int64), np.array(sizes, np.uint64), table, offset)
    return packed


def _sort_keys(keys: Keys, number: Ints) -> Combinations:
    order = kernels.order.argsort(keys)
    return Combinations(number, order, kernels.order.number_keys(keys, order, number))
