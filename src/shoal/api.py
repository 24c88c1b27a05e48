"""The functions that users call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.measures import THRESHOLD, Measures
from shoal.measures.tables import measured
from shoal.method import Progress, make
from shoal.policy import Policy, policy_of
from shoal.release import Release, examine
from shoal.requirements import Certificate
from shoal.tables import find_method


def anonymize(
    data: Any,
    policy: Policy | str | Path | Mapping[str, Any],
    *,
    method: str = "mondrian",
    seed: int | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> Release:
    """Make a release of a table that meets the policy.

    Parameters
    ----------
    data : a pandas, polars or pyarrow frame, or the path of a CSV or Parquet file
    policy : the roles of the columns and what must hold; a `Policy`, the path of a policy file, or a mapping
    method : the short name of a method; `shoal methods` lists them with their parameters
    seed : for randomized methods; a secret, from the operating system unless given
    progress : called with a stage, what is done and how much there is

    Returns
    -------
    A `Release`: the table, its certificate, its measures, and the recoding for later data.

    Guarantee
    ---------
    The release was tested from the outside, by what stands in it, and holds; otherwise `RequirementNotMet` is raised. Where a
    method draws records anew, the groups that they were drawn from were tested, and the certificate says so.

    Examples
    --------
    >>> from shoal.datasets import hospital, hospital_policy
    >>> release = anonymize(hospital(500, seed=1), hospital_policy(k=5))
    >>> release.certificate.holds, release.measures["smallest"] >= 5
    (True, True)
    """
    return make(find_method(method), policy_of(policy), parameters).release(data, seed=seed, progress=progress)


def check(data: Any, policy: Policy | str | Path | Mapping[str, Any]) -> Certificate:
    """Test any table against a policy by what stands in it, whoever made it.

    Parameters
    ----------
    data : a pandas, polars or pyarrow frame, or the path of a CSV or Parquet file
    policy : its quasi-identifiers form the groups, its requirements are tested; taxonomies are not needed

    Returns
    -------
    A `Certificate`: whether every requirement holds, the worst group of each, and the fingerprint of the rows.

    Notes
    -----
    A missing value is a value of its own: records that lack a quasi-identifier are counted, in groups of their own. A table
    of records that were drawn anew, as condensation does, does not show the groups behind it and will not hold.

    Examples
    --------
    >>> from shoal.datasets import hospital, hospital_policy
    >>> check(hospital(500, seed=1), hospital_policy(k=5)).smallest
    1
    """
    return examine(data, policy_of(policy))


def measure(
    original: Any, released: Any, policy: Policy | str | Path | Mapping[str, Any], *, threshold: float = THRESHOLD
) -> Measures:
    """Measure a release from the two tables and the policy alone, whoever made it.

    Parameters
    ----------
    original, released : pandas, polars or pyarrow frames, or the paths of CSV or Parquet files; the rows need not stand in
        the same order, and records that the release lacks count as suppressed
    policy : its quasi-identifiers and their taxonomies say how much a label covers
    threshold : the risk above which a record counts into ``risk_above``

    Returns
    -------
    `Measures`: the figures by name, and ``.columns`` with those of each attribute.

    Notes
    -----
    A midpoint, or a value that was drawn anew, is read as the exact value that it looks like. Labels of other tools are read
    as well: ``[20, 40)``, ``20-40``, ``4790*``, ``{a, b}``, labels of the taxonomy, ``*``.

    Examples
    --------
    >>> from shoal.datasets import hospital, hospital_policy
    >>> patients, policy = hospital(500, seed=1), hospital_policy(k=5)
    >>> release = anonymize(patients, policy)
    >>> measure(patients, release.frame, policy)["ncp"] == release.measures["ncp"]
    True
    """
    return measured(original, released, policy_of(policy), threshold=threshold)
