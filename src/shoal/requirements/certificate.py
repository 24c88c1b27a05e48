"""Certificates: the test of finished groups, and the selection of groups that pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Literal, cast

import numpy as np

from shoal.arrays import BoolArray
from shoal.errors import escape_invisible
from shoal.formats.html_text import escape_markup, render_list, render_table, render_view
from shoal.formats.numbers import format_count
from shoal.requirements.groups import Groups
from shoal.requirements.histories import group_by_history
from shoal.requirements.operator import Distributions, Operator, OperatorRequirement
from shoal.requirements.requirement import (
    Requirement,
    Verdict,
    collect_parameters,
    describe,
    format_reached,
    format_worst,
)


@dataclass(frozen=True)
class Finding:
    """The result of one requirement: for all groups, and for the worst group.

    ``reached`` is the value of the worst group (for k-anonymity its number of records: the k of the table). ``worst`` holds
    the published values of this group, if the table shows its groups. ``reached_text`` is ``reached`` with its unit, and
    ``worst_text`` a clause about the worst group; both are for readers and not part of ``certificate.json``.
    """

    requirement: str
    parameters: dict[str, Any]
    text: str
    on: list[str]
    holds: bool
    reached: float
    groups: int
    failing_groups: int
    failing_records: int
    worst: dict[str, str | None]
    worst_size: int
    reached_text: str = ""
    worst_text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain values, for JSON."""
        found = asdict(self)
        del found["reached_text"], found["worst_text"]
        return found | {"reached": self.reached if isfinite(self.reached) else None}  # JSON has no infinity

    @property
    def result(self) -> str:
        """The value of the worst group, and the number of groups and records that fail."""
        if self.holds:
            return self.worst_text
        if not self.failing_records:  # attributes or combinations of an operator
            return f"{self.worst_text}; {self.failing_groups:,} of {self.groups:,} fail"
        groups, records = format_count(self.failing_groups, "group"), format_count(self.failing_records, "record")
        return f"{self.worst_text}; {groups} with {records} fail{'s' * (self.failing_groups == 1)}"


Evidence = Literal["table", "people", "groups", "buckets", "union", "operator", "model", "supports"]
EVIDENCE_NOTES: dict[Evidence, str] = {
    "people": "the requirements count different people; without a pseudonym, the table does not show which records belong to "
    "the same person",
    "groups": "the records are synthetic; they were generated from groups that meet the requirements, but the table does not "
    "show these groups",
    "buckets": "the quasi-identifiers are published unchanged; a group is a bucket, whose sensitive values are published apart "
    "from the records",
    "operator": "the records were changed at random; the requirements hold for the probabilities of the changes, which the "
    "table does not show",
    "model": "a group is a span of the model: the people who may fall in the same cells of the model, given what is "
    "public about them",
    "supports": "a group is a number of people that follows from the published supports by sums and differences",
    "union": "the table was counted together with the earlier releases; the table alone may hold smaller groups",
}
UNCOUNTED = "people cannot be counted: column {} is not in the table; records were counted instead"
PARTITIONS_NOTE = (
    "the table was searched in {} partitions, one after another; each partition meets the requirements on its own"
)


MOST_NAMED = 5  # requirements in the representation of a certificate


