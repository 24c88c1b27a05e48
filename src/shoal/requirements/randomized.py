"""Requirements on randomized records: the adversary's posterior, and the probabilistic anonymity of Yang and Qiao."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shoal.errors import PolicyError
from shoal.requirements.operator import Distributions, Operator, OperatorRequirement
from shoal.requirements.requirement import Verdict, parse_real_number, parse_share


@dataclass(frozen=True)
class Posterior(OperatorRequirement):
    """An adversary guesses the original quasi-identifiers of a record with a probability of at most ``most``.

    Parameters
    ----------
    most : the largest probability

    Guarantee
    ---------
    An attacker who knows the quasi-identifiers of all people, how often each combination occurs, and the probabilities of the
    changes, but not the random draws, cannot tell from a published record with a larger probability which original combination
    it had. Every published combination is tested.

    Examples
    --------
    >>> Posterior(0.2)
    Posterior(most=0.2)
    """

    most: float

    name: ClassVar[str] = "posterior"
    value_format: ClassVar[str] = "a probability of {:.3g}"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"most": 1.0},)

    def __post_init__(self) -> None:
        most = parse_share(self.most, "most")
        if not 0 < most <= 1:
            raise PolicyError(f"most must be a probability above 0 and at most 1, not {self.most!r}.")
        object.__setattr__(self, "most", most)

    def test(self, operator: Operator, distributions: Distributions) -> Verdict:
        """The largest posterior of every published combination."""
        value = operator.infer(distributions.quasi, distributions.size, distributions.published).posterior
        return Verdict(value <= self.most + 1e-9, value, int(np.argmax(value)) if len(value) else 0)

    def format_worst(self, value: float) -> str:
        """A clause that states the value of the worst combination."""
        return f"worst published combination shows its original with {self.format_value(value)}"


@dataclass(frozen=True)
class ProbabilisticAnonymity(OperatorRequirement):
    """The probabilistic anonymity of Yang and Qiao is at least ``anonymity``.

    Parameters
    ----------
    anonymity : the least anonymity

    Guarantee
    ---------
    None for a single record: the anonymity is the exponential of the mean entropy of the random choices, so it is an average
    over all records. Many records can stay unchanged. Use `Posterior` to bound what is inferred about every record.

    References
    ----------
    Yang, Qiao: Anonymizing data by random anonymization. Equation 1.

    Examples
    --------
    >>> ProbabilisticAnonymity(30)
    ProbabilisticAnonymity(anonymity=30.0)
    """

    anonymity: float

    name: ClassVar[str] = "probabilistic-anonymity"
    value_format: ClassVar[str] = "{:.4g}"
    larger_is_safer: ClassVar[bool] = True
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"anonymity": 1.0},)

    def __post_init__(self) -> None:
        least = parse_real_number(self.anonymity, "anonymity")
        if least < 1:
            raise PolicyError(f"anonymity must be at least 1, not {self.anonymity!r}.")
        object.__setattr__(self, "anonymity", least)

    def test(self, operator: Operator, distributions: Distributions) -> Verdict:
        """The anonymity of the operator, as one entry."""
        value = np.array([math.exp(operator.measure_choices(distributions))])
        return Verdict(value >= self.anonymity * (1 - 1e-9), value, 0)

    def format_worst(self, value: float) -> str:
        """A clause that states the anonymity."""
        return f"the records reach {self.format_value(value)} on average"
