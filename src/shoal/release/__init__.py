"""Releases: the audit of a table, the certificate, public and owner folders, and the ledger of earlier releases."""

from __future__ import annotations

from shoal.release.release import Release, View, earlier_seed, examine, spread

__all__ = ["Release", "View", "earlier_seed", "examine", "spread"]
