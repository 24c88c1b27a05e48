"""`make bench`: print every figure in seconds and in yardsticks, with its bound and the figure of a peer.

`make bench ARGS=quick` skips the ten million rows and the slow peers and takes a few minutes; `make bench ARGS=huge` adds a
hundred million rows and needs about 10 GB of disk. `make bench ARGS=real` releases public tables with every method instead; see
`benchmarks.real`.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shoal
from benchmarks import cases, compilation, itemsets, models, real
from benchmarks.peers import environment
from benchmarks.yardstick import yardstick


@dataclass(frozen=True)
class Line:
    """One line of the table: a figure, its bound, and the figure of a peer."""

    what: str
    figure: float
    unit: str
    bound: float | None = None
    peer: str = ""
    peer_figure: float | None = None
    note: str = ""

    def verdict(self) -> str:
        """Return whether the figure meets its bound and is better than the peer's."""
        words = []
        if self.bound is not None:
            words.append("met" if self.figure <= self.bound else "LOST against the bound")
        if self.peer_figure is not None:
            words.append("first" if self.figure < self.peer_figure else "LOST against the peer")
        return ", ".join(words) or "reported"


def child(*given: str, module: str = "cases", **options: Any) -> dict[str, Any]:
    """Run one case in its own process, and return its JSON object."""
    arguments = [*given, *(f"--{key}={value}" for key, value in options.items())]
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"Case {' '.join((module, *given))} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def import_lines() -> Iterator[Line]:
    """Measure the CPU time until Shoal is ready, beside Python and the libraries of a policy."""
    found = child(module="imports")
    note = f"python {found['python']:.2f} s; numpy and pydantic {found['numpy, pydantic']:.2f} s"
    for name, bound in (("import shoal", 0.4), ("--version", 0.4), ("--help", None), ("policy", None)):
        yield Line(f"{name}: CPU time", found[name], "s", bound, note=note)
    for name in ("check", "anonymize"):
        yield Line(f"100 rows, {name}: CPU time, warm cache", found[name], "s")


def compilation_lines(unit: float) -> Iterator[Line]:
    """Measure the CPU time of the compilation at the first use of every method, and of everything."""
    for name, seconds in child(module="compilation").items():
        what = "all methods and models" if name == compilation.EVERYTHING else name
        bound = {"mondrian": 10.0, compilation.EVERYTHING: 220.0}.get(name, 13.0)
        yield Line(f"compile {what}, nothing compiled before: CPU time", seconds / unit, "yd", bound)


def adult_lines(unit: float, folder: Path, quick: bool) -> Iterator[Line]:
    """Measure Mondrian on the Adult rows without missing values."""
    csv = folder / "adult.csv"
    cases.adult_rows().to_csv(csv, index=False)
    for k, ncp in ((10, 6.1), (100, 20.5)):
        peer = None if quick and k == 10 else environment.run("anonypy-mondrian", csv, k=k)
        seconds, loss = (peer["search_wall"], peer["ncp"]) if peer else (None, None)
        median = child("adult", k=k, cut="median")
        gain = child("adult", k=k, cut="gain")
        limit = 0.04 if k == 10 else None
        beside = seconds / unit if seconds else None
        note = f"{median['groups']} groups; encoding {median['encode']:.3f} s"
        yield Line(f"Adult, k={k}, median: time", median["wall"] / unit, "yd", limit, "anonypy", beside, note)
        yield Line(f"Adult, k={k}, gain: time", gain["wall"] / unit, "yd", None, "anonypy", beside)
        note = f"{gain['groups']} groups, smallest {gain['smallest']}; median cut {median['ncp']:.2f} %"
        yield Line(f"Adult, k={k}, gain: tight NCP", gain["ncp"], "%", ncp, "anonypy", loss, note)


def million_lines(unit: float, folder: Path, quick: bool) -> Iterator[Line]:
    """Measure Mondrian and the check on one million rows."""
    for cut, bound in (("median", 1.0), ("gain", 2.5)):
        found = child("million", cut=cut)
        note = f"{found['rows']:,} rows; encoding {found['encode']:.2f} s, CPU {found['cpu']:.2f} s"
        yield Line(f"blow-up 1M, k=10, {cut}: time", found["wall"] / unit, "yd", bound, note=note)
    yield from check_lines(unit, folder, quick)


