"""Releases: the audit of a table, public and owner folders, and the ledger of earlier releases."""

from __future__ import annotations

from shoal.release.artifact import Artifact, TableArtifact, WrittenArtifact
from shoal.release.audit import AuditedTable, audit_table, map_to_published_columns
from shoal.release.buckets import BucketArtifact, BucketedTables, audit_buckets, find_bucketed_column
from shoal.release.release import Release
from shoal.release.store import read_earlier_seed

__all__ = [
    "Artifact",
    "AuditedTable",
    "BucketArtifact",
    "BucketedTables",
    "Release",
    "TableArtifact",
    "WrittenArtifact",
    "audit_buckets",
    "audit_table",
    "find_bucketed_column",
    "map_to_published_columns",
    "read_earlier_seed",
]
