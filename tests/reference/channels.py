"""Inference channels, slow and obvious: every pair of sets is taken, and inclusion and exclusion is written out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

Names = frozenset[str]
Supports = Mapping[Names, int]
Found = dict[tuple[Names, Names], int]


def parts_of(items: Names) -> Iterator[Names]:
    for size in range(len(items) + 1):
        yield from map(frozenset, itertools.combinations(sorted(items), size))


def group_sizes(supports: Supports) -> Found:
    """The number of records with the items ``present`` and none of ``absent``, wherever all supports are published.

    ``supports`` holds the empty set.
    """
    found: Found = {}
    for larger in supports:
        for present in parts_of(larger):
            between = [present | more for more in parts_of(larger - present)]
            if all(names in supports for names in between):
                signs = [(-1) ** (len(names) - len(present)) for names in between]
                found[present, larger - present] = sum(
                    s * supports[names] for s, names in zip(signs, between, strict=True)
                )
    return found


def remainders(supports: Supports) -> Found:
    """The number of records with a set and none of the published values (``column=value``) of a column, if two or more."""
    found: Found = {}
    for present in supports:
        items = [i for names in supports for i in names - present if "=" in i and present | {i} in supports]
        used = {i.partition("=")[0] for i in present}
        for column in {i.partition("=")[0] for i in items} - used:
            values = frozenset(i for i in items if i.partition("=")[0] == column)
            if len(values) > 1:
                found[present, values] = supports[present] - sum(supports[present | {i}] for i in values)
    return found


def channels(supports: Supports, k: int) -> Found:
    return {pair: people for pair, people in all_groups(supports).items() if 0 < people < k}


def all_groups(supports: Supports) -> Found:
    return group_sizes(supports) | remainders(supports)


def minimal_channels(supports: Supports, k: int) -> Found:
    """The channels of which no other channel has only some of the conditions."""
    every = channels(supports, k)
    return {
        (present, absent): people
        for (present, absent), people in every.items()
        if not any(p <= present and a <= absent and (p, a) != (present, absent) for p, a in every)
    }


def fewest_suppressed(supports: Supports, k: int) -> int:
    """The least number of sets without which there is no channel; the empty set is always published."""
    sets = [names for names in supports if names]
    for size in range(len(sets) + 1):
        for removed in itertools.combinations(sets, size):
            if not channels({n: c for n, c in supports.items() if n not in removed}, k):
                return size
    raise AssertionError("the number of records is a channel")
