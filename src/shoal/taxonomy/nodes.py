"""Collect the nodes of a taxonomy in depth-first order and store them in arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.arrays import BoolArray, Int32Array
from shoal.errors import DataError, list_some
from shoal.formats.surrogates import find_surrogates

LEAF: Any = object()  # the value of a leaf in nested mappings while a tree is built
HIGHEST = 100  # levels below the root, enough for the longest masked code; trees are written recursively
MOST_DUPLICATES = 1000  # duplicate leaves after which building stops


@dataclass(frozen=True)
class Nodes:
    """The nodes of a tree in depth-first order; `Taxonomy` describes the arrays."""

    label: tuple[str | None, ...]
    parent: Int32Array
    lo: Int32Array
    hi: Int32Array
    level: Int32Array
    height: Int32Array

    @classmethod
    def from_parents(cls, label: tuple[str | None, ...], parent: Int32Array, leaf: BoolArray) -> Nodes:
        """Compute codes, levels and heights from the parent of every node and a mask of the leaves."""
        code = np.cumsum(leaf) - 1
        lo = np.where(leaf, code, len(label)).tolist()
        hi = np.where(leaf, code, -1).tolist()
        level, height = [0] * len(label), [0] * len(label)
        above = parent.tolist()
        for node in range(1, len(label)):  # parents precede their children
            level[node] = level[above[node]] + 1
        for node in range(len(label) - 1, 0, -1):
            up = above[node]
            lo[up] = min(lo[up], lo[node])
            hi[up] = max(hi[up], hi[node])
            height[up] = max(height[up], height[node] + 1)
        if not leaf.any():  # every value is missing
            lo[0] = 0
        return cls(label, parent, *(np.array(column, np.int32) for column in (lo, hi, level, height)))


class NodeCollector:
    """Collects nodes in depth-first order."""

    def __init__(self) -> None:
        self.label: list[str] = []
        self.parent: list[int] = []
        self.is_leaf: list[bool] = []
        self.leaves: set[str] = set()
        self.duplicates: list[str] = []

    def add_node(self, label: str, parent: int, *, leaf: bool) -> int:
        """Add a node and return its id.

        A mapping that occurs in several places repeats its leaves, so building stops soon even if its expansion is huge.
        """
        if leaf and label in self.leaves:
            self.duplicates.append(label)
            if len(self.duplicates) > MOST_DUPLICATES:
                self._refuse_duplicates()
        elif leaf:
            self.leaves.add(label)
        self.label.append(label)
        self.parent.append(parent)
        self.is_leaf.append(leaf)
        return len(self.label) - 1

    def add_leaves(self, label: str, parent: int, leaves: list[str]) -> None:
        """Add a branch whose children are leaves; it may have no children."""
        node = self.add_node(label, parent, leaf=False)
        for leaf in leaves:
            self.add_node(leaf, node, leaf=True)

    def add_branch(self, label: str, body: Any, parent: int, level: int = 0) -> None:
        """Add a branch with all nodes below it; ``body`` is nested mappings and lists."""
        refuse_high(level + 1)
        node = self.add_node(label, parent, leaf=False)
        items = list(body.items()) if isinstance(body, Mapping) else self._list_children(body)
        if not items:
            raise DataError(f"taxonomy: the branch {label!r} is empty. Add values or remove the branch.")
        for name, below in items:
            if below is LEAF:
                self.add_node(str(name), node, leaf=True)
            else:
                self.add_branch(str(name), below, node, level + 1)

    @staticmethod
    def _list_children(body: Any) -> list[tuple[Any, Any]]:
        if not isinstance(body, (list, tuple)):
            return [] if body in (None, "") else [(body, LEAF)]
        items: list[tuple[Any, Any]] = []
        for entry in body:
            if isinstance(entry, Mapping):
                items.extend(entry.items())
            elif isinstance(entry, (list, tuple)):
                raise DataError("taxonomy: a list inside a list has no name. Write it as a mapping, name: [values].")
            else:
                items.append((entry, LEAF))
        return items

    def finish(self) -> Nodes:
        """Check the labels and return the nodes as arrays."""
        self._refuse_duplicates()
        broken = find_surrogates(self.label)
        if broken:
            raise DataError(
                f"taxonomy: labels must be valid Unicode, without lone surrogates, unlike {list_some(broken)}. Correct them."
            )
        return Nodes.from_parents(tuple(self.label), np.array(self.parent, np.int32), np.array(self.is_leaf, bool))

    def _refuse_duplicates(self) -> None:
        if self.duplicates:
            repeated = list_some(dict.fromkeys(self.duplicates))
            raise DataError(f"taxonomy: values occur more than once: {repeated}. Keep each value in one branch only.")
        owner: dict[str, int] = {}
        children = Counter(self.parent)
        for node, label in enumerate(self.label):
            other = owner.get(label)
            padding = other is not None and self.parent[node] == other and children[other] == 1
            if (other or (other == 0 and not self.is_leaf[node])) and not padding:
                raise DataError(f"taxonomy: the label {label!r} names two nodes. Rename one of them.")
            if label == "*" and node and not self.is_leaf[node]:
                raise DataError(
                    "taxonomy: a branch cannot have the label '*', which is the label of the root. Rename the branch."
                )
            owner[label] = node


def refuse_high(levels: int) -> None:
    """Raise an error if a tree has too many levels below its root, for example because it contains itself."""
    if levels > HIGHEST:
        raise DataError(
            f"taxonomy: a branch has more than {HIGHEST} levels below the root, or contains itself. Remove levels."
        )
