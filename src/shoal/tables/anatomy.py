"""Anatomy (Xiao and Tao, VLDB 2006): unchanged quasi-identifiers, and the sensitive values apart from them, by bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from shoal import kernels
from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, RequirementNotMet, list_choices
from shoal.pipeline.method import BucketingMethod
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.requirements import refuse_unreachable
from shoal.requirements.groups import Groups

FORMS = ("buckets", "permuted")
GROWTH = 1.3  # of the width of buckets, while buckets fail a requirement


class Anatomy(BucketingMethod):
    """Publish the quasi-identifiers unchanged, and the sensitive values apart from them, counted by bucket.

    Parameters
    ----------
    policy : the policy, with one sensitive column and requirements on it, such as l-diversity. k-anonymity is refused
    form : ``buckets`` publishes two tables: the records with the number of their bucket, and the sensitive values of every
        bucket with their counts. ``permuted`` publishes one table, with the sensitive values shuffled within the buckets

    Buckets get records of as many different values as the requirements need, always of the values with most records left. The
    records that remain, at most l - 1, go to buckets without their value. So every value of a bucket occurs once, and l is
    possible up to one over the share of the most frequent value. Requirements that no such buckets meet, such as entropy
    l-diversity beyond that or t-closeness, get larger buckets: the records of every value are dealt out to as many buckets as
    possible.

    Guarantee
    ---------
    The sensitive values of every bucket meet the requirements. With l-diversity of the kind ``distinct``, a reader who finds a
    person's record learns a bucket in which every value has a share of at most 1 / l. Which records share a bucket is chosen at
    random, with the secret seed. A missing sensitive value counts as a value.

    Give away the saved files: the rows of ``release.frame`` are in the order of the input, which can show sensitive values.

    Not guaranteed: that a person cannot be found. The quasi-identifiers are unchanged, so whoever knows those of a person finds
    the record, and learns that the person is in the table. A reader who learns from many buckets how sensitive values depend on
    quasi-identifiers can guess the value of a record better than its bucket says.

    References
    ----------
    Xiao, Tao: Anatomy: simple and effective privacy preservation. VLDB 2006.
    Kifer: Attacks on privacy and deFinetti's theorem. SIGMOD 2009 (what readers can learn from many buckets).
    """

    name: ClassVar[str] = "anatomy"
    summary: ClassVar[str] = "leaves the quasi-identifiers unchanged, and publishes the sensitive values by bucket"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"form": "permuted"})

    def __init__(self, policy: Policy, *, form: str = "buckets") -> None:
        super().__init__(policy)
        self.form = form

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters."""
        super().check_parameters()
        if self.form not in FORMS:
            raise PolicyError(f"unknown value {self.form!r} for 'form'; {list_choices(str(self.form), FORMS)}")

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> tuple[Int64Array, Int32Array]:
        """The cell and the bucket of every record."""
        column = [s.name for s in codes.sensitive].index(self.sensitive)
        size = codes.counts.size
        cell = np.repeat(np.arange(len(size), dtype=np.int64), size)
        cell = cell[rng.permutation(len(cell))]
        value = codes.counts.sensitive[cell, column]
        records = np.bincount(value, minlength=len(codes.sensitive[column].labels))
        widest = int(len(cell) // records.max())
        self._refuse_impossible(widest)
        refuse_unreachable(self.policy.require, codes.raw_groups, method=self.name)
        for width in self._list_widths(widest):
            bucket = fill_buckets(value, records, width, rng)
            if self._passes(codes, column, value, bucket):
                return cell, bucket
        return cell, self._deal(codes, column, value)

    def _refuse_impossible(self, widest: int) -> None:
        """Raise `RequirementNotMet` for more distinct values than buckets can have, with the largest possible number."""
        if self._least_distinct > widest:
            raise RequirementNotMet(
                f"{self.name} cannot meet l-diversity with l = {self._least_distinct}: one value of {self.sensitive!r} has "
                f"more than 1 in {self._least_distinct} records. The largest possible l is {widest}. Lower l, or require "
                "entropy l-diversity (kind: entropy), which allows larger buckets with repeated values."
            )

    def _list_widths(self, widest: int) -> Iterator[int]:
        """Widths of buckets, from the least that can pass to the largest possible."""
        width = max(2, *(requirement.least for requirement in self.policy.require))
        while width <= widest:
            yield width
            width = max(width + 1, int(width * GROWTH))

    def _deal(self, codes: Codes, column: int, value: Int32Array) -> Int32Array:
        """Deal out the records of every value to as many buckets as possible, by bisection."""
        place = np.empty(len(value), np.int64)
        place[np.argsort(value, kind="stable")] = np.arange(len(value))
        fewest, most = 1, len(value)  # the whole table as one bucket was tested before
        while most - fewest > 1:
            middle = (fewest + most) // 2
            if self._passes(codes, column, value, (place % middle).astype(np.int32)):
                fewest = middle
            else:
                most = middle
        return (place % fewest).astype(np.int32)

    def _passes(self, codes: Codes, column: int, value: Int32Array, bucket: Int32Array) -> bool:
        """Whether all buckets meet the requirements."""
        encoded = codes.sensitive[column]
        domain = len(encoded.labels)
        pair, records = np.unique(bucket.astype(np.int64) * domain + value, return_counts=True)
        buckets = int(bucket.max(initial=-1)) + 1
        groups = Groups(
            (self.sensitive,),
            (encoded.name,),
            np.arange(buckets, dtype=np.int32)[:, None],
            np.searchsorted(pair, np.arange(buckets + 1) * domain).astype(np.int64),
            (pair % domain).astype(np.int32)[:, None],
            records.astype(np.int64),
            (domain,),
            (encoded.labels,),
        )
        most = np.maximum.reduceat(records, groups.start[:-1]) * self._least_distinct
        return bool((most <= groups.size).all()) and all(r.test(groups).ok.all() for r in self.policy.require)

    @property
    def _least_distinct(self) -> int:
        """The largest l of distinct l-diversity: no value has more than one of l records of a bucket."""
        return max((r.least for r in self.policy.require if r.upward_closed), default=1)


def fill_buckets(value: Int32Array, records: Int64Array, width: int, rng: np.random.Generator) -> Int32Array:
    """The bucket of every record: every bucket has at least ``width`` records, all with different values.

    ``records`` has the number of records of every value; none has more than one of ``width`` records.
    """
    tie = rng.random(len(records))
    by_count = np.lexsort((tie, -records))
    left = records[by_count].astype(np.int64)
    taken = by_count[kernels.buckets.take_largest(left, width)]  # [bucket, place]: the value
    buckets = np.repeat(np.arange(len(taken)), width)
    values = taken.reshape(-1)
    for rest in by_count[np.flatnonzero(left)]:
        free = np.setdiff1d(np.arange(len(taken)), buckets[values == rest])
        buckets, values = np.append(buckets, rng.choice(free)), np.append(values, rest)
    found = np.empty(len(value), np.int32)
    found[np.argsort(value, kind="stable")] = buckets[np.argsort(values, kind="stable")]
    return found
