"""The audit of association rules by their spans, and of itemsets by the groups that follow from their supports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.arrays import BoolArray, Int32Array, Int64Array
from shoal.encoding.codes import encode_column, encode_unit, unit_reading
from shoal.engines import Dictionary, Engine
from shoal.errors import EMPTY_TABLE, DataError, PolicyError, explain_unknown_column, list_some
from shoal.formats.numbers import format_count
from shoal.mining.channels import MOST_ITEMS, Channels, find_channels, measure_groups
from shoal.mining.grow import RULES, check_choice
from shoal.mining.implied_spans import ImpliedSpan, find_implied_spans
from shoal.mining.item_records import find_items, recount_itemsets, recount_rules
from shoal.mining.itemsets import Item, Itemsets, Rules
from shoal.mining.model_columns import row_codes
from shoal.mining.rule_frames import UNKNOWN, add_right_sides, fingerprint_rules, list_published_sets, read_rules
from shoal.mining.rule_spans import RuleSpans, count_states, find_rule_spans
from shoal.models.certificate import ModelCertificate
from shoal.models.span_reports import AttackerSpans, SpanList, SpanReport
from shoal.policy import Policy
from shoal.requirements import Certificate, Finding, Requirement, describe, judge_spans
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import parse_whole_number
from shoal.spans import lower_spans

ADVICE = "Publish fewer rules: shoal.models.AnonymousRules chooses rules that may be published together."
BLOCK = "Close the channels first: shoal.models.block_channels suppresses sets, or raises supports."
OTHER_RECORDS = (
    "The published counts differ from those of the table. Pass the table that the rules or itemsets were mined from: for other "
    "records the certificate says nothing about the published counts."
)


def audit_rules(
    model: Any, engine: Engine, policy: Policy, rule: str, populations: str, confidence: float
) -> ModelCertificate:
    """`shoal.models.audit` for rules and itemsets in a table of an engine; the policy is checked before."""
    if populations != "bins":
        raise PolicyError(
            f"populations={populations!r} is about the leaves of trees. Remove it: the audit of rules and itemsets tests the "
            "published counts."
        )
    if not engine.schema().rows:
        raise DataError(EMPTY_TABLE)
    read = read_rules(model, engine.schema().rows, engine.schema().names)
    check_roles(policy, read.items)
    has = find_items(engine, policy, read.items)
    if isinstance(read, Itemsets):
        return _audit_itemsets(read, has, policy, rule)
    return audit_counted(read, has, CountedColumns.of(engine, policy), policy, rule, confidence)


def check_roles(policy: Policy, items: Sequence[Item]) -> None:
    """Raise `PolicyError` if an item is of a column that is neither public nor private."""
    columns = list(dict.fromkeys(item.column for item in items))
    hidden = [c for c in columns if c in policy.hidden_columns and c not in policy.quasi]
    if hidden:
        raise PolicyError(
            f"the rules or itemsets name identifiers: {list_some(hidden)}. Mine without these columns, or list them under "
            "'quasi'."
        )
    unknown = [c for c in columns if c not in policy.quasi and c not in (*policy.sensitive, policy.target)]
    if unknown:
        raise PolicyError(
            "the policy does not say whether attackers know these columns, which the rules or itemsets name: "
            f"{list_some(unknown)}. List a column under 'quasi' if they may know it, otherwise under 'sensitive'."
        )


@dataclass(frozen=True)
class CountedColumns:
    """The private columns that requirements test, and the person of every record."""

    names: tuple[str, ...]
    codes: tuple[Int32Array, ...]
    labels: tuple[tuple[str | None, ...], ...]
    person: Int32Array | None

    @classmethod
    def of(cls, engine: Engine, policy: Policy) -> CountedColumns:
        """Encode the columns of a table."""
        names = policy.tested_columns
        for name in (*names, *unit_reading(policy)):
            if name not in engine.schema().names:
                raise DataError(explain_unknown_column(name, engine.schema().names))
        dictionaries: dict[str, Dictionary] = {}
        engine.prepare({n: policy.published_reading(n) for n in names} | unit_reading(policy))
        columns = [encode_column(engine, n, policy.published_reading(n), dictionaries) for n in names]
        unit = None if policy.unit_column is None else encode_unit(engine, policy, dictionaries)
        if not dictionaries:
            return cls((), (), (), None)
        coded = engine.encode(dictionaries)
        person = None
        if unit is not None:
            number = row_codes(coded, unit.name)
            person = np.where(number < len(unit.texts), number, -1).astype(np.int32)
        return cls(names, tuple(row_codes(coded, n) for n in names), tuple(c.labels for c in columns), person)

    def lower(self, span: Int32Array, count: int) -> Groups:
        """Spans as groups."""
        return lower_spans(span, count, self.names, self.codes, self.labels, self.person)


@dataclass
class _View:
    """What one attacker sees: the spans, the spans as groups, which of them are tested, and which fail."""

    spans: RuleSpans
    groups: Groups
    tested: BoolArray
    fails: BoolArray

    @classmethod
    def of(cls, rules: Rules, has: BoolArray, tested: CountedColumns, public: Collection[str], rule: str) -> _View:
        spans = find_rule_spans(rules, has, public)
        chosen = np.ones(spans.count, bool) if rule == "all" else ~spans.single
        return cls(spans, tested.lower(spans.span, spans.count), chosen, np.zeros(spans.count, bool))

    def judge(self, requirement: Requirement, known: Sequence[str]) -> Finding:
        """Test a requirement, and mark the spans that fail."""
        finding, fails = judge_spans(self.groups, self.tested, requirement, known)
        self.fails |= fails
        return finding


def audit_counted(
    rules: Rules, has: BoolArray, tested: CountedColumns, policy: Policy, rule: str, confidence: float
) -> ModelCertificate:
    """The audit of rules; ``has`` says which records have which items."""
    known = {None: tuple(policy.quasi)} | {tuple(r.on): tuple(r.on) for r in policy.require if r.on is not None}
    complete = add_right_sides(rules)
    views = {public: _View.of(complete, has, tested, public, rule) for public in dict.fromkeys(known.values())}
    findings = []
    for requirement in policy.require:
        public = known[None if requirement.on is None else tuple(requirement.on)]
        findings.append(views[public].judge(requirement, public))
    everything, holds = views.pop(tuple(policy.quasi)), all(f.holds for f in findings)
    size = everything.groups.size[everything.tested]
    smallest = int(size.min()) if len(size) else everything.groups.records
    fits = _has_counts(rules, recount_rules(rules, has))
    certificate = Certificate(
        holds,
        has.shape[1],
        int(everything.tested.sum()),
        smallest,
        tuple(findings),
        fingerprint_rules(rules),
        evidence="model",
        notes=(
            *(() if fits else (OTHER_RECORDS,)),
            *(_note_channels(rules, policy) if fits else ()),
            *(() if holds else (ADVICE,)),
        ),
        people=everything.groups.people,
        smallest_people=smallest if everything.groups.people and len(size) else None,
    )
    listed = [AttackerSpans(everything.spans, everything.groups.size, everything.fails)]
    for public, view in views.items():
        prefix = f"an attacker who knows only {', '.join(sorted(public))}: "
        listed.append(AttackerSpans(view.spans, view.groups.size, view.fails, prefix))
    certain, confident = _count_inferred(everything, has, confidence)
    return ModelCertificate.of(
        certificate,
        rule=rule,
        populations="rules",
        confidence=confidence,
        spans=SpanList(tuple(listed), count_states(complete)),
        fits=fits,
        single_spans=int((~everything.tested).sum()),
        single_records=int(everything.spans.size[~everything.tested].sum()),
        certain=certain,
        confident=confident,
    )


def _has_counts(rules: Rules, counted: Rules) -> bool:
    """Whether rules publish the counts of a table; a right side without a count agrees with all."""
    right = (rules.right_count == UNKNOWN) | (rules.right_count == counted.right_count)
    same = (rules.count == counted.count) & (rules.left_count == counted.left_count) & right
    return bool(same.all()) and rules.records == counted.records


def _note_channels(rules: Rules, policy: Policy) -> tuple[str, ...]:
    """A note on small groups that follow from the counts of the rules. Spans do not forbid them; anybody can compute them."""
    k = max((r.least for r in policy.require), default=1)
    sets = list_published_sets(rules)
    if int(sets.size.max(initial=0)) > MOST_ITEMS:
        return ()
    found = find_channels(sets, k, tested=find_private_sets(sets, policy.quasi))
    if not len(found):
        return ()
    groups = format_count(len(found), "group")
    return (
        f"{groups} of fewer than {k} people follow{'s' * (len(found) == 1)} from the published counts by subtraction. "
        "Attackers cannot say who is in them, since private items belong to their description.",
    )


def _count_inferred(view: _View, has: BoolArray, confidence: float) -> tuple[int, int]:
    """The records of tested spans in which a private item of an undecided rule is certain, and has a share above a limit."""
    spans, rules = view.spans, view.spans.rules
    certain, confident = np.zeros(spans.count, bool), np.zeros(spans.count, bool)
    shares: dict[int, Any] = {}
    for j, rule in enumerate(spans.split):
        undecided = spans.several[:, j]
        public = {*rule.public_left, *rule.public_right}
        for i in {*rules.left[rule.number], *rules.right[rule.number]} - public:
            if i not in shares:
                shares[i] = np.bincount(spans.span, has[i], minlength=spans.count) / spans.size
            share = shares[i] if rules.items[i].value is not None else np.maximum(shares[i], 1 - shares[i])
            certain |= undecided & (share == 1)
            confident |= undecided & (share > confidence)
    return int(spans.size[certain].sum()), int(spans.size[confident].sum())


def find_private_sets(itemsets: Itemsets, public: Collection[str]) -> BoolArray:
    """Whether each set has an item of a column that is not public. Attackers can count groups of public items anyway."""
    private = np.array([item.column not in public for item in itemsets.items], bool)
    found = np.zeros(len(itemsets), bool)
    found[np.repeat(np.arange(len(itemsets)), itemsets.size)[private[itemsets.members]]] = True
    return found


def _audit_itemsets(itemsets: Itemsets, has: BoolArray, policy: Policy, rule: str) -> ModelCertificate:
    for requirement in policy.require:
        if not requirement.size_only:
            raise PolicyError(
                f"{describe(requirement)} cannot be tested on itemsets: their supports count people, and show no other values "
                "of a group. Require k-anonymity, or audit association rules."
            )
    if policy.unit is not None:
        raise PolicyError(
            "itemsets cannot be tested for a policy with a unit: supports count records, not people. Mine a table with one "
            "record per person, and remove 'unit:'."
        )
    findings, reports = [], []
    for requirement in policy.require:
        public = tuple(requirement.on or policy.quasi)
        tested = None if rule == "all" else find_private_sets(itemsets, public)
        found = find_channels(itemsets, requirement.least, tested=tested)
        groups, smallest = measure_groups(itemsets, tested)
        people = found.people if len(found) else np.array([smallest] if groups else [], np.int64)
        finding, _ = judge_spans(_make_groups(people), np.ones(len(people), bool), requirement, public)
        failing = min(int(found.people.sum()), itemsets.records)
        findings.append(replace(finding, groups=groups, failing_records=failing))
        reports += _report(found.minimal)
    groups, smallest = measure_groups(itemsets, None if rule == "all" else find_private_sets(itemsets, policy.quasi))
    counted = recount_itemsets(itemsets, has)
    fits = bool((itemsets.count == counted.count).all()) and itemsets.records == counted.records
    holds = all(f.holds for f in findings)
    certificate = Certificate(
        holds,
        has.shape[1],
        groups,
        smallest,
        tuple(findings),
        fingerprint_rules(itemsets),
        evidence="supports",
        notes=(*(() if fits else (OTHER_RECORDS,)), *(() if holds else (BLOCK,))),
    )
    reports = sorted(dict.fromkeys(reports), key=lambda report: report.size)
    return ModelCertificate.of(certificate, rule=rule, populations="supports", spans=tuple(reports), fits=fits)


def _make_groups(size: Int64Array) -> Groups:
    """Groups of these sizes, without values."""
    number = np.arange(len(size), dtype=np.int32)
    start = np.arange(len(size) + 1, dtype=np.int64)
    return Groups(("group",), (), number.reshape(-1, 1), start, np.zeros((len(size), 0), np.int32), size)


def _report(channels: Channels) -> list[SpanReport]:
    """Channels as spans that fail, for the owner."""
    return [SpanReport(str(c).rpartition(": ")[0], c.people, single=False, holds=False, cells=()) for c in channels]


@dataclass(frozen=True)
class FiguresAudit:
    """What published rules imply without a table: the spans, and whether they are known to have k people.

    ``smallest`` is the least number of people that a tested span is known to have: the k reached. ``holds`` if it is at least
    k. The lower end of an interval decides, so an audit with the table can hold where this one does not.
    """

    k: int
    records: int
    rule: str
    rules: Rules
    spans: tuple[ImpliedSpan, ...]

    @property
    def tested(self) -> tuple[ImpliedSpan, ...]:
        """The spans that must have k people."""
        return tuple(span for span in self.spans if self.rule == "all" or not span.single)

    @property
    def failing(self) -> tuple[ImpliedSpan, ...]:
        """The tested spans that may have fewer than k people."""
        return tuple(span for span in self.tested if span.least < self.k)

    @property
    def smallest(self) -> int:
        """The least number of people of a tested span; all records if no span is tested."""
        return min((span.least for span in self.tested), default=self.records)

    @property
    def holds(self) -> bool:
        """Whether every tested span is known to have k people."""
        return not self.failing

    def __str__(self) -> str:
        lines = [f"{'holds' if self.holds else 'DOES NOT HOLD'}: k = {self.k}, {self.smallest:,} people reached"]
        for span in self.spans:
            verdict = "fails" if span in self.failing else "ok" if span in self.tested else "a single cell"
            lines.append(f"  {verdict}: {span}")
        return "\n".join(lines)


def audit_figures(
    rules: Any, records: int | None = None, *, public: Sequence[str], k: int, rule: str = "claim3"
) -> FiguresAudit:
    """Test association rules from their published figures alone, without the table.

    Parameters
    ----------
    rules : `Rules`, or a frame with the columns antecedents, consequents, support and confidence, as mlxtend makes it
    records : the number of records that the rules were mined from; needed for a frame
    public : the columns that attackers know; all others are private
    k : the least number of people of a span
    rule : ``claim3`` (default) spares spans of a single cell, which show nothing private; ``all`` does not

    Returns
    -------
    The spans with the number of people that the figures imply: exact where all needed supports are published, otherwise an
    interval whose lower end decides.

    References
    ----------
    Friedman, Wolff, Schuster: Providing k-anonymity in data mining. VLDB Journal 17 (2008), section 4.3.

    Examples
    --------
    >>> import pandas as pd
    >>> rules = pd.DataFrame({"antecedents": [{"Cherries"}, {"Cherries", "Candles"}],
    ...                       "consequents": [{"Viagra"}, {"Tylenol"}], "support": [0.084, 0.024], "confidence": [0.75, 0.8]})
    >>> print(audit_figures(rules, 1000, public=["Cherries", "Candles"], k=31))
    DOES NOT HOLD: k = 31, 30 people reached
      a single cell: lacks Cherries (888 people)
      ok: has Cherries, lacks Candles (82 people)
      fails: has Candles, has Cherries (30 people)
    """
    check_choice("rule", rule, RULES)
    k = parse_whole_number(k, "k", 1)
    if isinstance(public, str) or not all(isinstance(name, str) for name in public):
        raise PolicyError(f"public must be a list of columns, such as ['age', 'sex'], not {public!r}.")
    if records is None:
        records = getattr(rules, "records", None)
    if records is None:
        raise DataError("the number of records is needed to read shares. Pass records=.")
    read = read_rules(rules, parse_whole_number(records, "records", 1), public)
    if not isinstance(read, Rules):
        raise DataError("these are itemsets, not rules. Use shoal.models.find_channels to test them without a table.")
    return FiguresAudit(k, read.records, rule, read, tuple(find_implied_spans(read, frozenset(public))))
