"""Mondrian, slow and obvious: lists of records, every cut tried, everything recomputed.

A record is a tuple (codes, secret). ``losses[j](lo, hi)`` is the loss of an interval of attribute j, its weight included,
``fits(records)`` whether a group may exist, ``class_of(record)`` what the cut by a target is to tell of.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

Record = tuple[tuple[int, ...], tuple[int, ...]]
Loss = Callable[[int, int], float]
Class = Callable[[Record], int]


def box(records: Sequence[Record]) -> list[tuple[int, int]]:
    columns = list(zip(*(codes for codes, _ in records), strict=True))
    return [(min(c), max(c)) for c in columns]


def total_loss(records: Sequence[Record], losses: Sequence[Loss]) -> float:
    loss = 0.0
    for (lo, hi), measure in zip(box(records), losses, strict=True):
        loss += measure(lo, hi)
    return loss


def sides(records: Sequence[Record], j: int, at: int) -> tuple[list[Record], list[Record]]:
    return [r for r in records if r[0][j] <= at], [r for r in records if r[0][j] > at]


def entropy(records: Sequence[Record], class_of: Class) -> float:
    """Of the classes, in bits, times the records."""
    counts = Counter(class_of(record) for record in records).values()
    return -math.fsum(n * math.log2(n / len(records)) for n in counts)


def best_target(records: Sequence[Record], attributes: int, fits: Callable[[Sequence[Record]], bool], class_of: Class):
    """A later cut must tell more than the best so far by more than rounding."""
    best, choice = 0.0, None
    for j in range(attributes):
        for at in sorted({codes[j] for codes, _ in records})[:-1]:
            left, right = sides(records, j, at)
            gain = entropy(records, class_of) - entropy(left, class_of) - entropy(right, class_of)
            if gain > best + 1e-9 * len(records) and fits(left) and fits(right):
                best, choice = gain, (left, right)
    return choice


def best_gain(records: Sequence[Record], losses: Sequence[Loss], fits: Callable[[Sequence[Record]], bool]):
    best, choice = 1e-9 * len(records), None
    now = total_loss(records, losses)
    for j in range(len(losses)):
        for at in sorted({codes[j] for codes, _ in records})[:-1]:
            left, right = sides(records, j, at)
            if not (fits(left) and fits(right)):
                continue
            gain = len(records) * now - (len(left) * total_loss(left, losses) + len(right) * total_loss(right, losses))
            if gain > best:
                best, choice = gain, (left, right)
    return choice


def widest_first(records: Sequence[Record], losses: Sequence[Loss]) -> list[int]:
    """A single value cannot be cut, also if its rounded ends give it a loss."""
    width = [measure(lo, hi) if lo < hi else 0.0 for (lo, hi), measure in zip(box(records), losses, strict=True)]
    return [j for j in sorted(range(len(losses)), key=lambda j: (-width[j], j)) if width[j] > 0]


def best_median(records: Sequence[Record], losses: Sequence[Loss], fits: Callable[[Sequence[Record]], bool]):
    for j in widest_first(records, losses):
        cuts = sorted({codes[j] for codes, _ in records})[:-1]
        if not cuts:
            continue
        at = min(cuts, key=lambda at: (abs(2 * len(sides(records, j, at)[0]) - len(records)), at))
        left, right = sides(records, j, at)
        if fits(left) and fits(right):
            return left, right
    return None


def best_relaxed(records: Sequence[Record], losses: Sequence[Loss], fits: Callable[[Sequence[Record]], bool]):
    for j in widest_first(records, losses):
        ordered = sorted(records, key=lambda r: (r[0][j], r))
        middle = len(ordered) // 2
        left, right = ordered[:middle], ordered[middle:]
        if fits(left) and fits(right):
            return left, right
    return None


CHOOSE = {"gain": best_gain, "target": best_gain, "median": best_median, "relaxed": best_relaxed}


def mondrian(
    records: Sequence[Record],
    losses: Sequence[Loss],
    fits: Callable[[Sequence[Record]], bool],
    cut: str,
    class_of: Class | None = None,
) -> list[list[Record]]:
    """The groups, each a sorted list of records."""
    choice = None if class_of is None else best_target(records, len(losses), fits, class_of)
    choice = choice or CHOOSE[cut](records, losses, fits)
    if choice is None:
        return [sorted(records)]
    return [group for side in choice for group in mondrian(side, losses, fits, cut, class_of)]
