"""All sets of up to 20 cut points at once: two records share a group if no chosen cut separates them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tests.reference.k_optimize import NEAR, Twin

PART = 2**14  # sets of cuts that are counted together


@dataclass(frozen=True)
class AllCuts:
    """The table of a `Twin` without requirements on some attributes or on the released distribution."""

    twin: Twin

    def best(self, objective: str) -> float | None:
        """The least measure of all sets of cuts; None if all of them suppress too many records."""
        twin = self.twin
        total, number = len(twin.rows), 2 ** len(twin.points())
        allowed = int(twin.suppress * total + NEAR)
        least = np.inf
        for begin in range(0, number, PART):
            chosen = np.arange(begin, min(begin + PART, number), dtype=np.uint32)
            cost, lost = np.zeros(len(chosen)), np.zeros(len(chosen), np.int64)
            for weight, size, values, classes in self._groups(chosen):
                passes = np.ones(len(chosen), bool)
                for requirement in twin.require:
                    passes &= size >= requirement.k if requirement.of is None else _is_diverse(requirement, values)
                share = size if objective == "dm" else (size - classes.max(axis=0)) / size
                cost += weight * np.where(passes, share, total if objective == "dm" else 1.0)
                lost += weight * ~passes
            least = min(least, np.where((lost <= allowed) & (lost < total), cost, np.inf).min())
        return None if least == np.inf else float(least) / (1 if objective == "dm" else total)

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        """The distinct rows."""
        return list(dict.fromkeys(self.twin.rows))

    @cached_property
    def _counts(self) -> tuple[Any, Any]:
        """The counts of every sensitive value, and of every class, by distinct row."""
        tables = []
        for column in (self.twin.sensitive, self.twin.classes):
            number = Counter(zip(self.twin.rows, column, strict=True))
            kinds = sorted(set(column))
            tables.append(np.array([[number[row, kind] for row in self._rows] for kind in kinds], np.float32))
        return tables[0], tables[1]

    @cached_property
    def _between(self) -> Any:
        """The cut points between any two distinct rows, one bit each."""
        points = self.twin.points()
        return np.array([[self._separate(row, other, points) for other in self._rows] for row in self._rows], np.uint32)

    def _groups(self, chosen: Any) -> Iterator[tuple[int, Any, Any, Any]]:
        """For every distinct row: its records, and by set of cuts the size of its group and the counts of values."""
        for row, between in zip(self._rows, self._between, strict=True):
            together = ((chosen & between[:, None]) == 0).astype(np.float32)
            values, classes = (counts @ together for counts in self._counts)
            yield self.twin.rows.count(row), values.sum(axis=0), values, classes

    def _separate(self, row: Sequence[Any], other: Sequence[Any], points: Sequence[tuple[int, Any]]) -> int:
        """The cut points between two rows; every cut of an attribute separates a missing value."""
        bits = 0
        for at, (j, begin) in enumerate(points):
            a, b = row[j], other[j]
            if a == b:
                continue
            if a is None or b is None:
                bits |= 1 << at
            elif begin is not None:
                place = self.twin.orders[j].index
                low, high = sorted((place(a), place(b)))
                bits |= (low < place(begin) <= high) << at
        return bits


def _is_diverse(requirement: Any, values: Any) -> Any:
    """Whether groups are l-diverse, from the counts of every sensitive value."""
    if requirement.kind == "distinct":
        return (values > 0).sum(axis=0) >= requirement.l
    counts = values.astype(np.float64)
    share = counts / counts.sum(axis=0)
    logarithm = np.log(np.where(counts > 0, share, 1.0))
    return -(share * logarithm).sum(axis=0) >= np.log(requirement.l) - NEAR
