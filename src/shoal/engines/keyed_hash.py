"""A hash that cannot be computed without the secret seed of a release.

An attacker who knows the algorithm and all quasi-identifiers can run a method again. The arbitrary choices of a method must
therefore depend on the secret seed: which of several equal records goes to which group, and how ties among records and cells
are broken.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal import kernels
from shoal.arrays import FloatArray, Int64Array, UInt64Array

PSEUDONYM = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class KeyedHash:
    """SipHash-2-4 with a key that is derived from a secret seed. Equal values have equal hashes in every engine.

    A value is hashed together with the name of its column. A record is hashed by the sum of the hashes of its values: `mix`
    combines this sum with the hash of the record's cell, and `number_equal` adds the number of the record among equal records.
    The result orders the records of a cell.
    """

    key: tuple[int, int] = field(repr=False)

    @classmethod
    def of(cls, secret: int) -> KeyedHash:
        """Derive the key from a secret seed, a whole number of at least 0."""
        content = secret.to_bytes(max(16, -(-secret.bit_length() // 8)), "little")
        digest = hashlib.blake2b(content, digest_size=16, person=b"shoal keyed hash").digest()
        return cls((int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")))

    @property
    def _key_words(self) -> UInt64Array:
        return np.array(self.key, np.uint64)

    def hash_texts(self, column: str, texts: Sequence[str]) -> UInt64Array:
        """Return the hashes of texts of a column."""
        try:
            content = "".join(texts).encode("ascii")
        except UnicodeEncodeError:
            encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        else:
            offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
            return self.hash_utf8(column, offsets, np.frombuffer(content, np.uint8))
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return self.hash_utf8(column, offsets, np.frombuffer(b"".join(encoded), np.uint8))

    def hash_utf8(self, column: str, offsets: Int64Array, data: NDArray[np.uint8]) -> UInt64Array:
        """Return the hashes of texts that are concatenated as UTF-8 in ``data``."""
        return self.hash_words(column, np.asarray(kernels.hashing.siphash_texts(offsets, data, self._key_words)))

    def hash_numbers(self, column: str, numbers: FloatArray) -> UInt64Array:
        """Return the hashes of numbers of a column."""
        return self.hash_words(column, np.ascontiguousarray(numbers + 0.0, np.float64).view(np.uint64))

    def mix(self, first: UInt64Array, second: UInt64Array) -> UInt64Array:
        """Return the hashes of pairs of hashes."""
        one, other = np.ascontiguousarray(first, np.uint64), np.ascontiguousarray(second, np.uint64)
        return np.asarray(kernels.hashing.siphash_pairs(one, other, self._key_words))

    def number_equal(self, cell: NDArray[np.integer], hashes: UInt64Array) -> UInt64Array:
        """Return the hashes of records, where equal records of a cell get different hashes by their number.

        Equal records are interchangeable. Without the number they would stay together in the order of the hashes, so a rare
        value would come first as often as a frequent one.
        """
        order = np.lexsort((hashes, cell))
        same = np.zeros(len(order), bool)
        same[1:] = (hashes[order[1:]] == hashes[order[:-1]]) & (cell[order[1:]] == cell[order[:-1]])
        place = np.arange(len(order))
        number = np.empty(len(order), np.uint64)
        number[order] = place - np.maximum.accumulate(np.where(same, 0, place))
        return self.mix(hashes, number)

    def derive_key(self, purpose: bytes) -> bytes:
        """Return a key of 256 bits for another purpose; neither this key nor the secret seed follow from it."""
        words = b"".join(word.to_bytes(8, "little") for word in self.key)
        return hashlib.blake2b(words, digest_size=32, person=purpose).digest()

    def make_pseudonyms(self, column: str, texts: Iterable[str]) -> list[str]:
        """Return a pseudonym of every text of a column: a keyed hash of 128 bits. Without the key nobody can compute it."""
        words = b"".join(word.to_bytes(8, "little") for word in self.key)
        key = hashlib.blake2b(
            words + column.encode("utf-8", "surrogatepass"), digest_size=32, person=b"shoal pseudonym"
        )
        digest, key_bytes = hashlib.blake2b, key.digest()
        return [digest(t.encode("utf-8", "surrogatepass"), digest_size=16, key=key_bytes).hexdigest() for t in texts]

    def hash_words(self, column: str, words: UInt64Array) -> UInt64Array:
        """Return the hashes of 64-bit words of a column."""
        digest = hashlib.blake2b(column.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return self.mix(np.full(len(words), int.from_bytes(digest, "little"), np.uint64), words)


def is_pseudonym(text: str) -> bool:
    """Whether a text has the form of `KeyedHash.make_pseudonyms`."""
    return PSEUDONYM.fullmatch(text) is not None
