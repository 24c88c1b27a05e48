"""Shoal runs without the names that only POSIX systems have."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.engines import resources
from shoal.release import release as release_module
from shoal.release.store import NO_MODES

WITHOUT_POSIX = """
import json, os, signal, sys
for module in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[module] = None
for name in ("getuid", "geteuid", "getgid", "sysconf", "fchmod", "O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY"):
    if hasattr(os, name):
        delattr(os, name)
del signal.SIGHUP, signal.SIGPIPE
from shoal.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["shoal", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, arguments
    else:
        raise AssertionError("the program did not exit")
"""


def run_all(folder: Path, *commands: str) -> None:
    """Run commands one after another in a process of their own."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX, json.dumps([command.split() for command in commands])],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1])},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_release_and_a_later_release_without_posix(tmp_path: Path) -> None:
    rows = [f"{20 + i % 17},{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "first.csv").write_text("\n".join(["age,illness", *rows]))
    (tmp_path / "later.csv").write_text("\n".join(["age,illness", *rows[:6]]))
    (tmp_path / "policy.yaml").write_text("quasi: {age: numeric}\nsensitive: [illness]\nrequire:\n- k-anonymity: 3\n")
    run_all(
        tmp_path,
        "anonymize first.csv -p policy.yaml -o first",
        "anonymize first.csv -p policy.yaml -o first --force",
        "anonymize later.csv --recoding first.owner/recoding.json -o later",
        "check first/table.csv -p policy.yaml",
    )
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "first",
        "first.owner",
        "later",
        "later.owner",
    ]


class Windows:
    """The function of Windows that reports the memory."""

    class kernel32:  # noqa: N801
        @staticmethod
        def GlobalMemoryStatusEx(status: Any) -> int:  # noqa: N802
            assert status._obj.length == 64
            status._obj.total_physical = 7 * 2**30
            return 1


def test_the_memory_of_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert resources._read_physical_memory() == resources.ASSUMED
    monkeypatch.setattr(ctypes, "windll", Windows, raising=False)
    assert resources._read_physical_memory() == 7 * 2**30
    assert resources.read_machine_memory() <= 7 * 2**30


def test_a_system_without_file_modes_has_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = shoal.Policy(quasi={"zip": {"mask": "right"}, "sex": "categorical"}, require=[shoal.KAnonymity(2)])
    release = shoal.anonymize(shoal.datasets.hospital(50, seed=1), policy)
    assert NO_MODES not in release.notes
    monkeypatch.setattr(release_module, "HAS_MODES", False)
    assert NO_MODES in release.notes
