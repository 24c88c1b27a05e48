"""Value trees: every node covers an interval of leaf codes, numbered in depth-first order.

Trees may be unbalanced and a branch may have one child, so a node is told by its id, not by its interval.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DataError, some
from shoal.yamltext import read_yaml

I4 = NDArray[np.int32]
ROOT = "*"
LEAF: Any = object()  # what stands below a leaf while a tree is built

Nested = Mapping[str, Any] | Sequence[Any] | str


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """A tree of values. Make one with `from_nested`, `flat`, `from_paths` or `load`.

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
    parent: I4
    lo: I4
    hi: I4
    level: I4
    height: I4
    made: bool = field(default=False)

    @classmethod
    def from_nested(cls, tree: Nested, *, made: bool = False) -> Taxonomy:
        """A nested mapping or list: a mapping holds branches, a list holds leaves (or branches).

        A mapping with one key names the root. ``made`` says that the tree was made from the data.
        """
        if isinstance(tree, Mapping) and len(tree) == 1:
            ((root, body),) = tree.items()
        else:
            root, body = ROOT, tree
        build = _Builder()
        build.add(str(root), body, -1, 0)
        return build.finish(made)

    @classmethod
    def flat(cls, values: Iterable[str], *, made: bool = True) -> Taxonomy:
        """A root and its leaves, in the order given."""
        build = _Builder()
        build.branch(ROOT, -1, 0, list(values))
        return build.finish(made)

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
            for label in reversed(way):
                branch = branch.setdefault(label, {})
                if branch is LEAF:
                    raise DataError(f"taxonomy: {label!r} is a leaf in one row and a branch in another")
            if leaf in branch:
                raise DataError(f"taxonomy: the leaf {leaf!r} occurs more than once")
            branch[leaf] = LEAF
        if not top:
            raise DataError("taxonomy: there are no values in it")
        build = _Builder()
        build.add(ROOT, top, -1, 0)
        return build.finish(made)

    @classmethod
    def load(cls, path: str | Path) -> Taxonomy:
        """A nested YAML file, or a CSV file with one row per leaf and one column per level, without header."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise DataError(f"cannot read the taxonomy {str(path)!r}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise DataError(f"cannot read the taxonomy {str(path)!r}: its text is not UTF-8") from None
        try:
            if file.suffix.lower() in (".csv", ".txt"):
                return cls._from_csv(text)
            return cls.from_nested(read_yaml(text, "taxonomy", DataError)[0])
        except DataError as error:
            raise DataError(f"{error} (in {file.name!r})") from error

    @classmethod
    def _from_csv(cls, text: str) -> Taxonomy:
        bare = re.sub(r'"[^"]*"', "", text)
        delimiter = ";" if bare.count(";") >= bare.count(",") else ","
        table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        rows = [way for row in table if (way := [cell.strip() for cell in row if cell.strip()])]
        if len({row[-1] for row in rows}) == 1 and all(len(row) > 1 for row in rows):  # the last column is the root
            rows = [row[:-1] for row in rows]
        return cls.from_paths(rows)

    @property
    def size(self) -> int:
        """The number of leaves, so of codes."""
        return int(self.hi[0]) + 1

    @cached_property
    def leaf(self) -> I4:
        """The node of every leaf code."""
        return np.flatnonzero(self.height == 0).astype(np.int32)

    @cached_property
    def leaves(self) -> tuple[str | None, ...]:
        """The label of every leaf, by code."""
        return tuple(self.label[node] for node in self.leaf)

    @cached_property
    def share(self) -> NDArray[np.float64]:
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

    def covers(self, lo: I4, hi: I4) -> I4:
        """`cover` for many intervals at once."""
        node = self.leaf[lo]
        low = self.hi[node] < hi
        while low.any():
            node = np.where(low, self.parent[node], node)
            low = self.hi[node] < hi
        return node

    def text(self, node: int) -> str | None:
        """What a release writes for a node: its label, ``*`` for the root, None for missing."""
        return ROOT if node == 0 else self.label[node]

    def code_of(self, values: Sequence[str], *, column: str) -> I4:
        """The code of each value; those the tree misses are an error that names them."""
        place = {label: code for code, label in enumerate(self.leaves) if label is not None}
        lost = [v for v in values if v not in place]
        if lost:
            raise DataError(
                f"column {column!r} holds values that its taxonomy misses: {some(lost)}; add them to the tree, mend "
                "them, or list them under 'missing:'"
            )
        return np.array([place[v] for v in values], np.int32)

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

    def to_nested(self) -> dict[str, Any]:
        """The tree as nested mappings and lists; the leaf of missing values is left out."""
        below: list[list[int]] = [[] for _ in self.label]
        for node in range(1, len(self.label)):
            if self.label[node] is not None:
                below[self.parent[node]].append(node)

        def body(node: int) -> Any:
            if all(self.height[child] == 0 for child in below[node]):
                return [self.label[child] for child in below[node]]
            if all(self.height[child] > 0 for child in below[node]):
                return {str(self.label[child]): body(child) for child in below[node]}
            return [{str(self.label[c]): body(c)} if self.height[c] > 0 else self.label[c] for c in below[node]]

        return {str(self.label[0]): body(0)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taxonomy) and self.label == other.label and np.array_equal(self.parent, other.parent)

    def __hash__(self) -> int:
        return hash(self.label)

    def __repr__(self) -> str:
        return f"Taxonomy({self.size} leaves, height {int(self.height[0])})"


class _Builder:
    """Collects nodes in depth-first order."""

    def __init__(self) -> None:
        self.label: list[str] = []
        self.parent: list[int] = []
        self.level: list[int] = []
        self.is_leaf: list[bool] = []

    def node(self, label: str, parent: int, level: int, *, leaf: bool) -> int:
        self.label.append(label)
        self.parent.append(parent)
        self.level.append(level)
        self.is_leaf.append(leaf)
        return len(self.label) - 1

    def branch(self, label: str, parent: int, level: int, leaves: list[str]) -> None:
        node = self.node(label, parent, level, leaf=False)
        for leaf in leaves:
            self.node(leaf, node, level + 1, leaf=True)

    def add(self, label: str, body: Any, parent: int, level: int) -> None:
        """A branch with what is below it, or a leaf where ``body`` is its own label."""
        node = self.node(label, parent, level, leaf=False)
        items = list(body.items()) if isinstance(body, Mapping) else self._listed(body)
        if not items:
            raise DataError(f"taxonomy: the branch {label!r} is empty; give it values or take it out")
        for name, below in items:
            if below is LEAF:
                self.node(str(name), node, level + 1, leaf=True)
            else:
                self.add(str(name), below, node, level + 1)

    @staticmethod
    def _listed(body: Any) -> list[tuple[Any, Any]]:
        if not isinstance(body, (list, tuple)):
            return [] if body in (None, "") else [(body, LEAF)]
        items: list[tuple[Any, Any]] = []
        for entry in body:
            if isinstance(entry, Mapping):
                items.extend(entry.items())
            elif isinstance(entry, (list, tuple)):
                raise DataError("taxonomy: a list inside a list has no name; write it as a mapping, name: [values]")
            else:
                items.append((entry, LEAF))
        return items

    def finish(self, made: bool) -> Taxonomy:
        count = len(self.label)
        parent = np.array(self.parent, np.int32)
        leaf = np.array(self.is_leaf, bool)
        self._refuse_doubles()
        code = np.cumsum(leaf) - 1
        lo = np.where(leaf, code, np.iinfo(np.int32).max).astype(np.int32)
        hi = np.where(leaf, code, -1).astype(np.int32)
        height = np.zeros(count, np.int32)
        for node in range(count - 1, 0, -1):  # children stand after their parents
            up = parent[node]
            lo[up] = min(lo[up], lo[node])
            hi[up] = max(hi[up], hi[node])
            height[up] = max(height[up], height[node] + 1)
        if not leaf.any():  # every value is missing
            lo[0] = 0
        return Taxonomy(tuple(self.label), parent, lo, hi, np.array(self.level, np.int32), height, made)

    def _refuse_doubles(self) -> None:
        leaves = [label for label, leaf in zip(self.label, self.is_leaf, strict=True) if leaf]
        if len(set(leaves)) < len(leaves):
            seen: set[str] = set()
            twice = [v for v in leaves if v in seen or seen.add(v)]  # type: ignore[func-returns-value]
            raise DataError(f"taxonomy: values occur more than once: {some(dict.fromkeys(twice))}")
        owner: dict[str, int] = {}
        children = Counter(self.parent)
        for node, label in enumerate(self.label):
            other = owner.get(label)
            padding = other is not None and self.parent[node] == other and children[other] == 1
            if other and not padding:
                raise DataError(f"taxonomy: the label {label!r} stands for two branches; rename one of them")
            owner[label] = node
