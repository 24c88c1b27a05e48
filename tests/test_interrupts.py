"""Signals during a kernel: the program and the library end at once, and leave nothing behind.

The kernel is one that never ends, so a program that waits for it never ends either. The limits of time only end such a test.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.signals import RESTORE_SIGNALS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

ENDLESS = (
    RESTORE_SIGNALS
    + r"""
import sys
import numba, numpy as np
from shoal import kernels

@numba.njit(nogil=True)
def spin(numbers):
    while numbers[1] == 0:
        numbers[0] += 1

spin(np.ones(2, np.int64))

def endless(*arguments, **named):
    print("begun", flush=True)
    spin(np.zeros(2, np.int64))

module, name = sys.argv.pop(1).split(".")
setattr(getattr(kernels, module), name, endless)
"""
)
PROGRAM = ENDLESS + "from shoal.cli import main\nmain()\n"
LIBRARY = (
    ENDLESS
    + r"""
import pandas as pd, shoal

try:
    shoal.anonymize(pd.read_csv("table.csv"), "policy.yaml", method=sys.argv[1])
except KeyboardInterrupt:
    print("caught", flush=True)
"""
)
LIMIT = 30.0  # seconds; about 0.1 on an idle machine, and the endless kernel never ends
KERNELS = {
    "agglomerative": "agglomerative.merge_groups",
    "kmember": "kmember.grow_clusters",
    "mondrian": "mondrian.grow_tree",
    "peel": "lattice.evaluate_nodes",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    pd.DataFrame({"age": rng.integers(18, 90, 300), "pay": rng.integers(0, 999, 300)}).to_csv(
        tmp_path / "table.csv", index=False
    )
    (tmp_path / "policy.yaml").write_text("quasi: {age: numeric, pay: numeric}\nrequire:\n- k-anonymity: 5\n")
    return tmp_path


def interrupt(folder: Path, number: int, script: str, *arguments: str) -> tuple[int, str]:
    """The exit status and the output of a script that gets a signal while it runs the endless kernel."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "begun\n"
            process.send_signal(number)
            out, _ = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    return process.returncode, out


@pytest.mark.parametrize(
    ("name", "status", "engine"), [("SIGINT", 130, "duckdb"), ("SIGTERM", 143, "duckdb"), ("SIGHUP", 129, "memory")]
)
def test_the_program_stops_during_a_kernel(folder: Path, name: str, status: int, engine: str) -> None:
    if engine == "duckdb":
        pytest.importorskip("duckdb")
    before = sorted(p.name for p in folder.iterdir())
    arguments = ("anonymize", "table.csv", "-p", "policy.yaml", "-o", "out", "-m", "agglomerative", "--engine", engine)
    number = getattr(signal, name)
    assert interrupt(folder, number, PROGRAM, KERNELS["agglomerative"], *arguments)[0] == status
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize("method", ["kmember", "mondrian", "peel"])
def test_the_caller_of_the_library_gets_the_interrupt(folder: Path, method: str) -> None:
    """The interpreter then ends as usual, although the kernel is still running."""
    assert interrupt(folder, signal.SIGINT, LIBRARY, KERNELS[method], method) == (0, "caught\n")
