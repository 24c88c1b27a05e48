"""Cells that were counted in a database, and the handle by which a plan for them is applied."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from shoal.arrays import Int64Array
from shoal.engines.protocol import Partitioning
from shoal.engines.sql.keys import Keys
from shoal.engines.sql.partition_tree import partition_expression
from shoal.engines.sql.session import SqlSession


@dataclass(frozen=True)
class CountedCells:
    """Cells that were counted in the database, as an SQL expression for their keys and their numbers of records as ``n``.

    ``whole`` are the cells themselves where they were fetched at once.
    """

    keys: Keys
    sql: str
    partitioning: Partitioning
    whole: pa.Table | None = field(default=None, repr=False)

    def select(self, partition: int | None) -> str:
        """Return the query for the cells of a partition; None: for all cells."""
        if partition is None:
            return f"SELECT * FROM {self.sql}"
        return f"SELECT * FROM {self.sql} WHERE {partition_expression(self.keys, self.partitioning)} = {partition}"


@dataclass(frozen=True)
class FetchedCells:
    """The handle of counts: the keys of the counted cells in the order of the cells, and their partition (None: all cells)."""

    session: SqlSession
    cells: CountedCells
    words: list[Int64Array]
    partition: int | None
