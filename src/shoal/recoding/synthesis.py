"""`Synthesis`: the statistics of every group, and synthetic records from them (Aggarwal and Yu, EDBT 2004, section 2).

Numbers and dates of a group are drawn around its mean along the principal components of its covariance, along each
uniformly over a range of sqrt(12 lambda), which has the variance lambda. Categories are drawn by their shares in the group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes
from shoal.engines import GroupColumn
from shoal.errors import DataError
from shoal.formats.checked_json import array, member, objects, refuse_unknown, require, texts_or_null
from shoal.formats.dates import format_date
from shoal.recoding.field import Field
from shoal.recoding.group_labels import PLACES, count_decimal_places
from shoal.recoding.protocol import BaseRecoding, Columns, LaterData, Output, Placement
from shoal.recoding.serialization import HEAD, check_head, head_from_dict, head_to_dict

DAY = 86400.0
BATCH = 65_536  # synthetic records per step


@dataclass(frozen=True)
class Scale:
    """The number format of a field: ``unit`` (a day or a second for dates) and decimal ``places`` (None: not rounded).

    Synthetic values are between ``low`` and ``high``, in units.
    """

    name: str
    unit: float
    places: int | None
    low: float
    high: float

    @classmethod
    def of(cls, attribute: Attribute, values: FloatArray, bounds: tuple[float, float] | None) -> Scale:
        """The scale of the released values, with the bounds of the policy if there are any."""
        unit = DAY if attribute.kind == "date" and not (values % DAY).any() else 1.0
        values = values / unit
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        if bounds is not None and attribute.taxonomy is None:
            low, high = bounds[0] / unit, bounds[1] / unit
        return cls(attribute.name, unit, count_decimal_places(values, max(-low, high)), low, high)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Scale:
        """Read a scale from JSON content."""
        places = None if found.get("places") is None else member(found, "places", int)
        numbers = [member(found, key, float) for key in ("unit", "low", "high")]
        name, (unit, low, high) = member(found, "name", str), numbers
        fits = np.isfinite(numbers).all() and unit > 0 and low <= high and (places is None or 0 <= places <= PLACES)
        require(fits, f"the scale of {name!r} has invalid ends, unit or places")
        return cls(name, unit, places, low, high)

    @property
    def width(self) -> float:
        """The width of the value range, which makes attributes comparable."""
        return self.high - self.low if self.high > self.low else 1.0

    def fold(self, mean: FloatArray, deviation: FloatArray) -> FloatArray:
        """Reflect values beyond the ends, at equal distances from the mean, so that the mean does not change."""
        reach = np.maximum(np.minimum(mean - self.low, self.high - mean), 0.0)
        turn = 4 * np.where(reach > 0, reach, 1.0)
        there = np.where(reach > 0, (deviation + reach) % turn, 0.0)
        return np.asarray(mean + np.where(there > 2 * reach, 3 * reach - there, there - reach), np.float64)

    def round(self, values: FloatArray, chance: FloatArray) -> FloatArray:
        """Round up or down at random, so that the expected value does not change; never beyond the ends."""
        if self.places is None:
            return np.clip(values, self.low, self.high)
        scale = 10.0**self.places
        low, high = np.ceil(self.low * scale - 1e-9), np.floor(self.high * scale + 1e-9)
        scaled = values * scale
        near = np.rint(scaled)  # a decimal but for floating-point error
        whole = np.where(np.abs(scaled - near) < 1e-6, near, np.floor(scaled + chance))
        return np.asarray(np.clip(whole, low, high) / scale, np.float64)

    def to_column(self, values: FloatArray, missing: BoolArray, kind: str) -> GroupColumn:
        """The released column: integers if there are no decimals, dates as text."""
        distinct, inverse = np.unique(np.where(missing, self.low, values), return_inverse=True)
        index = np.where(missing, -1, inverse).astype(np.int32)
        if kind == "date":
            return GroupColumn(self.name, np.array([format_date(v * self.unit) for v in distinct], dtype=object), index)
        return GroupColumn(self.name, distinct.astype(np.int64) if self.places == 0 else distinct, index)


@dataclass(frozen=True)
class Shares:
    """The value counts of a categorical field in every group: group g has the entries ``start[g] : start[g + 1]``.

    ``labels`` has the value of every code, None for a missing value.
    """

    name: str
    labels: tuple[str | None, ...]
    start: Int64Array
    code: Int32Array
    count: Int64Array

    @classmethod
    def of(cls, attribute: Attribute, group: Int64Array, code: Int32Array, count: Int64Array, groups: int) -> Shares:
        """Count the values in the groups; entry i has ``count[i]`` records."""
        assert attribute.taxonomy is not None  # noqa: S101
        size = attribute.size
        pair, index = np.unique(group * size + code, return_inverse=True)
        total = np.bincount(index, count, minlength=len(pair)).astype(np.int64)
        start = np.searchsorted(pair, np.arange(groups + 1) * size).astype(np.int64)
        return cls(attribute.name, tuple(attribute.taxonomy.leaves), start, (pair % size).astype(np.int32), total)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], groups: int) -> Shares:
        """Read the counts of a field from JSON content."""
        code = array(found, "code", np.int32, (None,))
        return cls(
            member(found, "name", str),
            texts_or_null(found, "labels"),
            array(found, "start", np.int64, (groups + 1,)),
            code,
            array(found, "count", np.int64, code.shape),
        )

    def check(self, size: Int64Array) -> None:
        """Raise `DataError` unless the counts of every group sum to its ``size``."""
        rises = len(self.start) == len(size) + 1 and self.start[0] == 0 and (np.diff(self.start) > 0).all()
        codes = ((self.code >= 0) & (self.code < len(self.labels))).all() and (self.count > 0).all()
        fits = rises and codes and self.start[-1] == len(self.code) == len(self.count)
        fits = fits and np.array_equal(np.add.reduceat(self.count, self.start[:-1]) if len(size) else size, size)
        require(fits, f"the shares of {self.name!r} do not fit the groups")

    def draw(self, first: Int64Array, size: Int64Array, chance: FloatArray) -> GroupColumn:
        """Draw a value for every record from its group, which has ``size`` records after the ``first`` records."""
        member = first + np.minimum((chance * size).astype(np.int64), size - 1)
        code = self.code[np.searchsorted(np.cumsum(self.count), member, side="right")]
        present = [i for i, label in enumerate(self.labels) if label is not None]
        index = np.full(len(self.labels), -1, np.int32)
        index[present] = np.arange(len(present), dtype=np.int32)
        return GroupColumn(self.name, np.array([self.labels[i] for i in present], dtype=object), index[code])


@dataclass(frozen=True)
class Moments:
    """Mean and covariance of the numeric fields in every group, in the units of their scales.

    Missing numbers: ``absent`` is the share of records without a number, and the expected share of missing synthetic values.
    Mean and variance are over the records with a number. A covariance is the sum over the records with both numbers, divided
    by the geometric mean of the two counts of present numbers, so that no direction has a negative variance.
    """

    mean: FloatArray
    covariance: FloatArray
    absent: FloatArray

    @classmethod
    def of(cls, values: FloatArray, width: FloatArray, count: Int64Array, begin: Int64Array) -> Moments:
        """The moments of ``values[entry, field]`` (NaN: missing), ``count[entry]`` records; group g begins at ``begin[g]``."""
        fields = values.shape[1]
        present = ~np.isnan(values)
        counts = np.where(present, count[:, None], 0)
        lowest = np.minimum.reduceat(np.where(present, values, np.inf), begin) if fields else values[begin]
        lowest = np.where(np.isinf(lowest), 0.0, lowest)  # subtracted before summing: the mean of equal values is exact
        group = np.repeat(np.arange(len(begin)), np.diff(begin, append=len(values)))
        number, size = np.add.reduceat(counts, begin), np.add.reduceat(count, begin)
        above = np.where(present, values - lowest[group], 0.0)
        mean = lowest + np.add.reduceat(counts * above, begin) / np.maximum(number, 1)
        deviation = np.where(present, (values - mean[group]) / width, 0.0)
        covariance = np.zeros((len(begin), fields, fields))
        for i in range(fields):
            for j in range(i, fields):
                both = np.add.reduceat(count * deviation[:, i] * deviation[:, j], begin)
                shared = np.sqrt(number[:, i].astype(np.float64) * number[:, j])
                covariance[:, i, j] = covariance[:, j, i] = both / np.maximum(shared, 1) * width[i] * width[j]
        return cls(mean, covariance, 1 - number / size[:, None])

    def draw(self, group: Int64Array, chance: FloatArray, scales: Sequence[Scale]) -> FloatArray:
        """Draw numbers for records of these groups, not yet rounded; ``chance`` has uniform draws from 0 to 1."""
        width = np.array([s.width for s in scales])
        first, last = int(group[0]), int(group[-1]) + 1
        comparable = self.covariance[first:last] / np.outer(width, width)
        variance, direction = np.linalg.eigh(comparable)
        ranges = direction * np.sqrt(12 * np.maximum(variance, 0.0))[:, None, :]
        deviation = np.einsum("nij,nj->ni", ranges[group - first], chance - 0.5) * width
        fixed = np.diagonal(self.covariance, axis1=1, axis2=2)[group] == 0.0
        deviation[fixed] = 0.0  # remove the rounding errors of the decomposition
        mean = self.mean[group]
        return np.stack([s.fold(mean[:, i], deviation[:, i]) for i, s in enumerate(scales)], axis=1)


@dataclass(frozen=True)
class Synthesis(BaseRecoding):
    """The statistics of groups: group g has ``size[g]`` records, and as many synthetic records from its moments and shares.

    It holds statistics of real records, so it must stay in the owner folder.
    """

    fields: tuple[Field, ...]
    output: Output
    size: Int64Array
    scales: tuple[Scale, ...]
    moments: Moments
    shares: tuple[Shares, ...]

    kind: ClassVar[str] = "synthesis"
    accepts_later_data: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_head(self.fields, self.output)
        names = [*(s.name for s in self.scales), *(s.name for s in self.shares)]
        require(sorted(names) == sorted(f.name for f in self.fields), "each field must have statistics once")
        require((self.size > 0).all(), "a group has no records")
        groups, numbers = len(self.size), len(self.scales)
        moments = self.moments.mean, self.moments.covariance, self.moments.absent
        shapes = (groups, numbers), (groups, numbers, numbers), (groups, numbers)
        fits = all(m.shape == shape and np.isfinite(m).all() for m, shape in zip(moments, shapes, strict=True))
        require(fits, "the moments do not fit the groups and the numeric fields")
        for shares in self.shares:
            shares.check(self.size)

    @classmethod
    def of(
        cls,
        codes: Codes,
        placement: Placement,
        fields: tuple[Field, ...],
        output: Output,
        bounds: Mapping[str, tuple[float, float] | None],
    ) -> Synthesis:
        """Compute the statistics of the groups of a placement."""
        order = np.argsort(placement.group, kind="stable")
        order = order[placement.group[order] >= 0]
        group, count = placement.group[order].astype(np.int64), placement.count[order]
        quasi = codes.quasi[codes.combination[placement.cell[order]]]
        begin = np.flatnonzero(np.diff(group, prepend=-1)).astype(np.int64)
        scales, values, shares = [], [], []
        for j, attribute in enumerate(codes.attributes):
            if attribute.numbers is None:
                shares.append(Shares.of(attribute, group, quasi[:, j], count, len(begin)))
                continue
            numbers = attribute.numbers[quasi[:, j]]
            numbers = np.where(np.isinf(numbers), np.nan, numbers)
            scales.append(Scale.of(attribute, numbers[~np.isnan(numbers)], bounds.get(attribute.name)))
            values.append(numbers / scales[-1].unit)
        table = np.stack(values, axis=1) if values else np.zeros((len(group), 0))
        moments = Moments.of(table, np.array([s.width for s in scales]), count, begin)
        size = np.add.reduceat(count, begin)
        return cls(fields, output, size, tuple(scales), moments, tuple(shares))

    def draw(self, rng: np.random.Generator) -> Columns:
        """Draw as many synthetic records as every group has, in group order, as columns with one entry per record."""
        group = np.repeat(np.arange(len(self.size)), self.size)
        by_name = {w.name: w for w in (*self._draw_numbers(group, rng), *self._draw_categories(group, rng))}
        return tuple((f.name, by_name[f.name]) for f in self.fields)

    def _draw_numbers(self, group: Int64Array, rng: np.random.Generator) -> Iterator[GroupColumn]:
        if not self.scales:
            return
        shape = len(group), len(self.scales)
        chance = rng.random(shape)
        values = np.empty(shape)
        for begin in range(0, len(group), BATCH):
            batch = slice(begin, begin + BATCH)
            values[batch] = self.moments.draw(group[batch], chance[batch], self.scales)
        for i, scale in enumerate(self.scales):
            rounded = scale.round(values[:, i], rng.random(len(group)))
            missing = rng.random(len(group)) < self.moments.absent[group, i]
            yield scale.to_column(rounded, missing, self._kind_of(scale.name))

    def _draw_categories(self, group: Int64Array, rng: np.random.Generator) -> Iterator[GroupColumn]:
        first = (np.cumsum(self.size) - self.size)[group]
        for shares in self.shares:
            yield shares.draw(first, self.size[group], rng.random(len(group)))

    def _kind_of(self, name: str) -> str:
        return next(f.kind for f in self.fields if f.name == name)

    def apply(self, data: Any, *, nearest: bool = False) -> NoReturn:
        """Refuse later data: `DataError`."""
        raise DataError(
            "a synthesis cannot be applied to later data: its synthetic records belong to the groups of the first table. "
            "Anonymize the later table on its own, or use a method whose recoding can be applied, such as mondrian."
        )

    def place(self, later: LaterData) -> NoReturn:
        """Refuse later data: `DataError`."""
        self.apply(later)

    def to_json(self) -> str:
        """The recoding as JSON text."""
        return json.dumps(
            {
                **head_to_dict(self),
                "size": self.size.tolist(),
                "scales": [asdict(s) for s in self.scales],
                "mean": self.moments.mean.tolist(),
                "covariance": self.moments.covariance.tolist(),
                "absent": self.moments.absent.tolist(),
                "shares": [
                    {
                        "name": s.name,
                        "labels": list(s.labels),
                        "start": s.start.tolist(),
                        "code": s.code.tolist(),
                        "count": s.count.tolist(),
                    }
                    for s in self.shares
                ],
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Synthesis:
        """Read a recoding from the content of its JSON file."""
        refuse_unknown(found, (*HEAD, "size", "scales", "mean", "covariance", "absent", "shares"))
        size = array(found, "size", np.int64, (None,))
        scales = tuple(Scale.from_dict(s) for s in objects(found, "scales"))
        groups, fields = len(size), len(scales)
        covariance = np.array(member(found, "covariance", list), np.float64).reshape(groups, fields, fields)
        mean, absent = (array(found, name, np.float64, (groups, fields)) for name in ("mean", "absent"))
        shares = tuple(Shares.from_dict(s, groups) for s in objects(found, "shares"))
        return cls(*head_from_dict(found), size, scales, Moments(mean, covariance, absent), shares)


def expand_placement(placement: Placement) -> tuple[Placement, Int32Array]:
    """Place every released record in its own group, numbered in group order; also return the old group of each number."""
    order = np.argsort(placement.group, kind="stable")
    order = order[placement.group[order] >= 0]
    count = placement.count[order]
    suppressed = placement.group < 0
    cell = np.concatenate([np.repeat(placement.cell[order], count), placement.cell[suppressed]])
    number = np.concatenate([np.arange(count.sum()), np.full(int(suppressed.sum()), -1)]).astype(np.int32)
    counts = np.concatenate([np.ones(int(count.sum()), np.int64), placement.count[suppressed]])
    by_cell = np.argsort(cell, kind="stable")
    group = np.repeat(placement.group[order], count).astype(np.int32)
    return Placement(cell[by_cell], number[by_cell], counts[by_cell]), group
