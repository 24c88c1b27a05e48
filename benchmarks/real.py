"""`python -m benchmarks.real`: release public tables with every method that publishes groups, and print one table.

Every release runs in its own process with a time limit. k is counted again by pandas from the published table. A failure whose
error is not a `ShoalError`, a process without a result, and a published k below the required k are defects. ``--tables
lung,rossi``, ``--methods mondrian,knn`` and ``--limit SECONDS`` limit the runs. ``build/real.json`` has the full messages and
the notes of all runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import shoal
from benchmarks.choose import NEEDS_TREES, list_methods

RESULTS = Path(__file__).resolve().parents[1] / "build" / "real.json"
LIMIT = 120.0  # seconds of one release, with the start of its process
COMPILE_LIMIT, COMPILE_ROWS = 600.0, 100  # of the releases before the measurement, which compile the kernels
COMPILED = ("lung", "penguins")  # with missing values; without and with several records per person
SEED = 1
NOTE_WIDTH = 90  # characters of a message in the table
COLUMNS = (
    f"{'table':14} {'rows':>7} {'QI':>3} {'method':13} {'kept':>7} {'seconds':>8} {'k':>5} {'suppressed':>10} "
    f"{'result':8} note"
)


@dataclass(frozen=True)
class Run:
    """The result of one release. ``kept`` is 1 - ncp in percent; ``smallest`` is k as counted by pandas."""

    table: str
    rows: int
    quasi: int
    method: str
    result: str  # ok, timeout, refused (a ShoalError) or DEFECT
    kept: float | None = None
    seconds: float | None = None
    smallest: int | None = None
    suppressed: int | None = None
    note: str = ""
    notes: tuple[str, ...] = ()

    def format(self) -> str:
        """Return the line of the table."""
        kept = "-" if self.kept is None else f"{self.kept:.1f} %"
        seconds = "-" if self.seconds is None else f"{self.seconds:.2f}"
        smallest = "-" if self.smallest is None else str(self.smallest)
        suppressed = "-" if self.suppressed is None else f"{self.suppressed:,}"
        note = " ".join(self.note.split())
        note = note if len(note) <= NOTE_WIDTH else f"{note[: NOTE_WIDTH - 1]}…"
        line = (
            f"{self.table:14} {self.rows:7,} {self.quasi:3} {self.method:13} {kept:>7} {seconds:>8} {smallest:>5} "
            f"{suppressed:>10} {self.result:8} {note}"
        )
        return line.rstrip()


def count_smallest(published: pd.DataFrame, quasi: Sequence[str], people: pd.Series | None = None) -> int:
    """Return the size of the smallest group of equal published quasi-identifiers, in records or in different people."""
    groups = published.assign(**{"": 0 if people is None else people.to_numpy()}).groupby(list(quasi), dropna=False)
    return int((groups.size() if people is None else groups[""].nunique()).min())


def release_once(rows: pd.DataFrame, policy: shoal.Policy, method: str) -> dict[str, Any]:
    """Release a table and return the figures of the release, or the error."""
    begun = time.perf_counter()
    try:
        release = shoal.anonymize(rows, policy, method=method, seed=SEED)
    except shoal.ShoalError as error:
        return {"result": "refused", "note": f"{type(error).__name__}: {error}"}
    seconds = time.perf_counter() - begun
    suppressed = release.certificate.suppressed
    people = rows[policy.unit.column] if policy.unit and not suppressed else None
    found = {
        "kept": 100 * (1 - release.measures["ncp"]),
        "seconds": seconds,
        "suppressed": suppressed,
        "notes": release.notes,
    }
    if len(release.frame) == 0:
        return {**found, "result": "ok", "note": "every record is suppressed"}
    smallest = count_smallest(release.frame, list(policy.quasi), people)
    wrong = smallest < policy.least_group_size
    return {
        **found,
        "result": "DEFECT" if wrong else "ok",
        "smallest": smallest,
        "note": f"k must be {policy.least_group_size}" if wrong else "",
    }


def run_child(command: Sequence[str], limit: float) -> dict[str, Any]:
    """Return the JSON object that a process prints last; a timeout and a process without such an object are results too."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"result": "timeout", "note": f"not finished after {limit:g} s"}
    try:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError):
        lines = done.stderr.strip().splitlines()
        return {"result": "DEFECT", "note": lines[-1] if lines else f"exit status {done.returncode}"}


def measure_run(name: str, rows: pd.DataFrame, policy: shoal.Policy, method: str, limit: float = LIMIT) -> Run:
    """Release a table in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        rows.to_parquet(Path(folder) / "rows.parquet")
        Path(folder, "policy.yaml").write_text(policy.to_yaml(), encoding="utf-8")
        found = run_child([sys.executable, "-m", "benchmarks.real", "--child", folder, "--methods", method], limit)
    found["notes"] = tuple(found.get("notes", ()))
    return Run(name, len(rows), len(policy.quasi), method, **found)


def summarize(runs: Sequence[Run]) -> str:
    """Return the numbers of runs, timeouts, refusals and defects."""
    counts = {result: sum(run.result == result for run in runs) for result in ("timeout", "refused", "DEFECT")}
    return (
        f"{len(runs)} runs of {len({run.table for run in runs})} tables: {counts['timeout']} timeouts (lost), "
        f"{counts['refused']} refused with a message, {counts['DEFECT']} defects (failures without a remedy)."
    )


def compile_kernels(table: Any, methods: Sequence[str]) -> None:
    """Release the first rows of a table with every method, so that no measured release compiles kernels."""
    rows = table.load().head(COMPILE_ROWS)
    for method in methods:
        policy = table.policy(trees=method == NEEDS_TREES)
        measure_run(table.name, rows, policy, method, COMPILE_LIMIT)


def run_all(tables: Iterable[Any], methods: Sequence[str], limit: float) -> list[Run]:
    """Release every table with every method, and print a line for each release."""
    runs: list[Run] = []
    print(COLUMNS)
    for table in tables:
        try:
            rows = table.load()
        except (shoal.ShoalError, ModuleNotFoundError, FileNotFoundError) as error:
            print(f"{table.name:14} is skipped: {error}", flush=True)
            continue
        for method in methods:
            run = measure_run(table.name, rows, table.policy(trees=method == NEEDS_TREES), method, limit)
            runs.append(run)
            print(run.format(), flush=True)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps([asdict(run) for run in runs], indent=1), encoding="utf-8")
    return runs


def parse_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description="Release public tables.")
    parser.add_argument("--tables", default="", help="only these tables, separated by commas")
    parser.add_argument("--methods", default="", help="only these methods, separated by commas")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of one release (default: 120)")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or release one table in a process of its own."""
    options = parse_arguments(given)
    if options.child:
        rows = pd.read_parquet(Path(options.child) / "rows.parquet")
        found = release_once(rows, shoal.Policy.load(Path(options.child) / "policy.yaml"), options.methods)
        print(json.dumps(found))
        return
    from benchmarks.real_tables import TABLES, install_packages  # here, because the tables need further packages

    install_packages()
    chosen = [table for table in TABLES if not options.tables or table.name in options.tables.split(",")]
    methods = options.methods.split(",") if options.methods else list_methods()
    print("Compiling ...", flush=True)
    for name in COMPILED:
        compile_kernels(next(table for table in TABLES if table.name == name), methods)
    runs = run_all(chosen, methods, options.limit)
    print(f"\n{summarize(runs)}")
    if any(run.result == "DEFECT" for run in runs):
        sys.exit(1)


if __name__ == "__main__":
    main()
