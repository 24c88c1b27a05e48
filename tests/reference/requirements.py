"""Requirements from their definitions, one group at a time: lists of confidential values in, a number out.

A value is its text, None a missing one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
from scipy.optimize import linprog

import shoal

Value = str | None


def in_order(values: Sequence[Value]) -> list[Value]:
    """The distinct values, by number where all are numbers, else by text; a missing one comes last."""
    present = {v for v in values if v is not None}
    try:
        ordered: list[Value] = sorted(present, key=float)
    except ValueError:
        ordered = sorted(present)
    return ordered + [None] * (None in values)


def ground(requirement: shoal.TCloseness, order: Sequence[Value]) -> np.ndarray:
    """How far apart any two values are."""
    count = len(order)
    if requirement.distance == "equal":
        return 1.0 - np.eye(count)
    if requirement.distance == "ordered":
        place = np.arange(count)
        return np.abs(place[:, None] - place) / max(count - 1, 1)
    tree = requirement.taxonomy.with_missing()
    leaf = {label: code for code, label in enumerate(tree.leaves)}
    far = np.zeros((count, count))
    for (i, a), (j, b) in product(enumerate(order), repeat=2):
        lo, hi = sorted((leaf[a], leaf[b]))
        far[i, j] = 0 if i == j else tree.height[tree.cover(lo, hi)] / requirement.taxonomy.height[0]
    return far


def earth_movers_distance(share: np.ndarray, base: np.ndarray, far: np.ndarray) -> float:
    """The least work that turns one distribution into the other, as a linear program."""
    count = len(share)
    rows = [np.kron(np.eye(count)[i], np.ones(count)) for i in range(count)]
    columns = [np.kron(np.ones(count), np.eye(count)[j]) for j in range(count)]
    found = linprog(far.ravel(), A_eq=np.array(rows + columns), b_eq=np.concatenate((share, base)), method="highs")
    return float(found.fun)


def value_of(requirement: object, group: Sequence[Value], everyone: Sequence[Value]) -> float:
    """What a group reaches."""
    counts, size = Counter(group), len(group)
    if isinstance(requirement, shoal.KAnonymity):
        return size
    if isinstance(requirement, shoal.LDiversity):
        if requirement.kind == "distinct":
            return len(counts)
        if requirement.kind == "entropy":
            return math.exp(-sum(n / size * math.log(n / size) for n in counts.values()))
        ranked = sorted(counts.values(), reverse=True)
        tail = sum(ranked[int(requirement.l) - 1 :])
        return ranked[0] / tail if tail else math.inf
    order = in_order(everyone)
    base = np.array([Counter(everyone)[v] / len(everyone) for v in order])
    share = np.array([counts[v] / size for v in order])
    if isinstance(requirement, shoal.TCloseness):
        if requirement.distance == "equal":
            return float(np.abs(share - base).sum() / 2)
        if requirement.distance == "ordered":
            return float(np.abs(np.cumsum(share - base)).sum() / max(len(order) - 1, 1))
        return earth_movers_distance(share, base, ground(requirement, order))
    if isinstance(requirement, shoal.BetaLikeness):
        return float(max(0.0, ((share - base) / base).max()))
    if isinstance(requirement, shoal.DeltaDisclosure):
        return max(math.inf if s == 0 else abs(math.log(s / b)) for s, b in zip(share, base, strict=True))
    watched = [s for s, v in zip(share, order, strict=True) if requirement.values is None or v in requirement.values]
    return max(watched, default=0.0)


def passes(requirement: object, group: Sequence[Value], everyone: Sequence[Value]) -> bool:
    """Whether a group may exist."""
    if not group:
        return False
    value = value_of(requirement, group, everyone)
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
        base = Counter(everyone)
        return all(
            n / len(group) <= (1 + min(requirement.beta, -math.log(p))) * p + 1e-9
            for v, n in Counter(group).items()
            for p in [base[v] / len(everyone)]
        )
    if isinstance(requirement, shoal.AlphaKAnonymity) and len(group) < requirement.k:
        return False
    most = requirement.c if isinstance(requirement, shoal.ConfidenceBound) else requirement.alpha
    return value <= most + 1e-9
