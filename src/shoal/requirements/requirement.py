"""What every requirement must say of itself, so that methods can search with it and a check can test it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.errors import PolicyError, RequirementNotMet, escape_invisible, list_some
from shoal.kernels.interface import RuleArrays
from shoal.requirements.groups import Groups
from shoal.taxonomy import Taxonomy

Normal = Callable[[str], str] | None  # how values are normalized before they are counted, where they are
SLACK = 1e-9  # a bound met up to rounding is met


@dataclass(frozen=True)
class TableDistribution:
    """Where the counts of each confidential attribute lie, one behind the other, and the whole table's distribution."""

    sensitive: tuple[str, ...]
    domains: tuple[int, ...]
    base: FloatArray
    labels: tuple[tuple[str | None, ...], ...] = ()

    def span(self, of: str) -> tuple[int, int]:
        """First and last place (exclusive) of an attribute's codes."""
        place = self.sensitive.index(of)
        first = sum(self.domains[:place])
        return first, first + self.domains[place]

    def share(self, of: str) -> FloatArray:
        """The share of each value of an attribute in the whole table."""
        return self.base[slice(*self.span(of))]

    def label(self, of: str) -> tuple[str | None, ...]:
        """What the codes of an attribute stand for."""
        return self.labels[self.sensitive.index(of)]


@dataclass(frozen=True)
class Term:
    """One rule of `kernels.rules` with its numbers, the codes it looks at, and what it needs to know of each.

    ``floor`` and ``ceiling`` bound the shares of single values. For distances, set i holds the values from ``left[i]`` to
    ``right[i]`` in the order ``order`` and weighs ``ceiling[i]``.
    """

    rule: int
    first: int = 0
    last: int = 0
    a: float = 0.0
    b: float = 0.0
    floor: FloatArray = field(default_factory=lambda: np.zeros(0))
    ceiling: FloatArray = field(default_factory=lambda: np.zeros(0))
    left: Int32Array = field(default_factory=lambda: np.zeros(0, np.int32))
    right: Int32Array = field(default_factory=lambda: np.zeros(0, np.int32))
    order: Int32Array = field(default_factory=lambda: np.zeros(0, np.int32))


@dataclass(frozen=True)
class Limits:
    """Terms as arrays, which one kernel evaluates inside any method's loop; ``least`` records are always needed.

    ``table`` has a row per term: rule, first and last code, first and last of its parts, first of its order.
    """

    table: Int64Array
    number: FloatArray
    base: FloatArray
    left: Int32Array
    right: Int32Array
    floor: FloatArray
    ceiling: FloatArray
    order: Int32Array
    least: int

    @classmethod
    def of(cls, terms: Sequence[Term], layout: TableDistribution, least: int) -> Limits:
        """Stack terms."""
        parts = np.concatenate(([0], np.cumsum([len(t.ceiling) for t in terms]))).astype(np.int64)
        turns = np.concatenate(([0], np.cumsum([len(t.order) for t in terms]))).astype(np.int64)
        table = [(t.rule, t.first, t.last, parts[i], parts[i + 1], turns[i]) for i, t in enumerate(terms)]

        def joined(name: str, kind: Any) -> NDArray[Any]:
            return np.concatenate([np.zeros(0, kind), *(getattr(t, name) for t in terms)]).astype(kind)

        def padded(name: str) -> NDArray[Any]:  # every part has a place, used or not
            filled = [getattr(t, name) if len(getattr(t, name)) else np.zeros(len(t.ceiling)) for t in terms]
            return np.concatenate([np.zeros(0), *filled])

        return cls(
            np.array(table, np.int64).reshape(-1, 6),
            np.array([(t.a, t.b) for t in terms], np.float64).reshape(-1, 2),
            layout.base,
            padded("left").astype(np.int32),
            padded("right").astype(np.int32),
            padded("floor"),
            joined("ceiling", np.float64),
            joined("order", np.int32),
            least,
        )

    def arrays(self) -> RuleArrays:
        """In the order that the kernel takes them."""
        return RuleArrays(
            self.table, self.number, self.base, self.left, self.right, self.floor, self.ceiling, self.order
        )


@dataclass(frozen=True)
class Verdict:
    """For every group whether it passes, and the value it reaches; ``reached`` is the worst of these."""

    ok: BoolArray
    value: FloatArray
    worst: int

    @property
    def reached(self) -> float:
        """The value of the worst group."""
        return float(self.value[self.worst]) if len(self.value) else float("nan")


@runtime_checkable
class Requirement(Protocol):
    """What must hold for every group; knows no policy and no frame.

    ``on`` is the set of attributes that form the groups (None: all quasi-identifiers), ``of`` the confidential attribute
    it looks at. ``monotone``: a union of groups that pass passes. ``relative``: groups are compared with the whole table, so
    that suppressing some changes what is asked of the others. ``least``: no smaller group can pass. ``tested_on`` is what a
    stranger needs to test it.
    """

    name: ClassVar[str]
    monotone: ClassVar[bool]
    relative: ClassVar[bool]
    tested_on: ClassVar[Literal["table", "bucket", "operator"]]

    @property
    def on(self) -> Sequence[str] | None:
        """The attributes that form the groups."""
        ...

    @property
    def of(self) -> str | None:
        """The confidential attribute, if any."""
        ...

    @property
    def least(self) -> int:
        """The fewest records of a group that can pass."""
        ...

    def limits(self, layout: TableDistribution) -> tuple[Term, ...]:
        """The rules that the kernels evaluate."""
        ...

    def test(self, groups: Groups) -> Verdict:
        """The same question, asked of finished groups."""
        ...