def check_lines(unit: float, folder: Path, quick: bool) -> Iterator[Line]:
    """Measure the check of one million rows against pycanon, and compare the results."""
    found = child("check", out=folder)
    names = [name for name in cases.QUASI if name != "occupation"]
    table = f"{found['rows']:,} rows, {found['groups']:,} groups"
    peers = {
        (case, kind): environment.run(case, folder / f"{kind}.csv", quasi=names, sensitive="occupation")
        for case in ("pycanon-k", "pycanon-klt")
        for kind in ("text", "codes")
        if not (quick and (case, kind) == ("pycanon-klt", "codes"))
    }
    for (case, kind), peer in peers.items():
        # pycanon uses the ordered distance for integers, so t is compared on text only
        for letter in "k" if case == "pycanon-k" else "kl" if kind == "codes" else "klt":
            if peer and abs(peer[f"{letter}_found"] - found[letter]) > 1e-6:
                print(f"{case} on {kind}: pycanon has {letter} = {peer[f'{letter}_found']}, Shoal has {found[letter]}")

    def line(what: str, figure: str, case: str, kind: str, times: float | None, note: str) -> Line:
        peer = peers.get((case, kind))
        beside = peer["wall"] / unit if peer else None
        bound = beside / times if beside and times else None
        return Line(f"check {what}, 1M rows", found[figure] / unit, "yd", bound, "pycanon", beside, note)

    yield line("k, from text", "k_text", "pycanon-k", "text", None, f"{table}; Shoal includes the fingerprint")
    yield line("k, from integers", "k_coded", "pycanon-k", "codes", None, "without encoding text; Shoal counts groups")
    yield line(
        "k, l, t, from text", "all_text", "pycanon-klt", "text", 10, "bound: 10 times faster than the three calls"
    )
    yield line("k, l, t, encoded", "all_coded", "pycanon-klt", "codes", 50, "bound: 50 times faster")


def specialization_lines(unit: float, folder: Path) -> Iterator[Line]:
    """Measure top-down specialization of one million encoded rows."""
    found = child("specialization", out=folder)
    read, whole = found["read"] / unit, found["all"] / unit
    note = (
        f"{found['rows']:,} rows, {found['steps']} steps, {found['groups']} groups; bound: pandas reading the CSV file"
    )
    yield Line("blow-up 1M, tds, 14 attributes, k=50: time", whole, "yd", read, "pandas read_csv", read, note)
    ratio = found["size_only"] / found["all"]
    yield Line("blow-up 1M, tds, a size requirement of another package: time", ratio, "x k-anonymity", 1.1)
    growth = found["all"] / found["small"] / (found["rows"] / found["few"])
    yield Line("tds: growth from 181k rows, over linear", growth, "x", 1.0)
    note = "mean of 30 requirements of 3 to 7 sets; bound: 5 times one set of all attributes"
    yield Line("blow-up 1M, tds, several sets: time", found["several"] / unit, "yd", 5 * whole, note=note)
    yield Line("blow-up 1M, tds: peak memory", found["memory"], "x codes", 2.0)


