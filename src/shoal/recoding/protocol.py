"""What all recodings share: placing later data in groups, and the columns that are published for the groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.engines import Counts, Dictionary, Engine, GroupColumn, KeptColumn, Plan, Reading, open_data
from shoal.errors import DataError, PolicyError, list_choices, list_some
from shoal.policy import READ_AS
from shoal.recoding.field import Field


@dataclass(frozen=True)
class Placement:
    """Where every counted cell goes: entry ``p`` sends ``count[p]`` records of cell ``cell[p]`` to ``group[p]``."""

    cell: Int64Array
    group: Int32Array
    count: Int64Array

    @classmethod
    def whole(cls, counts: Counts, group: Int32Array) -> Placement:
        """Every combination goes to one group with all its cells."""
        cells = np.repeat(group, np.diff(counts.start)).astype(np.int32)
        return cls(np.arange(len(cells), dtype=np.int64), cells, counts.size)


@dataclass(frozen=True)
class Output:
    """What leaves the house beside the generalized columns, and what stands for a missing value in later data."""

    kept: tuple[str, ...]
    missing: tuple[str, ...]

    def columns(
        self, names: Sequence[str], written: Sequence[tuple[str, GroupColumn]]
    ) -> tuple[KeptColumn | GroupColumn, ...]:
        """The released columns in the order of the source."""
        found: list[KeptColumn | GroupColumn] = []
        for name in names:
            found += [w for source, w in written if source == name]
            if name in self.kept:
                found.append(KeptColumn(name))
        return tuple(found)


Columns = tuple[tuple[str, GroupColumn], ...]  # what is written per group, each with the column it comes from


@dataclass(frozen=True)
class LaterData:
    """Later data as a recoding sees them: distinct combinations of their own codes, and the position of each code."""

    quasi: Int32Array
    positions: tuple[FloatArray, ...]

    @property
    def unknown(self) -> BoolArray:
        """Which combinations hold a category that the recoding has never seen."""
        found = np.zeros(len(self.quasi), bool)
        for j, positions in enumerate(self.positions):
            found |= np.isnan(positions)[self.quasi[:, j]]
        return found


@dataclass(frozen=True)
class PlacedData:
    """The group of every combination of later data (-1: suppressed), and what is written for the groups.

    ``outside`` are those that no group holds: their group is the nearest, and its labels are not true of them.
    """

    group: Int32Array
    outside: BoolArray
    written: Columns


class Recoding(Protocol):
    """What a method learned, ready to be applied."""

    kind: ClassVar[str]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The quasi-identifiers."""
        ...

    @property
    def output(self) -> Output:
        """What else leaves the house."""
        ...

    def place(self, later: LaterData) -> PlacedData:
        """Where the combinations of later data go, and what is written for the groups."""
        ...

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """The same recoding on later data."""
        ...

    def to_json(self) -> str:
        """The recoding as JSON text."""
        ...


@dataclass(frozen=True)
class LocatedData:
    """Later data with codes, and the position of each code; ``unseen`` are the categories that have none, by column."""

    engine: Engine
    positions: tuple[FloatArray, ...]
    unseen: Mapping[str, tuple[str, ...]]


def locate_later_data(
    recoding: Recoding, engine: Engine, secrets: Mapping[str, Dictionary] | None = None
) -> LocatedData:
    """Give later data the codes by which a recoding places them, and confidential columns those of ``secrets``."""
    names = engine.schema().names
    for name in (*(f.name for f in recoding.fields), *recoding.output.kept):
        if name not in names:
            raise PolicyError(f"column {name!r} is not in the table; {list_choices(name, names)}")
    readings = {f.name: Reading(READ_AS[f.kind], recoding.output.missing) for f in recoding.fields}  # type: ignore[arg-type]
    engine.prepare(readings)
    dictionaries, positions, unseen = dict(secrets or {}), [], {}
    for field in recoding.fields:
        distinct = engine.distinct(field.name, readings[field.name])
        found = field.locate(distinct)
        if np.isnan(found).any():
            unseen[field.name] = tuple(str(v) for v in distinct.values[np.isnan(found)])
        ascending = np.unique(np.append(found, np.inf))  # NaN comes last, behind the missing value
        codes = np.searchsorted(ascending, found).astype(np.int32)
        missing = int(np.searchsorted(ascending, np.inf))
        dictionaries[field.name] = Dictionary(readings[field.name], distinct, codes, missing)
        positions.append(ascending)
    return LocatedData(engine.encode(dictionaries, carry=recoding.output.kept), tuple(positions), unseen)


def apply(recoding: Recoding, data: Any, *, nearest: bool) -> Any:
    """Recode later data as the first were; see `Boxes.apply`."""
    source = open_data(data)
    located = locate_later_data(recoding, source)
    if located.unseen and not nearest:
        name, lost = next(iter(located.unseen.items()))
        raise DataError(
            f"column {name!r} holds values that the recoding has never seen: {list_some(lost)}; learn it anew, or ask for the "
            "nearest box"
        )
    columns, engine = [f.name for f in recoding.fields], located.engine

    def plans() -> Iterator[Plan]:
        for part in range(engine.partition(columns).partitions):
            counts = engine.count(columns, partition=part)
            placed = recoding.place(LaterData(counts.quasi, located.positions))
            if not nearest:
                _refuse_outside(counts, placed.outside)
            where = Placement.whole(counts, placed.group)
            listed = recoding.output.columns(source.schema().names, placed.written)
            yield Plan(counts, where.cell, where.group, where.count, listed)

    return engine.apply(plans()).frame()


def _refuse_outside(counts: Counts, outside: BoolArray) -> None:
    """An error that counts the records that no box holds."""
    records = int(counts.size[np.repeat(outside, np.diff(counts.start))].sum())
    if records:
        raise DataError(
            f"{records} records lie outside every box of the recoding; learn it anew on all records, or ask for the nearest "
            "box"
        )


def descend_split_tree(
    later: LaterData, field: Int32Array, at: FloatArray, left: Int32Array, right: Int32Array, leaf: Int32Array
) -> Int32Array:
    """Where every combination ends that falls through a tree of cuts in positions."""
    codes = np.zeros(len(field), np.int32)
    for j, positions in enumerate(later.positions):
        mine = field == j
        codes[mine] = np.searchsorted(positions, at[mine], side="right") - 1
    found: Int32Array = kernels.boxes.descend(later.quasi, field, codes, left, right, leaf)
    return found
