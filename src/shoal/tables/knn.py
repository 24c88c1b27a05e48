"""Nearest neighbours of random records: the grouping of the condensation approach (Aggarwal and Yu, EDBT 2004).

Byun, Kamra, Bertino and Li compare k-member clustering with it (section 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Unpack

import numpy as np

from shoal.encoding.codes import Codes
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.method import CommonParameters, Method
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import Grouping
from shoal.tables.cluster_search import RANDOM, Aims, Search, cluster_cells


class KNearest(Method):
    """Group a random record with its k - 1 nearest, again and again.

    Parameters
    ----------
    policy : the policy
    weights : how much each attribute counts, by column name; 1 unless said
    part : cut the table into parts of at least this many records first and group each on its own, on all cores
    common : ``write``, ``improve`` and ``max_size``, as for every method; see `Method`

    Near is what Definition 6 of the k-member paper says. The last records, fewer than k, go to the groups whose information
    loss grows least. Beyond k a group grows by its nearest until the requirement holds, as in `KMember`. Ties: the earlier
    record in the order of a hash that is keyed by the secret of the release, which also draws the random records.

    Guarantee
    ---------
    Every group meets every requirement of the policy. With k-anonymity alone it has k to 2k - 1 records.

    References
    ----------
    Aggarwal, Yu: A condensation approach to privacy preserving data mining. EDBT 2004.
    """

    name: ClassVar[str] = "knn"
    summary: ClassVar[str] = "groups random records with their nearest neighbours"

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
        records = ClusteringInput.of(codes, policy, self.attribute_weights(codes))
        return cluster_cells(codes, policy, records, Search(RANDOM, False, Aims.none()), self.part, rng, progress)
