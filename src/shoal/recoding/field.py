"""Fields: the quasi-identifiers of a recoding, with the data to find the position of new values."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from shoal.arrays import FloatArray
from shoal.encoding.attributes import Attribute
from shoal.engines import Distinct
from shoal.errors import list_choices
from shoal.formats.checked_json import member, require
from shoal.policy import READ_AS, Policy
from shoal.policy.columns import KINDS_OF
from shoal.taxonomy import Balanced, Taxonomy, TreeBuilder, parse_tree_builder


@dataclass(frozen=True)
class Field:
    """A quasi-identifier of a recoding: its kind, its taxonomy, and the rule that extends the taxonomy to new values.

    The position of a value (see `Attribute`) is the number itself, or the leaf code in the taxonomy; infinity for a missing
    value, NaN for an unknown category.
    """

    name: str
    kind: Literal["numeric", "categorical", "date"]
    span: float
    taxonomy: Taxonomy | None = None
    tree_builder: TreeBuilder | None = None

    def __post_init__(self) -> None:
        where = f"the field {self.name!r}"
        require(self.kind in READ_AS, f"{where} has an unknown kind; {list_choices(self.kind, list(READ_AS))}")
        require(math.isfinite(self.span) and self.span > 0, f"{where} must have a finite span above 0")
        if self.kind == "categorical" or self.tree_builder is not None:
            require(self.taxonomy is not None, f"{where} has no taxonomy")
        else:
            require(self.taxonomy is None, f"{where} has a taxonomy, but no rule for new values")
        if self.tree_builder is not None:
            fits = self.kind in KINDS_OF[self.tree_builder.word]
            if isinstance(self.tree_builder, Balanced):
                fits &= self.tree_builder.numeric == (self.kind == "numeric")
            require(fits, f"{where} is {self.kind}, which does not fit the rule {self.tree_builder.word!r}")

    @classmethod
    def of(cls, attribute: Attribute, policy: Policy) -> Field:
        """Create the field of an attribute."""
        builder = policy.quasi[attribute.name].tree_builder
        return cls(attribute.name, attribute.kind, attribute.span, attribute.taxonomy, builder)

    def locate(self, distinct: Distinct) -> FloatArray:
        """The position of each distinct value of later data."""
        tree, builder = self.taxonomy, self.tree_builder
        if tree is None:
            return np.asarray(distinct.values, np.float64)
        if builder is None:
            return np.array([tree.code.get(str(v), np.nan) for v in distinct.values], np.float64)
        paths = [builder.path(v) for v in distinct.values]
        return np.array(
            [tree.code[p[0]] if p[0] in tree.code else self._position_between(p) for p in paths], np.float64
        )

    def _position_between(self, path: list[str]) -> float:
        """The position of a value without a leaf: between its neighbours, inside its lowest node in the taxonomy."""
        tree, builder = self.taxonomy, self.tree_builder
        assert tree is not None and builder is not None  # noqa: S101
        position = bisect_left(self._keys, builder.key(path[0])) - 0.5
        node = next((self._nodes[label] for label in path if label in self._nodes), 0)
        if node:
            beside = (_slack(int(tree.height[node])) + _slack(int(tree.height[node]) - 1)) / 2
            position = float(min(max(position, tree.lo[node] - beside), tree.hi[node] + beside))
        return position

    @cached_property
    def _keys(self) -> list[Any]:
        assert self.taxonomy is not None and self.tree_builder is not None  # noqa: S101
        return [self.tree_builder.key(label) for label in self.taxonomy.leaves if label is not None]

    @cached_property
    def _nodes(self) -> dict[str, int]:
        """The inner nodes by label."""
        assert self.taxonomy is not None  # noqa: S101
        tree = self.taxonomy
        return {str(tree.label[n]): n for n in np.flatnonzero(tree.height > 0)[::-1].tolist()}

    def extent(self, node: int) -> tuple[float, float]:
        """The range of positions of a published node: a leaf has one position, the root has all."""
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
            found["made"] = self.taxonomy.derived
        if self.tree_builder is not None:
            found["maker"] = self.tree_builder.to_dict()
        return found

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Field:
        """Read a field from JSON content."""
        tree = None
        if "taxonomy" in found:
            nested, missing, derived = (
                member(found, key, kind) for key, kind in (("taxonomy", dict), ("missing", bool), ("made", bool))
            )
            tree = Taxonomy.flat([]) if list(nested.values()) == [[]] else Taxonomy.from_nested(nested, made=derived)
            tree = tree.with_missing() if missing else tree
        name, kind, span = member(found, "name", str), member(found, "kind", str), member(found, "span", float)
        builder = parse_tree_builder(member(found, "maker", dict)) if "maker" in found else None
        field = cls(name, kind, span, tree, builder)
        if builder is not None:
            field._keys  # noqa: B018  report leaves that the rule cannot read now, not at the first new value
        return field


def _slack(height: int) -> float:
    """How far a node extends beyond its codes: more than its children, so that there are positions between for new values."""
    return float(0.5 - 0.5 * 2.0**-height)
