"""The plainest method: records that share their values, or those of one attribute, are a group.

It does not look at the requirement. Whatever makes its release hold is suppression, which is what its tests are about.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from shoal.encoding.codes import Codes
from shoal.pipeline.method import GroupingMethod
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import Placement
from shoal.recoding.grouping import Grouping, SplitTree


class Each(GroupingMethod):
    """Every combination its own group, or every value of the attribute ``by``.

    With ``tree`` the groups are told by a chain of cuts through one attribute, so the recoding is `Boxes`.
    """

    name: ClassVar[str] = "each"
    summary: ClassVar[str] = "publishes every value as it is"

    def __init__(self, policy: Policy, *, by: str | None = None, tree: bool = False, write: str = "label") -> None:
        super().__init__(policy, write=write)
        self.by = by
        self.tree = tree

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """One group per combination or value."""
        names = [a.name for a in codes.attributes]
        mine = [names.index(self.by)] if self.by else list(range(len(names)))
        values, group = np.unique(codes.quasi[:, mine], axis=0, return_inverse=True)
        group = group.reshape(-1).astype(np.int32)
        lo = np.array([codes.quasi[group == g].min(axis=0) for g in range(len(values))], np.int32)
        hi = np.array([codes.quasi[group == g].max(axis=0) for g in range(len(values))], np.int32)
        return Grouping(
            Placement.whole(codes.counts, group), lo, hi, _chain(mine[0], values[:, 0]) if self.tree else None
        )


def _chain(attribute: int, codes: np.ndarray) -> SplitTree:
    """Node 2i asks whether a code is the i-th; its left child is that group."""
    size = 2 * len(codes) - 1
    inner = np.arange(0, size - 1, 2)
    field, at, left, right, group = (np.full(size, -1, np.int32) for _ in range(5))
    field[inner], at[inner], left[inner], right[inner] = attribute, codes[:-1], inner + 1, inner + 2
    group[inner + 1] = np.arange(len(inner))
    group[size - 1] = len(inner)
    return SplitTree(field, at, left, right, group)
