"""Tables larger than memory: the time from Parquet to a checked release in Parquet, against DuckDB alone.

`python -m benchmarks.scale FOLDER ROWS` writes a hospital table of this many patients to FOLDER, in several files, and
releases it with a method and a memory limit: ``--method tds --memory 4GB``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import shoal
from benchmarks.cases import peak_mb, reset_peak
from shoal.datasets import hospital, hospital_policy

FILE = 5_000_000  # patients per file


def hospital_folder(folder: Path, rows: int) -> Path:
    """Return the folder of the synthetic patients, five million per file; the first call writes it (about 2 GB for 100M)."""
    target = folder / f"hospital-{rows}"
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder))
    for number, begin in enumerate(range(0, rows, FILE)):
        some = hospital(min(FILE, rows - begin), seed=number, kind="pyarrow")
        pq.write_table(some, work / f"part-{number:03d}.parquet")
    return work.rename(target)


def time_duckdb(table: Path, memory: str) -> dict[str, float]:
    """Measure DuckDB alone: reading the files, grouping them by the quasi-identifiers, and copying them."""
    quasi = ", ".join(hospital_policy().quasi)
    with tempfile.TemporaryDirectory(dir=table.parent) as folder:
        connection = duckdb.connect(config={"memory_limit": memory, "temp_directory": f"{folder}/spill"})
        source = f"read_parquet('{table}/*.parquet')"
        begin = time.perf_counter()
        connection.execute(f"SELECT count(*) FROM (SELECT {quasi}, count(*) FROM {source} GROUP BY ALL)").fetchall()
        grouped = time.perf_counter()
        connection.execute(f"COPY (FROM {source}) TO '{folder}/copy.parquet' (FORMAT parquet)")
        copied = time.perf_counter()
        connection.close()
    return {"group": grouped - begin, "copy": copied - grouped, "wall": copied - begin}


def time_release(table: Path, method: str, memory: str, **limits: int) -> dict[str, float]:
    """Measure a checked release of the files, which is saved and removed again: seconds, and the peak memory in MB."""
    out = table.parent / f"{table.name}-{method}"
    reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    release = shoal.anonymize(
        table, hospital_policy(), method=method, memory=memory, temp=table.parent, engine="duckdb", seed=1, **limits
    )
    finished = time.perf_counter()
    release.save(out, overwrite=True)
    saved = time.perf_counter()
    shutil.rmtree(out)
    shutil.rmtree(f"{out}.owner")
    return {
        "wall": saved - wall,
        "release": finished - wall,
        "cpu": time.process_time() - cpu,
        "peak": peak_mb(),
        "rows": release.certificate.records,
        "groups": release.certificate.groups,
        "parts": release.certificate.parts,
        "ncp": release.measures["ncp"],
    }


def main() -> None:
    """Measure one release, or DuckDB alone, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    parser.add_argument("--method", default="tds", help="a method, or duckdb for DuckDB alone")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--runs", type=int, default=1, help="number of runs; the fastest is printed")
    options = parser.parse_args()
    table = hospital_folder(options.folder, options.rows)
    runs = []
    for _ in range(options.runs):
        is_duckdb = options.method == "duckdb"
        memory = options.memory
        runs.append(time_duckdb(table, memory) if is_duckdb else time_release(table, options.method, memory))
    print(json.dumps(min(runs, key=lambda found: found["wall"])))


if __name__ == "__main__":
    main()
