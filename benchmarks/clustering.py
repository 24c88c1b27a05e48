"""Clustering: k-member exact and in parts on growing tables, local search, microaggregation, and small tables for the peers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import shoal
from benchmarks.blowup import blow_up
from benchmarks.cases import QUASI, adult_policy, adult_rows, measure_time, peak_mb, reset_peak, tight_ncp
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.memory import list_record_cells
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.local_search import Improvement, improve_groups
from shoal.pipeline.method import Method

K = 10
SECRET = KeyedHash.of(1)
PART = 10_000
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
FEW = 3_000  # rows for the peers


def build_policy() -> shoal.Policy:
    """Return the policy with the eight attributes of the k-member paper and their taxonomies."""
    trees = shoal.datasets.adult_taxonomies()
    quasi = {name: {"taxonomy": trees[name]} if name in trees else "numeric" for name in QUASI}
    return shoal.Policy(quasi=quasi, require=[shoal.KAnonymity(K)])


def time_method(codes: Codes, method: Method, runs: int = 1) -> tuple[Any, float, float]:
    """Run a method on encoded rows, and return the grouping and its times; every run computes the keyed order of cells."""
    return measure_time(
        lambda: method.decide(replace(codes), rng=np.random.default_rng(0), progress=lambda *_: None), runs
    )


def total_il(codes: Codes, grouping: Any) -> float:
    """Return Total-IL, Definition 8."""
    pairs = enumerate(codes.attributes)
    loss = sum(a.distance(grouping.lo[:, j], grouping.hi[:, j]) for j, a in pairs)
    return float((grouping.size() * loss).sum())


def total_ncp(codes: Codes, grouping: Any) -> float:
    """Return the normalized certainty penalty, summed over records and attributes."""
    loss = sum(a.loss(grouping.lo[:, j], grouping.hi[:, j]) for j, a in enumerate(codes.attributes))
    return float((grouping.size() * loss).sum())


def encode_blow_up(scale: int) -> Codes:
    """Return the codes of a blow-up of the rows without missing values."""
    rows = adult_rows()
    frame = pd.DataFrame(blow_up({name: rows[name].to_numpy() for name in QUASI}, scale, 0))
    return encode_and_count(open_data(frame), build_policy(), hash=SECRET)[0]


def clusters(scale: int, exact: bool) -> dict[str, Any]:
    """Run k-member on a blow-up: exact, and in parts."""
    codes, policy = encode_blow_up(scale), build_policy()
    few = encode_and_count(open_data(adult_rows().head(500)), policy, hash=SECRET)[0]
    for given in ({}, {"part": 100}):  # compiles the kernels
        time_method(few, shoal.tables.KMember(policy, objective="il", **given))
    found: dict[str, Any] = {"rows": codes.records, "cells": len(codes.quasi)}
    runs = 5 if scale == 1 else 1
    if exact:
        reset_peak()
        before = peak_mb()
        grouping, found["wall"], found["cpu"] = time_method(codes, shoal.tables.KMember(policy, objective="il"), runs)
        found |= {"il": total_il(codes, grouping), "memory": 1 + (peak_mb() - before) * 1e6 / codes.quasi.nbytes}
    grouping, found["part_wall"], _ = time_method(codes, shoal.tables.KMember(policy, objective="il", part=PART), runs)
    found["part_il"] = total_il(codes, grouping)
    return found


def improve_blow_up(scale: int) -> dict[str, Any]:
    """Run the local search on the Mondrian groups of a blow-up; return its gain and its time."""
    policy = build_policy()
    few = encode_and_count(open_data(adult_rows().head(500)), policy, hash=SECRET)[0]
    _improve_mondrian(few, policy)  # compiles the kernels
    codes = encode_blow_up(scale)
    better, wall, cpu = _improve_mondrian(codes, policy)
    return {"rows": codes.records, "wall": wall, "cpu": cpu, "gain": better.relative_gain}


def _improve_mondrian(codes: Codes, policy: shoal.Policy) -> tuple[Improvement, float, float]:
    grouping = shoal.tables.Mondrian(policy).decide(codes, rng=np.random.default_rng(0), progress=lambda *_: None)
    records = ClusteringInput.of(codes, policy, np.ones(len(codes.attributes)))
    placement = grouping.placement
    order = np.argsort(codes.keyed_rank[placement.cell], kind="stable")
    cell, group = (
        np.repeat(of[order], placement.count[order]).astype(np.int32) for of in (placement.cell, placement.group)
    )
    return measure_time(lambda: improve_groups(records, cell, group, codes.records, lambda done: None))


def merging(scale: int) -> dict[str, Any]:
    """Run the method agglomerative on a blow-up, which is searched in partitions if it is large."""
    codes, policy = encode_blow_up(scale), build_policy()
    few = encode_and_count(open_data(adult_rows().head(500)), policy, hash=SECRET)[0]
    time_method(few, shoal.tables.Agglomerative(policy, objective="il"))  # compiles the kernels
    found: dict[str, Any] = {"rows": codes.records, "cells": len(codes.quasi)}
    grouping, found["wall"], found["cpu"] = time_method(
        codes, shoal.tables.Agglomerative(policy, objective="il"), 3 if scale == 1 else 1
    )
    boxes, _, _ = time_method(codes, shoal.tables.Mondrian(policy, objective="il"))
    return {**found, "il": total_il(codes, grouping), "mondrian_il": total_il(codes, boxes)}


def peeling(scale: int) -> dict[str, Any]:
    """Run the method peel on a blow-up, and compare its NCP with Mondrian's."""
    codes, policy = encode_blow_up(scale), build_policy()
    few = encode_and_count(open_data(adult_rows().head(500)), policy, hash=SECRET)[0]
    time_method(few, shoal.tables.Peel(policy))  # compiles the kernels
    grouping, wall, cpu = time_method(codes, shoal.tables.Peel(policy), 3 if scale == 1 else 1)
    boxes, _, _ = time_method(codes, shoal.tables.Mondrian(policy))
    return {
        "rows": codes.records,
        "cells": len(codes.quasi),
        "wall": wall,
        "cpu": cpu,
        "ncp": total_ncp(codes, grouping) / total_ncp(codes, boxes),
    }


