"""Keys: the codes of a record packed into 64-bit words, as SQL expressions and as arrays of counted cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal import kernels
from shoal.arrays import Int32Array, Int64Array
from shoal.engines.protocol import KEY_LIMIT, Counts


def quote_text(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def quote_name(value: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + value.replace('"', '""') + '"'


class Lookup(NamedTuple):
    """A join with a table of values: its condition, and the SQL expression for the result."""

    condition: str
    result: str


def look_up(value: str, table: str, alias: str, column: str) -> Lookup:
    """Look up a value among the values ``raw`` of a table, for the result in another column. NULL is a value like any other."""
    return Lookup(f"{value} IS NOT DISTINCT FROM {alias}.raw", f"{alias}.{column}")


@dataclass(frozen=True)
class Keys:
    """Codes of columns packed into 64-bit words: ``k0`` holds as many of the first columns as fit, and so on.

    ``divide`` is the operator of integer division: ``//`` in DuckDB, ``/`` in PostgreSQL, ``DIV`` in Spark.
    """

    columns: tuple[str, ...]
    word_sizes: tuple[tuple[int, ...], ...]
    divide: str = "//"

    @classmethod
    def of(cls, columns: Sequence[str], sizes: Sequence[int], *, divide: str = "//") -> Keys:
        """Pack columns whose codes are below ``sizes``."""
        word_sizes: list[list[int]] = [[]]
        bound = 1
        for size in sizes:
            if bound * size >= KEY_LIMIT:
                word_sizes.append([])
                bound = 1
            word_sizes[-1].append(size)
            bound *= size
        return cls(tuple(columns), tuple(map(tuple, word_sizes)), divide)

    @property
    def names(self) -> list[str]:
        """The column names of the words."""
        return [f"k{i}" for i in range(len(self.word_sizes))]

    @property
    def name_list(self) -> str:
        """The column names of the words, separated by commas for SQL."""
        return ", ".join(self.names)

    @property
    def sizes(self) -> list[int]:
        """The number of codes of every column."""
        return [size for word in self.word_sizes for size in word]

    def pack(self, codes: Mapping[str, str]) -> list[str]:
        """Return SQL expressions that pack the codes of every column into words; NULL where a code is NULL."""
        expressions, columns = [], list(self.columns)
        for word, sizes in zip(self.names, self.word_sizes, strict=True):
            expression = "CAST(0 AS BIGINT)"
            for size in sizes:
                expression = f"({expression} * {size} + {codes[columns.pop(0)]})"
            expressions.append(f"{expression} AS {word}")
        return expressions

    def pack_codes(self, codes: Mapping[str, Int32Array]) -> dict[str, Int64Array]:
        """Return the words of some combinations, given by the codes of every column."""
        words, columns = {}, iter(self.columns)
        for name, sizes in zip(self.names, self.word_sizes, strict=True):
            word = np.zeros(len(codes[self.columns[0]]), np.int64)
            for size in sizes:
                word = word * size + codes[next(columns)]
            words[name] = word
        return words

    def code(self, column: int) -> str:
        """Return the SQL expression that extracts the code of a column from the words."""
        for word, sizes in zip(self.names, self.word_sizes, strict=True):
            if column < len(sizes):
                return f"({word} {self.divide} {math.prod(sizes[column + 1 :])} % {sizes[column]})"
            column -= len(sizes)
        raise IndexError(column)

    def take_code(self, column: int, words: Sequence[Int64Array]) -> Int64Array:
        """Return the code of a column in every combination, given by its words."""
        for word, sizes in zip(words, self.word_sizes, strict=True):
            if column < len(sizes):
                return word // math.prod(sizes[column + 1 :]) % sizes[column]
            column -= len(sizes)
        raise IndexError(column)


def select_keys(
    keys: Keys,
    source: str,
    code_tables: Mapping[str, str],
    carried: Sequence[str] = (),
    *,
    added: Mapping[str, Sequence[str]] | None = None,
    quote: Callable[[str], str] = quote_name,
    look_up: Callable[[str, str, str, str], Lookup] = look_up,
) -> str:
    """Return the query for the key of every record, which is NULL for a value without a code.

    Parameters
    ----------
    keys : the packed columns
    source : SQL expression for the records, which the query calls ``s``
    code_tables : for every packed column, a table of its values as ``raw`` and their codes as ``code``; without a table, the
        records hold the codes
    carried : expressions on ``s`` for further columns, which are named ``c0``, ``c1``…
    added : further columns of the tables of some packed columns, which are selected under their own names
    quote : returns the SQL identifier of a packed column in ``source``
    look_up : returns the join with a table of codes; see `look_up`
    """
    joined = [column for column in keys.columns if column in code_tables]
    codes, joins, further = {column: f"s.{quote(column)}" for column in keys.columns}, [], []
    for number, column in enumerate(joined):
        table, alias, raw = code_tables[column], f"t{number}", codes[column]
        condition, codes[column] = look_up(raw, table, alias, "code")
        joins.append(f"LEFT JOIN {table} {alias} ON {condition}")
        names = (added or {}).get(column, ())
        further += [f"{look_up(raw, table, alias, name).result} AS {name}" for name in names]
    carry = (f"{expression} AS c{number}" for number, expression in enumerate(carried))
    columns = [*keys.pack(codes), *carry, *further]
    return f"SELECT {', '.join(columns)} FROM {source} s {' '.join(joins)}"


def build_counts(
    keys: Keys, words: Sequence[Int64Array], size: Int64Array, quasi: int
) -> tuple[list[Int64Array], Counts]:
    """Return the sorted keys, and the counted cells in the same order.

    Parameters
    ----------
    keys : the packed columns: first ``quasi`` quasi-identifiers, then sensitive columns
    words : the words of every cell
    size : the number of records of every cell
    """
    words, size = _sort_cells(words, size)
    pairs = zip(words, keys.word_sizes, strict=True)
    codes = [kernels.order.unpack(word.view(np.uint64), np.array(sizes, np.uint64)) for word, sizes in pairs]
    cell = codes[0] if len(codes) == 1 else np.concatenate(codes, axis=1)
    if cell.shape[1] == quasi:
        return words, Counts(cell, np.arange(len(cell) + 1, dtype=np.int64), cell[:, quasi:], size)
    is_first = np.ones(len(cell), bool)
    if len(words) == 1:  # the codes of the quasi-identifiers come first in the word
        above = words[0] // math.prod(keys.word_sizes[0][quasi:])
        is_first[1:] = above[1:] != above[:-1]
    else:
        is_first[1:] = (cell[1:, :quasi] != cell[:-1, :quasi]).any(axis=1)
    start: Int64Array = np.append(np.flatnonzero(is_first), len(cell)).astype(np.int64)
    return words, Counts(cell[start[:-1], :quasi], start, np.ascontiguousarray(cell[:, quasi:]), size)


def _sort_cells(words: Sequence[Int64Array], size: Int64Array) -> tuple[list[Int64Array], Int64Array]:
    if len(words) == 1:
        key, size = kernels.order.sort_pairs(words[0].view(np.uint64), size)
        return [key.view(np.int64)], size
    order = np.lexsort(words[::-1])
    return [word[order] for word in words], size[order]
