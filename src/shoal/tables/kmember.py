"""Greedy k-member clustering (Byun, Kamra, Bertino, Li: Efficient k-anonymization using clustering techniques, 2007).

Clusters are built one after another: a seed far from the previous cluster, then the records with the least increase of
information loss, one at a time. The result is that of the paper's Figure 8, record for record; `kernels.neighbours` skips
records that cannot be the nearest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np

from shoal.arrays import Int32Array
from shoal.encoding.codes import Codes
from shoal.errors import PolicyError, list_choices
from shoal.kernels.interface import LAST, SEED, Penalties
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.method import CommonParameters, GroupingMethod, Need
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.recoding.grouping import Grouping
from shoal.requirements.requirement import parse_real_number
from shoal.specialization.trees import list_classes
from shoal.tables.cluster_search import ClusterSearch, cluster_cells

FURTHEST = ("last", "seed")
DIVERSITY = ("equal", "sensitive")


class KMember(GroupingMethod):
    """Cluster the records greedily from distant seeds, by the least increase of information loss.

    Parameters
    ----------
    policy : the policy
    furthest : the next seed is the record furthest from the ``last`` record added (the paper's Figure 8), or from the previous
        ``seed`` (the paper's text)
    target_penalty : the penalty for a record whose class differs from the majority class of the cluster (section 5.2); 0: none
    diversity : ``equal`` penalizes records that repeat the sensitive value which all records of a cluster share, ``sensitive``
        only if the policy lists this value as truly sensitive (section 5.1)
    diversity_penalty : the penalty for such a record
    weights : the weight of each attribute, by column name (default: 1)
    part : first cut the table into partitions of at least this many records and cluster each on its own, on all cores: faster,
        with slightly more loss; without it the search is exact
    common : ``write``, ``objective``, ``improve`` and others, as for every method; see `GroupingMethod`

    The paper's pseudo-code for diversity reads as if records *unlike* the majority were penalized; the sentence below it gives
    the intended meaning, which is implemented here. Penalties are in units of the increase of IL, which is about (size of the
    cluster) x D. Penalties are preferences; the requirements of the policy are guaranteed: a cluster grows beyond k until it
    meets them.

    A cluster that cannot meet the requirement is dissolved and its records join the leftovers; records that fit into no cluster
    are suppressed within the allowance, otherwise clusters are merged. Records are ordered by a hash that is keyed by the
    secret seed of the release. Ties go to the earlier record: among the furthest, and among those with the least (score, D).
    The secret seed also determines the first record.

    Guarantee
    ---------
    Every cluster meets every requirement of the policy. With k-anonymity alone it has k to 2k - 1 records (Theorem 2).

    References
    ----------
    Byun, Kamra, Bertino, Li: Efficient k-anonymization using clustering techniques. DASFAA 2007.
    """

    name: ClassVar[str] = "kmember"
    summary: ClassVar[str] = "clusters the records greedily by the least increase of information loss"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {},
        {"furthest": "seed"},
        {"target_penalty": 0.5},
        {"diversity": "equal"},
        {"diversity": "sensitive", "diversity_penalty": 2.0},
        {"part": 5},
        {"improve": True},
        {"improve": True, "objective": "il"},
    )
    column_examples: ClassVar[Mapping[str, Any]] = {"weights": 2}

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

    @classmethod
    def list_needs(cls, parameters: Mapping[str, Any]) -> frozenset[Need]:
        """The target and the sensitive values, if they are penalized."""
        diversity = parameters.get("diversity")
        needs: dict[Need, bool] = {
            "target": bool(parameters.get("target_penalty")),
            "sensitive": diversity is not None,
            "truly sensitive": diversity == "sensitive",
        }
        return frozenset(need for need, is_needed in needs.items() if is_needed)

    def extra_columns(self) -> tuple[str, ...]:
        """The target and the sensitive columns, if they are penalized."""
        target = (
            (self.policy.target,)
            if self.policy.target and _parse_penalty(self.target_penalty, "target_penalty")
            else ()
        )
        return (*target, *(self.policy.sensitive if self.diversity is not None else ()))

    def decide(self, codes: Codes, *, rng: np.random.Generator, progress: Progress) -> Grouping:
        """The clusters."""
        self.refuse_non_monotone()
        if self.furthest not in FURTHEST:
            raise PolicyError(
                f"unknown value {self.furthest!r} for 'furthest'; {list_choices(self.furthest, FURTHEST)}"
            )
        _parse_penalty(self.diversity_penalty, "diversity_penalty")
        records = ClusteringInput.of(
            codes, self.policy, self.attribute_weights(codes), self.objective, extra_column=self._target_classes(codes)
        )
        search = ClusterSearch(LAST if self.furthest == "last" else SEED, True, self._penalties(codes, records))
        return cluster_cells(codes, self.policy, records, search, self.part, rng, progress)

    def _target_classes(self, codes: Codes) -> Int32Array | None:
        """The class of every cell, if the target is itself a quasi-identifier."""
        if not _parse_penalty(self.target_penalty, "target_penalty") or self.policy.target not in self.policy.quasi:
            return None
        return list_classes(codes, self.policy.target)[0]

    def _penalties(self, codes: Codes, records: ClusteringInput) -> Penalties:
        """The penalized columns in the form that the kernel takes."""
        names = [s.name for s in codes.sensitive]
        rows, amount = [], []
        harmful = np.ones(int(records.offset[-1]), bool)
        if _parse_penalty(self.target_penalty, "target_penalty"):
            if self.policy.target is None:
                raise PolicyError(
                    "target_penalty needs a target column; name it in the policy, for example 'target: income'"
                )
            s = names.index(self.policy.target) if self.policy.target in names else len(names)
            rows.append((s, records.offset[s], records.offset[s + 1], True))
            amount.append(self.target_penalty)
        if self.diversity is not None:
            if self.diversity not in DIVERSITY:
                choices = list_choices(self.diversity, DIVERSITY)
                raise PolicyError(f"unknown value {self.diversity!r} for 'diversity'; {choices}")
            if not self.policy.sensitive:
                raise PolicyError(
                    "diversity needs a sensitive column; name it in the policy, for example 'sensitive: [disease]'"
                )
            if self.diversity == "sensitive" and not self.policy.truly_sensitive:
                raise PolicyError(
                    "diversity='sensitive' needs truly sensitive values; list them in the policy, for example "
                    "'truly_sensitive: {disease: [HIV]}', or use diversity='equal'"
                )
            for name in self.policy.sensitive:
                s = names.index(name)
                rows.append((s, records.offset[s], records.offset[s + 1], False))
                amount.append(_parse_penalty(self.diversity_penalty, "diversity_penalty"))
                if self.diversity == "sensitive":
                    marked = self.policy.flag_truly_sensitive(name, codes.sensitive[s].labels)
                    harmful[records.offset[s] : records.offset[s + 1]] = marked
        return Penalties(np.array(rows, np.int64).reshape(-1, 4), np.array(amount, np.float64), harmful)


def _parse_penalty(value: Any, name: str) -> float:
    """A penalty: a number of at least 0."""
    amount = parse_real_number(value, name)
    if amount < 0:
        raise PolicyError(f"{name} must be at least 0, not {amount:g}")
    return amount
