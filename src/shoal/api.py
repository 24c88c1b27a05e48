"""The functions that users call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.engines import open_data, resources_of
from shoal.errors import PolicyError
from shoal.measures import THRESHOLD, Measures
from shoal.measures.comparison import measure_tables
from shoal.pipeline.incremental import release_new_records
from shoal.pipeline.method import make_method
from shoal.policy import Policy, policy_of
from shoal.progress import Progress
from shoal.release import Release, audit_table
from shoal.requirements import Certificate
from shoal.secret import load_seed
from shoal.tables import find_method


def anonymize(
    data: Any,
    policy: Policy | str | Path | Mapping[str, Any] | None = None,
    *,
    method: str | None = None,
    seed: int | None = None,
    secret: str | Path | None = None,
    recoding: str | Path | None = None,
    nearest: bool = False,
    progress: Progress | None = None,
    engine: str | None = None,
    memory: str | int | None = None,
    combinations: int | None = None,
    temp: str | Path | None = None,
    **parameters: Any,
) -> Release:
    """Make a release of a table that meets the policy.

    Parameters
    ----------
    data : a pandas, polars or pyarrow frame; the path of a CSV or Parquet file, or of a folder of them; a DuckDB connection,
        table or relation
    policy : the roles of the columns and what must hold; a `Policy`, the path of a policy file, or a mapping. With
        ``recoding``, the one beside it unless given
    method : the short name of a method, ``mondrian`` unless said; `shoal methods` lists them with their parameters
    seed : the secret of the release, a whole number (default: 128 bits from the operating system). Ties among records, the
        first records of clusters, the division of equal records among groups and all random draws depend on it. The same
        input and the same seed give the same release. A seed below 2^64 can be guessed; give one only in tests
    secret : the owner's folder of an earlier release, whose secret is used again. Two releases of the same records that were
        made with different secrets can be intersected by whoever has both: publish only one of them, or reuse the secret
    recoding : the path of ``recoding.json`` in the owner's folder of an earlier release. Records that are new since then
        are recoded as those were, and tested together with all that was released before; no method is used
    nearest : with ``recoding``, put records that no box holds, or with values never seen, into the nearest box instead of
        leaving them out; its labels are not true of them
    progress : called with a stage, what is done and how much there is
    engine : ``memory`` or ``duckdb``; by what the data are unless said. Files are read into memory, unless a limit is set or
        they are much too large for it
    memory : at most so much may be used, as ``"4GB"``; what does not fit is put aside on disk (duckdb)
    combinations : at most so many distinct combinations of values are held at once; where there are more, the table is cut
        into parts that are searched one after another (duckdb); by ``memory`` unless said
    temp : a folder for what is put aside, which holds raw data while the work lasts; the system's unless said

    Returns
    -------
    A `Release`: the table, its certificate, its measures, and the recoding for later data.

    Guarantee
    ---------
    The release was tested from the outside, by what stands in it, and holds; otherwise `RequirementNotMet` is raised. Where a
    method draws records anew, the groups that they were drawn from were tested, and the certificate says so. With
    ``recoding``, the groups of all releases together were tested: the new table alone may hold smaller ones.

    Examples
    --------
    >>> from shoal.datasets import hospital, hospital_policy
    >>> release = anonymize(hospital(500, seed=1), hospital_policy(k=5))
    >>> release.certificate.holds, release.measures["smallest"] >= 5
    (True, True)
    """
    resources = resources_of(engine, memory, combinations, temp)
    if recoding is not None:
        _refuse_beside_recoding({"method": method, "seed": seed, "secret": secret, **parameters})
        given = None if policy is None else policy_of(policy)
        return release_new_records(open_data(data, resources), recoding, given, nearest=nearest, progress=progress)
    if nearest:
        raise PolicyError("'nearest' goes with 'recoding', the file of an earlier release")
    if policy is None:
        raise PolicyError(
            "a policy is needed; only with 'recoding', the file of an earlier release, is there one already"
        )
    if secret is not None:
        if seed is not None:
            raise PolicyError(
                "'seed' and 'secret' exclude each other: both name the secret of the release. Give one of them."
            )
        seed = load_seed(secret)
    chosen = make_method(find_method(method or "mondrian"), policy_of(policy), parameters)
    return chosen.release(open_data(data, resources), seed=seed, progress=progress)


def _refuse_beside_recoding(given: Mapping[str, Any]) -> None:
    """An error for what a recoding has settled already."""
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise PolicyError(
            f"{named[0]!r} cannot be combined with 'recoding': later records are recoded as the first were; leave it out"
        )


def check(
    data: Any,
    policy: Policy | str | Path | Mapping[str, Any],
    *,
    engine: str | None = None,
    memory: str | int | None = None,
    temp: str | Path | None = None,
) -> Certificate:
    """Test any table against a policy by what stands in it, whoever made it.

    Parameters
    ----------
    data : whatever `anonymize` takes
    policy : its quasi-identifiers form the groups, its requirements are tested; taxonomies are not needed
    engine, memory, temp : as for `anonymize`

    Returns
    -------
    A `Certificate`: whether every requirement holds, the worst group of each, the columns that are identifiers or have no
    role, and the fingerprint of the rows. ``publishable`` is true where every requirement holds and there are no identifiers.

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
    return audit_table(open_data(data, resources_of(engine, memory, temp=temp)), policy_of(policy))


def measure(
    original: Any,
    released: Any,
    policy: Policy | str | Path | Mapping[str, Any],
    *,
    threshold: float = THRESHOLD,
    engine: str | None = None,
    memory: str | int | None = None,
    temp: str | Path | None = None,
) -> Measures:
    """Measure a release from the two tables and the policy alone, whoever made it.

    Parameters
    ----------
    original, released : whatever `anonymize` takes; the rows need not stand in the same order, and records that the release
        lacks count as suppressed
    policy : its quasi-identifiers and their taxonomies say how much a label covers
    threshold : the risk above which a record counts into ``risk_above``
    engine, memory, temp : as for `anonymize`

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
    resources = resources_of(engine, memory, temp=temp)
    before, after = open_data(original, resources), open_data(released, resources)
    return measure_tables(before, after, policy_of(policy), threshold=threshold)
