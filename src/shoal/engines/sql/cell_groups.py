"""The groups of a plan as tables that are joined with the records: whole cells, and the quotas of divided cells.

A divided cell sends its records to several groups, in the order of their keyed hashes. Its quotas have one row for each record,
by the number of the record in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.arrays import Int64Array
from shoal.engines.protocol import Plan
from shoal.engines.sql.keys import Keys


@dataclass(frozen=True)
class CellGroups:
    """The cells of a plan with the numbers of their groups.

    ``cell[i]`` goes to ``group[i]`` as a whole; suppressed cells are not listed. Record ``quota_ordinal[j]``, from 1, of the
    divided cell ``quota_cell[j]`` goes to ``quota_group[j]``, where -1 is suppressed. ``divided`` are the divided cells.
    """

    cell: Int64Array
    group: Int64Array
    quota_cell: Int64Array
    quota_ordinal: Int64Array
    quota_group: Int64Array
    divided: Int64Array

    @classmethod
    def of(cls, plan: Plan, number: Int64Array) -> CellGroups:
        """List the cells of a plan; group ``g`` of the plan gets the number ``number[g]``."""
        entries = np.bincount(plan.cell, minlength=len(plan.counts.size))
        is_whole = entries[plan.cell] == 1
        released = is_whole & (plan.group >= 0)
        cell, group, count = (array[~is_whole] for array in (plan.cell, plan.group, plan.count))
        each = np.repeat(cell, count)
        first = np.concatenate(([0], np.flatnonzero(np.diff(each)) + 1)) if len(each) else np.zeros(0, np.int64)
        ordinal = np.arange(len(each)) - np.repeat(first, np.diff(np.append(first, len(each)))) + 1
        groups = np.append(number, -1)[np.repeat(group, count)]  # group -1 of the plan is the last
        return cls(plan.cell[released], number[plan.group[released]], each, ordinal, groups, np.unique(cell))


def take_keys(words: Mapping[str, Int64Array], cells: Int64Array) -> dict[str, Int64Array]:
    """Return the words of some cells by name, as columns of a table."""
    return {name: word[cells] for name, word in words.items()}


def join_whole_cells(keys: Keys, records: str, cells: str, columns: Sequence[str]) -> str:
    """Return the query for the records of whole cells with their groups as ``g``.

    ``records`` and ``cells`` are SQL expressions for tables with keys; ``cells`` has the group as ``g``. ``columns`` are the
    selected columns of the records.
    """
    return f"SELECT {_select(columns)} FROM {records} s JOIN {cells} USING ({keys.name_list})"


def join_divided_cells(keys: Keys, numbered: str, quotas: str, columns: Sequence[str]) -> str:
    """Return the query for the released records of divided cells with their groups as ``g``.

    ``numbered`` is the SQL expression for the records of divided cells, with their number in the keyed order as ``o``.
    ``quotas`` has keys, the number of each record as ``o`` and its group as ``g``.
    """
    return f"SELECT {_select(columns)} FROM {numbered} s JOIN {quotas} USING ({keys.name_list}, o) WHERE g >= 0"


def number_records(
    keys: Keys, records: str, *, hashes: str, joins: str, record: str, mix: str, hash_type: str = "UBIGINT"
) -> str:
    """Return the SQL expression for the records of divided cells with their number in the keyed order, from 1, as ``o``.

    Parameters
    ----------
    records : SQL expression for the records of divided cells, which the query calls ``s``
    hashes : table of the keys of divided cells with their keyed hashes as ``h``, which the query calls ``c``
    joins : further joins with ``s``, which ``record`` needs
    record : SQL expression for the sum of the keyed hashes of a record's values
    mix : SQL function for the keyed hash of two hashes (`KeyedHash.mix`)
    hash_type : SQL type of a hash

    The records of a cell are numbered in the order of their hashes, as by `KeyedHash.number_equal`.
    """
    by = ", ".join(f"s.{word}" for word in keys.names)
    hashed = f"SELECT s.*, {mix}(c.h, {record}) AS h_ FROM {records} s JOIN {hashes} c USING ({keys.name_list}) {joins}"
    number = f"CAST(row_number() OVER (PARTITION BY {by}, s.h_) - 1 AS {hash_type})"
    equal = f"SELECT s.*, {number} AS e_ FROM ({hashed}) s"
    return f"(SELECT s.*, row_number() OVER (PARTITION BY {by} ORDER BY {mix}(s.h_, s.e_)) AS o FROM ({equal}) s)"


def _select(columns: Sequence[str]) -> str:
    return ", ".join(["g", *(f"s.{column}" for column in columns)])
