"""Value trees: every node covers an interval of leaf codes, numbered in depth-first order.

Trees may be unbalanced and a branch may have one child, so a node is told by its id, not by its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shoal.arrays import BoolArray, FloatArray, Int32Array
from shoal.errors import DataError, PolicyError, list_choices, list_some
from shoal.formats.labels import ROOT, branch_text
from shoal.formats.numbers import format_number, parse_number
from shoal.taxonomy import tree_files
from shoal.taxonomy.balancing import joined
from shoal.taxonomy.nodes import LEAF, Builder, Nodes, refuse_high

BY = ("level", "height")

Nested = Mapping[str, Any] | Sequence[Any] | str


class Derived(dict[str, Any]):
    """A nested tree that was made from the data, and so never goes to the public."""


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """A tree of values. Make one with `from_nested`, `flat`, `from_paths`, `balanced` or `load`.

    Arrays by node id, in depth-first order: node 0 is the root, ``lo`` and ``hi`` the first and last leaf code below
    the node, ``height`` the longest way down to a leaf. ``label[0]`` is the user's word for the root; a release writes
    ``*``. A missing value, where there is one, is the last leaf, directly under the root, with the label None.

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
    made: bool = field(default=False)

    @classmethod
    def _of(cls, nodes: Nodes, made: bool) -> Taxonomy:
        return cls(nodes.label, nodes.parent, nodes.lo, nodes.hi, nodes.level, nodes.height, made)

    @classmethod
    def from_nested(cls, tree: Nested, *, made: bool = False) -> Taxonomy:
        """A nested mapping or list: a mapping holds branches, a list holds leaves (or branches).

        A mapping with one key names the root. ``made`` says that the tree was made from the data, as does `Derived`. A tree
        has at most 100 levels below its root.
        """
        made = made or isinstance(tree, Derived)
        if isinstance(tree, Mapping) and len(tree) == 1:
            ((root, body),) = tree.items()
        else:
            root, body = ROOT, tree
        build = Builder()
        build.add(str(root), body, -1)
        return cls._of(build.finish(), made)

    @classmethod
    def flat(cls, values: Iterable[str], *, made: bool = True) -> Taxonomy:
        """A root and its leaves, in the order given."""
        build = Builder()
        build.branch(ROOT, -1, list(values))
        return cls._of(build.finish(), made)

    @classmethod
    def from_paths(cls, rows: Iterable[Sequence[str]], *, made: bool = False) -> Taxonomy:
        """One row per leaf, from the leaf upward without the root; a label repeated upward is padding.

        >>> Taxonomy.from_paths([["4790*", "479**"], ["4791*", "479**"]]).to_nested()
        {'*': {'479**': ['4790*', '4791*']}}
        """
        top: dict[str, Any] = {}
        for row in rows:
            leaf, *above = row
            branch = top
            way = [label for i, label in enumerate(above) if label != (above[i - 1] if i else leaf)]
            refuse_high(len(way) + 1)
            for label in reversed(way):
                branch = branch.setdefault(label, {})
                if branch is LEAF:
                    raise DataError(f"taxonomy: {label!r} is a leaf in one row and a branch in another")
            if leaf in branch:
                raise DataError(f"taxonomy: the leaf {leaf!r} occurs more than once")
            branch[leaf] = LEAF
        if not top:
            raise DataError("taxonomy: there are no values in it")
        build = Builder()
        build.add(ROOT, top, -1)
        return cls._of(build.finish(), made)

    @classmethod
    def balanced(cls, frequencies: Mapping[Any, int], *, fanout: int = 4) -> Taxonomy:
        """A tree made from how often each value occurs: numbers in their order, texts in the order of their letters.

        Level by level, from the leaves up, neighbours are joined into branches of even weight: the heaviest branch is as
        light as it can be. A level has as many branches as the one below it divided by ``fanout``, rounded up, so a
        common value may stay alone while many rare ones are joined; a branch of one is left out. The root has at most
        ``fanout`` branches, and the height is at most the least h with ``fanout ** h`` not below the number of values.

        A branch is named by its first and last value, which stand for all that lies between them: ``[20, 36]``,
        ``{clerk … nurse}``. The tree is made from the data, so a public policy leaves it out.

        >>> Taxonomy.balanced({20: 5, 21: 1, 36: 2, 40: 8, 70: 1}, fanout=2).to_nested()
        {'*': {'[20, 36]': ['20', '21', '36'], '[40, 70]': ['40', '70']}}
        """
        if isinstance(fanout, bool) or not isinstance(fanout, (int, np.integer)) or fanout < 2:
            raise PolicyError(f"the fanout of a balanced tree is a whole number from 2 up, not {fanout!r}")
        wrong = [w for w in frequencies.values() if not float(w).is_integer() or w < 0]
        if wrong:
            raise DataError(f"taxonomy: frequencies are counts, not {list_some(wrong)}")
        values, text, label = _ordered(frequencies)
        levels = joined([int(frequencies[v]) for v in values], int(fanout))
        ways = [[text(v)] for v in values]
        for runs in levels:
            for first, last in runs:
                name = text(values[first]) if first == last else label(values[first], values[last])
                for code in range(first, last + 1):
                    ways[code].append(name)
        return cls.from_paths(ways, made=True) if ways else cls.flat([])

    @classmethod
    def load(cls, path: str | Path) -> Taxonomy:
        """A nested YAML file, or a CSV file with one row per leaf and one column per level, without header."""
        file = Path(path)
        text = tree_files.read_text(file)
        made = text.startswith(tree_files.MADE)
        try:
            if file.suffix.lower() in tree_files.CSV:
                return cls.from_paths(tree_files.rows_of(text.removeprefix(tree_files.MADE)), made=made)
            return cls.from_nested(tree_files.nested_of(text), made=made)
        except DataError as error:
            raise DataError(f"{error} (in {file.name!r})") from error

    def save(self, path: str | Path) -> None:
        """Write the tree as CSV where the file's name ends in .csv or .txt, else as YAML; `load` reads it back.

        A tree that was made from the data says so in its first line, and stays out of public policies when it is read.
        """
        text = self.to_csv() if Path(path).suffix.lower() in tree_files.CSV else self.to_yaml()
        tree_files.write_text(path, tree_files.MADE + text if self.made else text)

    @property
    def size(self) -> int:
        """The number of leaves, so of codes."""
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
        """The code of every leaf, by its label; the missing value has none."""
        return {label: code for code, label in enumerate(self.leaves) if label is not None}

    @cached_property
    def share(self) -> FloatArray:
        """Of every node, the leaves below it over all leaves: 0 for a leaf, 1 for the root."""
        share = (self.hi - self.lo + 1) / self.size
        share[self.leaf] = 0.0
        return np.asarray(share, np.float64)

    def cover(self, lo: int, hi: int) -> int:
        """The lowest node over the codes from ``lo`` to ``hi``, in O(height)."""
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
        """The height of the lowest node over both values, over the height of the tree: 0 for equal values, at most 1.

        Definition 5 of Byun, Kamra, Bertino and Li, "Efficient k-anonymization using clustering techniques" (2007).

        >>> tree = Taxonomy.from_nested({"World": {"America": ["Canada", "USA"], "Asia": ["India"]}})
        >>> tree.distance("USA", "Canada"), tree.distance("USA", "India")
        (0.5, 1.0)
        """
        lo, hi = sorted(self.code_of([one, other]).tolist())
        return float(self.height[self.cover(lo, hi)] / self.height[0])

    def text(self, node: int) -> str | None:
        """What a release writes for a node: its label, ``*`` for the root, None for missing."""
        return ROOT if node == 0 else self.label[node]

    def code_of(self, values: Sequence[str], *, column: str | None = None) -> Int32Array:
        """The code of each value; those the tree misses are an error that names them."""
        lost = [v for v in values if v not in self.code]
        if lost:
            where = "the taxonomy misses values" if column is None else _misses(column)
            raise DataError(
                f"{where}: {list_some(lost)}; add them to the tree, mend them, or list them under 'missing:'"
            )
        return np.array([self.code[v] for v in values], np.int32)

    def with_missing(self) -> Taxonomy:
        """The tree with one more leaf under the root, for missing values."""
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
            self.made,
        )

    def levels(
        self,
        *,
        keep: Iterable[int] | None = None,
        skip: Iterable[int] | None = None,
        by: Literal["level", "height"] = "level",
    ) -> Taxonomy:
        """The tree without some of its inner levels; what stood below them hangs from the next node above.

        Name either those to keep or those to skip, by ``level``, the steps from the root (1 is just below it), or by
        ``height``, the longest way down to a leaf (1 is just above the leaves). The root and the leaves always stay. In
        an unbalanced tree a level holds branches only: a leaf that hangs there stays, and branches of one level may
        differ in height. A level that the tree does not have is an error, unless the tree was made from the data: then
        how many it has depends on the values.

        >>> tree = Taxonomy.from_nested({"ANY": {"North": {"Far": ["Oulu"]}, "South": {"Near": ["Rome"]}}})
        >>> tree.levels(skip=[1]).to_nested()
        {'ANY': {'Far': ['Oulu'], 'Near': ['Rome']}}
        >>> tree.levels(keep=[]).to_nested()
        {'ANY': ['Oulu', 'Rome']}
        """
        if (keep is None) == (skip is None):
            raise PolicyError("say which levels to keep or which to skip, one of the two")
        if by not in BY:
            raise PolicyError(f"levels are counted by {by!r}; {list_choices(by, BY)}")
        number = self.level if by == "level" else self.height
        inner = self.height > 0
        inner[:1] = False
        named = sorted({int(n) for n in (keep if keep is not None else skip) or ()})
        there = np.unique(number[inner]).tolist()
        unknown = [n for n in named if n not in there]
        if unknown and not self.made:
            listed = f"choose from {', '.join(map(str, there))}" if there else "it has a root and leaves alone"
            raise PolicyError(f"the tree has no inner {by} {list_some(unknown)}; {listed}")
        return self._without(inner & np.isin(number, named, invert=keep is not None))

    def _without(self, out: BoolArray) -> Taxonomy:
        """The tree without these branches."""
        above = np.arange(len(self.label))
        for node in np.flatnonzero(out):
            above[node] = above[self.parent[node]]
        stays = np.flatnonzero(~out)
        place = np.cumsum(~out) - 1
        parent = np.append(-1, place[above[self.parent[stays[1:]]]]).astype(np.int32)
        leaf = self.height[stays] == 0
        leaf[:1] = False
        return Taxonomy._of(Nodes.of(tuple(self.label[n] for n in stays), parent, leaf), self.made)

    @cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """The children of every node, without the leaf of missing values."""
        found: list[list[int]] = [[] for _ in self.label]
        for node in range(1, len(self.label)):
            if self.label[node] is not None:
                found[self.parent[node]].append(node)
        return tuple(map(tuple, found))

    def to_nested(self) -> dict[str, Any]:
        """The tree as nested mappings and lists; the leaf of missing values is left out."""

        def body(node: int) -> Any:
            below = self.below[node]
            if all(self.height[child] == 0 for child in below):
                return [self.label[child] for child in below]
            if all(self.height[child] > 0 for child in below):
                return {str(self.label[child]): body(child) for child in below}
            return [{str(self.label[c]): body(c)} if self.height[c] > 0 else self.label[c] for c in below]

        return {str(self.label[0]): body(0)}

    def to_yaml(self) -> str:
        """The tree as nested YAML text that `load` reads back."""
        return tree_files.yaml_of(self.to_nested())

    def to_csv(self, *, delimiter: str = ";") -> str:
        """The tree as CSV text without header, one row per leaf, from the leaf to the root; `load` reads it back.

        Column h holds the highest node over the leaf whose height is at most h, so that every row is equally long: where
        a tree is unbalanced a label is repeated upward. The leaf of missing values is left out, and the reader takes
        ``*`` for the name of the root.

        >>> print(Taxonomy.from_nested({"ANY": ["none", {"Office": ["clerk"]}]}).to_csv(), end="")
        none;none;ANY
        clerk;Office;ANY
        """
        rows = []
        for node in self.leaf:
            row: list[str] = []
            while node >= 0 and self.label[node] is not None:
                above = int(self.parent[node])
                until = int(self.height[above]) if above >= 0 else len(row) + 1
                row += [str(self.label[node])] * (until - len(row))
                node = above
            if row:
                rows.append(row)
        return tree_files.csv_of(rows, delimiter)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taxonomy) and self.label == other.label and np.array_equal(self.parent, other.parent)

    def __hash__(self) -> int:
        return hash(self.label)

    def __repr__(self) -> str:
        return f"Taxonomy({self.size} leaves, height {int(self.height[0])})"


