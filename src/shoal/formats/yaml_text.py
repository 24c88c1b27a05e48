"""YAML as people mean it: every scalar is text, no key may stand twice, and the line of every key is known.

Files may come from strangers, so nesting, the length of texts and what aliases expand to are bounded while events are read,
before any content is built. Nothing here recurses.
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

DEEPEST = 250  # mappings and lists inside one another; a taxonomy of 100 levels needs 200
LONGEST = 100_000  # characters of one text
LARGEST = 64_000_000  # characters of a file
EXPANDED = 64_000_000  # characters of the content with all aliases expanded, and NODE more for every entry
NODE = 100
PLACES, NOTED = 4, 100_000  # the steps down to which lines are remembered, and how many of them

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same events, read many times faster


def read_file(path: str | Path, what: str, error: Wrong) -> str:
    """The text of a file of bounded size."""
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            text = file.read(LARGEST + 1)
    except UnicodeDecodeError:
        raise error(f"cannot read the {what} {str(path)!r}: its text is not UTF-8") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"cannot read the {what} {str(path)!r}: {reason}") from problem
    _refuse_large(text, f"the {what} {str(path)!r}", error)
    return text


def read_yaml(text: str, name: str, error: Wrong = PolicyError) -> tuple[Any, dict[Place, int]]:
    """The content, scalars as text so that `NO`, `007` and `null` stay what they are, and the lines of places in it.

    A key with nothing behind it has the content None. An alias stands for the content of its anchor.
    """
    name = escape_invisible(name)
    _refuse_large(text, name, error)
    reader = _Reader(name, error)
    try:
        for event in yaml.parse(text, LOADER):
            reader.take(event)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise error(f"{name}{where}: not valid YAML: {getattr(problem, 'problem', None) or problem}") from problem
    except UnicodeEncodeError:
        raise error(f"{name}: not valid YAML: its text holds half a character") from None
    return reader.content, reader.lines


def refuse_deep(value: Any, name: str, error: Wrong) -> None:
    """An error for mappings and lists that are nested too deeply, or hold themselves."""
    deepest: dict[int, int] = {}
    waiting = [(value, 1)]
    while waiting:
        one, depth = waiting.pop()
        if depth > DEEPEST:
            raise error(f"{name}: mappings and lists are nested more than {DEEPEST} deep, or hold themselves")
        for below in one.values() if isinstance(one, Mapping) else one:
            if isinstance(below, (Mapping, list, tuple)) and deepest.get(id(below), 0) <= depth:
                deepest[id(below)] = depth + 1
                waiting.append((below, depth + 1))


def _refuse_large(text: str, name: str, error: Wrong) -> None:
    if len(text) > LARGEST:
        raise error(f"{name} has more than {LARGEST:,} characters; split it, or take out what is not needed")


@dataclass
class _Open:
    """A mapping or list that is being read; ``size`` is its expanded size so far."""

    content: dict[str, Any] | list[Any]
    place: Place
    anchor: str | None
    size: int = NODE
    key: str | None = None


@dataclass
class _Reader:
    """Builds the content event by event."""

    name: str
    error: Wrong
    content: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int] | None] = field(default_factory=dict)  # None while it is being read
    size: int = 0
    documents: int = 0

    def take(self, event: Any) -> None:
        """The next event."""
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent):
            if len(event.value) > LONGEST:
                raise self.fault(f"a text has more than {LONGEST:,} characters", line)
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
                self.stack[-1].size += closed.size - NODE  # which counted when it was opened
        elif isinstance(event, yaml.AliasEvent):
            self.put(*self.expand(event.anchor or "", line), line)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self.fault("a second document begins; keep one in a file", line)

    def open(self, content: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        """A mapping or list begins."""
        if self.stack and isinstance(self.stack[-1].content, dict) and self.stack[-1].key is None:
            raise self.fault("a key must be a word", line)
        if len(self.stack) == DEEPEST:
            raise self.fault(f"mappings and lists are nested more than {DEEPEST} deep", line)
        self.reserve(anchor, line)
        place = self.put(content, NODE, line)
        self.stack.append(_Open(content, place, anchor))

    def put(self, value: Any, size: int, line: int) -> Place:
        """A value, or a key, at the place that is next."""
        self.size += size
        if self.size > EXPANDED:
            raise self.fault("the content is too large, with all aliases expanded; split it", line)
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
        """A key, whose value comes next."""
        if isinstance(value, (dict, list)):
            raise self.fault("a key must be a word", line)
        key = value or ""
        if key in parent.content:
            raise self.fault(f"{key!r} is given twice", line)
        parent.key = key
        self.note(parent.place, key, line)

    def note(self, parent: Place, step: str | int, line: int) -> Place:
        """A place, and its line unless it is known; far down or far behind, the place above stands for it."""
        if len(parent) >= PLACES or len(self.lines) >= NOTED:
            return parent
        place = (*parent, step)
        self.lines.setdefault(place, line)
        return place

    def reserve(self, anchor: str | None, line: int) -> None:
        """An anchor whose content comes next."""
        if anchor is not None and anchor in self.anchors:
            raise self.fault(f"the anchor {anchor!r} is given twice", line)
        if anchor is not None:
            self.anchors[anchor] = None

    def remember(self, anchor: str | None, value: Any, size: int) -> None:
        """The content of an anchor."""
        if anchor is not None:
            self.anchors[anchor] = value, size

    def expand(self, anchor: str, line: int) -> tuple[Any, int]:
        """The content that an alias stands for, and its expanded size."""
        if anchor not in self.anchors:
            raise self.fault(f"not valid YAML: found undefined alias {anchor!r}", line)
        found = self.anchors[anchor]
        if found is None:
            raise self.fault("an alias in it refers to itself", line)
        return found

    def fault(self, text: str, line: int) -> PolicyError | DataError:
        """An error with its line."""
        return self.error(f"{self.name}, line {line}: {text}")
