"""Run a method with a search path and its slow twin, and compare their steps."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

import shoal
import shoal.recoding.search_path
from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.pipeline.method import Method
from tests.reference.tds import Run

DATA = Path(os.environ.get("SHOAL_DATA") or "nowhere") / "adult"
needs_data = pytest.mark.skipif(
    not (DATA / "train.csv").is_file() or not (DATA / "test.csv").is_file(),
    reason="SHOAL_DATA names no folder with adult/train.csv and adult/test.csv",
)


def released(
    method: type[Method], frame: pd.DataFrame, policy: shoal.Policy, **parameters: object
) -> tuple[shoal.Release, shoal.recoding.search_path.SearchPath]:
    instance = method(policy, **parameters)
    release = instance.release(frame)
    return release, instance.path_


def reference(twin: Callable[..., Run], frame: pd.DataFrame, policy: shoal.Policy, **parameters: object) -> Run:
    codes, _ = encode_and_count(open_data(frame), policy, extra=[policy.target] if policy.target else [])
    return twin(codes, policy, **parameters)


def published(release: shoal.Release) -> Counter[tuple[str | None, ...]]:
    """Count the records of every combination of published labels."""
    columns = list(release.policy.quasi)
    rows = release.frame[columns].itertuples(index=False)
    return Counter(tuple(None if pd.isna(v) else str(v) for v in row) for row in rows)


def assert_same_steps(path: shoal.recoding.search_path.SearchPath, run: Run) -> None:
    assert dict(path.smallest) == run.smallest
    for fast, slow in zip(path, run.steps, strict=False):
        assert (fast.attribute, fast.value, fast.children) == (slow.attribute, slow.label, slow.labels)
        figures = (slow.gain, slow.loss, slow.score)
        assert (fast.gain, fast.loss, fast.score) == pytest.approx(figures, rel=1e-9, abs=1e-9)
        assert dict(fast.smallest) == slow.smallest
    assert len(path) == len(run.steps)


@cache
def adult() -> pd.DataFrame:
    """UCI Adult without incomplete records, read once."""
    return shoal.datasets.adult("all", drop_missing=True, kind="pandas")
