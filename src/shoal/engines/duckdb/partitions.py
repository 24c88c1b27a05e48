"""The staged records of a table in DuckDB: their keys and carried columns in files, a folder of files for each partition."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from shoal.engines.duckdb.session import Session
from shoal.engines.duckdb.sources import scan_files
from shoal.engines.protocol import Partitioning
from shoal.engines.sql import CodeTally, Keys, Region, partition_expression, quote_text, split_cells, tally_query
from shoal.engines.sql.counted_cells import CountedCells
from shoal.engines.sql.release_query import KeyedRecords

FLUSH_RECORDS = 100_000  # records that are buffered before they are written to their partition


@dataclass(frozen=True)
class StagedCells(CountedCells):
    """The cells of staged records. They are counted when they are requested; ``sql`` is the expression for the records.

    ``file`` has the staged records, unless they are in partitions. ``carried`` are the user's names of the carried columns.
    """

    file: Path = field(kw_only=True)
    carried: tuple[str, ...] = field(kw_only=True)

    def select(self, partition: int | None) -> str:
        """Return the query for the cells of a partition; None: for all cells."""
        return f"SELECT {self.keys.name_list}, count(*) AS n FROM {self.records(partition).sql} GROUP BY ALL"

    def records(self, partition: int | None) -> KeyedRecords:
        """The records of a partition; None: all records."""
        folder = self.partitioning.folder
        sql = self.sql if partition is None or folder is None else scan_partition(folder, partition)
        return KeyedRecords(self.keys, self.carried, sql)


def stage_records(session: Session, query: str, keys: Keys, carried: tuple[str, ...]) -> StagedCells:
    """Write the keys and the carried columns of all records to a file."""
    file = session.new_path("staged").with_suffix(".parquet")
    session.run(f"COPY ({query}) TO {quote_text(str(file))} (FORMAT parquet, COMPRESSION lz4_raw)")
    return StagedCells(keys, scan_files([file]), Partitioning.whole(), file=file, carried=carried)


def partition_records(session: Session, staged: StagedCells, quasi: int, least: int) -> StagedCells:
    """Split staged records into partitions that have at most as many cells as the memory limit allows.

    Every partition has at least ``least`` records; see `split_cells`.
    """
    resources, keys = session.resources, staged.keys
    most, memory = resources.max_combinations, 0 if resources.combinations else resources.budget // 2
    whole = replace(staged, partitioning=replace(Partitioning.whole(), most=most, memory=memory))
    if prod(keys.sizes) <= most or session.count_rows(staged.sql) <= most:
        return whole  # so few combinations are possible, or so few records: no need to count
    cells = session.new_path("cells").with_suffix(".parquet")
    session.run(
        f"COPY (SELECT {keys.name_list}, count(*) AS records FROM {staged.sql} GROUP BY ALL) "
        f"TO {quote_text(str(cells))} (FORMAT parquet)"
    )

    def tally(column: int, region: Region) -> CodeTally:
        rows = session.fetch_arrow(tally_query(keys, scan_files([cells]), column, region))
        return CodeTally(*(rows[name].to_numpy() for name in CodeTally._fields))

    partitioning = split_cells(tally, keys.sizes[:quasi], most, least)
    cells.unlink()
    if partitioning.partitions == 1:
        return whole
    folder = session.new_folder()
    write_partitions(session, f"SELECT *, {partition_expression(keys, partitioning)} AS part FROM {staged.sql}", folder)
    staged.file.unlink()
    return replace(staged, partitioning=replace(partitioning, folder=folder, owner=session, most=most, memory=memory))


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
