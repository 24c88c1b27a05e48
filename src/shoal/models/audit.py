"""The audit of a model: find the spans of all records, lower them to groups, and test every requirement on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.encoding.codes import encode_column, encode_unit, unit_reading
from shoal.engines import Dictionary, Engine, open_data
from shoal.errors import PolicyError, list_some
from shoal.mining.grow import RULES, check_choice
from shoal.mining.learning_policy import name_target
from shoal.mining.readers import fingerprint_model, read_model
from shoal.mining.scikit_learn import ReadModel
from shoal.mining.tree_model import POPULATIONS, row_codes
from shoal.models.certificate import ModelCertificate, SpanCell, SpanReport
from shoal.policy import Policy, parse_policy
from shoal.requirements import Certificate, Finding, describe, judge_spans
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import parse_share
from shoal.spans import Knowledge, Spans, describe_conditions, find_spans

OTHER_RECORDS = (
    "The numbers of records in the leaves of the model differ from those of the table. Pass the table that the model was "
    "fitted on: for other records the certificate says nothing about the published numbers."
)


def audit(
    model: Any,
    frame: Any,
    policy: Policy,
    *,
    rule: str = "claim3",
    populations: str = "bins",
    confidence: float = 0.9,
) -> ModelCertificate:
    """Test whether a model may be published: find what an attacker who knows the public columns can learn from it.

    The quasi-identifiers of the policy are public; its sensitive columns and its target are private, unless the target is also
    a quasi-identifier.

    Parameters
    ----------
    model : an `AnonymousTree`, a scikit-learn decision tree, or a scikit-learn pipeline that ends with one
    frame : the records that the model was fitted on: a frame or the path of a file
    policy : the policy with the requirements
    rule : ``claim3`` (default) spares spans of a single cell, which show nothing private; ``all`` does not
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
    check_choice("rule", rule, RULES)
    check_choice("populations", populations, POPULATIONS)
    share = parse_share(confidence, "confidence")
    if not 0 <= share <= 1:
        raise PolicyError(f"confidence must be between 0 and 1, not {confidence!r}.")
    policy = parse_policy(policy)
    return audit_table(model, open_data(frame, policy.with_conventions()), policy, rule, populations, share)


def audit_table(
    model: Any, engine: Engine, policy: Policy, rule: str, populations: str, confidence: float
) -> ModelCertificate:
    """`audit` for a table in an engine."""
    _check_policy(policy)
    policy = name_target(policy, engine.schema().names)
    target = str(policy.target)
    read = read_model(model, engine, policy, target)
    _check_roles(policy, read.tree.columns, target)
    if populations == "nothing":  # the leaves are not divided by class
        read = replace(read, tree=replace(read.tree, classes=("",)), classes=np.zeros_like(read.classes))
    private = _PrivateColumns.of(engine, policy, target, read)
    known = _list_knowledge(policy, target)
    spans = {
        k: find_spans(read.tree, read.codes, read.classes, k) for k in dict.fromkeys((known[None], *known.values()))
    }
    findings: list[Finding] = []
    failing: dict[Knowledge, BoolArray] = {}
    for requirement in policy.require:
        knowledge = known[None if requirement.on is None else tuple(requirement.on)]
        own = spans[knowledge]
        groups, tested = private.lower(own, rule)
        finding, fails = judge_spans(groups, tested, requirement, requirement.on or tuple(policy.quasi))
        findings.append(finding)
        failing[knowledge] = failing.get(knowledge, np.zeros(len(own.leaves), bool)) | fails
    return _certify(model, read, spans, known[None], failing, tuple(findings), private, rule, populations, confidence)


def _check_policy(policy: Policy) -> None:
    if not policy.require:
        raise PolicyError("the policy has no requirement. Add one, such as 'k-anonymity: 10', under 'require:'.")
    for requirement in policy.require:
        if requirement.tested_on == "operator":
            raise PolicyError(
                f"{describe(requirement)} cannot be tested on a model: it is a requirement on the probabilities of a "
                "randomizing method. Remove it from the policy."
            )


def _check_roles(policy: Policy, columns: Sequence[str], target: str) -> None:
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


def _list_knowledge(policy: Policy, target: str) -> dict[tuple[str, ...] | None, Knowledge]:
    """What attackers know: all quasi-identifiers, or those that a requirement names."""
    sets: dict[tuple[str, ...] | None, tuple[str, ...]] = {None: tuple(policy.quasi)}
    sets |= {tuple(r.on): tuple(r.on) for r in policy.require if r.on is not None}
    return {on: Knowledge(frozenset(names), target in names) for on, names in sets.items()}


