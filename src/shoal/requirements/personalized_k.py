"""Personalized k: every record has its own k (Aggarwal and Yu, "On variable constraints in privacy preserving data mining",
SDM 2005)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shoal.arrays import FloatArray
from shoal.errors import DataError
from shoal.formats.numbers import parse_number
from shoal.kernels import rules
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import BaseRequirement, TableDistribution, Term, TestedOn, Verdict, parse_column


@dataclass(frozen=True)
class PersonalizedK(BaseRequirement):
    """Every record is in a group of at least as many records as its own k.

    Parameters
    ----------
    of : the column with each record's own k
    missing : the texts that mean that a record has no own k

    Methods with a parameter ``own_k`` add this to the policy's requirements. The value of a group is its number of records
    divided by the largest own k of its records.
    """

    of: str
    missing: tuple[str, ...] = ("",)

    name: ClassVar[str] = "own-k"
    counts_records: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    relative: ClassVar[bool] = False
    tested_on: ClassVar[TestedOn] = "groups"
    value_format: ClassVar[str] = "{:g} times its largest own k"
    on: ClassVar[Sequence[str] | None] = None

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)

    @property
    def least(self) -> int:
        """1: a record may have an own k of 1."""
        return 1

    def parse_labels(self, labels: Sequence[str | None]) -> FloatArray:
        """Return the own k of each value of the column, 0 for a missing value; raise an error for any other text."""
        found = np.zeros(len(labels))
        for i, label in enumerate(labels):
            text = "" if label is None else label.strip()
            if text and text not in self.missing:
                number = parse_number(text)  # some programs write 5 as 5.0 if the column has empty fields
                if number is None or number < 1 or not number.is_integer():
                    raise DataError(
                        f"column {self.of!r} must hold whole numbers of at least 1, each record's own k, not {label!r}. "
                        "Correct the value or leave it empty."
                    )
                found[i] = number
        return found

    def limits(self, distribution: TableDistribution) -> tuple[Term, ...]:
        """At least as many records as every own k that occurs in the group."""
        first, last = distribution.span(self.of)
        return (Term(rules.OWN_K, first, last, own_k=self.parse_labels(distribution.label(self.of))),)

    def test(self, groups: Groups) -> Verdict:
        """The number of records of every group divided by its largest own k."""
        largest = np.ones(len(groups.start) - 1)
        group, code, _ = groups.histogram(self.of)
        np.maximum.at(largest, group, self.parse_labels(groups.labels[groups.sensitive.index(self.of)])[code])
        value = groups.size / largest
        return Verdict(value >= 1, value, int(np.argmin(value)) if len(value) else 0)
