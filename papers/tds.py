"""Top-down specialization on Adult, as in section 6 of its paper: data quality, several attribute sets, ten folds.

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
class Classifiers:
    """The errors of both classifiers on tables with the same records; every error is computed once."""

    truth: Bools
    train: int
    errors: dict[tuple[bytes, str], float] = field(default_factory=dict)

    def tree(self, table: pd.DataFrame) -> float:
        """Return the error of the decision tree in percent."""
        key = (_hash(table), "tree")
        if key not in self.errors:
            self.errors[key] = tree_error(table, self.truth, self.train)
        return self.errors[key]

    def bayes(self, table: pd.DataFrame, cuts: str = CUTS[0]) -> float:
        """Return the error of naive Bayes in percent."""
        key = (_hash(table), cuts)
        if key not in self.errors:
            self.errors[key] = bayes_error(table, self.truth, self.train, cuts)
        return self.errors[key]


def _hash(table: pd.DataFrame) -> bytes:
    names = ",".join(table.columns).encode()
    return hashlib.sha256(names + pd.util.hash_pandas_object(table, index=False).to_numpy().tobytes()).digest()


def make(folder: Path) -> None:
    """Update the page of this paper and its plots."""
    frame = adult.rows()
    truth = (frame[adult.CLASS] == adult.RICH).to_numpy()
    classifiers = Classifiers(truth, adult.TRAIN)
    raw = frame[list(adult.NAMES)]
    parts: dict[str, str] = {"versions": f"Made with scikit-learn {sklearn.__version__}."}
    for name, experiment in (("one attribute set", _run_tops), ("several attribute sets", _run_several)):
        begun = time.perf_counter()
        parts |= experiment(raw, frame, classifiers, folder)
        print(f"{name}: {time.perf_counter() - begun:.0f} s")
    begun = time.perf_counter()
    parts |= _run_folds(frame.iloc[: adult.TRAIN], folder)
    print(f"folds: {time.perf_counter() - begun:.0f} s")
    home = folder / "tds.md"
    page.write(home, page.fill(home.read_text(encoding="utf-8"), parts))


def _release(frame: pd.DataFrame, policy: shoal.Policy, **parameters: Any) -> shoal.Release:
    release = shoal.anonymize(frame, policy, method="tds", seed=1, **parameters)
    if len(release.frame) != len(frame):
        raise RuntimeError("The release suppressed records, so the test rows cannot be identified.")
    return release


def _select_columns(release: shoal.Release) -> pd.DataFrame:
    """Return the columns for a classifier, in the order of the original table."""
    out: pd.DataFrame = release.frame
    return out[[name for name in adult.NAMES if name in out]]


# Section 6.1, one attribute set: Figures 5 and 6


def _run_tops(raw: pd.DataFrame, frame: pd.DataFrame, classifiers: Classifiers, folder: Path) -> dict[str, str]:
    slowest = 0.0
    found: dict[tuple[str, str, int], shoal.Release] = {}
    for top, names in TOPS.items():
        for k in KS:
            for variant, parameters in VARIANTS.items():
                begun = time.perf_counter()
                found[variant, top, k] = _release(frame, adult.policy([names], k), **parameters)
                slowest = max(slowest, time.perf_counter() - begun)
    print(f"The slowest of {len(found)} releases took {slowest:.2f} s.")
    bare = {top: raw.drop(columns=list(names)) for top, names in TOPS.items()}
    tree = {key: classifiers.tree(_select_columns(release)) for key, release in found.items()}
    bayes = {key: classifiers.bayes(_select_columns(release)) for key, release in found.items()}
    for name, judged, base, upper in (
        ("tree", tree, classifiers.tree(raw), {top: classifiers.tree(table) for top, table in bare.items()}),
        ("bayes", bayes, classifiers.bayes(raw), {top: classifiers.bayes(table) for top, table in bare.items()}),
    ):
        plain = {top: [judged["score", top, k] for k in KS] for top in TOPS}
        page.write(folder / f"tds-{name}.svg", _error_picture(name, base, upper, plain))
    return {
        "tree": _error_table(classifiers.tree(raw), {t: classifiers.tree(b) for t, b in bare.items()}, tree, found),
        "bayes": _error_table(classifiers.bayes(raw), {t: classifiers.bayes(b) for t, b in bare.items()}, bayes, None),
        "bayes-cuts": _cuts_table(raw, classifiers, found),
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
    classifier = {"tree": "pruned decision tree", "bayes": "naive Bayes"}[name]
    series = [plots.Line("BE", [base] * len(KS), plots.INK, dashed=True)]
    for colour, (top, errors) in zip(plots.COLOURS, plain.items(), strict=False):
        series.append(plots.Line(top, errors, colour))
        series.append(plots.Line(f"UE of {top}", [upper[top]] * len(KS), colour, dashed=True))
    ends = (int(min(base, *map(min, plain.values()))), int(max(upper.values())) + 1)
    title = f"Adult, {classifier}: error on 15,060 test records after top-down specialization"
    return plots.lines(title, ("k", "error in percent"), KS, series, ends)


def _cuts_table(raw: pd.DataFrame, classifiers: Classifiers, found: dict[tuple[str, str, int], shoal.Release]) -> str:
    def rows() -> Iterator[list[object]]:
        for cuts in CUTS:
            base = classifiers.bayes(raw, cuts)
            most = [
                max(classifiers.bayes(_select_columns(found["score", top, k]), cuts) for k in KS) - base for top in TOPS
            ]
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


# Section 6.1, several attribute sets: Figure 7


def draw_sets(seed: int) -> Iterator[list[tuple[str, ...]]]:
    """Draw random requirements: 3 to 7 sets of equal length, 2 to 9 attributes; a repeated set is dropped."""
    rng = np.random.default_rng(seed)
    for _ in range(DRAWS):
        many, length = rng.integers(3, 7, endpoint=True), rng.integers(2, 9, endpoint=True)
        chosen = [np.sort(rng.choice(len(adult.NAMES), length, replace=False)) for _ in range(many)]
        yield list(dict.fromkeys(tuple(adult.NAMES[i] for i in places) for places in chosen))


@dataclass(frozen=True)
class Pair:
    """The error with several attribute sets, and with their union as one set."""

    seed: int
    length: int
    variant: str
    several: float
    united: float


def _run_several(raw: pd.DataFrame, frame: pd.DataFrame, classifiers: Classifiers, folder: Path) -> dict[str, str]:
    pairs = []
    for seed in SEEDS:
        for sets in draw_sets(seed):
            union = tuple(name for name in adult.NAMES if any(name in names for names in sets))
            for variant, parameters in VARIANTS.items() if seed == SEEDS[0] else [("score", {})]:
                several, united = (
                    classifiers.tree(_select_columns(_release(frame, adult.policy(s, MULTI_K), **parameters)))
                    for s in (sets, [union])
                )
                pairs.append(Pair(seed, len(sets[0]), variant, several, united))
    plain = [pair for pair in pairs if pair.variant == "score"]
    short = [(pair.several, pair.united) for pair in plain if pair.length <= 5]
    long = [(pair.several, pair.united) for pair in plain if pair.length > 5]
    every = [e for p in plain for e in (p.several, p.united)]
    picture = plots.scatter(
        f"Several attribute sets against their union, k = {MULTI_K}: above the line several sets are better",
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


def _run_folds(frame: pd.DataFrame, folder: Path) -> dict[str, str]:
    """Run ten folds on the training records and the attributes of the genetic algorithm; the test fold is not in the search."""
    frame = frame[[*GENETIC, adult.CLASS]]
    truth = (frame[adult.CLASS] == adult.RICH).to_numpy()
    errors: dict[tuple[str, int], list[float]] = {}
    base, upper = [], []
    for learn, test in StratifiedKFold(10, shuffle=True, random_state=0).split(frame, truth):
        train, later = frame.iloc[learn], frame.iloc[test]
        both = Classifiers(np.concatenate([truth[learn], truth[test]]), len(learn))
        base.append(both.tree(pd.concat([train, later])[list(GENETIC)]))
        upper.append(100 * float(truth[test].mean()))  # the error of the constant most frequent class
        for k in GENETIC_KS:
            for variant, parameters in VARIANTS.items():
                release = _release(train, adult.policy([GENETIC], k, keep=False), **parameters)
                table = pd.concat([_select_columns(release), _apply(release, later)])
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


def _apply(release: shoal.Release, later: pd.DataFrame) -> pd.DataFrame:
    out: pd.DataFrame = release.recoding.apply(later, nearest=True)
    return out[list(GENETIC)]
