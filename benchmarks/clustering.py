"""Clusters: k-member exact and in parts on growing tables, the polish, microaggregation, and small tables for the peers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import shoal
from benchmarks.blowup import blow_up
from benchmarks.cases import QUASI, adult_policy, adult_rows, forget_peak, peak_mb, tight_ncp, timed
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.engines.keyed_hash import KeyedHash

K = 10
SECRET = KeyedHash.of(1)
PART = 10_000
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
FEW = 3_000  # rows for the peers


def policy() -> shoal.Policy:
    """The eight attributes of the k-member paper with their trees."""
    trees = shoal.datasets.adult_taxonomies()
    quasi = {name: {"taxonomy": trees[name]} if name in trees else "numeric" for name in QUASI}
    return shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(K)])


def decided(codes: Codes, method: shoal.Method, runs: int = 1) -> tuple[Any, float, float]:
    """A method after the codes are made; the keyed order of the cells is made anew in every run."""
    return timed(lambda: method.decide(replace(codes), rng=np.random.default_rng(0), progress=lambda *_: None), runs)


def total_il(codes: Codes, decision: Any) -> float:
    """Total-IL, Definition 8."""
    pairs = enumerate(codes.attributes)
    loss = sum(a.distance(decision.lo[:, j], decision.hi[:, j]) for j, a in pairs)
    return float((decision.size() * loss).sum())


def blown(scale: int) -> Codes:
    """The codes of a blow-up of the clean rows."""
    rows = adult_rows()
    frame = pd.DataFrame(blow_up({name: rows[name].to_numpy() for name in QUASI}, scale, 0))
    return encode_and_count(open_data(frame), policy(), hash=SECRET)[0]


def clusters(scale: int, exact: bool) -> dict[str, Any]:
    """K-member on a blow-up: exact, and in parts."""
    codes, asked = blown(scale), policy()
    few = encode_and_count(open_data(adult_rows().head(500)), asked, hash=SECRET)[0]
    for given in ({}, {"part": 100}):  # compiles
        decided(few, shoal.tables.KMember(asked, **given))
    found: dict[str, Any] = {"rows": codes.records, "cells": len(codes.quasi)}
    runs = 5 if scale == 1 else 1
    if exact:
        forget_peak()
        before = peak_mb()
        decision, found["wall"], found["cpu"] = decided(codes, shoal.tables.KMember(asked), runs)
        found |= {"il": total_il(codes, decision), "memory": 1 + (peak_mb() - before) * 1e6 / codes.quasi.nbytes}
    decision, found["part_wall"], _ = decided(codes, shoal.tables.KMember(asked, part=PART), runs)
    found["part_il"] = total_il(codes, decision)
    return found


def polish() -> dict[str, Any]:
    """What `improve` gains on Adult, and how long a release with and without it takes."""
    frame, asked = adult_rows(), policy()
    shoal.anonymize(frame.head(500), asked, method="kmember", improve=True, seed=1)  # compiles
    release, wall, _ = timed(lambda: shoal.anonymize(frame, asked, method="kmember", improve=True, seed=1))
    _, plain, _ = timed(lambda: shoal.anonymize(frame, asked, method="kmember", seed=1))
    return {"wall": wall - plain, "gain": release.measures["improved"]}


def microaggregation() -> dict[str, Any]:
    """MDAV on the six numbers of the clean rows."""
    frame = adult_rows()
    asked = shoal.Policy(quasi=dict.fromkeys(NUMERIC, "numeric"), require=[shoal.KAnonymity(K)])
    codes = encode_and_count(open_data(frame), asked, hash=SECRET)[0]
    decision, wall, cpu = decided(codes, shoal.tables.MDAV(asked), 5)
    return {"wall": wall, "cpu": cpu, "groups": len(decision.lo), "rows": codes.records}


def small(out: Path) -> dict[str, Any]:
    """A few rows without trees, as the peers take them; leaves ``few.csv`` in ``out``."""
    frame, asked = adult_rows().head(FEW), adult_policy(K)
    frame.to_csv(out / "few.csv", index=False)
    codes = encode_and_count(open_data(frame), asked, hash=SECRET)[0]
    found: dict[str, Any] = {}
    for name, method in (
        ("kmember", shoal.tables.KMember),
        ("knn", shoal.tables.KNearest),
        ("mdav", shoal.tables.MDAV),
    ):
        decided(codes, method(asked))  # compiles
        decision, found[name], _ = decided(codes, method(asked), 3)
        found[f"{name}_ncp"] = tight_ncp(frame.reset_index(drop=True), _groups(codes, decision))
    return found


def _groups(codes: Codes, decision: Any) -> np.ndarray:
    """The group of every row; equal rows are interchangeable."""
    place, row = decision.placement, codes.counts.row
    assert row is not None
    group = np.empty(len(row), np.int64)
    group[np.argsort(row, kind="stable")] = np.repeat(place.group, place.weight)
    return group


def clustering(name: str, rows: int, out: Path) -> dict[str, Any]:
    """One case by name; ``rows`` is the scale of a blow-up."""
    if name == "exact":
        return clusters(rows, True)
    if name == "parts":
        return clusters(rows, False)
    return {"polish": polish, "microaggregation": microaggregation, "small": lambda: small(out)}[name]()