@dataclass(frozen=True, repr=False)
class Certificate:
    """The requirements as tested on a finished table, from its published values alone.

    ``evidence`` is ``table`` in this case. For synthetic records it is ``groups``: the groups that the records were generated
    from are counted. Only the owner knows these groups; all rows of the table itself may differ. For bucketed records it is
    ``buckets``: the sensitive values of every bucket are counted. For a release of new records
    it is ``union``: the groups of this table and of all earlier tables are counted together; ``records`` is the number
    of records of this table. For randomized records it is ``operator``: the probabilities by which values were changed were
    tested, and the findings count attributes or published combinations instead of groups. ``probabilistic_anonymity`` is the
    exponential of the mean entropy of the random choices for a record: an average, and no bound.

    Where the policy has a unit, requirements count different people, and the evidence is ``people``: the rows of the table
    were counted together with the person of each, which the table does not show. ``people`` is the number of people in the
    table, ``smallest_people`` the number of people of the group with the fewest. ``smallest_history`` is the smallest number
    of people with equal histories, if the attacker knows histories. A history is the multiset of the published labels of a
    person's records. ``people_with_suppressed`` and ``people_suppressed`` are the people with some, and with all, of their
    records suppressed. ``uncounted_unit`` is the unit of the policy if the table does not have this column: records were
    counted instead, which cannot show that the requirements hold.

    Counting: a missing value is a value of its own, so records without a value of a quasi-identifier form their own groups
    and are counted. Suppressed records are not in the table. ``parts`` is the number of partitions of a table that was too
    large for one search. Every partition meets the requirements; the certificate is about the whole table.

    ``holds`` is the verdict on the requirements. ``identifiers`` are the columns of the table that the policy lists as
    identifiers or key: no requirement protects them, so a table with such a column is not ``publishable``. ``unassigned`` are
    the columns of the table without a role in the policy, so they were not tested. ``notes`` are warnings of one sentence
    each, for example about several spellings of a value that are counted as different values.
    """

    holds: bool
    records: int
    groups: int
    smallest: int
    findings: tuple[Finding, ...]
    fingerprint: str
    suppressed: int = 0
    identifiers: tuple[str, ...] = ()
    evidence: Evidence = "table"
    parts: int = 1
    unassigned: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    people: int | None = None
    smallest_people: int | None = None
    people_with_suppressed: int | None = None
    people_suppressed: int | None = None
    uncounted_unit: str | None = None
    smallest_history: int | None = None
    probabilistic_anonymity: float | None = None

    @property
    def publishable(self) -> bool:
        """Whether every requirement holds and the table has no identifiers."""
        return self.holds and not self.identifiers

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        if self.uncounted_unit is not None and not self.holds and all(f.holds for f in self.findings):
            return "cannot be decided"
        if not self.holds:
            return "does not hold"
        return "holds" if self.publishable else "holds for the quasi-identifiers, but identifiers are present"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings: identifiers in the table, columns without a role, and the notes."""
        columns = {
            "the table holds identifiers, which no requirement protects": self.identifiers,
            "the table holds columns without a role in the policy, which were not tested": self.unassigned,
        }
        uncounted = () if self.uncounted_unit is None else (UNCOUNTED.format(self.uncounted_unit),)
        return (*uncounted, *(f"{text}: {', '.join(names)}" for text, names in columns.items() if names), *self.notes)

    def __post_init__(self) -> None:
        """Refuse negative counts: they are a bug, and nothing may be released."""
        for name in ("records", "groups", "smallest", "suppressed"):
            if getattr(self, name) < 0:
                raise RuntimeError(
                    f"The certificate counts {getattr(self, name)} {name}. This is a bug; nothing was released."
                )

    @property
    def counts(self) -> str:
        """The number of records, of people if they are counted, and of groups, as text."""
        people = "" if self.people is None else f" of {format_count(self.people, 'person', 'people')}"
        group = "bucket" if self.evidence == "buckets" else "group"
        return f"{format_count(self.records, 'record')}{people} in {format_count(self.groups, group)}"

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain values, for JSON; without figures about people where none are counted."""
        found = {name: value for name, value in asdict(self).items() if value is not None}
        findings = [f.to_dict() for f in self.findings]
        return {"holds": self.holds, "publishable": self.publishable, **found, "findings": findings}

    def to_json(self) -> str:
        """The certificate as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __repr__(self) -> str:
        requirements = ", ".join(f.text for f in self.findings[:MOST_NAMED])
        more = f" and {len(self.findings) - MOST_NAMED} more" if len(self.findings) > MOST_NAMED else ""
        return escape_invisible(
            f"Certificate({self.verdict}: {self.counts}{requirements and ', '}{requirements}{more})"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("records", f"{self.records:,}"),
            ("groups", f"{self.groups:,}"),
            ("suppressed", f"{self.suppressed:,}"),
        ]
        people = [] if self.people is None else [("people", f"{self.people:,}")]
        return render_view(
            f"Certificate: {self.verdict}",
            render_table("size", ("count", "value"), [*rows, *people]),
            self.requirements_html(),
            render_list(self.all_notes),
            f'<p style="margin:0">fingerprint <code>{escape_markup(self.fingerprint)}</code></p>',
        )

    def requirements_html(self) -> str:
        """The results of the requirements as an HTML table."""
        rows = [
            (f.text, "holds" if f.holds else "does not hold", f.reached_text, f"{f.failing_records:,}")
            for f in self.findings
        ]
        head = ("requirement", "result", "worst group reaches", "failing records")
        return render_table("requirements", head, rows)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The remarks, with notes on the evidence and on partitions."""
        evidence = (EVIDENCE_NOTES[self.evidence],) if self.evidence in EVIDENCE_NOTES else ()
        partitions = (PARTITIONS_NOTE.format(self.parts),) if self.parts > 1 else ()
        return (*evidence, *partitions, *self.remarks)

    def __str__(self) -> str:
        union = " together with the earlier releases" if self.evidence == "union" else ""
        verdict = self.verdict if self.holds else self.verdict.upper()
        lines = [f"{verdict}: {self.counts}{union}"]
        lines += [f"  {'ok  ' if f.holds else 'FAIL'} {f.text}: {f.result}" for f in self.findings]
        lines += [f"  note {note}" for note in self.all_notes]
        return "\n".join(map(escape_invisible, lines))


