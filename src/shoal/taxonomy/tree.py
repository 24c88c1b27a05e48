"""Taxonomies: every node covers an interval of leaf codes, numbered in depth-first order.

A tree may be unbalanced and a branch may have one child, so a node is identified by its id, not by its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from shoal.arrays import BoolArray, FloatArray, Int32Array
from shoal.errors import DataError, PolicyError, list_choices, list_some
from shoal.formats.html_text import MOST, render_list, render_table, render_view
from shoal.formats.labels import ROOT, format_branch
from shoal.formats.numbers import format_count, format_number, parse_number
from shoal.formats.yaml_writer import format_yaml
from shoal.taxonomy import tree_files
from shoal.taxonomy.balancing import join_neighbours
from shoal.taxonomy.nodes import LEAF, NodeCollector, Nodes, refuse_high

BY = ("level", "height")

Nested = Mapping[str, Any] | Sequence[Any] | str


class Derived(dict[str, Any]):
    """A nested tree, or a branch of one, that was derived from the data and is therefore never published.

    JSON and YAML writers treat it as a plain mapping.
    """


for _writer in ("SafeDumper", "Dumper", "CSafeDumper", "CDumper"):
    if hasattr(yaml, _writer):  # PyYAML knows no subclasses of dict, and may be built without its C library
        getattr(yaml, _writer).add_representer(Derived, yaml.SafeDumper.represent_dict)


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """A taxonomy (value generalization hierarchy). Create one with `from_nested`, `flat`, `from_paths`, `balanced` or `load`.

    Arrays by node id, in depth-first order: node 0 is the root, ``lo`` and ``hi`` are the first and last leaf code below
    the node, ``height`` is the length of the longest path down to a leaf. ``label[0]`` is the user's name of the root; a
    release writes ``*``. The leaf of missing values, if any, is the last leaf, directly under the root, with the label None.
    ``derived`` is True for a tree that was built from the data.

    >>> tree = Taxonomy.from_nested({"ANY": {"Partnered": ["Married", "Remarried"], "Alone": ["Single"]}})
    >>> tree.leaves, tree.height.tolist()
    (('Married', 'Remarried', 'Single'), [2, 1, 0, 0, 1, 0])
    >>> tree.label[tree.cover(0, 1)]
    'Partnered'
    """

    label: tuple[str | None, ...]
    parent: Int32Array
    lo: Int32Array
    hi: Int32Array
    level: Int32Array
    height: Int32Array
    derived: bool = field(default=False)

    @classmethod
    def _from_nodes(cls, nodes: Nodes, derived: bool) -> Taxonomy:
        return cls(nodes.label, nodes.parent, nodes.lo, nodes.hi, nodes.level, nodes.height, derived)

    @classmethod
    def from_nested(cls, tree: Nested, *, made: bool = False) -> Taxonomy:
        """Create a tree from nested mappings of branches and lists of leaves (or branches).

        A mapping with one key names the root. ``made=True``, or a mapping of the type `Derived` anywhere in the tree, marks
        the tree as derived from the data. A tree has at most 100 levels below its root.
        """
        if isinstance(tree, Mapping) and len(tree) == 1:
            ((root, body),) = tree.items()
        else:
            root, body = ROOT, tree
        nodes = NodeCollector()
        nodes.add_branch(str(root), body, -1)
        return cls._from_nodes(nodes.finish(), made or _has_derived_branch(tree))

    @classmethod
    def flat(cls, values: Iterable[str], *, made: bool = True) -> Taxonomy:
        """Create a tree of a root and leaves, in this order."""
        nodes = NodeCollector()
        nodes.add_leaves(ROOT, -1, list(values))
        return cls._from_nodes(nodes.finish(), made)

    @classmethod
    def from_paths(cls, rows: Iterable[Sequence[str]], *, made: bool = False) -> Taxonomy:
        """Create a tree from one row per leaf, from the leaf upward without the root; a label repeated upward is padding.

        >>> Taxonomy.from_paths([["4790*", "479**"], ["4791*", "479**"]]).to_nested()
        {'*': {'479**': ['4790*', '4791*']}}
        """
        top: dict[str, Any] = {}
        for row in rows:
            leaf, *above = row
            branch = top
            path = [label for i, label in enumerate(above) if label != (above[i - 1] if i else leaf)]
            refuse_high(len(path) + 1)
            for label in reversed(path):
                branch = branch.setdefault(label, {})
                if branch is LEAF:
                    raise DataError(
                        f"taxonomy: {label!r} is a leaf in one row and a branch in another. Rename one of them."
                    )
            if leaf in branch:
                raise DataError(f"taxonomy: the leaf {leaf!r} occurs more than once. Keep one row per leaf.")
            branch[leaf] = LEAF
        if not top:
            raise DataError("taxonomy: it contains no values. Add one row per value.")
        nodes = NodeCollector()
        nodes.add_branch(ROOT, top, -1)
        return cls._from_nodes(nodes.finish(), made)

    @classmethod
    def balanced(cls, frequencies: Mapping[Any, int], *, fanout: int = 4) -> Taxonomy:
        """Build a tree from the record count of each value: numbers in ascending order, texts in alphabetical order.

        Level by level, from the leaves up, neighbours are joined into branches of even record count: the largest branch is as
        small as possible. The number of branches of a level is that of the level below divided by ``fanout``, rounded up, so a
        frequent value may remain single while many rare values are joined; a branch with one child is omitted. The root has
        at most ``fanout`` children, and the height is at most the least h with ``fanout ** h`` not below the number of values.

        The label of a branch names its first and last value and covers all values between them: ``[20, 36]``,
        ``{clerk … nurse}``. The tree is derived from the data, so a public policy does not contain it.

        >>> Taxonomy.balanced({20: 5, 21: 1, 36: 2, 40: 8, 70: 1}, fanout=2).to_nested()
        {'*': {'[20, 36]': ['20', '21', '36'], '[40, 70]': ['40', '70']}}
        """
        if isinstance(fanout, bool) or not isinstance(fanout, (int, np.integer)) or fanout < 2:
            raise PolicyError(
                f"'fanout', the number of children per node, must be a whole number of at least 2, not {fanout!r}"
            )
        wrong = [w for w in frequencies.values() if not float(w).is_integer() or w < 0]
        if wrong:
            raise DataError(f"taxonomy: frequencies must be whole numbers of at least 0, not {list_some(wrong)}")
        values, text, label = _sort_values(frequencies)
        levels = join_neighbours([int(frequencies[v]) for v in values], int(fanout))
        paths = [[text(v)] for v in values]
        for runs in levels:
            for first, last in runs:
                name = text(values[first]) if first == last else label(values[first], values[last])
                for code in range(first, last + 1):
                    paths[code].append(name)
        return cls.from_paths(paths, made=True) if paths else cls.flat([])

    @classmethod
    def load(cls, path: str | Path) -> Taxonomy:
        """Read a nested YAML file, or a CSV file with one row per leaf and one column per level, without header."""
        file = Path(path)
        text = tree_files.read_text(file)
        derived = tree_files.is_marked(text)
        try:
            if file.suffix.lower() in tree_files.CSV:
                return cls.from_paths(tree_files.parse_csv(text), made=derived)
            return cls.from_nested(tree_files.parse_yaml(text), made=derived)
        except DataError as error:
            raise DataError(f"{error} (in {file.name!r})") from error

    def save(self, path: str | Path) -> None:
        """Write the tree as CSV if the file name ends in .csv or .txt, otherwise as YAML; `load` reads both.

        The first line of the file marks a tree that was derived from the data, so that `load` keeps it out of public policies.
        """
        tree_files.write_text(path, self.to_csv() if Path(path).suffix.lower() in tree_files.CSV else self.to_yaml())

    @property
    def size(self) -> int:
        """The number of leaves, which is the number of codes."""
        return int(self.hi[0]) + 1

    @cached_property
    def leaf(self) -> Int32Array:
        """The node of every leaf code."""
        return np.flatnonzero(self.height == 0).astype(np.int32)

    @cached_property
    def leaves(self) -> tuple[str | None, ...]:
        """The label of every leaf, by code."""
        return tuple(self.label[node] for node in self.leaf)

    @cached_property
    def code(self) -> dict[str, int]:
        """The code of every leaf by its label, without the leaf of missing values."""
        return {label: code for code, label in enumerate(self.leaves) if label is not None}

    @cached_property
    def share(self) -> FloatArray:
        """For every node, the share of all leaves that are below it: 0 for a leaf, 1 for the root."""
        share = (self.hi - self.lo + 1) / self.size
        share[self.leaf] = 0.0
        return np.asarray(share, np.float64)

    def cover(self, lo: int, hi: int) -> int:
        """The lowest node that covers the codes from ``lo`` to ``hi``, in O(height)."""
        node = int(self.leaf[lo])
        while self.hi[node] < hi:
            node = int(self.parent[node])
        return node

    def covers(self, lo: Int32Array, hi: Int32Array) -> Int32Array:
        """`cover` for many intervals at once."""
        node = self.leaf[lo]
        low = self.hi[node] < hi
        while low.any():
            node = np.where(low, self.parent[node], node)
            low = self.hi[node] < hi
        return node

    def distance(self, one: str, other: str) -> float:
        """The height of the lowest node that covers both values, divided by the tree height: 0 for equal values, at most 1.

        Definition 5 of Byun, Kamra, Bertino and Li, "Efficient k-anonymization using clustering techniques" (2007).

        >>> tree = Taxonomy.from_nested({"World": {"America": ["Canada", "USA"], "Asia": ["India"]}})
        >>> tree.distance("USA", "Canada"), tree.distance("USA", "India")
        (0.5, 1.0)
        """
        lo, hi = sorted(self.code_of([one, other]).tolist())
        return float(self.height[self.cover(lo, hi)] / self.height[0])

    def text(self, node: int) -> str | None:
        """The published text of a node: its label, ``*`` for the root, None for missing values."""
        return ROOT if node == 0 else self.label[node]

    def code_of(self, values: Sequence[str], *, column: str | None = None) -> Int32Array:
        """The code of each value; an error that names the values without a leaf."""
        unknown = [v for v in values if v not in self.code]
        if unknown:
            where = "values are" if column is None else f"column {column!r} contains values that are"
            raise DataError(
                f"{where} not in the taxonomy: {list_some(unknown)}; add them to the taxonomy, correct them, or list "
                "them under 'missing:'"
            )
        return np.array([self.code[v] for v in values], np.int32)

    def with_missing(self) -> Taxonomy:
        """The tree with an additional leaf for missing values under the root."""
        size = np.int32(self.size)
        hi = np.append(self.hi, size)
        hi[0] = size
        height = np.append(self.height, np.int32(0))
        height[0] = max(int(height[0]), 1)
        return Taxonomy(
            (*self.label, None),
            np.append(self.parent, np.int32(0)),
            np.append(self.lo, size),
            hi,
            np.append(self.level, np.int32(1)),
            height,
            self.derived,
        )

    def levels(
        self,
        *,
        keep: Iterable[int] | None = None,
        skip: Iterable[int] | None = None,
        by: Literal["level", "height"] = "level",
    ) -> Taxonomy:
        """Remove some inner levels of the tree; the children of a removed node become children of the next node above.

        Name the levels either to keep or to skip, by ``level``, the number of steps from the root (1 is just below it), or by
        ``height``, the length of the longest path down to a leaf (1 is just above the leaves). The root and the leaves always
        remain. In an unbalanced tree, only branches are removed: a leaf at a removed level remains, and the branches of a level
        may differ in height. A level that the tree does not have is an error, except in a tree without leaves.

        >>> tree = Taxonomy.from_nested({"ANY": {"North": {"Far": ["Oulu"]}, "South": {"Near": ["Rome"]}}})
        >>> tree.levels(skip=[1]).to_nested()
        {'ANY': {'Far': ['Oulu'], 'Near': ['Rome']}}
        >>> tree.levels(keep=[]).to_nested()
        {'ANY': ['Oulu', 'Rome']}
        """
        if (keep is None) == (skip is None):
            raise PolicyError("give one of the two: 'keep', the levels to keep, or 'skip', the levels to skip")
        if by not in BY:
            raise PolicyError(f"levels cannot be counted by {by!r}; {list_choices(by, BY)}")
        number = self.level if by == "level" else self.height
        inner = self.height > 0
        inner[:1] = False
        named = sorted({int(n) for n in (keep if keep is not None else skip) or ()})
        existing = np.unique(number[inner]).tolist()
        unknown = [n for n in named if n not in existing]
        if unknown and self.size:
            key = "skip" if keep is None else "keep"
            remedy = f"choose from {', '.join(map(str, existing))}" if existing else f"remove {key!r}"
            reason = "" if existing else ": it has only a root and leaves"
            raise PolicyError(f"the taxonomy has no inner {by} {list_some(unknown)}{reason}; {remedy}")
        return self._without(inner & np.isin(number, named, invert=keep is not None))

    def _without(self, out: BoolArray) -> Taxonomy:
        """The tree without the branches of a mask."""
        above = np.arange(len(self.label))
        for node in np.flatnonzero(out):
            above[node] = above[self.parent[node]]
        kept = np.flatnonzero(~out)
        place = np.cumsum(~out) - 1
        parent = np.append(-1, place[above[self.parent[kept[1:]]]]).astype(np.int32)
        leaf = self.height[kept] == 0
        leaf[:1] = False
        nodes = Nodes.from_parents(tuple(self.label[n] for n in kept), parent, leaf)
        return Taxonomy._from_nodes(nodes, self.derived)

    @cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """The children of every node, without the leaf of missing values."""
        children: list[list[int]] = [[] for _ in self.label]
        for node, (label, parent) in enumerate(zip(self.label, self.parent.tolist(), strict=True)):
            if node and label is not None:
                children[parent].append(node)
        return tuple(map(tuple, children))

    def to_nested(self) -> dict[str, Any]:
        """The tree as nested mappings and lists, without the leaf of missing values.

        The mappings of a tree that was derived from the data have the type `Derived`, so that a policy with them does not
        publish the tree.
        """
        mapping = Derived if self.derived else dict
        is_branch = (self.height > 0).tolist()

        def body(node: int) -> Any:
            below = self.below[node]
            branches = sum(is_branch[child] for child in below)
            if branches == 0:
                return [self.label[child] for child in below]
            if branches == len(below):
                return mapping((str(self.label[child]), body(child)) for child in below)
            return [mapping({str(self.label[c]): body(c)}) if is_branch[c] else self.label[c] for c in below]

        return mapping({str(self.label[0]): body(0)})

    def to_yaml(self) -> str:
        """The tree as nested YAML text that `load` reads; the first line marks a tree that was derived from the data."""
        return self._mark(format_yaml(self.to_nested()))

    def to_csv(self, *, delimiter: str = ";") -> str:
        """The tree as CSV text without header, one row per leaf, from the leaf to the root; `load` reads it.

        Column h contains the highest node above the leaf whose height is at most h, so all rows have the same length: in an
        unbalanced tree, labels are repeated upward. The leaf of missing values is omitted, and `load` names the root ``*``.
        An additional first line marks a tree that was derived from the data.

        >>> print(Taxonomy.from_nested({"ANY": ["none", {"Office": ["clerk"]}]}).to_csv(), end="")
        none;none;ANY
        clerk;Office;ANY
        """
        rows, parent, height = [], self.parent.tolist(), self.height.tolist()
        for node in self.leaf.tolist():
            row: list[str] = []
            while node >= 0 and self.label[node] is not None:
                above = parent[node]
                until = height[above] if above >= 0 else len(row) + 1
                row += [str(self.label[node])] * (until - len(row))
                node = above
            if row:
                rows.append(row)
        return self._mark(tree_files.format_csv(rows, delimiter))

    def _mark(self, text: str) -> str:
        return f"{tree_files.DERIVED}\n{text}" if self.derived else text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taxonomy) and self.label == other.label and np.array_equal(self.parent, other.parent)

    def __hash__(self) -> int:
        return hash(self.label)

    def __repr__(self) -> str:
        return f"Taxonomy({format_count(self.size, 'leaf', 'leaves')}, height {int(self.height[0])})"

    def _repr_html_(self) -> str:
        """The nodes of the highest levels, in the order of the tree, each with its number of leaves."""
        nodes = sorted(np.argsort(self.level, kind="stable")[:MOST].tolist())
        rows = [
            (
                "\u2003" * int(self.level[node]) + ("(missing)" if self.label[node] is None else str(self.label[node])),
                f"{int(self.level[node])}",
                f"{int(self.hi[node] - self.lo[node]) + 1:,}",
            )
            for node in nodes
        ]
        more = [f"… and {len(self.label) - MOST:,} more nodes of lower levels"] if len(self.label) > MOST else []
        title = f"{format_count(self.size, 'leaf', 'leaves')}, height {int(self.height[0])}"
        derived = ["This taxonomy was built from the data: Shoal does not publish it."] if self.derived else []
        return render_view(
            "Taxonomy", render_table(title, ("node", "level", "leaves"), rows), render_list([*more, *derived])
        )


def narrow_branches(tree: Taxonomy, codes: Int32Array) -> Taxonomy:
    """Narrow the labels of branches that name their first and last leaf (see `Taxonomy.balanced`) to these leaf codes.

    Return the same object if no label changes.
    """
    label = list(tree.label)
    for node in np.flatnonzero(tree.height > 0)[1:].tolist():
        if str(label[node])[:1] not in ("{", "["):
            continue
        inside = codes[np.searchsorted(codes, tree.lo[node]) : np.searchsorted(codes, tree.hi[node], side="right")]
        ends = [str(tree.leaves[c]) for c in (tree.lo[node], tree.hi[node])]
        numbers = [parse_number(end) for end in ends]
        names = (format_branch(*ends), None if None in numbers else format_branch(*numbers))
        if len(inside) and label[node] in names:
            first, last = (str(tree.leaves[c]) for c in (inside[0], inside[-1]))
            is_range = label[node] != names[0]
            pair = (parse_number(first), parse_number(last)) if is_range else (first, last)
            label[node] = first if first == last else format_branch(*pair)
    return tree if tuple(label) == tree.label else replace(tree, label=tuple(label))


def _has_derived_branch(tree: Any) -> bool:
    """Whether a nested tree, whose depth was checked, contains a mapping of the type `Derived`."""
    below = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, (list, tuple)) else ()
    return isinstance(tree, Derived) or any(map(_has_derived_branch, below))


def _sort_values(
    frequencies: Mapping[Any, int],
) -> tuple[list[Any], Callable[[Any], str], Callable[[Any, Any], str]]:
    """The values in the order of the leaves, and the functions that format a value and a branch."""
    if all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in frequencies):
        return sorted(frequencies), format_number, format_branch
    return sorted(frequencies, key=str), str, lambda first, last: format_branch(str(first), str(last))
