"""k-anonymity (Samarati, Sweeney): every group has at least k records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.requirements.requirement import SizeRequirement, parse_attributes, parse_whole_number


@dataclass(frozen=True)
class KAnonymity(SizeRequirement):
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
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"k": 3},)

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", parse_whole_number(self.k, "k", 1))
        object.__setattr__(self, "on", parse_attributes(self.on))

    @property
    def least(self) -> int:
        """k."""
        return self.k
