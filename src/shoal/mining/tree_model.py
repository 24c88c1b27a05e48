"""A decision tree as it is published: tests on values in words and numbers, and the populations of its leaves.

A published tree holds no codes: the codes of a column list all its values. A cut of numbers is published as the roundest number
between the values on both sides, a level of a taxonomy as the labels of its nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from shoal.arrays import FloatArray, Int32Array, Int64Array
from shoal.encoding.attributes import Attribute
from shoal.engines import Engine
from shoal.errors import PolicyError, list_choices
from shoal.formats.checked_json import member, refuse_unknown, require
from shoal.formats.dates import format_date, parse_date
from shoal.formats.numbers import format_number
from shoal.kernels.interface import CUT
from shoal.mining.grow import InducedTree
from shoal.mining.model_columns import ModelColumn, describe_column, locate_columns, read_column
from shoal.policy import Policy
from shoal.spans import CellTree, Condition

Populations = Literal["bins", "frequencies", "majority", "nothing"]
POPULATIONS = get_args(Populations)
FORMAT, VERSION = "shoal-tree", 1
OTHER = "any other value"
MISSING = "missing"
MOST_RECORDS = 2**53  # larger counts are not exact as numbers
LARGEST_CUT = float(np.finfo(np.float64).max)
UNITS = ("Y", "M", "D", "h", "m", "s", "ms", "us")  # of dates, from coarse to fine


@dataclass(frozen=True)
class ModelNode:
    """A node of a published tree: a leaf, a cut of numbers (``cut``), or children by label.

    A number up to ``cut`` goes to the first child, every other number and a missing value to the second. ``labels`` has the
    label of each child, None for missing values. With ``other`` one more child has all other values.
    """

    column: str | None = None
    cut: float | None = None
    labels: tuple[str | None, ...] = ()
    other: bool = False
    children: tuple[int, ...] = ()
    statistics: tuple[float, ...] = ()

    def choose(self, value: Any) -> int:
        """The child of a located value; -1 if no child has the value."""
        if self.cut is not None:
            return self.children[0 if value <= self.cut else 1]
        if value is None:
            if None in self.labels:
                return self.children[self.labels.index(None)]
            return self.children[-1] if self.other else -1
        for label, child in zip(self.labels, self.children, strict=False):
            if label is not None and label in value:
                return child
        return self.children[-1] if self.other else -1


@dataclass(frozen=True)
class TreeModel:
    """A decision tree as it is published; ``target`` is its class, with the values ``classes``.

    ``populations`` is the kind of statistics of the leaves: the records of every class (``bins``), their shares
    (``frequencies``), the most frequent class (``majority``), or ``nothing``.
    """

    target: str
    classes: tuple[str | None, ...]
    columns: Mapping[str, ModelColumn]
    nodes: tuple[ModelNode, ...]
    populations: Populations = "bins"
    missing: tuple[str, ...] = field(default=("",))

    @classmethod
    def of(cls, tree: InducedTree, policy: Policy, target: str, private: Sequence[str]) -> TreeModel:
        """The published form of a tree that was learned with a policy."""
        columns = {
            f.name: describe_column(f, policy, public=f.name not in private)
            for f in tree.features
            if (tree.nodes.attribute == tree.features.index(f)).any()
        }
        nodes = [_describe_node(tree, n) for n in range(len(tree.nodes.attribute))]
        return cls(target, tree.class_labels, columns, tuple(nodes), missing=policy.missing_texts)

    @cached_property
    def parent(self) -> Int32Array:
        """The parent of every node; the root is its own parent."""
        parent = np.zeros(len(self.nodes), np.int32)
        for n, node in enumerate(self.nodes):
            parent[list(node.children)] = n
        return parent

    @property
    def leaves(self) -> list[int]:
        """The numbers of the leaves."""
        return [n for n, node in enumerate(self.nodes) if node.column is None]

    @cached_property
    def probabilities(self) -> FloatArray:
        """The share of every class in every node [node, class]; an empty leaf has the shares of the node above it."""
        shares = np.zeros((len(self.nodes), len(self.classes)))
        for n in range(len(self.nodes) - 1, -1, -1):  # children have larger numbers than their parents
            node = self.nodes[n]
            if node.column is not None:
                shares[n] = shares[list(node.children)].sum(axis=0)
            elif self.populations == "majority":
                if node.statistics:
                    shares[n, int(node.statistics[0])] = 1.0
            elif self.populations != "nothing":
                shares[n] = node.statistics
        for n in range(len(self.nodes)):
            total = shares[n].sum()
            above = shares[self.parent[n]] if n else np.full(len(self.classes), 1 / max(len(self.classes), 1))
            shares[n] = shares[n] / total if total else above
        return shares

    def condition(self, n: int) -> Condition | None:
        """The test by which a node is reached from its parent; None for the root."""
        if n == 0:
            return None
        parent = self.nodes[self.parent[n]]
        assert parent.column is not None  # noqa: S101
        place = parent.children.index(n)
        if parent.cut is not None:
            return self._describe_cut(parent, below=place == 0)
        if place >= len(parent.labels):
            return Condition(parent.column, f"is {OTHER}")
        label = parent.labels[place]
        return Condition(parent.column, f"is {MISSING}" if label is None else f"is {label}")

    def _describe_cut(self, node: ModelNode, *, below: bool) -> Condition:
        assert node.cut is not None and node.column is not None  # noqa: S101
        if math.isinf(node.cut):
            return Condition(node.column, "is not missing" if below else f"is {MISSING}")
        if self.columns[node.column].quasi.kind == "date":
            day = format_date(math.nextafter(node.cut, math.inf))
            text = f"before {day}" if below else f"{day} or later"
        else:
            text = f"{'at most' if below else 'above'} {format_number(node.cut)}"
        return Condition.of_cut(node.column, node.cut, text, below=below)

    def locate(self, engine: Engine) -> tuple[dict[str, list[Any]], dict[str, Int32Array]]:
        """Read the tested columns of a table: the located values by code, and the code of every record."""
        return locate_columns(self.columns, engine)

    def cell_tree(self, values: Mapping[str, Sequence[Any]]) -> CellTree:
        """The tree over the located values of a table; ``child`` is -1 where no child has the value."""
        names = tuple(self.columns)
        cut = np.full(len(self.nodes), -1, np.int64)
        rank, numbers = [], {}
        for name, column in self.columns.items():
            located = np.array(values[name], np.float64) if column.has_numbers else np.zeros(0)
            numbers[name] = np.unique(located[~np.isnan(located)])
            rank.append(np.searchsorted(numbers[name], located))  # missing values have the largest rank
        child = []
        for n, node in enumerate(self.nodes):
            if node.column is None:
                child.append(np.zeros(0, np.int32))
            elif node.cut is not None:
                child.append(np.array(node.children, np.int32))
                cut[n] = np.searchsorted(numbers[node.column], node.cut, side="right")
            else:
                child.append(np.array([node.choose(v) for v in values[node.column]], np.int32))
        return CellTree(
            names,
            np.array([-1 if n.column is None else names.index(n.column) for n in self.nodes], np.int32),
            tuple(child),
            self.parent,
            tuple(self.condition(n) for n in range(len(self.nodes))),
            self.classes,
            cut,
            tuple(rank),
        )

    def find_nodes(self, engine: Engine) -> Int64Array:
        """The node of every record of a table: its leaf, or the node in which no child has its value."""
        values, codes = self.locate(engine)
        tree = self.cell_tree(values)
        return tree.route([codes[name] for name in tree.columns], engine.schema().rows)

    def counts_records(self, records: Int64Array) -> bool:
        """Whether the leaves of the tree hold these numbers of records [node, class]."""
        leaves = self.leaves
        return np.array_equal(records[leaves], np.array([self.nodes[n].statistics for n in leaves]))

    def with_populations(self, kind: str) -> TreeModel:
        """The tree with fewer statistics in its leaves."""
        if kind not in POPULATIONS:
            raise PolicyError(f"unknown value {kind!r} for 'populations'; {list_choices(str(kind), POPULATIONS)}")
        if kind == self.populations:
            return self
        if self.populations != "bins":
            raise PolicyError(f"the tree holds no records of classes, only {self.populations!r}.")
        nodes = tuple(node if node.column is not None else _reduce_statistics(node, kind) for node in self.nodes)
        return TreeModel(self.target, self.classes, self.columns, nodes, kind, self.missing)  # type: ignore[arg-type]

    def export_text(self) -> str:
        """The tree as indented text, with the statistics of every leaf."""
        lines, waiting = [], [(0, 0)]
        while waiting:
            n, depth = waiting.pop()
            node, condition = self.nodes[n], self.condition(n)
            indent = "|   " * max(depth - 1, 0) + ("|-- " if depth else "")
            head = str(condition) if condition is not None else "all records"
            lines.append(indent + head + (f": {self.describe_leaf(n)}" if node.column is None else ""))
            waiting += [(child, depth + 1) for child in reversed(node.children)]
        return "\n".join(lines) + "\n"

    def describe_leaf(self, n: int) -> str:
        """The statistics of a leaf in words."""
        node = self.nodes[n]
        if self.populations == "nothing":
            return f"leaf {n}"
        if self.populations == "majority":
            return self._name_class(int(node.statistics[0])) if node.statistics else "no records"
        if not any(node.statistics):
            return "no records"
        texts = [f"{s:,.0f}" if self.populations == "bins" else f"{100 * s:.1f} %" for s in node.statistics]
        return ", ".join(
            f"{self._name_class(c)} {text}" for c, (text, s) in enumerate(zip(texts, node.statistics, strict=True)) if s
        )

    def _name_class(self, c: int) -> str:
        label = self.classes[c]
        return MISSING if label is None else label

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain values, for JSON."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "target": self.target,
            "classes": list(self.classes),
            "populations": self.populations,
            "missing": list(self.missing),
            "columns": {name: column.to_dict() for name, column in self.columns.items()},
            "nodes": [self._node_to_dict(node) for node in self.nodes],
        }

    def _node_to_dict(self, node: ModelNode) -> dict[str, Any]:
        if node.column is None:
            return {"leaf": [int(s) if self.populations != "frequencies" else s for s in node.statistics]}
        if node.cut is None:
            test = {"labels": list(node.labels)} | ({"other": True} if node.other else {})
            return {"column": node.column, **test, "children": list(node.children)}
        if math.isinf(node.cut):
            return {"column": node.column, "not_missing": True, "children": list(node.children)}
        if self.columns[node.column].quasi.kind == "date":
            day = format_date(math.nextafter(node.cut, math.inf))
            return {"column": node.column, "before": day, "children": list(node.children)}
        return {"column": node.column, "at_most": _plain(node.cut), "children": list(node.children)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> TreeModel:
        """Read a tree from the content of its JSON file."""
        require(isinstance(found, Mapping), "a tree must be an object")
        refuse_unknown(found, ("format", "version", "target", "classes", "populations", "missing", "columns", "nodes"))
        require(found.get("format") == FORMAT, f"'format' must be {FORMAT!r}")
        require(found.get("version") == VERSION, f"'version' must be {VERSION}")
        classes = member(found, "classes", list)
        require(
            bool(classes) and all(isinstance(c, str) or c is None for c in classes), "'classes' must be a list of texts"
        )
        require(len(set(classes)) == len(classes), "'classes' must differ")
        populations = member(found, "populations", str)
        require(populations in POPULATIONS, f"'populations' must be one of {', '.join(POPULATIONS)}")
        missing = tuple(member(found, "missing", list))
        require(all(isinstance(m, str) for m in missing), "'missing' must be a list of texts")
        columns = {name: read_column(name, body, missing) for name, body in member(found, "columns", dict).items()}
        bodies = member(found, "nodes", list)
        require(bool(bodies), "'nodes' must not be empty")
        nodes = [_read_node(n, body, columns, len(bodies), len(classes), populations) for n, body in enumerate(bodies)]
        below = [c for node in nodes for c in node.children]
        require(sorted(below) == list(range(1, len(nodes))), "every node but the first must be the child of one node")
        return cls(member(found, "target", str), tuple(classes), columns, tuple(nodes), populations, missing)


def _describe_node(tree: InducedTree, n: int) -> ModelNode:
    nodes = tree.nodes
    a, first = int(nodes.attribute[n]), int(nodes.first_child[n])
    if a < 0:
        return ModelNode(statistics=tuple(nodes.classes[n].tolist()))
    feature, children = tree.features[a], tuple(range(first, first + int(nodes.children[n])))
    if nodes.level[n] == CUT:
        at = int(nodes.at[n])
        return ModelNode(feature.name, find_round_number(feature, at), children=children)
    taxonomy, other = feature.taxonomy, bool(nodes.has_other[n])
    assert taxonomy is not None  # noqa: S101
    named = np.array(children[: len(children) - other])
    labels = [taxonomy.label[v] for v in taxonomy.covers(nodes.lo[named, a], nodes.hi[named, a]).tolist()]
    return ModelNode(feature.name, None, tuple(labels), other, children)


def find_round_number(feature: Attribute, at: int) -> float:
    """The published cut between the values of code ``at`` and the next: the roundest number, near the middle.

    It is not below the first value and below the second. Infinity separates numbers from missing values.
    """
    low, high = float(feature.position[at]), float(feature.position[at + 1])
    if math.isinf(high):
        return math.inf
    return _find_round_date(low, high) if feature.kind == "date" else _find_round_decimal(low, high)


def _find_round_decimal(low: float, high: float) -> float:
    middle = Decimal(low) + (Decimal(high) - Decimal(low)) / 2
    exponent = max(abs(low), abs(high))
    digit = math.ceil(math.log10(exponent)) if exponent > 0 else 0
    for place in range(digit, digit - 18, -1):
        step = Decimal(1).scaleb(place)
        below = (middle / step).to_integral_value(ROUND_FLOOR)
        numbers = [float(below * step), float((below + 1) * step)]
        fitting = [number for number in numbers if low <= number < high]
        if fitting:
            return min(fitting, key=lambda number: abs(Decimal(number) - middle))
    return low


def _find_round_date(low: float, high: float) -> float:
    """The last number before the first day, hour or other unit between two dates, which are exact to a microsecond."""
    moment = np.datetime64(round(Decimal(high) * 1_000_000), "us")
    for unit in UNITS:
        start = int(moment.astype(f"datetime64[{unit}]").astype("datetime64[us]").astype(np.int64)) / 1_000_000
        if low < start <= high:
            return math.nextafter(start, -math.inf)
    return low


def _reduce_statistics(node: ModelNode, kind: str) -> ModelNode:
    total = sum(node.statistics)
    if kind == "nothing" or not total:
        kept: tuple[float, ...] = () if kind != "frequencies" else node.statistics
    elif kind == "majority":
        kept = (float(np.argmax(node.statistics)),)
    else:
        kept = tuple(round(s / total, 6) for s in node.statistics)
    return ModelNode(statistics=kept)


def _plain(number: float) -> int | float:
    return int(number) if float(number).is_integer() and abs(number) < 2**53 else number


def _read_node(
    n: int, body: Any, columns: Mapping[str, ModelColumn], nodes: int, classes: int, populations: str
) -> ModelNode:
    where = f"node {n}"
    require(isinstance(body, Mapping), f"{where} must be a mapping")
    if "leaf" in body:
        refuse_unknown(body, ("leaf",))
        numbers = member(body, "leaf", list)
        require(
            all(type(s) in (int, float) and 0 <= s < MOST_RECORDS for s in numbers),
            f"the statistics of {where} must be numbers of at least 0, below {MOST_RECORDS:,}",
        )
        require(
            populations == "frequencies" or all(type(s) is int for s in numbers),
            f"the statistics of {where} must be whole numbers",
        )
        if populations in ("bins", "frequencies"):
            require(len(numbers) == classes, f"{where} must have one number for every class")
        elif populations == "majority":
            require(len(numbers) <= 1 and all(s in range(classes) for s in numbers), f"{where} must name one class")
        else:
            require(not numbers, f"{where} must have no statistics")
        return ModelNode(statistics=tuple(numbers))
    refuse_unknown(body, ("column", "labels", "other", "not_missing", "before", "at_most", "children"))
    name = member(body, "column", str)
    require(name in columns, f"{where} tests the column {name!r}, which is not among 'columns'")
    children = member(body, "children", list)
    require(
        all(type(c) is int and n < c < nodes for c in children),
        f"the children of {where} must be nodes with larger numbers",
    )
    tests = [key for key in ("labels", "not_missing", "before", "at_most") if key in body]
    require(len(tests) == 1, f"{where} must have one of 'labels', 'at_most', 'before' and 'not_missing'")
    if tests[0] == "labels":
        require(not columns[name].has_numbers, f"{where} tests the numbers of {name!r} with labels")
        labels, other = member(body, "labels", list), "other" in body and member(body, "other", bool)
        require(all(isinstance(v, str) or v is None for v in labels), f"the labels of {where} must be texts")
        require(len(children) == len(labels) + other, f"{where} must have one child for every label")
        return ModelNode(name, None, tuple(labels), other, tuple(children))
    require(columns[name].has_numbers and "other" not in body, f"{where} tests the labels of {name!r} with a cut")
    require(len(children) == 2, f"{where} must have two children")
    if tests[0] == "not_missing":
        return ModelNode(name, math.inf, children=tuple(children))
    is_date = columns[name].quasi.kind == "date"
    require(
        is_date == (tests[0] == "before"), f"{where} must compare {name!r} with a {'date' if is_date else 'number'}"
    )
    if tests[0] == "before":
        day = parse_date(member(body, "before", str))
        require(day is not None, f"'before' of {where} is no date")
        cut = math.nextafter(float(day), -math.inf)  # type: ignore[arg-type]
        return ModelNode(name, cut, children=tuple(children))
    cut = body["at_most"]
    require(
        type(cut) in (int, float) and -LARGEST_CUT <= cut <= LARGEST_CUT,
        f"'at_most' of {where} is no finite number",
    )
    return ModelNode(name, float(cut), children=tuple(children))
