"""All pairs: few rows in which every two values of different factors occur together.

Most faults need two circumstances, not three (Kuhn, Wallace and Gallo, 2004), and the full product of methods, requirements,
engines, ways of writing and parameters takes hours.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
Pair = tuple[tuple[str, int], tuple[str, int]]


def cover_pairs(factors: Mapping[str, Sequence[Any]], possible: Callable[[Row], bool] = lambda row: True) -> list[Row]:
    """Rows with one value per factor, so that every possible pair of values is in a row; the same rows in every call.

    ``possible`` says whether a row, also one without some factors, can be part of a test. A greedy search begins every row
    with a pair that is missing, and completes it with the values that add most missing pairs, the first of equally good ones.
    So the first value of a factor, such as the cheapest engine, fills the rows that need no other.
    """
    names = list(factors)

    def valid(chosen: dict[str, int]) -> bool:
        return possible({name: factors[name][chosen[name]] for name in names if name in chosen})

    def value_pairs(name: str, other: str) -> list[Pair]:
        indexes = itertools.product(range(len(factors[name])), range(len(factors[other])))
        return [((name, a), (other, b)) for a, b in indexes if valid({name: a, other: b})]

    missing = dict.fromkeys(
        pair for name, other in itertools.combinations(names, 2) for pair in value_pairs(name, other)
    )
    rows: list[dict[str, int]] = []
    while missing:
        row = _complete(dict(next(iter(missing))), factors, missing, valid)
        for pair in _list_pairs(row, names):
            missing.pop(pair, None)
        rows.append(row)
    return [{name: factors[name][row[name]] for name in names} for row in rows]


def _complete(
    row: dict[str, int],
    factors: Mapping[str, Sequence[Any]],
    missing: Mapping[Pair, None],
    valid: Callable[[dict[str, int]], bool],
) -> dict[str, int]:
    names = list(factors)
    for name in names:
        if name in row:
            continue
        options = [{**row, name: index} for index in range(len(factors[name])) if valid({**row, name: index})]
        assert options, f"no value of {name!r} is possible with {row}"
        row = max(options, key=lambda option: sum(pair in missing for pair in _list_pairs(option, names)))
    return row


def _list_pairs(row: Mapping[str, int], names: Sequence[str]) -> list[Pair]:
    present = [(name, row[name]) for name in names if name in row]
    return list(itertools.combinations(present, 2))
