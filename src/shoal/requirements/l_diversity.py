"""l-diversity (Machanavajjhala et al.): every group has several sensitive values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.errors import PolicyError, list_choices
from shoal.kernels import rules
from shoal.kernels.rules import SLACK
from shoal.requirements.group_rules import GroupRule, LargestRatio, LeastDistinct, LeastEntropy
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import (
    BaseRequirement,
    TableDistribution,
    Term,
    Verdict,
    parse_attributes,
    parse_column,
    parse_real_number,
    parse_whole_number,
)

KINDS = ("distinct", "entropy", "recursive")


@dataclass(frozen=True)
class LDiversity(BaseRequirement):
    """Every group has at least ``l`` well-represented values of a sensitive attribute.

    Parameters
    ----------
    l : the number of well-represented values
    of : the sensitive attribute
    kind : ``distinct`` counts the values; ``entropy`` requires an entropy of at least log(l); ``recursive`` requires that the
        most frequent value occurs less often than ``c`` times the l-th most frequent value and all rarer values together
    c : the factor of the recursive kind
    on : the quasi-identifiers that form the groups (default: all)

    Guarantee
    ---------
    A missing value counts as a value of its own. Spellings of a value count as different values, unless the policy lists the
    column under ``normalize``. Values of similar meaning count as different values.
    """

    l: int | float  # noqa: E741
    of: str
    kind: str = "distinct"
    c: float | None = None
    on: Sequence[str] | None = None

    name: ClassVar[str] = "l-diversity"
    monotone: ClassVar[bool] = True
    relative: ClassVar[bool] = False
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"l": 2},
        {"l": 2, "kind": "entropy"},
        {"l": 2, "kind": "recursive", "c": 2.0},
    )

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        if self.kind not in KINDS:
            raise PolicyError(f"l-diversity has no kind {self.kind!r}; {list_choices(str(self.kind), KINDS)}.")
        if self.kind == "entropy":
            number = parse_real_number(self.l, "l")
            if number < 1:
                raise PolicyError(f"l must be at least 1, not {number}.")
            object.__setattr__(self, "l", int(number) if number.is_integer() else number)
        else:
            object.__setattr__(self, "l", parse_whole_number(self.l, "l", 1))
        if self.kind == "recursive" and self.c is None:
            raise PolicyError("recursive l-diversity needs c, a number above 0. Add c, such as 'c: 2'.")
        if self.kind != "recursive" and self.c is not None:
            raise PolicyError(f"only recursive l-diversity has c, not the kind {self.kind!r}. Remove c.")
        if self.c is not None:
            object.__setattr__(self, "c", parse_real_number(self.c, "c"))
            if self.c <= 0:
                raise PolicyError(f"c must be above 0, not {self.c}.")
        object.__setattr__(self, "on", parse_attributes(self.on))

    @property
    def least(self) -> int:
        """l, rounded up: every value needs a record."""
        return math.ceil(self.l)

    @property
    def upward_closed(self) -> bool:
        """Whether additional values cannot make a group fail."""
        return self.kind == "distinct"

    def format_value(self, value: float) -> str:
        """The number of distinct values, the entropy, or the ratio."""
        if self.kind == "distinct":
            return f"{value:g} distinct value{'' if value == 1 else 's'}"
        return f"an entropy of log({value:g})" if self.kind == "entropy" else f"a ratio of {value:g}"

    def limits(self, distribution: TableDistribution) -> tuple[Term, ...]:
        """The rule of this kind."""
        first, last = distribution.span(self.of)
        if self.kind == "recursive":
            return (Term(rules.RECURSIVE, first, last, float(self.c or 0), float(self.l)),)
        rule = rules.DISTINCT if self.kind == "distinct" else rules.ENTROPY
        return (Term(rule, first, last, float(self.l)),)

    def group_rules(self) -> tuple[GroupRule, ...]:
        """The rule of this kind."""
        if self.kind == "recursive":
            return (LargestRatio(float(self.c or 0), int(self.l)),)
        return (LeastDistinct(int(self.l)) if self.kind == "distinct" else LeastEntropy(float(self.l)),)

    def test(self, groups: Groups) -> Verdict:
        """The number of distinct values, the exponential of their entropy, or the recursive ratio of every group."""
        group, _, records = groups.histogram(self.of)
        count = len(groups.start) - 1
        if self.kind == "distinct":
            value = np.bincount(group, minlength=count).astype(np.float64)
            ok = value >= self.l
        elif self.kind == "entropy":
            share = records / groups.values_of_groups(self.of)[group]
            value = np.exp(np.bincount(group, -share * np.log(share), minlength=count))
            ok = np.log(value) >= math.log(self.l) - SLACK
        else:
            value = self._compute_ratio(group, records, count)
            ok = value < float(self.c or 0)
            return Verdict(ok, value, int(np.argmax(value)) if count else 0)
        return Verdict(ok, value, int(np.argmin(value)) if count else 0)

    def _compute_ratio(self, group: Int32Array, records: Int64Array, count: int) -> FloatArray:
        """For every group, the records of its most frequent value over those of the l-th most frequent and rarer values."""
        order = np.lexsort((-records, group))
        first = np.searchsorted(group[order], np.arange(count))
        rank = np.arange(len(order)) - first[group[order]]
        tail = np.bincount(group[order], records[order] * (rank >= self.l - 1), minlength=count)
        top = records[order][first].astype(np.float64) if len(order) else np.zeros(count)
        ratio: FloatArray = np.divide(top, tail, out=np.full(count, np.inf), where=tail > 0)
        return ratio
