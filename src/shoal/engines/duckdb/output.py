"""Writing a release: assign the records to groups, sort them by their published values, write them to files."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.arrays import Int64Array
from shoal.engines import fingerprint
from shoal.engines.duckdb.partitions import scan_partition, write_partitions
from shoal.engines.duckdb.session import OutOfMemory, Session
from shoal.engines.duckdb.sources import CHANGED, Source, open_parquet, scan_files
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.protocol import GroupColumn, HiddenColumn, KeyedOrder, Partitioning, Plan, UnchangedColumn
from shoal.engines.sql import (
    CellGroups,
    Keys,
    join_divided_cells,
    join_values,
    join_whole_cells,
    quote_name,
    quote_text,
    take_keys,
)
from shoal.errors import DataError

ROW_GROUP = 122_880  # records


@dataclass(frozen=True)
class StagedTable:
    """The staged data of every record: keys as ``k0``, ``k1``…, carried columns as ``c0``, ``c1``…

    ``sql`` is the SQL expression for the records.
    """

    keys: Keys
    columns: tuple[str, ...]
    sql: str
    partitioning: Partitioning

    @property
    def carried_names(self) -> list[str]:
        """The staged names of the carried columns."""
        return [f"c{number}" for number in range(len(self.columns))]

    def carried_name(self, column: str) -> str:
        """The staged name of a carried column."""
        return f"c{self.columns.index(column)}"

    def add_codes(self, columns: Sequence[str], records: str) -> tuple[StagedTable, str]:
        """Also carry the codes of some columns of the keys; return the expression for the records with these codes."""
        codes = [f"{self.keys.code(self.keys.columns.index(column))}::INTEGER" for column in columns]
        staged = replace(self, columns=(*self.columns, *columns))
        names = staged.carried_names[len(self.columns) :]
        more = "".join(f", {code} AS {name}" for code, name in zip(codes, names, strict=True))
        return staged, f"(SELECT *{more} FROM {records})"


class ReleaseWriter:
    """Collects the records of every partition with their groups, and writes the release.

    A group is identified by the *rank* of its published values. Groups with equal published values are thus one group, and the
    order of the ranks depends only on published values.
    """

    def __init__(self, session: Session, source: Source) -> None:
        self.session, self.source = session, source
        self.groups = ""
        self.grouped_records: list[str] = []  # per partition: a query if there is only one partition, else a file
        self.temp_tables: list[str] = []  # needed until the partition is written
        self.columns: tuple[UnchangedColumn | GroupColumn, ...] = ()
        self.coded: list[str] = []  # hidden columns that are written as codes
        self.staged: StagedTable | None = None
        self.hash_functions: dict[KeyedHash, str] = {}
        self.total = self.records = 0

    def assign_groups(self, plan: Plan, staged: StagedTable, records: str, cells: Sequence[Int64Array]) -> None:
        """Assign the records of a partition to their groups; ``cells`` are the keys of its cells."""
        hidden = [column.name for column in plan.columns if isinstance(column, HiddenColumn)]
        self.coded = [name for name in hidden if name not in staged.columns]
        if self.coded:
            staged, records = staged.add_codes(self.coded, records)
        self.columns, self.staged = plan.columns, staged
        count = int(plan.group.max(initial=-1)) + 1
        number = np.arange(self.total, self.total + count)
        labels = {f"w{i}": _build_labels(column, count) for i, column in enumerate(self._group_columns())}
        size = np.bincount(plan.group[plan.group >= 0], plan.count[plan.group >= 0], minlength=count).astype(np.int64)
        table = self.session.create_table("written", pa.table({"g": number, "n": size, **labels}))
        if self.grouped_records:
            self.session.run(f"INSERT INTO {self.groups} SELECT * FROM {table}")
            self.session.drop(table)
        else:
            self.groups = table
        words = dict(zip(staged.keys.names, cells, strict=True))
        if staged.partitioning.partitions == 1:
            number = self.session.fetch_arrow(f"SELECT r FROM ({self._rank_query()}) ORDER BY g")["r"].to_numpy()
            self.grouped_records.append(self._group_query(plan, staged, records, words, number))
        else:
            file = self.session.new_path("placed").with_suffix(".parquet")
            query = self._group_query(plan, staged, records, words, number)
            self.session.run(f"COPY ({query}) TO {quote_text(str(file))} (FORMAT parquet, COMPRESSION lz4_raw)")
            self.grouped_records.append(str(file))
            self._drop_temp_tables()
        self.total += count
        self.records += int(size.sum())

    def _drop_temp_tables(self) -> None:
        self.session.drop(*self.temp_tables)
        self.temp_tables.clear()

    def _group_columns(self) -> list[GroupColumn]:
        return [column for column in self.columns if isinstance(column, GroupColumn)]

    def _rank_query(self) -> str:
        """Return the query for every group with the rank of its published values."""
        by = ", ".join(f"w{i}" for i in range(len(self._group_columns()))) or "true"
        return f"SELECT *, dense_rank() OVER (ORDER BY {by}) AS r FROM {self.groups}"

    def _group_query(
        self, plan: Plan, staged: StagedTable, records: str, words: Mapping[str, Int64Array], number: Int64Array
    ) -> str:
        """Return the query for the records of a partition with their groups as ``g``, without the keys."""
        keys, groups = staged.keys, CellGroups.of(plan, number)
        cells = self._create_temp_table("cells", take_keys(words, groups.cell), g=groups.group)
        query = join_whole_cells(keys, records, cells, staged.carried_names)
        if not len(groups.divided):
            return query
        quotas = self._create_temp_table(
            "quotas", take_keys(words, groups.quota_cell), o=groups.quota_ordinal, g=groups.quota_group
        )
        divided = f"(SELECT * FROM {records} s SEMI JOIN {quotas} USING ({keys.name_list}))"
        cell_hashes = take_keys(words, groups.divided)
        hashes = self._create_temp_table("hashed", cell_hashes, h=plan.order.cells[groups.divided])
        tables = self._create_hash_tables(plan.order, staged, divided)
        total = " + ".join(f"h{i}.h::UHUGEINT" for i in range(len(tables))) or "0::UHUGEINT"
        record, mix = f"(({total}) % {2**64}::UHUGEINT)::UBIGINT", self._hash_function(plan.order)
        joins = join_values("JOIN", "h", tables)
        columns = staged.carried_names
        ordered = join_divided_cells(keys, divided, quotas, columns, hashes=hashes, joins=joins, record=record, mix=mix)
        return f"{query} UNION ALL {ordered}"

    def _create_temp_table(self, prefix: str, words: Mapping[str, Int64Array], **columns: NDArray[Any]) -> str:
        """Create a table that is needed until the partition is written, and return its name."""
        table = self.session.create_table(prefix, pa.table({**words, **columns}))
        self.temp_tables.append(table)
        return table

    def _hash_function(self, order: KeyedOrder) -> str:
        """Return the name of the SQL function that computes `KeyedHash.mix`."""
        if order.hash not in self.hash_functions:
            self.hash_functions[order.hash] = self.session.create_function("mix", order.hash.mix)
        return self.hash_functions[order.hash]

    def _create_hash_tables(self, order: KeyedOrder, staged: StagedTable, divided: str) -> list[tuple[str, str]]:
        """Create, for each column of the order, a table of its values in divided cells with their keyed hashes.

        Return the staged names of the columns, with the names of the tables.
        """
        tables = []
        for column in order.columns:
            name = staged.carried_name(column)
            raw = self.session.fetch_arrow(f"SELECT DISTINCT {name} AS raw FROM {divided}")
            array = self.source.restore_type(column, raw["raw"])
            hashes = fingerprint.hash_rows_with_key(order.hash, {column: array}, len(array))
            tables.append((name, self.session.create_table("hashes", raw.append_column("h", pa.array(hashes)))))
        self.temp_tables += [table for _, table in tables]
        return tables

    def write(self) -> Source:
        """Sort the records by their published values, so that their order reveals nothing about the source, and write them."""
        labels = self.session.new_name("labels")
        columns = ", ".join(["r AS g", "sum(n)::BIGINT AS n", *(f"w{i}" for i in range(len(self._group_columns())))])
        self.session.run(f"CREATE TEMP TABLE {labels} AS SELECT {columns} FROM ({self._rank_query()}) GROUP BY ALL")
        self.temp_tables.append(labels)
        if len(self.grouped_records) == 1:
            source = self._write_rows(self._sort_query(f"({self.grouped_records[0]})", labels))
        else:
            source = self._merge_partitions(labels)
        if source.rows != self.records:
            raise DataError(CHANGED)
        self._drop_temp_tables()
        self.session.drop(self.groups)
        return source

    def _sort_query(self, records: str, labels: str) -> str:
        """Return the query for records with their published values, sorted by group and by a hash of the unchanged columns."""
        assert self.staged is not None  # noqa: S101  there is at least one partition
        kept = [
            self.staged.carried_name(column.name)
            for column in self.columns
            if isinstance(column, UnchangedColumn) and not isinstance(column, HiddenColumn)
        ]
        content = f", hash({', '.join(kept)}) AS h" if kept else ""
        rows = f"(SELECT *{content} FROM {records} ORDER BY g{', h' if kept else ''})"
        columns, group_columns = [], 0
        for column in self.columns:
            is_kept = isinstance(column, UnchangedColumn)
            value = f"p.{self.staged.carried_name(column.name)}" if is_kept else f"l.w{group_columns}"
            columns.append(f"{value} AS {quote_name(column.name)}")
            group_columns += not is_kept
        return f"SELECT {', '.join(columns)} FROM {rows} p JOIN {labels} l USING (g)"

    def _merge_partitions(self, labels: str) -> Source:
        """Partition all records again, by rank, and sort each of the new partitions on its own."""
        files = []
        folder = self._partition_by_rank(labels)
        for partition in sorted(int(path.name.partition("=")[2]) for path in folder.iterdir()):
            rows = scan_partition(folder, partition)
            low, high = self.session.fetch_rows(f"SELECT min(g), max(g) FROM {rows}")[0]
            target = self.session.new_path("sorted").with_suffix(".parquet")
            self._copy_rows(
                self._sort_query(rows, f"(SELECT * FROM {labels} WHERE g BETWEEN {low} AND {high})"), target
            )
            files.append(target)
            shutil.rmtree(folder / f"part={partition}")
        if self.source.root and not self._partition_columns():
            target = self.session.new_path("released")
            target.mkdir()
            moved = [file.rename(target / f"part-{number:04d}.parquet") for number, file in enumerate(files)]
            return open_parquet(moved, self.source.format, root=target, own=True)
        source = self._write_rows(f"SELECT * FROM {scan_files(files)}")
        for file in files:
            file.unlink()
        return source

    def _partition_by_rank(self, labels: str) -> Path:
        """Write the records to as many partitions as before, in the order of their ranks, and return the folder."""
        session = self.session
        rank, folder = session.new_name("rank"), session.new_path("ranked")
        session.run(
            f"CREATE TEMP TABLE {rank} AS SELECT a.g, r, lot FROM ({self._rank_query()}) a JOIN (SELECT g AS r, "
            f"((sum(n) OVER (ORDER BY g) - n) * {len(self.grouped_records)} // {self.records})::INTEGER AS lot "
            f"FROM {labels}) USING (r)"
        )
        session.run(f"DELETE FROM {self.groups}")
        folder.mkdir(mode=0o700)
        files = [Path(file) for file in self.grouped_records]
        write_partitions(
            session,
            f"SELECT p.* REPLACE (r AS g), lot AS part FROM {scan_files(files)} p JOIN {rank} USING (g)",
            folder,
        )
        session.drop(rank)
        for file in files:
            file.unlink()
        return folder

    def _partition_columns(self) -> list[str]:
        """The released columns whose values are in the folder names of the source."""
        hidden = [column.name for column in self.columns if isinstance(column, HiddenColumn)]
        names = [column for column in self._column_types() if column not in hidden]
        return [column for column in self.source.partition_columns if column in names]

    def _write_rows(self, query: str) -> Source:
        """Write the release to a file, or to a folder of files where the source is a folder."""
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

    def _copy_rows(self, query: str, target: Path, *options: str) -> None:
        copy_rows(self.session, self._column_types(), query, target, *options)

    def _column_types(self) -> dict[str, pa.DataType]:
        found = {}
        for column in self.columns:
            if column.name in self.coded:
                found[column.name] = pa.int32()
            elif isinstance(column, UnchangedColumn):
                found[column.name] = self.source.types[column.name]
            else:
                found[column.name] = pa.string() if column.values.dtype == object else pa.array(column.values[:0]).type
        return found


def _build_labels(column: GroupColumn, count: int) -> pa.Array:
    kind = pa.string() if column.values.dtype == object else None
    index = column.index[:count]
    return pa.DictionaryArray.from_arrays(pa.array(index, mask=index < 0), pa.array(column.values, kind))


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
