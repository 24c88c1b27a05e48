"""The groups of one attribute set, refined during top-down specialization: the arrays of `kernels.specialize`.

The paper calls this structure TIPS (Fung, Wang, Yu, section 5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from shoal import kernels, threads
from shoal.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from shoal.encoding.codes import Codes
from shoal.kernels.bundle import Bundle
from shoal.kernels.interface import (
    CHILD_GROUPS,
    CHUNK_END,
    CHUNK_MASK,
    CHUNK_WORD,
    CODE_WORD,
    FIGURES,
    GROUP_BEGIN,
    GROUP_END,
    MOST_JOINT,
    NO_GROUP,
    SLOT_MASK,
    CombinationCells,
    LookAheadInput,
    LookAheadScratch,
    RefinedRows,
    RuleArrays,
    SpecializedValue,
)
from shoal.specialization.attribute_sets import AttributeSet, SetCombinations
from shoal.specialization.trees import SpecializationTrees

CAPACITY = 64  # groups that fit at first
PARALLEL = 20_000  # rows from which two threads are faster


class SearchState(Protocol):
    """The part of the search that `RefinedGroups` reads: arrays by value number, and the slots of every attribute's codes."""

    workers: threads.Workers
    values: SpecializationTrees
    slots: list[Int32Array]
    attribute: Int32Array
    fan_out: Int32Array
    alive: BoolArray


