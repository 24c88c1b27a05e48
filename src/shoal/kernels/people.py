"""Counts of different people: a person is a number, and -1 stands for a different person in every record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiler import entry, inner
from shoal.kernels.group_tree import find_cheapest_groups, interval_cost
from shoal.kernels.interface import ONE64, ZERO64

NO_LIMIT = np.int64(2**63 - 1)


@entry(error_model="numpy")
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


@entry(error_model="numpy")
def count_failing_records(order, begin, start, person, records, least, people):
    """Return the number of records in groups of fewer than ``least`` people.

    Group g has the combinations ``order[begin[g]:begin[g + 1]]``, combination u the cells ``start[u]:start[u + 1]``.
    """
    seen = np.full(people, -1, np.int64)
    failing = 0
    for g in range(len(begin) - 1):
        found, total = 0, 0
        for at in range(begin[g], begin[g + 1]):
            u = order[at]
            for cell in range(start[u], start[u + 1]):
                p = person[cell]
                total += records[cell]
                if p < 0:
                    found += records[cell]
                elif seen[p] != g:
                    seen[p] = g
                    found += 1
        if found < least:
            failing += total
    return failing


@inner(error_model="numpy", inline="always")
def _scatter(word):
    """Return a word whose bits all depend on all bits of a word (the finalizer of splitmix64)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@entry(error_model="numpy")
def sum_histories(
    group: NDArray[np.int32], person: NDArray[np.int32], records: NDArray[np.int64], people: int
) -> NDArray[np.uint64]:
    """Return two hashes of the history of every cell: the multiset of the groups of all records of its person.

    The hash of a multiset is a sum. A record without a person is a history of its own.
    """
    total = np.zeros((people, 2), np.uint64)
    hashes = np.empty((len(group), 2), np.uint64)
    for cell in range(len(group)):
        for h in range(2):
            word = _scatter(np.uint64(group[cell]) * np.uint64(2) + np.uint64(h + 1) * np.uint64(0x9E3779B97F4A7C15))
            hashes[cell, h] = word
            if person[cell] >= 0:
                total[person[cell], h] += word * np.uint64(records[cell])
    for cell in range(len(group)):
        if person[cell] >= 0:
            hashes[cell] = total[person[cell]]
    return hashes


@entry(error_model="numpy")
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


@entry(error_model="numpy")
def rate_boxes(low, high, losses):
    """Return the loss of every box by attribute."""
    loss = np.zeros(low.shape)
    for b in range(low.shape[0]):
        for j in range(low.shape[1]):
            loss[b, j] = interval_cost(j, low[b, j], high[b, j], losses.pairs, losses.begin, losses.loss_tables)
    return loss


@entry(error_model="numpy")
def find_cheapest_boxes(low, high, records, own, tree, losses, nearest, loss, found):
    """Write for every box of records the group whose information loss grows least; never the group ``own`` of the box.

    ``nearest`` are `interface.NearestGroups`, ``loss`` is a work array by attribute.
    """
    for b in range(low.shape[0]):
        for j in range(low.shape[1]):
            loss[j] = interval_cost(j, low[b, j], high[b, j], losses.pairs, losses.begin, losses.loss_tables)
        count = find_cheapest_groups(
            low[b], high[b], loss, records[b], own[b], np.inf, ZERO64, ONE64, NO_LIMIT, tree, losses, nearest
        )
        found[b] = nearest.group[0] if count > 0 else -1


@entry(error_model="numpy")
def find_cuts(groups, order, begin, quasi, combination, person, records, least, people, losses, attribute, at):
    """Write the best cut of every group: codes up to ``at`` of ``attribute`` go left (-1: no cut is possible).

    Group g has the cells ``order[begin[g]:begin[g + 1]]``. Both sides of a cut have at least ``least`` different people. The
    best cut lowers the information loss of its attribute most; ties: the earlier attribute, then the smaller code.
    """
    pairs, starts, loss_tables = losses.pairs, losses.begin, losses.loss_tables
    seen = np.full(people, -1, np.int64)
    token = 0
    for g in groups:
        cells = order[begin[g] : begin[g + 1]]
        n = len(cells)
        total = 0
        for c in cells:
            total += records[c]
        if n < 2 or total < 2 * least:
            continue
        best = 0.0
        code, before, left = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
        for j in range(quasi.shape[1]):
            for i in range(n):
                code[i] = quasi[combination[cells[i]], j]
            lo, hi = code.min(), code.max()
            if lo == hi:
                continue
            place = np.argsort(code)
            found, held = 0, 0
            for i in range(n):
                c = cells[place[i]]
                p = person[c]
                held += records[c]
                if p < 0:
                    found += records[c]
                elif seen[p] != token:
                    seen[p] = token
                    found += 1
                before[i], left[i] = found, held
            token += 1
            whole = total * interval_cost(j, lo, hi, pairs, starts, loss_tables)
            found = 0
            for i in range(n - 1, 0, -1):
                c = cells[place[i]]
                p = person[c]
                if p < 0:
                    found += records[c]
                elif seen[p] != token:
                    seen[p] = token
                    found += 1
                high, low = code[place[i]], code[place[i - 1]]
                if before[i - 1] < least:
                    break
                if high == low or found < least:
                    continue
                loss = left[i - 1] * interval_cost(j, lo, low, pairs, starts, loss_tables)
                loss += (total - left[i - 1]) * interval_cost(j, high, hi, pairs, starts, loss_tables)
                if whole - loss > best * (1 + 1e-12) or (attribute[g] == j and whole - loss >= best):
                    best, attribute[g], at[g] = whole - loss, j, low
            token += 1
