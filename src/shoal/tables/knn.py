"""Nearest neighbours of random records: the grouping of the condensation approach (Aggarwal and Yu, EDBT 2004).

Byun, Kamra, Bertino and Li compare k-member clustering with it (section 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal.encoding.codes import Codes
from shoal.kernels.interface import RANDOM, Penalties
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.method import CommonParameters, GroupingMethod
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import Grouping
from shoal.tables.cluster_search import ClusterSearch, cluster_cells


class KNearest(GroupingMethod):
    """Group a random record with its k - 1 nearest records, repeatedly.

    Parameters
    ----------
    policy : the policy
    weights : the weight of each attribute, by column name (default: 1)
    part : first cut the table into partitions of at least this many records and group each on its own, on all cores
    common : ``write``, ``objective``, ``improve`` and others, as for every method; see `GroupingMethod`

    The distance is that of Definition 6 of the k-member paper. The last records, fewer than k, go to the groups with the least
    increase of information loss. A group grows beyond k by its nearest records until it meets the requirement, as in `KMember`.
    Ties: the earlier record in the order of a hash that is keyed by the secret seed of the release. The secret seed also
    determines the random records.

    Guarantee
    ---------
    Every group meets every requirement of the policy. With k-anonymity alone it has k to 2k - 1 records.

    References
    ----------
    Aggarwal, Yu: A condensation approach to privacy preserving data mining. EDBT 2004.
    """

    name: ClassVar[str] = "knn"
    summary: ClassVar[str] = "groups random records with their nearest neighbours"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"part": 5})
    column_examples: ClassVar[Mapping[str, Any]] = {"weights": 2}

    def __init__(
        self,
        policy: Policy,
        *,
        weights: Mapping[str, float] | str | None = None,
        part: int | None = None,
        **common: Unpack[CommonParameters],
    ) -> None:
        super().__init__(policy, **common)
        self.weights = weights
        self.part = part

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The groups."""
        self.refuse_non_monotone()
        policy = self.full_policy()
        records = ClusteringInput.of(codes, policy, self.attribute_weights(codes), self.objective)
        return cluster_cells(
            codes, policy, records, ClusterSearch(RANDOM, False, Penalties.none()), self.part, rng, progress
        )
