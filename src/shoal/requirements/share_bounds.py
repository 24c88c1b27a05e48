"""Requirements that bound the share of every confidential value in every group.

(alpha, k)-anonymity (Wong et al.), a confidence bound, beta-likeness (Cao and Karras) and delta-disclosure (Brickell and
Shmatikov) differ in the bounds alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from shoal.arrays import BoolArray, FloatArray
from shoal.errors import PolicyError, list_choices
from shoal.kernels import rules
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import (
    SLACK,
    Combining,
    Normal,
    TableDistribution,
    Term,
    Verdict,
    distribution_of,
    parse_column,
    parse_names,
    parse_real_number,
    parse_whole_number,
    shares,
)


class _Shares(Combining, ABC):
    """A floor and a ceiling for the share of every value; a missing value is a value of its own."""

    of: str
    name: ClassVar[str]
    monotone: ClassVar[bool] = True
    tested_on: ClassVar[Literal["table", "bucket", "operator"]] = "table"

    @property
    def least(self) -> int:
        """One record may do, where the bounds allow it."""
        return 1

    @abstractmethod
    def bounds(self, share: FloatArray, labels: Sequence[str | None]) -> tuple[FloatArray, FloatArray]:
        """Floor and ceiling of each value, from its share in the whole table."""

    @abstractmethod
    def value(self, part: FloatArray, share: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """What each group reaches, in the parameter's own measure."""

    def limits(self, layout: TableDistribution) -> tuple[Term, ...]:
        """The bounds of every value."""
        first, last = layout.span(self.of)
        floor, ceiling = self.bounds(layout.share(self.of), layout.label(self.of))
        return (Term(rules.BETWEEN, first, last, floor=floor, ceiling=ceiling),)

    def test(self, groups: Groups) -> Verdict:
        """The worst share of every group."""
        share = distribution_of(groups).share(self.of)
        labels = groups.labels[groups.sensitive.index(self.of)]
        floor, ceiling = self.bounds(share, labels)
        count = len(groups.start) - 1
        ok, value = np.ones(count, bool), np.zeros(count)
        for begin, end, part in shares(groups, self.of):
            ok[begin:end] = ((part >= floor - SLACK) & (part <= ceiling + SLACK)).all(axis=1)
            value[begin:end] = self.value(part, share, labels)
        failing = np.where(ok, -np.inf, value) if not ok.all() else value
        return Verdict(ok, value, int(np.argmax(failing)) if count else 0)


def _of_values(values: Sequence[str] | None, labels: Sequence[str | None], normal: Normal) -> BoolArray:
    """Which codes a requirement looks at: those of the values named, as far as they occur, or all."""
    if values is None:
        return np.ones(len(labels), bool)
    named = set(values) if normal is None else set(map(normal, values))
    return np.array([(label or "") in named for label in labels], bool)


def _share_of(value: object, name: str) -> float:
    number = parse_real_number(value, name)
    if not 0 < number <= 1:
        raise PolicyError(f"{name} must lie above 0 and be at most 1, not {number}")
    return number


class _Most(_Shares):
    """The same ceiling for every value that is protected."""

    values: Sequence[str] | None
    normal: Normal

    @property
    @abstractmethod
    def most(self) -> float:
        """The ceiling."""

    @property
    def least(self) -> int:
        """1 over the ceiling, where every value is protected: fewer records cannot hold enough values."""
        return 1 if self.values else math.ceil(1 / self.most - SLACK)

    def bounds(self, share: FloatArray, labels: Sequence[str | None]) -> tuple[FloatArray, FloatArray]:
        """The ceiling for the values that are protected."""
        return np.zeros(len(share)), np.where(_of_values(self.values, labels, self.normal), self.most, 1.0)

    def value(self, part: FloatArray, share: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """The largest share of a protected value."""
        largest: FloatArray = part[:, _of_values(self.values, labels, self.normal)].max(axis=1, initial=0.0)
        return largest


@dataclass(frozen=True)
class ConfidenceBound(_Most):
    """No confidential value can be inferred with more confidence than ``c``.

    Parameters
    ----------
    c : the largest share of a value in any group, above 0 and at most 1
    of : the sensitive attribute
    values : the values to protect; all of them unless said
    on : the quasi-identifiers that form the groups; all of them unless said
    """

    c: float
    of: str
    values: Sequence[str] | None = None
    on: Sequence[str] | None = None
    normal: Normal = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "confidence-bound"

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "c", _share_of(self.c, "c"))
        object.__setattr__(self, "values", parse_names(self.values))
        object.__setattr__(self, "on", parse_names(self.on))

    @property
    def most(self) -> float:
        """c."""
        return self.c


