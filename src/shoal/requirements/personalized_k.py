"""Variable k (Aggarwal and Yu, "On variable constraints in privacy preserving data mining", SDM 2005)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from shoal.arrays import FloatArray
from shoal.errors import DataError
from shoal.formats.numbers import parse_number
from shoal.kernels import rules
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import Combining, TableDistribution, Term, Verdict, parse_column


@dataclass(frozen=True)
class PersonalizedK(Combining):
    """Every record lies in a group of at least as many records as it asks for itself.

    Parameters
    ----------
    of : the column that says each record's own k
    missing : the texts that stand for no wish

    Methods that take a column of wishes put this beside the policy's requirements; the worst group reaches its size over
    the largest k that is asked for in it.
    """

    of: str
    missing: tuple[str, ...] = ("",)

    name: ClassVar[str] = "own-k"
    monotone: ClassVar[bool] = True
    tested_on: ClassVar[Literal["table", "bucket", "operator"]] = "bucket"
    on: ClassVar[Sequence[str] | None] = None

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)

    @property
    def least(self) -> int:
        """One record may do, where nobody asks for more."""
        return 1

    def sizes(self, labels: Sequence[str | None]) -> FloatArray:
        """The k that each value asks for, 0 where it is missing; an error for what is no whole number of at least 1."""
        found = np.zeros(len(labels))
        for i, label in enumerate(labels):
            text = "" if label is None else label.strip()
            if text and text not in self.missing:
                number = parse_number(text)  # 5.0 is what some programs make of 5 beside an empty field
                if number is None or number < 1 or not number.is_integer():
                    raise DataError(
                        f"column {self.of!r} must hold whole numbers of at least 1, each record's own k, not {label!r}; "
                        "mend the value or leave it empty"
                    )
                found[i] = number
        return found

    def limits(self, layout: TableDistribution) -> tuple[Term, ...]:
        """Records >= the k of every value that occurs."""
        first, last = layout.span(self.of)
        return (Term(rules.OWN, first, last, ceiling=self.sizes(layout.label(self.of))),)

    def test(self, groups: Groups) -> Verdict:
        """The size of every group over the largest k in it."""
        asked = np.ones(len(groups.start) - 1)
        group, code, _ = groups.histogram(self.of)
        np.maximum.at(asked, group, self.sizes(groups.labels[groups.sensitive.index(self.of)])[code])
        value = groups.size / asked
        return Verdict(value >= 1, value, int(np.argmin(value)) if len(value) else 0)
