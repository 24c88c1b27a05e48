"""Files of cases: one case per line, a JSON list. One test checks all lines of a file and reports every line that fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


def check_lines(file: Path, check: Callable[..., None]) -> None:
    """Call ``check`` with the items of every line; lines that begin with ``#`` are comments."""
    failures = []
    lines = file.read_text(encoding="utf-8").split("\n")
    cases = [(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    assert cases, f"{file.name} has no cases"
    for number, line in cases:
        try:
            check(*json.loads(line))
        except (Exception, pytest.fail.Exception) as error:
            failures.append(f"{file.name}, line {number}: {line}\n    {type(error).__name__}: {error}")
    assert not failures, "\n".join([f"{len(failures)} of {len(cases)} lines fail:", *failures])
