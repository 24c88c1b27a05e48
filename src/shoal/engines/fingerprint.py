"""Hashes of rows by the texts of their values, and the fingerprint of a table: equal for all engines and formats."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from shoal import kernels
from shoal.arrays import UInt64Array
from shoal.engines import column_values
from shoal.engines.frames import decode_dictionary
from shoal.engines.keyed_hash import KeyedHash


def hash_rows(columns: Mapping[str, pa.ChunkedArray], rows: int) -> UInt64Array:
    """Return a hash of every row: the sum, over the columns, of a hash of the value's text and the column's name."""
    total = np.zeros(rows, np.uint64)
    for name, array in columns.items():
        hashes, index = column_values.hash_values(array, name)
        kernels.hashing.add_hashes(total, hashes, index, _column_salt(name))
    return total


def hash_rows_with_key(keyed: KeyedHash, columns: Mapping[str, pa.ChunkedArray], rows: int) -> UInt64Array:
    """Return for every row the sum of the keyed hashes of its texts, and of its timestamps where these have a time zone."""
    total = np.zeros(rows, np.uint64)
    for name, array in columns.items():
        texts, index = column_values.list_texts(array, name)
        total += keyed.hash_utf8(name, *column_values.text_buffers(texts))[index]
        if pa.types.is_timestamp(array.type) and array.type.tz:  # when clocks are set back, two times have one text
            times = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64()).fill_null(0)
            total += keyed.hash_words(name, times.to_numpy().view(np.uint64))
    return total


def _column_salt(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def hash_timestamps(columns: Mapping[str, pa.ChunkedArray], rows: int) -> UInt64Array:
    """Return a hash of the timestamps of every row. It distinguishes times of equal text, as when clocks are set back."""
    total = np.zeros(rows, np.uint64)
    for name, array in columns.items():
        times = decode_dictionary(array)
        if pa.types.is_timestamp(times.type):
            bits = times.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64)
            kernels.hashing.add_hashes(total, bits, np.arange(rows, dtype=np.int32), _column_salt(name))
    return total


def digest_rows(names: Sequence[str], hashes: Iterable[UInt64Array]) -> str:
    """Return a digest of the rows as a multiset, from batches of row hashes."""
    words, rows = np.zeros(3, np.uint64), 0
    for batch in hashes:
        rows += len(batch)
        digest = kernels.hashing.digest(batch)
        words[:2] += digest[:2]
        words[2] ^= digest[2]
    content = [sorted(names), rows, [int(w) for w in words]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
