"""Run one peer on a CSV file without missing values, and print its time and memory as one JSON object.

The script runs in the environment of the peers, where Shoal is not installed. A column of numbers is numeric,
any other is categorical. The time is the time of the peer's call, without import and reading. The peak memory
is that of the whole process; `read_mb` is the peak just before the call.
"""

import argparse
import importlib
import importlib.metadata
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ADULT = (
    "age",
    "workclass",
    "education-num",
    "marital-status",
    "occupation",
    "race",
    "sex",
    "native-country",
)


@dataclass(frozen=True)
class Task:
    """The task of a peer; the module is the peer's module."""

    module: Any
    frame: pd.DataFrame
    quasi: list[str]
    sensitive: str
    k: int
    support: float


Outcome = dict[str, Any]
Stage = Callable[[], Any]


class Clock:
    """CPU and wall seconds since the clock was created."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def read(self) -> tuple[float, float]:
        """Return the CPU seconds of this process, and the wall seconds."""
        return time.process_time() - self._cpu, time.perf_counter() - self._wall


def peak_mb() -> float:
    """Return the peak resident memory of this process in megabytes.

    On Linux the value comes from the kernel, since `ru_maxrss` starts at the peak of the parent process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def anonypy_mondrian(task: Task) -> Outcome:
    """Run `Preserver.anonymize_k_anonymity` in its two steps, to get the groups."""
    frame = convert_columns(task)
    preserver = task.module.Preserver(frame, task.quasi, task.sensitive)
    publish = importlib.import_module("anonypy.anonypy").anonymize
    return mondrian(
        frame,
        task.quasi,
        lambda: preserver.modrian.partition(task.k),
        lambda groups: publish(frame, groups, task.quasi, task.sensitive),
    )


def anonypyx(task: Task, algorithm: str) -> Outcome:
    """Run `Anonymiser.anonymise` in its two steps, to get the groups."""
    frame = convert_columns(task)
    peer = task.module.Anonymiser(
        frame, k=task.k, feature_columns=task.quasi, sensitive_column=task.sensitive, algorithm=algorithm
    )

    def publish(groups: list[pd.Index]) -> None:
        strategy = peer.generalisation_strategy_type.create_for_data(frame, peer.quasi_identifiers)
        strategy.generalise(frame, groups)

    return mondrian(frame, task.quasi, lambda: peer.algorithm.partition(peer.parameters), publish)


def pycanon_k(task: Task) -> Outcome:
    """Compute the k of a table."""
    anonymity = importlib.import_module("pycanon.anonymity")
    clock = Clock()
    k = anonymity.k_anonymity(task.frame, task.quasi)
    cpu, wall = clock.read()
    return {"cpu": cpu, "wall": wall, "k_found": int(k)}


def pycanon_klt(task: Task) -> Outcome:
    """Compute the k, l and t of a table by three calls."""
    anonymity = importlib.import_module("pycanon.anonymity")
    clock = Clock()
    k = anonymity.k_anonymity(task.frame, task.quasi)
    l_ = anonymity.l_diversity(task.frame, task.quasi, [task.sensitive])
    t = anonymity.t_closeness(task.frame, task.quasi, [task.sensitive])
    cpu, wall = clock.read()
    return {"cpu": cpu, "wall": wall, "k_found": int(k), "l_found": int(l_), "t_found": float(t)}


def mlxtend_fpgrowth(task: Task) -> Outcome:
    """Find the frequent itemsets; a column of truth values for every value is prepared before."""
    patterns = importlib.import_module("mlxtend.frequent_patterns")
    values = pd.get_dummies(task.frame[task.quasi].astype(str))
    clock = Clock()
    found = patterns.fpgrowth(values, min_support=task.support)
    cpu, wall = clock.read()
    return {"cpu": cpu, "wall": wall, "sets": len(found)}


def mondrian(frame: pd.DataFrame, quasi: list[str], search: Stage, publish: Callable[[Any], Any]) -> Outcome:
    """Time the search for groups and the output of the table, then measure the groups."""
    clock = Clock()
    groups = search()
    search_cpu, search_wall = clock.read()
    publish(groups)
    cpu, wall = clock.read()
    peak = peak_mb()  # before the groups are measured
    return {
        "cpu": cpu,
        "wall": wall,
        "search_cpu": search_cpu,
        "search_wall": search_wall,
        "peak_mb": peak,
        "groups": len(groups),
        "smallest": min(len(group) for group in groups),
        "ncp": tight_ncp(frame[quasi], groups),
    }


def convert_columns(task: Task) -> pd.DataFrame:
    """Return the columns of a Mondrian peer; text becomes the category type, by which these peers detect categories."""
    frame = task.frame[[*task.quasi, task.sensitive]].copy()
    for name in task.quasi:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype("category")
    return frame


def tight_ncp(frame: pd.DataFrame, groups: Sequence[pd.Index]) -> float:
    """Return the NCP in percent, mean over records and attributes, for the tightest labels of the groups.

    A number loses (max - min) / range of the table; a category loses 0 in a group of one value, else the
    group's distinct values / the table's.
    """
    rows = np.concatenate(groups)
    if not np.array_equal(np.sort(rows), np.arange(len(frame))):
        raise ValueError("The groups do not contain every row of the table exactly once.")
    of = np.empty(len(frame), dtype=np.int64)
    of[rows] = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return 100 * float(np.mean([column_loss(frame[name], of)[of].mean() for name in frame]))


def column_loss(column: pd.Series, of: np.ndarray) -> np.ndarray:
    """Return the loss of one attribute in each group; `of` is the group of each row."""
    by_group = column.groupby(of)
    if isinstance(column.dtype, pd.CategoricalDtype):
        distinct = by_group.nunique().to_numpy()
        return np.where(distinct > 1, distinct / column.nunique(), 0.0)
    width = (by_group.max() - by_group.min()).to_numpy()
    return width / max(column.max() - column.min(), 1e-300)  # a constant column loses nothing


CASES: dict[str, Callable[[Task], Outcome]] = {
    "anonypy-mondrian": anonypy_mondrian,
    "anonypyx-mondrian": lambda task: anonypyx(task, "Mondrian"),
    "anonypyx-mdav": lambda task: anonypyx(task, "MDAV-generic"),
    "pycanon-k": pycanon_k,
    "pycanon-klt": pycanon_klt,
    "mlxtend-fpgrowth": mlxtend_fpgrowth,
}


def main() -> None:
    """Read the arguments and the file, run the case, print the JSON."""
    parser = argparse.ArgumentParser(
        description="Run one peer on a CSV file without missing values; print one JSON object."
    )
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("csv", type=Path)
    parser.add_argument("--k", type=int, default=10, help="for Mondrian (default: %(default)s)")
    parser.add_argument("--quasi", nargs="+", default=list(ADULT), help="default: eight columns of Adult")
    parser.add_argument("--sensitive", default="income", help="for Mondrian (default: %(default)s)")
    parser.add_argument("--support", type=float, default=0.01, help="for itemsets (default: %(default)s)")
    options = parser.parse_args()

    peer = options.case.partition("-")[0]
    module = importlib.import_module(peer)
    frame = pd.read_csv(options.csv, keep_default_na=False)
    read = peak_mb()
    outcome = CASES[options.case](Task(module, frame, options.quasi, options.sensitive, options.k, options.support))
    facts = {"name": options.case, "version": importlib.metadata.version(peer), "rows": len(frame)}
    print(json.dumps({**facts, "read_mb": read, "peak_mb": peak_mb(), **outcome}))


if __name__ == "__main__":
    main()
