"""The query that counts what `shoal.check` counts: for every requirement the groups and records that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.engines.sql import quote_text
from shoal.errors import PolicyError
from shoal.formats.column_pairs import published_names
from shoal.policy import Policy
from shoal.policy.policy import parse_policy
from shoal.requirements import Requirement, describe
from shoal.requirements.group_rules import GroupRule
from shoal.sql.columns import ColumnText, join_names, read_as_published, read_normalized
from shoal.sql.dialects import parse_dialect, quote_table, translate
from shoal.sql.group_tests import Counted, write_test
from shoal.sql.value_counts import Tables, count_values

TABLE = "release"
COLUMNS = ("number", "requirement", "groups", "failing_groups", "failing_records", "undecided_values", "holds")


def check_query(
    policy: Policy | str | Path | Mapping[str, Any],
    *,
    dialect: str,
    table: str = TABLE,
    columns: Sequence[str] | None = None,
    records: bool = False,
) -> str:
    """Return an SQL query that counts the violations of every requirement of a policy in a table of a database.

    Parameters
    ----------
    policy : the policy, the path of its file, or a mapping
    dialect : ``postgres``, ``snowflake``, ``bigquery``, ``spark`` or ``duckdb``
    table : the name of the published table, with its schema if needed, such as ``ward.release``
    columns : the columns of the table; needed if a quasi-identifier is published as two columns, ``age_lo`` and ``age_hi``
    records : count records although the policy has a unit, because the table does not have the column of the unit

    Guarantee
    ---------
    The query has a row for each requirement, and no values of the table: the numbers of groups, failing groups and failing
    records are those of `shoal.check`. ``undecided_values`` counts the values of records that SQL cannot read as Shoal reads
    them; ``holds`` is false if there are any, and for an empty table.
    """
    dialect, loaded = parse_dialect(dialect), parse_policy(policy)
    _refuse_policy(loaded, records=records)
    quoted = quote_table(table)
    source = _Source.of(loaded, columns, choose_prefix(table), records=records)
    tables = source.cells(quoted)
    counted: dict[
        tuple[tuple[str, ...], str | None], str
    ] = {}  # requirements on the same groups and values share counts
    rows = []
    for number, requirement in enumerate(loaded.require, start=1):
        columns_of = source.find_columns(requirement)
        if columns_of not in counted:
            counted[columns_of] = f"{source.prefix}_counts{len(counted) + 1}"
            tables += count_values(source.cell_table, counted[columns_of], *columns_of, people=source.counts_people)
        more, row = _count_violations(source, requirement, counted[columns_of], number)
        tables += more
        rows.append(row)
    listed = ", ".join(f"{name} AS ({text})" for name, text in tables)
    return translate(f"WITH {listed} {' UNION ALL '.join(rows)} ORDER BY number", dialect)


def choose_prefix(table: str) -> str:
    """A prefix for the tables of the query that is no prefix of the name of the counted table."""
    prefix = "shoal"
    while table.lower().startswith(prefix):
        prefix += "_"
    return prefix


def _refuse_policy(policy: Policy, *, records: bool) -> None:
    """Raise `PolicyError` for what SQL cannot count; the text names the requirement."""
    if not policy.require or not policy.quasi:
        absent = (
            "requirement; list one under 'require:'" if policy.quasi else "quasi-identifier; list one under 'quasi:'"
        )
        raise PolicyError(f"the policy has no {absent}.")
    for requirement in policy.require:
        if _list_rules(requirement) is None:
            raise PolicyError(
                f"{describe(requirement)} cannot be counted by an SQL query. Remove it from the policy of the query, and test "
                "it with `shoal check`."
            )
    if policy.knows_history and not records:
        raise PolicyError(
            f"{describe(policy.require[0])} cannot be counted by an SQL query for an attacker who knows the history of a "
            "person (unit: knows: history). Use `shoal check`, or set 'knows: record' in the policy of the query."
        )


def _list_rules(requirement: Requirement) -> tuple[GroupRule, ...] | None:
    rules = getattr(requirement, "group_rules", None)  # a requirement of another package may not have them
    return None if rules is None else rules()


@dataclass(frozen=True)
class _Source:
    """The columns of the table that are counted, with their short names in the query: q1, q2, …, s1, s2, … and person."""

    group: Mapping[str, tuple[str, ...]]  # short names by quasi-identifier
    sensitive: Mapping[str, str]
    readings: Mapping[str, ColumnText]  # by short name
    prefix: str  # of the tables of the query

    @classmethod
    def of(cls, policy: Policy, columns: Sequence[str] | None, prefix: str, *, records: bool) -> _Source:
        """The columns of a policy."""
        names = {q: (q,) if columns is None else published_names(q, columns) for q in policy.quasi}
        readings: dict[str, ColumnText] = {}
        group, sensitive = {}, {}
        for quasi, published in names.items():
            short = [f"q{len(readings) + i}" for i in range(1, len(published) + 1)]
            group[quasi] = tuple(short)
            readings |= {s: read_as_published(p) for s, p in zip(short, published, strict=True)}
        for i, column in enumerate(policy.tested_columns, start=1):
            sensitive[column] = f"s{i}"
            normal = column in policy.normalize
            readings[f"s{i}"] = read_normalized(column, policy.normalizer) if normal else read_as_published(column)
        if policy.unit_column is not None and not records:
            readings["person"] = read_normalized(policy.unit_column, policy.normalizer)
        return cls(group, sensitive, readings, prefix)

    @property
    def counts_people(self) -> bool:
        """Whether people are counted."""
        return "person" in self.readings

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The columns with texts that SQL may not be able to read."""
        return tuple(short for short, column in self.readings.items() if column.unknown is not None)

    @property
    def cell_table(self) -> str:
        """The name of the table of cells."""
        return f"{self.prefix}_cells"

    def find_columns(self, requirement: Requirement) -> tuple[tuple[str, ...], str | None]:
        """The short names of the columns that form the groups of a requirement, and of its sensitive column."""
        group = tuple(short for quasi in requirement.on or self.group for short in self.group[quasi])
        return group, None if requirement.of is None else self.sensitive[requirement.of]

    def cells(self, table: str) -> Tables:
        """The records with the values that are counted, and the cells: all different combinations with their records."""
        names = join_names(list(self.readings))
        listed = [f"{column.value} AS {short}" for short, column in self.readings.items()]
        listed += [f"CASE WHEN {self.readings[s].unknown} THEN 1 ELSE 0 END AS {_name_doubt(s)}" for s in self.doubtful]
        doubts = [f"SUM({_name_doubt(short)}) AS {_name_doubt(short)}" for short in self.doubtful]
        return [
            (f"{self.prefix}_source", f"SELECT {', '.join(listed)} FROM {table}"),
            (
                self.cell_table,
                f"SELECT {join_names([names, 'COUNT(*) AS records', *doubts])} FROM {self.prefix}_source GROUP BY {names}",
            ),
        ]


