"""The interface of requirements: limits that methods search with, and a test of finished groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.errors import PolicyError, RequirementNotMet, escape_invisible, list_some
from shoal.formats.numbers import format_count, parse_percentage
from shoal.kernels import rules
from shoal.kernels.interface import RuleArrays
from shoal.requirements.group_rules import GroupRule, LeastSize
from shoal.requirements.groups import Groups
from shoal.taxonomy import Taxonomy

TestedOn = Literal["table", "groups", "operator"]
Normalization = Callable[[str], str] | None  # applied to values before they are counted


@dataclass(frozen=True)
class TableDistribution:
    """The distribution of every sensitive attribute in the whole table; the attributes' codes follow each other.

    ``domains`` is the number of codes of each attribute, ``shares`` the share of records of each code. Where people are
    counted, ``shares`` is relative to all pairs of person and value, and ``rates`` to all people: a person can have several
    values. Where records are counted both are the same.
    """

    sensitive: tuple[str, ...]
    domains: tuple[int, ...]
    shares: FloatArray
    labels: tuple[tuple[str | None, ...], ...] = ()
    rates: FloatArray | None = None

    def span(self, of: str) -> tuple[int, int]:
        """The index of an attribute's first code, and the index after its last code."""
        attribute = self.sensitive.index(of)
        first = sum(self.domains[:attribute])
        return first, first + self.domains[attribute]

    def share(self, of: str) -> FloatArray:
        """The share of each value of an attribute in the whole table."""
        return self.shares[slice(*self.span(of))]

    def rate(self, of: str) -> FloatArray:
        """The share of records, or of people, that have each value of an attribute in the whole table."""
        return (self.shares if self.rates is None else self.rates)[slice(*self.span(of))]

    def label(self, of: str) -> tuple[str | None, ...]:
        """The value of each code of an attribute."""
        return self.labels[self.sensitive.index(of)]


@dataclass(frozen=True)
class Term:
    """One rule of `kernels.rules` with its parameters ``a`` and ``b``, for the codes ``first`` to ``last`` (exclusive).

    ``floor`` and ``ceiling`` bound the share of each value. ``own_k`` is the least number of records of a group that holds the
    value. For distances, set i holds the values from ``left[i]`` to ``right[i]`` in the order ``value_order`` and has the
    weight ``set_weight[i]``.
    """

    rule: int
    first: int = 0
    last: int = 0
    a: float = 0.0
    b: float = 0.0
    floor: FloatArray = field(default_factory=lambda: np.zeros(0))
    ceiling: FloatArray = field(default_factory=lambda: np.zeros(0))
    own_k: FloatArray = field(default_factory=lambda: np.zeros(0))
    set_weight: FloatArray = field(default_factory=lambda: np.zeros(0))
    left: Int32Array = field(default_factory=lambda: np.zeros(0, np.int32))
    right: Int32Array = field(default_factory=lambda: np.zeros(0, np.int32))
    value_order: Int32Array = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def figure(self) -> FloatArray:
        """The only one of ``ceiling``, ``own_k`` and ``set_weight`` that the rule uses."""
        return np.concatenate((self.ceiling, self.own_k, self.set_weight))


@dataclass(frozen=True)
class Limits:
    """Terms as arrays for the kernel `kernels.limits.holds`; a group of fewer than ``least`` records never passes.

    ``term`` has a row per term: rule, first and last code, first and last entry, first index in ``value_order``. ``parameter``
    has ``a`` and ``b`` of each term. ``left``, ``right``, ``floor`` and ``figure`` have one entry per value or set of values.
    """

    term: Int64Array
    parameter: FloatArray
    table_shares: FloatArray
    left: Int32Array
    right: Int32Array
    floor: FloatArray
    figure: FloatArray
    value_order: Int32Array
    least: int

    @classmethod
    def of(cls, terms: Sequence[Term], distribution: TableDistribution, least: int) -> Limits:
        """Stack terms."""
        entry = np.concatenate(([0], np.cumsum([len(t.figure) for t in terms]))).astype(np.int64)
        begin = np.concatenate(([0], np.cumsum([len(t.value_order) for t in terms]))).astype(np.int64)
        rows = [(t.rule, t.first, t.last, entry[i], entry[i + 1], begin[i]) for i, t in enumerate(terms)]

        def join(name: str, kind: Any) -> NDArray[Any]:
            return np.concatenate([np.zeros(0, kind), *(getattr(t, name) for t in terms)]).astype(kind)

        def pad(name: str) -> NDArray[Any]:  # zeros for the entries of terms that do not use the array
            filled = [getattr(t, name) if len(getattr(t, name)) else np.zeros(len(t.figure)) for t in terms]
            return np.concatenate([np.zeros(0), *filled])

        return cls(
            np.array(rows, np.int64).reshape(-1, 6),
            np.array([(t.a, t.b) for t in terms], np.float64).reshape(-1, 2),
            distribution.shares,
            pad("left").astype(np.int32),
            pad("right").astype(np.int32),
            pad("floor"),
            join("figure", np.float64),
            join("value_order", np.int32),
            least,
        )

    def arrays(self) -> RuleArrays:
        """The arrays in the order of the kernel's parameters."""
        return RuleArrays(
            self.term,
            self.parameter,
            self.table_shares,
            self.left,
            self.right,
            self.floor,
            self.figure,
            self.value_order,
        )


