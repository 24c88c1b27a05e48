"""A requirement on sizes alone: no group has fewer records than a threshold, as in the rule of a statistical office."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.requirements import SizeRequirement
from shoal.requirements.requirement import parse_attributes, parse_whole_number


@dataclass(frozen=True)
class CellRule(SizeRequirement):
    """Every group has more records than ``hidden``, the largest number that must not be shown.

    Parameters
    ----------
    hidden : the largest number of records that must not be shown
    on : the quasi-identifiers that form the groups (default: all)
    """

    hidden: int
    on: Sequence[str] | None = None

    name: ClassVar[str] = "example-cell-rule"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"hidden": 2},)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", parse_whole_number(self.hidden, "hidden", 0))
        object.__setattr__(self, "on", parse_attributes(self.on))

    @property
    def least(self) -> int:
        """One more than ``hidden``."""
        return self.hidden + 1
