"""The groups by one set of identifiers, refined as values are opened: arrays for `kernels.specialize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal import kernels, threads
from shoal.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from shoal.encoding.codes import Codes
from shoal.kernels.interface import AHEAD, JOINT, NONE
from shoal.tables.attribute_sets import AttributeSet, Combinations
from shoal.tables.specialization_trees import SpecializationTrees

PARALLEL = 20_000  # rows from which two threads pay


class State(Protocol):
    """What a crowd asks of the search: arrays by the numbers of the values, and the slot of every attribute's codes."""

    team: threads.Workers
    values: SpecializationTrees
    place: list[Int32Array]
    attribute: Int32Array
    fan: Int32Array
    alive: BoolArray


@dataclass
class RefinedGroups:
    """The groups by one set of identifiers, refined as values are opened; see `kernels.specialize`."""

    of: AttributeSet
    column: Int32Array
    quasi: Int32Array
    columns: Int64Array
    fields: Int64Array
    chunks: Int64Array
    weight: Int32Array
    cells: tuple[Any, ...]
    limits: tuple[NDArray[Any], ...]
    least: int
    plain: bool
    ref: Int32Array
    words: UInt64Array
    facts: Int64Array
    node: Int32Array
    groups: int = 1
    ahead: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    fails: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    smallest: int = 0

    @classmethod
    def of_set(cls, codes: Codes, of: AttributeSet, values: SpecializationTrees) -> RefinedGroups:
        """All records in one group, not yet looked at; the topmost values are numbered as the attributes."""
        found = Combinations.of(codes, of)
        fields, chunks = _packed([values.widest(c) for c in of.columns], [codes.attributes[c].size for c in of.columns])
        rows, many = len(found.quasi), len(of.columns)
        column = np.full(len(codes.attributes), -1, np.int32)
        column[list(of.columns)] = np.arange(many)
        return cls(
            of,
            column,
            found.quasi,
            found.columns,
            fields,
            chunks,
            found.weight.astype(np.int32),
            found.cells,
            found.limits.arrays(),
            found.limits.least,
            found.plain,
            np.arange(rows, dtype=np.int32),
            np.empty((rows, int(fields[-1, 3]) + 1), np.uint64),
            np.zeros((64, 4 + 3 * many), np.int64),
            np.tile(np.array(of.columns, np.int32), (64, 1)),
        )

    @property
    def rows(self) -> tuple[NDArray[Any], ...]:
        """What the kernels refine."""
        return self.words, self.ref, self.weight, self.facts, self.node

    def begin(self, search: State) -> None:
        """Look ahead for the one group that holds all records."""
        place = [search.place[c] for c in self.of.columns]
        offset = np.cumsum([0, *map(len, place)], dtype=np.int64)
        flat, half = np.concatenate(place), len(self.quasi) // 2
        search.team.each(
            lambda part: kernels.specialize.lay_out(
                self.quasi, self.columns, flat, offset, self.fields, *part, self.words
            ),
            [(0, half), (half, len(self.quasi))],
        )
        kernels.specialize.look(self.rows, self.fields, self.chunks, self._ahead(search))

    def open(self, x: int, search: State) -> list[Callable[[], None]]:
        """Make room for the groups that a value's children will have; what splits them, in parts that go side by side."""
        values, j = search.values, search.values.attribute[x]
        a = self.of.columns.index(j)
        link = np.flatnonzero(self.node[: self.groups, a] == x)
        more = self.facts[link, AHEAD + 3 * a + 2] - 1
        number = self.groups + np.cumsum(more) - more
        self.groups += int(more.sum())
        if self.groups > len(self.facts):
            room = max(self.groups - len(self.facts), len(self.facts))
            self.facts = np.concatenate([self.facts, np.empty((room, self.facts.shape[1]), np.int64)])
            self.node = np.concatenate([self.node, np.empty((room, self.node.shape[1]), np.int32)])
        done = np.cumsum(self.facts[link, 1] - self.facts[link, 0])
        middle = int(np.searchsorted(done, done[-1] / 2)) + 1 if done[-1] > PARALLEL else len(link)
        opened = (a, values.first[x], values.fan[x], search.place[j])
        ahead = self._ahead(search)
        rows = self.rows
        return [
            partial(kernels.specialize.split, link[part], number[part], rows, opened, self.fields, self.chunks, ahead)
            for part in (slice(0, middle), slice(middle, None))
            if len(link[part])
        ]

    def forbid(self, x: int, inside: tuple[int, int], search: State, forbidden: BoolArray) -> None:
        """Mark where a value of numbers cannot be split."""
        a = self.of.columns.index(search.values.attribute[x])
        link = np.flatnonzero(self.node[: self.groups, a] == x)
        kernels.specialize.forbid(link, self.rows, *inside, self.fields[a], self._ahead(search), forbidden)

    def place_anew(self, x: int, search: State) -> None:
        """Look ahead again for a value that would now be split elsewhere."""
        j = search.values.attribute[x]
        a = self.of.columns.index(j)
        link = np.flatnonzero(self.node[: self.groups, a] == x)
        kernels.specialize.place_anew(
            link, self.rows, a, search.place[j], self.fields, self.chunks, self._ahead(search)
        )

    def numbered(self) -> Int32Array:
        """The group of every row."""
        order = np.argsort(self.facts[: self.groups, 0])
        number = np.empty(len(self.ref), np.int32)
        size = self.facts[order, 1] - self.facts[order, 0]
        number[self.ref] = np.repeat(np.arange(self.groups, dtype=np.int32), size)
        return number

    def _ahead(self, search: State) -> Any:
        room = int(self.fields[:, 2].max()) + 1
        return search.fan, search.alive, self.cells, self.limits, self.least, self.plain, room

    def outlook(self, search: State) -> None:
        """Sum up what opening each value would bring."""
        ahead, self.fails, smallest = kernels.specialize.outlook(
            self.facts, self.node, self.groups, self.column[search.attribute], search.alive
        )
        self.ahead, self.smallest = np.where(ahead >= NONE, 0, ahead), 0 if smallest >= NONE else int(smallest)


def _packed(widest: Sequence[int], sizes: Sequence[int]) -> tuple[Int64Array, Int64Array]:
    """Where the slots and codes of attributes lie in words, and which slots are counted together.

    Word, shift and mask of every attribute's slot, then of its code; first attribute, the one behind the last, word, shift and
    mask of every chunk of slots.
    """
    places: list[tuple[int, int, int]] = []
    word, used = 0, 0
    for most in (*widest, *sizes):
        bits = max(most - 1, 1).bit_length()
        if used + bits > 64:
            word, used = word + 1, 0
        places.append((word, used, (1 << bits) - 1))
        used += bits
    chunks: list[list[int]] = []
    for a, (word, shift, mask) in enumerate(places[: len(widest)]):
        last = chunks[-1] if chunks else None
        if last and last[2] == word and (last[4] + 1) * (mask + 1) <= JOINT:
            last[1], last[4] = a + 1, (last[4] + 1) * (mask + 1) - 1
        else:
            chunks.append([a, a + 1, word, shift, mask])
    slots, codes = np.array(places, np.int64).reshape(2, -1, 3)
    return np.concatenate([slots, codes], axis=1), np.array(chunks, np.int64)
