"""`shoal compile`, and the message about compilation in a first run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from shoal import tables
from shoal.cli import compilation


def test_all_methods_are_compiled() -> None:
    runs = compilation.list_runs()
    assert {name for name, _ in runs} == set(tables.METHODS.names())
    assert len(runs) == len({(name, *given.items()) for name, given in runs})


def test_every_run_releases_the_small_table() -> None:
    for name, given in compilation.list_runs():
        assert compilation.compile_run(name, given) == name


def test_compilation_is_announced_once_and_ends() -> None:
    from numba import njit

    shown: list[bool] = []

    @njit
    def inner(values):  # type: ignore[no-untyped-def]
        return values.sum()

    @njit
    def outer(values):  # type: ignore[no-untyped-def]
        return inner(values) + 1

    with compilation.watch_compilation(shown.append):
        outer(np.arange(3))
        outer(np.arange(4))
    outer(np.arange(3.0))
    assert shown == [True, False]


def test_without_a_writable_folder_code_is_compiled_for_the_process() -> None:
    """The compiler finds no folder for its cache at first."""
    code = """
import importlib, numpy
import shoal.kernels as kernels
from numba import config
real, tried = kernels.import_module, []
def import_module(name):
    tried.append(name)
    if len(tried) == 1:
        raise RuntimeError("cannot cache function 'x': no locator available for file 'y'")
    return real(name)
kernels.import_module = import_module
assert kernels.limits.count_distinct(numpy.array([1, 0, 2]), 0, 3) == 2
print(config.CACHE_DIR)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    folder = Path(ran.stdout.strip())
    assert folder.name.startswith("shoal-compiled-") and not folder.exists()
