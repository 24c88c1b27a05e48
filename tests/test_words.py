"""Texts use the words of the glossary: words that readers had to translate do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
]
REPLACED = {
    r"mend(ed|s)?": "correct",
    r"anew": "again",
    r"unless said": "(default: ...)",
    r"a stranger|strangers": "a reader, as published",
    r"crowds?": "group",
    r"confidential": "sensitive",
    r"drawn anew": "synthetic",
    r"(leaves?|left) the house": "is released",
    r"may leave|must not leave": "public folder, owner folder",
    r"risk of being found": "re-identification risk",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_word_needs_translation(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    for pattern, better in REPLACED.items():
        if pattern == "confidential" and file.name in (
            "glossary.md",
            "ledger.py",
        ):  # the papers' word, a key of groups.json
            continue
        match = re.search(rf"\b({pattern})\b", text, re.IGNORECASE)
        assert match is None, f"{match[0]!r}: write {better!r}"
