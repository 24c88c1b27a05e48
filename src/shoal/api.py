"""The public functions: anonymize, check and measure a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.engines import open_data, parse_resources
from shoal.errors import DataError, PolicyError
from shoal.measures import THRESHOLD, Measures
from shoal.measures.comparison import measure_tables
from shoal.pipeline.incremental import release_new_records
from shoal.pipeline.method import make_method
from shoal.policy import Policy, parse_policy
from shoal.progress import Progress
from shoal.release import Release, audit_buckets, audit_table
from shoal.requirements import Certificate
from shoal.requirements.requirement import parse_share
from shoal.secret import load_seed
from shoal.tables import METHODS


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
    table: str | None = None,
    **parameters: Any,
) -> Release:
    """Anonymize a table so that the release meets the policy.

    Parameters
    ----------
    data : a pandas, polars or pyarrow frame; the path of a CSV, Parquet, Excel, SPSS, Stata or SAS file, or of a folder of CSV
        or Parquet files; a DuckDB connection, table or relation; an Ibis table, or the connection string of a PostgreSQL
        database without a password, such as ``"postgresql://steward@host/clinic"``. ``read`` of the policy says how a file
        is written
    policy : the roles of the columns and the requirements: a `Policy`, the path of a policy file, or a mapping. Default with
        ``recoding``: the policy file in the folder of the recoding
    method : short name of the method (default: ``mondrian``); `shoal methods` lists all methods with their parameters
    seed : secret seed of the release, a whole number (default: 128 bits from the operating system). Ties among records, the
        first records of clusters, the division of equal records among groups and all random draws depend on the seed. The
        same input and the same seed give the same release. A seed below 2^64 can be guessed; use one only in tests
    secret : owner folder of an earlier release whose secret seed is used again. An attacker who has two releases of the same
        records with different secret seeds can intersect their groups: publish only one of them, or reuse the secret seed. For
        anatomy and random, publish only one: another record or requirement gives other buckets or draws
    recoding : path of ``recoding.json`` in the owner folder of an earlier release. ``data`` holds records that are new since
        that release. They are recoded like the earlier records and tested together with all records released before; no
        method runs
    nearest : with ``recoding``: put records that no box contains, or that have new values, into the nearest box instead of
        suppressing them. The labels of that box are not true for these records
    progress : function that is called with the stage, the work done and the total work
    engine : ``memory``, ``duckdb`` or an engine of another package (default: chosen by the type of ``data``). Files are read
        into memory, except when a limit is set or when they are much larger than the memory
    memory : largest amount of memory to use, such as ``"4GB"``; data beyond this limit go to a temporary folder (duckdb)
    combinations : largest number of distinct combinations of values in memory at once. A table with more combinations is
        divided into partitions that are searched one after another (duckdb). Default: derived from ``memory``
    temp : folder for temporary files, which contain raw data while the function runs (default: the folder of the operating
        system)
    table : name of the table in the database of a connection string, such as ``"patients"`` or ``"clinic.patients"``
    parameters : parameters of the method, such as ``cut="median"``

    Returns
    -------
    A `Release`: the table, its certificate, its measures, and the recoding for later data.

    Guarantee
    ---------
    The published values were tested and every requirement holds; otherwise the function raises `RequirementNotMet`. Where a
    method generates synthetic records, the groups from which they were generated were tested, and the certificate states
    this. With ``recoding``, the groups of all releases together were tested: the new table alone may contain smaller groups.

    Examples
    --------
    >>> from shoal.datasets import hospital, hospital_policy
    >>> release = anonymize(hospital(500, seed=1), hospital_policy(k=5))
    >>> release.certificate.holds, release.measures["smallest"] >= 5
    (True, True)
    """
    resources = parse_resources(engine, memory, combinations, temp, table)
    if recoding is not None:
        _refuse_beside_recoding({"method": method, "seed": seed, "secret": secret, **parameters})
        given = None if policy is None else parse_policy(policy)
        return release_new_records(data, recoding, given, nearest=nearest, progress=progress, resources=resources)
    if nearest:
        raise PolicyError(
            "'nearest' can only be used with 'recoding', the recoding.json of an earlier release. Give 'recoding' too, or "
            "remove 'nearest'."
        )
    if policy is None:
        raise PolicyError(
            "'policy' is missing. Give a policy, or give 'recoding', the recoding.json of an earlier release."
        )
    if secret is not None:
        if seed is not None:
            raise PolicyError(
                "'seed' and 'secret' cannot be combined: both set the secret seed of the release. Give one of them."
            )
        seed = load_seed(secret)
    chosen = make_method(METHODS.find(method or "mondrian"), parse_policy(policy), parameters)
    opened = open_data(data, chosen.policy.with_conventions(resources))
    return chosen.release(opened, seed=seed, progress=progress)


def _refuse_beside_recoding(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that the recoding already determines."""
    refused = [name for name, value in arguments.items() if value is not None]
    if refused:
        raise PolicyError(
            f"{refused[0]!r} cannot be combined with 'recoding': new records are recoded in the same way as the earlier "
            f"records. Remove {refused[0]!r}."
        )


