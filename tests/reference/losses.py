"""The information loss of an interval of codes, from the definitions of the measures."""

from __future__ import annotations

import math
from collections.abc import Iterable

from shoal.encoding.attributes import Attribute


def interval_loss(attribute: Attribute, lo: int, hi: int, objective: str = "ncp") -> float:
    """Numbers: the width over the span. Trees: the source values (or for ``il`` the height) of the lowest node.

    A tree with an order: the source values of the lowest node, or of the run of nodes if it has fewer leaves.
    """
    tree = attribute.taxonomy
    if tree is None:
        if math.isinf(attribute.position[hi]):
            return 0.0 if lo == hi else 1.0
        return float((attribute.ends[1][hi] - attribute.ends[0][lo]) / attribute.span)
    over = [n for n in range(len(tree.label)) if tree.lo[n] <= lo <= hi <= tree.hi[n]]
    lowest = max(over, key=lambda n: (tree.lo[n] - tree.hi[n], n))  # children stand after their parents
    covered = range(tree.lo[lowest], tree.hi[lowest] + 1)
    if attribute.runs is not None and tree.leaves[hi] is not None:
        run = range(tree.lo[attribute.runs.node[lo]], tree.hi[attribute.runs.node[hi]] + 1)
        covered = min(covered, run, key=len)
    values, every = count_source_values(attribute, covered), count_source_values(attribute, range(tree.size))
    if objective == "ncp":
        return 0.0 if lo == hi and values == 1 else values / every
    if objective == "loss_mean":
        return (values - 1) / (every - 1) if every > 1 else 0.0
    height = [0] * len(tree.label)
    for node in range(len(height) - 1, 0, -1):
        height[tree.parent[node]] = max(height[tree.parent[node]], height[node] + 1)
    return height[lowest] / height[0]


def count_source_values(attribute: Attribute, codes: Iterable[int]) -> int:
    """The number of different source values of some codes; missing values are one value."""
    return sum(1 if attribute.source is None else int(attribute.source.count[code]) for code in codes)
