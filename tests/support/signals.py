"""Signals of child processes: a run under nohup or in the background ignores some, and child processes inherit that."""

from __future__ import annotations

RESTORE_SIGNALS = """
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGTERM", "SIGHUP"):
    if hasattr(signal, name):  # Windows has no SIGHUP
        signal.signal(getattr(signal, name), signal.SIG_DFL)
"""
