"""Formatting of labels, lists and figures: short, on one line, and without control characters or markup."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shoal.errors import escape_invisible
from shoal.recoding.search_path import AttributeNames, Refusal, SearchPath, Step

MISSING = "(missing)"
LABEL, MOST_LABELS = 60, 5  # characters of a label, labels of a list


def format_label(text: str | None, most: int = LABEL) -> str:
    r"""A label on one line: long labels are shortened, invisible characters escaped.

    >>> format_label(None), format_label(""), format_label("a\nb")
    ('(missing)', "''", 'a\\nb')
    >>> format_label("abcdefgh", 5)
    'abcd…'
    """
    if text is None:
        return MISSING
    text = text if len(text) <= most else text[: most - 1] + "…"
    return escape_invisible(text) if text.strip() else repr(text)


def join_labels(labels: Sequence[str | None], most: int = MOST_LABELS, width: int = LABEL) -> str:
    """The first labels and the number of the others.

    >>> join_labels(("a", None)), join_labels("abcdef", 2)
    ('a, (missing)', 'a, b and 4 more')
    """
    shown = ", ".join(format_label(text, width) for text in labels[:most])
    return f"{shown} and {len(labels) - most:,} more" if len(labels) > most else shown


def describe_change(
    step: Step | Refusal, direction: str, *, arrow: str = "->", most: int = MOST_LABELS, width: int = LABEL
) -> str:
    """The change of a step: value to children where it specializes, children to value where it generalizes."""
    value, children = format_label(step.value, width), join_labels(step.children, most, width)
    before, after = (value, children) if direction == "specialize" else (children, value)
    return f"{before} {arrow} {after}"


def format_figure(value: float | None) -> str:
    """A figure with four digits; whole numbers without decimals.

    >>> format_figure(30162.0), format_figure(0.123456), format_figure(1234.56), format_figure(-0.0), format_figure(None)
    ('30,162', '0.1235', '1,234.6', '0', '')
    """
    if value is None:
        return ""
    if not math.isfinite(value):
        return f"{value:g}"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def name_sets(path: SearchPath) -> dict[AttributeNames, str]:
    """A short name for each set of quasi-identifiers: its number, or nothing for a single set."""
    return {names: f"set {n}" if len(path.smallest) > 1 else "" for n, names in enumerate(path.smallest, 1)}