@dataclass
class RefinedGroups:
    """The groups of one attribute set, with their look-ahead figures; see `kernels.specialize`.

    ``position[j]`` is the position of attribute j in the set, or -1. By value number: ``smallest_after`` is the smallest
    passing group and ``failing_after`` the number of records in failing groups, if the value is specialized.
    """

    attribute_set: AttributeSet
    position: Int32Array
    quasi: Int32Array
    columns: Int64Array
    fields: Int64Array
    chunks: Int64Array
    records: Int32Array
    cells: CombinationCells
    limits: RuleArrays
    least: int
    size_only: bool
    ref: Int32Array
    words: UInt64Array
    facts: Int64Array
    node: Int32Array
    count: int = 1
    smallest_after: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    failing_after: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    smallest: int = 0

    @classmethod
    def of_set(cls, codes: Codes, attribute_set: AttributeSet, values: SpecializationTrees) -> RefinedGroups:
        """Return one group with all records, without look-ahead figures; the root of attribute j must have number j."""
        combinations, columns = SetCombinations.of_set(codes, attribute_set), attribute_set.columns
        fields, chunks = _plan_words(
            [values.most_children(c) for c in columns], [codes.attributes[c].size for c in columns]
        )
        rows, many = len(combinations.quasi), len(columns)
        position = np.full(len(codes.attributes), -1, np.int32)
        position[list(columns)] = np.arange(many)
        return cls(
            attribute_set,
            position,
            combinations.quasi,
            combinations.columns,
            fields,
            chunks,
            combinations.size.astype(np.int32),
            combinations.cells,
            combinations.limits.arrays(),
            combinations.limits.least,
            combinations.size_only,
            np.arange(rows, dtype=np.int32),
            np.empty((rows, int(fields[-1, CODE_WORD]) + 1), np.uint64),
            np.zeros((CAPACITY, FIGURES + 3 * many), np.int64),
            np.tile(np.array(columns, np.int32), (CAPACITY, 1)),
        )

    @property
    def rows(self) -> RefinedRows:
        """The arrays that the kernels change, and the places of slots and codes."""
        return RefinedRows(self.words, self.ref, self.records, self.facts, self.node, self.fields, self.chunks)

    def start(self, search: SearchState) -> None:
        """Pack the rows, and compute the look-ahead figures of the one group."""
        slots = [search.slots[c] for c in self.attribute_set.columns]
        offset = np.cumsum([0, *map(len, slots)], dtype=np.int64)
        flat, half = np.concatenate(slots), len(self.quasi) // 2
        search.workers.each(
            lambda rows: kernels.specialize.pack_rows(
                self.quasi, self.columns, flat, offset, self.fields, *rows, self.words
            ),
            [(0, half), (half, len(self.quasi))],
        )
        kernels.specialize.look_ahead(
            self.rows, self._look_ahead_input(search), self._allocate_scratch(0), self._values
        )

    def plan_specialization(self, x: int, search: SearchState) -> list[Callable[[], None]]:
        """Reserve the groups of a value's children; return the tasks that split the groups, which may run in parallel."""
        values, j = search.values, search.values.attribute[x]
        a, link = self._link(x, search)
        more = self.facts[link, FIGURES + 3 * a + CHILD_GROUPS] - 1
        number = self.count + np.cumsum(more) - more
        self.count += int(more.sum())
        if self.count > len(self.facts):
            extra = max(self.count - len(self.facts), len(self.facts))
            self.facts = np.concatenate([self.facts, np.empty((extra, self.facts.shape[1]), np.int64)])
            self.node = np.concatenate([self.node, np.empty((extra, self.node.shape[1]), np.int32)])
        rows = np.cumsum(self.facts[link, GROUP_END] - self.facts[link, GROUP_BEGIN])
        middle = int(np.searchsorted(rows, rows[-1] / 2)) + 1 if rows[-1] > PARALLEL else len(link)
        specialized = SpecializedValue(a, values.first[x], values.fan_out[x], search.slots[j])
        shared = (self.rows, specialized, self._look_ahead_input(search))
        return [
            partial(self._split_groups, link[half], number[half], shared)
            for half in (slice(0, middle), slice(middle, None))
            if len(link[half])
        ]

    def _split_groups(self, link: Int64Array, number: Int64Array, shared: tuple[Bundle, ...]) -> None:
        scratch = self._allocate_scratch(self._count_longest(link))
        kernels.specialize.split_groups(link, number, *shared, scratch, self._values)

    def mark_invalid_splits(self, x: int, codes: tuple[int, int], search: SearchState, invalid: BoolArray) -> None:
        """Mark the splits of an interval that some group of this set forbids."""
        a, link = self._link(x, search)
        order, begin = np.empty(self._count_longest(link), np.int64), np.empty(codes[1] - codes[0] + 2, np.int64)
        left, right = np.empty((2, self.cells.width), np.int64)
        kernels.specialize.mark_invalid_splits(
            link, self.rows, *codes, a, self._look_ahead_input(search), order, begin, left, right, invalid, self._values
        )

    def update_slots(self, x: int, search: SearchState) -> None:
        """Update the slots and figures of a value after its split was moved."""
        a, link = self._link(x, search)
        slots = search.slots[search.values.attribute[x]]
        scratch = self._allocate_scratch(0)
        kernels.specialize.update_slots(
            link, self.rows, a, slots, self._look_ahead_input(search), scratch, self._values
        )

    def assign_rows(self) -> Int32Array:
        """Return the group of every row."""
        order = np.argsort(self.facts[: self.count, GROUP_BEGIN])
        number = np.empty(len(self.ref), np.int32)
        rows = self.facts[order, GROUP_END] - self.facts[order, GROUP_BEGIN]
        number[self.ref] = np.repeat(np.arange(self.count, dtype=np.int32), rows)
        return number

    def summarize(self, search: SearchState) -> None:
        """Update the smallest group and the failing records, now and after the specialization of every value."""
        column = self.position[search.attribute]
        after, own = np.full((2, len(column)), NO_GROUP)
        self.failing_after, best = np.zeros(len(column), np.int64), np.full((self.node.shape[1], 2), NO_GROUP)
        smallest = kernels.specialize.summarize_look_ahead(
            self.facts, self.node, self.count, column, search.alive, after, own, self.failing_after, best
        )
        self.smallest_after = np.where(after >= NO_GROUP, 0, after)
        self.smallest = 0 if smallest >= NO_GROUP else int(smallest)

    def _link(self, x: int, search: SearchState) -> tuple[int, Int64Array]:
        """Return the position of a value's attribute in the set, and the groups that have the value."""
        a = int(self.position[search.values.attribute[x]])
        return a, np.flatnonzero(self.node[: self.count, a] == x)

    def _look_ahead_input(self, search: SearchState) -> LookAheadInput:
        return LookAheadInput(search.fan_out, search.alive, self.cells, self.limits, self.least, self.size_only)

    @property
    def _values(self) -> bool | None:
        """None if requirements are on sizes alone: kernels then leave out the test of values."""
        return None if self.size_only else True

    def _count_longest(self, link: Int64Array) -> int:
        """The rows of the largest of these groups."""
        return int((self.facts[link, GROUP_END] - self.facts[link, GROUP_BEGIN]).max(initial=0))

    def _allocate_scratch(self, longest: int) -> LookAheadScratch:
        """Allocate the work arrays of one thread, with room for so many rows of a group."""
        most, chunks = int(self.fields[:, SLOT_MASK].max()) + 1, len(self.chunks)
        return LookAheadScratch(
            counts=np.zeros(most, np.int64),
            start=np.zeros(most + 1, np.int64),
            passes=np.zeros(most, bool),
            table=np.empty(MOST_JOINT * chunks, np.int64),
            plan=np.empty((4, chunks), np.uint64),
            histogram=np.empty(0 if self.size_only else most * self.cells.width, np.int64),
            words=np.empty((longest, self.words.shape[1]), np.uint64),
            ref=np.empty(longest, self.ref.dtype),
            records=np.empty(longest, self.records.dtype),
        )


def _plan_words(most_children: Sequence[int], sizes: Sequence[int]) -> tuple[Int64Array, Int64Array]:
    """Place the slots and codes of the attributes in 64-bit words, and join adjacent slots into chunks.

    The first result has word, shift and mask of every attribute's slot, then of its code; the second has for every chunk the
    first attribute, the one after the last, word, shift and mask.
    """
    places: list[tuple[int, int, int]] = []
    word, used = 0, 0
    for most in (*most_children, *sizes):
        bits = max(most - 1, 1).bit_length()
        if used + bits > 64:
            word, used = word + 1, 0
        places.append((word, used, (1 << bits) - 1))
        used += bits
    chunks: list[list[int]] = []
    for a, (word, shift, mask) in enumerate(places[: len(most_children)]):
        last = chunks[-1] if chunks else None
        if last and last[CHUNK_WORD] == word and (last[CHUNK_MASK] + 1) * (mask + 1) <= MOST_JOINT:
            last[CHUNK_END], last[CHUNK_MASK] = a + 1, (last[CHUNK_MASK] + 1) * (mask + 1) - 1
        else:
            chunks.append([a, a + 1, word, shift, mask])
    slots, codes = np.array(places, np.int64).reshape(2, -1, 3)
    return np.concatenate([slots, codes], axis=1), np.array(chunks, np.int64)
