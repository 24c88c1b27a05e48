"""Counts of different people: a person is a number, and -1 stands for a different person in every record."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shoal.kernels.group_tree import allocate_nearest, find_cheapest_groups, interval_cost


@njit(cache=True, nogil=True)
def count_people(
    start: NDArray[np.int64], person: NDArray[np.int32], records: NDArray[np.int64], people: int
) -> NDArray[np.int64]:
    """Return the number of different people of every run of cells, from ``start[r]`` to ``start[r + 1]``."""
    seen = np.full(people, -1, np.int64)  # the last run in which a person was counted
    found = np.zeros(len(start) - 1, np.int64)
    for run in range(len(start) - 1):
        for cell in range(start[run], start[run + 1]):
            p = person[cell]
            if p < 0:
                found[run] += records[cell]
            elif seen[p] != run:
                seen[p] = run
                found[run] += 1
    return found


@njit(cache=True, nogil=True)
def choose_votes(person: NDArray[np.int32], keyed: NDArray[np.uint64], people: int) -> NDArray[np.bool_]:
    """Mark one cell of every person: the one with the smallest keyed hash; cells of records without a person vote all."""
    chosen = np.full(people, -1, np.int64)
    votes = np.zeros(len(person), np.bool_)
    for cell in range(len(person)):
        p = person[cell]
        if p < 0:
            votes[cell] = True
        elif chosen[p] < 0 or keyed[cell] < keyed[chosen[p]]:
            chosen[p] = cell
    for p in range(people):
        if chosen[p] >= 0:
            votes[chosen[p]] = True
    return votes


@njit(cache=True, nogil=True)
def rate_boxes(low, high, losses):
    """Return the loss of every box by attribute."""
    loss = np.zeros(low.shape)
    for b in range(low.shape[0]):
        for j in range(low.shape[1]):
            loss[b, j] = interval_cost(j, low[b, j], high[b, j], losses.pairs, losses.begin, losses.loss_tables)
    return loss


@njit(cache=True, nogil=True)
def find_cheapest_boxes(low, high, records, own, tree, losses):
    """Return for every box of records the group whose information loss grows least; never the group ``own`` of the box."""
    found = np.full(low.shape[0], -1, np.int64)
    nearest = allocate_nearest(tree.child.shape[0], 1)
    loss = np.empty(low.shape[1])
    for b in range(low.shape[0]):
        for j in range(low.shape[1]):
            loss[j] = interval_cost(j, low[b, j], high[b, j], losses.pairs, losses.begin, losses.loss_tables)
        most = np.iinfo(np.int64).max
        if find_cheapest_groups(low[b], high[b], loss, records[b], own[b], np.inf, 0, 1, most, tree, losses, nearest):
            found[b] = nearest.group[0]
    return found
