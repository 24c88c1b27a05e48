"""Compile the kernels in advance, and tell the user about compilation during a first run."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import pyarrow as pa

import shoal
from shoal import threads
from shoal.progress import Progress

PEOPLE = 60
VARIANTS: dict[str, list[dict[str, Any]]] = {  # parameters that use other kernels, beside those of the default
    "mondrian": [{"improve": True}, {"cut": "median"}, {"cut": "target"}, {"cut": "median", "relaxed": True}],
    "tds": [{"split": "valid"}],
    "peel": [{"exclusive": True}],
    "mdav": [{"write": "label"}],
}
LONGEST = ("agglomerative", "kmember", "mondrian", "tds", "peel")  # these start first


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


def list_runs() -> list[tuple[str, dict[str, Any]]]:
    """The methods and parameters that together use all kernels, the longest compilations first."""
    names = [*LONGEST, *(name for name in shoal.tables.METHODS.names() if name not in LONGEST)]
    first: list[tuple[str, dict[str, Any]]] = [("mondrian", {"improve": True})]
    defaults: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in names]
    variants = [(name, given) for name in names for given in VARIANTS.get(name, [])]
    return first + [run for run in defaults + variants if run not in first]


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


def compile_run(name: str, parameters: dict[str, Any]) -> str:
    """Release a small table with a method, which compiles all kernels that it uses. Return the name of the method."""
    method = shoal.tables.METHODS.find(name)
    people = make_people()
    ages: Any = {"widths": [5, 10, 20]} if name == "bottom-up" else "numeric"
    given: dict[str, Any] = {"sensitive": ["ill"], "target": "ill" if parameters.get("cut") == "target" else None}
    quasi = {"age": ages, "zip": {"mask": "right"}, "sex": "categorical"}
    size, values = shoal.KAnonymity(3), [shoal.LDiversity(2, of="ill"), shoal.TCloseness(0.9, of="ill")]
    every: list[list[Any]] = [[size], [size, *values], values, [shoal.Posterior(1.0)]]
    for require in every[:1] if parameters else every:
        with contextlib.suppress(shoal.ShoalError):  # a family of methods guarantees only some of these requirements
            method(shoal.Policy(quasi=quasi, require=require, **given), **parameters).release(people, seed=1)
    return name


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
    return "models"


def compile_all(progress: Progress) -> tuple[int, float]:
    """Compile the kernels of all methods and models, one process per core. Return the number of runs and the seconds."""
    begin, runs = time.monotonic(), list_runs()
    count = len(runs) + 1
    progress("compiling", 0, count)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=threads.CORES, mp_context=context) as pool:
        tasks = [*(pool.submit(compile_run, *run) for run in runs), pool.submit(compile_models)]
        for done, task in enumerate(as_completed(tasks), 1):
            task.result()
            progress("compiling", done, count)
    return count, time.monotonic() - begin
