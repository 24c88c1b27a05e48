"""A requirement on a randomizing operator: no value is published unchanged with too high a probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shoal.requirements import Distributions, Operator, OperatorRequirement, Verdict
from shoal.requirements.requirement import parse_real_number


@dataclass(frozen=True)
class Kept(OperatorRequirement):
    """The probability that a value is published unchanged is at most ``most``, for every value of every attribute."""

    most: float

    name: ClassVar[str] = "example-kept"
    value_format: ClassVar[str] = "a probability of {:g}"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"most": 1.0},)

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", parse_real_number(self.most, "most"))

    def test(self, operator: Operator, distributions: Distributions) -> Verdict:
        """The largest probability of each attribute, over the values that occur."""
        largest = []
        for name in operator.attributes:
            unchanged = np.diag(operator.transition(name).matrix())
            largest.append(unchanged[distributions[name] > 0].max(initial=0.0))
        value = np.array(largest)
        return Verdict(value <= self.most + 1e-9, value, int(np.argmax(value)))
