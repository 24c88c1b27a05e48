"""Write YAML: mappings and lists in block style, lists of scalars on lines of up to 110 characters.

PyYAML takes ten times as long for a large taxonomy. Texts that YAML could convert, such as ``NO``, ``007`` and ``12:30``, are
quoted; invisible characters are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from shoal.errors import escape_invisible

WIDTH = 110  # characters of a line with several entries of a list
LONGEST_KEY = 128  # characters of a key before its colon; longer keys have a line of their own, with a question mark
PLAIN = re.compile(r"[\w<(][\w .+/()<>=&%$;'–…^~|!@*-]*")  # without quotes, if YAML does not convert the text
CONVERTED = {"y", "Y", "n", "N"}  # by some parsers of YAML 1.1, in addition to the texts that PyYAML converts
RESOLVERS: Mapping[Any, list[tuple[str, re.Pattern[str]]]] = yaml.SafeDumper.yaml_implicit_resolvers
ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def format_yaml(content: Any) -> str:
    """The YAML text of nested mappings, lists and scalars.

    >>> print(format_yaml({"ANY": {"Office": ["clerk", "NO"], "Field": ["miner", {"Land": ["007"]}]}}), end="")
    ANY:
      Office: [clerk, 'NO']
      Field:
      - miner
      - Land: ['007']
    """
    return "\n".join(_format_block(content, "")) + "\n"


def _format_block(content: Any, indent: str) -> Iterator[str]:
    """The lines of a mapping or list; the first line has no indentation, because it may follow a hyphen."""
    start = ""
    if isinstance(content, Mapping) and content:
        for key, value in content.items():
            yield from _format_entry(key, value, indent, start)
            start = indent
    elif _is_block(content):
        for entry in content:
            lines = _format_block(entry, f"{indent}  ")
            yield f"{start}- {next(lines)}"
            yield from lines
            start = indent
    else:
        yield _format_flow(content, indent, len(indent))


def _format_entry(key: Any, value: Any, indent: str, start: str) -> Iterator[str]:
    """The lines of a key and its value."""
    name = format_scalar(key)
    begin = f"{start}{name}:" if len(name) <= LONGEST_KEY else f"{start}? {name}\n{indent}:"
    if not _is_block(value):
        yield f"{begin} {_format_flow(value, f'{indent}  ', len(indent) + len(name))}"
        return
    yield begin
    below = f"{indent}  " if isinstance(value, Mapping) else indent
    lines = _format_block(value, below)
    yield f"{below}{next(lines)}"
    yield from lines


def _is_block(value: Any) -> bool:
    """Whether a value has lines of its own: a mapping, or a list that contains a mapping or list."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(entry, (Mapping, list, tuple)) for entry in value)
    return isinstance(value, Mapping) and len(value) > 0


def _format_flow(value: Any, indent: str, used: int) -> str:
    """A scalar, or a list of scalars in brackets; ``used`` is the number of characters before it on the line."""
    if isinstance(value, (list, tuple)):
        return f"[{_wrap(map(format_scalar, value), indent, used + 3)}]"
    return "{}" if isinstance(value, Mapping) else format_scalar(value)


def _wrap(texts: Iterable[str], indent: str, used: int) -> str:
    """Join texts by commas and break lines between them."""
    pieces: list[str] = []
    for text in texts:
        used += len(text) + 2
        if not pieces:
            pieces.append(text)
        elif used > WIDTH:
            pieces.append(f",\n{indent}{text}")
            used = len(indent) + len(text) + 2
        else:
            pieces.append(f", {text}")
    return "".join(pieces)


def format_scalar(value: Any) -> str:
    """A text, quoted if necessary; or a number, a truth value or None.

    >>> [format_scalar(v) for v in ("a b", "NO", "a: b", "it's", " x", "two\\nlines", 5, 0.5, True)]
    ['a b', "'NO'", "'a: b'", "it's", "' x'", '"two\\\\nlines"', '5', '0.5', 'true']
    """
    if not isinstance(value, str):
        return _format_number(value)
    if not value.isascii() or not value.isprintable():
        visible = escape_invisible(value)
        if visible != value:
            return f'"{"".join(map(_escape, value))}"'
    if PLAIN.fullmatch(value) and not value.endswith(" ") and not _is_converted(value):
        return value
    return "'" + value.replace("'", "''") + "'"


def _is_converted(text: str) -> bool:
    """Whether a YAML parser reads the text as a number, a date, a truth value or null."""
    if any(pattern.match(text) for _, pattern in (*RESOLVERS.get(text[0], ()), *RESOLVERS.get(None, ()))):
        return True
    return text in CONVERTED or (text[0].isdigit() and _is_number(text))


def _is_number(text: str) -> bool:
    """Whether Python reads the text as a number: parsers of YAML 1.2 read ``1e3`` and ``0o7`` as numbers."""
    for convert in (float, lambda digits: int(digits, 0)):
        try:
            convert(text)
        except ValueError:
            continue
        return True
    return False


def _escape(char: str) -> str:
    """A character in double quotes."""
    if char in ESCAPES:
        return ESCAPES[char]
    if escape_invisible(char) == char:
        return char
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _format_number(value: Any) -> str:
    """A number, a truth value or None, as PyYAML writes it."""
    return str(yaml.safe_dump(value, default_flow_style=True)).split("\n", 1)[0]
