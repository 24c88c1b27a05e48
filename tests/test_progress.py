"""The log of a run as JSON lines."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.cli import main
from shoal.progress import JsonLog


def test_a_stage_is_logged_when_it_begins_and_ends() -> None:
    stream = io.StringIO()
    log = JsonLog(stream)
    for stage, done, total in [
        ("reading", 0, 2),
        ("reading", 1, 2),
        ("reading", 2, 2),
        ("reading", 2, 2),
        ("parts", 1, 3),
        ("writing", 1, 1),
    ]:
        log(stage, done, total)
        if stage == "reading":
            log.count_rows(7)
    log.write("released", rows=5)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line.get("stage"), line.get("done")) for line in lines] == [
        ("stage started", "reading", None),
        ("stage ended", "reading", 2),
        ("stage started", "parts", None),
        ("stage ended", "parts", 1),  # another stage began
        ("stage started", "writing", None),
        ("stage ended", "writing", 1),
        ("released", None, None),
    ]
    assert [line.get("rows") for line in lines] == [None, 7, 7, 7, 7, 7, 5]  # as soon as it is known
    assert all(line["memory_mb"] is None or line["memory_mb"] > 0 for line in lines)
    assert [("stage_seconds" in line) for line in lines] == [line["event"] == "stage ended" for line in lines]
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a release that holds with k = 2."""
    (tmp_path / "table.csv").write_text("age,name\n1,Ann\n1,Bob\n2,Cy\n2,Dee\n", encoding="utf-8")
    policy = shoal.Policy(quasi={"age": "numeric"}, identifiers=["name"], require=[shoal.KAnonymity(2)])
    (tmp_path / "policy.yaml").write_text(policy.to_yaml(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return ["shoal", "anonymize", "table.csv", "--policy", "policy.yaml", "--out", "out", "--quiet"]


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_a_release_logs_its_stages_and_rows(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOAL_LOG", "json")
    assert run(given, monkeypatch) == 0
    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line.get("stage") for line in lines} >= {"reading", "writing", "checking"}
    assert all(line["rows"] == 4 and {"seconds", "memory_mb"} <= line.keys() for line in lines)
    assert lines[-1]["event"] == "released"
    assert (lines[-1]["rows"], lines[-1]["suppressed"], lines[-1]["holds"]) == (4, 0, True)
    assert "Ann" not in text


def test_new_rows_are_logged(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(given, monkeypatch) == 0
    Path("table.csv").write_text("age,name\n1,Eve\n1,Flo\n2,Gus\n", encoding="utf-8")
    later = [*given[:3], "--recoding", "out.owner/recoding.json", "--out", "more", "--quiet", "--log", "json"]
    assert run(later, monkeypatch) == 0
    assert read_rows(capsys) == {3}


@pytest.mark.parametrize(
    ("method", "require"),
    [("random", {"posterior": 0.9}), ("anatomy", {"l-diversity": {"l": 2, "of": "sex"}})],
    ids=str,
)
def test_every_family_of_methods_logs_the_rows(
    method: str,
    require: dict[str, Any],
    given: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("table.csv").write_text("age,sex\n1,f\n1,m\n2,f\n2,m\n", encoding="utf-8")
    policy = shoal.Policy.model_validate({"quasi": {"age": "numeric"}, "sensitive": ["sex"], "require": [require]})
    Path("policy.yaml").write_text(policy.to_yaml(), encoding="utf-8")
    assert run([*given, "--method", method, "--log", "json"], monkeypatch) == 0
    assert read_rows(capsys) == {4}


def read_rows(capsys: pytest.CaptureFixture[str]) -> set[int]:
    """The numbers of rows in the lines of stages."""
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    return {line["rows"] for line in lines if "stage" in line}


def test_a_failed_run_is_logged_without_the_text_of_its_error(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = Path("policy.yaml")
    policy.write_text(policy.read_text(encoding="utf-8").replace("2", "5"), encoding="utf-8")
    assert run([*given, "--log", "json"], monkeypatch) == 2
    first = json.loads(next(line for line in capsys.readouterr().err.splitlines() if '"failed"' in line))
    assert first["error"] == "PolicyError"


def test_an_unknown_log_is_refused(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*given, "--log", "xml"], monkeypatch) == 2
    assert "unknown log 'xml'; choose from 'json'" in capsys.readouterr().err
