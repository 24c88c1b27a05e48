"""What all recodings share: the fields they were learned on, what they publish, and how they meet later data."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.engines import Counts, Dictionary, Distinct, Engine, Kept, Plan, Reading, Written, open_data
from shoal.errors import DataError, PolicyError, choices, some
from shoal.formats.checked_json import array, array_to_json, member, objects, require, texts
from shoal.formats.column_pairs import pair_names
from shoal.policy import READ_AS, Policy
from shoal.policy.columns import FITTING
from shoal.taxonomy import Balanced, Maker, Taxonomy, maker_of


@dataclass(frozen=True)
class Field:
    """One quasi-identifier as a recoding remembers it: enough to place a value that it has never seen.

    A place is a value's position (see `codes.Attribute`): a number, or the leaf code in the remembered tree; infinity for
    missing, NaN for a category that cannot be placed.
    """

    name: str
    kind: Literal["numeric", "categorical", "date"]
    span: float
    taxonomy: Taxonomy | None = None
    maker: Maker | None = None

    def __post_init__(self) -> None:
        where = f"the field {self.name!r}"
        require(self.kind in READ_AS, f"{where} has an unknown kind; {choices(self.kind, list(READ_AS))}")
        require(math.isfinite(self.span) and self.span > 0, f"{where} must have a finite span above 0")
        if self.kind == "categorical" or self.maker is not None:
            require(self.taxonomy is not None, f"{where} has no taxonomy")
        else:
            require(self.taxonomy is None, f"{where} has a taxonomy, but no rule that places its values")
        if self.maker is not None:
            fits = self.kind in FITTING[self.maker.word]
            if isinstance(self.maker, Balanced):
                fits &= self.maker.numeric == (self.kind == "numeric")
            require(fits, f"{where} is {self.kind}, which {self.maker.word!r} does not place")

    @classmethod
    def of(cls, attribute: Attribute, policy: Policy) -> Field:
        """What to remember of an attribute."""
        maker = policy.quasi[attribute.name].maker
        return cls(attribute.name, attribute.kind, attribute.span, attribute.taxonomy, maker)

    def locate(self, distinct: Distinct) -> FloatArray:
        """The position of each distinct value of later data."""
        tree, maker = self.taxonomy, self.maker
        if tree is None:
            return np.asarray(distinct.values, np.float64)
        if maker is None:
            return np.array([tree.code.get(str(v), np.nan) for v in distinct.values], np.float64)
        paths = [maker.path(v) for v in distinct.values]
        return np.array([tree.code[p[0]] if p[0] in tree.code else self._between(p) for p in paths], np.float64)

    def _between(self, path: list[str]) -> float:
        """A value that was never seen stands between its neighbours, inside the node that holds it."""
        tree, maker = self.taxonomy, self.maker
        assert tree is not None and maker is not None  # noqa: S101
        position = bisect_left(self._keys, maker.key(path[0])) - 0.5
        node = next((self._nodes[label] for label in path if label in self._nodes), 0)
        if node:
            beside = (_slack(int(tree.height[node])) + _slack(int(tree.height[node]) - 1)) / 2
            position = float(min(max(position, tree.lo[node] - beside), tree.hi[node] + beside))
        return position

    @cached_property
    def _keys(self) -> list[Any]:
        assert self.taxonomy is not None and self.maker is not None  # noqa: S101
        return [self.maker.key(label) for label in self.taxonomy.leaves if label is not None]

    @cached_property
    def _nodes(self) -> dict[str, int]:
        """The branches by their labels."""
        assert self.taxonomy is not None  # noqa: S101
        tree = self.taxonomy
        return {str(tree.label[n]): n for n in np.flatnonzero(tree.height > 0)[::-1].tolist()}

    def extent(self, node: int) -> tuple[float, float]:
        """The positions that a published node holds: a leaf itself alone, the root everything."""
        tree = self.taxonomy
        assert tree is not None  # noqa: S101
        if node == 0:
            return -np.inf, np.inf
        if tree.label[node] is None:
            return np.inf, np.inf
        slack = _slack(int(tree.height[node]))
        return float(tree.lo[node]) - slack, float(tree.hi[node]) + slack

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found: dict[str, Any] = {"name": self.name, "kind": self.kind, "span": self.span}
        if self.taxonomy is not None:
            found["taxonomy"] = self.taxonomy.to_nested() if len(self.taxonomy.label) > 1 else {"*": []}
            found["missing"] = self.taxonomy.label[-1] is None
            found["made"] = self.taxonomy.made
        if self.maker is not None:
            found["maker"] = self.maker.to_dict()
        return found

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Field:
        """Back from JSON."""
        tree = None
        if "taxonomy" in found:
            nested, missing, made = (
                member(found, key, kind) for key, kind in (("taxonomy", dict), ("missing", bool), ("made", bool))
            )
            tree = Taxonomy.flat([]) if list(nested.values()) == [[]] else Taxonomy.from_nested(nested, made=made)
            tree = tree.with_missing() if missing else tree
        name, kind, span = member(found, "name", str), member(found, "kind", str), member(found, "span", float)
        maker = maker_of(member(found, "maker", dict)) if "maker" in found else None
        field = cls(name, kind, span, tree, maker)
        if maker is not None:
            field._keys  # noqa: B018  leaves that the rule cannot read are an error here, not when a new value comes
        return field


def _slack(height: int) -> float:
    """How far a node reaches beyond its codes: more than the nodes below it, so that a new value can stand in between."""
    return float(0.5 - 0.5 * 2.0**-height)


@dataclass(frozen=True)
class Placement:
    """Where every counted cell goes: entry ``p`` sends ``weight[p]`` records of cell ``cell[p]`` to ``group[p]``."""

    cell: Int64Array
    group: Int32Array
    weight: Int64Array

    @classmethod
    def whole(cls, counts: Counts, group: Int32Array) -> Placement:
        """Every combination goes to one group with all its cells."""
        cells = np.repeat(group, np.diff(counts.start)).astype(np.int32)
        return cls(np.arange(len(cells), dtype=np.int64), cells, counts.weight)


@dataclass(frozen=True)
class Output:
    """What leaves the house beside the generalized columns, and what stands for a missing value in later data."""

    kept: tuple[str, ...]
    missing: tuple[str, ...]

    def columns(self, names: Sequence[str], written: Sequence[tuple[str, Written]]) -> tuple[Kept | Written, ...]:
        """The released columns in the order of the source."""
        found: list[Kept | Written] = []
        for name in names:
            found += [w for source, w in written if source == name]
            if name in self.kept:
                found.append(Kept(name))
        return tuple(found)


Columns = tuple[tuple[str, Written], ...]  # what is written per group, each with the column it comes from


@dataclass(frozen=True)
class Later:
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
class Placed:
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

    def place(self, later: Later) -> Placed:
        """Where the combinations of later data go, and what is written for the groups."""
        ...

    def apply(self, data: Any, *, nearest: bool = False) -> Any:
        """The same recoding on later data."""
        ...

    def to_json(self) -> str:
        """The recoding as JSON text."""
        ...


@dataclass(frozen=True)
class Located:
    """Later data with codes, and the position of each code; ``unseen`` are the categories that have none, by column."""

    engine: Engine
    positions: tuple[FloatArray, ...]
    unseen: Mapping[str, tuple[str, ...]]


def locate(recoding: Recoding, engine: Engine, secrets: Mapping[str, Dictionary] | None = None) -> Located:
    """Give later data the codes by which a recoding places them, and confidential columns those of ``secrets``."""
    names = engine.schema().names
    for name in (*(f.name for f in recoding.fields), *recoding.output.kept):
        if name not in names:
            raise PolicyError(f"column {name!r} is not in the table; {choices(name, names)}")
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
    return Located(engine.encode(dictionaries, carry=recoding.output.kept), tuple(positions), unseen)


def apply(recoding: Recoding, data: Any, *, nearest: bool) -> Any:
    """Recode later data as the first were; see `Boxes.apply`."""
    source = open_data(data)
    located = locate(recoding, source)
    if located.unseen and not nearest:
        name, lost = next(iter(located.unseen.items()))
        raise DataError(
            f"column {name!r} holds values that the recoding has never seen: {some(lost)}; learn it anew, or ask for the "
            "nearest box"
        )
    columns, engine = [f.name for f in recoding.fields], located.engine

    def plans() -> Iterator[Plan]:
        for part in range(engine.divide(columns).parts):
            counts = engine.count(columns, part=part)
            placed = recoding.place(Later(counts.quasi, located.positions))
            if not nearest:
                _refuse_outside(counts, placed.outside)
            where = Placement.whole(counts, placed.group)
            listed = recoding.output.columns(source.schema().names, placed.written)
            yield Plan(counts, where.cell, where.group, where.weight, listed)

    return engine.apply(plans()).frame()


def _refuse_outside(counts: Counts, outside: BoolArray) -> None:
    """An error that counts the records that no box holds."""
    records = int(counts.weight[np.repeat(outside, np.diff(counts.start))].sum())
    if records:
        raise DataError(
            f"{records} records lie outside every box of the recoding; learn it anew on all records, or ask for the nearest "
            "box"
        )


def descended(
    later: Later, field: Int32Array, at: FloatArray, left: Int32Array, right: Int32Array, leaf: Int32Array
) -> Int32Array:
    """Where every combination ends that falls through a tree of cuts in positions."""
    codes = np.zeros(len(field), np.int32)
    for j, positions in enumerate(later.positions):
        mine = field == j
        codes[mine] = np.searchsorted(positions, at[mine], side="right") - 1
    found: Int32Array = kernels.boxes.descend(later.quasi, field, codes, left, right, leaf)
    return found


def head_to_dict(recoding: Recoding) -> dict[str, Any]:
    """What every recoding says first, for JSON."""
    return {
        "kind": recoding.kind,
        "fields": [f.to_dict() for f in recoding.fields],
        "kept": list(recoding.output.kept),
        "missing": list(recoding.output.missing),
    }


def head_from_dict(found: Mapping[str, Any]) -> tuple[tuple[Field, ...], Output]:
    """Back from JSON."""
    fields = tuple(Field.from_dict(f) for f in objects(found, "fields"))
    return fields, Output(texts(found, "kept"), texts(found, "missing"))


def written_to_dict(written: Sequence[tuple[str, Written]]) -> list[dict[str, Any]]:
    """What is published per group, for JSON."""
    return [
        {"source": source, "name": w.name, "values": w.values.tolist(), "index": array_to_json(w.index)}
        for source, w in written
    ]


def written_from_dict(found: Mapping[str, Any]) -> Columns:
    """Back from JSON."""
    made = []
    for entry in objects(found, "written"):
        listed = member(entry, "values", list)
        numeric = bool(listed) and type(listed[0]) is not str
        values = array(entry, "values", np.float64, (None,)) if numeric else np.array(texts(entry, "values"), object)
        index = array(entry, "index", np.int32, (None,))
        made.append((member(entry, "source", str), Written(member(entry, "name", str), values, index)))
    return tuple(made)


def tree_from_dict(
    found: Mapping[str, Any], leaf: str
) -> tuple[Int32Array, FloatArray, Int32Array, Int32Array, Int32Array]:
    """The arrays of a tree of cuts from JSON; ``leaf`` is the key of what its leaves lead to."""
    field = array(found, "field", np.int32, (None,))
    left, right, leaves = (array(found, name, np.int32, field.shape) for name in ("left", "right", leaf))
    return field, array(found, "at", np.float64, field.shape), left, right, leaves


def check_head(fields: Sequence[Field], output: Output) -> None:
    """`DataError` unless every column is named once."""
    names = [*(f.name for f in fields), *output.kept]
    require(len(fields) > 0, "the recoding has no field")
    require(len(set(names)) == len(names), "the recoding names a column twice, as a field or under 'kept'")


def check_boxes(fields: Sequence[Field], lo: FloatArray, hi: FloatArray) -> None:
    """`DataError` unless every box has two ends in every field."""
    shape = len(lo), len(fields)
    require(lo.shape == shape and hi.shape == shape, "the ends of the boxes do not fit the fields")
    require((lo <= hi).all(), "a box ends before it begins")


def check_written(fields: Sequence[Field], output: Output, written: Columns, groups: int) -> None:
    """`DataError` unless every field is published, under its own names, with a value for each of the groups."""
    names: dict[str, list[str]] = {f.name: [] for f in fields}
    for source, column in written:
        require(source in names, f"the published column {column.name!r} comes from {source!r}, which is no field")
        names[source].append(column.name)
        index = column.index
        require(len(index) == groups, f"the published column {column.name!r} does not have one entry for each group")
        inside = ((index >= -1) & (index < len(column.values))).all()
        require(inside, f"the published column {column.name!r} points at a value that it does not have")
        finite = column.values.dtype == object or np.isfinite(column.values).all()
        require(finite, f"the published column {column.name!r} holds a number that is not finite")
    for name, listed in names.items():
        low, high = pair_names(name)
        fits = listed in ([name], [low, high])
        require(fits, f"the field {name!r} must be published as {name!r}, or as {low!r} and {high!r}")
    every = [*(column.name for _, column in written), *output.kept]
    require(len(set(every)) == len(every), "the recoding publishes two columns under one name")


def check_tree(
    fields: int, field: Int32Array, at: FloatArray, left: Int32Array, right: Int32Array, leaf: Int32Array, leaves: int
) -> None:
    """`DataError` unless the nodes are one tree, its cuts are cuts of fields, and its leaves lead to one of ``leaves``."""
    nodes = len(field)
    equal = all(len(other) == nodes for other in (at, left, right, leaf))
    require(nodes > 0 and equal, "the arrays of the tree of cuts differ in length")
    require(((field >= -1) & (field < fields)).all(), "the tree of cuts names a field that is not there")
    inner = np.flatnonzero(field >= 0)
    require(not np.isnan(at[inner]).any(), "the tree of cuts has a cut that is no number")
    below = np.concatenate([left[inner], right[inner]])
    require(((below > 0) & (below < nodes)).all(), "the tree of cuts has a child that is not there")
    once = (np.bincount(below, minlength=nodes)[1:] == 1).all()
    require(
        once and _reaches_root(inner, below, nodes), "the tree of cuts does not reach every node once from its root"
    )
    ends = leaf[field < 0]
    require(((ends >= -1) & (ends < leaves)).all(), "the tree of cuts leads to a group that is not there")


def _reaches_root(inner: Int64Array, below: Int32Array, nodes: int) -> bool:
    """Whether every node has the root above it, where each has one parent; others are in a cycle."""
    parent = np.concatenate([inner, inner])
    if (below > parent).all():  # the order in which methods number the nodes
        return True
    above = np.zeros(nodes, np.int64)
    above[below] = parent
    for _ in range(nodes.bit_length()):  # every round doubles the steps
        if not above.any():
            break
        above = above[above]
    return not above.any()
