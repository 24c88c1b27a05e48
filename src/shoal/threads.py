"""Work on several cores: kernels release the interpreter, so threads run side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

CORES = min(os.cpu_count() or 1, 8)


def each(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """The results for all parts in their order; the parts must not write to the same places.

    >>> each(abs, [-1, 2])
    [1, 2]
    """
    listed = list(parts)
    if len(listed) < 2 or CORES < 2:
        return [work(part) for part in listed]
    with ThreadPoolExecutor(max_workers=CORES) as pool:
        return list(pool.map(work, listed))
