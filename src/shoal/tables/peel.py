"""Local recoding by peeling: publish the records that lose least under one generalization, and go on with the rest.

Each round searches the lattice of levels for the node with the least mean loss over the records that it can release, and
publishes their groups. Dense regions of the table stay exact, and only the last records lose much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal import kernels, threads
from shoal.arrays import Int32Array
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError
from shoal.kernels.interface import PublishedBoxes
from shoal.pipeline.clustering import ClusteringInput, suppress_or_merge
from shoal.pipeline.method import CommonParameters, GroupingMethod, Need
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import Grouping, build_published_groups
from shoal.recoding.publishing import LabelRules
from shoal.requirements import select_passing_groups
from shoal.requirements.requirement import parse_real_number, parse_whole_number
from shoal.tables.exact_ends import keep_exact_ends
from shoal.tables.lattice import NO_BOXES, Lattice
from shoal.tables.separate_boxes import separate_groups

MOST_TRIED = 480_000_000  # nodes x combinations x tries; with 6,500 nodes and 18,000 combinations a try takes a second
MOST_TRIES = 4
MOST_RETURNS = 20  # times that failing groups are placed again
BATCH, SMALL = 16, 50_000  # nodes evaluated at once, while at most so many rows are left; otherwise one per core
ROUNDED = "exclusive=True publishes boxes that do not overlap, but rounded ranges overlap"
TIE = 1e-12  # mean losses that differ by less are equal


class Peel(GroupingMethod):
    """Publish in rounds the records that lose least under one full-domain generalization.

    Parameters
    ----------
    policy : the policy
    step : the smallest share of the remaining records that a round releases (0 to 1). A smaller share takes more rounds and
        keeps slightly more information. If no generalization releases so many records, any number is enough
    tries : search with so many settings, 1 to 4, and keep the groups with the lowest loss: with ``step``, then publishing only
        groups up to the mean loss of a round, then both with a third of the step. Default: 4 for small tables, fewer the more
        generalizations and combinations of values there are
    exclusive : publish only groups whose boxes do not overlap the boxes of earlier rounds. Then no label can be sharpened by
        other labels, at the price of much information. The ends of ranges are not rounded, because rounded ranges overlap
    spend : suppress the records of the last rounds, as far as the policy allows, so that the other records lose less.
        Otherwise records are suppressed only if no group meets the requirements with them. No effect with requirements that
        compare groups with the whole table
    weights : the weight of each attribute, by column name (default: 1)
    common : ``write``, ``objective``, ``improve`` and others, as for every method; see `GroupingMethod`

    A generalization is a node of the lattice of levels: one level for each attribute. A round publishes all groups of the node
    with the least mean loss over the records in groups that meet the requirements. Ties: the finer node. Taxonomies have one
    level per step from the root. Numbers and dates without a taxonomy are divided at quantiles into 32, 16, 8, 4 and 2 ranges.
    Lattices of more than 20,000 nodes get fewer levels. Labels are the smallest that cover the records of a group.

    Groups are compared with the distribution of the whole source where a requirement is relative. If a union of passing groups
    can fail a requirement, groups with equal labels are tested together, and failing groups return to the leftovers. Leftover
    records join the group whose loss grows least, in an order that depends on the secret seed.

    A label of a later round excludes the records that were published with finer labels. Anybody who knows the method can remove
    the finer boxes from a coarse label. The measure ``downcoded`` is the share of records for which this leaves a single value
    of a generalized attribute. ``exclusive=True`` prevents it.

    Guarantee
    ---------
    Every group meets every requirement of the policy.
    """

    name: ClassVar[str] = "peel"
    summary: ClassVar[str] = "publishes in rounds the records that lose least under one generalization"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {},
        {"exclusive": True},
        {"step": 0.5, "tries": 1, "spend": True},
        {"improve": True, "objective": "loss_mean"},
    )
    column_examples: ClassVar[Mapping[str, Any]] = {"weights": 2}

    def __init__(
        self,
        policy: Policy,
        *,
        step: float = 0.01,
        tries: int | None = None,
        exclusive: bool = False,
        spend: bool = False,
        weights: Mapping[str, float] | str | None = None,
        **common: Unpack[CommonParameters],
    ) -> None:
        super().__init__(
            keep_exact_ends(policy, ROUNDED, "remove exclusive=True") if exclusive is True else policy, **common
        )
        self.step = step
        self.tries = tries
        self.exclusive = exclusive
        self.spend = spend
        self.weights = weights

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """Exact ends and records of different people, if boxes must not overlap."""
        return frozenset({"exact ends", "no unit"}) if parameters.get("exclusive") else frozenset()

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters and for parameters that exclude each other."""
        super().check_parameters()
        step = parse_real_number(self.step, "step")
        if not 0 <= step <= 1:
            raise PolicyError(f"step must be a share between 0 and 1, not {self.step!r}.")
        if self.tries is not None and not 1 <= parse_whole_number(self.tries, "tries", 1) <= MOST_TRIES:
            raise PolicyError(f"tries must be a whole number from 1 to {MOST_TRIES}, not {self.tries!r}.")
        for name in ("exclusive", "spend"):
            if not isinstance(getattr(self, name), bool):
                raise PolicyError(f"{name} must be true or false, not {getattr(self, name)!r}.")
        if self.exclusive and self.spend:
            raise PolicyError(
                "exclusive=True and spend=True exclude each other: with exclusive=True the last records join other groups. "
                "Remove one of them."
            )
        if self.exclusive and self.policy.unit is not None:
            raise PolicyError(
                "exclusive=True is not possible with a unit: the records of a person can join groups of other people, and the "
                "boxes then overlap. Remove exclusive=True, or use method 'mondrian', whose boxes do not overlap."
            )
        if self.exclusive and self.improve:
            raise PolicyError(
                "exclusive=True and improve=True exclude each other: improve=True moves records to other groups, and the boxes "
                "of groups would overlap. Remove one of them."
            )

    def find_partition_obstacle(self) -> str:
        """A label such as ``*`` covers values of other partitions, so their boxes would overlap."""
        return "exclusive=True" if self.exclusive else ""

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The groups of all rounds."""
        return self.recode_rest(codes, np.full(len(codes.quasi), -1, np.int32), rng=rng, progress=progress)

    def recode_rest(
        self, codes: Codes, published: Int32Array, *, rng: np.random.Generator, progress: Progress
    ) -> Grouping:
        """The groups of rounds that follow groups of another search.

        ``published`` has the group of every combination, and -1 for the combinations that the rounds publish.
        """
        weights = self.attribute_weights(codes)
        weights = weights / (weights.max(initial=0.0) or 1.0)
        spendable = self.policy.most_suppressed(codes.records) if self.spend and not self._relative else 0
        with threads.workers(len(codes.quasi)) as workers:
            lattice = Lattice.of(codes, self.policy, weights, self.objective, workers)
            tries = [
                Peeling(lattice, step, self.exclusive, spendable, spread)
                for step, spread in self._list_settings(lattice)
            ]
            groups = [peeling.run(published, progress) for peeling in tries]
        records = ClusteringInput.of(codes, self.policy, weights, self.objective)
        best = min(range(len(tries)), key=lambda i: _compute_loss(codes, records, groups[i]))
        return self._place_leftovers(codes, records, groups[best], tries[best], rng)

    def _list_settings(self, lattice: Lattice) -> list[tuple[float, float]]:
        """The step and the spread of every try."""
        step = float(self.step)
        settings = [(step, np.inf), (step, 0.0), (step / 3, np.inf), (step / 3, 0.0)]
        affordable = max(1, MOST_TRIED // (lattice.size * max(len(lattice.table.codes), 1)))
        return settings[: affordable if self.tries is None else self.tries]

    @property
    def _relative(self) -> bool:
        return any(requirement.relative for requirement in self.policy.require)

    def _place_leftovers(
        self, codes: Codes, records: ClusteringInput, group: Int32Array, peeling: Peeling, rng: np.random.Generator
    ) -> Grouping:
        """Place the records that no round published, and test the groups as published where that is necessary."""
        order = np.argsort(codes.keyed_rank, kind="stable")  # ties: the earlier record in keyed order
        cell = np.repeat(order, codes.counts.size[order]).astype(np.int32)
        if self.exclusive:
            group = separate_groups(codes, records, group)
        placed = group[codes.combination[cell]]
        rank = np.repeat(np.arange(len(peeling.rounds), dtype=np.int32), [r.groups for r in peeling.rounds])
        if not self.exclusive and not peeling.spendable:
            records.place_leftovers(cell, placed, np.flatnonzero(placed < 0), rng)
        if not all(requirement.monotone for requirement in self.policy.require):
            placed, rank = self._return_failing(codes, records, cell, placed, rank, rng)
        placed = suppress_or_merge(records, self.policy, cell, placed)
        last = np.full(max(int(placed.max(initial=-1)) + 1 - len(rank), 0), len(peeling.rounds), np.int32)
        return Grouping.from_records(codes, cell, placed, rank=np.append(rank, last))

    def _return_failing(
        self,
        codes: Codes,
        records: ClusteringInput,
        cell: Int32Array,
        placed: Int32Array,
        rank: Int32Array,
        rng: np.random.Generator,
    ) -> tuple[Int32Array, Int32Array]:
        """Test groups with equal labels together, and place the records of failing groups in other groups.

        Return the group of every record and the round of every group.
        """
        for _ in range(MOST_RETURNS):
            old = np.arange(int(placed.max(initial=-1)) + 1, dtype=np.int32)
            grouping = Grouping.from_records(codes, cell, placed, rank=old)
            columns = LabelRules(self.policy, "label").write(codes, grouping)
            groups, merged = build_published_groups(codes, grouping, columns, self.policy).merge_equal()
            passes = select_passing_groups(groups, self.policy.require)[merged]
            if passes.all() or not passes.any() or grouping.rank is None:
                break
            kept = np.sort(grouping.rank[passes])
            number = np.full(len(old) + 1, -1, np.int32)
            number[kept] = np.arange(len(kept), dtype=np.int32)
            placed, rank = number[placed], rank[kept]
            records.place_leftovers(cell, placed, np.flatnonzero(placed < 0), rng)
        return placed, rank


def _compute_loss(codes: Codes, records: ClusteringInput, group: Int32Array) -> float:
    """The loss of all groups; a combination in no group counts as lost."""
    row = np.arange(len(group), dtype=np.int32)
    groups = int(group.max(initial=-1)) + 1
    lo, hi = kernels.boxes.bound_groups(codes.quasi, row, group, groups)
    size = np.bincount(group[group >= 0], codes.size[group >= 0], minlength=groups)
    loss = kernels.boxes.sum_losses(lo, hi, records.loss_tables)
    return float((size * loss).sum() + codes.size[group < 0].sum() * records.loss_tables.weight.sum())


@dataclass(frozen=True)
class Round:
    """A round: its node, the number of groups and records that it published, and their mean loss."""

    node: int
    groups: int
    records: int
    loss: float


@dataclass
class Peeling:
    """The rounds of a search; ``spendable`` is the number of records that may be left at the end.

    A round publishes the groups whose loss is at most the mean loss of the round times (1 + ``spread``).

    For every node the search keeps two bounds from its last evaluation: the number of records that it can release, and the
    least loss of a group. Both hold for the rest of the records if the requirements depend on sizes alone, because groups only
    shrink. For other requirements they are estimates, and all nodes are evaluated again when no node reaches the step.
    """

    lattice: Lattice
    step: float
    exclusive: bool = False
    spendable: int = 0
    spread: float = np.inf
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bound = self.lattice.bound.copy()
        self._count = np.full(self.lattice.size, np.iinfo(np.int64).max)
        self._any = self.step == 0.0
        self._blocked = NO_BOXES if self.exclusive else None

    def run(self, groups_before: Int32Array, progress: Progress) -> Int32Array:
        """Publish groups in rounds until no node can release a record; return the group of every row, or -1.

        ``groups_before`` has the groups of rows that are published before the first round; they count as a round of their own.
        """
        table = self.lattice.table
        rows = np.flatnonzero(groups_before < 0).astype(np.int32)
        group, number = groups_before.copy(), int(groups_before.max(initial=-1)) + 1
        left = records = int(table.records[rows].sum())
        if number:
            self.rounds.append(Round(-1, number, int(table.records.sum()) - records, 0.0))
        while left > self.spendable:
            progress("peeling", records - left, records)
            chosen = self._choose(rows, left)
            if chosen is None:
                break
            node, loss = chosen
            before = rows
            most_loss = np.inf if self.spread == np.inf else loss * (1 + self.spread) + TIE
            groups, rows = self.lattice.publish(node, rows, self._blocked, most_loss, number, group)
            published = left - int(table.records[rows].sum())
            self.rounds.append(Round(node, groups, published, loss))
            if self.exclusive:
                self._block(node, before, group, number)
            if table.cells.width == 0 and self.spread == np.inf:
                self._count[node] = 0
            left, number = left - published, number + groups
        progress("peeling", records, records)
        return group

    def _choose(self, rows: Int32Array, left: int) -> tuple[int, float] | None:
        """The node with the least mean loss, and this loss; None if no node can release a record."""
        need = 1 if self._any else max(1, ceil(self.step * left - 1e-9))
        chosen, best = self._search(rows, need)
        if chosen < 0 and not self._any:
            self._any = True
            if self.lattice.table.cells.width > 0:
                self._bound, self._count[:] = self.lattice.bound.copy(), np.iinfo(np.int64).max
            chosen, best = self._search(rows, 1)
        return None if chosen < 0 else (chosen, best)

    def _search(self, rows: Int32Array, need: int) -> tuple[int, float]:
        """Evaluate nodes in the order of their bounds, until no other node can have a smaller mean loss."""
        candidates = np.flatnonzero(self._count >= need)
        candidates = candidates[np.argsort(self._bound[candidates], kind="stable")]
        bounds = self._bound[candidates]
        batch = BATCH if len(rows) <= SMALL else threads.CORES
        chosen, best = -1, np.inf
        for begin in range(0, len(candidates), batch):
            nodes = candidates[begin : begin + batch]
            if bounds[begin] > best + TIE:
                break
            found = self.lattice.evaluate(nodes, rows, self._blocked)
            for node, bound, records, total, least in zip(nodes.tolist(), bounds[begin:], *found, strict=False):
                if bound > best + TIE:
                    break
                self._count[node], self._bound[node] = records, max(bound, least)
                mean = total / max(records, 1)
                if records >= need and (mean < best - TIE or (mean <= best + TIE and node < chosen)):
                    chosen, best = node, mean
        return chosen, float(best)

    def _block(self, node: int, rows: Int32Array, group: Int32Array, number: int) -> None:
        """Remember the boxes of the groups that a node published: one row of each."""
        published = rows[group[rows] >= number]
        _, first = np.unique(group[published], return_index=True)
        blocked = self._blocked or NO_BOXES
        self._blocked = PublishedBoxes(
            np.concatenate([blocked.node.reshape(-1, self.lattice.node.shape[1]), self.lattice.node[node : node + 1]]),
            np.append(blocked.start, blocked.start[-1] + len(first)),
            np.concatenate([blocked.row, published[first]]).astype(np.int32),
        )
