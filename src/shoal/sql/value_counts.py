"""The counts of sensitive values in groups as SQL tables: records, or different people; see `group_tests` for their columns."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.sql.columns import join_names

Tables = list[tuple[str, str]]  # names and texts of the tables under WITH


def count_values(cells: str, counts: str, group: Sequence[str], of: str | None, *, people: bool) -> Tables:
    """The tables up to the table ``counts``: from cells, by the columns of the groups and, if given, by a sensitive column.

    Different people do not add up. So one cell of a person in each group, of each value, and of the whole table is marked as
    the first, and only first cells are added. A record without a person is a person of its own.
    """
    names, keys = join_names(group), [*group, *([] if of is None else [of])]
    parts, first = f"{counts}_parts", f"{counts}_people"
    tables: Tables = [(first, _number_cells(cells, group, of))] if people else []
    conditions = ("person IS NOT NULL", "place_in_group = 1", "place_of_value = 1", "place_in_table = 1")
    members, size, of_value, of_table = (_count(condition) if people else "SUM(records)" for condition in conditions)
    source = first if people else cells
    if of is None:
        text = f"SELECT {names}, SUM(records) AS records, {size} AS group_size FROM {source} GROUP BY {names}"
        return [*tables, (counts, text)]
    text = (
        f"SELECT {names}, {of} AS s, SUM(records) AS value_records, {members} AS members, {size} AS size_part, "
        f"{of_value} AS value_part, {of_table} AS table_part FROM {source} GROUP BY {join_names(keys)}"
    )
    return [*tables, (parts, text), *_add_sums(parts, counts, names)]


def _number_cells(cells: str, group: Sequence[str], of: str | None) -> str:
    """The cells of every person, numbered in each group and, with a sensitive column, for each value and in the table."""
    keys = join_names([*group, *([] if of is None else [of])])
    partitions = {"place_in_group": join_names([*group, "person"])}
    if of is not None:
        partitions |= {"place_of_value": f"{of}, person", "place_in_table": "person"}
    places = [f"ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {keys}) AS {name}" for name, by in partitions.items()]
    return f"SELECT {keys}, person, SUM(records) AS records, {', '.join(places)} FROM {cells} GROUP BY {keys}, person"


def _count(condition: str) -> str:
    """The number of people whose cells meet a condition; every record without a person counts."""
    return f"SUM(CASE WHEN person IS NULL THEN records WHEN {condition} THEN 1 ELSE 0 END)"


def _add_sums(parts: str, counts: str, names: str) -> Tables:
    """The sums over the values of each group, over the groups of each value, and over the table."""
    total = f"{counts}_total"
    return [
        (total, f"SELECT SUM(value_part) AS table_members, SUM(table_part) AS table_size FROM {parts}"),
        (
            counts,
            f"SELECT {names}, s, value_records, members, value_part, table_members, table_size, "
            f"SUM(value_records) OVER (PARTITION BY {names}) AS records, "
            f"SUM(size_part) OVER (PARTITION BY {names}) AS group_size, "
            f"SUM(members) OVER (PARTITION BY {names}) AS group_members, "
            f"SUM(value_part) OVER (PARTITION BY s) AS value_members FROM {parts} CROSS JOIN {total}",
        ),
    ]
