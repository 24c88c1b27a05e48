"""The program `shoal` in the folder of a test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shoal.cli import main
from tests.support.programs import Ran, Run


@pytest.fixture
def run(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`shoal` with arguments, in this process."""

    def call(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["shoal", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return Ran(int(caught.value.code or 0), said.out, said.err)

    return call
