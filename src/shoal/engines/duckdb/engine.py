"""The engine for tables larger than memory: DuckDB counts, joins and sorts; dictionaries, cells and groups come and go.

What happens where. `distinct` groups one column; its values are settled here, as those of a table in memory are. `encode`
makes a table of codes for every column and, where something is to be released, puts aside what the release needs: for
each record its *key*, all codes packed into a word (or several), and the columns that are carried along. `count` groups the
keys. `apply` joins the keys with their groups, sorts the records by what is published of them and writes them to a file,
which is then read by strangers: the same engine, opened on that file.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from shoal import kernels, threads
from shoal.arrays import Int32Array, Int64Array, UInt64Array
from shoal.engines import column_values, fingerprint, table_files
from shoal.engines.duckdb.output import ReleaseWriter, StagedTable
from shoal.engines.duckdb.partitions import Keys, part_of, partition_table, scatter, scattered
from shoal.engines.duckdb.session import Session
from shoal.engines.duckdb.sources import BATCH, CHANGED, Source, name, normalized, scan, source_of, text
from shoal.engines.protocol import Counts, Dictionary, Distinct, Format, Partitioning, Plan, Reading, Schema, digest_of
from shoal.engines.resources import Resources
from shoal.errors import DataError, EngineError, PolicyError, list_choices

DIGITS = 38  # that DuckDB's decimals have


@dataclass(frozen=True)
class _Coding:
    """The codes of a column: a table of raw values and codes, and how many codes there may be."""

    table: str
    size: int


@dataclass(frozen=True)
class _Counted:
    """Counted cells in a table; range i of their first codes goes up to ``ends[i]``, the last to the end."""

    table: str
    keys: Keys
    first: str
    ends: tuple[int | None, ...]

    def where(self, part: int) -> str:
        """The cells of a range, in SQL."""
        low, high = self.ends[part - 1] if part else None, self.ends[part]
        limits = [] if low is None else [f"{self.first} > {low}"]
        return " AND ".join([*limits, *([] if high is None else [f"{self.first} <= {high}"])]) or "true"


@dataclass(frozen=True)
class DuckEngine:
    """A table that DuckDB reads from Parquet files, with the codes of the columns that were encoded."""

    session: Session
    source: Source
    codings: Mapping[str, _Coding] = field(default_factory=dict)
    carry: tuple[str, ...] | None = None
    _seen: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, data: Any, resources: Resources) -> DuckEngine:
        """Files, folders of files, a connection, a table or a relation."""
        home = Session(resources)
        try:
            return cls(home, source_of(data, home))
        except BaseException:
            home.close()
            raise

    @property
    def format(self) -> Format:
        """As the data came."""
        return self.source.format

    def schema(self) -> Schema:
        """Names and number of records."""
        return Schema(self.source.names, self.source.rows)

    def distinct(self, column: str, reading: Reading) -> Distinct:
        """The distinct values of one column."""
        return self._settled(column, reading)[0]

    def prepare(self, readings: Mapping[str, Reading]) -> None:
        """Every column is a scan of its own."""

    def _settled(self, column: str, reading: Reading) -> tuple[Distinct, Int32Array]:
        """The distinct values, and the place of every raw one's among them, in the order of the table of raw values."""
        if (column, reading) not in self._seen:
            found = self.session.arrow(f"SELECT raw, records FROM {self._raw(column)} ORDER BY id")
            raw = self.source.typed(column, found["raw"].combine_chunks())
            raw = raw.chunk(0) if isinstance(raw, pa.ChunkedArray) else raw
            records = found["records"].to_numpy()
            self.source.refuse_miscounted(int(records.sum()))
            present = raw.is_valid().to_numpy(zero_copy_only=False)
            kept, target = column_values.unify_values(raw.filter(pa.array(present)), column, reading)
            place = np.full(len(raw), -1, np.int32)
            place[present] = target
            tally = np.bincount(place + 1, records, minlength=len(kept) + 1).astype(np.int64)
            self._seen[column, reading] = Distinct(kept, tally[1:], int(tally[0])), place
        found_before: tuple[Distinct, Int32Array] = self._seen[column, reading]
        return found_before

    def _raw(self, column: str) -> str:
        """The table of a column's raw values, numbered, with the records of each."""
        if column not in self.source.names:
            raise PolicyError(f"column {column!r} is not in the table; {list_choices(column, list(self.source.names))}")
        if ("raw", column) not in self._seen:
            table, raw = self.session.fresh("raw"), name(column)
            self._refuse_strange(column)
            self._read(
                f"CREATE TEMP TABLE {table} AS SELECT row_number() OVER () AS id, * FROM "
                f"(SELECT {raw} AS raw, count(*) AS records FROM {self.source.sql} GROUP BY 1)"
            )
            self._seen["raw", column] = table
        return str(self._seen["raw", column])

    def _refuse_strange(self, column: str) -> None:
        """An error for a column that DuckDB cannot group, or cannot hold as it is."""
        kind = self.source.types[column]
        if pa.types.is_nested(kind):
            raise DataError(
                f"column {column!r} holds {kind} values, which cannot be grouped; turn it into text or numbers, or leave it "
                "out of the policy"
            )
        if (pa.types.is_decimal(kind) and kind.precision > DIGITS) or pa.types.is_duration(kind):
            raise DataError(
                f"column {column!r} holds {kind} values, which DuckDB does not hold as they are; turn it into text or numbers, "
                "or leave it out of the policy"
            )

    def encode(self, dictionaries: Mapping[str, Dictionary], *, carry: Sequence[str] | None = None) -> DuckEngine:
        """The same data with codes beside the named columns."""
        codings = dict(self.codings)
        for column, dictionary in dictionaries.items():
            _, place = self._settled(column, dictionary.reading)
            target = np.append(dictionary.codes, np.int32(dictionary.missing)).astype(np.int32)
            code = target[place]
            numbered = self.session.put("numbered", pa.table({"id": np.arange(1, len(code) + 1), "code": code}))
            table = self.session.fresh("codes")
            self.session.run(
                f"CREATE TEMP TABLE {table} AS SELECT raw, code FROM {self._raw(column)} JOIN {numbered} USING (id)"
            )
            self.session.drop(numbered)
            codings[column] = _Coding(table, int(target.max(initial=0)) + 1)
        return replace(self, codings=codings, carry=None if carry is None else tuple(dict.fromkeys(carry)), _seen={})

    def partition(self, quasi: Sequence[str], secret: Sequence[str] = (), *, least: int = 1) -> Partitioning:
        """One part, unless there are more cells than may be held at once.

        Where nothing is to be released, parts are ranges of the keys.
        """
        if self.carry is not None:
            return self._staged(quasi, secret, least).parts
        return Partitioning.listed(len(self._counted(quasi, secret).ends))

    def count(self, quasi: Sequence[str], secret: Sequence[str] = (), *, part: int | None = None) -> Counts:
        """Counted cells over columns that were encoded, sorted by their codes."""
        if self.carry is None:
            counted = self._counted(quasi, secret)
            where = "true" if part is None else counted.where(part)
            found = self.session.arrow(f"SELECT * FROM {counted.table} WHERE {where}")
            return _counts(counted.keys, found, len(quasi), part or 0)[1]
        staged = self._staged(quasi, secret)
        if part is None and staged.parts.partitions > 1:
            raise EngineError("the table is too large to be counted whole; count its parts")
        query = f"SELECT {staged.keys.words}, count(*) AS n FROM {self._part(staged, part or 0)} GROUP BY ALL"
        words, counts = _counts(staged.keys, self.session.arrow(query), len(quasi), part or 0)
        self._seen["counted"] = counts, staged, words  # a plan is made for what was counted last
        return counts

    def _counted(self, quasi: Sequence[str], secret: Sequence[str]) -> _Counted:
        """Cells that stay in DuckDB, to be fetched in ranges of their keys; those of one combination are together."""
        wanted = ("cells", tuple(quasi), tuple(secret))
        if wanted not in self._seen:
            keys, table = self._keys((*quasi, *secret)), self.session.fresh("counted")
            query = f"SELECT {keys.words}, count(*) AS n FROM ({self._encoded(keys)}) GROUP BY ALL"
            self._read(f"CREATE TEMP TABLE {table} AS {query}")
            first = f"k0 // {math.prod(keys.groups[0][len(quasi) :])}"
            cells, records = self.session.rows(f"SELECT count(*), coalesce(sum(n), 0)::BIGINT FROM {table}")[0]
            self.source.refuse_miscounted(records)
            most = self.session.resources.most
            ends = [None]
            if cells > most:
                shares = [i / -(-cells // most) for i in range(1, -(-cells // most))]
                cuts = self.session.rows(f"SELECT quantile_disc({first}, {shares}) FROM {table}")[0][0]
                ends = [*sorted(set(cuts)), None]
            self._seen[wanted] = _Counted(table, keys, first, tuple(ends))
        found: _Counted = self._seen[wanted]
        return found

    def _read(self, sql: str) -> None:
        """Carry out a statement that reads the source; if it fails because that has changed, the error says so."""
        try:
            self.session.run(sql)
        except EngineError:
            self.source.refuse_changed()
            raise

    def _keys(self, columns: Sequence[str]) -> Keys:
        return Keys.of(columns, [self.codings[c].size for c in columns])

    def _encoded(self, keys: Keys, carry: Sequence[str] = ()) -> str:
        """Every record with its key; a value that has no code makes it NULL."""
        joins, codes = [], {}
        for number, column in enumerate(keys.columns):
            raw = name(column)
            joins.append(
                f"LEFT JOIN {self.codings[column].table} t{number} ON s.{raw} IS NOT DISTINCT FROM t{number}.raw"
            )
            codes[column] = f"t{number}.code"
        carried = [f"{normalized(c, self.source.types[c])} AS c{i}" for i, c in enumerate(carry)]
        return f"SELECT {', '.join([*keys.packed(codes), *carried])} FROM {self.source.sql} s {' '.join(joins)}"

    def _staged(self, quasi: Sequence[str], secret: Sequence[str], least: int = 1) -> StagedTable:
        """Put aside what the release needs, once."""
        wanted = (tuple(quasi), tuple(secret))
        if self.carry is None:
            raise EngineError("this table was encoded to be counted, not to be released")
        if wanted not in self._seen:
            keys, carry = self._keys((*quasi, *secret)), self.carry
            for column in carry:
                self._refuse_strange(column)
            file = self.session.place("staged").with_suffix(".parquet")
            self._read(
                f"COPY ({self._encoded(keys, carry)}) TO {text(str(file))} (FORMAT parquet, COMPRESSION lz4_raw)"
            )
            self.source.refuse_changed()
            sql = scan([file])
            self.source.refuse_miscounted(self.session.rows(f"SELECT count(*) FROM {sql}")[0][0])
            parts = partition_table(self.session, keys, sql, len(quasi), least)
            if parts.partitions > 1:
                assert parts.folder is not None  # noqa: S101
                scatter(self.session, f"SELECT *, {part_of(keys, parts)} AS part FROM {sql}", parts.folder)
                file.unlink()
            self._seen[wanted] = StagedTable(keys, carry, sql, parts)
        found: StagedTable = self._seen[wanted]
        return found

    def _part(self, staged: StagedTable, part: int) -> str:
        if staged.parts.partitions == 1:
            return staged.sql
        assert staged.parts.folder is not None  # noqa: S101
        return scattered(staged.parts.folder, part)

    def batches(self, columns: Sequence[str], *, part: int | None = None) -> Iterator[Mapping[str, Any]]:
        """The columns as they stand, some records at a time, as Arrow arrays by name."""
        return self.source.batches(columns, part or BATCH)

    def apply(self, plans: Iterable[Plan]) -> DuckEngine:
        """The released data, in files of their own; what is published is sorted by what stands in it."""
        release = ReleaseWriter(self.session, self.source)
        for plan in plans:
            counts, staged, words = self._seen["counted"]
            if plan.counts is not counts:
                raise EngineError("a plan must be made for the cells that were counted last")
            release.place(plan, staged, self._part(staged, counts.partition), words)
        self.source.refuse_changed()
        return DuckEngine(self.session, release.written())

    def write(self, path: Path, format: Format, *, escape_formulas: bool = True) -> int:
        """Put the files where they are wanted; a CSV file is written from them, in their order."""
        if format == "csv":
            return self._write_csv(path, escape_formulas)
        with table_files.writing(path):
            if self.source.root is None:
                shutil.copyfile(self.source.files[0], path)
                return 0
            for file in self.source.files:
                target = path / file.relative_to(self.source.root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        return 0

    def _write_csv(self, path: Path, escape_formulas: bool) -> int:
        columns = list(self.source.names)
        header, changed = table_files.header_texts(columns, escape_formulas=escape_formulas)
        schema = pa.schema([(name, pa.large_string()) for name in header])
        with table_files.writing(path), pc_csv.CSVWriter(path, schema, write_options=table_files.CSV) as writer:
            for batch in self.source.batches(columns):
                listed = [table_files.csv_texts(a, c, escape_formulas=escape_formulas) for c, a in batch.items()]
                writer.write_batch(pa.record_batch([texts for texts, _ in listed], schema=schema))
                changed += sum(count for _, count in listed)
        return changed

    def reopen(self, path: Path) -> DuckEngine:
        """A file or folder that was written, in the same home; these very data, where it has the very same bytes."""
        source = source_of(path, self.session)
        same = sorted(map(digest_of, source.files)) == self._seen.get("digests")
        return self if same else DuckEngine(self.session, source)

    def fingerprint(self) -> str:
        """A digest of the rows as a multiset."""
        if "fingerprint" not in self._seen:
            columns = list(self.source.names)
            self._seen["digests"] = sorted(map(digest_of, self.source.files)) if self.source.own else None
            self._seen["fingerprint"] = fingerprint.fingerprint(columns, self._hashes(columns))
        return str(self._seen["fingerprint"])

    def _hashes(self, columns: Sequence[str]) -> Iterator[UInt64Array]:
        """The hashes of all rows, some at a time, on all cores."""

        def hashes(batch: Mapping[str, Any]) -> UInt64Array:
            arrays = {column: pa.chunked_array([array]) for column, array in batch.items()}
            return fingerprint.row_hashes(arrays, len(next(iter(batch.values()))) if batch else 0)

        batches = self.source.batches(columns)
        with threads.workers() as workers:
            while some := list(islice(batches, threads.CORES)):
                yield from workers.each(hashes, some)

    def frame(self) -> Any:
        """A DuckDB relation over the files."""
        self.session.last(self.source.files)
        session = self.session.connection.cursor()
        zones = {kind.tz for kind in self.source.types.values() if pa.types.is_timestamp(kind) and kind.tz}
        if len(zones) == 1:
            with suppress(self.session.duckdb.Error):  # DuckDB has no zones that are an offset: it shows these in UTC
                session.execute(f"SET TimeZone = {text(zones.pop())}")
        return session.sql(f"SELECT * FROM {self.source.sql}")


def _counts(keys: Keys, found: pa.Table, quasi: int, part: int) -> tuple[list[Int64Array], Counts]:
    """Counted keys in their order, and as cells."""
    words = [found[word].to_numpy() for word in keys.names]
    if any(found[word].null_count for word in keys.names):
        raise DataError(CHANGED)
    weight = found["n"].to_numpy()
    if len(words) == 1:
        key, weight = kernels.order.sort_pairs(words[0].view(np.uint64), weight)
        words = [key.view(np.int64)]
    else:
        order = np.lexsort(words[::-1])
        words, weight = [word[order] for word in words], weight[order]
    listed = zip(words, keys.groups, strict=True)
    codes = [kernels.order.unpack(word.view(np.uint64), np.array(sizes, np.uint64)) for word, sizes in listed]
    cell = codes[0] if len(codes) == 1 else np.concatenate(codes, axis=1)
    if cell.shape[1] == quasi:
        return words, Counts(cell, np.arange(len(cell) + 1, dtype=np.int64), cell[:, quasi:], weight, partition=part)
    fresh = np.ones(len(cell), bool)
    if len(words) == 1:  # the codes of the quasi-identifiers come first in the word
        above = words[0] // math.prod(keys.groups[0][quasi:])
        fresh[1:] = above[1:] != above[:-1]
    else:
        fresh[1:] = (cell[1:, :quasi] != cell[:-1, :quasi]).any(axis=1)
    start: Int64Array = np.append(np.flatnonzero(fresh), len(cell)).astype(np.int64)
    secret = np.ascontiguousarray(cell[:, quasi:])
    return words, Counts(cell[start[:-1], :quasi], start, secret, weight, partition=part)
