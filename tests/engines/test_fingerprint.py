"""The fingerprint from partial digests: any batches in any order, and the fingerprints of earlier versions."""

from __future__ import annotations

import hashlib
import json
from functools import reduce
from operator import add
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines import open_data
from shoal.engines.fingerprint import PartialDigest, digest_rows, hash_rows

NAMES = ("b", "a")
KNOWN = "33684080a7684849a7281da5ab171d469c0c25d27eb97b773fa32869a8fbb814"  # of the table below, by an earlier version
word = st.integers(0, 2**64 - 1)
partial = st.builds(PartialDigest, st.integers(0, 2**40), st.tuples(word, word, word))


def batches(hashes: list[int], random: Random) -> list[np.ndarray]:
    """The rows in any order, cut into batches, some of them empty."""
    shuffled = random.sample(hashes, len(hashes))
    cuts = sorted(random.choices(range(len(hashes) + 1), k=random.randrange(6)))
    ends = zip([0, *cuts], [*cuts, len(hashes)], strict=True)
    return [np.array(shuffled[first:last], np.uint64) for first, last in ends]


@given(st.lists(st.one_of(word, st.integers(0, 3)), max_size=40), st.randoms(use_true_random=False))
def test_any_batches_in_any_order_have_one_digest(hashes: list[int], random: Random) -> None:
    whole = PartialDigest.of(np.array(hashes, np.uint64))
    parts = [PartialDigest.of(batch) for batch in batches(hashes, random)]
    while len(parts) > 1:  # workers add any two of the results
        one, other = (parts.pop(random.randrange(len(parts))) for _ in range(2))
        parts.append(one + other)
    assert parts == [whole]
    assert digest_rows(NAMES, batches(hashes, random)) == whole.finish(NAMES)


@given(st.lists(partial, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_the_sum_is_associative_and_commutative(parts: list[PartialDigest], random: Random) -> None:
    left = reduce(add, parts)
    right = reduce(lambda one, other: other + one, reversed(parts))
    assert left == right == reduce(add, random.sample(parts, len(parts)))
    assert left + PartialDigest() == left


@given(st.lists(word, min_size=1, max_size=20), st.data())
def test_another_row_is_another_digest(hashes: list[int], data: st.DataObject) -> None:
    changed = list(hashes)
    place = data.draw(st.integers(0, len(hashes) - 1))
    changed[place] ^= data.draw(st.integers(1, 2**64 - 1))
    prints = {PartialDigest.of(np.array(h, np.uint64)).finish(NAMES) for h in (hashes, changed, [*hashes, hashes[0]])}
    assert len(prints) == 3


def test_the_fingerprint_is_a_hash_of_the_names_the_rows_and_the_words() -> None:
    """The recipe is fixed: certificates hold fingerprints of earlier versions."""
    digest = PartialDigest(2, (1, 2, 3))
    expected = hashlib.sha256(json.dumps([["a", "b"], 2, [1, 2, 3]]).encode()).hexdigest()
    assert digest.finish(NAMES) == digest.finish(reversed(NAMES)) == expected
    table = pa.table({"b": ["x", None, "x"], "a": [1.5, 2.0, -0.0]})
    hashes = hash_rows({name: table[name] for name in NAMES}, 3)
    assert open_data(table).fingerprint() == digest_rows(NAMES, [hashes[2:], hashes[:2]]) == KNOWN
