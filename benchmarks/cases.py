"""Shoal's own cases, each run in a process of its own: `python -m benchmarks.cases NAME` prints one JSON object."""

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

QUASI = ("age", "workclass", "education-num", "marital-status", "occupation", "race", "sex", "native-country")
NUMBERS = ("age", "education-num")


def adult_policy(k: int) -> shoal.Policy:
    """The eight attributes of the k-member paper, without taxonomies."""
    return shoal.Policy(
        quasi={name: "numeric" if name in NUMBERS else "categorical" for name in QUASI}, require=[shoal.KAnonymity(k)]
    )


def adult_rows() -> pd.DataFrame:
    """The 30,162 clean rows of the training part."""
    return shoal.datasets.adult("train", drop_missing=True, kind="pandas")


def million() -> pd.DataFrame:
    """The blow-up of the specialization paper, section 6.3: 994,884 rows."""
    whole = shoal.datasets.adult("all", drop_missing=True, kind="pandas")
    return pd.DataFrame(blow_up({name: whole[name].to_numpy() for name in QUASI}, 22, 0))


def peak_mb() -> float:
    """The most memory this process has held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1e3
    raise RuntimeError("no VmHWM")


def forget_peak() -> None:
    """Let `peak_mb` begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


def timed(work: Callable[[], Any], runs: int = 1) -> tuple[Any, float, float]:
    """The result, and the wall and CPU seconds of the fastest run."""
    best = (float("inf"), float("inf"))
    result = None
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return result, *best


def decided(codes: Codes, policy: shoal.Policy, cut: str, runs: int) -> tuple[Any, float, float]:
    """Mondrian after the codes are made."""
    method = shoal.tables.Mondrian(policy, cut=cut)
    return timed(lambda: method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None), runs)


def tight_ncp(frame: pd.DataFrame, group: np.ndarray) -> float:
    """Percent, mean over records and attributes: numeric (max - min)/range, categorical 0 for one value, else
    distinct values/domain.
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


def warm() -> None:
    """Compile, so that no case pays for it."""
    for cut in ("median", "gain"):
        shoal.anonymize(shoal.datasets.hospital(500), shoal.datasets.hospital_policy(10), cut=cut, seed=1)


def mondrian_adult(k: int, cut: str) -> dict[str, float]:
    """30,162 rows of Adult."""
    warm()
    frame, policy = adult_rows(), adult_policy(k)
    (codes, _), encoding, _ = timed(lambda: encode_and_count(open_data(frame), policy))
    decision, wall, cpu = decided(codes, policy, cut, runs=5)
    group = decision.placement.group[codes.counts.row]
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
    """994,884 rows of the blow-up, k = 10."""
    warm()
    frame, policy = million(), adult_policy(10)
    (codes, _), encoding, _ = timed(lambda: encode_and_count(open_data(frame), policy))
    _, wall, cpu = decided(codes, policy, cut, runs=3)
    return {"wall": wall, "cpu": cpu, "encode": encoding, "rows": len(frame)}


def hospital_file(rows: int) -> Path:
    """The hospital as a Parquet file, made once."""
    path = Path(tempfile.gettempdir()) / f"shoal-bench-hospital-{rows}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        pq.write_table(shoal.datasets.hospital(rows, kind="pyarrow"), part)
        part.rename(path)
    return path


def pyarrow_codes(path: Path, columns: list[str]) -> None:
    """What pyarrow alone needs to read the columns as dictionaries and to unify these."""
    texts = [f.name for f in pq.read_schema(path) if pa.types.is_string(f.type) and f.name in columns]
    table = pq.read_table(path, columns=columns, read_dictionary=texts)
    for column in table.columns:
        (column if pa.types.is_dictionary(column.type) else column.dictionary_encode()).unify_dictionaries()


def mondrian_hospital(rows: int) -> dict[str, float]:
    """The hospital from Parquet, k = 10: making the codes beside pyarrow, both cuts, memory beside the codes."""
    warm()
    path, policy = hospital_file(rows), shoal.datasets.hospital_policy(10)
    _, bare, _ = timed(lambda: pyarrow_codes(path, list(policy.quasi)), runs=2)
    (codes, _), encoding, _ = timed(lambda: encode_and_count(open_data(path), policy))
    found: dict[str, float] = {"pyarrow": bare, "encode": encoding, "rows": rows, "cells": len(codes.quasi)}
    for cut in ("median", "gain"):
        forget_peak()
        before = peak_mb()
        _, found[f"{cut}_wall"], found[f"{cut}_cpu"] = decided(codes, policy, cut, runs=1)
        found[f"{cut}_memory"] = 1 + (peak_mb() - before) * 1e6 / codes.quasi.nbytes
    return found


def check_million(out: Path) -> dict[str, float]:
    """A released table of 994,884 rows: k alone and k, l and t together; from text, and after the codes are made.

    Leaves ``text.csv`` and ``codes.csv`` in ``out`` for the peers, with the sensitive column ``occupation``.
    """
    frame = million()
    names = [name for name in QUASI if name != "occupation"]
    quasi = {name: "numeric" if name in NUMBERS else "categorical" for name in names}
    size = shoal.KAnonymity(40)
    policy = shoal.Policy(quasi=quasi, sensitive="occupation", require=size)
    table = shoal.anonymize(frame, policy, write="set", seed=1).frame
    together = size & shoal.LDiversity(2, of="occupation") & shoal.TCloseness(1, of="occupation")
    both = shoal.Policy(quasi=quasi, sensitive="occupation", require=together)
    certificate, all_text, _ = timed(lambda: shoal.check(table, both), runs=3)
    _, k_text, _ = timed(lambda: shoal.check(table, policy), runs=3)
    codes = pd.DataFrame({name: pd.factorize(table[name])[0] for name in (*names, "occupation")})
    number = shoal.Policy(quasi=dict.fromkeys(names, "numeric"), sensitive="occupation", require=together)
    (made, _), counting, _ = timed(lambda: encode_and_count(open_data(codes), number), runs=3)
    _, all_coded, _ = timed(lambda: [r.test(made.table) for r in both.require], runs=3)
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
    """Run one case by name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["adult", "million", "hospital", "check", "specialization", "clustering"])
    parser.add_argument("--case", default="exact")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--cut", default="gain")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, default=Path())
    given = parser.parse_args()
    if given.name == "adult":
        found = mondrian_adult(given.k, given.cut)
    elif given.name == "million":
        found = mondrian_million(given.cut)
    elif given.name == "hospital":
        found = mondrian_hospital(given.rows)
    elif given.name == "specialization":
        found = import_module("benchmarks.specialization").specialization(given.out)
    elif given.name == "clustering":
        found = import_module("benchmarks.clustering").clustering(given.case, given.rows, given.out)
    else:
        found = check_million(given.out)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
