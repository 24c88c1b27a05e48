"""Spans of association rules: Friedman, Wolff and Schuster, "Providing k-anonymity in data mining", section 4.3.

For every rule a record is in one of three states: its left side is not complete, its left side is complete but its right side
is not, or both sides are complete. A cell of a set of rules is a combination of these states. An attacker sees the public
items of a person. They decide which states are possible: if a public item of the left side is missing, only the first one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.mining.itemsets import Item, Rules
from shoal.mining.rule_frames import name_rule
from shoal.spans import Condition
from shoal.spans.spans import SpanFigures

STATES = ("not the left side", "the left side only", "both sides")


@dataclass(frozen=True)
class SplitRule:
    """A rule as one attacker sees it: its public items, and whether private items are left.

    ``public_left`` and ``public_right`` are the numbers of the public items; ``private_left`` and ``private_right`` say whether
    the side has others. ``both_possible``: the private items do not name two values of a column, so both sides can be complete.
    """

    number: int
    public_left: tuple[int, ...]
    public_right: tuple[int, ...]
    private_left: bool
    private_right: bool
    both_possible: bool

    def is_single(self, status: NDArray[np.integer]) -> BoolArray:
        """Whether only one state is possible, by the status: 0, 1 (public items of the left side) or 2 (of both sides)."""
        if self.private_left:
            return np.asarray(status == 0)
        return np.asarray(status < 2)

    def find_status(self, has: BoolArray) -> Int32Array:
        """The status of every record; ``has`` is the matrix [item, record]."""
        left = np.asarray(has[list(self.public_left)].all(axis=0))
        if not self.both_possible:
            return np.where(left, 1, 0).astype(np.int32)
        right = np.asarray(has[list(self.public_right)].all(axis=0))
        return np.where(left, 1 + right, 0).astype(np.int32)


def split_rules(rules: Rules, public: Collection[str]) -> list[SplitRule]:
    """The rules that show something private to an attacker who knows these columns.

    A rule of public items shows nothing: the attacker can count it. A rule whose left side nobody can have shows nothing, too.
    """
    found = []
    for r, (left, right) in enumerate(zip(rules.left, rules.right, strict=True)):
        hidden_left, hidden_right = (
            [rules.items[i] for i in side if rules.items[i].column not in public] for side in (left, right)
        )
        if (hidden_left or hidden_right) and _is_possible(hidden_left):
            found.append(
                SplitRule(
                    r,
                    tuple(i for i in left if rules.items[i].column in public),
                    tuple(i for i in right if rules.items[i].column in public),
                    bool(hidden_left),
                    bool(hidden_right),
                    _is_possible([*hidden_left, *hidden_right]),
                )
            )
    return found


def _is_possible(items: Sequence[Item]) -> bool:
    """Whether a record can have all these items: they are of different columns."""
    return len({item.column for item in items}) == len(items)


@dataclass(frozen=True)
class RuleSpans(SpanFigures):
    """The spans of the records of a table for one attacker.

    ``status[s, j]`` says how much of the public part of the rule ``split[j]`` the people of span s have: 0 (not the left side),
    1 (the left side) or 2 (both sides). It decides the possible states of the rule, and different rows are different spans.
    """

    rules: Rules
    split: tuple[SplitRule, ...]
    span: Int32Array
    status: NDArray[np.int8]

    @property
    def known_class(self) -> Int32Array:  # type: ignore[override]
        """Rules have no class, so attackers know none."""
        return np.full(len(self.status), -1, np.int32)

    @property
    def class_labels(self) -> tuple[str | None, ...]:
        """Rules have no classes."""
        return ()

    @cached_property
    def several(self) -> BoolArray:
        """For every span and rule, whether several states are possible."""
        found = np.zeros(self.status.shape, bool)
        for j, rule in enumerate(self.split):
            found[:, j] = ~rule.is_single(self.status[:, j])
        return found

    @property
    def single(self) -> BoolArray:
        """Whether each span is a single cell."""
        return np.asarray(~self.several.any(axis=1))

    def describe(self, s: int) -> tuple[Condition, ...]:
        """The public items that all people of a span have, and those that they lack."""
        present: dict[int, None] = {}
        lacking: list[tuple[int, ...]] = []
        for j, rule in enumerate(self.split):
            status = int(self.status[s, j])
            present |= dict.fromkeys(rule.public_left if status else ())
            present |= dict.fromkeys(rule.public_right if status == 2 else ())
            if status == 0:
                lacking.append(rule.public_left)
            elif status == 1 and rule.both_possible:
                lacking.append(rule.public_right)
        fewest: list[frozenset[int]] = []
        for side in sorted(
            {frozenset(side).difference(present) for side in lacking}, key=lambda s: (len(s), sorted(s))
        ):
            if not any(other <= side for other in fewest):
                fewest.append(side)
        names = self.rules.items
        return (
            *(Condition("has", str(names[i])) for i in present),
            *(
                Condition(
                    "lacks" if len(side) == 1 else "lacks one of", " and ".join(str(names[i]) for i in sorted(side))
                )
                for side in fewest
            ),
        )

    def list_cells(self, s: int, population: Int64Array) -> list[tuple[str, str | None, int]]:
        """The possible states of every rule that is not decided: the rule, the state, and the number of all records in it."""
        found: list[tuple[str, str | None, int]] = []
        for j, rule in enumerate(self.split):
            status = int(self.status[s, j])
            if rule.is_single(self.status[s : s + 1, j])[0]:
                continue
            states = [0] if rule.private_left else []
            states += [1] if status == 1 or rule.private_right else []
            states += [2] if status == 2 else []
            name = name_rule(self.rules, rule.number)
            found += [(name, STATES[state], int(population[rule.number, state])) for state in states]
        return found


def count_states(rules: Rules) -> Int64Array:
    """The number of records in the three states of every rule, as a matrix [rule, state]."""
    return np.stack([rules.records - rules.left_count, rules.left_count - rules.count, rules.count], axis=1)


def find_rule_spans(rules: Rules, has: BoolArray, public: Collection[str]) -> RuleSpans:
    """The span of every record, for an attacker who knows the columns ``public``; ``has`` is the matrix [item, record].

    Two people have equal spans exactly if they have the same status for every rule: the possible states of a rule differ by
    its status, and the span holds every one of them.
    """
    split = split_rules(rules, public)
    growing = GrowingSpans.of(has.shape[1])
    for rule in split:
        growing = growing.refine(rule, rule.find_status(has))
    first = np.full(growing.count, -1, np.int64)
    first[growing.span[::-1]] = np.arange(len(growing.span))[::-1]
    sample = has[:, first]
    matrix = np.zeros((growing.count, len(split)), np.int8)
    for j, rule in enumerate(split):
        matrix[:, j] = rule.find_status(sample)
    return RuleSpans(rules, tuple(split), growing.span, matrix)


@dataclass(frozen=True)
class GrowingSpans:
    """The span of every record for a growing set of rules, and whether each span is a single cell."""

    span: Int32Array
    single: BoolArray

    @classmethod
    def of(cls, records: int) -> GrowingSpans:
        """The spans of no rules: all records share one."""
        return cls(np.zeros(records, np.int32), np.ones(min(records, 1), bool))

    @property
    def count(self) -> int:
        """The number of spans."""
        return len(self.single)

    def refine(self, rule: SplitRule, status: Int32Array) -> GrowingSpans:
        """The spans with one more rule."""
        key = self.span * np.int32(3) + status
        occurs = np.bincount(key, minlength=3 * self.count) > 0
        number = np.cumsum(occurs) - 1
        keys = np.flatnonzero(occurs)
        single = self.single[keys // 3] & rule.is_single(keys % 3)
        return GrowingSpans(number[key].astype(np.int32), single)