def improve() -> dict[str, Any]:
    """Return the gain of `improve` on Adult, and the time that it adds to a release."""
    frame, policy = adult_rows(), build_policy()
    shoal.anonymize(
        frame.head(500), policy, method="kmember", objective="il", improve=True, seed=1
    )  # compiles the kernels
    release, wall, _ = measure_time(
        lambda: shoal.anonymize(frame, policy, method="kmember", objective="il", improve=True, seed=1)
    )
    _, plain, _ = measure_time(lambda: shoal.anonymize(frame, policy, method="kmember", objective="il", seed=1))
    return {"wall": wall - plain, "gain": release.measures["improved"]}


def microaggregation() -> dict[str, Any]:
    """Run MDAV on the six numeric attributes of the rows without missing values."""
    frame = adult_rows()
    policy = shoal.Policy(quasi=dict.fromkeys(NUMERIC, "numeric"), require=[shoal.KAnonymity(K)])
    codes = encode_and_count(open_data(frame), policy, hash=SECRET)[0]
    grouping, wall, cpu = time_method(codes, shoal.tables.MDAV(policy), 5)
    return {"wall": wall, "cpu": cpu, "groups": len(grouping.lo), "rows": codes.records}


def small(out: Path) -> dict[str, Any]:
    """Run on a few rows without taxonomies, as the peers do; writes ``few.csv`` to ``out``."""
    frame, policy = adult_rows().head(FEW), adult_policy(K)
    frame.to_csv(out / "few.csv", index=False)
    codes = encode_and_count(open_data(frame), policy, hash=SECRET)[0]
    found: dict[str, Any] = {}
    for name, method in (
        ("kmember", shoal.tables.KMember),
        ("knn", shoal.tables.KNearest),
        ("mdav", shoal.tables.MDAV),
    ):
        time_method(codes, method(policy))  # compiles the kernels
        grouping, found[name], _ = time_method(codes, method(policy), 3)
        found[f"{name}_ncp"] = tight_ncp(frame.reset_index(drop=True), _groups(codes, grouping))
    return found


def _groups(codes: Codes, grouping: Any) -> np.ndarray:
    """Return the group of every row; equal rows are interchangeable."""
    placement, row = grouping.placement, list_record_cells(codes.counts)
    group = np.empty(len(row), np.int64)
    group[np.argsort(row, kind="stable")] = np.repeat(placement.group, placement.count)
    return group


def clustering(name: str, rows: int, out: Path) -> dict[str, Any]:
    """Run one case by name; ``rows`` is the scale of a blow-up."""
    if name == "exact":
        return clusters(rows, True)
    if name == "parts":
        return clusters(rows, False)
    if name == "improve-groups":
        return improve_blow_up(rows)
    if name == "peeling":
        return peeling(rows)
    if name == "merging":
        return merging(rows)
    return {"improve": improve, "microaggregation": microaggregation, "small": lambda: small(out)}[name]()
