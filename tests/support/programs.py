"""Programs that tests start in other processes: their results, and the signals that they receive."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP; subprocess restores SIGPIPE by itself


@dataclass(frozen=True)
class Ran:
    """The exit status and the two outputs of a program."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@contextmanager
def default_signals() -> Iterator[None]:
    """Processes that are started in this context have the default handlers of signals.

    A process inherits the signals that its parent ignores, such as SIGHUP under `nohup` and SIGINT in a background job. A
    handler is not inherited, so it stays.
    """
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
