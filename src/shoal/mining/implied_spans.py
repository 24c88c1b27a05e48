"""Spans of association rules with the populations that follow from published figures alone, without a table.

Inclusion and exclusion gives the exact number of people of a span where the supports of all needed sets are published.
Otherwise the number is an interval (Frechet bounds), and only its lower end is certain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from shoal.errors import DataError
from shoal.formats.numbers import format_count
from shoal.mining.itemsets import Item, Rules
from shoal.mining.rule_frames import list_published_sets
from shoal.mining.rule_spans import SplitRule, split_rules

MOST_SETS = 10  # different sets of public items in the rules

Bounds = tuple[int, int]
Set = frozenset[int]


@dataclass(frozen=True)
class ImpliedSpan:
    """A span that published rules imply: the public items of its people, and the least and the largest number of people.

    The people have all items ``present``, and lack at least one item of every set of ``absent``. A ``single`` span is one cell
    and shows nothing private.
    """

    present: frozenset[Item]
    absent: tuple[frozenset[Item], ...]
    least: int
    most: int
    single: bool

    @property
    def text(self) -> str:
        """The people of the span in words."""
        words = [f"has {item}" for item in sorted(map(str, self.present))]
        for side in self.absent:
            names = " and ".join(sorted(map(str, side)))
            words.append(f"lacks {names}" if len(side) == 1 else f"lacks one of {names}")
        return ", ".join(words) or "all people"

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.text} ({format_count(self.least, 'person', 'people')})"
        return f"{self.text} ({self.least:,} to {self.most:,} people)"


def find_implied_spans(rules: Rules, public: Collection[str]) -> list[ImpliedSpan]:
    """The spans that rules imply, with the bounds of their populations; spans that nobody can have are not listed."""
    split = split_rules(rules, public)
    sets = _list_public_sets(split)
    if len(sets) > MOST_SETS:
        raise DataError(
            f"the rules have {len(sets)} different sets of public items. Without a table at most {MOST_SETS} can be tested. "
            "Pass the table to shoal.models.audit, or test fewer rules."
        )
    figures = _Figures.of(rules)
    found = []
    for present, absent in _list_atoms(sets):
        least, most = figures.bound_group(present, absent)
        if most:
            found.append(_describe(rules, split, present, absent, least, most))
    return found


def _list_public_sets(split: Sequence[SplitRule]) -> list[Set]:
    """The sets of public items by which people are distinguished: of the left side, and of both sides."""
    found: dict[Set, None] = {}
    for rule in split:
        sides = [frozenset(rule.public_left)]
        if rule.both_possible:
            sides.append(frozenset((*rule.public_left, *rule.public_right)))
        found |= dict.fromkeys(side for side in sides if side)
    return list(found)


def _list_atoms(sets: Sequence[Set]) -> Iterator[tuple[Set, tuple[Set, ...]]]:
    """All choices of the sets that a person has completely: the union of these sets, and the sets that are not complete."""
    for size in range(len(sets) + 1):
        for chosen in combinations(sets, size):
            union = frozenset().union(*chosen)
            rest = tuple(s for s in sets if s not in chosen)
            if not any(s <= union for s in rest):
                yield union, rest


def _describe(
    rules: Rules, split: Sequence[SplitRule], present: Set, absent: tuple[Set, ...], least: int, most: int
) -> ImpliedSpan:
    single = True
    for rule in split:
        has_left = present.issuperset(rule.public_left)
        has_right = has_left and rule.both_possible and present.issuperset(rule.public_right)
        single &= not (has_left if rule.private_left else has_right)
    rest = list(dict.fromkeys(side - present for side in absent))
    fewest = [side for side in rest if not any(other < side for other in rest)]
    return ImpliedSpan(
        frozenset(rules.items[i] for i in present),
        tuple(frozenset(rules.items[i] for i in side) for side in fewest),
        least,
        most,
        single,
    )


@dataclass(frozen=True)
class _Figures:
    """The published counts of sets of items; the empty set has the number of records."""

    items: tuple[Item, ...]
    count: dict[Set, int]

    @classmethod
    def of(cls, rules: Rules) -> _Figures:
        sets = list_published_sets(rules)
        ends = zip(sets.start[:-1].tolist(), sets.start[1:].tolist(), sets.count.tolist(), strict=True)
        return cls(
            rules.items,
            {frozenset(): rules.records} | {frozenset(sets.members[a:b].tolist()): n for a, b, n in ends},
        )

    @cached_property
    def _supports(self) -> dict[Set, Bounds]:
        return {}

    @cached_property
    def _groups(self) -> dict[tuple[Set, frozenset[Set]], Bounds]:
        return {}

    def bound_support(self, wanted: Set) -> Bounds:
        """The least and the largest number of people who have all items of a set."""
        if wanted not in self._supports:
            self._supports[wanted] = self._bound_support(wanted)
        return self._supports[wanted]

    def _bound_support(self, wanted: Set) -> Bounds:
        if wanted in self.count:
            return self.count[wanted], self.count[wanted]
        names = {self.items[i].column for i in wanted}
        if len(names) < len(wanted):  # nobody has two values of a column
            return 0, 0
        most = min(n for own, n in self.count.items() if own <= wanted)
        least = max((n for own, n in self.count.items() if own >= wanted), default=0)
        for (one, n), (other, m) in combinations(self.count.items(), 2):
            if one | other >= wanted:
                shared = [s for own, s in self.count.items() if own <= one & other]
                least = max(least, n + m - min(shared))
        return _check_bounds(least, most)

    def bound_group(self, present: Set, absent: Sequence[Set]) -> Bounds:
        """The least and the largest number of people who have the items ``present``, and no set of ``absent`` completely."""
        rest = frozenset(side | present for side in absent)
        rest = frozenset(side for side in rest if not any(other < side for other in rest))
        key = present, rest
        if key not in self._groups:
            self._groups[key] = self._bound_group(present, sorted(rest, key=sorted))
        return self._groups[key]

    def _bound_group(self, present: Set, absent: Sequence[Set]) -> Bounds:
        least, most = self.bound_support(present)
        if not absent:
            return least, most
        sides = [self.bound_support(side) for side in absent]
        least, most = max(least - sum(m for _, m in sides), 0), min(most - n for n, _ in sides)
        for i, side in enumerate(absent):  # the people without the others, less those of them who have this set
            others = [*absent[:i], *absent[i + 1 :]]
            without, also = self.bound_group(present, others), self.bound_group(side, others)
            least, most = max(least, without[0] - also[1]), min(most, without[1] - also[0])
        return _check_bounds(least, most)


def _check_bounds(least: int, most: int) -> Bounds:
    if least > most:
        raise DataError(
            "the published figures contradict one another: a group of people would have a negative size. Count the rules "
            "again, all in the same table."
        )
    return least, most
