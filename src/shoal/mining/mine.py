"""Mine frequent itemsets and association rules: encode a table, run the kernels on all cores, and sort the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from shoal import kernels, threads
from shoal.arrays import Int32Array, Int64Array
from shoal.engines import AS_PUBLISHED, Dictionary, Engine, open_data
from shoal.errors import EMPTY_TABLE, DataError, PolicyError, explain_unknown_column
from shoal.mining.itemsets import Item, Itemsets, Rules
from shoal.progress import Progress, ignore_progress
from shoal.requirements.requirement import parse_share, parse_whole_number

MOST = 5_000_000  # sets or rules
LARGEST_MOST = 2**60  # kernels count in 64 bits
TASKS = 8  # for every core, so that all cores finish at about the same time
TRUE = "True"  # the text of a truth value


def mine_itemsets(
    frame: Any,
    *,
    support: float | str = 0.01,
    columns: Sequence[str] | None = None,
    max_size: int | None = None,
    most: int = MOST,
    progress: Progress | None = None,
) -> Itemsets:
    """Find all sets of values that occur together in enough records.

    Every value of a column is an item, by its text. A column of truth values is itself an item, for the records in which it is
    true. A missing value is no item.

    Parameters
    ----------
    frame : a pandas, polars or pyarrow frame, or the path of a file
    support : the least share of the records that have a set, above 0 and at most 1 (default: 0.01); or their number, a whole
        number above 1
    columns : the columns whose values are items (default: all columns)
    max_size : the largest number of items of a set (default: no limit)
    most : raise an error if there are more sets
    progress : called with the stage, the work done and the total work

    Returns
    -------
    The frequent sets, sorted by size, then by item numbers. Items are numbered by column, then by the text of the value; items
    with too few records have no number.

    Guarantee
    ---------
    None: the counts are those of the records. A set that few records have can show something about single people.

    References
    ----------
    Zaki: Scalable algorithms for association mining. IEEE TKDE 12 (2000).

    Examples
    --------
    >>> import pyarrow as pa
    >>> basket = pa.table({"city": ["Rome", "Rome", "Oslo", "Rome"], "ill": [True, True, True, False]})
    >>> print(mine_itemsets(basket, support=0.5))
    3 itemsets of 4 records
      75.0 %  city=Rome
      75.0 %  ill
      50.0 %  city=Rome, ill
    """
    report = progress or ignore_progress
    engine = open_data(frame)
    records = engine.schema().rows
    names = _choose_columns(engine, columns)
    least = _parse_support(support, records)
    largest = None if max_size is None else parse_whole_number(max_size, "max_size", 1)
    most = min(parse_whole_number(most, "most", 1), LARGEST_MOST)
    table = _FrequentItems.of(engine, names, least)
    found = _search(table, least, largest, most, report)
    if found is None:
        raise _too_many(most, least, records, support)
    return Itemsets(table.items, *_sort_sets(found, len(table.items)), records)


def mine_cells(
    items: Sequence[Item],
    cells: Int32Array,
    weight: Int64Array,
    *,
    support: float | str,
    max_size: int | None = None,
    most: int = MOST,
) -> Itemsets:
    """Find all frequent sets in counted cells; see `mine_itemsets`.

    ``cells[t, c]`` is the number of the item that cell t has in column c, and ``weight[t]`` its number of records. No other
    column has the same item. Items with the value None are in no set.
    """
    total = int(weight.sum())
    least = _parse_support(support, total)
    largest = None if max_size is None else parse_whole_number(max_size, "max_size", 1)
    count = np.zeros(len(items), np.int64)
    column = np.zeros(len(items), np.int64)
    for c in range(cells.shape[1]):
        np.add.at(count, cells[:, c], weight)
        column[cells[:, c]] = c
    frequent = np.flatnonzero((count >= least) & np.array([item.value is not None for item in items], bool))
    if not len(frequent):
        return Itemsets((), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), total)
    number = np.full(len(items), -1, np.int32)
    number[frequent] = np.arange(len(frequent), dtype=np.int32)
    chosen = tuple(items[i] for i in frequent.tolist())
    table = _FrequentItems(chosen, _rank_items(number[cells], weight, column[frequent], count[frequent]))
    found = _search(table, least, largest, most, ignore_progress)
    if found is None:
        raise _too_many(most, least, total, support)
    return Itemsets(chosen, *_sort_sets(found, len(chosen)), total)


def _too_many(most: int, least: int, records: int, support: float | str) -> PolicyError:
    return PolicyError(
        f"there are more than {most:,} sets of values that at least {least:,} of {records:,} records have (support = "
        f"{support}). Choose a larger support, or a smaller max_size."
    )


def mine_rules(
    itemsets: Itemsets, *, confidence: float | str = 0.5, max_right: int | None = 1, most: int = MOST
) -> Rules:
    """Find all association rules of frequent sets: records with the left side often have the right side, too.

    Parameters
    ----------
    itemsets : the sets, from `mine_itemsets`
    confidence : the least share of the records with the left side that have the right side, from 0 to 1 (default: 0.5)
    max_right : the largest number of items on the right side (default: 1); None for no limit
    most : raise an error if there are more rules

    Returns
    -------
    The rules, sorted by the set of all their items, then by the right side. Both sides of a rule are sets of ``itemsets``.

    Guarantee
    ---------
    None: the counts are those of the records; see `mine_itemsets`.

    References
    ----------
    Agrawal, Srikant: Fast algorithms for mining association rules. VLDB 1994.

    Examples
    --------
    >>> import pyarrow as pa
    >>> basket = pa.table({"city": ["Rome", "Rome", "Oslo", "Rome"], "ill": [True, True, True, False]})
    >>> print(mine_rules(mine_itemsets(basket, support=0.5), confidence=0.6))
    2 rules of 4 records
      ill => city=Rome  (support 50.0 %, confidence 66.7 %, lift 0.89)
      city=Rome => ill  (support 50.0 %, confidence 66.7 %, lift 0.89)
    """
    if not isinstance(itemsets, Itemsets):
        raise DataError("rules are mined from itemsets. Pass the result of mine_itemsets.")
    share = parse_share(confidence, "confidence")
    if not 0 <= share <= 1:
        raise PolicyError(f"confidence must be between 0 and 1, not {confidence!r}.")
    sets = len(itemsets)
    largest = sets if max_right is None else parse_whole_number(max_right, "max_right", 1)
    most = min(parse_whole_number(most, "most", 1), LARGEST_MOST)
    association = kernels.association
    start, count = (np.ascontiguousarray(a, np.int64) for a in (itemsets.start, itemsets.count))
    members = np.ascontiguousarray(itemsets.members, np.int32)
    index = association.index_sets(start, members, count, np.int64(len(itemsets.items)))
    bounds = np.linspace(0, sets, TASKS * threads.CORES + 1).astype(np.int64)
    parts = _run_tasks(
        lambda ends: association.find_rules(index, ends[0], ends[1], share, np.int64(largest), np.int64(most)),
        [(a, b) for a, b in pairwise(bounds) if a < b],
        lambda found: len(found.whole),
        most,
        ignore_progress,
    )
    if parts is None:
        raise PolicyError(
            f"there are more than {most:,} rules with a confidence of at least {share:g}. Choose a larger confidence, a "
            "smaller max_right, or sets with a larger support."
        )
    none = np.zeros(0, np.int64)
    whole, left, right = (np.concatenate([none, *(p[i] for p in parts)]) for i in range(3))
    sides = itemsets.list_members()
    return Rules(
        itemsets.items,
        tuple(map(sides.__getitem__, left.tolist())),
        tuple(map(sides.__getitem__, right.tolist())),
        itemsets.count[whole],
        itemsets.count[left],
        itemsets.count[right],
        itemsets.records,
    )


def _choose_columns(engine: Engine, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns whose values are items, in the order of the table; an error if there is no column or no record."""
    names, rows = engine.schema().names, engine.schema().rows
    if not names:
        raise DataError("the table has no columns. Pass a table with at least one column.")
    if not rows:
        raise DataError(EMPTY_TABLE)
    chosen = (columns,) if isinstance(columns, str) else names if columns is None else tuple(columns)
    for name in chosen:
        if name not in names:
            raise PolicyError(explain_unknown_column(str(name), names))
    if not chosen:
        raise PolicyError("columns names no column. Name at least one, or leave it out for all columns.")
    return tuple(name for name in names if name in chosen)


