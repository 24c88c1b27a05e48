"""64-bit hashes of texts and rows, equal on every machine.

The unkeyed hashes detect changes; they are not signatures. The keyed hash is SipHash-2-4 (Aumasson and Bernstein 2012):
without its 128-bit key, nobody can predict which of two values has the smaller hash.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner

SEED = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


@inner(inline="always")
def mix(x):
    """Mix the bits of a word (the finalizer of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))


def hash_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The hash of every text; the texts are concatenated in ``data``."""
    out = np.empty(len(offsets) - 1, np.uint64)
    write_hashes(offsets, data, out)
    return out


@entry
def write_hashes(offsets, data, out):
    """See `hash_texts`."""
    for i in range(out.shape[0]):
        h = SEED
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[j])) * PRIME
        out[i] = mix(h)


@entry
def add_hashes(rows: NDArray[np.uint64], values: NDArray[np.uint64], index: NDArray[np.int32], salt: np.uint64) -> None:
    """Add a column to the row hashes: row i contains ``values[index[i]]``."""
    for i in range(rows.shape[0]):
        rows[i] += mix(values[index[i]] + salt)


def digest(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Three words that depend on the multiset of rows, not on their order."""
    out = np.zeros(3, np.uint64)
    add_digests(rows, out)
    return out


@entry
def add_digests(rows, out):
    """See `digest`."""
    for i in range(rows.shape[0]):
        h = mix(rows[i])
        out[0] += h
        out[1] += mix(h + SEED)
        out[2] ^= mix(h + PRIME)


@inner
def sip_rounds(a, b, c, d, count):
    """Rounds of SipHash on its four words."""
    for _ in range(count):
        a += b
        b = (b << np.uint64(13)) | (b >> np.uint64(51))
        b ^= a
        a = (a << np.uint64(32)) | (a >> np.uint64(32))
        c += d
        d = (d << np.uint64(16)) | (d >> np.uint64(48))
        d ^= c
        a += d
        d = (d << np.uint64(21)) | (d >> np.uint64(43))
        d ^= a
        c += b
        b = (b << np.uint64(17)) | (b >> np.uint64(47))
        b ^= c
        c = (c << np.uint64(32)) | (c >> np.uint64(32))
    return a, b, c, d


@inner
def sip_initialize(key):
    """The initial state of SipHash, four words; ``key`` has two words."""
    return (
        key[0] ^ np.uint64(0x736F6D6570736575),
        key[1] ^ np.uint64(0x646F72616E646F6D),
        key[0] ^ np.uint64(0x6C7967656E657261),
        key[1] ^ np.uint64(0x7465646279746573),
    )


@inner
def sip_absorb(a, b, c, d, word):
    """The state of SipHash after one more word of the message."""
    a, b, c, d = sip_rounds(a, b, c, d ^ word, 2)
    return a ^ word, b, c, d


@inner
def sip_finalize(a, b, c, d, last):
    """The hash; ``last`` is the last word, with the length of the message in its highest byte."""
    a, b, c, d = sip_absorb(a, b, c, d, last)
    a, b, c, d = sip_rounds(a, b, c ^ np.uint64(0xFF), d, 4)
    return a ^ b ^ c ^ d


def siphash_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SipHash-2-4 of every text; the texts are concatenated in ``data``."""
    out = np.empty(len(offsets) - 1, np.uint64)
    write_text_siphashes(offsets, data, key, out)
    return out


@entry
def write_text_siphashes(offsets, data, key, out):
    """See `siphash_texts`."""
    for i in range(out.shape[0]):
        begin, size = offsets[i], offsets[i + 1] - offsets[i]
        a, b, c, d = sip_initialize(key)
        for w in range(size // 8):
            word = np.uint64(0)
            for j in range(8):
                word |= np.uint64(data[begin + 8 * w + j]) << np.uint64(8 * j)
            a, b, c, d = sip_absorb(a, b, c, d, word)
        last = np.uint64(size & 0xFF) << np.uint64(56)
        for j in range(size % 8):
            last |= np.uint64(data[begin + size // 8 * 8 + j]) << np.uint64(8 * j)
        out[i] = sip_finalize(a, b, c, d, last)


def siphash_pairs(first: NDArray[np.uint64], second: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SipHash-2-4 of pairs of words; each pair is a message of 16 bytes."""
    out = np.empty(len(first), np.uint64)
    write_pair_siphashes(first, second, key, out)
    return out


@entry
def write_pair_siphashes(first, second, key, out):
    """See `siphash_pairs`."""
    for i in range(out.shape[0]):
        a, b, c, d = sip_initialize(key)
        a, b, c, d = sip_absorb(a, b, c, d, first[i])
        a, b, c, d = sip_absorb(a, b, c, d, second[i])
        out[i] = sip_finalize(a, b, c, d, np.uint64(16) << np.uint64(56))


def sum_by_code(table: NDArray[np.uint64], begin: NDArray[np.int64], codes: NDArray[np.int32]) -> NDArray[np.uint64]:
    """For every row of codes, the sum of ``table[begin[j] + code]`` over its columns j."""
    out = np.zeros(len(codes), np.uint64)
    add_by_code(table, begin, codes, out)
    return out


@entry
def add_by_code(table, begin, codes, out):
    """See `sum_by_code`; ``out`` is all zero."""
    for i in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            out[i] += table[begin[j] + codes[i, j]]
