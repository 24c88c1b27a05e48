"""Greedy k-member clustering on Adult, as in section 6 of its paper: loss, classes, diversity, time, cardinality.

J.-W. Byun, A. Kamra, E. Bertino, N. Li: Efficient k-anonymization using clustering techniques. DASFAA 2007.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

import shoal
from papers import adult, page, plots
from papers.lab import QUASI, Lab, Run, Setting, build_policy
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.kernels.interface import LAST, Penalties
from shoal.pipeline.clustering import ClusteringInput
from shoal.tables.cluster_search import ClusterSearch

KS = (2, 5, 10, 25, 50, 75, 100, 150, 200, 300, 500)
CLASS_PENALTY, EQUAL_PENALTY, SENSITIVE_PENALTY = 5, 0.25, 2
CLASS_PENALTIES = (0.5, 1, 2, 5, 10, 100)
EQUAL_PENALTIES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1)
SENSITIVE_PENALTIES = (0.1, 0.25, 0.5, 1, 2, 5, 100)
DIVERSE_KS = (5, 10, 25, 50, 100)
SEEDS = range(5)
HOME = "United-States"
NUMBERS = tuple(name for name in QUASI if name in adult.NUMBERS)
TREES = tuple(name for name in QUASI if name not in NUMBERS)
ORDERS = {
    "the paper's": QUASI,
    "reversed": QUASI[::-1],
    "numbers first": (*NUMBERS, *TREES),
    "numbers last": (*TREES, *NUMBERS),
}
IMPROVED_KS = (10, 50, 100)
PARTS = (1_000, 3_000, 10_000)
SIZES = (5_000, 10_000, 15_000, 20_000, 25_000, 30_000)
SHOWN = {"il": "Total-IL", "dm": "discernibility", "cm_sum": "CM", "ed": "ED", "sd": "SD", "seconds": "seconds"}


BOUND = shoal.ConfidenceBound(0.999, of=adult.CLASS, values=[adult.RICH])  # one record of another class, up to k = 1000
DIVERSE = shoal.LDiversity(2, of=adult.CLASS)
LOSS = {"objective": "il"}  # the paper's information loss
KMEMBER = Setting("kmember", LOSS)
SETTINGS = {
    "median": Setting("mondrian", {"cut": "median"}),
    "reversed": Setting("mondrian", {"cut": "median"}, order=QUASI[::-1]),
    "gain": Setting("mondrian"),
    "knn": Setting("knn", LOSS),
    "k-member": KMEMBER,
    "class": KMEMBER.replace(target_penalty=CLASS_PENALTY),
    "equal": KMEMBER.replace(diversity="equal", diversity_penalty=EQUAL_PENALTY),
    "sensitive": KMEMBER.replace(diversity="sensitive", diversity_penalty=SENSITIVE_PENALTY),
    "bound": Setting("kmember", LOSS, more=(BOUND,)),
    "target": Setting("mondrian", {"cut": "target"}),
}
OTHERS = ("median", "reversed", "gain", "knn")
PLAIN = (*OTHERS, "k-member")
IMPROVED = {name: SETTINGS[name].replace(**LOSS) for name in PLAIN if name != "reversed"}
IMPROVED |= {"mdav": Setting("mdav", {"write": "label", **LOSS}), "tds": Setting("tds", LOSS)}
COLUMNS = {
    "il": (*PLAIN, "class", "equal", "sensitive", "bound"),
    "dm": (*PLAIN, "class"),
    "cm_sum": (*PLAIN, "class", "target"),
    "ed": (*PLAIN, "equal", "sensitive", "bound"),
    "sd": (*PLAIN, "equal", "sensitive", "bound"),
    "seconds": (*PLAIN, "class", "equal", "sensitive"),
}
HUES = dict(zip(("median", "gain", "knn", "k-member", "class", "equal", "sensitive"), plots.COLOURS, strict=True))
HUES |= {"reversed": HUES["median"], "bound": plots.INK, "target": plots.INK}


def make(folder: Path) -> None:
    """Update the page of this paper and its plots."""
    frame = adult.rows().iloc[: adult.TRAIN][[*QUASI, adult.CLASS]]
    few = Lab(frame.iloc[:2_000])
    for setting in (*SETTINGS.values(), *IMPROVED.values()):  # compiles the kernels
        few.run(setting.replace(improve=setting in IMPROVED.values()), 10)
    lab = Lab(frame)
    parts: dict[str, str] = {}
    experiments: Sequence[Callable[[Lab, Path], dict[str, str]]] = (
        _compare_methods,
        _explain_loss,
        _vary_class_penalty,
        _vary_sensitive_penalty,
        _vary_equal_penalty,
        _vary_seed_and_order,
        _compare_local_search,
        _vary_part_size,
        _vary_table_size,
    )
    for experiment in experiments:
        begun = time.perf_counter()
        parts |= experiment(lab, folder)
        name = experiment.__name__.strip("_").replace("_", " ")
        print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    home = folder / "kmember.md"
    page.write(home, page.fill(home.read_text(encoding="utf-8"), parts))


# Figures 9 to 14: every method at every k


def _compare_methods(lab: Lab, folder: Path) -> dict[str, str]:
    found = {(name, k): lab.run(setting, k, times=2) for k in KS for name, setting in SETTINGS.items()}
    parts = {}
    for figure, names in COLUMNS.items():
        digits = 3 if figure == "seconds" else 0
        rows = [[k, *(f"{found[name, k][figure]:,.{digits}f}" for name in names)] for k in KS]
        parts[figure.replace("_", "-")] = page.table([f"{SHOWN[figure]}, k", *names], rows)
    _draw_plots(found, folder)
    loss = {key: run["il"] for key, run in found.items()}
    parts |= {"winners": _build_winners_table(loss), "winners-said": _describe_winners(loss)}
    lowest = all(found["class", k]["cm_sum"] < min(found[n, k]["cm_sum"] for n in (*PLAIN, "target")) for k in KS)
    behind = [k for k in KS if found["k-member", k]["cm_sum"] >= found["median", k]["cm_sum"]]
    parts["cm-said"] = (
        f"The variant for classes has the lowest CM of all {'at every k' if lowest else 'at some k only'}. "
        f"Plain k-member has a lower CM than `median` {'at every k' if not behind else f'except at {format_ks(behind)}'}."
    )
    return parts


def _build_winners_table(loss: Mapping[tuple[str, int], float]) -> str:
    def row(k: int) -> list[object]:
        best = min(PLAIN, key=lambda name: loss[name, k])
        others = [format_change(loss["k-member", k], loss[name, k]) for name in OTHERS]
        return [k, best, *others, format_change(loss["class", k], loss["k-member", k])]

    header = [
        "k",
        "least Total-IL",
        *(f"k-member against {name}, %" for name in OTHERS),
        "class against k-member, %",
    ]
    return page.table(header, [row(k) for k in KS])


def _describe_winners(loss: Mapping[tuple[str, int], float]) -> str:
    best = {k: min(PLAIN, key=lambda name: loss[name, k]) for k in KS}
    winners = [f"{name} at {format_ks(k for k in KS if best[k] == name)}" for name in dict.fromkeys(best.values())]
    ahead = {name: [k for k in KS if loss["k-member", k] < loss[name, k]] for name in OTHERS}
    ahead_of = [f"`{name}` at {'every k' if len(ks) == len(KS) else format_ks(ks)}" for name, ks in ahead.items()]
    return f"Least Total-IL: {', '.join(winners)}. k-member has a lower loss than {', '.join(ahead_of)}."


def _draw_plots(found: Mapping[tuple[str, int], Run], folder: Path) -> None:
    def draw(
        file: str, title: str, unit: str, names: Sequence[str], of: Callable[[str, int], float], **axis: Any
    ) -> None:
        series = {name: [of(name, k) for k in KS] for name in names}
        page.write(folder / f"kmember-{file}.svg", draw_lines(title, ("k", unit), KS, series, **axis))

    def figure(name: str, unit: float = 1) -> Callable[[str, int], float]:
        return lambda setting, k: found[setting, k][name] / unit

    def relative(setting: str, k: int) -> float:
        return 100 * found[setting, k]["il"] / found["k-member", k]["il"]

    most = COLUMNS["dm"]
    draw("il", "Adult, 30,162 records: Total-IL", "Total-IL, thousands", most, figure("il", 1e3), step=20)
    draw("relative", "Total-IL in percent of k-member's", "percent", most, relative, step=20)
    draw("dm", "Discernibility", "discernibility, millions", most, figure("dm", 1e6), log=True)
    draw(
        "cm",
        "Classification metric: records not of their group's class",
        "CM",
        COLUMNS["cm_sum"],
        figure("cm_sum"),
        step=1000,
    )
    draw("time", "Time to decide, after the codes are made", "seconds", most, figure("seconds"), log=True)
    title = "Equal diversity: records in groups of one value"
    draw("ed", title, "ED, thousands", (*PLAIN, "equal"), figure("ed", 1e3), step=2)
    title = "Sensitive diversity: records in groups where all earn more than 50K"
    draw("sd", title, "SD", (*PLAIN, "sensitive", "bound"), figure("sd"), step=500)
    cost = COLUMNS["il"][4:]
    draw("cost", "What the variants cost: Total-IL in percent of k-member's", "percent", cost, relative, step=20)


# The loss by attribute and by cluster


def _explain_loss(lab: Lab, folder: Path) -> dict[str, str]:
    def rows() -> Iterator[list[object]]:
        for k in (10, 100):
            for name in PLAIN:
                columns = lab.run(SETTINGS[name], k).measures.columns
                yield [k, name, *(columns[attribute]["height"] for attribute in QUASI)]

    quarters = {k: split_clusters(lab.frame, k) for k in (10, 50, 100, 500)}
    order = [[f"Total-IL, k = {k}", *(f"{q.loss:.0f}" for q in four)] for k, four in quarters.items()]
    order += [
        [f"seeds from other countries, k = {k}", *(f"{q.elsewhere:.0f}" for q in four)] for k, four in quarters.items()
    ]
    header = ["percent", "first quarter of the clusters", "second", "third", "last"]
    elsewhere = 100 * (lab.frame["native-country"] != HOME).mean()
    text = f"In the whole table {elsewhere:.0f} % of the people are not from the United States."
    return {
        "attributes": page.table(["k", "method", *QUASI], rows()),
        "order": page.table(header, order),
        "order-said": text,
    }


@dataclass(frozen=True)
class Quarter:
    """A quarter of the clusters: its percentage of Total-IL, and the percentage of its seeds from outside the United States."""

    loss: float
    elsewhere: float


def split_clusters(frame: pd.DataFrame, k: int, pieces: int = 4) -> list[Quarter]:
    """Return the figures of k-member's clusters by quarters, in the order of the search."""
    policy = build_policy(k)
    codes = encode_and_count(open_data(frame), policy)[0]
    records = ClusteringInput.of(codes, policy, np.ones(len(QUASI)))
    cell, group = ClusterSearch(LAST, True, Penalties.none()).run(records, np.random.default_rng(0), lambda done: None)
    groups = int(group.max()) + 1
    piece = group * pieces // groups
    losses = [records.total_loss(cell[piece == i], group[piece == i]) for i in range(pieces)]
    place = QUASI.index("native-country")
    tree = codes.attributes[place].taxonomy
    home = -1 if tree is None else tree.code[HOME]
    seed = np.unique(group, return_index=True)[1]  # the first record of a cluster
    away = [float((records.rows[cell[seed[piece[seed] == i]], place] != home).mean()) for i in range(pieces)]
    return [Quarter(100 * loss / sum(losses), 100 * part) for loss, part in zip(losses, away, strict=True)]


