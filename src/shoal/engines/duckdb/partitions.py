"""The partitions of a staged table in DuckDB: how they are chosen, written and read."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

from shoal.engines.duckdb.session import Session
from shoal.engines.duckdb.sources import scan_files
from shoal.engines.protocol import Partitioning
from shoal.engines.sql import CodeTally, Keys, Region, quote_text, split_cells, tally_query

FLUSH_RECORDS = 100_000  # records that are buffered before they are written to their partition


def partition_table(session: Session, keys: Keys, staged: str, quasi: int, least: int) -> Partitioning:
    """Split the staged records into partitions that have at most as many cells as the memory limit allows.

    Every partition has at least ``least`` records; see `split_cells`.
    """
    resources = session.resources
    most, memory = resources.max_combinations, 0 if resources.combinations else resources.budget // 2
    whole = replace(Partitioning.whole(), most=most, memory=memory)
    if prod(keys.sizes) <= most or session.fetch_rows(f"SELECT count(*) FROM {staged}")[0][0] <= most:
        return whole  # so few combinations are possible, or so few records: no need to count
    cells = session.new_path("cells").with_suffix(".parquet")
    session.run(
        f"COPY (SELECT {keys.name_list}, count(*) AS records FROM {staged} GROUP BY ALL) "
        f"TO {quote_text(str(cells))} (FORMAT parquet)"
    )

    def tally(column: int, region: Region) -> CodeTally:
        rows = session.fetch_arrow(tally_query(keys, scan_files([cells]), column, region))
        return CodeTally(*(rows[name].to_numpy() for name in CodeTally._fields))

    partitioning = split_cells(tally, keys.sizes[:quasi], most, least)
    cells.unlink()
    if partitioning.partitions == 1:
        return whole
    folder = session.new_path("parts")
    folder.mkdir(mode=0o700)
    return replace(partitioning, folder=folder, owner=session, most=most, memory=memory)


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
