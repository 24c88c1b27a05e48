"""Work on several cores: kernels release the interpreter, so threads run side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

CORES = min(os.cpu_count() or 1, 8)


@dataclass(frozen=True)
class Workers:
    """Threads that are there for the length of a search; work must not ask them for more work and wait for it."""

    pool: Executor | None

    def each(self, work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
        """The results for all parts in their order; the parts must not write to the same places."""
        listed = list(parts)
        if self.pool is None or len(listed) < 2:
            return [work(part) for part in listed]
        return list(self.pool.map(work, listed))


@contextmanager
def workers() -> Iterator[Workers]:
    """A thread for every core."""
    if CORES < 2:
        yield Workers(None)
        return
    with ThreadPoolExecutor(max_workers=CORES) as pool:
        yield Workers(pool)


def each(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """What `Workers.each` does, for once.

    >>> each(abs, [-1, 2])
    [1, 2]
    """
    with workers() as found:
        return found.each(work, parts)
