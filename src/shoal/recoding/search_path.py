"""The way a method took through the values: step by step from nothing to much, or from everything to less.

Top-down specialization opens a value into its children, bottom-up generalization closes children into their value. Either
way every step leaves a table between privacy and information, and the path remembers them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, overload

AttributeNames = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One step: a value and its children, what the step was worth, and how the table stands after it.

    ``gain`` is information and ``loss`` anonymity where values are opened; where they are closed ``loss`` is information
    and ``gain`` anonymity. ``score`` is what the step was chosen by. ``smallest`` has the records of the smallest group for
    every set of identifiers, ``measures`` the figures of the table: ``ncp`` of the cut (before records are suppressed),
    ``suppressed``, and with a target ``information``, the bits that each attribute tells of it, summed. A value or child is
    None where it is missing.
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
    """A value that was not opened where the path ended, and why."""

    attribute: str
    value: str | None
    children: tuple[str | None, ...]
    reason: str


@dataclass(frozen=True)
class SearchPath(Sequence[Step]):
    """All steps in their order; the release stands after the first ``chosen`` of them.

    ``smallest`` and ``measures`` say how the table stood before the first step, ``refused`` which values were left and why,
    ``ended`` why there is no further step.
    """

    direction: Literal["open", "close"]
    steps: tuple[Step, ...]
    chosen: int
    smallest: Mapping[AttributeNames, int]
    measures: Mapping[str, float]
    refused: tuple[Refusal, ...]
    ended: str

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
