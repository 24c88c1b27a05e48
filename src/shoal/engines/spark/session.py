"""A session of Spark for one run: its own settings, temporary views, and a scratch folder that all workers share.

The user's session is not changed: queries run in a new session of the same application, with the time zone UTC. Its views of
the user's data are global temporary views, the only ones that both sessions see.
"""

from __future__ import annotations

import atexit
import itertools
import os
import secrets
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.engines.resources import Resources
from shoal.engines.sql.session import SqlSession
from shoal.errors import EngineError
from shoal.work_folder import WorkFolder

SETTINGS = {  # of the session in which Shoal's queries run
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",  # of Arrow timestamps without a time zone
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # 01 stays 01
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
}
BROADCAST = 1_000_000  # rows; larger tables of codes or cells are joined by a shuffle
UPLOAD_ROWS = 1_000_000  # rows that a worker reads at a time
KEPT_BY_DRIVER = 100_000  # rows; larger tables are written to the scratch folder
HELP = "Set SHOAL_DEBUG=1 to see Spark's message, which may quote data, and report the error."


class Session(SqlSession):
    """Queries, temporary views and files of one run. The views and files are removed with the session."""

    database = "Spark"
    divide = "DIV"

    def __init__(self, user: Any, resources: Resources) -> None:
        self.resources, self.user = resources, user
        with explain_error():
            self.spark = _open_session(user)
        self.scratch = Scratch.open(user, resources)
        self._prefix = f"shoal_{secrets.token_hex(6)}"
        self._numbers = itertools.count()
        self._views: set[str] = set()
        self._shared: set[str] = set()
        self._is_kept = False
        self.close = weakref.finalize(self, _close, self.spark, self._views, self._shared, self.scratch, os.getpid())

    def new_name(self, prefix: str) -> str:
        """Return a name that no view has."""
        return f"{self._prefix}_{prefix}_{next(self._numbers)}"

    def new_path(self, prefix: str) -> str:
        """Return an unused path in the scratch folder."""
        return f"{self.scratch.path}/{prefix}_{next(self._numbers)}"

    def new_folder(self) -> Path:
        """Return a new folder of this machine for the recodings of partitions."""
        return self.scratch.new_folder(f"recodings_{next(self._numbers)}")

    def query(self, sql: str) -> Any:
        """Return the DataFrame of a query, in Shoal's session."""
        with explain_error():
            return self.spark.sql(sql)

    def fetch_arrow(self, sql: str) -> pa.Table:
        """Return a query result as an Arrow table."""
        with explain_error():
            table: pa.Table = self.spark.sql(sql).toArrow()
            return table

    def create_table(self, prefix: str, table: pa.Table) -> str:
        """Create a view from an Arrow table; a large one is written to the scratch folder."""
        with explain_error():
            frame = self._upload(table, prefix) if len(table) > KEPT_BY_DRIVER else self.spark.createDataFrame(table)
            if len(table) <= BROADCAST:
                from pyspark.sql.functions import broadcast

                frame = broadcast(frame)
            return self.name_view(prefix, frame)

    def _upload(self, table: pa.Table, prefix: str) -> Any:
        """Write an Arrow table to the scratch folder; on this machine without Java, which would copy it several times."""
        if self.scratch.folder is None:
            return self._store(self.spark.createDataFrame(table), prefix)
        path = self.new_path(prefix)
        pq.write_table(table, self.scratch.folder / path.rpartition("/")[2], row_group_size=UPLOAD_ROWS)
        schema = self.spark.createDataFrame(table.slice(0, 0)).schema
        return self.spark.read.schema(schema).parquet(path)

    def store_query(self, prefix: str, sql: str) -> str:
        """Write the result of a query to the scratch folder, and return the name of a view of it."""
        return self.store_frame(prefix, self.query(sql))

    def store_frame(self, prefix: str, frame: Any) -> str:
        """Write a DataFrame to the scratch folder, and return the name of a view of it."""
        with explain_error():
            return self.name_view(prefix, self._store(frame, prefix))

    def _store(self, frame: Any, prefix: str) -> Any:
        path = self.new_path(prefix)
        frame.write.parquet(path)
        return self.spark.read.schema(frame.schema).parquet(path)

    def name_view(self, prefix: str, frame: Any) -> str:
        """Return the name of a new view of a DataFrame of Shoal's session."""
        name = self.new_name(prefix)
        with explain_error():
            frame.createOrReplaceTempView(name)
        self._views.add(name)
        return name

    def share_view(self, prefix: str, frame: Any) -> str:
        """Return the name, for Shoal's session, of a new view of a DataFrame of the user's session."""
        name = self.new_name(prefix)
        with explain_error():
            frame.createGlobalTempView(name)
        self._shared.add(name)
        return f"global_temp.{name}"

    def drop(self, *names: str) -> None:
        """Drop views."""
        for name in names:
            with explain_error():
                self.spark.catalog.dropTempView(name)
            self._views.discard(name)

    def keep_until_exit(self) -> None:
        """Keep the files until the program ends, because the user holds a DataFrame of them."""
        if not self._is_kept:
            self._is_kept = True
            atexit.register(self._end)

    def _end(self) -> None:
        self.close()

    def is_nan(self, expression: str) -> str:
        """Return the SQL condition that a floating-point number is NaN."""
        return f"isnan({expression})"


