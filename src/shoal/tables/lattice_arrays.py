"""The arrays of a search in a lattice of levels, for `kernels.roll_up`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.arrays import BoolArray, Int64Array
from shoal.encoding.codes import Codes
from shoal.kernels.interface import (
    DECIDES,
    DECIDES_NEVER,
    DECIDES_WHOLE,
    LEAST_SLOTS,
    MISCLASSIFIED,
    RolledTables,
    SearchLog,
    SearchPlace,
    SearchRules,
    SearchSpace,
)
from shoal.requirements import Limits, combine_limits
from shoal.tables.lattice import number_words

if TYPE_CHECKING:
    from shoal.tables.lattice_search import LevelLattice

MOST_HISTOGRAM = 2**26  # entries; the sensitive values of larger tables are tested one node at a time
BLOCK = 2  # levels of a block
LAST_NODES, LAST_NODES_OF_MANY = 64, 16  # the most nodes that differ only in the last steps, which are counted at once
MANY = 200_000  # combinations
CHECKS = 4096  # of the first arrays


def build_space(lattice: LevelLattice, order: Sequence[int], fixed: Mapping[int, int]) -> SearchSpace:
    """The levels that differ, with the attributes in the order of the search; ``fixed`` attributes have one level."""
    codes, objective = lattice.codes, lattice.objective
    levels = [[lattice.attributes[j].levels[i] for i in lattice.different[j]] for j in order]
    counts = [len(of_attribute) for of_attribute in levels]
    first = np.cumsum([0, *counts])
    begin = np.cumsum([0, *(len(level.value) for of_attribute in levels for level in of_attribute)])
    mean, score = np.zeros(first[-1]), np.zeros(first[-1])
    for d, j in enumerate(order):
        own = lattice.attributes[j]
        for at, i in enumerate(lattice.different[j].tolist()):
            mean[first[d] + at] = own.mean(i)
            score[first[d] + at] = objective.score_attribute(own.least(i, lattice.limit))
    place = {j: int(np.searchsorted(lattice.different[j], level, side="right")) - 1 for j, level in fixed.items()}
    low = np.array([place.get(j, 0) for j in order], np.int64)
    top = np.array([place.get(j, counts[d] - 1) for d, j in enumerate(order)], np.int64)
    floor = score.copy()
    for d in range(len(order)):
        for level in range(first[d] + top[d] - 1, first[d] - 1, -1):
            floor[level] = min(floor[level], floor[level + 1])
    attribute, is_block, blocks, block = _choose_steps(low, top)
    most = LAST_NODES if len(codes.quasi) < MANY else LAST_NODES_OF_MANY
    stages = _choose_stages([1 if b else BLOCK for b in is_block], most)
    probe = np.zeros(len(attribute) + 1, np.bool_)
    probe[stages[-2]] = len(stages) > 2 and any(r.least > 1 for r in lattice.policy.require)
    states = np.append(np.cumprod(counts[::-1], dtype=np.float64)[::-1], 1.0)
    stride = states[1:] if states[0] < 2**62 else np.zeros(len(order))
    return SearchSpace(
        np.ascontiguousarray(codes.quasi.T[list(order)]),
        first.astype(np.int64),
        begin.astype(np.int64),
        number_words([[level.value for level in of_attribute] for of_attribute in levels]),
        np.concatenate([np.zeros(0), *(level.loss for of_attribute in levels for level in of_attribute)]),
        mean,
        score,
        floor,
        np.array([lattice.attributes[j].lost for j in order]),
        low,
        top,
        stride.astype(np.int64),
        np.argsort(order).astype(np.int64),
        attribute,
        is_block,
        blocks,
        block,
        stages,
        np.isin(np.arange(len(attribute) + 1), stages),
        probe,
    )


def _choose_steps(low: Int64Array, top: Int64Array) -> tuple[Int64Array, BoolArray, Int64Array, Int64Array]:
    """The attribute of every step, whether the step chooses a block, and by attribute its blocks and their first levels."""
    m = len(low)
    blocks = (top - low) // BLOCK + 1
    block = low[:, None] + BLOCK * np.arange(int(blocks.max(initial=1)) + 1)
    block[np.arange(m), blocks] = top + 1
    divided = np.flatnonzero(blocks > 1)
    attribute = np.append(divided, np.arange(m)).astype(np.int64)
    return attribute, np.arange(len(attribute)) < len(divided), blocks.astype(np.int64), block.astype(np.int64)


def _choose_stages(choices: Sequence[int], most: int) -> Int64Array:
    """The numbers of steps after which a table is counted: after each, but the last steps, of ``most`` nodes, together."""
    last, nodes = len(choices) - 1, choices[-1]
    while last > 0 and nodes * choices[last - 1] <= most and choices[last - 1] > 1:
        last -= 1
        nodes *= choices[last]
    return np.array([*range(last + 1), len(choices)], np.int64)


def build_place(space: SearchSpace) -> SearchPlace:
    """The begin of a search."""
    m, steps = len(space.low), len(space.attribute)
    low, high = np.zeros((steps + 1, m), np.int64), np.zeros((steps + 1, m), np.int64)
    low[0], high[0] = space.low, space.top
    bound = np.zeros(steps + 1)
    bound[0] = space.floor[space.first[:-1] + space.low].sum()
    none = np.zeros(steps, np.int64)
    return SearchPlace(
        space.top.copy(), np.zeros(1, np.int64), none, low, high, bound, np.full(1, np.inf), space.top.copy()
    )


def build_rules(lattice: LevelLattice, order: Sequence[int]) -> SearchRules:
    """The objective and the requirements. Where people are counted, only the sizes of groups in records are tested."""
    codes, policy, limit = lattice.codes, lattice.policy, lattice.limit
    require, people = policy.require, codes.by_person is not None
    width = _measure_width(codes)
    tests_values = not people and not all(r.size_only for r in require) and len(codes.quasi) * width <= MOST_HISTOGRAM
    whole = {j for j in range(len(order)) if j not in lattice.uncovered}
    names = lattice.names
    sets = [sorted(names.index(n) for n in (r.on or names)) for r in require]
    limits = combine_limits(require, codes.distribution) if tests_values else Limits.of([], codes.distribution, 1)
    terms = [len(r.limits(codes.distribution)) if tests_values else 0 for r in require]
    several = any(set(s) != whole for s in sets)
    place = {j: d for d, j in enumerate(order)}
    if people or not (tests_values or all(r.size_only for r in require)):
        decides = DECIDES_NEVER
    else:
        decides = DECIDES_WHOLE if limit > 0 and any(r.relative for r in require) else DECIDES
    first, last = _find_classes(codes, policy.target) if lattice.objective.kind == MISCLASSIFIED else (0, 0)
    return SearchRules(
        lattice.objective.kind,
        codes.records,
        limit,
        max((r.least for r, s in zip(require, sets, strict=True) if set(s) == whole), default=1),
        tests_values,
        limits.arrays(),
        lattice.inherits,
        decides,
        first,
        last,
        np.cumsum([0, *(len(s) for s in sets)], dtype=np.int64),
        np.array([place[j] for s in sets for j in s], np.int64),
        np.array([r.least for r in require] if several else [], np.int64),
        np.cumsum([0, *terms], dtype=np.int64),
    )


def build_stack(lattice: LevelLattice, space: SearchSpace, rules: SearchRules) -> RolledTables:
    """The stack with its first table: the distinct combinations of codes."""
    codes, m = lattice.codes, len(space.low)
    key = np.zeros(len(codes.quasi), np.uint64)
    for j in range(m):
        key += space.word[space.begin[space.first[j] + space.low[j]] + space.codes[j]]
    keys, row, group = np.unique(key, return_index=True, return_inverse=True)
    if len(keys) == len(key):  # all different: keep their order
        keys, row, group = key, np.arange(len(keys)), np.arange(len(keys))
    rows = len(keys)
    counts = rules.tests_values or rules.kind == MISCLASSIFIED
    width = _measure_width(codes) if counts else 0
    length = 4 * rows + 16
    size = np.bincount(group, codes.size, minlength=length).astype(np.int64)
    histogram = np.zeros((length, width), np.int64)
    if width:
        offset = np.cumsum((0, *codes.distribution.domains))
        for s in range(len(codes.sensitive)):
            column = offset[s] + codes.counts.sensitive[:, s]
            np.add.at(histogram, (group[codes.combination], column), codes.counts.size)
    slots = LEAST_SLOTS
    while slots < 2 * rows:
        slots *= 2
    number = np.zeros(len(space.attribute) + 1, np.int64)
    number[0] = rows
    return RolledTables(
        np.append(keys, np.zeros(length - rows, np.uint64)),
        np.append(row, np.zeros(length - rows)).astype(np.int32),
        size,
        histogram,
        np.zeros_like(number),
        number,
        np.zeros(1, np.int64),
        np.zeros(slots, np.int64),
        np.zeros(2, np.int64),
        np.zeros(rows, np.bool_),
        np.zeros(rows, np.uint64),
        np.zeros(rows, np.int64),
    )


def build_log(attributes: int, states: int) -> SearchLog:
    """An empty log; ``states`` is the number of nodes with an entry for their state, or 0."""
    return SearchLog(
        np.zeros((CHECKS, attributes), np.int64),
        np.zeros(CHECKS, np.int8),
        np.zeros(CHECKS, np.int64),
        np.zeros(CHECKS),
        np.zeros(states, np.int8),
        np.zeros((0 if states else CHECKS, attributes), np.int64),
        np.zeros(3, np.int64),
    )


def _measure_width(codes: Codes) -> int:
    """The entries of a histogram of all sensitive columns."""
    return int(sum(codes.distribution.domains))


def _find_classes(codes: Codes, target: str | None) -> tuple[int, int]:
    """The entries of the classes in a histogram."""
    names = [s.name for s in codes.sensitive]
    offset: Int64Array = np.cumsum((0, *codes.distribution.domains))
    at = names.index(str(target))
    return int(offset[at]), int(offset[at + 1])
