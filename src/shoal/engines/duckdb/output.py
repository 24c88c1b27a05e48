"""A release in the making: records get their groups, are sorted by what is published of them, and written."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from shoal.arrays import Int64Array
from shoal.engines import fingerprint
from shoal.engines.duckdb.partitions import Keys, scatter, scattered
from shoal.engines.duckdb.session import OutOfMemory, Session
from shoal.engines.duckdb.sources import CHANGED, Source, name, parquet, scan, text
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.protocol import GroupColumn, KeptColumn, KeyedOrder, Partitioning, Plan
from shoal.errors import DataError

ROW_GROUP = 122_880  # records


@dataclass(frozen=True)
class StagedTable:
    """What was put aside of every record: keys as ``k0``, ``k1``…, carried columns as ``c0``, ``c1``…"""

    keys: Keys
    columns: tuple[str, ...]
    sql: str
    parts: Partitioning

    def column(self, wanted: str) -> str:
        """What a carried column is called."""
        return f"c{self.columns.index(wanted)}"


class ReleaseWriter:
    """The records of each part with their groups, and what is written for these.

    A group is told by the *rank* of what is written for it, so that groups that look alike are one, and the order of the ranks
    says nothing but what is published.
    """

    def __init__(self, home: Session, source: Source) -> None:
        self.home, self.source = home, source
        self.groups = ""
        self.placed: list[str] = []
        self.loose: list[str] = []  # tables that a part needs
        self.columns: tuple[KeptColumn | GroupColumn, ...] = ()
        self.staged: StagedTable | None = None
        self.mixing: dict[KeyedHash, str] = {}
        self.total = self.records = 0

    def place(self, plan: Plan, staged: StagedTable, part: str, cells: Sequence[Int64Array]) -> None:
        """Give the records of a part their groups; ``cells`` are the keys of its cells."""
        self.columns, self.staged = plan.columns, staged
        count = int(plan.group.max(initial=-1)) + 1
        number = np.arange(self.total, self.total + count)
        listed = {f"w{i}": _labels(column, count) for i, column in enumerate(self._written())}
        size = np.bincount(plan.group[plan.group >= 0], plan.count[plan.group >= 0], minlength=count).astype(np.int64)
        table = self.home.put("written", pa.table({"g": number, "n": size, **listed}))
        if self.placed:
            self.home.run(f"INSERT INTO {self.groups} SELECT * FROM {table}")
            self.home.drop(table)
        else:
            self.groups = table
        words = dict(zip(staged.keys.names, cells, strict=True))
        if staged.parts.partitions == 1:
            number = self.home.arrow(f"SELECT r FROM ({self._ranked()}) ORDER BY g")["r"].to_numpy()
            self.placed.append(self._grouped(plan, staged, part, words, number))
        else:
            file = self.home.place("placed").with_suffix(".parquet")
            query = self._grouped(plan, staged, part, words, number)
            self.home.run(f"COPY ({query}) TO {text(str(file))} (FORMAT parquet, COMPRESSION lz4_raw)")
            self.placed.append(str(file))
            self._forget()
        self.total += count
        self.records += int(size.sum())

    def _forget(self) -> None:
        self.home.drop(*self.loose)
        self.loose.clear()

    def _written(self) -> list[GroupColumn]:
        return [column for column in self.columns if isinstance(column, GroupColumn)]

    def _ranked(self) -> str:
        """Every group with the rank of what is written for it."""
        by = ", ".join(f"w{i}" for i in range(len(self._written()))) or "true"
        return f"SELECT *, dense_rank() OVER (ORDER BY {by}) AS r FROM {self.groups}"

    def _grouped(
        self, plan: Plan, staged: StagedTable, part: str, words: Mapping[str, Int64Array], number: Int64Array
    ) -> str:
        """The records of a part with the numbers of their groups as ``g``; the key is left behind."""
        keys = staged.keys
        entries = np.bincount(plan.cell, minlength=len(plan.counts.size))
        alone = entries[plan.cell] == 1
        stays = alone & (plan.group >= 0)
        carried = ", ".join(f"s.c{i}" for i in range(len(staged.columns)))
        shown = f", {carried}" if carried else ""
        listed = {word: key[plan.cell[stays]] for word, key in words.items()}
        cells = self.home.put("cells", pa.table({**listed, "g": number[plan.group[stays]]}))
        self.loose.append(cells)
        query = f"SELECT g{shown} FROM {part} s JOIN {cells} USING ({keys.words})"
        if alone.all():
            return query
        cell, group, weight = (array[~alone] for array in (plan.cell, plan.group, plan.count))
        each = np.repeat(cell, weight)
        first = np.concatenate(([0], np.flatnonzero(np.diff(each)) + 1)) if len(each) else np.zeros(0, np.int64)
        ordinal = np.arange(len(each)) - np.repeat(first, np.diff(np.append(first, len(each)))) + 1
        listed = {word: key[each] for word, key in words.items()}
        groups = np.where(np.repeat(group, weight) >= 0, np.append(number, -1)[np.repeat(group, weight)], -1)
        dealt = self.home.put("dealt", pa.table({**listed, "o": ordinal, "g": groups}))
        divided = f"(SELECT * FROM {part} s SEMI JOIN {dealt} USING ({keys.words}))"
        hashes = self._hashes(plan.order, staged, divided)
        own = np.unique(cell)
        listed = {word: key[own] for word, key in words.items()}
        hashed = self.home.put("hashed", pa.table({**listed, "h": plan.order.cells[own]}))
        self.loose += [dealt, hashed, *(table for _, table in hashes)]
        total = " + ".join(f"h{i}.h::UHUGEINT" for i in range(len(hashes))) or "0::UHUGEINT"
        order = f"{self._mixing(plan.order)}(c.h, (({total}) % {2**64}::UHUGEINT)::UBIGINT)"
        joins = " ".join(
            f"JOIN {table} h{i} ON s.{staged.column(c)} IS NOT DISTINCT FROM h{i}.raw"
            for i, (c, table) in enumerate(hashes)
        )
        by = ", ".join(f"s.{word}" for word in keys.names)
        numbered = (
            f"SELECT s.*, row_number() OVER (PARTITION BY {by} ORDER BY {order}) AS o "
            f"FROM {divided} s JOIN {hashed} c USING ({keys.words}) {joins}"
        )
        return (
            f"{query} UNION ALL SELECT g{shown} FROM ({numbered}) s JOIN {dealt} USING ({keys.words}, o) WHERE g >= 0"
        )

    def _mixing(self, order: KeyedOrder) -> str:
        """The name of a function in SQL that hashes pairs of hashes, as the engine in memory does."""
        if order.hash not in self.mixing:
            self.mixing[order.hash] = self.home.function("mix", order.hash.mix)
        return self.mixing[order.hash]

    def _hashes(self, order: KeyedOrder, staged: StagedTable, divided: str) -> list[tuple[str, str]]:
        """For each column a table of its values, among some records, with the hash by which records are dealt."""
        found = []
        for column in order.columns:
            raw = self.home.arrow(f"SELECT DISTINCT {staged.column(column)} AS raw FROM {divided}")
            array = self.source.typed(column, raw["raw"])
            hashes = fingerprint.keyed_hashes(order.hash, {column: array}, len(array))
            found.append((column, self.home.put("hashes", raw.append_column("h", pa.array(hashes)))))
        return found

    def written(self) -> Source:
        """Sort the records by what is published of them, and write them; no order tells where they came from."""
        labels = self.home.fresh("labels")
        columns = ", ".join(["r AS g", "sum(n)::BIGINT AS n", *(f"w{i}" for i in range(len(self._written())))])
        self.home.run(f"CREATE TEMP TABLE {labels} AS SELECT {columns} FROM ({self._ranked()}) GROUP BY ALL")
        self.loose.append(labels)
        whole = len(self.placed) == 1
        source = self._copied(self._sorted(f"({self.placed[0]})", labels)) if whole else self._gathered(labels)
        if source.rows != self.records:
            raise DataError(CHANGED)
        self._forget()
        self.home.drop(self.groups)
        return source

    def _sorted(self, placed: str, labels: str) -> str:
        """Records with what is written for them, in the order of that and of the other columns."""
        assert self.staged is not None  # noqa: S101  there is at least one part
        kept = [self.staged.column(column.name) for column in self.columns if isinstance(column, KeptColumn)]
        content = f", hash({', '.join(kept)}) AS h" if kept else ""
        rows = f"(SELECT *{content} FROM {placed} ORDER BY g{', h' if kept else ''})"
        shown, written = [], 0
        for column in self.columns:
            place = f"p.{self.staged.column(column.name)}" if isinstance(column, KeptColumn) else f"l.w{written}"
            shown.append(f"{place} AS {name(column.name)}")
            written += isinstance(column, GroupColumn)
        return f"SELECT {', '.join(shown)} FROM {rows} p JOIN {labels} l USING (g)"

    def _gathered(self, labels: str) -> Source:
        """The records of all parts, by their ranks put into lots, each of which is sorted on its own."""
        files = []
        folder = self._lots(labels)
        for lot in sorted(int(path.name.partition("=")[2]) for path in folder.iterdir()):
            rows = scattered(folder, lot)
            low, high = self.home.rows(f"SELECT min(g), max(g) FROM {rows}")[0]
            target = self.home.place("lot").with_suffix(".parquet")
            self._copy(self._sorted(rows, f"(SELECT * FROM {labels} WHERE g BETWEEN {low} AND {high})"), target)
            files.append(target)
            shutil.rmtree(folder / f"part={lot}")
        if self.source.root and not self._parted():
            target = self.home.place("released")
            target.mkdir()
            moved = [file.rename(target / f"part-{lot:04d}.parquet") for lot, file in enumerate(files)]
            return parquet(moved, self.source.format, root=target, own=True)
        source = self._copied(f"SELECT * FROM {scan(files)}")
        for file in files:
            file.unlink()
        return source

    def _lots(self, labels: str) -> Path:
        """A folder with as many lots of records as there are parts, those of lower ranks first."""
        home = self.home
        rank, folder = home.fresh("rank"), home.place("lots")
        home.run(
            f"CREATE TEMP TABLE {rank} AS SELECT a.g, r, lot FROM ({self._ranked()}) a JOIN (SELECT g AS r, "
            f"((sum(n) OVER (ORDER BY g) - n) * {len(self.placed)} // {self.records})::INTEGER AS lot FROM {labels}) USING (r)"
        )
        home.run(f"DELETE FROM {self.groups}")
        folder.mkdir(mode=0o700)
        placed = [Path(file) for file in self.placed]
        scatter(home, f"SELECT p.* REPLACE (r AS g), lot AS part FROM {scan(placed)} p JOIN {rank} USING (g)", folder)
        home.drop(rank)
        for file in placed:
            file.unlink()
        return folder

    def _parted(self) -> list[str]:
        """The columns that the folders of the source tell, as far as they are released."""
        return [column for column in self.source.partitions if column in self._types()]

    def _copied(self, query: str) -> Source:
        """The release in a file, or in a folder of files where it came as one."""
        target = self.home.place("released")
        if self.source.root is None:
            file = target.with_suffix(".parquet")
            self._copy(query, file)
            return parquet([file], self.source.format, own=True)
        if self._parted():
            options = f"PARTITION_BY ({', '.join(map(name, self._parted()))})"
        else:  # about as many files as there were
            rows = max(self.records // len(self.source.files), 1)
            options = f"ROW_GROUPS_PER_FILE {-(-rows // ROW_GROUP)}, ROW_GROUP_SIZE {min(rows, ROW_GROUP)}"
        target.mkdir()
        self._copy(query, target, options, "OVERWRITE_OR_IGNORE")
        return parquet(sorted(target.rglob("*.parquet")), self.source.format, root=target, own=True)

    def _copy(self, query: str, target: Path, *options: str) -> None:
        """Write rows in their order; the zones of moments, which DuckDB does not know, are written beside them."""
        types, listed = self._types(), ["FORMAT parquet", *options]
        if any(pa.types.is_timestamp(kind) and kind.tz for kind in types.values()):
            schema = base64.b64encode(pa.schema(list(types.items())).serialize().to_pybytes()).decode("ascii")
            listed.append(f"KV_METADATA {{'ARROW:schema': {text(schema)}}}")
        copy = f"COPY ({query}) TO {text(str(target))} ({', '.join(listed)})"
        self.home.run("SET preserve_insertion_order = true")
        if any(option.startswith("PARTITION_BY") for option in options):  # several threads would mix their rows
            self.home.run("SET threads = 1")
        try:
            self.home.run(copy)
        except OutOfMemory:  # what several threads hold at once one may still have room for
            self.home.run("SET threads = 1")
            self.home.run(copy)
        finally:
            self.home.run(f"SET preserve_insertion_order = false; SET threads = {self.home.threads}")

    def _types(self) -> dict[str, pa.DataType]:
        found = {}
        for column in self.columns:
            if isinstance(column, KeptColumn):
                found[column.name] = self.source.types[column.name]
            else:
                found[column.name] = pa.string() if column.values.dtype == object else pa.array(column.values[:0]).type
        return found


def _labels(column: GroupColumn, count: int) -> pa.Array:
    kind = pa.string() if column.values.dtype == object else None
    index = column.index[:count]
    return pa.DictionaryArray.from_arrays(pa.array(index, mask=index < 0), pa.array(column.values, kind))