def _parse_support(support: Any, records: int) -> int:
    """The least number of records of a frequent set."""
    if isinstance(support, (int, np.integer)) and not isinstance(support, bool) and support > 1:
        return parse_whole_number(support, "support", 1)
    share = parse_share(support, "support")
    if not 0 < share <= 1:
        raise PolicyError(
            f"support must be a share above 0 and at most 1, or a whole number of records above 1, not {support!r}."
        )
    least = math.ceil(share * records)
    while least > 1 and (least - 1) / records >= share:  # the product was rounded up
        least -= 1
    return max(least, 1)


@dataclass(frozen=True)
class _FrequentItems:
    """The frequent items of a table, in ascending order of their numbers, and the cells of the table."""

    items: tuple[Item, ...]
    cells: Any

    @classmethod
    def of(cls, engine: Engine, names: Sequence[str], least: int) -> _FrequentItems:
        engine.prepare(dict.fromkeys(names, AS_PUBLISHED))
        dictionaries: dict[str, Dictionary] = {}
        items: list[Item] = []
        records = []
        for name in names:
            distinct = engine.distinct(name, AS_PUBLISHED)
            is_truth = engine.holds_truth_values(name)
            frequent = distinct.counts >= least
            if is_truth:
                frequent &= np.array([text == TRUE for text in distinct.values], bool)
            number = int(frequent.sum())
            if number:
                codes = np.where(frequent, np.cumsum(frequent) - 1, number).astype(np.int32)
                dictionaries[name] = Dictionary(AS_PUBLISHED, distinct, codes, number)
                texts = distinct.values[frequent].tolist()
                items += [Item(name) if is_truth else Item(name, text) for text in texts]
                records.append(distinct.counts[frequent])
        if not items:
            return cls((), None)
        return cls(tuple(items), _build_cells(engine, dictionaries, np.concatenate(records)))