def clustering_lines(unit: float, folder: Path, quick: bool) -> Iterator[Line]:
    """Measure clustering of encoded rows: exact, in parts, with local search, and on a few rows against the peers."""
    for scale in (1, 4) if quick else (1, 4, 10, 33):
        found = child("clustering", case="exact", rows=scale)
        size = f"{found['rows'] / 1e3:,.0f}k rows" if found["rows"] < 900_000 else "1M rows"
        note = f"{found['rows']:,} rows, {found['cells']:,} distinct; Total-IL {found['il']:,.0f}; CPU {found['cpu']:.2f} s"
        yield Line(
            f"kmember, k=10, {size}, exact: time", found["wall"] / unit, "yd", 1.0 if scale == 1 else None, note=note
        )
        yield Line(f"kmember, k=10, {size}, exact: peak memory", found["memory"], "x codes")
        yield Line(f"kmember, k=10, {size}, part=10000: time", found["part_wall"] / unit, "yd")
        yield Line(f"kmember, k=10, {size}, part=10000: Total-IL", found["part_il"] / found["il"], "x exact")
    if quick:
        found = child("clustering", case="parts", rows=33)
        yield Line("kmember, k=10, 1M rows, part=10000: time", found["part_wall"] / unit, "yd")
    for scale, size, bound in ((1, "30k rows", 3.0), (33, "1M rows", 20.0)):
        found = child("clustering", case="merging", rows=scale)
        note = f"{found['rows']:,} rows, {found['cells']:,} distinct; CPU {found['cpu']:.2f} s"
        yield Line(f"agglomerative, k=10, {size}: time", found["wall"] / unit, "yd", bound, note=note)
        yield Line(f"agglomerative, k=10, {size}: Total-IL", found["il"] / found["mondrian_il"], "x Mondrian", 1.0)
    for scale, size, bound in ((1, "30k rows", 5.0),) if quick else ((1, "30k rows", 5.0), (33, "1M rows", 60.0)):
        found = child("clustering", case="peeling", rows=scale)
        note = f"{found['rows']:,} rows, {found['cells']:,} distinct; CPU {found['cpu']:.2f} s"
        yield Line(f"peel, k=10, {size}: time", found["wall"] / unit, "yd", bound, note=note)
        yield Line(f"peel, k=10, {size}: NCP", found["ncp"], "x Mondrian", 1.0)
    found = child("clustering", case="improve")
    yield Line("kmember, k=10, improve: remaining Total-IL", 1 - found["gain"], "x", 0.88)
    yield Line("kmember, k=10, improve: time", found["wall"] / unit, "yd", 3.0)
    for scale, bound in ((1, 3.0),) if quick else ((1, 3.0), (33, 90.0)):
        found = child("clustering", case="improve-groups", rows=scale)
        note = f"{found['rows']:,} rows; CPU {found['cpu']:.1f} s; {found['gain']:.1%} of Total-IL gained"
        size = "30k rows" if scale == 1 else "1M rows"
        yield Line(f"mondrian, k=10, {size}, improve: time", found["wall"] / unit, "yd", bound, note=note)
    found = child("clustering", case="microaggregation")
    note = f"{found['rows']:,} rows, {found['groups']} groups; CPU {found['cpu']:.2f} s"
    yield Line("mdav, k=10, 6 numbers: time", found["wall"] / unit, "yd", 3.0, note=note)
    found = child("clustering", case="small", out=folder)
    peer = environment.run("anonypyx-mdav", folder / "few.csv", k=10)
    seconds, loss = (peer["search_wall"] / unit, peer["ncp"]) if peer else (None, None)
    for name in ("kmember", "knn", "mdav"):
        yield Line(f"3,000 rows, k=10, {name}: time", found[name] / unit, "yd", None, "anonypyx MDAV", seconds)
        why = "mdav minimizes squared distances, not NCP; the peer numbers its categories" if name == "mdav" else ""
        yield Line(f"3,000 rows, k=10, {name}: tight NCP", found[f"{name}_ncp"], "%", None, "anonypyx MDAV", loss, why)


def lattice_lines(unit: float) -> Iterator[Line]:
    """Measure the optimum of the lattice of levels, of encoded rows."""
    for case, what, bound in (("adult", "Adult", 0.4), ("million", "blow-up 1M", 6.0)):
        found = child("lattice", case=case, k=5)
        each = found["wall"] / found["checked"]
        note = (
            f"{found['rows']:,} rows, {found['cells']:,} distinct; {found['nodes']:,} nodes, {found['checked']:,} checked, "
            f"{found['tagged']:,} tagged, {found['pruned']:,} pruned, {1e6 * each:.0f} µs per check; loss {found['loss']:.4f}, "
            f"{found['suppressed']:,.0f} suppressed; CPU {found['cpu']:.2f} s"
        )
        yield Line(f"{what}, optimal, k=5, 2 %: time", found["wall"] / unit, "yd", bound, note=note)
    for k, most, quoted in ((10, 5100, 5230), (25, 5170, 5280), (50, 5200, 5350), (100, 5270, 5460)):
        found = child("cut-points", k=k)
        note = f"{found['wall']:.1f} s, CPU {found['cpu']:.1f} s; gap {found['gap']:.0%}"
        yield Line(f"Adult, k-optimize, k={k}: records in cm", found["cm"], "", most, "the paper, least", quoted, note)


