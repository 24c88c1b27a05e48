"""Incognito: all minimal anonymous generalizations (LeFevre, DeWitt, Ramakrishnan, SIGMOD 2005)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import BoolArray
from shoal.progress import Progress
from shoal.tables.lattice_method import LatticeMethod
from shoal.tables.lattice_search import LatticeSearch, Node
from shoal.tables.samarati import refuse_large

MOST_CANDIDATES = 2**26  # nodes of the lattices of all subsets of attributes


class Incognito(LatticeMethod):
    """Find all minimal anonymous generalizations, and choose the best of them.

    Parameters
    ----------
    policy : the policy
    objective : the measure by which the minimal nodes are compared, as for `FullDomain`
    common : ``write``, ``improve`` and others, as for every method; see `GroupingMethod`

    A node is minimal if it is anonymous and no finer node is. The search joins subsets: a node is a candidate if it is
    anonymous by every subset of its attributes, and a node that is coarser than an anonymous one needs no check. The levels are
    those of `FullDomain`. Where a coarser node can fail, as with entropy l-diversity and suppression, every node is checked.
    Ties: the lower level of the earlier attribute in the policy.

    ``minimal_`` has the minimal nodes: the level of every attribute by column name.

    Guarantee
    ---------
    Every group meets every requirement. Deterministic. Never better than `FullDomain` by its objective.

    References
    ----------
    LeFevre, DeWitt, Ramakrishnan: Incognito: efficient full-domain k-anonymity. SIGMOD 2005.
    """

    name: ClassVar[str] = "incognito"
    summary: ClassVar[str] = "finds all minimal anonymous generalizations, and chooses the best of them"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)

    minimal_: tuple[Mapping[str, int], ...]

    def choose(self, search: LatticeSearch, progress: Progress) -> Node | None:
        """The best of the minimal nodes."""
        refuse_large(search, self.name)
        anonymous = _join_subsets(search, progress) if search.lattice.inherits else _check_all(search, progress)
        minimal = sorted(search.to_node(search.space.low + level) for level in np.argwhere(_select_minimal(anonymous)))
        self.minimal_ = tuple(dict(zip(search.lattice.names, node, strict=True)) for node in minimal)
        found = [(search.check(node).score, node) for node in minimal]
        if not found:
            return None
        least = min(score for score, _ in found)
        return min(node for score, node in found if score <= least + 1e-12 * max(1.0, abs(least)))


def _shape(search: LatticeSearch) -> tuple[int, ...]:
    """The number of different levels of every attribute, in the order of the search."""
    return tuple(int(t - b) + 1 for b, t in zip(search.space.low, search.space.top, strict=True))


def _check_all(search: LatticeSearch, progress: Progress) -> BoolArray:
    """Whether each node is anonymous, by a check of each, from coarse to fine."""
    anonymous = np.zeros(_shape(search), bool)
    for number in range(anonymous.size - 1, -1, -1):
        at = np.unravel_index(number, anonymous.shape)
        anonymous[at] = search.check_levels(search.space.low + np.array(at, np.int64)).holds
        progress("searching", anonymous.size - number, anonymous.size)
    return anonymous


def _join_subsets(search: LatticeSearch, progress: Progress) -> BoolArray:
    """Whether each node is anonymous, by the subsets of the attributes in ascending size."""
    shape, m = _shape(search), len(search.order)
    if prod(size + 1 for size in shape) > MOST_CANDIDATES:
        return _search_subset(search, tuple(range(m)), np.ones(shape, bool))
    before: dict[tuple[int, ...], BoolArray] = {}
    for size in range(1, m + 1):
        found = {}
        for number, subset in enumerate(combinations(range(m), size)):
            candidates = np.ones([shape[j] for j in subset], bool)
            for axis, j in enumerate(subset if size > 1 else ()):
                candidates &= np.expand_dims(before[tuple(i for i in subset if i != j)], axis)
            found[subset] = _search_subset(search, subset, candidates)
            progress("searching", size * 1000 + min(number, 999), m * 1000 + 1000)
        before = found
    return before[tuple(range(m))]


def _search_subset(search: LatticeSearch, subset: tuple[int, ...], candidates: BoolArray) -> BoolArray:
    """Whether each node of a subset is anonymous, with the roots of all other attributes; only candidates can be."""
    anonymous = np.zeros(candidates.shape, bool)
    nodes = np.argwhere(candidates)
    for node in nodes[np.argsort(nodes.sum(axis=1), kind="stable")]:
        if not anonymous[tuple(node)]:
            level = search.space.top.copy()
            level[list(subset)] = search.space.low[list(subset)] + node
            if search.check_levels(level).holds:
                anonymous[tuple(slice(at, None) for at in node)] = True
    return anonymous


def _select_minimal(anonymous: BoolArray) -> BoolArray:
    """The anonymous nodes without a finer anonymous node."""
    finer = np.zeros(anonymous.shape, bool)  # whether any strictly finer node is anonymous
    reached = anonymous
    for axis in range(anonymous.ndim):
        reached = np.logical_or.accumulate(reached, axis=axis)
    for axis in range(anonymous.ndim):
        lower = [slice(None)] * anonymous.ndim
        upper = [slice(None)] * anonymous.ndim
        lower[axis], upper[axis] = slice(None, -1), slice(1, None)
        finer[tuple(upper)] |= reached[tuple(lower)]
    return anonymous & ~finer
