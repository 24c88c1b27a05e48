"""Run kernels in parallel threads. Kernels release the global interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

CORES = min(os.cpu_count() or 1, 8)
FEW_ROWS = 5_000  # below this number, starting threads takes longer than the work


@dataclass(frozen=True)
class Workers:
    """A thread pool for one search. A task must not submit further tasks and wait for them: that can deadlock."""

    pool: Executor | None

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results for all items, in order. Tasks must not write to the same memory."""
        listed = list(items)
        if self.pool is None or len(listed) < 2:
            return [work(item) for item in listed]
        return list(self.pool.map(work, listed))


@contextmanager
def workers(rows: int = FEW_ROWS) -> Iterator[Workers]:
    """A thread pool with one thread per core, at most eight; no pool where ``rows``, the rows of the table, are few."""
    if CORES < 2 or rows < FEW_ROWS:
        yield Workers(None)
        return
    with ThreadPoolExecutor(max_workers=CORES) as pool:
        yield Workers(pool)


def each(work: Callable[[Item], Result], items: Iterable[Item], rows: int = FEW_ROWS) -> list[Result]:
    """Run `Workers.each` in a thread pool for this call only; see `workers`.

    >>> each(abs, [-1, 2])
    [1, 2]
    """
    listed = list(items)
    if len(listed) < 2:
        return [work(item) for item in listed]
    with workers(rows) as pool:
        return pool.each(work, listed)
