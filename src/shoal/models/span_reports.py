"""Spans in words, for the owner of a model. A large tree has many spans, so each is described when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from shoal.arrays import BoolArray, Int64Array
from shoal.formats.numbers import format_count
from shoal.mining.rule_spans import RuleSpans
from shoal.spans import CellSets, EnsembleSpans, Spans, describe_conditions

MOST_CELLS = 3  # leaves, and classes of a leaf, in the text of a span


@dataclass(frozen=True)
class SpanCell:
    """A cell of a span: a leaf in words, one of its classes, and the number of all records in this cell."""

    leaf: str
    label: str | None
    population: int


@dataclass(frozen=True)
class SpanReport:
    """A span in words: the public values of its people, its size, its cells, and whether it meets every requirement.

    ``size`` is the number of records, or of different people if the policy has a unit. ``single`` spans have one cell.
    """

    text: str
    size: int
    single: bool
    holds: bool
    cells: tuple[SpanCell, ...]
    noun: str = "leaves"

    def __str__(self) -> str:
        leaves: dict[str, list[str]] = {}
        for cell in self.cells:
            found = leaves.setdefault(cell.leaf, [])
            if cell.population:
                found.append(f"{'' if cell.label is None else cell.label + ' '}{cell.population:,}")
        texts = [f"[{leaf}: {_shorten(found, 'classes') or 'nobody'}]" for leaf, found in leaves.items()]
        cells = f": {_shorten(texts, self.noun)}" if texts else ""
        return f"{self.text} ({format_count(self.size, 'person', 'people')}){cells}"


def _shorten(texts: Sequence[str], noun: str) -> str:
    more = len(texts) - MOST_CELLS
    return ", ".join(texts[:MOST_CELLS]) + (f" and {more} more {noun}" if more > 0 else "")


@dataclass(frozen=True)
class AttackerSpans:
    """The spans for one attacker: their sizes, which of them fail, and words that describe the attacker."""

    spans: Spans | EnsembleSpans | CellSets | RuleSpans
    size: Int64Array
    fails: BoolArray
    prefix: str = ""


@dataclass(frozen=True)
class SpanList(Sequence[SpanReport]):
    """The spans for all attackers: first those that fail, last those of a single cell, each by size.

    ``population`` is the number of records of every cell [node, class].
    """

    attackers: tuple[AttackerSpans, ...]
    population: Int64Array
    order: Int64Array = field(init=False, repr=False)  # numbers of the spans of all attackers, one after another

    def __post_init__(self) -> None:
        size = np.concatenate([a.size for a in self.attackers])
        single = np.concatenate([a.spans.single for a in self.attackers])
        holds = np.concatenate([~a.fails for a in self.attackers])
        object.__setattr__(self, "order", np.lexsort((size, single, holds)))

    @property
    def failing_count(self) -> int:
        """The number of spans that fail a requirement."""
        return sum(int(a.fails.sum()) for a in self.attackers)

    @property
    def failing(self) -> tuple[SpanReport, ...]:
        """The spans that fail a requirement."""
        return self[: self.failing_count]

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, index: int) -> SpanReport: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SpanReport, ...]: ...

    def __getitem__(self, index: int | slice) -> SpanReport | tuple[SpanReport, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        number = int(self.order[index])
        for attacker in self.attackers:
            if number < len(attacker.size):
                return self._describe(attacker, number)
            number -= len(attacker.size)
        raise IndexError(index)

    def _describe(self, attacker: AttackerSpans, s: int) -> SpanReport:
        spans = attacker.spans
        words = describe_conditions(spans.describe(s), "all people") + spans.describe_class(s)
        cells = tuple(SpanCell(*cell) for cell in spans.list_cells(s, self.population))
        size, single, fails = int(attacker.size[s]), bool(spans.single[s]), bool(attacker.fails[s])
        noun = f"{spans.noun}s" if isinstance(spans, CellSets) else "leaves"
        return SpanReport(attacker.prefix + words, size, single, not fails, cells, noun)
