"""Spans of association rules, slow and obvious: every record of a tiny domain is made, and its state is looked up.

A rule is a pair of sets of conditions (column, value); a record is a mapping of columns to values. Rules whose conditions are
all public are left out: attackers can count them. `tests.reference.spans` does the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tests.reference import spans

Condition = tuple[str, spans.Value]
Rule = tuple[frozenset[Condition], frozenset[Condition]]


def state_of(rule: Rule, record: spans.Record) -> int:
    """0: the left side is not complete; 1: the left side is, the right side is not; 2: both are."""
    left, right = (all(record[column] == value for column, value in side) for side in rule)
    return 0 if not left else 2 if right else 1


def release(
    rules: Sequence[Rule],
    table: Sequence[spans.Record],
    domains: Mapping[str, Sequence[spans.Value]],
    public: Collection[str],
) -> spans.Release:
    """The spans and cells of all records; a cell has the state of every rule with a private condition."""
    shown = [r for r in rules if any(column not in public for column, _ in r[0] | r[1])]
    return spans.release(lambda record: (tuple(state_of(r, record) for r in shown), None), table, domains, public)
