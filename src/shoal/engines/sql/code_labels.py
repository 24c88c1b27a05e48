"""Published values that depend on one code alone, as in a cut of the whole table: a record then finds them without its group.

They are further columns of the tables of codes, which are small: a database joins them without moving or sorting the records.
Only suppressed cells are listed beside them. The table of all cells can be as large as the table of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.arrays import Int32Array
from shoal.engines.protocol import Counts, GroupColumn, Plan

SAMPLE = 1000  # cells of a first test
NO_RECORD = -2  # the code has no released record; -1 is a missing value


@dataclass(frozen=True)
class CodeLabels:
    """The values of a `GroupColumn` by the codes of the key column with the number ``column``.

    ``index[code]`` is the index of the value; `NO_RECORD` for a code without released records.
    """

    column: int
    index: Int32Array


def find_code_labels(plan: Plan, columns: Sequence[str], sizes: Sequence[int]) -> list[CodeLabels] | None:
    """Return the values of every `GroupColumn` by the codes of one column; None where a value depends on several columns.

    ``columns`` are the key columns, and ``sizes`` their numbers of codes.
    """
    if len(plan.cell) != len(plan.counts.size):  # a cell is divided
        return None
    cells = _ReleasedCells(plan)
    found = []
    for column in plan.columns:
        if isinstance(column, GroupColumn):
            labels = _find_labels(cells, column, columns, sizes)
            if labels is None:
                return None
            found.append(labels)
    return found


def _find_labels(
    cells: _ReleasedCells, column: GroupColumn, columns: Sequence[str], sizes: Sequence[int]
) -> CodeLabels | None:
    index = column.index[cells.group]
    for place in sorted(range(cells.quasi), key=lambda i: columns[i] != column.name):  # most often the column itself
        by_code = np.full(sizes[place], NO_RECORD, np.int32)
        if all(_is_function(by_code, cells.codes(place, some), index[some]) for some in (slice(SAMPLE), slice(None))):
            return CodeLabels(place, by_code)
    return None


def _is_function(by_code: Int32Array, codes: Int32Array, index: Int32Array) -> bool:
    """Store the index of every code, and return whether no code has two."""
    by_code[codes] = index
    return bool((by_code[codes] == index).all())


class _ReleasedCells:
    """The codes and the groups of the released cells of a plan that divides no cell."""

    def __init__(self, plan: Plan) -> None:
        is_released = plan.group >= 0
        self._counts: Counts = plan.counts
        self._cell, self.group = plan.cell[is_released], plan.group[is_released]
        self._combination = np.repeat(np.arange(len(plan.counts.quasi)), np.diff(plan.counts.start))
        self.quasi = plan.counts.quasi.shape[1]

    def codes(self, column: int, cells: slice) -> Int32Array:
        """The codes of a quasi-identifier. The other key columns need not be in the counts: people are counted apart."""
        codes: Int32Array = self._counts.quasi[self._combination[self._cell[cells]], column]
        return codes
