"""Print the time of every test folder beside its budget at the end of a run. Nothing fails: machines differ.

The budgets add up to the time of two workers in ten minutes. Who exceeds a budget makes the tests of that folder cheaper, or
takes time from another folder.
"""

from __future__ import annotations

from collections import Counter

import pytest

BUDGETS = {  # seconds of one worker on a quiet machine, for all tests of the folder
    "src": 20,
    "tests": 130,
    "tests/benchmarks": 10,
    "tests/cli": 60,
    "tests/contract": 350,
    "tests/datasets": 10,
    "tests/docs": 10,
    "tests/encoding": 5,
    "tests/engines": 140,
    "tests/formats": 10,
    "tests/kernels": 30,
    "tests/measures": 40,
    "tests/mining": 25,
    "tests/models": 60,
    "tests/papers": 10,
    "tests/pipeline": 40,
    "tests/policy": 10,
    "tests/recoding": 20,
    "tests/release": 40,
    "tests/report": 20,
    "tests/requirements": 10,
    "tests/sql": 30,
    "tests/tables": 110,
    "tests/taxonomy": 10,
}


def folder_of(nodeid: str) -> str:
    """The folder of a test: ``src``, ``tests``, or a folder in ``tests``."""
    parts = nodeid.split("::")[0].split("/")
    return "/".join(parts[: 2 if parts[0] == "tests" and len(parts) > 2 else 1])


def describe(spent: Counter[str]) -> list[str]:
    """A line for every folder: its seconds, its budget, and whether it exceeds the budget."""
    lines = []
    for folder, seconds in sorted(spent.items()):
        budget = BUDGETS.get(folder)
        of = "without a budget" if budget is None else f"of {budget:4d}"
        lines.append(f"{seconds:7.1f} s {of}  {folder}{'  OVER BUDGET' if budget and seconds > budget else ''}")
    total, allowed = spent.total(), sum(BUDGETS.values())
    return [*lines, f"{total:7.1f} s of {allowed:4d}  in all{'  OVER BUDGET' if total > allowed else ''}"]


class Budget:
    """A pytest plug-in that adds up the setup, call and teardown of all tests. With xdist, the controller gets all reports."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of one phase of a test."""
        self.spent[folder_of(report.nodeid)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table; the seconds of all workers are added."""
        if self.spent:
            terminalreporter.section("time per folder, in seconds of one worker")
            for line in describe(self.spent):
                terminalreporter.write_line(line)
