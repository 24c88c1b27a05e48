"""Bucketed tables: the records with their quasi-identifiers and buckets, and the counts of the sensitive values by bucket."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from shoal.arrays import Int64Array
from shoal.encoding.published_table import PublishedTable, read_published_table
from shoal.engines import Conventions, Engine, Resources, open_data
from shoal.errors import DataError, PolicyError, explain_absent_column
from shoal.formats.bucket_columns import BUCKET, COUNT
from shoal.formats.numbers import EXACT, format_count, read_numbers
from shoal.policy import Policy
from shoal.release.artifact import SaveOptions, TableArtifact, WrittenArtifact
from shoal.release.ledger import Ledger
from shoal.requirements import Certificate, Requirement, certify, describe
from shoal.requirements.groups import Groups

SENSITIVE = "sensitive"  # the name of the file with the sensitive values


@dataclass(frozen=True)
class BucketedTables:
    """The two tables of a bucketed release."""

    records: Engine
    sensitive: Engine

    def fingerprint(self) -> str:
        """The digest of the rows of both tables."""
        both = f"{self.records.fingerprint()} {self.sensitive.fingerprint()}"
        return hashlib.sha256(both.encode()).hexdigest()

    def audit(self, policy: Policy, *, notes: tuple[str, ...] = ()) -> Certificate:
        """Count the sensitive values of every bucket, and test every requirement on them.

        Both tables must have the same buckets with the same numbers of records; otherwise they are no release.
        """
        of = find_bucketed_column(policy, "a release in buckets")
        names, others = self.records.schema().names, self.sensitive.schema().names
        policy.model_copy(update={"require": (), "sensitive": ()}).check_schema(
            self.records.schema(), check=True, requires=False
        )
        linked = [n for n in others if n in (*policy.quasi, *policy.hidden_columns)]
        groups, buckets = self._count_values(policy, of)
        self._compare_sizes(policy, dict(zip(buckets, groups.size.tolist(), strict=True)))
        return certify(
            groups,
            [_on_buckets(requirement) for requirement in policy.require],
            fingerprint=self.fingerprint(),
            label=lambda *_: None,
            identifiers=tuple(dict.fromkeys((*(n for n in names if n in (*policy.hidden_columns, of)), *linked))),
            unassigned=tuple(
                n for n in (*policy.find_unassigned(names), *others) if n not in (BUCKET, of, COUNT, *linked)
            ),
            evidence="buckets",
            notes=notes,
        )

    def _count_values(self, policy: Policy, of: str) -> tuple[Groups, list[str | None]]:
        """The buckets with the counts of their sensitive values, and the label of every bucket, from the second table."""
        table = _read(self.sensitive, policy, (of, COUNT))
        groups = table.groups((of, COUNT))
        counts = _parse_counts(table.labels[COUNT])
        values = replace(
            groups,
            sensitive=(of,),
            sensitive_codes=np.ascontiguousarray(groups.sensitive_codes[:, :1]),
            cell_size=groups.cell_size * counts[groups.sensitive_codes[:, 1]],
            domains=groups.domains[:1],
            labels=groups.labels[:1],
        )
        return values, _label_buckets(table, groups)

    def _compare_sizes(self, policy: Policy, counted: dict[str | None, int]) -> None:
        table = _read(self.records, policy, ())
        groups = table.groups(())
        sizes = dict(zip(_label_buckets(table, groups), groups.size.tolist(), strict=True))
        if sizes != counted:
            different = sorted(str(b) for b in sizes.keys() | counted.keys() if sizes.get(b) != counted.get(b))
            many = format_count(len(different), "bucket")
            raise DataError(
                f"the two tables do not belong together: they differ in the records of {many}, such as bucket "
                f"{different[0]}. Give the table of records and the table of sensitive values of one release."
            )


def find_bucketed_column(policy: Policy, by: str) -> str:
    """The sensitive column of a policy whose requirements can be tested on buckets; otherwise `PolicyError`.

    ``by`` is the subject of the error text.
    """
    if policy.unit is not None:
        raise PolicyError(
            f"{by} divides records, and the buckets of several records of a person reveal more than one bucket. Remove 'unit' "
            "from the policy if every person has one record, or use another method."
        )
    for requirement in policy.require:
        if requirement.tested_on == "operator":
            raise PolicyError(
                f"{by} cannot guarantee {describe(requirement)}, which is a requirement for randomizing methods. Require "
                "l-diversity or another limit on sensitive values."
            )
        if requirement.counts_records or requirement.of is None:
            raise PolicyError(
                f"{by} cannot guarantee {describe(requirement)}: the quasi-identifiers are published unchanged, so they show "
                "who is in the table. Require l-diversity or another limit on sensitive values, or use a method that groups "
                "records."
            )
    columns = tuple(dict.fromkeys((*policy.tested_columns, *policy.sensitive)))
    if columns and not policy.require:
        raise PolicyError(f"the policy has no requirement; require l-diversity of {columns[0]!r} under 'require:'.")
    if len(columns) != 1:
        listed = ", ".join(columns) or "none"
        raise PolicyError(
            f"{by} has one sensitive column, with a requirement on it; the policy has {listed}. Name one column under "
            "'sensitive', and require l-diversity of it."
        )
    if columns[0] in policy.quasi:
        raise PolicyError(
            f"{columns[0]!r} is a quasi-identifier, and quasi-identifiers are published unchanged. Remove it from the "
            "quasi-identifiers, or require l-diversity of a sensitive column."
        )
    return columns[0]


def audit_buckets(records: Any, sensitive: Any, policy: Policy) -> Certificate:
    """Test the two tables of a bucketed release against a policy, whichever program made them."""
    engines = (open_data(table, policy.with_conventions()) for table in (records, sensitive))
    return BucketedTables(*engines).audit(policy)


def _on_buckets(requirement: Requirement) -> Requirement:
    """The requirement on whole buckets: a person who is known by fewer attributes is in one of several buckets."""
    return requirement if requirement.on is None else replace(requirement, on=None)  # type: ignore[type-var]


def _read(engine: Engine, policy: Policy, columns: Sequence[str]) -> PublishedTable:
    names = engine.schema().names
    for column in (BUCKET, *columns):
        if column not in names:
            which = "sensitive values (sensitive=, --sensitive)" if columns else "records"
            remedy = (
                f"It is needed in the table of {which}. Give the two tables of a release in buckets, in this order."
            )
            raise DataError(explain_absent_column(column, (BUCKET, *columns), names, remedy))
    buckets = Policy(
        quasi={BUCKET: "categorical"}, sensitive=columns, normalize=[c for c in policy.normalize if c in columns]
    )
    return read_published_table(engine, buckets, extra=columns)


def _label_buckets(table: PublishedTable, groups: Groups) -> list[str | None]:
    labels = table.labels[BUCKET]
    return [labels[code] for code in groups.quasi[:, 0]]


def _parse_counts(labels: Sequence[str | None]) -> Int64Array:
    """The number of records of each label of the column of counts."""
    numbers = read_numbers([label or "" for label in labels])
    if numbers is None or not all(1 <= number < EXACT and float(number).is_integer() for number in numbers):
        raise DataError(
            f"column {COUNT!r} must hold whole numbers of at least 1: the records with each sensitive value."
        )
    return np.array(numbers, np.int64)


@dataclass(frozen=True, kw_only=True)
class BucketArtifact(TableArtifact):
    """Two tables: ``engine`` has the records, ``sensitive`` the counts of the sensitive values by bucket."""

    sensitive: Engine
    one_table: ClassVar[bool] = False

    @property
    def tables(self) -> BucketedTables:
        """Both tables."""
        return BucketedTables(self.engine, self.sensitive)

    def write(self, folder: Path, options: SaveOptions) -> WrittenArtifact:
        """Write ``table.csv`` and ``sensitive.csv``, or Parquet files."""
        table = super().write(folder, options)
        other = replace(self, engine=self.sensitive).write_as(folder, options, SENSITIVE)
        fingerprint = None
        if table.read is not None:
            like = Resources(conventions=table.read)
            both = (open_data(folder / file, like) for file in (table.file, other.file))
            fingerprint = BucketedTables(*both).fingerprint()
        digests = {name: digest for written in (table, other) for name, digest in written.digests().items()}
        notes = tuple(dict.fromkeys((*table.notes, *other.notes)))
        return WrittenArtifact(table.file, digests, notes, table.read, fingerprint)

    def reopen(self, path: Path, read: Conventions | None = None) -> BucketArtifact:
        """Open both written tables; ``path`` is that of the records."""
        other = path.with_name(f"{SENSITIVE}{path.suffix}")
        engines = [
            engine.reopen(at) if read is None else engine.reopen(at, read)
            for engine, at in ((self.engine, path), (self.sensitive, other))
        ]
        return replace(self, engine=engines[0], sensitive=engines[1])

    def fingerprint(self) -> str:
        """The digest of the rows of both tables."""
        return self.tables.fingerprint()

    def audit(self, policy: Policy, before: Certificate, prior: Ledger | None) -> tuple[Certificate, Ledger | None]:
        """Test the buckets of the tables; later releases cannot be counted together with them."""
        return self.tables.audit(policy, notes=before.notes), None

    def frame_sensitive(self) -> Any:
        """The counts of the sensitive values as the user's kind of frame."""
        return self.sensitive.frame()
