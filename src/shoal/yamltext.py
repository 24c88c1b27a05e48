"""YAML as people mean it: every scalar is text, no key may stand twice, and the line of every key is known."""

from __future__ import annotations

from typing import Any

import yaml

from shoal.errors import DataError, PolicyError

MOST_PLACES = 500_000  # keys and entries of one file, those that aliases repeat included
Place = tuple[str | int, ...]


def read_yaml(
    text: str, name: str, error: type[PolicyError] | type[DataError] = PolicyError
) -> tuple[Any, dict[Place, int]]:
    """The content, scalars as text so that `NO`, `007` and `null` stay what they are, and the line of every place in it.

    A key with nothing behind it has the content None.
    """
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise error(f"{name}{where}: not valid YAML: {getattr(problem, 'problem', problem)}") from problem
    except RecursionError:
        raise error(f"{name}: it is nested too deeply; remove levels or brackets") from None
    lines: dict[Place, int] = {}
    try:
        return (None if node is None else _value(node, (), lines, name, error)), lines
    except RecursionError:
        raise error(f"{name}: an alias in it refers to itself") from None


def _value(node: yaml.Node, place: Place, lines: dict[Place, int], name: str, error: type[Exception]) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if len(lines) > MOST_PLACES:
        raise error(f"{name}: it has more than {MOST_PLACES} entries; remove aliases that repeat others")
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, below in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise error(f"{name}, line {key.start_mark.line + 1}: a key must be a word")
            if key.value in found:
                raise error(f"{name}, line {key.start_mark.line + 1}: {key.value!r} is given twice")
            lines[(*place, key.value)] = key.start_mark.line + 1
            found[key.value] = _value(below, (*place, key.value), lines, name, error)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(below, (*place, i), lines, name, error) for i, below in enumerate(node.value)]
    return None if node.value == "" and node.tag.endswith(":null") else node.value
