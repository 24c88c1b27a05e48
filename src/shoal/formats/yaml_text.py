"""Read YAML: every scalar is text, duplicate keys are errors, and the line of every key is recorded.

Files may be untrusted, so nesting, the length of texts and the expanded size of aliases are limited while events are read,
before any content is built. No function here is recursive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from shoal.errors import DataError, PolicyError, escape_invisible

Place = tuple[str | int, ...]
Wrong = type[PolicyError] | type[DataError]

DEEPEST = 250  # nesting of mappings and lists; a taxonomy of 100 levels needs 200
LONGEST = 100_000  # characters of one text
LARGEST = 64_000_000  # characters of a file
EXPANDED = 64_000_000  # characters of the content with all aliases expanded; every entry counts NODE more
NODE = 100
PLACE_DEPTH, MOST_PLACES = 4, 100_000  # limits of the places whose lines are recorded

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same events, many times faster


def read_file(path: str | Path, what: str, error: Wrong) -> str:
    """Read a UTF-8 file of at most `LARGEST` characters."""
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            text = file.read(LARGEST + 1)
    except UnicodeDecodeError:
        raise error(f"cannot read the {what} {str(path)!r}: the text is not UTF-8. Save the file as UTF-8.") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"cannot read the {what} {str(path)!r}: {reason}") from problem
    _refuse_large(text, f"the {what} {str(path)!r}", error)
    return text


def read_yaml(text: str, name: str, error: Wrong = PolicyError) -> tuple[Any, dict[Place, int]]:
    """Parse YAML. Return the content and the line of every place in it.

    Scalars are text: `NO`, `007` and `null` are not converted. A key without a value has the value None. An alias is replaced
    by the content of its anchor.
    """
    name = escape_invisible(name)
    _refuse_large(text, name, error)
    reader = _Reader(name, error)
    try:
        for event in yaml.parse(text, LOADER):
            reader.handle(event)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise error(f"{name}{where}: not valid YAML: {_explain_yaml(text, problem)}") from problem
    except UnicodeEncodeError:
        raise error(f"{name}: not valid YAML: the text contains half of a surrogate pair") from None
    return reader.content, reader.lines


def _explain_yaml(text: str, problem: yaml.YAMLError) -> str:
    """The fault in plain words; the parser's own words for rare faults."""
    mark, words = getattr(problem, "problem_mark", None), str(getattr(problem, "problem", None) or problem)
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "the line begins with a tab. Replace the tab by spaces."
    if words.startswith("mapping values are not allowed"):
        return (
            "a second colon on the line, or a wrong indentation. Write one key per line, and quote a text with a colon."
        )
    return f"{words}. Correct the line, or the line before it."