def model_lines(unit: float, quick: bool) -> Iterator[Line]:
    """Measure fits of anonymous decision trees: encoding, growing and audit, of Adult and of one million rows."""
    for k in (2, 10, 100, 1000):
        found = child("models", case="adult", k=k)
        note = f"{found['leaves']:,} leaves, smallest span {found['smallest']:,}; CPU {found['cpu']:.2f} s"
        yield Line(f"Adult, AnonymousTree, k={k}: time", found["wall"] / unit, "yd", 0.6, note=note)
    found = child("models", case="forest", k=10)
    note = (
        f"{found['nodes']:,} nodes, two private columns, CPU {found['cpu']:.1f} s; the forest predicts the rows in "
        f"{found['predicted']:.1f} s; the distilled tree agrees in {found['fidelity']:.1%} of the rows"
    )
    yield Line("Adult, audit of a forest of 100 trees: time", found["wall"] / unit, "yd", 15.0, note=note)
    yield Line("Adult, tree distilled from the forest: time", found["distilled"] / unit, "yd", 3.0)
    found = child("models", case="centroids", k=10)
    note = f"{found['rows']:,} rows, 8 centroids, two private numbers, {found['spans']} spans, CPU {found['cpu']:.2f} s"
    yield Line("Adult, audit of k-means: time", found["wall"] / unit, "yd", 15.0, note=note)
    found = child("models", case="clusters", k=10)
    note = f"{found['rows']:,} rows, {found['clusters']} clusters, {found['wall']:.1f} s; bound: a minute"
    yield Line("Adult, AnonymousClusters, k=10: time", found["wall"] / unit, "yd", 60 / unit, note=note)
    for table, k in (("bootstrap", 10), ("blow-up", 100)) + (() if quick else (("blow-up", 10), ("blow-up", 2))):
        found = child("models", case=table, k=k)
        note = (
            f"{found['rows']:,} rows, {found['leaves']:,} leaves, {found['wall']:.1f} s, CPU {found['cpu']:.1f} s; "
            f"scikit-learn on codes {found['peer_leaves']:,} leaves, {found['peer_wall']:.1f} s, CPU {found['peer_cpu']:.1f} s"
        )
        ratio = found["wall"] / found["peer_wall"]
        yield Line(f"{table} 1M, AnonymousTree, k={k}: time", ratio, "x sklearn", 5.0, note=note)


def minimization_lines(unit: float, folder: Path, quick: bool) -> Iterator[Line]:
    """Measure the inputs that are still collected for a gradient boosting model, at 98 % of its accuracy or agreement."""
    for part in ("train", "test"):
        shoal.datasets.adult(part, drop_missing=True, kind="pandas").to_csv(folder / f"{part}.csv", index=False)
    for case, what in (("inputs", "13 columns, accuracy"), ("numbers", "5 numbers, agreement")):
        found = child("models", case=case, k=1)
        peer = None
        if not quick:
            files = (folder / "train.csv", folder / "test.csv")
            peer = environment.minimize(*files, models.MINIMIZED[case], agreement=case == "numbers", keep=models.KEEP)
        note = (
            f"{found['rows']:,} rows, keeps {found['kept']:.1%}, {found['not_needed']} columns not needed, CPU "
            f"{found['cpu']:.1f} s; the model predicts them in {found['predicted']:.2f} s; bound: a tenth of the peer's time"
        )
        name = f"Adult, minimize, {what}"
        wall = peer["wall"] / unit if peer else None
        bound = wall / 10 if wall else None
        yield Line(f"{name}: time", found["wall"] / unit, "yd", bound, "ai-privacy-toolkit", wall, note)
        collected, stored = (1 - peer["collected"], 1 - peer["loss"]) if peer else (None, None)
        kept = 1 - found["loss"]
        note = f"the peer keeps {peer['accuracy'] / peer['full']:.1%}" if peer else ""
        yield Line(f"{name}: information to collect", kept, "", None, "ai-privacy-toolkit", collected, note)
        note = "the peer's cells differ from person to person; to find the cell, the line before must be collected"
        yield Line(f"{name}: information that the model gets", kept, "", None, "ai-privacy-toolkit", stored, note)


