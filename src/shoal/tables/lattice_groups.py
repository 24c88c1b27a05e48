"""The check of one node of a lattice by the groups of its cut, as a release is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.encoding.codes import Codes
from shoal.policy import Policy
from shoal.recoding.grouping import Grouping, build_raw_groups
from shoal.requirements import select_passing_groups
from shoal.requirements.groups import Groups
from shoal.requirements.histories import select_passing_cells
from shoal.tables.lattice_objective import LatticeObjective
from shoal.tables.levels import AttributeLevel


@dataclass(frozen=True)
class CheckedNode:
    """The result of a check: whether the node is anonymous, the records that must be suppressed, and the score."""

    holds: bool
    suppressed: int
    score: float


def build_node_groups(codes: Codes, levels: Sequence[AttributeLevel]) -> Groups:
    """The groups of a node; their quasi-identifiers are the numbers of the published values."""
    table = codes if codes.by_person is None else codes.by_person
    grouping = Grouping.from_cuts(table, [level.cut for level in levels])
    values = [level.value[grouping.lo[:, j]] for j, level in enumerate(levels)]
    groups = build_raw_groups(table, grouping)
    return replace(groups, quasi=np.stack(values, axis=1).astype(np.int32)).merge_equal()[0]


def check_groups(
    codes: Codes,
    policy: Policy,
    objective: LatticeObjective,
    levels: Sequence[AttributeLevel],
    lost: Sequence[float],
) -> CheckedNode:
    """Suppress the groups of a node that fail, until all that remain pass, and rate the rest."""
    groups = build_node_groups(codes, levels)
    if policy.knows_history:
        cells = select_passing_cells(groups, policy.require)
    else:
        cells = select_passing_groups(groups, policy.require)[groups.group_of_cell]
    released = groups.keep_cells(cells)
    suppressed = groups.records - released.records
    if not released.records:
        return CheckedNode(False, suppressed, np.inf)
    if not objective.sums_attributes:
        return CheckedNode(True, suppressed, _score_groups(released, policy, objective, suppressed))
    means = []
    for j, (level, each) in enumerate(zip(levels, lost, strict=True)):
        loss = np.zeros(int(level.value.max(initial=0)) + 1)
        loss[level.value] = level.loss
        kept = float((loss[released.quasi[:, j]] * released.records_of_groups).sum())
        means.append((kept + suppressed * each) / groups.records)
    return CheckedNode(True, suppressed, objective.score_means(means))


def _score_groups(released: Groups, policy: Policy, objective: LatticeObjective, suppressed: int) -> float:
    size = released.records_of_groups
    majority = np.zeros(len(size), np.int64)
    if objective.name == "cm":
        assert policy.target is not None  # noqa: S101
        group, _, records = replace(released, person=None).histogram(policy.target)
        np.maximum.at(majority, group, records)
    return objective.score_groups(size, majority, suppressed)
