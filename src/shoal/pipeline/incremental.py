"""Incremental releases: new records get the recoding of an earlier release and are tested together with all earlier releases.

Released records cannot be withdrawn, so only new records can be suppressed. New records of a group are suppressed if the group
of earlier and new records fails a requirement. Suppression can make other groups fail, so the test is repeated until no group
with new records fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shoal.arrays import BoolArray, Int32Array
from shoal.encoding.codes import Codes, EncodedColumn, EncodedUnit, encode_column, encode_unit, separate_people
from shoal.engines import Counts, Dictionary, Engine, GroupColumn, HiddenColumn, KeyedOrder, Plan, Resources, open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import DataError, PolicyError, RequirementNotMet
from shoal.formats.numbers import format_count, format_number, parse_number
from shoal.measures import compute_measures
from shoal.pipeline.people import SuppressedPeople
from shoal.pipeline.publication import RecodedTable, add_pseudonyms, list_hidden_columns
from shoal.policy import Policy
from shoal.progress import Progress, ignore_progress, report_rows
from shoal.recoding import (
    Columns,
    EncodedLaterData,
    LaterData,
    Placement,
    Recoding,
    encode_later_data,
    read_recoding,
    refuse_other_policy,
)
from shoal.release import AuditedTable, Release, TableArtifact, map_to_published_columns
from shoal.release.audit import name_people
from shoal.release.ledger import Labels, Ledger
from shoal.requirements import Requirement, certify, describe
from shoal.requirements.groups import Groups, stack_columns
from shoal.secret import LEDGER, load_seed, new_seed

UNTRUE = "{} labels that are not true: no box of the recoding contains {}, so the labels of the nearest box were used."


@dataclass(frozen=True)
class PriorReleases:
    """The files of an owner folder: policy, recoding, the ledger of all releases so far, and the secret seed."""

    policy: Policy
    recoding: Recoding
    ledger: Ledger
    seed: int

    @property
    def key(self) -> KeyedHash:
        """The key by which people are recognized."""
        return KeyedHash.of(self.seed)

    @classmethod
    def load(cls, path: Path, policy: Policy | None) -> PriorReleases:
        """Read an owner folder, by its path or by the path of its recoding; ``policy`` replaces the policy in the folder."""
        path = path / "recoding.json" if path.is_dir() else path
        recoding = read_recoding(path)
        if not recoding.accepts_later_data:
            recoding.apply(path)  # raises the error
        policy = policy or Policy.load(path.with_name("policy.yaml"))
        refuse_other_policy(policy, recoding)
        folder = path.parent  # the seed recognizes people; without a unit any seed gives the same release
        seed = load_seed(folder) if (folder / LEDGER).is_file() or policy.unit is not None else new_seed()
        return cls(policy, recoding, Ledger.load(path).check_policy(policy), seed)


@dataclass(frozen=True)
class NewPartition:
    """A partition of the new records: cells, the group of each combination (-1: suppressed), the columns of the groups.

    ``lost`` counts the records that the recoding suppresses, by reason. ``outside`` marks combinations that no box contains.
    ``person`` is the person of every cell, if the policy has a unit.
    """

    counts: Counts
    group: Int32Array
    columns: Columns
    lost: dict[str, int]
    outside: BoolArray
    person: Int32Array | None = None

    @property
    def untrue_labels(self) -> int:
        """The number of records with the labels of the nearest box, because no box contains them."""
        wrong = np.repeat(self.outside & (self.group >= 0), np.diff(self.counts.start))
        return int(self.counts.size[wrong].sum())

    def ledger(self, sensitive: Sequence[EncodedColumn], prior: Ledger, people: tuple[str, ...]) -> Ledger:
        """The groups of these records by their published values; ``people`` has the texts by which people are recognized."""
        group = np.repeat(self.group, np.diff(self.counts.start))
        order = np.argsort(group, kind="stable")
        order = order[group[order] >= 0]
        present, start = np.unique(group[order], return_index=True)
        groups = Groups(
            tuple(w.name for _, w in self.columns),
            tuple(s.name for s in sensitive),
            stack_columns(
                [np.where(w.index < 0, len(w.values), w.index)[present] for _, w in self.columns], len(present)
            ),
            np.append(start, len(order)).astype(np.int64),
            self.counts.sensitive[order],
            self.counts.size[order],
            tuple(len(s.labels) for s in sensitive),
            tuple(s.labels for s in sensitive),
            None if self.person is None else self.person[order],
        )
        return Ledger(groups, self._labels(prior), people=people)

    def suppress_groups(self, failing: set[Labels], prior: Ledger) -> NewPartition:
        """Suppress the records of groups with these labels."""
        if not failing:
            return self
        labels = self._labels(prior)
        texts = {w.name: np.array(labels[w.name], object)[w.index] for _, w in self.columns}  # index -1: None, the last
        rows = zip(*(texts[name] for name in prior.groups.names), strict=True)
        out = np.array([row in failing for row in rows], bool)
        group = self.group.copy()
        held = np.flatnonzero(group >= 0)
        group[held[out[group[held]]]] = -1
        return replace(self, group=group)

    def _labels(self, prior: Ledger) -> dict[str, Labels]:
        return {w.name: _published_texts(w, prior.labels.get(w.name, ())) for _, w in self.columns}


@dataclass(frozen=True)
class NewRecords:
    """New records with codes, in partitions that fit in memory."""

    prior: PriorReleases
    encoded: EncodedLaterData
    sensitive: tuple[EncodedColumn, ...]
    names: tuple[str, ...]
    nearest: bool
    unit: EncodedUnit | None = None
    _cached: dict[int, NewPartition] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, engine: Engine, prior: PriorReleases, *, nearest: bool) -> NewRecords:
        """Read and encode the quasi-identifiers and the columns of the requirements."""
        dictionaries: dict[str, Dictionary] = {}
        sensitive = tuple(
            encode_column(engine, c, prior.policy.published_reading(c), dictionaries)
            for c in prior.policy.tested_columns
        )
        unit = None if prior.policy.unit is None else encode_unit(engine, prior.policy, dictionaries)
        encoded = encode_later_data(prior.recoding, engine, dictionaries)
        return cls(prior, encoded, sensitive, engine.schema().names, nearest, unit)

    @cached_property
    def people(self) -> tuple[str, ...]:
        """The texts by which the ledger recognizes the people of these records."""
        if self.unit is None:
            return ()
        return name_people(self.unit, self.prior.policy, self.prior.key, published=False)

    @property
    def counted_columns(self) -> tuple[list[str], list[str]]:
        """The quasi-identifiers, and the sensitive columns and the unit that are counted."""
        unit = [] if self.unit is None else [self.unit.name]
        return [f.name for f in self.prior.recoding.fields], [*(s.name for s in self.sensitive), *unit]

    @cached_property
    def partition_count(self) -> int:
        """The number of partitions."""
        return self.encoded.engine.partition(*self.counted_columns).partitions

    def partitions(self) -> Iterator[NewPartition]:
        """The partitions with their groups. A single partition is cached; several are counted again on every call."""
        for number in range(self.partition_count):
            partition = self._cached.get(number) or self._place(number)
            if self.partition_count == 1:
                self._cached[number] = partition
            yield partition

    def _place(self, number: int) -> NewPartition:
        counts, person = self.encoded.engine.count(*self.counted_columns, partition=number), None
        if self.unit is not None:
            counts, person = separate_people(counts, self.unit)
        later = LaterData(counts.quasi, self.encoded.positions)
        placement = self.prior.recoding.place(later)
        records = np.zeros(len(placement.group), np.int64)
        np.add.at(records, np.repeat(np.arange(len(records)), np.diff(counts.start)), counts.size)
        nowhere = np.zeros(len(records), bool)
        unknown, outside = (nowhere, nowhere) if self.nearest else (later.unknown, placement.outside & ~later.unknown)
        suppressed = (placement.group < 0) & ~unknown
        reasons = {"unknown": unknown, "outside": outside, "suppressed": suppressed}
        group = np.where(unknown | outside, -1, placement.group).astype(np.int32)
        outside = placement.outside | later.unknown
        lost = {reason: int(records[combinations].sum()) for reason, combinations in reasons.items()}
        return NewPartition(counts, group, placement.columns, lost, outside, person)

    def apply(self, failing: set[Labels]) -> tuple[Engine, int, SuppressedPeople]:
        """The released table without the groups that have these labels.

        Also return the number of records with untrue labels, and the people with suppressed records.
        """
        output, ledger, policy = self.prior.recoding.output, self.prior.ledger, self.prior.policy
        untrue: list[int] = []
        people = SuppressedPeople.start(0 if self.unit is None else len(self.unit.texts))

        def plans() -> Iterator[Plan]:
            for number, partition in enumerate(self.partitions()):
                kept = partition.suppress_groups(failing, ledger)
                untrue.append(kept.untrue_labels)
                cells, columns, order = Placement.whole(kept.counts, kept.group), kept.columns, None
                codes = Codes((), (), kept.counts, self.prior.key, self.unit, kept.person)
                if self.unit is not None:
                    people.add(codes, cells)
                if policy.pseudonym_column is not None:
                    cells, columns = add_pseudonyms(codes, cells, columns, f"{len(ledger.releases)}:{number}")
                    numbers = np.arange(len(kept.counts.size), dtype=np.uint64)
                    order = KeyedOrder(self.prior.key, self.prior.key.mix(numbers, numbers), output.unchanged)
                ordered = (*output.order_columns(self.names, columns), *map(HiddenColumn, list_hidden_columns(policy)))
                yield Plan(kept.counts, cells.cell, cells.group, cells.count, ordered, order)

        return self.encoded.engine.apply(plans()), sum(untrue), people


def release_new_records(
    data: Any,
    recoding: str | Path,
    policy: Policy | None,
    *,
    nearest: bool = False,
    progress: Progress | None = None,
    resources: Resources | None = None,
) -> Release:
    """Release new records with the recoding of an earlier release; see `shoal.anonymize`."""
    progress = progress or ignore_progress
    if not isinstance(nearest, bool):
        raise PolicyError(f"nearest must be true or false, not {nearest!r}.")
    prior = PriorReleases.load(Path(recoding), policy)
    policy = prior.policy
    source = open_data(data, policy.with_conventions(resources))
    schema = source.schema()
    report_rows(progress, schema.rows)
    policy.check_schema(schema, check=True)
    if policy.unit_column is not None and policy.unit_column not in schema.names:
        raise PolicyError(
            f"the unit {policy.unit_column!r} is not in the table, so people cannot be counted. Add the column to the records."
        )
    progress("reading", 0, 1)
    new = NewRecords.of(source, prior, nearest=nearest)
    progress("reading", 1, 1)
    failing = _failing_labels(new, schema.rows)
    progress("writing", 0, 1)
    counted, untrue, people = new.apply(failing)
    recoded = RecodedTable.of(prior.recoding, counted, list_hidden_columns(policy))
    table = recoded.released_table
    progress("writing", 1, 1)
    progress("checking", 0, 1)
    suppressed = schema.rows - table.schema().rows
    audited = AuditedTable.of(counted, policy, measures_policy=policy, key=prior.key)
    certificate = audited.certificate(policy, suppressed=suppressed, released=table, prior=prior.ledger)
    if policy.unit is not None:
        certificate = replace(certificate, people_with_suppressed=people.some, people_suppressed=people.all)
    if certificate.fingerprint in prior.ledger.releases:
        raise DataError(
            "these records were released before: the table has the same fingerprint as an earlier release, "
            f"{certificate.fingerprint}. Pass only records that are new."
        )
    if not certificate.holds:
        remedy = (
            "\nNew records change the histories of people who were released before. Anonymize all records together with a new "
            "recoding, or release only records of new people."
        )
        raise RequirementNotMet(
            f"the release and the earlier releases together fail the audit, so nothing was written:\n{certificate}"
            f"{remedy if policy.knows_history else ''}"
        ).with_certificate(certificate)
    measures = compute_measures([], audited.for_measures(suppressed, policy))
    if nearest:
        measures["untrue_labels"] = float(untrue)
    if untrue:
        records = ("1 record has", "this record") if untrue == 1 else (f"{untrue} records have", "these records")
        certificate = replace(certificate, notes=(*certificate.notes, UNTRUE.format(*records)))
    progress("checking", 1, 1)
    return Release(
        policy,
        certificate,
        measures,
        prior.recoding,
        "recoding",
        {"kind": prior.recoding.kind, "nearest": nearest},
        policy.list_dropped(schema.names),
        TableArtifact(table, source.format, audited if policy.unit is not None else None),
        seed=prior.seed,
        prior=prior.ledger,
        method_notes=source.detected.notes,
    )


def _failing_labels(new: NewRecords, records: int) -> set[Labels]:
    """The labels of groups whose new records must be suppressed.

    Raises `RequirementNotMet` if more records must be suppressed than the policy allows.
    """
    policy, ledger = new.prior.policy, new.prior.ledger
    lost = dict.fromkeys(("unknown", "outside", "suppressed", "failing"), 0)
    both = ledger
    for partition in new.partitions():
        both = both.stack(partition.ledger(new.sensitive, ledger, new.people))
        lost = {reason: count + partition.lost.get(reason, 0) for reason, count in lost.items()}
    fixed = np.arange(len(both.groups.quasi)) < len(ledger.groups.quasi)
    require = map_to_published_columns(policy.require, both.groups.names)
    kept = select_new_groups(both.groups, require, fixed)
    _refuse_failing_prior(both.groups.keep(kept), both.groups.keep(fixed), require)
    out = ~kept & ~fixed
    lost["failing"] = int(both.groups.records_of_groups[out].sum())
    total, allowed = sum(lost.values()), policy.most_suppressed(records)
    if total > allowed or total == records:
        raise RequirementNotMet(_explain_suppression(new, lost, total, records, allowed))
    return set(replace(both, groups=both.groups.keep(out)).rows()) if out.any() else set()


def select_new_groups(groups: Groups, requirements: Sequence[Requirement], fixed: BoolArray) -> BoolArray:
    """Whether each group is kept; ``fixed`` groups (earlier records) are always kept. Equal labels count as one group.

    As in `select_passing_groups`, the test is repeated until no group fails, except for groups of fixed records.
    """
    kept = np.ones(len(fixed), bool)
    changed = True
    while changed:
        changed = False
        for requirement in requirements:
            merged, number = _merge_groups(groups.keep(kept), requirement)
            out = np.flatnonzero(kept)[~requirement.test(merged).ok[number]]
            out = out[~fixed[out]]
            kept[out] = False
            changed |= len(out) > 0
    return kept


def _merge_groups(groups: Groups, requirement: Requirement) -> tuple[Groups, Int32Array]:
    """The groups on the columns of a requirement, with equal labels merged, and the merged group of every group."""
    on = requirement.on
    return groups.merge_equal() if on is None or tuple(on) == groups.names else groups.project(on)


def _refuse_failing_prior(groups: Groups, prior: Groups, requirements: Sequence[Requirement]) -> None:
    """Raise `RequirementNotMet` if groups fail that hold only earlier records."""
    for requirement in requirements:
        merged, _ = _merge_groups(groups, requirement)
        verdict = requirement.test(merged)
        if verdict.ok.all():
            continue
        held_before = bool(requirement.test(_merge_groups(prior, requirement)[0]).ok.all())
        reason = (
            "The new records change the distribution of the whole table. Release fewer of them, relax the requirement, or "
            "anonymize all records together with a new recoding."
            if held_before
            else "The earlier releases did not meet this requirement. Use the policy of the earlier release."
        )
        failing = ~verdict.ok
        size = format_count(int(merged.records_of_groups[failing].sum()), "record")
        raise RequirementNotMet(
            f"{describe(requirement)} fails for {format_count(int(failing.sum()), 'group')} with {size} of earlier releases, "
            f"which cannot be withdrawn. {reason}"
        ).with_certificate(
            certify(groups.merge_equal()[0], requirements, fingerprint="", label=lambda *_: None, evidence="union")
        )


def _explain_suppression(new: NewRecords, lost: dict[str, int], total: int, records: int, allowed: int) -> str:
    """The error text if too many new records must be suppressed: the reasons with their counts, and the remedies."""
    unseen = next(((name, values[0]) for name, values in new.encoded.unseen.items()), ("", ""))
    wanted = "; ".join(describe(r) for r in new.prior.policy.require)
    reasons = {
        "unknown": f"with a value that is not in the recoding, such as {unseen[1]!r} in column {unseen[0]!r}",
        "outside": "outside every box of the recoding",
        "suppressed": "in groups whose records were suppressed before",
        "failing": f"in groups that fail {wanted}, even together with the earlier releases",
    }
    listed = ", ".join(f"{lost[reason]} {text}" for reason, text in reasons.items() if lost[reason])
    remedies = ["Raise 'suppress'", "wait for more records"]
    if lost["unknown"] or lost["outside"]:
        remedies.append("use the nearest box (nearest=True, --nearest)")
    head = f"{total} of {records} new records would have to be suppressed, and the policy allows {allowed}"
    if total == records:
        head = "the new record cannot be released" if records == 1 else f"none of {records} new records can be released"
    return f"{head}: {listed}. {', '.join(remedies)}, or anonymize all records together with a new recoding."


def _published_texts(column: GroupColumn, prior: Labels) -> Labels:
    """The published text of each value of a column, then None for missing.

    A number has the same text as in earlier releases, whatever the number format there.
    """
    if column.values.dtype == object:
        return (*(str(v) or None for v in column.values), None)
    by_number = {parse_number(label): label for label in prior if label is not None}
    return (*(by_number.get(float(v)) or format_number(v) for v in column.values), None)