def _build_cells(engine: Engine, dictionaries: dict[str, Dictionary], records: Int64Array) -> Any:
    """The cells of the table for the kernel."""
    counts = engine.encode(dictionaries).count(list(dictionaries))
    size = np.array([d.missing for d in dictionaries.values()])
    first = np.cumsum(size) - size
    numbers = np.empty(counts.quasi.shape, np.int32)
    for j in range(len(size)):
        own = np.arange(first[j], first[j] + size[j], dtype=np.int32)
        numbers[:, j] = np.append(own, np.int32(-1))[counts.quasi[:, j]]
    return _rank_items(numbers, counts.size, np.repeat(np.arange(len(size)), size), records)


def _rank_items(numbers: Int32Array, weight: Int64Array, column: Int64Array, records: Int64Array) -> Any:
    """The cells for the kernel, from the numbers of their items, or -1; by item: its column and its number of records."""
    order = np.argsort(records, kind="stable").astype(np.int32)
    rank = np.empty(len(records) + 1, np.int32)
    rank[order] = np.arange(len(records), dtype=np.int32)
    rank[-1] = -1
    item = rank[numbers]
    item.sort(axis=1)
    listed = kernels.itemsets.list_cells(item, np.int64(len(records)))
    return kernels.itemsets.ItemCells(item, weight, order, column[order], records[order], *listed)


def _search(table: _FrequentItems, least: int, max_size: int | None, most: int, report: Progress) -> list[Any] | None:
    """The frequent sets of all branches; None if there are more than ``most``."""
    if not table.items:
        return []
    mine_branch, cells = kernels.itemsets.mine_branch, table.cells
    longest = min(cells.item.shape[1], most.bit_length() + 1)  # a longer set has more than ``most`` subsets
    largest = longest if max_size is None else min(longest, max_size)
    limits = kernels.itemsets.SearchLimits(np.int64(least), np.int64(largest), np.int64(most))

    def count(found: Any) -> int:
        subsets = 2 ** int(found.size.max()) - 1
        return max(subsets, len(found.size)) if subsets > most else len(found.size)

    return _run_tasks(
        lambda branch: mine_branch(cells, branch, limits),
        np.arange(len(table.items)),
        count,
        most,
        report,
    )


def _run_tasks(
    work: Callable[[Any], Any],
    tasks: Sequence[Any] | Int64Array,
    count: Callable[[Any], int],
    most: int,
    report: Progress,
) -> list[Any] | None:
    """Run tasks on all cores, and return their results in order; None if their counts add up to more than ``most``."""
    results: list[Any] = []
    total = 0
    with threads.open_pool() as pool:
        futures = [pool.submit(work, task) for task in tasks]
        try:
            for future in futures:
                results.append(threads.wait_for(future))
                total += count(results[-1])
                if total > most:
                    return None
                report("mining", len(results), len(tasks))
        finally:
            for future in futures:
                future.cancel()
    return results


def _sort_sets(found: Sequence[Any], items: int) -> tuple[Int64Array, Int32Array, Int64Array]:
    """Start, items and records of the sets, sorted by size, then by items: a radix sort, from the last items to the size."""
    size = np.concatenate([np.zeros(0, np.int32), *(f.size for f in found)])
    members = np.concatenate([np.zeros(0, np.int32), *(f.members for f in found)])
    records = np.concatenate([np.zeros(0, np.int64), *(f.records for f in found)])
    start = np.concatenate(([0], np.cumsum(size, dtype=np.int64)))
    bits = max(items.bit_length(), 1)
    fitting = 64 // bits  # items in a key
    order = np.arange(len(size), dtype=np.int32)
    for first in reversed(range(0, int(size.max(initial=0)), fitting)):
        has_more = size[order] > first
        rest = order[has_more]
        keys = kernels.itemsets.pack_members(start, members, rest, np.int64(first), np.int64(fitting), np.int64(bits))
        order = np.concatenate((order[~has_more], rest[kernels.order.argsort(keys)]))
    order = order[kernels.order.argsort(size[order].astype(np.uint64))]
    taken = kernels.itemsets.take_members(start, members, order)
    return np.concatenate(([0], np.cumsum(size[order], dtype=np.int64))), taken, records[order]