# Sections 5.1 and 5.2: penalties, and guarantees beside them


def _vary_class_penalty(lab: Lab, folder: Path) -> dict[str, str]:
    def rows() -> Iterator[list[object]]:
        for price in (0, *CLASS_PENALTIES):
            runs = {k: lab.run(KMEMBER.replace(target_penalty=price) if price else KMEMBER, k) for k in (5, 50)}
            cells = [
                (f"{r['cm_sum']:,.0f}", f"{r['il']:,.0f}", format_change(r["il"], lab.loss(KMEMBER, k)))
                for k, r in runs.items()
            ]
            yield [price, *(cell for three in cells for cell in three)]

    names = ("CM", "Total-IL", "more, %")
    plain, best = (lab.run(SETTINGS[name], 5) for name in ("k-member", "class"))
    light = lab.run(KMEMBER.replace(target_penalty=1), 5)
    change, light_change = (format_change(run["il"], plain["il"]) for run in (best, light))
    text = (
        f"At k = 5 a penalty of {CLASS_PENALTY} reduces CM from {plain['cm_sum']:,.0f} to {best['cm_sum']:,.0f}; "
        f"Total-IL changes by {change} %. Clusters with the same labels are one group in these figures. Counted by "
        f"clusters, CM is {light.minority:,} with a penalty of 1 (Total-IL {light_change} %) and {best.minority:,} with a "
        f"penalty of {CLASS_PENALTY}."
    )
    return {
        "classes": page.table(["penalty", *(f"{name}, k = {k}" for k in (5, 50) for name in names)], rows()),
        "classes-said": text,
    }


