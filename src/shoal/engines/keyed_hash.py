"""A hash that nobody can compute without the secret of a release.

Whoever knows the algorithm and the quasi-identifiers of everybody can run a method again. What the method leaves open must
therefore depend on the secret: which of several equal records goes to which group, and how ties among records and cells are
broken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import FloatArray, Int64Array, UInt64Array


@dataclass(frozen=True)
class KeyedHash:
    """SipHash-2-4 under a key that is derived from a secret; equal for equal values, whatever engine holds them.

    A value is hashed together with the name of its column. A record is hashed by the sum of the hashes of its values: `mix`
    turns such a sum, together with the hash of the record's cell, into the hash by which records are ordered.
    """

    key: tuple[int, int] = field(repr=False)

    @classmethod
    def of(cls, secret: int) -> KeyedHash:
        """The hash for a secret: a whole number of at least 0."""
        content = secret.to_bytes(max(16, -(-secret.bit_length() // 8)), "little")
        digest = hashlib.blake2b(content, digest_size=16, person=b"shoal keyed hash").digest()
        return cls((int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")))

    @property
    def _words(self) -> UInt64Array:
        return np.array(self.key, np.uint64)

    def texts(self, column: str, texts: Sequence[str]) -> UInt64Array:
        """The hashes of texts of a column."""
        written = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.cumsum([0, *map(len, written)], dtype=np.int64)
        return self.encoded(column, offsets, np.frombuffer(b"".join(written), np.uint8))

    def encoded(self, column: str, offsets: Int64Array, data: NDArray[np.uint8]) -> UInt64Array:
        """The same for texts that lie one behind the other in ``data``, as UTF-8."""
        return self.words(column, np.asarray(kernels.hashing.siphash_texts(offsets, data, self._words)))

    def numbers(self, column: str, numbers: FloatArray) -> UInt64Array:
        """The hashes of numbers of a column."""
        return self.words(column, np.ascontiguousarray(numbers + 0.0, np.float64).view(np.uint64))

    def mix(self, first: UInt64Array, second: UInt64Array) -> UInt64Array:
        """The hashes of pairs of hashes."""
        one, other = np.ascontiguousarray(first, np.uint64), np.ascontiguousarray(second, np.uint64)
        return np.asarray(kernels.hashing.siphash_pairs(one, other, self._words))

    def words(self, column: str, words: UInt64Array) -> UInt64Array:
        """The hashes of words of a column."""
        digest = hashlib.blake2b(column.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return self.mix(np.full(len(words), int.from_bytes(digest, "little"), np.uint64), words)
