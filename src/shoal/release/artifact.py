"""Artifacts: what is released. A table now; a model or query answers are artifacts of other classes.

The store writes an artifact, opens its files again, and publishes them only if the audit of the opened artifact holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, get_args, runtime_checkable

from shoal.engines import Conventions, Engine, Format, Resources, TargetTable, WrittenTable, digest_file, open_data
from shoal.errors import PolicyError, list_choices
from shoal.policy import Policy
from shoal.release.audit import AuditedTable
from shoal.release.ledger import Ledger
from shoal.requirements import Certificate

FORMATS = get_args(Format)


@dataclass(frozen=True)
class SaveOptions:
    """The options of `Release.save` for the files of an artifact. An artifact reads only those that concern it.

    ``table`` is the name of the table in a database that replaces the file of the table, and ``range_types`` gives its ranges
    the range types of the database.
    """

    format: Format | None = None
    escape_formulas: bool = True
    like_input: bool = False
    table: str | None = None
    range_types: bool = False

    def __post_init__(self) -> None:
        if self.range_types and self.table is None:
            raise PolicyError(
                "range types (range_types=True, --range-types) exist only in a database. Name a table (table=, --out-table), "
                "or do not ask for range types."
            )
        if self.table is not None and (self.format is not None or self.like_input):
            given = "format" if self.format is not None else "like_input"
            raise PolicyError(
                f"{given!r} concerns the file of a table, but the table is written to the database table {self.table!r} "
                f"(table=, --out-table). Remove one of them."
            )
        if self.like_input and self.format == "parquet":
            raise PolicyError(
                "a table like the input (like_input=True, --like-input) is a CSV file. Remove the format 'parquet', or do not "
                "write the table like the input."
            )


@dataclass(frozen=True)
class WrittenArtifact:
    """The files of an artifact: the name of its file or folder, the digests for ``certificate.json``, notes for recipients.

    ``read`` says how a table is written, if it is written like the input. ``fingerprint`` is that of the table as recipients
    read it. ``table`` is a table in a database instead of a file; it appears when both folders do.
    """

    file: str
    sha256: str | dict[str, str]
    notes: tuple[str, ...] = ()
    read: Conventions | None = None
    fingerprint: str | None = None
    table: WrittenTable | None = None

    def statement(self) -> dict[str, Any]:
        """The place of the artifact, for ``certificate.json``."""
        if self.table is not None:
            return {"table": self.table.name}
        read = {} if self.read is None else {"read": self.read.to_plain()}
        return {"file": self.file, "sha256": self.sha256, **read}

    def digests(self) -> dict[str, str]:
        """The digest of every file, by its path in the public folder."""
        if self.table is not None:
            return {}
        if isinstance(self.sha256, str):
            return {self.file: self.sha256}
        return {f"{self.file}/{name}": digest for name, digest in self.sha256.items()}


class Artifact(Protocol):
    """What is released: it writes itself, is opened again from its files, has a fingerprint, and is audited."""

    def write(self, folder: Path, options: SaveOptions) -> WrittenArtifact:
        """Write the artifact to the public folder."""
        ...

    def reopen(self, path: Path) -> Artifact:
        """Open the artifact from the file or folder that `write` created."""
        ...

    def fingerprint(self) -> str:
        """A digest of the content, the same for every file format."""
        ...

    def audit(self, policy: Policy, before: Certificate, prior: Ledger | None) -> tuple[Certificate, Ledger | None]:
        """Test every requirement on this artifact; ``before`` is its certificate before it was written.

        Also return the groups that recipients can count, for the ledger of later releases: None if the artifact does not show
        them.
        """
        ...


@runtime_checkable
class DescribedArtifact(Artifact, Protocol):
    """An artifact that adds files for the owner, and sections to the report."""

    def owner_files(self, certificate: Certificate) -> dict[str, str]:
        """Further files for the owner folder, by name."""
        ...

    def sections(self, certificate: Certificate, *, owner: bool) -> str:
        """Further sections of the report, as HTML."""
        ...


@dataclass(frozen=True)
class TableArtifact:
    """A table in an engine.

    ``format`` is the default file format. ``audited`` has the groups of the table, if they are already counted.
    """

    engine: Engine
    format: Format
    audited: AuditedTable | None = field(default=None, repr=False)
    one_table: ClassVar[bool] = True  # whether a table of a database can hold all that is released

    def write(self, folder: Path, options: SaveOptions) -> WrittenArtifact:
        """Write ``table.csv`` or ``table.parquet``."""
        return self.write_as(folder, options, "table")

    def write_as(self, folder: Path, options: SaveOptions, name: str) -> WrittenArtifact:
        """Write a CSV or Parquet file with this name."""
        chosen = options.format or self.format
        if chosen not in FORMATS:
            raise PolicyError(f"unknown format {chosen!r}; {list_choices(str(chosen), FORMATS)}.")
        path, read, fingerprint = folder / f"{name}.{chosen}", None, None
        if options.like_input and chosen == "csv":
            escaped, read = self.engine.write_like_input(path, escape_formulas=options.escape_formulas)
            fingerprint = open_data(path, Resources(conventions=read)).fingerprint()
        else:
            escaped = self.engine.write(path, chosen, escape_formulas=options.escape_formulas)
        notes = (_note_escaped(escaped),) if escaped else ()
        return WrittenArtifact(path.name, _digest_files(path), notes, read, fingerprint)

    def write_to_database(self, target: TargetTable) -> WrittenArtifact:
        """Write a table in the database of the source instead of a file."""
        table = self.engine.write_table(target)
        return WrittenArtifact("", "", fingerprint=table.fingerprint, table=table)

    def reopen_table(self, table: WrittenTable) -> TableArtifact:
        """Open a table that `write_to_database` wrote; where people were counted, see `reopen`."""
        counted = self.audited is not None and self.audited.groups.person is not None
        return replace(self, engine=table.engine, audited=self.audited if counted else None)

    def reopen(self, path: Path, read: Conventions | None = None) -> TableArtifact:
        """Open the written table; its groups are not counted again if the bytes are those that were counted.

        ``read`` says how the table is written, if it is written like the input.

        Where people were counted, the groups of the counted table are those of the written table, because `audit` compares
        the fingerprints of both.
        """
        engine = self.engine.reopen(path) if read is None else self.engine.reopen(path, read)
        counted = self.audited is not None and self.audited.groups.person is not None
        return replace(self, engine=engine, audited=self.audited if engine is self.engine or counted else None)

    def fingerprint(self) -> str:
        """The digest of the rows as a multiset."""
        return self.engine.fingerprint()

    def audit(self, policy: Policy, before: Certificate, prior: Ledger | None) -> tuple[Certificate, Ledger | None]:
        """Count the groups of the table and test every requirement.

        A table that does not show its evidence was audited before it was written. Its fingerprint proves that the files have
        the same rows; recipients can count no groups in it.
        """
        if before.evidence not in ("table", "union", "people"):
            return replace(before, fingerprint=self.fingerprint()), None
        audited = self.audited or AuditedTable.of(self.engine, policy)
        certificate = audited.certificate(
            policy,
            suppressed=before.suppressed,
            partitions=before.parts,
            prior=prior,
            released=self.engine,
            evidence="table" if before.evidence == "union" else before.evidence,
        )
        certificate = replace(
            certificate,
            people_with_suppressed=before.people_with_suppressed,
            people_suppressed=before.people_suppressed,
        )
        ledger = audited.ledger(policy, certificate.fingerprint)
        return certificate, ledger.select_sensitive(policy.tested_columns)


def _note_escaped(cells: int) -> str:
    """The note for recipients of a CSV file with escaped formulas."""
    many = "1 cell begins" if cells == 1 else f"{cells:,} cells begin"
    return (
        f"In the CSV file {many} with an apostrophe that is not part of the value. The apostrophe prevents spreadsheet "
        "programs from running the value as a formula; Shoal removes it when it reads the file."
    )


def _digest_files(table: Path) -> str | dict[str, str]:
    """The digest of the bytes of a file; of a folder, the digest of each file."""
    if table.is_file():
        return digest_file(table)
    files = sorted(path for path in table.rglob("*") if path.is_file())
    return {str(path.relative_to(table)): digest_file(path) for path in files}