def _vary_sensitive_penalty(lab: Lab, folder: Path) -> dict[str, str]:
    settings: dict[str, Setting] = {"none": KMEMBER}
    settings |= {
        f"penalty {p}": KMEMBER.replace(diversity="sensitive", diversity_penalty=p) for p in SENSITIVE_PENALTIES
    }
    settings["guaranteed"] = SETTINGS["bound"]
    bound = [format_change(lab.loss(SETTINGS["bound"], k), lab.loss(KMEMBER, k)) for k in (5, 10)]
    strong = [lab.run(settings["penalty 100"], k) for k in (5, 10)]
    extra = [format_change(run["il"], lab.loss(KMEMBER, k)) for run, k in zip(strong, (5, 10), strict=True)]
    text = (
        f"With the guarantee SD is 0; Total-IL changes by {bound[0]} % for k = 5 and by {bound[1]} % for k = 10. With the "
        f"largest penalty alone SD is {strong[0]['sd']:,.0f} (Total-IL {extra[0]} %) for k = 5 and {strong[1]['sd']:,.0f} "
        f"({extra[1]} %) for k = 10."
    )
    return {"sensitive": _diversity_table(lab, "sd", settings), "sensitive-said": text}


def _vary_equal_penalty(lab: Lab, folder: Path) -> dict[str, str]:
    settings = {"none": KMEMBER}
    settings |= {f"penalty {p}": KMEMBER.replace(diversity="equal", diversity_penalty=p) for p in EQUAL_PENALTIES}
    percent = {
        f"{shown}, k = {k}": [
            100 * lab.run(setting, k)[name] / lab.run(KMEMBER, k)[name] for setting in settings.values()
        ]
        for k in (5, 10)
        for name, shown in (("il", "Total-IL"), ("ed", "ED"))
    }
    title = "Equal diversity: ED and Total-IL over the penalty, in percent of plain k-member's"
    drawing = draw_lines(title, ("penalty", "percent"), (0, *EQUAL_PENALTIES), percent, step=10)
    page.write(folder / "kmember-equal.svg", drawing)
    few, plain = (lab.run(SETTINGS[name], 5) for name in ("equal", "k-member"))
    text = (
        f"At k = 5 a penalty of {EQUAL_PENALTY} changes ED by {format_change(few['ed'], plain['ed'])} % and Total-IL by "
        f"{format_change(few['il'], plain['il'])} %."
    )
    header = [
        "Total-IL, k",
        "k-member",
        "2-diverse",
        "more, %",
        "improved",
        "gain",
        "gain, 2-diverse",
        "knn, 2-diverse",
    ]
    return {
        "equal": _diversity_table(lab, "ed", settings),
        "equal-said": text,
        "diverse": page.table(header, [_build_diverse_row(lab, k) for k in DIVERSE_KS]),
    }


