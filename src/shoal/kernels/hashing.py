"""Hashes of texts and rows: 64 bits, the same on every machine; they detect change, they are no signature."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

U8 = NDArray[np.uint64]

SEED = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def mix(x):
    """Spread every bit of a word over all others."""
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> U8:
    """A hash for each of the texts that lie one behind the other in ``data``."""
    out = np.empty(offsets.shape[0] - 1, np.uint64)
    for i in range(out.shape[0]):
        h = SEED
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[j])) * PRIME
        out[i] = mix(h)
    return out


@njit(cache=True, nogil=True)
def add(rows: U8, values: U8, place: NDArray[np.int32], salt: np.uint64) -> None:
    """Add a column to the hashes of its rows: row i holds ``values[place[i]]``."""
    for i in range(rows.shape[0]):
        rows[i] += mix(values[place[i]] + salt)


@njit(cache=True, nogil=True)
def digest(rows: U8) -> U8:
    """Three words that depend on the rows as a multiset."""
    out = np.zeros(3, np.uint64)
    for i in range(rows.shape[0]):
        h = mix(rows[i])
        out[0] += h
        out[1] += mix(h + SEED)
        out[2] ^= mix(h + PRIME)
    return out
