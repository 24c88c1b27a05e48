"""Random workloads of COUNT queries, as in section 7.2 of Yang and Qiao, "Anonymizing data by random anonymization"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shoal.engines import open_data
from shoal.errors import DataError, PolicyError
from shoal.formats.dates import format_date
from shoal.measures.conditions import Condition, Domain, Interval, Values
from shoal.measures.query_answers import answer_queries
from shoal.measures.query_tables import read_original
from shoal.measures.workloads import Query, Workload
from shoal.policy import Policy, parse_policy
from shoal.secret import parse_seed

USUAL = 5  # quasi-identifiers in a query
ATTEMPTS = 100  # how often a query with the answer 0 is drawn again
MANY = 1000  # of more different numbers or dates, a query takes neighbouring ones


def random_workload(
    original: Any,
    policy: Policy | str | Path | Mapping[str, Any],
    *,
    attributes: int | Iterable[int] | None = None,
    queries: int = 1000,
    seed: int = 0,
) -> Workload:
    """Draw COUNT queries at random.

    A query has a condition on the sensitive attribute, if the policy has one, and on some quasi-identifiers, which are chosen
    uniformly. A condition lists different values of the original column (a missing value is a value): their number is uniform
    from 1 to the number of all values, and the values are chosen uniformly. Of a column with more than 1,000 different numbers
    or dates, it takes neighbouring values. A query that no record of the original meets is drawn again.

    Parameters
    ----------
    original : the original table: a frame or the path of a file
    policy : the policy with the quasi-identifiers and the sensitive attributes; of several, every query has one. Without
        sensitive attributes, queries have conditions on quasi-identifiers only
    attributes : the number of quasi-identifiers in a query, or several numbers (default: 5, or all of fewer)
    queries : the number of queries for each number of attributes
    seed : the same seed gives the same workload; it is no secret

    Examples
    --------
    >>> table = {"age": [30, 31, 40, 41], "sex": ["F", "M", "F", "M"], "disease": ["flu", "flu", "HIV", "flu"]}
    >>> import pyarrow, shoal
    >>> policy = shoal.Policy(quasi={"age": "numeric", "sex": "categorical"}, sensitive=["disease"])
    >>> random_workload(pyarrow.table(table), policy, attributes=[1, 2], queries=3)
    Workload of 6 queries on sex, disease, age
    """
    policy = parse_policy(policy)
    numbers = _parse_attributes(attributes, len(policy.quasi))
    if isinstance(queries, bool) or not isinstance(queries, (int, np.integer)) or queries < 1:
        raise PolicyError(f"queries={queries!r} is not possible. Ask for a whole number of queries, at least 1.")
    seed = parse_seed(seed)
    engine = open_data(original, policy.with_conventions())
    policy.check_schema(engine.schema(), requires=False)
    source = read_original(engine, policy, (*policy.quasi, *policy.sensitive))
    tables = list(source.count())
    generator = np.random.default_rng(seed)
    drawn: list[Query] = []
    for number in numbers:
        chosen: list[Query] = []
        for _ in range(ATTEMPTS):
            wanted = [_draw_query(source.domains, policy, number, generator) for _ in range(queries - len(chosen))]
            answers = answer_queries(tables, wanted)
            chosen += [query for query, answer in zip(wanted, answers, strict=True) if answer > 0]
            if len(chosen) == queries:
                break
        else:
            raise DataError(
                f"after {ATTEMPTS} attempts, {queries - len(chosen)} of {queries} queries with {number} quasi-identifiers "
                "still have the answer 0. Use fewer attributes."
            )
        drawn += chosen
    return Workload(tuple(drawn))


def _parse_attributes(given: Any, most: int) -> list[int]:
    """The numbers of quasi-identifiers in a query."""
    if given is None:
        return [min(USUAL, most)]
    numbers = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
    if not numbers:
        raise PolicyError("attributes lists no number. Give the number of quasi-identifiers in a query.")
    wrong = [n for n in numbers if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 0 <= n <= most]
    if wrong:
        raise PolicyError(
            f"attributes={wrong[0]!r} is not possible: the policy has {most} quasi-identifiers. Use whole numbers from 0 "
            f"to {most}."
        )
    return [int(n) for n in numbers]


def _draw_query(domains: Mapping[str, Domain], policy: Policy, number: int, generator: np.random.Generator) -> Query:
    names = tuple(policy.quasi)
    chosen = np.sort(generator.choice(len(names), number, replace=False))
    columns = [names[j] for j in chosen]
    if policy.sensitive:
        columns.append(policy.sensitive[int(generator.integers(len(policy.sensitive)))])
    return Query({name: _draw_condition(domains[name], generator) for name in columns})


def _draw_condition(domain: Domain, generator: np.random.Generator) -> Condition:
    size = len(domain.values)
    if not size:
        raise DataError("the original table has no records, so that every query has the answer 0.")
    number = int(generator.integers(1, size, endpoint=True))
    if domain.kind != "text" and size > MANY:
        ordered = np.sort(domain.values[~domain.is_missing])
        first = int(generator.integers(0, max(len(ordered) - number, 0), endpoint=True))
        return Interval(*(_as_given(domain, ordered[i]) for i in (first, min(first + number, len(ordered)) - 1)))
    codes = np.sort(generator.choice(size, number, replace=False))
    return Values(tuple(_as_given(domain, domain.values[code]) for code in codes))


def _as_given(domain: Domain, value: Any) -> Any:
    """A value of a domain as a user would give it."""
    if domain.kind == "text":
        return value
    if np.isnan(value):
        return None
    if domain.kind == "date":
        return format_date(float(value))
    return int(value) if float(value).is_integer() else float(value)
