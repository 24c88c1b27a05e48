"""Pages with generated parts: the text between ``<!-- made: name -->`` and ``<!-- end -->`` is replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

MADE = re.compile(r"(?P<begin><!-- made: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.S)


def fill(text: str, parts: Mapping[str, str]) -> str:
    """Return the page with its generated parts.

    >>> fill("a\\n<!-- made: b -->\\nold\\n<!-- end -->\\n", {"b": "new"})
    'a\\n<!-- made: b -->\\n\\nnew\\n\\n<!-- end -->\\n'
    """
    names = [match["name"] for match in MADE.finditer(text)]
    if sorted(names) != sorted(parts):
        raise ValueError(f"The page has places for {sorted(names)}, but the parts are {sorted(parts)}.")
    return MADE.sub(lambda match: f"{match['begin']}\n{parts[match['name']].strip()}\n\n{match['end']}", text)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown with numbers aligned right.

    >>> print(table(["k", "error"], [(20, 15.038)]))
    | k | error |
    | --: | --: |
    | 20 | 15.04 |
    """
    texts = [[f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    right = [all(re.fullmatch(r"[-+−\d.,]+|", row[i]) for row in texts) for i in range(len(header))]
    ruler = ["--:" if numbers else "---" for numbers in right]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ruler, *texts))


def write(path: Path, text: str) -> None:
    """Write a file, and print whether it changed."""
    old = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {'unchanged' if old == text else 'updated'}")
