"""Random anonymization on Adult, as in section 7 of its paper: COUNT queries, and associations that can be mined back.

Y. Yang, X. Qiao: Anonymizing data by random anonymization.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean

import pandas as pd

import shoal
from papers import adult, page, plots
from shoal.measures import Associations, Workload, associations, query_error, random_workload
from shoal.measures.query_errors import ErrorSummary

QUASI = ("education", "race", "sex", "workclass", "marital-status", "age", "relationship", "native-country", "income")
SENSITIVE = "occupation"
LS = (5, 8, 10)
LAMBDAS = (1, 3, 5, 7, 9)
ATTRIBUTES = tuple(range(1, 9))
SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)
QUERIES = 1000
SUPPORT, CONFIDENCE = 0.08, 0.15


@dataclass(frozen=True)
class Releases:
    """The releases of the 30,162 training records, by every method of the paper."""

    table: pd.DataFrame

    @cached_property
    def policy(self) -> shoal.Policy:
        """The policy without a requirement, with the values as they are."""
        quasi = {name: "numeric" if name == "age" else "categorical" for name in QUASI}
        return shoal.Policy(quasi=quasi, sensitive=[SENSITIVE])

    def randomize(self, attributes: int, seed: int, p: str = "uniform") -> shoal.Release:
        """Random anonymization of some attributes."""
        return shoal.anonymize(self.table, self.policy, method="random", attributes=attributes, p=p, seed=seed)

    def permute(self, diversity: int, seed: int, form: str = "buckets") -> shoal.Release:
        """The permutation method: Anatomy with entropy l-diversity."""
        require = (shoal.LDiversity(diversity, of=SENSITIVE, kind="entropy"),)
        policy = self.policy.model_copy(update={"require": require})
        return shoal.anonymize(self.table, policy, method="anatomy", form=form, seed=seed)

    def generalize(self, diversity: int) -> shoal.Release:
        """Mondrian with entropy l-diversity, and with the taxonomies."""
        quasi = adult.quasi(name for name in QUASI if name != "income") | {"income": "categorical"}
        require = [shoal.LDiversity(diversity, of=SENSITIVE, kind="entropy")]
        policy = shoal.Policy(quasi=quasi, sensitive=[SENSITIVE], require=require)
        return shoal.anonymize(self.table, policy, method="mondrian", seed=1)


def make(folder: Path) -> None:
    """Update the page of this paper and its plots."""
    releases = Releases(adult.rows().iloc[: adult.TRAIN].reset_index(drop=True))
    parts: dict[str, str] = {}
    experiments: dict[str, Callable[[Releases, Path], dict[str, str]]] = {
        "promises": _measure_promises,
        "queries": _answer_queries,
        "associations": _compare_methods,
        "lambda": _vary_attributes,
    }
    for name, experiment in experiments.items():
        begun = time.perf_counter()
        parts |= experiment(releases, folder)
        print(f"{name}: {time.perf_counter() - begun:.0f} s")
    home = folder / "random-anonymization.md"
    page.write(home, page.fill(home.read_text(encoding="utf-8"), parts))


# Section 7.1, and the promises of a release


def _measure_promises(releases: Releases, _: Path) -> dict[str, str]:
    rows = []
    for attributes, p in [(1, "uniform"), (1, "optimal"), *((n, "uniform") for n in LAMBDAS[1:])]:
        release = releases.randomize(attributes, 1, p)
        found = release.measures
        rows.append(
            [
                f"{attributes}{', optimal p' * (p == 'optimal')}",
                f"{release.certificate.probabilistic_anonymity:,.1f}",
                *(f"{found[name]:.1%}" for name in ("unchanged", "posterior_mean", "posterior_max", "guessed")),
            ]
        )
    header = ["attributes replaced", "Pa", "records unchanged", "mean posterior", "largest posterior", "guessed"]
    return {"promises": page.table(header, rows)}


# Section 7.2: Figure 6


def _answer_queries(releases: Releases, folder: Path) -> dict[str, str]:
    workload = random_workload(releases.table, releases.policy, attributes=ATTRIBUTES, queries=QUERIES, seed=1)
    found: dict[str, list[ErrorSummary]] = {}
    for diversity in LS:
        for name, release in (
            ("l-diversity", releases.generalize(diversity)),
            ("permutation", releases.permute(diversity, 1)),
        ):
            found[f"{name}, l = {diversity}"] = _summarize(releases, release, workload)["estimate"]
    randomized = _summarize(releases, releases.randomize(1, 1), workload)
    found["RA"], found["RA, unbiased"] = randomized["raw"], randomized["unbiased"]
    names = ("permutation, l = 10", "RA", "RA, unbiased")
    series = [
        plots.Line(name, [100 * summary.mean for summary in found[name]], colour)
        for name, colour in zip(names, plots.COLOURS, strict=False)
    ]
    highest = int(max(v for line in series for v in line.values) // 10 + 1) * 10
    title = "Adult: mean relative error of 1,000 COUNT queries"
    axes = ("quasi-identifiers in a query", "error in percent")
    picture = plots.lines(title, axes, ATTRIBUTES, series, (0, highest), step=10)
    page.write(folder / "random-anonymization-queries.svg", picture)
    return {f"{figure}s": _tabulate_errors(found, figure) for figure in ("mean", "median")}


def _tabulate_errors(found: dict[str, list[ErrorSummary]], figure: str) -> str:
    header = [f"{figure} relative error in percent, attributes", *map(str, ATTRIBUTES)]
    return page.table(header, [[n, *(f"{100 * getattr(s, figure):.1f}" for s in own)] for n, own in found.items()])


def _summarize(releases: Releases, release: shoal.Release, workload: Workload) -> dict[str, list[ErrorSummary]]:
    """The errors by number of quasi-identifiers, by each way of reading the release."""
    found = query_error(releases.table, release, workload)
    return {way: [s for s in found.summary(way) if s.attributes is not None] for way in found.errors}


# Section 7.3: Figures 7 and 8


def _compare_methods(releases: Releases, _: Path) -> dict[str, str]:
    def rate(make: Callable[[int], shoal.Release], *, unbiased: bool = False) -> list[str]:
        return _average([_associate(releases, make(seed), unbiased=unbiased) for seed in SEEDS])

    rows = []
    for diversity in LS:
        for name, form in (("permutation", "permuted"), ("buckets", "buckets")):
            rows.append([f"{name}, l = {diversity}", *rate(partial(releases.permute, diversity, form=form))])
    randomize = partial(releases.randomize, 1)
    rows += [["RA", *rate(randomize)], ["RA, unbiased", *rate(randomize, unbiased=True)]]
    return {"associations": page.table(["release", "found", "lost", "artificial", "recovered in percent"], rows)}


def _associate(releases: Releases, release: shoal.Release, *, unbiased: bool) -> Associations:
    return associations(releases.table, release, support=SUPPORT, confidence=CONFIDENCE, unbiased=unbiased)


def _vary_attributes(releases: Releases, folder: Path) -> dict[str, str]:
    found: dict[tuple[int, bool], list[Associations]] = {}
    for attributes in LAMBDAS:
        for seed in SEEDS:
            release = releases.randomize(attributes, seed)
            for unbiased in (False, True):
                found.setdefault((attributes, unbiased), []).append(_associate(releases, release, unbiased=unbiased))
    names = {False: "as they are", True: "unbiased"}
    rows = [[n, *(_average(found[n, unbiased])[at] for unbiased in names for at in (3, 2))] for n in LAMBDAS]
    series = [
        plots.Line(
            f"{words}, {kind}",
            [float(_average(found[n, unbiased])[place]) for n in LAMBDAS],
            plots.COLOURS[2 * unbiased + (kind == "artificial")],
            dashed=kind == "artificial",
        )
        for unbiased, words in names.items()
        for kind, place in (("found", 0), ("artificial", 2))
    ]
    highest = int(max(v for line in series for v in line.values) // 10 + 1) * 10
    title = "Adult, support 8 %, confidence 15 %: associations of the release"
    picture = plots.lines(title, ("attributes replaced", "associations"), LAMBDAS, series, (0, highest), step=10)
    page.write(folder / "random-anonymization-associations.svg", picture)
    header = [
        "attributes replaced",
        *(f"{kind}, {w}" for w in names.values() for kind in ("recovered in percent", "artificial")),
    ]
    return {"lambda": page.table(header, rows), "lengths": _tabulate_lengths(found)}


def _tabulate_lengths(found: dict[tuple[int, bool], list[Associations]]) -> str:
    """The associations by length, with five attributes replaced."""
    lengths = sorted(found[5, False][0].by_length)
    rows: list[list[object]] = []
    for length in lengths:
        cells: list[object] = [length]
        for unbiased in (False, True):
            parts = [a.by_length[length] for a in found[5, unbiased] if length in a.by_length]
            cells += [
                f"{fmean(p.found for p in parts):.1f} of {parts[0].found + parts[0].lost}",
                f"{fmean(p.artificial for p in parts):.1f}",
            ]
        rows.append(cells)
    return page.table(["quasi-identifiers", "found, as they are", "artificial", "found, unbiased", "artificial"], rows)


def _average(runs: Sequence[Associations]) -> list[str]:
    """The mean numbers of found, lost and artificial associations, and the share that was recovered, in percent."""
    totals = [run.total for run in runs]
    means = [fmean(getattr(t, name) for t in totals) for name in ("found", "lost", "artificial")]
    return [f"{mean:.1f}" for mean in (*means, 100 * fmean(run.recovered for run in runs))]
