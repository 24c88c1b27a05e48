"""Policies: roles of columns, taxonomies, and the requirements that a release must meet."""

from __future__ import annotations

from shoal.policy.columns import QuasiIdentifier
from shoal.policy.policy import READ_AS, Policy, parse_policy
from shoal.policy.schema import policy_schema
from shoal.policy.unit import Unit

__all__ = ["READ_AS", "Policy", "QuasiIdentifier", "Unit", "parse_policy", "policy_schema"]
