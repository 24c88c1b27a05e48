"""Policies: roles of columns, taxonomies, and the requirements that a release must meet."""

from __future__ import annotations

from shoal.policy.columns import QuasiIdentifier
from shoal.policy.policy import READ_AS, Policy, policy_of
from shoal.policy.schema import policy_schema

__all__ = ["READ_AS", "Policy", "QuasiIdentifier", "policy_of", "policy_schema"]
