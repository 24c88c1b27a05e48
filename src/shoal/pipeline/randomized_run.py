"""One run of a randomizing method: encode the table, choose the operator, apply it to every record, audit, and measure.

Every record is published on its own, with the codes that the operator draws for it. The random numbers of a record are a keyed
hash of the secret, its cell and its ordinal in the cell, so the release is the same in every engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shoal import threads
from shoal.arrays import FloatArray, Int32Array, Int64Array, UInt64Array
from shoal.encoding.codes import Codes
from shoal.engines import Counts, Engine, open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import PolicyError, RequirementNotMet
from shoal.kernels.combinations import number_combinations, sort_combinations
from shoal.measures import compute_measures
from shoal.measures.comparison import count_codes
from shoal.measures.statistics import compare_codes
from shoal.pipeline.notes import note_suppress
from shoal.pipeline.publication import build_plan
from shoal.pipeline.unique_values import note_unique_values
from shoal.pipeline.whole_table import count_whole_table
from shoal.progress import Progress, ignore_progress, report_rows
from shoal.recoding import Output, Placement, Randomize, expand_placement
from shoal.recoding.group_labels import label_codes, write_values
from shoal.recoding.publishing import build_fields
from shoal.release import AuditedTable, Release, TableArtifact
from shoal.requirements import Attack, Distributions, Finding, Operator, OperatorRequirement, judge_operator
from shoal.secret import new_seed, parse_seed

if TYPE_CHECKING:
    from shoal.pipeline.method import RandomizingMethod

Attempt = tuple[str, tuple[Finding, ...]]  # the parameters of an operator, and the findings of the requirements
NOTHING_REQUIRED = "the policy has no requirement, so nothing was tested"
UNIT = 2.0**-53  # a hash has 53 bits that a float can hold
BATCH = 262_144  # records whose values are drawn at once


def run_randomizing(
    method: RandomizingMethod, data: Any, *, seed: int | None = None, progress: Progress | None = None
) -> Release:
    """Anonymize a table with a randomizing method; see `Method.release`."""
    method.check_parameters()
    policy, report = method.policy, progress or ignore_progress
    secret = new_seed() if seed is None else parse_seed(seed)
    engine = open_data(data, policy.with_conventions())
    schema = engine.schema()
    report_rows(report, schema.rows)
    policy.check_schema(schema, requires=False)
    unique = note_unique_values(engine, policy)
    keyed = KeyedHash.of(secret)
    extra, carry = method.extra_columns(), policy.carried_columns
    encoded, codes = count_whole_table(
        engine, policy, method.name, extra=extra, carry=carry, keyed=keyed, report=report
    )
    operator = threads.run_search(
        lambda progress: method.decide(codes, rng=np.random.default_rng(secret), progress=progress), report
    )
    shares = {a.name: count_codes(codes, j) / codes.records for j, a in enumerate(codes.attributes)}
    requirements = cast("tuple[OperatorRequirement, ...]", tuple(policy.require))
    report("writing", 0, 1)
    records = Records.of(codes, keyed)
    attempts: list[Attempt] = []
    while True:
        published = records.randomize(operator, method.name)
        distributions = records.compare(published, shares)
        findings = judge_operator(operator, distributions, requirements)
        attempts.append((method.describe_operator(operator), findings))
        stronger = None if all(f.holds for f in findings) else method.strengthen(operator)
        if stronger is None:
            break
        operator = stronger
    released = records.write(published, encoded, method)
    report("writing", 1, 1)
    audited = AuditedTable.of(released, policy, measures_policy=policy)
    certificate = audited.certificate(policy, evidence="operator", findings=findings)
    attacks: list[Attack] = []  # computed only if the method asks for it

    def attack() -> Attack:
        attacks.append(records.attack(operator, published, distributions))
        return attacks[-1]

    notes = method.note_release(operator, attack)
    certificate = replace(
        certificate,
        notes=(*certificate.notes, *(() if requirements else (NOTHING_REQUIRED,)), *notes),
        probabilistic_anonymity=math.exp(operator.measure_choices(shares)),
    )
    if not certificate.holds:
        text = f"the operator of {method.name} fails its test, so nothing was written:\n{certificate}"
        raise RequirementNotMet(f"{text}\n{describe_best(requirements, attempts)}").with_certificate(certificate)
    measures = compute_measures([], audited.for_measures(0, policy))
    for found in attacks:
        measures |= found.figures
    measures |= compare_codes(codes, _count_published(codes, distributions))
    return Release(
        policy,
        certificate,
        measures,
        Randomize(build_fields(codes.attributes, policy), _output(method), operator, label_codes(codes.attributes)),
        method.name,
        method.parameters(),
        tuple(n for n in schema.names if n not in policy.quasi and n not in policy.unchanged_columns),
        TableArtifact(released, engine.format, audited),
        seed=secret,
        method_notes=(*engine.detected.notes, *method.notes(), *unique, *note_suppress(policy, method.name)),
        remake=partial(run_randomizing, method, engine) if seed is None else None,
    )


def describe_best(requirements: Sequence[OperatorRequirement], attempts: Sequence[Attempt]) -> str:
    """The value of every requirement that comes nearest to it, and the parameters that reach it."""
    lines = []
    for i, requirement in enumerate(requirements):
        sign = -1 if requirement.larger_is_safer else 1
        parameters, findings = min(attempts, key=lambda attempt: sign * attempt[1][i].reached)
        where = f" (with {parameters})" if parameters else ""
        lines.append(f"The best reachable for {findings[i].text} is {findings[i].reached_text}{where}.")
    return "\n".join(lines)


@dataclass(frozen=True)
class Records:
    """The records of a table one by one: their places, their codes, and their random numbers."""

    codes: Codes
    each: Placement
    rows: Int32Array
    draws: Draws

    @classmethod
    def of(cls, codes: Codes, keyed: KeyedHash) -> Records:
        """The records of counted cells."""
        whole = Placement.whole(codes.counts, np.zeros(len(codes.quasi), np.int32))
        each, _ = expand_placement(whole)
        return cls(codes, each, codes.quasi[codes.combination[each.cell]], Draws.for_records(codes, each, keyed))

    def randomize(self, operator: Operator, name: str) -> Int32Array:
        """The codes that the operator draws for every record, batch by batch, on all cores."""
        published = np.empty_like(self.rows)

        def draw(begin: int) -> None:
            batch = slice(begin, begin + BATCH)
            found = operator.randomize(self.rows[batch], self.draws.of(batch))
            _refuse_wrong_shape(found, self.rows[batch], name)
            published[batch] = found

        threads.each(draw, range(0, len(self.rows), BATCH), rows=len(self.rows))
        return published

    def compare(self, published: Int32Array, shares: Mapping[str, FloatArray]) -> Distributions:
        """The combinations before and after the changes."""
        _, order, start = sort_combinations([published[:, j] for j in range(published.shape[1])], len(published))
        return Distributions(
            shares,
            self.codes.quasi,
            self.codes.size,
            published[order[start]],
            np.diff(start, append=len(published)).astype(np.int64),
        )

    def attack(self, operator: Operator, published: Int32Array, distributions: Distributions) -> Attack:
        """What an adversary who knows all original combinations guesses, and how often the guess is right."""
        found = operator.infer(distributions.quasi, distributions.size, distributions.published)
        number = number_combinations([published[:, j] for j in range(published.shape[1])], len(published))
        weight = distributions.published_size / max(len(published), 1)
        return Attack(
            unchanged=float((published == self.rows).all(axis=1).mean()),
            mean_posterior=float((found.posterior * weight).sum()),
            largest_posterior=float(found.posterior.max(initial=0.0)),
            success=float((found.guess[number] == self.codes.combination[self.each.cell]).mean()),
            amplification=None if found.amplification is None else float(found.amplification.max(initial=1.0)),
        )

    def write(self, published: Int32Array, engine: Engine, method: RandomizingMethod) -> Engine:
        """Write every record with its published codes."""
        by_record = np.empty_like(published)
        by_record[self.each.group] = published
        columns = write_values(self.codes.attributes, by_record)
        released = _output(method).order_columns(engine.schema().names, columns)
        return engine.apply([build_plan(self.codes, self.each, released, method.policy)])


@dataclass(frozen=True)
class Draws:
    """The random numbers of records: keyed hashes of the secret, the cell and the ordinal of a record, and a number."""

    keyed: KeyedHash
    record: UInt64Array

    @classmethod
    def for_records(cls, codes: Codes, each: Placement, keyed: KeyedHash) -> Draws:
        """The random numbers of all records."""
        first = np.searchsorted(each.cell, each.cell)
        ordinal = (np.arange(len(each.cell)) - first).astype(np.uint64)
        return cls(keyed, keyed.mix(codes.cell_hash[each.cell], keyed.hash_words("ordinal", ordinal)))

    def of(self, batch: slice) -> Draws:
        """The random numbers of some records."""
        return Draws(self.keyed, self.record[batch])

    def __call__(self, number: int, at: Int64Array | None = None, /) -> FloatArray:
        """The random number of every record with this ``number``, or only of the records ``at`` some places."""
        record = self.record if at is None else self.record[at]
        return np.asarray((self.keyed.hash_words(f"draw {number}", record) >> np.uint64(11)) * UNIT, np.float64)


def _output(method: RandomizingMethod) -> Output:
    return Output(method.policy.unchanged_columns, method.policy.missing_texts)


def _count_published(codes: Codes, distributions: Distributions) -> Codes:
    """The published codes as a table; their labels can be ranges, if the policy rounds."""
    count = len(distributions.published)
    start, none = np.arange(count + 1), np.zeros((count, 0), np.int32)
    return Codes(codes.attributes, (), Counts(distributions.published, start, none, distributions.published_size))


def _refuse_wrong_shape(published: Int32Array, rows: Int32Array, name: str) -> None:
    """Raise an error for published codes that do not fit the records; an operator may come from another package."""
    if published.shape != rows.shape or published.dtype != rows.dtype:
        raise PolicyError(f"the operator of {name} returns codes of another shape or type than the records.")
