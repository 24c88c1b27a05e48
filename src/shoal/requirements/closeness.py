"""t-closeness (Li et al.): what is confidential is distributed in every group nearly as in the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from shoal.errors import PolicyError, choices
from shoal.groups import Groups
from shoal.kernels import rules
from shoal.requirements.base import SLACK, Layout, Term, Verdict, column_of, layout_of, names_of, real

DISTANCES = ("equal", "ordered")


@dataclass(frozen=True)
class TCloseness:
    """In every group the earth mover's distance to the whole table's distribution is at most ``t``.

    Parameters
    ----------
    t : the largest distance, between 0 and 1
    of : the sensitive attribute
    distance : ``equal`` holds all values equally far apart; ``ordered`` takes them in ascending order, neighbours
        1/(values - 1) apart
    on : the quasi-identifiers that form the groups; all of them unless said
    """

    t: float
    of: str
    distance: str = "equal"
    on: Sequence[str] | None = None

    name: ClassVar[str] = "t-closeness"
    monotone: ClassVar[bool] = True
    evidence: ClassVar[Literal["table", "bucket", "operator"]] = "table"

    def __post_init__(self) -> None:
        column_of(self.of, self.name)
        object.__setattr__(self, "t", real(self.t, "t"))
        if not 0 <= self.t <= 1:
            raise PolicyError(f"t must lie between 0 and 1, not {self.t}")
        if self.distance not in DISTANCES:
            raise PolicyError(f"distance of t-closeness: {self.distance!r}; {choices(self.distance, DISTANCES)}")
        object.__setattr__(self, "on", names_of(self.on))

    @property
    def least(self) -> int:
        """One record may do, where t allows it."""
        return 1

    def limits(self, layout: Layout) -> Term:
        """The rule of this distance."""
        first, last = layout.span(self.of)
        rule = rules.EQUAL_DISTANCE if self.distance == "equal" else rules.ORDERED_DISTANCE
        return Term(rule, first, last, self.t)

    def test(self, groups: Groups) -> Verdict:
        """The distance of every group."""
        group, code, weight = groups.histogram(self.of)
        count = len(groups.start) - 1
        layout = layout_of(groups)
        first, last = layout.span(self.of)
        base = layout.base[first:last]
        value = np.zeros(count)
        step = max(1, 4_000_000 // max(last - first, 1))  # groups at a time, to bound the memory
        for begin in range(0, count, step):
            end = min(begin + step, count)
            inside = slice(*np.searchsorted(group, [begin, end]))
            part = np.zeros((end - begin, last - first))
            part[group[inside] - begin, code[inside]] = weight[inside]
            gap = part / groups.size[begin:end, None] - base
            if self.distance == "equal":
                value[begin:end] = np.abs(gap).sum(axis=1) / 2
            else:
                value[begin:end] = np.abs(np.cumsum(gap, axis=1)).sum(axis=1) / max(last - first - 1, 1)
        return Verdict(value <= self.t + SLACK, value, int(np.argmax(value)) if count else 0)