@dataclass(frozen=True)
class _PrivateColumns:
    """The private columns that requirements test or the model uses, and the person of every record."""

    names: tuple[str, ...]
    codes: tuple[Int32Array, ...]
    labels: tuple[tuple[str | None, ...], ...]
    person: Int32Array | None
    watched: tuple[str, ...]  # the class and the private columns that the model tests

    @classmethod
    def of(cls, engine: Engine, policy: Policy, target: str, read: ReadModel) -> _PrivateColumns:
        used = tuple(c for c in (target, *read.tree.columns) if c not in policy.quasi)
        names = tuple(dict.fromkeys((*policy.tested_columns, *used)))
        dictionaries: dict[str, Dictionary] = {}
        engine.prepare({n: policy.published_reading(n) for n in names} | unit_reading(policy))
        columns = [encode_column(engine, n, policy.published_reading(n), dictionaries) for n in names]
        unit = None if policy.unit_column is None else encode_unit(engine, policy, dictionaries)
        coded = engine.encode(dictionaries)
        person = None
        if unit is not None:
            number = row_codes(coded, unit.name)
            person = np.where(number < len(unit.texts), number, -1).astype(np.int32)
        return cls(names, tuple(row_codes(coded, n) for n in names), tuple(c.labels for c in columns), person, used)

    def lower(self, spans: Spans, rule: str) -> tuple[Groups, BoolArray]:
        """All spans as groups, and which of them must meet the requirements."""
        every = np.ones(len(spans.leaves), bool)
        groups = spans.lower(every, self.names, self.codes, self.labels, self.person)
        return groups, every if rule == "all" else ~spans.single


def _certify(
    model: Any,
    read: ReadModel,
    spans: Mapping[Knowledge, Spans],
    everything: Knowledge,
    failing: Mapping[Knowledge, BoolArray],
    findings: tuple[Finding, ...],
    private: _PrivateColumns,
    rule: str,
    populations: str,
    confidence: float,
) -> ModelCertificate:
    """The certificate of the spans; its counts are those of an attacker who knows all public columns."""
    own = spans[everything]
    groups, tested = private.lower(own, rule)
    chosen = groups.keep(tested)
    shown = populations in ("bins", "frequencies")
    certain, confident = _count_inferred(chosen, private.watched, confidence) if shown else (0, 0)
    distinct, entropy = _measure_diversity(chosen, private.watched[0]) if private.watched else (0, 0.0)
    certificate = Certificate(
        all(f.holds for f in findings),
        len(read.classes),
        int(tested.sum()),
        int(chosen.size.min()) if len(chosen.size) else len(read.classes),
        findings,
        fingerprint_model(model),
        evidence="model",
        notes=() if read.fits else (OTHER_RECORDS,),
        people=groups.people,
        smallest_people=int(chosen.size.min()) if groups.people and len(chosen.size) else None,
    )
    population = np.zeros((len(read.tree.column), len(read.tree.classes)), np.int64)
    np.add.at(population, (read.tree.route(read.codes, len(read.classes)), read.classes), 1)
    reports = [
        report
        for knowledge, found in spans.items()
        for report in _describe_spans(
            found,
            private.lower(found, rule)[0].size,
            failing.get(knowledge, np.zeros(len(found.leaves), bool)),
            population,
            "" if knowledge == everything else f"an attacker who knows only {', '.join(sorted(knowledge.columns))}: ",
        )
    ]
    single = own.single
    return ModelCertificate.of(
        certificate,
        rule=rule,
        populations=populations,
        single_spans=int((single & ~tested).sum()),
        single_records=int(own.size[single & ~tested].sum()),
        certain=certain,
        confident=confident,
        confidence=confidence,
        distinct=distinct,
        entropy=entropy,
        spans=tuple(sorted(reports, key=lambda span: (span.holds, span.single, span.size))),
    )


def _describe_spans(
    spans: Spans, size: Int64Array, fails: BoolArray, population: Int64Array, prefix: str
) -> list[SpanReport]:
    tree, single, found = spans.tree, spans.single, []
    bins = range(len(tree.classes))
    words_of = {leaf: describe_conditions(tree.path(leaf), "all records") for leaf in tree.leaves.tolist()}
    for s, leaves in enumerate(spans.leaves):
        words = describe_conditions(spans.describe(s), "all people")
        known = int(spans.known_class[s])
        if known >= 0:
            words += f", class {tree.classes[known]}"
        cells = tuple(
            SpanCell(words_of[leaf], tree.classes[c] if len(tree.classes) > 1 else None, int(population[leaf, c]))
            for leaf in leaves
            for c in ([known] if known >= 0 else bins)
        )
        found.append(SpanReport(prefix + words, int(size[s]), bool(single[s]), not fails[s], cells))
    return found


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
