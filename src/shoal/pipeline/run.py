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
from shoal.engines import Engine, GroupColumn, KeptColumn, KeyedOrder, Plan, open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import PolicyError, RequirementNotMet
from shoal.formats.column_pairs import pair_names
from shoal.measures import Measures, PublishedColumn, compute_measures, merge_columns
from shoal.measures.comparison import count_labels
from shoal.measures.statistics import compare_statistics
from shoal.pipeline.clustering import ClusteringInput
from shoal.pipeline.local_search import improve_groups
from shoal.policy import Policy
from shoal.progress import Progress, silent
from shoal.recoding import Output, Placement, Recoding
from shoal.recoding.group_labels import AVERAGES
from shoal.recoding.grouping import Grouping, groups_as_published
from shoal.recoding.publishing import Columns, start_partitioned
from shoal.recoding.search_path import SearchPath
from shoal.release import AuditedTable, Release
from shoal.requirements import (
    Certificate,
    certify,
    describe,
    distribution_of,
    refuse_unreachable,
    select_passing_groups,
)
from shoal.requirements.requirement import parse_whole_number
from shoal.secret import new_seed, parse_seed

if TYPE_CHECKING:
    from shoal.pipeline.method import Method

REMEDY = "Allow more memory, or more combinations at once."


@dataclass(frozen=True)
class Applied:
    """Groups that an engine has applied: the recoding, and the table in which the groups are counted.

    That table is the released one, except for synthetic records: then ``synthetic`` is released, and in the counted table the
    number of the group stands in the place of the quasi-identifiers.
    """

    recoding: Recoding
    counted: Engine
    synthetic: Engine | None = None

    @property
    def released(self) -> Engine:
        """The table that is released."""
        return self.synthetic or self.counted


@dataclass(frozen=True)
class Labelled:
    """The groups of a table, and the columns that are published for them."""

    decision: Grouping
    written: Columns


@dataclass(frozen=True)
class Result:
    """A finished search: the applied groups, and what the owner's measures are made of."""

    applied: Applied
    labels: list[PublishedColumn]
    isolated: int | None
    figures: dict[str, float]
    path: SearchPath | None = None
    codes: Codes | None = None


def run(method: Method, data: Any, *, seed: int | None = None, progress: Progress | None = None) -> Release:
    """Anonymize a table with a method; see `Method.release`."""
    method.check_parameters()
    secret = new_seed() if seed is None else parse_seed(seed)
    engine = open_data(data)
    job = Run(method, secret, progress or silent)
    schema = engine.schema()
    method.policy.check_schema(schema)
    table = job.encode(engine)
    result = job.search(table) if table.partitioning.partitions == 1 else job.search_partitions(table)
    job.report("checking", 0, 1)
    suppressed = schema.rows - result.applied.counted.schema().rows
    view, certificate = job.audit(result.applied, suppressed, table.partitioning.partitions)
    measures = job.measure(result, view, certificate)
    job.report("checking", 1, 1)
    return Release(
        method.policy,
        certificate,
        measures,
        result.applied.recoding,
        method.name,
        method.parameters(),
        tuple(n for n in schema.names if n not in method.policy.quasi and n not in method.policy.unchanged),
        engine.format,
        result.applied.released,
        result.path,
        secret,
        audited=view,
        method_notes=method.notes(),
        remake=partial(run, method, engine) if seed is None else None,
    )


