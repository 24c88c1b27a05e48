"""l-diversity (Machanavajjhala et al.): no group gives its confidential value away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.errors import PolicyError, list_choices
from shoal.kernels import rules
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import (
    SLACK,
    Combining,
    TableDistribution,
    Term,
    Verdict,
    parse_column,
    parse_names,
    parse_real_number,
    parse_whole_number,
)

KINDS = ("distinct", "entropy", "recursive")


@dataclass(frozen=True)
class LDiversity(Combining):
    """Every group holds at least ``l`` well-represented values of a confidential attribute.

    Parameters
    ----------
    l : how many values must be well represented
    of : the sensitive attribute
    kind : ``distinct`` counts values; ``entropy`` asks that their entropy is at least log(l); ``recursive`` that the most
        frequent value occurs less often than ``c`` times the l-th most frequent and all rarer ones together
    c : the factor of the recursive kind
    on : the quasi-identifiers that form the groups; all of them unless said

    Guarantee
    ---------
    A missing value counts as a value of its own. Spellings of a value count as different values, unless the policy lists the
    column under ``normalize``. Nothing is said of values that are close in meaning.
    """

    l: int | float  # noqa: E741
    of: str
    kind: str = "distinct"
    c: float | None = None
    on: Sequence[str] | None = None

    name: ClassVar[str] = "l-diversity"
    monotone: ClassVar[bool] = True
    tested_on: ClassVar[Literal["table", "bucket", "operator"]] = "table"

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        if self.kind not in KINDS:
            raise PolicyError(f"kind of l-diversity: {self.kind!r}; {list_choices(str(self.kind), KINDS)}")
        if self.kind == "entropy":
            size = parse_real_number(self.l, "l")
            if size < 1:
                raise PolicyError(f"l must be at least 1, not {size}")
            object.__setattr__(self, "l", int(size) if size.is_integer() else size)
        else:
            object.__setattr__(self, "l", parse_whole_number(self.l, "l", 1))
        if (self.kind == "recursive") != (self.c is not None):
            raise PolicyError("recursive l-diversity needs c, a number above 0; the other kinds have none")
        if self.c is not None:
            object.__setattr__(self, "c", parse_real_number(self.c, "c"))
            if self.c <= 0:
                raise PolicyError(f"c must be above 0, not {self.c}")
        object.__setattr__(self, "on", parse_names(self.on))

    @property
    def least(self) -> int:
        """As many records as values are needed."""
        return math.ceil(self.l)

    def limits(self, layout: TableDistribution) -> tuple[Term, ...]:
        """The rule of this kind."""
        first, last = layout.span(self.of)
        if self.kind == "recursive":
            return (Term(rules.RECURSIVE, first, last, float(self.c or 0), float(self.l)),)
        rule = rules.DISTINCT if self.kind == "distinct" else rules.ENTROPY
        return (Term(rule, first, last, float(self.l)),)

    def test(self, groups: Groups) -> Verdict:
        """Distinct values, the exponential of their entropy, or the recursive ratio, of every group."""
        group, _, weight = groups.histogram(self.of)
        count = len(groups.start) - 1
        if self.kind == "distinct":
            value = np.bincount(group, minlength=count).astype(np.float64)
            ok = value >= self.l
        elif self.kind == "entropy":
            part = weight / groups.size[group]
            value = np.exp(np.bincount(group, -part * np.log(part), minlength=count))
            ok = np.log(value) >= math.log(self.l) - SLACK
        else:
            value = self._ratio(group, weight, count)
            ok = value < float(self.c or 0)
            return Verdict(ok, value, int(np.argmax(value)) if count else 0)
        return Verdict(ok, value, int(np.argmin(value)) if count else 0)

    def _ratio(self, group: Int32Array, weight: Int64Array, count: int) -> FloatArray:
        """Of every group, its most frequent value over the l-th most frequent and rarer ones."""
        order = np.lexsort((-weight, group))
        first = np.searchsorted(group[order], np.arange(count))
        rank = np.arange(len(order)) - first[group[order]]
        tail = np.bincount(group[order], weight[order] * (rank >= self.l - 1), minlength=count)
        top = weight[order][first].astype(np.float64) if len(order) else np.zeros(count)
        ratio: FloatArray = np.divide(top, tail, out=np.full(count, np.inf), where=tail > 0)
        return ratio
