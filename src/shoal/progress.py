"""Progress callbacks: of a run, by stage, and of one search; and a log of the stages as JSON lines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol, TextIO, runtime_checkable

Progress = Callable[[str, int, int], None]  # the stage, the work done, the total work
CountProgress = Callable[[int], None]  # the records done

LOGS = ("json",)
KIB_PER_MB = 1000 * 1000 / 1024


@runtime_checkable
class RowProgress(Protocol):
    """A `Progress` that is also told the number of records, as soon as it is known."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report the work of a stage."""
        ...

    def count_rows(self, rows: int) -> None:
        """Report the number of records of the table."""
        ...


def report_rows(progress: Progress, rows: int) -> None:
    """Tell the number of records to a `RowProgress`; do nothing for other functions."""
    if isinstance(progress, RowProgress):
        progress.count_rows(rows)


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Do nothing."""


class JsonLog:
    """Writes a JSON object per line when a stage begins and ends, and when the run ends.

    ``seconds`` is the time since the run, or the stage, began; ``memory_mb`` the largest memory of this process so far (None if
    the operating system does not report it). Once the number of records of the table is known, every line has it as ``rows``.
    The log contains no values of the data.

    Parameters
    ----------
    stream : where the lines are written (default: standard error)
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._begin = time.monotonic()
        self._stage: str | None = None
        self._ended: str | None = None  # the stage that ended last, until another begins
        self._stage_begin = self._begin
        self._done = 0
        self._rows: int | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Log the beginning of a stage, and its end when all its work is done; see `Progress`."""
        if stage == self._ended and done >= total:
            return  # some stages report their end twice
        if stage != self._stage:
            self._end_stage()
            self._stage, self._stage_begin, self._ended = stage, time.monotonic(), None
            self.write("stage started", stage=stage, total=total)
        self._done = done
        if done >= total:
            self._end_stage()

    def count_rows(self, rows: int) -> None:
        """Add the number of records to the lines from now on."""
        self._rows = rows

    def _end_stage(self) -> None:
        if self._stage is not None:
            seconds = round(time.monotonic() - self._stage_begin, 3)
            self.write("stage ended", stage=self._stage, done=self._done, stage_seconds=seconds)
            self._stage, self._ended = None, self._stage

    def write(self, event: str, **figures: Any) -> None:
        """Log an event."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": event,
            **({} if self._rows is None else {"rows": self._rows}),
            **figures,
            "seconds": round(time.monotonic() - self._begin, 3),
            "memory_mb": _read_peak_memory(),
        }
        print(json.dumps(line), file=self._stream or sys.stderr, flush=True)


def _read_peak_memory() -> float | None:
    with suppress(ImportError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return round(peak / (1e6 if sys.platform == "darwin" else KIB_PER_MB), 1)
    return None
