"""The base class of methods that choose one level of generalization per attribute for the whole table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal.arrays import Int64Array
from shoal.encoding.attributes import Attribute
from shoal.encoding.codes import Codes, EncodedTable
from shoal.errors import PolicyError, RequirementNotMet, list_choices
from shoal.pipeline.method import NOT_AVERAGED, GroupingMethod, Need, WritingParameters
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import AttributeCut, Grouping
from shoal.requirements import certify, describe
from shoal.requirements.requirement import format_worst, parse_whole_number
from shoal.tables.lattice_groups import build_node_groups
from shoal.tables.lattice_memory import MemoryBound, bound_memory, measure_group
from shoal.tables.lattice_objective import OBJECTIVES
from shoal.tables.lattice_search import LatticeSearch, LevelLattice, Node
from shoal.tables.levels import list_cuts
from shoal.tables.searched_lattice import SearchedLattice


class LatticeMethod(GroupingMethod):
    """A method that chooses a node of the lattice of levels, see `LevelLattice`; a subclass implements `choose`.

    ``lattice_`` has the nodes of the search.
    """

    cuts: ClassVar[bool] = True
    counts_people: ClassVar[bool] = True
    tries_suppression: ClassVar[bool] = True
    objectives: ClassVar[Sequence[str]] = tuple(OBJECTIVES)
    styles: ClassVar[Sequence[str]] = NOT_AVERAGED

    lattice_: SearchedLattice

    def __init__(self, policy: Policy, *, objective: str = "loss", **common: Unpack[WritingParameters]) -> None:
        super().__init__(policy, objective=objective, **common)

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """The target, if its classes are counted."""
        return frozenset({"target"}) if parameters.get("objective") == "cm" else frozenset()

    @property
    def loss_objective(self) -> str:
        """The information loss that the local search of ``improve`` minimizes: the nearest to the objective."""
        return OBJECTIVES[self.objective].improves

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters, and for the objective ``cm`` without classes."""
        super().check_parameters()
        target = self.policy.target
        if self.objective == "cm" and (target is None or target in self.policy.quasi):
            raise PolicyError(
                "objective='cm' counts the classes of a target, which is no quasi-identifier. Add 'target' to the policy, or "
                "choose another objective."
            )

    def extra_columns(self) -> tuple[str, ...]:
        """The target, if its classes are counted."""
        return (self.policy.target,) if self.objective == "cm" and self.policy.target is not None else ()

    @abstractmethod
    def choose(self, search: LatticeSearch, progress: Progress) -> Node | None:
        """The chosen node; None if no node meets the requirements."""

    def owner_sections(self) -> str:
        """The section on the lattice in the owner's report."""
        return self.lattice_.render_section() if hasattr(self, "lattice_") else ""

    @property
    def merges_partitions(self) -> bool:
        """Whether one node is chosen for a table that is counted in partitions: not if groups change afterwards."""
        return not self.improve and self.policy.unit is None

    def list_levels(self, attribute: Attribute, records: Int64Array) -> Sequence[AttributeCut]:
        """The cuts of all levels, or of the root if no requirement covers the attribute."""
        cuts = list_cuts(attribute, records)
        covered = {name for r in self.policy.require for name in (r.on or self.policy.quasi)}
        return cuts if attribute.name in covered else cuts[-1:]

    def measure_cell(self, table: EncodedTable) -> int:
        """The largest number of bytes for a counted cell; see `bound_memory`."""
        counted = table.sensitive if self._counts_values else ()
        return measure_group(len(table.attributes), sum(len(s.labels) for s in counted))

    @property
    def _counts_values(self) -> bool:
        """Whether the search counts the sensitive values of groups."""
        return self.objective == "cm" or not all(r.size_only for r in self.policy.require)

    def bound_memory(self, rows: int, *, values: int = 0) -> MemoryBound:
        """The largest number of groups and bytes that the search of a table can need, before any record is read.

        Parameters
        ----------
        rows : the number of records
        values : the number of distinct values of all sensitive columns that requirements name, and of the target for ``cm``

        A search has at most one group per record. If all quasi-identifiers have a taxonomy in the policy, it also has at most
        one group per combination of their values.

        Examples
        --------
        >>> import shoal
        >>> sex = {"ANY": ["female", "male"]}
        >>> policy = shoal.Policy(quasi={"sex": {"taxonomy": sex}}, require=[shoal.KAnonymity(2)])
        >>> shoal.tables.FullDomain(policy).bound_memory(1_000_000)
        MemoryBound(groups=3, bytes=300)
        """
        return bound_memory(self.policy, parse_whole_number(rows, "rows", 0), values if self._counts_values else 0)

    def fix_levels(self, lattice: LevelLattice) -> Mapping[int, int]:
        """The attributes whose level is given, by number, and the level."""
        return {}

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """Return the cuts of the chosen node; ``rng`` is not used."""
        lattice = LevelLattice.of(codes, self.policy, OBJECTIVES[self.objective])
        search = LatticeSearch(lattice, self.fix_levels(lattice))
        node = self.choose(search, progress)
        self.lattice_ = SearchedLattice(search, node)
        if node is None:
            raise self._explain_failure(search)
        return Grouping.from_cuts(codes, lattice.cuts(node))

    def _explain_failure(self, search: LatticeSearch) -> RequirementNotMet:
        """The requirement that the coarsest node fails, and by how much."""
        lattice, node = search.lattice, search.to_node(search.space.top)
        require, records = self.policy.require, lattice.codes.records
        levels = [a.levels[level] for a, level in zip(lattice.attributes, node, strict=True)]
        groups = build_node_groups(lattice.codes, levels)
        failing = "; ".join(describe(r) for r in require)
        for requirement in require:
            projected = groups.project(requirement.on)[0]
            verdict = requirement.test(projected)
            if not verdict.ok.all():
                failing = f"{describe(requirement)}: {format_worst(requirement, verdict.reached, projected)}"
                break
        given = dict(zip(lattice.names, node, strict=True))
        return RequirementNotMet(
            f"{self.name} cannot meet {failing}. With the levels {given} {lattice.check(node).suppressed} of {records} records "
            f"would have to be suppressed, and the policy allows {self.policy.most_suppressed(records)}. Choose higher levels, "
            "relax the requirement, or raise 'suppress'."
        ).with_certificate(certify(groups, require, fingerprint="", label=lambda *_: None))


