"""Collecting the nodes of a tree in depth-first order, and laying them out as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.arrays import BoolArray, Int32Array
from shoal.errors import DataError, list_some

LEAF: Any = object()  # what stands below a leaf while a tree is built
HIGHEST = (
    100  # levels below the root, as many as the longest code that can be masked has; trees are written recursively
)
REPEATED = 1000  # leaves that may occur again before the rest is not looked at


@dataclass(frozen=True)
class Nodes:
    """The nodes of a tree in depth-first order; see `Taxonomy` for what the arrays hold."""

    label: tuple[str | None, ...]
    parent: Int32Array
    lo: Int32Array
    hi: Int32Array
    level: Int32Array
    height: Int32Array

    @classmethod
    def of(cls, label: tuple[str | None, ...], parent: Int32Array, leaf: BoolArray) -> Nodes:
        """Codes, levels and heights from the parent of every node and which nodes are leaves."""
        code = np.cumsum(leaf) - 1
        lo = np.where(leaf, code, len(label)).tolist()
        hi = np.where(leaf, code, -1).tolist()
        level, height = [0] * len(label), [0] * len(label)
        above = parent.tolist()
        for node in range(1, len(label)):  # children stand after their parents
            level[node] = level[above[node]] + 1
        for node in range(len(label) - 1, 0, -1):
            up = above[node]
            lo[up] = min(lo[up], lo[node])
            hi[up] = max(hi[up], hi[node])
            height[up] = max(height[up], height[node] + 1)
        if not leaf.any():  # every value is missing
            lo[0] = 0
        return cls(label, parent, *(np.array(found, np.int32) for found in (lo, hi, level, height)))


class Builder:
    """Collects nodes in depth-first order."""

    def __init__(self) -> None:
        self.label: list[str] = []
        self.parent: list[int] = []
        self.is_leaf: list[bool] = []
        self.leaves: set[str] = set()
        self.twice: list[str] = []

    def node(self, label: str, parent: int, *, leaf: bool) -> int:
        """One more node.

        A mapping that is used in several places repeats its leaves, so that building ends soon whatever it expands to.
        """
        if leaf and label in self.leaves:
            self.twice.append(label)
            if len(self.twice) > REPEATED:
                self._refuse_doubles()
        elif leaf:
            self.leaves.add(label)
        self.label.append(label)
        self.parent.append(parent)
        self.is_leaf.append(leaf)
        return len(self.label) - 1

    def branch(self, label: str, parent: int, leaves: list[str]) -> None:
        """A branch with nothing but leaves below it, maybe none."""
        node = self.node(label, parent, leaf=False)
        for leaf in leaves:
            self.node(leaf, node, leaf=True)

    def add(self, label: str, body: Any, parent: int, level: int = 0) -> None:
        """A branch with what is below it, or a leaf where ``body`` is its own label."""
        refuse_high(level + 1)
        node = self.node(label, parent, leaf=False)
        items = list(body.items()) if isinstance(body, Mapping) else self._listed(body)
        if not items:
            raise DataError(f"taxonomy: the branch {label!r} is empty; give it values or take it out")
        for name, below in items:
            if below is LEAF:
                self.node(str(name), node, leaf=True)
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

    def finish(self) -> Nodes:
        """The nodes as arrays."""
        self._refuse_doubles()
        return Nodes.of(tuple(self.label), np.array(self.parent, np.int32), np.array(self.is_leaf, bool))

    def _refuse_doubles(self) -> None:
        if self.twice:
            raise DataError(f"taxonomy: values occur more than once: {list_some(dict.fromkeys(self.twice))}")
        owner: dict[str, int] = {}
        children = Counter(self.parent)
        for node, label in enumerate(self.label):
            other = owner.get(label)
            padding = other is not None and self.parent[node] == other and children[other] == 1
            if (other or (other == 0 and not self.is_leaf[node])) and not padding:
                raise DataError(f"taxonomy: the label {label!r} stands for two branches; rename one of them")
            if label == "*" and node and not self.is_leaf[node]:
                raise DataError("taxonomy: a branch cannot be called '*', which is written for the root; rename it")
            owner[label] = node


def refuse_high(levels: int) -> None:
    """An error for a tree with too many levels below its root, as one that holds itself has."""
    if levels > HIGHEST:
        raise DataError(
            f"taxonomy: a branch has more than {HIGHEST} levels below the root, or holds itself; leave levels out"
        )
