"""The path of a search that changes one value per step, with the figures of the table after every step.

Top-down specialization replaces a value by its children, bottom-up generalization replaces the children by their value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, overload

AttributeNames = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One step: a value, its children, the gain and loss of the step, and the figures of the table after the step.

    A specialization gains information and loses anonymity; a generalization gains anonymity and loses information. The search
    selects steps by ``score``. ``smallest`` has the records of the smallest group for every attribute set. ``measures`` has
    ``ncp`` (of the cut, before records are suppressed), ``suppressed`` (records), and with a target ``information``: the
    bits of information of each attribute about the target, summed. None is the missing value.
    """

    attribute: str
    value: str | None
    children: tuple[str | None, ...]
    gain: float
    loss: float
    score: float
    smallest: Mapping[AttributeNames, int]
    measures: Mapping[str, float]


@dataclass(frozen=True)
class Refusal:
    """A value that was not specialized before the path ended, and the reason."""

    attribute: str
    value: str | None
    children: tuple[str | None, ...]
    reason: str


@dataclass(frozen=True)
class SearchPath(Sequence[Step]):
    """All steps in order; the release is the table after the first ``chosen`` steps.

    ``smallest`` and ``measures`` are the figures of the table before the first step. ``refusals`` has the values that were not
    specialized further, ``stop_reason`` the reason that there is no further step. After a generalization, ``reopened`` has
    the values that were specialized again, because the requirements held without their generalization.
    """

    direction: Literal["specialize", "generalize"]
    steps: tuple[Step, ...]
    chosen: int
    smallest: Mapping[AttributeNames, int]
    measures: Mapping[str, float]
    refusals: tuple[Refusal, ...]
    stop_reason: str
    reopened: tuple[Step, ...] = ()

    @overload
    def __getitem__(self, place: int) -> Step: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, place: int | slice) -> Step | tuple[Step, ...]:
        return self.steps[place]

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)
