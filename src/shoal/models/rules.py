"""`AnonymousRules`: association rules that may be published together, by the spans of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import BoolArray, FloatArray
from shoal.engines import Engine, open_data
from shoal.errors import EMPTY_TABLE, DataError, PolicyError, RequirementNotMet, escape_invisible, list_choices
from shoal.formats.numbers import format_count
from shoal.measures import Measures
from shoal.mining.channels import find_channels
from shoal.mining.grow import RULES, check_choice
from shoal.mining.item_records import find_items, recount_itemsets, recount_rules
from shoal.mining.itemsets import Itemsets, Rules
from shoal.mining.mine import mine_itemsets, mine_rules
from shoal.mining.rule_frames import UNKNOWN, name_rule, read_rules, to_plain, without_right_counts
from shoal.mining.rule_spans import GrowingSpans, SplitRule, split_rules
from shoal.models.audit import check_policy
from shoal.models.rule_artifact import RuleArtifact, WithheldRule
from shoal.models.rule_audit import CountedColumns, audit_counted, check_roles, find_private_sets
from shoal.policy import Policy, parse_policy
from shoal.release import Release
from shoal.requirements import Requirement, describe, judge_spans
from shoal.requirements.requirement import parse_whole_number
from shoal.secret import new_seed

Utility = str | Callable[[Rules], Any]
FIGURES = ("support", "confidence", "lift")
CONFIDENCE = 0.9
ONE_MODEL = "Publish only one set of rules of these records: an attacker who has two sets can combine them."
OTHER_TABLE = (
    "the counts of the rules or itemsets differ from those of the table. Pass the table that they were mined from."
)
MOST_ITEMS = 3  # of a mined rule: longer rules are many, and seldom may be published


class AnonymousRules:
    """Association rules that may be published: their joint spans meet the requirements of a policy.

    The rules are taken in descending order of their utility. A rule is kept if all kept rules together still meet the
    requirements. The quasi-identifiers of the policy are public; its sensitive columns and its target are private.

    Parameters
    ----------
    policy : the policy
    utility : ``support``, ``confidence``, ``lift`` or a product such as ``lift*support`` (default), or a function of `Rules`
        that returns a number for every rule
    max_rules : the largest number of rules (default: no limit)
    support, confidence : the least share of the records that have a rule, and of those with its left side that have the right
        side, where `fit` mines the rules itself
    rule : ``claim3`` (default) spares spans of a single cell, which show nothing private; ``all`` does not
    channels : also withhold rules whose counts show a group of fewer than k people by subtraction (default). Such a group is
        described by private items too, so attackers cannot say who is in it

    Attributes
    ----------
    rules_ : the kept rules, best first, with the counts of the table. The count of a right side alone, and the lift, are not
        published: with them, attackers could count the right side among people whose left side is not complete
    certificate_ : the certificate of the audit, with the spans, which are for the owner only
    withheld_ : the other rules with the reason and the size of the group that fails; for the owner only. Not even their number
        is published

    Guarantee
    ---------
    Whatever `fit` returns passes `shoal.models.audit` with the same policy. The choice is greedy: another set of rules may have
    a larger sum of utilities.

    References
    ----------
    Friedman, Wolff, Schuster: Providing k-anonymity in data mining. VLDB Journal 17 (2008), section 4.3.

    Examples
    --------
    >>> import pandas as pd
    >>> import shoal
    >>> table = pd.DataFrame({"cherries": [True] * 6 + [False] * 4, "pills": [True] * 3 + [False] * 7})
    >>> found = pd.DataFrame({"antecedents": [{"cherries"}], "consequents": [{"pills"}], "support": 0.3, "confidence": 0.5})
    >>> policy = shoal.Policy(quasi={"cherries": "categorical"}, sensitive="pills", require=[shoal.KAnonymity(3)])
    >>> print(AnonymousRules(policy).fit(table, found))
    1 association rule of 10 records
      cherries => pills: 3 of 6 records (support 30.0 %, confidence 50.0 %)
    """

    holds_rules: ClassVar[bool] = True  # for `rule_frames.is_rules`
    rules_: Rules
    certificate_: Any
    withheld_: tuple[WithheldRule, ...]
    policy_: Policy

    def __init__(
        self,
        policy: Policy,
        *,
        utility: Utility = "lift*support",
        max_rules: int | None = None,
        support: float = 0.01,
        confidence: float = 0.5,
        rule: str = "claim3",
        channels: bool = True,
    ) -> None:
        self.policy = policy
        self.utility = utility
        self.max_rules = max_rules
        self.support = support
        self.confidence = confidence
        self.rule = rule
        self.channels = channels

    def fit(self, frame: Any, rules: Any = None) -> AnonymousRules:
        """Choose rules, and audit them.

        Parameters
        ----------
        frame : the records: a frame or the path of a file
        rules : the rules that were mined from them: `Rules`, or a frame in the form of mlxtend. Or `Itemsets`: then every rule
            with one of the items on the right side is a candidate. Default: the rules of `mine_rules` with one item on the
            right side, from itemsets of at most three columns of the policy

        Raises `RequirementNotMet` if no rule meets the requirements.
        """
        check_choice("rule", self.rule, RULES)
        most = None if self.max_rules is None else parse_whole_number(self.max_rules, "max_rules", 1)
        policy = parse_policy(self.policy)
        check_policy(policy)
        engine = open_data(frame, policy.with_conventions())
        if not engine.schema().rows:
            raise DataError(EMPTY_TABLE)
        candidates, has = _count_candidates(self._mine(engine, policy) if rules is None else rules, engine, policy)
        utility = _rate(candidates, self.utility)
        tested = CountedColumns.of(engine, policy)
        search = _Search.of(candidates, has, tested, policy, self.rule, channels=self.channels)
        kept: list[int] = []
        withheld: list[WithheldRule] = []
        for r in np.argsort(-utility, kind="stable").tolist():
            failure = _Failure("the limit max_rules is reached") if most == len(kept) else search.add(r)
            if failure is None:
                kept.append(r)
            else:
                withheld.append(
                    WithheldRule(name_rule(candidates, r), float(utility[r]), failure.reason, failure.people)
                )
        if not kept:
            reasons = " ".join(f"The best rule is withheld because {w.reason}." for w in withheld[:1])
            raise RequirementNotMet(
                f"no rule meets the requirements ({', '.join(describe(r) for r in policy.require)}). {reasons} Weaken the "
                "requirements, or mine rules with larger supports."
            )
        chosen = without_right_counts(_select(candidates, kept))
        certificate = audit_counted(chosen, has, tested, policy, self.rule, CONFIDENCE)
        if not certificate.publishable:
            raise RequirementNotMet(
                "the audit of the chosen rules fails, so they are not returned. A smaller number of rules (max_rules) may pass."
            ).with_certificate(certificate)
        self.rules_, self.withheld_, self.policy_ = chosen, tuple(withheld), policy
        self.certificate_ = certificate
        self._training = engine
        return self

    def _mine(self, engine: Engine, policy: Policy) -> Rules:
        """The rules over the columns of the policy."""
        names = engine.schema().names
        target = () if policy.target is None else (policy.target,)
        columns = [c for c in dict.fromkeys((*policy.quasi, *policy.sensitive, *target)) if c in names]
        itemsets = mine_itemsets(engine, support=self.support, columns=columns, max_size=MOST_ITEMS)
        found = mine_rules(itemsets, confidence=self.confidence)
        if not len(found):
            raise DataError(
                f"no rule has a support of {self.support:g} and a confidence of {self.confidence:g}. Choose smaller numbers."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """The rules as plain values, as in the JSON file of a release."""
        return to_plain(self._get_rules())

    def __str__(self) -> str:
        rules = getattr(self, "rules_", None)
        if rules is None:
            return "AnonymousRules (not fitted)"
        title = f"{format_count(len(rules), 'association rule')} of {format_count(rules.records, 'record')}"
        return "\n".join([title, *(f"  {_describe(rules, r)}" for r in range(len(rules)))])

    def release(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the rules to a public folder, and private figures to the owner folder ``path.owner``; return the public folder.

        The *public folder* has ``rules.json``, ``certificate.json``, ``policy.yaml`` and ``report.html``. The *owner folder*
        (mode 700) has the spans, the withheld rules with the reasons, the full policy and a report. Never publish the owner
        folder. The written rules are read back and audited with the records before the folders appear.
        """
        rules, training = self._get_rules(), getattr(self, "_training", None)
        if training is None:
            raise DataError("the rules have no records, because they were copied or loaded. Fit them again to release.")
        found = self.certificate_
        release = Release(
            self.policy_,
            found,
            Measures({"records": found.records, "classes": found.groups, "smallest": found.smallest}, {}),
            None,
            "AnonymousRules",
            {
                "utility": self.utility
                if isinstance(self.utility, str)
                else getattr(self.utility, "__name__", "function"),
                "max_rules": self.max_rules,
                "rule": self.rule,
                "channels": self.channels,
            },
            (),
            RuleArtifact(rules, training, self.withheld_),
            seed=new_seed(),
            method_notes=(ONE_MODEL,),
        )
        return release.save(path, overwrite=overwrite)

    def _get_rules(self) -> Rules:
        if not hasattr(self, "rules_"):
            raise DataError("AnonymousRules is not fitted. Call its method fit first.")
        return self.rules_

    def __getstate__(self) -> dict[str, Any]:
        """The state for copies and files, without the records, spans and withheld rules, which are for the owner only."""
        state = {name: value for name, value in self.__dict__.items() if name not in ("_training", "withheld_")}
        if "certificate_" in state:
            state["certificate_"] = state["certificate_"].public()
        return state