@dataclass(frozen=True)
class Verdict:
    """Whether each group passes (``ok``), the value that it reaches, and the index of the worst group."""

    ok: BoolArray
    value: FloatArray
    worst: int

    @property
    def reached(self) -> float:
        """The value of the worst group."""
        return float(self.value[self.worst]) if len(self.value) else float("nan")


@runtime_checkable
class Requirement(Protocol):
    """A condition on every group; independent of policies and data frames.

    ``on`` is the set of attributes that form the groups (None: all quasi-identifiers), ``of`` the sensitive attribute
    that is tested. Methods, the audit and the report read these properties and never ask for the class. ``monotone``: a union
    of groups that pass passes. ``relative``: groups are compared with the whole table, so suppressing some groups changes the
    test of the others. ``least``: no smaller group can pass. ``size_only``: every group of at least ``least`` records passes.
    ``counts_records``: the number of records of a group is itself a protection, as for k-anonymity.
    ``upward_closed``: a group that passes still passes with any additional people and values; with a unit, only such
    requirements are monotone.
    ``tested_on``: the object that is tested: the groups that the published ``table`` shows, or ``groups`` that only the owner
    knows. Requirements on a randomizing operator are `OperatorRequirement`.
    """

    name: ClassVar[str]
    monotone: ClassVar[bool]
    relative: ClassVar[bool]
    size_only: ClassVar[bool]
    counts_records: ClassVar[bool]
    tested_on: ClassVar[TestedOn]

    @property
    def upward_closed(self) -> bool:
        """Whether a group that passes still passes with any additional people and values."""
        ...

    @property
    def on(self) -> Sequence[str] | None:
        """The attributes that form the groups."""
        ...

    @property
    def of(self) -> str | None:
        """The sensitive attribute, if any."""
        ...

    @property
    def least(self) -> int:
        """The smallest number of records of a group that can pass."""
        ...

    def limits(self, distribution: TableDistribution) -> tuple[Term, ...]:
        """The requirement as terms that the kernels evaluate."""
        ...

    def test(self, groups: Groups) -> Verdict:
        """Test finished groups."""
        ...

    def relax(self, share: float) -> Requirement | None:
        """A requirement that groups which pass in a large part of the table meet against the whole table."""
        ...

    def format_value(self, value: float) -> str:
        """The value that a group reaches, with its unit."""
        ...

    def format_worst(self, value: float) -> str:
        """A clause that states the value of the worst group."""
        ...


def combine_limits(requirements: Iterable[Requirement], distribution: TableDistribution) -> Limits:
    """Combine all requirements in one set of limits: a group meets the limits if it meets every requirement."""
    every = list(requirements)
    terms = [term for requirement in every for term in requirement.limits(distribution)]
    return Limits.of(terms, distribution, max((r.least for r in every), default=1))


def compute_distribution(groups: Groups) -> TableDistribution:
    """The distribution of the sensitive attributes over the records, or the people, of all groups."""
    values = [groups.values_of_table(of) for of in groups.sensitive]
    units = groups.records if groups.people is None else groups.people
    shares = [v / max(units if groups.people is None else v.sum(), 1) for v in values]
    rates = None if groups.people is None else [v / max(units, 1) for v in values]
    return TableDistribution(
        groups.sensitive,
        groups.domains,
        np.concatenate([np.zeros(0), *shares]),
        groups.labels,
        None if rates is None else np.concatenate([np.zeros(0), *rates]),
    )


def iterate_shares(groups: Groups, of: str) -> Iterator[tuple[int, int, FloatArray]]:
    """Yield the distribution of a sensitive attribute in some groups at a time: first group, last group, shares.

    Where people are counted, the shares are relative to the pairs of person and value.
    """
    return _iterate(groups, of, groups.values_of_groups(of))


def iterate_rates(groups: Groups, of: str) -> Iterator[tuple[int, int, FloatArray]]:
    """Yield the share of records, or of people, with every value, in some groups at a time: first group, last group, rates."""
    return _iterate(groups, of, groups.size)


