"""What every requirement must say of itself, so that methods can search with it and a check can test it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shoal.errors import PolicyError
from shoal.groups import Groups

F8 = NDArray[np.float64]
SLACK = 1e-9  # a bound met up to rounding is met


@dataclass(frozen=True)
class Layout:
    """Where the counts of each confidential attribute lie, one behind the other, and the whole table's distribution."""

    secrets: tuple[str, ...]
    domains: tuple[int, ...]
    base: F8

    def span(self, of: str) -> tuple[int, int]:
        """First and last place (exclusive) of an attribute's codes."""
        place = self.secrets.index(of)
        first = sum(self.domains[:place])
        return first, first + self.domains[place]


@dataclass(frozen=True)
class Limits:
    """Rules as arrays, which one kernel evaluates inside any method's loop; ``least`` records are always needed."""

    rule: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    a: F8
    b: F8
    base: F8
    least: int

    @classmethod
    def of(cls, terms: Sequence[Term], layout: Layout, least: int) -> Limits:
        """Stack single terms."""
        return cls(
            np.array([t.rule for t in terms], np.int32),
            np.array([t.first for t in terms], np.int32),
            np.array([t.last for t in terms], np.int32),
            np.array([t.a for t in terms], np.float64),
            np.array([t.b for t in terms], np.float64),
            layout.base,
            least,
        )


@dataclass(frozen=True)
class Term:
    """One rule of `kernels.rules` with its parameters and the codes it looks at."""

    rule: int
    first: int = 0
    last: int = 0
    a: float = 0.0
    b: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """For every group whether it passes, and the value it reaches; ``reached`` is the worst of these."""

    ok: NDArray[np.bool_]
    value: F8
    worst: int

    @property
    def reached(self) -> float:
        """The value of the worst group."""
        return float(self.value[self.worst]) if len(self.value) else float("nan")


@runtime_checkable
class Requirement(Protocol):
    """What must hold for every group; knows no policy and no frame.

    ``on`` is the set of attributes that form the groups (None: all quasi-identifiers), ``of`` the confidential attribute
    it looks at. ``monotone``: a union of groups that pass passes. ``least``: no smaller group can pass. ``evidence`` is
    what a stranger needs to test it.
    """

    name: ClassVar[str]
    monotone: ClassVar[bool]
    evidence: ClassVar[Literal["table", "bucket", "operator"]]

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

    def limits(self, layout: Layout) -> Term:
        """The rule that the kernels evaluate."""
        ...

    def test(self, groups: Groups) -> Verdict:
        """The same question, asked of finished groups."""
        ...


def lower(requirements: Iterable[Requirement], layout: Layout) -> Limits:
    """All requirements as one set of limits: a group that meets them meets every one of them."""
    listed = list(requirements)
    return Limits.of([r.limits(layout) for r in listed], layout, max((r.least for r in listed), default=1))


def layout_of(groups: Groups) -> Layout:
    """The layout of the confidential attributes of a table, with their distribution over all records."""
    base = [
        np.bincount(groups.secret[:, j], groups.weight, minlength=domain) / max(groups.records, 1)
        for j, domain in enumerate(groups.domains)
    ]
    return Layout(groups.secrets, groups.domains, np.concatenate(base) if base else np.zeros(0))


def parameters(requirement: Requirement) -> dict[str, Any]:
    """The parameters that differ from their defaults, for a policy file."""
    found: dict[str, Any] = {}
    for field in fields(requirement):  # type: ignore[arg-type]
        value = getattr(requirement, field.name)
        if value != field.default:
            found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


def describe(requirement: Requirement) -> str:
    """A requirement in words."""
    given = parameters(requirement)
    on = given.pop("on", None)
    text = ", ".join(f"{key} = {value}" for key, value in given.items())
    return f"{requirement.name} ({text})" + (f" on {', '.join(on)}" if on else "")


def names_of(on: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """A set of attribute names as every requirement stores it."""
    if on is None:
        return None
    names = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, (list, tuple)) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise PolicyError("'on' must name at least one quasi-identifier; leave it out to mean all of them")
    if len(set(names)) < len(names):
        raise PolicyError(f"'on' names a column twice: {', '.join(names)}")
    return names


def column_of(of: Any, requirement: str) -> str:
    """The name of a confidential column, or an error that asks for one."""
    if not isinstance(of, str) or not of:
        raise PolicyError(f"'of' must name the sensitive column that {requirement} looks at, not {of!r}")
    return of


def whole(value: Any, name: str, least: int) -> int:
    """A whole number that is large enough, or an error that says so."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise PolicyError(f"{name} must be a whole number of at least {least}, not {value!r}")
    if value < least:
        raise PolicyError(f"{name} must be at least {least}, not {value}")
    return int(value)


def real(value: Any, name: str) -> float:
    """A finite number, or an error that says so."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise PolicyError(f"{name} must be a number, not {value!r}") from None
    if not np.isfinite(number) or isinstance(value, bool):
        raise PolicyError(f"{name} must be a finite number, not {value!r}")
    return number
