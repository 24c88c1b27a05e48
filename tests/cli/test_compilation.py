"""`shoal compile`, and the message about compilation in a first run."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from shoal import tables
from shoal.cli import compilation
from shoal.errors import PolicyError, ShoalError


def test_all_methods_and_models_are_compiled_by_default() -> None:
    assert compilation.choose_names([]) == ["improve", *tables.METHODS.names(), "models"]
    assert compilation.choose_names(["tds", "mondrian", "tds"]) == ["tds", "mondrian"]


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(PolicyError, match="mondrian"):
        compilation.choose_names(["mondrain"])


@pytest.mark.parametrize("name", tables.METHODS.names())
def test_every_method_releases_the_small_table(name: str) -> None:
    """A family of methods guarantees only some of the requirements; compilation passes over the others."""
    method, released = tables.METHODS.find(name), 0
    for policy in compilation.list_policies(name, {}):
        try:
            method(policy, **method.examples[0]).release(compilation.make_people(), seed=1)
        except ShoalError:
            continue
        released += 1
    assert released


def test_a_compiled_method_is_not_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    class Pool:
        """Runs tasks in this process."""

        def __init__(self, **options: object) -> None:
            pass

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *problem: object) -> None:
            pass

        def submit(self, work: object, name: str = "models") -> Future[str]:
            task: Future[str] = Future()
            compiled.append(name)
            task.set_result(name)
            return task

    monkeypatch.setattr(compilation, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(compilation, "_find_mark", lambda name: tmp_path / name)
    seen: list[tuple[str, int, int]] = []
    assert compilation.estimate_seconds(["tds", "peel", "models"]) > 0
    compilation.compile_named(["tds", "models"], lambda *report: seen.append(report))
    compilation.compile_named(["tds", "peel", "models"], lambda *report: seen.append(report))
    assert compiled == ["tds", "models", "peel"]
    assert seen == [*(("compiling", done, 2) for done in range(3)), ("compiling", 2, 3), ("compiling", 3, 3)]
    assert compilation.estimate_seconds(["tds", "peel", "models"]) == 0


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
