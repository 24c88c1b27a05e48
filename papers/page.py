"""Pages whose tables are made: what stands between ``<!-- made: name -->`` and ``<!-- end -->`` is written anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

MADE = re.compile(r"(?P<begin><!-- made: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.S)


def fill(text: str, parts: Mapping[str, str]) -> str:
    """The page with its parts.

    >>> fill("a\\n<!-- made: b -->\\nold\\n<!-- end -->\\n", {"b": "new"})
    'a\\n<!-- made: b -->\\n\\nnew\\n\\n<!-- end -->\\n'
    """
    asked = [found["name"] for found in MADE.finditer(text)]
    if sorted(asked) != sorted(parts):
        raise ValueError(f"the page has places for {sorted(asked)}, and {sorted(parts)} were made")
    return MADE.sub(lambda found: f"{found['begin']}\n{parts[found['name']].strip()}\n\n{found['end']}", text)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; numbers stand at the right.

    >>> print(table(["k", "error"], [(20, 15.038)]))
    | k | error |
    | --: | --: |
    | 20 | 15.04 |
    """
    listed = [[f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    right = [all(re.fullmatch(r"[-+−\d.,]+|", row[i]) for row in listed) for i in range(len(header))]
    ruler = ["--:" if numbers else "---" for numbers in right]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ruler, *listed))


def write(path: Path, text: str) -> None:
    """Write a file, and say whether it changed."""
    old = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {'as it was' if old == text else 'written anew'}")