def _iterate(groups: Groups, of: str, total: Int64Array) -> Iterator[tuple[int, int, FloatArray]]:
    """Yield the counts of the values relative to ``total``, in some groups at a time, to bound the memory."""
    group, code, count_of_value = groups.histogram(of)
    domain = groups.domains[groups.sensitive.index(of)]
    count = len(groups.start) - 1
    step = max(1, 4_000_000 // max(domain, 1))
    for begin in range(0, count, step):
        end = min(begin + step, count)
        inside = slice(*np.searchsorted(group, [begin, end]))
        records = np.zeros((end - begin, domain))
        records[group[inside] - begin, code[inside]] = count_of_value[inside]
        yield begin, end, records / total[begin:end, None]


def list_parameters(requirement: Any) -> list[Field[Any]]:
    """The fields of a requirement that a policy can set; internal fields have ``repr=False``."""
    return [parameter for parameter in fields(requirement) if parameter.repr]


def collect_parameters(requirement: Requirement, *, public: bool = False) -> dict[str, Any]:
    """The parameters that differ from their defaults, as plain values.

    With ``public``, taxonomies that were built from the data are omitted.
    """
    found: dict[str, Any] = {}
    for parameter in list_parameters(requirement):
        value = getattr(requirement, parameter.name)
        if public and isinstance(value, Taxonomy) and value.derived:
            continue
        if value != parameter.default:
            plain = value.to_nested() if isinstance(value, Taxonomy) else value
            found[parameter.name] = list(plain) if isinstance(plain, tuple) else plain
    return found


def describe(requirement: Requirement) -> str:
    """The requirement's name with its parameters, in one line."""
    settings = collect_parameters(requirement)
    on = settings.pop("on", None)
    settings.pop("taxonomy", None)
    text = ", ".join(f"{key} = {value}" for key, value in settings.items())
    return escape_invisible(f"{requirement.name} ({text})" + (f" on {', '.join(on)}" if on else ""))


class Conjunction(tuple["Requirement", ...]):
    """Requirements joined by `&`: all of them must hold."""

    def __and__(self, other: Any) -> Conjunction:
        return Conjunction((*self, *(other if isinstance(other, Conjunction) else (other,))))


class BaseRequirement:
    """Base class of the requirements: ``KAnonymity(5) & LDiversity(3, of="disease")`` requires both.

    The defaults of the properties are the cautious ones: a subclass declares what it can promise. ``value_format`` writes the
    value of a group with its unit. ``examples`` are parameters for the tests of all registered requirements; the tests add
    ``of``, the sensitive column, where the requirement has one.
    """

    name: ClassVar[str]
    monotone: ClassVar[bool] = False
    relative: ClassVar[bool] = True
    size_only: ClassVar[bool] = False
    counts_records: ClassVar[bool] = False
    tested_on: ClassVar[TestedOn] = "table"
    value_format: ClassVar[str] = "{:g}"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()

    @property
    def upward_closed(self) -> bool:
        """Whether a group that passes still passes with any additional people and values."""
        return self.size_only

    def format_value(self, value: float) -> str:
        """The value that a group reaches, with its unit."""
        return self.value_format.format(value)

    def format_worst(self, value: float) -> str:
        """A clause that states the value of the worst group."""
        return f"worst group reaches {self.format_value(value)}"

    def group_rules(self) -> tuple[GroupRule, ...] | None:
        """The requirement as rules on the counts of a group, for databases; None if it cannot be expressed by such rules."""
        return None

    def relax(self, share: float) -> Requirement | None:
        """A requirement that a group meets against the whole table, if it meets this one against a part of the table.

        The part lacks at most ``share`` of the records. None: no such requirement is known. Searches use it to exclude groups
        that fail whatever records are suppressed.
        """
        return None if self.relative else cast("Requirement", self)

    def notes(self, labels: Sequence[str | None]) -> tuple[str, ...]:
        """Notes for the certificate: assumptions about ``labels``, the values of the sensitive attribute."""
        return ()

    def __and__(self, other: Any) -> Conjunction:
        alone = Conjunction((cast("Requirement", self),))
        return alone.__and__(other)


class SizeRequirement(BaseRequirement, ABC):
    """Base class of requirements on the number of records alone: every group has at least ``least`` records.

    A subclass defines ``name``, ``least`` and ``on``.
    """

    monotone: ClassVar[bool] = True
    relative: ClassVar[bool] = False
    size_only: ClassVar[bool] = True
    counts_records: ClassVar[bool] = True
    of: ClassVar[str | None] = None

    @property
    @abstractmethod
    def least(self) -> int:
        """The least number of records of a group."""

    def limits(self, distribution: TableDistribution) -> tuple[Term, ...]:
        """At least ``least`` records."""
        return (Term(rules.SIZE, a=float(self.least)),)

    def group_rules(self) -> tuple[GroupRule, ...]:
        """At least ``least`` records."""
        return (LeastSize(self.least),)

    def test(self, groups: Groups) -> Verdict:
        """The number of records of every group."""
        size = groups.size
        return Verdict(size >= self.least, size.astype(np.float64), int(np.argmin(size)) if len(size) else 0)

    def format_value(self, value: float) -> str:
        """The number of records."""
        return format_count(value, "record")

    def format_worst(self, value: float) -> str:
        """The size of the smallest group, and the least size."""
        return f"smallest group has {self.format_value(value)}, {self.least} required"


def format_reached(requirement: Requirement, value: float, groups: Groups) -> str:
    """The value that a group reaches, with its unit: people where people are counted."""
    people = requirement.size_only and groups.person is not None
    return format_count(value, "person", "people") if people else requirement.format_value(value)


def format_worst(requirement: Requirement, value: float, groups: Groups) -> str:
    """A clause that states the value of the worst group."""
    if requirement.size_only and groups.person is not None:
        return f"smallest group has {format_reached(requirement, value, groups)}, {requirement.least} required"
    return requirement.format_worst(value)


def refuse_unreachable(
    requirements: Iterable[Requirement],
    table: Groups,
    *,
    method: str,
    suppressible: int = 0,
    tries_suppression: bool = False,
) -> None:
    """Raise an error for a requirement that even the whole table as one group fails.

    No release with all records can meet it if unions of passing groups pass. A release without some records can meet it, unless
    fewer records never help; so the error names the ``method`` if the policy allows to suppress records (``suppressible``) and
    the method does not try this. Methods that do (``tries_suppression``) go on.
    """
    whole_table = Groups(
        (),
        table.sensitive,
        np.zeros((1, 0), np.int32),
        np.array([0, len(table.cell_size)]),
        table.sensitive_codes,
        table.cell_size,
        table.domains,
        table.labels,
        table.person,
    )
    for requirement in requirements:
        if suppressible and tries_suppression and not requirement.upward_closed:
            continue
        verdict = requirement.test(whole_table)
        if not verdict.ok.all():
            value = format_reached(requirement, verdict.reached, table)
            reached = f"the whole table as one group reaches {value}"
            monotone = requirement.monotone and table.person is None  # a person can be in several groups
            if requirement.upward_closed or (monotone and not suppressible):
                raise RequirementNotMet(f"{describe(requirement)} cannot be met: {reached}. Relax the requirement.")
            other = (
                f", or use a method that also tries releases without some records, such as 'optimal': the policy allows to "
                f"suppress {format_count(suppressible, 'record')}"
                if suppressible and monotone
                else ""
            )
            raise RequirementNotMet(
                f"{method} cannot meet {describe(requirement)}: {reached}, and {method} begins with groups of all records. "
                f"Relax the requirement{other}."
            )


def parse_names(given: Sequence[str] | str | None, parameter: str, noun: str) -> tuple[str, ...] | None:
    """Return the names that a parameter lists as a tuple, or raise an error; ``noun`` is the kind of object named."""
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, (list, tuple)) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise PolicyError(f"{parameter!r} must name at least one {noun}. Omit {parameter!r} to use every {noun}.")
    if len(set(names)) < len(names):
        raise PolicyError(f"{parameter!r} names a {noun} twice: {list_some(names)}. Name each {noun} once.")
    return names


def parse_attributes(on: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Return the names of the quasi-identifiers that form the groups, or raise an error."""
    return parse_names(on, "on", "quasi-identifier")


def parse_column(of: Any, requirement: str) -> str:
    """Return the name of a sensitive column, or raise an error."""
    if not isinstance(of, str) or not of:
        raise PolicyError(f"'of' must name the sensitive column that {requirement} protects, not {of!r}.")
    return of


def parse_whole_number(value: Any, name: str, least: int) -> int:
    """Return a whole number of at least ``least``, or raise an error."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise PolicyError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    if value < least:
        raise PolicyError(f"{name} must be at least {least}, not {value}.")
    return int(value)


def parse_real_number(value: Any, name: str) -> float:
    """Return a finite number, or raise an error."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise PolicyError(f"{name} must be a number, not {value!r}.") from None
    if not np.isfinite(number) or isinstance(value, bool):
        raise PolicyError(f"{name} must be a finite number, not {value!r}.")
    return number


def parse_share(value: Any, name: str) -> float:
    """Return a share as a finite number, or raise an error; a text such as ``5%`` is 0.05. The caller checks the range."""
    percentage = parse_percentage(value) if isinstance(value, str) else None
    return parse_real_number(value if percentage is None else percentage, name)
