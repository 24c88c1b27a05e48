"""Texts use the words of the glossary: words that readers had to translate do not come back."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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


ALLOWED = {("confidential", "glossary.md"), ("confidential", "ledger.py")}  # the papers' word, a key of groups.json


def test_no_word_needs_translation() -> None:
    assert len(FILES) > 100
    texts = {file: file.read_text(encoding="utf-8") for file in FILES}
    faults = [
        f"{file.relative_to(ROOT)}: {match[0]!r}: write {better!r}"
        for pattern, better in REPLACED.items()
        for file, text in texts.items()
        if (pattern, file.name) not in ALLOWED
        for match in re.finditer(rf"\b({pattern})\b", text, re.IGNORECASE)
    ]
    assert not faults, "\n".join(faults)
