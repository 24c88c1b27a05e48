"""The rules of requirements as SQL: for every group whether it fails, from the counts of its sensitive values.

The counts are a table with a row for every group and value: the group's columns, ``s`` (the value), ``members`` (the records or
people of the group that have the value); of the group ``records``, ``group_size`` and ``group_members`` (the
sum of its ``members``); of the whole table ``value_members`` (those that have the value), ``table_size`` and ``table_members``.
``value_part`` adds up to ``value_members`` over all groups. Missing values are NULL, so tables are never joined by columns of
the data: windows count NULL as a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from shoal.engines.sql import quote_text
from shoal.kernels.rules import SLACK
from shoal.requirements.group_rules import (
    EqualDistance,
    GroupRule,
    LargestGain,
    LargestLogRatio,
    LargestRate,
    LargestRatio,
    LeastDistinct,
    LeastEntropy,
    LeastSize,
    OrderedDistance,
    TreeDistance,
)
from shoal.sql.columns import (
    NUMBER,
    PERHAPS_NUMBER,
    as_float,
    cast_text,
    is_listed,
    join_names,
    matches,
    write_float,
)
from shoal.sql.dialects import BY_CODE_POINTS

RATE = f"({as_float('members')} / group_size)"
TABLE_RATE = f"({as_float('value_members')} / table_size)"
SHARE = f"({as_float('members')} / group_members)"
TABLE_SHARE = f"({as_float('value_members')} / table_members)"
ANY = "MAX(CASE WHEN {} THEN 1 ELSE 0 END) = 1"


@dataclass(frozen=True)
class Counted:
    """The table of counts of one requirement: its name, the columns of the groups, and a prefix for the names of new tables."""

    table: str
    group: tuple[str, ...]
    prefix: str


@dataclass(frozen=True)
class GroupTest:
    """A test of groups as SQL: tables that it needs, and the query for every group's columns, ``records`` and ``fails``.

    ``unknown`` is a condition on the counts for values that the test cannot judge.
    """

    tables: tuple[tuple[str, str], ...]
    failing: str
    unknown: str | None = None


def write_test(rule: GroupRule, counted: Counted) -> GroupTest:
    """The test of a rule."""
    return _TESTS[type(rule)](rule, counted)


def _test_sums(condition: Callable[[Any], str], rule: GroupRule, counted: Counted) -> GroupTest:
    """A condition on sums over the values of a group."""
    return GroupTest((), _select_failing(condition(rule), counted.table, counted.group))


def _select_failing(condition: str, table: str, group: Sequence[str]) -> str:
    names = join_names(group)
    return (
        f"SELECT {names}, MAX(records) AS records, CASE WHEN {condition} THEN 1 ELSE 0 END AS fails FROM {table} "
        f"GROUP BY {names}"
    )


def _is_small(rule: LeastSize) -> str:
    return f"MAX(group_size) < {rule.least}"


def _has_few_values(rule: LeastDistinct) -> str:
    return f"COUNT(*) < {rule.least}"


def _has_low_entropy(rule: LeastEntropy) -> str:
    return f"-SUM({SHARE} * LN({SHARE})) < {write_float(math.log(rule.least) - SLACK)}"


def _has_high_rate(rule: LargestRate) -> str:
    text = f"COALESCE({cast_text('s')}, '')"
    protected = "" if rule.values is None else f"{is_listed(text, rule.values)} AND "
    return ANY.format(f"{protected}{RATE} > {write_float(rule.most + SLACK)}")


def _has_high_gain(rule: LargestGain) -> str:
    gain = write_float(rule.gain)
    if rule.enhanced:
        gain = f"(CASE WHEN -LN({TABLE_RATE}) < {gain} THEN -LN({TABLE_RATE}) ELSE {gain} END)"
    return ANY.format(f"{RATE} > (1 + {gain}) * {TABLE_RATE} + {write_float(SLACK)}")


def _is_distant(rule: EqualDistance) -> str:
    """Values that are not in the group add their whole share in the table."""
    return f"(SUM(ABS({SHARE} - {TABLE_SHARE})) + 1 - SUM({TABLE_SHARE})) / 2 > {write_float(rule.most + SLACK)}"


def _test_ratio(rule: LargestRatio, counted: Counted) -> GroupTest:
    """Compare the most frequent value with the rest, in the order of their frequencies."""
    ranked = f"{counted.prefix}_ranked"
    groups = join_names(counted.group)
    tail = f"SUM(CASE WHEN place >= {rule.first} THEN members ELSE 0 END)"
    text = (
        f"SELECT {groups}, records, members, ROW_NUMBER() OVER (PARTITION BY {groups} ORDER BY members DESC, s) AS place "
        f"FROM {counted.table}"
    )
    ratio = f"{as_float('MAX(members)')} / {as_float(tail)}"
    fails = f"CASE WHEN {tail} = 0 THEN 1 WHEN {ratio} < {write_float(rule.factor)} THEN 0 ELSE 1 END = 1"
    return GroupTest(((ranked, text),), _select_failing(fails, ranked, counted.group))


def _test_log_ratio(rule: LargestLogRatio, counted: Counted) -> GroupTest:
    """Compare with the bounds of every value. A group without a value fails, unless the value is too rare to be tested."""
    bounded, slack = f"{counted.prefix}_bounded", write_float(SLACK)
    edge = f"{TABLE_RATE} * {write_float(min(rule.bound, 1.0) / 4)}"
    edge = f"(CASE WHEN {edge} < {write_float(4 * SLACK)} THEN {edge} ELSE {write_float(4 * SLACK)} END)"
    floor = f"{TABLE_RATE} * {write_float(math.exp(-rule.bound))} + {edge}"
    ceiling = f"{TABLE_RATE} * {write_float(math.exp(rule.bound))} - {edge}"
    number = f"ROW_NUMBER() OVER (PARTITION BY s ORDER BY {join_names(counted.group)})"
    text = (
        f"SELECT {join_names(counted.group)}, records, {RATE} AS rate, {floor} AS floor_rate, {ceiling} AS ceiling_rate, "
        f"{number} AS place FROM {counted.table}"
    )
    outside = ANY.format(f"rate < floor_rate - {slack} OR rate > ceiling_rate + {slack}")
    needed = f"(SELECT COUNT(*) FROM {bounded} WHERE place = 1 AND floor_rate > {slack})"
    fails = f"{outside} OR SUM(CASE WHEN floor_rate > {slack} THEN 1 ELSE 0 END) < {needed}"
    return GroupTest(((bounded, text),), _select_failing(fails, bounded, counted.group))


def _test_order(rule: OrderedDistance, counted: Counted) -> GroupTest:
    """Cumulate the differences of the shares over all values of the table, also those that are not in the group."""
    placed, groups, values, gaps = (f"{counted.prefix}_{word}" for word in ("placed", "groups", "values", "gaps"))
    by, unknown = _order_values(rule, counted.table)
    names, own = join_names(counted.group), join_names([f"{groups}.{name} AS {name}" for name in counted.group])
    tables = (
        (
            placed,
            f"SELECT DENSE_RANK() OVER (ORDER BY {names}) AS g, DENSE_RANK() OVER (ORDER BY {by}) AS v, {names}, "
            f"records, {SHARE} AS share, {TABLE_SHARE} AS table_share FROM {counted.table}",
        ),
        (groups, f"SELECT g, {names}, MAX(records) AS records FROM {placed} GROUP BY g, {names}"),
        (values, f"SELECT v, MAX(table_share) AS table_share FROM {placed} GROUP BY v"),
        (
            gaps,
            f"SELECT {own}, {groups}.records AS records, {values}.v AS v, SUM(COALESCE({placed}.share, 0) - "
            f"{values}.table_share) OVER (PARTITION BY {groups}.g ORDER BY {values}.v ROWS BETWEEN UNBOUNDED PRECEDING AND "
            f"CURRENT ROW) AS gap FROM {groups} CROSS JOIN {values} "
            f"LEFT JOIN {placed} ON {placed}.g = {groups}.g AND {placed}.v = {values}.v",
        ),
    )
    neighbours = "CASE WHEN MAX(v) > 2 THEN MAX(v) - 1 ELSE 1 END"
    fails = f"SUM(ABS(gap)) / {as_float(neighbours)} > {write_float(rule.most + SLACK)}"
    return GroupTest(tables, _select_failing(fails, gaps, counted.group), unknown)


def _order_values(rule: OrderedDistance, table: str) -> tuple[str, str]:
    """The expressions that sort the values, and the condition for values that have no place."""
    text = cast_text("s")
    if rule.order is not None:
        places = " ".join(f"WHEN {text} = {quote_text(value)} THEN {i}" for i, value in enumerate(rule.order))
        return f"CASE {places} ELSE {len(rule.order)} END", f"NOT {is_listed(text, rule.order)}"

    def all_match(pattern: str) -> str:
        return f"(SELECT COUNT(*) FROM {table} WHERE NOT {matches(text, pattern)}) = 0"

    numbers = all_match(NUMBER)
    by = (
        "CASE WHEN s IS NULL THEN 1 ELSE 0 END, "
        f"CASE WHEN {numbers} THEN TRY_CAST({text} AS DOUBLE) ELSE 0 END, {BY_CODE_POINTS}({text})"
    )
    return by, f"{all_match(PERHAPS_NUMBER)} AND NOT {numbers} AND s IS NOT NULL"


def _test_tree(rule: TreeDistance, counted: Counted) -> GroupTest:
    """Sum up the differences of the shares below every node; a node that the group lacks adds its share in the table."""
    edges, nodes, shares = (f"{counted.prefix}_{word}" for word in ("edges", "nodes", "node_shares"))
    rows = " UNION ALL ".join(
        f"SELECT {quote_text(text or '')} AS label, {node} AS node, {write_float(weight)} AS weight"
        for text, node, weight in rule.edges
    )
    groups = join_names(counted.group)
    label = f"COALESCE({cast_text('s')}, '')"
    part = f"SUM({as_float('value_part')} / table_members)"
    tables = (
        (edges, rows),
        (
            nodes,
            f"SELECT {groups}, node, weight, MAX(records) AS records, SUM({SHARE}) AS share, {part} AS part_of_table "
            f"FROM {counted.table} JOIN {edges} ON {label} = label GROUP BY {groups}, node, weight",
        ),
        (
            shares,
            f"SELECT {groups}, records, weight, share, SUM(part_of_table) OVER (PARTITION BY node) AS table_share FROM {nodes}",
        ),
    )
    whole = f"(SELECT SUM(weight * part_of_table) FROM {nodes})"
    distance = f"SUM(weight * (ABS(share - table_share) - table_share)) + {whole}"
    fails = f"{distance} > {write_float(rule.most + SLACK)}"
    unknown = f"NOT {is_listed(label, dict.fromkeys(text or '' for text, _, _ in rule.edges))}"
    return GroupTest(tables, _select_failing(fails, shares, counted.group), unknown)


_TESTS: dict[type, Callable[[Any, Counted], GroupTest]] = {
    LeastSize: partial(_test_sums, _is_small),
    LeastDistinct: partial(_test_sums, _has_few_values),
    LeastEntropy: partial(_test_sums, _has_low_entropy),
    LargestRate: partial(_test_sums, _has_high_rate),
    LargestGain: partial(_test_sums, _has_high_gain),
    EqualDistance: partial(_test_sums, _is_distant),
    LargestRatio: _test_ratio,
    LargestLogRatio: _test_log_ratio,
    OrderedDistance: _test_order,
    TreeDistance: _test_tree,
}
