"""The combinations of raw values of a table that has few of them, such as a released table: fetched in one query.

Distinct values and cells are then counted from the combinations, without further queries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.arrays import Int32Array, Int64Array
from shoal.engines.sql.keys import Keys

FEW = 500_000  # combinations that are fetched with their raw values


@dataclass(frozen=True)
class CellBound:
    """A bound for the number of combinations of published values.

    ``groups`` and ``records`` are the numbers of groups and of records, and ``sizes`` has the number of values of columns that
    differ within a group. A column of unknown size may have a different value in every record.
    """

    groups: int
    records: int
    sizes: Mapping[str, int]

    def of(self, columns: Iterable[str]) -> int:
        """The largest possible number of combinations of some columns."""
        cells = self.groups * math.prod(self.sizes.get(column, self.records) for column in columns)
        return min(cells, self.records)


@dataclass(frozen=True)
class RawCells:
    """Combinations of raw values: ``values`` has those of each column, NULL among them, and ``index`` that of a combination.

    ``size`` is the number of records of every combination.
    """

    values: Mapping[str, pa.Array]
    index: Mapping[str, Int32Array]
    size: Int64Array

    @classmethod
    def of(cls, table: pa.Table, names: Mapping[str, str]) -> RawCells:
        """Read a query result with the columns ``names``, by the user's names, and the numbers of records as ``n``."""
        coded = {column: _encode(table[name]) for column, name in names.items()}
        values = {column: array.dictionary for column, array in coded.items()}
        index = {column: array.indices.to_numpy() for column, array in coded.items()}
        return cls(values, index, table["n"].to_numpy().astype(np.int64))

    def count_values(self, column: str) -> Int64Array:
        """The number of records of every value of a column."""
        tally = np.bincount(self.index[column], self.size, minlength=len(self.values[column]))
        return tally.astype(np.int64)

    def count(self, keys: Keys, codes: Mapping[str, Int32Array]) -> pa.Table:
        """Count cells, as a table with keys and the number of records as ``n``; ``codes`` has the code of every value."""
        words = keys.pack_codes({column: codes[column][self.index[column]] for column in keys.columns})
        return (
            pa.table({**words, "n": self.size})
            .group_by(keys.names)
            .aggregate([("n", "sum")])
            .rename_columns([*keys.names, "n"])
        )


def _encode(column: pa.ChunkedArray) -> pa.DictionaryArray:
    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    return array.dictionary_encode(null_encoding="encode")
