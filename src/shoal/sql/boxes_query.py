"""`Boxes` as SQL: the tree of splits as nested CASE expressions, and a table of the boxes with their labels."""

from __future__ import annotations

import numpy as np

from shoal.arrays import FloatArray
from shoal.errors import PolicyError
from shoal.recoding.field import Field
from shoal.recoding.nearest_box import PublishedSets
from shoal.recoding.split_tree import Boxes
from shoal.sql.dialects import translate_expression
from shoal.sql.field_values import Keys, write_case, write_position
from shoal.sql.published_columns import Published, cast_column, write_constant

MOST_LEVELS = 300  # of nested expressions that databases read
TREE = "shoal_tree_of_splits"  # stands for the tree, which is too deep for a parser in Python
INDENT = 40  # levels; deeper levels are not indented further


def publish_boxes(recoding: Boxes, values: str, prefix: str, dialect: str) -> Published:
    """The tables and expressions of boxes; ``values`` is the table with the value of every field, v1, v2, …"""
    fields = recoding.fields
    if not len(recoding.lo):
        return Published([], [(column.name, "CAST(NULL AS TEXT)") for _, column in recoding.columns], values, "1 = 0")
    positions, placed, boxes = (f"{prefix}_{word}" for word in ("positions", "placed", "boxes"))
    located = [f"{_locate(recoding, j)} AS p{j + 1}" for j in range(len(fields))]
    known = " AND ".join(f"p{j + 1} IS NOT NULL" for j in range(len(fields)))
    tables = [
        (positions, f"SELECT *, {', '.join(located)} FROM {values}"),
        (placed, f"SELECT *, {TREE} AS g FROM {positions} WHERE {known}"),
        (boxes, _list_boxes(recoding)),
    ]
    inside = [f"p{j + 1} >= {boxes}.lo{j + 1} AND p{j + 1} <= {boxes}.hi{j + 1}" for j in range(len(fields))]
    inside += [_is_in_set(recoding.fields[of_field.field], of_field) for of_field in recoding.sets]
    columns = [
        (column.name, cast_column(f"{boxes}.c{i}", column)) for i, (_, column) in enumerate(recoding.columns, start=1)
    ]
    source = f"{placed} JOIN {boxes} ON {placed}.g = {boxes}.box"
    return Published(tables, columns, source, " AND ".join(inside), {TREE: _write_tree(recoding, dialect)})


def _locate(recoding: Boxes, j: int) -> str:
    """The position of the value of a field; of a tree, the codes that no box and no split tells apart have one position."""
    field = recoding.fields[j]
    if field.taxonomy is None:
        return f"COALESCE(v{j + 1}, {write_position(field, np.inf)})"
    listed = any(of_field.field == j for of_field in recoding.sets)
    return write_case(field, f"v{j + 1}", _keep_positions(field) if listed else _join_positions(recoding, j))


def _keep_positions(field: Field) -> Keys:
    """The position itself; None for an unknown category."""

    def keep(positions: FloatArray) -> list[str | None]:
        return [None if np.isnan(position) else write_position(field, position) for position in positions.tolist()]

    return keep


def _join_positions(recoding: Boxes, j: int) -> Keys:
    """The smallest position known so far that lies between the same splits and ends of boxes."""
    ends = np.unique(np.concatenate([recoding.at[recoding.field == j], recoding.lo[:, j], recoding.hi[:, j]]))
    first: dict[tuple[int, int], str] = {}
    keep = _keep_positions(recoding.fields[j])

    def join(positions: FloatArray) -> list[str | None]:
        sides = zip(np.searchsorted(ends, positions), np.searchsorted(ends, positions, side="right"), strict=True)
        found = zip(keep(positions), sides, strict=True)
        return [None if text is None else first.setdefault((int(a), int(b)), text) for text, (a, b) in found]

    return join


def _list_boxes(recoding: Boxes) -> str:
    """The query for a row per box: its number, the ends of its positions, and its published values."""
    rows = []
    for g in range(len(recoding.lo)):
        ends = []
        for field, low, high in zip(recoding.fields, recoding.lo[g].tolist(), recoding.hi[g].tolist(), strict=True):
            high = np.inf if np.isneginf(low) else high  # such a box contains every value
            ends += [write_position(field, low, up=True), write_position(field, high)]
        columns = [column for _, column in recoding.columns]
        values = [write_constant(None if c.index[g] < 0 else c.values[c.index[g]]) for c in columns]
        rows.append(f"({', '.join([str(g), *ends, *values])})")
    names = [f"{end}{j + 1}" for j in range(len(recoding.fields)) for end in ("lo", "hi")]
    names += [f"c{i + 1}" for i in range(len(recoding.columns))]
    return f"SELECT * FROM (VALUES {', '.join(rows)}) AS listed(box, {', '.join(names)})"


def _is_in_set(field: Field, of_field: PublishedSets) -> str:
    """Whether the value of a field is in the published set of the box."""
    assert field.taxonomy is not None  # noqa: S101
    leaves = field.taxonomy.leaves
    whens = []
    for g in range(len(of_field.start) - 1):
        codes = of_field.code[of_field.start[g] : of_field.start[g + 1]].tolist()
        listed = [write_position(field, np.inf if leaves[code] is None else code) for code in codes]
        whens.append(f"WHEN g = {g} THEN p{of_field.field + 1} IN ({', '.join(listed)})")
    return f"CASE {' '.join(whens)} ELSE FALSE END"


def _write_tree(recoding: Boxes, dialect: str) -> str:
    """The group of a record as nested CASE expressions in the dialect; a missing value is never below a split."""
    texts: list[str] = []
    waiting: list[tuple[int, int, str, str]] = [(0, 1, "", "")]  # node, level, text before and behind
    while waiting:
        node, level, before, behind = waiting.pop()
        if level > MOST_LEVELS:
            raise PolicyError(
                f"the splits of this recoding are nested more than {MOST_LEVELS} levels deep, which databases do not read. "
                "Apply the recoding with `shoal anonymize --recoding`."
            )
        j = int(recoding.field[node])
        if j < 0:
            group = int(recoding.group[node])
            texts.append(f"{before}{'NULL' if group < 0 else group}{behind}")
            continue
        position = write_position(recoding.fields[j], float(recoding.at[node]))
        condition = translate_expression(f"p{j + 1} <= {position}", dialect)
        line = "\n" + "  " * (min(level, INDENT) + 2)
        texts.append(f"{before}CASE WHEN {condition}")
        waiting.append((int(recoding.right[node]), level + 1, f"{line}ELSE ", f" END{behind}"))
        waiting.append((int(recoding.left[node]), level + 1, f"{line}THEN ", ""))
    return "".join(texts)
