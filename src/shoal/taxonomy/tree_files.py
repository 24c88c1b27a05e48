"""Format and parse taxonomies as text: nested YAML, or CSV with one row per leaf."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.errors import DataError, EngineError, list_some
from shoal.formats.formulas import escape_formula, restore_formula
from shoal.formats.yaml_text import read_file, read_yaml

CSV = (".csv", ".txt")
DERIVED = "# made from the data: not to be published"  # the first line of a file with a derived tree


def read_text(path: str | Path) -> str:
    """Read the text of a taxonomy file."""
    return read_file(path, "taxonomy", DataError)


def write_text(path: str | Path, text: str) -> None:
    """Write a taxonomy file."""
    try:
        Path(path).write_text(text, encoding="utf-8", newline="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"cannot write {str(path)!r}: {reason}. Choose another file.") from None


def is_marked(text: str) -> bool:
    """Whether a comment line in the text of a taxonomy file marks a derived tree.

    Users edit such files, and spreadsheet programs add quotes and delimiters to the line.
    """
    return any(map(_is_mark, text.splitlines()))


def _is_mark(line: str) -> bool:
    return line.lstrip(" \t\"'").startswith("#") and DERIVED.removeprefix("# ") in line


def parse_yaml(text: str) -> Any:
    """Parse YAML text to nested mappings and lists."""
    return read_yaml(text, "taxonomy", DataError)[0]


def parse_csv(text: str) -> list[list[str]]:
    """Parse CSV text to the paths of all leaves, each from the leaf upward, without the root.

    The mark of a derived tree, and lines before the mark that begin with ``#``, are no leaves.
    """
    bare = re.sub(r'"[^"]*"', "", text)
    delimiter = ";" if bare.count(";") >= bare.count(",") else ","
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        rows = [path for row in table if (path := [restore_formula(cell.strip()) for cell in row if cell.strip()])]
    except csv.Error as error:
        raise DataError(f"taxonomy: not valid CSV, line {table.line_num}: {error}") from None
    mark = next((number for number, row in enumerate(rows) if _is_mark(row[0])), -1)
    rows = [row for number, row in enumerate(rows) if number > mark or not row[0].startswith("#")]
    if len({row[-1] for row in rows}) == 1 and all(len(row) > 1 for row in rows):  # the last column is the root
        rows = [row[:-1] for row in rows]
    return rows


def format_csv(rows: Sequence[Sequence[str]], delimiter: str) -> str:
    """Format rows as CSV text. All labels are quoted if a label contains a delimiter, a quote or a line break.

    Labels that a spreadsheet program would run as formulas begin with an apostrophe; `parse_csv` removes it.
    """
    if delimiter not in (",", ";"):
        raise DataError(f"the columns of a taxonomy file must be separated by ';' or ',', not by {delimiter!r}")
    labels = dict.fromkeys(label for row in rows for label in row)
    lossy = [label for label in labels if label != label.strip() or not label]
    if lossy:
        raise DataError(
            f"labels that are empty or begin or end with a space would be lost in CSV: {list_some(lossy)}. Save as YAML."
        )
    is_ambiguous = any(map(re.compile(r'[,;"\r\n]').search, labels))
    escaped = {label: escape_formula(label) for label in labels}
    text = io.StringIO(newline="")
    csv.writer(
        text,
        delimiter=delimiter,
        quoting=csv.QUOTE_ALL if is_ambiguous else csv.QUOTE_MINIMAL,
        lineterminator="\n",
    ).writerows([escaped[label] for label in row] for row in rows)
    return text.getvalue()
