"""The policy of a model: its target, and quasi-identifiers whose taxonomies recipients of the model can build again."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.errors import PolicyError, list_choices
from shoal.policy import Policy, QuasiIdentifier
from shoal.taxonomy import Balanced


def name_target(policy: Policy, columns: Sequence[str]) -> Policy:
    """The policy with the column that a model predicts as its target: its target, or its only sensitive column."""
    if policy.target is None and len(policy.sensitive) != 1:
        raise PolicyError(
            "the policy does not name the column that the model predicts. Add 'target:' with the name of this column; "
            f"{list_choices('', columns)}"
        )
    return set_target(policy, policy.target or policy.sensitive[0])


def set_target(policy: Policy, target: str) -> Policy:
    """The policy with this target, which is then no other sensitive column."""
    sensitive = tuple(name for name in policy.sensitive if name != target)
    keep = tuple(name for name in policy.keep if name != target)
    return policy.model_copy(update={"target": target, "sensitive": sensitive, "keep": keep})


def simplify_policy(policy: Policy) -> Policy:
    """The policy without taxonomies that were derived from the data, with a target that is not generalized.

    Recipients of a model cannot build such a taxonomy again, and it shows values of the data. Balanced numbers become numbers,
    other columns categories without a taxonomy. The classes of a model are categories, also if attackers know them.
    """
    quasi = {name: _simplify(column) for name, column in policy.quasi.items()}
    if policy.target in quasi:
        quasi[policy.target] = QuasiIdentifier(kind="categorical")
    return policy.model_copy(update={"quasi": quasi})


def _simplify(column: QuasiIdentifier) -> QuasiIdentifier:
    derived = column.taxonomy is not None and column.taxonomy.derived
    if derived or isinstance(column.tree_builder, Balanced):
        return QuasiIdentifier(kind=column.kind)
    return column


def unused_name(name: str, taken: Sequence[str]) -> str:
    """A name for a further column of a table."""
    while name in taken:
        name += "_"
    return name
