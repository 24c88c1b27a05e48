"""The cases of Shoal, each run in its own process: `python -m benchmarks.cases NAME` prints one JSON object."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import shoal
from benchmarks.blowup import blow_up
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.engines.memory import list_record_cells

QUASI = ("age", "workclass", "education-num", "marital-status", "occupation", "race", "sex", "native-country")
NUMBERS = ("age", "education-num")


def adult_policy(k: int) -> shoal.Policy:
    """Return the policy with the eight attributes of the k-member paper, without taxonomies."""
    return shoal.Policy(
        quasi={name: "numeric" if name in NUMBERS else "categorical" for name in QUASI}, require=[shoal.KAnonymity(k)]
    )


def adult_rows() -> pd.DataFrame:
    """Return the 30,162 training rows without missing values."""
    return shoal.datasets.adult("train", drop_missing=True, kind="pandas")


def million_rows() -> pd.DataFrame:
    """Return the blow-up of the specialization paper, section 6.3: 994,884 rows."""
    whole = shoal.datasets.adult("all", drop_missing=True, kind="pandas")
    return pd.DataFrame(blow_up({name: whole[name].to_numpy() for name in QUASI}, 22, 0))


def peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1e3
    raise RuntimeError("/proc/self/status has no line VmHWM.")


def reset_peak() -> None:
    """Reset the peak of `peak_mb`."""
    Path("/proc/self/clear_refs").write_text("5")


def measure_time(work: Callable[[], Any], runs: int = 1) -> tuple[Any, float, float]:
    """Return the result, and the wall and CPU seconds of the fastest run."""
    best = (float("inf"), float("inf"))
    result = None
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return result, *best


def time_mondrian(codes: Codes, policy: shoal.Policy, cut: str, runs: int) -> tuple[Any, float, float]:
    """Run Mondrian on encoded rows, and return the grouping and its times."""
    method = shoal.tables.Mondrian(policy, cut=cut)
    return measure_time(lambda: method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None), runs)


def tight_ncp(frame: pd.DataFrame, group: np.ndarray) -> float:
    """Return the NCP in percent, mean over records and attributes.

    A number loses (max - min) / range, a category 0 for one value, else distinct values / domain.
    """
    losses = []
    for name in QUASI:
        grouped = frame[name].groupby(group)
        if name in NUMBERS:
            width = grouped.max() - grouped.min()
            loss = width / (frame[name].max() - frame[name].min())
        else:
            loss = (grouped.nunique() / frame[name].nunique()).where(grouped.nunique() > 1, 0.0)
        losses.append(float(loss.to_numpy()[group].mean()))
    return 100 * float(np.mean(losses))


def compile_kernels() -> None:
    """Compile the kernels before any time is measured."""
    for cut in ("median", "gain"):
        shoal.anonymize(shoal.datasets.hospital(500), shoal.datasets.hospital_policy(10), cut=cut, seed=1)


def mondrian_adult(k: int, cut: str) -> dict[str, float]:
    """Run Mondrian on 30,162 rows of Adult."""
    compile_kernels()
    frame, policy = adult_rows(), adult_policy(k)
    (codes, _), encoding, _ = measure_time(lambda: encode_and_count(open_data(frame), policy))
    grouping, wall, cpu = time_mondrian(codes, policy, cut, runs=5)
    group = grouping.placement.group[list_record_cells(codes.counts)]
    sizes = np.bincount(group)
    return {
        "wall": wall,
        "cpu": cpu,
        "encode": encoding,
        "ncp": tight_ncp(frame, group),
        "groups": len(sizes),
        "smallest": int(sizes.min()),
    }


def mondrian_million(cut: str) -> dict[str, float]:
    """Run Mondrian on 994,884 rows of the blow-up, k = 10."""
    compile_kernels()
    frame, policy = million_rows(), adult_policy(10)
    (codes, _), encoding, _ = measure_time(lambda: encode_and_count(open_data(frame), policy))
    _, wall, cpu = time_mondrian(codes, policy, cut, runs=3)
    return {"wall": wall, "cpu": cpu, "encode": encoding, "rows": len(frame)}


def hospital_file(rows: int) -> Path:
    """Return the Parquet file of the hospital table, created on the first call."""
    path = Path(tempfile.gettempdir()) / f"shoal-bench-hospital-{rows}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        pq.write_table(shoal.datasets.hospital(rows, kind="pyarrow"), part)
        part.rename(path)
    return path


def read_dictionaries(path: Path, columns: list[str]) -> None:
    """Read the columns as unified dictionaries with pyarrow alone."""
    texts = [f.name for f in pq.read_schema(path) if pa.types.is_string(f.type) and f.name in columns]
    table = pq.read_table(path, columns=columns, read_dictionary=texts)
    for column in table.columns:
        (column if pa.types.is_dictionary(column.type) else column.dictionary_encode()).unify_dictionaries()


def mondrian_hospital(rows: int) -> dict[str, float]:
    """Run Mondrian on the hospital table from Parquet, k = 10: encoding against pyarrow, both cuts, memory against codes."""
    compile_kernels()
    path, policy = hospital_file(rows), shoal.datasets.hospital_policy(10)
    _, bare, _ = measure_time(lambda: read_dictionaries(path, list(policy.quasi)), runs=2)
    (codes, _), encoding, _ = measure_time(lambda: encode_and_count(open_data(path), policy))
    found: dict[str, float] = {"pyarrow": bare, "encode": encoding, "rows": rows, "cells": len(codes.quasi)}
    for cut in ("median", "gain"):
        reset_peak()
        before = peak_mb()
        _, found[f"{cut}_wall"], found[f"{cut}_cpu"] = time_mondrian(codes, policy, cut, runs=1)
        found[f"{cut}_memory"] = 1 + (peak_mb() - before) * 1e6 / codes.quasi.nbytes
    return found


def check_million(out: Path) -> dict[str, float]:
    """Check a released table of 994,884 rows: k alone and k, l and t together, from text and from codes.

    Writes ``text.csv`` and ``codes.csv`` to ``out`` for the peers, with the sensitive column ``occupation``.
    """
    frame = million_rows()
    names = [name for name in QUASI if name != "occupation"]
    quasi = {name: "numeric" if name in NUMBERS else "categorical" for name in names}
    size = shoal.KAnonymity(40)
    policy = shoal.Policy(quasi=quasi, sensitive="occupation", require=size)
    table = shoal.anonymize(frame, policy, write="set", seed=1).frame
    together = size & shoal.LDiversity(2, of="occupation") & shoal.TCloseness(1, of="occupation")
    both = shoal.Policy(quasi=quasi, sensitive="occupation", require=together)
    certificate, all_text, _ = measure_time(lambda: shoal.check(table, both), runs=3)
    _, k_text, _ = measure_time(lambda: shoal.check(table, policy), runs=3)
    codes = pd.DataFrame({name: pd.factorize(table[name])[0] for name in (*names, "occupation")})
    number = shoal.Policy(quasi=dict.fromkeys(names, "numeric"), sensitive="occupation", require=together)
    (encoded, _), counting, _ = measure_time(lambda: encode_and_count(open_data(codes), number), runs=3)
    _, all_coded, _ = measure_time(lambda: [r.test(encoded.raw_groups) for r in both.require], runs=3)
    table.assign(income="").to_csv(out / "text.csv", index=False)
    codes.assign(income=0).to_csv(out / "codes.csv", index=False)
    reached = {f.requirement: f.reached for f in certificate.findings}
    return {
        "k_text": k_text,
        "k_coded": counting,
        "all_text": all_text,
        "all_coded": all_coded,
        "groups": certificate.groups,
        "rows": len(table),
        "k": reached["k-anonymity"],
        "l": reached["l-diversity"],
        "t": reached["t-closeness"],
    }


def main() -> None:
    """Run one case by name, and print its JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "name",
        choices=[
            "adult",
            "million",
            "hospital",
            "check",
            "specialization",
            "clustering",
            "models",
            "itemsets",
            "lattice",
            "randomization",
            "queries",
            "cut-points",
        ],
    )
    parser.add_argument("--case", default="exact")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--cut", default="gain")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    if options.name == "adult":
        found = mondrian_adult(options.k, options.cut)
    elif options.name == "million":
        found = mondrian_million(options.cut)
    elif options.name == "hospital":
        found = mondrian_hospital(options.rows)
    elif options.name == "specialization":
        found = import_module("benchmarks.specialization").specialization(options.out)
    elif options.name == "clustering":
        found = import_module("benchmarks.clustering").clustering(options.case, options.rows, options.out)
    elif options.name == "models":
        found = import_module("benchmarks.models").models(options.case, options.k)
    elif options.name == "itemsets":
        found = import_module("benchmarks.itemsets").itemsets()
    elif options.name == "lattice":
        found = import_module("benchmarks.lattice").lattice(options.case, options.k)
    elif options.name == "randomization":
        found = import_module("benchmarks.randomization").randomize_rows(options.rows)
    elif options.name == "queries":
        found = import_module("benchmarks.queries").queries()
    elif options.name == "cut-points":
        found = import_module("benchmarks.lattice").cut_points(options.k)
    else:
        found = check_million(options.out)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
