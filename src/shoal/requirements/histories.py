"""Histories: the multiset of the published labels of all records of a person.

An attacker who knows all records of a person cannot tell people apart whose histories are equal. These people form a group.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, Int32Array
from shoal.requirements.groups import Groups, take_rows
from shoal.requirements.requirement import Requirement


def number_histories(group: Int32Array, groups: Groups) -> Int32Array:
    """The number of the history of every cell; ``group`` is the group of every cell by its published labels."""
    assert groups.person is not None  # noqa: S101
    people = int(groups.person.max(initial=-1)) + 1
    hashes = kernels.people.sum_histories(group, groups.person, groups.cell_size, people)
    order = np.lexsort(hashes.T)
    new = np.ones(len(order), bool)
    new[1:] = (hashes[order[1:]] != hashes[order[:-1]]).any(axis=1)
    number = np.empty(len(order), np.int32)
    number[order] = np.cumsum(new) - 1
    return number


def group_by_history(groups: Groups, on: Iterable[str] | None) -> tuple[Groups, Int32Array]:
    """The people with equal histories as groups, by the labels of some attributes; also the history of every cell."""
    _, merged_group = groups.merge_equal() if on is None else groups.project(tuple(on))
    history = number_histories(merged_group[groups.group_of_cell], groups)
    order = np.argsort(history, kind="stable")
    count = int(history.max(initial=-1)) + 1
    assert groups.person is not None  # noqa: S101
    found = Groups(
        (),
        groups.sensitive,
        np.zeros((count, 0), np.int32),
        np.searchsorted(history[order], np.arange(count + 1)).astype(np.int64),
        take_rows(groups.sensitive_codes, order),
        groups.cell_size[order],
        groups.domains,
        groups.labels,
        groups.person[order],
    )
    return found, history


def select_passing_cells(groups: Groups, requirements: Iterable[Requirement]) -> BoolArray:
    """Return for each cell whether it is kept when all groups and all histories that fail are suppressed.

    Suppressing the records of a group changes the histories of its people, and suppressing people shrinks groups, so the test
    is repeated until nothing fails. The kept records meet every requirement, by groups and by histories.
    """
    every, kept = list(requirements), np.ones(len(groups.cell_size), bool)
    changed = True
    while changed and kept.any():
        changed = False
        for requirement in every:
            rest = groups.keep_cells(kept)
            merged, number = rest.merge_equal() if requirement.on is None else rest.project(requirement.on)
            by_history, history = group_by_history(rest, requirement.on)
            fails = ~requirement.test(merged).ok[number[rest.group_of_cell]] | ~requirement.test(by_history).ok[history]
            if fails.any():
                kept[np.flatnonzero(kept)[fails]] = False
                changed = True
    return kept
