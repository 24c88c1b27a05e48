"""Hashes of rows by the texts of their values, and the fingerprint of a table: the same for every engine and format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal import kernels
from shoal.engines import values
from shoal.engines.keyed import KeyedHash

U8 = NDArray[np.uint64]


def row_hashes(columns: Mapping[str, pa.ChunkedArray], rows: int) -> U8:
    """A hash of every row, to which each column adds what it holds under its name."""
    found = np.zeros(rows, np.uint64)
    for name, array in columns.items():
        salt = np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
        hashes, place = values.hashes(array, name)
        kernels.hashing.add(found, hashes, place, salt)
    return found


def keyed_hashes(keyed: KeyedHash, columns: Mapping[str, pa.ChunkedArray], rows: int) -> U8:
    """For every row the sum of the keyed hashes of its values, each by its text."""
    found = np.zeros(rows, np.uint64)
    for name, array in columns.items():
        texts, place = values.written(array, name)
        found += keyed.encoded(name, *values.bytes_of(texts))[place]
    return found


def forms(columns: Mapping[str, pa.ChunkedArray], rows: int) -> U8:
    """What the texts of a row do not tell: which values are null, NaN or negative zero; so that no order is left to chance."""
    found = np.zeros(rows, np.uint64)
    for array in columns.values():
        form = array.is_null().to_numpy().astype(np.uint64)
        if pa.types.is_floating(array.type) and not pa.types.is_float16(array.type):
            value = array.fill_null(0).to_numpy()
            form += np.where(np.isnan(value), 2, np.signbit(value)).astype(np.uint64) * np.uint64(2)
        found = found * np.uint64(6) + form
    return found


def fingerprint(names: Sequence[str], hashes: Iterable[U8]) -> str:
    """A digest of rows as a multiset, from the hashes of some rows at a time."""
    words, rows = np.zeros(3, np.uint64), 0
    for part in hashes:
        rows += len(part)
        found = kernels.hashing.digest(part)
        words[:2] += found[:2]
        words[2] ^= found[2]
    content = [sorted(names), rows, [int(w) for w in words]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
