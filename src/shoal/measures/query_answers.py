"""Answer COUNT queries on counted cells, in blocks: one pass over the cells for every block of queries.

Equations 12 and 13 of Yang and Qiao, "Anonymizing data by random anonymization", after Xiao and Tao, "Anatomy" (2006). Both
assume that the values of a group are spread uniformly: over the values that its labels cover, or over the records of its
bucket. A table with exact values is the case in which every label covers one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from shoal import kernels, threads
from shoal.arrays import BoolArray, FloatArray, UInt64Array
from shoal.measures.conditions import Condition, Domain
from shoal.measures.query_tables import CountedSide, CountedTable, QueryColumn
from shoal.measures.workloads import Query

WIDTH = 64  # queries in a block
MOST_SHARES = 2**24  # entries of the table of shares of a block


def answer_queries(tables: Iterable[CountedTable], queries: Sequence[Query]) -> FloatArray:
    """The answer to every query: the sum over the tables, which are partitions of one table."""
    answers = np.zeros(len(queries))
    for table in tables:
        sides = [make_side(side) for side in (table.one, table.other)]

        def answer(block: Sequence[Query], table: CountedTable = table, sides: Sequence[object] = sides) -> FloatArray:
            one, other = tabulate(table.one, block), tabulate(table.other, block)
            found: FloatArray = kernels.queries.sum_products(sides[0], one, mask(one), sides[1], other, mask(other))
            return found

        rows = len(table.one.weight) + len(table.other.weight)
        blocks = list(split_blocks(queries, (table.one, table.other)))
        answers += np.concatenate([np.zeros(0), *threads.each(answer, blocks, rows)])
    return answers


def split_blocks(queries: Sequence[Query], sides: Iterable[CountedSide]) -> Iterator[Sequence[Query]]:
    """Blocks of queries whose tables of shares have a limited size."""
    codes = sum(column.size + len(column.domain.values) for side in sides for column in side.columns)
    width = min(WIDTH, max(MOST_SHARES // max(codes, 1), 1))
    for begin in range(0, len(queries), width):
        yield queries[begin : begin + width]


def make_side(side: CountedSide) -> object:
    """The cells of a side as the kernels read them."""
    sizes = [column.size for column in side.columns]
    begin = np.cumsum([0, *sizes], dtype=np.int64)[:-1]
    return kernels.queries.Side(side.start, side.codes, side.weight, begin)


def tabulate(side: CountedSide, queries: Sequence[Query]) -> FloatArray:
    """The share of every code that meets the condition of each query, for all columns of a side one after another."""
    return np.concatenate([np.zeros((0, len(queries))), *(tabulate_column(column, queries) for column in side.columns)])


def mask(shares: FloatArray) -> UInt64Array:
    """The bits of the queries whose share of each code is not 0."""
    bits = np.zeros((len(shares), WIDTH // 8), np.uint8)
    packed = np.packbits(shares > 0, axis=1, bitorder="little")
    bits[:, : packed.shape[1]] = packed
    return bits.view("<u8").astype(np.uint64).ravel()


def tabulate_column(column: QueryColumn, queries: Sequence[Query]) -> FloatArray:
    """The share of the values of every code that meets the condition of each query; 1 without a condition."""
    shares = np.ones((column.size, len(queries)))
    named = [q for q, query in enumerate(queries) if column.name in query.conditions]
    if named:
        met = [meet(queries[q].conditions[column.name], column.domain) for q in named]
        table = np.stack(met, axis=1).astype(np.float64)
        shares[:, named] = table if column.runs is None else column.runs.average(table)
    return shares


def meet(condition: Condition, domain: Domain) -> BoolArray:
    """Whether each value of a column meets a condition."""
    return condition.test(domain).true
