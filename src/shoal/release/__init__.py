"""Releases: the audit of a table, public and owner folders, and the ledger of earlier releases."""

from __future__ import annotations

from shoal.release.artifact import Artifact, TableArtifact, WrittenArtifact
from shoal.release.audit import AuditedTable, audit_table, map_to_published_columns
from shoal.release.release import Release
from shoal.release.store import read_earlier_seed

__all__ = [
    "Artifact",
    "AuditedTable",
    "Release",
    "TableArtifact",
    "WrittenArtifact",
    "audit_table",
    "map_to_published_columns",
    "read_earlier_seed",
]
