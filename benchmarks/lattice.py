"""Full-domain generalization of Adult: the optimum of the lattice of levels, and the work of the search."""

from __future__ import annotations

import numpy as np
import pandas as pd

import shoal
from benchmarks.blowup import blow_up
from benchmarks.cases import adult_rows, measure_time
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.tables import FullDomain, KOptimize

QUASI = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country")
CUT_QUASI = tuple("education-num" if name == "education" else name for name in QUASI)
AGES = (1, 5, 10, 20, 40)  # widths in years


def lattice_policy(k: int, suppress: float) -> shoal.Policy:
    """Return the policy with the trees of Adult: a lattice of 54,000 nodes."""
    trees = shoal.datasets.adult_taxonomies()
    quasi = {name: {"widths": AGES} if name == "age" else {"taxonomy": trees[name]} for name in QUASI}
    return shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(k)], suppress=suppress)


def lattice(case: str, k: int) -> dict[str, float]:
    """Search 30,162 rows of Adult, or their blow-up of one million rows, after the codes are made."""
    frame, policy = adult_rows(), lattice_policy(k, 0.02)
    if case == "million":
        whole = shoal.datasets.adult("all", drop_missing=True, kind="pandas")
        frame = pd.DataFrame(blow_up({name: whole[name].to_numpy() for name in QUASI}, 22, 0))
    codes, _ = encode_and_count(open_data(frame), policy)
    method = FullDomain(policy)

    def decide() -> None:
        method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None)

    if case != "million":
        decide()  # compiles the kernels
    _, wall, cpu = measure_time(decide, runs=1 if case == "million" else 5)
    found = method.lattice_
    assert found.chosen is not None
    best = found.find(found.chosen)
    return {
        "wall": wall,
        "cpu": cpu,
        "rows": len(frame),
        "cells": len(codes.quasi),
        "nodes": found.size,
        "checked": found.checked,
        "tagged": found.tagged,
        "pruned": found.pruned,
        "loss": float(best.loss or 0.0),
        "suppressed": float(best.suppressed or 0),
    }


def cut_points(k: int) -> dict[str, float]:
    """Cut the ordered values of Adult by the classification metric; every suppressed record counts one."""
    trees = shoal.datasets.adult_taxonomies()
    quasi = {name: {"taxonomy": trees[name]} if name in trees else "numeric" for name in CUT_QUASI}
    policy = shoal.Policy(quasi=quasi, target="income", require=[shoal.KAnonymity(k)], suppress=1.0)
    codes, _ = encode_and_count(open_data(adult_rows()), policy, extra=("income",))
    method = KOptimize(policy, objective="cm")
    few = KOptimize(policy, objective="cm", seconds=0.01)
    few.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None)  # compiles the kernels

    def decide() -> None:
        method.decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None)

    _, wall, cpu = measure_time(decide, runs=1)
    return {"wall": wall, "cpu": cpu, "cm": round(method.cost_ * codes.records), "gap": method.gap_}
