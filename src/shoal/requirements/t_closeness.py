"""t-closeness (Li et al.): what is confidential is distributed in every group nearly as in the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from shoal.arrays import FloatArray, Int32Array
from shoal.errors import PolicyError, list_choices, list_some
from shoal.kernels import rules
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import (
    SLACK,
    Combining,
    Normal,
    TableDistribution,
    Term,
    Verdict,
    distribution_of,
    parse_column,
    parse_names,
    parse_real_number,
    shares,
)
from shoal.taxonomy import Taxonomy

DISTANCES = ("equal", "ordered", "hierarchical")


@dataclass(frozen=True)
class TCloseness(Combining):
    """In every group the earth mover's distance to the whole table's distribution is at most ``t``.

    Parameters
    ----------
    t : the largest distance, between 0 and 1
    of : the sensitive attribute
    distance : ``equal`` holds all values equally far apart; ``ordered`` takes them in ascending order, neighbours
        1/(values - 1) apart; ``hierarchical`` takes the height of the lowest common ancestor over the height of the tree
    on : the quasi-identifiers that form the groups; all of them unless said
    taxonomy : the tree of the sensitive values, for the hierarchical distance

    Guarantee
    ---------
    Whoever finds a person's group learns little of the confidential value beyond what the whole table tells. A missing
    value counts as a value: the last in order, a leaf of its own under the root.
    """

    t: float
    of: str
    distance: str = "equal"
    on: Sequence[str] | None = None
    taxonomy: Taxonomy | Any = None
    normal: Normal = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "t-closeness"
    monotone: ClassVar[bool] = True
    relative: ClassVar[bool] = True
    tested_on: ClassVar[Literal["table", "bucket", "operator"]] = "table"

    def __post_init__(self) -> None:
        parse_column(self.of, self.name)
        object.__setattr__(self, "t", parse_real_number(self.t, "t"))
        if not 0 <= self.t <= 1:
            raise PolicyError(f"t must lie between 0 and 1, not {self.t}: 0 asks for the table's own distribution")
        if self.distance not in DISTANCES:
            raise PolicyError(f"distance of t-closeness: {self.distance!r}; {list_choices(self.distance, DISTANCES)}")
        if (self.distance == "hierarchical") != (self.taxonomy is not None):
            raise PolicyError(
                "the hierarchical distance needs 'taxonomy', the tree of the values; the others have none. A tree that was "
                "made from the data is not published, so that only the owner can test such a requirement"
            )
        if self.taxonomy is not None and not isinstance(self.taxonomy, Taxonomy):
            path = isinstance(self.taxonomy, (str, Path))
            tree = Taxonomy.load(self.taxonomy) if path else Taxonomy.from_nested(self.taxonomy)
            object.__setattr__(self, "taxonomy", tree)
        object.__setattr__(self, "on", parse_names(self.on))

    @property
    def least(self) -> int:
        """One record may do, where t allows it."""
        return 1

    def limits(self, layout: TableDistribution) -> tuple[Term, ...]:
        """The distance as a weighted sum over sets of values: singles, beginnings of the order, or nodes of the tree.

        The earth mover's distance along a tree is the sum over its edges of the edge's length times what must pass it, and
        a tree whose edges are half the difference of heights long sets two leaves as far apart as their lowest common
        ancestor is high.
        """
        first, last = layout.span(self.of)
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
            order, left, right, weight = self._edges(layout.label(self.of))
        return (Term(rules.DISTANCE, first, last, self.t, ceiling=weight, left=left, right=right, order=order),)

    def test(self, groups: Groups) -> Verdict:
        """The distance of every group."""
        share = distribution_of(groups).share(self.of)
        count = len(groups.start) - 1
        value = np.zeros(count)
        for begin, end, part in shares(groups, self.of):
            gap = part - share
            if self.distance == "equal":
                value[begin:end] = np.abs(gap).sum(axis=1) / 2
            elif self.distance == "ordered":
                among = gap[:, share > 0]  # a value that nobody has any more is no step on the way
                value[begin:end] = np.abs(np.cumsum(among, axis=1)).sum(axis=1) / max(among.shape[1] - 1, 1)
            else:
                value[begin:end] = self._moved(gap, groups.labels[groups.sensitive.index(self.of)])
        return Verdict(value <= self.t + SLACK, value, int(np.argmax(value)) if count else 0)

    def _tree(self, labels: Sequence[str | None]) -> tuple[Taxonomy, Int32Array]:
        """The tree, and the leaf code of every confidential code."""
        tree: Taxonomy = self.taxonomy
        place = self._places(tree)
        lost = [label for label in labels if label is not None and label not in place]
        if lost:
            raise PolicyError(f"the taxonomy of t-closeness misses values of {self.of!r}: {list_some(lost)}")
        if None in labels:
            tree = tree.with_missing()
            place[None] = tree.size - 1
        return tree, np.array([place[label] for label in labels], np.int32)

    def _places(self, tree: Taxonomy) -> dict[str | None, int]:
        """The code of every leaf by its text, normalized where the values are."""
        place: dict[str | None, int] = {}
        for code, leaf in enumerate(tree.leaves):
            text = leaf if leaf is None or self.normal is None else self.normal(leaf) or leaf
            other = place.setdefault(text, code)
            if tree.parent[tree.leaf[other]] != tree.parent[tree.leaf[code]]:
                raise PolicyError(
                    f"the taxonomy of t-closeness has {tree.leaves[other]!r} and {leaf!r} in different branches, but "
                    f"'normalize' makes them one value of {self.of!r}; keep one of them"
                )
        return place

    def _edges(self, labels: Sequence[str | None]) -> tuple[Int32Array, Int32Array, Int32Array, FloatArray]:
        tree, code = self._tree(labels)
        order = np.argsort(code, kind="stable").astype(np.int32)
        nodes = np.arange(1, len(tree.label))
        left = np.searchsorted(code[order], tree.lo[nodes], side="left")
        right = np.searchsorted(code[order], tree.hi[nodes], side="right") - 1
        weight = (tree.height[tree.parent[nodes]] - tree.height[nodes]) / (2 * tree.height[0])
        some_of = right >= left
        return order, left[some_of].astype(np.int32), right[some_of].astype(np.int32), weight[some_of]

    def _moved(self, gap: FloatArray, labels: Sequence[str | None]) -> FloatArray:
        """Node by node from below: what the branches of a node can exchange moves at the cost of its height."""
        tree, code = self._tree(labels)
        extra = np.zeros((len(gap), len(tree.label)))
        extra[:, tree.leaf[code]] = gap
        more, less = np.zeros(extra.shape), np.zeros(extra.shape)
        cost = np.zeros(len(gap))
        for node in range(len(tree.label) - 1, -1, -1):  # children stand after their parents
            if tree.height[node] > 0:
                extra[:, node] = more[:, node] - less[:, node]
                cost += tree.height[node] / tree.height[0] * np.minimum(more[:, node], less[:, node])
            if node > 0:
                more[:, tree.parent[node]] += np.maximum(extra[:, node], 0.0)
                less[:, tree.parent[node]] += np.maximum(-extra[:, node], 0.0)
        return cost
