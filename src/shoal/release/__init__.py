"""Releases: the audit of a table, public and owner folders, and the ledger of earlier releases."""

from __future__ import annotations

from shoal.release.audit import View, examine, spread
from shoal.release.release import Release
from shoal.release.store import earlier_seed

__all__ = ["Release", "View", "earlier_seed", "examine", "spread"]
