"""Spans of a model, slow and obvious: every record of the domain is made and put through the model.

A record is a mapping of columns to values, the class included. A model is a function of a full record to its cell: a pair of a
leaf and a class. Friedman, Wolff, Schuster, Providing k-anonymity in data mining, Definitions 3 to 7 and Claim 3.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

Value = Hashable
Record = Mapping[str, Value]
Cell = tuple[Hashable, Hashable]
Model = Callable[[Record], Cell]
Span = frozenset[Cell]


def span_of(model: Model, record: Record, domains: Mapping[str, Sequence[Value]], public: Collection[str]) -> Span:
    """The cells of all records of the domain with the same public values (Definition 5)."""
    choices = [[record[name]] if name in public else domains[name] for name in domains]
    return frozenset(model(dict(zip(domains, values, strict=True))) for values in itertools.product(*choices))


@dataclass(frozen=True)
class Release:
    """The span and the cell of every record."""

    spans: list[Span]
    cells: list[Cell]

    @property
    def span_populations(self) -> Counter[Span]:
        return Counter(self.spans)

    @property
    def cell_populations(self) -> Counter[Cell]:
        return Counter(self.cells)

    def tested(self, rule: str = "claim3") -> list[Span]:
        """The spans that must meet a requirement: those of several cells (Claim 3), or all."""
        return [span for span in self.span_populations if rule == "all" or len(span) > 1]

    def records_of(self, span: Span) -> list[int]:
        return [r for r, own in enumerate(self.spans) if own == span]

    def smallest(self, rule: str = "claim3") -> int:
        """The k that the release reaches; all records if no span is tested."""
        return min((self.span_populations[span] for span in self.tested(rule)), default=len(self.spans))

    def holds(self, k: int, rule: str = "claim3") -> bool:
        """Claim 3: every span that must be tested is shared by k records."""
        return all(self.span_populations[span] >= k for span in self.tested(rule))


def release(
    model: Model, table: Sequence[Record], domains: Mapping[str, Sequence[Value]], public: Collection[str]
) -> Release:
    """The spans and cells of all records of a table; ``domains`` has all columns with all their possible values."""
    return Release([span_of(model, record, domains, public) for record in table], [model(record) for record in table])