def refuse_deep(value: Any, name: str, error: Wrong) -> None:
    """Raise an error if mappings and lists are nested too deeply or contain themselves."""
    deepest: dict[int, int] = {}
    waiting = [(value, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > DEEPEST:
            raise error(f"{name}: mappings and lists are nested more than {DEEPEST} levels deep, or contain themselves")
        for below in node.values() if isinstance(node, Mapping) else node:
            if isinstance(below, (Mapping, list, tuple)) and deepest.get(id(below), 0) <= depth:
                deepest[id(below)] = depth + 1
                waiting.append((below, depth + 1))


def _refuse_large(text: str, name: str, error: Wrong) -> None:
    if len(text) > LARGEST:
        raise error(f"{name} has more than {LARGEST:,} characters. Remove the entries that are not needed.")


@dataclass
class _Open:
    """A mapping or list whose end was not read yet; ``size`` is its expanded size so far."""

    content: dict[str, Any] | list[Any]
    place: Place
    anchor: str | None
    size: int = NODE
    key: str | None = None


@dataclass
class _Reader:
    """Builds the content from the events of the YAML parser."""

    name: str
    error: Wrong
    content: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int] | None] = field(default_factory=dict)  # None until the content is complete
    size: int = 0
    documents: int = 0

    def handle(self, event: Any) -> None:
        """Handle the next event."""
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent):
            if len(event.value) > LONGEST:
                raise self.fault(f"a text has more than {LONGEST:,} characters; shorten it", line)
            self.reserve(event.anchor, line)
            empty = event.value == "" and (event.implicit[0] or (event.tag or "").endswith(":null"))
            value, size = None if empty else event.value, NODE + len(event.value)
            self.put(value, size, line)
            self.remember(event.anchor, value, size)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self.open({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor, line)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            closed = self.stack.pop()
            self.remember(closed.anchor, closed.content, closed.size)
            if self.stack:
                self.stack[-1].size += closed.size - NODE  # NODE was already added at the start event
        elif isinstance(event, yaml.AliasEvent):
            self.put(*self.expand(event.anchor or "", line), line)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self.fault("a second document begins here; a file may contain one document only", line)

    def open(self, content: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        """Begin a mapping or list."""
        if self.stack and isinstance(self.stack[-1].content, dict) and self.stack[-1].key is None:
            raise self.fault("a key must be a word, not a mapping or list", line)
        if len(self.stack) == DEEPEST:
            raise self.fault(f"mappings and lists are nested more than {DEEPEST} levels deep", line)
        self.reserve(anchor, line)
        place = self.put(content, NODE, line)
        self.stack.append(_Open(content, place, anchor))

    def put(self, value: Any, size: int, line: int) -> Place:
        """Add a value or a key at the current position."""
        self.size += size
        if self.size > EXPANDED:
            raise self.fault("the content is too large with all aliases expanded; use fewer aliases or entries", line)
        if not self.stack:
            self.content = value
            self.lines[()] = line
            return ()
        parent = self.stack[-1]
        parent.size += size
        if isinstance(parent.content, list):
            place = self.note(parent.place, len(parent.content), line)
            parent.content.append(value)
            return place
        if parent.key is None:
            self.put_key(parent, value, line)
            return parent.place
        place = self.note(parent.place, parent.key, line)
        parent.content[parent.key] = value
        parent.key = None
        return place

    def put_key(self, parent: _Open, value: Any, line: int) -> None:
        """Add a key; its value follows."""
        if isinstance(value, (dict, list)):
            raise self.fault("a key must be a word, not a mapping or list", line)
        key = value or ""
        if key in parent.content:
            raise self.fault(f"the key {key!r} is given twice; remove one of the two entries", line)
        parent.key = key
        self.note(parent.place, key, line)

    def note(self, parent: Place, step: str | int, line: int) -> Place:
        """Record the line of a place. Beyond the limits of depth and number, return the parent place."""
        if len(parent) >= PLACE_DEPTH or len(self.lines) >= MOST_PLACES:
            return parent
        place = (*parent, step)
        self.lines.setdefault(place, line)
        return place

    def reserve(self, anchor: str | None, line: int) -> None:
        """Register an anchor; its content follows."""
        if anchor is not None and anchor in self.anchors:
            raise self.fault(f"the anchor {anchor!r} is given twice; rename one of the two", line)
        if anchor is not None:
            self.anchors[anchor] = None

    def remember(self, anchor: str | None, value: Any, size: int) -> None:
        """Store the content of an anchor."""
        if anchor is not None:
            self.anchors[anchor] = value, size

    def expand(self, anchor: str, line: int) -> tuple[Any, int]:
        """Return the content of an alias and its expanded size."""
        if anchor not in self.anchors:
            raise self.fault(f"not valid YAML: undefined alias {anchor!r}", line)
        content = self.anchors[anchor]
        if content is None:
            raise self.fault(f"the alias {anchor!r} refers to itself", line)
        return content

    def fault(self, text: str, line: int) -> PolicyError | DataError:
        """An error that names the line."""
        return self.error(f"{self.name}, line {line}: {text}")
