"""The method that keeps more information than the default method, and its price, as a note for the owner.

The figures are measured: `python -m benchmarks.choose` prints ``ALTERNATIVES`` and writes docs/choose-method.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.errors import list_some
from shoal.policy import Policy
from shoal.requirements import Certificate

DEFAULT = "mondrian"
MEASURED_RECORDS = (442, 30_162)  # of the smallest and the largest measured table
LEAST_GROUPS = 4  # the measured tables have at least this number of records times k
LEAST_REDUCTION = 0.05
NOTE = (
    "{} with improve=True loses about {:.0%} less information (ncp), the median of six measured tables; ends='cut' is then not "
    "possible, so more later rows need nearest=True (docs/choose-method.md)."
)


CATEGORIES_METHOD = "agglomerative"
CATEGORIES_KEPT = 0.25  # of the information of a column
MANY_CATEGORIES = 20
CATEGORIES_NOTE = (
    "{} of {}: mondrian gains from a cut of categories without a taxonomy only if one side has a single value, so it cuts "
    "other columns first. Method '{}' often keeps much more of such columns (docs/choose-method.md). A taxonomy or "
    "'balanced: 4' also helps."
)


class Alternative(NamedTuple):
    """A method, and the median over the measured tables of the reduction of ncp, against the default method."""

    method: str  # with improve=True
    reduction: float


# by k: the method with the largest median reduction
ALTERNATIVES: Mapping[int, Alternative] = {
    2: Alternative("kmember", 0.41),
    5: Alternative("knn", 0.37),
    10: Alternative("knn", 0.34),
    25: Alternative("knn", 0.3),
    100: Alternative("agglomerative", 0.2),
}


def note_alternative(
    method: str, parameters: Mapping[str, Any], policy: Policy, certificate: Certificate, ncp: float
) -> tuple[str, ...]:
    """A note on a method that loses less information; empty for releases that are not similar to the measured ones.

    The measured releases are of the default method without ``improve``, without partitions and without a target, with
    requirements on the sizes of groups alone.
    """
    found = find_alternative(policy.least_group_size)
    similar = (
        method == DEFAULT
        and not parameters.get("improve")
        and parameters.get("cut") != "target"
        and parameters.get("write") == "label"
        and parameters.get("objective") == "ncp"
        and policy.suppress == 0
        and ncp > 0
        and certificate.records >= LEAST_GROUPS * policy.least_group_size
        and certificate.parts <= 1
        and certificate.evidence == "table"
        and MEASURED_RECORDS[0] <= certificate.records <= MEASURED_RECORDS[1]
        and all(requirement.size_only and not requirement.on for requirement in policy.require)
    )
    if found is None or found.reduction < LEAST_REDUCTION or not similar:
        return ()
    return (NOTE.format(found.method, found.reduction),)


def note_categories(
    method: str,
    parameters: Mapping[str, Any],
    policy: Policy,
    certificate: Certificate,
    columns: Mapping[str, Mapping[str, float]],
) -> tuple[str, ...]:
    """A note on categories of which the default method keeps little, although their values have k records on average.

    A value that has fewer than k records on average, such as a surname, is lost by every method.
    """
    if method != DEFAULT or parameters.get("improve") or parameters.get("write") != "label":
        return ()
    least = policy.least_group_size
    lost = [
        name
        for name, figures in columns.items()
        if _is_flat(policy, name)
        and 1 - figures["ncp"] < CATEGORIES_KEPT
        and MANY_CATEGORIES <= figures["distinct_original"] <= certificate.records / least
    ]
    if not lost:
        return ()
    kept = max(1 - columns[name]["ncp"] for name in lost)
    start = f"The release keeps {'' if len(lost) == 1 else 'at most '}{kept:.0%} of the information"
    named = f"{'column' if len(lost) == 1 else 'columns'} {list_some(lost)}"
    return (CATEGORIES_NOTE.format(start, named, CATEGORIES_METHOD),)


def _is_flat(policy: Policy, name: str) -> bool:
    """Whether a column has categories without a taxonomy."""
    rule = policy.quasi.get(name)
    return rule is not None and rule.kind == "categorical" and rule.taxonomy is None and rule.tree_builder is None


def find_alternative(k: int) -> Alternative | None:
    """The alternative for the largest measured k that is not above ``k``; None if there is none.

    >>> find_alternative(7) == find_alternative(5), find_alternative(1)
    (True, None)
    """
    measured = [at for at in ALTERNATIVES if at <= k]
    return ALTERNATIVES[max(measured)] if measured else None
