"""Reading a policy file: every scalar as text, and the line on which each key stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from shoal.errors import PolicyError

Place = tuple[str | int, ...]


def read_yaml(text: str, name: str) -> tuple[Any, dict[Place, int]]:
    """The content, scalars as text so that `NO` and `007` stay what they are, and the line of every place in it."""
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise PolicyError(f"{name}{where}: not valid YAML: {getattr(error, 'problem', error)}") from error
    lines: dict[Place, int] = {}
    return (None if node is None else _value(node, (), lines, name)), lines


def _value(node: yaml.Node, place: Place, lines: dict[Place, int], name: str) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, below in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise PolicyError(f"{name}, line {key.start_mark.line + 1}: a key must be a word")
            if key.value in found:
                raise PolicyError(f"{name}, line {key.start_mark.line + 1}: {key.value!r} is given twice")
            lines[(*place, key.value)] = key.start_mark.line + 1
            found[key.value] = _value(below, (*place, key.value), lines, name)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(below, (*place, i), lines, name) for i, below in enumerate(node.value)]
    return None if node.tag == "tag:yaml.org,2002:null" and node.value in ("", "~", "null") else node.value


def read_text(path: Path) -> str:
    """The text of a policy file, or an error that names it."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise PolicyError(f"there is no policy file {str(path)!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"cannot read the policy {str(path)!r}: {error}") from error
