"""Trees as texts: nested YAML, and CSV with one row per leaf."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from shoal.errors import DataError, EngineError, escape_invisible, list_some
from shoal.formats.formulas import escape_formula, restore_formula
from shoal.formats.yaml_text import read_file, read_yaml

CSV = (".csv", ".txt")
MADE = "# made from the data: not to be published\n"


def read_text(path: str | Path) -> str:
    """The text of a taxonomy file."""
    return read_file(path, "taxonomy", DataError)


def write_text(path: str | Path, text: str) -> None:
    """Write a taxonomy file."""
    try:
        Path(path).write_text(text, encoding="utf-8", newline="")
    except (OSError, ValueError) as error:
        raise EngineError(f"cannot write {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None


def nested_of(text: str) -> Any:
    """The nested mappings and lists of YAML text."""
    return read_yaml(text, "taxonomy", DataError)[0]


def yaml_of(nested: Any) -> str:
    """Nested mappings and lists as YAML text, lists of leaves on one line; invisible characters are escapes."""

    def dump(*, unicode: bool) -> str:
        options: dict[str, Any] = {"sort_keys": False, "default_flow_style": None, "width": 110}
        return str(yaml.safe_dump(nested, allow_unicode=unicode, **options))

    text = dump(unicode=True)
    return (
        text if escape_invisible(text, keep="\n") == text else dump(unicode=False)
    )  # YAML's own escapes, read back the same


def rows_of(text: str) -> list[list[str]]:
    """The ways of all leaves from CSV text, each from the leaf upward, without the root."""
    bare = re.sub(r'"[^"]*"', "", text)
    delimiter = ";" if bare.count(";") >= bare.count(",") else ","
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        rows = [way for row in table if (way := [restore_formula(cell.strip()) for cell in row if cell.strip()])]
    except csv.Error as error:
        raise DataError(f"taxonomy: not valid CSV, line {table.line_num}: {error}") from None
    if len({row[-1] for row in rows}) == 1 and all(len(row) > 1 for row in rows):  # the last column is the root
        rows = [row[:-1] for row in rows]
    return rows


def csv_of(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """Rows as CSV text, in quotes throughout where a label holds a sign that could be taken for a delimiter.

    An apostrophe stands before labels that a spreadsheet program would run as formulas; `rows_of` removes it.
    """
    if delimiter not in (",", ";"):
        raise DataError(f"a taxonomy's columns are told apart by ';' or ',', not by {delimiter!r}")
    labels = dict.fromkeys(label for row in rows for label in row)
    frail = [label for label in labels if label != label.strip() or not label]
    if frail:
        raise DataError(
            f"labels that are empty or begin or end in a space are lost in CSV: {list_some(frail)}; use YAML"
        )
    doubtful = any(sign in label for label in labels for sign in ',;"\r\n')
    text = io.StringIO(newline="")
    csv.writer(
        text,
        delimiter=delimiter,
        quoting=csv.QUOTE_ALL if doubtful else csv.QUOTE_MINIMAL,
        lineterminator="\n",
    ).writerows([escape_formula(label) for label in row] for row in rows)
    return text.getvalue()
