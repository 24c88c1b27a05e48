"""SipHash-2-4 against the vectors of its authors and against a plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import kernels
from shoal.engines.keyed_hash import KeyedHash

KEY = np.frombuffer(bytes(range(16)), np.uint64)
WORD = 2**64 - 1


def twin(message: bytes, key: bytes) -> int:
    """As Aumasson and Bernstein write it, in whole numbers of Python."""
    first, second = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [
        first ^ 0x736F6D6570736575,
        second ^ 0x646F72616E646F6D,
        first ^ 0x6C7967656E657261,
        second ^ 0x7465646279746573,
    ]

    def turn(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & WORD

    def mix() -> None:
        for a, b, by, half in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
            v[a] = (v[a] + v[b]) & WORD
            v[b] = turn(v[b], by) ^ v[a]
            if half:
                v[a] = turn(v[a], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        mix()
        mix()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        mix()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def hashed(messages: list[bytes], key: np.ndarray) -> list[int]:
    offsets = np.cumsum([0, *map(len, messages)], dtype=np.int64)
    return kernels.hashing.siphash_texts(offsets, np.frombuffer(b"".join(messages), np.uint8), key).tolist()


def test_the_vectors_of_the_authors() -> None:
    assert hashed([bytes(range(n)) for n in (0, 1, 8, 15)], KEY) == [
        0x726FDB47DD0E0E31,
        0x74F839C593DC67FD,
        0x93F5F5799A932462,
        0xA129CA6149BE45E5,
    ]


@given(messages=st.lists(st.binary(max_size=40), min_size=1), key=st.binary(min_size=16, max_size=16))
def test_texts_are_hashed_as_the_twin_does(messages: list[bytes], key: bytes) -> None:
    assert hashed(messages, np.frombuffer(key, np.uint64)) == [twin(m, key) for m in messages]


@given(words=st.lists(st.integers(0, WORD), min_size=1), key=st.binary(min_size=16, max_size=16))
def test_pairs_are_messages_of_two_words(words: list[int], key: bytes) -> None:
    first, second = np.array(words, np.uint64), np.array(words[::-1], np.uint64)
    found = kernels.hashing.siphash_pairs(first, second, np.frombuffer(key, np.uint64)).tolist()
    pairs = zip(words, words[::-1], strict=True)
    assert found == [twin(a.to_bytes(8, "little") + b.to_bytes(8, "little"), key) for a, b in pairs]


@pytest.mark.parametrize("seed", [0, 1, 2**64, 2**128, 2**4000])
def test_every_seed_has_a_key_of_its_own(seed: int) -> None:
    keyed, other = KeyedHash.of(seed), KeyedHash.of(seed + 1)
    assert keyed.key != other.key and str(keyed.key[0]) not in repr(keyed)
    texts = ["", "a", "ä", "\ud800"]
    assert len({*keyed.hash_texts("x", texts).tolist(), *keyed.hash_texts("y", texts).tolist()}) == 8
    assert not set(keyed.hash_texts("x", texts).tolist()) & set(other.hash_texts("x", texts).tolist())
    assert keyed.hash_numbers("x", np.array([0.0]))[0] == keyed.hash_numbers("x", np.array([-0.0]))[0]
    assert len(keyed.hash_texts("x", [])) == 0
