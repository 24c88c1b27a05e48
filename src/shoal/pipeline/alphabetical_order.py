"""Balanced trees over texts: their branches are stretches of the alphabet, which have no common meaning."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.errors import list_some
from shoal.formats.labels import read_branch
from shoal.measures import PublishedColumn
from shoal.policy import Policy
from shoal.taxonomy import Balanced


def note_alphabetical_order(policy: Policy, columns: Sequence[PublishedColumn]) -> tuple[str, ...]:
    """A note on the columns whose released labels are stretches of the alphabet, such as ``{clerk … nurse}``."""
    found = [c.attribute.name for c in columns if _is_balanced_text(policy, c) and _has_branches(c)]
    if not found:
        return ()
    return (
        f"Balanced trees of texts publish stretches of the alphabet, such as {{clerk … nurse}} ({list_some(found)}). Their "
        "values are neighbours only by spelling, so the information kept says little about their use. A taxonomy that joins "
        "values of similar meaning is better.",
    )


def _is_balanced_text(policy: Policy, column: PublishedColumn) -> bool:
    builder = policy.quasi[column.attribute.name].tree_builder
    return isinstance(builder, Balanced) and not builder.numeric


def _has_branches(column: PublishedColumn) -> bool:
    return any(label is not None and read_branch(label) is not None for label in column.labels)
