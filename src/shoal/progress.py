"""Progress callbacks: of a run, by stage, and of one search."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # the stage, the work done, the total work
CountProgress = Callable[[int], None]  # the records done


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Do nothing."""
