"""Frequent itemsets and association rules of Adult."""

from __future__ import annotations

import numpy as np

from benchmarks.cases import adult_rows, measure_time
from shoal.models import Itemsets, mine_itemsets, mine_rules

LEFT_OUT = ("fnlwgt",)
SUPPORT = 0.005
BLOCK = 4096  # words; they stay in the cache, as the bitsets of a branch do


def mined_columns() -> list[str]:
    """Return the 14 columns of Adult, without the weights of the census."""
    return [name for name in adult_rows().columns if name not in LEFT_OUT]


def count_words(found: Itemsets) -> int:
    """Return the least number of words that are read: two bitsets for every set of three or more items.

    A bitset has one bit for every record that has the rarest item of the set. Pairs need no bitsets.
    """
    alone = found.count[found.size == 1]  # item i is set i
    rarest = np.minimum.reduceat(alone[found.members], found.start[:-1])
    return int(2 * ((rarest[found.size > 2] + 63) // 64).sum())


def read_words(words: int) -> None:
    """Read words from the cache."""
    np.bitwise_or.reduce(np.broadcast_to(np.ones(BLOCK, np.uint64), (words // BLOCK, BLOCK)), axis=1)


def itemsets() -> dict[str, float]:
    """Mine 30,162 rows of Adult, from the frame to the sorted sets, and the rules of these sets."""
    frame = adult_rows()[mined_columns()]
    mine_rules(mine_itemsets(frame, support=SUPPORT))  # compiles the kernels
    found, wall, cpu = measure_time(lambda: mine_itemsets(frame, support=SUPPORT), runs=9)
    rules, ruled, _ = measure_time(lambda: mine_rules(found), runs=3)
    words = count_words(found)
    _, reading, _ = measure_time(lambda: read_words(words), runs=5)
    return {
        "wall": wall,
        "cpu": cpu,
        "sets": len(found),
        "rows": found.records,
        "rules": len(rules),
        "rules_wall": ruled,
        "words": words,
        "reading": reading,
    }
