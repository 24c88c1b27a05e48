"""A table as counted rows of values, and the supports of combinations of its values.

Values have numbers: the values of the first column come first, then those of the next column. A combination is a tuple of
numbers in ascending order, with at most one value of a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.codes import Codes, encode_column
from shoal.engines import Dictionary, Engine
from shoal.formats.numbers import format_number
from shoal.mining.itemsets import Item
from shoal.mining.mine import mine_cells
from shoal.policy import Policy
from shoal.requirements.requirement import parse_whole_number

Combination = tuple[int, ...]
Labels = tuple[str | None, ...]


@dataclass(frozen=True)
class CountedValues:
    """The distinct rows of some columns, as the numbers of their values, and the records of each row.

    ``labels`` are the values by column; None is a missing value. The first ``quasi`` columns are quasi-identifiers.
    """

    columns: tuple[str, ...]
    labels: tuple[Labels, ...]
    rows: Int32Array
    size: Int64Array
    quasi: int

    @classmethod
    def of_published(
        cls,
        engine: Engine,
        policy: Policy,
        quasi: Sequence[str],
        others: Sequence[str],
        labels: Mapping[str, Labels] | None = None,
    ) -> CountedValues:
        """Count the published texts of some columns; ``labels`` are the possible values of a column, if they are known."""
        names, given = (*quasi, *others), labels or {}
        engine.prepare({name: policy.published_reading(name) for name in names})
        dictionaries: dict[str, Dictionary] = {}
        found: list[Labels] = []
        for name in names:
            column = encode_column(engine, name, policy.published_reading(name), dictionaries)
            known = given.get(name, column.labels)
            if name in given:
                read, codes = dictionaries[name], {label: i for i, label in enumerate(known)}
                own = np.array([codes[str(value)] for value in read.distinct.values], np.int32)
                dictionaries[name] = Dictionary(read.reading, read.distinct, own, codes.get(None, -1))
            found.append(known)
        counts = engine.encode(dictionaries).count(names)
        return cls.number(names, found, [counts.quasi[:, j] for j in range(len(names))], counts.size, len(quasi))

    @classmethod
    def of_codes(cls, codes: Codes, labels: Sequence[Labels], sensitive: Sequence[str]) -> CountedValues:
        """The values of an encoded table; ``labels`` are those of the codes of every quasi-identifier."""
        names, found, columns = [a.name for a in codes.attributes], list[Labels](), list[Int32Array]()
        for j, own in enumerate(labels):
            distinct = tuple(dict.fromkeys(own))
            place = {label: i for i, label in enumerate(distinct)}
            found.append(distinct)
            columns.append(np.array([place[label] for label in own], np.int32)[codes.quasi[codes.combination, j]])
        for name in sensitive:
            at = [s.name for s in codes.sensitive].index(name)
            found.append(codes.sensitive[at].labels)
            columns.append(codes.counts.sensitive[:, at])
        return cls.number((*names, *sensitive), found, columns, codes.counts.size, len(names))

    @classmethod
    def number(
        cls,
        names: Sequence[str],
        labels: Sequence[Labels],
        columns: Sequence[Int32Array],
        size: Int64Array,
        quasi: int,
    ) -> CountedValues:
        """Number the codes of columns, one column after another."""
        first = np.cumsum([0, *map(len, labels)])
        rows = [np.asarray(column, np.int32) + np.int32(first[j]) for j, column in enumerate(columns)]
        return cls(tuple(names), tuple(labels), np.stack(rows, axis=1), np.asarray(size, np.int64), quasi)

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self.size.sum())

    @cached_property
    def first(self) -> Int64Array:
        """The number of the first value of every column, and the number of all values."""
        return np.cumsum([0, *map(len, self.labels)]).astype(np.int64)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """All values; a missing value has the text None."""
        return tuple(Item(name, v) for name, own in zip(self.columns, self.labels, strict=True) for v in own)

    @cached_property
    def column_of(self) -> Int64Array:
        """The column of every value."""
        return np.repeat(np.arange(len(self.columns)), [len(own) for own in self.labels])

    def find(self, column: str, value: Any) -> int | None:
        """The number of a value, or None if the column has no such value; numbers may be given as numbers."""
        j = self.columns.index(column)
        texts: list[str | None] = [None if value is None else str(value)]
        if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
            texts.append(format_number(float(value)))
        found = [self.labels[j].index(text) for text in texts if text in self.labels[j]]
        return int(self.first[j]) + found[0] if found else None

    def mine(self, support: float | str, longest: int | None = None) -> dict[Combination, float]:
        """The frequent combinations with their supports; a missing value is in none. See `mine_itemsets`."""
        largest = None if longest is None else parse_whole_number(longest, "longest", 1)
        found = mine_cells(self.items, self.rows, self.size, support=support, max_size=largest)
        number = {item: i for i, item in enumerate(self.items)}
        combinations = [tuple(number[found.items[i]] for i in members) for members in found.list_members()]
        return dict(zip(combinations, found.support.tolist(), strict=True))

    def count(self, combinations: Iterable[Combination]) -> Int64Array:
        """The records of each combination. Those with the same first values share the search for these values."""
        given = list(combinations)
        found = np.zeros(len(given), np.int64)
        path: list[tuple[int, Int64Array]] = []  # a value, and the rows that have it and all earlier ones
        for i in sorted(range(len(given)), key=given.__getitem__):
            values = given[i]
            shared = 0
            while shared < min(len(path), len(values)) and path[shared][0] == values[shared]:
                shared += 1
            del path[shared:]
            for value in values[shared:]:
                column = self.rows[:, self.column_of[value]]
                if path:
                    above = path[-1][1]
                    path.append((value, above[column[above] == value]))
                else:
                    path.append((value, np.flatnonzero(column == value)))
            found[i] = self.size[path[-1][1]].sum() if path else self.records
        return found
