"""A genetic search of the lattice of levels (Iyengar: Transforming data to satisfy privacy constraints, KDD 2002)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal.arrays import Int64Array
from shoal.pipeline.method import WritingParameters
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.requirements.requirement import parse_whole_number
from shoal.tables.lattice_search import LatticeSearch
from shoal.tables.random_lattice import RandomLatticeMethod, Rated, rate_levels

MUTATION = 0.1  # the chance that a level of a child changes
TOURNAMENT = 3  # the nodes of which the best is a parent
TRIES = 4  # to change a child that was checked before


class Genetic(RandomLatticeMethod):
    """Search the lattice of levels with a population of nodes: selection, crossover and mutation.

    Parameters
    ----------
    policy : the policy
    objective : the measure to optimize, as for `FullDomain`; the paper uses ``loss_mean`` (its LM) and ``cm``
    population : the number of nodes in a generation
    generations : the number of generations
    common : ``write``, ``improve`` and others, as for every method; see `GroupingMethod`

    A node has one level per attribute, as for `FullDomain`. A parent is the best of three random nodes of the population. A
    child has each level from one of two parents, and a level changes with a chance of one in ten, or of one in the number of
    attributes. A child that was checked before changes again, a few times. The best node of a generation stays in the next. A
    node that fails is worse than all others, the more records would be suppressed. Random draws depend on the seed.

    ``lattice_`` has the checked nodes.

    Guarantee
    ---------
    Every group meets every requirement. Deterministic for a given seed. Never better than `FullDomain` by its objective, and
    not always as good.

    References
    ----------
    Iyengar: Transforming data to satisfy privacy constraints. KDD 2002.
    """

    name: ClassVar[str] = "genetic"
    summary: ClassVar[str] = "searches the lattice of levels with a population of nodes, without a proof"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"population": 8, "generations": 4},)

    def __init__(
        self,
        policy: Policy,
        *,
        objective: str = "loss",
        population: int = 40,
        generations: int = 50,
        **common: Unpack[WritingParameters],
    ) -> None:
        super().__init__(policy, objective=objective, **common)
        self.population: Any = population
        self.generations: Any = generations

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters."""
        super().check_parameters()
        parse_whole_number(self.population, "population", 2)
        parse_whole_number(self.generations, "generations", 1)

    def explore(self, search: LatticeSearch, rng: np.random.Generator, progress: Progress) -> None:
        """Check the nodes of all generations."""
        size = parse_whole_number(self.population, "population", 2)
        generations = parse_whole_number(self.generations, "generations", 1)
        low, top = search.space.low, search.space.top
        levels = rng.integers(low, top + 1, (size, len(low)))
        levels[0] = top
        rated = [rate_levels(search, level) for level in levels]
        seen = {level.tobytes() for level in levels}
        for number in range(generations):
            progress("searching", number, generations)
            best = min(range(size), key=lambda i: rated[i])
            children = [levels[best], *(_breed(levels, rated, search, rng, seen) for _ in range(size - 1))]
            levels, rated = np.array(children), [rate_levels(search, level) for level in children]


def _breed(
    levels: Int64Array, rated: list[Rated], search: LatticeSearch, rng: np.random.Generator, seen: set[bytes]
) -> Int64Array:
    """A child of two parents, if possible one that is not among the ``seen`` nodes."""
    low, top = search.space.low, search.space.top
    parents = [min(rng.integers(len(rated), size=TOURNAMENT), key=lambda i: rated[i]) for _ in range(2)]
    child = np.where(rng.random(len(low)) < 0.5, levels[parents[0]], levels[parents[1]])
    for _ in range(TRIES):
        changed = rng.random(len(low)) < max(MUTATION, 1 / max(len(low), 1))
        child = np.where(changed, rng.integers(low, top + 1), child)
        if child.tobytes() not in seen:
            break
    seen.add(child.tobytes())
    return np.asarray(child, np.int64)
