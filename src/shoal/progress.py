"""Progress callbacks: a function of the stage, the work done and the total work."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""
