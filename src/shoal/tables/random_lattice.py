"""The base class of methods that search the lattice of levels at random."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from shoal.arrays import Int64Array
from shoal.encoding.codes import Codes
from shoal.progress import Progress
from shoal.recoding.grouping import Grouping
from shoal.tables.lattice_method import LatticeMethod
from shoal.tables.lattice_search import LatticeSearch, Node

Rated = tuple[float, int, int]  # the score, the suppressed records, and the height of the node; lower is better


class RandomLatticeMethod(LatticeMethod):
    """A method whose search draws nodes at random, by the seed of the release; a subclass implements `explore`."""

    @abstractmethod
    def explore(self, search: LatticeSearch, rng: np.random.Generator, progress: Progress) -> None:
        """Check nodes of the lattice; the best of them is chosen."""

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """Return the cuts of the best node that the search checked."""
        self._rng = rng
        return super().decide(codes, rng=rng, progress=progress)

    def choose(self, search: LatticeSearch, progress: Progress) -> Node | None:
        """The best checked node; the root is always checked."""
        search.check_levels(search.space.top)
        self.explore(search, self._rng, progress)
        return search.best


def rate_levels(search: LatticeSearch, level: Int64Array) -> Rated:
    """The order of nodes: by the score; nodes that fail come last, by the records that would be suppressed, then by height.

    A node that fails without a count, because a coarser one fails, has a lower bound of these records.
    """
    found = search.check_levels(level)
    height = int((search.space.top - level).sum())
    return (found.score, 0, 0) if found.holds else (np.inf, found.suppressed, height)
