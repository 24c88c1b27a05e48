"""The interface of all recodings: place later data in groups, and publish the columns of the groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.engines import Counts, Dictionary, Engine, GroupColumn, Plan, Reading, Resources, UnchangedColumn, open_data
from shoal.errors import DataError, PolicyError, explain_absent_column, list_some
from shoal.formats.numbers import format_count
from shoal.policy import READ_AS
from shoal.recoding.field import Field

Columns = tuple[
    tuple[str, GroupColumn], ...
]  # the published columns of groups, each with the name of its source column


@dataclass(frozen=True)
class Placement:
    """The groups of cells: entry p places ``count[p]`` records of the cell ``cell[p]`` in ``group[p]`` (-1: suppressed)."""

    cell: Int64Array
    group: Int32Array
    count: Int64Array

    @classmethod
    def whole(cls, counts: Counts, group: Int32Array) -> Placement:
        """Place all cells of a combination in the group of the combination."""
        cells = np.repeat(group, np.diff(counts.start)).astype(np.int32)
        return cls(np.arange(len(cells), dtype=np.int64), cells, counts.size)


@dataclass(frozen=True)
class Output:
    """The columns that are released unchanged, and the texts that mean a missing value in later data."""

    unchanged: tuple[str, ...]
    missing: tuple[str, ...]

    def order_columns(self, names: Sequence[str], group_columns: Columns) -> tuple[UnchangedColumn | GroupColumn, ...]:
        """Return all released columns in the column order of the source."""
        found: list[UnchangedColumn | GroupColumn] = []
        for name in names:
            found += [w for source, w in group_columns if source == name]
            if name in self.unchanged:
                found.append(UnchangedColumn(name))
        return tuple(found)


@dataclass(frozen=True)
class LaterData:
    """Later data for a recoding: the distinct combinations of codes, and the position of each code."""

    quasi: Int32Array
    positions: tuple[FloatArray, ...]

    @property
    def unknown(self) -> BoolArray:
        """Whether each combination has a category that is not in the recoding."""
        found = np.zeros(len(self.quasi), bool)
        for j, positions in enumerate(self.positions):
            found |= np.isnan(positions)[self.quasi[:, j]]
        return found


@dataclass(frozen=True)
class LaterPlacement:
    """The group of every combination of later data (-1: suppressed), and the published columns of the groups.

    ``outside`` marks combinations that no box contains: they have the nearest group, whose labels are not true of them.
    """

    group: Int32Array
    outside: BoolArray
    columns: Columns


class Recoding(Protocol):
    """The rules by which a release generalized values, applicable to later data."""

    kind: ClassVar[str]
    accepts_later_data: ClassVar[bool]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The quasi-identifiers."""
        ...

    @property
    def output(self) -> Output:
        """The columns that are released unchanged."""
        ...

    def place(self, later: LaterData) -> LaterPlacement:
        """Place the combinations of later data in groups, with the published columns of the groups."""
        ...

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """Apply the recoding to later data."""
        ...

    def to_json(self) -> str:
        """The recoding as JSON text."""
        ...

    def files(self) -> tuple[Path, ...]:
        """The files that belong to the recoding beside its JSON text."""
        ...


class BaseRecoding:
    """Base class of the recodings: later data are accepted, and all content is in the JSON text."""

    accepts_later_data: ClassVar[bool] = True

    def files(self) -> tuple[Path, ...]:
        """No files."""
        return ()


@dataclass(frozen=True)
class EncodedLaterData:
    """Later data with codes, and the position of each code; ``unseen`` has the categories without a position, by column."""

    engine: Engine
    positions: tuple[FloatArray, ...]
    unseen: Mapping[str, tuple[str, ...]]


def encode_later_data(
    recoding: Recoding, engine: Engine, sensitive: Mapping[str, Dictionary] | None = None
) -> EncodedLaterData:
    """Encode later data for a recoding; ``sensitive`` has the dictionaries of other columns."""
    names = engine.schema().names
    wanted = (*(f.name for f in recoding.fields), *recoding.output.unchanged)
    for name in wanted:
        if name not in names:
            remedy = "Correct the name in the table, or add the column."
            raise PolicyError(explain_absent_column(name, wanted, names, remedy))
    readings = {f.name: Reading(READ_AS[f.kind], recoding.output.missing) for f in recoding.fields}  # type: ignore[arg-type]
    engine.prepare(readings)
    dictionaries, positions, unseen = dict(sensitive or {}), [], {}
    for field in recoding.fields:
        distinct = engine.distinct(field.name, readings[field.name])
        located = field.locate(distinct)
        if np.isnan(located).any():
            unseen[field.name] = tuple(str(v) for v in distinct.values[np.isnan(located)])
        ascending = np.unique(np.append(located, np.inf))  # NaN comes last, after the missing value
        codes = np.searchsorted(ascending, located).astype(np.int32)
        missing = int(np.searchsorted(ascending, np.inf))
        dictionaries[field.name] = Dictionary(readings[field.name], distinct, codes, missing)
        positions.append(ascending)
    return EncodedLaterData(engine.encode(dictionaries, carry=recoding.output.unchanged), tuple(positions), unseen)


def apply(recoding: Recoding, data: Any, *, nearest: bool) -> Any:
    """Recode later data; see `Boxes.apply`."""
    numeric = tuple(f.name for f in recoding.fields if f.kind != "categorical")
    source = open_data(data, Resources(numeric=numeric))
    encoded = encode_later_data(recoding, source)
    if encoded.unseen and not nearest:
        name, values = next(iter(encoded.unseen.items()))
        raise DataError(
            f"column {name!r} has values that are not in the recoding: {list_some(values)}. Anonymize all records together "
            "with a new recoding, or use the nearest box (nearest=True)."
        )
    names, engine = [f.name for f in recoding.fields], encoded.engine

    def plans() -> Iterator[Plan]:
        for number in range(engine.partition(names).partitions):
            counts = engine.count(names, partition=number)
            placement = recoding.place(LaterData(counts.quasi, encoded.positions))
            if not nearest:
                _refuse_outside(counts, placement.outside)
            cells = Placement.whole(counts, placement.group)
            columns = recoding.output.order_columns(source.schema().names, placement.columns)
            yield Plan(counts, cells.cell, cells.group, cells.count, columns)

    return engine.apply(plans()).frame()


def _refuse_outside(counts: Counts, outside: BoolArray) -> None:
    """Raise `DataError` with the number of records outside every box, if there are any."""
    records = int(counts.size[np.repeat(outside, np.diff(counts.start))].sum())
    if records:
        raise DataError(
            f"{format_count(records, 'record')} {'is' if records == 1 else 'are'} outside every box of the recoding. Anonymize "
            "all records together with a new recoding, or use the nearest box (nearest=True)."
        )


def descend_split_tree(
    later: LaterData, field: Int32Array, at: FloatArray, left: Int32Array, right: Int32Array, leaf: Int32Array
) -> Int32Array:
    """The value of the leaf that every combination reaches in a split tree."""
    codes = np.zeros(len(field), np.int32)
    for j, positions in enumerate(later.positions):
        of_field = field == j
        codes[of_field] = np.searchsorted(positions, at[of_field], side="right") - 1
    leaves: Int32Array = kernels.boxes.descend(later.quasi, field, codes, left, right, leaf)
    return leaves
