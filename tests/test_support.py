"""Helpers of the tests that decide what is tested: all pairs, and the budgets of test folders."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.budget import BUDGETS, describe, folder_of
from tests.support.pairs import cover_pairs
from tests.support.programs import default_signals

ROOT = Path(__file__).parents[1]


@given(sizes=st.lists(st.integers(1, 5), min_size=2, max_size=5))
def test_every_pair_is_in_a_row(sizes: list[int]) -> None:
    factors = {f"factor {number}": range(size) for number, size in enumerate(sizes)}
    rows = cover_pairs(factors)
    assert rows == cover_pairs(factors)
    for (name, values), (other, others) in itertools.combinations(factors.items(), 2):
        assert {(row[name], row[other]) for row in rows} == set(itertools.product(values, others))
    largest = sorted(sizes)[-2:]
    assert largest[0] * largest[1] <= len(rows) <= max(itertools.accumulate(sizes, lambda a, b: a * b))


def test_impossible_pairs_are_in_no_row() -> None:
    def possible(row: dict[str, Any]) -> bool:
        return (row.get("style"), row.get("method")) != ("mean", "tds")

    factors = {"method": ["tds", "mondrian"], "style": ["label", "mean"], "engine": ["memory", "duckdb"]}
    rows = cover_pairs(factors, possible)
    pairs = {(row["method"], row["style"]) for row in rows}
    assert pairs == {("tds", "label"), ("mondrian", "label"), ("mondrian", "mean")}
    assert {(row["style"], row["engine"]) for row in rows} == set(
        itertools.product(factors["style"], factors["engine"])
    )


def test_every_folder_has_a_budget() -> None:
    folders = {folder_of(file.relative_to(ROOT).as_posix()) for file in ROOT.glob("tests/**/test_*.py")}
    assert folders | {"src"} == set(BUDGETS)
    assert sum(BUDGETS.values()) <= 1200  # two workers for ten minutes


def test_folders_over_their_budget_are_marked() -> None:
    lines = describe(Counter({"tests/policy": 1.5, "tests/sql": 5000.0, "elsewhere": 1.0}))
    assert ["OVER BUDGET" in line for line in lines] == [False, False, True, True]
    assert "without a budget" in lines[0]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
def test_programs_start_with_default_signals() -> None:
    """As under nohup; afterwards the tests ignore the signal as before."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with default_signals():
            ran = subprocess.run([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGHUP)"])
        assert ran.returncode == -signal.SIGHUP and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
