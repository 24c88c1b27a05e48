"""Full-domain generalization of Adult: the optimum of the lattice of levels, and the work of the search."""

from __future__ import annotations

import numpy as np
import pandas as pd

import shoal
from benchmarks.blowup import blow_up
from benchmarks.cases import adult_rows, measure_time
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.tables import FullDomain

QUASI = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country")
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
