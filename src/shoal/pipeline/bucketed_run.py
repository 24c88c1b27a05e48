"""One run of a bucketing method: encode the table, divide its records into buckets, write both tables, audit, and measure.

The records are published with their quasi-identifiers and the number of their bucket; the sensitive values of every bucket are
counted in a second table. In the permuted form there is one table, with the sensitive values shuffled within the buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal import threads
from shoal.arrays import Int32Array, Int64Array
from shoal.encoding.codes import Codes
from shoal.engines import Engine, GroupColumn, open_data
from shoal.engines.keyed_hash import KeyedHash
from shoal.errors import RequirementNotMet
from shoal.formats.bucket_columns import BUCKET, COUNT
from shoal.formats.numbers import read_numbers
from shoal.measures import compute_measures
from shoal.pipeline.notes import note_suppress
from shoal.pipeline.publication import build_plan
from shoal.pipeline.unique_values import note_unique_values
from shoal.pipeline.whole_table import count_whole_table
from shoal.policy import Policy
from shoal.progress import Progress, ignore_progress, report_rows
from shoal.recoding import Columns, Output, Placement
from shoal.recoding.group_labels import write_values
from shoal.release import AuditedTable, BucketArtifact, BucketedTables, Release, TableArtifact
from shoal.secret import new_seed, parse_seed

if TYPE_CHECKING:
    from shoal.pipeline.method import BucketingMethod

PERMUTED = "the sensitive values are shuffled within the buckets, and the table does not show the buckets"
PRESENCE = "whoever knows the quasi-identifiers of a person learns whether the person is in the table"


def run_bucketing(
    method: BucketingMethod, data: Any, *, seed: int | None = None, progress: Progress | None = None
) -> Release:
    """Divide a table into buckets with a bucketing method; see `Method.release`."""
    method.check_parameters()
    policy, report = method.policy, progress or ignore_progress
    secret = new_seed() if seed is None else parse_seed(seed)
    engine = open_data(data, policy.with_conventions())
    schema = engine.schema()
    report_rows(report, schema.rows)
    policy.check_schema(schema)
    unique = note_unique_values(engine, policy.model_copy(update={"sensitive": ()}))
    others = tuple(name for name in policy.carried_columns if name != method.sensitive)
    keyed = KeyedHash.of(secret)
    encoded, codes = count_whole_table(engine, policy, method.name, carry=others, keyed=keyed, report=report)
    rng = np.random.default_rng(secret)
    cell, bucket = threads.run_search(lambda progress: method.decide(codes, rng=rng, progress=progress), report)
    report("writing", 0, 1)
    buckets = Buckets.of(codes, method.sensitive, cell, bucket, rng)
    values = type_values(engine, buckets.labels, method.sensitive)
    tables = BucketedTables(
        buckets.write_records(encoded, policy), buckets.write_values(encoded, method.sensitive, values)
    )
    released = tables.records
    if method.form == "permuted":
        released = buckets.write_permuted(encoded, method.sensitive, values, policy, rng)
    report("writing", 1, 1)
    certificate = tables.audit(policy, notes=(PRESENCE, *((PERMUTED,) if released is not tables.records else ())))
    if not certificate.holds:
        text = f"the buckets of {method.name} fail their test, so nothing was written:\n{certificate}"
        raise RequirementNotMet(text).with_certificate(certificate)
    shown = policy.model_copy(update={"require": (), "sensitive": ()})
    audited = AuditedTable.of(tables.records.without([BUCKET]), shown, measures_policy=shown)
    measures = compute_measures([], audited.for_measures(0, shown))
    measures |= {"reconstruction_error": buckets.measure_reconstruction_error()}
    if released is tables.records:
        artifact: TableArtifact = BucketArtifact(released, engine.format, sensitive=tables.sensitive)
    else:
        artifact = TableArtifact(released, engine.format)
        certificate = replace(certificate, fingerprint=artifact.fingerprint())
    return Release(
        policy,
        certificate,
        measures,
        None,
        method.name,
        method.parameters(),
        policy.list_dropped(schema.names),
        artifact,
        seed=secret,
        method_notes=(*engine.detected.notes, *method.notes(), *unique, *note_suppress(policy, method.name)),
        remake=partial(run_bucketing, method, engine) if seed is None else None,
    )


@dataclass(frozen=True)
class Buckets:
    """The buckets of all records: entry i has ``count[i]`` records of the cell ``cell[i]`` in the bucket ``bucket[i]``.

    Entries are sorted by cell. ``value`` is the code of the sensitive value of every entry. Buckets are numbered from 1, in an
    order that depends on the secret alone.
    """

    codes: Codes
    cell: Int64Array
    bucket: Int64Array
    count: Int64Array
    value: Int32Array
    labels: tuple[str | None, ...]

    @classmethod
    def of(
        cls, codes: Codes, sensitive: str, cell: Int64Array, bucket: Int32Array, rng: np.random.Generator
    ) -> Buckets:
        """Number the buckets at random, and count the records of every cell in every bucket."""
        number = rng.permutation(int(bucket.max(initial=-1)) + 1).astype(np.int64)
        width = len(number) + 1
        key, count = np.unique(cell.astype(np.int64) * width + number[bucket], return_counts=True)
        column = [s.name for s in codes.sensitive].index(sensitive)
        cells = key // width
        return cls(
            codes,
            cells,
            key % width + 1,
            count.astype(np.int64),
            codes.counts.sensitive[cells, column],
            codes.sensitive[column].labels,
        )

    def write_records(self, engine: Engine, policy: Policy) -> Engine:
        """The table of records: quasi-identifiers and unchanged columns, with the number of the bucket."""
        placement = Placement(self.cell, np.arange(len(self.cell), dtype=np.int32), self.count)
        return self._write(engine, placement, policy, (), (_number(BUCKET, self.bucket),))

    def write_permuted(
        self, engine: Engine, sensitive: str, values: NDArray[Any], policy: Policy, rng: np.random.Generator
    ) -> Engine:
        """One table, with the sensitive values shuffled within the buckets."""
        cell, bucket = np.repeat(self.cell, self.count), np.repeat(self.bucket, self.count)
        value = np.repeat(self.value, self.count)
        shuffled = np.empty_like(value)
        shuffled[np.argsort(bucket, kind="stable")] = value[np.lexsort((rng.random(len(bucket)), bucket))]
        records = np.arange(len(cell), dtype=np.int32)
        column = GroupColumn(sensitive, values, self._index_values(shuffled))
        return self._write(
            engine, Placement(cell, records, np.ones(len(cell), np.int64)), policy, ((sensitive, column),)
        )

    def write_values(self, engine: Engine, sensitive: str, values: NDArray[Any]) -> Engine:
        """The table of sensitive values: one row for every value of a bucket, with its number of records.

        An engine writes rows of its own table. So as many records as this table has rows are kept, and get its values. The rows
        are in the order of the buckets and values, and not in that of the records: the order of the records with equal
        quasi-identifiers could show their values.
        """
        bucket, value, count = self._values_of_buckets
        columns = (
            _number(BUCKET, bucket),
            GroupColumn(sensitive, values, self._index_values(value)),
            _number(COUNT, count),
        )
        size, rows = self.codes.counts.size, len(count)
        kept = np.minimum(size, np.maximum(rows - (np.cumsum(size) - size), 0))
        rest = np.flatnonzero(size > kept)
        cell = np.concatenate([np.repeat(np.arange(len(size)), kept), rest])
        group = np.concatenate([np.arange(rows), np.full(len(rest), -1)]).astype(np.int32)
        records = np.concatenate([np.ones(rows, np.int64), (size - kept)[rest]])
        order = np.argsort(cell, kind="stable")
        placement = Placement(cell[order], group[order], records[order])
        return engine.apply([replace(build_plan(self.codes, placement, columns, None), by_group=True)])

    def measure_reconstruction_error(self) -> float:
        """The mean over the records of the squared distance between the known and the true distribution of the value.

        A reader knows the shares of the values in the bucket of a record; the true distribution has one value (Xiao and Tao).
        """
        bucket, _, records = self._values_of_buckets
        size = np.bincount(bucket, records)[bucket]
        squares = np.bincount(bucket, (records / size) ** 2)[bucket]
        return float((records * (1 - 2 * records / size + squares)).sum() / records.sum())

    @cached_property
    def _values_of_buckets(self) -> tuple[Int64Array, Int32Array, Int64Array]:
        """Bucket, sensitive value and number of records, for all pairs that occur; sorted."""
        domain = len(self.labels)
        pair, index = np.unique(self.bucket * domain + self.value, return_inverse=True)
        records = np.bincount(index.reshape(-1), self.count, minlength=len(pair)).astype(np.int64)
        return pair // domain, (pair % domain).astype(np.int32), records

    def _write(
        self,
        engine: Engine,
        placement: Placement,
        policy: Policy,
        columns: Columns,
        more: tuple[GroupColumn, ...] = (),
    ) -> Engine:
        """Write the values of the quasi-identifiers and the unchanged columns of all entries, with further columns."""
        values = write_values(self.codes.attributes, self.codes.quasi[self.codes.combination[placement.cell]])
        sensitive = [s.name for s in self.codes.sensitive]
        output = Output(tuple(n for n in policy.unchanged_columns if n not in sensitive), policy.missing_texts)
        ordered = output.order_columns(engine.schema().names, (*values, *columns))
        return engine.apply([build_plan(self.codes, placement, (*ordered, *more), policy)])

    def _index_values(self, value: Int32Array) -> Int32Array:
        """The places of values in a column; -1 for a missing value, which has the last code."""
        missing = len(self.labels) - 1 if self.labels[-1] is None else len(self.labels)
        return np.where(value == missing, -1, value).astype(np.int32)


def _number(name: str, numbers: Int64Array) -> GroupColumn:
    """A column of whole numbers."""
    values, index = np.unique(numbers, return_inverse=True)
    return GroupColumn(name, values, index.reshape(-1).astype(np.int32))


def type_values(engine: Engine, labels: Sequence[str | None], column: str) -> NDArray[Any]:
    """The values of a column as numbers if the engine has numbers that stay exact, otherwise as texts."""
    known = [label for label in labels if label is not None]
    texts = np.array(known, dtype=object)
    numbers = read_numbers(known) if engine.summarize(column).example == "0" else None
    if not known or numbers is None:
        return texts
    found = np.array(numbers)
    if (found != np.rint(found)).any():
        return found
    exact = [parse_integer(label) for label in known]
    fits = all(number is not None and -(2**63) <= number < 2**63 for number in exact)
    return np.array(exact, np.int64) if fits else texts


def parse_integer(text: str) -> int | None:
    """The whole number of a text such as ``12`` or ``12.0``."""
    whole, _, rest = text.partition(".")
    try:
        return int(whole) if not rest.strip("0") else None
    except ValueError:
        return None
