"""Datafly (Sweeney: Guaranteeing anonymity when sharing medical data, the Datafly system, AMIA 1997)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from shoal.progress import Progress
from shoal.tables.lattice_method import LatticeMethod
from shoal.tables.lattice_search import LatticeSearch, LevelLattice, Node


class Datafly(LatticeMethod):
    """Generalize the attribute with the most distinct values, level by level, until the failing records may be suppressed.

    Parameters
    ----------
    policy : the policy
    objective : the measure of the nodes in ``lattice_``; the choice does not depend on it
    common : ``write``, ``improve`` and others, as for every method; see `GroupingMethod`

    The levels are those of `FullDomain`. Ties: the earlier attribute in the policy.

    Guarantee
    ---------
    Every group meets every requirement. Deterministic. Never better than `FullDomain` by its objective.

    References
    ----------
    Sweeney: Guaranteeing anonymity when sharing medical data, the Datafly system. AMIA 1997.
    """

    name: ClassVar[str] = "datafly"
    summary: ClassVar[str] = "generalizes the attribute with the most distinct values, and suppresses the rest"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)

    def choose(self, search: LatticeSearch, progress: Progress) -> Node | None:
        """The first node on the path that meets the requirements."""
        lattice = search.lattice
        node = [search.fixed.get(j, lattice.base[j]) for j in range(len(lattice.names))]
        while not search.check(tuple(node)).holds:
            values = [count_values(lattice, j, level) for j, level in enumerate(node)]
            raised = [j for j, level in enumerate(node) if level < lattice.top[j]]
            if not raised:
                return None
            node[max(raised, key=lambda j: (values[j], -j))] += 1
            progress("generalizing", sum(node), sum(lattice.top))
        return tuple(node)


def count_values(lattice: LevelLattice, j: int, level: int) -> int:
    """The number of distinct values of an attribute at a level, as far as they occur."""
    attribute = lattice.attributes[j]
    return len(np.unique(attribute.levels[level].value[attribute.records > 0]))
