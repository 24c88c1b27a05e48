"""Simulated annealing in the lattice of levels (Winkler: Using simulated annealing for k-anonymity, 2002)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal.arrays import Int64Array
from shoal.errors import PolicyError
from shoal.pipeline.method import WritingParameters
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.requirements.requirement import parse_real_number, parse_whole_number
from shoal.tables.lattice_search import LatticeSearch
from shoal.tables.random_lattice import RandomLatticeMethod, Rated, rate_levels

LAST = 0.01  # the last temperature, as a share of the first
RUNS = 8  # each with the first temperature; by turns from the best node so far and from a random one
FAILING = 0.1  # the chance that a node that fails is accepted at the first temperature


class Annealing(RandomLatticeMethod):
    """Search the lattice of levels by steps to neighbours; a worse node is accepted with a chance that falls.

    Parameters
    ----------
    policy : the policy
    objective : the measure to optimize, as for `FullDomain`
    temperature : the first temperature: a node whose score is worse by this share is accepted with a chance of 1/e. The
        temperature falls to a hundredth of it
    steps : the number of steps, divided among eight runs; they begin by turns at the best node so far and at a random one
    common : ``write``, ``improve`` and others, as for every method; see `GroupingMethod`

    A step changes the level of one attribute or of two attributes, by one or to a random level. The levels are those of
    `FullDomain`. A node that fails is accepted with a small chance, which falls with the temperature. From there the search
    goes to nodes with fewer suppressed records. Random draws depend on the seed.

    ``lattice_`` has the checked nodes.

    Guarantee
    ---------
    Every group meets every requirement. Deterministic for a given seed. Never better than `FullDomain` by its objective, and
    not always as good.

    References
    ----------
    Winkler: Using simulated annealing for k-anonymity. US Census Bureau, Research Report Statistics 2002-07.
    """

    name: ClassVar[str] = "annealing"
    summary: ClassVar[str] = "searches the lattice of levels by simulated annealing, without a proof"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"steps": 40}, {"steps": 40, "temperature": 0.5})

    def __init__(
        self,
        policy: Policy,
        *,
        objective: str = "loss",
        temperature: float = 0.1,
        steps: int = 2000,
        **common: Unpack[WritingParameters],
    ) -> None:
        super().__init__(policy, objective=objective, **common)
        self.temperature: Any = temperature
        self.steps: Any = steps

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters."""
        super().check_parameters()
        parse_whole_number(self.steps, "steps", 1)
        if parse_real_number(self.temperature, "temperature") <= 0:
            raise PolicyError(f"Parameter 'temperature' must be above 0, not {self.temperature!r}.")

    def explore(self, search: LatticeSearch, rng: np.random.Generator, progress: Progress) -> None:
        """Check the nodes of all steps."""
        steps = parse_whole_number(self.steps, "steps", 1)
        first = parse_real_number(self.temperature, "temperature")
        low, top, length = search.space.low, search.space.top, -(-steps // RUNS)
        for run in range(RUNS):
            level = rng.integers(low, top + 1) if run % 2 or search.best is None else search.place.best_level.copy()
            rated = rate_levels(search, level)
            for step in range(length):
                progress("searching", run * length + step, RUNS * length)
                other = _move(level, search, rng)
                found = rate_levels(search, other)
                if found <= rated or rng.random() < _accept(rated, found, first, LAST ** (step / length)):
                    level, rated = other, found


def _move(level: Int64Array, search: LatticeSearch, rng: np.random.Generator) -> Int64Array:
    """A neighbour: one level or two levels change, by one or to a random level."""
    low, top = search.space.low, search.space.top
    other = level.copy()
    for j in rng.permutation(np.flatnonzero(low < top))[: rng.integers(1, 3)]:
        near = min(max(other[j] + rng.choice((-1, 1)), low[j]), top[j])
        other[j] = near if rng.random() < 0.5 else rng.integers(low[j], top[j] + 1)
    return other


def _accept(rated: Rated, found: Rated, first: float, cooling: float) -> float:
    """The chance that a worse node is accepted; ``cooling`` is the temperature as a share of the first."""
    if not math.isfinite(found[0]):
        return FAILING * cooling
    heat = first * cooling * abs(rated[0])
    return math.exp(-(found[0] - rated[0]) / heat) if heat > 0 else 0.0
