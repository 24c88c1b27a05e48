"""Labels of ranges as values of PostgreSQL's range types, and back.

PostgreSQL writes ranges of whole numbers and days in one form: ``[20, 36]`` becomes ``[20,37)``. The labels of a column are
converted only if different labels stay different, so that the groups of the table stay the same.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from shoal.engines.databases.session import Session
from shoal.engines.sql.table import SqlTable
from shoal.formats.labels import ROOT

BRACKETS = re.compile(r"([\[(])([^,]+), ([^,]+)([\])])")
WHOLE = re.compile(r"-?(0|[1-9]\d*)")
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
LIMITS = {"int4range": 2**31 - 1, "int8range": 2**63 - 1}


class Bounds(NamedTuple):
    """The ends of a range as texts, None where the range is open, and whether each end belongs to it."""

    low: str | None
    high: str | None
    has_low: bool = True
    has_high: bool = True

    @property
    def text(self) -> str:
        """The range as PostgreSQL reads it."""
        return f"{'[' if self.has_low else '('}{self.low or ''},{self.high or ''}{']' if self.has_high else ')'}"


@dataclass(frozen=True)
class RangeColumn:
    """A column that is written with a range type; ``table`` has the ranges by their labels."""

    kind: str
    table: str


def parse_label(label: str) -> Bounds:
    """Return the ends of a label; a single value is a range of one value.

    >>> parse_label("[20, 40)"), parse_label("*").text
    (Bounds(low='20', high='40', has_low=True, has_high=False), '(,)')
    """
    if label == ROOT:
        return Bounds(None, None, False, False)
    found = BRACKETS.fullmatch(label)
    if found is None:
        return Bounds(label, label)
    low, high = (None if end in ("-inf", "inf") else end for end in found.group(2, 3))
    return Bounds(low, high, found[1] == "[" and low is not None, found[4] == "]" and high is not None)


def choose_type(bounds: Sequence[Bounds]) -> str | None:
    """Return the range type for the labels of a column; None if they are no ranges, or would not stay different."""
    ends = [end for b in bounds for end in (b.low, b.high) if end is not None]
    if not ends:
        return None
    kinds = []
    if all(map(WHOLE.fullmatch, ends)):
        largest = max(abs(int(end)) for end in ends)
        kinds = [kind for kind, limit in LIMITS.items() if largest < limit][:1]
    if all(map(NUMBER.fullmatch, ends)):
        kinds.append("numrange")
    if all(map(DAY.fullmatch, ends)):
        kinds.append("daterange")
    return next((kind for kind in kinds if _stay_different(bounds, kind)), None)


def _stay_different(bounds: Sequence[Bounds], kind: str) -> bool:
    """Whether the ranges are not empty, and no two of them are the same range."""
    try:
        forms = [_normalize(b, kind) for b in bounds]
    except (ValueError, OverflowError):  # a day that does not exist
        return False
    return not any(_is_empty(*form) for form in forms) and len(set(forms)) == len(forms)


def _normalize(bounds: Bounds, kind: str) -> tuple[Any, Any, bool, bool]:
    """A range in the form in which PostgreSQL compares it; of whole numbers and days, the upper end does not belong to it."""
    parse = _parse_end(kind)
    low, high = (None if end is None else parse(end) for end in (bounds.low, bounds.high))
    if kind == "numrange":
        return low, high, bounds.has_low, bounds.has_high
    return (
        None if low is None else low + (not bounds.has_low),
        None if high is None else high + bounds.has_high,
        low is not None,
        False,
    )


def _parse_end(kind: str) -> Callable[[str], Any]:
    if kind == "daterange":
        return lambda end: datetime.date.fromisoformat(end).toordinal()
    return Decimal if kind == "numrange" else int


def _is_empty(low: Any, high: Any, has_low: bool, has_high: bool) -> bool:
    if low is None or high is None:
        return False
    return bool(low > high or (low == high and not (has_low and has_high)))


def convert_labels(session: Session, table: SqlTable, columns: Sequence[str]) -> dict[str, RangeColumn]:
    """Create a table of labels and ranges for every column that can have a range type."""
    found = {}
    for column in columns:
        if column not in table.columns or not pa.types.is_string(table.types[column]):
            continue
        raw = table.find(column)
        labels = session.fetch_arrow(f"SELECT DISTINCT {raw} AS label FROM {table.sql} s WHERE {raw} IS NOT NULL")
        bounds = [parse_label(label) for label in labels["label"].to_pylist()]
        kind = choose_type(bounds)
        if kind is not None:
            ranges = labels.append_column("range", pa.array([b.text for b in bounds], pa.string()))
            found[column] = RangeColumn(kind, session.create_table("ranges", ranges))
    return found
