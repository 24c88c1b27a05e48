"""Labels as boxes of codes, and the boxes that remain of a label without the boxes of earlier rounds.

``room`` is `interface.DowncodingRoom`. The boxes from which others are removed are those of the groups ``room.near[:count]``.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.boxes import widen_to_label
from shoal.kernels.compiler import entry, inner
from shoal.kernels.interface import MOST_STEPS, ZERO64

TRIES = 64  # points drawn before a box is searched exactly


@entry
def widen_to_labels(lo, hi, ints, first_code, label_lo, label_hi):
    """Set the codes that the labels of all groups cover."""
    for g in range(lo.shape[0]):
        for j in range(lo.shape[1]):
            label_lo[g, j], label_hi[g, j] = widen_to_label(j, lo[g, j], hi[g, j], ints, first_code)


@inner
def is_covered(count, lo, hi, room):
    """Whether one of the boxes contains the point of ``room``."""
    point, near = room.point, room.near
    for i in range(count):
        inside = True
        for j in range(point.shape[0]):
            if point[j] < lo[near[i], j] or point[j] > hi[near[i], j]:
                inside = False
                break
        if inside:
            return True
    return False


@inner
def find_overlapping(count, lo, hi, room):
    """The first box that overlaps the box of ``room.low`` and ``room.high``, or -1."""
    low, high, near = room.low, room.high, room.near
    for i in range(count):
        overlaps = True
        for j in range(low.shape[0]):
            if lo[near[i], j] > high[j] or hi[near[i], j] < low[j]:
                overlaps = False
                break
        if overlaps:
            return near[i]
    return -1


@inner
def find_uncovered(count, lo, hi, room):
    """Find a point of the first box of the stack that no other box contains; return whether there is one.

    The box is divided at the borders of another box: the part outside of it is searched, then the next part, until only the
    part inside is left, which is covered. The search is depth first on a stack of boxes.
    """
    stack_low, stack_high, low, high, point = room.stack_low, room.stack_high, room.low, room.high, room.point
    m, waiting = low.shape[0], 1
    for j in range(m):
        point[j] = stack_low[0, j]
    for _ in range(MOST_STEPS):
        if waiting == 0:
            return False
        waiting -= 1
        for j in range(m):
            low[j], high[j] = stack_low[waiting, j], stack_high[waiting, j]
        other = find_overlapping(count, lo, hi, room)
        if other < 0:
            for j in range(m):
                point[j] = low[j]
            return True
        for j in range(m):
            for side in range(2):
                if (lo[other, j] <= low[j]) if side == 0 else (hi[other, j] >= high[j]):
                    continue
                for i in range(m):
                    stack_low[waiting, i], stack_high[waiting, i] = low[i], high[i]
                if side == 0:
                    stack_high[waiting, j] = lo[other, j] - 1
                    low[j] = lo[other, j]
                else:
                    stack_low[waiting, j] = hi[other, j] + 1
                    high[j] = hi[other, j]
                waiting += 1
    return True


@inner
def leaves_one_value(j, g, count, lo, hi, room):
    """Whether the box of group ``g`` without the other boxes has a single value of attribute ``j``."""
    stack_low, stack_high, value = room.stack_low, room.stack_high, 0
    for part in range(3):  # the box, then its values below and above the value that was found
        for i in range(lo.shape[1]):
            stack_low[0, i], stack_high[0, i] = lo[g, i], hi[g, i]
        if part == 1:
            stack_high[0, j] = value - 1
        elif part == 2:
            stack_low[0, j] = value + 1
        found = stack_low[0, j] <= stack_high[0, j] and find_uncovered(count, lo, hi, room)
        if found != (part == 0):
            return False  # if nothing is left, the attacker knows that the assumption is wrong
        if part == 0:
            value = room.point[j]
    return True


@entry
def find_downcoded(lo, hi, rank, room, found):
    """For every group, sorted by rank, whether a generalized attribute has one value left without the boxes of lower ranks."""
    groups, m = lo.shape[0], lo.shape[1]
    near, point, seen = room.near, room.point, room.seen
    first_of_rank = ZERO64
    for g in range(groups):
        if rank[g] > rank[first_of_rank]:
            first_of_rank = g
        wide = False
        for j in range(m):
            wide |= lo[g, j] < hi[g, j]
        if not wide:
            continue
        count = ZERO64
        for other in range(first_of_rank):
            overlaps = True
            for j in range(m):
                if lo[other, j] > hi[g, j] or hi[other, j] < lo[g, j]:
                    overlaps = False
                    break
            if overlaps:
                near[count] = other
                count += 1
        if count == 0:
            continue
        for j in range(m):
            seen[j, 0], seen[j, 1] = -1, -1
        state = np.uint64(g) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
        for _ in range(TRIES):  # two uncovered points with different values settle an attribute
            for j in range(m):
                state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                point[j] = lo[g, j] + np.int32((state >> np.uint64(33)) % np.uint64(hi[g, j] - lo[g, j] + 1))
            if not is_covered(count, lo, hi, room):
                for j in range(m):
                    if seen[j, 0] < 0:
                        seen[j, 0] = point[j]
                    elif seen[j, 0] != point[j]:
                        seen[j, 1] = point[j]
        for j in range(m):
            if lo[g, j] < hi[g, j] and seen[j, 1] < 0 and leaves_one_value(j, g, count, lo, hi, room):
                found[g] = True
                break
