"""Hashes of rows by the texts of their values, and the fingerprint of a table: the same for every engine and format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from shoal import kernels
from shoal.arrays import UInt64Array
from shoal.engines import column_values
from shoal.engines.frames import plain
from shoal.engines.keyed_hash import KeyedHash


def row_hashes(columns: Mapping[str, pa.ChunkedArray], rows: int) -> UInt64Array:
    """A hash of every row, to which each column adds what it holds under its name."""
    found = np.zeros(rows, np.uint64)
    for name, array in columns.items():
        hashes, place = column_values.hashes(array, name)
        kernels.hashing.add_hashes(found, hashes, place, _salt(name))
    return found


def keyed_hashes(keyed: KeyedHash, columns: Mapping[str, pa.ChunkedArray], rows: int) -> UInt64Array:
    """For every row the sum of the keyed hashes of its values, each by its text, and by the moment where that has a zone."""
    found = np.zeros(rows, np.uint64)
    for name, array in columns.items():
        texts, place = column_values.written(array, name)
        found += keyed.encoded(name, *column_values.bytes_of(texts))[place]
        if pa.types.is_timestamp(array.type) and array.type.tz:  # a clock that is set back shows one text twice
            moments = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64()).fill_null(0)
            found += keyed.words(name, moments.to_numpy().view(np.uint64))
    return found


def _salt(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def moment_hashes(columns: Mapping[str, pa.ChunkedArray], rows: int) -> UInt64Array:
    """A hash of the moments of every row: a clock shows the same text twice when it is set back by an hour."""
    found = np.zeros(rows, np.uint64)
    for name, array in columns.items():
        moments = plain(array)
        if pa.types.is_timestamp(moments.type):
            bits = moments.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64)
            kernels.hashing.add_hashes(found, bits, np.arange(rows, dtype=np.int32), _salt(name))
    return found


def fingerprint(names: Sequence[str], hashes: Iterable[UInt64Array]) -> str:
    """A digest of rows as a multiset, from the hashes of some rows at a time."""
    words, rows = np.zeros(3, np.uint64), 0
    for part in hashes:
        rows += len(part)
        found = kernels.hashing.digest(part)
        words[:2] += found[:2]
        words[2] ^= found[2]
    content = [sorted(names), rows, [int(w) for w in words]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
