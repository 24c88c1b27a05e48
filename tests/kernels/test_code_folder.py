"""Compiled code is never older than the sources, the compiler or the processor that it depends on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shoal.kernels
from shoal.kernels import code_folder

OUTER = """
from shoal.kernels.compiler import entry
from shoal.kernels.inside import add

@entry
def outer(x):
    return add(x)
"""
INNER = """
from shoal.kernels.compiler import inner

@inner
def add(x):
    return x + {amount}
"""
CALL = "from shoal.kernels.outside import outer; print(outer(1), len(outer.stats.cache_hits))"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the kernels with one more outer function, whose inner function is in another file."""
    kernels = tmp_path / "shoal" / "kernels"
    kernels.mkdir(parents=True)
    (tmp_path / "shoal" / "__init__.py").touch()
    for name in ("__init__.py", "bundle.py", "code_folder.py", "compiler.py"):
        shutil.copy(Path(shoal.kernels.__file__).with_name(name), kernels)
    (kernels / "outside.py").write_text(OUTER)
    (kernels / "inside.py").write_text(INNER.format(amount=1))
    return kernels


def call(kernels: Path) -> list[int]:
    """The result of the outer function in a new process, and how many functions came from compiled code."""
    environment = {**os.environ, "PYTHONPATH": str(kernels.parents[1]), "NUMBA_CACHE_DIR": ""}
    ran = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True, check=True, env=environment)
    return [int(word) for word in ran.stdout.split()]


def test_a_change_of_an_inner_function_is_seen_through_the_outer_one(copy: Path) -> None:
    assert call(copy) == [2, 0]
    assert call(copy) == [2, 1]  # from the folder
    (copy / "inside.py").write_text(INNER.format(amount=5))
    assert call(copy) == [6, 0]
    (copy / "inside.py").write_text(INNER.format(amount=1))
    assert call(copy) == [2, 1]  # the earlier folder is kept for a while


def test_the_folder_depends_on_the_compiler_and_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {code_folder.digest_sources("0.61 x86"), code_folder.digest_sources("0.62 x86")}
    monkeypatch.setenv(code_folder.PLAIN, "1")
    assert len(names | {code_folder.digest_sources("0.61 x86")}) == 3


def test_folders_that_were_not_used_for_long_are_removed(tmp_path: Path) -> None:
    for number in range(code_folder.KEPT + 2):
        other = tmp_path / f"{code_folder.PREFIX}{number}"
        other.mkdir()
        (other / "used").touch()
        os.utime(other / "used", (number, number))  # in 1970
    (tmp_path / "other").mkdir()
    folder = code_folder.find(str(tmp_path), "any compiler")
    kept = {f"{code_folder.PREFIX}{number}" for number in range(2, code_folder.KEPT + 2)}
    assert {entry.name for entry in tmp_path.iterdir()} == {"other", folder.name, *kept}


def test_a_folder_in_use_is_kept(tmp_path: Path) -> None:
    for number in range(code_folder.KEPT + 2):
        (tmp_path / f"{code_folder.PREFIX}{number}").mkdir()
        (tmp_path / f"{code_folder.PREFIX}{number}" / "used").touch()
    code_folder.find(str(tmp_path), "another compiler")
    assert len(list(tmp_path.iterdir())) == code_folder.KEPT + 3


def test_without_a_writable_folder_code_is_compiled_for_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    monkeypatch.setattr(code_folder, "_list_parents", lambda given: iter([blocked / "folder"]))
    folder = code_folder.find("nowhere", "one more compiler")
    assert folder.is_dir() and folder.name.startswith("shoal-compiled-")
