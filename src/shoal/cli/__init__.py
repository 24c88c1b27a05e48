"""The command line program `shoal`."""

from __future__ import annotations

from shoal.cli.app import app, main

__all__ = ["app", "main"]
