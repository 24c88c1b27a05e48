"""The memory of a search in a lattice of levels, known before the records are counted."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from shoal.policy import Policy

TABLE = 60  # bytes of a group in the tables of a search and their hash table, by measurement
ATTRIBUTE = 40  # bytes for every attribute
VALUE = 125  # bytes for every sensitive value whose records are counted by group


class MemoryBound(NamedTuple):
    """The largest number of groups that a search can count, and the bytes for them."""

    groups: int
    bytes: int


def measure_group(attributes: int, values: int) -> int:
    """The largest number of bytes of a group, with a number of attributes and of counted sensitive values."""
    return TABLE + ATTRIBUTE * attributes + VALUE * values


def bound_memory(policy: Policy, rows: int, values: int) -> MemoryBound:
    """The bound of a table with so many records: no more groups than combinations of leaves, where all columns have trees."""
    leaves = [None if q.taxonomy is None else q.taxonomy.size + 1 for q in policy.quasi.values()]  # or missing
    known = [size for size in leaves if size is not None]
    groups = min(rows, prod(known)) if len(known) == len(leaves) else rows
    return MemoryBound(groups, groups * measure_group(len(leaves), values))
