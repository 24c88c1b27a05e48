"""One run of a method: from data to an audited release, in named steps.

Encode the table, let the method group its cells, suppress failing groups, run the optional local search, apply the groups in
the engine, audit the result from its published values, and measure it. A table that is too large for one search is searched
in partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal import kernels, threads
from shoal.arrays import BoolArray, FloatArray, Int32Array
from shoal.encoding.codes import Codes, EncodedTable, encode_table
from shoal.engines import Engine, Plan, open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import PolicyError, RequirementNotMet
from shoal.formats.column_pairs import pair_names
from shoal.kernels.interface import LossArrays
from shoal.measures import Measures, PublishedColumn, compute_measures, merge_columns
from shoal.measures.comparison import count_labels
from shoal.measures.downcoding import count_downcoded
from shoal.pipeline.alphabetical_order import note_alphabetical_order
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.local_search import LossChange, improve_groups
from shoal.pipeline.merged_partitions import search_merged
from shoal.pipeline.people import PersonColumn, SuppressedPeople, Votes, find_person_column, merge_groups, split_groups
from shoal.pipeline.publication import LabelledGroups, Publication, RecodedTable
from shoal.pipeline.unique_values import note_unique_values
from shoal.policy import Policy
from shoal.progress import Progress, ignore_progress, report_rows
from shoal.recoding.grouping import Grouping, build_published_groups
from shoal.recoding.publishing import EndCounts, create_partitions
from shoal.recoding.search_path import SearchPath
from shoal.release import AuditedTable, Release, TableArtifact
from shoal.release.audit import note_unknown_people
from shoal.requirements import (
    Certificate,
    Evidence,
    certify,
    compute_distribution,
    describe,
    refuse_unreachable,
    select_passing_groups,
)
from shoal.requirements.groups import Groups
from shoal.requirements.histories import select_passing_cells
from shoal.requirements.requirement import parse_whole_number
from shoal.secret import new_seed, parse_seed

if TYPE_CHECKING:
    from shoal.pipeline.method import GroupingMethod

REMEDY = "Allow more memory (memory, --memory) or more combinations (combinations, --combinations)."


@dataclass(frozen=True)
class Result:
    """A finished search: the recoded table, the labels that are measured, and measures that only the run can compute."""

    recoded: RecodedTable
    labels: list[PublishedColumn]
    figures: dict[str, float]
    path: SearchPath | None = None
    people: SuppressedPeople | None = None
    partitions: int = 1  # that were searched on their own
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImprovedGroups:
    """Groups after the optional local search, and the change of their information loss (None: no search)."""

    labelled: LabelledGroups
    change: LossChange | None = None

    @classmethod
    def of(cls, labelled: LabelledGroups, change: LossChange, figures: Mapping[str, float]) -> ImprovedGroups:
        """The groups with the figures of the method and of the search."""
        grouping = replace(labelled.grouping, figures={**figures, **change.figures})
        return cls(replace(labelled, grouping=grouping), change)


def run(method: GroupingMethod, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
    """Anonymize a table with a method; see `Method.release`."""
    method.check_parameters()
    secret = new_seed() if seed is None else parse_seed(seed)
    engine = open_data(data, method.policy.with_conventions())
    schema = engine.schema()
    report_rows(progress or ignore_progress, schema.rows)
    method.policy.check_schema(schema)
    unique = note_unique_values(engine, method.policy)
    people = find_person_column(engine, method.policy)
    steps = Run(method, secret, progress or ignore_progress, people)
    table = steps.encode(engine)
    result = steps.search_table(table)
    steps.report("checking", 0, 1)
    suppressed = schema.rows - result.recoded.counted_table.schema().rows
    audited, certificate = steps.audit(result, suppressed)
    measures = steps.measure(result, audited, certificate)
    steps.report("checking", 1, 1)
    return Release(
        method.policy,
        certificate,
        measures,
        result.recoded.recoding,
        method.name,
        method.parameters(),
        method.policy.list_dropped(schema.names),
        TableArtifact(result.recoded.released_table, engine.format, audited),
        result.path,
        secret,
        method_notes=(
            *engine.detected.notes,
            *method.notes(),
            *result.notes,
            *unique,
            *note_alphabetical_order(method.policy, result.labels),
            *steps.note_people(result.recoded.counted_table),
        ),
        owner_sections=method.owner_sections(),
        remake=partial(run, method, engine) if seed is None else None,
    )


@dataclass(frozen=True)
class Run:
    """The steps of a run; ``report`` is called with the stage, the work done and the total work."""

    method: GroupingMethod
    secret: int
    report: Progress
    person_column: PersonColumn | None = None  # of a policy without a unit

    @property
    def policy(self) -> Policy:
        """The policy of the release."""
        return self.method.policy

    @property
    def publication(self) -> Publication:
        """What is published for the groups."""
        publication = self.method.publication()
        return publication if self.person_column is None else publication.hide(self.person_column.name)

    def note_people(self, counted: Engine) -> tuple[str, ...]:
        """A note for the owner if a column seems to name people with several records, and the policy has no unit."""
        return () if self.person_column is None else self.person_column.note(counted, self.policy)

    def encode(self, engine: Engine) -> EncodedTable:
        """Replace the values of the table by codes."""
        return encode_table(
            engine,
            self.policy,
            extra=self.method.extra_columns(),
            carry=(*self.policy.carried_columns, *(c for c in self.publication.hidden if c != self.policy.unit_column)),
            hash=KeyedHash.of(self.secret),
            progress=lambda done, total: self.report("reading", done, total),
        )

    def search_table(self, table: EncodedTable) -> Result:
        """Search a table: whole, as the sum of its partitions, or partition by partition."""
        partitioning, merges = table.partitioning, self.method.merges_partitions
        most = partitioning.limit_cells(self.method.measure_cell(table)) if merges else 0
        if partitioning.partitions == 1:
            codes = table.count()
            self.report("reading", 1, 1)
            if not 0 < most < len(codes.counts.size):
                return self.search(table, codes)
        elif not merges:
            return self.search_partitions(table)
        found = search_merged(self, table, most)
        return Result(found.recoded, found.labels, found.figures, notes=(found.note,))

    def search(self, table: EncodedTable, codes: Codes) -> Result:
        """Group the cells of the whole table and apply the groups."""
        rng, publication = np.random.default_rng(self.secret), self.publication
        labelled = self.group(codes, rng, self.report, self.method.parse_seconds()).labelled
        people = _count_suppressed_people(table)
        if people is not None:
            people.add(codes, labelled.grouping.placement)
        self.report("writing", 0, 1)
        recoded = publication.apply(codes, table.engine, labelled, rng)
        labels = count_labels(codes, labelled.grouping, publication.label_boxes(codes, labelled))
        figures = {
            **labelled.grouping.figures,
            **_measure_ends([publication.count_ends(codes, labelled)], recoded),
            **_share_records("downcoded", _count_downcoded(codes, labelled.grouping), recoded),
            **publication.compare_statistics(codes, recoded.released_table),
        }
        self.report("writing", 1, 1)
        return Result(recoded, labels, figures, labelled.grouping.path, people)

    def search_partitions(self, table: EncodedTable) -> Result:
        """Search the partitions of a table one after another, and release them together.

        Every partition meets the requirements on its own. The union meets monotone requirements; the others raise
        `PolicyError`.
        """
        partitioning, publication, names = table.partitioning, self.publication, table.engine.schema().names
        self._refuse_partitions()
        recoding = create_partitions(table.attributes, partitioning, self.policy, publication.output)
        labels: list[list[PublishedColumn]] = []
        ends: list[EndCounts | None] = []
        downcoded: list[int | None] = []
        changes: list[LossChange] = []
        seconds = self.method.parse_seconds()
        seconds = None if seconds is None else seconds / partitioning.partitions
        people = _count_suppressed_people(table)

        def plans() -> Iterator[Plan]:
            self.report("parts", 0, partitioning.partitions)
            search = PartitionSearch(replace(self, report=ignore_progress), partitioning.partitions, seconds)
            for number, (codes, improved) in enumerate(table.map_partitions(search)):
                labelled = improved.labelled
                if people is not None:
                    people.add(codes, labelled.grouping.placement)
                changes.extend([improved.change] if improved.change else [])
                recoding.put(number, publication.build_recoding(codes, labelled))
                labels.append(count_labels(codes, labelled.grouping, publication.label_boxes(codes, labelled)))
                ends.append(publication.count_ends(codes, labelled))
                downcoded.append(_count_downcoded(codes, labelled.grouping))
                self.report("parts", number + 1, partitioning.partitions)
                yield publication.plan(codes, names, labelled)

        recoded = RecodedTable.of(recoding, table.engine.apply(plans()), publication.hidden)
        self.report("writing", 1, 1)
        merged = [merge_columns(of_column) for of_column in zip(*labels, strict=True)]
        figures = _measure_ends(ends, recoded)
        figures |= _share_records("downcoded", _sum_known(downcoded), recoded)
        if changes:
            figures |= LossChange(sum(c.before for c in changes), sum(c.after for c in changes)).figures
        return Result(recoded, merged, figures, people=people, partitions=partitioning.partitions)

    def _refuse_partitions(self) -> None:
        if not self.publication.supports_partitions:
            raise PolicyError(f"{self.method.name} cannot search a table in partitions. {REMEDY}")
        obstacle = self.method.find_partition_obstacle()
        if obstacle:
            raise PolicyError(f"{obstacle} is not possible for a table that is searched in partitions. {REMEDY}")
        if self.policy.knows_history:
            raise PolicyError(
                "'knows: history' cannot be guaranteed for a table that is searched in partitions: the records of a person can "
                f"be in several partitions. {REMEDY}"
            )
        for requirement in self.method.full_policy().require:
            if requirement.relative or not (
                requirement.monotone and (requirement.upward_closed or not self.policy.unit)
            ):
                raise PolicyError(
                    f"{describe(requirement)} cannot be guaranteed for a table that is searched in partitions: it compares "
                    f"groups with the whole table, or a union of passing groups may fail it. {REMEDY}"
                )

    def group(self, codes: Codes, rng: np.random.Generator, report: Progress, seconds: float | None) -> ImprovedGroups:
        """Group cells by the method, suppress failing groups, then run the optional local search, at most so many seconds.

        A signal interrupts the caller at once; see `threads.run_search`.
        """
        return threads.run_search(lambda progress: self._group(codes, rng, progress, seconds), report)

    def _group(self, codes: Codes, rng: np.random.Generator, report: Progress, seconds: float | None) -> ImprovedGroups:
        refuse_unreachable(
            self.policy.require,
            codes.raw_groups,
            method=self.method.name,
            suppressible=self.policy.most_suppressed(codes.records),
            tries_suppression=self.method.tries_suppression,
        )
        if codes.person is not None:
            return self._group_people(codes, rng, report, seconds)
        grouping = self.method.decide(codes, rng=rng, progress=report)
        labelled = self._label(codes, grouping)
        _refuse_duplicate_names([column.name for _, column in labelled.columns], self.policy)
        labelled = self.suppress_failing_groups(codes, labelled)
        return self.improve(codes, labelled, report, seconds) if self.method.improve else ImprovedGroups(labelled)

    def _group_people(
        self, codes: Codes, rng: np.random.Generator, report: Progress, seconds: float | None
    ) -> ImprovedGroups:
        """As `group`, where people are counted: the method groups one vote per person, or counts people itself.

        The groups of all records are then counted exactly. Failing groups are suppressed as far as the policy allows, else
        merged, until every group passes.
        """
        losses = self._loss_arrays(codes)
        if self.method.counts_people:
            merged = codes.merge_people()
            found = ImprovedGroups(self._label(merged, self.method.decide(merged, rng=rng, progress=report)))
            grouping = found.labelled.grouping.apply_cuts(codes)
            if self.method.improve and not self.policy.knows_history:
                grouping, change = self._split_cuts(codes, grouping, losses)
                found = replace(found, change=change)
        else:
            votes = Votes.of(codes)
            grouping = self.method.decide(votes.voters, rng=rng, progress=report)
            found = ImprovedGroups(self._label(votes.voters, grouping))
            if self.method.improve:
                found = self.improve(votes.voters, found.labelled, report, seconds)
            allowed = self.policy.most_suppressed(codes.records)
            grouping = votes.extend(found.labelled.grouping, losses, allowed)
            grouping = split_groups(codes, grouping, self.method.full_policy().require, losses)
        labelled = self._label(codes, grouping)
        _refuse_duplicate_names([column.name for _, column in labelled.columns], self.policy)
        while not self._is_allowed(codes, labelled):
            grouping = labelled.grouping
            failing = ~self._select_passing(codes, labelled)
            if grouping.attribute_cuts or len(grouping.lo) < 2 or not failing.any():
                break
            labelled = self._label(codes, merge_groups(codes, grouping, failing, losses))
        suppress = self.suppress_failing_people if self.policy.knows_history else self.suppress_failing_groups
        return replace(found, labelled=suppress(codes, labelled))

    def _split_cuts(self, codes: Codes, grouping: Grouping, losses: LossArrays) -> tuple[Grouping, LossChange]:
        """Split the groups of a global recoding while every part has enough people: their local search."""
        placement = grouping.placement
        group = np.repeat(placement.group, placement.count)
        single = Grouping.from_records(codes, np.repeat(placement.cell, placement.count), group)
        better = split_groups(codes, single, self.method.full_policy().require, losses)
        before, after = (
            float((kernels.boxes.sum_losses(g.lo, g.hi, losses) * g.size()).sum()) for g in (single, better)
        )
        change = LossChange(before, after)
        return replace(better, figures={**grouping.figures, **change.figures}), change

    def _loss_arrays(self, codes: Codes) -> LossArrays:
        """The losses of the objective with the attribute weights, for the kernels."""
        tables = codes.loss_tables(self.method.loss_objective)
        return LossArrays(self._relative_weights(codes), tables.ints, tables.floats)

    def _relative_weights(self, codes: Codes) -> FloatArray:
        """The attribute weights, relative to the largest."""
        weights = self.method.attribute_weights(codes)
        return weights / (weights.max(initial=0.0) or 1.0)

    def _select_passing(self, codes: Codes, labelled: LabelledGroups) -> BoolArray:
        """Whether each group passes, as published, when all failing groups are suppressed."""
        groups, merged_group = self._publish(codes, labelled)
        return select_passing_groups(groups, self.method.full_policy().require)[merged_group]

    def _publish(self, codes: Codes, labelled: LabelledGroups) -> tuple[Groups, Int32Array]:
        """The groups as published: those with equal labels are one group; also the published group of every group."""
        return build_published_groups(codes, labelled.grouping, labelled.columns, self.policy).merge_equal()

    def _is_allowed(self, codes: Codes, labelled: LabelledGroups) -> bool:
        """Whether the policy allows to suppress all failing groups."""
        kept = self._select_passing(codes, labelled)
        lost = codes.records - int(labelled.grouping.size()[kept].sum())
        return lost <= self.policy.most_suppressed(codes.records) and bool(kept.any())

    def _label(self, codes: Codes, grouping: Grouping) -> LabelledGroups:
        return LabelledGroups(grouping, self.publication.label(codes, grouping))

    def suppress_failing_groups(self, codes: Codes, labelled: LabelledGroups) -> LabelledGroups:
        """Suppress failing groups, as far as the policy allows; no label shows a value of suppressed records alone.

        Labels can become narrower when records are suppressed. Then groups that shared a label can be told apart, so the groups
        are tested again until all pass.
        """
        require, allowed = self.method.full_policy().require, self.policy.most_suppressed(codes.records)
        while True:
            grouping = labelled.grouping
            groups, merged_group = self._publish(codes, labelled)
            kept = select_passing_groups(groups, require)[merged_group]
            lost = codes.records - int(grouping.size()[kept].sum())
            if lost > allowed or not kept.any():
                wanted = "; ".join(describe(r) for r in require)
                certificate = certify(groups, require, fingerprint="", label=lambda *_: None)
                none = "" if kept.any() else "no group passes, so "
                raise RequirementNotMet(
                    f"{self.method.name} cannot meet {wanted}: {none}{lost} of {codes.records} records would have to be "
                    f"suppressed, and the policy allows {allowed}. Relax the requirement or raise 'suppress'."
                ).with_certificate(certificate)
            if kept.all():
                return labelled
            labelled = self._label(codes, grouping.keep_groups(kept))

    def suppress_failing_people(self, codes: Codes, labelled: LabelledGroups) -> LabelledGroups:
        """Suppress failing groups and all records of people whose histories fail, as far as the policy allows."""
        require, allowed = self.method.full_policy().require, self.policy.most_suppressed(codes.records)
        while True:
            grouping = labelled.grouping
            groups = build_published_groups(codes, grouping, labelled.columns, self.policy)
            entries = kernels.order.sort_by_group(grouping.placement.group, len(grouping.lo))[0]
            kept = np.zeros(len(grouping.placement.group), bool)
            kept[entries[select_passing_cells(groups, require)]] = True
            lost = codes.records - int(grouping.placement.count[kept].sum())
            if lost > allowed or not kept.any():
                certificate = certify(groups, require, fingerprint="", label=lambda *_: None, histories=True)
                wanted = "; ".join(describe(r) for r in require)
                raise RequirementNotMet(
                    f"{self.method.name} cannot meet {wanted} for an attacker who knows all records of a person: the smallest "
                    f"group of people with equal histories has {certificate.smallest_history}. {lost} of {codes.records} "
                    f"records would have to be suppressed, and the policy allows {allowed}. Use tds or bottom-up, relax the "
                    "requirement, raise 'suppress', or write 'knows: record'."
                ).with_certificate(certificate)
            if kept[entries].all():
                return labelled
            labelled = self._label(codes, grouping.keep_entries(codes, kept))

    def improve(
        self, codes: Codes, labelled: LabelledGroups, report: Progress, seconds: float | None
    ) -> ImprovedGroups:
        """Move records between groups while the information loss falls, for at most so many seconds.

        No record moves where a group passes only when merged with identically labelled ones. The groups stay as they were if
        the new ones, merged where their labels are equal, fail a requirement: a union of passing groups may fail.
        """
        grouping = labelled.grouping
        placement, number = grouping.placement, codes.records
        distribution = compute_distribution(build_published_groups(codes, grouping, labelled.columns, self.policy))
        records = ClusteringInput.of(
            codes,
            self.method.full_policy(),
            self._relative_weights(codes),
            self.method.loss_objective,
            distribution=distribution,
        )
        max_size = self.method.max_size
        most = number if max_size is None else min(parse_whole_number(max_size, "max_size", records.k), number)
        order = np.argsort(codes.keyed_rank[placement.cell], kind="stable")  # ties: the earlier record in keyed order
        cell, group = (
            np.repeat(entries[order], placement.count[order]).astype(np.int32)
            for entries in (placement.cell, placement.group)
        )
        report("improving", 0, number)
        better = improve_groups(records, cell, group, most, lambda done: report("improving", done, number), seconds)
        if better.all_groups_pass and (better.relative_gain > 0.0 or grouping.attribute_cuts):
            found = Grouping.from_records(codes, cell, better.group)
            rank = None if grouping.rank is None else _rank_by_loss(codes, found)
            improved = self._label(codes, replace(found, rank=rank))
            if self._passes(codes, improved):
                return ImprovedGroups.of(improved, better.change, grouping.figures)
        return ImprovedGroups.of(labelled, LossChange(better.before, better.before), grouping.figures)

    def _passes(self, codes: Codes, labelled: LabelledGroups) -> bool:
        """Whether the groups, as published, meet the requirements."""
        require = self.method.full_policy().require
        if all(requirement.monotone for requirement in require):
            return True
        return bool(self._select_passing(codes, labelled).all())

    def audit(self, result: Result, suppressed: int) -> tuple[AuditedTable, Certificate]:
        """Count the groups of the table and test every requirement; `RequirementNotMet` if one fails."""
        recoded, required = result.recoded, self.method.full_policy()
        with threads.open_pool(1) as pool:  # the fingerprint is computed while the groups are counted
            fingerprint = pool.submit(recoded.released_table.fingerprint)
            audited = AuditedTable.of(
                recoded.counted_table, required, measures_policy=self.policy, key=KeyedHash.of(self.secret)
            )
        certificate = audited.certificate(
            required,
            suppressed=suppressed,
            released=recoded.released_table,
            evidence=self._evidence,
            partitions=result.partitions,
            fingerprint=fingerprint.result(),
        )
        if result.people is not None:
            certificate = replace(
                certificate,
                people_with_suppressed=result.people.some,
                people_suppressed=result.people.all,
                notes=(*certificate.notes, *self._note_unknown_people(result.people)),
            )
        if not certificate.holds:
            text = f"the release fails its audit, so nothing was written:\n{certificate}"
            raise RequirementNotMet(text).with_certificate(certificate)
        return audited, certificate

    def _note_unknown_people(self, people: SuppressedPeople) -> tuple[str, ...]:
        """A note on records without a value of the unit, where pseudonyms hide them from the audit."""
        return note_unknown_people(people.unknown_released, self.policy) if self.policy.pseudonym_column else ()

    @property
    def _evidence(self) -> Evidence:
        evidence = self.publication.evidence
        return "people" if self.policy.unit is not None and evidence == "table" else evidence

    def measure(self, result: Result, audited: AuditedTable, certificate: Certificate) -> Measures:
        """The measures of the release."""
        measures = compute_measures(result.labels, audited.for_measures(certificate.suppressed, self.policy))
        measures |= result.figures
        return measures


@dataclass(frozen=True)
class PartitionSearch:
    """The search of one of the ``partitions`` of a table, in this process or in another; at most so many seconds.

    The random numbers of a partition depend on the secret and on its number, not on the process that searches it.
    """

    run: Run
    partitions: int
    seconds: float | None

    def __call__(self, number: int, codes: Codes) -> ImprovedGroups:
        """Group the cells of a partition; every partition meets the requirements on its own."""
        rng = np.random.default_rng(self.run.secret).spawn(number + 1)[number]
        try:
            return self.run.group(codes, rng, self.run.report, self.seconds)
        except RequirementNotMet as error:
            where = f"in partition {number + 1} of {self.partitions}"
            raise RequirementNotMet(f"{where}, {error} {REMEDY}").with_certificate(error.certificate) from None


def _count_suppressed_people(table: EncodedTable) -> SuppressedPeople | None:
    """The counts of suppressed records by person, before the first record; None without a unit."""
    return None if table.unit is None else SuppressedPeople.start(len(table.unit.texts))


def _rank_by_loss(codes: Codes, grouping: Grouping) -> Int32Array:
    """The rank of every group by the loss of its box."""
    losses = [a.loss(grouping.lo[:, j], grouping.hi[:, j]) for j, a in enumerate(codes.attributes)]
    total = np.sum(losses, axis=0).round(9)
    return np.unique(total, return_inverse=True)[1].reshape(-1).astype(np.int32)


def _share_records(name: str, records: int | None, recoded: RecodedTable) -> dict[str, float]:
    """A measure that is a share of the released records; empty if the measure does not apply."""
    return {} if records is None else {name: records / max(recoded.released_table.schema().rows, 1)}


def _measure_ends(ends: Sequence[EndCounts | None], recoded: RecodedTable) -> dict[str, float]:
    """The measures of the ends of ranges in all partitions; empty if no ranges are published."""
    known = [counts for counts in ends if counts is not None]
    return sum(known, EndCounts(0, 0)).figures(recoded.released_table.schema().rows) if known else {}


def _sum_known(records: Sequence[int | None]) -> int | None:
    """The sum over the partitions; None if the measure does not apply."""
    return None if None in records else sum(filter(None, records))


def _count_downcoded(codes: Codes, grouping: Grouping) -> int | None:
    """The records whose labels can be sharpened; None for methods that do not publish in rounds."""
    if grouping.rank is None:
        return None
    return count_downcoded(codes, grouping.lo, grouping.hi, grouping.size(), grouping.rank)


def _refuse_duplicate_names(names: list[str], policy: Policy) -> None:
    for column in policy.quasi:
        clash = next((name for name in pair_names(column) if name in policy.quasi), None)
        if clash and column not in names:
            raise PolicyError(f"write='lo-hi' would create {clash!r}, which already exists. Rename that column.")
    others = (
        *policy.unchanged_columns,
        *policy.identifiers,
        policy.key,
        policy.unit_column,
    )  # the audit treats a column with this name as an identifier
    twice = [name for name in names if names.count(name) > 1 or name in others]
    if twice:
        raise PolicyError(
            f"the released column {twice[0]!r} would have the name of another column of the table. Rename that column."
        )
