"""Spark: the time from Parquet to a checked release in Parquet, against Spark alone.

`python -m benchmarks.spark FOLDER ROWS` writes a hospital table of this many patients to FOLDER, as `benchmarks.scale` does,
and releases it with a method on ``local[2]``: ``--method tds``. ``--method spark`` measures Spark alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import shoal
from benchmarks.scale import hospital_folder
from shoal.datasets import hospital_policy

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}


def start_spark(master: str, memory: str) -> Any:
    """Start a session with this much memory for Java; the Python processes of the workers come on top."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.driver.memory", memory)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def time_spark(spark: Any, table: Path) -> dict[str, float]:
    """Measure Spark alone: reading the files, grouping them by the quasi-identifiers, and copying them."""
    with tempfile.TemporaryDirectory(dir=table.parent) as folder:
        begin = time.perf_counter()
        source = spark.read.parquet(str(table))
        source.groupBy(*hospital_policy().quasi).count().agg({"count": "max"}).collect()
        grouped = time.perf_counter()
        source.write.parquet(f"{folder}/copy")
        copied = time.perf_counter()
    return {"group": grouped - begin, "copy": copied - grouped, "wall": copied - begin}


def time_release(spark: Any, table: Path, method: str, **limits: int) -> dict[str, float]:
    """Measure a checked release of the files, which is saved and removed again."""
    out = table.parent / f"{table.name}-spark-{method}"
    stages: dict[str, float] = {}
    begin = time.perf_counter()
    release = shoal.anonymize(
        spark.read.parquet(str(table)),
        hospital_policy(),
        method=method,
        temp=table.parent,
        seed=1,
        progress=lambda stage, done, total: stages.update({stage: time.perf_counter() - begin}),
        **limits,
    )
    finished = time.perf_counter()
    release.save(out, overwrite=True)
    saved = time.perf_counter()
    shutil.rmtree(out)
    shutil.rmtree(f"{out}.owner")
    return {
        "wall": saved - begin,
        "release": finished - begin,
        **{f"until_{stage}": seconds for stage, seconds in stages.items()},
        "rows": release.certificate.records,
        "groups": release.certificate.groups,
        "parts": release.certificate.parts,
        "ncp": release.measures["ncp"],
    }


def main() -> None:
    """Measure one release, or Spark alone, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    parser.add_argument("--method", default="tds", help="a method, or spark for Spark alone")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="3g", help="memory of Java, in Spark's notation")
    parser.add_argument("--combinations", type=int, help="search partitions of so many combinations on the workers")
    parser.add_argument("--runs", type=int, default=1, help="number of runs; the fastest is printed")
    options = parser.parse_args()
    table = hospital_folder(options.folder, options.rows)
    spark = start_spark(options.master, options.memory)
    limits = {} if options.combinations is None else {"combinations": options.combinations}
    runs = []
    for _ in range(options.runs):
        alone = options.method == "spark"
        runs.append(time_spark(spark, table) if alone else time_release(spark, table, options.method, **limits))
    print(json.dumps(min(runs, key=lambda found: found["wall"])))


if __name__ == "__main__":
    main()
