"""Minimized inputs by their definition: the label of every record, representatives, the accuracy that is kept, group sizes.

Plain Python over lists of records; a missing value is None. Labels are read as a steward reads them: ``[20, 40)`` has the
numbers from 20 up to but not including 40, a node of a taxonomy has the values below it, and ``*`` has all values.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
Labels = Mapping[str, Sequence[str]]  # the labels of every column
ROOT = ("*",)


@dataclass(frozen=True)
class Numbers:
    """A column of numbers; ``values`` are those of all records."""

    name: str
    values: Sequence[float | None]

    @property
    def present(self) -> list[float]:
        return sorted({v for v in self.values if v is not None})

    def find_label(self, labels: Sequence[str], value: float) -> str:
        (found,) = [label for label in labels if _contains(label, value)]
        return found

    def rate(self, label: str) -> float:
        """The width of an interval over the width of all numbers."""
        low, high = _parse_ends(label)
        width = self.present[-1] - self.present[0]
        return (high - low) / width if width else 0.0

    def choose(self, values: Sequence[float | None]) -> float | None:
        """The lower median; missing values come last."""
        return sorted(values, key=lambda v: (v is None, v))[(len(values) - 1) // 2]

    def list_cuts(self) -> Iterator[tuple[str, ...]]:
        """All cuts: any of the numbers but the first can begin an interval."""
        first, *inner, last = self.present if len(self.present) > 1 else self.present * 2
        yield ROOT
        for size in range(len(self.present) + 1):
            for begins in itertools.combinations(dict.fromkeys((*inner, last)), size):
                ends = (first, *begins, last)
                pairs = list(itertools.pairwise(ends))
                yield (*(f"[{a:g}, {b:g})" for a, b in pairs[:-1]), f"[{pairs[-1][0]:g}, {pairs[-1][1]:g}]")


@dataclass(frozen=True)
class Categories:
    """A column of categories; ``tree`` has a list of children under the name of every inner node."""

    name: str
    values: Sequence[str | None]
    tree: Mapping[str, Sequence[str]]
    top: str = "all"

    def list_leaves(self, node: str) -> list[str]:
        return [leaf for child in self.tree[node] for leaf in self.list_leaves(child)] if node in self.tree else [node]

    def find_label(self, labels: Sequence[str], value: str) -> str:
        (found,) = [label for label in labels if value in self.list_leaves(label)]
        return found

    def rate(self, label: str) -> float:
        """The share of all values that a node covers; a missing value is one value. One value alone costs nothing."""
        if label not in self.tree:
            return 0.0
        return len(self.list_leaves(label)) / (len(self.list_leaves(self.top)) + (None in self.values))

    def choose(self, values: Sequence[str | None]) -> str | None:
        """The most frequent value; of several, the first of the taxonomy; a missing value is the last."""
        return max((*self.list_leaves(self.top), None), key=values.count)

    def list_cuts(self, node: str = "") -> Iterator[tuple[str, ...]]:
        """All cuts through the nodes of the tree."""
        yield (node,) if node else ROOT
        if (node or self.top) in self.tree:
            for parts in itertools.product(*(self.list_cuts(child) for child in self.tree[node or self.top])):
                yield tuple(label for part in parts for label in part)


Column = Numbers | Categories


@dataclass(frozen=True)
class Minimized:
    """Records with one label in each of some columns, and a model that gets representatives of the labels.

    ``predict`` has the prediction for every record of a list. ``truth`` are the predictions that are right.
    """

    columns: Sequence[Column]
    records: Sequence[Record]
    predict: Callable[[Sequence[Record]], Sequence[Any]]
    truth: Sequence[Any]
    is_regression: bool
    labels: Labels

    def find_label(self, column: Column, value: Any) -> str | None:
        labels = tuple(self.labels[column.name])
        if labels == ROOT:
            return "*"
        return None if value is None else column.find_label(labels, value)

    def choose_representatives(self) -> dict[str, dict[str | None, Any]]:
        """The representative of every label that a record has, by column."""
        found: dict[str, dict[str | None, Any]] = {}
        for column in self.columns:
            values: dict[str | None, list[Any]] = {}
            for value in column.values:
                values.setdefault(self.find_label(column, value), []).append(value)
            found[column.name] = {label: column.choose(v) for label, v in values.items()}
        return found

    def transform(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        """Records with representatives."""
        chosen = self.choose_representatives()
        return [{**r, **{c.name: chosen[c.name][self.find_label(c, r[c.name])] for c in self.columns}} for r in records]

    def score(self) -> float:
        """The accuracy, or R², with representatives."""
        return self.rate(self.predict(self.transform(self.records)))

    def score_full(self) -> float:
        """The accuracy, or R², with the full inputs."""
        return self.rate(self.predict(self.records))

    def rate(self, predicted: Sequence[Any]) -> float:
        pairs = list(zip(predicted, self.truth, strict=True))
        if not self.is_regression:
            return sum(str(p) == str(t) for p, t in pairs) / len(pairs)
        mean = sum(self.truth) / len(self.truth)
        return 1 - sum((p - t) ** 2 for p, t in pairs) / sum((t - mean) ** 2 for t in self.truth)

    def count_smallest(self) -> int:
        """The records of the smallest group."""
        groups = Counter(tuple(self.find_label(c, r[c.name]) for c in self.columns) for r in self.records)
        return min(groups.values())

    def measure_loss(self, column: Column) -> float:
        """The mean loss of the records in a column: 1 for ``*``, 0 for a missing value."""
        found = [self.find_label(column, value) for value in column.values]
        return sum(1.0 if f == "*" else 0.0 if f is None else column.rate(f) for f in found) / len(found)

    def measure_losses(self) -> float:
        """The mean loss of the columns."""
        return sum(self.measure_loss(column) for column in self.columns) / len(self.columns)

    def list_all(self) -> Iterator[Minimized]:
        """The same records with every combination of cuts."""
        for cuts in itertools.product(*(column.list_cuts() for column in self.columns)):
            yield self.with_labels(dict(zip((c.name for c in self.columns), cuts, strict=True)))

    def with_labels(self, labels: Labels) -> Minimized:
        """The same records with other labels."""
        given = {**self.labels, **labels}
        return Minimized(self.columns, self.records, self.predict, self.truth, self.is_regression, given)


def _parse_ends(label: str) -> tuple[float, float]:
    low, high = label[1:-1].split(", ") if label.startswith("[") else (label, label)
    return float(low), float(high)


def _contains(label: str, value: float) -> bool:
    low, high = _parse_ends(label)
    return low <= value <= high if not label.endswith(")") else low <= value < high
