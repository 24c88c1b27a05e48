"""Compare the quasi-sensitive associations of an original table and its release (Yang and Qiao, section 7.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shoal.encoding.codes import encode_and_count
from shoal.engines import open_data
from shoal.errors import DataError, PolicyError, escape_invisible
from shoal.formats.bucket_columns import BUCKET, COUNT
from shoal.formats.html_text import render_table, render_view
from shoal.formats.numbers import read_numbers
from shoal.measures.association_search import (
    Association,
    BucketedTable,
    Mined,
    Threshold,
    mine_corrected,
    mine_plain,
)
from shoal.measures.corrected_supports import CorrectedSupports
from shoal.measures.counted_values import CountedValues
from shoal.measures.support_estimates import (
    TableRelease,
    check_release,
    count_randomized,
    find_selection,
    parse_columns,
)
from shoal.mining.itemsets import Item
from shoal.policy import Policy
from shoal.recoding.group_labels import label_codes
from shoal.requirements.requirement import parse_share


class Agreement(NamedTuple):
    """How many associations, or values, were found again, were lost, and are in the release alone."""

    found: int
    lost: int
    artificial: int

    @property
    def recovered(self) -> float:
        """The share of those of the original table that were found again; NaN if there are none."""
        return self.found / (self.found + self.lost) if self.found + self.lost else float("nan")


@dataclass(frozen=True)
class Associations:
    """The quasi-sensitive associations of an original table, compared with those of its release.

    ``found`` and ``lost`` have the support and the confidence of the original table, ``artificial`` those of the release.
    ``values`` compares the frequent single values of all columns; the paper calls them associations of length 1.
    """

    found: tuple[Association, ...]
    lost: tuple[Association, ...]
    artificial: tuple[Association, ...]
    values: Agreement

    @classmethod
    def of(cls, original: Mined, release: Mined) -> Associations:
        """Compare the associations of two tables."""
        before, after = original.associations, release.associations
        return cls(
            tuple(one for sides, one in before.items() if sides in after),
            tuple(one for sides, one in before.items() if sides not in after),
            tuple(one for sides, one in after.items() if sides not in before),
            Agreement(
                len(original.values & release.values),
                len(original.values - release.values),
                len(release.values - original.values),
            ),
        )

    @property
    def total(self) -> Agreement:
        """The number of associations."""
        return Agreement(len(self.found), len(self.lost), len(self.artificial))

    @property
    def recovered(self) -> float:
        """The share of the associations of the original table that were found again (the paper's relative percentage)."""
        return self.total.recovered

    @property
    def by_length(self) -> dict[int, Agreement]:
        """The number of associations by the number of their quasi-identifiers."""
        lengths = [[a.length for a in part] for part in (self.found, self.lost, self.artificial)]
        return {n: Agreement(*(part.count(n) for part in lengths)) for n in sorted(set().union(*lengths))}

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns by name, such as for ``pandas.DataFrame``: every association, and whether it was found."""
        parts = (("found", self.found), ("lost", self.lost), ("artificial", self.artificial))
        rows = [(word, one) for word, part in parts for one in part]
        return {
            "result": [word for word, _ in rows],
            "left": [one.left for _, one in rows],
            "right": [one.right for _, one in rows],
            "length": [one.length for _, one in rows],
            "support": [one.support for _, one in rows],
            "confidence": [one.confidence for _, one in rows],
        }

    def __str__(self) -> str:
        lines = ["".join(f"{word:>12}" for word in row) for row in [_HEAD, *self._describe()]]
        return escape_invisible("\n".join([self._title, *lines]), keep="\n")

    def _repr_html_(self) -> str:
        return render_view(self._title, render_table("associations", _HEAD, self._describe()))

    @property
    def _title(self) -> str:
        found, lost, artificial = self.total
        return f"{found:,} of {found + lost:,} associations found, {artificial:,} artificial"

    def _describe(self) -> list[tuple[str, ...]]:
        return [(str(length), *(f"{n:,}" for n in counts)) for length, counts in self.by_length.items()]


_HEAD = ("length", "found", "lost", "artificial")


def associations(
    original: Any,
    release: TableRelease,
    *,
    support: float | str = 0.08,
    confidence: float | str = 0.15,
    sensitive: str | Sequence[str] | None = None,
    unbiased: bool = True,
) -> Associations:
    """Compare the quasi-sensitive associations of an original table with those of its release.

    An association says that records with some values of quasi-identifiers often have a value of a sensitive column. Its support
    is the share of the records that have the values of both sides, its confidence the share of the records with the
    quasi-identifiers that have the sensitive value.

    Parameters
    ----------
    original : the original table: a frame or the path of a file
    release : its release by any method
    support, confidence : the least support and confidence of an association
    sensitive : the columns of the right sides (default: the sensitive columns of the policy)
    unbiased : correct the supports of a randomized release (see `supports`); otherwise they are read as they are

    Returns
    -------
    The associations that both tables have (``found``), that the original table alone has (``lost``), and that the release alone
    has (``artificial``), in total and ``by_length``: by the number of quasi-identifiers.

    Values are compared as published labels: a generalized value is another value. A missing value is in no association. Shares
    of a release are shares of its own records. In a bucketed release, all links of the records of a bucket with its sensitive
    values are equally probable, so supports are expected values, and a right side has one value.

    References
    ----------
    Yang, Qiao: Anonymizing data by random anonymization. Definition 11 and section 7.3.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import shoal
    >>> table = pa.table({"sex": ["f", "m"] * 500, "job": ["cook", "smith"] * 500, "ill": ["yes", "no"] * 500})
    >>> policy = shoal.Policy(quasi={"sex": "categorical", "job": "categorical"}, sensitive=["ill"])
    >>> release = shoal.anonymize(table, policy, method="random", attributes=1, seed=2)
    >>> print(associations(table, release))
    6 of 6 associations found, 0 artificial
          length       found        lost  artificial
               1           4           0           0
               2           2           0           0
    """
    check_release(release, "associations")
    policy = release.policy
    columns = parse_columns(policy, sensitive)
    if not columns:
        raise PolicyError("the policy has no sensitive column. Name the columns of the right sides with 'sensitive'.")
    least = Threshold(_parse_threshold(support, "support"), _parse_threshold(confidence, "confidence"))
    before = mine_plain(_count_original(original, policy, columns), least)
    return Associations.of(before, _mine_release(release, columns, least, unbiased=unbiased))


def _parse_threshold(value: float | str, name: str) -> float:
    share = parse_share(value, name)
    if not 0 < share <= 1:
        raise PolicyError(f"{name} must be a share above 0 and at most 1, not {value!r}.")
    return share


def _count_original(original: Any, policy: Policy, columns: Sequence[str]) -> CountedValues:
    """The values of the original table, as a release shows them where it generalizes nothing."""
    engine = open_data(original, policy.with_conventions())
    policy.check_schema(engine.schema(), requires=False)
    plain = policy.model_copy(update={"unit": None})
    codes, _ = encode_and_count(engine, plain, extra=columns)
    return CountedValues.of_codes(codes, label_codes(codes.attributes), columns)


def _mine_release(release: TableRelease, columns: Sequence[str], least: Threshold, *, unbiased: bool) -> Mined:
    buckets = getattr(release, "sensitive", None)
    if buckets is not None:
        return _read_buckets(release, buckets, columns).mine(least)
    operator = find_selection(release)
    if unbiased and operator is not None:
        return mine_corrected(CorrectedSupports(operator, *count_randomized(release, operator, columns)), least)
    published = release.policy.published_columns(release.engine.schema().names)
    quasi = [name for pair in published.values() for name in pair]
    return mine_plain(CountedValues.of_published(release.engine, release.policy, quasi, columns), least)


def _read_buckets(release: TableRelease, buckets: Any, columns: Sequence[str]) -> BucketedTable:
    """The two tables of a bucketed release."""
    second = open_data(buckets)
    names = [name for name in second.schema().names if name not in (BUCKET, COUNT)]
    if list(columns) != names:
        raise PolicyError(
            f"the buckets of the release show {', '.join(map(repr, names))}; sensitive must name this column alone."
        )
    quasi = tuple(release.policy.quasi)
    table = CountedValues.of_published(open_data(release.frame), release.policy, quasi, (BUCKET,))
    shown = CountedValues.of_published(second, release.policy, (), (BUCKET, names[0], COUNT))
    place = {label: i for i, label in enumerate(table.labels[-1])}
    numbers = read_numbers([str(text) for text in shown.labels[2]])
    if numbers is None or any(label not in place for label in shown.labels[0]):
        raise DataError("the two tables of the release do not fit: they have different buckets, or no counts.")
    code = shown.rows - shown.first[:-1]
    count = np.zeros((len(place), len(shown.labels[1])))
    bucket = np.array([place[label] for label in shown.labels[0]], np.int64)[code[:, 0]]
    np.add.at(count, (bucket, code[:, 1]), np.array(numbers, np.float64)[code[:, 2]] * shown.size)
    share = count / np.maximum(count.sum(axis=1, keepdims=True), 1.0)
    items = tuple(Item(names[0], label) for label in shown.labels[1])
    return BucketedTable(table, table.rows[:, -1] - table.first[-2], items, share)
