"""Notes for the owner that several runs share."""

from __future__ import annotations

from shoal.policy import Policy


def note_suppress(policy: Policy, method: str) -> tuple[str, ...]:
    """A note for methods that suppress no records, if the policy allows it."""
    return (f"{method} suppresses no records, so 'suppress' of the policy has no effect.",) if policy.suppress else ()
