"""Keys of records in DuckDB, and the parts that a table is cut into where its cells are more than may be held at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shoal.arrays import Int64Array
from shoal.engines.duckdb.session import Session
from shoal.engines.duckdb.sources import scan, text
from shoal.engines.protocol import Partitioning

LIMIT = 2**63
SMALL = 0.1  # of a part
FLUSH = 100_000  # records that are gathered before they are written to their part


@dataclass(frozen=True)
class Keys:
    """Codes of columns packed into words: ``k0`` holds the first columns, as many as fit, and so on."""

    columns: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], sizes: Sequence[int]) -> Keys:
        """Pack columns whose codes are below ``sizes``."""
        groups: list[list[int]] = [[]]
        bound = 1
        for size in sizes:
            if bound * size >= LIMIT:
                groups.append([])
                bound = 1
            groups[-1].append(size)
            bound *= size
        return cls(tuple(columns), tuple(map(tuple, groups)))

    @property
    def names(self) -> list[str]:
        """The words."""
        return [f"k{i}" for i in range(len(self.groups))]

    @property
    def words(self) -> str:
        """The words, in SQL."""
        return ", ".join(self.names)

    def packed(self, codes: Mapping[str, str]) -> list[str]:
        """The words out of the codes of every column, in SQL; NULL where a code is."""
        found, listed = [], list(self.columns)
        for word, sizes in zip(self.names, self.groups, strict=True):
            expression = "0::BIGINT"
            for size in sizes:
                expression = f"({expression} * {size} + {codes[listed.pop(0)]})"
            found.append(f"{expression} AS {word}")
        return found

    def code(self, column: int) -> str:
        """The code of a column out of the words, in SQL."""
        for word, sizes in zip(self.names, self.groups, strict=True):
            if column < len(sizes):
                below = int(np.prod([1, *sizes[column + 1 :]], dtype=object))
                return f"({word} // {below} % {sizes[column]})"
            column -= len(sizes)
        raise IndexError(column)


Node = tuple[int, int, "Node", "Node"] | None  # column, last code to the left, left, right; None is a part
Region = tuple[tuple[int, int, int], ...]  # column, first and last code


def partition_table(home: Session, keys: Keys, staged: str, quasi: int, least: int) -> Partitioning:
    """The parts of the records that were put aside, none of which has more cells than may be held at once.

    The column with the most codes is cut at quantiles of the cells; what is still too large after that, because one code has
    too many, by the next column. Parts with fewer than ``least`` records are not made.
    """
    most = home.resources.most
    if home.rows(f"SELECT count(*) FROM {staged}")[0][0] <= most:
        return Partitioning.whole()
    cells = home.place("cells").with_suffix(".parquet")
    home.run(
        f"COPY (SELECT {keys.words}, count(*) AS records FROM {staged} GROUP BY ALL) TO {text(str(cells))} (FORMAT parquet)"
    )
    sizes = [size for group in keys.groups for size in group][:quasi]
    widest = sorted(range(quasi), key=lambda j: (-sizes[j], j))
    tree = _cut(home, keys, scan([cells]), (), widest, (most, least))
    cells.unlink()
    if tree is None:
        return Partitioning.whole()
    folder = home.place("parts")
    folder.mkdir(mode=0o700)
    return replace(_division(tree), folder=folder, owner=home)


def _cut(home: Session, keys: Keys, cells: str, region: Region, widest: Sequence[int], limits: tuple[int, int]) -> Node:
    where = " AND ".join(f"{keys.code(j)} BETWEEN {lo} AND {hi}" for j, lo, hi in region) or "true"
    for column in widest:
        rows = home.arrow(
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
    ends = _quantiles(count, records, *limits)
    firsts = [0, *(end + 1 for end in ends[:-1])]
    below: list[Node] = []
    for first, end in zip(firsts, ends, strict=True):
        inner = (*region, (column, int(code[first]), int(code[end])))
        crowded = count[first : end + 1].sum() > most
        below.append(_cut(home, keys, cells, inner, widest[widest.index(column) + 1 :], limits) if crowded else None)
    return _halved(column, [int(code[end]) for end in ends[:-1]], below)


def _quantiles(count: Int64Array, records: Int64Array, most: int, least: int) -> list[int]:
    """The last place of every run of counts, runs being about as large as one another and no larger than need be."""
    total = int(count.sum())
    target = total / -(-total // most)
    ends, held, inside = [], 0, 0
    for place, (n, size) in enumerate(zip(count.tolist(), records.tolist(), strict=True)):
        if inside >= least and (held + n > most or held >= target):
            ends.append(place - 1)
            held = inside = 0
        held, inside = held + n, inside + size
    if ends and (held < target * SMALL or inside < least):  # a remainder too small to be searched on its own
        ends.pop()
    return [*ends, len(count) - 1]


def _halved(column: int, cuts: Sequence[int], below: Sequence[Node]) -> Node:
    """Codes up to the first cut go to the first of the nodes below, and so on."""
    if not cuts:
        return below[0]
    middle = len(cuts) // 2
    left = _halved(column, cuts[:middle], below[: middle + 1])
    return column, cuts[middle], left, _halved(column, cuts[middle + 1 :], below[middle + 1 :])


def _division(tree: Node) -> Partitioning:
    rows: list[list[int]] = []
    parts = 0

    def number(node: Node) -> int:
        nonlocal parts
        place = len(rows)
        if node is None:
            rows.append([-1, -1, -1, -1, parts])
            parts += 1
            return place
        rows.append([node[0], node[1], -1, -1, -1])
        rows[place][2], rows[place][3] = number(node[2]), number(node[3])
        return place

    number(tree)
    column, at, left, right, part = np.array(rows, np.int32).T.copy()
    return Partitioning(column, at, left, right, part)


def part_of(keys: Keys, division: Partitioning, node: int = 0) -> str:
    """The part that a record belongs to, by its key, in SQL."""
    column = int(division.column[node])
    if column < 0:
        return str(int(division.partition[node]))
    left, right = (part_of(keys, division, int(below[node])) for below in (division.left, division.right))
    return f"CASE WHEN {keys.code(column)} <= {int(division.at[node])} THEN {left} ELSE {right} END"


def scatter(home: Session, query: str, folder: Path) -> None:
    """Put records into files of their own by what the query calls their ``part``."""
    home.run(f"SET partitioned_write_flush_threshold = {FLUSH}")
    home.run(
        f"COPY ({query}) TO {text(str(folder))} (FORMAT parquet, COMPRESSION lz4_raw, PARTITION_BY (part), OVERWRITE_OR_IGNORE)"
    )


def scattered(folder: Path, part: int) -> str:
    """The records of a part."""
    return scan(sorted((folder / f"part={part}").glob("*.parquet")))
