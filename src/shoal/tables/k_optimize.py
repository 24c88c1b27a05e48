"""k-Optimize: the best cuts of ordered values (Bayardo and Agrawal, ICDE 2005)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal.encoding.codes import Codes
from shoal.pipeline.method import WritingParameters
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import AttributeCut, Grouping
from shoal.tables.cut_search import INFINITE, CutSearch
from shoal.tables.full_domain import FullDomain
from shoal.tables.lattice_method import LatticeMethod
from shoal.tables.lattice_objective import OBJECTIVES
from shoal.tables.lattice_search import LatticeSearch, LevelLattice, Node
from shoal.tables.searched_lattice import SearchedLattice


class KOptimize(LatticeMethod):
    """Cut the ordered values of every attribute into intervals for the whole table: the best cuts by an objective.

    Parameters
    ----------
    policy : the policy; records of failing groups are suppressed, as far as ``suppress`` allows
    objective : the measure to minimize, by its name in ``release.measures``: ``dm`` (discernibility) or ``cm`` (classification
        metric, needs a target)
    seconds : end the search after this many seconds; the release then depends on the speed of the machine (default: after a
        fixed amount of work)
    common : ``write``, ``improve`` and others, as for every method; see `GroupingMethod`

    Numbers are ordered by value, and categories by the depth-first order of their taxonomy. An interval of categories is any
    run of neighbours, such as ``{clerk, cook, nurse}``, not only a node of the taxonomy. A missing value is alone, unless all
    values of the attribute are one interval. An attribute with more than 256 values has cut points at quantiles of the records.

    The search starts from the optimum of `FullDomain` for the same objective. A local search improves it: it divides one
    attribute after another in the best way by dynamic programming, and restarts from changed cuts. Then the set-enumeration
    tree of cut points is searched with the bounds of the paper, to its end if there are at most 20 cut points and no
    ``seconds``. Requirements on several attribute sets, on the released distribution or on people are checked cut by cut: fewer
    cuts are tried, and the tree is searched to its end with at most 8 cut points.

    ``cost_`` is the objective of the cuts, ``bound_`` a proven lower bound for all cuts at these cut points, and ``gap_`` their
    difference as a share of the cost. ``lattice_`` has the nodes of the search for the full-domain optimum.

    Guarantee
    ---------
    Every group meets every requirement. No cuts have an objective below ``bound_``. Never worse than `FullDomain` by its
    objective, unless ``seconds`` ended its search. Deterministic, unless ``seconds`` ended the search.

    References
    ----------
    Bayardo, Agrawal: Data privacy through optimal k-anonymization. ICDE 2005.
    """

    name: ClassVar[str] = "k-optimize"
    timed: ClassVar[bool] = True
    objectives: ClassVar[Sequence[str]] = ("dm", "cm")
    summary: ClassVar[str] = "cuts the ordered values of every attribute into intervals, with a bound on the best cuts"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"objective": "cm"}, {"improve": True})

    cost_: float
    bound_: float
    gap_: float

    def __init__(self, policy: Policy, *, objective: str = "dm", **common: Unpack[WritingParameters]) -> None:
        super().__init__(policy, objective=objective, **common)
        self._notes: tuple[str, ...] = ()

    def notes(self) -> tuple[str, ...]:
        """Return the note on cuts that are not proved to be the best."""
        return self._notes

    def choose(self, search: LatticeSearch, progress: Progress) -> Node | None:
        """The full-domain optimum, found in a quarter of the time."""
        seconds = self.parse_seconds()
        part = None if seconds is None else seconds / 4
        return FullDomain(self.policy, objective=self.objective, seconds=part).choose(search, progress)

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """Return the best cuts; ``rng`` is not used."""
        seconds = self.parse_seconds()
        deadline = None if seconds is None else time.monotonic() + seconds
        lattice = LevelLattice.of(codes, self.policy, OBJECTIVES[self.objective])
        levels = LatticeSearch(lattice)
        node = self.choose(levels, progress)
        self.lattice_ = SearchedLattice(levels, node)
        search = CutSearch(lattice, levels.rules)
        search.improve(None if node is None else search.read_node(node), progress, _share_time(deadline))
        search.prove(progress, deadline)
        cuts = self._select(search, levels, node)
        if cuts is None:
            raise self._explain_failure(levels)
        return replace(Grouping.from_cuts(codes, cuts), figures={"gap": self.gap_})

    def _select(self, search: CutSearch, levels: LatticeSearch, node: Node | None) -> tuple[AttributeCut, ...] | None:
        """The best cuts, with the figures of the search; the full-domain optimum if its levels are better."""
        lattice = search.lattice
        scale = lattice.codes.records if self.objective == "cm" else 1
        full = INFINITE if node is None else round(levels.check(node).score * scale)
        if min(search.cost, full) == INFINITE:
            return None
        best = min(search.cost, full)
        bound = min(search.bound, best)
        self.cost_, self.bound_, self.gap_ = best / scale, bound / scale, (best - bound) / max(best, 1)
        self._notes = () if bound == best else (self._note_gap(),)
        return search.build_cuts(search.best) if node is None or search.cost <= full else lattice.cuts(node)

    def _note_gap(self) -> str:
        reason = "a fixed amount of work" if self.seconds is None else f"{self.parse_seconds():g} seconds"
        return (
            f"The search for the best cuts ended after {reason}. The cuts have {self.objective} {self.cost_:.6g}, no cuts have "
            f"less than {self.bound_:.6g}: a gap of {self.gap_:.1%}. Allow more time with 'seconds' for a better release or a "
            "smaller gap."
        )


def _share_time(deadline: float | None) -> float | None:
    """The end of the first two thirds of the time that is left."""
    return None if deadline is None else time.monotonic() + (deadline - time.monotonic()) * 2 / 3