def certify(
    groups: Groups,
    requirements: Iterable[Requirement],
    *,
    fingerprint: str,
    label: Callable[[str, int], str | None],
    suppressed: int = 0,
    identifiers: tuple[str, ...] = (),
    evidence: Evidence = "table",
    parts: int = 1,
    unassigned: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    findings: tuple[Finding, ...] | None = None,
    histories: bool = False,
) -> Certificate:
    """Test groups against every requirement, each on its own set of attributes.

    ``findings`` are the results of requirements that were not tested on groups. With ``histories`` every requirement is also
    tested on the groups of people with equal histories.
    """
    every, smallest_history = list(requirements), None
    if findings is None:
        findings = tuple(_test_requirement(groups, requirement, label) for requirement in every)
    if histories and groups.person is not None:
        findings += tuple(_test_histories(groups, requirement) for requirement in every)
        smallest_history = int(group_by_history(groups, None)[0].size.min(initial=np.iinfo(np.int64).max))
    if evidence != "table":  # publish no values of a single group that the table does not show
        findings = tuple(replace(f, worst={}) for f in findings)
    size = groups.records_of_groups
    return Certificate(
        all(f.holds for f in findings),
        groups.records,
        len(size),
        int(size.min()) if len(size) else 0,
        findings,
        fingerprint,
        suppressed,
        identifiers,
        evidence,
        parts,
        unassigned,
        notes,
        groups.people,
        int(groups.size.min(initial=np.iinfo(np.int64).max)) if groups.people else None,
        smallest_history=smallest_history,
    )


def _test_requirement(groups: Groups, requirement: Requirement, label: Callable[[str, int], str | None]) -> Finding:
    return _describe_verdict(groups.project(requirement.on)[0], requirement, label, describe(requirement))


def judge_spans(
    groups: Groups, tested: BoolArray, requirement: Requirement, known: Sequence[str]
) -> tuple[Finding, BoolArray]:
    """Test a requirement on the spans of a model, as groups; ``tested`` marks the spans that must meet the requirement.

    ``known`` are the columns that the attacker knows. Also return for every span whether it fails.

    All spans are needed for the distribution of the whole table, with which some requirements compare.
    """
    chosen = groups.keep(tested)
    verdict = requirement.test(groups if requirement.relative else chosen)
    if requirement.relative and not tested.all():
        value = verdict.value[tested]
        is_largest = verdict.value[verdict.worst] == verdict.value.max(initial=-np.inf)
        worst = int(value.argmax() if is_largest else value.argmin()) if len(value) else 0
        verdict = Verdict(verdict.ok[tested], value, worst)
    fails = np.zeros(len(tested), bool)
    fails[tested] = ~verdict.ok
    finding = _describe_verdict(chosen, requirement, lambda *_: None, describe(requirement), verdict)
    return replace(finding, on=list(known), worst={}), fails


def _test_histories(groups: Groups, requirement: Requirement) -> Finding:
    """Test a requirement on the groups of people with equal histories."""
    by_history, _ = group_by_history(groups, requirement.on)
    return _describe_verdict(by_history, requirement, lambda *_: None, f"{describe(requirement)}, by histories")


def _describe_verdict(
    merged: Groups,
    requirement: Requirement,
    label: Callable[[str, int], str | None],
    text: str,
    verdict: Verdict | None = None,
) -> Finding:
    verdict = requirement.test(merged) if verdict is None else verdict
    size = merged.size
    worst = {n: label(n, int(merged.quasi[verdict.worst, j])) for j, n in enumerate(merged.names)} if len(size) else {}
    return Finding(
        requirement.name,
        collect_parameters(requirement, public=True),
        text,
        list(merged.names),
        bool(verdict.ok.all()),
        verdict.reached,
        len(size),
        int((~verdict.ok).sum()),
        int(merged.records_of_groups[~verdict.ok].sum()),
        worst,
        int(merged.records_of_groups[verdict.worst]) if len(size) else 0,
        format_reached(requirement, verdict.reached, merged) if len(size) else "no group",
        format_worst(requirement, verdict.reached, merged) if len(size) else "no group needs to meet it",
    )


def judge_operator(
    operator: Operator, distributions: Distributions, requirements: Iterable[OperatorRequirement]
) -> tuple[Finding, ...]:
    """Test a randomizing operator against every requirement; the findings count attributes instead of groups."""
    findings = []
    for requirement in requirements:
        verdict = requirement.test(operator, distributions)
        failing = int((~verdict.ok).sum())
        findings.append(
            Finding(
                requirement.name,
                collect_parameters(cast("Requirement", requirement), public=True),
                describe(cast("Requirement", requirement)),
                list(operator.attributes),
                failing == 0,
                verdict.reached,
                len(verdict.ok),
                failing,
                0,
                {},
                0,
                requirement.format_value(verdict.reached),
                requirement.format_worst(verdict.reached),
            )
        )
    return tuple(findings)


def select_passing_groups(groups: Groups, requirements: Iterable[Requirement]) -> BoolArray:
    """Return for each group whether it is kept when all failing groups are suppressed.

    Suppression shrinks the groups of other attribute sets and changes the distribution of the whole table, so the test is
    repeated until no group fails. The kept groups meet every requirement.
    """
    every = list(requirements)
    kept = np.ones(len(groups.start) - 1, bool)
    changed = True
    while changed and kept.any():
        changed = False
        for requirement in every:
            merged, merged_group = groups.keep(kept).project(requirement.on)
            ok = requirement.test(merged).ok
            if not ok.all():
                kept[np.flatnonzero(kept)[~ok[merged_group]]] = False
                changed = True
    return kept
