"""Local suppression: star the fewest cells so that every group meets the requirements.

Statistical offices suppress single values of rare combinations; the papers on k-anonymity call it cell suppression. The fewest
stars are hard to find (Meyerson, Williams: On the complexity of optimal k-anonymity, 2004). So the search is greedy, and a
lower bound tells how far it can be from the fewest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal import threads
from shoal.arrays import FloatArray
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.method import CommonParameters, GroupingMethod, Need, parse_weights
from shoal.pipeline.publication import LabelPublication, Publication
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding import Placement, Style
from shoal.recoding.grouping import Grouping
from shoal.tables.exact_ends import keep_exact_ends
from shoal.tables.starred_groups import StarredGroups
from shoal.tables.starred_sets import StarredSets

MOST_RANKED = (
    20_000  # groups of a table for which labels that can be sharpened are counted: every two groups are compared
)


class LocalSuppression(GroupingMethod):
    """Replace the fewest cells by ``*``; all other cells keep their values.

    Parameters
    ----------
    policy : the policy
    importance : the importance of each attribute, by column name (default: 1, more than 0). An important attribute is starred
        less: the search minimizes the sum of the importance of all starred cells
    common : as for every method, see `GroupingMethod`; cells are written as labels (``write="label"``), and ``improve`` is not
        possible: the search improves its groups itself

    A star is a value of its own: a record with a star forms groups only with records that have stars in the same attributes.
    So every group has one set of starred attributes, and one value in each of the others. Some programs count a star as a
    wildcard that matches any value (``localSuppression`` of sdcMicro does so for missing values). They need fewer
    stars, but a published group is then smaller than k if the stars are taken as they are.

    The search first keeps the groups of equal records that pass. It then takes sets of starred attributes, the cheapest first,
    and releases the records that form passing groups under the set; among sets of the same cost, the set that releases the
    most records is next. The last records join other groups, or are suppressed if the policy allows it and no requirement
    compares groups with the whole table. No other record is suppressed. Then pairs of groups with up to 10 records are divided
    again at the least cost. The result for a table of up to 12 records is the least possible.

    The measures ``starred`` and ``starred_least`` are the importance of all starred cells, and a lower bound of it: each record
    costs at least the cheapest set under which k records of the table agree. With importance 1 they count cells. With a unit,
    or for a table that is searched in partitions, they are not computed.

    Guarantee
    ---------
    Every group meets every requirement of the policy. A reader who knows the method knows that a starred value is rare: most
    likely the record is in no group with fewer stars. The measure ``downcoded`` is the share of records for which this leaves a
    single value of a starred attribute; it is not computed for more than 20,000 groups, or with a unit.

    References
    ----------
    Meyerson, Williams: On the complexity of optimal k-anonymity. PODS 2004.
    """

    name: ClassVar[str] = "local-suppression"
    summary: ClassVar[str] = "replaces the fewest cells by * and keeps all other values"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    column_examples: ClassVar[Mapping[str, Any]] = {"importance": 2}
    styles: ClassVar[Sequence[str]] = ("label",)
    improvable: ClassVar[bool] = False

    def __init__(
        self,
        policy: Policy,
        *,
        importance: Mapping[str, float] | str | None = None,
        **common: Unpack[CommonParameters],
    ) -> None:
        reason = f"{self.name} publishes exact values or *"
        super().__init__(keep_exact_ends(policy, reason, "use another method"), **common)
        self.importance = importance

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """Exact values."""
        return frozenset({"exact ends"})

    def check_parameters(self) -> None:
        """Raise `PolicyError` for wrong parameters."""
        super().check_parameters()
        self.refuse_non_monotone()
        if self.improve:
            raise PolicyError(
                f"{self.name} improves its groups itself, and improve=True would make ranges of values, which are not "
                "published. Remove improve=True, or use another method."
            )

    def style(self) -> Style:
        """Labels: a plain value or ``*``."""
        style = super().style()
        if style != "label":
            raise PolicyError(
                f"{self.name} publishes a value or *, and write={style!r} would replace the star. Use write='label', or "
                "another method."
            )
        return style

    def publication(self) -> Publication:
        """One value or ``*`` for every group and attribute."""
        return LabelPublication(self.policy, self.style(), "tight", self.name, stars=True)

    def attribute_weights(self, codes: Codes) -> FloatArray:
        """The importance of each attribute."""
        importance = parse_weights(codes, self.importance, "importance")
        if not importance.all():
            name = codes.attributes[int(np.argmin(importance))].name
            raise PolicyError(
                f"the importance of {name!r} must be more than 0. Remove the column from 'quasi' if it is not to be published."
            )
        return importance

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The groups; ``rng`` is not used."""
        importance = self.attribute_weights(codes)
        with threads.workers(len(codes.quasi)) as workers:
            sets = StarredSets.of(codes, self.policy, importance, workers)
            group = sets.release(codes.records, progress)
            least = sets.bound_costs() if self.policy.unit is None else None
        order = np.argsort(codes.keyed_rank, kind="stable")  # ties: the earlier record in keyed order
        cell = np.repeat(order, codes.counts.size[order]).astype(np.int32)
        records = ClusteringInput.of(codes, self.policy, importance, self.objective)
        size_only = all(requirement.size_only for requirement in self.policy.require)
        groups = StarredGroups(codes, records, importance, size_only, cell, group[codes.combination[cell]])
        exact = groups.divide_all()
        if not exact:
            if not self._may_suppress(groups):
                groups.place_leftovers()
            groups.improve(progress)
        grouping = _order_groups(codes, Grouping.from_records(codes, cell, groups.group), importance)
        if least is None or len(grouping.lo) > MOST_RANKED:  # the boxes of people change after the search
            grouping = replace(grouping, rank=None)
        if least is None:
            return grouping
        starred = groups.sum_costs()
        necessary = starred if exact else self._sum_bounds(least, codes)
        return replace(grouping, figures={"starred": starred, "starred_least": necessary})

    def _may_suppress(self, groups: StarredGroups) -> bool:
        """Whether the policy allows to suppress the records that are in no group."""
        left = int((groups.group < 0).sum())
        relative = any(requirement.relative for requirement in self.policy.require)
        return not relative and left <= self.policy.most_suppressed(len(groups.cell)) and left < len(groups.cell)

    def _sum_bounds(self, least: FloatArray, codes: Codes) -> float:
        """The least cost of all records, without those that the policy allows to suppress: they may be the dearest."""
        dearest = np.argsort(-least, kind="stable")
        spent = np.minimum(np.cumsum(codes.size[dearest]), self.policy.most_suppressed(codes.records))
        suppressed = np.diff(spent, prepend=0)
        return float(((codes.size[dearest] - suppressed) * least[dearest]).sum())


def _order_groups(codes: Codes, grouping: Grouping, importance: FloatArray) -> Grouping:
    """Number the groups by the cost of their stars, and let the box of a group cover all values where it has a star.

    So later records get the first group that fits, which has the fewest stars. A group with cheaper stars counts as earlier for
    the measure ``downcoded``.
    """
    starred = grouping.lo < grouping.hi
    cost = (starred @ importance).round(9)
    by_cost = np.argsort(cost, kind="stable")
    number = np.full(len(cost) + 1, -1, np.int32)
    number[by_cost] = np.arange(len(cost), dtype=np.int32)
    cell, count = grouping.placement.cell, grouping.placement.count
    group = number[grouping.placement.group]
    entries = np.lexsort((group, cell))
    last = np.array([attribute.size - 1 for attribute in codes.attributes], np.int32)
    return Grouping(
        Placement(cell[entries], group[entries], count[entries]),
        np.where(starred, 0, grouping.lo)[by_cost].astype(np.int32),
        np.where(starred, last, grouping.hi)[by_cost].astype(np.int32),
        rank=np.unique(cost[by_cost], return_inverse=True)[1].reshape(-1).astype(np.int32),
    )
