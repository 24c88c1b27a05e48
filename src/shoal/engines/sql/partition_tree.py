"""The partitions of a table with more cells than the memory limit allows at once, as a tree over codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from shoal.arrays import Int64Array
from shoal.engines.protocol import Partitioning
from shoal.engines.sql.keys import Keys

SMALL_SHARE = 0.1  # of the target size; a smaller last partition joins its neighbour

Node = tuple[int, int, "Node", "Node"] | None  # column, last code of the left node, left, right; None is a partition
Region = tuple[tuple[int, int, int], ...]  # column, first and last code


class CodeTally(NamedTuple):
    """The codes of a column in ascending order, with the numbers of their cells and of their records."""

    code: Int64Array
    cells: Int64Array
    records: Int64Array


Tally = Callable[[int, Region], CodeTally]  # runs `tally_query` for a column and a region


def tally_query(keys: Keys, cells: str, column: int, region: Region) -> str:
    """Return the query for the `CodeTally` of a column over the cells of a region.

    ``cells`` is the SQL expression for a table of cells: their keys, and their numbers of records as ``records``.
    """
    where = " AND ".join(f"{keys.code(j)} BETWEEN {lo} AND {hi}" for j, lo, hi in region) or "true"
    return (
        f"SELECT {keys.code(column)} AS code, count(*) AS cells, CAST(sum(records) AS BIGINT) AS records FROM {cells} "
        f"WHERE {where} GROUP BY 1 ORDER BY 1"
    )


def split_cells(tally: Tally, sizes: Sequence[int], most: int, least: int) -> Partitioning:
    """Split cells into partitions of at most ``most`` cells, where possible, and at least ``least`` records.

    The column with the most codes is split at quantiles of the cells. Partitions that are still too large, because one code has
    too many cells, are split by the next column. ``sizes`` are the numbers of codes of the columns.
    """
    widest = sorted(range(len(sizes)), key=lambda j: (-sizes[j], j))
    tree = _split_region(tally, (), widest, (most, least))
    return Partitioning.whole() if tree is None else _flatten_tree(tree)


def _split_region(tally: Tally, region: Region, widest: Sequence[int], limits: tuple[int, int]) -> Node:
    for column in widest:
        code, cells, records = tally(column, region)
        if len(code) > 1:
            break
    else:
        return None
    most = limits[0]
    if cells.sum() <= most:
        return None
    ends = _choose_ends(cells, records, *limits)
    firsts = [0, *(end + 1 for end in ends[:-1])]
    below: list[Node] = []
    for first, end in zip(firsts, ends, strict=True):
        inner = (*region, (column, int(code[first]), int(code[end])))
        is_too_large = cells[first : end + 1].sum() > most
        below.append(_split_region(tally, inner, widest[widest.index(column) + 1 :], limits) if is_too_large else None)
    return _build_tree(column, [int(code[end]) for end in ends[:-1]], below)


def _choose_ends(count: Int64Array, records: Int64Array, most: int, least: int) -> list[int]:
    """Return the last index of every run of codes; runs have about equal numbers of cells, at most ``most`` where possible."""
    total = int(count.sum())
    target = total / -(-total // most)
    ends, cells, inside = [], 0, 0
    for index, (n, size) in enumerate(zip(count.tolist(), records.tolist(), strict=True)):
        if inside >= least and (cells + n > most or cells >= target):
            ends.append(index - 1)
            cells = inside = 0
        cells, inside = cells + n, inside + size
    if ends and (cells < target * SMALL_SHARE or inside < least):  # too small to be searched on its own
        ends.pop()
    return [*ends, len(count) - 1]


def _build_tree(column: int, cuts: Sequence[int], below: Sequence[Node]) -> Node:
    """Build a balanced tree: codes up to ``cuts[0]`` go to the node ``below[0]``, and so on."""
    if not cuts:
        return below[0]
    middle = len(cuts) // 2
    left = _build_tree(column, cuts[:middle], below[: middle + 1])
    return column, cuts[middle], left, _build_tree(column, cuts[middle + 1 :], below[middle + 1 :])


def _flatten_tree(tree: Node) -> Partitioning:
    rows: list[list[int]] = []
    partitions = 0

    def add_rows(node: Node) -> int:
        nonlocal partitions
        index = len(rows)
        if node is None:
            rows.append([-1, -1, -1, -1, partitions])
            partitions += 1
            return index
        rows.append([node[0], node[1], -1, -1, -1])
        rows[index][2], rows[index][3] = add_rows(node[2]), add_rows(node[3])
        return index

    add_rows(tree)
    column, at, left, right, partition = np.array(rows, np.int32).T.copy()
    return Partitioning(column, at, left, right, partition)


def partition_expression(keys: Keys, partitioning: Partitioning, node: int = 0) -> str:
    """Return the SQL expression for the number of a record's partition, computed from its key."""
    column = int(partitioning.column[node])
    if column < 0:
        return str(int(partitioning.partition[node]))
    left, right = (
        partition_expression(keys, partitioning, int(below[node])) for below in (partitioning.left, partitioning.right)
    )
    return f"CASE WHEN {keys.code(column)} <= {int(partitioning.at[node])} THEN {left} ELSE {right} END"
