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
        """The blocks; the rest joins the last block."""
        self.refuse_non_monotone()
        limits = combine_limits(self.full_policy().require, codes.distribution)
        rules, counts = limits.arrays(), codes.counts
        offset = np.cumsum([0, *codes.distribution.domains])
        histogram = np.zeros(offset[-1], np.int64)
        group, number, total = np.zeros(len(codes.quasi), np.int32), 0, 0
        for combination in range(len(codes.quasi)):
            group[combination] = number
            for cell in range(counts.start[combination], counts.start[combination + 1]):
                total += counts.size[cell]
                histogram[offset[:-1] + counts.sensitive[cell]] += counts.size[cell]
            if total >= limits.least and kernels.limits.holds(total, histogram, rules):
                number, total = number + 1, 0
                histogram[:] = 0
        group[group == number] = max(number - 1, 0)
        lo, hi = kernels.boxes.bound_groups(codes.quasi, np.arange(len(group)), group, int(group.max(initial=0)) + 1)
        return Grouping(Placement.whole(counts, group), lo, hi)
