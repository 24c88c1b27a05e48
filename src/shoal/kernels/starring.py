"""Starred cells: divide a few records with the fewest starred cells, and find groups that can share records.

A group stars every attribute in which its records differ. ``label[g, j]`` is the code that all records of group g have in
attribute j, or -1 if the attribute is starred. The cost of a group is the sum of the weights of its starred attributes, times
its records.
"""

from __future__ import annotations

import numpy as np

from shoal.kernels.compiler import entry, inner
from shoal.kernels.limits import holds

TIE = 1e-9


@inner
def rate_subsets(rows, values, labels, least, width, weight):
    """The cost of every subset of the records as one group, by the bits of their numbers; infinite if it fails."""
    m, attributes = rows.shape
    subsets = 1 << m
    differs = np.zeros((subsets, attributes), np.bool_)
    size = np.zeros(subsets, np.int64)
    cost = np.full(subsets, np.inf)
    histogram = np.zeros(width, np.int64)
    for subset in range(1, subsets):
        first = 0
        while not (subset >> first) & 1:
            first += 1
        rest = subset & (subset - 1)
        size[subset] = size[rest] + 1
        second = first + 1
        while rest and not (rest >> second) & 1:
            second += 1
        total = 0.0
        for j in range(attributes):
            differs[subset, j] = rest and (differs[rest, j] or rows[first, j] != rows[second, j])
            if differs[subset, j]:
                total += weight[j]
        if size[subset] < least:
            continue
        if width > 0:
            for c in range(width):
                histogram[c] = 0
            for i in range(m):
                if (subset >> i) & 1:
                    for s in range(values.sensitive.shape[1]):
                        histogram[values.offset[s] + values.sensitive[labels[i], s]] += 1
            if not holds(size[subset], histogram, values.limits):
                continue
        cost[subset] = total * size[subset]
    return cost


@entry
def divide(rows, values, labels, least, width, weight, group):
    """Divide a few records into groups at the least cost; return the cost, infinite if not all groups can pass.

    ``labels[i]`` is the row of ``values.sensitive`` (`interface.SensitiveLabels`) of record i. ``width`` is 0 if the
    requirements depend on the size of groups alone. Ties: larger groups. The time is 3 to the power of the records.
    """
    m = rows.shape[0]
    cost = rate_subsets(rows, values, labels, least, width, weight)
    subsets = 1 << m
    best = np.full(subsets, np.inf)
    chosen = np.zeros(subsets, np.int64)
    best[0] = 0.0
    for subset in range(1, subsets):
        lowest = subset & -subset
        rest = subset ^ lowest
        part = rest
        while True:
            own = part | lowest
            total = cost[own] + best[subset ^ own]
            if total < best[subset] - TIE:
                best[subset], chosen[subset] = total, own
            if part == 0:
                break
            part = (part - 1) & rest
    if best[subsets - 1] < np.inf:
        left, number = subsets - 1, 0
        while left:
            for i in range(m):
                if (chosen[left] >> i) & 1:
                    group[i] = number
            left ^= chosen[left]
            number += 1
    return best[subsets - 1]


@entry
def rate_joins(label, weight, block, cost, union):
    """For every group, its cost as it is, and the cost of each record after it takes a block of records with this label."""
    for g in range(label.shape[0]):
        cost[g], union[g] = 0.0, 0.0
        for j in range(label.shape[1]):
            if label[g, j] < 0:
                cost[g] += weight[j]
            if label[g, j] < 0 or label[g, j] != block[j]:
                union[g] += weight[j]


@entry
def find_partners(label, size, weight, candidates, window, most, partner):
    """For every candidate, the groups with which it agrees most and has at most ``most`` records together; -1 for none.

    ``partner[c]`` has the best ones first. Equal values agree by their weight, a star and any value by a half. Only groups
    up to ``window`` places from the candidate are compared; ties: the first.
    """
    count = partner.shape[1]
    score = np.empty(count)
    for c in range(candidates.shape[0]):
        g = candidates[c]
        for p in range(count):
            score[p], partner[c, p] = -1.0, -1
        for h in range(max(0, g - window), min(label.shape[0], g + window + 1)):
            if h == g or size[g] + size[h] > most:
                continue
            agree = 0.0
            for j in range(label.shape[1]):
                if label[g, j] < 0 or label[h, j] < 0:
                    agree += weight[j] / 2
                elif label[g, j] == label[h, j]:
                    agree += weight[j]
            at = count
            while at > 0 and agree > score[at - 1] + TIE:
                at -= 1
            if at < count:
                for p in range(count - 1, at, -1):
                    score[p], partner[c, p] = score[p - 1], partner[c, p - 1]
                score[at], partner[c, at] = agree, h
