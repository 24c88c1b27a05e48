"""Published values that depend on one code alone, as in a cut of the whole table: a record then finds them without its group.

They are further columns of the tables of codes, which are small: a database joins them without moving or sorting the records.
Only suppressed cells are listed beside them. The table of all cells can be as large as the table of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.arrays import Int32Array, Int64Array
from shoal.engines.protocol import GroupColumn, Plan
from shoal.engines.sql.keys import Keys

SAMPLE = 1000  # cells of a first test
NO_RECORD = -2  # the code has no released record; -1 is a missing value


@dataclass(frozen=True)
class CodeLabels:
    """The values of a `GroupColumn` by the codes of the key column with the number ``column``.

    ``index[code]`` is the index of the value; `NO_RECORD` for a code without released records.
    """

    column: int
    index: Int32Array


def find_code_labels(plan: Plan, keys: Keys, words: Sequence[Int64Array]) -> list[CodeLabels] | None:
    """Return the values of every `GroupColumn` by the codes of one key column; None where a value depends on several columns.

    ``words`` are the keys of the counted cells.
    """
    if not np.array_equal(plan.cell, np.arange(len(plan.counts.size))):  # a cell is divided, or is not in the plan
        return None
    released = np.flatnonzero(plan.group >= 0)
    group, words = plan.group[released], [word[released] for word in words]
    found = []
    for column in plan.columns:
        if isinstance(column, GroupColumn):
            labels = _find_labels(column, column.index[group], keys, words)
            if labels is None:
                return None
            found.append(labels)
    return found


def _find_labels(column: GroupColumn, index: Int32Array, keys: Keys, words: Sequence[Int64Array]) -> CodeLabels | None:
    """Return the key column that decides the index of the value of every cell."""
    places = range(len(keys.columns))
    for place in sorted(places, key=lambda i: keys.columns[i] != column.name):  # most often the column itself
        by_code = np.full(keys.sizes[place], NO_RECORD, np.int32)
        for cells in (slice(SAMPLE), slice(None)):
            code = keys.take_code(place, [word[cells] for word in words])
            by_code[code] = index[cells]
            if (by_code[code] != index[cells]).any():  # a code with two values
                break
        else:
            return CodeLabels(place, by_code)
    return None
