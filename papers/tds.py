"""Top-down specialization on Adult, as section 6 of its paper measures it: data quality, several identifiers, ten folds.

B. C. M. Fung, K. Wang, P. S. Yu: Top-down specialization for information and privacy preservation. ICDE 2005.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn.model_selection import StratifiedKFold

import shoal
from papers import adult, page, plots
from papers.classify import CUTS, Bools, bayes_error, lower_ends, tree_error

KS = (20, 40, 60, 80, 100, 140, 180, 220, 260, 300, 400, 500, 600, 700, 800, 900, 1000)
TOPS = {f"Top{n}": adult.RANKED[:n] for n in (5, 7, 9)}
VARIANTS: dict[str, dict[str, Any]] = {"score": {}, "gain": {"by": "gain"}, "valid": {"split": "valid"}}

MULTI_K, SEEDS, DRAWS = 100, (0, 1, 2), 30
GENETIC = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country")
GENETIC_KS = (10, 20, 50, 100, 200, 500)


@dataclass
class Judge:
    """The errors of both classifiers on tables that are released together; a table is judged once."""

    truth: Bools
    train: int
    known: dict[tuple[bytes, str], float] = field(default_factory=dict)

    def tree(self, table: pd.DataFrame) -> float:
        """Percent wrong."""
        key = (_print(table), "tree")
        if key not in self.known:
            self.known[key] = tree_error(table, self.truth, self.train)
        return self.known[key]

    def bayes(self, table: pd.DataFrame, cuts: str = CUTS[0]) -> float:
        """Percent wrong."""
        key = (_print(table), cuts)
        if key not in self.known:
            self.known[key] = bayes_error(table, self.truth, self.train, cuts)
        return self.known[key]


def _print(table: pd.DataFrame) -> bytes:
    names = ",".join(table.columns).encode()
    return hashlib.sha256(names + pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes()).digest()


def make(folder: Path) -> None:
    """Write the page of this paper anew, and its pictures beside it."""
    frame = adult.rows()
    truth = (frame[adult.CLASS] == adult.RICH).to_numpy()
    judge = Judge(truth, adult.TRAIN)
    raw = frame[list(adult.NAMES)]
    parts: dict[str, str] = {"versions": f"Made with scikit-learn {sklearn.__version__}."}
    for work in (_tops, _several):
        begun = time.perf_counter()
        parts |= work(raw, frame, judge, folder)
        print(f"{work.__name__.strip('_')}: {time.perf_counter() - begun:.0f} s")
    begun = time.perf_counter()
    parts |= _folds(frame.iloc[: adult.TRAIN], folder)
    print(f"folds: {time.perf_counter() - begun:.0f} s")
    home = folder / "tds.md"
    page.write(home, page.fill(home.read_text(encoding="utf-8"), parts))


def _released(frame: pd.DataFrame, policy: shoal.Policy, **how: Any) -> shoal.Release:
    release = shoal.anonymize(frame, policy, method="tds", seed=1, **how)
    if len(release.frame) != len(frame):
        raise RuntimeError("records were suppressed; the test rows cannot be told from the others")
    return release


def _seen(release: shoal.Release) -> pd.DataFrame:
    """What a classifier sees, in the order of the original columns."""
    out: pd.DataFrame = release.frame
    return out[[name for name in adult.NAMES if name in out]]


# Section 6.1, one identifier: Figures 5 and 6


def _tops(raw: pd.DataFrame, frame: pd.DataFrame, judge: Judge, folder: Path) -> dict[str, str]:
    slowest = 0.0
    found: dict[tuple[str, str, int], shoal.Release] = {}
    for top, names in TOPS.items():
        for k in KS:
            for variant, how in VARIANTS.items():
                begun = time.perf_counter()
                found[variant, top, k] = _released(frame, adult.policy([names], k), **how)
                slowest = max(slowest, time.perf_counter() - begun)
    print(f"the slowest of {len(found)} releases took {slowest:.2f} s")
    bare = {top: raw.drop(columns=list(names)) for top, names in TOPS.items()}
    tree = {key: judge.tree(_seen(release)) for key, release in found.items()}
    bayes = {key: judge.bayes(_seen(release)) for key, release in found.items()}
    for name, judged, base, upper in (
        ("tree", tree, judge.tree(raw), {top: judge.tree(table) for top, table in bare.items()}),
        ("bayes", bayes, judge.bayes(raw), {top: judge.bayes(table) for top, table in bare.items()}),
    ):
        plain = {top: [judged["score", top, k] for k in KS] for top in TOPS}
        page.write(folder / f"tds-{name}.svg", _error_picture(name, base, upper, plain))
    return {
        "tree": _error_table(judge.tree(raw), {t: judge.tree(b) for t, b in bare.items()}, tree, found),
        "bayes": _error_table(judge.bayes(raw), {t: judge.bayes(b) for t, b in bare.items()}, bayes, None),
        "bayes-cuts": _cuts_table(raw, judge, found),
        "values": _values_table(found["score", "Top7", 60], found["score", "Top7", 500]),
        "variants": _variants_table(tree),
        "variants-mean": _variants_mean(tree, bayes),
    }


def _error_table(
    base: float,
    upper: dict[str, float],
    judged: dict[tuple[str, str, int], float],
    found: dict[tuple[str, str, int], shoal.Release] | None,
) -> str:
    def rows() -> Iterator[list[object]]:
        blank = [""] * len(TOPS) if found else []
        yield ["BE, nothing generalized", *[base] * len(TOPS), *blank]
        for k in KS:
            steps = [len(found["score", top, k].path or ()) for top in TOPS] if found else []
            yield [f"AE, k = {k}", *(judged["score", top, k] for top in TOPS), *steps]
        yield ["UE, all of them removed", *upper.values(), *blank]

    header = ["error in percent", *TOPS, *(f"steps, {top}" for top in TOPS if found)]
    return page.table(header, rows())


def _error_picture(name: str, base: float, upper: dict[str, float], plain: dict[str, list[float]]) -> str:
    what = {"tree": "pruned decision tree", "bayes": "naive Bayes"}[name]
    series = [plots.Line("BE", [base] * len(KS), plots.INK, dashed=True)]
    for colour, (top, errors) in zip(plots.COLOURS, plain.items(), strict=False):
        series.append(plots.Line(top, errors, colour))
        series.append(plots.Line(f"UE of {top}", [upper[top]] * len(KS), colour, dashed=True))
    ends = (int(min(base, *map(min, plain.values()))), int(max(upper.values())) + 1)
    title = f"Adult, {what}: what it gets wrong of 15,060 records after top-down specialization"
    return plots.lines(title, ("k", "error in percent"), KS, series, ends)


def _cuts_table(raw: pd.DataFrame, judge: Judge, found: dict[tuple[str, str, int], shoal.Release]) -> str:
    def rows() -> Iterator[list[object]]:
        for cuts in CUTS:
            base = judge.bayes(raw, cuts)
            most = [max(judge.bayes(_seen(found["score", top, k]), cuts) for k in KS) - base for top in TOPS]
            yield [cuts, base, *most]

    return page.table(["numbers are divided by", "BE", *(f"{top}: most AE − BE" for top in TOPS)], rows())


def _values_table(*releases: shoal.Release) -> str:
    def published(release: shoal.Release, name: str) -> str:
        labels = pd.Series(sorted(release.frame[name].unique()))
        if name in adult.NUMBERS:
            labels = labels.iloc[np.argsort(lower_ends(labels))]
        return " ".join(f"`{label}`" for label in labels)

    names = TOPS["Top7"]
    return page.table(
        ["attribute", "k = 60", "k = 500"], [[name, *(published(r, name) for r in releases)] for name in names]
    )


def _variants_table(tree: dict[tuple[str, str, int], float]) -> str:
    header = ["AE of the tree, k", *(f"{top}, {variant}" for top in TOPS for variant in VARIANTS)]
    return page.table(header, [[k, *(tree[variant, top, k] for top in TOPS for variant in VARIANTS)] for k in KS])


def _variants_mean(*judged: dict[tuple[str, str, int], float]) -> str:
    def rows() -> Iterator[list[object]]:
        for name, errors in zip(("tree", "naive Bayes"), judged, strict=True):
            for variant in VARIANTS:
                yield [name, variant, *(fmean(errors[variant, top, k] for k in KS) for top in TOPS)]

    return page.table(["mean AE over these k", "variant", *TOPS], rows())


# Section 6.1, several identifiers: Figure 7


def drawn(seed: int) -> Iterator[list[tuple[str, ...]]]:
    """Random requirements: 3 to 7 sets of one length from 2 to 9 attributes; a set that is there already is left out."""
    rng = np.random.default_rng(seed)
    for _ in range(DRAWS):
        many, length = rng.integers(3, 7, endpoint=True), rng.integers(2, 9, endpoint=True)
        chosen = [np.sort(rng.choice(len(adult.NAMES), length, replace=False)) for _ in range(many)]
        yield list(dict.fromkeys(tuple(adult.NAMES[i] for i in places) for places in chosen))


@dataclass(frozen=True)
class Pair:
    """The error under several sets of identifiers, and under the one that unites them."""

    seed: int
    length: int
    variant: str
    several: float
    united: float


def _several(raw: pd.DataFrame, frame: pd.DataFrame, judge: Judge, folder: Path) -> dict[str, str]:
    pairs = []
    for seed in SEEDS:
        for sets in drawn(seed):
            union = tuple(name for name in adult.NAMES if any(name in names for names in sets))
            for variant, how in VARIANTS.items() if seed == SEEDS[0] else [("score", {})]:
                several, united = (
                    judge.tree(_seen(_released(frame, adult.policy(s, MULTI_K), **how))) for s in (sets, [union])
                )
                pairs.append(Pair(seed, len(sets[0]), variant, several, united))
    plain = [pair for pair in pairs if pair.variant == "score"]
    short = [(pair.several, pair.united) for pair in plain if pair.length <= 5]
    long = [(pair.several, pair.united) for pair in plain if pair.length > 5]
    every = [e for p in plain for e in (p.several, p.united)]
    picture = plots.scatter(
        f"Several identifiers against the one that unites them, k = {MULTI_K}: above the line several are better",
        ("error in percent, several", "error in percent, one united"),
        [
            plots.Dots("sets of 2 to 5 attributes", short, plots.COLOURS[0]),
            plots.Dots("sets of 6 to 9 attributes", long, plots.COLOURS[1], hollow=True),
        ],
        (int(min(every)), int(max(every)) + 1),
    )
    page.write(folder / "tds-several.svg", picture)
    return {"several": _several_table(pairs)}


def _several_table(pairs: Sequence[Pair]) -> str:
    def row(what: str, chosen: Sequence[Pair]) -> list[object]:
        better = sum(p.several < p.united for p in chosen)
        worse = sum(p.several > p.united for p in chosen)
        means = fmean(p.several for p in chosen), fmean(p.united for p in chosen)
        return [what, len(chosen), better, worse, len(chosen) - better - worse, *means]

    plain = [p for p in pairs if p.variant == "score"]
    rows = [
        *(row(f"seed {seed}", [p for p in plain if p.seed == seed]) for seed in SEEDS),
        row("all, sets of 2 to 5", [p for p in plain if p.length <= 5]),
        row("all, sets of 6 to 9", [p for p in plain if p.length > 5]),
        *(
            row(f"seed {SEEDS[0]}, {variant}", [p for p in pairs if p.variant == variant])
            for variant in VARIANTS
            if variant != "score"
        ),
    ]
    header = ["requirements", "number", "better", "worse", "equal", "mean AE, several", "mean AE, united"]
    return page.table(header, rows)


# Section 6.2: Figure 8


def _folds(frame: pd.DataFrame, folder: Path) -> dict[str, str]:
    """Ten folds on the training records and the attributes of the genetic algorithm; the cut is learned without the fold."""
    frame = frame[[*GENETIC, adult.CLASS]]
    truth = (frame[adult.CLASS] == adult.RICH).to_numpy()
    errors: dict[tuple[str, int], list[float]] = {}
    base, upper = [], []
    for learn, judge in StratifiedKFold(10, shuffle=True, random_state=0).split(frame, truth):
        known, later = frame.iloc[learn], frame.iloc[judge]
        both = Judge(np.concatenate([truth[learn], truth[judge]]), len(learn))
        base.append(both.tree(pd.concat([known, later])[list(GENETIC)]))
        upper.append(100 * float(truth[judge].mean()))  # nothing is known but that most earn less
        for k in GENETIC_KS:
            for variant, how in VARIANTS.items():
                release = _released(known, adult.policy([GENETIC], k, keep=False), **how)
                table = pd.concat([_seen(release), _applied(release, later)])
                errors.setdefault((variant, k), []).append(both.tree(table))
    means = {key: fmean(values) for key, values in errors.items()}
    series = [
        plots.Line("BE", [fmean(base)] * len(GENETIC_KS), plots.INK, dashed=True),
        *(
            plots.Line(variant, [means[variant, k] for k in GENETIC_KS], colour)
            for variant, colour in zip(VARIANTS, plots.COLOURS, strict=False)
        ),
        plots.Line("UE", [fmean(upper)] * len(GENETIC_KS), plots.INK, dashed=True),
    ]
    title = "Adult, eight attributes, ten folds: error of the pruned decision tree"
    picture = plots.lines(
        title, ("k", "error in percent"), GENETIC_KS, series, (int(fmean(base)), int(fmean(upper)) + 1)
    )
    page.write(folder / "tds-folds.svg", picture)
    header = ["error in percent", *VARIANTS]
    wide = len(VARIANTS)
    rows: list[list[object]] = [["BE, nothing generalized", *[fmean(base)] * wide]]
    rows += [[f"AE, k = {k}", *(means[variant, k] for variant in VARIANTS)] for k in GENETIC_KS]
    rows.append(["UE, all of them removed", *[fmean(upper)] * wide])
    return {"folds": page.table(header, rows)}


def _applied(release: shoal.Release, later: pd.DataFrame) -> pd.DataFrame:
    out: pd.DataFrame = release.recoding.apply(later, nearest=True)
    return out[list(GENETIC)]
