"""Every Python block and every policy in the documents runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shoal

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


CASES = [pytest.param(p, id=p.name) for p in PAGES if blocks(p, "python")]
POLICIES = [pytest.param(text, id=f"{p.name}-{i}") for p in PAGES for i, text in enumerate(blocks(p, "yaml"))]


@pytest.mark.parametrize("page", CASES)
def test_python_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)  # noqa: S102
    said = capsys.readouterr().out
    for text in blocks(page, "text"):
        assert text.strip() in said


@pytest.mark.parametrize("text", POLICIES)
def test_policies_load(text: str) -> None:
    assert shoal.Policy.parse(text).require


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)
