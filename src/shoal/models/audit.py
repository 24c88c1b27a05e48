"""The audit of a model: find the spans of all records, lower them to groups, and test every requirement on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.arrays import BoolArray, Int32Array
from shoal.encoding.codes import encode_column, encode_unit, unit_reading
from shoal.engines import Dictionary, Engine, open_data
from shoal.errors import PolicyError, list_some
from shoal.mining.grow import RULES, check_choice
from shoal.mining.learning_policy import name_target
from shoal.mining.model_columns import row_codes
from shoal.mining.read_cells import ReadCells
from shoal.mining.readers import fingerprint_model, has_target, read_model
from shoal.mining.rule_frames import is_rules
from shoal.mining.scikit_learn import ReadEnsemble, ReadModel
from shoal.mining.tree_model import POPULATIONS
from shoal.models.certificate import ModelCertificate
from shoal.models.rule_audit import audit_rules
from shoal.models.span_reports import AttackerSpans, SpanList
from shoal.policy import Policy, parse_policy
from shoal.requirements import Certificate, Finding, Requirement, describe, judge_spans
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import parse_share
from shoal.spans import CellSets, EnsembleSpans, Knowledge, Spans, lower_spans

SAFE_MEMBERS = 20  # of a cluster: more sets of people have the same rounded means than can be told apart
ADVICE = (
    "Instead of this model you can publish its predictions only, a model with fewer or smaller trees, or a tree that is fitted "
    "to its predictions (shoal.models.distill)."
)
CLUSTER_ADVICE = (
    "Instead of these centroids you can publish fewer of them, or clusters that meet the requirements "
    "(shoal.models.AnonymousClusters)."
)
OUTPUT_ADVICE = (
    "Instead of these predictions you can publish classes without probabilities, or a tree that is fitted to the predictions "
    "(shoal.models.distill)."
)
STEPS = (
    "The steps before the model hold values of its columns, such as the categories of an encoder or quantiles. The audit does "
    "not test them: publish the pipeline only if everybody may know these values."
)
OTHER_RECORDS = (
    "The numbers of records in the leaves of the model differ from those of the table. Pass the table that the model was "
    "fitted on: for other records the certificate says nothing about the published numbers."
)


def audit(
    model: Any,
    frame: Any,
    policy: Policy,
    *,
    rule: str | None = None,
    populations: str = "bins",
    confidence: float = 0.9,
) -> ModelCertificate:
    """Test whether a model may be published: find what an attacker who knows the public columns can learn from it.

    The quasi-identifiers of the policy are public; its sensitive columns and its target are private, unless the target is also
    a quasi-identifier.

    Parameters
    ----------
    model : an `AnonymousTree` or `AnonymousClusters`; a decision tree, forest, boosting, k-means or nearest-centroid model of
        scikit-learn, or a pipeline that ends with one; or association rules or itemsets (`Rules`, `Itemsets`, `AnonymousRules`,
        or a frame in the form of mlxtend)
    frame : the records that the model was fitted on: a frame or the path of a file
    policy : the policy with the requirements
    rule : ``claim3`` spares spans of a single cell, which show nothing private; ``all`` does not. Default: ``all`` for
        clusters, whose centroids show private values, else ``claim3``
    populations : what the model publishes about its leaves: the records of every class (``bins``, the default and the worst
        case), ``frequencies``, ``majority`` or ``nothing``
    confidence : count the records of spans in which one private value has a larger share than this

    Returns
    -------
    A certificate with ``holds``, ``smallest`` (the k reached), ``findings``, ``spans`` and ``failing``.

    Guarantee
    ---------
    If the certificate holds, an attacker with the public values of all people in the table, and the model with the statistics
    of its leaves, links private values to no fewer people than the requirements demand. The domain of a private column is the
    set of its values in the table. The guarantee is about this model alone: a second model of the same people may reveal more
    together with it.

    References
    ----------
    Friedman, Wolff, Schuster: Providing k-anonymity in data mining. VLDB Journal 17 (2008).
    """
    if rule is not None:
        check_choice("rule", rule, RULES)
    check_choice("populations", populations, POPULATIONS)
    share = parse_share(confidence, "confidence")
    if not 0 <= share <= 1:
        raise PolicyError(f"confidence must be between 0 and 1, not {confidence!r}.")
    policy = parse_policy(policy)
    if is_rules(model):
        check_policy(policy)
        engine = open_data(frame, policy.with_conventions())
        return audit_rules(model, engine, policy, rule or "claim3", populations, share)
    return audit_table(model, open_data(frame, policy.with_conventions()), policy, rule, populations, share)


def audit_table(
    model: Any, engine: Engine, policy: Policy, rule: str | None, populations: str, confidence: float
) -> ModelCertificate:
    """`audit` for a table in an engine."""
    check_policy(policy)
    policy = (
        name_target(policy, engine.schema().names) if has_target(model) else policy.model_copy(update={"target": None})
    )
    target = policy.target
    read = read_model(model, engine, policy, target)
    notes = (STEPS,) if hasattr(model, "steps") else ()
    if rule is None:
        rule = "all" if isinstance(read, ReadCells) else "claim3"
    return audit_read(read, engine, policy, fingerprint_model(model), rule, populations, confidence, notes)


def audit_read(
    read: ReadModel | ReadEnsemble | ReadCells,
    engine: Engine,
    policy: Policy,
    fingerprint: str,
    rule: str,
    populations: str,
    confidence: float,
    notes: Sequence[str] = (),
) -> ModelCertificate:
    """`audit` for a model that was read over the values of a table; the target of the policy is that of the model."""
    target = policy.target
    check_roles(policy, read.columns, target)
    if populations == "nothing":  # the leaves are not divided by class
        read = read.without_classes()
    private = PrivateColumns.of(engine, policy, target, read.columns)
    everything, views, findings = judge_spans_of(read, private, policy, target, rule)
    certificate = Certificate(
        all(f.holds for f in findings),
        len(read.classes),
        int(everything.tested.sum()),
        everything.smallest,
        tuple(findings),
        fingerprint,
        evidence="model",
        notes=(
            *(() if read.fits else (OTHER_RECORDS,)),
            *notes,
            *_note_small_clusters(read, policy, private.person),
            *(() if all(f.holds for f in findings) else (_find_advice(read),)),
        ),
        people=everything.groups.people,
        smallest_people=everything.smallest if everything.groups.people and everything.tested.any() else None,
    )
    prefixes = [f"an attacker who knows only {', '.join(sorted(k.columns))}: " for k in views]
    listed = [everything.list_spans(""), *(v.list_spans(p) for v, p in zip(views.values(), prefixes, strict=True))]
    shown = read.publishes == "clusters" if isinstance(read, ReadCells) else populations in ("bins", "frequencies")
    figures = everything.measure(private.watched, confidence, shown=shown)
    return ModelCertificate.of(
        certificate,
        rule=rule,
        populations=read.publishes if isinstance(read, ReadCells) else populations,
        confidence=confidence,
        spans=SpanList(tuple(listed), read.count_cells()),
        tree_smallest=everything.find_smallest_of_trees(read.classes),
        fits=read.fits,
        **figures,
    )


def _find_advice(read: ReadModel | ReadEnsemble | ReadCells) -> str:
    """What to publish instead of a model that fails."""
    if not isinstance(read, ReadCells):
        return ADVICE
    return CLUSTER_ADVICE if read.publishes == "clusters" else OUTPUT_ADVICE


def _note_small_clusters(
    read: ReadModel | ReadEnsemble | ReadCells, policy: Policy, person: Int32Array | None
) -> tuple[str, ...]:
    """A note on clusters of few records or people: their centroids nearly are the records themselves."""
    if not isinstance(read, ReadCells) or read.publishes != "clusters":
        return ()
    size, noun = read.count_cells()[:, 0], "records"
    if person is not None:
        pairs = np.unique(np.stack([read.cell, person]), axis=1)
        size, noun = np.bincount(pairs[0, pairs[1] >= 0], minlength=read.count), "people"
    has_private = any(name not in policy.quasi for name in read.columns)
    least = max(policy.least_group_size, SAFE_MEMBERS if has_private else 1)
    few = int((size < least).sum())
    if not few:
        return ()
    subject = "1 cluster has" if few == 1 else f"{few} clusters have"
    return (
        f"{subject} fewer than {least} {noun}. A centroid of few {noun} shows nearly their values, and attackers who know the "
        "public values of everybody can find out who they are; the spans do not cover this.",
    )


def check_policy(policy: Policy) -> None:
    """Raise `PolicyError` for a policy whose requirements cannot be tested on a model."""
    if not policy.require:
        raise PolicyError("the policy has no requirement. Add one, such as 'k-anonymity: 10', under 'require:'.")
    if policy.knows_history:
        raise PolicyError(
            "a model cannot be tested for an attacker who knows all records of a person ('knows: history'). Write "
            "'knows: record' and 'pseudonym: false' under 'unit:', if attackers know one record of a person only."
        )
    for requirement in policy.require:
        if requirement.tested_on == "operator":
            raise PolicyError(
                f"{describe(requirement)} cannot be tested on a model: it is a requirement on the probabilities of a "
                "randomizing method. Remove it from the policy."
            )


def check_roles(policy: Policy, columns: Sequence[str], target: str | None) -> None:
    """Raise `PolicyError` if the model uses a column that is neither public nor private."""
    if target in columns:
        raise PolicyError(f"the model uses its own target {target!r} to predict it. Name another column as target.")
    hidden = [c for c in columns if c in policy.hidden_columns and c not in policy.quasi]
    if hidden:
        raise PolicyError(
            f"the model uses identifiers: {list_some(hidden)}. Fit the model without these columns, or list them under 'quasi'."
        )
    unknown = [c for c in columns if c not in policy.quasi and c not in policy.sensitive]
    if unknown:
        raise PolicyError(
            f"the policy does not say whether attackers know these columns, which the model uses: {list_some(unknown)}. List a "
            "column under 'quasi' if they may know it, otherwise under 'sensitive'."
        )


def _list_knowledge(policy: Policy, target: str | None) -> dict[tuple[str, ...] | None, Knowledge]:
    """What attackers know: all quasi-identifiers, or those that a requirement names."""
    sets: dict[tuple[str, ...] | None, tuple[str, ...]] = {None: tuple(policy.quasi)}
    sets |= {tuple(r.on): tuple(r.on) for r in policy.require if r.on is not None}
    return {on: Knowledge(frozenset(names), target in names) for on, names in sets.items()}


def judge_spans_of(
    read: ReadModel | ReadEnsemble | ReadCells, private: PrivateColumns, policy: Policy, target: str | None, rule: str
) -> tuple[_View, dict[Knowledge, _View], list[Finding]]:
    """Test every requirement on the spans for its attacker.

    Returns what the attacker with all quasi-identifiers sees, what the others see, and the findings.
    """
    known = _list_knowledge(policy, target)
    views = {
        knowledge: _View.of(read, private, knowledge, rule)
        for knowledge in dict.fromkeys((known[None], *known.values()))
    }
    findings = []
    for requirement in policy.require:
        view = views[known[None if requirement.on is None else tuple(requirement.on)]]
        findings.append(view.judge(requirement, requirement.on or tuple(policy.quasi)))
    everything = views.pop(known[None])
    return everything, views, findings


@dataclass(frozen=True)
class PrivateColumns:
    """The private columns that requirements test or the model uses, and the person of every record."""

    names: tuple[str, ...]
    codes: tuple[Int32Array, ...]
    labels: tuple[tuple[str | None, ...], ...]
    person: Int32Array | None
    watched: tuple[str, ...]  # the class and the private columns that the model tests

    @classmethod
    def of(cls, engine: Engine, policy: Policy, target: str | None, columns: Sequence[str]) -> PrivateColumns:
        """The private columns of a table; ``columns`` are those that the model uses."""
        used = tuple(c for c in (target, *columns) if c is not None and c not in policy.quasi)
        names = tuple(dict.fromkeys((*policy.tested_columns, *used)))
        dictionaries: dict[str, Dictionary] = {}
        engine.prepare({n: policy.published_reading(n) for n in names} | unit_reading(policy))
        encoded = [encode_column(engine, n, policy.published_reading(n), dictionaries) for n in names]
        unit = None if policy.unit_column is None else encode_unit(engine, policy, dictionaries)
        coded = engine.encode(dictionaries)
        person = None
        if unit is not None:
            number = row_codes(coded, unit.name)
            person = np.where(number < len(unit.texts), number, -1).astype(np.int32)
        return cls(names, tuple(row_codes(coded, n) for n in names), tuple(c.labels for c in encoded), person, used)

    def lower(self, spans: Spans | EnsembleSpans | CellSets) -> Groups:
        """All spans as groups."""
        return lower_spans(spans.span, spans.count, self.names, self.codes, self.labels, self.person)


@dataclass
class _View:
    """What one attacker sees: the spans, the spans as groups, which of them are tested, and which fail."""

    spans: Spans | EnsembleSpans | CellSets
    groups: Groups
    tested: BoolArray
    fails: BoolArray

    @classmethod
    def of(
        cls, read: ReadModel | ReadEnsemble | ReadCells, private: PrivateColumns, knowledge: Knowledge, rule: str
    ) -> _View:
        spans = read.find_spans(knowledge)
        tested = np.ones(spans.count, bool) if rule == "all" else ~spans.single
        return cls(spans, private.lower(spans), tested, np.zeros(spans.count, bool))

    def judge(self, requirement: Requirement, known: Sequence[str]) -> Finding:
        """Test a requirement, and mark the spans that fail."""
        finding, fails = judge_spans(self.groups, self.tested, requirement, known)
        self.fails |= fails
        return finding

    @property
    def smallest(self) -> int:
        """The size of the smallest tested span; all records if no span is tested."""
        size = self.groups.size[self.tested]
        return int(size.min()) if len(size) else self.groups.records

    def find_smallest_of_trees(self, classes: Int32Array) -> tuple[int, ...]:
        """The k that every tree of an ensemble reaches alone; empty for a single tree."""
        if not isinstance(self.spans, EnsembleSpans):
            return ()
        return self.spans.find_smallest_of_trees(classes)

    def list_spans(self, prefix: str) -> AttackerSpans:
        """The spans for the owner."""
        return AttackerSpans(self.spans, self.groups.size, self.fails, prefix)

    def measure(self, watched: Sequence[str], confidence: float, *, shown: bool) -> dict[str, Any]:
        """The figures for the owner; ``shown``: the model publishes the classes of its leaves."""
        chosen, spared = self.groups.keep(self.tested), ~self.tested
        certain, confident = _count_inferred(chosen, watched, confidence) if shown else (0, 0)
        distinct, entropy = _measure_diversity(chosen, watched[0]) if watched else (0, 0.0)
        return {
            "single_spans": int(spared.sum()),
            "single_records": int(self.spans.size[spared].sum()),
            "certain": certain,
            "confident": confident,
            "distinct": distinct,
            "entropy": entropy,
        }


def _count_inferred(groups: Groups, columns: Sequence[str], confidence: float) -> tuple[int, int]:
    """The records of spans in which a private value is certain, and in which one has a larger share than ``confidence``."""
    certain, confident = np.zeros(len(groups.size), bool), np.zeros(len(groups.size), bool)
    for name in columns:
        group, _, count = groups.histogram(name)
        largest = np.zeros(len(groups.size))
        np.maximum.at(largest, group, count / np.maximum(groups.values_of_groups(name), 1)[group])
        certain |= largest == 1.0
        confident |= largest > confidence
    records = groups.records_of_groups
    return int(records[certain].sum()), int(records[confident].sum())


def _measure_diversity(groups: Groups, column: str) -> tuple[int, float]:
    """The least number of different values of a column in a group, and the least exponential of their entropy."""
    if not len(groups.size):
        return 0, 0.0
    group, _, count = groups.histogram(column)
    share = count / groups.values_of_groups(column)[group]
    distinct = np.bincount(group, minlength=len(groups.size))
    entropy = np.bincount(group, -share * np.log(share), minlength=len(groups.size))
    return int(distinct.min()), float(np.exp(entropy.min()))
