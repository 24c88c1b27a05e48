"""Anatomy's buckets as Xiao and Tao describe them, in plain lists."""

from __future__ import annotations


def take_largest(counts: list[int], width: int) -> tuple[list[list[int]], list[int]]:
    """Fill buckets with one record each of the values that have most records left; also the records that remain."""
    left, buckets = list(counts), []
    while sum(n > 0 for n in left) >= width:
        largest = sorted(range(len(left)), key=lambda value: -left[value])[:width]
        for value in largest:
            left[value] -= 1
        buckets.append(largest)
    return buckets, left
