"""Algorithm 1 of Friedman, Wolff and Schuster without any bookkeeping: all spans are computed again for every candidate.

A row is a tuple of codes with a class and a number of records. A tree is a dict of nodes: a leaf has None, another node has its
attribute, its level (-1: a cut of numbers), and its children as pairs of codes and node.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from math import ceil, log2

LEAST_GAIN = 1e-9
BITS = 50


@dataclass(frozen=True)
class Feature:
    """An attribute: the blocks of codes of each level (a number has none), the values of numbers, and whether it is public."""

    size: int
    levels: tuple[tuple[tuple[int, ...], ...], ...]
    values: tuple[float, ...]
    public: bool


@dataclass(frozen=True)
class Row:
    codes: tuple[int, ...]
    label: int
    records: int


Children = list[tuple[frozenset[int], int]]
Tree = dict[int, tuple[int, int, Children] | None]


def grow(rows: list[Row], features: list[Feature], k: int, *, class_known: bool, spare_single: bool) -> Tree | None:
    """The tree that Algorithm 1 grows with information gain; None if its root fails."""
    tree: Tree = {0: None}
    if not holds(tree, rows, features, k, class_known=class_known, spare_single=spare_single):
        return None
    unit = choose_unit(sum(r.records for r in rows))
    while True:
        candidates = []
        for leaf in [n for n, node in tree.items() if node is None]:
            inside = [r for r in rows if find_leaf(tree, r.codes) == leaf]
            best = find_best(tree, leaf, inside, rows, features, k, unit, class_known, spare_single)
            if best is not None:
                candidates.append((-best[0], best[1], leaf, best))
        if not candidates:
            return tree
        _, _, leaf, (_, attribute, level, blocks) = min(candidates, key=lambda c: c[:3])
        tree = apply(tree, leaf, attribute, level, blocks)


def find_best(tree, leaf, inside, rows, features, k, unit, class_known, spare_single):
    total = sum(r.records for r in inside)
    before = impurity(inside, unit)
    best = None
    if before <= LEAST_GAIN * total * unit:
        return None
    region = find_region(tree, leaf, features)
    for a, feature in enumerate(features):
        present = sorted({r.codes[a] for r in inside})
        splits: list[tuple[int, list[frozenset[int]]]] = []
        if feature.levels:
            blocks_before = 1
            for level, blocks in enumerate(feature.levels):
                here = [frozenset(b) & region[a] for b in blocks if set(b) & set(present)]
                if len(here) > blocks_before:
                    splits.append((level, here))
                    blocks_before = len(here)
        else:
            for low, high in pairwise(present):
                at = last_below_middle(feature.values, low, high)
                sides = [frozenset(c for c in region[a] if c <= at), frozenset(c for c in region[a] if c > at)]
                splits.append((-1, sides))
        for level, blocks in splits:
            gain = before - sum(impurity([r for r in inside if r.codes[a] in b], unit) for b in blocks)
            slack = LEAST_GAIN * total * unit
            if gain <= slack or (best is not None and gain <= best[0] + slack):
                continue
            after = apply(tree, leaf, a, level, with_rest(blocks, region[a]))
            if holds(after, rows, features, k, class_known=class_known, spare_single=spare_single):
                best = (gain, a, level, with_rest(blocks, region[a]))
    return best


def with_rest(blocks: list[frozenset[int]], region: frozenset[int]) -> list[frozenset[int]]:
    rest = region - frozenset().union(*blocks)
    return [*blocks, rest] if rest else blocks


def apply(tree: Tree, leaf: int, attribute: int, level: int, blocks: list[frozenset[int]]) -> Tree:
    first = max(tree) + 1
    children = [(codes, first + i) for i, codes in enumerate(blocks)]
    return tree | {leaf: (attribute, level, children)} | {child: None for _, child in children}


def find_leaf(tree: Tree, codes: tuple[int, ...]) -> int:
    node = 0
    while tree[node] is not None:
        attribute, _, children = tree[node]  # type: ignore[misc]
        node = next(child for block, child in children if codes[attribute] in block)
    return node


def find_region(tree: Tree, leaf: int, features: list[Feature]) -> list[frozenset[int]]:
    """The codes of every attribute that can lead to a leaf."""
    region = [frozenset(range(f.size)) for f in features]
    node = leaf
    while node:
        for parent, content in tree.items():
            found = [block for block, child in (content[2] if content else []) if child == node]
            if found:
                region[content[0]] &= found[0]  # type: ignore[index]
                node = parent
                break
    return region


def holds(tree: Tree, rows: list[Row], features: list[Feature], k: int, *, class_known: bool, spare_single: bool):
    """Claim 3 by enumeration of all private values."""
    classes = sorted({r.label for r in rows})
    sizes: dict[frozenset[tuple[int, int]], int] = {}
    for row in rows:
        domains = [[c] if f.public else range(f.size) for c, f in zip(row.codes, features, strict=True)]
        labels = [row.label] if class_known else classes
        span = frozenset((find_leaf(tree, codes), label) for codes in product(*domains) for label in labels)
        sizes[span] = sizes.get(span, 0) + row.records
    return all(size >= k or (spare_single and len(span) == 1) for span, size in sizes.items())


def impurity(rows: list[Row], unit: float) -> float:
    """The entropy of the classes times records, in units."""
    by_class: dict[int, int] = {}
    for row in rows:
        by_class[row.label] = by_class.get(row.label, 0) + row.records
    return weigh(sum(by_class.values()), unit) - sum(weigh(count, unit) for count in by_class.values())


def weigh(x: int, unit: float) -> float:
    return float(round(x * log2(x) * unit)) if x > 1 else 0.0


def choose_unit(total: int) -> float:
    return float(2.0 ** (BITS - ceil(log2(total * log2(max(total, 2)) + 1.0))))


def last_below_middle(values: tuple[float, ...], low: int, high: int) -> int:
    if values[high] == float("inf"):
        return high - 1
    middle = values[low] + (values[high] - values[low]) / 2
    return max(c for c in range(low, high) if values[c] <= middle)