@dataclass(frozen=True)
class AlphaKAnonymity(_Most):
    """(alpha, k)-anonymity: at least ``k`` records in every group, and no value's share above ``alpha``.

    Parameters
    ----------
    alpha : the largest share of a value in any group, above 0 and at most 1
    k : the least number of records of a group
    of : the sensitive attribute
    values : the values to protect; all of them unless said
    on : the quasi-identifiers that form the groups; all of them unless said
    """

    alpha: float
    k: int
    of: str
    values: Sequence[str] | None = None
    on: Sequence[str] | None = None
    normal: Normal = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "alpha-k-anonymity"

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "alpha", _share_of(self.alpha, "alpha"))
        object.__setattr__(self, "k", parse_whole_number(self.k, "k", 1))
        object.__setattr__(self, "values", parse_names(self.values))
        object.__setattr__(self, "on", parse_names(self.on))

    @property
    def most(self) -> float:
        """alpha."""
        return self.alpha

    @property
    def least(self) -> int:
        """k, or what alpha needs."""
        return max(self.k, super().least)

    def limits(self, layout: TableDistribution) -> tuple[Term, ...]:
        """Records >= k, and the bounds of every value."""
        return (Term(rules.SIZE, a=float(self.k)), *super().limits(layout))

    def test(self, groups: Groups) -> Verdict:
        """The largest share of every group; one that is too small fails as well."""
        verdict = super().test(groups)
        small = groups.size < self.k
        worst = int(np.argmax(small)) if verdict.ok.all() and small.any() else verdict.worst
        return Verdict(verdict.ok & ~small, verdict.value, worst)


@dataclass(frozen=True)
class BetaLikeness(_Shares):
    """No value becomes more than ``beta`` times likelier in a group than in the whole table, relative to its share there.

    Parameters
    ----------
    beta : the largest relative gain, above 0
    of : the sensitive attribute
    kind : ``basic`` bounds the gain by beta; ``enhanced`` by the smaller of beta and -ln(share), which protects frequent
        values too
    on : the quasi-identifiers that form the groups; all of them unless said
    """

    beta: float
    of: str
    kind: str = "basic"
    on: Sequence[str] | None = None

    name: ClassVar[str] = "beta-likeness"
    relative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "beta", parse_real_number(self.beta, "beta"))
        if self.beta <= 0:
            raise PolicyError(f"beta must be above 0, not {self.beta}")
        if self.kind not in ("basic", "enhanced"):
            raise PolicyError(f"kind of beta-likeness: {self.kind!r}; {list_choices(self.kind, ('basic', 'enhanced'))}")
        object.__setattr__(self, "on", parse_names(self.on))

    def bounds(self, share: FloatArray, labels: Sequence[str | None]) -> tuple[FloatArray, FloatArray]:
        """(1 + beta) times the share in the whole table."""
        gain = np.full(len(share), self.beta)
        if self.kind == "enhanced":
            gain = np.minimum(gain, -np.log(np.maximum(share, 1e-300)))
        return np.zeros(len(share)), (1 + gain) * share

    def value(self, part: FloatArray, share: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """The largest relative gain of a value."""
        present = share > 0
        gain: FloatArray = ((part[:, present] - share[present]) / share[present]).max(axis=1, initial=0.0)
        return gain


@dataclass(frozen=True)
class DeltaDisclosure(_Shares):
    """In every group every value is about as likely as in the whole table: |ln(share / share there)| < ``delta``.

    Parameters
    ----------
    delta : the largest distance of logarithms, above 0
    of : the sensitive attribute
    on : the quasi-identifiers that form the groups; all of them unless said

    Every group must hold every value.
    """

    delta: float
    of: str
    on: Sequence[str] | None = None

    name: ClassVar[str] = "delta-disclosure"
    relative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "delta", parse_real_number(self.delta, "delta"))
        if self.delta <= 0:
            raise PolicyError(f"delta must be above 0, not {self.delta}")
        object.__setattr__(self, "on", parse_names(self.on))

    def bounds(self, share: FloatArray, labels: Sequence[str | None]) -> tuple[FloatArray, FloatArray]:
        """The share in the whole table, divided and multiplied by e^delta; the bounds themselves are too far."""
        edge = np.minimum(4 * SLACK, share * min(self.delta, 1.0) / 4)
        return np.where(share > 0, share * math.exp(-self.delta) + edge, 0.0), share * math.exp(self.delta) - edge

    def value(self, part: FloatArray, share: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """The largest distance of logarithms; infinite where a value is absent."""
        present = share > 0
        with np.errstate(divide="ignore"):
            distance: FloatArray = np.abs(np.log(part[:, present] / share[present])).max(axis=1, initial=0.0)
        return distance
