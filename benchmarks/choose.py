"""`python -m benchmarks.choose`: measure every method that publishes labels, and update docs/choose-method.md.

The tables and their policies are in `benchmarks.choose_tables`. Every method runs with and without ``improve=True``, for every
k of which the table has at least 4k records. Methods that choose levels for the whole table run only for k = 5. Finished runs
are in ``build/choose.json``: an interrupted run continues there with ``--resume``. ``--tables fair,anes96`` and ``--k 5,100``
limit the runs; with ``--resume`` the page shows the other runs of the file too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import shoal
from papers import page
from shoal.pipeline.method import GroupingMethod, Method
from shoal.pipeline.publication import LabelPublication
from shoal.report.alternatives import ALTERNATIVES, DEFAULT, Alternative
from shoal.tables import METHODS
from shoal.tables.lattice_method import LatticeMethod

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "choose-method.md"
RESULTS = ROOT / "build" / "choose.json"
KS = (2, 5, 10, 25, 100)
LEAST = 4  # a table has at least this number of records times k
SEED = 1
SHOWN_K = 5  # of the tables with seconds and groups, and of methods that choose levels
NEEDS_TREES = "bottom-up"  # numbers need trees
NEEDS_TARGET = "tree"  # not measured: the tables have no target


@dataclass(frozen=True)
class Run:
    """The figures of one release: ncp in percent, seconds of the whole call, and groups."""

    table: str
    k: int
    method: str
    improve: bool
    ncp: float
    seconds: float
    groups: int

    @property
    def key(self) -> tuple[str, int, str, bool]:
        """Return what identifies the run."""
        return self.table, self.k, self.method, self.improve

    @property
    def title(self) -> str:
        """Return the name of the method on the page."""
        return _title(self.method, self.improve)


def _title(method: str, improve: bool) -> str:
    return f"{method} improved" if improve else method


Runs: TypeAlias = Mapping[tuple[Any, ...], Run]


def list_methods() -> list[str]:
    """Return the registered methods that publish the labels of groups, in the order of the registry."""
    policy = shoal.Policy(quasi={"any": "categorical"}, require=[shoal.KAnonymity(3)])
    return [m.name for m in METHODS if m.name != NEEDS_TARGET and _publishes_labels(m, policy)]


def _publishes_labels(method: type[Method], policy: shoal.Policy) -> bool:
    if not issubclass(method, GroupingMethod):
        return False
    publication = method(policy).publication()
    return isinstance(publication, LabelPublication) and not publication.stars  # stars are not improved


def is_measured(method: str, k: int) -> bool:
    """Return whether a method is measured with this k: methods of a lattice of levels are far from the lowest loss."""
    return k == SHOWN_K or not issubclass(METHODS.find(method), LatticeMethod)


def measure_run(table: Any, rows: Any, k: int, method: str, improve: bool) -> Run:
    """Release a table once. Labels are measured by the policy without the trees that only one method needs.

    A method that can minimize ncp does, since the page compares ncp.
    """
    policy = table.policy(k, trees=method == NEEDS_TREES)
    given = {"objective": "ncp"} if "ncp" in getattr(METHODS.find(method), "objectives", ()) else {}
    begun = time.perf_counter()
    release = shoal.anonymize(rows, policy, method=method, write="label", improve=improve, seed=SEED, **given)
    seconds = time.perf_counter() - begun
    measures = shoal.measure(rows, release.frame, table.policy(k)) if method == NEEDS_TREES else release.measures
    groups = int(release.measures["classes"])
    return Run(table.name, k, method, improve, round(100 * measures["ncp"], 3), round(seconds, 3), groups)


def measure_all(tables: Iterable[Any], ks: Sequence[int], known: dict[tuple[Any, ...], Run]) -> None:
    """Add every run that is not known yet, print it, and store it; the smallest table is first."""
    methods = list_methods()
    for table, rows in sorted(((t, t.rows()) for t in tables), key=lambda pair: len(pair[1])):
        for k in (k for k in ks if len(rows) >= LEAST * k):
            for method, improve in product(methods, (False, True)):
                if (table.name, k, method, improve) in known or not is_measured(method, k):
                    continue
                run = measure_run(table, rows, k, method, improve)
                known[run.key] = run
                print(
                    f"{run.table:9} k={k:<4} {run.title:22} ncp {run.ncp:7.3f} %  {run.groups:6} groups  {run.seconds:7.2f} s",
                    flush=True,
                )
                write_runs(known.values())


def compile_kernels(tables: Iterable[Any]) -> None:
    """Run every method on the first records of the tables, so that no time includes compilation."""
    for table, method, improve in product(tables, list_methods(), (False, True)):
        measure_run(table, table.rows().head(300), 5, method, improve)


def read_runs() -> dict[tuple[Any, ...], Run]:
    """Return the stored runs."""
    if not RESULTS.exists():
        return {}
    runs = [Run(**run) for run in json.loads(RESULTS.read_text(encoding="utf-8"))]
    return {run.key: run for run in runs}


def write_runs(runs: Iterable[Run]) -> None:
    """Store the runs."""
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(run) for run in runs], indent=0), encoding="utf-8")


# The parts of the page


def list_reductions(runs: Runs, k: int, method: str, improve: bool) -> list[float]:
    """Return by how much a method reduces the ncp of the default method, for every table with both runs."""
    found = []
    for table in dict.fromkeys(run.table for run in runs.values()):
        default, other = runs.get((table, k, DEFAULT, False)), runs.get((table, k, method, improve))
        if default and other and default.ncp > 0:
            found.append(1 - other.ncp / default.ncp)
    return found


def choose_alternatives(runs: Runs) -> dict[int, Alternative]:
    """Return, for every k, the method that with improve=True has the largest median reduction; ties: the earlier method."""
    chosen: dict[int, Alternative] = {}
    for k in KS:
        for method in list_methods():
            found = list_reductions(runs, k, method, True)
            if found and (k not in chosen or median(found) > chosen[k].reduction + 0.005):
                chosen[k] = Alternative(method, round(median(found), 2))
    return chosen


def build_parts(tables: Sequence[Any], runs: Runs) -> dict[str, str]:
    """Return the generated parts of the page."""
    names = [table.name for table in tables]
    rows = [(t.name, t.source, f"{len(t.rows()):,}", t.describe()) for t in tables]
    return {
        "tables": page.table(("table", "source", "records", "quasi-identifiers"), rows),
        "alternatives": page.table(
            ("k", "method", "median, %", "lowest, %", "highest, %", "tables"), list(_list_alternative_rows(runs))
        ),
        "medians": page.table(("lower ncp than mondrian, %", *(f"k = {k}" for k in KS)), list(_list_median_rows(runs))),
        "least": page.table(("k", *names), list(_list_least_rows(names, runs))),
        "least-said": _describe_least(names, runs),
        "ncp": "\n\n".join(f"k = {k}:\n\n{_build_figures(names, runs, k, 'ncp')}" for k in KS),
        "seconds": _build_figures(names, runs, SHOWN_K, "seconds"),
        "groups": _build_figures(names, runs, SHOWN_K, "groups"),
    }


def _list_alternative_rows(runs: Runs) -> Iterator[Sequence[object]]:
    for k, (method, middle) in choose_alternatives(runs).items():
        found = list_reductions(runs, k, method, True)
        yield k, method, *(f"{100 * share:.0f}" for share in (middle, min(found), max(found))), len(found)


def _list_median_rows(runs: Runs) -> Iterator[Sequence[object]]:
    for method, improve in product(list_methods(), (False, True)):
        found = [list_reductions(runs, k, method, improve) for k in KS]
        yield _title(method, improve), *(f"{100 * median(shares):.0f}" if shares else "" for shares in found)


def find_least(runs: Runs, table: str, k: int) -> str | None:
    """Return the method with the least ncp on a table; None if it was not measured."""
    found = [run for run in runs.values() if (run.table, run.k) == (table, k)]
    return min(found, key=lambda run: run.ncp).title if found else None


def _list_least_rows(names: Sequence[str], runs: Runs) -> Iterator[Sequence[object]]:
    for k in KS:
        yield k, *(find_least(runs, name, k) or "–" for name in names)


def _describe_least(names: Sequence[str], runs: Runs) -> str:
    least = Counter(title for name, k in product(names, KS) if (title := find_least(runs, name, k)))
    counts = ", ".join(f"`{title}` in {number}" for title, number in least.most_common())
    return f"Of {least.total()} combinations of a table and a k, the lowest loss has {counts}."


def _build_figures(names: Sequence[str], runs: Runs, k: int, figure: str) -> str:
    """Return a table with one row per method and one column per table; empty where there is no run."""
    rows = []
    for method, improve in product([m for m in list_methods() if is_measured(m, k)], (False, True)):
        found = [runs.get((name, k, method, improve)) for name in names]
        cells = ["" if run is None else _format_figure(getattr(run, figure)) for run in found]
        rows.append([_title(method, improve), *cells])
    return page.table((figure, *names), rows)


def _format_figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def print_constant(chosen: Mapping[int, Alternative]) -> None:
    """Print the constant for the code, and whether the code has it."""
    lines = [f"    {k}: Alternative({found.method!r}, {found.reduction})," for k, found in chosen.items()]
    print("\n".join(("ALTERNATIVES: Mapping[int, Alternative] = {", *lines, "}")).replace("'", '"'))
    if dict(ALTERNATIVES) != chosen:
        print("src/shoal/report/alternatives.py has other figures. Copy the lines above into this file.")


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choose", description="Measure all table methods.")
    parser.add_argument("--resume", action="store_true", help="keep the runs of build/choose.json")
    parser.add_argument("--tables", default="", help="only these tables, separated by commas")
    parser.add_argument("--k", default="", help="only these k, separated by commas")
    return parser.parse_args()


def main() -> None:
    """Measure all methods on all tables, update the page, and print the constant of the code."""
    given = parse_arguments()
    try:
        from benchmarks.choose_tables import TABLES

        chosen = [t for t in TABLES if not given.tables or t.name in given.tables.split(",")]
        for table in TABLES:
            table.rows()
    except ModuleNotFoundError as error:
        sys.exit(f"{error}. The tables need statsmodels and scikit-learn: pip install '.[bench]'.")
    except (shoal.DataError, shoal.EngineError) as error:
        sys.exit(f"The measurements need UCI Adult: {error}")
    runs = read_runs() if given.resume else {}
    print("Compiling ...", flush=True)
    compile_kernels(chosen[-1:] if given.resume else chosen)
    ks = [int(k) for k in given.k.split(",")] if given.k else KS
    begun = time.perf_counter()
    measure_all(chosen, ks, runs)
    print(f"{time.perf_counter() - begun:.0f} s in all")
    if PAGE.exists():
        page.write(PAGE, page.fill(PAGE.read_text(encoding="utf-8"), build_parts(TABLES, runs)))
    print_constant(choose_alternatives(runs))


if __name__ == "__main__":
    main()
