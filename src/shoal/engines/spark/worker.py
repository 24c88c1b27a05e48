"""Functions that run on Spark's workers, on Arrow batches: keyed hashes of records, and partial digests of rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.arrays import UInt64Array
from shoal.engines import column_values, fingerprint
from shoal.engines.fingerprint import PartialDigest
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.protocol import Counts
from shoal.engines.sql.keys import Keys, build_counts
from shoal.errors import ShoalError

Batches = Iterable[pa.RecordBatch]
BATCH = 1 << 18  # rows of a file that a worker digests at a time
SIGN = np.uint64(
    1 << 63
)  # Spark has no unsigned numbers; with this bit flipped, signed numbers have the unsigned order


@dataclass(frozen=True)
class WorkerColumns:
    """Columns of a batch: their SQL names by the user's names, and the Arrow types of their values."""

    names: Mapping[str, str]
    types: Mapping[str, pa.DataType]

    def read(self, batch: pa.RecordBatch) -> dict[str, pa.ChunkedArray]:
        """Return the values by the user's names, with the time zones of the columns."""
        found = {}
        for name, column in self.names.items():
            array, kind = batch.column(column), self.types[name]
            if pa.types.is_timestamp(kind) and array.type != kind:
                array = array.cast(kind)
            found[name] = pa.chunked_array([array])
        return found


@dataclass(frozen=True)
class HashRecords:
    """Replaces the hash of the cell, ``h``, by the keyed hash of the record, ``h_``."""

    hash: KeyedHash
    columns: WorkerColumns

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Hash the records of every batch."""
        for batch in batches:
            cell = batch.column("h").to_numpy().view(np.uint64)
            record = fingerprint.hash_rows_with_key(self.hash, self.columns.read(batch), batch.num_rows)
            yield _replace(batch, {"h"}, "h_", self.hash.mix(cell, record))


@dataclass(frozen=True)
class HashEqualRecords:
    """Replaces the hash of a record, ``h_``, and its number among equal records, ``e_``, by its place in the order, ``m_``."""

    hash: KeyedHash

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Hash the records of every batch; see `KeyedHash.number_equal`."""
        for batch in batches:
            record, number = (batch.column(name).to_numpy().view(np.uint64) for name in ("h_", "e_"))
            yield _replace(batch, {"h_", "e_"}, "m_", self.hash.mix(record, number) ^ SIGN)


@dataclass(frozen=True)
class DigestRows:
    """Returns the partial digest of all rows of a partition of the data."""

    columns: WorkerColumns

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Digest the rows; see `PartialDigest`."""
        total = PartialDigest()
        for batch in batches:
            total += PartialDigest.of(fingerprint.hash_rows(self.columns.read(batch), batch.num_rows))
        words = np.array([total.words], np.uint64).view(np.int64)
        yield pa.record_batch({"n": np.array([total.rows]), **{f"d{i}": words[:, i] for i in range(3)}})


@dataclass(frozen=True)
class DigestFiles:
    """Returns the partial digest of all rows of Parquet files, given by their paths; Java need not read and copy the rows."""

    columns: WorkerColumns

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Digest the rows of all files."""
        paths = (path for batch in batches for path in batch.column("path").to_pylist())
        yield from DigestRows(self.columns)(batch for path in paths for batch in self._read(path))

    def _read(self, path: str) -> Iterator[pa.RecordBatch]:
        texts = [name for name, kind in self.columns.types.items() if column_values.is_text(kind)]
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            yield from file.iter_batches(BATCH, columns=list(self.columns.names.values()))


@dataclass(frozen=True)
class SearchPartition:
    """Searches the counted cells of a partition, and returns its number and its pickled result or error.

    The cells have their keys as ``k0``, ``k1``…, their numbers of records as ``n``, and the number of the partition as ``p``.
    """

    keys: Keys
    quasi: int
    search: Callable[[int, Counts], Any]

    def __call__(self, cells: pa.Table) -> pa.Table:
        """Search a partition; `build_counts` sorts its cells, so their order has no influence."""
        number = cells["p"][0].as_py()
        words = [cells[word].to_numpy() for word in self.keys.names]
        _, counts = build_counts(self.keys, words, cells["n"].to_numpy(), self.quasi)
        try:
            result = self.search(number, counts)
        except ShoalError as error:
            result = error
        return pa.table({"p": pa.array([number], pa.int32()), "result": pa.array([pickle.dumps(result)], pa.binary())})


def read_result(table: pa.Table) -> Any:
    """Return the result of a partition, or raise its error."""
    (content,) = table["result"].to_pylist()
    result = pickle.loads(content)  # noqa: S301  from the workers of this run
    if isinstance(result, ShoalError):
        raise result
    return result


def read_digests(table: pa.Table) -> PartialDigest:
    """Return the sum of the partial digests of all workers."""
    words = np.stack([table[f"d{i}"].to_numpy().view(np.uint64) for i in range(3)], axis=1).tolist()
    parts = (PartialDigest(n, (a, b, c)) for n, (a, b, c) in zip(table["n"].to_pylist(), words, strict=True))
    return sum(parts, PartialDigest())


def _replace(batch: pa.RecordBatch, dropped: set[str], name: str, hashes: UInt64Array) -> pa.RecordBatch:
    kept = {n: batch.column(n) for n in batch.schema.names if n not in dropped}
    return pa.record_batch({**kept, name: pa.array(hashes.view(np.int64))})
