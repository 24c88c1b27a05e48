"""t-closeness (Li et al.): the distribution of a sensitive attribute in every group is close to that in the whole table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import FloatArray, Int32Array
from shoal.errors import PolicyError, list_choices, list_some
from shoal.formats.dates import parse_date
from shoal.formats.numbers import format_number, parse_number
from shoal.kernels import rules
from shoal.kernels.rules import SLACK
from shoal.requirements.group_rules import EqualDistance, GroupRule, OrderedDistance, TreeDistance
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
    parse_share,
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
    distance : ``equal``: the distance of any two values is 1; ``ordered``: neighbours in order have the distance
        1/(values - 1); ``hierarchical``: the height of the lowest common ancestor over the height of the taxonomy
    on : the quasi-identifiers that form the groups (default: all)
    taxonomy : the taxonomy of the sensitive values, for the hierarchical distance
    order : the sensitive values from the lowest to the highest, for the ordered distance (default: numbers in ascending
        order, texts in alphabetical order)

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
    order: Sequence[str] | None = None
    normal: Normalization = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "t-closeness"
    monotone: ClassVar[bool] = True
    relative: ClassVar[bool] = True
    value_format: ClassVar[str] = "a distance of {:g}"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"t": 0.3}, {"t": 0.3, "distance": "ordered"})

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "t", parse_share(self.t, "t"))
        if not 0 <= self.t <= 1:
            raise PolicyError(
                f"t must be between 0 and 1, not {self.t:g}; 0 requires equal distributions. For 20 % write 0.2 or 20%."
            )
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
        object.__setattr__(self, "order", self._parse_order())

    def _parse_order(self) -> tuple[str, ...] | None:
        """The values in order as texts."""
        if self.order is None:
            return None
        if self.distance != "ordered":
            raise PolicyError("'order' needs the distance 'ordered'. Add 'distance: ordered', or remove 'order'.")
        listed = self.order if isinstance(self.order, (list, tuple)) else ()
        texts = [
            format_number(v) if isinstance(v, (int, float)) and v is not True and v is not False else v for v in listed
        ]
        if len(texts) < 2 or not all(isinstance(text, str) for text in texts):
            raise PolicyError(
                "'order' must list the sensitive values from the lowest to the highest, such as 'order: [low, middle, high]'."
            )
        if len(set(texts)) < len(texts):
            twice = next(text for text in texts if texts.count(text) > 1)
            raise PolicyError(f"'order' lists {twice!r} twice. List each value once.")
        return tuple(texts)

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
            order = self._rank(distribution.label(self.of) if self.order else (), count)
            right = np.arange(max(count - 1, 0), dtype=np.int32)
            left = np.zeros(len(right), np.int32)
            weight = np.full(len(right), 1 / max(count - 1, 1))
        else:
            order, left, right, weight = self._list_edges(distribution.label(self.of))
        return (
            Term(rules.DISTANCE, first, last, self.t, set_weight=weight, left=left, right=right, value_order=order),
        )

    def relax(self, share: float) -> TCloseness:
        """A larger ``t``: the distributions of the table and of the part differ by at most ``share``.

        No two values have a distance above 1, so the earth mover's distance is at most the share of the records that differ.
        """
        return replace(self, t=min(self.t + share, 1.0))

    def group_rules(self) -> tuple[GroupRule, ...]:
        """The distance, with the order or the edges of the tree as texts."""
        if self.distance == "equal":
            return (EqualDistance(self.t),)
        if self.distance == "ordered":
            return (OrderedDistance(self.t, None if self.order is None else self._texts_in_order()),)
        return (TreeDistance(self.t, tuple(self._walk_edges())),)

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
                rank = self._rank(groups.labels[groups.sensitive.index(self.of)] if self.order else (), gap.shape[1])
                present = gap[:, rank[table_share[rank] > 0]]  # values without records do not count as neighbours
                value[begin:end] = np.abs(np.cumsum(present, axis=1)).sum(axis=1) / max(present.shape[1] - 1, 1)
            else:
                value[begin:end] = self._compute_tree_distance(gap, groups.labels[groups.sensitive.index(self.of)])
        return Verdict(value <= self.t + SLACK, value, int(np.argmax(value)) if count else 0)

    def _rank(self, labels: Sequence[str | None], count: int) -> Int32Array:
        """The codes of the values from the lowest to the highest; missing values are the highest."""
        if self.order is None:
            return np.arange(count, dtype=np.int32)
        texts = self._texts_in_order()
        place: dict[str | None, int] = {}
        for number, text in enumerate(texts):
            place.setdefault(text, number)
        unknown = [label for label in labels if label is not None and label not in place]
        if unknown:
            raise PolicyError(
                f"'order' of t-closeness lacks values of {self.of!r}: {list_some(unknown)}. Add them to 'order'."
            )
        places = [len(texts) if label is None else place[label] for label in labels]
        return np.argsort(places, kind="stable").astype(np.int32)

    def _texts_in_order(self) -> tuple[str, ...]:
        """The values of ``order``, normalized if the values of the table are."""
        return tuple(text if self.normal is None else self.normal(text) or text for text in self.order or ())

    def notes(self, labels: Sequence[str | None]) -> tuple[str, ...]:
        """The order that the ordered distance assumes for texts, and the place of missing values."""
        values = [label for label in labels if label is not None]
        if self.distance != "ordered" or not values:
            return ()
        found = []
        ascending = all(parse_number(v) is not None for v in values) or all(parse_date(v) is not None for v in values)
        if self.order is None and not ascending and len(values) > 1:
            found.append(
                f"t-closeness assumes the alphabetical order of the values of {self.of!r}: {list_some(values)}. If this order "
                "is wrong, list the values from the lowest to the highest, such as 'order: [low, middle, high]'."
            )
        if None in labels:
            found.append(f"t-closeness counts a missing value of {self.of!r} as the highest value.")
        return tuple(found)

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

    def _walk_edges(self) -> Iterator[tuple[str | None, int, float]]:
        """For every leaf, a missing value included, the nodes above it up to the root, each with the length of its edge."""
        tree = self.taxonomy.with_missing()
        for text, code in {**self._map_leaves(self.taxonomy), None: tree.size - 1}.items():
            node = int(tree.leaf[code])
            while node > 0:
                above = int(tree.parent[node])
                yield text, node, float(tree.height[above] - tree.height[node]) / (2 * float(tree.height[0]))
                node = above

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
