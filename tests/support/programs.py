"""The result of a program that was run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ran:
    """The exit status and the two outputs of a program."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
