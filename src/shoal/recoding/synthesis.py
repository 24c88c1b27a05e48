"""`Synthesis`: the statistics of every group, and records drawn anew from them (Aggarwal and Yu, EDBT 2004, section 2).

Numbers and dates of a group are drawn around its mean along the principal components of its covariance, along each
uniformly over a range of sqrt(12 lambda), which has the variance lambda. Categories are drawn by the group's own shares.
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
from shoal.formats.checked_json import array, member, objects, require, texts_or_null
from shoal.formats.dates import format_date
from shoal.recoding.field import Field
from shoal.recoding.group_labels import PLACES, decimal_places
from shoal.recoding.protocol import LaterData, Output, Placement
from shoal.recoding.serialization import check_head, head_from_dict, head_to_dict

DAY = 86400.0
PART = 65_536  # records that are drawn at once


@dataclass(frozen=True)
class Scale:
    """How the numbers of a field are written: in ``unit`` (a day or a second for dates), to so many decimal ``places``.

    ``places`` is None where they are as fine as numbers are. Values stay between ``low`` and ``high``, in units.
    """

    name: str
    unit: float
    places: int | None
    low: float
    high: float

    @classmethod
    def of(cls, attribute: Attribute, values: FloatArray, bounds: tuple[float, float] | None) -> Scale:
        """What the values of the released records show, or the bounds of the policy where there are any."""
        unit = DAY if attribute.kind == "date" and not (values % DAY).any() else 1.0
        values = values / unit
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        if bounds is not None and attribute.taxonomy is None:
            low, high = bounds[0] / unit, bounds[1] / unit
        return cls(attribute.name, unit, decimal_places(values, max(-low, high)), low, high)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Scale:
        """Back from JSON."""
        places = None if found.get("places") is None else member(found, "places", int)
        numbers = [member(found, key, float) for key in ("unit", "low", "high")]
        name, (unit, low, high) = member(found, "name", str), numbers
        fits = np.isfinite(numbers).all() and unit > 0 and low <= high and (places is None or 0 <= places <= PLACES)
        require(fits, f"the scale of {name!r} has ends, a unit or places that cannot be used")
        return cls(name, unit, places, low, high)

    @property
    def width(self) -> float:
        """The width of all values, by which attributes are made comparable."""
        return self.high - self.low if self.high > self.low else 1.0

    def fold(self, mean: FloatArray, deviation: FloatArray) -> FloatArray:
        """Turn back at equal distances from the mean what would leave the ends: the mean stays where it is."""
        reach = np.maximum(np.minimum(mean - self.low, self.high - mean), 0.0)
        turn = 4 * np.where(reach > 0, reach, 1.0)
        there = np.where(reach > 0, (deviation + reach) % turn, 0.0)
        return np.asarray(mean + np.where(there > 2 * reach, 3 * reach - there, there - reach), np.float64)

    def rounded(self, values: FloatArray, chance: FloatArray) -> FloatArray:
        """The decimal below or above, by chance, so that the mean stays where it is; never beyond the ends."""
        if self.places is None:
            return np.clip(values, self.low, self.high)
        scale = 10.0**self.places
        low, high = np.ceil(self.low * scale - 1e-9), np.floor(self.high * scale + 1e-9)
        scaled = values * scale
        near = np.rint(scaled)  # what is a decimal up to rounding is one
        whole = np.where(np.abs(scaled - near) < 1e-6, near, np.floor(scaled + chance))
        return np.asarray(np.clip(whole, low, high) / scale, np.float64)

    def written(self, values: FloatArray, gone: BoolArray, kind: str) -> GroupColumn:
        """A released column: whole numbers whole, dates as text."""
        kept, index = np.unique(np.where(gone, self.low, values), return_inverse=True)
        place = np.where(gone, -1, index).astype(np.int32)
        if kind == "date":
            return GroupColumn(self.name, np.array([format_date(v * self.unit) for v in kept], dtype=object), place)
        return GroupColumn(self.name, kept.astype(np.int64) if self.places == 0 else kept, place)


@dataclass(frozen=True)
class Shares:
    """How often each value of a categorical field occurs in every group: group g owns the entries from ``start[g]`` on.

    ``labels`` has the value of every code, None for a missing one.
    """

    name: str
    labels: tuple[str | None, ...]
    start: Int64Array
    code: Int32Array
    count: Int64Array

    @classmethod
    def of(cls, attribute: Attribute, group: Int64Array, code: Int32Array, weight: Int64Array, groups: int) -> Shares:
        """Count what lies in the groups."""
        assert attribute.taxonomy is not None  # noqa: S101
        size = attribute.size
        pair, place = np.unique(group * size + code, return_inverse=True)
        count = np.bincount(place, weight, minlength=len(pair)).astype(np.int64)
        start = np.searchsorted(pair, np.arange(groups + 1) * size).astype(np.int64)
        return cls(attribute.name, tuple(attribute.taxonomy.leaves), start, (pair % size).astype(np.int32), count)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], groups: int) -> Shares:
        """Back from JSON."""
        code = array(found, "code", np.int32, (None,))
        return cls(
            member(found, "name", str),
            texts_or_null(found, "labels"),
            array(found, "start", np.int64, (groups + 1,)),
            code,
            array(found, "count", np.int64, code.shape),
        )

    def check(self, size: Int64Array) -> None:
        """`DataError` unless every group has as many values as ``size`` says it has records."""
        rises = len(self.start) == len(size) + 1 and self.start[0] == 0 and (np.diff(self.start) > 0).all()
        codes = ((self.code >= 0) & (self.code < len(self.labels))).all() and (self.count > 0).all()
        fits = rises and codes and self.start[-1] == len(self.code) == len(self.count)
        fits = fits and np.array_equal(np.add.reduceat(self.count, self.start[:-1]) if len(size) else size, size)
        require(fits, f"the shares of {self.name!r} do not fit the groups")

    def draw(self, first: Int64Array, size: Int64Array, chance: FloatArray) -> GroupColumn:
        """For every record the value of a member of its group, which has ``size`` records behind ``first`` others."""
        member = first + np.minimum((chance * size).astype(np.int64), size - 1)
        code = self.code[np.searchsorted(np.cumsum(self.count), member, side="right")]
        known = [i for i, label in enumerate(self.labels) if label is not None]
        index = np.full(len(self.labels), -1, np.int32)
        index[known] = np.arange(len(known), dtype=np.int32)
        return GroupColumn(self.name, np.array([self.labels[i] for i in known], dtype=object), index[code])


@dataclass(frozen=True)
class Moments:
    """Mean and covariance of the numeric fields in every group, in the units of their scales, of the members that have them.

    Rule for missing numbers: ``absent`` is the share of the members without one, and so many of the drawn are blank. The mean
    and the variance are those of the members that have a number; a covariance sums over the members that have both, and
    divides by the geometric mean of how many have the one and the other, so that no direction has a negative variance.
    """

    mean: FloatArray
    covariance: FloatArray
    absent: FloatArray

    @classmethod
    def of(cls, values: FloatArray, width: FloatArray, weight: Int64Array, begin: Int64Array) -> Moments:
        """Of ``values[entry, field]``, NaN where missing; group g has the entries from ``begin[g]`` on."""
        fields = values.shape[1]
        present = ~np.isnan(values)
        held = np.where(present, weight[:, None], 0)
        lowest = np.minimum.reduceat(np.where(present, values, np.inf), begin) if fields else values[begin]
        lowest = np.where(
            np.isinf(lowest), 0.0, lowest
        )  # sums count from here: equal values have themselves for a mean
        group = np.repeat(np.arange(len(begin)), np.diff(begin, append=len(values)))
        number, size = np.add.reduceat(held, begin), np.add.reduceat(weight, begin)
        above = np.where(present, values - lowest[group], 0.0)
        mean = lowest + np.add.reduceat(held * above, begin) / np.maximum(number, 1)
        apart = np.where(present, (values - mean[group]) / width, 0.0)
        covariance = np.zeros((len(begin), fields, fields))
        for i in range(fields):
            for j in range(i, fields):
                both = np.add.reduceat(weight * apart[:, i] * apart[:, j], begin)
                shared = np.sqrt(number[:, i].astype(np.float64) * number[:, j])
                covariance[:, i, j] = covariance[:, j, i] = both / np.maximum(shared, 1) * width[i] * width[j]
        return cls(mean, covariance, 1 - number / size[:, None])

    def draw(self, group: Int64Array, chance: FloatArray, scales: Sequence[Scale]) -> FloatArray:
        """Numbers for records of these groups, before they are rounded; ``chance`` has a draw from 0 to 1 for each."""
        width = np.array([s.width for s in scales])
        first, last = int(group[0]), int(group[-1]) + 1
        comparable = self.covariance[first:last] / np.outer(width, width)
        variance, direction = np.linalg.eigh(comparable)
        ranges = direction * np.sqrt(12 * np.maximum(variance, 0.0))[:, None, :]
        deviation = np.einsum("nij,nj->ni", ranges[group - first], chance - 0.5) * width
        fixed = np.diagonal(self.covariance, axis1=1, axis2=2)[group] == 0.0
        deviation[fixed] = 0.0  # also of what the decomposition leaves of rounding
        mean = self.mean[group]
        return np.stack([s.fold(mean[:, i], deviation[:, i]) for i, s in enumerate(scales)], axis=1)


@dataclass(frozen=True)
class Synthesis:
    """The statistics of groups: group g stands for ``size[g]`` records, drawn from its moments and its shares.

    It holds what is true of a group of real records, so it never leaves the owner's folder.
    """

    fields: tuple[Field, ...]
    output: Output
    size: Int64Array
    scales: tuple[Scale, ...]
    moments: Moments
    shares: tuple[Shares, ...]

    kind: ClassVar[str] = "synthesis"

    def __post_init__(self) -> None:
        check_head(self.fields, self.output)
        drawn = [*(s.name for s in self.scales), *(s.name for s in self.shares)]
        require(sorted(drawn) == sorted(f.name for f in self.fields), "each field must have statistics, once")
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
        """Learn from the records that a placement sends to groups."""
        order = np.argsort(placement.group, kind="stable")
        order = order[placement.group[order] >= 0]
        group, weight = placement.group[order].astype(np.int64), placement.count[order]
        quasi = codes.quasi[codes.combination[placement.cell[order]]]
        begin = np.flatnonzero(np.diff(group, prepend=-1)).astype(np.int64)
        scales, values, shares = [], [], []
        for j, attribute in enumerate(codes.attributes):
            if attribute.numbers is None:
                shares.append(Shares.of(attribute, group, quasi[:, j], weight, len(begin)))
                continue
            found = attribute.numbers[quasi[:, j]]
            found = np.where(np.isinf(found), np.nan, found)
            scales.append(Scale.of(attribute, found[~np.isnan(found)], bounds.get(attribute.name)))
            values.append(found / scales[-1].unit)
        table = np.stack(values, axis=1) if values else np.zeros((len(group), 0))
        moments = Moments.of(table, np.array([s.width for s in scales]), weight, begin)
        size = np.add.reduceat(weight, begin)
        return cls(fields, output, size, tuple(scales), moments, tuple(shares))

    def draw(self, rng: np.random.Generator) -> tuple[tuple[str, GroupColumn], ...]:
        """As many records as every group has, group behind group, as released columns with an entry per record."""
        group = np.repeat(np.arange(len(self.size)), self.size)
        found = {w.name: w for w in (*self._numbers(group, rng), *self._categories(group, rng))}
        return tuple((f.name, found[f.name]) for f in self.fields)

    def _numbers(self, group: Int64Array, rng: np.random.Generator) -> Iterator[GroupColumn]:
        if not self.scales:
            return
        shape = len(group), len(self.scales)
        chance = rng.random(shape)
        values = np.empty(shape)
        for begin in range(0, len(group), PART):
            part = slice(begin, begin + PART)
            values[part] = self.moments.draw(group[part], chance[part], self.scales)
        for i, scale in enumerate(self.scales):
            rounded = scale.rounded(values[:, i], rng.random(len(group)))
            gone = rng.random(len(group)) < self.moments.absent[group, i]
            yield scale.written(rounded, gone, self.fields[self._place(scale.name)].kind)

    def _categories(self, group: Int64Array, rng: np.random.Generator) -> Iterator[GroupColumn]:
        first = (np.cumsum(self.size) - self.size)[group]
        for shares in self.shares:
            yield shares.draw(first, self.size[group], rng.random(len(group)))

    def _place(self, name: str) -> int:
        return next(i for i, f in enumerate(self.fields) if f.name == name)

    def apply(self, data: Any, *, nearest: bool = False) -> NoReturn:
        """Refuse later data: `DataError`."""
        raise DataError(
            "a synthesis cannot be applied to later data: its records were drawn for the groups of the first table alone; "
            "anonymize the later table by itself, or use a method whose recoding can be applied, such as mondrian"
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
        """Back from JSON."""
        size = array(found, "size", np.int64, (None,))
        scales = tuple(Scale.from_dict(s) for s in objects(found, "scales"))
        groups, fields = len(size), len(scales)
        covariance = np.array(member(found, "covariance", list), np.float64).reshape(groups, fields, fields)
        mean, absent = (array(found, name, np.float64, (groups, fields)) for name in ("mean", "absent"))
        shares = tuple(Shares.from_dict(s, groups) for s in objects(found, "shares"))
        return cls(*head_from_dict(found), size, scales, Moments(mean, covariance, absent), shares)


def expand_placement(placement: Placement) -> tuple[Placement, Int32Array]:
    """Every record by itself, numbered group behind group; and the group of each number. Suppressed ones stay so."""
    order = np.argsort(placement.group, kind="stable")
    order = order[placement.group[order] >= 0]
    weight = placement.count[order]
    gone = placement.group < 0
    cell = np.concatenate([np.repeat(placement.cell[order], weight), placement.cell[gone]])
    number = np.concatenate([np.arange(weight.sum()), np.full(int(gone.sum()), -1)]).astype(np.int32)
    each = np.concatenate([np.ones(int(weight.sum()), np.int64), placement.count[gone]])
    by_cell = np.argsort(cell, kind="stable")
    group = np.repeat(placement.group[order], weight).astype(np.int32)
    return Placement(cell[by_cell], number[by_cell], each[by_cell]), group
