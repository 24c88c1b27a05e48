"""Hashes of rows by the texts of their values, and the fingerprint of a table: equal for all engines and formats."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal import kernels
from shoal.arrays import UInt64Array
from shoal.engines import column_values
from shoal.engines.frames import decode_dictionary
from shoal.engines.keyed_hash import KeyedHash

WORD = 2**64


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


@dataclass(frozen=True)
class PartialDigest:
    """The digest of some rows of a table as a multiset. The digest of two sets of rows is the sum of their digests.

    The sum is associative and commutative, so workers can digest any batches in any order. `finish` gives the fingerprint.
    ``words`` are two sums modulo 2^64 and an exclusive or, each over a different mix of the row hashes.

    >>> hashes = np.array([3, 1, 3], np.uint64)
    >>> PartialDigest.of(hashes[:1]) + PartialDigest.of(hashes[1:]) == PartialDigest.of(hashes)
    True
    """

    rows: int = 0
    words: tuple[int, int, int] = (0, 0, 0)

    @classmethod
    def of(cls, hashes: UInt64Array) -> PartialDigest:
        """Digest rows by their hashes (`hash_rows`)."""
        one, two, three = kernels.hashing.digest(hashes).tolist()
        return cls(len(hashes), (one, two, three))

    def __add__(self, other: PartialDigest) -> PartialDigest:
        (a, b, c), (d, e, f) = self.words, other.words
        return PartialDigest(self.rows + other.rows, ((a + d) % WORD, (b + e) % WORD, c ^ f))

    def finish(self, names: Iterable[str]) -> str:
        """Return the fingerprint of the table with these columns."""
        content = [sorted(names), self.rows, list(self.words)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def digest_rows(names: Iterable[str], hashes: Iterable[UInt64Array]) -> str:
    """Return a digest of the rows as a multiset, from batches of row hashes."""
    return sum(map(PartialDigest.of, hashes), PartialDigest()).finish(names)
