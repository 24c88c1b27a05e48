"""Fields of a recoding as SQL: the value of a record, and expressions that tell apart the values a recoding treats differently.

A value has a position (see `Field`): a number, a moment, or the code of a leaf. A missing value has the position infinity,
which is written as a number or a moment that no record has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from shoal.arrays import FloatArray
from shoal.engines import Distinct
from shoal.engines.sql import quote_name, quote_text
from shoal.formats.dates import EPOCH, parse_date
from shoal.formats.numbers import parse_number
from shoal.recoding.field import Field
from shoal.sql.columns import cast_text, is_listed, write_float
from shoal.sql.dialects import IS_NAN
from shoal.taxonomy import Balanced, DateParts

LARGEST = 1e308
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
DAY = 86_400.0
NUMBERS = re.compile(r"-?[0-9][0-9.e+-]*")
Keys = Callable[[FloatArray], Sequence[Any]]  # what a recoding does with values at these positions; None: nothing


@dataclass(frozen=True)
class Piece:
    """An interval of values with one key; ``begin`` and ``end`` can be infinite."""

    begin: float
    has_begin: bool
    end: float
    has_end: bool
    key: Any


def read_value(field: Field, missing: Sequence[str]) -> str:
    """The expression for the value of a field: a number, a moment or a text; NULL for a missing value."""
    name = quote_name(field.name)
    absent = is_listed(f"TRIM({cast_text(name)})", missing)
    absent += "" if field.kind == "date" else f" OR {IS_NAN}({name})"
    if field.kind == "categorical":
        return f"CASE WHEN {absent} THEN NULL ELSE {cast_text(name)} END"
    numeric = field.kind == "numeric"
    parsed = map(parse_number if numeric else parse_date, missing)  # with '-9', the number -9.0 is missing too
    marks = [_write_value(field, number) for number in parsed if number is not None and math.isfinite(number)]
    value = f"CAST({name} AS {'DOUBLE' if numeric else 'TIMESTAMP'})"
    listed = f"WHEN {value} IN ({', '.join(marks)}) THEN NULL " if marks else ""
    return f"CASE WHEN {absent} THEN NULL {listed}ELSE {value} END"


def write_position(field: Field, position: float, *, up: bool = False) -> str:
    """A position of a field as a literal; ``up`` rounds moments up instead of down."""
    if field.taxonomy is None and field.kind == "date":
        return write_moment(position, up=up)
    return write_float(min(max(position, -LARGEST), LARGEST))


def write_moment(seconds: float, *, up: bool = False) -> str:
    """Seconds since 1970-01-01 as a literal of a moment."""
    first, last = ((moment - EPOCH) / timedelta(seconds=1) for moment in (FIRST, LAST))
    if not first < seconds < last:
        moment = FIRST if seconds <= first else LAST
    else:
        moment = EPOCH + timedelta(microseconds=(math.ceil if up else math.floor)(round(seconds * 1e6, 3)))
    return f"CAST({quote_text(moment.isoformat(sep=' ', timespec='microseconds'))} AS TIMESTAMP)"


def write_case(field: Field, value: str, keys: Keys, points: Sequence[float] = ()) -> str:
    """The expression that gives the key of a field's value, as a number; NULL for values without a key.

    ``points`` are numbers or moments at which the key may change.
    """
    (missing,) = keys(np.array([np.inf]))
    whens = [] if missing is None else [f"WHEN {value} IS NULL THEN {missing}"]
    if field.kind == "categorical":
        whens += _match_texts(field, value, keys)
    else:
        by_days = isinstance(field.tree_builder, DateParts)
        pieces = _split_days(field, keys) if by_days else _split_values(field, keys, points)
        whens += [f"WHEN {_is_inside(field, value, piece)} THEN {piece.key}" for piece in pieces]
    return f"CASE {' '.join(whens)} ELSE NULL END" if whens else "CAST(NULL AS DOUBLE)"


def _match_texts(field: Field, value: str, keys: Keys) -> list[str]:
    """Conditions on the texts of the leaves, one for each key."""
    tree = field.taxonomy
    assert tree is not None  # noqa: S101
    codes = {str(text): code for text, code in tree.code.items() if text is not None}
    found: dict[Any, list[str]] = {}
    for text, key in zip(codes, keys(np.array(list(codes.values()), np.float64)), strict=True):
        if key is not None:
            found.setdefault(key, []).extend(_list_spellings(text, codes))
    return [f"WHEN {is_listed(value, texts)} THEN {key}" for key, texts in found.items()]


def _list_spellings(text: str, leaves: Any) -> list[str]:
    """A text of Shoal, and how databases write the same truth value, if that is no other leaf."""
    other = {"True": "true", "False": "false"}.get(text, text)
    return [text] if other == text or other in leaves else [text, other]


def _split_values(field: Field, keys: Keys, points: Sequence[float]) -> list[Piece]:
    """The pieces between all points at which the key can change: it is tested at each point, and once between two."""
    ends = np.unique([end for end in (*points, *_list_ends(field)) if math.isfinite(end)])
    if not len(ends):
        return _merge(field, keys, [(-np.inf, False, np.inf, False, 0.0)])
    parts = [(-np.inf, False, ends[0], False, ends[0] - max(1.0, abs(ends[0])))]
    for i, end in enumerate(ends):
        parts.append((end, True, end, True, end))
        after = ends[i + 1] if i + 1 < len(ends) else np.inf
        middle = end + max(1.0, abs(end)) if np.isinf(after) else end / 2 + after / 2
        if end < middle < after:
            parts.append((end, False, after, False, middle))
    return _merge(field, keys, parts)


def _list_ends(field: Field) -> list[float]:
    """The numbers in the labels of a tree of numbers: its leaves, and the ends of its intervals."""
    if field.taxonomy is None or isinstance(field.tree_builder, DateParts):
        return []
    balanced = isinstance(field.tree_builder, Balanced)  # new values lie between its leaves, whatever the nodes above
    labels = field.taxonomy.leaves if balanced else field.taxonomy.label
    return [float(number) for label in labels if label is not None for number in NUMBERS.findall(str(label))]


def _split_days(field: Field, keys: Keys) -> list[Piece]:
    """The pieces of a tree of dates, day by day over the decades of its leaves; other days have no key."""
    assert field.taxonomy is not None  # noqa: S101
    years = [int(str(label)[:4]) for label in field.taxonomy.leaves if label is not None]
    if not years:
        return []
    first = date(max(min(years) // 10 * 10 - 1, 1), 1, 1)
    last = date(min(max(years) // 10 * 10 + 11, 9998), 12, 31)
    days = (np.arange((last - first).days + 1) + (first - EPOCH.date()).days) * DAY
    return _merge(field, keys, [(day, True, day + DAY, False, day) for day in days.tolist()])


def _merge(field: Field, keys: Keys, parts: Sequence[tuple[float, bool, float, bool, float]]) -> list[Piece]:
    """Join neighbouring parts with the same key, and omit those without one; the last entry of a part is one of its values."""
    samples = np.array([part[-1] for part in parts], np.float64)
    found: list[Piece] = []
    before = None
    for part, key in zip(parts, keys(field.locate(Distinct(samples, np.ones(len(samples), np.int64), 0))), strict=True):
        if key is not None and key == before:
            found[-1] = Piece(found[-1].begin, found[-1].has_begin, part[2], part[3], key)
        elif key is not None:
            found.append(Piece(*part[:4], key))
        before = key
    return found


def _is_inside(field: Field, value: str, piece: Piece) -> str:
    """The condition for values in a piece; NULL never meets it."""
    if piece.begin == piece.end and piece.has_begin:
        return f"{value} = {_write_value(field, piece.begin)}"
    conditions = []
    if math.isfinite(piece.begin):
        conditions.append(f"{value} {'>=' if piece.has_begin else '>'} {_write_value(field, piece.begin)}")
    if math.isfinite(piece.end):
        conditions.append(f"{value} {'<=' if piece.has_end else '<'} {_write_value(field, piece.end)}")
    return " AND ".join(conditions) or f"{value} IS NOT NULL"


def _write_value(field: Field, value: float) -> str:
    """A number or a moment as a literal."""
    return write_moment(value) if field.kind == "date" else write_float(value)
