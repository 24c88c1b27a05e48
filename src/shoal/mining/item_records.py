"""The records of a table that have the items of rules and itemsets, and their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shoal.arrays import BoolArray, Int64Array
from shoal.encoding.codes import encode_column
from shoal.engines import Dictionary, Engine
from shoal.errors import DataError, explain_unknown_column
from shoal.mining.itemsets import Item, Itemsets, Rules
from shoal.mining.model_columns import row_codes
from shoal.policy import Policy

TRUE, FALSE = ("true", "1"), ("false", "0")  # truth values as texts, in lower case


def find_items(engine: Engine, policy: Policy, items: Sequence[Item]) -> BoolArray:
    """Whether each record has each item, as a matrix [item, record]. A missing value is no item.

    Raises `DataError` for a column that is not in the table, a value that no record has, and an item without a value of a
    column that holds other values than true and false.
    """
    names = list(dict.fromkeys(item.column for item in items))
    for name in names:
        if name not in engine.schema().names:
            raise DataError(explain_unknown_column(name, engine.schema().names))
    dictionaries: dict[str, Dictionary] = {}
    engine.prepare({name: policy.published_reading(name) for name in names})
    labels = {n: encode_column(engine, n, policy.published_reading(n), dictionaries).labels for n in names}
    coded = engine.encode(dictionaries) if names else engine
    if not hasattr(coded, "codes"):
        raise DataError(
            f"rules and itemsets need a table in memory, but the engine {engine.name!r} holds it elsewhere. Pass a pandas or "
            "polars frame, or the path of a file."
        )
    found = np.zeros((len(items), engine.schema().rows), bool)
    for i, item in enumerate(items):
        found[i] = np.array(_match(item, labels[item.column]), bool)[row_codes(coded, item.column)]
    return found


def _match(item: Item, labels: Sequence[str | None]) -> list[bool]:
    """For every value of a column, whether it is the item."""
    if item.value is not None:
        if item.value not in labels:
            raise DataError(
                f"no record has the item {str(item)!r}. Pass the table that the rules or itemsets were mined from."
            )
        return [label == item.value for label in labels]
    texts = [None if label is None else label.casefold() for label in labels]
    if any(text is not None and text not in (*TRUE, *FALSE) for text in texts):
        raise DataError(
            f"column {item.column!r} does not hold truth values, so it is no item by itself. Name an item by its column and "
            "its value, such as 'color=red'."
        )
    return [text in TRUE for text in texts]


def count_side(has: BoolArray, side: Sequence[int]) -> int:
    """The number of records that have all items of a set."""
    return int(has[list(side)].all(axis=0).sum())


def recount_rules(rules: Rules, has: BoolArray) -> Rules:
    """The same rules with the counts of a table; ``has`` is the matrix of `find_items`."""

    def count(sides: Sequence[tuple[int, ...]]) -> Int64Array:
        return np.array([count_side(has, side) for side in sides], np.int64)

    both = tuple(left + right for left, right in zip(rules.left, rules.right, strict=True))
    return replace(
        rules,
        count=count(both),
        left_count=count(rules.left),
        right_count=count(rules.right),
        records=has.shape[1],
    )


def recount_itemsets(itemsets: Itemsets, has: BoolArray) -> Itemsets:
    """The same sets with the counts of a table."""
    ends = zip(itemsets.start[:-1].tolist(), itemsets.start[1:].tolist(), strict=True)
    count = np.array([count_side(has, itemsets.members[a:b].tolist()) for a, b in ends], np.int64)
    return replace(itemsets, count=count, records=has.shape[1])
