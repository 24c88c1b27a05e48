"""Requirements that bound the share of every sensitive value in every group.

(alpha, k)-anonymity (Wong et al.), a confidence bound, beta-likeness (Cao and Karras) and delta-disclosure (Brickell and
Shmatikov) differ only in their bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import BoolArray, FloatArray
from shoal.errors import PolicyError, list_choices
from shoal.kernels import rules
from shoal.kernels.rules import SLACK
from shoal.requirements.group_rules import GroupRule, LargestGain, LargestLogRatio, LargestRate, LeastSize
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import (
    BaseRequirement,
    Normalization,
    TableDistribution,
    Term,
    Verdict,
    compute_distribution,
    iterate_rates,
    parse_attributes,
    parse_column,
    parse_names,
    parse_real_number,
    parse_share,
    parse_whole_number,
)


class _ShareBounds(BaseRequirement, ABC):
    """A floor and a ceiling for the share of every value; a missing value is a value of its own."""

    of: str
    name: ClassVar[str]
    monotone: ClassVar[bool] = True
    relative: ClassVar[bool] = False

    @property
    def least(self) -> int:
        """1: the bounds may allow a single record."""
        return 1

    @abstractmethod
    def bounds(self, table_share: FloatArray, labels: Sequence[str | None]) -> tuple[FloatArray, FloatArray]:
        """Floor and ceiling of each value, from its share in the whole table."""

    @abstractmethod
    def value(self, share: FloatArray, table_share: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """The value that each group reaches, in the unit of the requirement's parameter."""

    def limits(self, distribution: TableDistribution) -> tuple[Term, ...]:
        """The bounds of every value."""
        first, last = distribution.span(self.of)
        floor, ceiling = self.bounds(distribution.rate(self.of), distribution.label(self.of))
        return (Term(rules.BETWEEN, first, last, floor=floor, ceiling=ceiling),)

    def test(self, groups: Groups) -> Verdict:
        """The value of every group; the worst group is a failing one, if any group fails."""
        table_share = compute_distribution(groups).rate(self.of)
        labels = groups.labels[groups.sensitive.index(self.of)]
        floor, ceiling = self.bounds(table_share, labels)
        count = len(groups.start) - 1
        ok, value = np.ones(count, bool), np.zeros(count)
        for begin, end, share in iterate_rates(groups, self.of):
            ok[begin:end] = ((share >= floor - SLACK) & (share <= ceiling + SLACK)).all(axis=1)
            value[begin:end] = self.value(share, table_share, labels)
        failing = np.where(ok, -np.inf, value) if not ok.all() else value
        return Verdict(ok, value, int(np.argmax(failing)) if count else 0)


def _mark_protected(values: Sequence[str] | None, labels: Sequence[str | None], normal: Normalization) -> BoolArray:
    """Mark the codes of the values to protect; without ``values`` all codes."""
    if values is None:
        return np.ones(len(labels), bool)
    named = set(values) if normal is None else set(map(normal, values))
    return np.array([(label or "") in named for label in labels], bool)


def _parse_share(value: object, name: str) -> float:
    number = parse_share(value, name)
    if not 0 < number <= 1:
        raise PolicyError(f"{name} must be above 0 and at most 1, not {number:g}; for 5 % write 0.05 or 5%.")
    return number


class _LargestShare(_ShareBounds):
    """The same ceiling for the share of every protected value."""

    values: Sequence[str] | None
    normal: Normalization

    @property
    @abstractmethod
    def largest_share(self) -> float:
        """The ceiling."""

    @property
    def least(self) -> int:
        """1 over the ceiling if every value is protected: a smaller group has too few values."""
        return 1 if self.values else math.ceil(1 / self.largest_share - SLACK)

    def bounds(self, table_share: FloatArray, labels: Sequence[str | None]) -> tuple[FloatArray, FloatArray]:
        """No floor; the ceiling for protected values."""
        protected = _mark_protected(self.values, labels, self.normal)
        return np.zeros(len(table_share)), np.where(protected, self.largest_share, 1.0)

    def group_rules(self) -> tuple[GroupRule, ...]:
        """The ceiling for protected values."""
        if self.values is None or self.normal is None:
            return (LargestRate(self.largest_share, None if self.values is None else tuple(self.values)),)
        return (LargestRate(self.largest_share, tuple(map(self.normal, self.values))),)

    def value(self, share: FloatArray, table_share: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """The largest share of a protected value."""
        largest: FloatArray = share[:, _mark_protected(self.values, labels, self.normal)].max(axis=1, initial=0.0)
        return largest


@dataclass(frozen=True)
class ConfidenceBound(_LargestShare):
    """No sensitive value can be inferred with more confidence than ``c``.

    Parameters
    ----------
    c : the largest share of a value in any group, above 0 and at most 1
    of : the sensitive attribute
    values : the values to protect (default: all)
    on : the quasi-identifiers that form the groups (default: all)
    """

    c: float
    of: str
    values: Sequence[str] | None = None
    on: Sequence[str] | None = None
    normal: Normalization = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "confidence-bound"
    value_format: ClassVar[str] = "a share of {:g}"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"c": 0.7}, {"c": 0.4, "values": ["gout"]})

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "c", _parse_share(self.c, "c"))
        object.__setattr__(self, "values", parse_names(self.values, "values", "value"))
        object.__setattr__(self, "on", parse_attributes(self.on))

    @property
    def largest_share(self) -> float:
        """c."""
        return self.c


