"""Greedy k-member clustering (Byun, Kamra, Bertino, Li: Efficient k-anonymization using clustering techniques, 2007).

Clusters are built one after another: a seed far from what was clustered last, then the records that add least information
loss, one at a time. The search is the paper's Figure 8, record for record; see `kernels.neighbours` for what it does not
look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal.arrays import Int32Array
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, list_choices
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.method import CommonParameters, Method
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import Grouping
from shoal.requirements.requirement import parse_real_number
from shoal.tables.cluster_search import LAST, SEED, Aims, Search, cluster_cells
from shoal.tables.specialization_trees import classes_of

FURTHEST = ("last", "seed")
DIVERSITY = ("equal", "sensitive")


class KMember(Method):
    """Cluster the records greedily, each cluster from a seed far away, by the least increase of information loss.

    Parameters
    ----------
    policy : the policy
    furthest : the next seed is the record furthest from the ``last`` one that was added, as Figure 8 of the paper has it, or
        from the previous ``seed``, as its text says
    target_penalty : what a record costs whose class is not the majority's of the cluster (section 5.2); 0: nothing
    diversity : ``equal`` penalizes records that repeat the sensitive value which all of a cluster share, ``sensitive`` only
        where the policy calls that value truly sensitive (section 5.1)
    diversity_penalty : what such a record costs
    weights : how much each attribute counts, by column name; 1 unless said
    part : cut the table into parts of at least this many records first and cluster each on its own: faster, on all cores, at
        the price of a little more loss; without it the search is exact
    common : ``write``, ``improve`` and ``max_size``, as for every method; see `Method`

    The paper's pseudo-code for diversity reads as if records *unlike* the majority were penalized; the sentence under it says
    what is meant, and that is done here. Penalties are in units of the increase of IL, which is about (size of the
    cluster) x D; they encourage, while a requirement of the policy is guaranteed: a cluster grows beyond k until it holds.

    A cluster that cannot meet the requirement is given up and its records join the leftovers; what fits into no cluster is
    suppressed within the allowance, or else clusters are merged. Records stand in the order of a hash that is keyed by the
    secret of the release; ties go to the earlier record: of the furthest, and of those with the least (score, D). The first
    record is drawn by the secret too.

    Guarantee
    ---------
    Every cluster meets every requirement of the policy. With k-anonymity alone it has k to 2k - 1 records (Theorem 2).

    References
    ----------
    Byun, Kamra, Bertino, Li: Efficient k-anonymization using clustering techniques. DASFAA 2007.
    """

    name: ClassVar[str] = "kmember"
    summary: ClassVar[str] = "clusters the records, each cluster by those that add least information loss"

    def __init__(
        self,
        policy: Policy,
        *,
        furthest: str = "last",
        target_penalty: float = 0.0,
        diversity: str | None = None,
        diversity_penalty: float = 1.0,
        weights: Mapping[str, float] | str | None = None,
        part: int | None = None,
        **common: Unpack[CommonParameters],
    ) -> None:
        super().__init__(policy, **common)
        self.furthest = furthest
        self.target_penalty = target_penalty
        self.diversity = diversity
        self.diversity_penalty = diversity_penalty
        self.weights = weights
        self.part = part

    def extra_columns(self) -> tuple[str, ...]:
        """The target and the sensitive columns, where they are looked at."""
        target = (self.policy.target,) if self.policy.target and _price(self.target_penalty, "target_penalty") else ()
        return (*target, *(self.policy.sensitive if self.diversity is not None else ()))

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The clusters."""
        self.refuse_non_monotone()
        if self.furthest not in FURTHEST:
            raise PolicyError(f"unknown furthest {self.furthest!r}; {list_choices(self.furthest, FURTHEST)}")
        _price(self.diversity_penalty, "diversity_penalty")
        records = ClusteringInput.of(codes, self.policy, self.attribute_weights(codes), beside=self._class(codes))
        search = Search(LAST if self.furthest == "last" else SEED, True, self._aims(codes, records))
        return cluster_cells(codes, self.policy, records, search, self.part, rng, progress)

    def _class(self, codes: Codes) -> Int32Array | None:
        """The classes of the cells where the target is itself a quasi-identifier."""
        if not _price(self.target_penalty, "target_penalty") or self.policy.target not in self.policy.quasi:
            return None
        return classes_of(codes, self.policy.target)[0]

    def _aims(self, codes: Codes, records: ClusteringInput) -> Aims:
        """What is penalized, in the words of the kernel."""
        names = [s.name for s in codes.sensitive]
        rows, price = [], []
        grave = np.ones(int(records.offset[-1]), bool)
        if _price(self.target_penalty, "target_penalty"):
            if self.policy.target is None:
                raise PolicyError("target_penalty needs a target: name the class in the policy, 'target: income' say")
            s = names.index(self.policy.target) if self.policy.target in names else len(names)
            rows.append((s, records.offset[s], records.offset[s + 1], True))
            price.append(self.target_penalty)
        if self.diversity is not None:
            if self.diversity not in DIVERSITY:
                raise PolicyError(f"unknown diversity {self.diversity!r}; {list_choices(self.diversity, DIVERSITY)}")
            if not self.policy.sensitive:
                raise PolicyError(
                    "diversity needs a sensitive column: name it in the policy, 'sensitive: [disease]' say"
                )
            if self.diversity == "sensitive" and not self.policy.truly_sensitive:
                raise PolicyError(
                    "diversity='sensitive' needs values that are truly sensitive: list them in the policy, 'truly_sensitive: "
                    "{disease: [HIV]}' say, or use diversity='equal'"
                )
            for name in self.policy.sensitive:
                s = names.index(name)
                rows.append((s, records.offset[s], records.offset[s + 1], False))
                price.append(_price(self.diversity_penalty, "diversity_penalty"))
                if self.diversity == "sensitive":
                    harmful = self.policy.flag_truly_sensitive(name, codes.sensitive[s].labels)
                    grave[records.offset[s] : records.offset[s + 1]] = harmful
        return Aims(np.array(rows, np.int64).reshape(-1, 4), np.array(price, np.float64), grave)


def _price(given: Any, name: str) -> float:
    """A penalty: a number of at least 0."""
    price = parse_real_number(given, name)
    if price < 0:
        raise PolicyError(f"{name} must be at least 0, not {price:g}")
    return price
