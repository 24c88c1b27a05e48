"""Counts of records by the sensitive values and classes of their groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from shoal.policy import Policy
from shoal.requirements.groups import Groups


@dataclass(frozen=True)
class SensitiveFigures:
    """Counts of records by the sensitive values and classes of their groups; add up those of several partitions.

    ``majority``: records of the most frequent class of their group (None without a target). ``certain``: records of groups in
    which some sensitive column has a single value. ``equal``: the sum of these records over the sensitive columns. ``grave``:
    the same for the values that the policy lists as truly sensitive (None if it lists none). ``largest_share``: the largest
    share of one sensitive value in a group.
    """

    majority: float | None = None
    certain: float | None = None
    equal: float | None = None
    grave: float | None = None
    largest_share: float | None = None

    @classmethod
    def of(cls, groups: Groups, policy: Policy, names: Sequence[str]) -> SensitiveFigures:
        """Count groups that have the values of the columns ``names``; records are counted, also where the policy has a unit."""
        groups = replace(groups, person=None)
        size = groups.size
        majority = None
        if policy.target is not None and policy.target in names:
            group, _, records = groups.histogram(policy.target)
            largest = np.zeros(len(size))
            np.maximum.at(largest, group, records)
            majority = float(largest.sum())
        sensitive = [name for name in policy.sensitive if name in names]
        if not sensitive:
            return cls(majority)
        certain = np.zeros(len(size), bool)
        equal = grave = largest_share = 0.0
        for name in sensitive:
            group, code, records = groups.histogram(name)
            largest_share = max(largest_share, float((records / size[group]).max(initial=0.0)))
            has_one_value = np.bincount(group, minlength=len(size)) == 1
            certain |= has_one_value
            equal += float(size[has_one_value].sum())
            harmful = np.array(policy.flag_truly_sensitive(name, groups.labels[groups.sensitive.index(name)]), bool)
            has_harmful = np.zeros(len(size), bool)
            has_harmful[group] = harmful[code]
            grave += float(size[has_one_value & has_harmful].sum())
        known = float(size[certain].sum())
        return cls(majority, known, equal, grave if policy.truly_sensitive else None, largest_share)

    def __add__(self, other: SensitiveFigures) -> SensitiveFigures:
        pairs = zip(astuple(self)[:-1], astuple(other)[:-1], strict=True)
        summed = [y if x is None else x if y is None else x + y for x, y in pairs]
        shares = [share for share in (self.largest_share, other.largest_share) if share is not None]
        return SensitiveFigures(*[*summed, max(shares, default=None)])
