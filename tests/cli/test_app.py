"""The program itself: version, help with exit statuses, shell completion and the schema command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from typer.main import get_command

import shoal
from shoal.cli import app, main
from shoal.cli.app import EXIT_STATUSES, ExitStatus
from shoal.policy import policy_schema
from tests.support.programs import Ran, Run
from tests.support.signals import RESTORE_SIGNALS

DIALECT = ("unless said", "whoever", "so many", "so much", "must not leave", "stands", "told", "trees of values")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`shoal` in this process, with an empty folder as home and working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("COLUMNS", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, **variables: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["shoal", *arguments])
        with mock.patch.dict(os.environ, variables), pytest.raises(SystemExit) as caught:
            main()
        printed = capsys.readouterr()
        return Ran(int(caught.value.code or 0), printed.out, printed.err)

    return call


def files(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_version(run: Run) -> None:
    ran = run("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"shoal {shoal.__version__}\n", "")


def test_help_lists_every_exit_status(run: Run) -> None:
    ran = run("--help")
    text = " ".join(ran.out.split())
    assert ran.code == 0 and set(EXIT_STATUSES) == set(ExitStatus)
    for status, meaning in EXIT_STATUSES.items():
        assert f" {status:d}: {meaning}" in text
    assert run().out.strip() == ran.out.strip()  # without arguments


def test_every_option_is_explained_in_plain_words() -> None:
    waiting = [get_command(app)]
    texts = []
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        texts += [(command.name, command.help)]
        texts += [(f"{command.name} {p.name}", p.help) for p in command.params if p.name != "help"]  # type: ignore[attr-defined]
    assert len(texts) > 50
    for name, text in texts:
        assert text and text.strip().endswith((".", ".json")), (name, text)
        assert not [word for word in DIALECT if word in text.lower()], (name, text)


SHELLS = {
    "bash": (".bash_completions/shoal.sh", ".bashrc"),
    "zsh": (".zfunc/_shoal", ".zshrc"),
    "fish": (".config/fish/completions/shoal.fish", None),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_installed_and_nothing_else_is_changed(run: Run, tmp_path: Path, shell: str) -> None:
    script, settings = SHELLS[shell]
    before = {".bashrc": "alias a=b\n", ".zshrc": "alias c=d\n", "notes.txt": "mine\n"}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    choose = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = run("--show-completion", shell, **choose)
    assert shown.code == 0 and "_SHOAL_COMPLETE" in shown.out and files(tmp_path) == before
    for _ in range(2):  # a second installation changes nothing
        ran = run("--install-completion", shell, **choose)
        assert ran.code == 0 and script in ran.out and ran.err == ""
        after = files(tmp_path)
        assert after.pop(script).strip() == shown.out.strip()
        assert set(after) == set(before)
        assert {name for name in after if after[name] != before[name]} == ({settings} if settings else set())
        assert not settings or after[settings].startswith(before[settings].rstrip())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("shoal an", ["anonymize"]),
        ("shoal taxonomy ", ["show", "make", "check"]),
        ("shoal anonymize --method mon", ["mondrian"]),
        ("shoal anonymize --format ", ["csv", "parquet"]),
        ("shoal check --engine d", ["duckdb"]),
    ],
)
def test_completion_offers_commands_and_choices(run: Run, tmp_path: Path, words: str, expected: list[str]) -> None:
    place = str(words.count(" "))
    ran = run(_SHOAL_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)
    assert (ran.code, ran.out.split(), ran.err) == (0, expected, "")
    assert files(tmp_path) == {}


def test_schema_is_printed_or_written(run: Run, tmp_path: Path) -> None:
    ran = run("schema")
    assert ran.code == 0 and ran.err == "" and json.loads(ran.out) == policy_schema()
    assert files(tmp_path) == {}
    ran = run("schema", "--out", "policy.schema.json")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert json.loads((tmp_path / "policy.schema.json").read_text()) == policy_schema()


def test_schema_overwrites_only_when_forced(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "policy.schema.json"
    file.write_text("mine")
    ran = run("schema", "-o", file.name)
    assert ran.code == 2 and "'policy.schema.json' already exists" in ran.err and file.read_text() == "mine"
    assert run("schema", "-o", file.name, "--force").code == 0
    assert json.loads(file.read_text()) == policy_schema()
    ran = run("schema", "-o", "none/policy.schema.json")
    assert ran.code == 2 and "cannot write 'none/policy.schema.json'" in ran.err


STOPPED = """
import importlib, os, signal, sys
from shoal import EngineError

program = importlib.import_module("shoal.cli.app")


def run(**_):
    try:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    except KeyboardInterrupt:
        raise EngineError("a library is not installed") from None


program.app = run
program.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_an_interrupt_that_a_library_turns_into_an_error_is_a_stop(name: str, status: int) -> None:
    """An extension module that is interrupted while it is imported raises an ImportError."""
    ran = subprocess.run([sys.executable, "-c", RESTORE_SIGNALS + STOPPED, name], capture_output=True, text=True)
    assert ran.returncode == status and ran.stderr.strip() == "stopped"