class Scratch:
    """A folder for the files of one run, which the driver and all workers can read and write.

    ``path`` is the address for Spark, such as ``file:///tmp/…`` or ``hdfs://…``. ``folder`` is the same folder where it is a
    local path.
    """

    def __init__(self, path: str, work: WorkFolder, files: RemoteFiles | None = None) -> None:
        self.path, self._work, self._files = path, work, files
        self.folder = work.path if files is None else None

    @classmethod
    def open(cls, spark: Any, resources: Resources) -> Scratch:
        """Create the folder: in ``temp``, in the checkpoint folder of Spark, or, on one machine, in the temporary folder."""
        checkpoints = _find_checkpoints(spark)
        is_remote = resources.temp is None and checkpoints is not None
        if resources.temp is None and checkpoints is None and not _is_on_one_machine(spark):
            raise EngineError(
                "Spark's workers need a folder that all machines share, for temporary files with raw data. Set temp (--temp) "
                "to such a folder, or set Spark's checkpoint folder with SparkContext.setCheckpointDir."
            )
        work = resources.open_work_folder()
        if not is_remote:
            return cls(work.path.as_uri(), work)
        path = f"{str(checkpoints).rstrip('/')}/shoal-{secrets.token_hex(8)}"
        return cls(path, work, RemoteFiles(spark, path))

    def new_folder(self, name: str) -> Path:
        """Return a new folder of this machine, which is removed with this folder."""
        folder = self._work.path / name
        folder.mkdir(mode=0o700)
        return folder

    def fetch(self, path: str) -> Path:
        """Return the local path of a folder in this folder; the files of another file system are copied first."""
        local = self._work.path / path.rpartition("/")[2]
        if self._files is not None and not local.exists():
            self._files.copy(path, local)
        return local

    def remove(self) -> None:
        """Remove the folder."""
        self._work.remove()
        if self._files is not None:
            self._files.remove()


class RemoteFiles:
    """The files of a folder in a file system of Hadoop, which only Spark reads and writes."""

    def __init__(self, spark: Any, path: str) -> None:
        self.path, self._new_path = path, spark.sparkContext._jvm.org.apache.hadoop.fs.Path
        with explain_error():
            self._system = self._new_path(path).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def copy(self, path: str, local: Path) -> None:
        """Copy a folder to this machine."""
        with explain_error():
            self._system.copyToLocalFile(False, self._new_path(path), self._new_path(local.as_uri()), True)

    def remove(self) -> None:
        """Remove the folder."""
        with explain_error():
            self._system.delete(self._new_path(self.path), True)


def _open_session(user: Any) -> Any:
    """Return a new session of the same application, with the user's settings and `SETTINGS`."""
    spark = user.newSession()
    for key, value in {**user.conf.getAll, **SETTINGS}.items():
        with suppress(Exception):  # a setting of another version of Spark
            if key.startswith("spark.sql.") and spark.conf.isModifiable(key):
                spark.conf.set(key, value)
    return spark


def _find_checkpoints(spark: Any) -> str | None:
    """The checkpoint folder of the application; None if there is none, or for a remote session (Spark Connect)."""
    context = getattr(spark, "_sc", None)
    found = None if context is None else context.getCheckpointDir()
    return None if found is None else str(found)


def _is_on_one_machine(spark: Any) -> bool:
    """Whether the driver and all workers run on this machine."""
    return str(spark.conf.get("spark.master", "")).startswith("local")


def import_pyspark() -> Any:
    """Return the module ``pyspark.sql``, or raise an error that says how to install it."""
    try:
        import pyspark.sql
    except ImportError:
        raise EngineError("pyspark is not installed. Install it with: pip install 'shoal[spark]'") from None
    return pyspark.sql


def find_session() -> Any:
    """Return the active session, or start one by the settings of the environment."""
    sql = import_pyspark()
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers need the packages of this Python
    with explain_error():
        return sql.SparkSession.builder.appName("shoal").getOrCreate()


@contextmanager
def explain_error() -> Iterator[None]:
    """Turn Spark's errors into Shoal's errors, without the data that they quote."""
    try:
        yield
    except Exception as error:
        is_of_spark = any(kind.__module__.partition(".")[0] in ("pyspark", "py4j") for kind in type(error).__mro__)
        if os.environ.get("SHOAL_DEBUG") or not is_of_spark:
            raise
        raise _translate_error(error) from None


def _translate_error(error: Exception) -> EngineError:
    text = str(error)
    for mark, message in ERROR_TEXTS.items():
        if mark in text:
            return EngineError(message)
    return EngineError(f"Spark failed with {type(error).__name__}. {HELP}")


ERROR_TEXTS = {  # these replace Spark's messages, which quote the data
    "JAVA_GATEWAY_EXITED": "Spark cannot start Java. Install Java 17 or later, such as openjdk-17-jre-headless.",
    "TABLE_OR_VIEW_NOT_FOUND": "a table that the data come from no longer exists. Open the data again.",
    "No space left on device": "the disk is full: Spark cannot write its temporary files. Free disk space, or set temp.",
    "OutOfMemoryError": "Spark has not enough memory for this table. Give the driver or the executors more memory.",
    "No module named": "Spark's workers cannot import shoal or its packages. Install shoal in the Python of the workers, or "
    "set PYSPARK_PYTHON to a Python that has it.",
    "PATH_NOT_FOUND": "a path that the data come from does not exist for Spark. Check the path.",
    "FAILED_READ_FILE": "Spark cannot read a file of the data. Check that it exists and is complete, and run again.",
}


def _close(spark: Any, views: set[str], shared: set[str], scratch: Scratch, owner: int) -> None:
    if os.getpid() != owner:  # a forked child process
        return
    with suppress(Exception, KeyboardInterrupt):
        for name in views:
            spark.catalog.dropTempView(name)
        for name in shared:
            spark.catalog.dropGlobalTempView(name)
    with suppress(Exception, KeyboardInterrupt):
        scratch.remove()
