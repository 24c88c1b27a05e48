"""The command line program `shoal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.cli.program import main
from shoal.lazy import import_on_use

if TYPE_CHECKING:
    from shoal.cli.command_tree import app

__all__ = ["app", "main"]

if not TYPE_CHECKING:  # lazy, since `shoal --version` needs no command
    __getattr__, __dir__ = import_on_use(__name__, {"shoal.cli.command_tree": ["app"]})