@dataclass(frozen=True)
class Run:
    """The steps of a run; ``report`` is called with a stage, the work done and the work in all."""

    method: Method
    secret: int
    report: Progress

    @property
    def policy(self) -> Policy:
        """The policy of the release."""
        return self.method.policy

    @property
    def output(self) -> Output:
        """The columns that are released beside the quasi-identifiers."""
        return Output(self.policy.unchanged, self.policy.missing_texts)

    def encode(self, engine: Engine) -> EncodedTable:
        """Give the table its codes."""
        return encode_table(
            engine,
            self.policy,
            also=self.method.extra_columns(),
            carry=self.policy.carried_columns,
            hash=KeyedHash.of(self.secret),
            tell=lambda done, total: self.report("reading", done, total),
        )

    def search(self, table: EncodedTable) -> Result:
        """Group the cells of a whole table, and apply the groups."""
        rng, style = np.random.default_rng(self.secret), self.method.style()
        codes = table.count()
        self.report("reading", 1, 1)
        found = self.group(codes, rng, self.report)
        self.report("writing", 0, 1)
        applied = self.method.apply_groups(codes, table.engine, found, self.output, rng)
        isolated = None
        if applied.synthetic is None:
            isolated = self.method.publication(style).isolated(codes, found.decision, found.written)
        if applied.synthetic or style in (
            "lo-hi",
            "midpoint",
            *AVERAGES,
        ):  # labels say more of a box than these styles do
            found = replace(found, written=self.method.write_labels(codes, found.decision, "label"))
        labels = count_labels(codes, found.decision, found.written)
        self.report("writing", 1, 1)
        return Result(applied, labels, isolated, dict(found.decision.figures), found.decision.path, codes)

    def search_partitions(self, table: EncodedTable) -> Result:
        """Search the partitions of a table one after another, and release them together.

        Every partition meets the requirements on its own. So does the union, for requirements that unions of passing groups
        meet; others are refused.
        """
        method, division, output, names = self.method, table.partitioning, self.output, table.engine.schema().names
        self._refuse_partitions()
        recoding = start_partitioned(table.attributes, division, self.policy, output)
        labels: list[list[PublishedColumn]] = []
        isolated: list[int] = []

        def plans() -> Iterator[Plan]:
            for number, rng in enumerate(np.random.default_rng(self.secret).spawn(division.partitions)):
                self.report("parts", number, division.partitions)
                codes = table.count(number)
                try:
                    found = self.group(codes, rng, silent)
                except RequirementNotMet as error:
                    where = f"in partition {number + 1} of {division.partitions}"
                    raise RequirementNotMet(f"{where}: {error} {REMEDY}").reached(error.certificate) from None
                publication = method.publication(method.style())
                recoding.put(number, publication.recoding(codes, found.decision, found.written, output))
                shown = method.write_labels(codes, found.decision, "label")
                labels.append(count_labels(codes, found.decision, shown))
                isolated.append(publication.isolated(codes, found.decision, found.written))
                yield plan_of(codes, found.decision.placement, output.columns(names, found.written), self.policy)
            self.report("parts", division.partitions, division.partitions)

        applied = Applied(recoding, table.engine.apply(plans()))
        self.report("writing", 1, 1)
        return Result(applied, [merge_columns(of_column) for of_column in zip(*labels, strict=True)], sum(isolated), {})

    def _refuse_partitions(self) -> None:
        if self.method.randomized:
            raise PolicyError(f"{self.method.name} cannot search a table in partitions. {REMEDY}")
        for requirement in self.method.full_policy().require:
            if requirement.relative or not requirement.monotone:
                raise PolicyError(
                    f"{describe(requirement)} compares groups with the whole table, so it cannot be guaranteed for a table "
                    f"that is searched in partitions. {REMEDY}"
                )

    def group(self, codes: Codes, rng: np.random.Generator, report: Progress) -> Labelled:
        """Group cells by the method, suppress failing groups, then run the optional local search."""
        refuse_unreachable(self.policy.require, codes.raw_groups)
        decision = self.method.decide(codes, rng=rng, progress=report)
        found = self._label(codes, decision)
        _refuse_clash([column.name for _, column in found.written], self.policy)
        found = self.suppress_failing_groups(codes, found)
        return self.improve(codes, found, report) if self.method.improve else found

    def _label(self, codes: Codes, decision: Grouping) -> Labelled:
        return Labelled(decision, self.method.label_groups(codes, decision))

    def suppress_failing_groups(self, codes: Codes, found: Labelled) -> Labelled:
        """Suppress the groups that fail, as far as the policy allows; labels no longer show what is suppressed."""
        decision, require = found.decision, self.method.full_policy().require
        groups, place_of = groups_as_published(codes, decision, found.written, self.policy).merge_equal()
        kept = select_passing_groups(groups, require)[place_of]
        lost = codes.records - int(decision.size()[kept].sum())
        allowed = self.policy.most_suppressed(codes.records)
        if lost > allowed or not kept.any():
            wanted = "; ".join(describe(r) for r in require)
            reached = certify(groups, require, fingerprint="", label=lambda *_: None)
            raise RequirementNotMet(
                f"{self.method.name} cannot meet {wanted}: {lost} of {codes.records} records would have to be suppressed, "
                f"and the policy allows {allowed}. Relax the requirement or raise 'suppress'."
            ).reached(reached)
        return found if kept.all() else self._label(codes, decision.keep_groups(kept))

    def improve(self, codes: Codes, found: Labelled, report: Progress) -> Labelled:
        """Move records between groups while the information loss falls; nothing moves where a group fails on its own."""
        decision = found.decision
        place, number, weights = decision.placement, codes.records, self.method.attribute_weights(codes)
        layout = distribution_of(groups_as_published(codes, decision, found.written, self.policy))
        records = ClusteringInput.of(
            codes, self.method.full_policy(), weights / (weights.max(initial=0.0) or 1.0), layout=layout
        )
        given = self.method.max_size
        most = min(2 * records.k - 1 if given is None else parse_whole_number(given, "max_size", records.k), number)
        turn = np.argsort(codes.keyed_rank[place.cell], kind="stable")  # ties go to the earlier record in keyed order
        cell, group = (np.repeat(p[turn], place.count[turn]).astype(np.int32) for p in (place.cell, place.group))
        report("improving", 0, number)
        better = improve_groups(records, cell, group, most, lambda done: report("improving", done, number))
        decision = replace(decision, figures={**decision.figures, "improved": better.relative_gain})
        if not better.all_groups_pass or (better.relative_gain <= 0.0 and not decision.attribute_cuts):
            return replace(found, decision=decision)
        return self._label(codes, replace(Grouping.from_records(codes, cell, better.group), figures=decision.figures))

    def audit(self, applied: Applied, suppressed: int, partitions: int) -> tuple[AuditedTable, Certificate]:
        """Count the released table and test every requirement; an error where one fails."""
        required = self.method.full_policy()
        with ThreadPoolExecutor(1) as pool:  # the fingerprint is computed while the groups are counted
            fingerprint = pool.submit(applied.released.fingerprint)
            view = AuditedTable.of(applied.counted, required, measured=self.policy)
        certificate = view.certificate(
            required,
            suppressed=suppressed,
            drawn=applied.synthetic,
            parts=partitions,
            fingerprint=fingerprint.result(),
        )
        if not certificate.holds:
            raise RequirementNotMet(f"the release fails its audit; nothing was written\n{certificate}").reached(
                certificate
            )
        return view, certificate

    def measure(self, result: Result, view: AuditedTable, certificate: Certificate) -> Measures:
        """The measures of the release."""
        measures = compute_measures(result.labels, view.for_measures(certificate.suppressed))
        measures |= result.figures
        if result.isolated is not None:
            measures["isolated_ends"] = result.isolated / max(certificate.records, 1)
        if result.applied.synthetic and result.codes is not None:
            measures |= compare_statistics(result.codes, result.applied.synthetic, self.policy)
        return measures


def plan_of(codes: Codes, place: Placement, columns: Sequence[KeptColumn | GroupColumn], policy: Policy) -> Plan:
    """What an engine applies. The keyed hash decides which records of a divided cell go to which group."""
    dealing = None
    if codes.hash is not None and (np.diff(place.cell) == 0).any():
        key = (policy.key,) if policy.key else ()
        kept = (c.name for c in columns if isinstance(c, KeptColumn))
        dealing = KeyedOrder(codes.hash, codes.cell_hash, (*kept, *key))
    return Plan(codes.counts, place.cell, place.group, place.count, tuple(columns), dealing)


def _refuse_clash(written: list[str], policy: Policy) -> None:
    for column in policy.quasi:
        clash = next((name for name in pair_names(column) if name in policy.quasi), None)
        if clash and column not in written:
            raise PolicyError(f"write='lo-hi' would create {clash!r}, which already exists. Rename that column.")
    others = (
        *policy.unchanged,
        *policy.identifiers,
        policy.key,
    )  # a name of an identifier would look like one to the check
    twice = [name for name in written if written.count(name) > 1 or name in others]
    if twice:
        raise PolicyError(
            f"the released column {twice[0]!r} would stand beside another of that name, or take its place; rename the column"
        )
