"""A randomizing method: every value is kept with a probability, and otherwise drawn from its column (PRAM)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from shoal.encoding.codes import Codes
from shoal.errors import PolicyError
from shoal.measures.comparison import count_codes
from shoal.pipeline.method import RandomizingMethod
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import IndependentOperator
from shoal.requirements import Transition


class Flip(RandomizingMethod):
    """Keep each value with the probability ``keep``; otherwise draw a value from the distribution of its column."""

    name: ClassVar[str] = "example-flip"
    summary: ClassVar[str] = "changes values at random"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"keep": 0.9})

    def __init__(self, policy: Policy, *, keep: float = 0.5) -> None:
        super().__init__(policy)
        self.keep = keep

    def check_parameters(self) -> None:
        """Raise an error for a probability outside 0 to 1."""
        super().check_parameters()
        if not 0 <= self.keep <= 1:
            raise PolicyError(f"keep must be a probability from 0 to 1, not {self.keep!r}.")

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> IndependentOperator:
        """The probabilities of every attribute."""
        transitions = {}
        for j, attribute in enumerate(codes.attributes):
            keep = np.full(attribute.size, float(self.keep))
            transitions[attribute.name] = Transition(keep, count_codes(codes, j) / codes.records)
        return IndependentOperator(transitions)
