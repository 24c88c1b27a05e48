"""Spans of models whose cells are not leaves of a tree: clusters, and the outputs of any predictor.

A cell is known by its number. For every combination of public values the model tells which cells are possible; people with
equal sets of cells have the same span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.kernels.combinations import number_combinations
from shoal.spans.cell_tree import Condition
from shoal.spans.spans import Knowledge, SpanFigures

MOST_LISTED = 5  # cells in the words of a span


@dataclass(frozen=True)
class CellSets(SpanFigures):
    """The spans of the records of a table: ``cells`` has the numbers of the cells of every span, ascending.

    ``names`` are the cells in words. There are no classes.
    """

    knowledge: Knowledge
    span: Int32Array
    cells: tuple[tuple[int, ...], ...]
    names: Sequence[str]
    noun: str = "cell"

    @property
    def known_class(self) -> Int32Array:  # type: ignore[override]
        """No span has a known class."""
        return np.full(len(self.cells), -1, np.int32)

    @property
    def class_labels(self) -> tuple[str | None, ...]:
        """No classes."""
        return ()

    @property
    def single(self) -> BoolArray:
        """Whether each span is a single cell."""
        return np.array([len(c) == 1 for c in self.cells], bool)

    def describe(self, s: int) -> tuple[Condition, ...]:
        """The possible cells of a span, in words."""
        cells = self.cells[s]
        more = f" and {len(cells) - MOST_LISTED} more" if len(cells) > MOST_LISTED else ""
        listed = ", ".join(self.names[c] for c in cells[:MOST_LISTED]) + more
        return (Condition(self.noun, f"can only be {listed}" if len(cells) == 1 else f"can be {listed}"),)

    def list_cells(self, s: int, population: Int64Array) -> list[tuple[str, str | None, int]]:
        """The cells of a span, and the number of all records in each."""
        records = dict(enumerate(population[:, 0].tolist()))  # nobody is in the other cells
        return [(f"{self.noun} {self.names[c]}", None, records.get(c, 0)) for c in self.cells[s]]


def collect_cell_sets(
    reach: BoolArray, combination: Int32Array, knowledge: Knowledge, names: Sequence[str], noun: str
) -> CellSets:
    """The spans of all records.

    ``reach`` says which cells are possible [combination of public values, cell], ``combination`` is that of every record.
    """
    packed = np.packbits(reach, axis=1)
    columns = [packed[:, b].astype(np.int32) for b in range(packed.shape[1])]
    number = number_combinations(columns, len(reach)) if len(reach) else np.zeros(0, np.int32)
    first = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
    first[number] = np.arange(len(number))
    cells = tuple(tuple(np.flatnonzero(reach[row]).tolist()) for row in first.tolist())
    return CellSets(knowledge, number[combination].astype(np.int32), cells, tuple(names), noun)


def collect_pairs(
    row: Int64Array, cell: Int64Array, combination: Int32Array, knowledge: Knowledge, names: Sequence[str], noun: str
) -> CellSets:
    """The spans of all records, from pairs of a combination of public values and a cell that is possible for it.

    For models with so many cells that most are possible for few combinations.
    """
    order = np.lexsort((cell, row))
    row, cell = row[order], cell[order]
    is_new = np.ones(len(row), bool)
    is_new[1:] = (row[1:] != row[:-1]) | (cell[1:] != cell[:-1])
    row, cell = row[is_new], cell[is_new]
    ends = np.searchsorted(row, np.arange(int(combination.max(initial=-1)) + 2))
    numbers: dict[bytes, int] = {}
    found = np.empty(len(ends) - 1, np.int32)
    cells: list[tuple[int, ...]] = []
    for r, (begin, end) in enumerate(pairwise(ends.tolist())):
        own = cell[begin:end]
        number = numbers.setdefault(own.tobytes(), len(numbers))
        if number == len(cells):
            cells.append(tuple(own.tolist()))
        found[r] = number
    return CellSets(knowledge, found[combination].astype(np.int32), tuple(cells), names, noun)
