"""Writing a release: assign the records to groups, sort them by their published values, write them to files."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from shoal.arrays import Int64Array
from shoal.engines.duckdb.partitions import scan_partition, write_partitions
from shoal.engines.duckdb.session import OutOfMemory, Session
from shoal.engines.duckdb.sources import Source, open_parquet, scan_files
from shoal.engines.protocol import HiddenColumn, Plan, UnchangedColumn
from shoal.engines.sql import Keys, quote_name, quote_text
from shoal.engines.sql.release_query import KeyedRecords, NumberRecords, ReleaseQuery, index_values

ROW_GROUP = 122_880  # records


@dataclass
class ReleaseWriter(ReleaseQuery):
    """Collects the records of every partition with their groups, and builds the query for the sorted rows.

    A group is identified by the *rank* of its published values. Groups with equal published values are thus one group, and the
    order of the ranks depends only on published values. ``placed`` are files of records with their groups, one for each
    partition; ``sorted`` are files of sorted rows, in the order of the release.
    """

    hash_type: ClassVar[type[np.integer]] = np.uint64

    session: Session
    source: Source = field(kw_only=True)
    is_whole: bool = True
    placed: list[Path] = field(default_factory=list)
    sorted: list[Path] = field(default_factory=list)

    def add(self, plan: Plan, keys: Keys, cells: Sequence[Int64Array], *, is_whole: bool) -> None:
        """Store the groups of a plan. Records need their groups, by which they are sorted; so labels by code are of no use."""
        self.is_whole = is_whole
        super().add(plan, keys, cells, is_whole=False)

    def _add_labels(self, plan: Plan) -> Int64Array:
        """Store the values and the sizes of the groups. The groups of the whole table are numbered by rank."""
        number = self._number_groups(plan)
        labels = {f"w{i}": index_values(c, c.index[: len(number)]) for i, c in enumerate(self._group_columns)}
        is_released = plan.group >= 0
        size = np.bincount(plan.group[is_released], plan.count[is_released], minlength=len(number)).astype(np.int64)
        self._create("labels", {"g": number, "n": size}, **labels)
        if not self.is_whole:
            return number
        ranks: Int64Array = self.session.fetch_arrow(f"SELECT r FROM ({self._rank_query()}) ORDER BY g")["r"].to_numpy()
        return ranks

    def _rank_query(self) -> str:
        """Return the query for every group with the rank of its published values."""
        by = ", ".join(f"w{i}" for i in range(len(self._group_columns))) or "true"
        return f"SELECT *, dense_rank() OVER (ORDER BY {by}) AS r FROM {self._union('labels')}"

    def _name_column(self, place: int) -> str:
        return quote_name(self.columns[place].name)

    def place(self, records: KeyedRecords, number_records: NumberRecords) -> None:
        """Write the records of a partition with their groups to a file, and drop the tables of its cells."""
        file = self.session.new_path("placed").with_suffix(".parquet")
        query = self._assign_groups(records, number_records)
        self.session.run(f"COPY ({query}) TO {quote_text(str(file))} (FORMAT parquet, COMPRESSION lz4_raw)")
        self.placed.append(file)
        labels = self._pieces["labels"]
        self.session.drop(*(table for table in self.tables if table not in labels))
        self.tables[:], self._pieces, self._order = labels, {"labels": labels}, None

    def select(self, records: KeyedRecords, number_records: NumberRecords) -> str:
        """Return the query for the rows, sorted by their published values: their order reveals nothing about the source."""
        columns = ", ".join(["r AS g", "sum(n)::BIGINT AS n", *(f"w{i}" for i in range(len(self._group_columns)))])
        labels = self.session.store_query("labels", f"SELECT {columns} FROM ({self._rank_query()}) GROUP BY ALL")
        self.tables.append(labels)
        if not self.placed:
            return self._sort_query(f"({self._assign_groups(records, number_records)})", labels, records)
        self._merge_partitions(labels, records)
        return f"SELECT * FROM {scan_files(self.sorted)}"

    def _sort_query(self, grouped: str, labels: str, records: KeyedRecords) -> str:
        """Return the query for records with their published values, sorted by group and by a hash of the unchanged columns."""
        kept = [
            records.find_released(column.name)
            for column in self.columns
            if isinstance(column, UnchangedColumn) and not isinstance(column, HiddenColumn)
        ]
        content = f", hash({', '.join(kept)}) AS h" if kept else ""
        rows = f"(SELECT *{content} FROM {grouped} ORDER BY g{', h' if kept else ''})"
        return f"SELECT {self._list_columns(records, 'l')} FROM {rows} p JOIN {labels} l USING (g)"

    def _merge_partitions(self, labels: str, records: KeyedRecords) -> None:
        """Partition all records again, by rank, and sort each of the new partitions on its own."""
        folder = self._partition_by_rank(labels)
        for partition in sorted(int(path.name.partition("=")[2]) for path in folder.iterdir()):
            rows = scan_partition(folder, partition)
            low, high = self.session.fetch_row(f"SELECT min(g), max(g) FROM {rows}")
            inside = f"(SELECT * FROM {labels} WHERE g BETWEEN {low} AND {high})"
            target = self.session.new_path("sorted").with_suffix(".parquet")
            self._copy_rows(self._sort_query(rows, inside, records), target)
            self.sorted.append(target)
            shutil.rmtree(folder / f"part={partition}")

    def _partition_by_rank(self, labels: str) -> Path:
        """Write the records to as many partitions as before, in the order of their ranks, and return the folder."""
        session = self.session
        rank = session.store_query(
            "rank",
            f"SELECT a.g, r, lot FROM ({self._rank_query()}) a JOIN (SELECT g AS r, "
            f"((sum(n) OVER (ORDER BY g) - n) * {len(self.placed)} // {self.records})::INTEGER AS lot "
            f"FROM {labels}) USING (r)",
        )
        session.drop(*self._pieces["labels"])
        folder = session.new_folder()
        write_partitions(
            session,
            f"SELECT p.* REPLACE (r AS g), lot AS part FROM {scan_files(self.placed)} p JOIN {rank} USING (g)",
            folder,
        )
        session.drop(rank)
        for file in self.placed:
            file.unlink()
        return folder

    def write(self, query: str) -> Source:
        """Write the sorted rows to a file, or to a folder of files where the source is a folder."""
        if self.sorted and self.source.root and not self._partition_columns():
            target = self.session.new_path("released")
            target.mkdir()
            moved = [file.rename(target / f"part-{number:04d}.parquet") for number, file in enumerate(self.sorted)]
            return open_parquet(moved, self.source.format, root=target, own=True)
        source = self._write_rows(query)
        for file in self.sorted:
            file.unlink()
        return source

    def _write_rows(self, query: str) -> Source:
        target = self.session.new_path("released")
        if self.source.root is None:
            file = target.with_suffix(".parquet")
            self._copy_rows(query, file)
            return open_parquet([file], self.source.format, own=True)
        if self._partition_columns():
            options = f"PARTITION_BY ({', '.join(map(quote_name, self._partition_columns()))})"
        else:  # about as many files as the source has
            rows = max(self.records // len(self.source.files), 1)
            options = f"ROW_GROUPS_PER_FILE {-(-rows // ROW_GROUP)}, ROW_GROUP_SIZE {min(rows, ROW_GROUP)}"
        target.mkdir()
        self._copy_rows(query, target, options, "OVERWRITE_OR_IGNORE")
        return open_parquet(sorted(target.rglob("*.parquet")), self.source.format, root=target, own=True)

    def _partition_columns(self) -> list[str]:
        """The released columns whose values are in the folder names of the source."""
        return [column for column in self.source.partition_columns if column in self.visible]

    def _copy_rows(self, query: str, target: Path, *options: str) -> None:
        copy_rows(self.session, self.list_types(self.source.types), query, target, *options)


def copy_rows(session: Session, types: Mapping[str, pa.DataType], query: str, target: Path, *options: str) -> None:
    """Write rows in the order of the query; the Arrow schema keeps the time zones, which DuckDB does not store."""
    settings = ["FORMAT parquet", *options]
    if any(pa.types.is_timestamp(kind) and kind.tz for kind in types.values()):
        schema = base64.b64encode(pa.schema(list(types.items())).serialize().to_pybytes()).decode("ascii")
        settings.append(f"KV_METADATA {{'ARROW:schema': {quote_text(schema)}}}")
    copy = f"COPY ({query}) TO {quote_text(str(target))} ({', '.join(settings)})"
    session.run("SET preserve_insertion_order = true")
    if any(
        option.startswith("PARTITION_BY") for option in options
    ):  # several threads would change the order of the rows
        session.run("SET threads = 1")
    try:
        session.run(copy)
    except OutOfMemory:  # one thread needs less memory than several
        session.run("SET threads = 1")
        session.run(copy)
    finally:
        session.run(f"SET preserve_insertion_order = false; SET threads = {session.threads}")


def copy_visible(session: Session, source: Source, path: Path) -> None:
    """Write the files of a release to ``path`` without hidden columns, in the same order."""
    types = {name: kind for name, kind in source.types.items() if name not in source.partition_columns}
    names = ", ".join(map(quote_name, types))
    for file in source.files:
        target = path if source.root is None else path / file.relative_to(source.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_rows(session, types, f"SELECT {names} FROM {scan_files([file])}", target)
