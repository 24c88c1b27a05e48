"""t-closeness (Li et al.): the distribution of a sensitive attribute in every group is close to that in the whole table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import FloatArray, Int32Array
from shoal.errors import PolicyError, list_choices, list_some
from shoal.kernels import rules
from shoal.kernels.rules import SLACK
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import (
    BaseRequirement,
    Normalization,
    TableDistribution,
    Term,
    Verdict,
    compute_distribution,
    iterate_shares,
    parse_attributes,
    parse_column,
    parse_real_number,
)
from shoal.taxonomy import Taxonomy

DISTANCES = ("equal", "ordered", "hierarchical")


@dataclass(frozen=True)
class TCloseness(BaseRequirement):
    """The earth mover's distance between every group's distribution and the whole table's is at most ``t``.

    Parameters
    ----------
    t : the largest distance, between 0 and 1
    of : the sensitive attribute
    distance : ``equal``: the distance of any two values is 1; ``ordered``: neighbours in ascending order have the distance
        1/(values - 1); ``hierarchical``: the height of the lowest common ancestor over the height of the taxonomy
    on : the quasi-identifiers that form the groups (default: all)
    taxonomy : the taxonomy of the sensitive values, for the hierarchical distance

    Guarantee
    ---------
    An attacker who finds a person's group learns little about the sensitive value beyond its distribution in the whole
    table. A missing value counts as a value: the last in order, a leaf of its own under the root.
    """

    t: float
    of: str
    distance: str = "equal"
    on: Sequence[str] | None = None
    taxonomy: Taxonomy | Any = None
    normal: Normalization = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "t-closeness"
    monotone: ClassVar[bool] = True
    relative: ClassVar[bool] = True
    value_format: ClassVar[str] = "a distance of {:g}"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"t": 0.3}, {"t": 0.3, "distance": "ordered"})

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "t", parse_real_number(self.t, "t"))
        if not 0 <= self.t <= 1:
            raise PolicyError(f"t must be between 0 and 1, not {self.t}; 0 requires equal distributions.")
        if self.distance not in DISTANCES:
            raise PolicyError(
                f"t-closeness has no distance {self.distance!r}; {list_choices(self.distance, DISTANCES)}."
            )
        if (self.distance == "hierarchical") != (self.taxonomy is not None):
            raise PolicyError(
                "the distance 'hierarchical' needs 'taxonomy', the taxonomy of the sensitive values; the other distances have "
                "no taxonomy. A public policy does not contain a taxonomy that was built from the data, so only the owner can "
                "test this requirement. Add 'taxonomy', or remove it."
            )
        if self.taxonomy is not None and not isinstance(self.taxonomy, Taxonomy):
            path = isinstance(self.taxonomy, (str, Path))
            tree = Taxonomy.load(self.taxonomy) if path else Taxonomy.from_nested(self.taxonomy)
            object.__setattr__(self, "taxonomy", tree)
        object.__setattr__(self, "on", parse_attributes(self.on))

    @property
    def least(self) -> int:
        """1: t may allow a single record."""
        return 1

    def limits(self, distribution: TableDistribution) -> tuple[Term, ...]:
        """The distance as a weighted sum over sets of values: single values, prefixes of the order, or nodes of the tree.

        The earth mover's distance along a tree is the sum over its edges of the edge's length times the mass that crosses it.
        If every edge is half as long as the difference of the heights of its ends, the distance of two leaves is the height
        of their lowest common ancestor.
        """
        first, last = distribution.span(self.of)
        count = last - first
        order = np.arange(count, dtype=np.int32)
        if self.distance == "equal":
            left = right = order
            weight = np.full(count, 0.5)
        elif self.distance == "ordered":
            right = order[:-1]
            left = np.zeros(len(right), np.int32)
            weight = np.full(len(right), 1 / max(count - 1, 1))
        else:
            order, left, right, weight = self._list_edges(distribution.label(self.of))
        return (
            Term(rules.DISTANCE, first, last, self.t, set_weight=weight, left=left, right=right, value_order=order),
        )

    def test(self, groups: Groups) -> Verdict:
        """The distance of every group."""
        table_share = compute_distribution(groups).share(self.of)
        count = len(groups.start) - 1
        value = np.zeros(count)
        for begin, end, share in iterate_shares(groups, self.of):
            gap = share - table_share
            if self.distance == "equal":
                value[begin:end] = np.abs(gap).sum(axis=1) / 2
            elif self.distance == "ordered":
                present = gap[:, table_share > 0]  # values without records do not count as neighbours
                value[begin:end] = np.abs(np.cumsum(present, axis=1)).sum(axis=1) / max(present.shape[1] - 1, 1)
            else:
                value[begin:end] = self._compute_tree_distance(gap, groups.labels[groups.sensitive.index(self.of)])
        return Verdict(value <= self.t + SLACK, value, int(np.argmax(value)) if count else 0)

    def _match_leaves(self, labels: Sequence[str | None]) -> tuple[Taxonomy, Int32Array]:
        """The taxonomy, with a leaf for missing values if there are any, and the leaf code of every sensitive code."""
        tree: Taxonomy = self.taxonomy
        leaf_code = self._map_leaves(tree)
        unknown = [label for label in labels if label is not None and label not in leaf_code]
        if unknown:
            raise PolicyError(
                f"the taxonomy of t-closeness lacks values of {self.of!r}: {list_some(unknown)}. Add them to the taxonomy."
            )
        if None in labels:
            tree = tree.with_missing()
            leaf_code[None] = tree.size - 1
        return tree, np.array([leaf_code[label] for label in labels], np.int32)

    def _map_leaves(self, tree: Taxonomy) -> dict[str | None, int]:
        """The code of every leaf by its text; texts are normalized if the values are."""
        leaf_code: dict[str | None, int] = {}
        for code, leaf in enumerate(tree.leaves):
            text = leaf if leaf is None or self.normal is None else self.normal(leaf) or leaf
            other = leaf_code.setdefault(text, code)
            if tree.parent[tree.leaf[other]] != tree.parent[tree.leaf[code]]:
                raise PolicyError(
                    f"the taxonomy of t-closeness has {tree.leaves[other]!r} and {leaf!r} in different branches, but "
                    f"'normalize' makes them one value of {self.of!r}. Remove one of them from the taxonomy."
                )
        return leaf_code

    def _list_edges(self, labels: Sequence[str | None]) -> tuple[Int32Array, Int32Array, Int32Array, FloatArray]:
        """The order of the values; for each edge of the tree, the first and last value below it in this order; its length."""
        tree, code = self._match_leaves(labels)
        order = np.argsort(code, kind="stable").astype(np.int32)
        nodes = np.arange(1, len(tree.label))
        left = np.searchsorted(code[order], tree.lo[nodes], side="left")
        right = np.searchsorted(code[order], tree.hi[nodes], side="right") - 1
        weight = (tree.height[tree.parent[nodes]] - tree.height[nodes]) / (2 * tree.height[0])
        occurs = right >= left
        return order, left[occurs].astype(np.int32), right[occurs].astype(np.int32), weight[occurs]

    def _compute_tree_distance(self, gap: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """The earth mover's distance, bottom-up: mass that moves between the children of a node costs the node's height."""
        tree, code = self._match_leaves(labels)
        balance = np.zeros((len(gap), len(tree.label)))
        balance[:, tree.leaf[code]] = gap
        surplus, deficit = np.zeros(balance.shape), np.zeros(balance.shape)
        cost = np.zeros(len(gap))
        for node in range(len(tree.label) - 1, -1, -1):  # children have higher numbers than their parents
            if tree.height[node] > 0:
                balance[:, node] = surplus[:, node] - deficit[:, node]
                cost += tree.height[node] / tree.height[0] * np.minimum(surplus[:, node], deficit[:, node])
            if node > 0:
                surplus[:, tree.parent[node]] += np.maximum(balance[:, node], 0.0)
                deficit[:, tree.parent[node]] += np.maximum(-balance[:, node], 0.0)
        return cost