def itemset_lines(unit: float, folder: Path) -> Iterator[Line]:
    """Measure the frequent itemsets of Adult against mlxtend, and the rules of these sets."""
    csv = folder / "adult.csv"
    cases.adult_rows().to_csv(csv, index=False)
    columns = itemsets.mined_columns()
    peer = environment.run("mlxtend-fpgrowth", csv, quasi=columns, support=itemsets.SUPPORT)
    found = child("itemsets")
    if peer and peer["sets"] != found["sets"]:
        print(f"mlxtend finds {peer['sets']:,} itemsets, Shoal finds {found['sets']:,}.")
    note = (
        f"{found['rows']:,} rows, {found['sets']:,} sets, from the frame to the sorted sets, CPU {found['cpu']:.2f} s; at "
        f"least {found['words'] / 1e6:.1f}M words of bitsets are read, {found['reading']:.3f} s; bound: a twentieth of the "
        "peer's time"
    )
    wall = peer["wall"] / unit if peer else None
    bound = wall / 20 if wall else None
    name = f"Adult, itemsets, {len(columns)} columns, {itemsets.SUPPORT:.1%}"
    yield Line(f"{name}: time", found["wall"] / unit, "yd", bound, "mlxtend fpgrowth", wall, note)
    yield Line(
        "Adult, rules of these itemsets: time", found["rules_wall"] / unit, "yd", note=f"{found['rules']:,} rules"
    )


def randomization_lines(unit: float, rows: int) -> Iterator[Line]:
    """Measure random anonymization of ten million encoded records, and a release of a million."""
    found = child("randomization", rows=rows)
    copied = found["bytes"] / found["copy"] / 1e9
    for replaced, seconds in found["times"].items():
        rate = found["bytes"] / seconds / 1e9
        note = f"{rate:.2f} GB/s of codes; a plain copy has {copied:.2f} GB/s"
        what = f"random, {rows // 1_000_000}M rows, {replaced} of 9: the changes"
        yield Line(what, seconds / unit, "yd", 10.0 * rows / 10_000_000, note=note)
    note = "with reading, audit, posteriors and measures"
    yield Line("random, 1M rows, 1 of 9: whole release", found["release"] / unit, "yd", note=note)


def query_lines(unit: float) -> Iterator[Line]:
    """Measure 1,000 COUNT queries on one million rows, from the frames to the errors."""
    found = child("queries")
    note = f"{found['rows']:,} rows, 5 of 7 attributes; drawing the queries takes {found['drawn']:.1f} s"
    for method, what in (("mondrian", "generalized"), ("random", "randomized, raw and unbiased")):
        name = f"blow-up 1M, 1,000 queries, {what}: time"
        error = f"CPU {found[f'{method}_cpu']:.1f} s; mean relative error {found[f'{method}_error']:.2f}"
        yield Line(name, found[f"{method}_wall"] / unit, "yd", 10.0, note=f"{note}; {error}")


def hospital_lines(unit: float, rows: int) -> Iterator[Line]:
    """Measure Mondrian on ten million hospital rows from Parquet."""
    found = child("hospital", rows=rows)
    size = f"hospital {rows // 1_000_000}M"
    note = f"{found['cells']:,} distinct combinations; pyarrow reads dictionaries, without grouping"
    yield Line(f"{size}: encoding", found["encode"] / unit, "yd", None, "", None, note)
    yield Line(f"{size}: pyarrow reads as dictionaries", found["pyarrow"] / unit, "yd")
    scale = rows / 10_000_000
    for cut, bound in (("median", 10.0), ("gain", 25.0)):
        note = f"CPU {found[f'{cut}_cpu']:.1f} s"
        yield Line(f"{size}, k=10, {cut}: time", found[f"{cut}_wall"] / unit, "yd", bound * scale, note=note)
        yield Line(f"{size}, k=10, {cut}: peak memory", found[f"{cut}_memory"], "x codes", 3.0)


