"""Rules on the counts of one group, without data: what a requirement demands where something else counts, such as a database.

`Requirement.test` judges counted groups. These rules say the same as plain values, so that other programs can count: a group
fails a requirement if it fails one of its rules. ``rate`` is the share of records, or of people, that have a value.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LeastSize:
    """At least ``least`` records, or people."""

    least: int


@dataclass(frozen=True)
class LeastDistinct:
    """At least ``least`` different sensitive values."""

    least: int


@dataclass(frozen=True)
class LeastEntropy:
    """The entropy of the sensitive values is at least log(``least``)."""

    least: float


@dataclass(frozen=True)
class LargestRatio:
    """The most frequent value occurs less often than ``factor`` times the ``first``-th most frequent and all rarer values."""

    factor: float
    first: int


@dataclass(frozen=True)
class LargestRate:
    """The rate of every protected value is at most ``most``. ``values`` are their texts; None protects all values."""

    most: float
    values: tuple[str, ...] | None = None


@dataclass(frozen=True)
class LargestGain:
    """The rate of every value is at most 1 + ``gain`` times its rate in the table.

    ``enhanced``: the gain is also at most -ln(rate in the table).
    """

    gain: float
    enhanced: bool = False


@dataclass(frozen=True)
class LargestLogRatio:
    """|ln(rate in the group / rate in the table)| of every value of the table is below ``bound``."""

    bound: float


@dataclass(frozen=True)
class EqualDistance:
    """Half the sum of the differences between the shares in the group and in the table is at most ``most``."""

    most: float


@dataclass(frozen=True)
class OrderedDistance:
    """The mean difference between the cumulated shares is at most ``most``.

    ``order`` has the texts of the values in ascending order; without it, values are sorted by number if all are numbers, else
    by text. A missing value is the last.
    """

    most: float
    order: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TreeDistance:
    """The sum over the nodes of a tree of weight times the difference of the shares of the values below is at most ``most``.

    ``edges`` has the text of a value (None: missing), the number of a node above it, and the weight of the node.
    """

    most: float
    edges: tuple[tuple[str | None, int, float], ...]


GroupRule = (
    LeastSize
    | LeastDistinct
    | LeastEntropy
    | LargestRatio
    | LargestRate
    | LargestGain
    | LargestLogRatio
    | EqualDistance
    | OrderedDistance
    | TreeDistance
)
