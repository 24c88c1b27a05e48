"""The outcome of a case as plain values, and the differences of two outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import shoal

Outcome = dict[str, Any]
TABLES = (".csv", ".tsv", ".md", ".html", ".txt", ".yaml", ".yml", ".sql")  # compared line by line
SHOWN = 3  # differences of a file or a list that are printed
SHORT = 100  # characters of a value that are printed


def record(make: Callable[[], Any]) -> Outcome:
    """What a function returns, or the text of its error."""
    try:
        found = make()
    except shoal.ShoalError as error:
        return {"error": type(error).__name__, "text": str(error).splitlines()}
    return found if isinstance(found, dict) else {"value": found}


def read_folders(public: Path) -> Outcome:
    """The content of all files of a public folder and its owner folder."""
    found: Outcome = {}
    for prefix, folder in (("", public), ("owner/", public.with_name(f"{public.name}.owner"))):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                found[f"{prefix}{path.relative_to(folder).as_posix()}"] = read_file(path)
    return found


def read_file(path: Path) -> Any:
    """The content of a file: values of JSON, lines of text, or the digest of other content."""
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix in TABLES:
        return path.read_text().splitlines()
    return sha256(path.read_bytes()).hexdigest()


def to_plain(outcomes: Mapping[str, Any], folders: Mapping[Path, str]) -> dict[str, Any]:
    """Outcomes as they are in a JSON file, with other names for the folders of this run."""
    text = json.dumps(outcomes, default=_to_text, ensure_ascii=False)
    for folder, name in folders.items():
        text = text.replace(json.dumps(str(folder), ensure_ascii=False)[1:-1], name)
    plain: dict[str, Any] = json.loads(text)
    return plain


def _to_text(value: Any) -> Any:
    """A value that JSON does not have; sets in an order that does not depend on the hash seed."""
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def compare(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """The differences of two plain values, each with its place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            if key not in before or key not in after:
                word = "only in the later version" if key in after else "only in the earlier version"
                yield f"{place}/{key}: {word}"
            else:
                yield from compare(before[key], after[key], f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list):
        pairs = [(i, old, new) for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new]
        for i, old, new in pairs[:SHOWN]:
            yield from compare(old, new, f"{place}[{i}]")
        more = len(pairs) - SHOWN
        if more > 0:
            yield f"{place}: {more} more entries differ"
        if len(before) != len(after):
            yield f"{place}: {len(before)} entries -> {len(after)} entries"
    elif before != after or type(before) is not type(after):
        yield f"{place}: {shorten(before, after)} -> {shorten(after, before)}"


def shorten(value: Any, other: Any) -> str:
    """A value as text; of a long text the part where it begins to differ from the other value."""
    text, against = (json.dumps(one, ensure_ascii=False) for one in (value, other))
    if len(text) <= SHORT:
        return text
    same = next((i for i, (a, b) in enumerate(zip(text, against, strict=False)) if a != b), len(against))
    begin = max(min(same - SHORT // 4, len(text) - SHORT), 0)
    return ("…" if begin else "") + text[begin : begin + SHORT] + ("…" if begin + SHORT < len(text) else "")