def check(
    data: Any,
    policy: Policy | str | Path | Mapping[str, Any],
    *,
    records: bool = False,
    sensitive: Any = None,
    engine: str | None = None,
    memory: str | int | None = None,
    temp: str | Path | None = None,
    table: str | None = None,
) -> Certificate:
    """Test the published values of any table against a policy. The table may come from any tool.

    Parameters
    ----------
    data : the table, in any form that `anonymize` accepts
    policy : its quasi-identifiers form the groups and its requirements are tested; taxonomies are not needed
    records : if the policy has a unit and the table does not have this column, accept a count of records. Otherwise the
        certificate does not hold, because people cannot be counted
    sensitive : the second table of a release in buckets (method anatomy), with the counts of the sensitive values by bucket.
        The requirements are then tested on the buckets
    engine, memory, temp, table : as for `anonymize`

    Returns
    -------
    A `Certificate`: whether every requirement holds, the worst group of each requirement, the columns that are identifiers
    or have no role, and the fingerprint of the rows. ``publishable`` is true if every requirement holds and the table has no
    identifiers.

    Notes
    -----
    A missing value is a value of its own: records without a value of a quasi-identifier are counted, in groups of their own.
    A table of synthetic records (method condensation) does not show the groups from which the records were generated, so its
    check fails.

    Examples
    --------
    >>> from shoal.datasets import hospital, hospital_policy
    >>> check(hospital(500, seed=1), hospital_policy(k=5)).smallest
    1
    """
    parsed = parse_policy(policy)
    resources = parsed.with_conventions(parse_resources(engine, memory, temp=temp))
    opened = open_data(data, replace(resources, table=table))
    if sensitive is not None:
        return audit_buckets(opened, open_data(sensitive, resources), parsed)
    return audit_table(opened, parsed, records=records)


def measure(
    original: Any,
    released: Any,
    policy: Policy | str | Path | Mapping[str, Any],
    *,
    threshold: float | str = THRESHOLD,
    engine: str | None = None,
    memory: str | int | None = None,
    temp: str | Path | None = None,
) -> Measures:
    """Measure information loss and re-identification risk from the original table, the released table and the policy.

    Parameters
    ----------
    original, released : the two tables, in any form that `anonymize` accepts. Their rows may be in different orders. Records
        of the original that are not in the release count as suppressed. The release may come from any tool
    policy : its quasi-identifiers and taxonomies determine how many values a label covers; ``read`` holds for the original
    threshold : re-identification risk, from 0 to 1 or as a text such as ``"20%"``, above which a record counts into
        ``risk_above``
    engine, memory, temp : as for `anonymize`

    Returns
    -------
    `Measures`: the figures by name, and ``.columns`` with the figures of each attribute.

    Notes
    -----
    Midpoints and synthetic values are read as exact values. Labels of other tools are read as well: ``[20, 40)``, ``20-40``,
    ``4790*``, ``{a, b}``, ``a,b`` (anonypy), labels of the taxonomy, ``*``. A label that is a value of the column is this
    value.

    Examples
    --------
    >>> from shoal.datasets import hospital, hospital_policy
    >>> patients, policy = hospital(500, seed=1), hospital_policy(k=5)
    >>> release = anonymize(patients, policy)
    >>> measure(patients, release.frame, policy)["ncp"] == release.measures["ncp"]
    True
    """
    risk = parse_share(threshold, "threshold")
    if not 0 <= risk <= 1:
        raise PolicyError(f"threshold is a risk from 0 to 1, not {threshold!r}. For 20 % write 0.2 or '20%'.")
    resources, parsed = parse_resources(engine, memory, temp=temp), parse_policy(policy)
    before, after = open_data(original, parsed.with_conventions(resources)), open_data(released, resources)
    try:
        return measure_tables(before, after, parsed, threshold=risk)
    except DataError as error:
        raise DataError(f"{error} Is the first table the original of the second table, with raw values?") from None
