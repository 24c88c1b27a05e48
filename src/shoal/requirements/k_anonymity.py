"""k-anonymity (Samarati, Sweeney): every group has at least k records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from shoal.kernels import rules
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import (
    BaseRequirement,
    TableDistribution,
    Term,
    Verdict,
    parse_attributes,
    parse_whole_number,
)


@dataclass(frozen=True)
class KAnonymity(BaseRequirement):
    """Every group has at least ``k`` records.

    Parameters
    ----------
    k : the least number of records of a group
    on : the quasi-identifiers that form the groups (default: all)

    Guarantee
    ---------
    An attacker who knows a person's values of these attributes cannot tell which of at least k records belongs to that
    person. The sensitive values inside a group are not protected: see `LDiversity`.

    Examples
    --------
    >>> KAnonymity(10, on=["zip", "birth"])
    KAnonymity(k=10, on=('zip', 'birth'))
    """

    k: int
    on: Sequence[str] | None = None

    name: ClassVar[str] = "k-anonymity"
    monotone: ClassVar[bool] = True
    tested_on: ClassVar[Literal["table", "bucket", "operator"]] = "table"
    of: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", parse_whole_number(self.k, "k", 1))
        object.__setattr__(self, "on", parse_attributes(self.on))

    @property
    def least(self) -> int:
        """k."""
        return self.k

    def limits(self, distribution: TableDistribution) -> tuple[Term, ...]:
        """At least k records."""
        return (Term(rules.SIZE, a=float(self.k)),)

    def test(self, groups: Groups) -> Verdict:
        """The number of records of every group."""
        size = groups.size
        return Verdict(size >= self.k, size.astype(np.float64), int(np.argmin(size)) if len(size) else 0)
