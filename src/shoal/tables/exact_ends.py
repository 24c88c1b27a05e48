"""A policy without rounded ends of ranges, for methods that publish exact values or exact boxes."""

from __future__ import annotations

from shoal.errors import PolicyError
from shoal.policy import Policy


def keep_exact_ends(policy: Policy, reason: str, remedy: str) -> Policy:
    """The policy without rounded ends of ranges; `PolicyError` with the reason and a remedy if it rounds a column itself."""
    rounded = {name: quasi for name, quasi in policy.quasi.items() if quasi.has_ends}
    given = [name for name, quasi in rounded.items() if quasi.round not in (None, "none")]
    if given:
        raise PolicyError(
            f"{reason}, and column {given[0]!r} has 'round'. Remove 'round' from the policy, or {remedy}."
        )
    exact = {name: quasi.model_copy(update={"round": "none"}) for name, quasi in rounded.items()}
    return policy.model_copy(update={"quasi": {**policy.quasi, **exact}})
