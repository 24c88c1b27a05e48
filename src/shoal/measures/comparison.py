"""Measures of any released table, from the original table, the released table and the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal import kernels
from shoal.arrays import Int64Array
from shoal.encoding.codes import Codes, encode_table
from shoal.encoding.published_table import PublishedTable, read_published_groups, read_published_table
from shoal.engines import AS_PUBLISHED, Engine, open_data
from shoal.errors import DataError
from shoal.formats.column_pairs import pair_names
from shoal.formats.labels import format_ends
from shoal.measures import THRESHOLD, Measures, PublishedColumn, PublishedGroups, SensitiveFigures, compute_measures
from shoal.measures.restoring import choose_restoring
from shoal.policy import Policy
from shoal.recoding import Columns
from shoal.recoding.grouping import Grouping
from shoal.requirements.groups import Groups


def measure_tables(original: Any, released: Any, policy: Policy, *, threshold: float = THRESHOLD) -> Measures:
    """All measures of a released table; records of the original that are not in the release count as suppressed."""
    before, after = open_data(original, policy.with_conventions()), open_data(released)
    policy.check_schema(before.schema())
    policy.check_schema(after.schema(), check=True)
    suppressed = before.schema().rows - after.schema().rows
    if suppressed < 0:
        raise DataError(
            f"the release has {-suppressed} records more than the original. Pass the original table first, then its release."
        )
    table = encode_table(before, policy.model_copy(update={"unit": None}))
    columns = [
        PublishedColumn(attribute, *_read_labels(after, attribute.name, policy), table.count_codes(j))
        for j, attribute in enumerate(table.attributes)
    ]
    published = read_published_table(after, policy, extra=list_measured_columns(after, policy))
    groups, figures = count_groups(published, policy)
    return compute_measures(columns, PublishedGroups(groups, suppressed, figures, threshold))


def list_measured_columns(released: Engine, policy: Policy) -> tuple[str, ...]:
    """The sensitive columns and the target, as far as the released table has them."""
    names = released.schema().names
    target = (policy.target,) if policy.target in names and policy.target not in policy.quasi else ()
    return tuple(n for n in (*policy.sensitive, *target) if n is not None and n in names)


def count_groups(
    table: PublishedTable, policy: Policy, sensitive: Sequence[str] = ()
) -> tuple[Groups, SensitiveFigures]:
    """The groups of a finished table with the values of ``sensitive``, and the figures of `list_measured_columns`.

    If the cells of all columns do not fit in memory, the figures are summed partition by partition.
    """
    names = list_measured_columns(table.engine, policy)
    every = tuple(dict.fromkeys((*sensitive, *names)))
    partitions = table.partitions(every)
    if partitions == 1:
        groups = table.groups(every)
        return groups, SensitiveFigures.of(groups, policy, names)
    figures = SensitiveFigures()
    for partition in range(partitions):
        figures = figures + SensitiveFigures.of(table.groups(every, partition), policy, names)
    return table.groups(sensitive), figures


def count_codes(codes: Codes, j: int) -> Int64Array:
    """The number of records of each code of an attribute."""
    records: Int64Array = kernels.order.sum_by_group(codes.quasi[:, j], codes.size, codes.attributes[j].size)
    return records


def _read_labels(released: Engine, name: str, policy: Policy) -> tuple[list[str | None], Int64Array]:
    """The labels of one attribute and the number of records of each; a lo and a hi column are read as ranges."""
    restore = choose_restoring(released, policy.quasi[name].kind)
    if name in released.schema().names:
        distinct = released.distinct(name, AS_PUBLISHED)
        tokens = policy.missing_texts  # other tools may publish these texts
        labels: list[str | None] = [None if str(v).strip() in tokens else restore(str(v)) for v in distinct.values]
        return [*labels, *([None] if distinct.missing else [])], np.append(
            distinct.counts, [distinct.missing] if distinct.missing else []
        ).astype(np.int64)
    low, high = pair_names(name)
    ends = Policy(quasi=dict.fromkeys((low, high), "categorical"), missing=policy.missing)
    groups, text = read_published_groups(released, ends)
    pairs = [(text[low][lo], text[high][hi]) for lo, hi in groups.quasi]
    labels = [format_ends(*(None if end is None else restore(end) for end in pair)) for pair in pairs]
    return labels, groups.size


def count_labels(codes: Codes, grouping: Grouping, columns: Columns) -> list[PublishedColumn]:
    """The labels of every attribute, with the number of records of each."""
    size = grouping.size()
    published = []
    for j, (_, column) in enumerate(columns):
        labels: list[str | None] = [*column.values, None]  # the last label has index -1
        records = np.bincount(column.index % len(labels), size, minlength=len(labels)).astype(np.int64)
        occurring = np.flatnonzero(records)
        published.append(
            PublishedColumn(
                codes.attributes[j], [labels[i] for i in occurring], records[occurring], count_codes(codes, j)
            )
        )
    return published
