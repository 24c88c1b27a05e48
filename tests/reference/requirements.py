"""Requirements by their definitions, one group at a time, from lists of sensitive values.

A value is a text; None is a missing value. Where people are counted, a list has the value of every pair of person and value,
and the numbers of people are given beside it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product, takewhile
from typing import Any

import numpy as np
from scipy.optimize import linprog

import shoal

Value = str | None


def sort_values(values: Sequence[Value]) -> list[Value]:
    """The distinct values, sorted by number if all are numbers, else by text; a missing value comes last."""
    present = {v for v in values if v is not None}
    try:
        ordered: list[Value] = sorted(present, key=float)
    except ValueError:
        ordered = sorted(present)
    return ordered + [None] * (None in values)


def ground_distance(requirement: shoal.TCloseness, order: Sequence[Value]) -> np.ndarray:
    """The distance of any two values."""
    count = len(order)
    if requirement.distance == "equal":
        return 1.0 - np.eye(count)
    if requirement.distance == "ordered":
        place = np.arange(count)
        return np.abs(place[:, None] - place) / max(count - 1, 1)
    ways = list(leaf_ways(requirement.taxonomy.to_nested()))
    root = ways[0][:1]
    way_to = {way[-1]: way for way in ways} | {None: (*root, None)}  # a missing value is a leaf below the root
    distance = np.zeros((count, count))
    for (i, a), (j, b) in product(enumerate(order), repeat=2):
        if i != j:
            common = list(takewhile(lambda pair: pair[0] == pair[1], zip(way_to[a], way_to[b], strict=False)))
            distance[i, j] = height(ways, [label for label, _ in common]) / height(ways, root)
    return distance


def leaf_ways(body: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The labels from the root to every leaf of a nested tree."""
    if isinstance(body, str):
        yield (*above, body)
    elif isinstance(body, dict):
        for name, part in body.items():
            yield from leaf_ways(part, (*above, name))
    else:
        for part in body:
            yield from leaf_ways(part, above)


def height(ways: Sequence[tuple[str, ...]], node: Sequence[str]) -> int:
    """The steps from a node, told by the labels from the root to it, to its deepest leaf."""
    return max(len(way) - len(node) for way in ways if way[: len(node)] == tuple(node))


def earth_movers_distance(share: np.ndarray, table_share: np.ndarray, distance: np.ndarray) -> float:
    """The least cost of turning one distribution into the other, as a linear program."""
    count = len(share)
    rows = [np.kron(np.eye(count)[i], np.ones(count)) for i in range(count)]
    columns = [np.kron(np.ones(count), np.eye(count)[j]) for j in range(count)]
    moved = np.concatenate((share, table_share))
    solution = linprog(distance.ravel(), A_eq=np.array(rows + columns), b_eq=moved, method="highs")
    return float(solution.fun)


def value_of(
    requirement: object,
    group: Sequence[Value],
    everyone: Sequence[Value],
    people: int | None = None,
    all_people: int | None = None,
) -> float:
    """The value that a group reaches; ``people`` are in the group, ``all_people`` in the table (default: one per value)."""
    counts, size = Counter(group), len(group)
    if isinstance(requirement, shoal.KAnonymity):
        return size if people is None else people
    if isinstance(requirement, shoal.LDiversity):
        if requirement.kind == "distinct":
            return len(counts)
        if requirement.kind == "entropy":
            return math.exp(-sum(n / size * math.log(n / size) for n in counts.values()))
        ranked = sorted(counts.values(), reverse=True)
        tail = sum(ranked[int(requirement.l) - 1 :])
        return ranked[0] / tail if tail else math.inf
    order, total = sort_values(everyone), len(everyone)
    if people is not None and all_people is not None and not isinstance(requirement, shoal.TCloseness):
        size, total = people, all_people  # bounds of shares count people
    table_share = np.array([Counter(everyone)[v] / total for v in order])
    share = np.array([counts[v] / size for v in order])
    if isinstance(requirement, shoal.TCloseness):
        if requirement.distance == "equal":
            return float(np.abs(share - table_share).sum() / 2)
        if requirement.distance == "ordered":
            return float(np.abs(np.cumsum(share - table_share)).sum() / max(len(order) - 1, 1))
        return earth_movers_distance(share, table_share, ground_distance(requirement, order))
    if isinstance(requirement, shoal.BetaLikeness):
        return float(max(0.0, ((share - table_share) / table_share).max()))
    if isinstance(requirement, shoal.DeltaDisclosure):
        return max(math.inf if s == 0 else abs(math.log(s / b)) for s, b in zip(share, table_share, strict=True))
    protected = [s for s, v in zip(share, order, strict=True) if requirement.values is None or v in requirement.values]
    return max(protected, default=0.0)


def passes(
    requirement: object,
    group: Sequence[Value],
    everyone: Sequence[Value],
    people: int | None = None,
    all_people: int | None = None,
) -> bool:
    """Whether a group meets the requirement; see `value_of`."""
    if not group:
        return False
    value = value_of(requirement, group, everyone, people, all_people)
    if isinstance(requirement, shoal.KAnonymity):
        return value >= requirement.k
    if isinstance(requirement, shoal.LDiversity):
        if requirement.kind == "recursive":
            return value < requirement.c
        return math.log(value) >= math.log(requirement.l) - 1e-9
    if isinstance(requirement, shoal.TCloseness):
        return value <= requirement.t + 1e-9
    if isinstance(requirement, shoal.DeltaDisclosure):
        return value < requirement.delta
    if isinstance(requirement, shoal.BetaLikeness):
        if requirement.kind == "basic":
            return value <= requirement.beta + 1e-9
        records, size, total = Counter(everyone), people or len(group), all_people or len(everyone)
        return all(
            n / size <= (1 + min(requirement.beta, -math.log(p))) * p + 1e-9
            for v, n in Counter(group).items()
            for p in [records[v] / total]
        )
    if isinstance(requirement, shoal.AlphaKAnonymity) and (people or len(group)) < requirement.k:
        return False
    most = requirement.c if isinstance(requirement, shoal.ConfidenceBound) else requirement.alpha
    return value <= most + 1e-9