def _diversity_table(lab: Lab, figure: str, settings: Mapping[str, Setting]) -> str:
    def rows() -> Iterator[list[object]]:
        for name, setting in settings.items():
            row: list[object] = [name]
            for k in (5, 10):
                run, plain = lab.run(setting, k), lab.run(KMEMBER, k)
                row += [
                    f"{run[figure]:,.0f}",
                    format_change(run[figure], plain[figure]),
                    format_change(run["il"], plain["il"]),
                ]
            yield row

    heads = (f"{SHOWN[figure]}, k =", f"change of {SHOWN[figure]}, %, k =", "change of Total-IL, %, k =")
    return page.table(["", *(f"{head} {k}" for k in (5, 10) for head in heads)], rows())


def _build_diverse_row(lab: Lab, k: int) -> list[object]:
    """Return the cost of a guarantee of two sensitive values in every group."""
    diverse = {
        name: Setting(SETTINGS[name].method, SETTINGS[name].parameters, (DIVERSE,))
        for name in ("k-member", "gain", "knn")
    }
    runs = {name: lab.run(setting, k) for name, setting in diverse.items()}
    if any(run["ed"] for run in runs.values()):
        raise RuntimeError("A release under 2-diversity has a group with one sensitive value.")
    plain, better = (
        lab.loss(KMEMBER, k),
        lab.loss(diverse["k-member"].replace(improve=True), k) if k in (10, 50) else None,
    )
    return [
        k,
        f"{plain:,.0f}",
        f"{runs['k-member']['il']:,.0f}",
        format_change(runs["k-member"]["il"], plain),
        "" if better is None else f"{better:,.0f}",
        f"{lab.loss(SETTINGS['gain'], k):,.0f}",
        f"{runs['gain']['il']:,.0f}",
        f"{runs['knn']['il']:,.0f}",
    ]


