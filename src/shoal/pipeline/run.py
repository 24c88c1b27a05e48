"""One run of a method: from data to an audited release, in named steps.

Encode the table, let the method group its cells, suppress failing groups, run the optional local search, apply the groups in
the engine, audit the result from its published values, and measure it. A table that is too large for one search is searched
in partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.encoding.codes import Codes, EncodedTable, encode_table
from shoal.engines import Engine, GroupColumn, KeyedOrder, Plan, UnchangedColumn, open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import PolicyError, RequirementNotMet
from shoal.formats.column_pairs import pair_names
from shoal.measures import Measures, PublishedColumn, compute_measures, merge_columns
from shoal.measures.comparison import count_labels
from shoal.measures.statistics import compare_statistics
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.local_search import improve_groups
from shoal.policy import Policy
from shoal.progress import Progress, ignore_progress
from shoal.recoding import Columns, Output, Placement, Recoding
from shoal.recoding.group_labels import AVERAGES
from shoal.recoding.grouping import Grouping, build_published_groups
from shoal.recoding.publishing import create_partitions
from shoal.recoding.search_path import SearchPath
from shoal.release import AuditedTable, Release
from shoal.requirements import (
    Certificate,
    certify,
    compute_distribution,
    describe,
    refuse_unreachable,
    select_passing_groups,
)
from shoal.requirements.requirement import parse_whole_number
from shoal.secret import new_seed, parse_seed

if TYPE_CHECKING:
    from shoal.pipeline.method import Method

REMEDY = "Allow more memory (memory, --memory) or more combinations (combinations, --combinations)."


@dataclass(frozen=True)
class RecodedTable:
    """The result of applying groups in an engine: the recoding, and the table in which the groups are counted.

    The counted table is the released table, except for synthetic records: then ``synthetic`` is released, and the counted
    table has group numbers instead of quasi-identifiers.
    """

    recoding: Recoding
    counted_table: Engine
    synthetic: Engine | None = None

    @property
    def released_table(self) -> Engine:
        """The table that is released."""
        return self.synthetic or self.counted_table


@dataclass(frozen=True)
class LabelledGroups:
    """The groups of a table, and the columns that are published for them."""

    grouping: Grouping
    columns: Columns


@dataclass(frozen=True)
class Result:
    """A finished search: the recoded table, and the input of the owner's measures.

    ``isolated_ends`` counts records; see `Publication.count_isolated_ends`.
    """

    recoded: RecodedTable
    labels: list[PublishedColumn]
    isolated_ends: int | None
    figures: dict[str, float]
    path: SearchPath | None = None
    codes: Codes | None = None


def run(method: Method, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
    """Anonymize a table with a method; see `Method.release`."""
    method.check_parameters()
    secret = new_seed() if seed is None else parse_seed(seed)
    engine = open_data(data)
    steps = Run(method, secret, progress or ignore_progress)
    schema = engine.schema()
    method.policy.check_schema(schema)
    table = steps.encode(engine)
    result = steps.search(table) if table.partitioning.partitions == 1 else steps.search_partitions(table)
    steps.report("checking", 0, 1)
    suppressed = schema.rows - result.recoded.counted_table.schema().rows
    audited, certificate = steps.audit(result.recoded, suppressed, table.partitioning.partitions)
    measures = steps.measure(result, audited, certificate)
    steps.report("checking", 1, 1)
    return Release(
        method.policy,
        certificate,
        measures,
        result.recoded.recoding,
        method.name,
        method.parameters(),
        tuple(n for n in schema.names if n not in method.policy.quasi and n not in method.policy.unchanged_columns),
        engine.format,
        result.recoded.released_table,
        result.path,
        secret,
        audited=audited,
        method_notes=method.notes(),
        remake=partial(run, method, engine) if seed is None else None,
    )


@dataclass(frozen=True)
class Run:
    """The steps of a run; ``report`` is called with the stage, the work done and the total work."""

    method: Method
    secret: int
    report: Progress

    @property
    def policy(self) -> Policy:
        """The policy of the release."""
        return self.method.policy

    @property
    def output(self) -> Output:
        """The columns that are released unchanged beside the quasi-identifiers."""
        return Output(self.policy.unchanged_columns, self.policy.missing_texts)

    def encode(self, engine: Engine) -> EncodedTable:
        """Replace the values of the table by codes."""
        return encode_table(
            engine,
            self.policy,
            extra=self.method.extra_columns(),
            carry=self.policy.carried_columns,
            hash=KeyedHash.of(self.secret),
            progress=lambda done, total: self.report("reading", done, total),
        )

    def search(self, table: EncodedTable) -> Result:
        """Group the cells of the whole table and apply the groups."""
        rng, style = np.random.default_rng(self.secret), self.method.style()
        codes = table.count()
        self.report("reading", 1, 1)
        labelled = self.group(codes, rng, self.report)
        self.report("writing", 0, 1)
        recoded = self.method.apply_groups(codes, table.engine, labelled, self.output, rng)
        isolated_ends = None
        if recoded.synthetic is None:
            publication = self.method.publication(style)
            isolated_ends = publication.count_isolated_ends(codes, labelled.grouping, labelled.columns)
        if recoded.synthetic or style in ("lo-hi", "midpoint", *AVERAGES):  # measures need the labels of the boxes
            labelled = replace(labelled, columns=self.method.write_labels(codes, labelled.grouping, "label"))
        labels = count_labels(codes, labelled.grouping, labelled.columns)
        self.report("writing", 1, 1)
        return Result(recoded, labels, isolated_ends, dict(labelled.grouping.figures), labelled.grouping.path, codes)

    def search_partitions(self, table: EncodedTable) -> Result:
        """Search the partitions of a table one after another, and release them together.

        Every partition meets the requirements on its own. The union meets monotone requirements; the others raise
        `PolicyError`.
        """
        method, partitioning, output, names = self.method, table.partitioning, self.output, table.engine.schema().names
        self._refuse_partitions()
        recoding = create_partitions(table.attributes, partitioning, self.policy, output)
        labels: list[list[PublishedColumn]] = []
        isolated_ends: list[int] = []

        def plans() -> Iterator[Plan]:
            for number, rng in enumerate(np.random.default_rng(self.secret).spawn(partitioning.partitions)):
                self.report("parts", number, partitioning.partitions)
                codes = table.count(number)
                try:
                    labelled = self.group(codes, rng, ignore_progress)
                except RequirementNotMet as error:
                    where = f"in partition {number + 1} of {partitioning.partitions}"
                    raise RequirementNotMet(f"{where}, {error} {REMEDY}").with_certificate(error.certificate) from None
                publication = method.publication(method.style())
                recoding.put(number, publication.build_recoding(codes, labelled.grouping, labelled.columns, output))
                columns = method.write_labels(codes, labelled.grouping, "label")
                labels.append(count_labels(codes, labelled.grouping, columns))
                isolated_ends.append(publication.count_isolated_ends(codes, labelled.grouping, labelled.columns))
                released = output.order_columns(names, labelled.columns)
                yield build_plan(codes, labelled.grouping.placement, released, self.policy)
            self.report("parts", partitioning.partitions, partitioning.partitions)

        recoded = RecodedTable(recoding, table.engine.apply(plans()))
        self.report("writing", 1, 1)
        merged = [merge_columns(of_column) for of_column in zip(*labels, strict=True)]
        return Result(recoded, merged, sum(isolated_ends), {})

    def _refuse_partitions(self) -> None:
        if self.method.randomized:
            raise PolicyError(f"{self.method.name} cannot search a table in partitions. {REMEDY}")
        for requirement in self.method.full_policy().require:
            if requirement.relative or not requirement.monotone:
                raise PolicyError(
                    f"{describe(requirement)} cannot be guaranteed for a table that is searched in partitions: it compares "
                    f"groups with the whole table, or a union of passing groups may fail it. {REMEDY}"
                )

    def group(self, codes: Codes, rng: np.random.Generator, report: Progress) -> LabelledGroups:
        """Group cells by the method, suppress failing groups, then run the optional local search."""
        refuse_unreachable(self.policy.require, codes.raw_groups)
        grouping = self.method.decide(codes, rng=rng, progress=report)
        labelled = self._label(codes, grouping)
        _refuse_duplicate_names([column.name for _, column in labelled.columns], self.policy)
        labelled = self.suppress_failing_groups(codes, labelled)
        return self.improve(codes, labelled, report) if self.method.improve else labelled

    def _label(self, codes: Codes, grouping: Grouping) -> LabelledGroups:
        return LabelledGroups(grouping, self.method.label_groups(codes, grouping))

    def suppress_failing_groups(self, codes: Codes, labelled: LabelledGroups) -> LabelledGroups:
        """Suppress failing groups, as far as the policy allows; no label shows a value of suppressed records alone."""
        grouping, require = labelled.grouping, self.method.full_policy().require
        groups, merged_group = build_published_groups(codes, grouping, labelled.columns, self.policy).merge_equal()
        kept = select_passing_groups(groups, require)[merged_group]
        lost = codes.records - int(grouping.size()[kept].sum())
        allowed = self.policy.most_suppressed(codes.records)
        if lost > allowed or not kept.any():
            wanted = "; ".join(describe(r) for r in require)
            certificate = certify(groups, require, fingerprint="", label=lambda *_: None)
            none = "" if kept.any() else "no group passes, so "
            raise RequirementNotMet(
                f"{self.method.name} cannot meet {wanted}: {none}{lost} of {codes.records} records would have to be "
                f"suppressed, and the policy allows {allowed}. Relax the requirement or raise 'suppress'."
            ).with_certificate(certificate)
        return labelled if kept.all() else self._label(codes, grouping.keep_groups(kept))

    def improve(self, codes: Codes, labelled: LabelledGroups, report: Progress) -> LabelledGroups:
        """Move records between groups while the information loss falls.

        No record moves where a group passes only when merged with identically labelled ones.
        """
        grouping = labelled.grouping
        placement, number, weights = grouping.placement, codes.records, self.method.attribute_weights(codes)
        distribution = compute_distribution(build_published_groups(codes, grouping, labelled.columns, self.policy))
        records = ClusteringInput.of(
            codes, self.method.full_policy(), weights / (weights.max(initial=0.0) or 1.0), distribution=distribution
        )
        max_size = self.method.max_size
        most = min(
            2 * records.k - 1 if max_size is None else parse_whole_number(max_size, "max_size", records.k), number
        )
        order = np.argsort(codes.keyed_rank[placement.cell], kind="stable")  # ties: the earlier record in keyed order
        cell, group = (
            np.repeat(entries[order], placement.count[order]).astype(np.int32)
            for entries in (placement.cell, placement.group)
        )
        report("improving", 0, number)
        better = improve_groups(records, cell, group, most, lambda done: report("improving", done, number))
        grouping = replace(grouping, figures={**grouping.figures, "improved": better.relative_gain})
        if not better.all_groups_pass or (better.relative_gain <= 0.0 and not grouping.attribute_cuts):
            return replace(labelled, grouping=grouping)
        return self._label(codes, replace(Grouping.from_records(codes, cell, better.group), figures=grouping.figures))

    def audit(self, recoded: RecodedTable, suppressed: int, partitions: int) -> tuple[AuditedTable, Certificate]:
        """Count the groups of the table and test every requirement; `RequirementNotMet` if one fails."""
        required = self.method.full_policy()
        with ThreadPoolExecutor(1) as pool:  # the fingerprint is computed while the groups are counted
            fingerprint = pool.submit(recoded.released_table.fingerprint)
            audited = AuditedTable.of(recoded.counted_table, required, measures_policy=self.policy)
        certificate = audited.certificate(
            required,
            suppressed=suppressed,
            synthetic=recoded.synthetic,
            partitions=partitions,
            fingerprint=fingerprint.result(),
        )
        if not certificate.holds:
            text = f"the release fails its audit, so nothing was written:\n{certificate}"
            raise RequirementNotMet(text).with_certificate(certificate)
        return audited, certificate

    def measure(self, result: Result, audited: AuditedTable, certificate: Certificate) -> Measures:
        """The measures of the release."""
        measures = compute_measures(result.labels, audited.for_measures(certificate.suppressed))
        measures |= result.figures
        if result.isolated_ends is not None:
            measures["isolated_ends"] = result.isolated_ends / max(certificate.records, 1)
        if result.recoded.synthetic and result.codes is not None:
            measures |= compare_statistics(result.codes, result.recoded.synthetic, self.policy)
        return measures


def build_plan(
    codes: Codes, placement: Placement, columns: Sequence[UnchangedColumn | GroupColumn], policy: Policy
) -> Plan:
    """The plan for an engine. The keyed hash decides which records of a divided cell go to which group."""
    order = None
    if codes.hash is not None and (np.diff(placement.cell) == 0).any():
        key = (policy.key,) if policy.key else ()
        unchanged = (c.name for c in columns if isinstance(c, UnchangedColumn))
        order = KeyedOrder(codes.hash, codes.cell_hash, (*unchanged, *key))
    return Plan(codes.counts, placement.cell, placement.group, placement.count, tuple(columns), order)


def _refuse_duplicate_names(names: list[str], policy: Policy) -> None:
    for column in policy.quasi:
        clash = next((name for name in pair_names(column) if name in policy.quasi), None)
        if clash and column not in names:
            raise PolicyError(f"write='lo-hi' would create {clash!r}, which already exists. Rename that column.")
    others = (
        *policy.unchanged_columns,
        *policy.identifiers,
        policy.key,
    )  # the audit takes the name of an identifier for one
    twice = [name for name in names if names.count(name) > 1 or name in others]
    if twice:
        raise PolicyError(
            f"the released column {twice[0]!r} would have the name of another column of the table. Rename that column."
        )