def split_levels(given: Mapping[str, Any] | str | None) -> Any:
    """Levels by column name, from text or as they are given."""
    if isinstance(given, str):
        return dict(part.strip().rpartition("=")[::2] for part in given.split(",") if part.strip())
    return {} if given is None else given


def parse_levels(given: Mapping[str, Any] | str | None, lattice: LevelLattice) -> dict[int, int]:
    """The levels that a user gives by column name; the command line passes text: ``age=2,zip=1``."""
    given = split_levels(given)
    if not isinstance(given, Mapping):
        raise PolicyError(f"levels must be numbers by column name, such as {{{lattice.names[0]!r}: 1}}, not {given!r}.")
    found = {}
    for name, value in given.items():
        if name not in lattice.names:
            raise PolicyError(
                f"levels name {name!r}, which is no quasi-identifier; {list_choices(name, lattice.names)}"
            )
        j = lattice.names.index(name)
        found[j] = parse_whole_number(value, f"the level of {name!r}", 0)
        if found[j] > lattice.top[j]:
            raise PolicyError(
                f"the level of {name!r} must be from 0 (the values) to {lattice.top[j]} (the root), not {value!r}."
            )
        if found[j] < lattice.base[j]:
            raise PolicyError(
                f"the table has too many combinations of values for the memory limit, so levels of {name!r} below "
                f"{lattice.base[j]} were not counted. Choose a higher level than {value!r}, or allow more memory (memory, "
                "--memory)."
            )
    return found
