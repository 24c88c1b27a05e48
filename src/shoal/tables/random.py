"""Random anonymization (Yang, Qiao): some quasi-identifiers of every record are replaced by draws from their distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import FloatArray
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, list_choices
from shoal.measures.comparison import count_codes
from shoal.pipeline.method import RandomizingMethod
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.selection import SelectionOperator, optimal_probabilities
from shoal.requirements import Attack, Operator
from shoal.requirements.requirement import parse_real_number, parse_whole_number

CHOICES = ("uniform", "optimal")


class RandomAnonymization(RandomizingMethod):
    """Replace some quasi-identifiers of every record, chosen at random, by draws from the distributions of their columns.

    Parameters
    ----------
    policy : the policy. Its requirements are `Posterior` and `ProbabilisticAnonymity`; requirements on groups are refused
    attributes : the number of quasi-identifiers that are replaced in a record (λ). Default: the smallest number with which the
        requirements of the policy hold; a policy without requirements needs this parameter
    p : which attribute is replaced, if it is one: ``uniform``, ``optimal`` (proportional to the exponential of the entropy of
        the attribute, Proposition 7), or a probability for every attribute, by name or in their order

    Guarantee
    ---------
    The requirements of the policy, for an adversary who knows the quasi-identifiers of all people. Without `Posterior` there is
    no guarantee for a single record: many records keep their values, because a draw can be the value itself. The release is not
    k-anonymous. The draws depend on a secret seed, which stays in the owner folder: whoever has it can undo the changes.

    References
    ----------
    Yang, Qiao: Anonymizing data by random anonymization. Algorithms 1 and 2. The bound of Proposition 10 does not hold, and is
    not used.
    """

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "replaces some values of every record by draws from their columns"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"attributes": 1}, {"p": "optimal"})

    def __init__(
        self,
        policy: Policy,
        *,
        attributes: int | None = None,
        p: str | Mapping[str, float] | Sequence[float] = "uniform",
    ) -> None:
        super().__init__(policy)
        self.attributes = attributes
        self.p = p

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters."""
        super().check_parameters()
        if self.attributes is None and not self.policy.require:
            raise PolicyError(
                "random needs the number of attributes that are replaced in every record. Set attributes=, or require "
                "'posterior: 0.2' or 'probabilistic-anonymity: 30' in the policy."
            )
        if self.attributes is not None:
            given = parse_whole_number(self.attributes, "attributes", 1)
            if given > len(self.policy.quasi):
                raise PolicyError(
                    f"attributes={given}, but the policy has {len(self.policy.quasi)} quasi-identifiers. Choose at most that."
                )
        if isinstance(self.p, str) and self.p not in CHOICES:
            raise PolicyError(
                f"unknown value {self.p!r} for 'p'; {list_choices(self.p, CHOICES)}, or list probabilities: [0.3, 0.7]"
            )
        if not (isinstance(self.p, str) and self.p == "uniform") and (self.attributes or 1) > 1:
            raise PolicyError("p has an effect only if one attribute is replaced. Set attributes=1, or remove p.")

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> SelectionOperator:
        """The operator with the given number of attributes, or with one; ``rng`` is not used."""
        names = tuple(a.name for a in codes.attributes)
        shares = tuple(count_codes(codes, j) / codes.records for j in range(len(names)))
        m = len(names)
        plain = SelectionOperator(names, shares, np.full(m, 1 / m), int(self.attributes or 1))
        return SelectionOperator(names, shares, self._parse_probabilities(plain), plain.replaced)

    def strengthen(self, operator: Operator) -> SelectionOperator | None:
        """One more attribute is replaced, unless the number was given."""
        assert isinstance(operator, SelectionOperator)  # noqa: S101
        m = len(operator.attributes)
        if self.attributes is not None or operator.replaced == m:
            return None
        return SelectionOperator(operator.attributes, operator.shares, np.full(m, 1 / m), operator.replaced + 1)

    def describe_operator(self, operator: Operator) -> str:
        """The number of replaced attributes."""
        assert isinstance(operator, SelectionOperator)  # noqa: S101
        given = "; without it, larger numbers are tried" if self.attributes is not None else ""
        return f"attributes={operator.replaced}{given}"

    def note_release(self, operator: Operator, attack: Callable[[], Attack]) -> tuple[str, ...]:
        """The figures of the adversary."""
        assert isinstance(operator, SelectionOperator)  # noqa: S101
        found = attack()
        replaced = f"{operator.replaced} of {len(operator.attributes)} quasi-identifiers"
        return (
            f"in every record {replaced} were replaced by draws from their columns; a draw can be the value itself, so "
            f"{found.unchanged:.0%} of the records are unchanged",
            "an adversary who knows the quasi-identifiers of all people guesses the original values of a record with a "
            f"probability of {found.mean_posterior:.2f} on average and {found.largest_posterior:.2f} at most; for "
            f"{found.success:.0%} of the records of this release the guess is right; the release is not k-anonymous",
            *_note_amplification(operator, found.amplification),
        )

    def _parse_probabilities(self, plain: SelectionOperator) -> FloatArray:
        names, m = plain.attributes, len(plain.attributes)
        if isinstance(self.p, str):
            return optimal_probabilities(plain.entropies) if self.p == "optimal" else plain.probabilities
        given: Any = self.p
        if isinstance(given, Mapping):
            wrong = [name for name in given if name not in names]
            if wrong or len(given) != m:
                raise PolicyError(f"p must have a probability for each of {', '.join(names)}.")
            given = [given[name] for name in names]
        if not isinstance(given, Sequence | np.ndarray):
            raise PolicyError(
                f"p must be 'uniform', 'optimal', or a probability for each of {', '.join(names)}, not {given!r}."
            )
        values: FloatArray = np.array([parse_real_number(v, "a probability in p") for v in given], np.float64)
        if len(values) != m or (values < 0).any() or abs(values.sum() - 1) > 1e-9:
            raise PolicyError(f"p must have {m} probabilities of at least 0 that sum to 1, not {list(given)!r}.")
        return np.asarray(values / values.sum(), np.float64)


def _note_amplification(operator: SelectionOperator, amplification: float | None) -> tuple[str, ...]:
    """A note on the γ-amplification (Definition 8), if it was computed."""
    if amplification is None:
        return ()
    if operator.replaced == len(operator.attributes):
        return ("every original combination becomes a published one with the same probability (γ-amplification 1)",)
    return (
        "of two original combinations that can become the same published one, the first becomes it with at most "
        f"{_round_up(amplification):,.10g} times the probability of the second (γ-amplification); other combinations cannot "
        "become it, so over all combinations this ratio is infinite",
    )


def _round_up(ratio: float) -> float:
    """A number of at least 1, rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(ratio)) - 1)
    return math.ceil(ratio / unit - 1e-9) * unit
