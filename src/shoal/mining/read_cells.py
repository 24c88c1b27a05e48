"""A model whose cells are not leaves: clusters, or the outputs of any predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shoal.arrays import Int32Array, Int64Array
from shoal.spans import CellSets, Knowledge


@dataclass(frozen=True)
class ReadCells:
    """A model over the columns that it uses: the cell of every record, and the spans for an attacker.

    The model publishes no classes. ``publishes`` is the kind of its cells: ``clusters`` or ``outputs``. ``fits``: the model was
    fitted on these records, as far as it tells.
    """

    columns: tuple[str, ...]
    cell: Int64Array
    count: int
    find_cell_sets: Callable[[Knowledge], CellSets]
    publishes: Literal["clusters", "outputs"]
    fits: bool = True

    @property
    def classes(self) -> Int32Array:
        """The same class for every record."""
        return np.zeros(len(self.cell), np.int32)

    def without_classes(self) -> ReadCells:
        """The same model."""
        return self

    def count_cells(self) -> Int64Array:
        """The number of records of every cell [cell, 1]."""
        return np.bincount(self.cell, minlength=self.count).reshape(-1, 1).astype(np.int64)

    def find_spans(self, knowledge: Knowledge) -> CellSets:
        """The spans of all records for an attacker."""
        return self.find_cell_sets(knowledge)