# The effect of the next seed, the first record and the order of the attributes


def _vary_seed_and_order(lab: Lab, folder: Path) -> dict[str, str]:
    rows = []
    for k in (5, 10, 50):
        last, seed = lab.loss(KMEMBER, k), lab.loss(KMEMBER.replace(furthest="seed"), k)
        rows.append([k, f"{last:,.0f}", f"{seed:,.0f}", format_change(seed, last)])
    losses = [lab.run(KMEMBER, 10, seed=seed)["il"] for seed in SEEDS]
    low, mean, high = min(losses), fmean(losses), max(losses)
    text = (
        f"Five random first records at k = 10 give a Total-IL of {low:,.0f} to {high:,.0f}, with a mean of {mean:,.0f}: a "
        f"spread of {100 * (high - low) / mean:.1f} %."
    )
    header = [
        "order of the attributes",
        *(f"{name}, k = {k}" for k in (10, 100) for name in ("median", "gain", "k-member")),
    ]
    return {
        "orders": page.table(header, [[name, *_list_losses(lab, order)] for name, order in ORDERS.items()]),
        "furthest": page.table(["k", "furthest from the last record", "from the last seed", "change, %"], rows),
        "seeds-said": text,
    }


def _list_losses(lab: Lab, order: tuple[str, ...]) -> Iterator[str]:
    for k in (10, 100):
        for name in ("median", "gain", "k-member"):
            yield f"{lab.loss(replace(SETTINGS[name], order=order), k):,.0f}"


# Beyond the paper: local search, parts


def _compare_local_search(lab: Lab, folder: Path) -> dict[str, str]:
    after = {(n, k): lab.run(setting.replace(improve=True), k) for k in IMPROVED_KS for n, setting in IMPROVED.items()}
    rows = []
    for (name, k), run in after.items():
        before = lab.loss(IMPROVED[name], k)
        gain = f"{100 * (1 - run['il'] / before):.1f}"
        rows.append([k, name, f"{before:,.0f}", f"{run['il']:,.0f}", gain, f"{run.improve_seconds:.1f}"])
    best = {k: min(IMPROVED, key=lambda name: after[name, k]["il"]) for k in IMPROVED_KS}
    gained = [100 * (1 - after["k-member", k]["il"] / lab.loss(KMEMBER, k)) for k in IMPROVED_KS]
    text = (
        f"k-member's Total-IL falls by {gained[0]:.1f} % at k = 10, {gained[1]:.1f} % at k = 50 and {gained[2]:.1f} % at "
        f"k = 100. Least Total-IL afterwards: " + ", ".join(f"{best[k]} at k = {k}" for k in IMPROVED_KS) + "."
    )
    header = ["k", "method", "Total-IL before", "after", "fall, %", "seconds to improve"]
    return {"improved": page.table(header, rows), "improved-said": text}