def lower_requirements(requirements: Iterable[Requirement], layout: TableDistribution) -> Limits:
    """All requirements as one set of limits: a group that meets them meets every one of them."""
    listed = list(requirements)
    terms = [term for requirement in listed for term in requirement.limits(layout)]
    return Limits.of(terms, layout, max((r.least for r in listed), default=1))


def distribution_of(groups: Groups) -> TableDistribution:
    """The layout of the confidential attributes of a table, with their distribution over all records."""
    base = [
        np.bincount(groups.sensitive_codes[:, j], groups.cell_size, minlength=domain) / max(groups.records, 1)
        for j, domain in enumerate(groups.domains)
    ]
    return TableDistribution(
        groups.sensitive, groups.domains, np.concatenate(base) if base else np.zeros(0), groups.labels
    )


def shares(groups: Groups, of: str) -> Iterator[tuple[int, int, FloatArray]]:
    """The share of every value in every group, some groups at a time to bound the memory: first, last, shares."""
    group, code, weight = groups.histogram(of)
    domain = groups.domains[groups.sensitive.index(of)]
    count = len(groups.start) - 1
    step = max(1, 4_000_000 // max(domain, 1))
    for begin in range(0, count, step):
        end = min(begin + step, count)
        inside = slice(*np.searchsorted(group, [begin, end]))
        part = np.zeros((end - begin, domain))
        part[group[inside] - begin, code[inside]] = weight[inside]
        yield begin, end, part / groups.size[begin:end, None]


def fields_of(requirement: Any) -> list[Field[Any]]:
    """The parameters of a requirement that a policy can give; the others are not shown."""
    return [known for known in fields(requirement) if known.repr]


def parameters(requirement: Requirement, *, public: bool = False) -> dict[str, Any]:
    """The parameters that differ from their defaults, for a policy file; for the public without trees made from the data."""
    found: dict[str, Any] = {}
    for known in fields_of(requirement):
        value = getattr(requirement, known.name)
        if public and isinstance(value, Taxonomy) and value.made:
            continue
        if value != known.default:
            plain = value.to_nested() if isinstance(value, Taxonomy) else value
            found[known.name] = list(plain) if isinstance(plain, tuple) else plain
    return found


def describe(requirement: Requirement) -> str:
    """A requirement in words."""
    given = parameters(requirement)
    on = given.pop("on", None)
    given.pop("taxonomy", None)
    text = ", ".join(f"{key} = {value}" for key, value in given.items())
    return escape_invisible(f"{requirement.name} ({text})" + (f" on {', '.join(on)}" if on else ""))


class Combined(tuple["Requirement", ...]):
    """Requirements that must hold together, as `&` makes them."""

    def __and__(self, other: Any) -> Combined:
        return Combined((*self, *(other if isinstance(other, Combined) else (other,))))


class Combining:
    """What makes ``KAnonymity(5) & LDiversity(3, of="disease")`` mean both."""

    relative: ClassVar[bool] = False

    def __and__(self, other: Any) -> Combined:
        alone = Combined((cast("Requirement", self),))
        return alone.__and__(other)


def refuse_unreachable(requirements: Iterable[Requirement], table: Groups) -> None:
    """An error for what no release of a table can reach: the whole table as one group is the most there is."""
    parse_whole_number = Groups(
        (),
        table.sensitive,
        np.zeros((1, 0), np.int32),
        np.array([0, len(table.cell_size)]),
        table.sensitive_codes,
        table.cell_size,
        table.domains,
        table.labels,
    )
    for requirement in requirements:
        verdict = requirement.test(parse_whole_number)
        if not verdict.ok.all():
            raise RequirementNotMet(
                f"{describe(requirement)} cannot be met: the whole table as one group reaches {verdict.reached:g}"
            )


def parse_names(on: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """A set of attribute names as every requirement stores it."""
    if on is None:
        return None
    names = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, (list, tuple)) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise PolicyError("'on' must name at least one quasi-identifier; leave it out to mean all of them")
    if len(set(names)) < len(names):
        raise PolicyError(f"'on' names a column twice: {list_some(names)}; name each of them once")
    return names


def parse_column(of: Any, requirement: str) -> str:
    """The name of a confidential column, or an error that asks for one."""
    if not isinstance(of, str) or not of:
        raise PolicyError(f"'of' must name the sensitive column that {requirement} looks at, not {of!r}")
    return of


def parse_whole_number(value: Any, name: str, least: int) -> int:
    """A whole number that is large enough, or an error that says so."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise PolicyError(f"{name} must be a whole number of at least {least}, not {value!r}")
    if value < least:
        raise PolicyError(f"{name} must be at least {least}, not {value}")
    return int(value)


def parse_real_number(value: Any, name: str) -> float:
    """A finite number, or an error that says so."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise PolicyError(f"{name} must be a number, not {value!r}") from None
    if not np.isfinite(number) or isinstance(value, bool):
        raise PolicyError(f"{name} must be a finite number, not {value!r}")
    return number
