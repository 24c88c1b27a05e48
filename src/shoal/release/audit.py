"""The audit: a table is counted by its published values alone, and every requirement is tested on its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.encoding.equivalence_classes import read_published_groups, read_published_table
from shoal.engines import Engine, open_data
from shoal.errors import list_some
from shoal.formats.column_pairs import published_names
from shoal.formats.normalize import Normalizer
from shoal.measures import PublishedGroups, SensitiveFigures
from shoal.measures.comparison import count_groups, list_measured_columns
from shoal.policy import Policy
from shoal.release.ledger import Ledger
from shoal.requirements import Certificate, Requirement, certify
from shoal.requirements.groups import Groups

MINIMALITY = (
    "A requirement names a sensitive column: whoever knows the method may learn from the reason why groups were widened "
    "(minimality attack)."
)


@dataclass(frozen=True)
class AuditedTable:
    """A finished table as a stranger sees it: its groups by what stands in it."""

    engine: Engine
    groups: Groups
    labels: Mapping[str, Sequence[str | None]]
    sensitive_figures: SensitiveFigures = field(default_factory=SensitiveFigures)

    @classmethod
    def of(cls, engine: Engine, policy: Policy, *, measured: Policy | None = None) -> AuditedTable:
        """Count a table by a policy; with ``measured`` also the columns that measures look at."""
        policy.check_schema(engine.schema(), check=True)
        if measured is None:
            return cls(engine, *read_published_groups(engine, policy))
        table = read_published_table(engine, policy, extra=list_measured_columns(engine, measured))
        groups, confided = count_groups(table, measured, policy.tested_columns)
        return cls(engine, groups, table.labels, confided)

    def certificate(
        self,
        policy: Policy,
        *,
        suppressed: int = 0,
        drawn: Engine | None = None,
        parts: int = 1,
        earlier: Ledger | None = None,
        fingerprint: str | None = None,
    ) -> Certificate:
        """Test every requirement; ``fingerprint`` is that of the table that leaves, where it is known.

        Where records were drawn anew, ``drawn`` is the table that leaves, and the one counted has in the place of the
        quasi-identifiers the group that each record was drawn from. With the ledger of ``earlier`` releases, the groups are
        those of all tables together.
        """
        leaving = drawn or self.engine
        columns = leaving.schema().names
        fingerprint = fingerprint or leaving.fingerprint()
        groups, labels = self.groups, self.labels
        notes = _unlike_spellings(policy, columns, self.labels, earlier)
        if earlier is not None:
            union = earlier.union(Ledger.of(groups, labels, fingerprint))
            groups, labels = union.groups, union.labels
        found = certify(
            groups,
            on_published_columns(policy.require, groups.names),
            fingerprint=fingerprint,
            label=lambda column, code: labels[column][code],
            suppressed=suppressed,
            identifiers=tuple(n for n in columns if n in policy.identifiers or n == policy.key),
            unassigned=policy.find_unassigned(columns),
            evidence="union" if earlier is not None else "table" if drawn is None else "groups",
            parts=parts,
            notes=(*notes, *((MINIMALITY,) if _names_sensitive(policy) else ())),
        )
        return replace(found, records=self.groups.records)

    def for_measures(self, suppressed: int) -> PublishedGroups:
        """What the measures look at."""
        return PublishedGroups(self.groups, suppressed, self.sensitive_figures)


def audit_table(data: Any, policy: Policy) -> Certificate:
    """Test a table against a policy by what stands in it, whoever made it."""
    return AuditedTable.of(open_data(data), policy).certificate(policy)


def _names_sensitive(policy: Policy) -> bool:
    """Whether a requirement looks at values that the table publishes as they are."""
    return any(r.of is not None and (r.of in policy.sensitive or r.of == policy.target) for r in policy.require)


def _unlike_spellings(
    policy: Policy, columns: Sequence[str], labels: Mapping[str, Sequence[str | None]], earlier: Ledger | None
) -> tuple[str, ...]:
    """A warning for each column whose requirements count several spellings of a value as different values.

    A value that a requirement names and the table has in another spelling alone is such a case too. Only values of this
    table and of the policy are quoted, none of ``earlier`` tables.
    """
    notes = []
    for column in policy.tested_columns:
        if column in policy.normalize or column not in columns or column not in policy.countable:
            continue
        before = () if earlier is None else earlier.groups.labels[earlier.groups.sensitive.index(column)]
        named = [v for r in policy.require if r.of == column for v in getattr(r, "values", None) or ()]
        if said := _agreeing(policy.normalizer, labels[column], named, before):
            notes.append(
                f"Requirements count values of {column!r} as different that agree after normalization (trimming, Unicode NFKC, "
                f"case folding, number text, words for missing): {said}. Add 'normalize: [{column}]' to the policy to count "
                "them as one."
            )
    return tuple(notes)


def _agreeing(
    normal: Normalizer, labels: Sequence[str | None], named: Sequence[str], before: Sequence[str | None]
) -> str:
    """The pairs of values that agree after normalization, in words."""
    first: dict[str, str] = {}
    pairs = []
    for text in (label or "" for label in labels):
        other = first.setdefault(normal(text), text)
        if other != text:
            pairs.append((other, text))
    for text in named:
        other = first.get(normal(text), text)
        if other not in named:
            pairs.append((other, text))
    if pairs:
        return list_some(dict.fromkeys(pairs))
    unlike = any(first.get(normal(text), text) != text for text in (label or "" for label in before))
    return "values of this table and of earlier releases" if unlike else ""


def on_published_columns(requirements: Sequence[Requirement], names: Sequence[str]) -> list[Any]:
    """The same requirements on published columns: one on `age` looks at `age_lo` and `age_hi` where a table has these."""
    found: list[Any] = []
    for requirement in requirements:
        if requirement.on is not None:
            on = [
                read_published_table for name in requirement.on for read_published_table in published_names(name, names)
            ]
            requirement = replace(requirement, on=tuple(on))  # type: ignore[type-var]
        found.append(requirement)
    return found
