"""Readers for rules and itemsets: our own, and frames in the form of mlxtend. Also their plain form, and a check of both.

A frame of rules has the columns ``antecedents``, ``consequents``, ``support`` and ``confidence``; a frame of itemsets has
``support`` and ``itemsets``. Their items are names of columns of truth values, or texts such as ``color=red``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.arrays import FloatArray, Int64Array
from shoal.errors import DataError
from shoal.formats.checked_json import member, objects, require
from shoal.mining.itemsets import Item, Itemsets, Rules

RULE_COLUMNS = ("antecedents", "consequents", "support", "confidence")
SET_COLUMNS = ("support", "itemsets")
UNKNOWN = -1  # the count of a right side that is not published


def is_rules(model: Any) -> bool:
    """Whether an object holds association rules or itemsets: our own, or a frame in the form of mlxtend.

    A class declares with ``holds_rules`` that its fitted objects have ``rules_``.
    """
    if find_rules(model) is not None or getattr(model, "holds_rules", False) is True:
        return True
    return _has_columns(model, RULE_COLUMNS) or _has_columns(model, SET_COLUMNS)


def find_rules(model: Any) -> Rules | Itemsets | None:
    """The rules or itemsets of an object of Shoal; None for other objects."""
    found = model if isinstance(model, (Rules, Itemsets)) else getattr(model, "rules_", None)
    return found if isinstance(found, (Rules, Itemsets)) else None


def read_rules(model: Any, records: int, columns: Collection[str]) -> Rules | Itemsets:
    """Read rules or itemsets, and check them.

    Parameters
    ----------
    model : `Rules`, `Itemsets`, an object with ``rules_``, or a frame in the form of mlxtend
    records : the number of records, by which the shares in a frame are multiplied
    columns : the columns of the table, by which the texts of a frame are read as items
    """
    own = find_rules(model)
    if own is None and getattr(model, "holds_rules", False) is True:
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise DataError(f"{name} is not fitted. Make an object of it, and call its method fit first.")
    if own is None:
        own = _read_frame(model, records, columns)
    if isinstance(own, Rules):
        check_rules(own)
    else:
        check_itemsets(own)
    return own


def check_itemsets(itemsets: Itemsets) -> None:
    """Raise `DataError` for no itemsets, for repeated items, and for arrays that do not fit one another."""
    start, members = itemsets.start, itemsets.members
    fits = (
        len(start) == len(itemsets) + 1 and start[0] == 0 and start[-1] == len(members) and (np.diff(start) >= 0).all()
    )
    if not fits or ((members < 0) | (members >= len(itemsets.items))).any():
        raise DataError("the arrays of the itemsets do not fit one another. Make the itemsets again.")
    if not len(itemsets):
        raise DataError("there are no itemsets. Pass at least one.")
    if len(set(itemsets.items)) < len(itemsets.items):
        raise DataError("an item is listed twice. List every item once.")


def check_rules(rules: Rules) -> None:
    """Raise `DataError` for no rules, for sides that are empty or overlap, and for counts that are impossible."""
    lengths = {len(column) for column in (rules.left, rules.right, rules.count, rules.left_count, rules.right_count)}
    if len(lengths) > 1 or any(not 0 <= i < len(rules.items) for side in (*rules.left, *rules.right) for i in side):
        raise DataError("the columns of the rules do not fit one another. Make the rules again.")
    if not len(rules):
        raise DataError("there are no rules. Pass at least one.")
    if len(set(rules.items)) < len(rules.items):
        raise DataError("an item is listed twice. List every item once.")
    for r, (left, right) in enumerate(zip(rules.left, rules.right, strict=True)):
        name = name_rule(rules, r)
        if not left or not right:
            raise DataError(f"the rule {name!r} has an empty side. Name at least one item on both sides.")
        if len({*left, *right}) < len(left) + len(right):
            raise DataError(f"the rule {name!r} names an item twice. Name every item once.")
        both, one, other = int(rules.count[r]), int(rules.left_count[r]), int(rules.right_count[r])
        largest = rules.records if other == UNKNOWN else min(rules.records, other)
        if not 0 <= both <= min(one, largest) or max(one, other) > rules.records:
            raise DataError(
                f"the figures of the rule {name!r} contradict one another: {both:,} records have both sides, {one:,} the left "
                f"side{'' if other == UNKNOWN else f', {other:,} the right side'}, of {rules.records:,} records. Count again."
            )


def name_rule(rules: Rules, r: int) -> str:
    """A rule in words."""
    return f"{rules.name_items(rules.left[r])} => {rules.name_items(rules.right[r])}"


def _has_columns(model: Any, needed: Sequence[str]) -> bool:
    names = getattr(model, "columns", ())
    return isinstance(names, Iterable) and not isinstance(names, str) and set(needed) <= {str(n) for n in names}


def _read_frame(frame: Any, records: int, columns: Collection[str]) -> Rules | Itemsets:
    if not is_rules(frame):
        raise DataError(
            f"{type(frame).__name__} holds no rules. Pass Rules, Itemsets, or a frame with the columns "
            f"{', '.join(RULE_COLUMNS)} (rules) or {', '.join(SET_COLUMNS)} (itemsets)."
        )
    if not _has_columns(frame, RULE_COLUMNS):
        sets = [_read_items(cell, columns) for cell in frame["itemsets"]]
        return _make_itemsets(sets, _count(_read_shares(frame, "support"), records), records)
    left, right = ([_read_items(cell, columns) for cell in frame[name]] for name in RULE_COLUMNS[:2])
    support, confidence = _read_shares(frame, "support"), _read_shares(frame, "confidence", positive=True)
    items = sorted({item for side in (*left, *right) for item in side}, key=str)
    number = {item: i for i, item in enumerate(items)}
    left_count = support / confidence
    if _has_columns(frame, ("antecedent support",)):
        left_count = _read_shares(frame, "antecedent support")
    right_count = np.full(len(left), UNKNOWN, np.int64)
    if _has_columns(frame, ("consequent support",)):
        right_count = _count(_read_shares(frame, "consequent support"), records)
    elif _has_columns(frame, ("lift",)):  # the lift tells the count of the right side
        lift = np.array([float(v) for v in frame["lift"]], np.float64)
        right_count = _count(confidence / np.where(lift > 0, lift, np.inf), records)
    return Rules(
        tuple(items),
        tuple(tuple(sorted(number[i] for i in side)) for side in left),
        tuple(tuple(sorted(number[i] for i in side)) for side in right),
        _count(support, records),
        _count(left_count, records),
        right_count,
        records,
    )


def _count(shares: FloatArray, records: int) -> Int64Array:
    return np.rint(shares * records).astype(np.int64)


def _make_itemsets(sets: Sequence[frozenset[Item]], count: Int64Array, records: int) -> Itemsets:
    items = sorted(frozenset().union(*sets), key=str)
    number = {item: i for i, item in enumerate(items)}
    members = [sorted(number[i] for i in items_of) for items_of in sets]
    return Itemsets(
        tuple(items),
        np.cumsum([0, *map(len, members)]).astype(np.int64),
        np.array([i for set_of in members for i in set_of], np.int32),
        count,
        records,
    )


def _read_shares(frame: Any, column: str, *, positive: bool = False) -> FloatArray:
    """A column of shares; `DataError` for other values."""
    try:
        shares = np.array([float(value) for value in frame[column]], np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"column {column!r} of the frame must hold numbers. ({error})") from error
    wrong = ~((shares > 0 if positive else shares >= 0) & (shares <= 1))
    if wrong.any():
        limits = "above 0 and at most 1" if positive else "from 0 to 1"
        raise DataError(
            f"column {column!r} of the frame must hold shares {limits}, not {float(shares[wrong][0]):g}. "
            f"{'Divide percentages by 100.' if (shares > 1).any() else 'Remove these rows.'}"
        )
    return shares


def _read_items(cell: Any, columns: Collection[str]) -> frozenset[Item]:
    if isinstance(cell, str) or not isinstance(cell, Iterable):
        raise DataError(f"an itemset must be a set of names, not {cell!r}. Pass the frame as mlxtend made it.")
    return frozenset(_read_item(value, columns) for value in cell)


def _read_item(value: Any, columns: Collection[str]) -> Item:
    """An item from its text: a column, or a column and its value; a text that is neither is a column that is not known."""
    if isinstance(value, Item):
        return value
    if not isinstance(value, str):
        raise DataError(f"an item must be a name, not {value!r}. In mlxtend, mine with use_colnames=True.")
    if value in columns:
        return Item(value)
    parts = value.split("=")
    for end in range(len(parts) - 1, 0, -1):  # names of columns may contain '='
        column = "=".join(parts[:end])
        if column in columns:
            return Item(column, "=".join(parts[end:]))
    return Item(value)


def to_plain(model: Rules | Itemsets) -> dict[str, Any]:
    """Rules or itemsets as plain values, for JSON."""

    def names(numbers: Iterable[int]) -> list[Any]:
        chosen = sorted((model.items[i] for i in numbers), key=str)
        return [i.column if i.value is None else {"column": i.column, "value": i.value} for i in chosen]

    if isinstance(model, Itemsets):
        ends = zip(model.start[:-1].tolist(), model.start[1:].tolist(), strict=True)
        sets = [names(model.members[a:b].tolist()) for a, b in ends]
        entries = [{"items": s, "records": n} for s, n in zip(sets, model.count.tolist(), strict=True)]
        return {"format": "shoal-itemsets", "version": 1, "records": model.records, "itemsets": entries}
    rules = [
        {"left": names(model.left[r]), "right": names(model.right[r])}
        | {"records": int(model.count[r]), "left_records": int(model.left_count[r])}
        | ({} if model.right_count[r] == UNKNOWN else {"right_records": int(model.right_count[r])})
        for r in range(len(model))
    ]
    return {"format": "shoal-rules", "version": 1, "records": model.records, "rules": rules}


def read_plain(content: Mapping[str, Any]) -> Rules:
    """The rules of the content of a JSON file."""
    require(content.get("format") == "shoal-rules", "it holds no association rules of Shoal")
    require(content.get("version") == 1, "it was written by another version of Shoal")
    entries = objects(content, "rules")
    sides = [[_read_plain_items(member(entry, side, list)) for entry in entries] for side in ("left", "right")]
    items = sorted({item for side in (*sides[0], *sides[1]) for item in side}, key=str)
    number = {item: i for i, item in enumerate(items)}
    left, right = (tuple(tuple(sorted(number[i] for i in side)) for side in listed) for listed in sides)
    counts = [
        np.array([member({name: UNKNOWN} | entry, name, int) for entry in entries], np.int64)
        for name in ("records", "left_records", "right_records")
    ]
    rules = Rules(tuple(items), left, right, counts[0], counts[1], counts[2], member(content, "records", int))
    check_rules(rules)
    return rules


def _read_plain_items(names: Iterable[Any]) -> list[Item]:
    return [Item(n) if isinstance(n, str) else Item(member(n, "column", str), member(n, "value", str)) for n in names]


def fingerprint_rules(model: Rules | Itemsets) -> str:
    """A digest of rules or itemsets with their counts."""
    text = json.dumps(to_plain(model), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def without_right_counts(rules: Rules) -> Rules:
    """The same rules without the counts of their right sides, so that nothing but support and confidence is published."""
    return replace(rules, right_count=np.full(len(rules), UNKNOWN, np.int64))


def add_right_sides(rules: Rules) -> Rules:
    """The rules, and a rule without a left side for every right side whose count is published.

    The count of a right side is a statement about all people, as a rule is about people with its left side.
    """
    known = {side: n for side, n in zip(rules.right, rules.right_count.tolist(), strict=True) if n != UNKNOWN}
    more = np.array(list(known.values()), np.int64)
    every = np.full(len(known), rules.records, np.int64)
    return Rules(
        rules.items,
        (*rules.left, *(() for _ in known)),
        (*rules.right, *known),
        np.concatenate([rules.count, more]),
        np.concatenate([rules.left_count, every]),
        np.concatenate([rules.right_count, more]),
        rules.records,
    )


def list_published_sets(rules: Rules) -> Itemsets:
    """The sets whose counts rules publish: the left side, both sides, and the right side if its count is known."""
    counts: dict[tuple[int, ...], int] = {}
    for r, (left, right) in enumerate(zip(rules.left, rules.right, strict=True)):
        both = tuple(sorted((*left, *right)))
        for side, count in ((left, rules.left_count[r]), (both, rules.count[r]), (right, rules.right_count[r])):
            if int(count) != UNKNOWN and counts.setdefault(side, int(count)) != int(count):
                raise DataError(
                    f"two rules publish different counts of {rules.name_items(side)}: {counts[side]:,} and {int(count):,}. "
                    "They contradict one another; count the rules again, all in the same table."
                )
    return Itemsets(
        rules.items,
        np.cumsum([0, *map(len, counts)]).astype(np.int64),
        np.array([i for side in counts for i in side], np.int32),
        np.array(list(counts.values()), np.int64),
        rules.records,
    )