def _describe(rules: Rules, r: int) -> str:
    shares = f"support {100 * rules.support[r]:.1f} %, confidence {100 * rules.confidence[r]:.1f} %"
    records = f"{rules.count[r]:,} of {rules.left_count[r]:,} records"
    return escape_invisible(f"{name_rule(rules, r)}: {records} ({shares})")


def _count_candidates(given: Any, engine: Engine, policy: Policy) -> tuple[Rules, BoolArray]:
    """The candidates with the counts of the table, without repetitions, and the matrix of `find_items`."""
    read = read_rules(given, engine.schema().rows, engine.schema().names)
    check_roles(policy, read.items)
    has = find_items(engine, policy, read.items)
    if isinstance(read, Itemsets):
        if read.records != has.shape[1] or (read.count != recount_itemsets(read, has).count).any():
            raise DataError(OTHER_TABLE)
        return recount_rules(_derive_rules(read), has), has
    counted = recount_rules(read, has)
    differs = (read.count != counted.count) | (read.left_count != counted.left_count)
    differs |= (read.right_count != UNKNOWN) & (read.right_count != counted.right_count)
    if differs.any() or read.records != counted.records:
        raise DataError(OTHER_TABLE)
    first = dict(reversed([(sides, r) for r, sides in enumerate(zip(read.left, read.right, strict=True))]))
    return _select(counted, sorted(first.values())), has


