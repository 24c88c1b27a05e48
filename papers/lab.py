"""Releases of Adult as in the clustering paper (section 6.1), each computed once, with measures and times."""

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
from shoal.tables import METHODS

QUASI = ("age", "workclass", "education-num", "marital-status", "occupation", "race", "sex", "native-country")


@dataclass(frozen=True)
class Setting:
    """A method, its parameters, its requirements beside k-anonymity, and the order of the attributes."""

    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    more: tuple[Any, ...] = ()
    order: tuple[str, ...] = QUASI

    def replace(self, **parameters: Any) -> Setting:
        """Return the same setting with other parameters."""
        return replace(self, parameters={**self.parameters, **parameters})


def build_policy(k: int, *more: Any, order: Sequence[str] = QUASI) -> shoal.Policy:
    """Return the policy of section 6.1: eight attributes, the income as class and as sensitive attribute."""
    return shoal.Policy(
        quasi=adult.quasi(order),
        sensitive=adult.CLASS,
        truly_sensitive={adult.CLASS: [adult.RICH]},
        target=adult.CLASS,
        require=[shoal.KAnonymity(k), *more],
    )


@dataclass(frozen=True)
class Run:
    """The measures of a release, the seconds of its search and of its local search, and its CM by clusters."""

    measures: Measures
    seconds: float
    improve_seconds: float
    minority: int  # records that are not of the most frequent class of their cluster

    def __getitem__(self, name: str) -> float:
        return self.seconds if name == "seconds" else self.measures[name]


@dataclass
class Lab:
    """A table with the results of its runs; every run is computed once."""

    frame: pd.DataFrame
    runs: dict[str, Run] = field(default_factory=dict)

    def run(self, setting: Setting, k: int, *, seed: int | None = None, times: int = 1) -> Run:
        """Return the result of a release; its search time excludes encoding, and is the lowest of ``times`` runs."""
        key = repr((setting, k, seed))
        if key not in self.runs:
            self.runs[key] = self._run(setting, k, seed, times)
        return self.runs[key]

    def loss(self, setting: Setting, k: int) -> float:
        """Return Total-IL."""
        return self.run(setting, k)["il"]

    def _run(self, setting: Setting, k: int, seed: int | None, times: int) -> Run:
        method = make_method(
            METHODS.find(setting.method), build_policy(k, *setting.more, order=setting.order), setting.parameters
        )
        decide, seconds, begun, minority = method.decide, list[float](), dict[str, float](), list[int]()

        def time_decide(codes: Codes, **rest: Any) -> Grouping:
            start = time.perf_counter()
            grouping = decide(codes, **rest)
            seconds.append(time.perf_counter() - start)
            minority.append(_count_minority(codes, grouping))
            return grouping

        def note_stage(stage: str, done: int, total: int) -> None:
            begun.setdefault(stage, time.perf_counter())

        vars(method)["decide"] = time_decide
        release = method.release(self.frame, seed=seed, progress=note_stage)
        if times > 1:
            codes = encode_and_count(open_data(self.frame), method.policy, extra=method.extra_columns())[0]
            for _ in range(times - 1):
                time_decide(codes, rng=np.random.default_rng(seed or 0), progress=note_stage)
        improve_seconds = begun["writing"] - begun.get("improving", begun["writing"])
        return Run(release.measures, min(seconds), improve_seconds, minority[0])


def _count_minority(codes: Codes, grouping: Grouping) -> int:
    """Count the records that are not of the most frequent class of their cluster; 0 if the method does not use the class."""
    names = [s.name for s in codes.sensitive]
    if adult.CLASS not in names:
        return 0
    placement, column = grouping.placement, names.index(adult.CLASS)
    counts = np.zeros((len(grouping.lo), len(codes.sensitive[column].labels)), np.int64)
    np.add.at(counts, (placement.group, codes.counts.sensitive[placement.cell, column]), placement.count)
    return int((counts.sum(axis=1) - counts.max(axis=1)).sum())