def _name_doubt(short: str) -> str:
    return f"{short}_unknown"


def _count_violations(source: _Source, requirement: Requirement, counts: str, number: int) -> tuple[Tables, str]:
    """The tables that a requirement needs beside its counts, and the query for its row of the result."""
    group, of = source.find_columns(requirement)
    own = f"{source.prefix}_r{number}"
    tests = [
        write_test(rule, Counted(counts, group, f"{own}_{i}"))
        for i, rule in enumerate(_list_rules(requirement) or (), start=1)
    ]
    tables = [table for test in tests for table in test.tables]
    failing = " UNION ALL ".join(test.failing for test in tests)
    if len(tests) > 1:
        names = join_names(group)
        tables.append((f"{own}_tests", failing))
        failing = f"SELECT {names}, MAX(records) AS records, MAX(fails) AS fails FROM {own}_tests GROUP BY {names}"
    tables.append((own, failing))
    doubts = [_name_doubt(short) for short in ("person", of) if short in source.doubtful]
    unknown = [f"SELECT SUM({doubt}) AS records FROM {source.cell_table}" for doubt in doubts]
    unknown += [f"SELECT SUM(value_records) AS records FROM {counts} WHERE {t.unknown}" for t in tests if t.unknown]
    undecided, decided = "0", ""
    if unknown:
        tables.append((f"{own}_unknown", " UNION ALL ".join(unknown)))
        undecided = f"(SELECT COALESCE(SUM(records), 0) FROM {own}_unknown)"
        decided = f" AND {undecided} = 0"
    row = (
        f"SELECT {number} AS number, {quote_text(describe(requirement))} AS requirement, COUNT(*) AS groups, "
        f"CAST(COALESCE(SUM(fails), 0) AS BIGINT) AS failing_groups, "
        f"CAST(COALESCE(SUM(fails * records), 0) AS BIGINT) AS failing_records, "
        f"CAST({undecided} AS BIGINT) AS undecided_values, "
        f"COUNT(*) > 0 AND COALESCE(SUM(fails), 0) = 0{decided} AS holds FROM {own}"
    )
    return tables, row