def _derive_rules(itemsets: Itemsets) -> Rules:
    """The rules with one item of a set on the right side, and the others on the left side; without counts."""
    ends = zip(itemsets.start[:-1].tolist(), itemsets.start[1:].tolist(), strict=True)
    sets = [tuple(itemsets.members[a:b].tolist()) for a, b in ends]
    sides = [(m[:b] + m[b + 1 :], (m[b],)) for m in sets if len(m) > 1 for b in range(len(m))]
    if not sides:
        raise DataError("no itemset has two items, so there is no rule. Mine larger itemsets.")
    none = np.zeros(len(sides), np.int64)
    left, right = tuple(s[0] for s in sides), tuple(s[1] for s in sides)
    return Rules(itemsets.items, left, right, none, none, none, itemsets.records)


def _select(rules: Rules, chosen: Sequence[int]) -> Rules:
    return replace(
        rules,
        left=tuple(rules.left[r] for r in chosen),
        right=tuple(rules.right[r] for r in chosen),
        count=rules.count[list(chosen)],
        left_count=rules.left_count[list(chosen)],
        right_count=rules.right_count[list(chosen)],
    )


def _rate(rules: Rules, utility: Utility) -> FloatArray:
    """The utility of every rule."""
    if callable(utility):
        found = np.asarray(utility(rules), np.float64)
    else:
        names = [name.strip() for name in str(utility).split("*")]
        for name in names:
            if name not in FIGURES:
                raise PolicyError(
                    f"utility={utility!r} is not known. Write one of these figures, a product such as 'lift*support', or pass "
                    f"a function of the rules; {list_choices(name, FIGURES)}."
                )
        found = np.prod([getattr(rules, name) for name in names], axis=0)
    if found.shape != (len(rules),) or not np.isfinite(found).all():
        raise PolicyError(
            f"the utility must be one finite number for each of the {len(rules):,} rules. Correct the function."
        )
    return found


@dataclass(frozen=True)
class _Failure:
    """Why a rule is withheld, and the size of the group that fails."""

    reason: str
    people: int | None = None


@dataclass
class _Attacker:
    """The spans for an attacker who knows some columns, and the requirements that are tested on them."""

    public: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    split: dict[int, SplitRule]
    spans: GrowingSpans

    def refine(self, r: int, has: BoolArray) -> GrowingSpans:
        """The spans with one more rule."""
        rule = self.split.get(r)
        return self.spans if rule is None else self.spans.refine(rule, rule.find_status(has))

    def judge(self, spans: GrowingSpans, columns: CountedColumns, rule: str) -> _Failure | None:
        """The first requirement that spans fail."""
        tested = np.ones(spans.count, bool) if rule == "all" else ~spans.single
        if columns.person is None:  # sizes alone decide most cases
            size = np.bincount(spans.span, minlength=spans.count)[tested]
            for requirement in self.requirements:
                if len(size) and size.min() < requirement.least:
                    return _fail(requirement, int(size.min()))
            if all(requirement.size_only for requirement in self.requirements):
                return None
        groups = columns.lower(spans.span, spans.count)
        for requirement in self.requirements:
            finding, fails = judge_spans(groups, tested, requirement, self.public)
            if not finding.holds:
                return _fail(requirement, int(groups.size[fails].min()))
        return None