def scale_lines(sizes: tuple[int, ...]) -> Iterator[Line]:
    """Measure releases of large hospital files, from Parquet to a checked release in Parquet, with 4 GB of memory."""
    folder = str(Path(tempfile.gettempdir()) / "shoal-bench-scale")
    few, base = 1_000_000, dict[str, float]()
    for rows in sizes:
        size = f"hospital {rows // 1_000_000}M"
        runs = 1 if rows > 10_000_000 else 2  # the fastest run counts, for DuckDB alone and for Shoal
        alone = child(folder, str(rows), module="scale", method="duckdb", runs=runs)
        note = f"groups in {alone['group']:.1f} s, copies in {alone['copy']:.1f} s"
        yield Line(f"{size}: DuckDB reads, groups, copies", alone["wall"], "s", note=note)
        for method in ("tds", "mondrian"):
            found = child(folder, str(rows), module="scale", method=method, runs=runs)
            parts = f"; {found['parts']} parts" if found["parts"] > 1 else ""
            note = f"{found['wall']:.1f} s, CPU {found['cpu']:.1f} s; {found['groups']:,} groups; NCP {found['ncp']:.3f}{parts}"
            ratio, bound = found["wall"] / alone["wall"], 3.0 if rows > few else None
            yield Line(f"{size}, k=10, {method}: time", ratio, "x DuckDB", bound, note=note)
            yield Line(f"{size}, k=10, {method}: peak memory", found["peak"] * 1e6 / 2**30, "GiB", 4.0)
            if rows == few:
                base[method] = found["wall"]
            elif method in base:
                growth = found["wall"] / base[method] / (rows / few)
                yield Line(f"{method}: growth from 1M to {rows // 1_000_000}M, over linear", growth, "x", 1.0)


def spark_lines(rows: int) -> Iterator[Line]:
    """Measure a release of hospital files on Spark with two threads, against Spark alone: the faster of two runs."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        return
    folder, size = str(Path(tempfile.gettempdir()) / "shoal-bench-scale"), f"hospital {rows // 1_000_000}M"
    alone = child(folder, str(rows), module="spark", method="spark", runs=2)
    note = f"groups in {alone['group']:.1f} s, copies in {alone['copy']:.1f} s"
    yield Line(f"{size}: Spark reads, groups, copies", alone["wall"], "s", note=note)
    found = child(folder, str(rows), module="spark", method="tds", runs=2)
    note = f"{found['wall']:.1f} s; {found['groups']:,} groups; NCP {found['ncp']:.3f}"
    yield Line(f"{size}, k=10, tds on Spark: time", found["wall"] / alone["wall"], "x Spark", 3.0, note=note)


def format_line(line: Line, unit: float) -> str:
    """Return one line of the table as text."""
    seconds = f"{line.figure * unit:9.3f} s" if line.unit == "yd" else " " * 11
    bound = f"{line.bound:.3g}" if line.bound is not None else "-"
    peer = f"{line.peer} {line.peer_figure:.3g} ({line.peer_figure / line.figure:.1f}x)" if line.peer_figure else "-"
    return f"{line.what:42} {line.figure:8.3f} {line.unit:8} {seconds}  {bound:>6}  {peer:28} {line.verdict():22} {line.note}"


def main() -> None:
    """Run all cases and print the table."""
    if sys.argv[1:2] == ["real"]:
        real.main(sys.argv[2:])
        return
    quick = "quick" in sys.argv[1:]
    unit = yardstick()
    print(f"One yardstick (yd) is {unit:.3f} s in this run: a stable NumPy sort of 10M random int64.\n")
    print(
        f"{'what':42} {'figure':>8} {'unit':8} {'seconds':>11}  {'bound':>6}  {'peer (ratio)':28} {'verdict':22} note"
    )
    lost = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        groups = [import_lines(), compilation_lines(unit)]
        try:
            cases.adult_rows()
            groups += [adult_lines(unit, folder, quick), million_lines(unit, folder, quick)]
            groups.append(specialization_lines(unit, folder))
            groups.append(clustering_lines(unit, folder, quick))
            groups.append(lattice_lines(unit))
            groups.append(model_lines(unit, quick))
            groups.append(minimization_lines(unit, folder, quick))
            groups.append(itemset_lines(unit, folder))
            groups.append(randomization_lines(unit, 1_000_000 if quick else 10_000_000))
            groups.append(query_lines(unit))
        except shoal.ShoalError as error:
            print(f"The lines of UCI Adult are skipped: {error}")
        if not quick:
            groups.append(hospital_lines(unit, 10_000_000))
        sizes = (1_000_000,) if quick else (1_000_000, 10_000_000)
        groups.append(scale_lines((*sizes, 100_000_000) if "huge" in sys.argv[1:] else sizes))
        groups.append(spark_lines(sizes[-1]))
        for group in groups:
            for line in group:
                lost += "LOST" in line.verdict()
                print(format_line(line, unit), flush=True)
    print(f"\n{lost} lines lost." if lost else "\nEvery line meets its bound and beats its peer.")


if __name__ == "__main__":
    main()