@dataclass(frozen=True)
class AlphaKAnonymity(_LargestShare):
    """(alpha, k)-anonymity: every group has at least ``k`` records and no value's share exceeds ``alpha``.

    Parameters
    ----------
    alpha : the largest share of a value in any group, above 0 and at most 1
    k : the least number of records of a group
    of : the sensitive attribute
    values : the values to protect (default: all)
    on : the quasi-identifiers that form the groups (default: all)
    """

    alpha: float
    k: int
    of: str
    values: Sequence[str] | None = None
    on: Sequence[str] | None = None
    normal: Normalization = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "alpha-k-anonymity"
    counts_records: ClassVar[bool] = True
    value_format: ClassVar[str] = "a share of {:g}"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"alpha": 0.8, "k": 2},)

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "alpha", _parse_share(self.alpha, "alpha"))
        object.__setattr__(self, "k", parse_whole_number(self.k, "k", 1))
        object.__setattr__(self, "values", parse_names(self.values, "values", "value"))
        object.__setattr__(self, "on", parse_attributes(self.on))

    @property
    def largest_share(self) -> float:
        """alpha."""
        return self.alpha

    @property
    def least(self) -> int:
        """k, or the number of records that alpha implies if that is larger."""
        return max(self.k, super().least)

    def limits(self, distribution: TableDistribution) -> tuple[Term, ...]:
        """At least k records, and the bounds of every value."""
        return (Term(rules.SIZE, a=float(self.k)), *super().limits(distribution))

    def group_rules(self) -> tuple[GroupRule, ...]:
        """At least k records, and the ceiling for protected values."""
        return (LeastSize(self.k), *super().group_rules())

    def test(self, groups: Groups) -> Verdict:
        """The largest share of every group; groups of fewer than k records fail as well."""
        verdict = super().test(groups)
        small = groups.size < self.k
        worst = int(np.argmax(small)) if verdict.ok.all() and small.any() else verdict.worst
        return Verdict(verdict.ok & ~small, verdict.value, worst)


@dataclass(frozen=True)
class BetaLikeness(_ShareBounds):
    """The relative gain of every value, (share in the group - share in the table) / share in the table, is at most ``beta``.

    Parameters
    ----------
    beta : the largest relative gain, above 0
    of : the sensitive attribute
    kind : ``basic`` bounds the gain by beta; ``enhanced`` by the smaller of beta and -ln(share in the table), which also
        protects frequent values
    on : the quasi-identifiers that form the groups (default: all)
    """

    beta: float
    of: str
    kind: str = "basic"
    on: Sequence[str] | None = None

    name: ClassVar[str] = "beta-likeness"
    value_format: ClassVar[str] = "a relative gain of {:g}"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"beta": 1.0}, {"beta": 1.0, "kind": "enhanced"})
    relative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "beta", parse_real_number(self.beta, "beta"))
        if self.beta <= 0:
            raise PolicyError(f"beta must be above 0, not {self.beta}.")
        if self.kind not in ("basic", "enhanced"):
            raise PolicyError(
                f"beta-likeness has no kind {self.kind!r}; {list_choices(self.kind, ('basic', 'enhanced'))}."
            )
        object.__setattr__(self, "on", parse_attributes(self.on))

    def bounds(self, table_share: FloatArray, labels: Sequence[str | None]) -> tuple[FloatArray, FloatArray]:
        """No floor; the ceiling is (1 + largest gain) times the share in the whole table."""
        gain = np.full(len(table_share), self.beta)
        if self.kind == "enhanced":
            gain = np.minimum(gain, -np.log(np.maximum(table_share, 1e-300)))
        return np.zeros(len(table_share)), (1 + gain) * table_share

    def group_rules(self) -> tuple[GroupRule, ...]:
        """The largest gain."""
        return (LargestGain(self.beta, self.kind == "enhanced"),)

    def value(self, share: FloatArray, table_share: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """The largest relative gain of a value."""
        present = table_share > 0
        gain = (share[:, present] - table_share[present]) / table_share[present]
        largest: FloatArray = gain.max(axis=1, initial=0.0)
        return largest


@dataclass(frozen=True)
class DeltaDisclosure(_ShareBounds):
    """For every group and value, |ln(share in the group / share in the whole table)| < ``delta``.

    Parameters
    ----------
    delta : the bound of the log ratio, above 0
    of : the sensitive attribute
    on : the quasi-identifiers that form the groups (default: all)

    Every group must have every value.
    """

    delta: float
    of: str
    on: Sequence[str] | None = None

    name: ClassVar[str] = "delta-disclosure"
    value_format: ClassVar[str] = "a log ratio of {:g}"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"delta": 1.5},)
    relative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "delta", parse_real_number(self.delta, "delta"))
        if self.delta <= 0:
            raise PolicyError(f"delta must be above 0, not {self.delta}.")
        object.__setattr__(self, "on", parse_attributes(self.on))

    def bounds(self, table_share: FloatArray, labels: Sequence[str | None]) -> tuple[FloatArray, FloatArray]:
        """The share in the whole table divided by e^delta and multiplied by it; shares equal to these bounds fail."""
        edge = np.minimum(4 * SLACK, table_share * min(self.delta, 1.0) / 4)
        floor = np.where(table_share > 0, table_share * math.exp(-self.delta) + edge, 0.0)
        return floor, table_share * math.exp(self.delta) - edge

    def group_rules(self) -> tuple[GroupRule, ...]:
        """The largest log ratio."""
        return (LargestLogRatio(self.delta),)

    def value(self, share: FloatArray, table_share: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """The largest absolute log ratio; infinite if a value is absent."""
        present = table_share > 0
        with np.errstate(divide="ignore"):
            ratio: FloatArray = np.abs(np.log(share[:, present] / table_share[present])).max(axis=1, initial=0.0)
        return ratio
