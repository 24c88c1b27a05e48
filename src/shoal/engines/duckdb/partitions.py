"""Keys of records in DuckDB, and the partitions of a table with more cells than the memory limit allows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shoal.arrays import Int64Array
from shoal.engines.duckdb.session import Session
from shoal.engines.duckdb.sources import quote_text, scan_files
from shoal.engines.protocol import KEY_LIMIT, Partitioning

SMALL_SHARE = 0.1  # of the target size; a smaller last partition joins its neighbour
FLUSH_RECORDS = 100_000  # records that are buffered before they are written to their partition


@dataclass(frozen=True)
class Keys:
    """Codes of columns packed into 64-bit words: ``k0`` holds as many of the first columns as fit, and so on."""

    columns: tuple[str, ...]
    word_sizes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], sizes: Sequence[int]) -> Keys:
        """Pack columns whose codes are below ``sizes``."""
        word_sizes: list[list[int]] = [[]]
        bound = 1
        for size in sizes:
            if bound * size >= KEY_LIMIT:
                word_sizes.append([])
                bound = 1
            word_sizes[-1].append(size)
            bound *= size
        return cls(tuple(columns), tuple(map(tuple, word_sizes)))

    @property
    def names(self) -> list[str]:
        """The column names of the words."""
        return [f"k{i}" for i in range(len(self.word_sizes))]

    @property
    def name_list(self) -> str:
        """The column names of the words, separated by commas for SQL."""
        return ", ".join(self.names)

    def pack(self, codes: Mapping[str, str]) -> list[str]:
        """Return SQL expressions that pack the codes of every column into words; NULL where a code is NULL."""
        expressions, columns = [], list(self.columns)
        for word, sizes in zip(self.names, self.word_sizes, strict=True):
            expression = "0::BIGINT"
            for size in sizes:
                expression = f"({expression} * {size} + {codes[columns.pop(0)]})"
            expressions.append(f"{expression} AS {word}")
        return expressions

    def code(self, column: int) -> str:
        """Return the SQL expression that extracts the code of a column from the words."""
        for word, sizes in zip(self.names, self.word_sizes, strict=True):
            if column < len(sizes):
                below = int(np.prod([1, *sizes[column + 1 :]], dtype=object))
                return f"({word} // {below} % {sizes[column]})"
            column -= len(sizes)
        raise IndexError(column)


Node = tuple[int, int, "Node", "Node"] | None  # column, last code of the left node, left, right; None is a partition
Region = tuple[tuple[int, int, int], ...]  # column, first and last code


def partition_table(session: Session, keys: Keys, staged: str, quasi: int, least: int) -> Partitioning:
    """Split the staged records into partitions that have at most as many cells as the memory limit allows.

    The column with the most codes is split at quantiles of the cells. Partitions that are still too large, because one code has
    too many cells, are split by the next column. Every partition has at least ``least`` records.
    """
    most = session.resources.max_combinations
    if session.fetch_rows(f"SELECT count(*) FROM {staged}")[0][0] <= most:
        return Partitioning.whole()
    cells = session.new_path("cells").with_suffix(".parquet")
    session.run(
        f"COPY (SELECT {keys.name_list}, count(*) AS records FROM {staged} GROUP BY ALL) "
        f"TO {quote_text(str(cells))} (FORMAT parquet)"
    )
    sizes = [size for word in keys.word_sizes for size in word][:quasi]
    widest = sorted(range(quasi), key=lambda j: (-sizes[j], j))
    tree = _split_region(session, keys, scan_files([cells]), (), widest, (most, least))
    cells.unlink()
    if tree is None:
        return Partitioning.whole()
    folder = session.new_path("parts")
    folder.mkdir(mode=0o700)
    return replace(_flatten_tree(tree), folder=folder, owner=session)


def _split_region(
    session: Session, keys: Keys, cells: str, region: Region, widest: Sequence[int], limits: tuple[int, int]
) -> Node:
    where = " AND ".join(f"{keys.code(j)} BETWEEN {lo} AND {hi}" for j, lo, hi in region) or "true"
    for column in widest:
        rows = session.fetch_arrow(
            f"SELECT {keys.code(column)} AS code, count(*) AS cells, sum(records)::BIGINT AS records FROM {cells} "
            f"WHERE {where} GROUP BY 1 ORDER BY 1"
        )
        code, count, records = (rows[n].to_numpy() for n in ("code", "cells", "records"))
        if len(code) > 1:
            break
    else:
        return None
    most = limits[0]
    if count.sum() <= most:
        return None
    ends = _choose_ends(count, records, *limits)
    firsts = [0, *(end + 1 for end in ends[:-1])]
    below: list[Node] = []
    for first, end in zip(firsts, ends, strict=True):
        inner = (*region, (column, int(code[first]), int(code[end])))
        is_too_large = count[first : end + 1].sum() > most
        below.append(
            _split_region(session, keys, cells, inner, widest[widest.index(column) + 1 :], limits)
            if is_too_large
            else None
        )
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


def write_partitions(session: Session, query: str, folder: Path) -> None:
    """Write the records of every partition to its own files; the query returns the partition as ``part``."""
    session.run(f"SET partitioned_write_flush_threshold = {FLUSH_RECORDS}")
    session.run(
        f"COPY ({query}) TO {quote_text(str(folder))} "
        "(FORMAT parquet, COMPRESSION lz4_raw, PARTITION_BY (part), OVERWRITE_OR_IGNORE)"
    )


def scan_partition(folder: Path, partition: int) -> str:
    """Return the SQL expression for the records of a partition."""
    return scan_files(sorted((folder / f"part={partition}").glob("*.parquet")))
