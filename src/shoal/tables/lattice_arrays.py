"""The arrays of a search in a lattice of levels, for `kernels.roll_up`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
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
MANY = 200_000  # combinations, from which on sizes are counted from the first table
WORD_BITS = 64
MOST_SLICES = 1024  # of the first table
ROWS_PER_ENTRY, MOST_BUNDLE_BITS = 16, 13  # of the combinations of codes of a bundle
DENSE_ROWS, MOST_DENSE = 12, 2**24  # entries of the array of all combinations: per row, and the most
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
    is_small = len(codes.quasi) < MANY
    probe[stages[-2]] = is_small and len(stages) > 2 and any(r.least > 1 for r in lattice.policy.require)
    states = np.append(np.cumprod(counts[::-1], dtype=np.float64)[::-1], 1.0)
    stride = states[1:] if states[0] < 2**62 else np.zeros(len(order))
    return SearchSpace(
        *_bundle_codes([lattice.attributes[j].attribute.size for j in order], len(codes.quasi)),
        first.astype(np.int64),
        np.array([int(level.value.max(initial=0)) + 1 for of_attribute in levels for level in of_attribute], np.int64),
        begin.astype(np.int64),
        np.concatenate([np.zeros(0, np.int32), *(level.value for of_attribute in levels for level in of_attribute)]),
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


class _PackedCodes(NamedTuple):
    """The bits of the codes of every attribute in packed words, and bundles of attributes that are looked up together."""

    bits: Int64Array
    bundle: Int64Array
    lane: Int64Array
    shift: UInt64Array
    mask: UInt64Array
    fused_begin: Int64Array


def _bundle_codes(sizes: Sequence[int], rows: int) -> _PackedCodes:
    """Pack codes below ``sizes`` into words; a bundle has few combinations of codes beside the rows of the table."""
    bits = np.array([max(int(size - 1).bit_length(), 1) for size in sizes], np.int64)
    most = min(max((rows // ROWS_PER_ENTRY).bit_length() - 1, 0), MOST_BUNDLE_BITS)
    bundle, lane, shift, used = [0], [0], [0], 0
    for d in range(len(bits)):
        if used + bits[d] > WORD_BITS:
            bundle, lane, shift, used = [*bundle, d], [*lane, lane[-1] + 1], [*shift, 0], 0
        elif bits[bundle[-1] : d + 1].sum() > most and d > bundle[-1]:
            bundle, lane, shift = [*bundle, d], [*lane, lane[-1]], [*shift, used]
        used += int(bits[d])
    fused_bits = np.add.reduceat(bits, bundle)
    return _PackedCodes(
        bits,
        np.array([*bundle, len(bits)], np.int64),
        np.array(lane, np.int64),
        np.array(shift, np.uint64),
        (np.uint64(1) << fused_bits.astype(np.uint64)) - np.uint64(1),
        np.cumsum([0, *(2**fused_bits)], dtype=np.int64),
    )


def _pack_rows(codes: Int32Array, space: SearchSpace) -> UInt64Array:
    """The codes [attribute, row] as words [row, word]."""
    packed = np.zeros((codes.shape[1], int(space.lane.max(initial=0)) + 1), np.uint64)
    for b, (first, end) in enumerate(pairwise(space.bundle.tolist())):
        shift = int(space.shift[b])
        for j in range(first, end):
            packed[:, space.lane[b]] |= codes[j].astype(np.uint64) << np.uint64(shift)
            shift += int(space.bits[j])
    return packed


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
        space.top.copy(),
        np.zeros(1, np.int64),
        none,
        low,
        high,
        bound,
        np.full(1, np.inf),
        space.top.copy(),
        np.zeros(m, np.int64),
        np.zeros(m),
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
    weaker = (
        [r.relax(limit / max(codes.records, 1)) for r in require] if decides == DECIDES_WHOLE and not several else []
    )
    relaxed = combine_limits([r for r in weaker if r is not None], codes.distribution)
    first, last = _find_classes(codes, policy.target) if lattice.objective.kind == MISCLASSIFIED else (0, 0)
    return SearchRules(
        lattice.objective.kind,
        codes.records,
        limit,
        max((r.least for r, s in zip(require, sets, strict=True) if set(s) == whole), default=1),
        tests_values,
        limits.arrays(),
        relaxed.arrays(),
        lattice.inherits,
        decides,
        len(codes.quasi) >= MANY and not several and max((r.least for r in require), default=1) > 1,
        decides == DECIDES and not tests_values and lattice.objective.sums_attributes,
        first,
        last,
        np.cumsum([0, *(len(s) for s in sets)], dtype=np.int64),
        np.array([place[j] for s in sets for j in s], np.int64),
        np.array([r.least for r in require] if several else [], np.int64),
        np.cumsum([0, *terms], dtype=np.int64),
    )


def build_stack(lattice: LevelLattice, order: Sequence[int], space: SearchSpace, rules: SearchRules) -> RolledTables:
    """The stack with its first table: the distinct combinations of codes, in slices."""
    codes = lattice.codes
    key = np.zeros(len(codes.quasi), np.uint64)
    for d, j in enumerate(order):
        key += space.word[space.begin[space.first[d] + space.low[d]] + codes.quasi[:, j]]
    row = group = np.arange(len(key))
    if not (space.values[space.first[:-1] + space.low] == [a.size for a in (codes.attributes[j] for j in order)]).all():
        _, row, group = np.unique(key, return_index=True, return_inverse=True)
    rows = len(row)
    slices = _choose_slices(lattice, order, space, codes.quasi[row], MOST_SLICES if rules.sizes_first else 1)
    by_slice = np.argsort(slices.of_row, kind="stable")
    place = np.empty(rows, np.int64)
    place[by_slice] = np.arange(rows)
    row, group = row[by_slice], place[group]
    ordered = np.ascontiguousarray(codes.quasi[row][:, list(order)].T)
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
        np.append(key[row], np.zeros(length - rows, np.uint64)),
        np.append(np.arange(rows), np.zeros(length - rows)).astype(np.int32),
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
        ordered,
        _pack_rows(ordered if rules.sizes_first else ordered[:, :0], space),
        np.zeros(min(DENSE_ROWS * rows + LEAST_SLOTS, MOST_DENSE) if rules.sizes_first else 0, np.int32),
        np.zeros(int(space.fused_begin[-1]), np.int32),
        slices.attribute,
        slices.value,
        slices.values,
        np.append(0, np.cumsum(np.bincount(slices.of_row, minlength=len(slices.value)))).astype(np.int64),
        np.zeros((3, len(order)), np.int64),
        *(np.zeros(len(slices.value), kind) for kind in (np.int64, np.int64, np.bool_)),
    )


class _Slices(NamedTuple):
    """The attributes that divide a table into slices, by slice their values, the numbers of values, and by row its slice."""

    attribute: Int64Array
    value: Int64Array
    values: Int64Array
    of_row: NDArray[np.int16]


def _choose_slices(
    lattice: LevelLattice, order: Sequence[int], space: SearchSpace, quasi: Int32Array, most: int
) -> _Slices:
    """Divide rows by the values directly below the roots, of the attributes with the fewest such values."""
    found = []
    for d, j in enumerate(order):
        level = lattice.attributes[j].levels[lattice.different[j][space.top[d]]]
        for i in lattice.different[j][: space.top[d] + 1]:
            below = lattice.attributes[j].levels[i]
            level = below if below.value.max(initial=0) else level
        if space.values[space.first[d] + space.low[d]] > 1:
            found.append((int(level.value.max(initial=0)) + 1, d, level.value[quasi[:, j]]))
    number, total, chosen = np.zeros(len(quasi), np.int16), 1, []
    for values, d, value in sorted(found, key=lambda each: each[:2]):
        if total * values > most:
            break
        total *= values
        chosen.append((d, values, value))
        number = (number * values + value).astype(np.int16)
    first = np.full(total, -1, np.int64)
    first[number] = np.arange(len(number))  # some row of every slice that has one
    used = np.flatnonzero(first >= 0)
    first, of_row = first[used], (np.cumsum(first >= 0) - 1)[number]
    value = np.array([value[first] for *_, value in chosen], np.int64).reshape(len(chosen), len(first)).T
    return _Slices(
        np.array([d for d, *_ in chosen], np.int64),
        np.ascontiguousarray(value),
        np.array([values for _, values, _ in chosen], np.int64),
        of_row.astype(np.int16),
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
