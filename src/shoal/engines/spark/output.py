"""Released rows as Parquet files in the scratch folder: written by the workers, copied to the folder of a release."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.engines.spark.session import Session, explain_error
from shoal.engines.sql.table import number_columns

FILE_ROWS = 1_000_000  # records of a file, at most
FILES, SMALL_FILE = (
    16,
    100_000,
)  # smaller files, but not below this number of records, so that so many workers have one each
BATCH = 1 << 17  # records that the driver reads at a time
NO_MARK = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}


@dataclass(frozen=True)
class StoredRows:
    """Released rows in files of the scratch folder.

    ``types`` are the names and Arrow types of the columns; ``schema`` is the same for Spark, since names of folders such as
    ``year=2024`` have no type of their own. ``has_folders``: some columns are in such names, not in the files.
    """

    session: Session
    path: str
    types: Mapping[str, pa.DataType]
    schema: Any
    has_folders: bool = False

    @property
    def files(self) -> list[Path]:
        """The files, in the order of the rows. Files of a remote scratch folder are copied to this machine first."""
        folder = self.session.scratch.fetch(self.path)
        return sorted(file for file in folder.rglob("*.parquet") if not file.name.startswith((".", "_")))

    def shared_files(self) -> list[str] | None:
        """The paths of files that have all columns and that every worker can read; None where there are no such files."""
        if self.has_folders or self.session.scratch.folder is None:
            return None
        return [str(path) for path in self.files]

    def read(self, *, own: bool = True) -> Any:
        """Return a DataFrame of the rows, in Shoal's session or in the user's session."""
        spark = self.session.spark if own else self.session.user
        with explain_error():
            return spark.read.schema(self.schema).parquet(self.path).select(*map(_quote, self.types))

    def batches(self, columns: Sequence[str]) -> Iterator[dict[str, pa.Array]]:
        """Yield the rows in their order, some at a time, with the types of the columns."""
        for path in self.files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(BATCH, columns=list(columns)):
                    yield {name: batch.column(name).cast(self.types[name]) for name in columns}


def count_files(records: int) -> int:
    """Return the number of files for some records. It does not depend on the cluster, so that the release does not."""
    return max(-(-records // FILE_ROWS), min(FILES, records // SMALL_FILE), 1)


def store_rows(
    session: Session, frame: Any, types: Mapping[str, pa.DataType], visible: Sequence[str], files: int
) -> StoredRows:
    """Write rows with columns ``r0``, ``r1``… to files, sorted by a hash of the visible columns, then by these columns.

    Neither the hash nor the number of files depends on the partitions of the source, so the files have the same rows for any
    number of workers.
    """
    from pyspark.sql import functions as f

    numbers = dict(zip(types, number_columns(len(types)), strict=True))
    shown = [f.col(numbers[name]) for name in visible]
    path = session.new_path("released")
    with explain_error():
        hashed = f.xxhash64(*shown) if shown else f.lit(0).cast("bigint")
        ordered = frame.repartition(files, f.pmod(hashed, f.lit(files))).sortWithinPartitions(hashed, *shown)
        named = ordered.select(*(f.col(number).alias(name) for name, number in numbers.items()))
        named.write.options(**NO_MARK).parquet(path)
    return StoredRows(session, path, types, named.schema)


def partition_rows(stored: StoredRows, columns: Sequence[str]) -> StoredRows:
    """Write the rows again, in folders by the values of some columns, such as ``year=2024``; each folder has one file."""
    from pyspark.sql import functions as f

    path = stored.session.new_path("partitioned")
    with explain_error():
        shown = [f.col(_quote(name)) for name in stored.types]
        by = [f.col(_quote(name)) for name in columns]
        divided = stored.read().repartition(max(len(stored.files), 1), *by)
        ordered = divided.sortWithinPartitions(*by, f.xxhash64(*shown), *shown)
        ordered.write.options(**NO_MARK).partitionBy(*columns).parquet(path)
    return replace(stored, path=path, has_folders=True)


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def copy_files(stored: StoredRows, path: Path) -> None:
    """Copy the files of rows to a folder; their names are numbers, without the random part that Spark adds."""
    root = stored.session.scratch.fetch(stored.path)
    numbers: dict[Path, int] = {}
    for file in stored.files:
        folder = path / file.parent.relative_to(root)
        number = numbers.setdefault(folder, 0)
        numbers[folder] += 1
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / f"part-{number:05d}.parquet")


def write_file(stored: StoredRows, path: Path, columns: Sequence[str]) -> None:
    """Write the rows to one Parquet file, with the time zones of the columns."""
    schema = pa.schema([(name, stored.types[name]) for name in columns])
    with pq.ParquetWriter(path, schema) as writer:
        for batch in stored.batches(columns):
            writer.write_batch(pa.record_batch(batch, schema=schema))
