"""Anonymous decision trees on Adult, as in section 6 of their paper: errors, the classification metric, inference.

A. Friedman, R. Wolff, A. Schuster: Providing k-anonymity in data mining. The VLDB Journal 17 (2008).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import sklearn

import shoal
from papers import adult, page, plots
from papers.classify import Bools, tree_error
from shoal.models import AnonymousTree
from shoal.requirements import Requirement

NAMES = tuple(name for name in adult.NAMES if name not in adult.NUMBERS)
METRIC_NAMES = tuple(name for name in NAMES if name != "relationship")
KS = (2, 5, 10, 25, 50, 75, 100, 150, 200, 350, 500, 750, 1000)
METRIC_KS = (10, 25, 50, 100)
OPTIMAL = ("5230 to 5280", "5280 to 5330", "5350 to 5410", "5460")  # k-Optimal and the paper's tree, from Table 6
PAPER = (5198, 5273, 5379, 5439)
CRITERIA = ("gain", "gini", "gain-ratio")
LIMITS = tuple(range(80, 100))  # the confidence limits of an attacker, in percent
TDS = {"score": "TDS, ID3", "gain": "TDS by gain, ID3"}


@dataclass(frozen=True)
class Split:
    """The training records, followed by the test records, with the number of the training records."""

    frame: pd.DataFrame
    size: int

    @property
    def train(self) -> pd.DataFrame:
        """The training records."""
        return self.frame.iloc[: self.size]

    @property
    def test(self) -> pd.DataFrame:
        """The test records, as they are."""
        return self.frame.iloc[self.size :]

    @cached_property
    def truth(self) -> Bools:
        """Whether a person earns more than 50K."""
        return (self.frame[adult.CLASS] == adult.RICH).to_numpy()

    def grow(self, requirement: Requirement, names: Sequence[str] = NAMES, criterion: str = "gain") -> AnonymousTree:
        """Grow an anonymous tree from the training records."""
        return AnonymousTree(build_policy(names, requirement), criterion=criterion).fit(self.train)

    def measure_error(self, tree: AnonymousTree) -> float:
        """Return the error of an anonymous tree on the test records in percent."""
        return 100 * float((tree.predict(self.test) != self.test[adult.CLASS].to_numpy()).mean())

    def generalize(self, k: int, by: str = "score") -> pd.DataFrame:
        """Release the training records with TDS, and apply its recoding to the test records."""
        release = shoal.anonymize(self.train, build_policy(NAMES, shoal.KAnonymity(k)), method="tds", seed=1, by=by)
        if len(release.frame) != self.size or release.recoding is None:
            raise RuntimeError("The release suppressed records, so the classes do not match its records.")
        later: pd.DataFrame = release.recoding.apply(self.test, nearest=True)
        table: pd.DataFrame = release.frame
        return pd.concat([table, later], ignore_index=True)


def make(folder: Path) -> None:
    """Update the page of this paper and its plots."""
    split = Split(adult.rows(), adult.TRAIN)
    parts: dict[str, str] = {"versions": f"Made with scikit-learn {sklearn.__version__}."}
    for name, experiment in (("metric", _run_metric), ("errors", _run_errors), ("confidence", _run_confidence)):
        begun = time.perf_counter()
        parts |= experiment(split, folder)
        print(f"{name}: {time.perf_counter() - begun:.0f} s")
    home = folder / "anonymous-mining.md"
    page.write(home, page.fill(home.read_text(encoding="utf-8"), parts))


def build_policy(names: Sequence[str], requirement: Requirement, *, taxonomies: bool = True) -> shoal.Policy:
    """Return a policy in which these attributes are public, and the class is private."""
    quasi = adult.quasi(names) if taxonomies else dict.fromkeys(names, "categorical")
    return shoal.Policy(quasi=quasi, sensitive=[adult.CLASS], target=adult.CLASS, require=[requirement])


def id3_error(table: pd.DataFrame, truth: Bools, train: int) -> float:
    """Return the error in percent of ID3, trained on the first ``train`` rows, on the rows after them.

    ID3 is the anonymous tree with k = 1 and without taxonomies: a split has one branch for each label, and the splits are
    chosen by information gain. The tree is not pruned.
    """
    policy = build_policy(list(map(str, table)), shoal.KAnonymity(1), taxonomies=False)
    tree = AnonymousTree(policy).fit(table[:train], truth[:train])
    return 100 * float((tree.predict(table[train:]) != truth[train:]).mean())


def count_minority(tree: AnonymousTree, frame: pd.DataFrame) -> int:
    """Return the classification metric: the records outside the most frequent class of their leaf.

    If all attributes of a tree are public and the class is private, a span is the classes of one leaf.
    """
    counts = pd.crosstab(tree.apply(frame), frame[adult.CLASS].to_numpy()).to_numpy()
    return int((counts.sum(axis=1) - counts.max(axis=1)).sum())


def limit_confidence(confidence: float) -> float:
    """Return the l of entropy l-diversity for two classes, of which one has the share ``confidence``.

    >>> round(limit_confidence(0.85), 3)
    1.526
    """
    return exp(-sum(share * log(share) for share in (confidence, 1 - confidence)))


# Section 6.2: Table 6


def _run_metric(split: Split, _: Path) -> dict[str, str]:
    def rows() -> Iterator[list[object]]:
        for k, optimal, paper in zip(METRIC_KS, OPTIMAL, PAPER, strict=True):
            trees = [split.grow(shoal.KAnonymity(k), METRIC_NAMES, criterion) for criterion in CRITERIA]
            yield [k, optimal, paper, *(count_minority(tree, split.train) for tree in trees)]

    return {"metric": page.table(["k", "k-Optimal", "paper", *(f"Shoal, {c}" for c in CRITERIA)], rows())}


# Sections 6.1 and 6.3, k-anonymity: Figures 6 and 7


def _run_errors(split: Split, folder: Path) -> dict[str, str]:
    trees, slowest = {}, 0.0
    for k in KS:
        begun = time.perf_counter()
        trees[k] = split.grow(shoal.KAnonymity(k))
        slowest = max(slowest, time.perf_counter() - begun)
    print(f"The slowest of {len(KS)} trees took {slowest:.2f} s.")
    errors = {"anonymous tree": [split.measure_error(tree) for tree in trees.values()]}
    tables = {(k, by): split.generalize(k, by)[list(NAMES)] for by in TDS for k in KS}
    for by, name in TDS.items():
        errors[name] = [id3_error(tables[k, by], split.truth, split.size) for k in KS]
    errors["TDS, pruned tree"] = [tree_error(tables[k, "score"], split.truth, split.size) for k in KS]
    raw = split.frame[list(NAMES)]
    base = {
        "ID3": id3_error(raw, split.truth, split.size),
        "ID3 with taxonomies": split.measure_error(split.grow(shoal.KAnonymity(1))),
        "pruned tree": tree_error(raw, split.truth, split.size),
    }
    page.write(folder / "anonymous-mining-errors.svg", _draw_errors(errors, base))
    page.write(folder / "anonymous-mining-certain.svg", _draw_certain(trees, split.size))
    return {
        "baselines": page.table(["nothing generalized", "error in percent"], list(base.items())),
        "errors": _errors_table(errors, trees),
        "certain": _certain_table(trees, split.size),
    }


def _errors_table(errors: dict[str, list[float]], trees: dict[int, AnonymousTree]) -> str:
    spans = [tree.certificate_.groups + tree.certificate_.single_spans for tree in trees.values()]
    smallest = [tree.certificate_.smallest for tree in trees.values()]
    rows: list[list[object]] = [list(row) for row in zip(KS, *errors.values(), spans, smallest, strict=True)]
    means = [fmean(values) for values in errors.values()]
    rows.append(["mean", *means, "", ""])
    rows.append(["mean, less the anonymous tree", *(mean - means[0] for mean in means), "", ""])
    return page.table(["error in percent, k", *errors, "spans", "smallest span"], rows)


def _draw_errors(errors: dict[str, list[float]], base: dict[str, float]) -> str:
    chosen = {name: errors[name] for name in ("anonymous tree", "TDS, ID3")}
    series = [plots.Line(n, v, colour) for (n, v), colour in zip(chosen.items(), plots.COLOURS, strict=False)]
    for name, colour in zip(("ID3", "pruned tree"), plots.COLOURS[2:], strict=False):
        series.append(plots.Line(name, [base[name]] * len(KS), colour, dashed=True))
    every = [value for line in series for value in line.values]
    title = "Adult, eight categorical attributes: error on 15,060 test records"
    return plots.lines(title, ("k", "error in percent"), KS, series, (int(min(every)), int(max(every)) + 1))


def _certain_table(trees: dict[int, AnonymousTree], size: int) -> str:
    rows = [[k, *(100 * n / size for n in _count_inferred(tree))] for k, tree in trees.items()]
    return page.table(["k", "class is certain, % of records", "confidence above 90 %, % of records"], rows)


def _count_inferred(tree: AnonymousTree) -> tuple[int, int]:
    return tree.certificate_.certain, tree.certificate_.confident


def _draw_certain(trees: dict[int, AnonymousTree], size: int) -> str:
    shares = [100 * tree.certificate_.certain / size for tree in trees.values()]
    title = "Adult: training records whose class is the same in their whole span"
    series = [plots.Line("certain", shares, plots.COLOURS[0])]
    return plots.lines(title, ("k", "percent of records"), KS, series, (0, 5 * (int(max(shares)) // 5 + 1)), step=5)


# Section 6.3, l-diversity: Figure 8


def _run_confidence(split: Split, folder: Path) -> dict[str, str]:
    rows, accuracies = [], []
    for limit in LIMITS:
        least = limit_confidence(limit / 100)
        tree = split.grow(shoal.LDiversity(least, of=adult.CLASS, kind="entropy"))
        accuracies.append(100 - split.measure_error(tree))
        counts = pd.crosstab(tree.apply(split.train), split.train[adult.CLASS].to_numpy()).to_numpy()
        reached = 100 * float((counts.max(axis=1) / counts.sum(axis=1)).max())
        rows.append([limit, f"{least:.3f}", reached, len(counts), accuracies[-1]])
    constant = 100 * float(1 - split.truth[split.size :].mean())
    plain = 100 - split.measure_error(split.grow(shoal.KAnonymity(1)))
    series = [
        plots.Line("anonymous tree", accuracies, plots.COLOURS[0]),
        plots.Line("no requirement", [plain] * len(LIMITS), plots.INK, dashed=True),
        plots.Line("no tree", [constant] * len(LIMITS), plots.COLOURS[1], dashed=True),
    ]
    every = [value for line in series for value in line.values]
    title = "Adult, entropy l-diversity of the class: accuracy on 15,060 test records"
    axes = ("confidence limit of an attacker in percent", "accuracy in percent")
    picture = plots.lines(title, axes, LIMITS, series, (int(min(every)), int(np.ceil(max(every)))))
    page.write(folder / "anonymous-mining-confidence.svg", picture)
    header = ["confidence limit in percent", "l", "highest confidence in a span", "spans", "accuracy in percent"]
    return {"confidence": page.table(header, rows)}
