"""Find quasi-sensitive associations: values of quasi-identifiers that often occur with values of sensitive columns.

Yang and Qiao, Definition 11. Three kinds of tables need three searches. Supports of a plain table are counts: the project's
miner finds all frequent combinations. Supports of a randomized table are corrected: the search goes from shorter to longer
combinations, by the clipped supports, which never grow with the length. In a bucketed table the sensitive values of a bucket
are not linked to its records: a support is the expected one, with all links equally probable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from shoal.arrays import FloatArray, Int64Array
from shoal.errors import PolicyError
from shoal.measures.corrected_supports import CorrectedSupports
from shoal.measures.counted_values import Combination, CountedValues
from shoal.mining.itemsets import Item

ROUNDING = 1e-12
MOST = 200_000  # combinations with corrected supports
Values = frozenset[Item]


@dataclass(frozen=True)
class Threshold:
    """The least support of both sides together, and the least share of the records with the left side that have the right."""

    support: float
    confidence: float


@dataclass(frozen=True)
class Association:
    """Records with the quasi-identifiers ``left`` often have the sensitive values ``right``."""

    left: Values
    right: Values
    support: float
    confidence: float

    @property
    def length(self) -> int:
        """The number of quasi-identifiers."""
        return len(self.left)

    def __str__(self) -> str:
        left, right = (", ".join(map(str, sorted(side))) for side in (self.left, self.right))
        return f"{left} => {right}  (support {100 * self.support:.1f} %, confidence {100 * self.confidence:.1f} %)"


@dataclass(frozen=True)
class Mined:
    """The associations of a table by their two sides, and its frequent values."""

    associations: Mapping[tuple[Values, Values], Association]
    values: Values


def mine_plain(table: CountedValues, least: Threshold) -> Mined:
    """The associations of a table as it is."""
    return _associate(table, table.mine(least.support), least.confidence)


def mine_corrected(supports: CorrectedSupports, least: Threshold) -> Mined:
    """The associations of a randomized table by its clipped supports, level by level."""
    table = supports.published
    frequent: dict[Combination, float] = {}
    level: list[Combination] = [(i,) for i, item in enumerate(table.items) if item.value is not None]
    while level:
        places = supports.add(level)
        support = supports.clipped[places]
        kept = {c: s for c, s in zip(level, support.tolist(), strict=True) if s >= least.support - ROUNDING}
        frequent |= kept
        if len(frequent) > MOST:
            raise PolicyError(
                f"more than {MOST:,} combinations have a support of at least {least.support:g}. Choose a larger support."
            )
        level = list(_extend(sorted(kept), table.column_of))
    return _associate(table, frequent, least.confidence)


def _extend(level: Sequence[Combination], column: Int64Array) -> Iterator[Combination]:
    """The combinations with one value more of which all shorter ones are in a level (Agrawal and Srikant, Apriori)."""
    known = set(level)
    for start, same in groupby(level, key=lambda values: values[:-1]):
        ends = [values[-1] for values in same]
        for a, one in enumerate(ends):
            for other in ends[a + 1 :]:
                longer = (*start, one, other)
                if column[one] != column[other] and all(
                    longer[:j] + longer[j + 1 :] in known for j in range(len(start))
                ):
                    yield longer


def _associate(table: CountedValues, support: Mapping[Combination, float], least: float) -> Mined:
    """The associations among frequent combinations."""
    end = int(table.first[table.quasi])
    found = {}
    for values, both in support.items():
        left = tuple(v for v in values if v < end)
        if not left or len(left) == len(values):
            continue
        confidence = both / support[left] if support[left] > 0 else 0.0
        if confidence >= least - ROUNDING:
            sides = _name(table, left), _name(table, values[len(left) :])
            found[sides] = Association(*sides, both, confidence)
    return Mined(found, frozenset(table.items[c[0]] for c in support if len(c) == 1))


def _name(table: CountedValues, values: Combination) -> Values:
    return frozenset(table.items[i] for i in values)


@dataclass(frozen=True)
class BucketedTable:
    """A bucketed table: its quasi-identifiers, the bucket of every row, and the shares of the sensitive values by bucket."""

    table: CountedValues
    bucket: Int64Array
    sensitive: tuple[Item, ...]
    share: FloatArray

    def mine(self, least: Threshold) -> Mined:
        """The associations by expected supports, for every sensitive value on its own."""
        found: dict[tuple[Values, Values], Association] = {}
        records = max(self.table.records, 1)
        end = self.table.first[self.table.quasi]
        frequent = {self.table.items[i] for (i,) in self.table.mine(least.support, 1) if i < end}
        for s, item in enumerate(self.sensitive):
            weight = self.share[self.bucket, s] * self.table.size
            if item.value is None or weight.sum() < (least.support - ROUNDING) * records:
                continue
            frequent.add(item)
            for left, rows in self._extend((), np.arange(len(weight)), weight, least.support * records):
                support = float(weight[rows].sum())
                confidence = support / float(self.table.size[rows].sum())
                if left and confidence >= least.confidence - ROUNDING:
                    sides = _name(self.table, left), frozenset({item})
                    found[sides] = Association(*sides, support / records, confidence)
        return Mined(found, frozenset(frequent))

    def _extend(
        self, values: Combination, rows: Int64Array, weight: FloatArray, least: float
    ) -> Iterator[tuple[Combination, Int64Array]]:
        """The frequent combinations that begin with some values, with their rows: depth first."""
        yield values, rows
        next_column = int(self.table.column_of[values[-1]]) + 1 if values else 0
        for j in range(next_column, self.table.quasi):
            column = self.table.rows[rows, j]
            total = np.bincount(column, weight[rows], minlength=len(self.table.items))
            for value in np.flatnonzero(total >= least * (1 - ROUNDING)).tolist():
                if self.table.items[value].value is not None:
                    yield from self._extend((*values, value), rows[column == value], weight, least)
