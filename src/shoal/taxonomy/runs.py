"""Ranges over ordered taxonomies: a run of neighbouring nodes of one level, published as its first and its last node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.arrays import Int32Array
from shoal.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class Runs:
    """The nodes of a level, from which runs begin and end: ``node[code]`` is the node of the level over each leaf code.

    The level of a height has the highest node over each leaf that is not above this height. So the nodes of a level contain
    every leaf once, also in an unbalanced tree. Height 0 are the leaves.

    >>> tree = Taxonomy.from_nested({"ANY": {"primary": ["1st", "2nd"], "middle": ["5th", "6th"], "high": ["9th", "10th"]}})
    >>> Runs.of(tree, 1).publish(tree, np.array([1, 1]), np.array([2, 4]))
    (array([1, 0], dtype=int32), array([4, 0], dtype=int32))
    """

    node: Int32Array

    @classmethod
    def of(cls, tree: Taxonomy, height: int) -> Runs:
        """The level of this height."""
        node = tree.leaf.copy()
        while True:
            above = tree.parent[node]
            rises = (above >= 0) & (tree.height[above] <= height)
            if not rises.any():
                return cls(node)
            node = np.where(rises, above, node).astype(np.int32)

    def publish(self, tree: Taxonomy, lo: Int32Array, hi: Int32Array) -> tuple[Int32Array, Int32Array]:
        """The first and the last node that are published for the codes from ``lo`` to ``hi``: one node, or a run of nodes.

        The run is published where it has fewer leaves than the lowest node over the codes. A missing value has no order, so
        codes that include it are published as one node.
        """
        single = tree.covers(lo, hi)
        first, last = self.node[lo], self.node[hi]
        is_run = tree.hi[last] - tree.lo[first] < tree.hi[single] - tree.lo[single]
        if tree.label and tree.label[-1] is None:
            is_run &= hi < tree.size - 1
        return np.where(is_run, first, single).astype(np.int32), np.where(is_run, last, single).astype(np.int32)
