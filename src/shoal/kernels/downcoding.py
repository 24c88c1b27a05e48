"""Labels as boxes of codes, and the boxes that remain of a label without the boxes of earlier rounds."""

from __future__ import annotations

import numpy as np

from shoal.kernels.boxes import widen_to_label
from shoal.kernels.compiler import entry, inner

TRIES = 64  # points drawn before a box is searched exactly
MOST_STEPS = 20_000  # steps of an exact search; a box that needs more counts as not covered


@entry
def widen_to_labels(lo, hi, ints, first_code):
    """The codes that the labels of all groups cover."""
    label_lo, label_hi = np.empty_like(lo), np.empty_like(hi)
    for g in range(lo.shape[0]):
        for j in range(lo.shape[1]):
            label_lo[g, j], label_hi[g, j] = widen_to_label(j, lo[g, j], hi[g, j], ints, first_code)
    return label_lo, label_hi


@inner
def is_covered(point, boxes, lo, hi):
    """Whether one of the boxes contains a point."""
    for b in boxes:
        inside = True
        for j in range(point.shape[0]):
            if point[j] < lo[b, j] or point[j] > hi[b, j]:
                inside = False
                break
        if inside:
            return True
    return False


@inner
def find_uncovered(low, high, boxes, lo, hi, point):
    """Find a point of a box that no other box contains; return whether there is one.

    The box is divided at the borders of another box: the part outside of it is searched, then the next part, until only the
    part inside is left, which is covered. The search is depth first on a stack of boxes.
    """
    m = low.shape[0]
    stack_low, stack_high = [low.copy()], [high.copy()]
    for _ in range(MOST_STEPS):
        if len(stack_low) == 0:
            return False
        a, b = stack_low.pop(), stack_high.pop()
        other = -1
        for candidate in boxes:
            overlaps = True
            for j in range(m):
                if lo[candidate, j] > b[j] or hi[candidate, j] < a[j]:
                    overlaps = False
                    break
            if overlaps:
                other = candidate
                break
        if other < 0:
            point[:] = a
            return True
        for j in range(m):
            if lo[other, j] > a[j]:
                part = b.copy()
                part[j] = lo[other, j] - 1
                stack_low.append(a.copy())
                stack_high.append(part)
                a[j] = lo[other, j]
            if hi[other, j] < b[j]:
                part = a.copy()
                part[j] = hi[other, j] + 1
                stack_low.append(part)
                stack_high.append(b.copy())
                b[j] = hi[other, j]
    point[:] = low
    return True


@inner
def leaves_one_value(j, low, high, boxes, lo, hi):
    """Whether the box without the other boxes has a single value of attribute ``j``."""
    point = np.empty(low.shape[0], np.int32)
    if not find_uncovered(low, high, boxes, lo, hi, point):
        return False  # nothing is left: the attacker knows that the assumption is wrong
    value = point[j]
    for side in range(2):
        a, b = low.copy(), high.copy()
        if side == 0:
            b[j] = value - 1
        else:
            a[j] = value + 1
        if a[j] <= b[j] and find_uncovered(a, b, boxes, lo, hi, point):
            return False
    return True


@entry
def find_downcoded(lo, hi, rank):
    """For every group, sorted by rank, whether a generalized attribute has one value left without the boxes of lower ranks."""
    groups, m = lo.shape
    found = np.zeros(groups, np.bool_)
    near = np.empty(groups, np.int64)
    point, seen = np.empty(m, np.int32), np.empty((m, 2), np.int32)
    first_of_rank = 0
    for g in range(groups):
        if rank[g] > rank[first_of_rank]:
            first_of_rank = g
        wide = False
        for j in range(m):
            wide |= lo[g, j] < hi[g, j]
        if not wide:
            continue
        count = 0
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
        boxes = near[:count]
        seen[:, 0], seen[:, 1] = -1, -1
        state = np.uint64(g) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
        for _ in range(TRIES):  # two uncovered points with different values settle an attribute
            for j in range(m):
                state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                point[j] = lo[g, j] + np.int32((state >> np.uint64(33)) % np.uint64(hi[g, j] - lo[g, j] + 1))
            if not is_covered(point, boxes, lo, hi):
                for j in range(m):
                    if seen[j, 0] < 0:
                        seen[j, 0] = point[j]
                    elif seen[j, 0] != point[j]:
                        seen[j, 1] = point[j]
        for j in range(m):
            if lo[g, j] < hi[g, j] and seen[j, 1] < 0 and leaves_one_value(j, lo[g], hi[g], boxes, lo, hi):
                found[g] = True
                break
    return found
