"""The columns of a published model: how their values are read from a table, and how they are written to JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.arrays import Int32Array
from shoal.encoding.attributes import Attribute
from shoal.engines import Dictionary, Distinct, Engine, Reading
from shoal.errors import DataError, list_some
from shoal.formats.checked_json import DAMAGE, member, refuse_unknown, require
from shoal.formats.dates import parse_date
from shoal.formats.numbers import parse_number
from shoal.policy import READ_AS, Policy, QuasiIdentifier


@dataclass(frozen=True)
class ModelColumn:
    """A column that a model uses: its kind and taxonomy, whether attackers know it, and how its texts are read."""

    name: str
    quasi: QuasiIdentifier
    public: bool
    reading: Reading

    @property
    def has_numbers(self) -> bool:
        """Whether a tree tests the values with cuts, and not with labels."""
        return self.quasi.kind != "categorical" and self.quasi.tree_builder is None

    def locate(self, distinct: Distinct) -> list[Any]:
        """The distinct values as a tree tests them: numbers, or the labels above each value.

        The last entry is the missing value: NaN, which no cut is above, or None.
        """
        if self.has_numbers:
            if self.reading.kind == "text":  # a private column of numbers
                parse, noun = (parse_date, "dates") if self.quasi.kind == "date" else (parse_number, "numbers")
                found = [parse(str(v)) for v in distinct.values]
                wrong = [str(v) for v, number in zip(distinct.values, found, strict=True) if number is None]
                if wrong:
                    raise DataError(
                        f"column {self.name!r} must contain {noun}, because the model compares its values with {noun}, but "
                        f"it contains {list_some(wrong)}. Correct these values."
                    )
                return [*found, math.nan]
            return [*np.asarray(distinct.values, np.float64).tolist(), math.nan]
        return [*self.locate_labels(distinct.values), None]

    def locate_labels(self, values: Iterable[Any]) -> list[frozenset[str] | None]:
        """The labels above each value; None for a missing value."""
        builder, tree = self.quasi.tree_builder, self.quasi.taxonomy
        if builder is not None:
            return [None if v is None else frozenset(builder.path(v)) for v in values]
        if tree is None:
            return [None if v is None else frozenset((str(v),)) for v in values]
        return [None if v is None else self._labels_above(str(v)) for v in values]

    def _labels_above(self, value: str) -> frozenset[str]:
        """The labels of all nodes above a value of a given taxonomy; only the value itself if the taxonomy lacks it."""
        tree = self.quasi.taxonomy
        assert tree is not None  # noqa: S101
        code = tree.code.get(value)
        if code is None:
            return frozenset((value,))
        found, node = [], int(tree.leaf[code])
        while node > 0:
            found.append(str(tree.label[node]))
            node = int(tree.parent[node])
        return frozenset(found)

    def to_dict(self) -> dict[str, Any]:
        """The column as plain values, for JSON."""
        return {
            "values": self.quasi.to_plain(public=True),
            "public": self.public,
            **({"normalize": True} if self.reading.normalized else {}),
        }


def row_codes(engine: Engine, column: str) -> Int32Array:
    """The code of every record of an encoded table in memory."""
    codes: Mapping[str, Int32Array] = engine.codes  # type: ignore[attr-defined]
    return codes[column]


def describe_column(attribute: Attribute, policy: Policy, *, public: bool) -> ModelColumn:
    """An attribute as a column of a published model."""
    if attribute.name in policy.quasi:
        return ModelColumn(attribute.name, policy.quasi[attribute.name], public, policy.raw_reading(attribute.name))
    quasi = QuasiIdentifier(kind=attribute.kind)
    return ModelColumn(attribute.name, quasi, public, policy.published_reading(attribute.name))


def locate_columns(
    columns: Mapping[str, ModelColumn], engine: Engine
) -> tuple[dict[str, list[Any]], dict[str, Int32Array]]:
    """Read the columns of a model from a table: the located values by code, and the code of every record."""
    names = engine.schema().names
    absent = [name for name in columns if name not in names]
    if absent:
        raise DataError(
            f"the table lacks columns that the model uses: {list_some(absent)}. Add these columns to the table."
        )
    engine.prepare({name: column.reading for name, column in columns.items()})
    dictionaries, values = {}, {}
    for name, column in columns.items():
        distinct = engine.distinct(name, column.reading)
        codes = np.arange(len(distinct.values), dtype=np.int32)
        dictionaries[name] = Dictionary(column.reading, distinct, codes, len(codes))
        values[name] = column.locate(distinct)
    coded = engine.encode(dictionaries)
    return values, {name: row_codes(coded, name) for name in columns}


def read_column(name: str, body: Any, missing: tuple[str, ...]) -> ModelColumn:
    """Read a column from the content of a JSON file."""
    require(isinstance(body, Mapping), f"column {name!r} must be a mapping")
    refuse_unknown(body, ("values", "public", "normalize"))
    public = member(body, "public", bool)
    normalized = "normalize" in body and member(body, "normalize", bool)
    values = body.get("values")
    tree = values.get("taxonomy") if isinstance(values, Mapping) else None
    require(not isinstance(tree, str), f"the taxonomy of column {name!r} must not be the path of a file")
    try:
        quasi = QuasiIdentifier.model_validate(values)
    except DAMAGE as error:
        raise DataError(f"column {name!r} of the model is not valid: {error}") from error
    if not public:
        reading = Policy.model_construct(missing=missing, normalize=(name,) * normalized).published_reading(name)
        return ModelColumn(name, quasi, public, reading)
    return ModelColumn(name, quasi, public, Reading(READ_AS[quasi.kind], missing))  # type: ignore[arg-type]
