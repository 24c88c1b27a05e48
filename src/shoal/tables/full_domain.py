"""Full-domain generalization: the best node of the lattice of levels (as the tool ARX; Samarati, TKDE 2001)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal import kernels
from shoal.arrays import Int64Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError
from shoal.kernels.interface import LossArrays
from shoal.pipeline.method import Need, WritingParameters
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import AttributeCut, Grouping, build_raw_groups
from shoal.requirements import select_passing_groups
from shoal.tables.lattice_method import LatticeMethod, parse_levels, split_levels
from shoal.tables.lattice_search import LatticeSearch, LevelLattice, Node
from shoal.tables.levels import list_cuts
from shoal.tables.peel import Peel


class FullDomain(LatticeMethod):
    """Choose one level of generalization per attribute for the whole table: the provably best by an objective.

    Parameters
    ----------
    policy : the policy; records of failing groups are suppressed, as far as ``suppress`` allows
    objective : the measure to optimize, by its name in ``release.measures``: ``loss`` (a geometric mean over the attributes),
        ``loss_mean``, ``ncp``, ``precision``, ``entropy``, ``dm``, ``average`` or ``cm`` (needs a target). Suppressed records
        count as these measures count them
    levels : the levels of some attributes, by column name, such as ``{"age": 2}``; the search chooses the others. 0 is the
        level of the values, and the height of the taxonomy that of its root
    recode_suppressed : generalize the records that the best node suppresses again on their own, in rounds as `Peel` does, until
        nothing is gained. Far fewer records are lost. The release is then a local recoding: a value can have different labels
        in different groups. Most useful if the policy allows to suppress many records
    seconds : end the search after this many seconds with the best node so far; the release then depends on the speed of the
        machine. A note states a bound on the objective of the nodes that are left
    common : ``write``, ``improve`` and others, as for every method; see `GroupingMethod`

    Level j of a taxonomy of height H has the ancestor of every value at depth H - j, or the value itself if its leaf is less
    deep. Numbers and dates without a taxonomy are divided at quantiles into 32, 16, 8, 4 and 2 ranges, as far as they have more
    values; the last level is their root. A quasi-identifier that no requirement covers is published as ``*``, unless ``levels``
    names it. Ties: the lower level of the earlier attribute in the policy.

    The search is exact. Nodes are visited from coarse to fine. Where too many records are in small groups, all finer nodes
    fail, and nodes that cannot be better than the best one are not checked. A lattice of more than 16 million nodes without
    ``seconds`` is searched up to a fixed number of counted rows.

    The objective counts the labels of the levels. Where records are suppressed, ranges of numbers without a taxonomy and the
    labels of trees that were built from the data end at released values, so the release can lose less than the search counts.

    ``lattice_`` has the state, the objective and the suppressed records of the nodes.

    Guarantee
    ---------
    Every group meets every requirement. No other node has a better objective, unless ``seconds`` ended the search.
    Deterministic, unless ``seconds`` ended the search.

    References
    ----------
    Samarati: Protecting respondents' identities in microdata release. TKDE 2001. Kohlmayer, Prasser, Eckert, Kemper, Kuhn:
    Flash: efficient, stable and optimal k-anonymity. PASSAT 2012.
    """

    name: ClassVar[str] = "optimal"
    timed: ClassVar[bool] = True
    summary: ClassVar[str] = "chooses the best level per attribute for the whole table, with a proof"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {},
        {"objective": "loss_mean", "ends": "tight"},
        {"objective": "dm"},
        {"objective": "cm"},
        {"objective": "entropy", "improve": True},
        {"recode_suppressed": True},
    )
    column_examples: ClassVar[Mapping[str, Any]] = {"levels": 1}

    def __init__(
        self,
        policy: Policy,
        *,
        objective: str = "loss",
        levels: Mapping[str, int] | str | None = None,
        recode_suppressed: bool = False,
        **common: Unpack[WritingParameters],
    ) -> None:
        super().__init__(policy, objective=objective, **common)
        self.levels: Any = levels
        self.recode_suppressed = recode_suppressed
        self._notes: tuple[str, ...] = ()

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """The needs of all searches of the lattice; records of people are not recoded in rounds."""
        return super().list_needs(parameters) | ({"no unit"} if parameters.get("recode_suppressed") else set())

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters and for parameters that exclude each other."""
        super().check_parameters()
        if not isinstance(self.recode_suppressed, bool):
            raise PolicyError(f"recode_suppressed must be true or false, not {self.recode_suppressed!r}.")
        if self.recode_suppressed and self.ends == "cut":
            raise PolicyError(
                "recode_suppressed=True and ends='cut' exclude each other: the groups of later rounds have no common cut. "
                "Remove one of them."
            )
        if self.recode_suppressed and self.policy.unit is not None:
            raise PolicyError(
                "recode_suppressed=True is not possible with a unit: the records of a person would be in groups of several "
                "rounds. Remove recode_suppressed, or use method 'peel'."
            )

    @property
    def merges_partitions(self) -> bool:
        """Whether one node is chosen for a partitioned table: not if suppressed records are generalized again."""
        return super().merges_partitions and not self.recode_suppressed

    def list_levels(self, attribute: Attribute, records: Int64Array) -> Sequence[AttributeCut]:
        """The cuts of all levels, or of the given one; `fix_levels` refuses a wrong level."""
        given = split_levels(self.levels)
        level = str(given[attribute.name]) if isinstance(given, Mapping) and attribute.name in given else ""
        cuts = list_cuts(attribute, records) if level else super().list_levels(attribute, records)
        return cuts[int(level) :][:1] or cuts if level.isdecimal() else cuts

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """Return the cuts of the best node, or groups in which its suppressed records are generalized again."""
        best = super().decide(codes, rng=rng, progress=progress)
        if not self.recode_suppressed:
            return best
        passes = select_passing_groups(build_raw_groups(codes, best), self.policy.require)
        if passes.all():
            return best
        number = np.where(passes, np.cumsum(passes) - 1, -1).astype(np.int32)
        published = np.full(len(codes.quasi), -1, np.int32)
        published[codes.combination[best.placement.cell]] = number[best.placement.group]
        peel = Peel(self.policy, objective=self.loss_objective)
        recoded = peel.recode_rest(codes, published, rng=rng, progress=progress)
        losses = codes.loss_tables(self.loss_objective)
        tables = LossArrays(np.ones(len(codes.attributes)), losses.ints, losses.floats)
        return recoded if _sum_losses(recoded, tables) < _sum_losses(best.keep_groups(passes), tables) else best

    def notes(self) -> tuple[str, ...]:
        """Return the note on a search that was ended."""
        return self._notes

    def fix_levels(self, lattice: LevelLattice) -> Mapping[int, int]:
        """The levels that the user gives."""
        return parse_levels(self.levels, lattice)

    def choose(self, search: LatticeSearch, progress: Progress) -> Node | None:
        """The best node of the whole lattice, or of the time."""
        seconds = self.parse_seconds()
        deadline = None if seconds is None else time.monotonic() + seconds
        search.descend(deadline)
        search.climb(_share_time(deadline))
        search.bound_blocks(_share_time(deadline))
        search.sweep(progress, deadline)
        self._notes = () if search.finished else (_note_end(search, seconds),)
        return search.best


def _sum_losses(grouping: Grouping, tables: LossArrays) -> float:
    """The loss of all records; a suppressed record loses everything."""
    released = float((kernels.boxes.sum_losses(grouping.lo, grouping.hi, tables) * grouping.size()).sum())
    placement = grouping.placement
    return released + float(placement.count[placement.group < 0].sum()) * float(tables.weight.sum())


def _share_time(deadline: float | None) -> float | None:
    """The end of the first third of the time that is left."""
    return None if deadline is None else time.monotonic() + (deadline - time.monotonic()) / 3


def _note_end(search: LatticeSearch, seconds: float | None) -> str:
    """A note on a search that ended before all nodes were decided."""
    name, lattice = search.lattice.objective.name, search.lattice
    reason = "after its largest number of counted rows" if seconds is None else f"after {seconds:g} seconds"
    better = "higher" if name == "precision" else "lower"
    return (
        f"The search ended {reason}, before all of the {lattice.size:,} generalizations were decided; {search.checked:,} were "
        f"checked. The best of them has {name} {search.best_measure:.6g}. No generalization has a {better} value than "
        f"{search.bound():.6g}. Allow more time with 'seconds' for a better release or a proof."
    )
