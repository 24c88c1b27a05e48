"""A grouping method: consecutive combinations form a group until the group meets every requirement."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from shoal import kernels
from shoal.encoding.codes import Codes
from shoal.pipeline.method import GroupingMethod
from shoal.progress import Progress
from shoal.recoding import Placement
from shoal.recoding.grouping import Grouping
from shoal.requirements import combine_limits


class Blocks(GroupingMethod):
    """Sort the combinations by their codes and cut the list where a group meets every requirement."""

    name: ClassVar[str] = "example-blocks"
    summary: ClassVar[str] = "groups consecutive combinations"

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The blocks; a last block that fails is merged with the blocks before it until it passes."""
        self.refuse_non_monotone()
        limits = combine_limits(self.full_policy().require, codes.distribution)
        rules, counts = limits.arrays(), codes.counts
        offset = np.cumsum([0, *codes.distribution.domains])

        def holds(first: int, last: int) -> bool:
            cells = slice(counts.start[first], counts.start[last])
            histogram = np.zeros(offset[-1], np.int64)
            for j in range(counts.sensitive.shape[1]):
                np.add.at(histogram, offset[j] + counts.sensitive[cells, j], counts.size[cells])
            total = int(counts.size[cells].sum())
            return total >= limits.least and bool(kernels.limits.holds(total, histogram, rules))

        begins, count = [0], len(codes.quasi)
        for combination in range(1, count):
            if holds(begins[-1], combination):
                begins.append(combination)
        while len(begins) > 1 and not holds(begins[-1], count):
            begins.pop()
        group = (np.searchsorted(begins, np.arange(count), side="right") - 1).astype(np.int32)
        lo, hi = kernels.boxes.bound_groups(codes.quasi, np.arange(count), group, len(begins))
        return Grouping(Placement.whole(counts, group), lo, hi)
