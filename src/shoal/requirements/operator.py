"""Requirements on a randomizing operator, and the interface of operators.

A randomizing method publishes every record with values that were changed at random. Its certificate is based on the operator,
the probabilities by which values change, and not on groups of the released table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.requirements.requirement import BaseRequirement, TestedOn, Verdict


@dataclass(frozen=True)
class Distributions(Mapping[str, FloatArray]):
    """The share of the records of each code in the original table, by attribute.

    ``quasi`` are the distinct original combinations of codes, ``size`` the records of each. ``published`` are the distinct
    published combinations, ``published_size`` the records of each.
    """

    shares: Mapping[str, FloatArray]
    quasi: Int32Array
    size: Int64Array
    published: Int32Array
    published_size: Int64Array

    def __getitem__(self, attribute: str) -> FloatArray:
        return self.shares[attribute]

    def __iter__(self) -> Iterator[str]:
        return iter(self.shares)

    def __len__(self) -> int:
        return len(self.shares)


@dataclass(frozen=True)
class Inference:
    """For every published combination: the probability of the most probable original combination, and its number.

    ``amplification`` is the largest ratio of the probabilities of two original combinations to become the published one, among
    those that occur and can become it; None if it was not computed.
    """

    posterior: FloatArray
    guess: Int64Array
    amplification: FloatArray | None = None


@dataclass(frozen=True)
class Attack:
    """What an adversary who knows all original combinations achieves on a release.

    ``unchanged`` is the share of the records with their original values, ``success`` the share whose original combination is
    guessed. The posteriors are the probabilities of the guesses, as the mean over the records and the largest.
    ``amplification`` is the largest one of the published combinations; see `Inference`.
    """

    unchanged: float
    mean_posterior: float
    largest_posterior: float
    success: float
    amplification: float | None = None

    @property
    def figures(self) -> dict[str, float]:
        """The figures by the names of their measures."""
        return {
            "unchanged": self.unchanged,
            "posterior_mean": self.mean_posterior,
            "posterior_max": self.largest_posterior,
            "guessed": self.success,
        }


@dataclass(frozen=True)
class Transition:
    """The probabilities by which the values of one attribute are published.

    A value is kept with the probability ``keep[code]``. Otherwise the published value is drawn: from one distribution for all
    codes (``draw[published code]``), or from a distribution for each code (``draw[code, published code]``).
    """

    keep: FloatArray
    draw: FloatArray

    def __post_init__(self) -> None:
        rows = np.atleast_2d(self.draw)
        fits = self.keep.ndim == 1 and rows.shape[1] == len(self.keep) and len(rows) in (1, len(self.keep))
        valid = fits and (self.keep >= 0).all() and (self.keep <= 1).all() and (rows >= 0).all()
        if not valid or not np.allclose(rows.sum(axis=1), 1.0):
            raise ValueError(
                "A transition needs a probability per code, and distributions over the codes that sum to 1."
            )

    def matrix(self) -> FloatArray:
        """The probability of each published code, given each original code [code, published code]."""
        drawn = (1 - self.keep)[:, None] * np.atleast_2d(self.draw)
        return np.asarray(drawn + np.diag(self.keep), np.float64)


class RandomNumbers(Protocol):
    """The random numbers of records, from 0 to 1.

    They depend on the secret, on the cell of a record and on its ordinal in the cell, so every engine gives the same release.
    """

    def __call__(self, number: int, at: Int64Array | None = None, /) -> FloatArray:
        """The random number of every record with this ``number``, or only of the records ``at`` some places."""
        ...


class Operator(Protocol):
    """A randomization that is applied to every record on its own, in codes."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The quasi-identifiers, in the order of the columns of codes."""
        ...

    def randomize(self, rows: Int32Array, uniform: RandomNumbers) -> Int32Array:
        """The published codes of records, from their original codes [record, attribute].

        Records come in batches; ``uniform(i)`` has the i-th random number of every record of the batch.
        """
        ...

    def transition(self, attribute: str) -> Transition:
        """The probabilities of one attribute alone."""
        ...

    def measure_choices(self, shares: Mapping[str, FloatArray]) -> float:
        """The entropy of the random choices for a record, in nats, as the mean over the records with these ``shares``."""
        ...

    def infer(self, quasi: Int32Array, size: Int64Array, published: Int32Array) -> Inference:
        """What an adversary who knows all original combinations infers from published combinations.

        ``quasi`` are the distinct original combinations with their numbers of records, ``published`` distinct published ones.
        """
        ...

    def to_dict(self) -> dict[str, Any]:
        """The operator as plain values, for the owner's ``recoding.json``."""
        ...


class OperatorRequirement(BaseRequirement, ABC):
    """Base class of requirements on a randomizing operator. A subclass defines ``name`` and ``test``."""

    monotone: ClassVar[bool] = True
    relative: ClassVar[bool] = False
    tested_on: ClassVar[TestedOn] = "operator"
    on: Sequence[str] | None = None
    of: ClassVar[str | None] = None
    least: ClassVar[int] = 1
    larger_is_safer: ClassVar[bool] = False
    """Whether a larger value reached is safer; it decides which of several operators comes nearest to the requirement."""

    @abstractmethod
    def test(self, operator: Operator, distributions: Distributions) -> Verdict:
        """Test the operator: one entry of the verdict for each of its attributes, or for each published combination."""

    def format_worst(self, value: float) -> str:
        """A clause that states the value of the worst attribute."""
        return f"worst attribute reaches {self.format_value(value)}"
