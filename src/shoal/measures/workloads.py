"""Workloads of COUNT queries: ``SELECT COUNT(*) FROM t WHERE age IN (…) AND … AND disease IN (…)``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import DataError
from shoal.formats.numbers import format_count
from shoal.measures.conditions import Condition, quote_column, read_condition


@dataclass(frozen=True)
class Query:
    """A COUNT query: a condition for each of some columns, all of which a counted record meets.

    Parameters
    ----------
    conditions : by column, a value, a list of values, a ``range`` of numbers, or an `Interval`; None is a missing value. A
        value that does not occur in the column matches nothing

    >>> print(Query({"age": range(30, 40), "sex": "Male", "disease": ["flu", "HIV"]}))
    SELECT COUNT(*) FROM t WHERE age >= 30 AND age < 40 AND sex = 'Male' AND disease IN ('flu', 'HIV')
    """

    conditions: Mapping[str, Condition]

    def __post_init__(self) -> None:
        if not isinstance(self.conditions, Mapping):
            raise DataError(f"a query is a mapping from columns to values, not {self.conditions!r}.")
        wrong = [name for name in self.conditions if not isinstance(name, str)]
        if wrong:
            raise DataError(f"a query has the column {wrong[0]!r}. The names of columns are texts.")
        object.__setattr__(self, "conditions", {n: read_condition(n, given) for n, given in self.conditions.items()})

    def __str__(self) -> str:
        where = " AND ".join(condition.to_sql(quote_column(name)) for name, condition in self.conditions.items())
        return " WHERE ".join(filter(None, ["SELECT COUNT(*) FROM t", where]))


@dataclass(frozen=True)
class Workload:
    """COUNT queries whose answers are compared.

    Parameters
    ----------
    queries : `Query` objects, or mappings from columns to values

    >>> Workload([{"age": [30, 31], "disease": "flu"}, {"sex": "Male"}])
    Workload of 2 queries on age, disease, sex
    """

    queries: tuple[Query, ...]

    def __post_init__(self) -> None:
        queries = tuple(query if isinstance(query, Query) else Query(query) for query in self.queries)
        if not queries:
            raise DataError("the workload has no queries. Add at least one.")
        object.__setattr__(self, "queries", queries)

    @classmethod
    def parse(cls, text: str) -> Workload:
        """Read SQL text: one or more statements ``SELECT COUNT(*) FROM … WHERE …``, separated by semicolons.

        The conditions compare a column with values: ``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``, ``IN``, ``NOT IN``,
        ``BETWEEN``, ``IS NULL``. ``AND`` joins conditions, ``OR`` only conditions on one column. The name of the table has
        no meaning. A comparison with a missing value is not true, as in SQL. Needs sqlglot: ``pip install 'shoal[sql]'``.
        """
        from shoal.measures.sql_queries import parse_queries

        return cls(tuple(parse_queries(text)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that queries name, in the order of their first use."""
        return tuple(dict.fromkeys(name for query in self.queries for name in query.conditions))

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[Query]:
        return iter(self.queries)

    def __getitem__(self, number: int) -> Query:
        return self.queries[number]

    def __repr__(self) -> str:
        return f"Workload of {format_count(len(self), 'query', 'queries')} on {', '.join(self.columns) or 'no column'}"

    def __str__(self) -> str:
        return "".join(f"{query};\n" for query in self.queries)


def read_workload(given: Any) -> Workload:
    """Return the workload that a user gives: a `Workload`, SQL text, the path of a file with it, or queries or mappings."""
    if isinstance(given, Workload):
        return given
    if isinstance(given, Path):
        return Workload.parse(given.read_text(encoding="utf-8"))
    if isinstance(given, str):
        return Workload.parse(given)
    if isinstance(given, (Query, Mapping)):
        return Workload((given,))  # type: ignore[arg-type]  # a mapping becomes a query
    if not isinstance(given, Iterable):
        raise DataError(f"a workload is SQL text or a list of queries, not {given!r}. See shoal.measures.Workload.")
    return Workload(tuple(given))
