"""The information loss of an interval of codes, from the definitions of the measures."""

from __future__ import annotations

import math

from shoal.encoding.attributes import Attribute


def interval_loss(attribute: Attribute, lo: int, hi: int, objective: str = "ncp") -> float:
    """Numbers: the width over the span. Trees: the leaves (``ncp``, ``loss_mean``) or height (``il``) of the lowest node.

    A tree with an order: the leaves of the lowest node, or of the run of nodes if it has fewer.
    """
    tree = attribute.taxonomy
    if tree is None:
        if math.isinf(attribute.position[hi]):
            return 0.0 if lo == hi else 1.0
        return float((attribute.ends[1][hi] - attribute.ends[0][lo]) / attribute.span)
    if lo == hi:
        return 0.0
    over = [n for n in range(len(tree.label)) if tree.lo[n] <= lo <= hi <= tree.hi[n]]
    lowest = max(over, key=lambda n: (tree.lo[n] - tree.hi[n], n))  # children stand after their parents
    leaves, every = int(tree.hi[lowest] - tree.lo[lowest]) + 1, int(tree.hi[0]) + 1
    if attribute.runs is not None and tree.leaves[hi] is not None:
        leaves = min(leaves, int(tree.hi[attribute.runs.node[hi]] - tree.lo[attribute.runs.node[lo]]) + 1)
    if objective == "ncp":
        return leaves / every
    if objective == "loss_mean":
        return (leaves - 1) / (every - 1)
    height = [0] * len(tree.label)
    for node in range(len(height) - 1, 0, -1):
        height[tree.parent[node]] = max(height[tree.parent[node]], height[node] + 1)
    return height[lowest] / height[0]
