"""Compile the kernels in advance, and tell the user about compilation during a first run."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pyarrow as pa

import shoal
from shoal import threads
from shoal.errors import PolicyError, list_choices
from shoal.progress import Progress

PEOPLE = 60
IMPROVE, MODELS = "improve", "models"  # beside the names of methods: the local search after a method, and models
SECONDS = 8  # of one core for a method, roughly; methods share kernels


@contextlib.contextmanager
def watch_compilation(show: Callable[[bool], None]) -> Iterator[None]:
    """Call ``show`` with True when a compilation begins, and with False when it ends."""
    from numba.core import event

    depth = 0

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            nonlocal depth
            depth += 1
            if depth == 1:
                show(True)

        def on_end(self, event: Any) -> None:
            nonlocal depth
            depth -= 1
            if depth == 0:
                show(False)

    listener = Listener()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


def choose_names(names: Sequence[str]) -> list[str]:
    """The methods to compile, everything if no name is given; raise a `PolicyError` for another name."""
    known = [IMPROVE, *shoal.tables.METHODS.names(), MODELS]
    for name in names:
        if name not in known:
            raise PolicyError(f"unknown method {name!r}; {list_choices(name, known)}")
    return list(dict.fromkeys(names)) or known


def make_people() -> pa.Table:
    """A small table with numbers and categories."""
    return pa.table(
        {
            "age": pa.array([18 + i * 7 % 60 for i in range(PEOPLE)]),
            "zip": pa.array([f"{10000 + i * 37 % 90}" for i in range(PEOPLE)]),
            "sex": pa.array(["f", "m"] * (PEOPLE // 2)),
            "cost": pa.array([float(i * 13 % 40) for i in range(PEOPLE)]),
            "ill": pa.array(["flu", "cold", "gout"] * (PEOPLE // 3)),
        }
    )


def list_policies(name: str, parameters: Mapping[str, Any]) -> Iterator[shoal.Policy]:
    """Policies for the small table: with requirements on sizes, on values, on both, on operators, and none."""
    needs = shoal.tables.METHODS.find(name).list_needs(parameters)
    ages: Any = {"widths": [5, 10, 20]} if "trees" in needs else "numeric"
    quasi = {"age": ages, "zip": {"mask": "right"}, "sex": "categorical"}
    target = "cost" if "target" in needs else None
    size, values = shoal.KAnonymity(3), [shoal.LDiversity(2, of="ill"), shoal.TCloseness(0.9, of="ill")]
    for require in ([size], [size, *values], values, [shoal.Posterior(1.0)], []):
        with contextlib.suppress(PolicyError):
            yield shoal.Policy(quasi=quasi, sensitive=["ill"], target=target, require=require)


def compile_method(name: str) -> str:
    """Release a small table with every example of a method, which compiles all kernels that it uses. Return its name."""
    for parameters in shoal.tables.METHODS.find(name).examples:
        _release(name, parameters)
    return name


def compile_improvement() -> str:
    """Compile the local search, which is the same after all methods."""
    _release("mondrian", {"improve": True})
    return IMPROVE


def _release(name: str, parameters: Mapping[str, Any]) -> None:
    method, people = shoal.tables.METHODS.find(name), make_people()
    for policy in list_policies(name, parameters):
        with contextlib.suppress(shoal.ShoalError):  # a family of methods guarantees only some of these requirements
            method(policy, **parameters).release(people, seed=1)


def compile_models() -> str:
    """Compile the kernels of models: clusters, and itemsets with their rules; and of queries.

    Trees are compiled by their method.
    """
    people = make_people()
    free = shoal.Policy(quasi={"age": "numeric", "sex": "categorical"}, sensitive=["ill"])
    randomized = shoal.tables.RandomAnonymization(free, attributes=1).release(people, seed=1)
    shoal.measures.query_error(people, randomized, [{"age": range(20, 40), "ill": "flu"}])
    shoal.models.mine_rules(shoal.models.mine_itemsets(people, support=0.1))
    for private in (["cost"], ["cost", "zip"]):
        policy = shoal.Policy(
            quasi={"age": "numeric", "sex": "categorical"}, sensitive=private, require=[shoal.KAnonymity(3)]
        )
        with contextlib.suppress(shoal.ShoalError):  # scikit-learn may not be installed
            shoal.models.AnonymousClusters(policy).fit(people)
    return MODELS


def estimate_seconds(names: Iterable[str]) -> float:
    """How long the compilation of these methods takes, roughly; methods that are compiled already take no time."""
    left = [name for name in names if not _find_mark(name).exists()]
    return SECONDS * len(left) / min(threads.CORES, max(len(left), 1))


def compile_named(names: Sequence[str], progress: Progress) -> float:
    """Compile the kernels of methods and models, one process per core; return the seconds.

    A mark in the folder of compiled code says that a method is compiled, so that a second call ends at once.
    """
    begin = time.monotonic()
    left = [name for name in names if not _find_mark(name).exists()]
    done = len(names) - len(left)
    progress("compiling", done, len(names))
    if left:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=min(threads.CORES, len(left)), mp_context=context) as pool:
            others = {IMPROVE: compile_improvement, MODELS: compile_models}
            tasks = [pool.submit(others[n]) if n in others else pool.submit(compile_method, n) for n in left]
            for task in as_completed(tasks):
                _find_mark(task.result()).touch()
                done += 1
                progress("compiling", done, len(names))
    return time.monotonic() - begin


def _find_mark(name: str) -> Path:
    from shoal.kernels.compiler import find_code_folder  # here, since it loads the compiler

    return find_code_folder() / f"compiled-{name}"