def narrow_branches(tree: Taxonomy, codes: Int32Array) -> Taxonomy:
    """A tree in which branches that are named by their first and last leaf, as `Taxonomy.balanced` names them, are named by the
    first and last of these leaves instead; the same object where there are none.
    """
    label = list(tree.label)
    for node in np.flatnonzero(tree.height > 0)[1:].tolist():
        if str(label[node])[:1] not in ("{", "["):
            continue
        inside = codes[np.searchsorted(codes, tree.lo[node]) : np.searchsorted(codes, tree.hi[node], side="right")]
        ends = [str(tree.leaves[c]) for c in (tree.lo[node], tree.hi[node])]
        numbers = [parse_number(end) for end in ends]
        names = (branch_text(*ends), None if None in numbers else branch_text(*numbers))
        if len(inside) and label[node] in names:
            first, last = (str(tree.leaves[c]) for c in (inside[0], inside[-1]))
            ranged = label[node] != names[0]
            pair = (parse_number(first), parse_number(last)) if ranged else (first, last)
            label[node] = first if first == last else branch_text(*pair)
    return tree if tuple(label) == tree.label else replace(tree, label=tuple(label))


def _misses(column: str) -> str:
    return f"column {column!r} holds values that its taxonomy misses"


def _ordered(
    frequencies: Mapping[Any, int],
) -> tuple[list[Any], Callable[[Any], str], Callable[[Any, Any], str]]:
    """The values in the order of the leaves, how one of them is written, and how a branch is."""
    if all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in frequencies):
        return sorted(frequencies), format_number, branch_text
    return sorted(frequencies, key=str), str, lambda first, last: branch_text(str(first), str(last))
