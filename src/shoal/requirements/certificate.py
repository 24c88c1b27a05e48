"""Testing finished groups: the certificate, and the records to leave out so that one can be given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Literal

import numpy as np

from shoal.arrays import BoolArray
from shoal.errors import escape_invisible
from shoal.requirements.groups import Groups
from shoal.requirements.requirement import Requirement, describe, parameters


@dataclass(frozen=True)
class Finding:
    """How one requirement fares: over all groups, and in the worst of them.

    ``reached`` is the worst group's value (for k-anonymity its size, so the k that the table has); ``worst`` its
    published values, where the table shows its groups.
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


Evidence = Literal["table", "groups", "union"]
DRAWN = "records were drawn anew from groups that meet this; the table alone does not show it"
PARTS = "the table was searched in {} parts, one after another; each of them meets this on its own"
UNION = "the table was counted together with what was released before; alone it may hold smaller groups"


@dataclass(frozen=True)
class Certificate:
    """The requirements as re-tested on a table, by what the table alone shows.

    Where records were drawn anew, ``evidence`` is ``groups``: counted are the groups that they were drawn from, which only
    the owner can tell; all rows of the table itself may differ. Where later records were released, it is ``union``: counted
    are the groups of this table together with those of all tables before it; ``records`` are those of this one.

    Rule of counting: a missing value is a value of its own, so records that lack a quasi-identifier form groups of their
    own and are counted; suppressed records are not in the table. ``parts``: where the table was too large for one search,
    into how many parts it was cut first; every part meets the requirements, and what is certified is the whole.

    ``holds`` is the verdict on the requirements. ``identifiers`` are the columns of the table that the policy calls
    identifiers or key: no requirement protects these, so a table that has any is not ``publishable``. ``unassigned`` are
    the columns of the table that the policy gives no role, so nothing was tested about them. ``notes`` are warnings, a
    sentence each, such as one about several spellings of a value that are counted as different values.
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

    @property
    def publishable(self) -> bool:
        """Whether every requirement holds and the table has no identifiers."""
        return self.holds and not self.identifiers

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        if not self.holds:
            return "does not hold"
        return "holds" if self.publishable else "holds for the quasi-identifiers, but identifiers are present"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know beside the verdict: identifiers, columns without a role, and the notes."""
        columns = {
            "the table still holds identifiers, which no requirement hides": self.identifiers,
            "the table holds columns without a role in the policy, about which nothing was tested": self.unassigned,
        }
        return (*(f"{text}: {', '.join(names)}" for text, names in columns.items() if names), *self.notes)

    def __post_init__(self) -> None:
        """A negative count is a fault of the program, and nothing may be released with it."""
        for name in ("records", "groups", "smallest", "suppressed"):
            if getattr(self, name) < 0:
                raise RuntimeError(f"the certificate counts {getattr(self, name)} {name}; nothing was released")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        findings = [asdict(f) for f in self.findings]
        for finding in findings:
            finding["reached"] = finding["reached"] if isfinite(finding["reached"]) else None  # JSON has no infinity
        return {"holds": self.holds, "publishable": self.publishable, **asdict(self), "findings": findings}

    def to_json(self) -> str:
        """The certificate as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        among = " with what was released before" if self.evidence == "union" else ""
        verdict = self.verdict if self.holds else self.verdict.upper()
        lines = [f"{verdict}: {self.records} records in {self.groups} groups{among}"]
        for f in self.findings:
            failing = "" if f.holds else f"; {f.failing_groups} groups with {f.failing_records} records fail"
            lines.append(f"  {'ok  ' if f.holds else 'FAIL'} {f.text}: worst group reaches {f.reached:g}{failing}")
        if self.evidence == "groups":
            lines.append(f"  note {DRAWN}")
        if self.evidence == "union":
            lines.append(f"  note {UNION}")
        if self.parts > 1:
            lines.append(f"  note {PARTS.format(self.parts)}")
        lines += [f"  note {remark}" for remark in self.remarks]
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
) -> Certificate:
    """Test groups against every requirement, each on its own set of attributes."""
    findings = tuple(_finding(groups, requirement, label) for requirement in requirements)
    if evidence != "table":  # what is known of a single group is not published, nor what another table holds
        findings = tuple(replace(f, worst={}) for f in findings)
    size = groups.size
    return Certificate(
        all(f.holds for f in findings),
        groups.records,
        len(size),
        int(size.min(initial=np.iinfo(np.int64).max)) if len(size) else 0,
        findings,
        fingerprint,
        suppressed,
        identifiers,
        evidence,
        parts,
        unassigned,
        notes,
    )


def _finding(groups: Groups, requirement: Requirement, label: Callable[[str, int], str | None]) -> Finding:
    merged, _ = groups.project(requirement.on)
    verdict = requirement.test(merged)
    size = merged.size
    worst = {n: label(n, int(merged.quasi[verdict.worst, j])) for j, n in enumerate(merged.names)} if len(size) else {}
    return Finding(
        requirement.name,
        parameters(requirement, public=True),
        describe(requirement),
        list(merged.names),
        bool(verdict.ok.all()),
        verdict.reached,
        len(size),
        int((~verdict.ok).sum()),
        int(size[~verdict.ok].sum()),
        worst,
        int(size[verdict.worst]) if len(size) else 0,
    )


def select_passing_groups(groups: Groups, requirements: Iterable[Requirement]) -> BoolArray:
    """Which groups may stay, once those that fail are left out, and those that fail for want of these, and so on.

    Leaving out records shrinks the groups of other attribute sets and shifts the distribution of the whole table, so the
    test is repeated until nothing changes. The result is a fixed point: what stays meets every requirement.
    """
    listed = list(requirements)
    kept = np.ones(len(groups.start) - 1, bool)
    changed = True
    while changed and kept.any():
        changed = False
        for requirement in listed:
            left = groups.keep(kept)
            merged, place = left.project(requirement.on)
            ok = requirement.test(merged).ok
            if not ok.all():
                kept[np.flatnonzero(kept)[~ok[place]]] = False
                changed = True
    return kept
