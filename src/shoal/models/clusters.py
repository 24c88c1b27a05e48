"""`AnonymousClusters`: centroids whose spans meet the requirements of a policy (Friedman, Wolff, Schuster, section 5.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from shoal.encoding.codes import encode_column
from shoal.engines import Dictionary, Engine, open_data
from shoal.errors import EMPTY_TABLE, DataError, PolicyError, RequirementNotMet
from shoal.formats.numbers import format_count
from shoal.mining.cluster_model import DISTANCES, ClusterModel
from shoal.mining.clusters import ClusterTable, grow_clusters
from shoal.mining.grow import RULES, check_choice, is_mostly_unique, make_private_attribute
from shoal.mining.learning_policy import simplify_policy
from shoal.mining.model_columns import ModelColumn, describe_column
from shoal.models.artifact import ModelArtifact
from shoal.models.audit import SAFE_MEMBERS, PrivateColumns, audit_table, check_policy, judge_spans_of
from shoal.models.estimator import CONFIDENCE, DEFAULT_K, AnonymousEstimator, TableFails, as_data_error
from shoal.models.published_clusters import PublishedClusters
from shoal.policy import Policy, parse_policy
from shoal.progress import Progress, ignore_progress
from shoal.requirements import KAnonymity, describe
from shoal.requirements.requirement import parse_whole_number

DEFAULT_NOTE = f"No policy was given: all columns are public numbers, and k is {DEFAULT_K} by default."
MOST_CATEGORIES = 1_000
MOST_RECORDS = 200_000  # different ones: the spanning tree takes quadratic time


class AnonymousClusters(ClusterMixin, AnonymousEstimator):
    """Clusters that may be published as centroids: their spans meet the requirements of a policy.

    The quasi-identifiers of the policy are public: attackers may know them. Its sensitive columns are private. A record belongs
    to the nearest centroid (ties: the lowest index), which has the mean of numbers and the medoid of categories. The difference
    of two numbers is divided by the width of their column; the difference of two categories is the share of the levels above
    them that differ (1 without a taxonomy). The distance is the sum of the squares.

    Parameters
    ----------
    policy : the policy (default: all columns are public numbers)
    k : k-anonymity, in addition to the requirements of the policy (default without a policy: 5)
    rule : ``all`` tests every span, as in the paper; ``claim3`` spares spans of a single cluster, although
        its centroid shows private values
    distance : ``squared``, or ``mixed``: the sum of the differences, not squared, for at most one private number
    least_members : the least number of records of a cluster, or of people if the policy has a unit. Default: the k of the
        policy, and at least 20 if there are private columns. A mean of few records shows nearly the records, and attackers who
        know the public values of everybody can find out which people have this mean; the spans do not cover this. The paper has
        no such limit (1)
    max_clusters : end with this many clusters; None for no limit
    max_refusals : end after this many edges in a row whose deletion is refused

    Attributes
    ----------
    cluster_model_ : the centroids as they are published
    labels_ : the cluster of every training record
    certificate_ : the certificate of the audit, with the spans. The spans are for the owner only
    policy_ : the policy that was used

    Guarantee
    ---------
    Whatever `fit` returns passes `shoal.models.audit` with the same policy and rule. Deterministic.

    References
    ----------
    Friedman, Wolff, Schuster: Providing k-anonymity in data mining. VLDB Journal 17 (2008), section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> clusters = AnonymousClusters(k=3).fit(np.array([[1], [2], [3], [11], [12], [13]]))
    >>> print(clusters.export_text())
    cluster 0 (3 records): x0 2
    cluster 1 (3 records): x0 12
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        k: int | None = None,
        rule: str = "all",
        distance: str = "squared",
        least_members: int | None = None,
        max_clusters: int | None = 8,
        max_refusals: int = 100,
    ) -> None:
        self.policy = policy
        self.k = k
        self.rule = rule
        self.distance = distance
        self.least_members = least_members
        self.max_clusters = max_clusters
        self.max_refusals = max_refusals

    def fit(self, X: Any, y: Any = None, *, progress: Progress | None = None) -> AnonymousClusters:
        """Find the clusters and audit them.

        Parameters
        ----------
        X : a frame with the columns of the policy; without a policy, an array or a frame of numbers
        y : not used
        progress : called with the stage, the work done and the total work

        Raises `RequirementNotMet` if not even one cluster meets the requirements.
        """
        check_choice("rule", self.rule, RULES)
        check_choice("distance", self.distance, DISTANCES)
        engine, policy = self._read_training(X)
        check_policy(policy)
        columns = _list_columns(policy, engine)
        self._check_mixed(columns)
        table = ClusterTable.of(columns, engine, policy.missing_texts)
        _check_size(table)
        private = PrivateColumns.of(engine, policy, None, tuple(columns))
        table = replace(table, person=private.person)

        def meets(model: ClusterModel) -> bool:
            read = model.read(engine)
            return all(f.holds for f in judge_spans_of(read, private, policy, None, self.rule)[2])

        has_private = any(not column.public for column in columns.values())
        default = max(policy.least_group_size, SAFE_MEMBERS if has_private else 1)
        least = default if self.least_members is None else self._parse_limit("least_members")
        model = grow_clusters(
            table,
            meets,
            distance=self.distance,
            least_members=int(least or 1),
            max_clusters=self._parse_limit("max_clusters"),
            max_refusals=parse_whole_number(self.max_refusals, "max_refusals", 1),
            progress=progress or ignore_progress,
        )
        if model is None:
            needed = ", ".join(describe(r) for r in policy.require)
            rows = engine.schema().rows
            raise TableFails(
                f"not even one cluster meets the requirements ({needed}): the whole table of {format_count(rows, 'record')} "
                f"(n_samples={rows}) fails. Weaken the requirements, or add records."
            )
        certificate = audit_table(model, engine, policy, self.rule, "clusters", CONFIDENCE)
        if not certificate.holds:
            raise RequirementNotMet(
                "the audit of the finished clusters fails, so they are not returned. Fewer clusters (max_clusters) may pass."
            ).with_certificate(certificate)
        note = (DEFAULT_NOTE,) if self.policy is None and self.k is None else ()
        self.policy_, self.cluster_model_ = policy, model
        self.labels_ = model.find_nearest(engine)
        self.certificate_ = replace(certificate, notes=(*certificate.notes, *note))
        self._training = engine
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The nearest centroid of every record."""
        check_is_fitted(self)
        return self.cluster_model_.find_nearest(self._read_later(X))

    def export_text(self) -> str:
        """The centroids as text."""
        check_is_fitted(self)
        return self.cluster_model_.export_text()

    def to_dict(self) -> dict[str, Any]:
        """The centroids as plain values, as in the JSON file of a release."""
        check_is_fitted(self)
        return self.cluster_model_.to_dict()

    def _make_artifact(self, training: Engine) -> ModelArtifact:
        return ModelArtifact(self.cluster_model_, PublishedClusters.of(self.cluster_model_), training)

    def _read_training(self, X: Any) -> tuple[Engine, Policy]:
        """The training records as a table, and the policy with all requirements."""
        if self.policy is None:
            with as_data_error():
                X = validate_data(self, X, dtype=np.float64)
            k = parse_whole_number(DEFAULT_K if self.k is None else self.k, "k", 1)
            names = self._name_columns()
            return self._open_numbers(X), Policy(quasi=dict.fromkeys(names, "numeric"), require=[KAnonymity(k)])
        policy = parse_policy(self.policy).model_copy(update={"target": None})
        if self.k is not None:
            policy = policy.model_copy(update={"require": (*policy.require, KAnonymity(self.k))})
        policy = simplify_policy(policy)
        engine = open_data(X, policy.with_conventions())
        if not engine.schema().rows:
            raise DataError(EMPTY_TABLE)
        policy.check_schema(engine.schema())
        self.feature_names_in_ = np.array(engine.schema().names, object)
        self.n_features_in_ = len(self.feature_names_in_)
        return engine, policy

    def _check_mixed(self, columns: dict[str, ModelColumn]) -> None:
        numbers = [name for name, column in columns.items() if column.has_numbers and not column.public]
        if self.distance == "mixed" and len(numbers) > 1:
            raise PolicyError(
                f"distance='mixed' supports one private column of numbers, and the policy has {len(numbers)}: "
                f"{', '.join(numbers)}. Use distance='squared'."
            )


def _list_columns(policy: Policy, engine: Engine) -> dict[str, ModelColumn]:
    """The columns of the clusters: the quasi-identifiers and the sensitive columns."""
    found = {name: ModelColumn(name, quasi, True, policy.raw_reading(name)) for name, quasi in policy.quasi.items()}
    for name in policy.sensitive:
        if name not in found:
            dictionaries: dict[str, Dictionary] = {}
            column = encode_column(engine, name, policy.published_reading(name), dictionaries)
            attribute = make_private_attribute(column)
            counts = dictionaries[name].distinct.counts
            if attribute.taxonomy is not None and is_mostly_unique(counts):
                raise DataError(
                    f"nearly all texts of the private column {name!r} occur once, so no cluster can show one of them. Remove "
                    "the column from the policy. If it has numbers or dates, write them in a form that Shoal reads as such."
                )
            found[name] = describe_column(attribute, policy, public=False)
    if not found:
        raise PolicyError("the policy names no column for clusters. List columns under 'quasi' or 'sensitive'.")
    return found


def _check_size(table: ClusterTable) -> None:
    for name, column in table.columns.items():
        values = len(table.values[name])
        if not column.has_numbers and values > MOST_CATEGORIES:
            raise DataError(
                f"column {name!r} has {values - 1:,} different texts; clusters support {MOST_CATEGORIES:,}. Remove the column "
                "from the policy, or give it a taxonomy with fewer values."
            )
    if len(table.codes) > MOST_RECORDS:
        raise DataError(
            f"the table has {len(table.codes):,} different records; clusters support {MOST_RECORDS:,}, because the time of the "
            "spanning tree is quadratic. Take a sample, or fewer columns."
        )
