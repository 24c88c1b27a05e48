"""Releases of Adult as the clustering paper makes them (section 6.1), each made once, measured and timed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

import shoal
from papers import adult
from shoal.encoding.codes import Codes, encode_and_count
from shoal.engines import open_data
from shoal.measures import Measures
from shoal.pipeline.method import make_method
from shoal.recoding.grouping import Grouping
from shoal.tables import find_method

QUASI = ("age", "workclass", "education-num", "marital-status", "occupation", "race", "sex", "native-country")


@dataclass(frozen=True)
class Way:
    """A method, its parameters, what it is to guarantee beside k-anonymity, and the order of the attributes."""

    method: str
    how: Mapping[str, Any] = field(default_factory=dict)
    more: tuple[Any, ...] = ()
    order: tuple[str, ...] = QUASI

    def but(self, **how: Any) -> Way:
        """The same with other parameters."""
        return replace(self, how={**self.how, **how})


def asked(k: int, *more: Any, order: Sequence[str] = QUASI) -> shoal.Policy:
    """The policy of section 6.1: eight attributes, the income as class and as sensitive attribute."""
    return shoal.Policy(
        quasi=adult.quasi(order),
        sensitive=adult.CLASS,
        truly_sensitive={adult.CLASS: [adult.RICH]},
        target=adult.CLASS,
        require=[shoal.KAnonymity(k), *more],
    )


@dataclass(frozen=True)
class Run:
    """What a release loses, the seconds that it took to decide and to improve, and CM as its clusters have it."""

    measures: Measures
    seconds: float
    polish: float
    mixed: int  # records that are not of the most frequent class of their own cluster

    def __getitem__(self, name: str) -> float:
        return self.seconds if name == "seconds" else self.measures[name]


@dataclass
class Lab:
    """A table, and what was run on it; a run is made once."""

    frame: pd.DataFrame
    known: dict[str, Run] = field(default_factory=dict)

    def run(self, way: Way, k: int, *, seed: int | None = None, times: int = 1) -> Run:
        """A whole release; decisions are timed after the codes are made, the best of so many times."""
        key = repr((way, k, seed))
        if key not in self.known:
            self.known[key] = self._run(way, k, seed, times)
        return self.known[key]

    def loss(self, way: Way, k: int) -> float:
        """Total-IL."""
        return self.run(way, k)["il"]

    def _run(self, way: Way, k: int, seed: int | None, times: int) -> Run:
        method = make_method(find_method(way.method), asked(k, *way.more, order=way.order), way.how)
        decide, spent, at, mixed = method.decide, list[float](), dict[str, float](), list[int]()

        def timed(codes: Codes, **rest: Any) -> Grouping:
            begun = time.perf_counter()
            decision = decide(codes, **rest)
            spent.append(time.perf_counter() - begun)
            mixed.append(_mixed(codes, decision))
            return decision

        def tell(stage: str, done: int, total: int) -> None:
            at.setdefault(stage, time.perf_counter())

        vars(method)["decide"] = timed
        release = method.release(self.frame, seed=seed, progress=tell)
        if times > 1:
            codes = encode_and_count(open_data(self.frame), method.policy, extra=method.extra_columns())[0]
            for _ in range(times - 1):
                timed(codes, rng=np.random.default_rng(seed or 0), progress=tell)
        return Run(release.measures, min(spent), at["writing"] - at.get("improving", at["writing"]), mixed[0])


def _mixed(codes: Codes, decision: Grouping) -> int:
    """The records that are not of the most frequent class of their cluster; 0 where the method does not look at the class."""
    names = [s.name for s in codes.sensitive]
    if adult.CLASS not in names:
        return 0
    place, column = decision.placement, names.index(adult.CLASS)
    counts = np.zeros((len(decision.lo), len(codes.sensitive[column].labels)), np.int64)
    np.add.at(counts, (place.group, codes.counts.sensitive[place.cell, column]), place.count)
    return int((counts.sum(axis=1) - counts.max(axis=1)).sum())