def _vary_part_size(lab: Lab, folder: Path) -> dict[str, str]:
    def rows() -> Iterator[list[object]]:
        for k in (10, 50):
            exact = lab.run(KMEMBER, k)
            for part in (*PARTS, None):
                run = exact if part is None else lab.run(KMEMBER.replace(part=part), k, times=2)
                change = format_change(run["il"], exact["il"]) if part else ""
                yield [k, f"{part:,}" if part else "exact", f"{run['il']:,.0f}", change, run.seconds]

    return {"parts": page.table(["k", "part", "Total-IL", "change, %", "seconds"], rows())}


# Section 6.4: Figures 16 and 17


def _vary_table_size(lab: Lab, folder: Path) -> dict[str, str]:
    shuffled = lab.frame.iloc[np.random.default_rng(0).permutation(len(lab.frame))]
    labs = {size: Lab(shuffled.iloc[:size]) for size in SIZES}
    found = {(name, size): labs[size].run(SETTINGS[name], 5, times=2) for size in SIZES for name in PLAIN}
    for file, figure, title, unit, axis in (
        ("sizes-il", "il", "Total-IL over the number of records, k = 5", "Total-IL, thousands", {"step": 2}),
        ("sizes-time", "seconds", "Time over the number of records, k = 5", "seconds", {"log": True}),
    ):
        scale = 1000 if figure == "il" else 1
        series = {name: [found[name, size][figure] / scale for size in SIZES] for name in PLAIN}
        words = [f"{size:,}" for size in SIZES]
        page.write(folder / f"kmember-{file}.svg", draw_lines(title, ("records", unit), words, series, **axis))
    timed = [name for name in PLAIN if name != "reversed"]
    rows = [
        [
            f"{size:,}",
            *(f"{found[name, size]['il']:,.0f}" for name in PLAIN),
            *(f"{found[name, size].seconds:.3f}" for name in timed),
        ]
        for size in SIZES
    ]
    first, last = SIZES[0], SIZES[-1]
    grown = {n: log10(found[n, last].seconds / found[n, first].seconds) / log10(last / first) for n in PLAIN}
    others = {size: min(found[name, size]["il"] for name in OTHERS) for size in SIZES}
    least = all(found["k-member", size]["il"] < others[size] for size in SIZES)
    text = (
        f"k-member has the least Total-IL {'for every size' if least else 'for some sizes only'}. From {first:,} to {last:,} "
        f"records its time grows like n^{grown['k-member']:.1f}, the time of knn like n^{grown['knn']:.1f}, where n is the "
        f"number of records."
    )
    header = ["records", *(f"Total-IL, {name}" for name in PLAIN), *(f"seconds, {name}" for name in timed)]
    return {"sizes": page.table(header, rows), "sizes-said": text}


# Texts


def format_change(one: float, other: float) -> str:
    """Return the difference of a figure from another in percent.

    >>> format_change(110, 100), format_change(99.96, 100), format_change(0, 0)
    ('+10.0', '0.0', '0.0')
    """
    change = 100 * (one / other - 1) if other else 0.0
    return f"{change:+.1f}" if abs(change) >= 0.05 else "0.0"


def format_ks(some: Iterable[int]) -> str:
    """Return some values of k as text.

    >>> format_ks([10, 25, 50]), format_ks([2, 10]), format_ks([5])
    ('k = 10 to 50', 'k = 2, 10', 'k = 5')
    """
    ks = list(some)
    if len(ks) > 2 and tuple(ks) == KS[KS.index(ks[0]) :][: len(ks)]:
        return f"k = {ks[0]} to {ks[-1]}"
    return "k = " + ", ".join(map(str, ks)) if ks else "no k"


def draw_lines(
    title: str,
    axes: tuple[str, str],
    where: Sequence[object],
    series: Mapping[str, Sequence[float]],
    *,
    step: int = 1,
    log: bool = False,
) -> str:
    """Plot lines by name, with an axis that covers all values."""
    every = [value for values in series.values() for value in values]
    low, high = min(every), max(every)
    low, high = (log10(low), log10(high)) if log else (low / step, high / step)
    unit = 1 if log else step
    spare = iter(plots.COLOURS)
    drawn = [
        plots.Line(name, values, HUES.get(name) or next(spare), name == "reversed") for name, values in series.items()
    ]
    return plots.lines(title, axes, where, drawn, (floor(low) * unit, ceil(high) * unit), step=step, log=log)
