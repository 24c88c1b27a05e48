"""`AnonymousTree`: a decision tree whose spans meet the requirements of a policy (Friedman, Wolff, Schuster, section 5.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from shoal.encoding.codes import encode_table
from shoal.engines import Engine, open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.engines.raw_columns import RawColumns, with_texts
from shoal.errors import EMPTY_TABLE, DataError, PolicyError, RequirementNotMet, list_some
from shoal.formats.numbers import format_count, format_number
from shoal.mining.grow import LearningTable, induce_tree, list_attackers
from shoal.mining.learning_policy import name_target, set_target, simplify_policy, unused_name
from shoal.mining.tree_model import TreeModel
from shoal.models.artifact import ModelArtifact
from shoal.models.audit import audit_table, check_policy
from shoal.models.estimator import CONFIDENCE, DEFAULT_K, AnonymousEstimator, TableFails, as_data_error
from shoal.models.published_tree import PublishedTree
from shoal.models.tree_picture import TreePicture
from shoal.policy import Policy, parse_policy
from shoal.requirements import KAnonymity, describe
from shoal.requirements.requirement import parse_whole_number
from shoal.secret import new_seed

DEFAULT_NOTE = (
    f"No policy was given: all columns are public numbers, the class is private, and k is {DEFAULT_K} by default."
)


class AnonymousTree(ClassifierMixin, AnonymousEstimator):
    """A decision tree classifier that may be published: its spans meet the requirements of a policy.

    The quasi-identifiers of the policy are public: attackers may know them. Its sensitive columns are private, and so is the
    class, unless the target of the policy is also a quasi-identifier. The tree may test public and private columns. It tests
    numbers and dates with a cut, and categories with one of the levels of their taxonomy. A private column of texts that
    nearly all occur once, such as names, is not tested.

    Parameters
    ----------
    policy : the policy (default: all columns are public numbers, the class is private)
    k : k-anonymity, in addition to the requirements of the policy (default without a policy: 5)
    criterion : how splits are rated: ``gain`` (information gain), ``gain-ratio`` or ``gini``
    rule : ``claim3`` spares spans of a single cell, which show nothing private; ``all`` does not
    populations : what is published about the leaves: ``bins``, ``frequencies`` or ``majority``
    max_depth, max_leaves : limits of the size of the tree (default: none)

    Attributes
    ----------
    classes_ : the classes
    tree_model_ : the tree as it is published
    certificate_ : the certificate of the audit, with the spans. The spans are for the owner only; a pickled tree does not
        contain them
    policy_ : the policy that was used

    Guarantee
    ---------
    Whatever `fit` returns passes `shoal.models.audit` with the same policy. See there what the guarantee covers.

    References
    ----------
    Friedman, Wolff, Schuster: Providing k-anonymity in data mining. VLDB Journal 17 (2008), Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.repeat([[20], [30], [40], [50]], 5, axis=0), np.repeat(["low", "high"], 10)
    >>> tree = AnonymousTree(k=4).fit(X, y)
    >>> print(tree.export_text(), end="")
    all records
    |-- x0 is at most 30: low 10
    |-- x0 is above 30: high 10
    >>> tree.certificate_.smallest
    10
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        k: int | None = None,
        criterion: str = "gain",
        rule: str = "claim3",
        populations: str = "bins",
        max_depth: int | None = None,
        max_leaves: int | None = None,
    ) -> None:
        self.policy = policy
        self.k = k
        self.criterion = criterion
        self.rule = rule
        self.populations = populations
        self.max_depth = max_depth
        self.max_leaves = max_leaves

    def fit(self, X: Any, y: Any = None) -> AnonymousTree:
        """Grow the tree and audit it.

        Parameters
        ----------
        X : a frame with the columns of the policy; without a policy, an array or a frame of numbers
        y : the class of every record (default: the target column of X)

        Raises `RequirementNotMet` if not even a tree without splits meets the requirements.
        """
        if self.populations == "nothing":
            raise PolicyError("a tree without statistics predicts nothing. Choose populations='majority'.")
        engine, policy = self._read_training(X, y)
        check_policy(policy)
        target = str(policy.target)
        private = tuple(c for c in policy.sensitive if c in engine.schema().names)
        key = None if policy.unit is None else KeyedHash.of(new_seed())
        table = LearningTable.of(
            encode_table(engine, policy, extra=(target, *private), hash=key).count(), target, private
        )
        grown = induce_tree(
            table,
            list_attackers(policy),
            criterion=self.criterion,
            rule=self.rule,
            max_leaves=self._parse_limit("max_leaves"),
            max_depth=self._parse_limit("max_depth"),
        )
        if grown is None:
            needed = ", ".join(describe(r) for r in policy.require)
            rows = format_count(engine.schema().rows, "record")
            raise TableFails(
                f"not even a tree without splits meets the requirements ({needed}): the whole table of {rows} "
                f"(n_samples={engine.schema().rows}) fails. Weaken the requirements, or add records."
            )
        self.policy_ = policy
        self.tree_model_ = TreeModel.of(grown, policy, target, private).with_populations(self.populations)
        certificate = audit_table(self.tree_model_, engine, policy, self.rule, self.populations, CONFIDENCE)
        if not certificate.holds:
            raise RequirementNotMet(
                "the audit of the finished tree fails, so the tree is not returned. A smaller tree (max_leaves, max_depth) may "
                "pass."
            ).with_certificate(certificate)
        default = (DEFAULT_NOTE,) if self.policy is None and self.k is None else ()
        self.certificate_ = replace(certificate, notes=(*certificate.notes, *default))
        self._training = engine
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most frequent class of the leaf of every record (ties: the first class)."""
        probabilities = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of every class in the leaf of every record.

        A record with a value that no branch has gets the shares of the node where it stops.
        """
        check_is_fitted(self)
        nodes = self.tree_model_.find_nodes(self._read_later(X))
        return self.tree_model_.probabilities[nodes][:, self._class_order]

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf of every record, by its number."""
        check_is_fitted(self)
        return self.tree_model_.find_nodes(self._read_later(X))

    def export_text(self) -> str:
        """The tree as indented text."""
        check_is_fitted(self)
        return self.tree_model_.export_text()

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain values, as in the JSON file of a release."""
        check_is_fitted(self)
        return self.tree_model_.to_dict()

    def plot(self) -> TreePicture:
        """A picture of the tree, which notebooks show; ``.save("tree.svg")`` writes it."""
        check_is_fitted(self)
        return TreePicture(self.tree_model_)

    def _make_artifact(self, training: Engine) -> ModelArtifact:
        classes = [self.classes_.tolist()[self._class_order.index(c)] for c in range(len(self.tree_model_.classes))]
        return ModelArtifact(self.tree_model_, PublishedTree.of(self.tree_model_, classes), training)

    @property
    def _class_order(self) -> list[int]:
        """The number of every class in the published tree."""
        return [self.tree_model_.classes.index(_label(c)) for c in self.classes_.tolist()]

    def _read_training(self, X: Any, y: Any) -> tuple[Engine, Policy]:
        """The training records with their class as a table, and the policy with its target and all requirements."""
        if self.policy is None:
            with as_data_error():
                X, y = validate_data(self, X, y, dtype=np.float64)
            names = self._name_columns()
            target = unused_name("class", names)
            k = parse_whole_number(DEFAULT_K if self.k is None else self.k, "k", 1)
            policy = Policy(quasi=dict.fromkeys(names, "numeric"), target=target, require=[KAnonymity(k)])
            return self._add_classes(self._open_numbers(X), policy, y), policy
        policy = parse_policy(self.policy)
        engine = open_data(X, policy.with_conventions())
        columns = engine.schema().names
        if policy.target is None and y is not None:
            absent = [name for name in policy.sensitive if name not in columns]
            policy = set_target(policy, absent[0] if len(absent) == 1 else unused_name("class", columns))
        policy = simplify_policy(name_target(policy, columns))
        if not engine.schema().rows:
            raise DataError(EMPTY_TABLE)
        if self.k is not None:
            policy = policy.model_copy(update={"require": (*policy.require, KAnonymity(self.k))})
        target = str(policy.target)
        if y is None:
            y = RawColumns.of(engine).list_all(target)
        engine = self._add_classes(engine, policy, y)
        policy.check_schema(engine.schema())
        self.feature_names_in_ = np.array([c for c in columns if c != target], object)
        self.n_features_in_ = len(self.feature_names_in_)
        return engine, policy

    def _add_classes(self, engine: Engine, policy: Policy, given: Any) -> Engine:
        """The table with the class of every record as text; `classes_` has the classes themselves."""
        y = _read_classes(given, policy)
        rows, target = engine.schema().rows, str(policy.target)
        if len(y) != rows:
            raise DataError(f"there are {len(y):,} classes for {rows:,} records. Pass one class per record.")
        self.classes_, number = np.unique(y, return_inverse=True)
        labels = [_label(c) for c in self.classes_.tolist()]
        if len(set(labels)) < len(labels):
            raise DataError(f"different classes have the same text: {list_some(labels)}. Rename one of them.")
        return with_texts(engine, target, labels, number)


def _read_classes(given: Any, policy: Policy) -> NDArray[Any]:
    """The class of every record as an array, in normal spelling if the policy normalizes the target."""
    plain = np.asarray(given, object) if isinstance(given, (list, tuple)) else np.asarray(given)
    missing = sum(_is_missing(value) or value in policy.missing_texts for value in plain.ravel().tolist())
    if missing:
        raise DataError(
            f"the class {policy.target!r} of {format_count(missing, 'record')} is missing. Remove these records, or write a "
            "class of its own for them."
        )
    with as_data_error():
        y: NDArray[Any] = column_or_1d(np.asarray(given), warn=True)
    if policy.target in policy.normalize:
        y = np.array([policy.normalizer(_label(value)) for value in y.tolist()])
    try:
        with np.errstate(invalid="ignore"):
            check_classification_targets(y)
    except ValueError as error:
        raise DataError(
            f"the classes {policy.target!r} must be texts, whole numbers or true and false. Convert them to text. ({error})"
        ) from error
    return y


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _label(value: Any) -> str:
    """The text of a class, as it is read from a table: 1.0 is '1'."""
    return format_number(value) if isinstance(value, float) else str(value)
