"""The audit: count the groups of a table by its published values alone, and test every requirement on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.encoding.codes import EncodedUnit
from shoal.encoding.published_table import read_published_table
from shoal.engines import Engine, open_data
from shoal.engines.keyed_hash import KeyedHash, is_pseudonym
from shoal.errors import DataError, PolicyError, list_some
from shoal.formats.bucket_columns import BUCKET
from shoal.formats.column_pairs import published_names
from shoal.formats.normalize import Normalizer
from shoal.measures import PublishedGroups, SensitiveFigures
from shoal.measures.comparison import count_groups, list_measured_columns
from shoal.policy import Policy
from shoal.release.ledger import Ledger, describe_unit
from shoal.requirements import BaseRequirement, Certificate, Evidence, Finding, Requirement, certify, describe
from shoal.requirements.groups import Groups
from shoal.requirements.histories import group_by_history

MINIMALITY = (
    "A requirement names a sensitive column: an attacker who knows the method may infer sensitive values from the fact that "
    "groups were generalized (minimality attack)."
)


@dataclass(frozen=True)
class AuditedTable:
    """A table as published, with its groups by published values.

    ``unit`` has the texts of the unit column by their number in ``groups.person``, and ``key`` the key to hash them.
    """

    engine: Engine
    groups: Groups
    labels: Mapping[str, Sequence[str | None]]
    sensitive_figures: SensitiveFigures = field(default_factory=SensitiveFigures)
    unit: EncodedUnit | None = field(default=None, repr=False)
    key: KeyedHash | None = None

    @classmethod
    def of(
        cls,
        engine: Engine,
        policy: Policy,
        *,
        measures_policy: Policy | None = None,
        key: KeyedHash | None = None,
    ) -> AuditedTable:
        """Count the groups of a table by a policy; with ``measures_policy`` also the columns that the measures need.

        ``key`` is needed to recognize people in later releases.
        """
        policy.check_schema(engine.schema(), check=True, requires=False)
        extra = () if measures_policy is None else list_measured_columns(engine, measures_policy)
        table = read_published_table(engine, policy, extra=extra)
        if measures_policy is None:
            groups, sensitive_figures = table.groups(policy.tested_columns), SensitiveFigures()
        else:
            groups, sensitive_figures = count_groups(table, measures_policy, policy.tested_columns)
        return cls(engine, groups, table.labels, sensitive_figures, table.unit, key)

    def ledger(self, policy: Policy, fingerprint: str) -> Ledger:
        """The ledger of this table, with the texts by which people are recognized in later releases."""
        ledger = Ledger.of(self.groups, self.labels, fingerprint, normalized=policy.normalize)
        if self.unit is None or self.key is None:
            return ledger
        people = name_people(self.unit, policy, self.key, published=True)
        return replace(ledger, people=people, unit=describe_unit(policy))

    def certificate(
        self,
        policy: Policy,
        *,
        suppressed: int = 0,
        released: Engine | None = None,
        evidence: Evidence = "table",
        partitions: int = 1,
        prior: Ledger | None = None,
        fingerprint: str | None = None,
        findings: tuple[Finding, ...] | None = None,
    ) -> Certificate:
        """Test every requirement and return the certificate.

        Parameters
        ----------
        policy : the policy with the requirements
        suppressed : the number of suppressed records
        released : the released table, if it is not the audited table
        evidence : ``groups`` if the audited table has group numbers instead of the quasi-identifiers of the released table
        partitions : the number of partitions that were searched
        prior : the ledger of earlier releases; the groups of all releases are tested together
        fingerprint : the fingerprint of the released table, if it is already computed
        findings : the results of requirements on a randomizing operator
        """
        released = released or self.engine
        columns = released.schema().names
        fingerprint = fingerprint or released.fingerprint()
        groups, labels = self.groups, self.labels
        notes = (
            *_note_spellings(policy, columns, self.labels, prior),
            *note_unknown_people(self._count_unknown_people(), policy),
            *_note_requirements(policy, self.labels),
        )
        if prior is not None:
            union = prior.union(self.ledger(policy, fingerprint))
            groups, labels = union.groups, union.labels
        certificate = certify(
            groups,
            map_to_published_columns(policy.require, groups.names),
            fingerprint=fingerprint,
            label=lambda column, code: labels[column][code],
            suppressed=suppressed,
            identifiers=tuple(n for n in columns if n in (*policy.hidden_columns, *self._raw_pseudonyms(policy))),
            unassigned=policy.find_unassigned(columns),
            evidence=evidence if prior is None else "union",
            parts=partitions,
            notes=(*notes, *((MINIMALITY,) if _names_sensitive(policy) else ())),
            findings=findings,
            histories=policy.knows_history,
        )
        return replace(certificate, records=self.groups.records, people=self.groups.people)

    def _count_unknown_people(self) -> int:
        """The number of records without a person, where people are counted."""
        person = self.groups.person
        return 0 if person is None else int(self.groups.cell_size[person < 0].sum())

    def _raw_pseudonyms(self, policy: Policy) -> tuple[str, ...]:
        """The column of pseudonyms, if it has values that are no pseudonyms of Shoal."""
        column = policy.pseudonym_column
        if column is None or self.unit is None or all(map(is_pseudonym, self.unit.texts)):
            return ()
        return (column,)

    def for_measures(self, suppressed: int, policy: Policy) -> PublishedGroups:
        """The input of the measures."""
        histories = policy.knows_history and self.groups.person is not None
        by_history = group_by_history(self.groups, None)[0] if histories else None
        return PublishedGroups(self.groups, suppressed, self.sensitive_figures, by_history=by_history)


def audit_table(data: Any, policy: Policy, *, records: bool = False) -> Certificate:
    """Test the published values of a table against a policy, whichever program made the table.

    If the table does not have the unit of the policy, records are counted. That decides nothing, unless ``records`` accepts
    it.
    """
    for requirement in policy.require:
        if requirement.tested_on == "operator":
            raise PolicyError(
                f"{describe(requirement)} cannot be tested on a table: it is a requirement on the probabilities of a "
                "randomizing method. Remove it from the policy of the check."
            )
    engine = open_data(data, policy.with_conventions())
    names = engine.schema().names
    absent = [column for column in policy.tested_columns if column not in names]
    if absent and BUCKET in names:
        raise DataError(
            f"column {absent[0]!r} is not in the table, but {BUCKET!r} is. If the table is a release in buckets, also give its "
            "table of sensitive values: sensitive=, --sensitive."
        )
    policy.check_schema(engine.schema(), check=True)
    audited = AuditedTable.of(engine, policy)
    counts_people = audited.groups.person is not None
    certificate = audited.certificate(policy)
    certificate = replace(certificate, notes=(*certificate.notes, *engine.detected.notes))
    if policy.unit_column is None or counts_people:
        return certificate
    return replace(certificate, holds=certificate.holds and records, uncounted_unit=policy.unit_column)


def name_people(unit: EncodedUnit, policy: Policy, key: KeyedHash, *, published: bool) -> tuple[str, ...]:
    """The texts by which a ledger recognizes people; ``published``: the unit column already has the pseudonyms, if any."""
    if policy.pseudonym_column is not None:
        return unit.texts if published else tuple(unit.make_pseudonyms(key))
    return tuple(f"{number:016x}" for number in unit.hash_people(key).tolist())


def _names_sensitive(policy: Policy) -> bool:
    """Whether a requirement names a sensitive column or the target, which are published unchanged."""
    return any(r.of is not None and (r.of in policy.sensitive or r.of == policy.target) for r in policy.require)


def _note_requirements(policy: Policy, labels: Mapping[str, Sequence[str | None]]) -> tuple[str, ...]:
    """The notes of the requirements on their sensitive columns."""
    found = [
        note
        for requirement in policy.require
        if isinstance(requirement, BaseRequirement) and requirement.of in labels
        for note in requirement.notes(labels[str(requirement.of)])
    ]
    return tuple(dict.fromkeys(found))


def note_unknown_people(records: int, policy: Policy) -> tuple[str, ...]:
    """A note if so many records have no value of the unit."""
    if not records:
        return ()
    many = "1 record has" if records == 1 else f"{records:,} records have"
    return (f"{many} no value of the unit {policy.unit_column!r}. Each of them counts as a person of its own.",)


def _note_spellings(
    policy: Policy, columns: Sequence[str], labels: Mapping[str, Sequence[str | None]], prior: Ledger | None
) -> tuple[str, ...]:
    """A note for each column whose requirements count different spellings of a value as different values.

    This includes a value that a requirement names and that the table has only in another spelling. Notes quote values of
    this table and of the policy, never values of ``prior`` releases.
    """
    notes = []
    for column in policy.tested_columns:
        if column in policy.normalize or column not in columns or column not in policy.countable_columns:
            continue
        before = () if prior is None else prior.groups.labels[prior.groups.sensitive.index(column)]
        named = [v for r in policy.require if r.of == column for v in getattr(r, "values", None) or ()]
        if spellings := _list_spellings(policy.normalizer, labels[column], named, before):
            notes.append(
                f"Requirements count different spellings in {column!r} as different values: {spellings}. The spellings are "
                "equal after normalization (trimming, Unicode NFKC, case folding, number text, words for missing). To count "
                f"them as one value, add 'normalize: [{column}]' to the policy."
            )
    return tuple(notes)


def _list_spellings(
    normal: Normalizer, labels: Sequence[str | None], named: Sequence[str], before: Sequence[str | None]
) -> str:
    """The pairs of values that are equal after normalization, as text; empty if there are none."""
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


def map_to_published_columns(requirements: Sequence[Requirement], names: Sequence[str]) -> list[Any]:
    """The requirements with their columns as published: `age` becomes `age_lo` and `age_hi` if the table has these."""
    found: list[Any] = []
    for requirement in requirements:
        if requirement.on is not None:
            on = [published for name in requirement.on for published in published_names(name, names)]
            requirement = replace(requirement, on=tuple(on))  # type: ignore[type-var]
        found.append(requirement)
    return found
