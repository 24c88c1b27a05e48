"""`import shoal` loads neither the compiler nor a frame library."""

from __future__ import annotations

import subprocess
import sys

import pytest

import shoal

HEAVY = ("numba", "llvmlite", "pyarrow", "narwhals", "pandas", "polars", "scipy", "sklearn", "typer", "rich")


def test_import_is_light() -> None:
    program = f"import sys, shoal; print([m for m in {HEAVY} if m in sys.modules])"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


@pytest.mark.parametrize("name", shoal.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(shoal, name).__doc__
