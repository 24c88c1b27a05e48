"""Unbiased answers to COUNT queries on a table that a `SelectionOperator` randomized.

A record of the original that meets some conditions of a query meets another set of conditions after the randomization. If the
operator replaces λ of m attributes, the expected number of published records that meet the conditions T is

    E N'(T) = Σ over S ⊆ T of C(m - |T|, λ - |S|) / C(m, λ) · Π over i in S of P_i · N(T without S),

where P_i is the share of the original records that meet condition i. With one attribute, chosen with probabilities p, it is
(1 - Σ p_i) N(T) + Σ p_i P_i N(T without i). The equations are triangular in the number of conditions. They are solved from
fewer to more conditions, where the factor of N(T) is not zero: up to m - λ conditions.

All N'(T) come from one pass over the cells: it counts the records of every query by the set of conditions that they meet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from shoal import kernels, threads
from shoal.arrays import FloatArray
from shoal.measures.query_answers import make_side, meet, split_blocks, tabulate, tabulate_column
from shoal.measures.query_tables import CountedTable, Original
from shoal.measures.workloads import Query
from shoal.recoding import SelectionOperator

MOST_CONDITIONS = 14  # 2^14 sets of conditions
SMALLEST = 1e-9  # a smaller factor is zero


def answer_unbiased(
    tables: Iterable[CountedTable], queries: Sequence[Query], original: Original, operator: SelectionOperator
) -> FloatArray:
    """The unbiased answer to every query; NaN where there is none.

    There is none for too many conditions on quasi-identifiers, and where a label covers values that meet a condition and
    values that do not.
    """
    columns = [[name for name in original.quasi if name in query.conditions] for query in queries]
    by_width: dict[int, list[int]] = {}
    for q, names in enumerate(columns):
        if all(name in operator.attributes for name in names):
            by_width.setdefault(len(names), []).append(q)
    answers = np.full(len(queries), np.nan)
    counted = list(tables)
    for width, chosen in by_width.items():
        if width > MOST_CONDITIONS or not _is_solvable(operator, width):
            continue
        selected = [queries[q] for q in chosen]
        patterns = _count_patterns(counted, selected, [columns[q] for q in chosen], width)
        shares = np.array([[_measure_share(queries[q], n, original) for n in columns[q]] for q in chosen]).reshape(
            len(chosen), width
        )
        places = [[operator.attributes.index(name) for name in columns[q]] for q in chosen]
        replaced = operator.probabilities[np.array(places, np.int64).reshape(len(chosen), width)]
        counts = sum_supersets(patterns, width)
        if operator.replaced == 1:
            answers[chosen] = solve_one(counts, shares, replaced)
        else:
            answers[chosen] = solve_several(counts, shares, len(operator.attributes), operator.replaced)
    return answers


def _is_solvable(operator: SelectionOperator, width: int) -> bool:
    return operator.replaced == 1 or width <= len(operator.attributes) - operator.replaced


def _measure_share(query: Query, name: str, original: Original) -> float:
    """The share of the original records that meet the condition of a query on one column."""
    records = original.records[name]
    met = meet(query.conditions[name], original.domains[name])
    return float(records[met].sum() / max(records.sum(), 1))


def _count_patterns(
    tables: Sequence[CountedTable], queries: Sequence[Query], columns: Sequence[Sequence[str]], width: int
) -> FloatArray:
    """The records of each query by the set of its conditions that they meet; bit i is the i-th of the query's columns."""
    found = np.zeros((len(queries), 2**width))
    for table in tables:
        sides = [make_side(side) for side in (table.one, table.other)]
        blocks: list[range] = []
        for block in split_blocks(queries, (table.one, table.other)):
            begin = blocks[-1].stop if blocks else 0
            blocks.append(range(begin, begin + len(block)))

        def count(block: range, table: CountedTable = table, sides: Sequence[object] = sides) -> FloatArray:
            asked = [queries[q] for q in block]
            parts = []
            partial = np.zeros(len(asked), bool)
            for column in table.one.columns:
                shares = tabulate_column(column, asked)
                bit = [columns[q].index(column.name) if column.name in columns[q] else None for q in block]
                weight = np.array([0 if b is None else 1 << b for b in bit], np.uint32)
                partial |= ((shares > 0) & (shares < 1)).any(axis=0)
                parts.append((shares > 0) * weight)
            bits = np.concatenate(parts).astype(np.uint32)
            other = tabulate(table.other, asked)
            patterns: FloatArray = kernels.queries.count_patterns(sides[0], bits, sides[1], other, np.int64(2**width))
            patterns[partial] = np.nan
            return patterns

        found += np.concatenate(threads.each(count, blocks, len(table.one.weight)))
    return found


def sum_supersets(patterns: FloatArray, width: int) -> FloatArray:
    """The records that meet at least the conditions of every set, from the records that meet exactly these."""
    counts = patterns.copy().reshape(len(patterns), *[2] * width)
    for axis in range(1, width + 1):
        without, with_it = (np.take(counts, [i], axis=axis) for i in (0, 1))
        counts = np.concatenate([without + with_it, with_it], axis=axis)
    return np.asarray(counts.reshape(patterns.shape), np.float64)


def solve_one(counts: FloatArray, shares: FloatArray, replaced: FloatArray) -> FloatArray:
    """One replaced attribute: solve for every set of conditions, from smaller to larger sets."""
    width = shares.shape[1]
    solved = np.empty_like(counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        for chosen in range(2**width):
            members = [i for i in range(width) if chosen >> i & 1]
            kept = 1 - replaced[:, members].sum(axis=1)
            drawn = sum(
                (replaced[:, i] * shares[:, i] * solved[:, chosen ^ (1 << i)] for i in members), np.zeros(len(counts))
            )
            solved[:, chosen] = np.where(kept > SMALLEST, (counts[:, chosen] - drawn) / kept, np.nan)
    return np.asarray(solved[:, -1], np.float64)


def solve_several(counts: FloatArray, shares: FloatArray, attributes: int, replaced: int) -> FloatArray:
    """Several replaced attributes: solve for the sums over all sets of one size.

    Each set T is weighted by the product of P_i over the conditions outside T. The factors depend on the sizes of the sets
    only, so the weighted sums N_t fulfil N'_t = Σ over u <= t of C(m - t, λ - t + u) / C(m, λ) · C(l - u, t - u) · N_u.
    """
    width = shares.shape[1]
    weighted = np.ones((len(counts), 1))
    for i in range(width):
        weighted = np.concatenate([weighted * shares[:, i : i + 1], weighted], axis=1)
    size = np.array([chosen.bit_count() for chosen in range(2**width)], np.int64)
    observed = [(weighted * counts)[:, size == t].sum(axis=1) for t in range(width + 1)]
    solved: list[FloatArray] = []
    for t in range(width + 1):
        factors = [
            math.comb(width - u, t - u) * _comb(attributes - t, replaced - t + u) / math.comb(attributes, replaced)
            for u in range(t + 1)
        ]
        rest = sum((factor * found for factor, found in zip(factors[:-1], solved, strict=True)), np.zeros(len(counts)))
        solved.append((observed[t] - rest) / factors[-1])
    return solved[-1]


def _comb(n: int, k: int) -> int:
    return math.comb(n, k) if 0 <= k <= n else 0
