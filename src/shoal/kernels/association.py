"""Find association rules: divide every set of items into two sides, and find the number of records of each side.

The sets are in a hash table. The hash of a set is the exclusive or of the hashes of its items, so the hash of the one side
follows from those of the set and the other side. Right sides are extended item by item (Agrawal and Srikant 1994, section 3): a
longer right side has a shorter left side, which more records have, so its confidence is not higher.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.hashing import mix
from shoal.kernels.interface import NONE64, ONE64, ZERO64
from shoal.kernels.itemsets import enlarge

EMPTY = np.uint64(0)
FEW = 1024  # rules for which there is room at first


class SetIndex(NamedTuple):
    """Sets of items with their numbers of records, and a hash table of them; ``slot`` has the number of a set, or -1."""

    start: NDArray[Any]
    members: NDArray[Any]
    records: NDArray[Any]
    item_hash: NDArray[Any]
    set_hash: NDArray[Any]
    slot: NDArray[Any]


class FoundRules(NamedTuple):
    """Rules: the numbers of the set with all items, of its left side and of its right side."""

    whole: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]


@entry
def index_sets(start, members, records, items):
    """Put sets of items into a hash table. At least half of its slots are empty."""
    item_hash = np.empty(items, np.uint64)
    for i in range(items):
        item_hash[i] = mix(np.uint64(i + 1))
    sets = records.shape[0]
    slots = ONE64
    while slots < 2 * sets + 1:
        slots *= 2
    slot = np.full(slots, NONE64)
    set_hash = np.zeros(sets, np.uint64)
    for s in range(sets):
        for p in range(start[s], start[s + 1]):
            set_hash[s] ^= item_hash[members[p]]
        at = np.int64(set_hash[s] & np.uint64(slots - 1))
        while slot[at] >= 0:
            at = (at + 1) & (slots - 1)
        slot[at] = s
    return SetIndex(start, members, records, item_hash, set_hash, slot)


@inner
def find_side(index, whole, in_right, side, size, key):
    """The number of the set with the items on one side of another set, or -1; ``size`` and ``key`` are those of the side."""
    last = index.slot.shape[0] - 1
    at = np.int64(key & np.uint64(last))
    while index.slot[at] >= 0:
        s = index.slot[at]
        place, end = index.start[s], index.start[s + 1]
        if index.set_hash[s] == key and end - place == size:
            first = index.start[whole]
            for p in range(index.start[whole + 1] - first):
                if in_right[p] == side and place < end and index.members[place] == index.members[first + p]:
                    place += 1
            if place == end:
                return s
        at = (at + 1) & last
    return NONE64


@inner
def append_rule(rules, used, whole, left, right):
    """Add a rule after the used ones."""
    wholes, lefts = enlarge(rules.whole, used, ONE64), enlarge(rules.left, used, ONE64)
    rights = enlarge(rules.right, used, ONE64)
    wholes[used], lefts[used], rights[used] = whole, left, right
    return FoundRules(wholes, lefts, rights)


@entry
def find_rules(index, first, end, confidence, largest, most):
    """The rules of the sets from ``first`` to ``end``, with a least confidence and at most ``largest`` items on the right.

    A rule needs the numbers of records of its sides; a rule with a side that is not among the sets is left out. The search
    ends when it has found more than ``most`` rules.
    """
    rules = FoundRules(np.empty(FEW, np.int64), np.empty(FEW, np.int64), np.empty(FEW, np.int64))
    used = ZERO64
    longest = ZERO64
    for s in range(first, end):
        longest = max(longest, index.start[s + 1] - index.start[s])
    in_right, added = np.zeros(longest + 1, np.bool_), np.zeros(longest + 1, np.int64)
    for s in range(first, end):
        begin, items = index.start[s], index.start[s + 1] - index.start[s]
        limit = min(largest, items - 1)
        depth, key = ZERO64, EMPTY
        added[0] = 0
        while depth >= 0 and used <= most:
            p = added[depth]
            if limit < 1 or p == items:  # remove the last item of the right side
                depth -= 1
                if depth >= 0:
                    p = added[depth]
                    in_right[p] = False
                    key ^= index.item_hash[index.members[begin + p]]
                    added[depth] += 1
                continue
            in_right[p] = True
            key ^= index.item_hash[index.members[begin + p]]
            left = find_side(index, s, in_right, False, items - depth - 1, index.set_hash[s] ^ key)
            holds = left < 0 or index.records[s] / max(index.records[left], ONE64) >= confidence
            if left >= 0 and holds:
                right = find_side(index, s, in_right, True, depth + 1, key)
                if right >= 0:
                    rules = append_rule(rules, used, s, left, right)
                    used += 1
            if holds and depth + 1 < limit:
                depth += 1
                added[depth] = p + 1
            else:
                in_right[p] = False
                key ^= index.item_hash[index.members[begin + p]]
                added[depth] += 1
        for p in range(items):
            in_right[p] = False
    return FoundRules(rules.whole[:used].copy(), rules.left[:used].copy(), rules.right[:used].copy())