def _fail(requirement: Requirement, people: int) -> _Failure:
    size = format_count(people, "person", "people")
    return _Failure(f"a span of {size} would not meet {describe(requirement)}", people)


@dataclass
class _Search:
    """The kept rules: the spans for every attacker, and the sets whose counts are published."""

    rules: Rules
    has: BoolArray
    columns: CountedColumns
    rule: str
    attackers: list[_Attacker]
    channels: bool
    published: dict[frozenset[int], int] = field(default_factory=dict)
    by_item: dict[int, set[frozenset[int]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rules: Rules, has: BoolArray, columns: CountedColumns, policy: Policy, rule: str, *, channels: bool
    ) -> _Search:
        """The search before the first rule."""
        by_public: dict[tuple[str, ...], list[Requirement]] = {}
        for requirement in policy.require:
            by_public.setdefault(tuple(requirement.on or policy.quasi), []).append(requirement)
        attackers = [
            _Attacker(
                public,
                tuple(listed),
                {split.number: split for split in split_rules(rules, public)},
                GrowingSpans.of(has.shape[1]),
            )
            for public, listed in by_public.items()
        ]
        return cls(rules, has, columns, rule, attackers, channels)

    def add(self, r: int) -> _Failure | None:
        """Keep a rule if all kept rules still meet the requirements; otherwise return the reason."""
        refined = [attacker.refine(r, self.has) for attacker in self.attackers]
        for attacker, spans in zip(self.attackers, refined, strict=True):
            failure = attacker.judge(spans, self.columns, self.rule)
            if failure is not None:
                return failure
        sets = self._list_sets(r)
        failure = self._find_channel(sets) if self.channels else None
        if failure is not None:
            return failure
        for attacker, spans in zip(self.attackers, refined, strict=True):
            attacker.spans = spans
        self.published |= sets
        for own in sets:
            for item in own:
                self.by_item.setdefault(item, set()).add(own)
        return None

    def _list_sets(self, r: int) -> dict[frozenset[int], int]:
        """The sets whose counts a rule publishes."""
        left, right, rules = frozenset(self.rules.left[r]), frozenset(self.rules.right[r]), self.rules
        return {left: int(rules.left_count[r]), left | right: int(rules.count[r])}

    def _find_channel(self, sets: dict[frozenset[int], int]) -> _Failure | None:
        """A group of fewer than k people that follows from the counts of the kept rules and of some more sets.

        A new channel needs the count of a new set. So only the published parts of sets that contain a new set are searched,
        and of sets that differ from a new set by the value of a column.
        """
        every = self.published | sets
        new = [own for own in sets if own not in self.published]
        above = set(new) | {other for own in new for other in self._list_above(own)}
        above |= {other for own in new for other in self._list_siblings(own, every)}
        needed = {part for own in above for part in _list_parts(own, every)}
        if not needed:
            return None
        small = _make_itemsets(self.rules, {own: every[own] for own in sorted(needed, key=sorted)})
        for attacker in self.attackers:
            private = find_private_sets(small, attacker.public)
            for requirement in attacker.requirements:
                if requirement.least > 1:
                    found = find_channels(small, requirement.least, tested=None if self.rule == "all" else private)
                    if len(found):
                        worst = found[int(found.people.argmin())]
                        return _Failure(
                            f"the counts would show a group below k = {requirement.least} ({worst})", worst.people
                        )
        return None

    def _list_above(self, own: frozenset[int]) -> Iterable[frozenset[int]]:
        """The published sets that contain a set."""
        return set.intersection(*(self.by_item.get(item, set()) for item in own))

    def _list_siblings(self, own: frozenset[int], every: dict[frozenset[int], int]) -> Iterable[frozenset[int]]:
        """The published sets with another value of one of the columns."""
        items = self.rules.items
        for item in own:
            for other, named in enumerate(items):
                changed = own - {item} | {other}
                if named.column == items[item].column and other != item and changed in every:
                    yield changed


def _list_parts(own: frozenset[int], every: dict[frozenset[int], int]) -> Iterable[frozenset[int]]:
    """The published parts of a set."""
    if 2 ** len(own) > len(every):
        return [part for part in every if part <= own]
    sizes = range(1, len(own) + 1)
    return [part for n in sizes for part in map(frozenset, combinations(own, n)) if part in every]


def _make_itemsets(rules: Rules, counts: dict[frozenset[int], int]) -> Itemsets:
    return Itemsets(
        rules.items,
        np.cumsum([0, *map(len, counts)]).astype(np.int64),
        np.array([i for own in counts for i in sorted(own)], np.int32),
        np.array(list(counts.values()), np.int64),
        rules.records,
    )
